"""Recorded timelines of small clusters, hour by hour as a test says."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rebalancer.cluster import times
from rebalancer.cluster.kinds import KINDS
from rebalancer.cluster.snapshot import build_snapshot
from rebalancer.load.raw_figures import RawFigures
from rebalancer.observe.timeline import Timeline, TimelineWriter
from rebalancer.planning.inputs import Observation
from rebalancer.policy.policy_file import LoadedPolicy, parse_policy
from rebalancer.state.run_state import RunState
from tests.builders import a_node, a_pod, a_recording, a_replica_set, owned_by

NOW = 1_795_176_000.0
EVERY = 300.0

POLICY = """
apiVersion: rebalancer/v1alpha1
kind: RebalancePolicy
metadata: {name: test}
load: {sources: [{metricsServer: {}}]}
hotNodes: {forRuns: 1, any: [{utilization: {cpu: 80}, coolTo: {cpu: 60}}]}
evictable: {minAge: 0s, protect: [], namespaces: {exclude: []}}
limits: {perWorkload: 100%}
"""


def a_policy(extra: str = "") -> LoadedPolicy:
    return parse_policy(POLICY + extra, "policy.yaml")


def pods_on(
    where: Mapping[str, str], *, created: float = NOW - 86_400.0, **fields: Any
) -> list[dict[str, Any]]:
    """A pod of the ReplicaSet ``web`` for each name, on the node that is given; empty: Pending."""
    return [
        a_pod(
            name,
            node=node,
            cpu="500m",
            memory="64Mi",
            labels={"app": "web"},
            owner=owned_by("ReplicaSet", "web"),
            created=times.render(created),
            **fields,
        )
        for name, node in where.items()
    ]


def an_observation(
    moment: float,
    pods: Iterable[Mapping[str, Any]],
    use: Mapping[str, int],
    nodes: Iterable[Mapping[str, Any]] = (),
) -> Observation:
    """Nodes of 4 cores, a, b and c; each pod uses as many millicores as is given by name, else 500."""
    pods = [dict(pod) for pod in pods]
    nodes = [dict(node) for node in nodes] or [a_node(name, cpu=4) for name in "abc"]
    stamp = times.render(moment)
    used = {node["metadata"]["name"]: 100 for node in nodes}
    pod_metrics = []
    for pod in pods:
        node, name = pod["spec"].get("nodeName"), pod["metadata"]["name"]
        if node in used:
            used[node] += use.get(name, 500)
            usage = {"cpu": f"{use.get(name, 500)}m", "memory": "32Mi"}
            pod_metrics.append(
                {
                    "metadata": {"name": name, "namespace": pod["metadata"]["namespace"]},
                    "timestamp": stamp,
                    "window": "30s",
                    "containers": [{"name": "main", "usage": usage}],
                }
            )
    node_metrics = [
        {
            "metadata": {"name": name},
            "timestamp": stamp,
            "window": "30s",
            "usage": {"cpu": f"{cpu}m", "memory": "512Mi"},
        }
        for name, cpu in used.items()
    ]
    template = {
        "containers": [
            {"name": "main", "image": "app:v1", "resources": {"requests": {"cpu": "500m", "memory": "64Mi"}}}
        ]
    }
    kinds: dict[str, Iterable[Mapping[str, Any]]] = {kind.plural: [] for kind in KINDS}
    kinds |= {
        "nodes": nodes,
        "pods": pods,
        "replicasets": [a_replica_set("web", replicas=len(pods), labels={"app": "web"}, template=template)],
        "nodemetrics": node_metrics,
        "podmetrics": pod_metrics,
        "namespaces": [{"metadata": {"name": "default"}}],
    }
    recording = a_recording(None, **kinds)
    return Observation(snapshot=build_snapshot(recording), figures=RawFigures(), now=moment, starts={})


def recorded(folder: Path, *moments: Observation, states: Mapping[float, RunState] = {}) -> Timeline:
    """The timeline of these moments."""
    writer = TimelineWriter(folder, 1 << 30)
    for observation in moments:
        assert writer.write(observation, states.get(observation.now))
    return Timeline.open(folder)
