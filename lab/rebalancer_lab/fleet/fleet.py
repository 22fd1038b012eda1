"""A fleet: the same question to each cluster, a few side by side, and a row for each answer.

Clusters are read by threads, because a live one is mostly waited for; no more than four are held in memory at
once. One that cannot be read is a row with its error, and the others are answered all the same.
"""

from __future__ import annotations

import contextlib
import glob
import operator
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from msgspec import UNSET, UnsetType
from msgspec.structs import replace
from rich.text import Text

from rebalancer import analysis
from rebalancer.cli.output import Output, Rows, emit, progress_bar
from rebalancer.cluster.dumps.listing import build_decoders
from rebalancer.counting import counted
from rebalancer.errors import ExitCode, InputError, RebalancerError
from rebalancer.files import named
from rebalancer.observe.plan_options import PlanOptions, policy_of
from rebalancer.planning.plan import API_VERSION, Value
from rebalancer.reporting.html.pages import render_page
from rebalancer.reporting.tables.text import Column, Lines, Style, write_table
from rebalancer.reporting.words import plain, words
from rebalancer_lab.fleet.options import Cluster

MAX_CLUSTERS = 2000
_SIDE_BY_SIDE = 4
_MAX_SHOWN, _MAX_ERRORS = 40, 10
_WILDCARDS = frozenset("*?[")

Answer = TypeVar("Answer")


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
    simulated: Any = UNSET  # the whole course of a policy, a PolicyRun
    answer: Any = UNSET  # what the command says of this cluster alone, where a program reads it


class Fleet(Value, frozen=True):
    """All clusters, in the order of the command line or of their names."""

    clusters: tuple[ClusterRow, ...]
    failed: int
    exit_code: int
    api_version: str = API_VERSION
    kind: str = "Fleet"


def clusters_of(options: PlanOptions, contexts: Sequence[str]) -> tuple[Cluster, ...]:
    """The clusters that several contexts name, or the pattern of a path.

    A recorded cluster is named by the part of its path that the pattern leaves open: ``fleet/*/dump`` calls
    ``fleet/eu/dump`` ``eu/dump``. InputError where a pattern matches nothing, or too much.
    """
    contexts = list(dict.fromkeys(contexts))
    if contexts:
        policy_of(options)  # a mistake in it is one error, and not one of each cluster
        return tuple((name, replace(options, context=name)) for name in contexts)
    pattern = str(options.source)
    found = sorted(glob.glob(pattern))  # noqa: PTH207 - the pattern may be absolute
    if not 0 < len(found) <= MAX_CLUSTERS:
        wrong = f"matches more than {MAX_CLUSTERS} clusters" if found else "matches nothing"
        raise InputError(wrong, where=pattern[:200], hint="give a pattern such as --from 'recorded/*'")
    policy_of(options)
    fixed = Path(pattern).parent
    while _WILDCARDS.intersection(str(fixed)):
        fixed = fixed.parent
    return tuple(
        (named(Path(path).relative_to(fixed)), replace(options, source=Path(path))) for path in found
    )


def ask_each(
    clusters: Sequence[Cluster],
    ask: Callable[[str, PlanOptions], Answer],
    failed: Callable[[str, RebalancerError], Answer],
    advance: Callable[[str], None],
    side_by_side: int = _SIDE_BY_SIDE,
    gate: Gate | None = None,
) -> Iterator[Answer]:
    """What ``ask`` finds of each cluster, or what ``failed`` makes of its error, in their order."""
    gate = gate or Gate()

    def asked(cluster: Cluster) -> Answer:
        name, options = cluster
        try:
            with gate.passed():
                return ask(name, options)
        except RebalancerError as error:
            return failed(name, error)
        except Exception as error:  # noqa: BLE001 - a defect that one cluster shows hides no other cluster
            return failed(name, RebalancerError(f"{type(error).__name__}: {error}", hint="please report"))

    build_decoders()
    threads = ThreadPoolExecutor(side_by_side, "cluster")
    try:
        for (name, _), answer in zip(clusters, threads.map(asked, clusters), strict=True):
            advance(name)
            yield answer
    finally:
        threads.shutdown(wait=False, cancel_futures=True)


