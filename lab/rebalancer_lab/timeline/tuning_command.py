"""What ``rebalancer tune`` does: open workers, search, and print the front and the judgement."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.text import Text

from rebalancer import files
from rebalancer.cli.invocation import LOGGER
from rebalancer.cli.output import Output, emit, progress_bar
from rebalancer.counting import counted
from rebalancer.documents import read_text
from rebalancer.errors import InputError
from rebalancer.policy.policy_file import default_policy, load_policy, shown
from rebalancer.policy.units import format_duration
from rebalancer.reporting.tables.text import Column, Lines, Style, write_table
from rebalancer.reporting.words import plain, words
from rebalancer_lab.timeline.space import Point, read_space
from rebalancer_lab.timeline.tuning import Search, Trial, Tuning, blocks_of, chosen_policy, tune
from rebalancer_lab.timeline.workers import dask_cluster, processes

_MAX_TRIALS = 12


def tune_policy(
    places: Sequence[str],
    output: Output,
    *,
    space: Path,
    policy_path: Path | None,
    trials: int,
    population: int,
    block: float,
    every: int,
    most_cost: float,
    workers: int,
    dask: str | None,
    storage: Path | None,
    write: Path | None,
    seed: int,
) -> None:
    """``rebalancer tune``; InputError for what cannot be used, before anything is replayed."""
    if write is not None and files.is_there(write):
        raise InputError("already exists", where=str(write), hint="choose another file name")
    if write is not None and not os.access(write.parent, os.W_OK | os.X_OK):
        raise InputError("cannot be written: no such folder, or not yours", where=str(write))
    today = default_policy() if policy_path is None else load_policy(policy_path)
    searched = read_space(read_text(space), str(space), today)
    blocks = blocks_of(places, block, every)
    folders = sorted({one_block.folder for one_block in blocks})
    opened = processes(workers) if dask is None else dask_cluster(dask, folders)
    try:
        with progress_bar("trials", trials) as advance:
            search = Search(trials, population, seed, most_cost)
            tuning = tune(searched, blocks, search, opened, storage, _with_time_left(advance, trials))
    finally:
        opened.close()
    emit(tuning, output, tuning_table)
    if write is not None and tuning.better:
        if shown(today.policy)[1]:
            LOGGER.warning("secrets of the policy are written as REDACTED: it cannot be used as it is")
        try:
            write.write_text(chosen_policy(tuning, searched), encoding="utf-8")
        except OSError as error:
            raise InputError(f"cannot write: {error.strerror or error}", where=str(write)) from error


def _with_time_left(advance: Callable[[str], None], trials: int) -> Callable[[str], None]:
    """What counts trials, and says how long the others will take."""
    begun = time.monotonic()
    done = 0
    replayed = 0

    def count(message: str) -> None:
        nonlocal done, replayed
        done += 1
        replayed += message.startswith("generation")
        left = (time.monotonic() - begun) / replayed * (trials - done) if replayed else 0.0
        advance(f"{message}, about {format_duration(round(left))} left" if left >= 1.0 else message)

    return count


def tuning_table(tuning: Tuning, style: Style = Style()) -> Text:
    """The verdict, the front, and the chosen policy beside today's."""
    lines = Lines(style)
    lines.message(f"Tuning: {tuning.verdict}", 0, "green" if tuning.better else "yellow", max_lines=4)
    days = f"{counted(len(tuning.tuned_on), 'block')} to tune on, {len(tuning.held_out)} held out"
    failed = f", {tuning.failed} of them failed" if tuning.failed else ""
    lines.message(f"{counted(tuning.trials, 'trial')}{failed}; {days}; seed {tuning.seed}", 0, "dim")
    lines.message(tuning.failure, 0, "yellow")
    lines.heading(
        "FRONT", "a day, on the blocks that were tuned on: points times minutes of excess, and disruption"
    )
    today = Trial(number=-1, point={}, excess=tuning.excess, cost=tuning.cost)
    columns = [
        Column("TRIAL", lambda trial: "today" if trial.number < 0 else str(trial.number), right=True),
        Column("EXCESS", lambda trial: f"{trial.excess:,.0f}", right=True),
        Column("COST", lambda trial: f"{trial.cost:,.1f}", right=True),
        Column("SETTINGS", lambda trial: (_settings(trial.point), "dim"), sentence=True),
    ]
    write_table(lines, columns, [today, *tuning.front], _MAX_TRIALS, "trial")
    if tuning.chosen is None:
        return lines.text
    lines.heading(
        "JUDGED", f"trial {tuning.chosen.number} beside today's policy, a day, on the blocks held out"
    )
    columns = [
        Column("FIGURE", lambda row: row[0]),
        Column("TODAY", lambda row: f"{row[1].today:,.1f}", right=True),
        Column("CHOSEN", lambda row: f"{row[1].chosen:,.1f}", right=True),
        Column("LESS BY", lambda row: f"{row[1].mean:z,.1f}", right=True),
        Column("95 %", lambda row: f"{row[1].low:z,.1f} to {row[1].high:z,.1f}", right=True),
    ]
    write_table(lines, columns, list(tuning.margins.items()))
    lines.heading("WHAT IT CHANGES")
    for change in tuning.changes:
        lines.message(
            f"{plain(change.setting)}: {words(change.before)} {style.glyphs.arrow} {words(change.after)}", 2
        )
    return lines.text


def _settings(point: Point) -> str:
    """``utilization.cpu 75, perRun 30``: the end of each path, and its value."""
    return ", ".join(f"{'.'.join(path.split('.')[-2:])} {value}" for path, value in point.items()) or "-"
