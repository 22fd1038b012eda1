"""What drafts promise: the state they start from stays, placements are shared, and better plans are found."""

from __future__ import annotations

from typing import Any

import pytest

from rebalancer.cluster.arrays import NodeRow
from rebalancer.planning.builder import PlanBuilder
from rebalancer.planning.disruption_cost import Disruption
from rebalancer.planning.inputs import PlanningInputs
from rebalancer.planning.planner import search
from rebalancer.planning.prepared import PreparedInputs, prepare
from rebalancer.planning.strategies.hot_nodes import relief as hot_node_relief
from rebalancer.planning.strategies.hot_nodes.drafts import Draft, Drafts, best_drafts
from rebalancer.planning.strategies.hot_nodes.node_pods import NodePods
from tests.builders import a_node
from tests.unit.planning.builders import a_policy, a_workload, planning_inputs

ENOUGH = 1_000


def drafts_of(
    inputs: PlanningInputs, *, either_way: bool = False
) -> tuple[PreparedInputs, PlanBuilder, Drafts]:
    prepared = prepare(inputs)
    builder = PlanBuilder(prepared)
    disruption = Disruption(prepared.inputs, prepared.eviction.workloads)
    hot = [NodeRow(node) for node in prepared.hotness.hot.nonzero()[0].tolist()]
    nodes = {
        node: NodePods(
            prepared, disruption, node, [prepared.candidate(row) for row in prepared.pods_on(node)]
        )
        for node in hot
    }
    return prepared, builder, Drafts(prepared, builder, nodes, either_way=either_way)


def room_for_two_small_pods_or_one_large(**limits: Any) -> PlanningInputs:
    """The pod that removes most would take the room of two others, which remove more together."""
    nodes = [a_node("a", cpu=10), a_node("b", cpu=10), a_node("c", cpu=10), a_node("cool", cpu=10)]
    pods = [
        a_workload("large", ["a"], cpu="1500m"),
        a_workload("small", ["b"], cpu="1300m"),
        a_workload("tiny", ["c"], cpu="1200m"),
        *(a_workload(f"held-{name}", [name] * 8, spec=held(name)) for name in "abc"),
        a_workload("busy", ["cool"] * 5, cpu="1100m", spec=held("cool")),
    ]
    return planning_inputs(nodes, pods, policy=a_policy(limits=limits))


def held(node: str) -> dict[str, Any]:
    return {"nodeSelector": {"kubernetes.io/hostname": node}}


def row_of(drafts: Drafts, prepared: PreparedInputs, name: str) -> int:
    return next(at for at, pod in enumerate(drafts.pods) if prepared.pods.names[pod.row] == name)


def extended(drafts: Drafts, draft: Draft, *pods: int) -> Draft:
    for at in pods:
        longer = drafts.extended(draft, at)
        assert longer is not None
        draft = longer
    return draft


def test_two_small_moves_are_found_that_remove_more_than_the_largest() -> None:
    _, _, drafts = drafts_of(room_for_two_small_pods_or_one_large())
    best = best_drafts(drafts, ENOUGH)[0]
    assert len(best.pods) == 2
    assert best.left == pytest.approx(drafts.start.left - 2 * 13.0 - 2 * 12.0)  # above their threshold


def test_the_plan_is_as_good_as_the_best_draft(monkeypatch: pytest.MonkeyPatch) -> None:
    def moved() -> set[str]:
        prepared = prepare(room_for_two_small_pods_or_one_large())
        return {prepared.pods.names[move.evaluation.candidate.row] for move in search(prepared).moves}

    assert moved() == {"small-0", "tiny-0"}
    monkeypatch.setattr(hot_node_relief, "_ALTERNATIVE_CELLS", 0)
    assert moved() == {"large-0"}


def test_drafts_leave_the_builder_as_it_was() -> None:
    _, builder, drafts = drafts_of(room_for_two_small_pods_or_one_large())
    scenario = builder.scenarios.all[0]
    before = scenario.usage.copy(), scenario.after_termination.requested.copy()
    best_drafts(drafts, ENOUGH)
    assert (scenario.usage == before[0]).all()
    assert (scenario.after_termination.requested == before[1]).all()
    assert not builder.moves


def test_placements_do_not_depend_on_the_order_of_moves() -> None:
    prepared, _, drafts = drafts_of(room_for_two_small_pods_or_one_large())
    small, tiny = row_of(drafts, prepared, "small-0"), row_of(drafts, prepared, "tiny-0")
    one = extended(drafts, drafts.start, small, tiny)
    first = extended(drafts, drafts.start, tiny)
    placements = drafts.placements
    other = extended(drafts, first, small)
    assert drafts.placements == placements + 1  # small after tiny was not placed yet
    drafts.extended(one, row_of(drafts, prepared, "large-0"))
    placements = drafts.placements
    drafts.extended(other, row_of(drafts, prepared, "large-0"))
    assert drafts.placements == placements
    assert one.left == pytest.approx(other.left)
    assert one.courses[0].usage == pytest.approx(other.courses[0].usage)


def test_where_the_scheduler_may_choose_both_choices_must_be_acceptable() -> None:
    """Two nodes alike for the scheduler: one has room by its load, the other one has not."""
    nodes = [a_node("a", cpu=10), a_node("idle", cpu=10), a_node("loaded", cpu=10)]
    web = a_workload("web", ["a"] * 9)
    prepared, _, drafts = drafts_of(planning_inputs(nodes, [web], policy=a_policy(), load={"loaded": 78}))
    assert drafts.extended(drafts.start, row_of(drafts, prepared, "web-0")) is None
    prepared, _, drafts = drafts_of(planning_inputs(nodes, [web], policy=a_policy(), load={"loaded": 20}))
    draft = extended(drafts, drafts.start, row_of(drafts, prepared, "web-0"))
    assert len(draft.courses) == 2
    assert len({course.moves[0][1] for course in draft.courses}) == 2


def test_limits_hold_in_drafts_except_for_the_one_of_the_run() -> None:
    for limits, moves in (({}, 2), ({"perNamespace": 1}, 1), ({"perRun": 1}, 2)):
        _, _, drafts = drafts_of(room_for_two_small_pods_or_one_large(**limits))
        assert len(best_drafts(drafts, ENOUGH)[0].pods) == moves


def test_a_search_that_may_place_nothing_has_no_draft() -> None:
    _, _, drafts = drafts_of(room_for_two_small_pods_or_one_large())
    assert best_drafts(drafts, 0) == []
    assert drafts.placements == 0


@pytest.mark.parametrize(
    ("race", "either_way", "moves"), [("strict", True, 0), ("strict", False, 1), ("likely", True, 1)]
)
def test_drafts_either_way_must_land_well_once_the_predecessor_is_gone(
    race: str, either_way: bool, moves: int
) -> None:
    """Node a is full by requests, so a replacement that prefers it returns there once its place is free."""
    here = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["a"]}
    preferred = [{"weight": 100, "preference": {"matchExpressions": [here]}}]
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    nodes = [a_node("a", cpu=10), a_node("b", cpu=100)]
    web = a_workload("web", ["a"] * 10, spec={"affinity": affinity})
    policy = a_policy(planning={"terminationRace": race})
    prepared, _, drafts = drafts_of(planning_inputs(nodes, [web], policy=policy), either_way=either_way)
    draft = drafts.extended(drafts.start, row_of(drafts, prepared, "web-0"))
    assert (0 if draft is None else len(draft.pods)) == moves
