from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings
from msgspec.structs import replace

from rebalancer.observe.plan_options import PlanOptions
from rebalancer.planning.inputs import PlanningInputs
from rebalancer.planning.planner import Planner
from rebalancer.policy.hotness import UtilizationRule
from rebalancer.policy.policy_file import parse_policy
from rebalancer.policy.schema import RebalancePolicy
from rebalancer.reporting.tables.nodes import mean_p95_max
from rebalancer.run.first_policy import FirstPolicy, first_policy, suggest_policy
from rebalancer.scheduling.versions.release import FeatureGates
from tests.builders import a_node, a_pod, owned_by
from tests.conftest import examples
from tests.unit.planning.builders import a_workload, planning_inputs, with_scheduler

NODES = (a_node("a", cpu=10), a_node("b", cpu=10), a_node("c", cpu=10))


def suggested(inputs: PlanningInputs) -> tuple[FirstPolicy, RebalancePolicy]:
    found = first_policy(inputs, measured=True)
    return found, parse_policy(found.text, "suggested").policy


def a_cluster(cpu: float, **more: Any) -> PlanningInputs:
    """A cluster whose first node uses so many percent, and the others a tenth."""
    load = {"a": cpu, "b": 10.0, "c": 10.0}
    return planning_inputs(NODES, [a_workload("web", ["a"] * 5)], load=load, **more)


def thresholds(policy: RebalancePolicy) -> tuple[float, float]:
    rule = policy.hot_nodes.any[0]
    assert isinstance(rule, UtilizationRule)
    return rule.utilization["cpu"], rule.cool_to["cpu"]


def test_a_node_above_the_usual_threshold_keeps_it() -> None:
    found, policy = suggested(a_cluster(90.0))

    assert thresholds(policy) == (80, 65)
    assert found.moves > 0
    assert "1 of 3 nodes are above 80 %, the usual threshold" in flat(found)


def test_the_percentile_is_the_one_that_the_summary_of_nodes_shows() -> None:
    found, _ = suggested(a_cluster(90.0))
    _, p95, _ = mean_p95_max([10.0, 10.0, 90.0])

    assert f"95th percentile {p95:.0f} %, highest 90 %" in flat(found)


def test_a_cluster_below_the_usual_threshold_gets_one_that_makes_its_busiest_node_hot() -> None:
    found, policy = suggested(a_cluster(62.0))

    assert thresholds(policy) == (60, 45)
    assert found.moves > 0
    assert "the usual 80 % would move nothing" in flat(found)


def test_a_cluster_that_is_balanced_keeps_the_usual_threshold_and_says_why_nothing_moves() -> None:
    inputs = planning_inputs(NODES, load={"a": 40.0, "b": 41.0, "c": 42.0})
    found, policy = suggested(inputs)

    assert (found.moves, thresholds(policy)) == (0, (80, 65))
    assert "now: no node is hot: c is at 42.0 % cpu, hot above 80.0 %" in flat(found)


def test_memory_alone_lowers_no_threshold_of_cpu() -> None:
    load = {"a": (35.0, 92.0), "b": (5.0, 5.0), "c": (5.0, 5.0)}
    found, policy = suggested(planning_inputs(NODES, [a_workload("web", ["a"] * 5, memory="1Gi")], load=load))

    assert found.moves > 0
    assert thresholds(policy)[0] == 80


def test_limits_follow_the_number_of_pods() -> None:
    few = suggested(a_cluster(90.0))[1].limits
    nodes = [a_node(f"n{number}", cpu=100, pods=200) for number in range(6)]
    many = [a_workload(f"w{number}", [f"n{number}"] * 100, cpu="10m") for number in range(6)]
    limits = suggested(planning_inputs(nodes, many))[1].limits

    assert (few.per_run, few.per_node, few.per_namespace) == (2, 2, 2)
    assert (limits.per_run, limits.per_node, limits.per_namespace) == (5, 2, 3)


