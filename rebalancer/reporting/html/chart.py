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
from msgspec.structs import replace

from rebalancer.counting import counted
from rebalancer.planning.hotness import short_level
from rebalancer.planning.plan import Level, NodeReport
from rebalancer.reporting.tables.text import common_beginning, common_ending

WIDTH = 360  # of the axis, in SVG units: on a phone a unit is a little less than a pixel
HEIGHT = 150
_MAX_COLUMNS = 240
_MAX_NAMED = 12  # columns with a name below them
_MAX_LEVELS = 3  # different ones that the legend lists
_NAME_HEIGHT = 5.2  # of a character of a name, which stands aslant, in SVG units
_MAX_NAME = 17  # characters below a column
_LEAST_TOP = 100  # percent at the upper edge; more where a bar is higher
_PERCENT_STEPS = (25, 50, 100, 250, 500, 1000)  # between the lines to read percent by
_LETTER_PLACE = 15.0  # that a name aslant takes of the axis, in SVG units
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
    name: str = ""  # as it stands below the column, aslant; empty where there is no room
    name_x: float = 0.0  # where the name ends: of many columns some are named, beside each other


class LevelLine(msgspec.Struct, frozen=True):
    """A level of the columns from ``x`` to ``end``: ``hot`` above it, or to ``cool`` to."""

    kind: str
    x: float
    end: float
    y: float  # height from the ground


class Chart(msgspec.Struct, frozen=True):
    """A resource, its bars, the levels across them, and which nodes they show."""

    resource: str
    shown: str  # which nodes, and in which order
    bars: tuple[Bar, ...]
    lines: tuple[tuple[float, int], ...]  # height and percent of the lines to read values by
    levels: tuple[LevelLine, ...]
    legend: tuple[tuple[str, str], ...]  # kind of a level, and what it is: ``hot above 80 %``

    @property
    def names_height(self) -> float:
        """How much the longest name takes below the axis; 0 where no column has a name."""
        return max(len(bar.name) for bar in self.bars) * _NAME_HEIGHT


