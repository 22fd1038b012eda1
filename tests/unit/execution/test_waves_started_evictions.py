"""An eviction that somebody else carries out is waited for, remembered and counted, and never asked again."""

from __future__ import annotations

import io
from typing import Any

import pytest

from rebalancer.cluster.pods import EVICTION_IN_PROGRESS
from rebalancer.errors import ExitCode
from rebalancer.execution.events import EventWriter
from rebalancer.execution.journal import Journal
from rebalancer.execution.outcomes import Outcomes, after_outcomes
from rebalancer.policy.schema import Execution
from rebalancer.state.results import Result
from rebalancer.state.run_state import MoveHistory
from tests.unit.execution.builders import NOW, a_move
from tests.unit.execution.fake_api import Answer, Request, fake_api, refusal
from tests.unit.execution.tiny_cluster import Run

TIMEOUT = 60.0
STARTED = refusal(
    429,
    'admission webhook "virt-launcher-eviction-interceptor.kubevirt.io" denied the request: '
    'Eviction triggered evacuation of VMI "shop/web"',
)


def a_run(*names: str, **changes: Any) -> tuple[Run, Outcomes]:
    """Each of these pods is moved by somebody else when its eviction is asked for."""
    leaves_after = changes.pop("leaves_after", None)
    run = Run(*names)
    run.cluster.refuse = dict.fromkeys(names, STARTED)
    began = run.time.now

    def while_asleep() -> None:
        if leaves_after is not None and run.time.now >= began + leaves_after:
            for name in sorted(set(names) & set(run.cluster.pods)):
                run.cluster.evict(name)

    run.time.while_asleep = while_asleep
    moves = [a_move(name) for name in names]
    return run, run(*moves, execution=Execution(wave_timeout=TIMEOUT), **changes)


def posts(run: Run) -> list[str]:
    return [pod for event, pod in run.journal() if event == "evicting"]


def test_a_pod_that_leaves_in_time_has_landed_like_any_other() -> None:
    run, outcomes = a_run("web-1", leaves_after=20.0)
    assert [item.result for item in outcomes.outcomes] == [Result.LANDED]
    assert outcomes.exit_code == ExitCode.DONE
    assert ("started", "shop/web-1") in run.journal()


def test_a_pod_that_has_not_left_when_the_wave_ends_is_started_and_no_failure() -> None:
    run, outcomes = a_run("web-1", "web-2")
    assert [item.result for item in outcomes.outcomes] == [Result.STARTED, Result.STARTED]
    assert (outcomes.exit_code, outcomes.stopped) == (ExitCode.DONE, "")
    assert run.time.now - NOW >= TIMEOUT
    assert posts(run) == ["shop/web-1", "shop/web-2"]  # each once


def test_a_started_eviction_is_asked_for_once() -> None:
    run = Run("web-1")
    asked: list[str] = []

    def handler(request: Request) -> Answer | Exception:
        if request.method == "POST":
            asked.append(request.path)
            return STARTED
        return run.cluster(request)

    api, _ = fake_api(handler, run.time)
    run(a_move("web-1"), api=api, execution=Execution(wave_timeout=TIMEOUT))
    assert len(asked) == 1


def test_the_next_run_leaves_its_workload_alone_for_the_cooldown() -> None:
    run, outcomes = a_run("web-1")
    state = after_outcomes(None, run.checkpoints[-1], run.time.now, 86_400.0, "run-1")
    (move,) = state.moves
    assert (move.result, move.uid) == ("Started", "uid-web-1")
    later = outcomes.outcomes[0].evicted_at
    assert later is not None
    history = MoveHistory(state.moves)
    assert history.in_cooldown(later + 3599, 3600, workload="shop/Deployment/web") == move
    assert history.in_cooldown(later + 3601, 3600, workload="shop/Deployment/web") is None


def test_the_next_wave_waits_for_a_started_eviction_until_the_waves_timeout() -> None:
    run = Run("web-1", "web-2")
    run.cluster.refuse = {"web-1": STARTED}
    outcomes = run(
        a_move("web-1", wave=1), a_move("web-2", wave=2), execution=Execution(wave_timeout=TIMEOUT)
    )
    assert [item.result for item in outcomes.outcomes] == [Result.STARTED, Result.LANDED]
    assert run.cluster.evicted_at[0] - NOW >= TIMEOUT


def test_a_dry_run_says_that_the_eviction_would_only_begin() -> None:
    _, outcomes = a_run("web-1", dry_run=True)
    (outcome,) = outcomes.outcomes
    assert outcome.result is Result.WOULD_EVICT
    assert outcome.because.startswith("dry run: its eviction would begin so: admission webhook")
    assert outcome.evicted_at is None


def test_a_replacement_that_lands_badly_is_unexpected_once_the_pod_has_left() -> None:
    run = Run("web-1")
    run.cluster.refuse = {"web-1": STARTED}
    run.cluster.lands_on = "hot"
    run.time.while_asleep = lambda: run.cluster.evict("web-1") if "web-1" in run.cluster.pods else None
    outcomes = run(a_move("web-1"), execution=Execution(wave_timeout=TIMEOUT))
    assert [item.result for item in outcomes.outcomes] == [Result.UNEXPECTED]
    assert outcomes.exit_code == ExitCode.STOPPED


def test_what_is_left_of_a_pod_whose_work_went_elsewhere_is_not_waited_for() -> None:
    run = Run("web-1")
    run.cluster.refuse = {"web-1": STARTED}

    def migrate() -> None:
        old = run.cluster.pods["web-1"]
        if old["status"]["phase"] == "Running":
            run.cluster.evict("web-1")
            run.cluster.pods["web-1"] = {**old, "status": {"phase": "Succeeded"}}

    run.time.while_asleep = migrate
    outcomes = run(a_move("web-1"), execution=Execution(wave_timeout=TIMEOUT))
    assert [item.result for item in outcomes.outcomes] == [Result.LANDED]
    assert run.time.now - NOW < TIMEOUT


@pytest.mark.parametrize(("annotated", "result"), [(True, Result.STARTED), (False, Result.NOT_REPLACED)])
def test_an_accepted_eviction_of_a_pod_that_says_it_is_being_moved_is_started(
    annotated: bool, result: Result
) -> None:
    run = Run("web-1")
    if annotated:
        run.cluster.pods["web-1"]["metadata"]["annotations"] = {EVICTION_IN_PROGRESS: "true"}
    run.cluster.refuse = {"web-1": Answer(201, {"kind": "Status"})}  # and the pod stays as it is
    outcomes = run(a_move("web-1"), execution=Execution(wave_timeout=TIMEOUT))
    assert [item.result for item in outcomes.outcomes] == [result]


def test_the_event_says_that_the_eviction_began() -> None:
    written: list[Any] = []

    def handler(request: Request) -> Answer:
        written.append(request.body)
        return Answer(201, {"kind": "Status"})

    api, _ = fake_api(handler)
    EventWriter(api, "run-1", lambda: NOW).evicted(a_move(), started=True)
    assert written[0]["note"].startswith("Began to evict pod web-1 from hot: ")


def test_a_run_that_is_killed_while_it_waits_has_left_the_move_in_the_state() -> None:
    run = Run("web-1")
    run.cluster.refuse = {"web-1": STARTED}
    run(
        a_move("web-1"),
        execution=Execution(wave_timeout=TIMEOUT),
        stop_requested=lambda: run.time.now > NOW + 5,
        journal=Journal(io.StringIO(), "run-1", run.time.clock),
    )
    assert all(outcome.evicted_at is not None for outcomes in run.checkpoints for outcome in outcomes)
