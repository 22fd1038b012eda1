"""A day of a real control plane, recorded as it passed and backfilled from a real Prometheus.

The day takes minutes with 60 nodes (REBALANCER_BACKFILL_NODES has more): its moments are an hour apart by a
clock of its own, and between two of them real controllers, a real scheduler and kwok's kubelets follow a load
generator that scales Deployments with the demand of a working day. What kube-state-metrics and cAdvisor would
have exported of it is written into Prometheus, scraped 7 seconds before each moment. At some moments
Deployments were scaled two minutes before only: a rate over five minutes then has little of the pods that
came, and still has those that left.
"""

from __future__ import annotations

import math
import os
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from bench import demand
from rebalancer.cli.output import Output
from rebalancer.cluster import times
from rebalancer.observe.plan_options import PlanOptions, open_api
from rebalancer.observe.read import observe
from rebalancer.observe.timeline import Timeline, TimelineWriter
from rebalancer.planning.assemble import assemble, requests_by_pod
from rebalancer.planning.inputs import Observation, PlanningInputs
from rebalancer.planning.planner import Planner
from rebalancer.policy.policy_file import LoadedPolicy, load_policy
from rebalancer.reporting.render import Format
from rebalancer_lab.timeline.backfill_command import backfill_timeline
from tests.conftest import SUMMARY
from tests.e2e import assets, clusters, metrics
from tests.e2e.controlplane import ControlPlane, is_ready
from tests.e2e.processes import wait_until
from tests.integration.prometheus.servers import Samples, running

NODES = int(os.environ.get("REBALANCER_BACKFILL_NODES", "60"))
WORKLOADS, HOURS = 40, 24
LATE = frozenset((5, 13, 21))  # moments two minutes after their change of scale
# More of them at night: by day hardly any node can take a pod.
PLANNED = frozenset((1, 2, 3, 4, 6, 10, 15, 19, 22, 23))
SCRAPED_BEFORE = 7.0
MIB = 1 << 20
POLICY = f"""\
apiVersion: rebalancer/v1alpha1
kind: RebalancePolicy
metadata: {{name: day}}
scheduler: {{version: "{assets.MINOR}"}}
load: {{sources: [{{metricsServer: {{}}}}], minCoverage: 80%}}
hotNodes: {{forRuns: 1, any: [{{utilization: {{cpu: 70}}, coolTo: {{cpu: 60}}}}]}}
evictable: {{minAge: 0s, priorityBelow: 2000000000}}
limits: {{perRun: 20, perNode: 4, perNamespace: 10}}
planning: {{cooldown: 1h}}
execution: {{waveSize: 5}}
safety: {{maxPendingPods: 20}}
"""
ROOM = {"cpu": 4, "memory": 16 << 30, "pods": 110, "ephemeral_storage": 100 << 30}
REPLICAS = {"deployments": "kube_deployment_spec_replicas", "replicasets": "kube_replicaset_spec_replicas"}
Object = dict[str, Any]
Key = tuple[str, str]
Record = Callable[[str, object], None]


def _app(pod: Object) -> str:
    return str(pod["metadata"]["labels"].get("app", ""))


@dataclass
class Exported:
    """What exporters tell of each moment, as samples of Prometheus."""

    samples: Samples = field(default_factory=Samples)
    counters: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))  # core seconds
    series: dict[tuple[str, tuple[Key, ...]], list[tuple[float, float]]] = field(
        default_factory=lambda: defaultdict(list)
    )

    def tell(self, name: str, at: float, value: float, **labels: str) -> None:
        """A sample."""
        self.series[name, tuple(labels.items())].append((at, value))

    def use(self, moment: float, changed: float, before: int | None, milli: int, **labels: str) -> None:
        """Three samples of a counter within the window of a moment; None where nothing was there before."""
        key = str(labels)
        for back in (200.0, 100.0, 0.0):
            at = moment - SCRAPED_BEFORE - back
            old = min(max(changed - (at - 100.0), 0.0), 100.0)
            self.counters[key] += ((before or 0) * old + milli * (100.0 - old)) / 1000.0
            if before is not None or at > changed:
                self.tell("container_cpu_usage_seconds_total", at, self.counters[key], **labels)

    def written(self) -> Samples:
        """All of it."""
        for (name, labels), points in self.series.items():
            self.samples.add(name, dict(labels), points)
        return self.samples


