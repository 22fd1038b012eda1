"""Renders pages from templates, each one file that needs nothing else: the nodes of a cluster, a simulation.

A page is light or dark as its reader is, and printable. Names come from the cluster and may be hostile: Jinja
escapes every one of them, and control characters are escaped before that as in tables; the page's own policy
forbids a browser to load or run anything.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from msgspec.structs import replace

from rebalancer.planning.plan import NodeReport
from rebalancer.reporting.html.chart import HEIGHT, WIDTH, Chart, LineChart, chart, line_chart
from rebalancer.reporting.tables.nodes import (
    NodeListing,
    figure_words,
    headline,
    known_loads,
    mean_p95_max,
    origin_words,
)
from rebalancer.reporting.words import amounts, counted, plain, words
from rebalancer.simulation.report import LoadSpread, PolicyRun, Simulation

CHARTED = ("cpu", "memory")  # resources that every page shows
_MAX_MOVES = 50  # of a cycle
_UNKNOWN = float("nan")


def render_page(template: str, **values: Any) -> str:
    """The page that a template of this package makes of the values."""
    environment = Environment(
        loader=PackageLoader("rebalancer.reporting.html", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(plain=plain, words=_sentence, points=lambda figures: amounts(figures.items()))
    environment.globals.update(counted=counted, width=WIDTH, height=HEIGHT)
    return environment.get_template(template).render(values)


def _sentence(text: str) -> str:
    """Words on one line; a figure and its percent sign are not parted where a narrow cell wraps them."""
    return words(text).replace(" %", "\N{NO-BREAK SPACE}%")


def node_charts(nodes: Sequence[NodeReport]) -> list[Chart]:
    """A chart of every resource that is shown and whose load is known on some node."""
    return [drawn for name in CHARTED if (drawn := chart(nodes, name)) is not None]


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
    return replace(node, after=None)


def simulation_page(simulation: Simulation) -> str:
    """The whole page."""
    cycles = len(simulation.runs[0].cycles) if simulation.runs else 0
    every = f"{simulation.interval_seconds / 60:g} min"
    return render_page(
        "simulation.html.jinja",
        simulation=simulation,
        title=f"Simulation: {counted(cycles, 'cycle')}, every {every}",
        runs=list(zip(_names(simulation), simulation.runs, strict=True)),
        charts=[drawn for drawn in _charts(simulation) if drawn is not None],
        first=lambda run: _spreads(run)[0],
        most=_MAX_MOVES,
    )


def _names(simulation: Simulation) -> list[str]:
    """The policies' names; those of the same name are numbered."""
    counts = Counter(run.policy for run in simulation.runs)
    seen: Counter[str] = Counter()
    names = []
    for run in simulation.runs:
        seen[run.policy] += 1
        names.append(run.policy if counts[run.policy] == 1 else f"{run.policy} ({seen[run.policy]})")
    return names


def _spreads(run: PolicyRun) -> list[LoadSpread]:
    """How the load lies before each cycle, and after the last."""
    before = [LoadSpread(hot=cycle.hot, peak=cycle.peak, deviation=cycle.deviation) for cycle in run.cycles]
    return [*before, run.after]


def _charts(simulation: Simulation) -> list[LineChart | None]:
    def over_cycles(title: str, figure: Callable[[LoadSpread], float]) -> LineChart | None:
        names = _names(simulation)
        return line_chart(
            title,
            {
                name: [figure(spread) for spread in _spreads(run)]
                for name, run in zip(names, simulation.runs, strict=True)
            },
        )

    return [
        over_cycles("hot nodes", lambda spread: float(spread.hot)),
        over_cycles("highest cpu load of a node, percent", lambda spread: spread.peak.get("cpu", _UNKNOWN)),
        over_cycles(
            "standard deviation of the nodes' cpu load, points",
            lambda spread: spread.deviation.get("cpu", _UNKNOWN),
        ),
    ]
