"""The strategy that spreads the pods of a workload over nodes: which count, and which move or stay."""

from __future__ import annotations

from collections import Counter
from typing import Any

from rebalancer.planning.explanation import PodExplanation
from rebalancer.planning.inputs import PlanningInputs
from rebalancer.planning.plan import Plan
from rebalancer.planning.planner import Planner
from rebalancer.planning.subjects import find_subject
from rebalancer.policy.schema import RebalancePolicy
from tests.builders import a_node
from tests.rows import rows
from tests.unit.planning.builders import (
    Workload,
    a_policy,
    a_workload,
    because,
    kept,
    moved,
    plan_of,
    planning_inputs,
)

NODES = (a_node("a"), a_node("b"), a_node("c"))


def inputs(
    *workloads: Workload, policy: RebalancePolicy | None = None, nodes: Any = NODES, **case: Any
) -> PlanningInputs:
    chosen = policy or a_policy(
        strategies={"duplicates": case.pop("settings", True)},
        hotNodes={"any": [{"utilization": {"cpu": 99}}]},
    )
    return planning_inputs(nodes, workloads, policy=chosen, **case)


def plan(*workloads: Workload, **case: Any) -> Plan:
    return plan_of(inputs(*workloads, **case))


def web(nodes: str, **changes: Any) -> Workload:
    """Pods of web on nodes a, b, c, a letter each."""
    return a_workload(changes.pop("name", "web"), list(nodes), **{"cpu": "100m", **changes})


def after(nodes: str, found: Plan) -> dict[str, int]:
    """How many pods each node runs once the plan is carried out."""
    counts = Counter(nodes)
    for move in found.moves:
        counts[move.from_node] -= 1
        counts[move.landings[0].node] += 1
    return dict(+counts)


def test_it_is_off_unless_asked_for() -> None:
    assert plan(web("aaa"), policy=a_policy()).moves == ()


@rows(
    "before, moves",
    [("aaa", 2), ("aab", 1), ("abc", 0), ("aabb", 0), ("aabbc", 0), ("aaaabc", 2), ("aaaaabb", 2), ("a", 0)],
)
def test_as_many_leave_a_node_as_are_above_its_share_and_no_more(before: str, moves: int) -> None:
    found = plan(web(before))

    assert len(found.moves) == moves
    assert max(after(before, found).values()) <= -(-len(before) // 3)
    assert plan(web("".join(node * count for node, count in after(before, found).items()))).moves == ()


def test_a_move_says_how_many_there_are_and_how_many_there_need_be() -> None:
    assert plan(web("aab")).moves[0].because == (
        "a runs 2 of the 3 pods like it of ReplicaSet/web, an even share on 3 nodes is 1; "
        "its replacement will be placed on c"
    )


def test_a_pod_stays_where_its_replacement_may_land_beside_as_many() -> None:
    full = a_workload("full", ["c"], cpu="4")
    found = plan(web("aab"), full)

    assert {"web-0": "NoBetterLanding", "web-1": "NoBetterLanding"}.items() <= kept(found).items()
    assert "b would run 2 pods of ReplicaSet/web like it, an even share is 1" in because(found, "web-0")


def test_nodes_that_do_not_suit_the_pods_have_no_share() -> None:
    tainted = {"key": "gpu", "value": "", "effect": "NoSchedule"}
    others: list[dict[str, Any]] = [
        {"taints": [tainted]},
        {"unschedulable": True},
        {"cpu": "50m"},
        {"ready": False, "taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]},
    ]
    for other in others:
        nodes = (a_node("a"), a_node("b"), a_node("c", **other))
        assert len(plan(web("aab"), nodes=nodes).moves) == 0
        assert len(plan(web("aaa"), nodes=nodes).moves) == 1


def test_one_suitable_node_runs_them_all() -> None:
    assert plan(web("aaa", spec={"nodeSelector": {"kubernetes.io/hostname": "a"}})).moves == ()


def of_deployment(name: str, *sets: Workload) -> dict[str, Any]:
    """The Deployment above ReplicaSets."""
    above = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "name": name,
        "uid": f"uid-{name}",
        "controller": True,
    }
    for item in sets:
        item.item["metadata"]["ownerReferences"] = [above]
    count = sum(len(item.pods) for item in sets)
    return {
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}", "generation": 1},
        "spec": {"replicas": count},
        "status": {
            "replicas": count,
            "readyReplicas": count,
            "updatedReplicas": count,
            "observedGeneration": 1,
        },
    }


