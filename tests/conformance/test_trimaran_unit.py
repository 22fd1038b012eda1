"""The Trimaran and article plugins give the scores that the Go code and the articles' logs show."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rebalancer.cluster.pod_classes import pod_class_of
from rebalancer.cluster.records import Container, Pod, PodSpec, ResourceRequirements
from rebalancer.load.scheduler_view import CPU_TYPE, MEMORY_TYPE, Metric, WatcherMetrics
from rebalancer.scheduling.plugins.pod_capacity_of_node import PodCapacityOfNode
from rebalancer.scheduling.plugins.trimaran.load_variation_risk_balancing import (
    LoadVariationRiskBalancing,
    LoadVariationRiskBalancingArguments,
    Risk,
    risk_of,
)
from rebalancer.scheduling.plugins.trimaran.low_risk_over_commitment import (
    LowRiskOverCommitment,
    LowRiskOverCommitmentArguments,
    Measured,
    at_most,
    combined_risk,
    largest_variance,
    match_moments,
    probability_within,
)
from rebalancer.scheduling.plugins.trimaran.node_figures import in_mebibytes, pod_amount, statistics
from rebalancer.scheduling.plugins.trimaran.target_load_packing import (
    TargetLoadPacking,
    TargetLoadPackingArguments,
)
from rebalancer.scheduling.resources import round_half_away
from rebalancer.scheduling.state.cluster_state import ClusterState
from tests.builders import a_node, a_pod, a_snapshot
from tests.rows import rows

VECTORS = json.loads((Path(__file__).parent / "data" / "trimaran-unit.json").read_text())


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


@rows("case", VECTORS["target_load_packing"])
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
                a_pod(f"recent-{index}", node="node", spec=_spec(pod))
                for index, pod in enumerate(case["recently_bound_pods"])
            ),
        ],
    )
    state = ClusterState.of(snapshot)
    row = snapshot.pods.row
    unseen = [
        (pod := row["default", f"recent-{index}"], state.pod_class[pod], 0)
        for index, moment in enumerate(bound_at)
        if window_end - moment < 60
    ]
    plugin = TargetLoadPacking(arguments, watcher, unseen)
    scores = plugin.raw_scores(state, state.pod_class[row["default", "incoming"]], np.array([0]))
    assert scores.tolist() == [case["expected_score"]]


@rows("case", VECTORS["article_pod_capacity"])
def test_pod_capacity_of_node_scores_as_the_articles_log(case: dict[str, Any]) -> None:
    pods = [a_pod(f"pod-{index}", node="node") for index in range(case["pods_on_node"])]
    snapshot = a_snapshot(
        nodes=[a_node("node", pods=case["allocatable_pods"])], pods=[*pods, a_pod("incoming")]
    )
    state = ClusterState.of(snapshot)
    incoming = state.pod_class[snapshot.pods.row["default", "incoming"]]
    assert PodCapacityOfNode().raw_scores(state, incoming, np.array([0])).tolist() == [case["expected_score"]]


def _pod_resources(amounts: dict[str, int]) -> PodSpec:
    def quantities(which: str) -> dict[str, str]:
        cpu, memory = amounts.get(f"{which}_cpu_milli", 0), amounts.get(f"{which}_memory_bytes", 0)
        return {"cpu": f"{cpu}m", "memory": str(memory)}

    resources = ResourceRequirements(requests=quantities("request"), limits=quantities("limit"))
    return PodSpec(containers=[Container(name="main", resources=resources)])


def _watcher(node_metrics: list[dict[str, Any]] | None) -> WatcherMetrics:
    nodes = {} if node_metrics is None else {"node": tuple(Metric(**item) for item in node_metrics)}
    return WatcherMetrics(nodes, 0.0, 0.0, 0.0, "test")


def _state(case: dict[str, Any], pods: dict[str, PodSpec]) -> tuple[ClusterState, dict[str, int]]:
    """A state of one node; ``there`` is bound to it. Also the class of every pod."""
    node = a_node(
        "node", cpu=f"{case['allocatable_cpu_milli']}m", memory=str(case["allocatable_memory_bytes"])
    )
    snapshot = a_snapshot(
        nodes=[node],
        pods=[a_pod(name, spec=spec, node="node" if name == "there" else "") for name, spec in pods.items()],
    )
    state = ClusterState.of(snapshot)
    return state, {name: state.pod_class[snapshot.pods.row["default", name]] for name in pods}


NODE = np.array([0])


@rows("case", VECTORS["load_variation_risk_balancing"])
def test_load_variation_risk_balancing_scores_as_the_go_code(case: dict[str, Any]) -> None:
    requests = {key.removeprefix("pod_"): case[key] for key in case if key.startswith("pod_request")}
    state, classes = _state(case, {"incoming": _pod_resources(requests)})
    arguments = LoadVariationRiskBalancingArguments(
        safe_variance_margin=case["safe_variance_margin"],
        safe_variance_sensitivity=case["safe_variance_sensitivity"],
    )
    plugin = LoadVariationRiskBalancing(arguments, _watcher(case["node_metrics"]))
    assert plugin.raw_scores(state, classes["incoming"], NODE).tolist() == [case["expected_score"]]


def _single(case: dict[str, Any], margin: float = 1.0, sensitivity: float = 1.0) -> Risk:
    capacity, average, deviation = (
        np.array([float(case[key])]) for key in ("capacity", "used_avg", "used_stdev")
    )
    return risk_of(np.ones(1, np.bool_), capacity, average, deviation, margin, sensitivity)


@rows("case", VECTORS["load_variation_compute_score"])
def test_the_variation_score_is_the_go_codes(case: dict[str, Any]) -> None:
    risk = _single(case, case["margin"], case["sensitivity"])
    assert round_half_away(risk.scores(float(case["req"]), NODE)).tolist() == [case["expected_score"]]


@rows("case", VECTORS["helpers"]["mu_sigma"])
def test_mean_and_deviation_are_shares_of_the_node(case: dict[str, Any]) -> None:
    risk = _single(case)
    assert risk.mu(float(case["req"]), NODE).tolist() == [case["expected_mu"]]
    assert risk.sigma.tolist() == [case["expected_sigma"]]


@rows("case", VECTORS["helpers"]["resource_stats"])
def test_figures_are_read_as_the_plugins_read_them(case: dict[str, Any]) -> None:
    found = statistics([Metric(**item) for item in case["node_metrics"]], case["resource"])
    if case["expected"] is None:
        assert found is None
        return
    assert found is not None
    unit = in_mebibytes if case["resource"] == "Memory" else float
    capacity = float(unit(case["allocatable"]))
    assert {
        "capacity": capacity,
        "req": float(unit(case["pod_request"])),
        "used_avg": found[0] * capacity / 100,
        "used_stdev": found[1] * capacity / 100,
    } == case["expected"]


@rows("case", VECTORS["helpers"]["pod_resources"])
def test_a_pod_counts_its_largest_phase_and_its_overhead(case: dict[str, Any]) -> None:
    which = "limits" if case["function"] == "GetResourceLimits" else "requests"

    def containers(items: list[dict[str, int]]) -> list[Container]:
        amounts = [{"cpu": f"{item['cpu_milli']}m", "memory": str(item["memory_bytes"])} for item in items]
        return [
            Container(
                resources=ResourceRequirements(limits=item)
                if which == "limits"
                else ResourceRequirements(requests=item)
            )
            for item in amounts
        ]

    spec = PodSpec(
        containers=containers(case["containers"]),
        init_containers=containers(case["init_containers"]),
        overhead={"cpu": f"{case['overhead_cpu_milli']}m"},
    )
    _, pod = pod_class_of(Pod(spec=spec))
    assert pod_amount(pod, which, "cpu") == case["expected"]["cpu_milli"]
    assert pod_amount(pod, which, "memory") == case["expected"]["memory_bytes"]


@rows("case", VECTORS["low_risk_overcommitment"])
def test_low_risk_over_commitment_scores_as_the_go_code(case: dict[str, Any]) -> None:
    specs = {"there": _pod_resources(case["existing_pods"]), "incoming": _pod_resources(case["pod"])}
    state, classes = _state(case, specs)
    arguments = LowRiskOverCommitmentArguments(
        smoothing_window_size=case["smoothing_window_size"], risk_limit_weights=case["risk_limit_weights"]
    )
    plugin = LowRiskOverCommitment(arguments, _watcher(case["node_metrics"]))
    assert plugin.raw_scores(state, classes["incoming"], NODE).tolist() == [case["expected_score"]]
    for kind, key in ((CPU_TYPE, "expected_risk_cpu"), (MEMORY_TYPE, "expected_risk_memory")):
        if key in case:
            risk = plugin.risks(state, classes["incoming"], kind)
            assert risk.tolist() == [pytest.approx(case[key], rel=0, abs=1e-9)]


@rows("case", VECTORS["low_risk_compute_risk"])
def test_the_risk_of_a_resource_is_the_go_codes(case: dict[str, Any]) -> None:
    kind = CPU_TYPE if case["resource"] == "cpu" else MEMORY_TYPE
    found = statistics([Metric(**item) for item in case["node_metrics"]], kind)
    assert found is not None
    measured = Measured.of(*found, float(case["capacity"]), case["smoothing_window_size"])
    within = probability_within(
        measured, case["node_request_minus_pod"], case["node_limit_minus_pod"], case["capacity"]
    )
    capacity, request, limit = (np.array([case[key]]) for key in ("capacity", "node_request", "node_limit"))
    risk = combined_risk(case["risk_limit_weight"], capacity, request, limit, np.array([1 - within]))
    assert risk.tolist() == [pytest.approx(case["expected_risk"], rel=0, abs=1e-9)]


def _moments(alpha: float, beta: float) -> tuple[float, float, float]:
    """The first three moments of the distribution."""
    first = alpha / (alpha + beta)
    second = first * (alpha + 1) / (alpha + beta + 1)
    return first, second, second * (alpha + 2) / (alpha + beta + 2)


def _density(x: float, alpha: float, beta: float) -> float:
    """The slope of the distribution."""
    step = 1e-5
    return (at_most(x + step, alpha, beta) - at_most(x - step, alpha, beta)) / (2 * step)


@rows("case", VECTORS["helpers"]["beta"])
def test_the_beta_distribution_is_the_go_codes(case: dict[str, Any]) -> None:
    expected = case.get("expected", case.get("expected_alpha_beta"))
    shape = (case.get("alpha", 0), case.get("beta", 0))
    found: Any
    match case["function"]:
        case "moments":
            found = _moments(*shape)
            assert match_moments(*found[:2]) == pytest.approx(shape)
        case "MatchMoments":
            found = match_moments(case["m1"], case["m2"])
        case "DistributionFunction":
            found = at_most(case["x"], *shape)
        case "DensityFunction":
            found = _density(case["x"], *shape)
        case _:
            found = largest_variance(case["m1"])
    assert found is None if expected is None else found == pytest.approx(expected, rel=0, abs=1e-9)


@rows("case", VECTORS["placements"])
def test_the_best_score_is_on_the_node_that_upstream_asserts(case: dict[str, Any]) -> None:
    # The scores themselves are shown above, case by case.
    groups = ("target_load_packing", "load_variation_risk_balancing", "low_risk_overcommitment")
    score = {item["id"]: item["expected_score"] for group in groups for item in VECTORS[group]}
    for pod, ids in case["cases"].items():
        best = max(ids, key=score.__getitem__)
        assert case["expected"][pod] == f"node-{ids.index(best) + 1}"


def test_every_group_of_the_vectors_is_shown() -> None:
    groups = {name for name, group in VECTORS.items() if isinstance(group, list)}
    assert groups == {
        "target_load_packing",
        "load_variation_risk_balancing",
        "load_variation_compute_score",
        "low_risk_overcommitment",
        "low_risk_compute_risk",
        "article_pod_capacity",
        "placements",
    }
    assert set(VECTORS["helpers"]) == {"mu_sigma", "resource_stats", "pod_resources", "beta"}
