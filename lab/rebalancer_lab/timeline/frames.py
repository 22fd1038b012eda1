"""A replay as pandas DataFrames: moment by moment, move by move, hour by hour; for notebooks, CSV and tables.

>>> from rebalancer_lab.timeline import frames
>>> frames.hourly(replay).unstack("policy").hot_node_minutes.plot()
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pandas as pd

if TYPE_CHECKING:
    from rebalancer_lab.timeline.replay import Measures, Replay, ReplayedMoment

_RESOURCES = ("cpu", "memory")


def policies(replay: Replay) -> pd.DataFrame:
    """One row per policy: all its measures over the whole replay; peaks in percent."""
    names = ["policy", "hot_node_minutes", "excess_minutes", "evictions", "disruption_cost", "moved_twice"]
    names += ["pending_minutes", "refused_landings", "unexpected", "refusals"]

    def row(run: Measures) -> dict[str, Any]:
        return {name: getattr(run, name) for name in names} | _peaks(run.peak)

    return pd.DataFrame(row(run) for run in replay.runs)


def _peaks(peak: Mapping[str, float]) -> dict[str, float]:
    """A column for the peak of each resource; NaN where it is not known."""
    return {f"peak_{name}": peak.get(name, float("nan")) for name in _RESOURCES}


def moments(replay: Replay) -> pd.DataFrame:
    """One row per policy and moment: what was hot, and what was done; times are timestamps in UTC.

    ``again`` are evictions of pods that this policy had moved before.
    """

    def row(policy: str, moment: ReplayedMoment, again: int) -> dict[str, Any]:
        return {
            "policy": policy,
            "time": pd.Timestamp(moment.at),
            "minutes": moment.minutes,
            "hot": moment.hot,
            **_peaks(moment.peak),
            "excess": moment.excess,
            "pending": moment.pending,
            "evictions": len(moment.moves),
            "cost": sum(move.cost for move in moment.moves),
            "again": again,
            "refused": sum(bool(move.refused) for move in moment.moves),
            "stopped": moment.stopped,
        }

    return pd.DataFrame(
        row(run.policy, moment, again)
        for run in replay.runs
        for moment, again in zip(run.moments, _again(run), strict=True)
    )


def _again(run: Measures) -> Iterator[int]:
    """At each moment, how many evictions were of pods that had been moved."""
    moved = set[str]()
    for moment in run.moments:
        yield sum(move.pod in moved for move in moment.moves)
        moved.update(move.pod for move in moment.moves)


def moves(replay: Replay) -> pd.DataFrame:
    """One row per policy and eviction: which pod, from where to where, what it cost."""
    return pd.DataFrame(
        {
            "policy": run.policy,
            "time": pd.Timestamp(moment.at),
            "pod": move.pod,
            "workload": move.workload,
            "from": move.from_node,
            "to": move.node,
            "result": move.result,
            "cost": move.cost,
            "refused": move.refused,
        }
        for run in replay.runs
        for moment in run.moments
        for move in moment.moves
    )


def hourly(replay: Replay, every: str = "1h") -> pd.DataFrame:
    """One row per policy and hour, or as ``every`` says: the sums of its moments, and the peaks."""
    frame = moments(replay)
    frame["hot_node_minutes"] = frame["hot"] * frame["minutes"]
    frame["excess_minutes"] = frame["excess"] * frame["minutes"]
    frame["pending_minutes"] = frame["pending"] * frame["minutes"]
    grouped = frame.groupby(["policy", pd.Grouper(key="time", freq=every)], sort=False)
    sums: pd.DataFrame = grouped.agg(
        hot_node_minutes=("hot_node_minutes", "sum"),
        excess_minutes=("excess_minutes", "sum"),
        pending_minutes=("pending_minutes", "sum"),
        peak_cpu=("peak_cpu", "max"),
        peak_memory=("peak_memory", "max"),
        evictions=("evictions", "sum"),
        again=("again", "sum"),
        cost=("cost", "sum"),
        refused=("refused", "sum"),
    )
    return sums
