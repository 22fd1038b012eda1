from __future__ import annotations

from operator import itemgetter

from hypothesis import given
from hypothesis import strategies as st

from rebalancer.reporting.tables.text import Column, Cut, Lines, Style, middle_cut, write_table

COLUMNS = (
    Column("N", itemgetter(0), right=True),
    Column("POD", itemgetter(1), cut=Cut.MIDDLE),
    Column("NODE", itemgetter(2), cut=Cut.MIDDLE),
    Column("WHY", itemgetter(3), cut=Cut.END),
)


def written(*rows: tuple[str, ...], width: int = 80, no_headers: bool = False) -> list[str]:
    lines = Lines(Style(width=width, no_headers=no_headers))
    write_table(lines, COLUMNS, rows)
    return lines.text.plain.splitlines()


def test_rows_that_fit_are_not_changed() -> None:
    assert written(("1", "web-1", "node-1", "hot"), ("12", "web-22", "node-2", "")) == [
        "   N  POD     NODE    WHY",
        "   1  web-1   node-1  hot",
        "  12  web-22  node-2",
    ]


def test_sentences_give_way_before_names() -> None:
    line = written(("1", "shop/web-7d9f8b6c5d-x2x4z", "ip-10-0-12-34", "a reason " * 9))[1]

    assert "shop/web-7d9f8b6c5d-x2x4z ip-10-0-12-34 a reason" in line
    assert line.endswith("…")


def test_a_long_name_keeps_its_end_by_which_replicas_differ() -> None:
    line = written(("1", "shop/" + "w" * 90 + "-x2x4z", "node-1", ""))[1]

    assert line.startswith("  1 shop/")
    assert "-x2x4z node-1" in line


def test_without_headers_only_rows_are_written() -> None:
    assert written(("1", "web-1", "node-1", "hot"), no_headers=True) == ["  1  web-1  node-1  hot"]


names = st.text("abcdefgh-/.", min_size=1, max_size=120)


@given(st.lists(st.tuples(st.just("1"), names, names, names), min_size=1, max_size=5), st.integers(80, 200))
def test_every_row_is_one_line_that_fits_the_width(rows: list[tuple[str, ...]], width: int) -> None:
    lines = written(*rows, width=width)

    assert len(lines) == 1 + len(rows)
    assert max(map(len, lines)) <= width


@given(names, st.integers(4, 40))
def test_a_cut_name_is_as_long_as_allowed_and_keeps_both_ends(name: str, width: int) -> None:
    cut = middle_cut(name, width, "…")

    assert len(cut) == min(len(name), width)
    assert (cut[0], cut[-1]) == (name[0], name[-1])
