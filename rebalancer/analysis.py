"""Plans and outcomes as pandas DataFrames, for notebooks, spreadsheets and ``-o csv``.

    >>> from rebalancer import analysis
    >>> from rebalancer.planning.plan import decode
    >>> plan = decode(Path("plan.json").read_bytes())      # rebalancer plan -o json > plan.json
    >>> analysis.moves(plan).groupby("namespace").gain_cpu.sum()

One function for each kind of row. Loads are percent of the node's allocatable, gains are points of it, times
are timestamps in UTC; what is not known is NaN or NaT, never 0.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pandas import DataFrame

    from rebalancer.execution.outcomes import Outcomes
    from rebalancer.planning.plan import NodeReport, Plan

Columns = Mapping[str, Callable[[Any], Any]]  # by name: what a row has there
_RESOURCES = ("cpu", "memory")
_BY_RESOURCE = frozenset(
    {"load", "after", "gain", "peak", "deviation", "allocatable", "requests", "limits"}
)  # figures: a column for each resource
_TIMES = ("evicted_at", "bound_at", "ready_at")  # Unix seconds


def nodes(reports: Sequence[NodeReport]) -> DataFrame:
    """One row per node, by name: ``hot``, ``score``, ``load_cpu``, ``after_cpu``… and the ``reason``."""
    columns: dict[str, Callable[[Any], Any]] = {
        "node": lambda report: report.name,
        "hot": lambda report: report.hot,
        "hot_after": lambda report: report.after.hot if report.after else None,
        "score": lambda report: report.score,
        "load": lambda report: report.load,
        "after": lambda report: report.after.load if report.after else {},
        "reason": lambda report: "; ".join(report.because),
    }
    if reports and all(hasattr(report, "allocatable") for report in reports):  # as `rebalancer nodes` lists
        columns |= {name: operator.attrgetter(name) for name in ("allocatable", "requests", "limits")}
        for key in dict.fromkeys(key for report in reports for key in getattr(report, "labels", ())):
            columns[f"label_{key}"] = partial(_label, key=key)
    return frame_of(reports, columns)


def _label(report: Any, key: str) -> str | None:
    label: str | None = report.labels.get(key)
    return label


def moves(plan: Plan) -> DataFrame:
    """One row per move, in the plan's order: pod, nodes, ``likeliest`` landing, its ``chance``, the gains."""
    return frame_of(plan.moves, _MOVE | {"reason": lambda move: move.because})


def landings(plan: Plan) -> DataFrame:
    """One row per move and node that its replacement may land on, with the ``chance`` of that."""
    columns: Columns = {
        "wave": lambda row: row[0].wave,
        "namespace": lambda row: row[0].pod.namespace,
        "pod": lambda row: row[0].pod.name,
        "node": lambda row: row[1].node,
        "chance": lambda row: row[1].probability,
    }
    return frame_of([(move, landing) for move in plan.moves for landing in move.landings], columns)


def kept(plan: Plan) -> DataFrame:
    """One row per pod that stays on a hot node: ``code``, ``setting`` of the policy and ``reason``."""
    columns: Columns = {
        "namespace": lambda row: row.pod.namespace,
        "pod": lambda row: row.pod.name,
        "workload": lambda row: row.pod.workload,
        "node": lambda row: row.node,
        "code": lambda row: row.reason,
        "setting": lambda row: row.setting,
        "reason": lambda row: row.because,
    }
    return frame_of(plan.kept, columns)


def outcomes(run: Outcomes) -> DataFrame:
    """One row per move of a run: what was predicted, the ``result``, and when it was evicted and ready."""
    of_move = {name: lambda outcome, of=value: of(outcome.move) for name, value in _MOVE.items()}
    columns: Columns = {
        **of_move,
        "result": lambda outcome: str(outcome.result),
        "node": lambda outcome: outcome.node,
        "replacement": lambda outcome: outcome.replacement,
        "evicted_at": lambda outcome: outcome.evicted_at,
        "bound_at": lambda outcome: outcome.bound_at,
        "ready_at": lambda outcome: outcome.ready_at,
        "reason": lambda outcome: outcome.because,
    }
    return frame_of(run.outcomes, columns)


def journal(lines: Sequence[Mapping[str, Any]]) -> DataFrame:
    """One row per line of a journal, the oldest first: what happened to which pod, and why."""
    keys = ("time", "run", "event", "wave", "pod", "from", "node", "result", "because", "dryRun")
    return frame_of(lines, {key: operator.methodcaller("get", key) for key in keys})


_MOVE: dict[str, Callable[[Any], Any]] = {
    "wave": lambda move: move.wave,
    "namespace": lambda move: move.pod.namespace,
    "pod": lambda move: move.pod.name,
    "workload": lambda move: move.pod.workload,
    "from": lambda move: move.from_node,
    "likeliest": lambda move: move.likeliest.node,
    "chance": lambda move: move.likeliest.probability,
    "landings": lambda move: len(move.landings),
    "gain": lambda move: move.gain,
}


def frame_of(rows: Sequence[Any], columns: Columns) -> DataFrame:
    """Rows as a frame; a column of figures by resource becomes ``column_cpu``, ``column_memory``…"""
    import pandas as pd  # noqa: PLC0415 - slow to import, and commands that print tables do without

    data: dict[str, Any] = {}
    for column, value in columns.items():
        values = [value(row) for row in rows]
        if column not in _BY_RESOURCE:
            numbers = {type(value) for value in values} == {int, type(None)}  # else they became floats
            data[column] = pd.array(values, dtype="Int64") if numbers else values
            continue
        resources = {resource for figures in values for resource in figures}
        for resource in [*_RESOURCES, *sorted(resources - set(_RESOURCES))]:
            data[f"{column}_{resource}"] = [figures.get(resource, float("nan")) for figures in values]
    for column in set(_TIMES) & data.keys():
        data[column] = pd.to_datetime(pd.Series(data[column], dtype="float64"), unit="s", utc=True)
    return pd.DataFrame(data)
