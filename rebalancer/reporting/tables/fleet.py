"""A fleet: one row for each cluster, with what holds it back, or why nothing is known of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import UNSET, UnsetType
from rich.text import Text

from rebalancer.planning.plan import API_VERSION, Value
from rebalancer.reporting.tables.text import Column, Lines, Style, write_table
from rebalancer.reporting.words import counted, plain, words
from rebalancer.simulation.report import PolicyRun, Simulation

_MAX_CLUSTERS, _MAX_ERRORS = 40, 10


class ClusterRow(Value, frozen=True):
    """One cluster of a fleet."""

    cluster: str
    policy: str = ""
    nodes: int = 0
    pods: int = 0
    hot: int = 0  # nodes, before the plan
    movable: int = 0  # pods that no rule protects
    emptiable: int = 0  # nodes in use that could be empty at most, if requests alone decided
    moves: int = 0  # of the plan; of a simulation its evictions
    held_by: str = ""  # the setting that keeps most of the load on hot nodes
    held_share: float = 0.0  # 0..1 of the load that could leave
    minor: str = ""  # of the scheduler
    error: str = ""  # why nothing is known of the cluster
    exit_code: int = 0  # that the command would leave with for this cluster alone
    simulated: PolicyRun | UnsetType = UNSET  # the whole course of a policy
    answer: Any = UNSET  # what the command says of this cluster alone, where a program reads it


class Fleet(Value, frozen=True):
    """All clusters, in the order of the command line or of their names."""

    clusters: tuple[ClusterRow, ...]
    failed: int
    exit_code: int
    api_version: str = API_VERSION
    kind: str = "Fleet"


def simulated_rows(name: str, simulation: Simulation) -> list[ClusterRow]:
    """A row for each policy."""
    return [
        ClusterRow(cluster=name, policy=run.policy, hot=run.cycles[0].hot, moves=run.evictions, simulated=run)
        for run in simulation.runs
    ]


def fleet_table(fleet: Fleet, style: Style = Style()) -> Text:
    """The clusters as text, a line each, and those that could not be read below them with the reason."""
    lines, rows = Lines(style), fleet.clusters
    read = [row for row in rows if not row.error]
    if not style.no_headers:
        failed = f", {fleet.failed} of them not read" if fleet.failed else ""
        clusters = counted(len({row.cluster for row in rows}), "cluster")
        simulated = any(row.simulated is not UNSET for row in read)
        done = counted(sum(row.moves for row in read), "eviction" if simulated else "planned move")
        hot = "" if simulated else f"{counted(sum(row.hot for row in read), 'hot node')} and "
        lines.add((f"{clusters}{failed}: {hot}{done}", "bold"))
    columns = [Column("CLUSTER", lambda row: (plain(row.cluster), "bold" if row.hot else ""))]
    columns += _SIMULATED if any(row.simulated is not UNSET for row in read) else _PLANNED
    write_table(lines, columns, rows, _MAX_CLUSTERS, "" if style.no_headers else "cluster")
    if not style.no_headers:
        errors = [f"{row.cluster}: {row.error}" for row in rows if row.error]
        lines.listed("NOT READ", errors, "red", most=_MAX_ERRORS, noun="cluster")
    return lines.text


def _number(of: Callable[[ClusterRow], float]) -> Callable[[ClusterRow], str]:
    return lambda row: "-" if row.error else f"{of(row):g}"


def _held(row: ClusterRow) -> str | tuple[str, str]:
    if row.error:
        return "not read", "red"
    return f"{row.held_by or 'the cluster'} {row.held_share:.0%}" if row.held_share else "-"


def _of_run(of: Callable[[PolicyRun], float]) -> Callable[[ClusterRow], str]:
    return lambda row: "-" if isinstance(row.simulated, UnsetType) else f"{of(row.simulated):.0f}"


_PLANNED = [
    Column("NODES", _number(lambda row: row.nodes), right=True),
    Column("HOT", _number(lambda row: row.hot), right=True),
    Column("MOVABLE", _number(lambda row: row.movable), right=True),
    Column("EMPTIABLE", _number(lambda row: row.emptiable), right=True),
    Column("MOVES", _number(lambda row: row.moves), right=True),
    Column("MINOR", lambda row: plain(row.minor) or "-"),
    Column("HELD BY", _held, sentence=True),
]
_SIMULATED = [
    Column("POLICY", lambda row: words(row.policy) or "not read"),
    Column("HOT", _of_run(lambda run: run.cycles[0].hot), right=True),
    Column("AFTER", _of_run(lambda run: run.after.hot), right=True),
    Column("PEAK CPU", _of_run(lambda run: run.cycles[0].peak.get("cpu", float("nan"))), right=True),
    Column("AFTER", _of_run(lambda run: run.after.peak.get("cpu", float("nan"))), right=True),
    Column("EVICTIONS", _number(lambda row: row.moves), right=True),
    Column("AGAIN", _of_run(lambda run: run.again), right=True),
]
