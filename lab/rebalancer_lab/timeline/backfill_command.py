"""What ``rebalancer timeline backfill`` does: fill a timeline in from Prometheus or a recorder's file."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from pathlib import Path

import click
from msgspec.structs import replace
from rich.text import Text

from rebalancer.cli.output import Output, emit, progress, progress_bar
from rebalancer.cluster import times
from rebalancer.cluster.snapshot import build_snapshot
from rebalancer.counting import counted
from rebalancer.errors import InputError
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
from rebalancer.policy.policy_file import LoadedPolicy
from rebalancer.reporting.tables.text import Lines, Style
from rebalancer.reporting.words import plain, sample
from rebalancer_lab.timeline.backfill import Backfilled, backfill
from rebalancer_lab.timeline.history import History, pieces
from rebalancer_lab.timeline.simulator_recordings import recordings

_MAX_NAMED = 5


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
    connection, labels = _connection(loaded, address)
    writer = TimelineWriter(folder, max_bytes)
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
        return LivePrometheus(connection, api, until)(query.selecting(labels))

    snapshot = live.snapshot
    series = len(snapshot.pods) * _SERIES_OF_POD + len(snapshot.nodes) * _SERIES_OF_NODE
    with progress_bar("moments", len(moments)) as advance:
        result = backfill(
            replace(live, starts=None),
            lambda piece: History(ask, piece, every, lambda: time.sleep(1.0 / per_second)),
            pieces(moments, series),
            lambda observation: writer.write(observation, None),
            {connection.address: questions} if questions else {},
            str(folder),
            advance,
        )
    emit(result, output, backfill_table)


def convert_recording(folder: Path, recording: Path, every: float, max_bytes: int) -> None:
    """``rebalancer timeline backfill --recording``: a timeline of what kube-scheduler-simulator recorded."""
    writer = TimelineWriter(folder, max_bytes)
    written = 0
    with progress() as report:
        for moment, recorded in recordings(recording, every):
            report(f"writing the moment {times.render(moment)}")
            observation = Observation(snapshot=build_snapshot(recorded), figures=RawFigures(), now=moment)
            written += bool(writer.write(observation, None))
    if not written:
        raise InputError("holds no moment that is not there yet", where=str(recording))
    click.echo(f"{counted(written, 'moment')} written into {folder}")


_SAME_SECONDS = 0.5
_SERIES_OF_POD = 5  # of the query that brings most
_SERIES_OF_NODE = 30


def _connection(loaded: LoadedPolicy, address: str | None) -> tuple[Connection, Mapping[str, str]]:
    """Which Prometheus is asked, and by which labels: the policy's with its login, or one at an address."""
    named = [
        source.prometheus for source in loaded.policy.load.sources if isinstance(source, PrometheusSource)
    ]
    for settings in named:
        if settings.address is None:
            continue
        if address is None or settings.address.rstrip("/") == address.rstrip("/"):
            return connection_of(settings), settings.labels
    if address is None:
        raise InputError(
            "the policy names no address of a Prometheus",
            where=loaded.source,
            hint="give its address with --prometheus",
        )
    return Connection(address.rstrip("/")), {}


def backfill_table(backfilled: Backfilled, style: Style = Style()) -> Text:
    """What was backfilled, and what of it is not known."""
    lines = Lines(style)
    lines.headline("Backfilled: ", f"{counted(backfilled.moments, 'moment')} into {plain(backfilled.folder)}")
    lines.message(f"{backfilled.begins} to {backfilled.ends}; {backfilled.bytes / 1e6:.1f} MB", 0, "dim")
    lines.message(
        f"{counted(backfilled.pods, 'pod')}, {backfilled.from_siblings} of them with the scheduling fields "
        f"of a sibling or a template; of {backfilled.unknown_pods} only requests are known, and no plan "
        "moves them.",
        0,
    )
    lines.message(f"As they are now: {', '.join(backfilled.as_they_are_now)}.", 0)
    for noun, names in (
        ("nothing is left of", backfilled.unknown_workloads),
        ("gone, and taken as cordoned", backfilled.unknown_nodes),
        ("left out", backfilled.left_out),
    ):
        if names:
            lines.message(f"{noun}: {sample([plain(name) for name in names], _MAX_NAMED)}", 0)
    return lines.text
