from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from rebalancer.cluster.arrays import NodeRow, PodRow
from rebalancer.planning import builder
from rebalancer.planning.builder import PlanBuilder
from rebalancer.planning.landing.evaluation import Candidate
from rebalancer.planning.plan import Plan
from rebalancer.planning.prepared import prepare
from rebalancer.planning.reasons import Reason
from tests.builders import a_budget, a_node
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
    searched,
)


def two_hot_nodes(*workloads: Workload, **inputs: Any) -> Plan:
    """Two hot nodes, from each of which three pods would have to leave, and much room elsewhere."""
    nodes = [a_node("a", cpu=10), a_node("b", cpu=10), a_node("cool", cpu=100)]
    pods = workloads or (a_workload("web", ["a"] * 9 + ["b"] * 9),)
    return plan_of(planning_inputs(nodes, pods, **inputs))


def by_node(plan: Plan) -> Counter[str]:
    return Counter(move.from_node for move in plan.moves)


def limited(**limits: Any) -> Any:
    return a_policy(limits=limits)


def test_without_limits_every_node_is_cooled() -> None:
    assert by_node(two_hot_nodes()) == {"a": 3, "b": 3}


def test_no_more_than_per_run_leave() -> None:
    plan = two_hot_nodes(policy=limited(perRun=4))
    assert by_node(plan) == {"a": 2, "b": 2}  # 5 points are left on each; 3 and 1 would leave 15 on one
    assert because(plan, "web-8") == "perRun 4 is reached"


def test_no_more_than_per_node_leave_a_node() -> None:
    plan = two_hot_nodes(policy=limited(perNode=2))
    assert by_node(plan) == {"a": 2, "b": 2}
    assert {item.because for item in plan.kept} == {"perNode 2 is reached"}


def test_no_more_than_per_namespace_leave_a_namespace() -> None:
    plan = two_hot_nodes(
        a_workload("web", ["a"] * 9),
        a_workload("api", ["b"] * 9, namespace="shop"),
        policy=limited(perNamespace=2),
    )
    assert Counter(move.pod.namespace for move in plan.moves) == {"default": 2, "shop": 2}
    assert because(plan, "web-8") == "perNamespace 2 for default is reached"


@rows("amount, moves", [("10%", 2), ("1%", 1), ("11%", 2), ("12%", 3), (1, 1), (5, 5)])
def test_no_more_than_per_workload_leave_and_a_share_is_rounded_up(amount: Any, moves: int) -> None:
    plan = two_hot_nodes(policy=limited(perWorkload=amount))
    assert len(plan.moves) == moves  # of 18 replicas


def test_limits_of_a_workload_count_its_top_most_controller() -> None:
    old, new = a_workload("old", ["a"] * 9), a_workload("new", ["b"] * 9)
    for revision in (old, new):
        revision.item["metadata"]["ownerReferences"] = [
            {"kind": "Deployment", "name": "web", "uid": "web", "controller": True, "apiVersion": "apps/v1"}
        ]
    counts = dict.fromkeys(("replicas", "updatedReplicas", "readyReplicas", "availableReplicas"), 18)
    web = {"metadata": {"name": "web", "namespace": "default", "uid": "web"}, "spec": {"replicas": 18}}
    plan = two_hot_nodes(old, new, policy=limited(perWorkload=2), deployments=[{**web, "status": counts}])
    assert [move.pod.workload for move in plan.moves] == ["Deployment/web"] * 2
    assert because(plan, "new-8") == "perWorkload 2 (2) for Deployment/web is reached"


def apart(app: str, nodes: str = "ab") -> list[Workload]:
    """Nine pods on each node, each of a controller of its own, all with the label of one app."""
    return [
        a_workload(f"{app}-{node}{number}", [node], labels={"app": app})
        for node in nodes
        for number in range(9)
    ]


