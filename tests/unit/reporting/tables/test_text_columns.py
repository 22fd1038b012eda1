from __future__ import annotations

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


def test_a_row_of_long_names_takes_several_lines() -> None:
    assert written(("1", "shop/" + "w" * 30, "ip-10-0-12-34", "hot"), width=50)[2:] == [
        "  1  shop/" + "w" * 30,
        "       ip-10-0-12-34  hot",
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


def test_a_message_stands_below_its_label_where_too_little_is_left_beside_it() -> None:
    def labelled(label: str) -> list[str]:
        lines = Lines(Style(width=40))
        lines.labelled(label, "pods of a budget")
        return lines.text.plain.splitlines()

    assert labelled("Limit" + " " * 15) == ["Limit               pods of a budget"]
    assert labelled("Limit" + " " * 16) == ["Limit", "    pods of a budget"]
