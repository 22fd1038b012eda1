"""What a landing costs in availability, and that a move says so."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalancer.cluster.arrays import NodeRow, PodRow
from rebalancer.planning.inputs import PlanningInputs
from rebalancer.planning.landing.spread import LostSpread
from rebalancer.planning.plan import Plan
from rebalancer.planning.prepared import prepare
from rebalancer.scheduling.state.cluster_state import Column
from tests.builders import a_node
from tests.rows import rows
from tests.unit.planning.builders import a_policy, a_workload, at, because, plan_of, planning_inputs

ZONES = {"a": "z1", "b": "z2", "c": "z2", "d": "z3", "e": ""}
PINNED: Any = {"annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}}


def lost(replicas: str, target: str) -> LostSpread:
    """Of the first of some replicas, each named by its node, on a landing elsewhere."""
    prepared = prepare(cluster(replicas))
    row = prepared.nodes.row
    scenario = prepared.start.copy().all[0]
    rows = np.array([row[target]])
    spread = prepared.landing_check.spread
    return spread.lost(scenario.after_termination, PodRow(0), NodeRow(row[replicas[0]]), rows)


def cluster(replicas: str) -> PlanningInputs:
    labels = {name: {"topology.kubernetes.io/zone": zone} if zone else {} for name, zone in ZONES.items()}
    nodes = [a_node(name, cpu=10, labels=labels[name]) for name in ZONES]
    other = a_workload("other", list("abcde"), cpu="100m")
    return planning_inputs(nodes, [a_workload("api", list(replicas), cpu="100m"), other])


@rows(
    "replicas, target, cost",
    [
        ("bc", "c", 1.0),
        ("bc", "d", 0.0),
        ("bbc", "c", 0.0),
        ("bcd", "c", 0.5),
        ("a", "b", 0.0),
        ("abc", "d", 0.0),
        ("abc", "b", 0.5 + 1.0),
        ("acd", "b", 0.5),
        ("aac", "b", 0.0),
        ("ab", "e", 0.0),
        ("eb", "b", 1.0),
    ],
)
def test_a_landing_costs_the_nodes_and_zones_that_are_lost(replicas: str, target: str, cost: float) -> None:
    assert lost(replicas, target).cost.tolist() == [pytest.approx(cost)]


def test_a_replica_that_terminates_is_none() -> None:
    workload = a_workload("api", ["b", "c"], cpu="100m")
    workload.pods[1]["metadata"]["deletionTimestamp"] = at(30)
    nodes = [a_node(name, cpu=10) for name in "bc"]
    prepared = prepare(planning_inputs(nodes, [workload]))
    state = prepared.start.copy().all[0].after_termination
    found = prepared.landing_check.spread.lost(state, PodRow(0), NodeRow(0), np.array([1]))
    assert found.cost.tolist() == [0.0]


def the_other_replica_is_on_the_only_landing(gain: float = 5, spread: float = 1) -> Plan:
    """a is at 90 %, 20 points of it of one replica; b at 10 %, of the other; c is full by requests."""
    nodes = [a_node(name, cpu=10) for name in "abc"]
    workloads = [
        a_workload("api", ["a", "b"], cpu="2"),
        a_workload("held", ["a"], cpu="7", **PINNED),
        a_workload("full", ["c"], cpu="9500m", **PINNED),
    ]
    policy = a_policy(planning={"minGain": gain, "weights": {"spread": spread}})
    cores = {"full-0": 0.5, "api-0": 2.0, "api-1": 1.0, "held-0": 7.0}
    return plan_of(planning_inputs(nodes, workloads, pod_load=cores, policy=policy))


def test_a_move_that_loses_the_spread_of_replicas_says_and_counts_it() -> None:
    plan, free = (
        the_other_replica_is_on_the_only_landing(),
        the_other_replica_is_on_the_only_landing(spread=0),
    )
    assert "; there it joins another replica" in plan.moves[0].because
    assert plan.benefit is not None
    assert free.benefit is not None
    assert plan.benefit.cost == pytest.approx(free.benefit.cost + 1.0)


@pytest.mark.parametrize(("spread", "moves"), [(0, 1), (1, 1), (2, 0)])
def test_such_a_landing_must_gain_more(spread: float, moves: int) -> None:
    """It gains 60 points, and minGain 25 asks for 25 more for each unit of cost."""
    plan = the_other_replica_is_on_the_only_landing(gain=25, spread=spread)
    assert len(plan.moves) == moves
    if not moves:
        assert because(plan, "api-0").endswith(
            "b would gain 60.0 points of cpu; since replicas would lose their spread, minGain 25 and "
            "weights.spread 2 ask for 75.0"
        )


def test_a_move_that_empties_a_zone_says_which() -> None:
    nodes = [
        a_node(name, cpu=10, labels={"topology.kubernetes.io/zone": zone})
        for name, zone in (("a", "z1"), ("b", "z2"), ("c", "z2"))
    ]
    workloads = [a_workload("api", ["a", "b", "c"], cpu="2"), a_workload("held", ["a"], cpu="7", **PINNED)]
    plan = plan_of(planning_inputs(nodes, workloads))
    assert "; there it joins another replica; no replica is left in zone z1" in plan.moves[0].because


@given(
    st.lists(st.integers(-1, 5), max_size=8),
    st.lists(st.integers(-1, 5), max_size=3),
    st.lists(st.tuples(st.integers(0, 10), st.integers(-1, 5)), max_size=5),
    st.data(),
)
def test_some_pods_of_a_column_are_those_of_all(
    first: list[int], more: list[int], changes: list[tuple[int, int]], data: st.DataObject
) -> None:
    column = Column(np.array(first, np.int64))
    for value in more:
        column.append(value)
    for pod, value in changes:
        if pod < len(column):
            column[pod] = value
    every = st.lists(st.integers(0, len(column) - 1), max_size=6) if len(column) else st.just([])
    pods = np.array(data.draw(every), np.int64)
    assert column.of(pods).tolist() == column.values()[pods].tolist()
