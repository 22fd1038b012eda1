"""Small clusters to plan: a test states what it is about, and everything else is harmless."""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from msgspec.structs import replace

from rebalancer.cluster import times
from rebalancer.cluster.arrays import FloatArray
from rebalancer.cluster.dumps.listing import NOT_IN_DUMP
from rebalancer.cluster.kinds import BY_PLURAL, METRICS
from rebalancer.cluster.snapshot import Snapshot, build_snapshot
from rebalancer.load.report import build_report
from rebalancer.load.scheduler_view import EMPTY_VIEW, SchedulerView
from rebalancer.load.usage import NodeUsage, PodUsage
from rebalancer.planning.builder import PartialPlan
from rebalancer.planning.inputs import FRESH_RUN, PlannerOptions, PlanningInputs, RunSoFar, SchedulerFacts
from rebalancer.planning.plan import Plan
from rebalancer.planning.planner import Planner
from rebalancer.planning.unmatched_settings import settings_without_effect
from rebalancer.policy.schema import RebalancePolicy
from rebalancer.profiles import SchedulerConfiguration
from rebalancer.scheduling.registry import default_configuration
from rebalancer.scheduling.resources import pod_requests
from rebalancer.state.run_state import PastMove, RunState
from tests.builders import a_pod, a_recording, owned_by

Item = Mapping[str, Any]
NOW = times.parse("2026-06-01T12:00:00Z")
DEFAULTS = default_configuration()
PERMISSIVE: Mapping[str, Any] = {
    "load": {"minCoverage": "0%"},
    "hotNodes": {"forRuns": 1, "any": [{"utilization": {"cpu": 80}, "coolTo": {"cpu": 65}}]},
    "evictable": {"minAge": "0s", "namespaces": {"exclude": []}, "protect": []},
    "limits": {"perRun": 1000, "perNode": 1000, "perNamespace": 1000, "perWorkload": "100%"},
    "planning": {"minGain": 5, "cooldown": "1h"},
    "execution": {"firstWave": 1000, "waveSize": 1000},
}


def at(seconds: float = 0.0) -> str:
    """A moment so long after NOW."""
    return times.render(NOW + seconds)


def a_policy(**sections: Mapping[str, Any]) -> RebalancePolicy:
    """A policy that protects and limits nothing, but for what is said."""
    merged = {
        name: {**PERMISSIVE.get(name, {}), **sections.get(name, {})} for name in {*PERMISSIVE, *sections}
    }
    return RebalancePolicy.model_validate(merged)


@functools.cache
def _permissive_policy() -> RebalancePolicy:
    return a_policy()


@dataclass
class Workload:
    """A controller and its pods, as items of a LIST."""

    plural: str
    item: dict[str, Any]
    pods: list[dict[str, Any]] = field(default_factory=list)


def a_workload(
    name: str,
    nodes: Sequence[str],
    *,
    kind: str = "ReplicaSet",
    cpu: str = "1",
    memory: str = "1Mi",
    namespace: str = "default",
    replicas: int | None = None,
    labels: Mapping[str, str] | None = None,
    template: Mapping[str, Any] | None = None,
    spec: Mapping[str, Any] | None = None,
    **pod: Any,
) -> Workload:
    """A controller with a pod on each of the nodes; ``spec`` is added to pods and template alike.

    ``template`` replaces what the template says, ``pod`` goes to every pod's builder.
    """
    carried = {"app": name, **(labels or {})}
    owner = owned_by(kind, name, namespace=namespace)
    made = [
        a_pod(
            f"{name}-{number}",
            node=node,
            namespace=namespace,
            cpu=cpu,
            memory=memory,
            labels=carried,
            owner=owner,
            **{**(spec or {}), **pod},
        )
        for number, node in enumerate(nodes)
    ]
    wanted = len(nodes) if replicas is None else replicas
    pod_spec = {
        "containers": [
            {
                "name": "main",
                "image": "app:v1",
                "resources": {"requests": {"cpu": cpu, "memory": memory}},
            }
        ],
        **(spec or {}),
        **(template or {}),
    }
    item = {
        "metadata": {"name": name, "namespace": namespace, "uid": owner["uid"], "generation": 1},
        "spec": {
            ("parallelism" if kind == "Job" else "replicas"): wanted,
            "template": {"metadata": {"labels": carried}, "spec": pod_spec},
        },
        "status": {"replicas": wanted, "readyReplicas": wanted, "observedGeneration": 1},
    }
    return Workload(f"{kind.lower()}s", item, made)


