from __future__ import annotations

import re

import pytest
from msgspec.structs import replace

from rebalancer.errors import InputError
from rebalancer.planning.inputs import PlanningInputs
from rebalancer.planning.planner import make_plan
from rebalancer.planning.subjects import find_subject
from rebalancer.questions.why_not import WhyNot, why_not
from tests.builders import a_budget, a_node
from tests.unit.planning.builders import a_policy, a_workload, at, planning_inputs

NODES = (a_node("a", cpu=10), a_node("cool", cpu=100))
YOUNG = a_policy(evictable={"minAge": "10m"})


def answer(inputs: PlanningInputs, subject: str = "") -> WhyNot:
    return why_not(inputs, find_subject(inputs.snapshot, subject) if subject else None)


def test_a_cluster_without_a_hot_node_says_how_far_the_nearest_is() -> None:
    inputs = planning_inputs(NODES, load={"a": 74.0, "cool": 10.0})

    found = answer(inputs)

    assert found.verdict == "no node is hot: a is at 74.0 % cpu, hot above 80.0 %, 6.0 points more"
    assert [(item.node, item.load, item.hot_above) for item in found.nearest] == [
        ("a", 74.0, 80.0),
        ("cool", 10.0, 80.0),
    ]


def test_an_unknown_node_is_not_said_to_be_near_to_anything() -> None:
    inputs = planning_inputs(NODES, load={"a": float("nan"), "cool": 10.0})

    assert [item.node for item in answer(inputs).nearest] == ["cool"]
    assert answer(inputs, "node/a").verdict.startswith("its load is not known")


def test_a_node_whose_memory_is_unknown_is_not_said_to_be_not_hot_of_its_pods_either() -> None:
    load = {"a": (50.0, float("nan")), "cool": (10.0, 10.0)}
    found = answer(planning_inputs(NODES, [a_workload("web", ["a"] * 2)], load=load), "pod/default/web-0")

    assert (found.nearest, found.verdict) == (
        (),
        "the load of a is not known, so it is not taken for hot: nothing needs to leave it",
    )


def test_the_setting_that_holds_most_of_the_load_is_named_first() -> None:
    inputs = planning_inputs(NODES, [a_workload("fresh", ["a"] * 9, cpu="1", created=at(-60))], policy=YOUNG)

    found = answer(inputs)

    assert found.verdict == (
        "nothing is moved from 1 hot node: evictable.minAge keeps 100% of the load that could leave, "
        "e.g. default/fresh-8: is 1 min old, minAge 10 min"
    )
    assert found.obstacles == make_plan(inputs).obstacles
    assert found.next_steps[0] == "rebalancer plan --diff OTHER_POLICY.yaml"


def test_a_cluster_whose_plan_moves_pods_says_so() -> None:
    inputs = planning_inputs(NODES, [a_workload("web", ["a"] * 9)])

    found = answer(inputs)

    assert (found.moves, found.obstacles) == (3, ())
    assert found.verdict.startswith("3 pods would be moved, and every hot node cools")


def test_pods_that_never_move_are_no_setting_s_fault() -> None:
    agents = a_workload("agent", ["a"], kind="DaemonSet", cpu="9")

    assert "no pod there could ever move" in answer(planning_inputs(NODES, [agents])).verdict


def test_a_node_is_answered_by_what_holds_its_own_load() -> None:
    nodes = (*NODES, a_node("b", cpu=10))
    budget = a_budget("tight", labels={"app": "web"}, allowed=0)
    workloads = [
        a_workload("fresh", ["a"] * 9, cpu="1", created=at(-60)),
        a_workload("web", ["b"] * 9, cpu="1"),
    ]
    inputs = planning_inputs(nodes, workloads, policy=YOUNG, poddisruptionbudgets=[budget])

    found = answer(inputs, "node/b")

    assert [(item.reasons, item.share, item.pods) for item in found.obstacles] == [(("Budget",), 1.0, 9)]
    assert found.verdict == "it stays at 90.0 % cpu (coolTo 65); kept: 9 by a disruption budget"
    assert len(answer(inputs).obstacles) == 2


def test_a_node_that_is_not_hot_says_how_far_it_is() -> None:
    inputs = planning_inputs(NODES, load={"a": 90.0, "cool": 10.0})

    assert answer(inputs, "node/cool").verdict == (
        "it is not hot: cool is at 10.0 % cpu, hot above 80.0 %, 70.0 points more"
    )


def test_a_pod_is_answered_by_every_rule_that_keeps_it() -> None:
    budget = a_budget("tight", labels={"app": "fresh"}, allowed=0)
    fresh = a_workload("fresh", ["a"] * 9, cpu="1", created=at(-60))
    inputs = planning_inputs(NODES, [fresh], policy=YOUNG, poddisruptionbudgets=[budget])

    found = answer(inputs, "pod/default/fresh-0")

    assert [item.reason for item in found.refusals] == ["TooYoung", "Budget"]
    assert found.verdict == found.refusals[0].because


