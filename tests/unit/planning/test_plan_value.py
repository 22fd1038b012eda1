"""The plan as a value: the same inputs give the same bytes, and JSON loses nothing."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from rebalancer.planning.inputs import About, PlanWarning
from rebalancer.planning.plan import (
    Landing,
    Level,
    Move,
    NodeAfter,
    NodeReport,
    Plan,
    PodReference,
    UnmovedPod,
    decode,
    encode,
)
from rebalancer.planning.reasons import Reason
from tests.builders import a_node
from tests.conftest import examples
from tests.rows import rows
from tests.unit.planning.builders import Workload, a_policy, a_workload, plan_of, planning_inputs

words = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
numbers = st.floats(allow_nan=False, allow_infinity=False)
loads = st.dictionaries(st.sampled_from(["cpu", "memory", "pods"]), numbers)
references = st.builds(
    PodReference,
    namespace=words,
    name=words,
    uid=words,
    workload=words,
    controller_kind=words,
    controller_name=words,
    controller_uid=words,
)
afters = st.builds(NodeAfter, load=loads, hot=st.booleans())
reports = st.builds(
    NodeReport,
    name=words,
    load=loads,
    hot=st.booleans(),
    score=st.none() | numbers,
    because=st.lists(words, max_size=2).map(tuple),
    after=st.none() | afters,
    levels=st.dictionaries(
        st.sampled_from(["cpu", "memory"]), st.builds(Level, hot_above=numbers, cool_to=numbers)
    ),
)
landings = st.builds(Landing, node=words, probability=st.floats(0, 1))
moves = st.builds(
    Move,
    pod=references,
    from_node=words,
    landings=st.lists(landings, max_size=3).map(tuple),
    gain=loads,
    wave=st.integers(1, 9),
    because=words,
    load=loads,
    grace_period_seconds=numbers,
)
stays = st.builds(
    UnmovedPod,
    pod=references,
    node=words,
    reason=st.sampled_from([str(reason) for reason in Reason]),
    because=words,
)
plans = st.builds(
    Plan,
    source=words,
    policy=words,
    inputs=words,
    now=words,
    moves=st.lists(moves, max_size=3).map(tuple),
    nodes=st.lists(reports, max_size=3).map(tuple),
    kept=st.lists(stays, max_size=3).map(tuple),
    unsolved=st.dictionaries(words, words, max_size=2),
    warnings=st.lists(words, max_size=2).map(tuple),
    node_count=st.integers(0, 9),
    hot_count=st.integers(0, 9),
    known_count=st.integers(0, 9),
)


@given(plans)
def test_a_plan_read_back_from_json_is_equal(plan: Plan) -> None:
    assert decode(encode(plan)) == plan


@given(plans)
def test_the_order_of_a_map_does_not_change_the_bytes(plan: Plan) -> None:
    turned = replace(plan, unsolved=dict(reversed(plan.unsolved.items())))
    assert encode(turned) == encode(plan)


def test_the_documented_shape_is_kept() -> None:
    plan = msgspec.to_builtins(plan_of(a_cluster(random.Random(1))))
    assert {
        "kind": "Plan",
        "apiVersion": "rebalancer/v1alpha1",
        "inputs": "sha256:test",
    }.items() <= plan.items()
    move, node, kept = plan["moves"][0], plan["nodes"][0], plan["kept"][0]
    assert {"pod", "from", "fromLoad", "landings", "gain", "wave", "because"} <= set(move)
    assert {"namespace", "name", "uid", "workload"} <= set(move["pod"])
    assert set(move["landings"][0]) == {"node", "probability", "load"}
    assert {"name", "load", "score", "hot", "because", "after", "levels"} <= set(node)
    assert set(kept) == {"pod", "node", "reason", "because", "setting", "remedy"}


def test_every_node_has_the_levels_that_its_policy_sets() -> None:
    rule = {"utilization": {"cpu": 80}, "coolTo": {"cpu": 65}}
    inputs = a_cluster(random.Random(1))
    policy = a_policy(hotNodes={"any": [rule], "forRuns": 1})
    plan = plan_of(replace(inputs, policy=policy))

    assert plan.nodes
    assert all(node.levels == {"cpu": Level(hot_above=80.0, cool_to=65.0)} for node in plan.nodes)


@pytest.mark.parametrize("risk", ["-0.5", "1.5", "NaN"])
def test_a_plan_whose_risks_are_no_chances_is_refused(risk: str) -> None:
    content = encode(plan_of(a_cluster(random.Random(1)))).replace(b'"risk": 0.0', b'"risk":0.0')
    assert b'"risk":0.0' in content
    with pytest.raises(msgspec.DecodeError):
        decode(content.replace(b'"risk":0.0', f'"risk":{risk}'.encode()))


@rows("content", [b"", b"{}", b'{"moves": 1}', b"[]"])
def test_bytes_that_hold_no_plan_are_refused(content: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        decode(content)


def a_cluster(order: random.Random, **inputs: Any) -> Any:
    """Two hot nodes, ties and budgets, listed in an order of its own."""
    nodes = [a_node(f"n{number}", cpu=10) for number in range(7)]
    workloads: list[Workload] = [
        a_workload("web", ["n0"] * 4 + ["n1"] * 3, cpu="2"),
        a_workload("api", ["n1"] * 3 + ["n2"], cpu="1"),
    ]
    budgets = [
        {
            "metadata": {"name": name, "namespace": "default", "generation": 1},
            "spec": {"selector": {"matchLabels": {"app": name}}},
            "status": {"disruptionsAllowed": 1, "observedGeneration": 1},
        }
        for name in ("web", "api")
    ]
    pods = [pod for workload in workloads for pod in workload.pods]
    for items in (nodes, workloads, budgets, pods):
        order.shuffle(items)
    bare = [dataclasses.replace(workload, pods=[]) for workload in workloads]
    policy = a_policy(execution={"firstWave": 1, "waveSize": 2})
    return planning_inputs(nodes, bare, pods=pods, poddisruptionbudgets=budgets, policy=policy, **inputs)


@settings(max_examples=examples(20))
@given(st.randoms(use_true_random=False))
def test_the_order_objects_were_read_in_does_not_change_the_plan(order: random.Random) -> None:
    assert encode(plan_of(a_cluster(order))) == encode(plan_of(a_cluster(random.Random(1))))


def test_the_same_inputs_give_the_same_bytes() -> None:
    inputs = a_cluster(random.Random(1))
    assert encode(plan_of(inputs)) == encode(plan_of(inputs))


def test_the_plan_of_the_cluster_has_moves_to_several_nodes() -> None:
    plan = plan_of(a_cluster(random.Random(1)))
    assert len(plan.moves) >= 2
    assert any(len(move.landings) > 1 for move in plan.moves)


def test_every_node_is_reported_in_order_of_name() -> None:
    names = [node.name for node in plan_of(a_cluster(random.Random(1))).nodes]
    assert names == [f"n{number}" for number in range(7)]


def test_a_move_says_its_load_and_its_grace_period() -> None:
    nodes = [a_node("hot"), a_node("cool", cpu=8)]
    pods = [a_workload("web", ["hot"], cpu="3500m", spec={"terminationGracePeriodSeconds": 90})]
    move = plan_of(planning_inputs(nodes, pods)).moves[0]
    assert (move.load, move.grace_period_seconds) == ({"cpu": 3500.0, "memory": 1048576.0}, 90.0)


def test_nodes_the_plan_concerns_say_what_they_will_be_like() -> None:
    nodes = [a_node("hot"), a_node("stuck"), a_node("cool", cpu=8), a_node("idle", cpu=2)]
    pods = [
        a_workload("web", ["hot"], cpu="3500m"),
        a_workload("agent", ["stuck"], kind="DaemonSet", cpu="3800m"),
    ]
    after = {node.name: node.after for node in plan_of(planning_inputs(nodes, pods)).nodes}
    told = {name: (item.load["cpu"], item.hot) for name, item in after.items() if item is not None}
    assert told == {"hot": (0.0, False), "stuck": (95.0, True), "cool": (43.75, False)}


def test_a_plan_says_why_a_run_would_refuse_it_and_no_other_warning_among_these() -> None:
    inputs = planning_inputs([a_node("a", cpu=10), a_node("cool", cpu=100)], [a_workload("web", ["a"] * 9)])
    (scheduler,) = inputs.schedulers
    warnings = (
        PlanWarning(About.REFUSAL, "another descheduler runs"),
        PlanWarning(About.LOAD, "a figure is old"),
    )
    unread = replace(inputs, warnings=warnings, schedulers=(replace(scheduler, version="1.99"),))
    compared = replace(inputs, schedulers=(replace(scheduler, version="1.35"),))

    first, second = plan_of(unread).refusals
    assert first == "another descheduler runs"
    assert second.startswith("run does not act on scheduler 1.99: what changed after")
    assert plan_of(compared).refusals == ()
    assert {move.replicas for move in plan_of(compared).moves} == {9}
