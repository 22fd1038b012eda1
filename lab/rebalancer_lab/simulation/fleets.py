"""Simulates each cluster of a fleet."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rebalancer.cli.output import Output
from rebalancer.counting import counted
from rebalancer.observe.plan_options import PlanOptions
from rebalancer.policy.policy_file import load_policy
from rebalancer.reporting.tables.text import Column
from rebalancer.reporting.words import words
from rebalancer.run.plan import inputs_by_policy
from rebalancer_lab.fleet.clusters import Cluster
from rebalancer_lab.fleet.rows import ClusterRow, View, number, show_rows
from rebalancer_lab.simulation.cycles import SimulationSettings, simulate


def _evictions(rows: Sequence[ClusterRow]) -> str:
    return counted(sum(row.moves or 0 for row in rows), "eviction")


def _policy(row: ClusterRow) -> str | tuple[str, str]:
    return ("not read", "red") if row.error else words(row.policy)


SIMULATIONS = View(
    columns=(
        Column("POLICY", _policy),
        Column("HOT", number(lambda row: row.simulated.cycles[0].hot), right=True),
        Column("AFTER", number(lambda row: row.simulated.after.hot), right=True),
        Column("PEAK CPU", number(lambda row: row.simulated.cycles[0].peak.get("cpu"), ".0f"), right=True),
        Column("AFTER", number(lambda row: row.simulated.after.peak.get("cpu"), ".0f"), right=True),
        Column("EVICTIONS", number(lambda row: row.moves), right=True),
        Column("AGAIN", number(lambda row: row.simulated.again), right=True),
    ),
    figures={
        "hot": lambda row: row.hot,
        "hot_after": lambda row: row.simulated.after.hot,
        "peak_cpu": lambda row: row.simulated.cycles[0].peak.get("cpu"),
        "peak_cpu_after": lambda row: row.simulated.after.peak.get("cpu"),
        "moves": lambda row: row.moves,
        "again": lambda row: row.simulated.again,
    },
    words=_evictions,
)


def show_simulations(
    fleet: tuple[Cluster, ...], output: Output, policies: Sequence[Path], settings: SimulationSettings
) -> int:
    """Write a row for each cluster and policy, as ``show_rows``."""
    for path in policies:  # a mistake in one of them is one error, and not one of each cluster
        load_policy(path)

    def rows_of(name: str, options: PlanOptions) -> list[ClusterRow]:
        runs = simulate(inputs_by_policy(options, policies), settings).runs
        return [
            ClusterRow(
                cluster=name, policy=run.policy, hot=run.cycles[0].hot, moves=run.evictions, simulated=run
            )
            for run in runs
        ]

    return show_rows(fleet, output, rows_of, SIMULATIONS)
