"""Renders pages from templates, each one file that needs nothing else: a plan, nodes, a simulation.

A page is light or dark as its reader is, and printable. Names come from the cluster and may be hostile: Jinja
escapes every one of them, and control characters are escaped before that as in tables; the page's own policy
forbids a browser to load or run anything.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from msgspec.structs import replace

from rebalancer.agreement.decisions import Agreement
from rebalancer.cluster import times
from rebalancer.counting import counted
from rebalancer.execution.outcomes import Outcomes
from rebalancer.execution.outcomes import encode as encode_outcomes
from rebalancer.planning.explanation import SchedulingTable
from rebalancer.planning.plan import Move, NodeReport, Plan, encode
from rebalancer.reporting.html.chart import HEIGHT, WIDTH, Chart, LineChart, chart, line_chart
from rebalancer.reporting.html.embedded import embedded
from rebalancer.reporting.tables.agreement import figure
from rebalancer.reporting.tables.agreement import headline as agreement_headline
from rebalancer.reporting.tables.nodes import (
    NodeListing,
    figure_words,
    headline,
    known_loads,
    mean_p95_max,
    origin_words,
)
from rebalancer.reporting.tables.outcomes import (
    exit_words,
    measured_words,
    percent_words,
    seconds_after,
    state_words,
    summary_words,
)
from rebalancer.reporting.tables.outcomes import figure_words as measured_figure_words
from rebalancer.reporting.tables.plan import (
    cost_words,
    filled_words,
    gain_words,
    kept_by_reason,
    landing_words,
    peak,
    state_after,
    strategy_messages,
    verdict,
)
from rebalancer.reporting.words import amounts, minutes, plain, words
from rebalancer.simulation.report import Cycle, LoadSpread, Simulation

CHARTED = ("cpu", "memory")  # resources that every page shows
_PACKAGE = "rebalancer.reporting.html"
_MAX_MOVES = 50  # of a cycle
_MAX_NODES, _MAX_KEPT_OF_A_REASON, _MAX_SCORED = 200, 50, 8
_MAX_MISSES = 20
_UNKNOWN = float("nan")


def render_page(template: str, package: str = _PACKAGE, **values: Any) -> str:
    """The page that a template of a package makes of the values; it may build on those of this one."""
    environment = Environment(
        loader=ChoiceLoader([PackageLoader(name, ".") for name in (package, _PACKAGE)]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        plain=plain, words=_sentence, minutes=minutes, points=lambda figures: amounts(figures.items())
    )
    environment.globals.update(counted=counted, width=WIDTH, height=HEIGHT)
    return environment.get_template(template).render(values)


class Picture(str):
    """An SVG, which notebooks show."""

    def _repr_svg_(self) -> str:
        return self


def node_picture(nodes: Sequence[NodeReport], resource: str = "cpu") -> Picture | None:
    """The nodes by load, before and after a plan, as an SVG by itself; None where no load is known."""
    found = chart(nodes, resource)
    return Picture(render_page("picture.svg.jinja", chart=found)) if found else None


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
        charts=node_charts([replace(node, after=None) for node in listing.nodes]),  # as they are now
        chosen=f"{len(listing.nodes)} of {counted(len(all_nodes), 'node')}: {chosen_by}" if chosen_by else "",
        rows=rows,
        left_out=len(listing.nodes) - len(rows),
        resources=sorted({*CHARTED, *(name for node in rows for name in node.load)}),
        figure_words=figure_words,
    )


def html_report(
    plan: Plan, policy: str, tables: Mapping[str, SchedulingTable], outcomes: Outcomes | None = None
) -> str:
    """A plan, its policy without secrets, the scheduler's scores by pod uid, and what came of the plan."""
    said = verdict(plan) if outcomes is None or outcomes.dry_run else summary_words(outcomes)
    if outcomes is not None and not outcomes.dry_run and outcomes.outcomes:
        landed = sum(outcome.result.landed for outcome in outcomes.outcomes)
        said = f"{landed} of {counted(len(outcomes.outcomes), 'move')} landed; "
        said += measured_words(outcomes.measured) if outcomes.measured else summary_words(outcomes)
    hot = sorted((node for node in plan.nodes if node.hot), key=lambda node: (-peak(node), node.name))
    elements = [("plan", encode(plan)), ("policy", policy.encode())]
    if outcomes is not None:
        elements.append(("outcomes", encode_outcomes(outcomes)))
    return render_page(
        "report.html.jinja",
        plan=plan,
        policy="\n".join(plain(line) for line in policy.splitlines()),
        verdict=said[:1].upper() + said[1:],
        outcomes=outcomes,
        contents=[
            (anchor, title)
            for anchor, title, shown in (
                ("outcomes", "What happened", outcomes),
                ("measured", "Load as measured", outcomes and outcomes.measured),
                ("moves", "Moves", plan.moves),
                ("nodes", "Nodes by load", True),
                ("hot", "Hot nodes", hot),
                ("blocked", "What keeps load", plan.obstacles),
                ("warnings", "Warnings", plan.warnings or plan.neutral_plugins),
                ("kept", "Pods not moved", plan.kept),
                ("policy", "Policy", True),
            )
            if shown
        ],
        ended=f"{summary_words(outcomes)}; exit code {exit_words(outcomes)}" if outcomes else "",
        seconds_after=seconds_after,
        measured_words=measured_words,
        measured_figure_words=measured_figure_words,
        percent_words=percent_words,
        state_words=state_words,
        max_nodes=_MAX_NODES,
        charts=node_charts(plan.nodes),
        gains=gain_words(plan.benefit, "→") if plan.benefit and plan.moves else "",
        costs=cost_words(plan.benefit) if plan.benefit and plan.moves else "",
        strategies=strategy_messages(plan),
        hot=hot[:_MAX_NODES],
        more_hot=max(len(hot) - _MAX_NODES, 0),
        resources=CHARTED,
        landing_words=landing_words,
        filled_words=partial(filled_words, nodes={node.name: node for node in plan.nodes}),
        state_after=state_after,
        moves=[(move, tables.get(move.pod.uid)) for move in plan.moves],
        max_scored=_MAX_SCORED,
        likeliest=_likeliest,
        kept=kept_by_reason(plan),
        max_kept=_MAX_KEPT_OF_A_REASON,
        embedded=[(name, embedded(content)) for name, content in elements],
    )


