"""The pictures of the README show what the program prints today, in colours for light and for dark."""

from __future__ import annotations

import re

import pytest
from rich.color import Color

from rebalancer.reporting.console import COLOURS
from tests.rows import rows
from tests.ux.pictures import readme_pictures
from tests.ux.terminal import ROOT

PAGE = ROOT / "rebalancer" / "reporting" / "html" / "page.html.jinja"


def test_the_pictures_of_the_readme_are_what_the_program_prints_and_ask_for_nothing() -> None:
    readme = (ROOT / "README.md").read_text()
    printed = dict(readme_pictures())

    for path, svg in printed.items():
        name = path.relative_to(ROOT)
        assert str(name) in readme
        assert path.read_text() == svg, f"{name} is not what the program prints: make pictures"

    shown = sorted((ROOT / "docs" / "pictures").glob("*.svg"))
    assert printed.keys() < set(shown)
    for path in shown:
        svg = path.read_text()
        assert set(re.findall(r"https?://[^\"' )]+", svg)) == {"http://www.w3.org/2000/svg"}, path
        assert "<script" not in svg


@rows("name", COLOURS)
@rows("background", [(255, 255, 255), (13, 17, 23), (0, 0, 0)])
def test_every_colour_can_be_read_on_light_and_on_dark(name: str, background: tuple[int, int, int]) -> None:
    colour = Color.parse(COLOURS[name]).get_truecolor()

    assert _contrast(colour, background) >= 3.8


@rows("name", ["excess", "architecture", "analysis-1"])
@rows("background", ["#ffffff", "#0d1117"])
def test_a_drawing_without_a_background_of_its_own_can_be_read_on_light_and_on_dark(
    name: str, background: str
) -> None:
    style = _between((ROOT / "docs" / "pictures" / f"{name}.svg").read_text(), "<style>", "</style>")
    for rule, colour in re.findall(r"([^{}]+){[^}]*?(?:fill|stroke): ?(#[0-9a-f]{6})\b", style):
        least = 3.8 if rule.strip() == "text" else 3.0  # as WCAG asks of what is no text
        assert _contrast(_rgb(colour), _rgb(background)) >= least, rule


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_colour_of_a_page_can_be_read_in_its_scheme(scheme: str) -> None:
    light, dark = PAGE.read_text().split("@media screen and (prefers-color-scheme: dark)")
    colours = dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", light if scheme == "light" else dark))
    for name in colours.keys() - {"back", "panel", "line"}:
        least = 4.5 if name in ("text", "soft", "bad", "good") else 3.0
        for background in ("back", "panel"):
            assert _contrast(_rgb(colours[name]), _rgb(colours[background])) >= least, (name, background)


def _between(text: str, start: str, end: str) -> str:
    return text.partition(start)[2].partition(end)[0]


def _rgb(colour: str) -> tuple[int, int, int]:
    return Color.parse(colour).get_truecolor()


def _contrast(one: tuple[int, int, int], other: tuple[int, int, int]) -> float:
    """As WCAG defines it, 1 to 21."""
    brighter, darker = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (brighter + 0.05) / (darker + 0.05)


def _luminance(colour: tuple[int, int, int]) -> float:
    """Relative luminance as WCAG defines it."""
    parts = [value / 255 for value in colour]
    red, green, blue = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    ]
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
