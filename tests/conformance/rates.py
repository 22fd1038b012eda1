"""The table of docs/conformance.md: how many decisions agree, by minor and family; written by the comparison itself."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "conformance.md"
BEGIN = "<!-- rates: written by `make conformance` -->"
END = "<!-- end of rates -->"

# By family: decisions compared, decisions equal.
Rates = dict[str, tuple[int, int]]


def write_table(minor: str, rates: Rates, seed: int, cases: int, page: Path = PAGE) -> None:
    """Put this minor's column into the page's table."""
    text = page.read_text()
    before, rest = text.split(BEGIN)
    old, after = rest.split(END)
    table = parse_table(old)
    compared, equal = (sum(rate[index] for rate in rates.values()) for index in (0, 1))
    table[minor] = {family: f"{right}/{of}" for family, (of, right) in rates.items()}
    table[minor] |= {"all": f"{equal}/{compared}", "seed, cases a family": f"{seed}, {cases}"}
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
    families.sort(key=lambda family: (family.startswith("seed"), family == "all"))
    lines = [["family", *minors], ["---", *["--:"] * len(minors)]]
    lines += [[family, *[table[minor].get(family, "") for minor in minors]] for family in families]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