def test_a_load_that_was_not_measured_is_that_of_requests_and_says_so() -> None:
    found = first_policy(a_cluster(90.0), measured=False)

    policy = parse_policy(found.text, "suggested").policy
    assert [next(iter(source.model_fields_set)) for source in policy.load.sources] == ["requests"]
    assert "Install metrics-server" in flat(found)


def test_another_descheduler_is_named_and_not_allowed() -> None:
    pod = a_pod("mover", namespace="tools", node="b")
    pod["spec"]["containers"][0]["image"] = "registry.k8s.io/descheduler/descheduler:v0.34.0"
    found, policy = suggested(a_cluster(90.0, pods=[pod]))

    assert "A run by this policy refuses to act: another descheduler runs (tools/mover)" in flat(found)
    assert policy.safety.other_deschedulers == "refuse"
    assert "descheduler" not in suggested(a_cluster(90.0))[0].text


def test_a_scheduler_that_the_configuration_lacks_and_a_prometheus_are_named() -> None:
    other = a_pod("x", node="b", owner=owned_by("ReplicaSet", "x"), schedulerName="other")
    services = [
        {"metadata": {"name": name, "namespace": "monitoring"}, "spec": {}}
        for name in ("prometheus-server", "prometheus-node-exporter", "prometheus-alertmanager")
    ]
    found, policy = suggested(a_cluster(90.0, pods=[other], services=services))

    assert "1 pod has schedulerName other, which no configuration has" in flat(found)
    assert '# - prometheus: {address: "http://prometheus-server.monitoring:9090"' in found.text
    assert found.text.count("# - prometheus") == 1
    assert policy.schedulers[0].profiles == ()


@pytest.mark.parametrize(
    ("names", "addresses"),
    [
        (
            {
                "stack-kube-prometheus-coredns": 9153,
                "stack-kube-prometheus-kubelet": 10250,
                "prometheus-kube-state-metrics": 8080,
                "stack-kube-prometheus-prometheus": 9090,
            },
            ["stack-kube-prometheus-prometheus.monitoring:9090"],
        ),
        (
            {"prometheus-server": 80, "prometheus-kube-state-metrics": 8080},
            ["prometheus-server.monitoring:80"],
        ),
        ({"prometheus-k8s": 9090, "grafana-for-prometheus-users": 80}, ["prometheus-k8s.monitoring:9090"]),
    ],
)
def test_only_a_service_that_may_be_a_prometheus_server_is_suggested_by_its_own_port(
    names: dict[str, int], addresses: list[str]
) -> None:
    services = [
        {"metadata": {"name": name, "namespace": "monitoring"}, "spec": {"ports": [{"port": port}]}}
        for name, port in names.items()
    ]
    found, _ = suggested(a_cluster(90.0, services=services))

    assert re.findall('address: "http://([^"]*)"', found.text) == addresses


def test_a_node_that_offers_no_cpu_yet_does_not_count() -> None:
    new = a_node("new", cpu=0)
    load = {"a": 90.0, "b": 10.0, "c": 10.0, "new": 10.0}
    found, policy = suggested(planning_inputs((*NODES, new), [a_workload("web", ["a"] * 5)], load=load))

    assert thresholds(policy) == (80, 65)
    assert "1 of 3 nodes are above 80 %" in flat(found)


def test_no_threshold_is_lowered_for_a_load_that_is_only_requested() -> None:
    inputs = a_cluster(70.0)

    assert thresholds(suggested(inputs)[1])[0] < 80
    found = first_policy(inputs, measured=False)
    assert thresholds(parse_policy(found.text, "suggested").policy) == (80, 65)
    assert found.moves == 0


def test_names_from_the_cluster_cannot_leave_their_comment() -> None:
    hostile = a_pod(
        "x",
        node="b",
        owner=owned_by("ReplicaSet", "x"),
        schedulerName="x\nlimits: {perRun: 9}\u001b[2J\u2028",
    )
    found, policy = suggested(a_cluster(90.0, pods=[hostile]))

    assert policy.limits.per_run == 2
    assert all(line.isprintable() for line in found.text.split("\n"))


