"""A search over a world whose figures are known: less excess with lower thresholds, at a higher cost."""

from __future__ import annotations

import functools
import math
import os
import re
import subprocess
import sys
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
import yaml
from filelock import FileLock
from msgspec.structs import replace

from rebalancer.errors import InputError
from rebalancer.policy.policy_file import default_policy, parse_policy
from rebalancer.reporting.render import to_json
from rebalancer_lab.timeline import tuning
from rebalancer_lab.timeline.space import Space, read_space
from rebalancer_lab.timeline.tuning import Search, Tuning, chosen_policy, tune
from rebalancer_lab.timeline.tuning_command import tuning_table
from rebalancer_lab.timeline.workers import Block, Figures, Task, Workers
from tests.forked import PROCESSES
from tests.waiting import no_hang

SPACE = """\
apiVersion: rebalancer/v1alpha1
kind: TuningSpace
settings:
  "hotNodes.any[0].utilization.cpu": {from: 70, to: 90}
  limits.perRun: {from: 5, to: 50, step: 5}
"""
BLOCKS = tuple(Block(f"day {day}", day, day + 1.0, held_out=day % 3 == 2) for day in range(9))
SEARCH = Search(trials=12, population=4, seed=3, most_cost=2.0)


@functools.cache  # each day and each search asks for the same
def settings_of(policy: str) -> tuple[int, int]:
    """What ``SPACE`` varies of a policy: the CPU that makes a node hot, and the evictions of a run."""
    document = yaml.load(policy, yaml.CSafeLoader)
    return document["hotNodes"]["any"][0]["utilization"]["cpu"], document["limits"]["perRun"]


def figures_of(task: Task) -> Figures | str:
    """A pure function of the task, as a replay is."""
    threshold, per_run = settings_of(task.policy)
    day = 10.0 * math.sin(task.block.begins) + task.seed % 3
    excess = 500.0 + 20.0 * (threshold - 80) - per_run + day
    return Figures(
        excess=excess, hot=excess / 10, cost=90.0 - threshold + per_run / 10, evictions=5, pending=0
    )


class Inline(Executor):
    """Computes what is submitted at once, and fails after so many tasks as a killed process would."""

    def __init__(self, most: int = 10_000) -> None:
        self.left = most

    def submit(self, _: object, /, task: Task) -> Future[Figures | str]:  # type: ignore[override] # one function
        self.left -= 1
        if self.left < 0:
            raise KeyboardInterrupt
        found: Future[Figures | str] = Future()
        found.set_result(figures_of(task))
        return found


@pytest.fixture(scope="module")
def space() -> Space:
    return read_space(SPACE, "space.yaml", default_policy())


@pytest.fixture(scope="module")
def whole(space: Space) -> Tuning:
    """What the search finds that nothing interrupts, for the tests that compare another with it."""
    return tuned(space)


def tuned(space: Space, storage: Path | None = None, search: Search = SEARCH, most: int = 10_000) -> Tuning:
    return tune(space, BLOCKS, search, Workers(lambda: Inline(most)), storage)


def test_a_policy_that_is_better_on_the_days_held_out_is_chosen_and_written(
    space: Space, whole: Tuning
) -> None:
    found = whole

    assert found.better
    assert found.verdict.startswith("better than today's on 3 days held out: ")
    assert found.chosen is not None
    margin = found.margins["excess"]
    assert margin.low <= margin.mean <= margin.high
    assert margin.mean == pytest.approx(margin.today - margin.chosen)
    text = chosen_policy(found, space)
    assert parse_policy(text, "chosen").policy == space.policy(found.chosen.point).policy
    assert "# What it changes:\n#   hotNodes.any[0].utilization.cpu: 80 -> " in text
    assert f"# It is {found.verdict}.\n" in text


def test_nothing_is_chosen_where_every_policy_costs_more_than_it_may(space: Space) -> None:
    found = tuned(space, search=replace(SEARCH, most_cost=0.0))

    assert (found.better, found.chosen, found.changes) == (False, None, ())
    assert found.verdict.endswith("keep today's policy")
    assert re.match(
        r"less excess costs 1\.\d\d times today's or more, and --max-cost allows 0: ", found.verdict
    )


def test_no_trial_of_the_front_is_beaten_in_both_figures(whole: Tuning) -> None:
    front = whole.front

    assert [trial.cost for trial in front] == sorted(trial.cost for trial in front)
    assert [trial.excess for trial in front] == sorted((trial.excess for trial in front), reverse=True)


