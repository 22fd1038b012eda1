"""Plans come to rest: run after run on random clusters with soft and hard rules, until nothing moves."""

from __future__ import annotations

import os
from random import Random
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from rebalancer.cluster.arrays import PodRow
from rebalancer.planning.inputs import PlanningInputs
from rebalancer.planning.plan import Move
from rebalancer.planning.planner import Planner
from rebalancer.planning.prepared import prepare
from rebalancer.planning.strategies import STRATEGIES
from rebalancer.profiles import SchedulerConfiguration
from rebalancer.scheduling.registry import load_configuration
from rebalancer.state.run_state import PastMove, RunState
from tests.builders import a_node
from tests.conftest import examples
from tests.unit.planning.builders import DEFAULTS, NOW, Workload, a_policy, a_workload, at, planning_inputs

CYCLES = int(os.environ.get("REST_CYCLES", "50"))
EXAMPLES = int(os.environ.get("REST_EXAMPLES", examples(5)))
AS_DRAWN = (Phase.explicit, Phase.generate)  # a smaller cluster that fails as well takes minutes to find
STEP, HOUR = 7200.0, 3600.0  # seconds from run to run
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PACKS = load_configuration(
    """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated}}
""",
    "packs",
)
EACH: dict[str, Any] = {
    "misplaced": {"preferredNodeAffinity": True, "preferredPodAffinity": True, "preferNoSchedule": True},
    "duplicates": True,
    "topologySpread": {"constraints": ["DoNotSchedule", "ScheduleAnyway"], "defaultConstraints": True},
    "fragmentation": {"workloads": ["default/ReplicaSet/web"], "pendingFor": "0s"},
    "failed": True,
    "lifetime": {"maxAge": "24h"},
    "restarts": {"threshold": 5},
    "consolidation": {"minNodeAge": "0s"},
}
RUN = {**{name: {name: settings} for name, settings in EACH.items()}, "all": EACH}


class Running:
    """A cluster of which one plan after the other is carried out."""

    def __init__(
        self,
        nodes: list[dict[str, Any]],
        workloads: list[Workload],
        strategies: dict[str, Any],
        configuration: SchedulerConfiguration = DEFAULTS,
    ) -> None:
        self._nodes, self._workloads, self._configuration = nodes, workloads, configuration
        self._clock, self._made, self._past = 0.0, 0, list[PastMove]()
        self._policy = a_policy(
            strategies=strategies,
            limits={"perRun": 6, "perWorkload": "50%"},
            hotNodes={"any": [{"utilization": {"cpu": 95}, "coolTo": {"cpu": 90}}]},
            planning={"cooldown": "0s"},
        )

    def inputs(self) -> PlanningInputs:
        return planning_inputs(
            self._nodes,
            self._workloads,
            policy=self._policy,
            state=RunState(moves=tuple(self._past)),
            now=NOW + self._clock,
            configuration=self._configuration,
        )

    def run(self, random: Random) -> tuple[Move, ...]:
        """One run: each replacement goes where the scheduler puts it, before or after the old pod is gone."""
        moves = Planner(self.inputs()).plan().moves
        for move in moves:
            prepared = prepare(self.inputs())
            name = prepared.pods.row.get((move.pod.namespace, move.pod.name))
            if name is None:
                continue
            row = PodRow(name)
            state, candidate = prepared.state.copy(), prepared.candidate(row)
            kind, is_gone = candidate.replacement, candidate.workload.replaced_late or random.random() < 0.5
            (state.remove if is_gone else state.evict)(row)
            found = prepared.schedulers.scheduler(kind).place(state, kind)
            possible = found.feasible[found.chance > 0].tolist()
            returns = candidate.source in possible and move.strategy not in ("lifetime", "restarts")
            if move is not moves[0] and (returns or not possible):
                continue  # a run judges it again once those before it have landed, and finds that too
            assert possible
            assert not returns
            node = random.choices(found.feasible.tolist(), found.chance.tolist())[0]
            self._replace(move, prepared.nodes.names[node])
        self._clock += STEP
        return moves

    def _replace(self, move: Move, node: str) -> None:
        pods = [pod for workload in self._workloads for pod in workload.pods]
        pod = next(item for item in pods if item["metadata"]["uid"] == move.pod.uid)
        self._made += 1
        pod["metadata"]["uid"] = f"new-{self._made}"
        if move.pod.controller_kind != "StatefulSet":
            pod["metadata"]["name"] = f"new-{self._made}"
        pod["metadata"]["creationTimestamp"] = at(self._clock)
        pod["spec"]["nodeName"] = node
        pod["status"].pop("containerStatuses", None)
        evicted_at = NOW + self._clock
        self._past.append(move.made("Landed", node, evicted_at, evicted_at + 5))


