"""The Trimaran and article plugins give the scores that the Go code and the articles' logs show."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rebalancer.cluster.records import Container, PodSpec, ResourceRequirements
from rebalancer.load.watcher import Metric, WatcherMetrics
from rebalancer.profiles.load_arguments import TargetLoadPackingArguments
from rebalancer.scheduling.plugins.pod_capacity_of_node import PodCapacityOfNode
from rebalancer.scheduling.plugins.target_load_packing import TargetLoadPacking
from rebalancer.scheduling.state import ClusterState
from tests.builders import a_node, a_pod, a_snapshot

VECTORS = json.loads((Path(__file__).parent / "data" / "trimaran-unit.json").read_text())


def _named(cases: list[dict[str, Any]]) -> list[Any]:
    return [pytest.param(case, id=case["id"]) for case in cases]


def _quantity(milli: int | None) -> dict[str, str] | None:
    return None if milli is None else {"cpu": f"{milli}m"}


def _spec(pod: dict[str, Any]) -> PodSpec:
    containers = [
        Container(
            name=f"c{index}",
            resources=ResourceRequirements(
                requests=_quantity(item["request_milli"]), limits=_quantity(item["limit_milli"])
            ),
        )
        for index, item in enumerate(pod["containers"])
    ]
    return PodSpec(containers=containers, overhead={"cpu": f"{pod['overhead_milli']}m"})


@pytest.mark.parametrize("case", _named(VECTORS["target_load_packing"]))
def test_target_load_packing_scores_as_the_go_code(case: dict[str, Any]) -> None:
    window_end = 2_000_000_000.0
    bound_at = [window_end - pod["window_end_minus_bind_ts"] for pod in case["recently_bound_pods"]]
    arguments = TargetLoadPackingArguments(
        target_utilization=case["target_utilization"],
        default_requests={"cpu": f"{case['default_requests_milli']}m"},
        default_requests_multiplier=float(case["default_requests_multiplier"]),
    )
    metrics = None if case["node_metrics"] is None else tuple(Metric(**item) for item in case["node_metrics"])
    nodes = {} if metrics is None else {"node": metrics}
    watcher = WatcherMetrics(nodes, window_end, window_end - 900, window_end, "test")
    snapshot = a_snapshot(
        nodes=[
            a_node(
                "node",
                cpu=f"{case['node_allocatable_cpu_milli']}m",
                capacity_cpu=f"{case['node_capacity_cpu_milli']}m",
            )
        ],
        pods=[
            a_pod("incoming", spec=_spec(case["pod"])),
            *(
                a_pod(f"recent-{index}", spec=_spec(pod))
                for index, pod in enumerate(case["recently_bound_pods"])
            ),
        ],
    )
    state = ClusterState.of(snapshot)
    row = snapshot.pods.row
    unseen = [
        (state.pod_class[row["default", f"recent-{index}"]], 0)
        for index, moment in enumerate(bound_at)
        if window_end - moment < 60
    ]
    plugin = TargetLoadPacking(arguments, watcher, unseen)
    scores = plugin.raw_scores(state, state.pod_class[row["default", "incoming"]], np.array([0]))
    assert scores.tolist() == [case["expected_score"]]


@pytest.mark.parametrize("case", _named(VECTORS["article_pod_capacity"]))
def test_pod_capacity_of_node_scores_as_the_articles_log(case: dict[str, Any]) -> None:
    pods = [a_pod(f"pod-{index}", node="node") for index in range(case["pods_on_node"])]
    snapshot = a_snapshot(
        nodes=[a_node("node", pods=case["allocatable_pods"])], pods=[*pods, a_pod("incoming")]
    )
    state = ClusterState.of(snapshot)
    incoming = state.pod_class[snapshot.pods.row["default", "incoming"]]
    assert PodCapacityOfNode().raw_scores(state, incoming, np.array([0])).tolist() == [case["expected_score"]]