def test_the_seed_decides_which_policies_are_tried(space: Space, whole: Tuning) -> None:
    assert to_json(tuned(space)) == to_json(whole)
    assert to_json(whole) != to_json(tuned(space, search=replace(SEARCH, seed=4)))


@pytest.mark.parametrize("most", [6 + 3, 6 * 5 + 1, 6 * 13 + 1])
def test_a_search_that_was_killed_and_is_resumed_finds_the_same(
    space: Space, whole: Tuning, tmp_path: Path, most: int
) -> None:
    storage = tmp_path / "trials.log"
    with pytest.raises(KeyboardInterrupt):
        tuned(space, storage, most=most)

    assert to_json(tuned(space, storage)) == to_json(whole)


def test_a_search_goes_on_where_its_journal_ends_within_a_line(
    space: Space, whole: Tuning, tmp_path: Path
) -> None:
    storage = tmp_path / "trials.log"
    with pytest.raises(KeyboardInterrupt):
        tuned(space, storage, most=6 + 3 * 3)
    storage.write_bytes(storage.read_bytes()[:-40])

    assert to_json(tuned(space, storage)) == to_json(whole)


def test_what_was_told_before_a_kill_is_not_replayed_again(space: Space, tmp_path: Path) -> None:
    storage = tmp_path / "trials.log"
    tuned(space, storage)

    again = tuned(space, storage, most=6 + 3 * 3 * 2)  # today's policy, and the judgement by three seeds
    assert again.trials == SEARCH.trials


def test_a_storage_of_another_search_or_of_none_is_refused_in_one_line(space: Space, tmp_path: Path) -> None:
    storage, foreign = tmp_path / "trials.log", tmp_path / "foreign.log"
    tuned(space, storage)
    foreign.write_text('{"op_code": 99}\nnot json\n{}\n')

    with pytest.raises(InputError, match="another space, policy, seed or recording"):
        tuned(space, storage, search=replace(SEARCH, seed=9))
    for path in (foreign, tmp_path, tmp_path / "nowhere" / "trials.log"):
        with pytest.raises(InputError) as raised:
            tuned(space, path)
        assert "\n" not in str(raised.value)


def test_a_storage_is_refused_before_anything_is_replayed(space: Space, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="in a folder that is not there"):
        tuned(space, tmp_path / "nowhere" / "trials.log", most=0)


def test_a_storage_that_was_refused_stays_that_of_its_own_search(space: Space, tmp_path: Path) -> None:
    storage = tmp_path / "trials.log"
    found = tuned(space, storage)

    for _ in range(2):
        with pytest.raises(InputError, match="another space, policy, seed or recording"):
            tuned(space, storage, search=replace(SEARCH, seed=9))
    assert to_json(tuned(space, storage)) == to_json(found)


