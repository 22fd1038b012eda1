"""Pages lead to each other: no dead link, and the README leads to every page in two steps."""

from __future__ import annotations

import re
from pathlib import Path

from tests.rows import rows

ROOT = Path(__file__).parents[3]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
README = ROOT / "README.md"


def relative_links(page: Path) -> list[str]:
    links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text())
    return [link for link in links if "://" not in link]


@rows("page", PAGES)
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    assert [link for link in relative_links(page) if not (page.parent / link).exists()] == []


def test_the_readme_leads_to_every_page_itself_or_by_the_list_of_all_pages() -> None:
    lists = README, ROOT / "docs" / "index.md"
    linked = {(page.parent / link).resolve() for page in lists for link in relative_links(page)}

    assert [page for page in PAGES if page != README and page.resolve() not in linked] == []
