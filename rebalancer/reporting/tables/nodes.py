"""One row per node: its load, the scheduler's score, and whether and why it is hot."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial

from msgspec.structs import replace
from rich.text import Text

from rebalancer.counting import counted
from rebalancer.planning.hotness import short_level
from rebalancer.planning.plan import API_VERSION, Answer, Figure, ListedNode, NodeReport, Plan
from rebalancer.policy.units import format_duration
from rebalancer.reporting.tables.plan import ALWAYS_SHOWN, load_columns, peak, write_warnings
from rebalancer.reporting.tables.text import Column, Glyphs, Lines, Style, write_table
from rebalancer.reporting.words import plain

_MAX_NODES = 20
_MAX_LEVELS = 3
_MIN_SHOWN_WINDOW = 60.0  # seconds; the few seconds that metrics-server averages over are not mentioned
_HISTOGRAM = "  nodes from 0 to 100 %"
_BOTH = 71  # columns of the figures of a resource and, beside them, its histogram
_NOT_MEASURED = {"requests": "not measured"}  # what figures of a source are, instead of their age


class NodeListing(Answer, frozen=True):
    """All nodes as one run sees them: what ``rebalancer nodes -o json`` prints."""

    nodes: tuple[NodeReport, ...]
    warnings: tuple[str, ...] = ()
    api_version: str = API_VERSION
    kind: str = "NodeListing"


def node_listing(plan: Plan, nodes: tuple[NodeReport, ...]) -> NodeListing:
    """The nodes, with the source, policy and digest of the plan they belong to."""
    return NodeListing(**plan.of_same(), nodes=nodes, warnings=plan.warnings)


def figure_words(figures: Mapping[str, Figure]) -> str:
    """``cpu, memory from metrics-server, 12s old``; resources with the same origin are named together."""
    by_origin: dict[str, list[str]] = {}
    for resource, figure in figures.items():
        age = f"{format_duration(round(max(figure.age_seconds, 0.0)))} old"
        age = _NOT_MEASURED.get(figure.source, age)
        by_origin.setdefault(f"from {figure.source}, {age}{_window(figure)}", []).append(resource)
    return "; ".join(f"{', '.join(resources)} {origin}" for origin, resources in by_origin.items())


def _window(figure: Figure) -> str:
    """``, p95 of 15m``, where a figure is taken over a window that is worth a word."""
    if figure.window_seconds < _MIN_SHOWN_WINDOW:
        return ""
    return f", {figure.statistic} of {format_duration(round(figure.window_seconds))}"


def sorted_nodes(nodes: Sequence[NodeReport], key: str) -> list[NodeReport]:
    """By ``heat`` (hot first, then by highest load), ``name``, ``score``, or falling load of a resource."""
    if key == "name":
        return sorted(nodes, key=lambda node: node.name)
    if key == "score":
        return sorted(nodes, key=lambda node: (-1.0 if node.score is None else node.score, node.name))
    if key == "heat":
        return sorted(nodes, key=lambda node: (not node.hot, -peak(node), node.name))
    return sorted(nodes, key=lambda node: (-node.load.get(key, -1.0), node.name))


def nodes_table(
    listing: NodeListing,
    style: Style = Style(),
    everything: NodeListing | None = None,
    chosen_by: str = "",
    labels: Sequence[str] = (),
) -> Text:
    """The nodes as text, a line each, in the order of the listing.

    First comes a summary: of ``everything``, where the listing leaves nodes out that ``chosen_by`` does not
    choose. There is a column for each of the ``labels``.
    """
    lines = Lines(style, (node.name for node in (everything or listing).nodes))
    if not style.no_headers:
        _summary(lines, everything or listing)
        if chosen_by:
            of_all = counted(len((everything or listing).nodes), "node")
            lines.labelled("listed ", f"{len(listing.nodes)} of {of_all}: {chosen_by}")
    now = [replace(node, after=None) for node in listing.nodes]
    columns = [
        Column("NODE", lambda node: (plain(node.name), "bold" if node.hot else ""), node=True),
        *load_columns(lines, now[: lines.shown(len(now), _MAX_NODES)]),
        Column("WHY", partial(_why, wide=style.wide), sentence=True),
    ]
    if style.wide:
        columns[-1:-1] = [
            *(
                Column(
                    title, partial(_room, resource=name), phrase=f"{title.removesuffix(' OF').lower()} {{}}"
                )
                for title, name in _ROOM.items()
            ),
            Column("SCORE", lambda node: "" if node.score is None else f"{node.score:.0f}", right=True),
        ]
        if len(_origins(listing.nodes)) > 1:
            columns[-1:-1] = [
                Column("FIGURES", lambda node: (figure_words(node.figures), "dim"), sentence=True)
            ]
    columns[-1:-1] = [
        Column(plain(key.rpartition("/")[2]).upper(), partial(_label, key=key)) for key in labels
    ]
    write_table(lines, columns, now, _MAX_NODES, "" if style.no_headers else "node")
    if not style.no_headers:
        write_warnings(lines, listing.warnings)
    return lines.text


_ROOM = {"CORES USED/REQ/LIM OF": "cpu", "MEMORY USED/REQ/LIM OF": "memory", "PODS": "pods"}


def _room(node: NodeReport, resource: str) -> str:
    """``3.3/2.4/8 of 4``: what is used, requested and the limit of its pods, of what is allocatable."""
    if not isinstance(node, ListedNode):
        return ""
    of = node.allocatable[resource]
    if resource == "pods":
        return f"{node.requests[resource]:.0f} of {of:.0f}"
    used = f"{_amount(node.load[resource] / 100 * of, resource)}" if resource in node.load else "?"
    taken = (_amount(part[resource], resource) for part in (node.requests, node.limits))
    return f"{'/'.join((used, *taken))} of {_amount(of, resource)}"


def _amount(number: float, resource: str) -> str:
    if resource == "memory":
        return f"{number / (1 << 30):.1f}Gi"
    return f"{number:.1f}".removesuffix(".0")


def _label(node: NodeReport, key: str) -> str:
    return plain(node.labels.get(key, "")) if isinstance(node, ListedNode) else ""


def _why(node: NodeReport, *, wide: bool) -> tuple[str, str]:
    """By how much the node is above its levels, or why it is hot; and which plugin lowers its score most."""
    above = []
    for name, level in sorted(node.levels.items()):
        if node.load.get(name, 0.0) > level.hot_above:
            points = node.load[name] - level.hot_above
            above.append(f"{plain(name)} {points:.1f} above {short_level(level.hot_above)} %")
            of_no_pod = node.of_no_pod.get(name, 0.0)
            if of_no_pod > min(level.cool_to, node.load[name] / 2):
                above[-1] += f" ({of_no_pod:.0f} of no pod)"
    because = plain("; ".join(node.because)) if wide or not (node.hot and above) else ", ".join(above)
    if wide and not because and node.pulled_down_by in node.scores:
        name = plain(node.pulled_down_by)
        because = f"score lowered most by {name} ({node.scores[name]})"
    return because, "red" if node.hot else "dim"


def _summary(lines: Lines, listing: NodeListing) -> None:
    """How many nodes are hot or unknown, how the load is distributed, and where the figures come from."""
    nodes = listing.nodes
    lines.headline("", headline(nodes))
    lines.labelled("cluster  ", f"{listing.source} at {listing.now}", "dim")
    for resource in ALWAYS_SHOWN:
        loads = known_loads(nodes, resource)
        if loads:
            mean, p95, highest = mean_p95_max(loads)
            figures = (f"  {resource:<7}", "dim"), f" mean {mean:3.0f}  p95 {p95:3.0f}  max {highest:3.0f}  "
            histogram = (_histogram(loads, lines.style.glyphs), "cyan"), (_HISTOGRAM, "dim")
            if lines.style.columns >= _BOTH or lines.style.markdown:
                lines.add(*figures, *histogram)
            else:
                lines.add(*figures)
                lines.add(" " * 4, *histogram)
    for levels in _levels(nodes):
        lines.message(levels, 2, "dim")
    for origin in origin_words(nodes):
        lines.message(origin, 2, "dim")
    lines.say_what_is_left_out()


def _levels(nodes: Sequence[NodeReport]) -> list[str]:
    """``hot above cpu 80 %, cool at 65 %``, for each set of levels that nodes have, the commonest first."""
    commonest = Counter(_level_words(node) for node in nodes if node.levels).most_common(_MAX_LEVELS + 1)
    if len(commonest) == 1:
        return [f"hot above {commonest[0][0]}"]
    return [f"{counted(count, 'node')} hot above {levels}" for levels, count in commonest[:_MAX_LEVELS]]


def _level_words(node: NodeReport) -> str:
    return ", ".join(
        f"{plain(name)} {level.hot_above:.0f} % (cool at {level.cool_to:.0f} %)"
        for name, level in sorted(node.levels.items())
    )


def headline(nodes: Sequence[NodeReport]) -> str:
    """``6 nodes: 2 hot, 0 without a fresh figure``."""
    hot = sum(1 for node in nodes if node.hot)
    unknown = sum(1 for node in nodes if node.is_unknown)
    return f"{counted(len(nodes), 'node')}: {hot} hot, {unknown} without a fresh figure"


def known_loads(nodes: Sequence[NodeReport], resource: str) -> list[float]:
    """The loads of a resource that are known, the lowest first."""
    return sorted(node.load[resource] for node in nodes if resource in node.load)


def mean_p95_max(loads: Sequence[float]) -> tuple[float, float, float]:
    """Of sorted loads; there is at least one."""
    return sum(loads) / len(loads), loads[max(math.ceil(0.95 * len(loads)) - 1, 0)], loads[-1]


def origin_words(nodes: Sequence[NodeReport]) -> list[str]:
    """``figures of 6 nodes from metrics-server, at most 12s old``, for each origin of figures."""
    origins = []
    for origin, count, oldest in _origins(nodes):
        age = f"at most {format_duration(round(oldest))} old" if round(oldest) else "just measured"
        age = _NOT_MEASURED.get(origin.removeprefix("from "), age)
        origins.append(f"figures of {counted(count, 'node')} {origin}, {age}")
    return origins


def _histogram(loads: Sequence[float], glyphs: Glyphs) -> str:
    """Ten bars, one for each tenth of the load; the last holds all that is above 90 %."""
    bins = [0] * 10
    for load in loads:
        bins[min(max(int(load // 10), 0), 9)] += 1
    largest = max(bins)
    steps = glyphs.steps
    return "".join(steps[math.ceil(number * (len(steps) - 1) / largest)] for number in bins)


def _origins(nodes: Sequence[NodeReport]) -> list[tuple[str, int, float]]:
    """Where figures come from: the nodes that have some from there, and the age of the oldest."""
    origins: dict[str, tuple[set[str], float]] = {}
    for node in nodes:
        for figure in node.figures.values():
            origin = f"from {figure.source}{_window(figure)}"
            names, oldest = origins.setdefault(origin, (set(), 0.0))
            origins[origin] = names | {node.name}, max(oldest, figure.age_seconds)
    return sorted((origin, len(names), oldest) for origin, (names, oldest) in origins.items())
