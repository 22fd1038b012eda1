"""A chart of nodes by load, before and after the plan, as SVG.

All nodes of a small cluster, of a large one those that are hot or receive pods. They stand
side by side, the hottest first, so that the left end is what the plan is about:

    100 |▒
        |█▒▒          what leaves is light, what stays is dark,
     50 |███▓▓        what arrives has a colour of its own
        +------- nodes

Where even those are many, some share a column: it shows the highest of them before, and the highest after.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rebalancer.planning.plan import NodeReport
from rebalancer.reporting.words import counted

WIDTH, HEIGHT = 720, 150
_MAX_COLUMNS = 240
_TOP = 110.0  # percent at the upper edge


@dataclass(frozen=True, slots=True)
class Bar:
    """One column: where it stands and how high its parts reach, in SVG units."""

    x: float
    width: float
    stays: float  # heights from the ground
    leaves: float
    arrives: float
    title: str


@dataclass(frozen=True, slots=True)
class Chart:
    """A resource, its bars, and which nodes they show."""

    resource: str
    shown: str
    bars: tuple[Bar, ...]
    lines: tuple[tuple[float, int], ...]  # height and percent of the lines to read values by


def chart(nodes: Sequence[NodeReport], resource: str) -> Chart | None:
    """The chart of a resource; None when no node's load of it is known."""
    known = [node for node in nodes if resource in node.load]
    shown = counted(len(known), "node")
    if len(known) > _MAX_COLUMNS:
        known = [node for node in known if node.hot or (node.after and node.after.load != node.load)]
        shown = f"{counted(len(known), 'node')} that are hot or receive pods"
    if not known:
        return None
    known.sort(key=lambda node: (-node.load[resource], node.name))
    share = -(-len(known) // _MAX_COLUMNS)
    columns = [known[first : first + share] for first in range(0, len(known), share)]
    width = WIDTH / len(columns)
    bars = tuple(_bar(column, resource, index * width, width) for index, column in enumerate(columns))
    lines = tuple((_height(percent), percent) for percent in (0, 25, 50, 75, 100))
    return Chart(resource, shown, bars, lines)


def _bar(column: Sequence[NodeReport], resource: str, x: float, width: float) -> Bar:
    before = max(node.load[resource] for node in column)
    after = max(_after(node, resource) for node in column)
    names = column[0].name if len(column) == 1 else f"{column[0].name} and {len(column) - 1} more"
    return Bar(
        x=round(x, 2),
        width=round(max(width - 0.4, 0.6), 2),
        stays=_height(min(before, after)),
        leaves=_height(before) - _height(min(before, after)),
        arrives=_height(after) - _height(min(before, after)),
        title=f"{names}: {before:.0f} % before, {after:.0f} % after",
    )


def _after(node: NodeReport, resource: str) -> float:
    return node.after.load.get(resource, node.load[resource]) if node.after else node.load[resource]


def _height(percent: float) -> float:
    return round(min(max(percent, 0.0), _TOP) / _TOP * HEIGHT, 1)
