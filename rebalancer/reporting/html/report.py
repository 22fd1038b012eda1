"""Renders a plan, and the run that carried it out, as one HTML file.

The page needs nothing else: no network, no script; it is light or dark as its reader is, and printable.

"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rebalancer.execution.outcomes import Outcome, Outcomes
from rebalancer.execution.outcomes import encode as encode_outcomes
from rebalancer.planning.explanation import SchedulingTable
from rebalancer.planning.plan import Move, NodeReport, Plan
from rebalancer.reporting.html.embedded import embedded, embedded_plan
from rebalancer.reporting.html.pages import CHARTED, node_charts, render_page
from rebalancer.reporting.tables.outcomes import exit_words, summary_words
from rebalancer.reporting.tables.plan import cost_words, gain_words, landing_words, state_after
from rebalancer.reporting.words import counted, plain

_MAX_NODES, _MAX_KEPT_OF_A_REASON, _MAX_SCORED = 200, 50, 8


@dataclass(frozen=True, slots=True)
class ReportInputs:
    """A plan, its policy as YAML without secrets, and by pod uid what the scheduler's cycle looks like."""

    plan: Plan
    policy: str
    tables: Mapping[str, SchedulingTable]
    outcomes: Outcomes | None = None  # of the run that carried the plan out


def html_report(inputs: ReportInputs) -> str:
    """The whole page."""
    plan = inputs.plan
    hot = sorted((node for node in plan.nodes if node.hot), key=lambda node: (-_peak(node), node.name))
    return render_page(
        "report.html.jinja",
        plan=plan,
        policy="\n".join(plain(line) for line in inputs.policy.splitlines()),
        verdict=_verdict(plan),
        outcomes=inputs.outcomes,
        ended=_ended(inputs.outcomes),
        results=_results(inputs.outcomes),
        charts=node_charts(plan.nodes),
        gains=gain_words(plan.benefit, "→") if plan.benefit and plan.moves else "",
        costs=cost_words(plan.benefit) if plan.benefit and plan.moves else "",
        hot=hot[:_MAX_NODES],
        more_hot=max(len(hot) - _MAX_NODES, 0),
        resources=CHARTED,
        landing_words=landing_words,
        state_after=state_after,
        moves=[(move, _scores(inputs.tables.get(move.pod.uid))) for move in plan.moves],
        likeliest=_likeliest,
        kept=_kept(plan),
        embedded=_embedded(inputs),
    )


def _embedded(inputs: ReportInputs) -> list[tuple[str, str]]:
    """What is inside the page as data, by the name of its element."""
    found = [("plan", embedded_plan(inputs.plan)), ("policy", embedded(inputs.policy.encode()))]
    if inputs.outcomes is not None:
        found.append(("outcomes", embedded(encode_outcomes(inputs.outcomes))))
    return found


def _ended(outcomes: Outcomes | None) -> str:
    return "" if outcomes is None else f"{summary_words(outcomes)}; exit code {exit_words(outcomes)}"


def _results(outcomes: Outcomes | None) -> list[tuple[Outcome, bool, list[str]]]:
    """Each outcome, whether it is a good one, and the seconds until its replacement was bound and ready."""
    return [
        (
            outcome,
            outcome.result.is_good,
            [_seconds(outcome, at) for at in _moments(outcome)],
        )
        for outcome in (outcomes.outcomes if outcomes else ())
    ]


def _moments(outcome: Outcome) -> tuple[float | None, float | None]:
    return outcome.bound_at, outcome.ready_at


def _seconds(outcome: Outcome, moment: float | None) -> str:
    if moment is None or outcome.evicted_at is None:
        return ""
    return f"{max(moment - outcome.evicted_at, 0.0):.0f}"


def _verdict(plan: Plan) -> str:
    if plan.moves:
        cooled = sum(1 for node in plan.nodes if node.hot and node.after and not node.after.hot)
        waves = len({move.wave for move in plan.moves})
        return (
            f"Evict {counted(len(plan.moves), 'pod')} in {counted(waves, 'wave')}; "
            f"no longer hot: {cooled} of {plan.hot_count}"
        )
    if plan.hot_count:
        return f"Evict nothing: {counted(plan.hot_count, 'hot node')} cannot be cooled"
    return "Nothing to do: no node is hot"


def _peak(node: NodeReport) -> float:
    return max(node.load.values(), default=0.0)


def _likeliest(move: Move) -> str:
    best = max(move.landings, key=lambda landing: landing.probability, default=None)
    return f"{best.node} ({best.probability:.0%})" if best else "nowhere"


@dataclass(frozen=True, slots=True)
class Scores:
    """The best nodes of a cycle and the plugins by which they differ."""

    plugins: tuple[str, ...]
    rows: tuple[tuple[str, int, str, tuple[int, ...], str], ...]  # node, total, chance, scores, objection
    feasible: int


def _scores(table: SchedulingTable | None) -> Scores | None:
    if table is None or not table.nodes:
        return None
    nodes = table.nodes[:_MAX_SCORED]
    plugins = tuple(
        name for name in table.nodes[0].scores if len({node.scores[name] for node in table.nodes}) > 1
    )
    rows = tuple(
        (
            node.node,
            node.total,
            f"{node.probability:.1%}" if node.probability else "",
            tuple(node.scores[name] for name in plugins),
            node.unacceptable,
        )
        for node in nodes
    )
    return Scores(plugins, rows, table.feasible)


def _kept(plan: Plan) -> Sequence[tuple[str, int, list[tuple[str, str, str]]]]:
    """By reason, the most frequent first: how many pods it keeps, and the first of them."""
    counts = Counter(item.reason for item in plan.kept)
    order = sorted(counts, key=lambda code: (-counts[code], code))
    return [
        (
            code,
            counts[code],
            [(item.pod.full_name, item.node, item.because) for item in plan.kept if item.reason == code][
                :_MAX_KEPT_OF_A_REASON
            ],
        )
        for code in order
    ]
