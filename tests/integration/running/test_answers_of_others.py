"""Whatever stands between a run and the API server: its answers are no word of the API server."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from rebalancer.errors import ExitCode
from rebalancer_demo import Misbehaviour
from rebalancer_demo.api.requests import Request, Response
from tests.conftest import some_of
from tests.integration.hot_cluster import results_in_state
from tests.integration.running.hot_clusters import LANDED, HotCluster, cluster, results
from tests.integration.running.test_steering import journal, steering, tainted

__all__ = ["cluster"]

STATE = ("--state-config-map", "rebalancer/state")
LEASE = "/leases/rebalancer"
CarryOut = Callable[[], Response]


def html() -> Response:
    return Response(404, b"<html>404 Not Found</html>", "text/html")


def status(code: int, message: str = "x") -> Response:
    reason = {404: "NotFound", 409: "Conflict"}.get(code, "")
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "message": message}
    return Response.json({**body, "code": code}, code)


def behind(cluster: HotCluster, stands_between: Callable[[Request, CarryOut], Response | None]) -> None:
    """Let somebody answer requests in the API server's place, after they were carried out or not at all."""
    answer = cluster.sandbox.api.answer

    def answered(request: Request, *more: Any) -> Response:
        own = stands_between(request, lambda: answer(request, *more))
        return answer(request, *more) if own is None else own

    cluster.sandbox.api.answer = answered  # type: ignore[method-assign, assignment]


def evicts(request: Request) -> bool:
    return request.method == "POST" and request.path.endswith("/eviction")


def reads_pod(request: Request) -> bool:
    return request.method == "GET" and "/pods/" in request.path


def carried_out_and_denied(cluster: HotCluster, code: int) -> Callable[[Request, CarryOut], Response | None]:
    """A proxy that repeats a request and hands on the second answer, once the pod is gone."""

    def stands_between(request: Request, carry_out: CarryOut) -> Response | None:
        if not evicts(request):
            return None
        carry_out()
        name = request.path.split("/")[-2]
        assert cluster.sandbox.wait_until(lambda: cluster.sandbox.pod("shop", name) is None)
        return status(code)

    return stands_between


@pytest.mark.parametrize(
    "answer", [html, lambda: status(404, "the server could not find the requested resource")]
)
def test_a_lease_that_somebody_else_says_is_not_there_may_pause_runs_and_lets_nothing_be_evicted(
    cluster: HotCluster, answer: Callable[[], Response]
) -> None:
    has_planned: list[str] = []

    def stands_between(request: Request, _: CarryOut) -> Response | None:
        if reads_pod(request):  # for its eviction
            has_planned.append(request.path)
        return answer() if has_planned and request.path.endswith(LEASE) else None

    behind(cluster, stands_between)
    result, _ = cluster.run(*STATE)

    assert result.exit_code == ExitCode.STOPPED, result.stderr
    assert has_planned
    assert cluster.evicted() == 0


@pytest.mark.parametrize("answer", [html, lambda: status(404, "no such path")])
def test_a_pod_that_somebody_else_says_is_gone_ends_the_run_and_is_no_success(
    cluster: HotCluster, answer: Callable[[], Response]
) -> None:
    behind(cluster, lambda request, _: answer() if reads_pod(request) else None)
    result, _ = cluster.run(*STATE)

    assert result.exit_code == ExitCode.REJECTED, result.stderr
    assert cluster.evicted() == 0


def test_another_pod_in_its_place_is_no_word_on_a_pod(cluster: HotCluster) -> None:
    other = cluster.sandbox.pods("shop")[-1]
    body = {"kind": "Pod", "apiVersion": "v1", **other}
    behind(cluster, lambda request, _: Response.json(body) if reads_pod(request) else None)
    result, outcomes = cluster.run(*STATE)

    assert result.exit_code == ExitCode.UNREACHABLE, result.stderr
    assert set(results(outcomes)) == {"Skipped"}
    assert cluster.evicted() == 0


@pytest.mark.many_cases
@pytest.mark.parametrize("code", some_of([404, 409, 401, 403, 500]))
def test_evictions_that_were_carried_out_are_recorded_and_their_landings_verified_whatever_the_answer(
    cluster: HotCluster, code: int
) -> None:
    behind(cluster, carried_out_and_denied(cluster, code))
    result, outcomes = cluster.run(*STATE)

    assert result.exit_code == ExitCode.DONE, result.stderr
    assert set(results(outcomes)) <= LANDED
    assert len(results_in_state(cluster.sandbox)) == cluster.evicted() == len(results(outcomes))


