"""Simulations as pandas DataFrames, for notebooks and ``-o csv``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rebalancer.analysis import Columns, frame_of

if TYPE_CHECKING:
    from pandas import DataFrame

    from rebalancer_lab.simulation.report import Simulation


def cycles(simulation: Simulation) -> DataFrame:
    """One row per policy and cycle of a simulation: hot nodes, peaks, deviations, evictions, pods pending."""
    import pandas as pd  # noqa: PLC0415 - see frame_of

    now = pd.Timestamp(simulation.now)
    interval = simulation.interval_seconds
    columns: Columns = {
        "policy": lambda row: row[0].policy,
        "cycle": lambda row: row[1].cycle,
        "time": lambda row: now + pd.Timedelta(seconds=(row[1].cycle - 1) * interval),
        "hot": lambda row: row[1].hot,
        "over80": lambda row: row[1].over80,
        "peak": lambda row: row[1].peak,
        "deviation": lambda row: row[1].deviation,
        "evictions": lambda row: row[1].evictions,
        "pending": lambda row: row[1].pending,
        "stopped": lambda row: row[1].stopped,
    }
    return frame_of([(run, cycle) for run in simulation.runs for cycle in run.cycles], columns)