def chart(nodes: Sequence[NodeReport], resource: str, ordered_by: str = "") -> Chart | None:
    """The chart of a resource; None when no node's load of it is known.

    The hottest come first, or those with most of the resource that it is ``ordered_by``.
    """
    measured = [node for node in nodes if resource in node.load]
    shown = counted(len(measured), "node")
    if len(measured) > _MAX_COLUMNS and any(node.after for node in measured):
        measured = [node for node in measured if node.hot or (node.after and node.after.load != node.load)]
        shown = f"{counted(len(measured), 'node')} that are hot or receive pods"
    if not measured:
        return None
    order = ordered_by or resource
    measured.sort(key=lambda node: (-node.load.get(order, -1.0), node.name))
    shown += ", hottest first" if order == resource else f", in the order of {order}"
    share = -(-len(measured) // _MAX_COLUMNS)
    columns = [measured[first : first + share] for first in range(0, len(measured), share)]
    width = WIDTH / len(columns)
    axis = _axis(max(max(node.load[resource], _after(node, resource)) for node in measured))
    bars = [_bar(column, resource, index * width, width, axis) for index, column in enumerate(columns)]
    if share == 1:
        bars = _named(bars, _short_names([node.name for node in measured]))
    lines = tuple((axis.height(percent), percent) for percent in range(0, axis.top + 1, axis.step))
    levels = [_lowest(column, resource) for column in columns]
    level_lines = tuple(_level_lines(levels, width, axis))
    return Chart(resource, shown, tuple(bars), lines, level_lines, tuple(_legend(measured, resource)))


class _Axis(msgspec.Struct, frozen=True):
    """Percent from the ground to the upper edge, and how far apart the lines are to read them by."""

    top: int
    step: int

    def height(self, percent: float) -> float:
        """In SVG units from the ground."""
        return round(min(max(percent, 0.0), self.top) / self.top * HEIGHT, 1)


def _axis(highest: float) -> _Axis:
    """The axis up to the highest bar."""
    step = next((step for step in _PERCENT_STEPS if highest <= step * _MAX_LINES), _PERCENT_STEPS[-1])
    return _Axis(max(math.ceil(min(highest, step * _MAX_LINES * 2) / step) * step, _LEAST_TOP), step)


def _bar(column: Sequence[NodeReport], resource: str, x: float, width: float, axis: _Axis) -> Bar:
    """A column, without a name below it."""
    before = max(node.load[resource] for node in column)
    after = max(_after(node, resource) for node in column)
    names = column[0].name if len(column) == 1 else f"{column[0].name} and {len(column) - 1} more"
    changes = any(node.after for node in column)
    return Bar(
        x=round(x, 2),
        width=round(max(width - 0.4, 0.6), 2),
        stays=axis.height(min(before, after)),
        leaves=axis.height(before) - axis.height(min(before, after)),
        arrives=axis.height(after) - axis.height(min(before, after)),
        title=f"{names}: {before:.0f} % before, {after:.0f} % after"
        if changes
        else f"{names}: {before:.0f} %",
    )


def _named(bars: Sequence[Bar], names: Sequence[str]) -> list[Bar]:
    """The columns with names: all of a few; of many those that lose most, and the highest.

    Names of columns that stand close to each other are moved apart, in their order.
    """
    if len(bars) <= _MAX_NAMED:
        chosen = set(range(len(bars)))
    else:
        losing = [at for at, bar in enumerate(bars) if bar.leaves > 0]
        losing.sort(key=lambda at: -bars[at].leaves)
        highest = max(range(len(bars)), key=lambda at: bars[at].stays + bars[at].leaves)
        chosen = {highest, *losing[: _MAX_NAMED - 1]}
    ends: dict[int, float] = {}
    free = _LETTER_PLACE  # to its left is room for the rest of a long name
    for at in sorted(chosen):
        ends[at] = max(bars[at].x + bars[at].width / 2, free)
        free = ends[at] + _LETTER_PLACE
    limit = float(WIDTH)
    for at in sorted(chosen, reverse=True):
        ends[at] = round(min(ends[at], limit), 2)
        limit = ends[at] - _LETTER_PLACE
    shown = _cut(names)
    return [
        replace(bar, name=shown[at], name_x=ends[at]) if at in chosen else bar for at, bar in enumerate(bars)
    ]


def _short_names(names: Sequence[str]) -> list[str]:
    """Names by what tells them apart: without what all begin or end in, or without their domains."""
    ending = common_ending(names)
    short = [name.removesuffix(ending) for name in names]
    labels = [name.partition(".")[0] for name in short]
    if len(set(labels)) == len(set(names)) and all(any(map(str.isalpha, label)) for label in labels):
        short = labels
    beginning = common_beginning(short)
    return [name.removeprefix(beginning) for name in short]


def _cut(names: Sequence[str]) -> list[str]:
    """The names as they fit below columns: their beginnings, or their ends where these are alike."""
    room = _MAX_NAME - 1
    if len({name[:room] for name in names}) == len(set(names)):
        return [name if len(name) <= _MAX_NAME else f"{name[:room]}…" for name in names]
    return [name if len(name) <= _MAX_NAME else f"…{name[-room:]}" for name in names]


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


def _level_lines(levels: Sequence[Level | None], width: float, axis: _Axis) -> list[LevelLine]:
    """A line for each run of columns that share a level."""
    lines = []
    for kind, _, percent in _KINDS:
        of_columns = [None if level is None else percent(level) for level in levels]
        for value, run in itertools.groupby(range(len(of_columns)), key=of_columns.__getitem__):
            columns = list(run)
            if value is not None and value <= axis.top:
                x = columns[0] * width
                end = (columns[-1] + 1) * width
                lines.append(LevelLine(kind, round(x, 2), round(end, 2), axis.height(value)))
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
