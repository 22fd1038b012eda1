from __future__ import annotations

import re
from operator import itemgetter

from hypothesis import given
from hypothesis import strategies as st

from rebalancer.reporting.tables.text import Column, Lines, Style, write_table

COLUMNS = (
    Column("N", itemgetter(0), right=True),
    Column("POD", itemgetter(1)),
    Column("NODE", itemgetter(2), node=True),
    Column("WHY", itemgetter(3), sentence=True),
)


def written(
    *rows: tuple[str, ...], width: int = 80, no_headers: bool = False, bounded: bool = True
) -> list[str]:
    lines = Lines(Style(width=width, no_headers=no_headers, bounded=bounded))
    write_table(lines, COLUMNS, rows)
    return lines.text.plain.splitlines()


def test_rows_that_fit_are_not_changed() -> None:
    assert written(("1", "web-1", "node-1", "hot"), ("12", "web-22", "node-2", "")) == [
        "   N  POD     NODE    WHY",
        "   1  web-1   node-1  hot",
        "  12  web-22  node-2",
    ]


def test_sentences_are_wrapped_within_their_column() -> None:
    assert written(("1", "shop/web", "node-1", "a reason of some words"), width=44)[1:] == [
        "  1 shop/web node-1 a reason of some words",
    ]
    assert written(("1", "shop/web", "node-1", "a reason of some more words"), width=44)[1:] == [
        "  1 shop/web node-1 a reason of some more",
        "                    words",
    ]


def test_sentences_stand_below_rows_that_leave_no_room_for_them() -> None:
    assert written(("1", "shop/" + "w" * 20, "ip-10-0-12-34", "a reason of some words"), width=50) == [
        "  N  POD                        NODE",
        "  1  shop/" + "w" * 20 + "  ip-10-0-12-34",
        "      a reason of some words",
    ]


def test_a_row_of_long_names_is_a_paragraph_without_titles() -> None:
    assert written(("1", "shop/" + "w" * 30, "ip-10-0-12-34", "hot"), width=50) == [
        "  1",
        "    pod shop/" + "w" * 30,
        "    node ip-10-0-12-34  hot",
    ]


def test_without_a_terminal_a_row_is_one_line() -> None:
    assert len(written(("1", "shop/" + "w" * 90, "n" * 63, "a reason " * 9), bounded=False)) == 2


def test_without_headers_only_rows_are_written() -> None:
    assert written(("1", "web-1", "node-1", "hot"), no_headers=True) == ["  1  web-1  node-1  hot"]


names = st.text("abcdefgh-/.", min_size=1, max_size=50)


@given(st.lists(st.tuples(st.just("1"), names, names, names), min_size=1, max_size=5), st.integers(60, 200))
def test_every_line_fits_the_width_and_holds_its_names_in_whole(
    rows: list[tuple[str, ...]], width: int
) -> None:
    lines = written(*rows, width=width)

    assert max(map(len, lines)) <= width
    for _, pod, node, _ in rows:
        assert any(pod in line for line in lines)
        assert any(node in line for line in lines)


@given(st.lists(st.tuples(st.just("1"), names, names, names), min_size=1, max_size=5), st.integers(60, 200))
def test_titles_are_one_line_or_none(rows: list[tuple[str, ...]], width: int) -> None:
    lines = written(*rows, width=width)

    titles = [line for line in lines if line.strip() and not re.search("[^A-Z ]", line)]
    in_row = ["N POD NODE", "N POD NODE WHY"]
    assert [" ".join(line.split()) in in_row for line in titles] == [True] * (lines[0] in titles)


clauses = st.lists(st.lists(st.text("abc", min_size=1, max_size=12), min_size=1, max_size=8), min_size=1)


@given(clauses, st.sampled_from(["", "Plan: ", "Outcome: "]), st.integers(60, 120))
def test_a_headline_is_one_line_of_whole_clauses(parts: list[list[str]], label: str, width: int) -> None:
    text = "; ".join(map(" ".join, parts))
    lines = Lines(Style(width=width))
    lines.headline(label, text)

    first, *rest = lines.text.plain.splitlines()
    assert len(first) <= width
    said = " ".join([first.removeprefix(label), *rest]).replace(";", "").split()
    assert said == text.replace(";", "").split()
    ends = [len(label) + len("; ".join(map(" ".join, parts[:number]))) for number in range(1, len(parts) + 1)]
    fitting = [end for end in ends if end <= width]
    if fitting and 3 * (fitting[-1] - len(label)) >= width:
        assert len(first) == fitting[-1], "it ends with the last clause that fits"


def test_a_message_stands_below_its_label_where_too_little_is_left_beside_it() -> None:
    def labelled(label: str) -> list[str]:
        lines = Lines(Style(width=40))
        lines.labelled(label, "pods of a budget")
        return lines.text.plain.splitlines()

    assert labelled("Limit" + " " * 15) == ["Limit               pods of a budget"]
    assert labelled("Limit" + " " * 16) == ["Limit", "    pods of a budget"]