class Gate:
    """Lets clusters through one at a time until one of them has been answered.

    What is imported and built on the way to the first answer, such as msgspec's types, is not safe to be
    built by several threads: the process crashes.
    """

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._is_open = self._is_taken = False

    def open(self) -> None:
        """Let all through from now on."""
        with self._condition:
            self._is_open = True
            self._condition.notify_all()

    @contextlib.contextmanager
    def passed(self) -> Iterator[None]:
        """What is done inside opens the gate, unless it fails."""
        with self._condition:
            self._condition.wait_for(lambda: self._is_open or not self._is_taken)
            self._is_taken = True
        try:
            yield
            self.open()
        finally:
            with self._condition:
                self._is_taken = False
                self._condition.notify_all()


def joined(rows: Sequence[ClusterRow]) -> Fleet:
    """The fleet, and the one exit code: that of its clusters where they agree, else 4 for partly done."""
    codes = {row.exit_code for row in rows}
    code = codes.pop() if len(codes) == 1 else int(ExitCode.PARTLY_DONE)
    return Fleet(clusters=tuple(rows), failed=sum(bool(row.error) for row in rows), exit_code=code)


def failed_rows(name: str, error: RebalancerError) -> list[ClusterRow]:
    """The row of a cluster that could not be read."""
    return [ClusterRow(cluster=name, error=str(error), exit_code=int(error.exit_code))]


def fleet_table(fleet: Fleet, style: Style = Style()) -> Text:
    """The clusters as text, a line each, and those that could not be read below them with the reason."""
    lines, rows = Lines(style), fleet.clusters
    if not style.no_headers:
        lines.add((headline(fleet), "bold"))
    write_table(lines, columns_of(fleet), rows, _MAX_SHOWN, "" if style.no_headers else "cluster")
    if not style.no_headers:
        errors = [f"{row.cluster}: {row.error}" for row in rows if row.error]
        lines.listed("NOT READ", errors, "red", most=_MAX_ERRORS, noun="cluster")
    return lines.text


def fleet_page(fleet: Fleet) -> str:
    """The same as a page of its own, with all rows."""
    columns = columns_of(fleet)

    def cell(column: Column, row: ClusterRow) -> tuple[str, str]:
        found = column.cell(row)
        return found if isinstance(found, tuple) else (str(found), "")

    return render_page(
        "fleet.html.jinja",
        package="rebalancer_lab.fleet",
        title=headline(fleet),
        columns=columns,
        rows=[[cell(column, row) for column in columns] for row in fleet.clusters],
        errors=[(row.cluster, row.error) for row in fleet.clusters if row.error],
    )


def headline(fleet: Fleet) -> str:
    """How many clusters, and what of all of them: ``3 clusters, 1 of them not read: 2 hot nodes and …``."""
    read, columns = [row for row in fleet.clusters if not row.error], columns_of(fleet)
    failed = f", {fleet.failed} of them not read" if fleet.failed else ""
    clusters = f"{counted(len({row.cluster for row in fleet.clusters}), 'cluster')}{failed}"
    if _COMPARED[0] in columns:
        decisions, landed = (sum(getattr(row, name) or 0 for row in read) for name in ("decisions", "landed"))
        return f"{clusters}: {landed:,} of {counted(decisions, 'decision')} as computed"
    if _SIMULATED[0] in columns:
        return f"{clusters}: {counted(sum(row.moves or 0 for row in read), 'eviction')}"
    hot = counted(sum(row.hot or 0 for row in read), "hot node")
    return f"{clusters}: {hot} and {counted(sum(row.moves or 0 for row in read), 'planned move')}"


def columns_of(fleet: Fleet) -> list[Column]:
    """The columns of the table, by what the rows are about."""
    cluster = Column("CLUSTER", lambda row: (plain(row.cluster), "bold" if row.hot else ""))
    read = [row for row in fleet.clusters if not row.error]
    if any(row.simulated is not UNSET for row in read):
        return [cluster, *_SIMULATED]
    return [cluster, *(_PLANNED if not read or any(row.policy for row in read) else _COMPARED)]


def _number(of: Callable[[ClusterRow], float | None]) -> Callable[[ClusterRow], str]:
    return lambda row: "-" if (found := of(row)) is None else f"{found:g}"


def _held(row: ClusterRow) -> str | tuple[str, str]:
    if row.error:
        return "not read", "red"
    return f"{row.held_by or 'the cluster'} {row.held_share:.0%}" if row.held_share else "-"


def _of_run(of: Callable[[Any], float | None]) -> Callable[[ClusterRow], str]:
    def cell(row: ClusterRow) -> str:
        found = None if isinstance(row.simulated, UnsetType) else of(row.simulated)
        return "-" if found is None else f"{found:.0f}"

    return cell


def _agrees(row: ClusterRow) -> str:
    return f"{(row.landed or 0) / row.decisions:.1%}" if row.decisions else "-"