def flat(found: FirstPolicy) -> str:
    """The text with its wrapped comments joined."""
    return " ".join(line.strip().removeprefix("# ") for line in found.text.splitlines())


@settings(max_examples=examples(25), deadline=None)
@given(st.lists(st.floats(0.0, 120.0), min_size=3, max_size=3), st.integers(0, 9))
def test_every_suggestion_is_valid_and_does_what_its_header_says(loads: list[float], pods: int) -> None:
    inputs = planning_inputs(
        NODES,
        [a_workload("web", [str(node) for node in "abc" for _ in range(pods)])],
        load=dict(zip("abc", loads, strict=True)),
    )

    found, policy = suggested(inputs)

    plan = Planner(replace(inputs, policy=policy)).plan()
    assert len(plan.moves) == found.moves
    assert max(map(len, found.text.splitlines())) <= 80


def test_where_no_threshold_moves_a_pod_it_says_what_keeps_them_and_what_frees_them() -> None:
    workloads = [a_workload(f"app{number}", ["a"], replicas=1) for number in range(5)]
    found, policy = suggested(planning_inputs(NODES, workloads, load={"a": 72.0, "b": 10.0, "c": 10.0}))

    assert (found.moves, thresholds(policy)) == (0, (80, 65))
    said = flat(found)
    assert "a lower threshold, such as 70 % cpu, would move nothing either: " in said
    assert "evictable.protect: SingleReplica keeps 100% of the movable load" in said
    assert "freed by spec.replicas: 2 of ReplicaSet/app" in said


def test_a_gate_that_could_not_be_seen_is_stated_as_it_is_by_default_and_its_pods_move() -> None:
    own = {"maxSkew": 3, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}
    spread = {"topologySpreadConstraints": [{**own, "matchLabelKeys": ["pod-template-hash"]}]}
    workload = a_workload("web", ["a"] * 5, spec=spread, labels={"pod-template-hash": "1"})
    inputs = planning_inputs(NODES, [workload], load={"a": 90.0, "b": 10.0, "c": 10.0})
    inputs = with_scheduler(inputs, version="1.35", feature_gates=FeatureGates({}, others_are_default=False))
    found, policy = suggested(inputs)

    assert policy.schedulers[0].feature_gates == {"MatchLabelKeysInPodTopologySpread": True}
    assert "5 pods stay unless it is known that MatchLabelKeysInPodTopologySpread is on" in flat(found)
    assert found.moves > 0


def test_a_gate_that_was_seen_is_not_stated() -> None:
    found, policy = suggested(a_cluster(90.0))
    assert policy.schedulers[0].feature_gates == {}
    assert "featureGates" not in found.text


ROOT = Path(__file__).parents[3]
RECORDING = Path("examples/hot-cluster")


def comments(path: Path) -> str:
    """What a suggestion for a recording says beside its settings, on one line."""
    lines = suggest_policy(PlanOptions(source=path)).text.splitlines()
    return " ".join(line.partition("#")[2].strip() for line in lines)


def test_a_configuration_that_was_recorded_is_named_with_what_a_policy_for_the_cluster_needs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(ROOT)
    said = comments(RECORDING)
    assert "No configuration was found" not in said
    assert f"Its configuration was found in {RECORDING / 'scheduler-config.yaml'}" in said
    assert "name its ConfigMap in configMap, or copy it beside this policy and name it: file: " in said
    assert "a run refuses to act: state it in version. Pods by schedulerName: trimaran 18." in said


def test_of_a_recording_without_a_configuration_it_says_that_none_was_found(tmp_path: Path) -> None:
    recording = tmp_path / "recording"
    shutil.copytree(ROOT / RECORDING, recording)
    (recording / "scheduler-config.yaml").unlink()
    said = comments(recording)
    assert "a run refuses to act: state it in version. No configuration was found" in " ".join(said.split())
