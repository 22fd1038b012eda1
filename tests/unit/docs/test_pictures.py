"""The pictures of the README show what the program prints today, in colours for light and for dark."""

from __future__ import annotations

import json
import re

import pytest
from rich.color import Color

from rebalancer.reporting.console import COLOURS
from tests.ux import dashboard
from tests.ux.pictures import documentation_pictures, readme_pictures
from tests.ux.terminal import ROOT


def test_the_pictures_of_the_readme_are_what_the_program_prints() -> None:
    readme = (ROOT / "README.md").read_text()

    for path, svg in readme_pictures():
        name = path.relative_to(ROOT)
        assert str(name) in readme
        assert path.read_text() == svg, f"{name} is not what the program prints: make pictures"


def test_the_picture_of_the_dashboard_is_drawn_from_what_was_scraped_and_has_every_panel() -> None:
    titles = [panel["title"] for panel in json.loads(dashboard.DASHBOARD.read_text())["panels"]]

    for path, svg in documentation_pictures():
        assert path.read_text() == svg, "make pictures"
        assert f"pictures/{path.name}" in (ROOT / "docs" / "serving.md").read_text()
        assert [title for title in titles if f">{title}<" not in svg] == [], "run bench.drift again"


def test_the_pictures_ask_for_nothing() -> None:
    shown = sorted((ROOT / "docs" / "pictures").glob("*.svg"))

    assert {path for path, _ in documentation_pictures()} < set(shown)
    for path in shown:  # which the tests above compare with what the program prints
        svg = path.read_text()
        assert set(re.findall(r"https?://[^\"' )]+", svg)) == {"http://www.w3.org/2000/svg"}, path
        assert "<script" not in svg


@pytest.mark.parametrize("name", COLOURS)
@pytest.mark.parametrize("background", [(255, 255, 255), (13, 17, 23), (0, 0, 0)])
def test_every_colour_can_be_read_on_light_and_on_dark(name: str, background: tuple[int, int, int]) -> None:
    colour = Color.parse(COLOURS[name]).get_truecolor()

    brighter, darker = sorted((_luminance(colour), _luminance(background)), reverse=True)
    assert (brighter + 0.05) / (darker + 0.05) >= 3.8


def _luminance(colour: tuple[int, int, int]) -> float:
    """Relative luminance as WCAG defines it."""
    parts = [value / 255 for value in colour]
    red, green, blue = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    ]
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
