"""Charts as SVG: nodes by load before and after a plan, and figures over the cycles of a simulation.

All nodes of a small cluster, of a plan for a large one those that are hot or receive pods. They stand
side by side, the hottest first, so that the left end is what the plan is about:

    100 |▒
        |█▒▒- - -     what leaves is light, what stays is dark,
     50 |███▓▓· ·     what arrives has a colour of its own;
        +------- nodes     - - hot above, · · cool to

Where even those are many, some share a column: it shows the highest of them before, the highest after, and
the lowest level of any of them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence

import msgspec

from rebalancer.counting import counted
from rebalancer.planning.hotness import short_level
from rebalancer.planning.plan import Level, NodeReport
from rebalancer.reporting.tables.text import common_ending

WIDTH = 360  # of the axis, in SVG units: on a phone a unit is a little less than a pixel
HEIGHT = 150
_MAX_COLUMNS = 240
_MAX_NAMED = 12  # columns that are wide enough for a name below them
_MAX_LEVELS = 3  # different ones that the legend lists
_NAME_HEIGHT = 5.2  # of a character of a name, which stands aslant, in SVG units
_MAX_NAME = 17  # characters below a column; the end of a longer name is shown
_TOP = 110.0  # percent at the upper edge
_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
_MAX_LINES = 5  # to read values by
_TICK_LETTERS = 50  # that fit below the axis
_SHARE_OF_BARS = 0.8  # of the place of a label, the rest is between them


class Bar(msgspec.Struct, frozen=True):
    """One column: where it stands and how high its parts reach, in SVG units."""

    x: float
    width: float
    stays: float  # heights from the ground
    leaves: float
    arrives: float
    title: str
    name: str  # as it stands below the column, aslant; empty where there is no room


class LevelLine(msgspec.Struct, frozen=True):
    """A level of the columns from ``x`` to ``end``: ``hot`` above it, or to ``cool`` to."""

    kind: str
    x: float
    end: float
    y: float  # height from the ground


class Chart(msgspec.Struct, frozen=True):
    """A resource, its bars, the levels across them, and which nodes they show."""

    resource: str
    shown: str
    bars: tuple[Bar, ...]
    lines: tuple[tuple[float, int], ...]  # height and percent of the lines to read values by
    levels: tuple[LevelLine, ...]
    legend: tuple[tuple[str, str], ...]  # kind of a level, and what it is: ``hot above 80 %``

    @property
    def names_height(self) -> float:
        """How much the longest name takes below the axis; 0 where no column has a name."""
        return max(len(bar.name) for bar in self.bars) * _NAME_HEIGHT


def chart(nodes: Sequence[NodeReport], resource: str) -> Chart | None:
    """The chart of a resource; None when no node's load of it is known."""
    measured = [node for node in nodes if resource in node.load]
    shown = counted(len(measured), "node")
    if len(measured) > _MAX_COLUMNS and any(node.after for node in measured):
        measured = [node for node in measured if node.hot or (node.after and node.after.load != node.load)]
        shown = f"{counted(len(measured), 'node')} that are hot or receive pods"
    if not measured:
        return None
    measured.sort(key=lambda node: (-node.load[resource], node.name))
    share = -(-len(measured) // _MAX_COLUMNS)
    columns = [measured[first : first + share] for first in range(0, len(measured), share)]
    width = WIDTH / len(columns)
    ending = common_ending(node.name for node in nodes)
    bars = tuple(_bar(column, resource, index * width, width, ending) for index, column in enumerate(columns))
    lines = tuple((_height(percent), percent) for percent in (0, 25, 50, 75, 100))
    levels = [_lowest(column, resource) for column in columns]
    return Chart(
        resource, shown, bars, lines, tuple(_level_lines(levels, width)), tuple(_legend(measured, resource))
    )


def _bar(column: Sequence[NodeReport], resource: str, x: float, width: float, ending: str) -> Bar:
    """A column; its name stands without the ending that all nodes share."""
    before = max(node.load[resource] for node in column)
    after = max(_after(node, resource) for node in column)
    names = column[0].name if len(column) == 1 else f"{column[0].name} and {len(column) - 1} more"
    changes = any(node.after for node in column)
    return Bar(
        x=round(x, 2),
        width=round(max(width - 0.4, 0.6), 2),
        stays=_height(min(before, after)),
        leaves=_height(before) - _height(min(before, after)),
        arrives=_height(after) - _height(min(before, after)),
        title=f"{names}: {before:.0f} % before, {after:.0f} % after"
        if changes
        else f"{names}: {before:.0f} %",
        name=_short(column[0].name.removesuffix(ending), width),
    )


def _short(name: str, width: float) -> str:
    """The name as it fits below a column, its end kept: names of nodes differ there."""
    if width < WIDTH / _MAX_NAMED:
        return ""
    return name if len(name) <= _MAX_NAME else f"…{name[1 - _MAX_NAME :]}"


def _after(node: NodeReport, resource: str) -> float:
    return node.after.load.get(resource, node.load[resource]) if node.after else node.load[resource]


def _lowest(column: Sequence[NodeReport], resource: str) -> Level | None:
    """The lowest level of any node of a column; None where no rule sets one."""
    levels = [node.levels[resource] for node in column if resource in node.levels]
    return min(levels, key=lambda level: (level.hot_above, level.cool_to), default=None)


_KINDS: tuple[tuple[str, str, Callable[[Level], float]], ...] = (
    ("hot", "hot above", lambda level: level.hot_above),
    ("cool", "cool to", lambda level: level.cool_to),
)


def _level_lines(levels: Sequence[Level | None], width: float) -> list[LevelLine]:
    """A line for each run of columns that share a level."""
    lines = []
    for kind, _, percent in _KINDS:
        heights = [None if level is None else _height(percent(level)) for level in levels]
        for height, run in itertools.groupby(range(len(heights)), key=heights.__getitem__):
            columns = list(run)
            if height is not None and height < HEIGHT:
                x = columns[0] * width
                end = (columns[-1] + 1) * width
                lines.append(LevelLine(kind, round(x, 2), round(end, 2), height))
    return lines


def _legend(nodes: Sequence[NodeReport], resource: str) -> list[tuple[str, str]]:
    levels = [node.levels[resource] for node in nodes if resource in node.levels]
    legend = []
    for kind, words, percent in _KINDS:
        distinct = sorted({percent(level) for level in levels})
        if len(distinct) > _MAX_LEVELS:
            legend.append((kind, f"{words} {short_level(distinct[0])} to {short_level(distinct[-1])} %"))
        elif distinct:
            legend.append((kind, f"{words} {' or '.join(map(short_level, distinct))} %"))
    return legend


def _height(percent: float) -> float:
    return round(min(max(percent, 0.0), _TOP) / _TOP * HEIGHT, 1)


class Column(msgspec.Struct, frozen=True):
    """A bar that counts: which policy's, where it stands, and how high it reaches, in SVG units."""

    policy: int
    x: float
    width: float
    height: float
    title: str


class CycleChart(msgspec.Struct, frozen=True):
    """What is shown over cycles or moments: for each policy a line, or bars that count."""

    title: str
    axis: str  # what the columns are: cycles, or moments
    series: tuple[tuple[str, str], ...]  # points as SVG takes them by policy, in the order of their colours
    columns: tuple[Column, ...]
    lines: tuple[tuple[float, str], ...]  # height and figure of the lines to read values by
    ticks: tuple[tuple[float, str], ...]  # where a label stands below the axis


def line_chart(
    title: str, figures: Mapping[str, Sequence[float]], axis: str, labels: Sequence[str]
) -> CycleChart | None:
    """Lines of figures by policy, one for each label, unknown ones left out; None where none is known."""
    scale = _scale(figures)
    if scale is None:
        return None
    top, lines = scale
    apart = WIDTH / max(len(labels) - 1, 1)

    def points(values: Sequence[float]) -> str:
        """As SVG takes them."""
        return " ".join(
            f"{index * apart:.1f},{HEIGHT - value / top * HEIGHT:.1f}"
            for index, value in enumerate(values)
            if math.isfinite(value)
        )

    series = tuple((name, points(values)) for name, values in figures.items())
    ticks = [(index * apart, label) for index, label in enumerate(labels)]
    return CycleChart(title, axis, series, (), lines, _some_ticks(ticks))


def count_chart(
    title: str, figures: Mapping[str, Sequence[float]], axis: str, labels: Sequence[str]
) -> CycleChart | None:
    """Bars of counts by policy, side by side at each label; None where no count is known."""
    scale = _scale(figures)
    if scale is None:
        return None
    top, lines = scale
    place = WIDTH / max(len(labels), 1)
    width = place * _SHARE_OF_BARS / len(figures)
    columns = []
    for policy, (name, values) in enumerate(figures.items()):
        for index, value in enumerate(values):
            if math.isfinite(value) and value > 0:
                x = index * place + (place - width * len(figures)) / 2 + policy * width
                title_of_bar = f"{name}, {axis} {labels[index]}: {value:g}"
                height = value / top * HEIGHT
                columns.append(
                    Column(policy, round(x, 2), round(max(width, 0.4), 2), round(height, 1), title_of_bar)
                )
    ticks = [((index + 0.5) * place, label) for index, label in enumerate(labels)]
    names = tuple((name, "") for name in figures)
    return CycleChart(title, axis, names, tuple(columns), lines, _some_ticks(ticks))


def _scale(figures: Mapping[str, Sequence[float]]) -> tuple[float, tuple[tuple[float, str], ...]] | None:
    """The figure at the upper edge, and the lines to read values by; None where no figure is known."""
    finite = [value for values in figures.values() for value in values if math.isfinite(value)]
    if not finite:
        return None
    step = _step(max(finite))
    if all(value.is_integer() for value in finite):
        step = max(step, 1.0)
    top = max(math.ceil(max(finite) / step), 1) * step
    lines = tuple(
        (number * step / top * HEIGHT, f"{number * step:g}") for number in range(round(top / step) + 1)
    )
    return top, lines


def _some_ticks(ticks: Sequence[tuple[float, str]]) -> tuple[tuple[float, str], ...]:
    """The first, the last, and some between them; fewer where labels are long."""
    longest = max((len(label) for _, label in ticks), default=1)
    count = max(min(len(ticks), int(_TICK_LETTERS / (longest + 2))), 2)
    if len(ticks) <= count:
        return tuple(ticks)
    places = sorted({round(number * (len(ticks) - 1) / (count - 1)) for number in range(count)})
    return tuple(ticks[place] for place in places)


def _step(highest: float) -> float:
    """A round distance of which at most some lines are needed up to the highest figure."""
    if highest <= 0:
        return 1.0
    magnitude = 10.0 ** math.floor(math.log10(highest / _MAX_LINES))
    return next(step * magnitude for step in _STEPS if step * magnitude * _MAX_LINES >= highest * (1 - 1e-9))
