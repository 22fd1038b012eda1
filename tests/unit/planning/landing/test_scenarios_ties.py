"""What a plan's landings may be together is what comes of it from each start index, and nothing else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from rebalancer.cluster.arrays import PodRow
from rebalancer.planning.builder import PartialPlan, PlanBuilder
from rebalancer.planning.inputs import PlanningInputs
from rebalancer.planning.landing.evaluation import Wish
from rebalancer.planning.landing.scenarios import MAX_SCENARIOS
from rebalancer.planning.planner import Planner
from rebalancer.planning.prepared import PreparedInputs, prepare
from rebalancer.planning.reasons import Reason
from rebalancer.planning.report import build_plan
from rebalancer.planning.search import follow_all
from rebalancer.planning.strategies import strategies_of
from rebalancer.scheduling.framework.start_index import RACED
from tests.builders import a_node
from tests.conftest import examples
from tests.unit.planning.builders import a_policy, a_workload, planning_inputs, with_scheduler

KEPT = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}
HOTTEST = 80.0


class Tied(NamedTuple):
    """Hot nodes with four small pods each, and cool ones, some of which are equal to the scheduler."""

    hot: int
    cool: list[tuple[int, str]]  # percent used, and cores that are requested
    points: int  # that each of the small pods uses
    requested: str
    wave_size: int

    def inputs(self) -> PlanningInputs:
        hot = [f"h{number}" for number in range(self.hot)]
        cool = {f"n{number}": item for number, item in enumerate(self.cool)}
        staying = {name: cpu for name, (_, cpu) in cool.items()} | dict.fromkeys(hot, "6")
        workloads = [
            a_workload(f"at-{name}", [name], cpu=cpu, annotations=KEPT) for name, cpu in staying.items()
        ]
        loads = {f"at-{name}-0": 0.64 * used for name, (used, _) in cool.items()}
        for name in hot:
            loads[f"at-{name}-0"] = 0.64 * 60
            for number in range(4):
                workloads.append(a_workload(f"{name}-{number}", [name], cpu=self.requested, memory="64Mi"))
                loads[f"{name}-{number}-0"] = 0.64 * self.points
        policy = a_policy(execution={"firstWave": 1, "waveSize": self.wave_size})
        nodes = [a_node(name, cpu=64, memory="256Gi") for name in (*hot, *cool)]
        return with_scheduler(
            planning_inputs(nodes, workloads, pod_load=loads, policy=policy), version="1.35"
        )


# Of so few nodes every start index is followed in the end, so the joint landings are exact.
CLUSTERS = st.integers(1, 2).flatmap(
    lambda hot: st.builds(
        Tied,
        st.just(hot),
        st.lists(
            st.tuples(st.integers(20, 70), st.sampled_from(["1", "1", "3"])),
            min_size=2,
            max_size=3 * MAX_SCENARIOS,
        ),
        st.integers(4, 12),
        st.sampled_from(["50m", "900m", "2"]),
        st.integers(1, 5),
    )
)


def carried_out(prepared: PreparedInputs, plan: PartialPlan, start: int) -> tuple[tuple[int, ...], float]:
    """Where the replacements are if the searches start there and nothing is raced, and the fullest node."""
    state, usage = prepared.state.copy(), prepared.usage.copy()
    landed, leaving, wave, fullest = [], list[int](), 1, 0.0
    for move in plan.moves:
        if move.wave != wave:
            wave = move.wave
            for row in leaving:
                state.remove(row)
            leaving = []
        candidate = move.candidate
        state.evict(candidate.row)
        leaving.append(candidate.row)
        placement = prepared.schedulers.scheduler(candidate.replacement).place(state, candidate.replacement)
        chance = placement.chance_from({0: np.array([start])})
        node = int(placement.feasible[int(np.argmax(chance))])
        state.bind(state.add(candidate.replacement), node)
        usage[candidate.source] -= candidate.usage
        usage[node] += candidate.usage
        landed.append(node)
        fullest = max(fullest, 100 * usage[node, 0] / prepared.inputs.load.allocatable[node, 0])
    return tuple(landed), fullest


@given(CLUSTERS)
@settings(max_examples=examples(25), deadline=None)
def test_the_joint_landings_of_a_plan_are_those_from_each_start(cluster: Tied) -> None:
    planner = Planner(cluster.inputs())
    prepared = planner.prepared
    plan = planner.decided
    nodes = len(prepared.nodes)
    found = [carried_out(prepared, plan, start) for start in range(nodes)]
    expected = {landed: count / nodes for landed, count in Counter(landed for landed, _ in found).items()}
    assert joint_of(prepared, plan) == pytest.approx(expected)
    assert max((fullest for _, fullest in found), default=0.0) <= HOTTEST + 1e-6


def test_a_move_that_holds_only_in_the_courses_that_the_search_followed_is_not_made() -> None:
    """From the starts that lead to the node at 70 %, the second pod would make it hot."""
    prepared = prepare(Tied(1, [(30, "1")] * 6 + [(70, "1")] + [(30, "1")] * 6, 9, "50m", 1).inputs())
    builder = PlanBuilder(prepared, strategies_of(prepared))
    builder.scenarios = builder.scenarios.only(1)
    pods = [PodRow(prepared.pods.row["default", f"h0-{number}-0"]) for number in range(2)]
    wish = Wish("hotNodes", prepared.cooler_node, "")
    assert [builder.try_move(prepared.candidate(pod, wish)) for pod in pods] == [None, None]
    plan = follow_all(prepared, PartialPlan(builder, {}), strategies_of(prepared))
    assert [move.candidate.row for move in plan.moves] == pods[:1]
    assert plan.staying[pods[1]].reason is Reason.NO_BETTER_LANDING
    assert "n6 would be at 88.0 % cpu" in plan.staying[pods[1]].message
    assert max(carried_out(prepared, plan, start)[1] for start in range(14)) <= HOTTEST + 1e-6


def test_where_a_node_is_made_cool_or_left_alone_a_move_that_falls_out_takes_its_others_along() -> None:
    inputs = Tied(1, [(30, "1")] * 6 + [(70, "1")] + [(30, "1")] * 6, 9, "50m", 1).inputs()
    policy = inputs.policy.model_copy(
        update={"planning": inputs.policy.planning.model_copy(update={"partial_relief": False})}
    )
    prepared = prepare(replace(inputs, policy=policy))
    builder = PlanBuilder(prepared, strategies_of(prepared))
    builder.scenarios = builder.scenarios.only(1)
    pods = [PodRow(prepared.pods.row["default", f"h0-{number}-0"]) for number in range(2)]
    wish = Wish("hotNodes", prepared.cooler_node, "")
    assert [builder.try_move(prepared.candidate(pod, wish)) for pod in pods] == [None, None]
    plan = follow_all(prepared, PartialPlan(builder, {}), strategies_of(prepared))
    assert plan.moves == ()
    assert plan.staying[pods[0]].message == "it would move only together with default/h0-1-0, which stays"


def test_chances_of_a_later_move_are_those_of_all_equal_nodes() -> None:
    plan = Planner(Tied(1, [(30, "1")] * 39, 9, "50m", 5).inputs()).decided
    last = plan.moves[-1].evaluation.landings()
    assert len(last.rows) == 39
    # Each start leads to a node of its own, but the hot one's to the next; a tenth is a race among all.
    raced = RACED / 39
    assert sorted(last.chance) == pytest.approx([0.9 / 40 + raced] * 38 + [2 * 0.9 / 40 + raced])


def test_a_plan_says_where_not_all_that_equal_nodes_lead_to_was_followed() -> None:
    prepared = prepare(Tied(1, [(30, "1")] * 14, 9, "50m", 5).inputs())
    builder = PlanBuilder(prepared, strategies_of(prepared))
    pod = PodRow(prepared.pods.row["default", "h0-0-0"])
    wish = Wish("hotNodes", prepared.cooler_node, "")
    assert builder.try_move(prepared.candidate(pod, wish)) is None
    decided = PartialPlan(builder, {})
    strategies = strategies_of(prepared)
    rough = [text for text in build_plan(prepared, decided, strategies).warnings if "equal nodes" in text]
    assert rough == [
        "chances of landings are approximate: the plan follows only 8 of the ways in which equal nodes may "
        "be chosen"
    ]
    followed = build_plan(prepared, follow_all(prepared, decided, strategies), strategies)
    assert not [text for text in followed.warnings if "equal nodes" in text]
    assert len(followed.moves[0].landings) == 14


def joint_of(prepared: PreparedInputs, plan: PartialPlan) -> Mapping[tuple[int, ...], float]:
    chances: dict[tuple[int, ...], float] = {}
    for scenario in plan.scenarios.all:
        replacements = scenario.after_termination.node.values()[len(prepared.pods) :]
        nodes = tuple(map(int, replacements))
        chances[nodes] = chances.get(nodes, 0.0) + scenario.chance
    return chances