def test_a_wave_moves_one_pod_of_a_controller_at_most() -> None:
    plan = two_hot_nodes(policy=a_policy(execution={"firstWave": 5, "waveSize": 5}))
    assert [move.wave for move in plan.moves] == [1, 2, 3, 4, 5, 6]
    assert {move.wave for move in two_hot_nodes(*apart("web")).moves} == {1}


def test_a_pod_that_is_replaced_only_once_it_is_gone_ends_its_wave() -> None:
    late = [a_workload(f"db-{number}", ["a"], kind="StatefulSet", cpu="2") for number in range(2)]
    others = [a_workload(f"web-{number}", ["b"], cpu="1500m") for number in range(6)]
    plan = two_hot_nodes(*others, *late, load={"a": 95, "b": 85})
    kinds = ["db" in move.pod.name for move in plan.moves]
    assert kinds.count(True) == 2
    for number in {move.wave for move in plan.moves}:
        in_wave = [late for late, move in zip(kinds, plan.moves, strict=True) if move.wave == number]
        assert not any(in_wave[:-1])


def test_the_first_wave_is_small_and_later_ones_are_full() -> None:
    plan = two_hot_nodes(*apart("web"), policy=a_policy(execution={"firstWave": 1, "waveSize": 2}))
    assert [move.wave for move in plan.moves] == [1, 2, 2, 3, 3, 4]


def test_a_wave_spends_no_more_than_a_budget_allows() -> None:
    plan = two_hot_nodes(
        *apart("web"), poddisruptionbudgets=[a_budget("web", labels={"app": "web"}, allowed=2)]
    )
    assert [move.wave for move in plan.moves] == [1, 1, 2, 2, 3, 3]


def test_a_copy_of_a_plan_spends_budgets_and_limits_for_itself() -> None:
    nodes = [a_node("a", cpu=10), a_node("b", cpu=10), a_node("cool", cpu=100)]
    inputs = planning_inputs(
        nodes,
        [*apart("web", "ab")],
        policy=a_policy(limits={"perRun": 1}, execution={"firstWave": 5}),
        poddisruptionbudgets=[a_budget("web", labels={"app": "web"}, allowed=1)],
    )
    prepared = prepare(inputs)
    first, second = (prepared.candidate(PodRow(row)) for row in range(2))
    builder = PlanBuilder(prepared, ())
    copied = builder.copy(inputs.policy.limits.model_copy(update={"per_run": 9}))

    assert copied.try_move(first) is None
    assert getattr(copied.copy().find(second, may_wait=False), "reason", None) is Reason.BUDGET
    assert builder.try_move(first) is None  # nothing is spent
    assert getattr(builder.try_move(second), "reason", None) is Reason.LIMIT


def test_pods_without_the_budget_join_the_wave() -> None:
    plan = two_hot_nodes(
        *apart("web", "a"),
        *apart("api", "b"),
        poddisruptionbudgets=[a_budget("web", labels={"app": "web"}, allowed=1)],
    )
    assert len([move for move in plan.moves if move.pod.name.startswith("api")]) == 3
    assert [move.wave for move in plan.moves if move.pod.name.startswith("web")] == [1, 2, 3]