def test_a_pod_that_a_limit_keeps_says_whether_it_would_move_without_it() -> None:
    one = a_policy(limits={"perRun": 1, "perNode": 8, "perWorkload": "100%"}, planning={"confidence": 0.5})
    inputs = planning_inputs(NODES, [a_workload("web", ["a"] * 9, cpu="1")], policy=one)
    plan = make_plan(inputs)
    held = [item.pod.name for item in plan.kept if item.setting == "limits.perRun"]
    free = {move.pod.name for move in make_plan(without_limit(inputs)).moves}
    assert held
    assert free

    for name in held:
        words = "the plan would move it" if name in free else "it would stay all the same: "
        verdict = answer(inputs, f"pod/default/{name}").verdict
        assert f"perRun 1 is reached; without limits.perRun {words}" in verdict


def without_limit(inputs: PlanningInputs) -> PlanningInputs:
    limits = inputs.policy.limits.model_copy(update={"per_run": 100})
    return replace(inputs, policy=inputs.policy.model_copy(update={"limits": limits}))


def test_a_pod_that_would_be_moved_says_where() -> None:
    inputs = planning_inputs(NODES, [a_workload("web", ["a"] * 9)])
    moved = make_plan(inputs).moves[0].pod.full_name

    found = answer(inputs, f"pod/{moved}")

    assert found.moves == 1
    assert found.verdict.startswith("it would be moved, wave 1:")


def test_a_pod_of_a_cool_node_says_that_its_node_is_not_hot() -> None:
    inputs = planning_inputs(NODES, [a_workload("web", ["cool"])])

    assert answer(inputs, "pod/default/web-0").verdict.startswith("its node is not hot: cool is at 1.0 % cpu")


def test_what_other_strategies_move_off_cool_nodes_is_said_before_how_far_they_are_from_hot() -> None:
    policy = a_policy(strategies={"lifetime": {"maxAge": "1m"}})
    inputs = planning_inputs(NODES, [a_workload("web", ["a", "a", "a"])], policy=policy)
    (moved,) = make_plan(inputs).moves

    assert answer(inputs).verdict.startswith("1 pod would be moved by lifetime: see rebalancer plan; no node")
    assert answer(inputs, "node/a").verdict.startswith("1 pod would be moved by lifetime: see rebalancer pl")
    sibling = next(name for name in ("web-0", "web-1", "web-2") if name != moved.pod.name)
    assert answer(inputs, f"pod/default/{sibling}").verdict.startswith(
        "1 of ReplicaSet/web moves in this run"
    )


def test_what_strategies_would_move_and_may_not_is_said_where_no_node_is_hot() -> None:
    """The answer was that no node is hot, whatever the strategies of the policy wished."""
    policy = a_policy(strategies={"lifetime": {"maxAge": "1m"}}, limits={"perNamespace": 0})
    inputs = planning_inputs(NODES, [a_workload("web", ["a", "a"])], policy=policy)
    because = "perNamespace 0 for default is reached"

    said = f"2 pods that strategies would move stay, 2 by Limit, e.g. default/web-0: {because}"
    assert answer(inputs).verdict.startswith(said)
    assert answer(inputs).next_steps[0] == "rebalancer plan"
    assert answer(inputs, "node/a").verdict.startswith(said)
    assert answer(inputs, "node/cool").verdict.startswith("it is not hot")


def test_a_workload_is_left_to_explain() -> None:
    inputs = planning_inputs(NODES, [a_workload("web", ["cool"])])

    with pytest.raises(InputError, match="rebalancer explain replicaset/default/web"):
        answer(inputs, "rs/default/web")


@pytest.mark.parametrize(
    ("source", "kind", "told"),
    [
        ("https://10.0.0.1:6443", "node", "kubectl get nodes"),
        ("https://10.0.0.1:6443", "pod", "kubectl get pods -A"),
        ("my dump", "node", "rebalancer nodes --from 'my dump'"),
        ("my dump", "pod", "rebalancer explain node/NAME --from 'my dump'"),
    ],
)
def test_names_of_a_recorded_cluster_are_not_looked_for_in_another_one(
    source: str, kind: str, told: str
) -> None:
    snapshot = planning_inputs(NODES).snapshot
    snapshot = replace(snapshot, source=source)
    name = "zzzz" if kind == "node" else "zzzz/zzzz"
    with pytest.raises(InputError, match=re.escape(f"see what there is with: {told}")):
        find_subject(snapshot, f"{kind}/{name}")


def test_nothing_is_said_to_move_that_a_plan_which_closes_nodes_leaves() -> None:
    """While nothing is closed b could be emptied; once it is closed, the pods of a take its pod's room."""
    workloads = [
        a_workload("web", ["a", "a", "a"]),
        a_workload("busy", ["b"], cpu="100m"),
        a_workload("many", ["c", "c"], cpu="700m"),
    ]
    inputs = planning_inputs(
        [a_node(name) for name in "abc"],
        workloads,
        policy=a_policy(strategies={"consolidation": {"taintFor": "30m"}}),
        load={"a": 95.0, "b": 66.0, "c": 5.0},
        pod_load={"busy-0": 0.4},
    )
    assert answer(inputs).moves == len(make_plan(inputs).moves) == 0
