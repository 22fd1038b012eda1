"""The loads of nodes as bars, a line a node: what is there, what leaves and what arrives."""

from __future__ import annotations

from collections.abc import Iterable

from rich.text import Text

from rebalancer.planning.plan import NodeReport, Plan
from rebalancer.reporting.tables.columns import Column, Cut, write_columns
from rebalancer.reporting.tables.text import Lines, bar
from rebalancer.reporting.words import plain

_BAR, _SHORT_BAR = 10, 8
_MAX_HOT = 7
ALWAYS_SHOWN = ("cpu", "memory")
_NEARLY_FULL = 80.0  # percent above which any other resource is shown too
_MAX_NAME_WIDTH = 22


def write_hot_nodes(lines: Lines, plan: Plan) -> None:
    """The hot nodes, hottest first, and whether the plan cools each of them."""
    hot = sorted((node for node in plan.nodes if node.hot), key=lambda node: (-peak(node), node.name))
    if not hot:
        return
    glyphs = lines.style.glyphs
    shown = hot[: lines.shown(len(hot), _MAX_HOT)]
    legend = f"{glyphs.full} stays {glyphs.leaves} leaves {glyphs.arrives} arrives"
    lines.heading("HOT NODES", f"percent, now {glyphs.arrow} after the plan: {legend}")
    resources = shown_resources(shown, lines)
    columns = [
        Column("NODE", cut=Cut.MIDDLE),
        *(Column(plain(resource).upper()) for resource in resources),
        Column("AFTER"),
    ]
    if lines.style.wide or lines.style.everything:
        columns.append(Column("WHY", cut=Cut.END))
    rows = []
    for node in shown:
        row = [Text(plain(node.name), "bold"), *(load_bar(lines, node, resource) for resource in resources)]
        row.append(state_after(node, plan))
        if len(columns) > len(row):
            row.append(Text(plain("; ".join(node.because)), "dim"))
        rows.append(row)
    write_columns(lines, columns, rows)
    lines.more(len(hot) - len(shown), "hot node")


def state_after(node: NodeReport, plan: Plan) -> Text:
    """``still hot``; ``not hot``, where it is still above coolTo; or ``cooled``."""
    if node.after is None:
        return Text("")
    if node.after.hot:
        return Text("still hot", "red")
    return Text("not hot", "yellow") if node.name in plan.unsolved else Text("cooled", "green")


def peak(node: NodeReport) -> float:
    """The highest known load of the node, -1 if none is known."""
    return max(node.load.values(), default=-1.0)


def shown_resources(nodes: Iterable[NodeReport], lines: Lines) -> list[str]:
    """CPU and memory; others if the style shows everything, or if one is nearly full or made a node hot."""
    wanted = {name for node in nodes for name in _resources(node) if _worth_showing(node, name, lines)}
    return sorted(wanted)


def load_bar(lines: Lines, node: NodeReport, resource: str) -> Text:
    """``████▒▒░░  87→65``."""
    before = node.load.get(resource)
    after = node.after.load.get(resource) if node.after else None
    if before is None:
        return Text("unknown", "yellow")
    text = bar(before, after, _SHORT_BAR, lines.style.glyphs)
    text.append(f" {before:3.0f}", "bold")
    return text if after is None else text.append(f"{lines.style.glyphs.arrow}{after:.0f}")


def name_width(nodes: Iterable[NodeReport]) -> int:
    """The width of the column of names; a longer name gets a line of its own."""
    return min(max((len(plain(node.name)) for node in nodes), default=0), _MAX_NAME_WIDTH)


def write_node(lines: Lines, node: NodeReport, width: int) -> None:
    """One node's name and its bars, two to a line, for the explanation of that node."""
    name = plain(node.name)
    resources = [name for name in _resources(node) if _worth_showing(node, name, lines)]
    lead = "  " + name.ljust(width) + "  "
    if len(name) > width or not resources:
        lines.add("  ", (name, "bold"), "" if resources else "  no fresh figure")
        lead = " " * (width + 4)
    for first in range(0, len(resources), 2):
        pair = [_segment(lines, node, resource) for resource in resources[first : first + 2]]
        lines.add(lead, Text("  ").join(pair))
        lead = " " * (width + 4)


def _resources(node: NodeReport) -> list[str]:
    return sorted(set(node.load) | set(node.after.load if node.after else ()))


def _worth_showing(node: NodeReport, resource: str, lines: Lines) -> bool:
    """Whether a summary shows a resource: CPU, memory, and any that is nearly full or made the node hot."""
    named = any(resource in reason for reason in node.because)
    return (
        lines.style.everything
        or resource in ALWAYS_SHOWN
        or named
        or node.load.get(resource, 0.0) >= _NEARLY_FULL
    )


def _segment(lines: Lines, node: NodeReport, resource: str) -> Text:
    before = node.load.get(resource)
    after = node.after.load.get(resource) if node.after else None
    text = Text(f"{plain(resource)} ")
    if before is None:
        return text.append("unknown", "yellow")
    text.append_text(bar(before, after, _BAR, lines.style.glyphs))
    text.append(f" {before:3.0f}%", "bold")
    if after is not None:
        text.append(f" {lines.style.glyphs.arrow} {after:3.0f}%")
    return text
