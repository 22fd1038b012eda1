"""NodeResourcesAllocatable: what nodes have, weighted and truncated as Go does."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from rebalancer.errors import InputError
from rebalancer.profiles.types import SchedulerConfiguration
from rebalancer.scheduling.plugins.node_resources.allocatable import NodeResourcesAllocatable
from rebalancer.scheduling.registry import load_configuration
from rebalancer.scheduling.state.cluster_state import ClusterState
from tests.builders import a_node, a_pod, a_snapshot
from tests.rows import rows

GPU, NAME = "nvidia.com/gpu", "NodeResourcesAllocatable"


def configured(arguments: dict[str, Any]) -> SchedulerConfiguration:
    profile = {
        "plugins": {"score": {"disabled": [{"name": "*"}], "enabled": [{"name": NAME}]}},
        "pluginConfig": [{"name": NAME, "args": arguments}],
    }
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    return load_configuration(json.dumps(head | {"profiles": [profile]}), "test")


def scores(arguments: dict[str, Any]) -> list[int]:
    """Of nodes with 4 cores and 8 GiB, 6 cores and 3 GiB and 3 GPUs, 16 cores and 8 GiB and 1 GPU."""
    nodes = [
        a_node("even", cpu=4, memory="8Gi"),
        a_node("gpus", cpu=6, memory="3Gi", extra={GPU: "3"}),
        a_node("large", cpu=16, memory="8Gi", extra={GPU: "1"}),
    ]
    snapshot = a_snapshot(nodes=nodes, pods=[a_pod("web-0", node="even", cpu="3")])
    plugin = NodeResourcesAllocatable(configured(arguments).profiles[0].argument(NAME))  # type: ignore[arg-type]
    raw = plugin.raw_scores(ClusterState.of(snapshot), 0, np.arange(3))
    return [int(score) for score in plugin.normalize(raw, int(raw.min()), int(raw.max()))]


@rows(
    "arguments, expected",
    [
        # A thousandth of a core counts as a MiB: 12,192, 9,072 and 24,192 of them.
        ({}, [79, 100, 0]),
        ({"mode": "Most"}, [20, 0, 100]),
        ({"mode": "", "resources": []}, [79, 100, 0]),
        ({"resources": [{"name": "cpu", "weight": 3}]}, [100, 83, 0]),
        # Minus 3, 0 and 1 halves, toward zero: -1, 0 and 0.
        (
            {"resources": [{"name": GPU, "weight": 1}, {"name": "pods", "weight": 1}]},
            [100, 0, 100],
        ),
        ({"mode": "Most", "resources": [{"name": "pods", "weight": 1}]}, [0, 0, 0]),
        # Products overflow as in Go: 8 GiB to the least integer, 3 GiB to minus 7 << 60.
        ({"mode": "Most", "resources": [{"name": "memory", "weight": 3 << 30}]}, [0, 100, 0]),
    ],
)
def test_nodes_score_by_what_they_have_whatever_runs_there(
    arguments: dict[str, Any], expected: list[int]
) -> None:
    assert scores(arguments) == expected


@pytest.mark.parametrize(
    "arguments",
    [{"mode": "Largest"}, {"resources": [{"name": "cpu", "weight": 0}]}, {"resources": [{"weight": -1}]}],
)
def test_arguments_that_the_scheduler_refuses_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="pluginConfig"):
        configured(arguments)
