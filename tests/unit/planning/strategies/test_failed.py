"""The strategy that removes failed pods: whom it wishes to remove, who is protected, and what that spends."""

from __future__ import annotations

from typing import Any

import pytest

from rebalancer.cluster.arrays import PodRow
from rebalancer.planning.eviction import EvictionContext, rules
from rebalancer.planning.explanation import PodExplanation
from rebalancer.planning.plan import Plan, decode, encode
from rebalancer.planning.planner import Planner
from rebalancer.planning.reasons import Reason
from rebalancer.planning.subjects import find_subject
from rebalancer.policy.policy_file import schema
from rebalancer.policy.schema import RebalancePolicy
from tests.builders import a_node, a_pod, owned_by
from tests.rows import rows
from tests.unit.planning.builders import a_policy, a_workload, at, because, kept, plan_of, planning_inputs

NODES = (a_node("a"), a_node("b"))


def a_failed_pod(
    name: str = "web-x",
    *,
    reason: str = "",
    code: int | None = None,
    init: bool = False,
    owner: str = "ReplicaSet",
    phase: str = "Failed",
    **pod: Any,
) -> dict[str, Any]:
    """A pod of phase Failed that ReplicaSet web owned; ``code`` is what a container ended with."""
    made = a_pod(name, node="a", owner=owned_by(owner, "web") if owner else None, **pod)
    made["status"] |= {"phase": phase, "reason": reason}
    if code is not None:
        ended = {"name": "main", "state": {"terminated": {"reason": "Error", "exitCode": code}}}
        made["status"]["initContainerStatuses" if init else "containerStatuses"] = [ended]
    return made


def inputs(*pods: dict[str, Any], policy: RebalancePolicy | None = None, **settings: Any) -> Any:
    """The failed pods beside one pod of their workload that runs, on nodes that are cool."""
    chosen = policy or a_policy(strategies={"failed": settings or True})
    workloads = [a_workload("web", ["a"]), a_workload("web", [], kind="Job")]
    return planning_inputs(NODES, workloads, pods=pods or [a_failed_pod()], policy=chosen)


def plan(*pods: dict[str, Any], **case: Any) -> Plan:
    return plan_of(inputs(*pods, **case))


def removed(found: Plan) -> list[str]:
    return [cleanup.pod.name for cleanup in found.cleanups]


def test_it_is_off_unless_asked_for() -> None:
    assert plan(policy=a_policy()).cleanups == ()


def test_a_failed_pod_is_removed_and_nothing_is_placed_in_its_stead() -> None:
    found = plan(a_failed_pod(reason="Evicted"))
    cleanup = found.cleanups[0]

    assert removed(found) == ["web-x"]
    assert found.moves == ()
    assert (cleanup.strategy, cleanup.node) == ("failed", "a")
    assert cleanup.pod.workload == "ReplicaSet/web"
    assert cleanup.because.startswith("it failed (Evicted) and is ")
    assert decode(encode(found)) == found


@pytest.mark.parametrize("phase", ["Succeeded", "Running"])
def test_pods_that_have_not_failed_stay(phase: str) -> None:
    assert plan(a_failed_pod(phase=phase)).cleanups == ()


def test_a_pod_must_be_old_enough() -> None:
    pods = a_failed_pod("old", created=at(-7200)), a_failed_pod("new", created=at(-60))

    assert removed(plan(*pods, minAge="1h")) == ["old"]


def test_a_pod_must_have_one_of_the_reasons_itself_or_of_a_container() -> None:
    pods = (
        a_failed_pod("evicted", reason="Evicted"),
        a_failed_pod("error", code=1),
        a_failed_pod("other", reason="NodeLost"),
    )

    assert removed(plan(*pods, reasons=["Evicted", "Error"])) == ["error", "evicted"]


def test_a_container_must_have_ended_with_one_of_the_codes() -> None:
    pods = a_failed_pod("one", code=1), a_failed_pod("two", code=2), a_failed_pod("none")

    assert removed(plan(*pods, exitCodes=[2, 137])) == ["two"]


def test_init_containers_count_where_that_is_asked() -> None:
    pod = a_failed_pod(code=3, init=True)

    assert removed(plan(pod, exitCodes=[3])) == []
    assert removed(plan(pod, exitCodes=[3], includingInitContainers=True)) == ["web-x"]


def test_owners_of_some_kinds_keep_their_pods() -> None:
    assert removed(plan(excludeOwnerKinds=["ReplicaSet"])) == []


def test_a_bare_pod_is_protected_unless_the_policy_says_otherwise() -> None:
    bare = a_failed_pod("bare", owner="")

    assert kept(plan(bare)) == {"bare": "NoController"}
    assert removed(plan(bare, barePods=True)) == ["bare"]


def test_a_running_bare_pod_is_never_lifted() -> None:
    running = a_pod("bare", node="a")

    found = plan(running, barePods=True)

    assert (found.moves, found.cleanups) == ((), ())


def test_pods_of_jobs_stay_unless_jobs_may_be_evicted() -> None:
    pod = a_failed_pod(owner="Job")
    policy = a_policy(strategies={"failed": True}, evictable={"jobs": True})

    assert kept(plan(pod)) == {"web-x": "Job"}
    assert removed(plan(pod, policy=policy)) == ["web-x"]


