"""A scheduler without a configuration has the defaults of its own version."""

from __future__ import annotations

import pytest

from rebalancer.load.raw_figures import RawFigures
from rebalancer.planning.inputs import Observation
from rebalancer.planning.scheduler_facts import scheduler_facts
from rebalancer.policy.policy_file import LoadedPolicy
from rebalancer.policy.schema import RebalancePolicy
from tests.builders import a_node, a_pod, a_snapshot, owned_by


@pytest.mark.parametrize(
    ("version", "plugin", "weight"),
    [
        ("v1.20.15", "NodeResourcesLeastAllocated", 1),
        ("v1.22.17", "TaintToleration", 1),
        ("v1.26.15", "TaintToleration", 3),
    ],
)
def test_weights_are_those_of_the_schedulers_image(version: str, plugin: str, weight: int) -> None:
    containers = [{"name": "c", "image": f"registry.k8s.io/kube-scheduler:{version}"}]
    pods = [a_pod("scheduler", node="n", owner=owned_by("Node", "n"), containers=containers)]
    snapshot = a_snapshot(nodes=[a_node("n")], pods=pods)
    observation = Observation(snapshot, RawFigures(), 0.0, configurations={"": None})
    (facts,) = scheduler_facts(observation, LoadedPolicy(RebalancePolicy(), "policy.yaml", ""))
    assert facts.configuration.profiles[0].weights[plugin] == weight
