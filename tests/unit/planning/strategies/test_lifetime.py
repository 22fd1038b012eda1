"""The strategy that replaces old pods: whom, in which order, how many, and where they may land."""

from __future__ import annotations

from typing import Any

import pytest

from rebalancer.errors import InputError
from rebalancer.planning.explanation import NodeExplanation, WorkloadExplanation
from rebalancer.planning.inputs import PlanningInputs
from rebalancer.planning.plan import Change, Plan
from rebalancer.planning.planner import Planner
from rebalancer.planning.subjects import find_subject
from rebalancer.policy.policy_file import parse_policy
from rebalancer.policy.schema import RebalancePolicy
from rebalancer.state.run_state import RunState
from tests.builders import a_budget, a_node, a_pod, owned_by
from tests.rows import rows
from tests.unit.planning.builders import (
    Workload,
    a_past_move,
    a_policy,
    a_workload,
    at,
    because,
    kept,
    moved,
    plan_of,
    planning_inputs,
)

HOUR = 3600
NODES = (a_node("a"), a_node("b"))
OLD, OLDER, YOUNG = at(-30 * HOUR), at(-60 * HOUR), at(-HOUR)


def inputs(
    *workloads: Workload, policy: RebalancePolicy | None = None, nodes: Any = NODES, **case: Any
) -> PlanningInputs:
    settings = case.pop("settings", {"maxAge": "24h"})
    chosen = policy or a_policy(strategies={"lifetime": settings})
    return planning_inputs(nodes, workloads, policy=chosen, **case)


def plan(*workloads: Workload, **case: Any) -> Plan:
    return plan_of(inputs(*workloads, **case))


def order(found: Plan) -> list[str]:
    return [move.pod.name for move in found.moves]


def test_it_is_off_unless_asked_for() -> None:
    assert plan(a_workload("web", ["a"], created=OLD), policy=a_policy()).moves == ()


def test_a_pod_that_is_too_old_is_replaced_and_the_plan_says_why() -> None:
    found = plan(a_workload("old", ["a"], created=OLD), a_workload("young", ["a"], created=YOUNG))

    assert order(found) == ["old-0"]
    assert found.moves[0].because.startswith("it is 30 h old, its lifetime is 24 h; its replacement will be")
    assert found.moves[0].strategy == "lifetime"


def test_the_oldest_is_replaced_first() -> None:
    workloads = [a_workload(name, ["a"], created=created) for name, created in (("x", OLD), ("y", OLDER))]

    assert order(plan(*workloads)) == ["y-0", "x-0"]


def test_the_new_pod_may_run_on_the_node_that_the_old_one_leaves() -> None:
    pinned = a_workload("web", ["a"], created=OLD, spec={"nodeName": "a", "nodeSelector": {"disk": "ssd"}})
    pinned.item["spec"]["template"]["spec"].pop("nodeName")
    nodes = (a_node("a", labels={"disk": "ssd"}), a_node("b"))
    found = plan(pinned, nodes=nodes)

    assert moved(found) == {"web-0": "a"}
    assert "its replacement will be placed on a, which it leaves" in found.moves[0].because


def test_a_landing_on_the_same_node_is_as_planned_and_one_that_heats_a_node_is_not() -> None:
    only_a = {"nodeSelector": {"kubernetes.io/hostname": "a"}}
    case = inputs(a_workload("web", ["a"], created=OLD, spec=only_a), load={"b": 79.0})
    planner = Planner(case)
    found = planner.plan()

    assert planner.landed_well(found, found.moves[0], "a") is None
    assert "b would be at 104.0 % cpu" in (planner.landed_well(found, found.moves[0], "b") or "")


def test_a_landing_on_its_own_node_is_allowed_however_busy_that_is() -> None:
    found = plan(
        a_workload("web", ["a"], created=OLD, spec={"nodeSelector": {"kubernetes.io/hostname": "a"}}),
        load={"a": 97.0},
        policy=a_policy(
            strategies={"lifetime": {"maxAge": "24h"}}, hotNodes={"any": [{"utilization": {"cpu": 99}}]}
        ),
    )

    assert moved(found) == {"web-0": "a"}


def test_a_landing_on_its_own_node_leaves_that_as_full_as_it_is() -> None:
    """Also where pods use more than their node reports, of which each takes its share along."""
    only_a = {"nodeSelector": {"kubernetes.io/hostname": "a"}}
    web, api = (a_workload(name, ["a"], cpu="2", created=OLD, spec=only_a) for name in ("web", "api"))
    found = plan(web, api, load={"a": 30.0}, nodes=(a_node("a", cpu=8), a_node("b")))

    assert moved(found) == {"api-0": "a", "web-0": "a"}
    node = found.nodes[0]
    assert node.after is not None
    assert (node.after.load["cpu"], node.after.load["pods"]) == (30.0, node.load["pods"])
    assert [move.landings[0].load["cpu"] for move in found.moves] == [Change(before=30.0, after=30.0)] * 2
    assert found.benefit is not None
    assert found.benefit.peak["cpu"] == Change(before=30.0, after=30.0)


