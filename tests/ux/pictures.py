"""``make pictures``: terminals and the report, light and dark, narrow and wide, to be looked at.

The pictures of the README are written to docs/pictures, where a test compares them. All others go to
build/pictures, as PNG too where a Chromium is found.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from rebalancer.reporting.html.pages import html_report
from tests.unit.reporting.builders import a_large_plan
from tests.ux.browser import Browser, find_browser
from tests.ux.moving import moving_picture
from tests.ux.terminal import EXAMPLE, ROOT, THEMES, picture, printed

README = ROOT / "docs" / "pictures"
BUILD = ROOT / "build" / "pictures"
README_COMMAND = ("plan", *EXAMPLE)
COMMANDS = {
    "plan": ("plan",),
    "nodes": ("nodes",),
    "explain-pod": ("explain", "pod/shop/api-7d9f-03"),
    "explain-node": ("explain", "node/node-2"),
}
PAGES = {"nodes-page": ("nodes",), "simulation-page": ("simulate", "--cycles", "6", "--noise", "10%")}
WIDTHS = (80, 160)


def readme_pictures() -> Iterator[tuple[Path, str]]:
    """The pictures that the README shows, by the file they are in."""
    output = printed(README_COMMAND, 80)
    for theme in THEMES:
        yield README / f"plan-{theme}.svg", picture("rebalancer plan --policy policy.yaml", output, 80, theme)
        yield README / f"moves-{theme}.svg", moving_picture(theme)


def pictures() -> Iterator[tuple[str, str]]:
    """All pictures of terminals, by name."""
    for name, words in COMMANDS.items():
        for columns in WIDTHS:
            wide = ("-o", "wide") if columns > 120 and name in ("plan", "nodes") else ()
            output = printed((*words, *wide, *EXAMPLE), columns)
            for theme in THEMES:
                command = " ".join(("rebalancer", *words, *wide))
                yield f"{name}-{columns}-{theme}", picture(command, output, columns, theme)


def main() -> int:
    """Write everything; says where."""
    for path, svg in readme_pictures():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(svg)
        sys.stdout.write(f"{path.relative_to(ROOT)}\n")
    shutil.rmtree(BUILD, ignore_errors=True)
    BUILD.mkdir(parents=True)
    program = find_browser()
    for name, svg in pictures():
        (BUILD / f"{name}.svg").write_text(svg)
    report = BUILD / "report.html"
    report.write_text(printed(("plan", *EXAMPLE, "-o", "html"), 80))
    large = BUILD / "large-report.html"
    large.write_text(html_report(a_large_plan(), "kind: RebalancePolicy\n", {}))
    for name, words in PAGES.items():
        (BUILD / f"{name}.html").write_text(printed((*words, *EXAMPLE, "-o", "html"), 80))
    if program is None:
        sys.stdout.write(f"{BUILD.relative_to(ROOT)}: SVG only, for no Chromium was found\n")
        return 0
    for theme in THEMES:
        with Browser(program, dark=theme == "dark") as browser:
            for path in sorted(BUILD.glob(f"*-{theme}.svg")):
                browser.picture(path, path.with_suffix(".png"), wide="-160-" in path.name)
            for page in sorted(BUILD.glob("*.html")):
                for columns in WIDTHS:
                    target = BUILD / f"{page.stem}-{columns}-{theme}.png"
                    browser.picture(page, target, wide=columns > 120)
    sys.stdout.write(f"{BUILD.relative_to(ROOT)}: {len(list(BUILD.glob('*.png')))} pictures\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
