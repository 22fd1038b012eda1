"""A replay as pandas DataFrames: moment by moment, move by move, hour by hour; for notebooks, CSV and tables.

>>> from rebalancer_lab import frames
>>> frames.hourly(replay).unstack("policy").hot_node_minutes.plot()
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

if TYPE_CHECKING:
    from rebalancer_lab.replay import Replay

_RESOURCES = ("cpu", "memory")


def moments(replay: Replay) -> pd.DataFrame:
    """One row per policy and moment: what was hot, and what was done; times are timestamps in UTC."""
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
            "refused": sum(bool(move.refused) for move in item.moves),
            "stopped": item.stopped,
        }
        for run in replay.runs
        for item in run.moments
    )


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
    """One row per policy and hour, or as ``every`` says: hot and excess minutes, peaks, evictions."""
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
        cost=("cost", "sum"),
    )
    return found