@pytest.mark.parametrize("code", [404, 409])
def test_a_landing_on_a_hot_node_ends_the_run_whatever_the_eviction_was_answered_with(
    cluster: HotCluster, code: int
) -> None:
    cluster.sandbox.misbehave(Misbehaviour("misplace", "shop", node="node-1"))
    behind(cluster, carried_out_and_denied(cluster, code))
    result, outcomes = cluster.run(*STATE)

    assert result.exit_code == ExitCode.STOPPED
    assert results(outcomes)[0] == "Unexpected"
    assert cluster.evicted() == 1


def test_limits_count_evictions_whatever_they_were_answered_with(cluster: HotCluster) -> None:
    cluster.policy = cluster.policy.replace("perRun: 8", "perRun: 1, perHour: 2")
    cluster.policy = cluster.policy.replace("minGain: 5", "minGain: 1, cooldown: 0s")
    behind(cluster, carried_out_and_denied(cluster, 409))
    for _ in range(4):
        cluster.run(*STATE)

    assert cluster.evicted() == 2
    assert len(results_in_state(cluster.sandbox)) == 2


@pytest.mark.parametrize("days", [-30, 30])
def test_records_stay_where_one_answer_has_a_wrong_date(cluster: HotCluster, days: int) -> None:
    wrong = time.gmtime(cluster.sandbox.store.clock() + days * 86_400)
    date = time.strftime("%a, %d %b %Y %H:%M:%S GMT", wrong)

    def stands_between(request: Request, carry_out: CarryOut) -> Response | None:
        return replace(carry_out(), headers={"Date": date}) if evicts(request) else None

    behind(cluster, stands_between)
    result, outcomes = cluster.run(*STATE)

    assert result.exit_code == ExitCode.DONE, result.stderr
    assert len(results_in_state(cluster.sandbox)) == cluster.evicted() == len(results(outcomes))


def test_a_state_that_something_empties_as_it_is_stored_lets_nothing_be_evicted(cluster: HotCluster) -> None:
    def stands_between(request: Request, carry_out: CarryOut) -> Response | None:
        if request.method not in ("POST", "PUT") or "/configmaps" not in request.path:
            return None
        answer = json.loads(carry_out().body)
        state = {**json.loads(answer["data"]["state.json"]), "moves": []}
        return Response.json({**answer, "data": {"state.json": json.dumps(state)}})

    behind(cluster, stands_between)
    result, _ = cluster.run(*STATE)

    assert result.exit_code == ExitCode.STOPPED
    assert cluster.evicted() == 0


@pytest.mark.parametrize("answer", [html, lambda: status(403, "nodes is forbidden")])
def test_a_taint_that_stays_is_said_and_the_next_wave_does_not_begin(
    cluster: HotCluster, answer: Callable[[], Response]
) -> None:
    def stands_between(request: Request, _carry_out: CarryOut) -> Response | None:
        if request.method not in ("GET", "PATCH") or "/nodes/" not in request.path:
            return None
        return answer() if cluster.evicted() else None

    behind(steering(cluster), stands_between)
    result, outcomes = cluster.run(*STATE)
    steered, *_ = [line for line in journal(cluster) if line["event"] == "steered"]

    assert results(outcomes)[0] in LANDED
    assert set(results(outcomes)[1:]) == {"Skipped"}
    assert tainted(cluster) == {"node-4"}
    assert result.exit_code != ExitCode.DONE
    assert steered["leftBehind"] == ["node-4"]
    assert "node-4" in outcomes["stillTainted"]


@pytest.mark.many_cases
@pytest.mark.parametrize("code", some_of([401, 403, 404, 409, 500]))
def test_no_taint_stays_that_was_set_whatever_the_answer(cluster: HotCluster, code: int) -> None:
    def stands_between(request: Request, carry_out: CarryOut) -> Response | None:
        if request.method != "PATCH" or "/nodes/" not in request.path:
            return None
        carry_out()
        return status(code)

    behind(steering(cluster), stands_between)
    cluster.run(*STATE)

    assert tainted(cluster) == set()


def test_pods_stay_where_evictions_of_others_are_served_and_somebody_else_says_that_there_are_none(
    cluster: HotCluster,
) -> None:
    version = "lifecycle.k8s.io/v1alpha1"
    groups = [{"name": "lifecycle.k8s.io", "versions": [{"groupVersion": version, "version": "v1alpha1"}]}]
    documents = {
        "/apis": {"kind": "APIGroupList", "groups": groups},
        f"/apis/{version}": {
            "kind": "APIResourceList",
            "groupVersion": version,
            "resources": [{"name": "evictionrequests"}],
        },
    }

    def stands_between(request: Request, _carry_out: CarryOut) -> Response | None:
        if request.path in documents:
            return Response.json(documents[request.path])
        return html() if request.path.endswith("/evictionrequests") else None

    behind(cluster, stands_between)
    plan = json.loads(cluster.start("plan", "-o", "json").stdout)

    assert plan["moves"] == []
    assert "EvictionRequests were not read" in json.dumps(plan["kept"])