def _likeliest(move: Move) -> str:
    if move.finished:
        return "removed"
    best = move.likeliest
    return f"{best.node} ({best.probability:.0%})" if best.node else "nowhere"


def agreement_page(found: Agreement) -> str:
    """The whole page: profiles, what would explain the misses, and the latest of them node by node."""
    share = f" ({found.share:.2%})" if found.share is not None else ""
    return render_page(
        "agreement.html.jinja",
        found=found,
        title=f"{agreement_headline(found.decisions, found.landed)}{share}",
        time=times.render,
        figure=figure,
        most=_MAX_MISSES,
    )


def simulation_page(simulation: Simulation) -> str:
    """The whole page."""
    cycles = len(simulation.runs[0].cycles) if simulation.runs else 0
    every = minutes(simulation.interval_seconds)
    return render_page(
        "simulation.html.jinja",
        simulation=simulation,
        title=f"Simulation: {counted(cycles, 'cycle')}, every {every}",
        runs=list(zip(_names(simulation), simulation.runs, strict=True)),
        charts=[drawn for drawn in _charts(simulation) if drawn is not None],
        most=_MAX_MOVES,
    )


def _names(simulation: Simulation) -> list[str]:
    counts = Counter(run.policy for run in simulation.runs)
    seen: Counter[str] = Counter()
    names = []
    for run in simulation.runs:
        seen[run.policy] += 1
        names.append(run.policy if counts[run.policy] == 1 else f"{run.policy} ({seen[run.policy]})")
    return names


def _charts(simulation: Simulation) -> list[LineChart | None]:
    runs = dict(zip(_names(simulation), simulation.runs, strict=True))

    def over_cycles(title: str, figure: Callable[[Cycle | LoadSpread], float]) -> LineChart | None:
        figures = {name: [*map(figure, run.cycles), figure(run.after)] for name, run in runs.items()}
        return line_chart(f"{title}, before each cycle and after the last", figures)

    return [
        over_cycles(
            "nodes over 80 % cpu or memory",
            lambda spread: _UNKNOWN if spread.over80 is None else float(spread.over80),
        ),
        over_cycles("highest cpu load of a node, percent", lambda spread: spread.peak.get("cpu", _UNKNOWN)),
        over_cycles(
            "standard deviation of the nodes' cpu load, points",
            lambda spread: spread.deviation.get("cpu", _UNKNOWN),
        ),
        line_chart(
            "evictions of each cycle",
            {name: [float(cycle.evictions) for cycle in run.cycles] for name, run in runs.items()},
        ),
    ]
