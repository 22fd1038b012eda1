"""Markdown shows what a table shows, and nothing in a name means anything to a renderer."""

from __future__ import annotations

import re

from msgspec.structs import replace

from rebalancer.reporting.tables.plan import plan_table
from rebalancer.reporting.tables.text import Lines, Style, escaped
from tests.rows import rows
from tests.unit.reporting.builders import a_move, a_plan

MARKDOWN = Style(width=120, markdown=True)


def test_a_plan_is_headings_tables_and_blocks_of_code() -> None:
    shown = plan_table(a_plan(), MARKDOWN).plain

    assert shown.startswith("## Plan: 1 of 2 hot nodes no longer hot, 1 stays hot; 2 pods restart")
    assert "### Moves" in shown
    assert re.search(r"^\| WAVE \| POD \| FROM \|.*\n\| ---: \| --- \| --- \|", shown, re.MULTILINE)
    assert shown.count("```") % 2 == 0


@rows("name", ["a|b", "<img src=x onerror=y>", "`x`", "@team", "[a](http://b)", "# x", "a\\|b"])
def test_a_hostile_name_stays_text(name: str) -> None:
    move = replace(a_move(), from_node=name)
    shown = plan_table(a_plan(moves=(move,)), MARKDOWN).plain
    (row,) = [line for line in shown.splitlines() if line.startswith("| 1 |")]

    assert len(re.findall(r"(?<!\\)(?:\\\\)*\|", row)) == 9, "the row has its eight cells"
    assert "<img" not in row
    assert not re.search(r"@\w", escaped(name))
    assert not re.search(r"(?<!\\)\]\(", escaped(name))


def test_a_long_headline_is_one_heading() -> None:
    lines = Lines(MARKDOWN)
    lines.message(f"nothing is moved: {'a long reason ' * 20}", 0, "bold")

    assert lines.text.plain.splitlines()[0] == f"## nothing is moved: {'a long reason ' * 20}".rstrip()


def test_a_line_of_a_block_cannot_end_it() -> None:
    lines = Lines(MARKDOWN)
    lines.add("headline")
    lines.add("```")
    lines.add("<script>")

    assert lines.text.plain == "## headline\n\n```text\n'''\n<script>\n```\n"


@rows("style", [MARKDOWN, Style(width=120)])
@rows("nothing", ["", " "])
def test_an_empty_message_adds_nothing(style: Style, nothing: str) -> None:
    lines = Lines(style)
    lines.add("headline")
    before = lines.text.plain
    lines.message(nothing, 2)
    lines.message(nothing, 0, "dim")
    lines.labelled("label  ", nothing)

    assert lines.text.plain == before


def test_no_item_of_a_plan_is_without_words() -> None:
    shown = plan_table(a_plan(), MARKDOWN).plain

    assert not re.search(r"^\s*\*\s*$", shown, re.MULTILINE)
