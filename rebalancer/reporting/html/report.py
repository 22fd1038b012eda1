"""Renders a plan, and the run that carried it out, as one HTML file."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import msgspec

from rebalancer.execution.outcomes import Outcome, Outcomes
from rebalancer.execution.outcomes import encode as encode_outcomes
from rebalancer.planning.explanation import SchedulingTable
from rebalancer.planning.plan import Move, Plan, encode
from rebalancer.reporting.html.embedded import embedded
from rebalancer.reporting.html.pages import CHARTED, node_charts, render_page
from rebalancer.reporting.tables.outcomes import exit_words, seconds_after, summary_words
from rebalancer.reporting.tables.plan import (
    cost_words,
    gain_words,
    landing_words,
    peak,
    state_after,
    strategy_messages,
    verdict,
)
from rebalancer.reporting.words import plain

_MAX_NODES, _MAX_KEPT_OF_A_REASON, _MAX_SCORED = 200, 50, 8


class ReportInputs(msgspec.Struct, frozen=True):
    """A plan, its policy as YAML without secrets, and by pod uid what the scheduler's cycle looks like."""

    plan: Plan
    policy: str
    tables: Mapping[str, SchedulingTable]
    outcomes: Outcomes | None = None  # of the run that carried the plan out


def html_report(inputs: ReportInputs) -> str:
    """The whole page."""
    plan = inputs.plan
    said = verdict(plan)
    hot = sorted((node for node in plan.nodes if node.hot), key=lambda node: (-peak(node), node.name))
    return render_page(
        "report.html.jinja",
        plan=plan,
        policy="\n".join(plain(line) for line in inputs.policy.splitlines()),
        verdict=said[:1].upper() + said[1:],
        outcomes=inputs.outcomes,
        ended=_ended(inputs.outcomes),
        results=_results(inputs.outcomes),
        charts=node_charts(plan.nodes),
        gains=gain_words(plan.benefit, "→") if plan.benefit and plan.moves else "",
        costs=cost_words(plan.benefit) if plan.benefit and plan.moves else "",
        strategies=strategy_messages(plan),
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
    elements = [("plan", embedded(encode(inputs.plan))), ("policy", embedded(inputs.policy.encode()))]
    if inputs.outcomes is not None:
        elements.append(("outcomes", embedded(encode_outcomes(inputs.outcomes))))
    return elements


def _ended(outcomes: Outcomes | None) -> str:
    return "" if outcomes is None else f"{summary_words(outcomes)}; exit code {exit_words(outcomes)}"


def _results(outcomes: Outcomes | None) -> list[tuple[Outcome, bool, list[str]]]:
    """Each outcome, whether it is a good one, and the seconds until its replacement was bound and ready."""
    return [
        (
            outcome,
            outcome.result.landed and not outcome.result.is_bad,
            [seconds_after(outcome, at) for at in (outcome.bound_at, outcome.ready_at)],
        )
        for outcome in (outcomes.outcomes if outcomes else ())
    ]


def _likeliest(move: Move) -> str:
    if move.finished:
        return "removed"
    best = move.likeliest
    return f"{best.node} ({best.probability:.0%})" if best.node else "nowhere"


class Scores(msgspec.Struct, frozen=True):
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
    by_reason: defaultdict[str, list[tuple[str, str, str]]] = defaultdict(list)
    for item in plan.kept:
        by_reason[item.reason].append((item.pod.full_name, item.node, item.because))
    order = sorted(by_reason, key=lambda code: (-len(by_reason[code]), code))
    return [(code, len(by_reason[code]), by_reason[code][:_MAX_KEPT_OF_A_REASON]) for code in order]
