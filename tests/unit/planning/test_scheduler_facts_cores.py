"""The scheduler's cores: stated in the policy, else those of the node its pod runs on, else unknown."""

from __future__ import annotations

from rebalancer.cluster.snapshot import Snapshot, build_snapshot
from rebalancer.planning.scheduler_facts import scheduler_cores
from rebalancer.policy.schedulers import SchedulerSettings
from tests.builders import a_node, a_pod, a_recording

IMAGE = "registry.k8s.io/kube-scheduler:v1.35.0"


def a_snapshot(*images: str) -> Snapshot:
    nodes = [a_node("small", cpu=2), a_node("large", cpu="7500m", capacity_cpu="8")]
    pods = [
        a_pod(
            f"p-{number}", node=nodes[number]["metadata"]["name"], containers=[{"name": "c", "image": image}]
        )
        for number, image in enumerate(images)
    ]
    return build_snapshot(a_recording(nodes=nodes, pods=pods))


def test_the_policy_states_them() -> None:
    assert scheduler_cores(SchedulerSettings(cores=3), a_snapshot(IMAGE, IMAGE)) == 3


def test_of_several_nodes_with_a_schedulers_pod_the_largest_counts() -> None:
    assert scheduler_cores(SchedulerSettings(), a_snapshot(IMAGE)) == 2
    assert scheduler_cores(SchedulerSettings(), a_snapshot("nginx:1", IMAGE)) == 8
    assert scheduler_cores(SchedulerSettings(), a_snapshot(IMAGE, IMAGE)) == 8


def test_without_a_pod_to_be_seen_they_are_unknown() -> None:
    assert scheduler_cores(SchedulerSettings(), a_snapshot("nginx:1")) is None
