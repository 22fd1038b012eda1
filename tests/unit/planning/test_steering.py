"""Soft taints are part of the plan: which nodes get one, in which wave, and why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from bench.loaded_clusters import loaded_inputs
from bench.requested_clusters import HELD
from rebalancer.cluster.arrays import NodeRow, PodRow
from rebalancer.planning.builder import AcceptedMove, PlanBuilder
from rebalancer.planning.inputs import PlanningInputs, RunSoFar
from rebalancer.planning.landing.evaluation import Wish
from rebalancer.planning.plan import Move, Plan
from rebalancer.planning.planner import Planner
from rebalancer.planning.prepared import prepare
from rebalancer.planning.reasons import NotMoved
from rebalancer.planning.taints import KARPENTER_LABEL, TAINT_KEY, as_a_run_has_them, left_behind
from tests.builders import a_node, a_snapshot
from tests.conftest import some_of
from tests.unit.planning.builders import a_policy, a_workload, planning_inputs

OURS = {"key": TAINT_KEY, "value": "5f0c9a1e.run.1", "effect": "PreferNoSchedule"}
AVOIDED = {
    "hot": "for default/web-0 it is the node it leaves",
    "warm": "for default/web-0 it would be at 100.0 % cpu, hot above 80.0 %",
}


def beside_a_warm_node(
    *,
    warm: Mapping[str, Any] | None = None,
    cool: Mapping[str, Any] | None = None,
    web: Mapping[str, Any] | None = None,
    pods: int = 3,
    steer: str = "softTaint",
) -> PlanningInputs:
    """A hot node whose pods would go to the one with the least requested, which would be hot then."""
    nodes = [
        a_node("hot", cpu=10, memory="10Gi"),
        a_node("warm", cpu=10, memory="10Gi", **(warm or {})),
        a_node("cool", cpu=10, memory="10Gi", **(cool or {})),
    ]
    workloads = [
        a_workload("web", ["hot"] * pods, cpu="100m", **(web or {})),
        a_workload("full", ["cool"], cpu="6"),
        a_workload("busy", ["warm"], cpu="10m", annotations=HELD),
    ]
    load = {f"web-{number}": 9.0 / pods for number in range(pods)} | {"full-0": 1.0, "busy-0": 7.0}
    policy = a_policy(execution={"steer": steer})
    return planning_inputs(nodes, workloads, pod_load=load, policy=policy)


def landed_on(plan: Plan) -> set[str]:
    return {landing.node for move in plan.moves for landing in move.landings}


def test_a_node_that_would_take_a_replacement_and_must_not_has_the_taint_and_no_other_has() -> None:
    """The scheduler prefers the warm one, and then the hot one itself."""
    plan = Planner(beside_a_warm_node()).plan()

    assert landed_on(plan) == {"cool"}
    assert plan.tainted == {1: AVOIDED}
    assert [list(move.avoids) for move in plan.moves] == [["hot", "warm"]]


def test_without_the_setting_no_node_has_it() -> None:
    plan = Planner(beside_a_warm_node(steer="none")).plan()

    assert (plan.moves, plan.tainted) == ((), {})


def test_where_the_scheduler_prefers_a_good_node_none_has_it() -> None:
    workloads = [a_workload("web", ["hot"], cpu="3"), a_workload("held", ["hot"], cpu="6", annotations=HELD)]
    policy = a_policy(execution={"steer": "softTaint"})
    inputs = planning_inputs([a_node(name, cpu=10) for name in ("hot", "cool")], workloads, policy=policy)
    plan = Planner(inputs).plan()

    assert landed_on(plan) == {"cool"}
    assert plan.tainted == {}


def test_nodes_of_karpenter_have_none() -> None:
    karpenters = {"labels": {KARPENTER_LABEL: "general"}}

    assert Planner(beside_a_warm_node(warm=karpenters)).plan().moves == ()
    assert Planner(beside_a_warm_node(cool=karpenters)).plan().tainted == {1: AVOIDED}


def test_no_node_has_it_for_pods_that_tolerate_it_or_that_have_nowhere_else_to_go() -> None:
    tolerant = {"spec": {"tolerations": [{"operator": "Exists"}]}}
    bound = {"spec": {"nodeSelector": {"kubernetes.io/hostname": "warm"}}}

    assert Planner(beside_a_warm_node(web=tolerant)).plan().moves == ()
    assert Planner(beside_a_warm_node(web=bound)).plan().moves == ()


def test_taints_that_a_run_left_behind_count_as_gone() -> None:
    clean = beside_a_warm_node()
    left = beside_a_warm_node(cool={"taints": [OURS]})

    assert Planner(left).plan().moves == Planner(clean).plan().moves != ()


def test_only_our_taints_are_taken_away() -> None:
    theirs = {"key": "team", "value": "x", "effect": "PreferNoSchedule"}
    snapshot = a_snapshot(nodes=[a_node("a", taints=[theirs, OURS]), a_node("b", taints=[theirs])])

    assert left_behind(snapshot) == ("a",)
    bare = as_a_run_has_them(snapshot)
    assert [[taint.key for taint in node.spec.taints or ()] for node in bare.nodes.records] == [["team"]] * 2
    assert as_a_run_has_them(bare) is bare


def test_in_a_wave_that_is_under_way_the_taints_are_what_they_are() -> None:
    inputs = beside_a_warm_node()
    (move,) = Planner(inputs).plan().moves

    def verdict(tainted: tuple[str, ...] | None) -> str | Move:
        judged = Planner(inputs, RunSoFar(tainted=tainted)).recheck([move])
        return judged[move.pod.uid]

    assert isinstance(verdict(None), Move), "before the wave they are chosen anew"
    kept = verdict(("hot", "warm"))
    assert isinstance(kept, Move)
    assert kept.avoids == move.avoids
    assert str(verdict(())).startswith("NoBetterLanding: ")
    assert str(verdict(("hot",))).startswith("NoBetterLanding: ")


def steering(seed: int, version: str) -> PlanningInputs:
    """Sixty nodes, most of which must not take what the scheduler would put there."""
    inputs = loaded_inputs(seed)
    execution = inputs.policy.execution.model_copy(update={"steer": "softTaint"})
    limits = inputs.policy.limits.model_copy(update={"per_run": 12})
    policy = inputs.policy.model_copy(update={"execution": execution, "limits": limits})
    schedulers = tuple(replace(item, version=version) for item in inputs.schedulers)
    return replace(inputs, policy=policy, schedulers=schedulers)


@pytest.mark.many_cases
@pytest.mark.parametrize(("seed", "version"), some_of([(103, "1.34"), (101, "1.35"), (111, "1.36")]))
def test_each_landing_of_a_wave_holds_with_all_its_taints_and_none_of_them_could_be_left_out(
    seed: int, version: str
) -> None:
    planner = Planner(steering(seed, version))
    prepared = planner.prepared
    found = planner.decided
    builder = found.builder.anew(prepared, found.scenarios.max_scenarios)
    names = prepared.nodes.names
    tainted_waves = 0
    for wave in sorted({move.wave for move in found.moves}):
        moves = [move for move in found.moves if move.wave == wave]
        tainted = {row for move in moves for row in move.avoids}
        tainted_waves += bool(tainted)
        builder.next_wave()
        needed = set[int]()
        for planned in moves:
            for row in sorted(tainted - needed):
                builder.fix_taints([names[other] for other in tainted - {row}])
                if isinstance(builder.find(planned.candidate, may_wait=False), NotMoved):
                    needed.add(row)
            builder.fix_taints([names[row] for row in tainted])
            move = builder.find(planned.candidate, may_wait=False)
            assert isinstance(move, AcceptedMove), (seed, wave, move)
            builder.add(move)
        assert needed == tainted, (seed, wave)
        assert len(tainted) <= 10
    assert tainted_waves > 0


@pytest.mark.parametrize(("small_on", "is_later"), [("first", True), ("second", False)])
def test_a_wave_takes_no_move_whose_taints_would_change_where_others_of_it_land(
    small_on: str, *, is_later: bool
) -> None:
    """The small pod may land on the node that the large one must not fill."""
    nodes = [a_node(name, cpu=10, memory="10Gi") for name in ("hot", "first", "second")]
    selector = {"nodeSelector": {"kubernetes.io/hostname": small_on}}
    workloads = [
        a_workload("small", ["hot"], cpu="100m", spec=selector),
        a_workload("large", ["hot"], cpu="100m"),
        a_workload("rest", ["hot"], cpu="10m", annotations=HELD),
        a_workload("filler", ["second"], cpu="4"),
        a_workload("busy", ["first"], cpu="10m", annotations=HELD),
    ]
    load = {"small-0": 1.0, "large-0": 3.0, "rest-0": 5.9, "filler-0": 1.0, "busy-0": 6.0}
    policy = a_policy(execution={"steer": "softTaint", "firstWave": 5, "waveSize": 5})
    prepared = prepare(planning_inputs(nodes, workloads, pod_load=load, policy=policy))
    builder = PlanBuilder(prepared, ())
    wish = Wish("hotNodes", prepared.cooler_node)
    moves: list[AcceptedMove] = []
    for name in ("small-0", "large-0"):
        move = builder.find(prepared.candidate(PodRow(prepared.pods.row["default", name]), wish))
        assert isinstance(move, AcceptedMove)
        builder.add(move)
        moves.append(move)
    small, large = moves

    assert (dict(small.avoids), "first" in map(prepared.nodes.names.__getitem__, large.avoids)) == ({}, True)
    assert large.later is is_later


def test_prepared_inputs_have_no_taint_of_a_plan() -> None:
    planner = Planner(beside_a_warm_node(cool={"taints": [OURS]}))
    prepared = planner.prepared

    assert all(not node.spec.taints for node in prepared.nodes.records)
    assert planner.plan().tainted == {1: AVOIDED}
    assert prepared.state.added_soft_taint is None
    assert np.isfinite(prepared.usage[NodeRow(0)]).any()
