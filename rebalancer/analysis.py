"""Plans, outcomes and simulations as pandas DataFrames, for notebooks, spreadsheets and ``-o csv``.

    >>> from rebalancer import analysis
    >>> from rebalancer.planning.plan import decode
    >>> plan = decode(Path("plan.json").read_bytes())      # rebalancer plan -o json > plan.json
    >>> analysis.moves(plan).groupby("namespace").gain_cpu.sum()

One function for each kind of row. Loads are percent of the node's allocatable, gains are points of it, times
are timestamps in UTC; what is not known is NaN or NaT, never 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

if TYPE_CHECKING:
    from rebalancer.execution.outcomes import Outcomes
    from rebalancer.planning.plan import Move, NodeReport, Plan
    from rebalancer.simulation.report import Simulation

_RESOURCES = ("cpu", "memory")


def nodes(reports: Sequence[NodeReport]) -> pd.DataFrame:
    """One row per node, by name: ``hot``, ``score``, ``load_cpu``, ``after_cpu``… and the ``reason``."""
    rows = [
        {
            "node": report.name,
            "hot": report.hot,
            "hot_after": report.after.hot if report.after else None,
            "score": report.score,
            "load": report.load,
            "after": report.after.load if report.after else {},
            "reason": "; ".join(report.because),
        }
        for report in reports
    ]
    return _frame(rows, ("node", "hot", "hot_after", "score", "load", "after", "reason"), ("load", "after"))


def moves(plan: Plan) -> pd.DataFrame:
    """One row per move, in the plan's order: pod, nodes, ``likeliest`` landing, its ``chance``, the gains."""
    columns = (*_MOVE, "gain", "reason")
    return _frame([_move(move) | {"reason": move.because} for move in plan.moves], columns, ("gain",))


def landings(plan: Plan) -> pd.DataFrame:
    """One row per move and node that its replacement may land on, with the ``chance`` of that."""
    rows = [
        {
            "wave": move.wave,
            "namespace": move.pod.namespace,
            "pod": move.pod.name,
            "node": landing.node,
            "chance": landing.probability,
        }
        for move in plan.moves
        for landing in move.landings
    ]
    return _frame(rows, ("wave", "namespace", "pod", "node", "chance"))


def kept(plan: Plan) -> pd.DataFrame:
    """One row per pod that stays on a hot node, with the ``code`` and the ``reason``."""
    rows = [
        {
            "namespace": item.pod.namespace,
            "pod": item.pod.name,
            "workload": item.pod.workload,
            "node": item.node,
            "code": item.reason,
            "reason": item.because,
        }
        for item in plan.kept
    ]
    return _frame(rows, ("namespace", "pod", "workload", "node", "code", "reason"))


def outcomes(run: Outcomes) -> pd.DataFrame:
    """One row per move of a run: what was predicted, the ``result``, and when it was evicted and ready."""
    rows = [
        _move(outcome.move)
        | {
            "result": str(outcome.result),
            "node": outcome.node,
            "replacement": outcome.replacement,
            "evicted_at": outcome.evicted_at,
            "bound_at": outcome.bound_at,
            "ready_at": outcome.ready_at,
            "reason": outcome.because,
        }
        for outcome in run.outcomes
    ]
    times = ("evicted_at", "bound_at", "ready_at")
    frame = _frame(rows, (*_MOVE, "gain", "result", "node", "replacement", *times, "reason"), ("gain",))
    for column in times:
        frame[column] = pd.to_datetime(frame[column].astype("float64"), unit="s", utc=True)
    return frame


def cycles(simulation: Simulation) -> pd.DataFrame:
    """One row per policy and cycle of a simulation: hot nodes, peaks, deviations, evictions, pods pending."""
    rows = [
        {
            "policy": run.policy,
            "cycle": cycle.cycle,
            "time": pd.Timestamp(simulation.now)
            + pd.Timedelta(seconds=(cycle.cycle - 1) * simulation.interval_seconds),
            "hot": cycle.hot,
            "peak": cycle.peak,
            "deviation": cycle.deviation,
            "evictions": cycle.evictions,
            "pending": cycle.pending,
            "stopped": cycle.stopped,
        }
        for run in simulation.runs
        for cycle in run.cycles
    ]
    columns = ("policy", "cycle", "time", "hot", "peak", "deviation", "evictions", "pending", "stopped")
    return _frame(rows, columns, ("peak", "deviation"))


_MOVE = ("wave", "namespace", "pod", "workload", "from", "likeliest", "chance", "landings")


def _move(move: Move) -> dict[str, Any]:
    likeliest = max(move.landings, key=lambda landing: landing.probability, default=None)
    return {
        "wave": move.wave,
        "namespace": move.pod.namespace,
        "pod": move.pod.name,
        "workload": move.pod.workload,
        "from": move.from_node,
        "likeliest": likeliest.node if likeliest else "",
        "chance": likeliest.probability if likeliest else 0.0,
        "landings": len(move.landings),
        "gain": move.gain,
    }


def _frame(
    rows: Sequence[Mapping[str, Any]], columns: Iterable[str], by_resource: Iterable[str] = ()
) -> pd.DataFrame:
    """Rows as a frame; a column of figures by resource becomes ``column_cpu``, ``column_memory``…"""
    split = set(by_resource)
    names: list[str] = []
    data: dict[str, list[Any]] = {}
    for column in columns:
        if column not in split:
            names.append(column)
            data[column] = [row[column] for row in rows]
            continue
        resources = {resource for row in rows for resource in row[column]}
        for resource in [*_RESOURCES, *sorted(resources - set(_RESOURCES))]:
            names.append(f"{column}_{resource}")
            data[names[-1]] = [row[column].get(resource, float("nan")) for row in rows]
    return pd.DataFrame(data, columns=names)
