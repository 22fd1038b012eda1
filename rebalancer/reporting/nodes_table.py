"""Node by node: load, the scheduler's score, hot or not and why."""

from __future__ import annotations

import msgspec
from rich.text import Text

from rebalancer.planning.plan import API_VERSION, NodeReport, Plan
from rebalancer.reporting.plan_table import name_width, write_node
from rebalancer.reporting.text import Lines, Style
from rebalancer.reporting.words import counted, plain

_MOST_NODES = 20


class NodeListing(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """All nodes as one run saw them; what ``rebalancer nodes -o json`` prints."""

    source: str
    policy: str
    inputs: str  # digest of the inputs, as in the plan made from them
    now: str
    nodes: tuple[NodeReport, ...]
    api_version: str = API_VERSION
    kind: str = "NodeListing"


def node_listing(plan: Plan, nodes: tuple[NodeReport, ...]) -> NodeListing:
    """The nodes with the identity of the plan they were judged for."""
    return NodeListing(source=plan.source, policy=plan.policy, inputs=plan.inputs, now=plan.now, nodes=nodes)


def nodes_table(listing: NodeListing, style: Style = Style()) -> Text:  # noqa: B008 - a frozen value
    """A row a node, the hot ones first, then those of the highest load."""
    lines = Lines(style)
    nodes = sorted(
        listing.nodes, key=lambda node: (not node.hot, -max(node.load.values(), default=-1.0), node.name)
    )
    hot = sum(1 for node in nodes if node.hot)
    unknown = sum(1 for node in nodes if not node.load)
    lines.add((f"{counted(len(nodes), 'node')}: {hot} hot, {unknown} without a fresh figure", "bold"))
    lines.add(("at ", "dim"), plain(listing.now), (", load in percent of allocatable", "dim"))
    shown = nodes[: lines.shown(len(nodes), _MOST_NODES)]
    width = name_width(shown)
    for node in shown:
        write_node(lines, msgspec.structs.replace(node, after=None), width)
        score = "" if node.score is None else f"score {node.score:.0f} of 100"
        verdict = "hot" if node.hot else ""
        said = ", ".join(part for part in (verdict, score) if part)
        because = "; ".join(node.because)
        if said or because:
            lines.message(
                ": ".join(part for part in (said, because) if part), 4, "red" if node.hot else "dim", 1
            )
    lines.more(len(nodes) - len(shown), "node")
    return lines.text
