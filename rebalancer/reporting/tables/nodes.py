"""One row per node: its load, the scheduler's score, and whether and why it is hot."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from rich.text import Text

from rebalancer.planning.plan import API_VERSION, UNKNOWN_NODE, Figure, NodeReport, Plan
from rebalancer.policy.units import format_duration
from rebalancer.reporting.tables.plan import name_width, write_node, write_warnings
from rebalancer.reporting.tables.text import Lines, Style
from rebalancer.reporting.words import counted, plain

_MAX_NODES = 20
_MIN_SHOWN_WINDOW = 60.0  # seconds; the few seconds that metrics-server averages over are not mentioned


class NodeListing(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """All nodes as one run sees them: what ``rebalancer nodes -o json`` prints."""

    source: str
    policy: str
    inputs: str  # digest of the inputs, as in the plan made from them
    now: str
    nodes: tuple[NodeReport, ...]
    warnings: tuple[str, ...] = ()
    api_version: str = API_VERSION
    kind: str = "NodeListing"


def node_listing(plan: Plan, nodes: tuple[NodeReport, ...]) -> NodeListing:
    """The nodes, with the source, policy and digest of the plan they belong to."""
    return NodeListing(
        source=plan.source,
        policy=plan.policy,
        inputs=plan.inputs,
        now=plan.now,
        nodes=nodes,
        warnings=plan.warnings,
    )


def figure_words(figures: Mapping[str, Figure]) -> str:
    """``cpu, memory from metrics-server, 12s old``; resources with the same origin are named together."""
    by_origin: dict[str, list[str]] = {}
    for resource, figure in figures.items():
        window = ""
        if figure.window_seconds >= _MIN_SHOWN_WINDOW:
            window = f", {figure.statistic} of {format_duration(round(figure.window_seconds))}"
        age = format_duration(round(max(figure.age_seconds, 0.0)))
        by_origin.setdefault(f"from {figure.source}, {age} old{window}", []).append(resource)
    return "; ".join(f"{', '.join(resources)} {origin}" for origin, resources in by_origin.items())


def _lowest_score(node: NodeReport) -> str:
    """The plugin that lowers the node's score most, and the score it gives."""
    name = node.pulled_down_by
    return f", lowered most by {name} ({node.scores[name]})" if name in node.scores else ""


def nodes_table(listing: NodeListing, style: Style = Style()) -> Text:  # noqa: B008 - a frozen value
    """The nodes as text, hot ones first, then by falling load."""
    lines = Lines(style)
    nodes = sorted(
        listing.nodes, key=lambda node: (not node.hot, -max(node.load.values(), default=-1.0), node.name)
    )
    hot = sum(1 for node in nodes if node.hot)
    unknown = sum(
        1 for node in nodes if not node.load or any(reason.endswith(UNKNOWN_NODE) for reason in node.because)
    )
    lines.add((f"{counted(len(nodes), 'node')}: {hot} hot, {unknown} without a fresh figure", "bold"))
    lines.add(("at ", "dim"), plain(listing.now), (", load in percent of allocatable", "dim"))
    shown = nodes[: lines.shown(len(nodes), _MAX_NODES)]
    width = name_width(shown)
    for node in shown:
        write_node(lines, msgspec.structs.replace(node, after=None), width)
        score = "" if node.score is None else f"score {node.score:.0f} of 100{_lowest_score(node)}"
        verdict = "hot" if node.hot else ""
        summary = ", ".join(part for part in (verdict, score) if part)
        because = "; ".join(node.because)
        if summary or because:
            lines.message(
                ": ".join(part for part in (summary, because) if part), 4, "red" if node.hot else "dim", 1
            )
        if node.figures:
            lines.message(figure_words(node.figures), 4, "dim", 1)
    lines.more(len(nodes) - len(shown), "node")
    if listing.warnings:
        write_warnings(lines, listing.warnings)
    return lines.text
