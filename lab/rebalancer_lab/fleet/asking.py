"""Asks each cluster of a fleet for its plan, or follows all of them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import UNSET

from rebalancer.agreement.following import watch_agreement
from rebalancer.cli.output import Output, progress_bar
from rebalancer.counting import counted
from rebalancer.deadlines import StopRequest
from rebalancer.errors import InputError
from rebalancer.observe.plan_options import PlanOptions
from rebalancer.planning.eviction import why_protected
from rebalancer.planning.prepared import PreparedInputs
from rebalancer.planning.strategies.whole_nodes import most_emptied, pods_to_leave
from rebalancer.reporting.render import DOCUMENTS
from rebalancer.reporting.tables.text import Column
from rebalancer.reporting.words import plain, words
from rebalancer.run.plan import planner_of
from rebalancer.signals import stop_on_signal
from rebalancer_lab.fleet.clusters import Cluster, Gate, ask_each
from rebalancer_lab.fleet.rows import ClusterRow, View, agrees, failed_rows, number, show_rows, write_rows

MAX_FOLLOWED = 50  # each holds its objects and two watches


def _blocked_by(row: ClusterRow) -> str | tuple[str, str]:
    if row.error:
        return "not read", "red"
    return f"{row.held_by or 'the cluster'} {row.held_share:.0%}" if row.held_share else "-"


def _why_not(row: ClusterRow) -> str | tuple[str, str]:
    return ("not read", "red") if row.error else words(row.held_by)


def _hot_nodes_and_moves(rows: Sequence[ClusterRow]) -> str:
    hot = counted(sum(row.hot or 0 for row in rows), "hot node")
    return f"{hot} and {counted(sum(row.moves or 0 for row in rows), 'planned move')}"


def _as_computed(rows: Sequence[ClusterRow]) -> str:
    landed = sum(row.landed or 0 for row in rows)
    return f"{landed:,} of {counted(sum(row.decisions or 0 for row in rows), 'decision')} as computed"


def _figures(*names: str) -> dict[str, Callable[[ClusterRow], Any]]:
    return {name: operator.attrgetter(name) for name in names}


PLANS = View(
    columns=(
        Column("NODES", number(lambda row: row.nodes), right=True),
        Column("HOT", number(lambda row: row.hot), right=True),
        Column("MOVABLE", number(lambda row: row.movable), right=True),
        Column("EMPTIABLE", number(lambda row: row.emptiable), right=True),
        Column("MOVES", number(lambda row: row.moves), right=True),
        Column("MINOR", lambda row: plain(row.minor) or "-"),
        Column("AGREES", agrees, right=True),
        Column("BLOCKED BY", _blocked_by, sentence=True),
    ),
    figures=_figures(
        *("nodes", "pods", "hot", "movable", "emptiable", "moves", "held_by", "held_share", "minor"),
        *("decisions", "landed"),
    ),
    words=_hot_nodes_and_moves,
)
DECISIONS = View(
    columns=(
        Column("DECISIONS", number(lambda row: row.decisions), right=True),
        Column("AS COMPUTED", number(lambda row: row.landed), right=True),
        Column("AGREES", agrees, right=True),
        Column("WHY NOT", _why_not, sentence=True),
    ),
    figures=_figures("decisions", "landed", "held_by"),
    words=_as_computed,
)


def show_plans(fleet: tuple[Cluster, ...], output: Output) -> int:
    """Write a row for the plan of each cluster, with the whole plan where programs read it; the exit code."""
    whole = output.format in DOCUMENTS
    return show_rows(fleet, output, lambda name, options: [_planned_row(name, options, whole=whole)], PLANS)


def _planned_row(name: str, options: PlanOptions, *, whole: bool) -> ClusterRow:
    planner = planner_of(options)
    inputs = planner.inputs
    prepared = planner.prepared
    plan = planner.plan()
    held = plan.obstacles[0] if plan.obstacles else None
    measured = inputs.state.agreement if inputs.state else None
    return ClusterRow(
        cluster=name,
        policy=plan.policy,
        nodes=plan.node_count,
        pods=plan.pod_count,
        hot=plan.hot_count,
        movable=sum(1 for pod in prepared.bound_pods() if why_protected(prepared.eviction, pod) is None),
        emptiable=_emptiable(prepared),
        moves=len(plan.moves),
        held_by=held.setting if held else "",
        held_share=held.share if held else 0.0,
        minor=" ".join(scheduler.version for scheduler in inputs.schedulers if scheduler.acts_on),
        decisions=measured.decisions if measured else None,
        landed=measured.landed if measured else None,
        answer=plan if whole else UNSET,
    )


def _emptiable(prepared: PreparedInputs) -> int:
    """Nodes in use, less the fewest that hold all requests: no plan empties more."""
    return most_emptied(prepared.state, pods_to_leave(prepared.pods, len(prepared.nodes)) > 0)


def show_agreement(fleet: Sequence[Cluster], output: Output, seconds: float, decisions: int | None) -> int:
    """Follow all clusters at once, as ``watch_agreement`` does one; write what was found of each in a row."""
    gate = Gate()
    stop = StopRequest()

    def row(name: str, options: PlanOptions) -> ClusterRow:
        agreement = watch_agreement(options, seconds, decisions, lambda *_: None, gate.open, stop)
        why = agreement.suspects[0].sentence if agreement.suspects else ""
        return ClusterRow(
            cluster=name,
            decisions=agreement.decisions,
            landed=agreement.landed,
            held_by=why,
            answer=agreement,
        )

    if len(fleet) > MAX_FOLLOWED:
        raise InputError(f"{len(fleet)} contexts are more than {MAX_FOLLOWED}", hint="name fewer at once")
    with stop_on_signal(stop), progress_bar("clusters", len(fleet)) as advance:
        rows = list(ask_each(fleet, row, lambda *of: failed_rows(*of)[0], advance, len(fleet), gate))
    return write_rows(rows, output, DECISIONS)
