"""Renders the nodes of a cluster as one HTML file: who is hot and why, with the figures behind it."""

from __future__ import annotations

import msgspec

from rebalancer.planning.plan import NodeReport
from rebalancer.reporting.html.pages import CHARTED, node_charts, render_page
from rebalancer.reporting.tables.nodes import (
    NodeListing,
    figure_words,
    headline,
    known_loads,
    mean_p95_max,
    origin_words,
)


def nodes_page(
    listing: NodeListing, everything: NodeListing | None = None, chosen_by: str = "", top: int | None = None
) -> str:
    """The whole page: a summary of ``everything``, and a row for each of the first ``top`` nodes listed."""
    all_nodes = (everything or listing).nodes
    rows = listing.nodes[:top]
    return render_page(
        "nodes.html.jinja",
        listing=listing,
        headline=headline(all_nodes),
        summaries=[
            (name, *mean_p95_max(loads)) for name in CHARTED if (loads := known_loads(all_nodes, name))
        ],
        origins=origin_words(all_nodes),
        charts=node_charts([_as_it_is(node) for node in listing.nodes]),
        chosen=f"{len(listing.nodes)} of {len(all_nodes)} nodes: {chosen_by}" if chosen_by else "",
        rows=rows,
        left_out=len(listing.nodes) - len(rows),
        resources=sorted({*CHARTED, *(name for node in rows for name in node.load)}),
        figure_words=figure_words,
    )


def _as_it_is(node: NodeReport) -> NodeReport:
    """The node without what a plan would change: this page is about now."""
    return msgspec.structs.replace(node, after=None)