@dataclass
class Day:
    """The cluster, its clock, and what is kept of each moment."""

    control_plane: ControlPlane
    options: PlanOptions
    loaded: LoadedPolicy
    folder: Path  # of the timeline
    writer: TimelineWriter
    begins: float
    number: int = 0
    exported: Exported = field(default_factory=Exported)
    plans: dict[float, list[tuple[str, str]]] = field(default_factory=dict)
    replicas: dict[str, int] = field(default_factory=dict)
    used: dict[str, int] = field(default_factory=dict)  # millicores of pods and nodes at the moment before

    @property
    def now(self) -> float:
        """The day's own time."""
        return self.begins + 3600.0 * self.number

    def cpu_milli(self, pod: Object) -> int:
        """What a pod uses: more than it asks for or less, by its workload and the hour."""
        if not pod["spec"].get("nodeName"):
            return 0
        app = _app(pod)
        habit = 250 + 37 * (int(app.rpartition("-")[2]) % 20)
        return round(habit * demand.factor(app, float(self.number)))

    def scale(self) -> None:
        """As the demand of the hour wants it; wait until the cluster has followed."""
        api = self.control_plane.api
        for number in range(WORKLOADS):
            name = f"app-{number}"
            wanted = round(
                (20 + number % 7) * (0.7 + 0.3 * demand.demand(self.number + number % 3)) * NODES / 300
            )
            if self.replicas.get(name) != wanted:
                path = f"/apis/apps/v1/namespaces/default/deployments/{name}"
                api.patch(path, {"spec": {"replicas": wanted}})
                self.replicas[name] = wanted
        count = sum(self.replicas.values())

        def followed() -> bool:
            found = api.list("/apis/apps/v1/deployments")
            if sum(item["status"].get("readyReplicas", 0) for item in found) != count:
                return False
            pods = [pod for pod in api.list("/api/v1/pods") if _app(pod) != "stuck"]
            return len(pods) == count and all(map(is_ready, pods))

        wait_until(followed, f"{count} pods ready at hour {self.number}", seconds=600.0, every=1.0)

    def keep(self) -> None:
        """Record the moment, plan at it, and export what exporters would."""
        live = observe(self.at_now(), (self.loaded,), open_api(self.options))
        assert self.writer.write(live, None)
        if self.number in PLANNED:
            self.plans[self.now] = moves_of(live, self.loaded)
        self._export()

    def at_now(self) -> PlanOptions:
        """How the cluster is read at this moment."""
        return PlanOptions(
            policy_path=self.options.policy_path, kubeconfig=self.options.kubeconfig, now=self.now
        )

    def _export(self) -> None:
        api, tell = self.control_plane.api, self.exported.tell
        at, changed = self.now - SCRAPED_BEFORE, self.now - (120.0 if self.number in LATE else 1200.0)
        used, before = Counter[str](), self.used
        for pod in api.list("/api/v1/pods"):
            metadata, node = pod["metadata"], pod["spec"].get("nodeName", "")
            labels = {"namespace": metadata["namespace"], "pod": metadata["name"]}
            uid, owner = metadata["uid"], metadata["ownerReferences"][0]
            by = {"created_by_kind": owner["kind"], "created_by_name": owner["name"]}
            tell("kube_pod_info", at, 1, **labels, uid=uid, node=node, **by)
            tell("kube_pod_created", at, times.parse(metadata["creationTimestamp"]), **labels)
            for phase in ("Running", "Pending"):
                is_it = float(pod["status"]["phase"] == phase)
                tell("kube_pod_status_phase", at, is_it, **labels, phase=phase)
            container = {**labels, "container": "app"}
            for resource, amount in (("cpu", 0.5), ("memory", 64 * MIB)):
                tell("kube_pod_container_resource_requests", at, amount, **container, resource=resource)
            if not node:
                continue
            tell("kube_pod_start_time", at, times.parse(pod["status"]["startTime"]), **labels)
            tell("kube_pod_status_ready", at, 1, **labels, condition="true")
            uses = self.cpu_milli(pod)
            used[node] += uses
            used[uid] = uses
            self.exported.use(self.now, changed, before.get(uid) and uses, uses, **container)
            tell("container_memory_working_set_bytes", at, 16 * MIB, **container)
        for node in api.list("/api/v1/nodes"):
            name = node["metadata"]["name"]
            self.exported.use(self.now, changed, before.get(name, 0), used[name], id="/", node=name)
            used[name] += 0
            tell("container_memory_working_set_bytes", at, 1024 * MIB, id="/", node=name)
            tell("kube_node_status_condition", at, 1, node=name, condition="Ready", status="true")
            for column, (resource, amount) in product(("allocatable", "capacity"), ROOM.items()):
                tell(f"kube_node_status_{column}", at, amount, node=name, resource=resource)
        for kind, metric in REPLICAS.items():
            for item in api.list(f"/apis/apps/v1/{kind}"):
                named = {"namespace": item["metadata"]["namespace"], kind[:-1]: item["metadata"]["name"]}
                tell(metric, at, item["spec"]["replicas"], **named)
                if kind == "replicasets":
                    ready = item["status"].get("readyReplicas", 0)
                    tell("kube_replicaset_status_ready_replicas", at, ready, **named)
        self.used = used


def inputs_of(observation: Observation, loaded: LoadedPolicy) -> PlanningInputs:
    """What a plan of a moment is made from, with the default configuration of the scheduler."""
    return assemble(replace(observation, configurations={"": None}), loaded, None)


