"""Before each wave a plan is checked with all figures that the scheduler may still have."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rebalancer.errors import InputError
from rebalancer.load.scheduler_view import SchedulerView
from rebalancer.observe.plan_options import PlanOptions
from rebalancer.policy.policy_file import load_policy, parse_policy
from rebalancer.run.run import MAX_STALE_VIEWS, reread, stale_views

VIEWS = [SchedulerView({}) for _ in range(6)]


def used(*moments: float, oldest: float) -> list[int]:
    read = list(zip(moments, VIEWS, strict=False))
    return [next(i for i, view in enumerate(VIEWS) if view is found) for found in stale_views(read, oldest)]


def test_a_view_that_was_replaced_longer_ago_than_the_scheduler_lags_is_not_in_use() -> None:
    assert used(0, 40, 80, oldest=50) == [1, 2]
    assert used(0, 40, 80, oldest=90) == [2]


def test_waves_that_follow_each_other_quickly_leave_every_view_in_use() -> None:
    assert used(0, 10, 20, oldest=-5) == [0, 1, 2]


def test_there_are_only_so_many_the_first_and_the_newest() -> None:
    assert used(0, 1, 2, 3, 4, 5, oldest=-5) == [0, 4, 5]
    assert MAX_STALE_VIEWS == 3


POLICY = "{apiVersion: rebalancer/v1alpha1, kind: RebalancePolicy, safety: {pause: PAUSED}}"


def test_a_mounted_policy_is_read_again_before_each_eviction(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(POLICY.replace("PAUSED", "false"))
    now = reread(PlanOptions(policy_path=path), load_policy(path))
    path.write_text(POLICY.replace("PAUSED", "true"))

    assert now().policy.safety.pause
    path.unlink()
    with pytest.raises(InputError, match="cannot be read"):
        now()


def test_a_policy_that_came_through_a_pipe_stays_as_it_was(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    loaded = parse_policy(POLICY.replace("PAUSED", "true"), "pipe")

    assert reread(PlanOptions(policy_path=pipe), loaded)() is loaded


def test_a_pipe_in_the_place_of_the_policy_holds_up_no_run(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(POLICY.replace("PAUSED", "false"))
    now = reread(PlanOptions(policy_path=path), load_policy(path))
    path.unlink()
    os.mkfifo(path)  # nobody writes to it

    with pytest.raises(InputError, match="is not a regular file any more"):
        now()


def test_a_policy_that_is_gone_before_the_first_wave_is_not_taken_for_a_pipe(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(POLICY.replace("PAUSED", "false"))
    loaded = load_policy(path)
    path.unlink()

    with pytest.raises(InputError, match="cannot be read"):
        reread(PlanOptions(policy_path=path), loaded)()