def a_rule(kind: str, app: str, other: str) -> dict[str, Any]:
    """What the pods of an app ask of where they run."""
    if kind in ("DoNotSchedule", "ScheduleAnyway"):
        key = ZONE if kind == "DoNotSchedule" else HOST
        selector = {"matchLabels": {"app": app}}
        one = {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": kind, "labelSelector": selector}
        return {"topologySpreadConstraints": [one]}
    on_ssd = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}
    if kind == "ssd":
        return {"affinity": {"nodeAffinity": {PREFERRED: [{"weight": 50, "preference": on_ssd}]}}}
    if kind == "only ssd":
        return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [on_ssd]}}}}
    term = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": other}}}
    if kind == "apart":
        return {"affinity": {"podAntiAffinity": {REQUIRED: [term]}}} if app != other else {}
    return {"affinity": {kind: {PREFERRED: [{"weight": 50, "podAffinityTerm": term}]}}} if kind else {}


RULES = ["", "DoNotSchedule", "ScheduleAnyway", "ssd", "only ssd", "podAffinity", "podAntiAffinity", "apart"]


@st.composite
def clusters(draw: st.DrawFn) -> tuple[list[dict[str, Any]], list[Workload]]:
    nodes, apps = [], ("api", "web", "db", "job")
    for number in range(draw(st.integers(2, 5))):
        effect = draw(st.sampled_from(["", "", "", "", "PreferNoSchedule", "NoSchedule"]))
        nodes.append(
            a_node(
                f"n{number}",
                cpu=draw(st.sampled_from([3, 6])),
                labels={ZONE: draw(st.sampled_from("abc")), "disk": draw(st.sampled_from(["ssd", "hdd"]))},
                taints=[{"key": "dedicated", "value": "", "effect": effect}] if effect else [],
                unschedulable=draw(st.integers(0, 7)) == 0,
            )
        )
    names = [node["metadata"]["name"] for node in nodes]
    workloads = []
    for app in apps[: draw(st.integers(1, 4))]:
        workload = a_workload(
            app,
            draw(st.lists(st.sampled_from([*names, *names, ""]), min_size=1, max_size=5)),
            kind=draw(st.sampled_from(["ReplicaSet", "ReplicaSet", "StatefulSet"])),
            cpu=draw(st.sampled_from(["10m", "500m", "900m"])),
            spec=a_rule(draw(st.sampled_from(RULES)), app, draw(st.sampled_from(apps))),
        )
        for pod in workload.pods:
            pod["metadata"]["creationTimestamp"] = at(-draw(st.sampled_from([1, 20, 25, 40])) * HOUR)
            restarts = draw(st.sampled_from([0, 0, 4, 9]))
            pod["status"]["containerStatuses"] = [{"name": "main", "restartCount": restarts}]
        workloads.append(workload)
    return nodes, workloads


def test_every_strategy_runs_here_until_it_comes_to_rest() -> None:
    assert {"hotNodes", *EACH} == {strategy.name for strategy in STRATEGIES}


def moves_until_rest(cluster: Running, random: Random) -> list[Move]:
    """What is moved until a run moves nothing, which changes nothing for the next one but the time of day."""
    runs = list[tuple[Move, ...]]()
    while len(runs) < CYCLES:
        runs.append(cluster.run(random))
        if not runs[-1] and len(runs) > 1 and not runs[-2]:
            return [move for moves in runs for move in moves]
    raise AssertionError([[move.because for move in moves] for moves in runs[-4:]])


@pytest.mark.parametrize("packs", [False, True], ids=["spreads", "packs"])
@pytest.mark.parametrize("name", RUN)
@settings(max_examples=EXAMPLES, phases=AS_DRAWN)
@given(cluster=clusters(), seed=st.integers(0, 99))
def test_cycles_come_to_rest_and_move_no_pod_again(
    name: str, packs: bool, cluster: tuple[list[dict[str, Any]], list[Workload]], seed: int
) -> None:
    running = Running(*cluster, RUN[name], PACKS if packs else DEFAULTS)
    moves = moves_until_rest(running, Random(seed))

    if name in ("duplicates", "restarts", "consolidation"):
        assert not [move.because for move in moves if move.strategy == name and "new-" in move.pod.uid]


@pytest.mark.parametrize("name", ["topologySpread", "misplaced", "all"])
@given(cluster=clusters())
@settings(max_examples=3 * EXAMPLES, phases=AS_DRAWN)
def test_on_an_unchanged_cluster_the_moves_of_every_strategy_still_hold(
    name: str, cluster: tuple[list[dict[str, Any]], list[Workload]]
) -> None:
    inputs = Running(*cluster, RUN[name]).inputs()
    moves = Planner(inputs).plan().moves

    found = Planner(inputs).recheck(moves)
    assert {uid: verdict for uid, verdict in found.items() if isinstance(verdict, str)} == {}
    one_by_one = [Planner(inputs).recheck([move])[move.pod.uid] for move in moves[:1]]
    assert [verdict for verdict in one_by_one if isinstance(verdict, str)] == []
