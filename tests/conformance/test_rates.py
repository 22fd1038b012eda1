"""The table of agreement is written by the comparison: one minor's column at a time, the others stay."""

from __future__ import annotations

from pathlib import Path

from tests.conformance.rates import BEGIN, END, PAGE, parse_table, write_table


def _page(folder: Path) -> Path:
    page = folder / "page.md"
    page.write_text(f"before\n{BEGIN}\n{END}\nafter\n")
    return page


def test_a_minor_replaces_its_own_column_only(tmp_path: Path) -> None:
    page = _page(tmp_path)
    write_table("1.35", {"taints": (10, 9)}, 1, 5, page)
    write_table("1.4", {"taints": (10, 10), "ports": (3, 3)}, 2, 5, page)
    write_table("1.35", {"taints": (20, 20)}, 3, 10, page)
    text = page.read_text()
    table = parse_table(text)
    assert list(table) == ["1.4", "1.35"]
    assert table["1.35"] == {"taints": "20/20", "all": "20/20", "seed × cases a family": "3 × 10"}
    assert table["1.4"]["ports"] == "3/3"
    assert text.startswith("before\n")
    assert text.endswith("after\n")


def test_another_seed_of_a_minor_can_be_counted_beside_the_first(tmp_path: Path) -> None:
    page = _page(tmp_path)
    write_table("1.35", {"taints": (10, 9), "ports": (2, 2)}, 1, 5, page)
    write_table("1.35", {"taints": (20, 20), "claims": (1, 1)}, 3, 10, page, add=True)
    assert parse_table(page.read_text())["1.35"] == {
        "taints": "29/30",
        "ports": "2/2",
        "claims": "1/1",
        "all": "32/33",
        "seed × cases a family": "1 × 5, 3 × 10",
    }


def test_the_page_in_the_repository_has_a_place_for_it() -> None:
    text = PAGE.read_text()
    assert text.count(BEGIN) == text.count(END) == 1
