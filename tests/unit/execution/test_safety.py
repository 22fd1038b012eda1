"""Each brake says in a sentence why a run must stop; what cannot be known is reported, not fatal."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from rebalancer.cluster import times
from rebalancer.errors import RebalancerError
from rebalancer.execution.safety import ClusterHealth, SafetyChecks, SchedulerHealth, read_health
from rebalancer.policy.schema import Safety
from rebalancer.policy.units import Amount
from rebalancer.state.run_state import MeasuredAgreement
from tests.rows import rows
from tests.unit.execution.builders import NOW
from tests.unit.execution.contexts import a_policy
from tests.unit.execution.fake_api import Answer, Request, fake_api


def a_node(name: str, ready: str = "True") -> dict[str, Any]:
    return {"metadata": {"name": name}, "status": {"conditions": [{"type": "Ready", "status": ready}]}}


def a_waiting_pod(
    name: str, *, age: float = 60, reason: str = "Unschedulable", **metadata: Any
) -> dict[str, Any]:
    return {
        "metadata": {
            "namespace": "shop",
            "name": name,
            "uid": name,
            "creationTimestamp": times.render(NOW - age),
            **metadata,
        },
        "status": {
            "phase": "Pending",
            "conditions": [{"type": "PodScheduled", "status": "False", "reason": reason}],
        },
    }


def health(*, nodes: Any = (), pods: Any = ()) -> ClusterHealth:
    def handler(request: Request) -> Answer:
        found = {"/api/v1/nodes": nodes, "/api/v1/pods": pods}[request.path]
        kind = {"nodes": "NodeList", "pods": "PodList"}[request.path.rsplit("/")[-1]]
        return (
            found
            if isinstance(found, Answer)
            else Answer(200, {"kind": kind, "metadata": {}, "items": list(found)})
        )

    api, _ = fake_api(handler)
    return read_health(api, NOW, NOW)


def schedulers(*states: bool | None) -> ClusterHealth:
    found = [SchedulerHealth(f"s{index}", state, "the reason") for index, state in enumerate(states)]
    return ClusterHealth(schedulers=tuple(found))


def checks(safety: Safety, **more: Any) -> SafetyChecks:
    policy = a_policy(safety)
    return SafetyChecks(policy=policy, policy_now=lambda: policy, **more)


def why_stop(safety: Safety, found: ClusterHealth) -> str:
    return checks(safety).why_stop(lambda: found)


def test_a_healthy_cluster_pulls_no_brake() -> None:
    found = health(nodes=[a_node("a")])
    assert why_stop(Safety(), found) == ""
    assert why_stop(Safety(), schedulers(True, True)) == ""
    assert not found.unknown


def test_schedulers_of_which_none_is_alive_are_a_brake_whatever_the_policy_says() -> None:
    for safety in (Safety(), Safety(unknown_scheduler="proceed")):
        assert why_stop(safety, schedulers(False, False)) == "the scheduler s0 is not alive: the reason"


def test_a_scheduler_that_is_down_keeps_its_own_pods_and_is_no_brake_for_those_of_another() -> None:
    assert why_stop(Safety(), schedulers(True, False)) == ""
    assert why_stop(Safety(), schedulers(None, True)) == ""


def test_a_scheduler_of_unknown_state_is_a_brake_that_names_the_keys_to_change() -> None:
    found = schedulers(None, False)
    assert why_stop(Safety(), found) == (
        "whether the scheduler s0 is alive is not known: the reason. Name the pods that run it "
        "(scheduler.pods in the policy) or the Lease that it holds (scheduler.lease), or accept this with "
        "safety.unknownScheduler: proceed"
    )


def test_to_name_a_lease_is_no_advice_where_the_one_that_is_named_cannot_be_read() -> None:
    unread = SchedulerHealth("s0", None, "forbidden (grant it)", says_what_to_do=True)
    assert why_stop(Safety(), ClusterHealth(schedulers=(unread,))) == (
        "whether the scheduler s0 is alive is not known: forbidden (grant it). Until it is, "
        "safety.unknownScheduler: proceed accepts this"
    )


def test_a_scheduler_of_unknown_state_is_reported_where_the_policy_accepts_it() -> None:
    found = schedulers(None)
    assert why_stop(Safety(unknown_scheduler="proceed"), found) == ""
    assert found.unknown == ("whether the scheduler s0 is alive is not known: the reason",)


def test_pause_is_a_brake() -> None:
    paused = checks(Safety(pause=True))
    assert paused.why_stop() == paused.why_stop(ClusterHealth) == "the policy is paused (safety.pause)"


def test_a_policy_that_changed_ends_a_run_before_its_next_wave_and_not_within_one() -> None:
    changed = a_policy(Safety(max_pending_pods=Amount(3)))
    run = SafetyChecks(policy=a_policy(Safety()), policy_now=lambda: changed)
    assert run.why_stop() == ""
    assert run.why_stop(ClusterHealth) == (
        "the policy policy.yaml changed while the run was at work; the next run plans by it"
    )


def test_a_scheduler_that_is_not_known_to_decide_as_computed_is_a_brake_where_the_policy_asks() -> None:
    safety = Safety.model_validate({"minAgreement": "99%"})
    good = MeasuredAgreement(decisions=1000, landed=999, until=NOW)

    def why(measured: MeasuredAgreement | None) -> str:
        measuring = checks(safety, agreement=measured, now=lambda: NOW)
        return measuring.why_stop(lambda: health(nodes=[a_node("a")]))

    assert why(good) == ""
    assert "rebalancer agreement" in why(None)
    assert "safety.minAgreement is 99.00%" in why(replace(good, landed=980))


def test_nodes_that_are_not_ready_are_counted_against_the_share_of_all() -> None:
    safety = Safety(max_not_ready_nodes=Amount(50, percent=True))
    nodes = [a_node("a"), a_node("b", "False"), a_node("c", "Unknown"), {"metadata": {"name": "d"}}]
    setting = "the limit is 50% (safety.maxNotReadyNodes)"
    assert why_stop(safety, health(nodes=nodes)) == f"3 of 4 nodes are not ready (b, c, d); {setting}"
    assert why_stop(safety, health(nodes=[a_node("a"), a_node("b", "False")])) == ""


def test_a_node_that_cannot_be_read_is_not_ready() -> None:
    found = health(nodes=[a_node("a"), {"metadata": {"name": "b"}, "status": 7}])
    assert found.not_ready_nodes == ("b",)


def test_pods_that_wait_since_before_the_run_are_counted() -> None:
    pods = [a_waiting_pod(f"old-{index}") for index in range(3)]
    younger = a_waiting_pod("ours", age=-5, reason="")
    gated = a_waiting_pod("gated", reason="SchedulingGated")
    leaving = a_waiting_pod("leaving", deletionTimestamp=times.render(NOW))
    found = health(pods=[*pods, younger, gated, leaving])
    assert found.pending_pods == ("shop/old-0", "shop/old-1", "shop/old-2")
    assert why_stop(Safety(max_pending_pods=Amount(3)), found) == ""
    reason = why_stop(Safety(max_pending_pods=Amount(2)), found)
    assert (
        reason
        == "3 pods are Pending (shop/old-0, shop/old-1, shop/old-2); the limit is 2 (safety.maxPendingPods)"
    )


@pytest.mark.parametrize(("pod_count", "stops"), [(200, True), (201, False), (0, True)])
def test_pods_that_wait_are_counted_against_the_share_of_all_pods(pod_count: int, stops: bool) -> None:
    """A cluster whose number of pods is not known is not taken for a large one."""
    found = replace(health(pods=[a_waiting_pod(f"old-{index}") for index in range(3)]), pod_count=pod_count)
    reason = why_stop(Safety(max_pending_pods=Amount(1, percent=True)), found)
    assert (reason != "") is stops
    assert not reason or reason.startswith(f"3 of {pod_count} pods are Pending (shop/old-0")


def test_a_pod_made_during_the_run_counts_once_the_scheduler_found_no_node_for_it() -> None:
    tried = a_waiting_pod("tried", age=-5)
    untried = a_waiting_pod("untried", age=-5, reason="")
    assert health(pods=[tried, untried]).pending_pods == ("shop/tried",)


@rows("body", [b"", b"[]", b"{", b'{"items": {}}', b'{"items":' + b"[" * 9000])
def test_nodes_that_cannot_be_listed_are_an_error_not_an_empty_cluster(body: bytes) -> None:
    with pytest.raises(RebalancerError):
        health(nodes=Answer(200, body))
