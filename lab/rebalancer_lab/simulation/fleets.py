"""Simulates each cluster of a fleet."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rebalancer.cli.output import Output
from rebalancer.observe.plan_options import PlanOptions
from rebalancer.policy.policy_file import load_policy
from rebalancer.run.plan import inputs_by_policy
from rebalancer_lab.fleet.fleet import ClusterRow, show_rows
from rebalancer_lab.fleet.options import Cluster
from rebalancer_lab.simulation.cycles import SimulationSettings, simulate


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

    return show_rows(fleet, output, rows_of)