_PLANNED = [
    Column("NODES", _number(lambda row: row.nodes), right=True),
    Column("HOT", _number(lambda row: row.hot), right=True),
    Column("MOVABLE", _number(lambda row: row.movable), right=True),
    Column("EMPTIABLE", _number(lambda row: row.emptiable), right=True),
    Column("MOVES", _number(lambda row: row.moves), right=True),
    Column("MINOR", lambda row: plain(row.minor) or "-"),
    Column("AGREES", _agrees, right=True),
    Column("BLOCKED BY", _held, sentence=True),
]
_COMPARED = [
    Column("DECISIONS", _number(lambda row: row.decisions), right=True),
    Column("AS COMPUTED", _number(lambda row: row.landed), right=True),
    Column("AGREES", _agrees, right=True),
    Column("WHY NOT", lambda row: ("not read", "red") if row.error else words(row.held_by), sentence=True),
]
_SIMULATED = [
    Column("POLICY", lambda row: words(row.policy) or "not read"),
    Column("HOT", _of_run(lambda run: run.cycles[0].hot), right=True),
    Column("AFTER", _of_run(lambda run: run.after.hot), right=True),
    Column("PEAK CPU", _of_run(lambda run: run.cycles[0].peak.get("cpu")), right=True),
    Column("AFTER", _of_run(lambda run: run.after.peak.get("cpu")), right=True),
    Column("EVICTIONS", _number(lambda row: row.moves), right=True),
    Column("AGAIN", _of_run(lambda run: run.again), right=True),
]


def show_rows(
    fleet: tuple[Cluster, ...],
    output: Output,
    rows_of: Callable[[str, PlanOptions], list[ClusterRow]],
) -> int:
    """Write the rows of each cluster, and those that failed; the exit code of all of them."""
    return write_rows([row for rows in ask_fleet(fleet, rows_of, failed_rows) for row in rows], output)


def write_rows(rows: Sequence[ClusterRow], output: Output) -> int:
    """Write rows in a format; the exit code of all of them."""
    found = joined(rows)
    names = (f"cluster/{row.cluster}" for row in found.clusters)
    emit(found, output, fleet_table, Rows(names, frame, fleet_page))
    return found.exit_code


def ask_fleet(
    fleet: Sequence[Cluster],
    ask: Callable[[str, PlanOptions], Answer],
    failed: Callable[[str, RebalancerError], Answer],
) -> Sequence[Answer]:
    """What ``ask`` finds of each cluster, or what ``failed`` makes of its error, while a bar counts them."""

    with progress_bar("clusters", len(fleet)) as advance:
        return list(ask_each(fleet, ask, failed, advance))


def frame(fleet: Fleet) -> Any:
    """A data frame with one row per cluster, and policy of a simulation."""
    figures: Mapping[str, Callable[[Any], Any]] = {
        name: operator.attrgetter(name) for name in ("decisions", "landed", "held_by")
    }
    if columns_of(fleet)[1:] == _SIMULATED:
        figures = _OF_RUNS
    elif columns_of(fleet)[1:] == _PLANNED:
        names = ("nodes", "pods", "hot", "movable", "emptiable", "moves", "held_by", "held_share", "minor")
        figures = {name: operator.attrgetter(name) for name in (*names, "decisions", "landed")}
    columns: dict[str, Callable[[Any], Any]] = {
        "cluster": lambda row: row.cluster,
        "policy": lambda row: row.policy,
        **{name: _unless_failed(of) for name, of in figures.items()},
        "error": lambda row: row.error,
    }
    found = analysis.frame_of(fleet.clusters, columns)
    types = {name: "float64" if name in _SHARES else "Int64" for name in figures if name not in _TEXTS}
    return found.astype(types)  # also where no cluster has a figure, from which the type would follow


_TEXTS, _SHARES = ("held_by", "minor"), ("held_share", "peak_cpu", "peak_cpu_after")


def _unless_failed(of: Callable[[ClusterRow], Any]) -> Callable[[ClusterRow], Any]:
    return lambda row: None if row.error else of(row)


_OF_RUNS: Mapping[str, Callable[[Any], Any]] = {
    "hot": lambda row: row.hot,
    "hot_after": lambda row: row.simulated.after.hot,
    "peak_cpu": lambda row: row.simulated.cycles[0].peak.get("cpu"),
    "peak_cpu_after": lambda row: row.simulated.after.peak.get("cpu"),
    "moves": lambda row: row.moves,
    "again": lambda row: row.simulated.again,
}
