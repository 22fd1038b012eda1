"""Plans come to rest: cycle after cycle on random clusters with soft and hard rules, until nothing moves."""

from __future__ import annotations

import os
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rebalancer.cluster.arrays import PodRow
from rebalancer.planning.planner import make_plan
from rebalancer.planning.prepared import prepare
from rebalancer.planning.revalidation import revalidate_moves
from tests.builders import a_node
from tests.unit.planning.builders import Workload, a_policy, a_workload, planning_inputs

CYCLES = int(os.environ.get("REST_CYCLES", "12"))
EXAMPLES = int(os.environ.get("REST_EXAMPLES", "10"))
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
SPREAD = {"topologySpread": {"constraints": ["DoNotSchedule", "ScheduleAnyway"], "defaultConstraints": True}}
SOFT = {"misplaced": {"preferredNodeAffinity": True, "preferredPodAffinity": True, "preferNoSchedule": True}}
ROOM = {"fragmentation": {"workloads": ["default/ReplicaSet/web"]}}
EVERYTHING = {
    **SPREAD,
    **SOFT,
    **ROOM,
    "duplicates": True,
    "restarts": True,
    "lifetime": True,
    "failed": True,
}


def a_rule(kind: str, app: str, other: str) -> dict[str, Any]:
    """What the pods of an app ask of where they run."""
    preferred = "preferredDuringSchedulingIgnoredDuringExecution"
    if kind in ("DoNotSchedule", "ScheduleAnyway"):
        key = ZONE if kind == "DoNotSchedule" else HOST
        selector = {"matchLabels": {"app": app}}
        one = {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": kind, "labelSelector": selector}
        return {"topologySpreadConstraints": [one]}
    if kind == "ssd":
        terms = [{"key": "disk", "operator": "In", "values": ["ssd"]}]
        return {
            "affinity": {
                "nodeAffinity": {preferred: [{"weight": 50, "preference": {"matchExpressions": terms}}]}
            }
        }
    if kind in ("podAffinity", "podAntiAffinity"):
        term = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": other}}}
        return {"affinity": {kind: {preferred: [{"weight": 50, "podAffinityTerm": term}]}}}
    return {}


@st.composite
def clusters(draw: st.DrawFn) -> tuple[list[dict[str, Any]], list[Workload]]:
    nodes = []
    for number in range(draw(st.integers(2, 5))):
        disk, soft = draw(st.sampled_from(["ssd", "hdd"])), draw(st.integers(0, 3)) == 0
        taints = [{"key": "dedicated", "value": "", "effect": "PreferNoSchedule"}] if soft else []
        labels = {ZONE: draw(st.sampled_from("abc")), "disk": disk}
        nodes.append(a_node(f"n{number}", cpu=draw(st.sampled_from([3, 6])), labels=labels, taints=taints))
    names = [node["metadata"]["name"] for node in nodes]
    workloads = []
    for app in ("api", "web", "db")[: draw(st.integers(1, 3))]:
        kind = draw(
            st.sampled_from(["", "DoNotSchedule", "ScheduleAnyway", "ssd", "podAffinity", "podAntiAffinity"])
        )
        spec = a_rule(kind, app, draw(st.sampled_from(["api", "web", "db"])))
        on = draw(st.lists(st.sampled_from(names), min_size=1, max_size=4))
        workloads.append(a_workload(app, on, cpu="500m", spec=spec))
    return nodes, workloads


def next_cycle(
    nodes: list[dict[str, Any]], workloads: list[Workload], strategies: Any, random: Random
) -> int:
    """Carry a plan out, each replacement where the scheduler then places it; how many moves there were."""
    policy = a_policy(strategies=strategies)
    plan = make_plan(planning_inputs(nodes, workloads, policy=policy))
    items = {pod["metadata"]["name"]: pod for workload in workloads for pod in workload.pods}
    for move in plan.moves:
        prepared = prepare(planning_inputs(nodes, workloads, policy=policy))
        row = PodRow(prepared.pods.names.index(move.pod.name))
        state, candidate = prepared.state.copy(), prepared.candidate(row)
        if random.random() < 0.5:
            state.evict(row)
        else:
            state.remove(row)
        placement = prepared.schedulers.scheduler(candidate.replacement).place(state, candidate.replacement)
        node = random.choices(placement.feasible.tolist(), placement.chance.tolist())[0]
        assert prepared.nodes.names[node] != move.from_node, move.because
        items[move.pod.name]["spec"]["nodeName"] = prepared.nodes.names[node]
    return len(plan.moves)


@pytest.mark.parametrize(
    "strategies",
    [SPREAD, SOFT, ROOM, EVERYTHING],
    ids=["topologySpread", "misplaced", "fragmentation", "all"],
)
@given(data=st.data())
@settings(max_examples=EXAMPLES)
def test_cycles_come_to_rest(strategies: dict[str, Any], data: st.DataObject) -> None:
    nodes, workloads = data.draw(clusters())
    random = Random(data.draw(st.integers(0, 99)))

    moves = [next_cycle(nodes, workloads, strategies, random) for _ in range(CYCLES)]
    assert moves[-1] == 0, moves


@pytest.mark.parametrize("strategies", [SPREAD, SOFT, EVERYTHING], ids=["topologySpread", "misplaced", "all"])
@given(cluster=clusters())
@settings(max_examples=3 * EXAMPLES)
def test_on_an_unchanged_cluster_the_moves_of_every_strategy_still_hold(
    strategies: dict[str, Any], cluster: tuple[list[dict[str, Any]], list[Workload]]
) -> None:
    nodes, workloads = cluster
    inputs = planning_inputs(nodes, workloads, policy=a_policy(strategies=strategies))
    moves = make_plan(inputs).moves

    found = revalidate_moves(inputs, moves).verdicts
    assert {uid: verdict for uid, verdict in found.items() if isinstance(verdict, str)} == {}
    one_by_one = [revalidate_moves(inputs, [move]).verdicts[move.pod.uid] for move in moves[:1]]
    assert [verdict for verdict in one_by_one if isinstance(verdict, str)] == []
