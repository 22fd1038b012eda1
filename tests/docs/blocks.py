"""Code blocks of Markdown pages, and the mark that says why one is not run."""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/**/*.md")])
_BLOCK = re.compile(
    r"^(?:[ ]*<!-- not run: (?P<why>[^>]+) -->\n)?"
    r"(?P<indent>[ ]*)```(?P<language>[^\n]*)\n(?P<text>.*?)^(?P=indent)```[ ]*$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Block:
    """One fenced block: what it is, where it is, and why it is not run, if it is not."""

    page: Path
    line: int
    language: str
    text: str
    why_not: str

    @property
    def where(self) -> str:
        """Page and line."""
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks(page: Path) -> list[Block]:
    """All fenced blocks of a page, in order."""
    content = page.read_text()
    return [
        Block(
            page,
            content.count("\n", 0, match.start("indent")) + 1,
            match["language"].strip(),
            textwrap.dedent(match["text"]),
            (match["why"] or "").strip(),
        )
        for match in _BLOCK.finditer(content)
    ]


def commands(block: Block) -> list[str]:
    """The commands of a console block: what follows the prompts, and lines that continue them."""
    found: list[str] = []
    for line in block.text.splitlines():
        if line.startswith("$ "):
            found.append(line[2:])
        elif found and _goes_on(found[-1]):
            found[-1] += f"\n{line}"
    return found


def _goes_on(command: str) -> bool:
    return command.endswith("\\") or command.count('"') % 2 == 1