def test_a_storage_whose_points_meant_other_policies_is_refused(
    space: Space, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A level of aggressiveness once changed nothing; such a search is not gone on with."""
    storage, document = tmp_path / "trials.log", Space.document
    with monkeypatch.context() as earlier:
        earlier.setattr(Space, "document", lambda self, point: document(self, {**point, "limits.perRun": 5}))
        with pytest.raises(KeyboardInterrupt):
            tuned(space, storage, most=6 * 5 + 1)
    with pytest.raises(InputError, match="whose point meant another policy when it was tried"):
        tuned(space, storage)

    monkeypatch.setattr(tuning, "__version__", "0.0.1")
    with pytest.raises(InputError, match="or of another version"):
        tuned(space, storage)


def test_a_storage_without_the_figures_of_the_blocks_or_that_never_ends_is_refused(
    space: Space, tmp_path: Path
) -> None:
    storage = tmp_path / "trials.log"
    tuned(space, storage)
    storage.write_text(re.sub(r'"blocks": ?\[\{[^]]*\]', '"blocks":[]', storage.read_text()))

    with pytest.raises(InputError, match="trials of other blocks"):
        tuned(space, storage)
    with pytest.raises(InputError, match="is no file"):
        tuned(space, Path("/dev/full"))


def test_a_storage_that_another_search_writes_or_left_locked_is_refused_and_not_waited_for(
    space: Space, whole: Tuning, tmp_path: Path
) -> None:
    storage = tmp_path / "trials.log"
    (tmp_path / "trials.log.lock").symlink_to(tmp_path / "nowhere")
    with pytest.raises(InputError, match="is locked by another program of Optuna"):
        tuned(space, storage)
    (tmp_path / "trials.log.lock").unlink()
    with FileLock(f"{storage}.lock"), pytest.raises(InputError, match="is written by another search"):
        tuned(space, storage)
    assert to_json(tuned(space, storage)) == to_json(whole)


def test_a_timeline_that_is_named_twice_is_refused(tmp_path: Path) -> None:
    (tmp_path / "20261120T120000.000Z.full.zst").touch()
    (tmp_path / "link").symlink_to(tmp_path)

    for folders in ([tmp_path, tmp_path], [tmp_path / "link", tmp_path]):
        with pytest.raises(InputError, match="is named twice"):
            tuning.blocks_of([*map(str, folders)], 86_400.0, 3)


def test_a_trial_that_fails_costs_itself_only(
    space: Space, whole: Tuning, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = figures_of

    def failing(task: Task) -> Figures | str:
        _, per_run = settings_of(task.policy)
        return "its worker died 3 times" if per_run == 50 else known(task)

    monkeypatch.setitem(globals(), "figures_of", failing)
    found = tuned(space, search=replace(SEARCH, trials=24))

    assert found.failed < found.trials == 24
    assert re.fullmatch(r"trial \d+ failed: its worker died 3 times", found.failure)
    assert found.failure in tuning_table(found).plain
    assert (whole.failed, whole.failure) == (0, "")
    assert all(trial.point["limits.perRun"] != 50 for trial in found.front)


def test_where_every_trial_fails_that_is_said(space: Space, monkeypatch: pytest.MonkeyPatch) -> None:
    known, today = figures_of, space.text({})

    def failing(task: Task) -> Figures | str:
        return known(task) if task.policy == today else "no moment can be replayed"

    monkeypatch.setitem(globals(), "figures_of", failing)
    found = tuned(space)

    assert found.verdict == "every trial failed: keep today's policy"
    assert found.failure == "trial 0 failed: no moment can be replayed"


def test_no_better_policy_is_chosen_that_leaves_pods_pending_for_longer(
    space: Space, monkeypatch: pytest.MonkeyPatch
) -> None:
    known, today = figures_of, space.text({})

    def waiting(task: Task) -> Figures | str:
        found = known(task)
        return replace(found, pending=1.0) if task.policy != today and isinstance(found, Figures) else found

    monkeypatch.setitem(globals(), "figures_of", waiting)
    assert "leaves pods Pending longer than today's: keep today's policy" in tuned(space).verdict


def fragile(task: Task) -> Figures | str:
    """Kills its process where the task says so: always, or the first time only."""
    if task.policy == "kills":
        os._exit(1)
    if task.policy.startswith("kills once "):
        mark = Path(task.policy.removeprefix("kills once "))
        if not mark.exists():
            mark.touch()
            os._exit(1)
    return task.policy


def test_a_worker_that_dies_costs_the_trial_that_kills_it_and_no_other(tmp_path: Path) -> None:
    workers = Workers(lambda: ProcessPoolExecutor(2, PROCESSES), work=fragile)
    block = BLOCKS[0]
    policies = ["a", "kills", "b", f"kills once {tmp_path / 'mark'}", "c"]
    try:
        found = list(workers.figures([Task(block, policy, "", "", 0) for policy in policies]))
    finally:
        workers.close()

    assert found == ["a", "its worker died 3 times", "b", policies[3], "c"]


def test_no_worker_outlives_a_search_that_was_killed() -> None:
    search = "import os, sys; from rebalancer_lab.timeline.workers import processes; workers = processes(1);"
    search += "print(workers._submit('task').exception() is not None, flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", search]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as begun:
        assert begun.stdout is not None
        with no_hang("the worker, which has the search's output open, ends"):
            assert begun.stdout.readline() == b"True\n"
            begun.kill()
            assert begun.stdout.read() == b""


def test_results_do_not_depend_on_how_many_workers_compute_them(space: Space, whole: Tuning) -> None:
    opened = [Workers(partial(ThreadPoolExecutor, number), work=figures_of) for number in (1, 3)]
    found = [tune(space, BLOCKS, SEARCH, workers) for workers in opened]

    assert to_json(found[0]) == to_json(found[1]) == to_json(whole)


def test_days_that_are_too_few_are_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class TwoDays:
        @staticmethod
        def open(_: Path) -> TwoDays:
            return TwoDays()

        def moments(self) -> tuple[float, ...]:
            return (0.0, 3600.0, 86_400.0, 90_000.0)

    monkeypatch.setattr(tuning, "Timeline", TwoDays)
    with pytest.raises(InputError, match="2 blocks are too few"):
        tuning.blocks_of([str(tmp_path)], 86_400.0, 3)
    blocks = tuning.blocks_of([str(tmp_path), str(tmp_path / "b")], 86_400.0, 2)
    assert [block.held_out for block in blocks] == [False, True, False, True]