def test_pods_of_two_revisions_with_the_same_images_are_alike() -> None:
    new, old = web("a", name="web-2"), web("a", name="web-1")
    found = plan(new, old, deployments=[of_deployment("web", new, old)])

    assert len(found.moves) + len(found.kept) >= 1
    assert "2 pods like it of Deployment/web" in (
        found.moves[0].because if found.moves else found.kept[0].because
    )


def test_pods_of_other_images_or_namespaces_or_workloads_are_not_alike() -> None:
    template = {
        "containers": [{"name": "main", "image": "app:v2", "resources": {"requests": {"cpu": "100m"}}}]
    }
    new, old = web("a", name="web-2", spec=template), web("a", name="web-1")
    workloads = [new, old, web("a", name="x"), web("a", name="x", namespace="other")]

    assert plan(*workloads, deployments=[of_deployment("web", new, old)]).moves == ()


def test_pods_that_may_not_be_evicted_count() -> None:
    kept_here = {"descheduler.alpha.kubernetes.io/prefer-no-eviction": ""}
    pods = web("aab")
    pods.pods[0]["metadata"]["annotations"] = kept_here
    found = plan(pods)

    assert moved(found) == {"web-1": "c"}


def test_pods_of_daemon_sets_and_pods_left_out_stay() -> None:
    assert plan(web("aaa", kind="DaemonSet")).moves == ()
    assert plan(web("aaa"), settings={"excludeOwnerKinds": ["ReplicaSet"]}).moves == ()
    assert plan(web("aaa"), settings={"namespaces": {"exclude": ["default"]}}).moves == ()


def test_the_pod_that_is_cheapest_to_evict_moves() -> None:
    pods = web("aab")
    pods.pods[0]["metadata"]["annotations"] = {"controller.kubernetes.io/pod-deletion-cost": "100"}

    assert list(moved(plan(pods))) == ["web-1"]


def test_under_limits_the_most_crowded_node_comes_first() -> None:
    policy = a_policy(strategies={"duplicates": True}, limits={"perRun": 1})
    found = plan(web("aab", name="few"), web("bbbb", name="many"), policy=policy)

    assert [move.pod.name[:4] for move in found.moves] == ["many"]
    assert found.strategies["duplicates"].figures == {"tooMany": 3.0, "tooManyAfter": 2.0}
    assert found.strategies["duplicates"].message == (
        "pods above an even share: 3, after the plan 2; perRun 1 is reached"
    )


def test_a_pod_whose_turn_the_limit_of_the_run_leaves_to_later_runs_is_explained() -> None:
    policy = a_policy(strategies={"duplicates": True}, limits={"perRun": 1})
    case = inputs(web("aaab"), policy=policy)
    (first,) = plan_of(case).moves
    other = next(name for name in ("web-0", "web-1", "web-2") if name != first.pod.name)
    found = Planner(case).explain(find_subject(case.snapshot, f"pod/default/{other}"))

    assert isinstance(found, PodExplanation)
    assert found.verdict == "Limit"
    assert found.verdict_because.startswith(
        "perRun 1 is reached before its turn (duplicates: a runs 3 of the 4"
    )


def test_before_a_later_wave_a_node_that_runs_its_share_by_then_keeps_its_pods() -> None:
    moves = plan(web("aab")).moves

    assert Planner(inputs(web("aab"))).recheck(moves) == {moves[0].pod.uid: moves[0]}
    assert Planner(inputs(web("acb"))).recheck(moves) == {
        moves[0].pod.uid: "NotNeeded: its node runs no more than an even share of them any more"
    }


def test_pods_that_others_move_land_where_they_crowd_no_node() -> None:
    def landed(strategies: dict[str, Any]) -> dict[str, str]:
        nodes = (a_node("a", unschedulable=True), a_node("b", cpu=2), a_node("c", cpu=8))
        old = web("ac", created="2026-05-01T00:00:00Z")
        old.pods[1]["metadata"]["creationTimestamp"] = "2026-05-31T12:00:00Z"
        policy = a_policy(strategies={"lifetime": {"maxAge": "48h"}, **strategies})
        full = a_workload("full", ["b"], cpu="2", created="2026-05-31T12:00:00Z")
        return moved(plan(old, full, nodes=nodes, policy=policy, load={"b": 10.0}))

    assert landed({}) == {"web-0": "c"}
    assert landed({"duplicates": True}) == {}
