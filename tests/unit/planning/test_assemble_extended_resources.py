"""GPUs and other extended resources count by request, whatever measures the rest of the load."""

from __future__ import annotations

from typing import Any

import pytest

from rebalancer.cluster.kinds import BY_PLURAL, METRICS
from rebalancer.errors import InputError
from rebalancer.load.raw_figures import RawFigures
from rebalancer.planning.assemble import assemble, listed_nodes
from rebalancer.planning.inputs import Observation, PlanningInputs
from rebalancer.planning.planner import Planner
from rebalancer.policy.policy_file import parse_policy
from rebalancer.reporting.tables.nodes import node_listing, nodes_table
from tests.builders import a_node, a_snapshot
from tests.rows import rows
from tests.unit.planning.builders import NOW, Workload, a_workload

GPU = "nvidia.com/gpu"
HEAD = (
    "apiVersion: rebalancer/v1alpha1\nkind: RebalancePolicy\nscheduler: {version: '1.35'}\n"
    "load: {sources: [{requests: {}}]}\nlimits: {perWorkload: 100%}\n"
)
HOT_BY_GPU = f"hotNodes: {{forRuns: 1, any: [{{utilization: {{{GPU}: 80}}, coolTo: {{{GPU}: 50}}}}]}}\n"


def gpu_pods(name: str, nodes: list[str], gpus: int) -> Workload:
    """Pods of so many GPUs, and their ReplicaSet."""
    amounts = {"cpu": "1", "memory": "1Gi", GPU: str(gpus)}
    containers = [{"name": "main", "image": "app:v1", "resources": {"requests": amounts, "limits": amounts}}]
    return a_workload(name, nodes, spec={"containers": containers})


def inputs_of(policy: str, nodes: list[dict[str, Any]], workloads: list[Workload]) -> PlanningInputs:
    items: dict[str, list[Any]] = {kind.plural: [] for kind in BY_PLURAL.values() if kind not in METRICS}
    items["nodes"] = nodes
    for workload in workloads:
        items[workload.plural].append(workload.item)
        items["pods"] += workload.pods
    observation = Observation(
        snapshot=a_snapshot(**items), figures=RawFigures(), now=NOW, configurations={"": None}
    )
    return assemble(observation, parse_policy(HEAD + policy, "policy.yaml"), None)


def gpu_node(name: str) -> dict[str, Any]:
    return a_node(name, cpu=64, memory="256Gi", extra={GPU: "8"})


def test_a_node_is_hot_by_the_gpus_that_its_pods_request_and_cools_by_their_leaving() -> None:
    nodes = [gpu_node("g1"), gpu_node("g2"), a_node("plain", cpu=64)]
    inputs = inputs_of(HOT_BY_GPU, nodes, [gpu_pods("inference", ["g1"] * 4, 2)])
    plan = Planner(inputs).plan()
    table = nodes_table(node_listing(plan, listed_nodes(plan.nodes, inputs.snapshot))).plain

    assert plan.hot_names == {"g1"}
    assert [(move.from_node, move.likeliest.node, move.gain) for move in plan.moves] == [
        ("g1", "g2", {GPU: 75.0}),
        ("g1", "g2", {GPU: 25.0}),
    ]
    assert plan.unsolved == {}
    assert plan.known_count == 3
    assert "NVIDIA.COM/GPU" in table
    assert "none" in next(line for line in table.splitlines() if "plain" in line)


def test_thresholds_of_consolidation_take_extended_resources() -> None:
    nodes = [gpu_node("g1"), gpu_node("g2"), gpu_node("g3")]
    workloads = [gpu_pods("a", ["g1"], 1), gpu_pods("b", ["g2"], 3), gpu_pods("c", ["g3"], 4)]
    policy = (
        "hotNodes: {any: []}\nevictable: {protect: []}\n"
        f"strategies: {{consolidation: {{thresholds: {{{GPU}: 30}}}}}}\n"
    )
    plan = Planner(inputs_of(policy, nodes, workloads)).plan()

    assert {item.node for item in plan.kept} == {"g1"}
    assert "thresholds keep 2 of which more is requested" in plan.strategies["consolidation"].message


@rows("name", ["nvidia.com/", "NVIDIA.com/gpu", "gpu", "a/b/c", "hugepages-"])
def test_a_name_that_no_extended_resource_has_is_refused(name: str) -> None:
    with pytest.raises(InputError):
        parse_policy(HEAD + HOT_BY_GPU.replace(GPU, name), "policy.yaml")
    consolidation = f"strategies: {{consolidation: {{thresholds: {{'{name}': 30}}}}}}\n"
    with pytest.raises(InputError):
        parse_policy(HEAD + consolidation, "policy.yaml")


def test_a_virtual_node_is_never_hot_and_says_why() -> None:
    taint = {"key": "virtual-kubelet.io/provider", "value": "azure", "effect": "NoSchedule"}
    for number, virtual in enumerate(
        (
            a_node("v", labels={"type": "virtual-kubelet"}),
            a_node("v", labels={"eks.amazonaws.com/compute-type": "fargate"}),
            a_node("v", taints=[taint]),
        )
    ):
        inputs = inputs_of("hotNodes: {forRuns: 1}\n", [virtual, a_node("n")], [a_workload("web", ["v"] * 4)])
        plan = Planner(inputs).plan()
        (report,) = [node for node in plan.nodes if node.name == "v"]

        assert (plan.hot_count, plan.moves) == (0, ()), number
        assert report.because == ("a virtual node, which no eviction relieves: it is never hot",)