def planning_inputs(
    nodes: Iterable[Item],
    workloads: Iterable[Workload] = (),
    *,
    pods: Iterable[Item] = (),
    unread: Collection[str] = (),
    left_out: Collection[str] = (),
    policy: RebalancePolicy | None = None,
    state: RunState | None = None,
    load: Mapping[str, float | tuple[float, float]] | None = None,
    pod_load: Mapping[str, float] | None = None,
    now: float = NOW,
    measured_at: float | None = None,
    window: float = 0.0,
    configuration: SchedulerConfiguration = DEFAULTS,
    view: SchedulerView = EMPTY_VIEW,
    own_pod: str = "",
    system_workloads: Iterable[str] = (),
    seed: int = 0,
    not_alive: str = "",
    **kinds: Iterable[Item],
) -> PlanningInputs:
    """What a plan is made from; every kind is read but those ``unread``; ``left_out`` by who made the dump.

    Pods use what they request, and nodes what their pods use, unless given: ``load`` gives percent of
    allocatable cpu (or of cpu and memory) by node, ``pod_load`` cores by pod name; NaN is unknown.
    """
    items: dict[str, list[Item]] = {kind.plural: [] for kind in BY_PLURAL.values() if kind not in METRICS}
    items["nodes"] = list(nodes)
    items["pods"] = list(pods)
    for workload in workloads:
        items[workload.plural].append(workload.item)
        items["pods"] += workload.pods
    for plural, more in kinds.items():
        items[plural] += list(more)
    recording = a_recording(None, **items)
    listings = {plural: found for plural, found in recording.listings.items() if plural not in unread}
    absent = dict.fromkeys(left_out, NOT_IN_DUMP)
    snapshot = build_snapshot(replace(recording, listings=listings, unread=absent))
    requested = _requested(snapshot)
    pod_usage = requested.copy()
    for name, cores in (pod_load or {}).items():
        pod_usage[snapshot.pods.names.index(name)] = (cores * 1000, 1 << 20) if np.isfinite(cores) else np.nan
    usage = np.zeros((len(snapshot.nodes), 2))
    bound = snapshot.pods.node >= 0
    np.add.at(usage, snapshot.pods.node[bound], np.nan_to_num(pod_usage[bound]))
    for name, percent in (load or {}).items():
        row = snapshot.nodes.row[name]
        pair = percent if isinstance(percent, tuple) else (percent, 10.0)
        usage[row] = np.array(pair) / 100 * snapshot.nodes.allocatable[row, :2]
    measured_at = now if measured_at is None else measured_at
    windows = np.full(len(usage), window)
    figures = NodeUsage("test", usage, np.full(usage.shape, measured_at), windows)
    report = build_report(
        snapshot.nodes,
        snapshot.pods,
        [figures],
        PodUsage(pod_usage, np.full(len(snapshot.pods), measured_at)),
        np.where(np.isnan(pod_usage), np.nan, requested),
        now=now,
        max_age_seconds=180,
    )
    policy = policy or _permissive_policy()
    (settings,) = policy.schedulers
    served = configuration.scheduler_names
    acts_on = tuple(name for name in settings.profiles or served if name in served)
    scheduler = SchedulerFacts(configuration, settings, acts_on, view=view, not_alive=not_alive)
    return PlanningInputs(
        snapshot=snapshot,
        load=report,
        schedulers=(scheduler,),
        policy=policy,
        state=state,
        now=now,
        digest="sha256:test",
        seed=seed,
        own_pod=own_pod,
        system_workloads=frozenset(system_workloads),
        warnings=tuple(settings_without_effect(policy, snapshot, (scheduler,))),
    )


def with_scheduler(inputs: PlanningInputs, **facts: Any) -> PlanningInputs:
    """The inputs with other facts about the scheduler."""
    (scheduler,) = inputs.schedulers
    return replace(inputs, schedulers=(replace(scheduler, **facts),))


def _requested(snapshot: Snapshot) -> FloatArray:
    by_class = [pod_requests(pod).incoming for pod in snapshot.pods.classes]
    rows = [by_class[index] for index in snapshot.pods.pod_class.tolist()]
    return np.array([[row.get("cpu", 0), row.get("memory", 0)] for row in rows], np.float64).reshape(-1, 2)


def searched(inputs: PlanningInputs) -> PartialPlan:
    """What the search over the inputs decided."""
    return Planner(inputs).decided


def plan_of(inputs: PlanningInputs, so_far: RunSoFar = FRESH_RUN, **options: Any) -> Plan:
    """The plan of the inputs, for a run that has done so much, and made with these options."""
    return Planner(inputs, so_far, PlannerOptions(**options)).plan()


def moved(plan: Plan) -> dict[str, str]:
    """Pod name -> the node it lands on, or several joined by commas."""
    return {move.pod.name: ",".join(landing.node for landing in move.landings) for move in plan.moves}


def kept(plan: Plan) -> dict[str, str]:
    """Pod name -> the code of why it stays."""
    return {item.pod.name: item.reason for item in plan.kept}


def because(plan: Plan, pod: str) -> str:
    """Why a pod stays, in words."""
    return next(item.because for item in plan.kept if item.pod.name == pod)


def a_past_move(**changes: Any) -> PastMove:
    """A pod of ReplicaSet web that was moved from a to b ten minutes ago, and landed."""
    values: dict[str, Any] = {
        "namespace": "default",
        "name": "web-old",
        "uid": "uid-old",
        "workload": "ReplicaSet/web",
        "controller_uid": "uid-default-ReplicaSet-web",
        "from_node": "a",
        "to_node": "b",
        "result": "Landed",
        "evicted_at": NOW - 600,
        "landed_at": NOW - 595,
        "load": {"cpu": 1000.0, "memory": 1048576.0},
    }
    return PastMove(**(values | changes))
