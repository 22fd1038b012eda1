"""A pause holds from the next eviction on, also inside a wave, and one that cannot be read holds too."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from rebalancer.errors import ExitCode, InputError, RightsError
from rebalancer.execution.outcomes import Outcomes, Stop
from rebalancer.execution.safety import why_paused
from rebalancer.policy.schema import Safety
from rebalancer.state.results import Result
from tests.unit.execution.builders import a_move
from tests.unit.execution.fake_api import Answer, Request, fake_api, not_found, refusal
from tests.unit.execution.tiny_cluster import Run

PATH = "/api/v1/namespaces/ops/configmaps/rebalancer-pause"
ABSENT = not_found(PATH)
FORBIDDEN = refusal(403, 'configmaps "rebalancer-pause" is forbidden')


def a_switch(answer: Callable[[], Answer]) -> Callable[[], str]:
    def handler(request: Request) -> Answer:
        assert (request.method, request.path) == ("GET", PATH)
        return answer()

    api, _ = fake_api(handler)
    return partial(why_paused, api, "ops", "rebalancer")


def a_config_map(namespace: str = "ops", name: str = "rebalancer-pause") -> Answer:
    return Answer(200, {"kind": "ConfigMap", "metadata": {"namespace": namespace, "name": name}})


def paused(**data: str) -> Answer:
    return Answer(
        200, {"kind": "ConfigMap", "metadata": {"namespace": "ops", "name": "rebalancer-pause"}, "data": data}
    )


def run_of_one_wave(**changes: Any) -> tuple[Run, Outcomes]:
    """Two moves of one wave."""
    run = Run("web-1", "web-2")
    if (pause := changes.pop("pause", None)) is not None:
        changes["pause"] = pause(run)
    if (safety := changes.pop("safety", None)) is not None:
        changes["safety"] = safety(run)
    return run, run(a_move("web-1"), a_move("web-2"), **changes)


def results(outcomes: Outcomes) -> list[Result]:
    return [outcome.result for outcome in outcomes.outcomes]


def test_runs_go_on_while_there_is_no_such_config_map() -> None:
    run, outcomes = run_of_one_wave(pause=lambda _: a_switch(lambda: ABSENT))
    assert results(outcomes) == [Result.LANDED, Result.LANDED]
    assert run.cluster.evicted == ["web-1", "web-2"]


@pytest.mark.parametrize("data", [{}, {"reason": "incident 42"}, {"pause": "false"}])
def test_the_config_map_pauses_by_being_there_and_its_reason_is_given(data: dict[str, str]) -> None:
    run, outcomes = run_of_one_wave(pause=lambda _: a_switch(lambda: paused(**data)))
    assert run.cluster.evicted == []
    assert (outcomes.stop, outcomes.exit_code) == (Stop.BRAKE, ExitCode.STOPPED)
    given = " ('incident 42')" if "reason" in data else ""
    assert outcomes.stopped == (
        f"runs are paused by the configmap ops/rebalancer-pause{given}; "
        "kubectl -n ops delete configmap rebalancer-pause lets them go on"
    )


def test_pausing_between_two_evictions_of_one_wave_holds_for_the_second() -> None:
    run, outcomes = run_of_one_wave(
        pause=lambda run: a_switch(lambda: paused() if run.cluster.evicted else ABSENT)
    )
    assert run.cluster.evicted == ["web-1"]
    assert results(outcomes) == [Result.LANDED, Result.SKIPPED]
    assert (outcomes.stop, outcomes.exit_code) == (Stop.BRAKE, ExitCode.STOPPED)
    assert outcomes.outcomes[1].because.startswith("runs are paused by the configmap")
    assert run.checkpoints[-1][1].evicted_at is None


def test_the_policy_pauses_between_two_evictions_of_one_wave_too() -> None:
    run, outcomes = run_of_one_wave(safety=lambda run: lambda: Safety(pause=bool(run.cluster.evicted)))
    assert run.cluster.evicted == ["web-1"]
    assert results(outcomes) == [Result.LANDED, Result.SKIPPED]
    assert outcomes.stopped == "the policy is paused (safety.pause)"


@pytest.mark.parametrize(
    ("answer", "stop"),
    [
        (FORBIDDEN, Stop.RIGHTS),
        (refusal(500, "storage"), Stop.UNREACHABLE),
        (Answer(200, b"{"), Stop.UNREACHABLE),
        (Answer(200, {"data": 7}), Stop.UNREACHABLE),
        (Answer(404, b"<html>404 Not Found</html>"), Stop.REJECTED),
        (Answer(404, b"404 page not found"), Stop.REJECTED),
        (refusal(404, "the server could not find the requested resource"), Stop.REJECTED),
        (not_found("/api/v1/namespaces/ops/configmaps/rebalancer"), Stop.REJECTED),
        (not_found("/api/v1/namespaces/ops/leases/rebalancer-pause"), Stop.REJECTED),
        (not_found("/api/v1/namespaces/ops"), Stop.REJECTED),
        (a_config_map(name="another"), Stop.UNREACHABLE),
        (a_config_map(namespace="another"), Stop.UNREACHABLE),
        (Answer(200, {"kind": "Status", "status": "Success"}), Stop.UNREACHABLE),
    ],
)
@pytest.mark.parametrize("before", [0, 1])
def test_a_switch_that_cannot_be_read_lets_nothing_more_be_evicted(
    answer: Answer, stop: Stop, before: int
) -> None:
    run, outcomes = run_of_one_wave(
        pause=lambda run: a_switch(lambda: answer if len(run.cluster.evicted) >= before else ABSENT)
    )
    assert len(run.cluster.evicted) == before
    assert outcomes.stop is stop
    assert "configmap ops/rebalancer-pause" in outcomes.stopped


def test_a_policy_that_became_unusable_lets_nothing_more_be_evicted() -> None:
    def safety(run: Run) -> Callable[[], Safety]:
        def read() -> Safety:
            if run.cluster.evicted:
                raise InputError("unknown field", where="policy.yaml:3:1")
            return Safety()

        return read

    run, outcomes = run_of_one_wave(safety=safety)
    assert run.cluster.evicted == ["web-1"]
    assert (outcomes.stop, outcomes.exit_code) == (Stop.SETTINGS, ExitCode.BAD_INPUT)


def test_runs_of_another_lease_have_a_switch_of_their_own() -> None:
    def handler(request: Request) -> Answer:
        assert request.path == "/api/v1/namespaces/ops/configmaps/blue-pause"
        return a_config_map(name="blue-pause")

    api, _ = fake_api(handler)
    said = why_paused(api, "ops", "blue")
    assert said.startswith("runs are paused by the configmap ops/blue-pause; kubectl -n ops delete ")


def test_a_switch_that_may_not_be_read_says_which_right_is_missing() -> None:
    with pytest.raises(RightsError, match="read configmap ops/rebalancer-pause"):
        a_switch(lambda: FORBIDDEN)()