@pytest.mark.parametrize("most", [1, 2, 3, 5, 9])
def test_the_search_ends_within_its_placements(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(builder, "MAX_PLACEMENTS", most)
    nodes = [a_node("a", cpu=10), a_node("b", cpu=10), a_node("cool", cpu=100)]
    found = searched(planning_inputs(nodes, [a_workload("web", ["a"] * 9 + ["b"] * 9)]))
    assert found.builder.evaluator.placed <= most


def test_what_the_search_did_not_reach_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(builder, "MAX_PLACEMENTS", 2)
    plan = two_hot_nodes()
    assert len(plan.moves) == 1
    assert kept(plan)["web-1"] == "SearchEnded"
    assert because(plan, "web-1") == "a plan computes at most 2 placements"


def test_several_pods_of_one_workload_may_be_part_of_one_plan() -> None:
    assert {move.pod.workload for move in two_hot_nodes().moves} == {"ReplicaSet/web"}


def test_the_hottest_node_is_cooled_first() -> None:
    nodes = [a_node("a", cpu=10), a_node("b", cpu=10), a_node("cool", cpu=100)]
    plan = plan_of(planning_inputs(nodes, [a_workload("web", ["a"] * 9 + ["b"] * 10)]))
    assert plan.moves[0].from_node == "b"


def test_a_pod_with_a_lower_priority_leaves_before_an_equal_one() -> None:
    nodes = [a_node("a", cpu=10), a_node("cool", cpu=100)]
    pods = [
        a_workload("able", ["a"], cpu="4500m", spec={"priority": 100}),
        a_workload("base", ["a"], cpu="4500m", spec={"priority": 0}),
    ]
    assert moved(plan_of(planning_inputs(nodes, pods))) == {"base-0": "cool"}


def test_what_is_not_needed_is_kept_with_that_reason() -> None:
    plan = two_hot_nodes()
    assert Counter(kept(plan).values()) == {"NotNeeded": 12}


def test_every_limit_that_keeps_a_pod_is_named() -> None:
    """Raising one of two limits that are spent together changes nothing."""
    plan = two_hot_nodes(policy=limited(perRun=4, perNamespace=4))
    assert because(plan, "web-8") == "perRun 4 and perNamespace 4 for default are reached"


@pytest.mark.parametrize(
    ("limit", "web", "api", "web_of_bank"),
    [
        (
            {"perNamespace": 1},
            "perNamespace 1 for shop is reached",
            "perNamespace 1 for shop is reached",
            "perNamespace 1 for bank is reached",
        ),
        (
            {"perWorkload": "10%"},
            "perWorkload 10% (1) for ReplicaSet/web is reached",
            "perWorkload 10% (1) for ReplicaSet/api is reached",
            "perWorkload 10% (2) for ReplicaSet/web is reached",
        ),
    ],
)
def test_a_limit_that_keeps_a_pod_is_that_of_its_own_namespace_and_workload(
    limit: dict[str, Any], web: str, api: str, web_of_bank: str
) -> None:
    nodes = [a_node("a", cpu=40), a_node("cool", cpu=100)]
    workloads = [
        a_workload("web", ["a"] * 10, namespace="shop"),
        a_workload("api", ["a"] * 10, namespace="shop"),
        a_workload("web", ["a"] * 20, namespace="bank"),
    ]
    plan = plan_of(planning_inputs(nodes, workloads, policy=limited(**limit)))
    said = {(item.pod.namespace, item.pod.controller_name): item.because for item in plan.kept}
    assert said == {("shop", "web"): web, ("shop", "api"): api, ("bank", "web"): web_of_bank}


def test_a_limit_that_stops_one_pod_does_not_stop_the_plan() -> None:
    """The pod that is left of web may not go; the cheap one goes instead, not the one that removes more."""
    pods = [
        a_workload("web", ["a", "a"], cpu="1300m"),
        a_workload("single", ["a"], cpu="1250m"),
        a_workload("critical", ["a"], cpu="2200m", spec={"priority": 1_000_000}),
        a_workload("rest", ["a"], kind="DaemonSet", cpu="2950m"),
    ]
    nodes = [a_node(name, cpu=10) for name in ("a", "b", "c")]
    plan = plan_of(planning_inputs(nodes, pods, policy=limited(perWorkload="10%")))
    assert set(moved(plan)) in ({"web-0", "single-0"}, {"web-1", "single-0"})


def test_a_wave_makes_no_more_replacements_than_a_quota_has_room_for() -> None:
    """Each evicted pod counts until it is gone, and its replacement beside it."""
    quota = {
        "metadata": {"name": "pods", "namespace": "default"},
        "spec": {"hard": {"pods": "10"}},
        "status": {"hard": {"pods": "10"}, "used": {"pods": "9"}},
    }
    plan = two_hot_nodes(*apart("web", "a"), resourcequotas=[quota])
    assert [move.wave for move in plan.moves] == [1, 2, 3]


def test_no_move_is_spent_where_another_node_would_have_been_cooled_by_it() -> None:
    pods = [
        *(a_workload(f"small-{number}", ["a"], cpu="500m") for number in range(4)),
        a_workload("pinned", ["a"], kind="DaemonSet", cpu="8"),
        *(a_workload(f"big-{node}", [node], cpu="3") for node in ("b", "d")),
        *(a_workload(f"rest-{node}", [node], kind="DaemonSet", cpu="6") for node in ("b", "d")),
    ]
    nodes = [a_node(name, cpu=10) for name in ("a", "b", "d")] + [a_node("cool", cpu=100)]
    plan = plan_of(planning_inputs(nodes, pods, policy=limited(perRun=2)))
    assert set(moved(plan)) == {"big-b-0", "big-d-0"}


def a_job_on_a(**spec: Any) -> Workload:
    job = a_workload("import", ["a"] * 9, kind="Job")
    job.item["spec"] |= spec
    return job


@rows("limit, moves", [(0, 0), (1, 1), (2, 2), (6, 3)])
def test_the_evictions_of_a_plan_count_against_the_backoff_limit_of_their_job(limit: int, moves: int) -> None:
    plan = two_hot_nodes(a_job_on_a(backoffLimit=limit), policy=a_policy(evictable={"jobs": True}))
    assert len(plan.moves) == moves
    if limit < 3:
        assert "backoffLimit" in because(plan, "import-8")


def test_a_plan_makes_no_job_wait_longer_than_a_wave_does() -> None:
    """Each failure doubles the time after which the Job makes the next pod: 10 s, then 20 s."""
    policy = a_policy(evictable={"jobs": True}, execution={"waveTimeout": "15s"})
    plan = two_hot_nodes(a_job_on_a(backoffLimit=6), policy=policy)
    assert len(plan.moves) == 0  # its grace period is 30 s
    quick = a_workload("import", ["a"] * 9, kind="Job", spec={"terminationGracePeriodSeconds": 1})
    plan = two_hot_nodes(quick, policy=policy)
    assert len(plan.moves) == 1
    assert because(plan, "import-8") == (
        "after its failures Job import may replace it only 20 s later, waveTimeout is 15 s"
    )


def test_the_move_of_a_job_closes_its_wave() -> None:
    """Its replacement comes 10 s later at the earliest: what is moved beside it would be placed before."""
    jobs = [a_workload(f"import-{number}", ["a"], kind="Job", cpu="1") for number in range(9)]
    plan = two_hot_nodes(*jobs, policy=a_policy(evictable={"jobs": True}))
    assert [move.wave for move in plan.moves] == list(range(1, len(plan.moves) + 1))
    assert len(plan.moves) > 1


def test_a_pod_like_one_that_has_landed_is_placed_in_the_cluster_that_is_left_then() -> None:
    nodes = [a_node(name, cpu=10) for name in ("hot", "b", "c")]
    prepared = prepare(planning_inputs(nodes, [a_workload("web", ["hot"] * 4, cpu="2200m")]))
    builder = PlanBuilder(prepared, ())
    first, second = (prepared.candidate(PodRow(row)) for row in (0, 1))
    before = chances(builder, second)
    builder.landed(first, NodeRow(prepared.nodes.row["b"]))
    found = chances(builder, second)
    assert before["b"] > 0.5 > found.get("b", 0.0)
    assert chances(builder, second) == found


def chances(builder: PlanBuilder, pod: Candidate) -> dict[str, float]:
    found = builder.evaluator.evaluate(pod, builder.scenarios, complete=True).landings()
    rows = (("b", "c", "hot")[row] for row in found.rows.tolist())
    return dict(zip(rows, found.chance.tolist(), strict=True))
