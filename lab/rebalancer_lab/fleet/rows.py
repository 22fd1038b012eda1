"""The rows of a fleet, one or some for each cluster, as a table, a page and a data frame.

What a command asks decides what its rows show: a ``View`` has the columns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import UNSET
from rich.text import Text

from rebalancer import analysis
from rebalancer.cli.output import Output, Rows, emit
from rebalancer.counting import counted
from rebalancer.errors import ExitCode, RebalancerError
from rebalancer.observe.plan_options import PlanOptions
from rebalancer.planning.plan import API_VERSION, Value
from rebalancer.reporting.html.pages import render_page
from rebalancer.reporting.tables.text import Column, Lines, Style, write_table
from rebalancer.reporting.words import plain
from rebalancer_lab.fleet.clusters import Cluster, ask_fleet

_MAX_SHOWN = 40
_MAX_ERRORS = 10
_TEXTS = ("held_by", "minor")  # types of a frame
_SHARES = ("held_share", "peak_cpu", "peak_cpu_after")


class ClusterRow(Value, frozen=True):
    """One cluster of a fleet; None is a figure that is not known, or that the command does not ask for."""

    cluster: str
    policy: str = ""
    nodes: int | None = None
    pods: int | None = None
    hot: int | None = None  # nodes, before the plan; None also where too little load is known
    movable: int | None = None  # pods that no rule protects
    emptiable: int | None = None  # nodes in use that could be empty at most, if requests alone decided
    moves: int | None = None  # of the plan; of a simulation its evictions
    held_by: str = ""  # the setting that keeps most of the load on hot nodes
    held_share: float | None = None  # 0..1 of the load that could leave
    minor: str = ""  # of the scheduler
    decisions: int | None = None  # of the schedulers, that were compared with what is computed
    landed: int | None = None  # of them, as computed
    error: str = ""  # why nothing is known of the cluster
    exit_code: int = 0  # that the command would leave with for this cluster alone
    simulated: Any = UNSET  # the whole course of a policy, where one is simulated
    answer: Any = UNSET  # what the command says of this cluster alone, where a program reads it


class Fleet(Value, frozen=True):
    """All clusters, in the order of the command line or of their names."""

    clusters: tuple[ClusterRow, ...]
    failed: int
    exit_code: int
    api_version: str = API_VERSION
    kind: str = "Fleet"


def joined(rows: Sequence[ClusterRow]) -> Fleet:
    """The fleet, and the one exit code: that of its clusters where they agree, else 4 for partly done."""
    codes = {row.exit_code for row in rows}
    code = codes.pop() if len(codes) == 1 else int(ExitCode.PARTLY_DONE)
    return Fleet(clusters=tuple(rows), failed=sum(bool(row.error) for row in rows), exit_code=code)


def failed_rows(name: str, error: RebalancerError) -> list[ClusterRow]:
    """The row of a cluster that could not be read."""
    return [ClusterRow(cluster=name, error=str(error), exit_code=int(error.exit_code))]


class View(msgspec.Struct, frozen=True):
    """What the rows of a command show."""

    columns: tuple[Column, ...]  # of a table, after the cluster's name
    figures: Mapping[str, Callable[[ClusterRow], Any]]  # of a data frame, by column
    words: Callable[[Sequence[ClusterRow]], str]  # what all clusters that were read come to


def fleet_table(fleet: Fleet, view: View, style: Style = Style()) -> Text:
    """The clusters as text, a line each, and those that could not be read below them with the reason."""
    lines = Lines(style)
    rows = fleet.clusters
    if not style.no_headers:
        lines.headline("", headline(fleet, view))
    noun = "" if style.no_headers else "cluster"
    write_table(lines, [_CLUSTER, *view.columns], rows, _MAX_SHOWN, noun)
    if not style.no_headers:
        errors = [f"{row.cluster}: {row.error}" for row in rows if row.error]
        lines.listed("NOT READ", errors, "red", max_rows=_MAX_ERRORS, noun="cluster")
    return lines.text


def fleet_page(fleet: Fleet, view: View) -> str:
    """The same as a page of its own, with all rows."""
    columns = [_CLUSTER, *view.columns]

    def cell(column: Column, row: ClusterRow) -> tuple[str, str]:
        content = column.cell(row)
        return content if isinstance(content, tuple) else (str(content), "")

    def cells(row: ClusterRow) -> list[tuple[str, str]]:
        return [cell(column, row) for column in columns]

    return render_page(
        "fleet.html.jinja",
        package="rebalancer_lab.fleet",
        title=headline(fleet, view),
        columns=columns,
        rows=[cells(row) for row in fleet.clusters],
        errors=[(row.cluster, row.error) for row in fleet.clusters if row.error],
    )


def headline(fleet: Fleet, view: View) -> str:
    """How many clusters, and what of all of them: ``3 clusters, 1 of them not read: 2 hot nodes and …``."""
    clusters = counted(len({row.cluster for row in fleet.clusters}), "cluster")
    if fleet.failed:
        clusters += f", {fleet.failed} of them not read"
    return f"{clusters}: {view.words([row for row in fleet.clusters if not row.error])}"


def number(of: Callable[[ClusterRow], float | None], digits: str = "g") -> Callable[[ClusterRow], str]:
    """A cell with a figure; a dash where that is not known."""

    def cell(row: ClusterRow) -> str:
        figure = None if row.error else of(row)
        return "-" if figure is None else f"{figure:{digits}}"

    return cell


def agrees(row: ClusterRow) -> str:
    """The share of decisions that landed as computed; a dash where none is known."""
    return f"{(row.landed or 0) / row.decisions:.1%}" if row.decisions else "-"


_CLUSTER = Column("CLUSTER", lambda row: (plain(row.cluster), "bold" if row.hot else ""))


def show_rows(
    fleet: tuple[Cluster, ...],
    output: Output,
    rows_of: Callable[[str, PlanOptions], list[ClusterRow]],
    view: View,
) -> int:
    """Write the rows of each cluster, and those that failed; the exit code of all of them."""
    return write_rows([row for rows in ask_fleet(fleet, rows_of, failed_rows) for row in rows], output, view)


def write_rows(rows: Sequence[ClusterRow], output: Output, view: View) -> int:
    """Write rows in a format; the exit code of all of them."""
    fleet = joined(rows)
    names = (f"cluster/{row.cluster}" for row in fleet.clusters)
    listed = Rows(names, lambda value: frame(value, view), lambda value: fleet_page(value, view))
    emit(fleet, output, lambda value, style: fleet_table(value, view, style), listed)
    return fleet.exit_code


def frame(fleet: Fleet, view: View) -> Any:
    """A data frame with one row per cluster, and policy of a simulation."""
    columns: dict[str, Callable[[Any], Any]] = {
        "cluster": lambda row: row.cluster,
        "policy": lambda row: row.policy,
        **{name: _unless_failed(of) for name, of in view.figures.items()},
        "error": lambda row: row.error,
    }
    rows = analysis.frame_of(fleet.clusters, columns)
    types = {name: "float64" if name in _SHARES else "Int64" for name in view.figures if name not in _TEXTS}
    return rows.astype(types)  # also where no cluster has a figure, from which the type would follow


def _unless_failed(of: Callable[[ClusterRow], Any]) -> Callable[[ClusterRow], Any]:
    return lambda row: None if row.error else of(row)