def test_of_a_workload_one_pod_is_replaced_in_a_run() -> None:
    found = plan(a_workload("web", ["a", "a", "b", "b"], created=OLD))

    assert order(found) == ["web-0"]
    assert kept(found) == dict.fromkeys(["web-1", "web-2", "web-3"], "Siblings")
    assert because(found, "web-1").startswith("1 of ReplicaSet/web moves in this run; the others follow")


def test_a_protected_pod_of_such_a_workload_does_not_follow_in_a_later_run() -> None:
    web = a_workload("web", ["a", "a", "b"], created=OLD)
    web.pods[1]["metadata"]["annotations"] = {"rebalancer/evict": "false"}
    found = plan(web)

    assert order(found) == ["web-0"]
    assert kept(found) == {"web-1": "Annotation", "web-2": "Siblings"}


def test_pods_that_their_controller_keeps_on_their_node_are_not_mentioned() -> None:
    assert plan(a_workload("agent", ["a", "b"], created=OLD, kind="DaemonSet")).kept == ()


def test_or_as_many_as_its_disruption_budget_allows_at_once() -> None:
    budgets = [a_budget("web", labels={"app": "web"}, allowed=2)]
    found = plan(a_workload("web", ["a", "a", "b", "b"], created=OLD), poddisruptionbudgets=budgets)

    assert (order(found), set(kept(found).values())) == (["web-0", "web-1"], {"Siblings"})


@pytest.mark.parametrize("kind", ["ReplicaSet", "StatefulSet"])
def test_a_budget_that_allows_all_of_them_at_once_lets_a_run_replace_all_but_one(kind: str) -> None:
    budgets = [a_budget("web", labels={"app": "web"}, allowed=3)]
    found = plan(a_workload("web", ["a", "a", "b"], created=OLD, kind=kind), poddisruptionbudgets=budgets)

    assert (order(found), kept(found)) == (["web-0", "web-1"], {"web-2": "Siblings"})


def test_a_workload_moved_by_an_earlier_run_is_left_alone() -> None:
    state = RunState(moves=(a_past_move(),))

    assert kept(plan(a_workload("web", ["a"], created=OLD), state=state)) == {"web-0": "Cooldown"}


def test_a_pod_says_itself_how_old_it_may_become() -> None:
    def due(text: str, **settings: Any) -> list[str]:
        own = {"rebalancer/max-lifetime": text}
        return order(plan(a_workload("web", ["a"], created=OLD, annotations=own), settings=settings or True))

    assert due("29h") == due("29h", maxAge="240h") == due("29h", states=["Pending"]) == ["web-0"]
    assert due("31h") == due("31h", maxAge="1h") == due("never", maxAge="1h") == due("", maxAge="1h") == []


def test_without_settings_only_pods_with_that_annotation_are_replaced() -> None:
    assert plan(a_workload("web", ["a"], created=OLD), settings=True).moves == ()


def a_waiting_pod(name: str, reason: str, phase: str = "Pending", since: str = OLD) -> dict[str, Any]:
    made = a_workload("web", ["a"], created=since).pods[0]
    made["metadata"] |= {"name": name, "uid": name}
    made["status"] |= {
        "phase": phase,
        "conditions": [{"type": "Ready", "status": "False", "reason": "X", "lastTransitionTime": since}],
        "containerStatuses": [{"name": "main", "state": {"waiting": {"reason": reason}}}],
    }
    return made


def of_web(*pods: dict[str, Any]) -> Workload:
    workload = a_workload("web", [], replicas=len(pods))
    workload.item["status"]["readyReplicas"] = 0
    workload.pods.extend(pods)
    return workload


@rows(
    "settings, due",
    [
        ({"states": ["ImagePullBackOff"]}, True),
        ({"states": ["Pending"], "maxAge": "24h"}, True),
        ({"states": ["Pending"], "maxAge": "31h"}, False),
        ({"states": ["Running", "CrashLoopBackOff"]}, False),
        ({"conditions": [{"type": "Ready", "status": "False"}]}, True),
        ({"conditions": [{"type": "Ready", "status": "False", "minSince": "29h"}]}, True),
        ({"conditions": [{"type": "Ready", "status": "False", "minSince": "31h"}]}, False),
        ({"conditions": [{"type": "Ready", "status": "False", "reason": "Y"}]}, False),
        ({"conditions": [{"type": "Gate"}, {"type": "Ready", "status": "False"}]}, True),
        ({"exitCodes": [1]}, False),
        ({"states": ["ImagePullBackOff"], "excludeOwnerKinds": ["ReplicaSet"]}, False),
        ({"states": ["ImagePullBackOff"], "includeOwnerKinds": ["ReplicaSet"]}, True),
        ({"states": ["ImagePullBackOff"], "namespaces": {"exclude": ["default"]}}, False),
        ({"states": ["ImagePullBackOff"], "podSelector": {"matchLabels": {"app": "web"}}}, True),
    ],
)
def test_everything_that_is_asked_for_must_be_met(settings: dict[str, Any], due: bool) -> None:
    assert order(plan(of_web(a_waiting_pod("p", "ImagePullBackOff")), settings=settings)) == ["p"] * due