@rows(
    "evictable, reason",
    [
        ({"namespaces": {"exclude": ["default"]}}, "Namespace"),
        ({"minAge": "99999h"}, "TooYoung"),
        ({"podSelector": {"matchLabels": {"app": "other"}}}, "Labels"),
        ({"windows": [{"days": ["Sun"], "from": "01:00", "to": "02:00"}]}, "Window"),
    ],
)
def test_what_the_policy_protects_stays(evictable: dict[str, Any], reason: str) -> None:
    found = plan(policy=a_policy(strategies={"failed": True}, evictable=evictable))

    assert kept(found) == {"web-x": reason}
    assert "(failed: it failed (no reason given)" in because(found, "web-x")


def test_no_budget_is_asked_and_no_replica_is_missed() -> None:
    budget = {
        "metadata": {"name": "web", "namespace": "default", "uid": "pdb", "generation": 1},
        "spec": {"selector": {"matchLabels": {"app": "web"}}},
        "status": {"disruptionsAllowed": 0, "observedGeneration": 1},
    }
    policy = a_policy(strategies={"failed": True}, evictable={"protect": ["SingleReplica"], "minReplicas": 3})
    case = planning_inputs(
        NODES,
        [a_workload("web", ["a"])],
        pods=[a_failed_pod(labels={"app": "web"})],
        policy=policy,
        poddisruptionbudgets=[budget],
    )

    assert removed(plan_of(case)) == ["web-x"]


def test_a_limit_of_their_own_counts_them_and_no_other_does() -> None:
    pods = [a_failed_pod(f"web-{letter}") for letter in "xyz"]
    limits = {"cleanups": 2, "perRun": 0, "perNode": 0, "perNamespace": 0, "perHour": 0}
    found = plan(*pods, policy=a_policy(strategies={"failed": True}, limits=limits))

    assert removed(found) == ["web-x", "web-y"]
    assert kept(found) == {"web-z": "Limit"}
    assert because(found, "web-z").startswith("cleanups 2 is reached (failed: it failed")
    assert [item.setting for item in found.kept] == ["limits.cleanups"]


def test_hot_nodes_are_relieved_as_if_it_were_not_there() -> None:
    hot = [a_workload("api", ["a"] * 7 + ["b"], cpu="500m")]
    cases = {
        name: planning_inputs(NODES, hot, pods=[a_failed_pod(owner="")], policy=a_policy(strategies=on))
        for name, on in (("off", {}), ("on", {"failed": {"barePods": True}}))
    }
    off, on = plan_of(cases["off"]), plan_of(cases["on"])

    assert off.moves
    assert (on.moves, on.kept, on.benefit) == (off.moves, off.kept, off.benefit)
    assert removed(on) == ["web-x"]


def test_its_settings_are_in_the_schema() -> None:
    found = schema()["$defs"]

    assert set(found["FailedSettings"]["properties"]) == {
        *("minAge", "reasons", "exitCodes", "includingInitContainers", "excludeOwnerKinds", "barePods")
    }
    assert found["Strategies"]["properties"]["failed"]["default"] is False


def explained(pod: str, **settings: Any) -> PodExplanation:
    case = inputs(a_failed_pod("web-x", reason="Evicted"), **settings)
    found = Planner(case).explain(find_subject(case.snapshot, f"pod/default/{pod}"))
    assert isinstance(found, PodExplanation)
    return found


def test_an_explanation_says_what_becomes_of_it() -> None:
    found = explained("web-x")

    assert (found.verdict, found.evictable, found.landings, found.table) == ("Removed", True, (), None)
    assert found.wishes["failed"].startswith("it failed (Evicted)")
    assert explained("web-0").wishes == {}


def test_an_explanation_says_that_nobody_wishes_to_remove_it() -> None:
    found = explained("web-x", reasons=["Error"])

    assert found.wishes == {}
    assert found.verdict_because == "it has finished, and no strategy of the policy wishes to remove it"


def test_a_job_that_runs_may_move_after_a_pod_that_has_failed_is_removed() -> None:
    """A Job's failures count the pods that the plan evicts, not those that it removes after their end."""
    policy = a_policy(
        strategies={"failed": {"barePods": True}, "lifetime": {"maxAge": "1h"}}, evictable={"jobs": True}
    )
    job = a_workload("batch", ["a"], kind="Job", created=at(-7200))
    found = plan_of(planning_inputs(NODES, [job], pods=[a_failed_pod(owner="")], policy=policy))

    assert removed(found) == ["web-x"]
    assert [move.pod.name for move in found.moves] == ["batch-0"]


def test_a_pod_that_is_removed_although_nothing_controls_it_is_not_explained_as_protected() -> None:
    found = inputs(a_failed_pod(owner=""), barePods=True)
    assert removed(plan_of(found)) == ["web-x"]

    explained = Planner(found).explain(find_subject(found.snapshot, "pod/default/web-x"))

    assert isinstance(explained, PodExplanation)
    assert (explained.verdict, explained.evictable, explained.refusals) == ("Removed", True, ())
    assert explained.because == "nothing protects it"


@pytest.mark.parametrize("node", ["", "gone"])
def test_of_a_failed_pod_on_no_node_the_plan_does_not_say_that_its_node_is_not_ready(
    node: str,
) -> None:
    pod = a_failed_pod()
    pod["spec"]["nodeName"] = node

    assert because(plan(pod), "web-x").startswith("it is on no node that the cluster has (failed: ")


def test_a_protection_that_is_added_keeps_failed_pods_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def on_call(_context: EvictionContext, _row: PodRow) -> str:
        return "its team is on call"

    monkeypatch.setattr(rules, "BY_POLICY", (*rules.BY_POLICY, (on_call, Reason.LABELS)))

    assert plan(a_failed_pod()).cleanups == ()