def moves_of(observation: Observation, loaded: LoadedPolicy) -> list[tuple[str, str]]:
    """The pods that a plan of a moment moves, and where to."""
    plan = Planner(inputs_of(observation, loaded)).plan()
    return [(move.pod.name, move.likeliest.node) for move in plan.moves]


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Day]:
    """The day, over."""
    folder = tmp_path_factory.mktemp("day")
    policy = folder / "policy.yaml"
    policy.write_text(POLICY)
    (folder / "controlplane").mkdir()
    with ControlPlane(folder / "controlplane") as control_plane:
        control_plane.start(
            controllers=False, api_server_flags=metrics.front_proxy_flags(control_plane.folder)
        )
        # Where little processor is left kwok's heartbeats are late, and no node shall be taken as lost.
        control_plane.start_controllers("--node-monitor-grace-period=30m")
        api = control_plane.api
        for number in range(NODES):
            api.create(clusters.node(f"node-{number:03}", cpu="4"))
        for number in range(WORKLOADS):
            api.create(clusters.deployment(f"app-{number}", 0, cpu="500m"))
        api.create(clusters.deployment("stuck", 3, cpu="500m", pod={"nodeSelector": {"disk": "none"}}))
        begins = math.ceil(time.time() / 3600.0) * 3600.0
        found = Day(
            control_plane,
            PlanOptions(policy_path=policy, kubeconfig=control_plane.kubeconfig()),
            load_policy(policy),
            folder / "recorded",
            TimelineWriter(folder / "recorded", 1 << 30),
            begins,
        )
        with metrics.exact_metrics(control_plane, lambda: found.now, found.cpu_milli):
            for found.number in range(HOURS + 1):
                found.scale()
                found.keep()
            yield found


@pytest.fixture(scope="module")
def timelines(day: Day, tmp_path_factory: pytest.TempPathFactory) -> tuple[Timeline, Timeline]:
    """The recorded timeline, and the one that was backfilled when the day was over."""
    folder = tmp_path_factory.mktemp("prometheus")
    options = ("--storage.tsdb.retention.time=10y",)
    with running(folder, day.exported.written(), "", *options) as server:
        asked, output = day.at_now(), Output(Format.JSON)
        address, seconds = server.address, 3600.0
        backfill_timeline(
            folder / "backfilled", asked, address, HOURS * seconds, seconds, 100.0, 1 << 30, output
        )
    return Timeline.open(day.folder), Timeline.open(folder / "backfilled")


def _where(observation: Observation) -> dict[str, str]:
    """The node of each pod by its uid; empty while it is Pending."""
    pods, nodes = observation.snapshot.pods, observation.snapshot.nodes
    return {uid: nodes.names[row] if row >= 0 else "" for uid, row in zip(pods.uids, pods.node, strict=True)}


def test_pods_nodes_and_requests_are_those_that_were_recorded_at_every_moment(
    timelines: tuple[Timeline, Timeline],
) -> None:
    recorded, backfilled = timelines

    assert backfilled.moments() == recorded.moments()
    assert len(recorded.moments()) == HOURS + 1
    for at in recorded.moments():
        one, other = recorded.observation(at), backfilled.observation(at)
        assert _where(one) == _where(other)
        asked = [
            dict(zip(item.snapshot.pods.uids, requests_by_pod(item.snapshot).tolist(), strict=True))
            for item in (one, other)
        ]
        assert asked[0] == asked[1]
        assert len(one.snapshot.nodes) == len(other.snapshot.nodes) == NODES


def test_loads_differ_only_where_pods_came_or_left_within_the_window_of_a_rate(
    day: Day, timelines: tuple[Timeline, Timeline], record_property: Record
) -> None:
    within: list[float] = []
    for number, at in enumerate(timelines[0].moments()):
        one, other = (
            inputs_of(timeline.observation(at), day.loaded).load.percent[:, :2] for timeline in timelines
        )
        wrong = np.abs(one - other)
        if number in LATE:
            within.append(float(wrong.max()))
        else:
            assert wrong.max() < 0.1, f"hour {number}: {wrong.max():.2f} points"
    words = f"backfilled day of {NODES} nodes: loads as recorded at {HOURS + 1 - len(LATE)} moments"
    record_property(SUMMARY, f"{words}; where pods had just come or left up to {max(within):.1f} points off")


def test_plans_at_ten_moments_are_the_live_ones(
    day: Day, timelines: tuple[Timeline, Timeline], record_property: Record
) -> None:
    planned = [
        {at: moves_of(timeline.observation(at), day.loaded) for at in day.plans} for timeline in timelines
    ]

    assert planned[0] == day.plans
    assert planned[1] == day.plans
    assert sum(map(len, day.plans.values())) >= 10
    record_property(SUMMARY, f"plans of 10 moments equal: {[len(item) for item in day.plans.values()]} moves")
