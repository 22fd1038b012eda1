"""A chart of figures over the cycles of a simulation as SVG, with a line for each policy."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rebalancer.reporting.html.chart import HEIGHT, WIDTH

_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
_MAX_LINES = 5  # to read values by


@dataclass(frozen=True, slots=True)
class LineChart:
    """What is shown, and each policy's points as SVG takes them, by name in the order of their colours."""

    title: str
    series: tuple[tuple[str, str], ...]
    lines: tuple[tuple[float, str], ...]  # height and figure of the lines to read values by


def line_chart(title: str, figures: Mapping[str, Sequence[float]]) -> LineChart | None:
    """The chart of figures by policy, one for each cycle, unknown ones left out; None where none is known."""
    known = [value for values in figures.values() for value in values if math.isfinite(value)]
    if not known:
        return None
    step = _step(max(known))
    if all(value.is_integer() for value in known):
        step = max(step, 1.0)
    top = max(math.ceil(max(known) / step), 1) * step
    count = max(map(len, figures.values()))
    apart = WIDTH / max(count - 1, 1)
    series = tuple(
        (
            name,
            " ".join(
                f"{index * apart:.1f},{HEIGHT - value / top * HEIGHT:.1f}"
                for index, value in enumerate(values)
                if math.isfinite(value)
            ),
        )
        for name, values in figures.items()
    )
    lines = tuple(
        (number * step / top * HEIGHT, f"{number * step:g}") for number in range(round(top / step) + 1)
    )
    return LineChart(title, series, lines)


def _step(most: float) -> float:
    """A round distance of which at most some lines are needed up to the highest figure."""
    if most <= 0:
        return 1.0
    magnitude = 10.0 ** math.floor(math.log10(most / _MAX_LINES))
    return next(step * magnitude for step in _STEPS if step * magnitude * _MAX_LINES >= most * (1 - 1e-9))
