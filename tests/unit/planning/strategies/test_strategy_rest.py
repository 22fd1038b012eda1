"""Strategies come to rest: no run moves a pod again, and after some runs none moves any."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from rebalancer.planning.inputs import PlanningInputs
from rebalancer.planning.plan import Move
from rebalancer.state.run_state import PastMove, RunState
from tests.builders import a_node
from tests.unit.planning.builders import NOW, Workload, a_policy, a_workload, at, plan_of, planning_inputs

HOUR = 3600.0
STEP = 120.0  # seconds from run to run, longer than the cooldown
ONE = {
    "misplaced": True,
    "duplicates": True,
    "lifetime": {"maxAge": "24h", "jitter": "20%"},
    "restarts": {"threshold": 5},
}
ALL = {**ONE, "failed": True, "topologySpread": True}


class Running:
    """A cluster of which one plan after the other is carried out."""

    def __init__(self, nodes: list[dict[str, Any]], workloads: list[Workload], strategies: Any) -> None:
        self._nodes, self._workloads, self._made, self._clock = nodes, workloads, 0, 0.0
        self._past: list[PastMove] = []
        self._policy = a_policy(
            strategies=strategies,
            limits={"perRun": 6, "perWorkload": "50%"},
            hotNodes={"any": [{"utilization": {"cpu": 95}, "coolTo": {"cpu": 90}}]},
            planning={"cooldown": "60s", "cooldownMax": "60s", "badLandingCooldown": "0s"},
        )

    @property
    def size(self) -> int:
        return sum(len(item.pods) for item in self._workloads)

    def inputs(self) -> PlanningInputs:
        state = RunState(moves=tuple(self._past))
        found = planning_inputs(self._nodes, self._workloads, policy=self._policy, state=state)
        return replace(found, now=NOW + self._clock)

    def run(self, draw: st.DataObject) -> tuple[Move, ...]:
        """One run; each replacement lands on one of the nodes that the plan says."""
        moves = plan_of(self.inputs()).moves
        for move in moves:
            node = draw.draw(st.sampled_from([landing.node for landing in move.landings]))
            self._replace(move, node)
        self._clock += STEP
        return moves

    def _replace(self, move: Move, node: str) -> None:
        for workload in self._workloads:
            for pod in workload.pods:
                if pod["metadata"]["uid"] != move.pod.uid:
                    continue
                self._made += 1
                pod["metadata"]["uid"] = f"new-{self._made}"
                if move.pod.controller_kind != "StatefulSet":
                    pod["metadata"]["name"] = f"new-{self._made}"
                pod["metadata"]["creationTimestamp"] = at(self._clock)
                pod["spec"]["nodeName"] = node
                pod["status"].pop("containerStatuses", None)
        self._past.append(
            PastMove(
                namespace=move.pod.namespace,
                name=move.pod.name,
                uid=move.pod.uid,
                workload=move.pod.workload,
                controller_uid=move.pod.controller_uid,
                from_node=move.from_node,
                to_node=node,
                result="Landed",
                evicted_at=NOW + self._clock,
                landed_at=NOW + self._clock + 5,
            )
        )


@st.composite
def clusters(draw: st.DrawFn) -> tuple[list[dict[str, Any]], list[Workload]]:
    names = [f"n{number}" for number in range(draw(st.integers(2, 5)))]
    taint = {"key": "gpu", "value": "", "effect": "NoSchedule"}
    nodes = [
        a_node(
            name,
            cpu=draw(st.sampled_from([2, 4, 8])),
            labels={"zone": draw(st.sampled_from("xy"))},
            taints=[taint] if draw(st.integers(0, 5)) == 0 else [],
            unschedulable=draw(st.integers(0, 7)) == 0,
        )
        for name in names
    ]
    workloads = []
    for number in range(draw(st.integers(1, 4))):
        spec: dict[str, Any] = {}
        when = draw(st.sampled_from(["", "", "ScheduleAnyway", "DoNotSchedule"]))
        if when:
            selector = {"matchLabels": {"app": f"w{number}"}}
            constraint = {
                "maxSkew": 1,
                "topologyKey": draw(st.sampled_from(["zone", "kubernetes.io/hostname"])),
            }
            spec["topologySpreadConstraints"] = [
                {**constraint, "whenUnsatisfiable": when, "labelSelector": selector}
            ]
        workload = a_workload(
            f"w{number}",
            draw(st.lists(st.sampled_from(names), min_size=1, max_size=6)),
            kind=draw(st.sampled_from(["ReplicaSet", "ReplicaSet", "StatefulSet"])),
            cpu=draw(st.sampled_from(["10m", "200m", "900m"])),
            spec=spec,
        )
        for pod in workload.pods:
            pod["metadata"]["creationTimestamp"] = at(-draw(st.sampled_from([1, 20, 25, 40])) * HOUR)
            restarts = draw(st.sampled_from([0, 0, 4, 9]))
            pod["status"]["containerStatuses"] = [{"name": "main", "restartCount": restarts}]
        workloads.append(workload)
    return nodes, workloads


def comes_to_rest(cluster: Running, draw: st.DataObject) -> list[tuple[Move, ...]]:
    """What each run moves until one moves nothing; a run in which all strategies rest changes nothing."""
    runs = []
    for _ in range(2 * cluster.size + 2):
        runs.append(cluster.run(draw))
        if not runs[-1]:
            return runs
    raise AssertionError([[move.because for move in moves] for moves in runs[-4:]])


@pytest.mark.parametrize("name", ONE)
@settings(max_examples=20)
@given(cluster=clusters(), draw=st.data())
def test_each_strategy_comes_to_rest_and_moves_no_pod_again(
    name: str, cluster: tuple[list[dict[str, Any]], list[Workload]], draw: st.DataObject
) -> None:
    runs = comes_to_rest(Running(*cluster, {name: ONE[name]}), draw)

    own = [move.pod.uid for moves in runs for move in moves if move.strategy == name]
    if name != "misplaced":
        assert not [uid for uid in own if uid.startswith("new-")]


@settings(max_examples=20)
@given(cluster=clusters(), draw=st.data())
def test_all_at_once_come_to_rest(
    cluster: tuple[list[dict[str, Any]], list[Workload]], draw: st.DataObject
) -> None:
    comes_to_rest(Running(*cluster, ALL), draw)