def test_a_pod_that_is_not_ready_is_replaced_though_its_workload_has_too_few_that_are() -> None:
    workload = of_web(a_waiting_pod("p", "ImagePullBackOff"), *a_workload("web", ["a"], created=OLDER).pods)
    workload.item["status"]["readyReplicas"] = 1
    found = plan(workload)

    assert order(found) == ["p"]
    assert kept(found) == {"web-0": "UnreadyReplicas"}
    asked = inputs(workload)
    explained = [
        Planner(asked).explain(find_subject(asked.snapshot, name)) for name in ("node/a", "rs/default/web")
    ]
    for answer in explained:
        assert isinstance(answer, NodeExplanation | WorkloadExplanation)
        assert {pod.pod.name: pod.verdict for pod in answer.pods} == {
            "p": "Moved",
            "web-0": "UnreadyReplicas",
        }


def test_old_pods_that_have_finished_are_removed_and_young_ones_stay() -> None:
    def finished(name: str, phase: str, created: str, owner: bool = True) -> dict[str, Any]:
        of = owned_by("ReplicaSet", "web") if owner else None
        made = a_pod(name, node="a", owner=of, created=created)
        made["status"]["phase"] = phase
        return made

    pods = [
        finished("done", "Succeeded", OLDER),
        finished("failed", "Failed", OLD),
        finished("new", "Failed", YOUNG),
        finished("bare", "Succeeded", OLD, owner=False),
    ]
    web = a_workload("web", ["b"], created=YOUNG)

    def removed(found: Plan) -> list[str]:
        assert found.moves == ()
        return [cleanup.pod.name for cleanup in found.cleanups]

    found = plan(web, pods=pods)
    assert (removed(found), kept(found)) == (["done", "failed"], {"bare": "NoController"})
    with_bare_pods = plan(web, pods=pods, settings={"maxAge": "24h", "barePods": True})
    assert removed(with_bare_pods) == ["bare", "done", "failed"]
    assert removed(plan(web, pods=pods, settings={"states": ["Succeeded"]})) == ["done"]


def test_of_pods_that_wait_for_later_runs_the_plan_says_how_many_there_are() -> None:
    workloads = [a_workload(f"w{number}", ["a"], created=OLD, cpu="1m") for number in range(5)]
    policy = a_policy(strategies={"lifetime": {"maxAge": "24h"}}, limits={"perRun": 2})
    found = plan(*workloads, policy=policy)

    assert (len(found.moves), found.kept) == (2, ())
    assert found.strategies["lifetime"].message == "3 more may move in later runs: perRun 2 is reached"


def test_before_a_later_wave_the_pod_is_looked_at_again() -> None:
    web = a_workload("web", ["a"], created=OLD)
    moves = plan(web).moves

    assert Planner(inputs(web)).recheck(moves) == {moves[0].pod.uid: moves[0]}
    later = Planner(inputs(web, settings={"maxAge": "999h"})).recheck(moves)
    assert later == {moves[0].pod.uid: "NotNeeded: its lifetime is not over any more"}


@pytest.mark.parametrize(("since", "moves"), [("29h", 1), ("31h", 0)])
def test_since_when_a_pod_is_ready_counts_while_it_is(since: str, moves: int) -> None:
    web = a_workload("web", ["a"], created=OLDER)
    web.pods[0]["status"]["conditions"] = [{"type": "Ready", "status": "True", "lastTransitionTime": OLD}]
    settings = {"conditions": [{"type": "Ready", "status": "True", "minSince": since}]}

    assert len(plan(web, settings=settings).moves) == moves
    web.pods[0]["status"]["conditions"][0]["lastTransitionTime"] = None
    assert plan(web, settings=settings).moves == ()  # since nobody knows when


def test_since_when_a_pod_has_been_scheduled_cannot_be_asked() -> None:
    text = """\
apiVersion: rebalancer/v1alpha1
kind: RebalancePolicy
strategies:
  lifetime:
    conditions:
    - {type: PodScheduled, minSince: 1h}
"""
    with pytest.raises(InputError, match="since when PodScheduled is True is not read"):
        parse_policy(text, "p.yaml")
    parse_policy(text.replace("type: PodScheduled", 'type: PodScheduled, status: "False"'), "p.yaml")


def test_a_pod_of_unknown_age_is_not_replaced_and_does_not_keep_the_oldest_from_being_the_first() -> None:
    workloads = [a_workload(name, ["a"], created=OLD, cpu="1m") for name in ("a-young", "b", "c-old")]
    for workload, created in zip(workloads, (OLD, None, OLDER), strict=True):
        workload.pods[0]["metadata"] |= {
            "creationTimestamp": created,
            "annotations": {"rebalancer/max-lifetime": "1h"},
        }
    policy = a_policy(strategies={"lifetime": True}, limits={"perRun": 1})

    assert [move.pod.name for move in plan(*workloads, policy=policy).moves] == ["c-old-0"]
