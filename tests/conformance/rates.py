"""The table of tests/conformance/RESULTS.md: how many decisions agree, by minor and family."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).parent / "RESULTS.md"
BEGIN = "<!-- rates: written by `make conformance` -->"
END = "<!-- end of rates -->"

# By family: decisions compared, decisions equal.
Rates = dict[str, tuple[int, int]]


_ALL, _SEEDS = "all", "seed × cases a family"


def write_table(
    minor: str, rates: Rates, seed: int, cases: int, page: Path = PAGE, *, add: bool = False
) -> None:
    """Put this minor's column into the page's table; ``add`` counts it beside what is there already."""
    text = page.read_text()
    before, rest = text.split(BEGIN)
    old, after = rest.split(END)
    table = parse_table(old)
    known = table.get(minor, {}) if add else {}
    column: dict[str, str] = {}
    for family in dict.fromkeys((*(set(known) - {_ALL, _SEEDS}), *rates)):
        compared, equal = rates.get(family, (0, 0))
        right, _, of = known.get(family, "0/0").partition("/")
        column[family] = f"{int(right) + equal}/{int(of) + compared}"
    sums = [sum(int(cell.split("/")[part]) for cell in column.values()) for part in (0, 1)]
    seeds = ", ".join(filter(None, (known.get(_SEEDS, ""), f"{seed} × {cases}")))
    table[minor] = column | {_ALL: f"{sums[0]}/{sums[1]}", _SEEDS: seeds}
    page.write_text(f"{before}{BEGIN}\n{format_table(table)}{END}{after}")


def parse_table(text: str) -> dict[str, dict[str, str]]:
    """Minor → family → what the table says."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.split("\n") if "|" in line]
    if not rows:
        return {}
    minors = rows[0][1:]
    return {
        minor: {row[0]: row[column] for row in rows[2:] if row[column]}
        for column, minor in enumerate(minors, start=1)
    }


def format_table(table: dict[str, dict[str, str]]) -> str:
    """The table in Markdown, minors in order of their number."""
    minors = sorted(table, key=lambda minor: int(re.sub(r"\D", "", minor)))
    families = list(dict.fromkeys(family for minor in minors for family in table[minor]))
    families.sort(key=lambda family: (family == _SEEDS, family == _ALL))
    lines = [["family", *minors], ["---", *["--:"] * len(minors)]]
    lines += [[family, *[table[minor].get(family, "") for minor in minors]] for family in families]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
