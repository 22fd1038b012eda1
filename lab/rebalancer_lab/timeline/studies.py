"""What the commands of the lab do: read a timeline, study it, and print what was found."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import click
from msgspec.structs import replace
from rich.text import Text

from rebalancer.cli.output import Output, Rows, emit, progress, progress_bar
from rebalancer.cluster import times
from rebalancer.cluster.snapshot import build_snapshot
from rebalancer.counting import counted
from rebalancer.documents import read_text
from rebalancer.errors import InputError, StopRequestedError
from rebalancer.files import named
from rebalancer.load.prometheus.client import LivePrometheus
from rebalancer.load.prometheus.queries import Connection, PrometheusQuery
from rebalancer.load.prometheus.reader import connection_of
from rebalancer.load.prometheus.responses import RecordedResponses
from rebalancer.load.raw_figures import RawFigures
from rebalancer.observe.needs import Needs
from rebalancer.observe.plan_options import PlanOptions, open_api, policy_of
from rebalancer.observe.read import observe
from rebalancer.observe.timeline import TimelineWriter
from rebalancer.planning.inputs import Observation
from rebalancer.planning.scheduler_facts import scheduler_facts
from rebalancer.policy.load_sources import PrometheusSource
from rebalancer.policy.policy_file import LoadedPolicy, default_policy, load_policy
from rebalancer.reporting.html.chart import LineChart, line_chart
from rebalancer.reporting.html.pages import render_page
from rebalancer.reporting.tables.text import Column, Lines, Style, write_table
from rebalancer.reporting.words import plain, sample
from rebalancer.signals import stop_on_signal
from rebalancer_lab.timeline import frames
from rebalancer_lab.timeline.backfill import Backfilled, backfill
from rebalancer_lab.timeline.descheduler import LowNodeUtilization, read_descheduler
from rebalancer_lab.timeline.history import History, pieces
from rebalancer_lab.timeline.replay import Replay, replay
from rebalancer_lab.timeline.simulator_recordings import recordings
from rebalancer_lab.timeline.timeline import Timeline

_MAX_HOURS, _MAX_MOVES, _MAX_NAMED = 24, 50, 5


def replay_timeline(
    folder: Path,
    options: PlanOptions,
    policies: Sequence[Path],
    descheduler: Path | None,
    seed: int,
    output: Output,
) -> None:
    """``rebalancer timeline replay``."""
    named = named_policies(policies)
    rule, warnings = LowNodeUtilization(), tuple[str, ...]()
    if descheduler is not None:
        rule, warnings = read_descheduler(read_text(descheduler), str(descheduler))
    timeline = Timeline.open(folder)
    with progress_bar("moments", len(timeline.moments())) as advance:
        found = replay(
            timeline,
            named,
            seed=seed,
            descheduler=rule,
            options=options,
            warnings=warnings,
            progress=advance,
        )
    names = (f"pod/{move.pod}" for run in found.runs for item in run.moments for move in item.moves)
    emit(found, output, replay_table, Rows(names, frames.moments, _page))


def named_policies(paths: Sequence[Path]) -> list[tuple[str, LoadedPolicy]]:
    """Policies with names that tell them apart; without any, the default one."""
    loaded = [load_policy(path) for path in paths] or [default_policy()]
    names = [item.policy.metadata.name for item in loaded]
    return [
        (name if names.count(name) == 1 else f"{name} ({named(Path(item.source))})", item)
        for name, item in zip(names, loaded, strict=True)
    ]


def backfill_timeline(
    folder: Path,
    options: PlanOptions,
    address: str | None,
    lasts: float,
    every: float,
    per_second: float,
    max_bytes: int,
    output: Output,
) -> None:
    """``rebalancer timeline backfill``."""
    loaded = policy_of(options)
    connection = _connection(loaded, address)
    writer = TimelineWriter(folder, max_bytes)
    with stop_on_signal() as signals:

        def found() -> Backfilled:
            api = open_api(options)
            live = observe(options, (loaded,), api)
            end = math.floor(live.now / every) * every
            first = end - math.floor(lasts / every) * every
            moments = [first + every * number for number in range(round((end - first) / every) + 1)]
            moments = [at for at in moments if writer.last is None or at > writer.last + _SAME_SECONDS]
            if not moments:
                raise InputError(
                    f"ends at {times.render(writer.last or end)}: nothing is missing since", where=str(folder)
                )
            needs = Needs(live.snapshot, live.now, live.own_pod, RecordedResponses(live.now))
            needs.add(loaded, scheduler_facts(live, loaded))
            questions = [query for place, query in needs.requests if place.address == connection.address]

            def ask(query: PrometheusQuery, until: float) -> bytes:
                return LivePrometheus(connection, api, until)(query)

            def wait() -> None:
                if signals.stop.wait(1.0 / per_second):
                    raise StopRequestedError("asked to stop; the same command goes on from there")

            snapshot = live.snapshot
            series = len(snapshot.pods) * _SERIES_OF_POD + len(snapshot.nodes) * _SERIES_OF_NODE
            with progress_bar("moments", len(moments)) as advance:
                return backfill(
                    replace(live, starts=None),
                    lambda piece: History(ask, piece, every, wait),
                    pieces(moments, series),
                    lambda observation: writer.write(observation, None),
                    {connection.address: questions} if questions else {},
                    str(folder),
                    advance,
                )

        result = signals.interruptibly(found)
    emit(result, output, backfill_table)


def convert_recording(folder: Path, recording: Path, every: float, max_bytes: int) -> None:
    """``rebalancer timeline backfill --recording``: a timeline of what kube-scheduler-simulator recorded."""
    writer = TimelineWriter(folder, max_bytes)
    written = 0
    with progress() as report:
        for moment, found in recordings(recording, every):
            report(times.render(moment))
            observation = Observation(snapshot=build_snapshot(found), figures=RawFigures(), now=moment)
            written += bool(writer.write(observation, None))
    if not written:
        raise InputError("holds no moment that is not there yet", where=str(recording))
    click.echo(f"{counted(written, 'moment')} written into {folder}")


_SAME_SECONDS = 0.5
_SERIES_OF_POD, _SERIES_OF_NODE = 5, 30  # of the query that brings most


def _connection(loaded: LoadedPolicy, address: str | None) -> Connection:
    """Which Prometheus is asked: the one of the policy, with its login, or the one at an address."""
    named = [item.prometheus for item in loaded.policy.load.sources if isinstance(item, PrometheusSource)]
    for settings in named:
        if settings.address is None:
            continue
        if address is None or settings.address.rstrip("/") == address.rstrip("/"):
            return connection_of(settings)
    if address is None:
        raise InputError(
            "the policy names no address of a Prometheus",
            where=loaded.source,
            hint="give its address with --prometheus",
        )
    return Connection(address.rstrip("/"))


def backfill_table(found: Backfilled, style: Style = Style()) -> Text:
    """What was backfilled, and what of it is not known."""
    lines = Lines(style)
    lines.add((f"Backfilled: {counted(found.moments, 'moment')} into {plain(found.folder)}", "bold"))
    lines.message(f"{found.begins} to {found.ends}; {found.bytes / 1e6:.1f} MB", 0, "dim")
    lines.message(
        f"{counted(found.pods, 'pod')}, {found.from_siblings} of them with the scheduling fields of a "
        f"sibling or a template; of {found.unknown_pods} only requests are known, and no plan moves them.",
        0,
    )
    lines.message(f"As they are now: {', '.join(found.as_they_are_now)}.", 0)
    for noun, names in (
        ("nothing is left of", found.unknown_workloads),
        ("gone, and taken as cordoned", found.unknown_nodes),
        ("left out", found.left_out),
    ):
        if names:
            lines.message(f"{noun}: {sample([plain(name) for name in names], _MAX_NAMED)}", 0)
    return lines.text


def replay_table(found: Replay, style: Style = Style()) -> Text:
    """The policies side by side, then hour by hour."""
    lines = Lines(style)
    lines.add((f"Replay: {found.minutes / 60:.1f} h of {plain(found.source)}", "bold"))
    lines.message(
        f"{found.begins} to {found.ends}; hot by the thresholds of {found.judge}; seed {found.seed}", 0, "dim"
    )
    for sentence in about(found):
        lines.message(sentence, 0)
    lines.heading(
        "POLICIES", "minutes of hot nodes, of points above the thresholds, of Pending pods; peaks in percent"
    )
    columns = [
        Column("policy", lambda run: (plain(run.policy), "bold")),
        Column("hot-min", lambda run: f"{run.hot_node_minutes:,.0f}", right=True),
        Column("excess-min", lambda run: f"{run.excess_minutes:,.0f}", right=True),
        Column("cpu", lambda run: f"{run.peak['cpu']:.0f}" if "cpu" in run.peak else "-", right=True),
        Column("mem", lambda run: f"{run.peak['memory']:.0f}" if "memory" in run.peak else "-", right=True),
        Column("evicted", lambda run: f"{run.evictions}", right=True),
        Column("cost", lambda run: f"{run.disruption_cost:.1f}", right=True),
        Column("twice", lambda run: f"{run.moved_twice}", right=True),
        Column("refused", lambda run: f"{run.refused_landings}", right=True),
        Column("pending", lambda run: f"{run.pending_minutes:,.0f}", right=True),
    ]
    write_table(lines, columns, found.runs)
    hours = frames.hourly(found)["hot_node_minutes"].unstack("policy", fill_value=0.0)
    hours = hours[[run.policy for run in found.runs]]
    lines.heading("HOUR BY HOUR", "hot node-minutes")
    by_hour = [
        Column("hour", lambda row: row[0].strftime("%m-%d %H:%M")),
        *(_hot_minutes(run.policy, at) for at, run in enumerate(found.runs)),
    ]
    write_table(lines, by_hour, list(hours.iterrows()), _MAX_HOURS, "hour")
    return lines.text


def _hot_minutes(policy: str, at: int) -> Column:
    return Column(plain(policy), lambda row: f"{row[1].iloc[at]:,.0f}", right=True)


def about(found: Replay) -> list[str]:
    """What a reader must know of a replay, in sentences."""
    said = list(found.warnings)
    if (check := found.reproduction) is not None and check.arrivals:
        said.append(
            f"Of {counted(check.arrivals, 'arrival')} the model allows {check.as_recorded} where they went; "
            f"placed by it alone, node loads differ by {check.mean_error:.2f} points in the mean, "
            f"{check.largest_error:.1f} at most."
        )
    happened = found.happened
    said.append(
        f"In the recording: {counted(happened.arrivals, 'pod')} came, {happened.departures} left, "
        f"{counted(happened.restarts, 'restart')}, {happened.oom_kills} out of memory, "
        f"{happened.evicted} evicted by nodes, {happened.own_moves} moved by rebalancer."
    )
    said += [f"{plain(run.policy)} {run.refusal}" for run in found.runs if run.refusals]
    if found.left_out:
        said.append(f"{counted(len(found.left_out), 'moment')} left out: {found.left_out[0]}")
    return said


def _page(found: Replay) -> str:
    return render_page(
        "replay.html.jinja",
        package="rebalancer_lab.timeline",
        found=found,
        title=f"Replay: {found.minutes / 60:.1f} h",
        about=about(found),
        charts=[chart for chart in _charts(found) if chart is not None],
        most=_MAX_MOVES,
    )


def _charts(found: Replay) -> list[LineChart | None]:
    def curve(title: str, figure: str) -> LineChart | None:
        table = frames.moments(found)
        return line_chart(
            title,
            {
                run.policy: [float(value) for value in table.loc[table["policy"] == run.policy, figure]]
                for run in found.runs
            },
        )

    return [
        curve("hot nodes", "hot"),
        curve("excess, in points of all nodes", "excess"),
        curve("highest cpu of a node, percent", "peak_cpu"),
        curve("highest memory of a node, percent", "peak_memory"),
        curve("pods without a node", "pending"),
    ]
