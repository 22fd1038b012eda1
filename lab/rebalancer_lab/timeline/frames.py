"""A replay as pandas DataFrames: moment by moment, move by move, hour by hour; for notebooks, CSV and tables.

>>> from rebalancer_lab.timeline import frames
>>> frames.hourly(replay).unstack("policy").hot_node_minutes.plot()
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pandas as pd

if TYPE_CHECKING:
    from rebalancer_lab.timeline.replay import Measures, Replay

_RESOURCES = ("cpu", "memory")


def policies(replay: Replay) -> pd.DataFrame:
    """One row per policy: all its measures over the whole replay; peaks in percent."""
    names = ["policy", "hot_node_minutes", "excess_minutes", "evictions", "disruption_cost", "moved_twice"]
    names += ["pending_minutes", "refused_landings", "unexpected", "refusals"]
    return pd.DataFrame(
        {
            **{name: getattr(run, name) for name in names},
            **{f"peak_{name}": run.peak.get(name, float("nan")) for name in _RESOURCES},
        }
        for run in replay.runs
    )


def moments(replay: Replay) -> pd.DataFrame:
    """One row per policy and moment: what was hot, and what was done; times are timestamps in UTC.

    ``again`` are evictions of pods that this policy had moved before.
    """
    return pd.DataFrame(
        {
            "policy": run.policy,
            "time": pd.Timestamp(item.at),
            "minutes": item.minutes,
            "hot": item.hot,
            **{f"peak_{name}": item.peak.get(name, float("nan")) for name in _RESOURCES},
            "excess": item.excess,
            "pending": item.pending,
            "evictions": len(item.moves),
            "cost": sum(move.cost for move in item.moves),
            "again": again,
            "refused": sum(bool(move.refused) for move in item.moves),
            "stopped": item.stopped,
        }
        for run in replay.runs
        for item, again in zip(run.moments, _again(run), strict=True)
    )


def _again(run: Measures) -> Iterator[int]:
    """At each moment, how many evictions were of pods that had been moved."""
    moved = set[str]()
    for item in run.moments:
        yield sum(move.pod in moved for move in item.moves)
        moved.update(move.pod for move in item.moves)


def moves(replay: Replay) -> pd.DataFrame:
    """One row per policy and eviction: which pod, from where to where, what it cost."""
    return pd.DataFrame(
        {
            "policy": run.policy,
            "time": pd.Timestamp(item.at),
            "pod": move.pod,
            "workload": move.workload,
            "from": move.from_node,
            "to": move.node,
            "result": move.result,
            "cost": move.cost,
            "refused": move.refused,
        }
        for run in replay.runs
        for item in run.moments
        for move in item.moves
    )


def hourly(replay: Replay, every: str = "1h") -> pd.DataFrame:
    """One row per policy and hour, or as ``every`` says: the sums of its moments, and the peaks."""
    frame = moments(replay)
    frame["hot_node_minutes"] = frame["hot"] * frame["minutes"]
    frame["excess_minutes"] = frame["excess"] * frame["minutes"]
    frame["pending_minutes"] = frame["pending"] * frame["minutes"]
    grouped = frame.groupby(["policy", pd.Grouper(key="time", freq=every)], sort=False)
    found: pd.DataFrame = grouped.agg(
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
    return found
