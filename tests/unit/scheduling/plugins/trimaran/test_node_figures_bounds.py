"""No argument of a Trimaran plugin is so large that its arithmetic fails: it is refused, or scored with."""

from __future__ import annotations

import pytest

from rebalancer.cluster.records import Container, PodSpec, ResourceRequirements
from rebalancer.errors import InputError
from rebalancer.load.scheduler_view import (
    AVERAGE,
    CPU_TYPE,
    DEVIATION,
    MEMORY_TYPE,
    Metric,
    SchedulerView,
    WatcherMetrics,
)
from rebalancer.scheduling.framework.plugin import PluginInputs
from rebalancer.scheduling.registry import load_configuration, make_scheduler
from rebalancer.scheduling.state.cluster_state import ClusterState
from tests.builders import a_node, a_pod, a_snapshot
from tests.rows import rows

WATCHER = "http://load-watcher.loadwatcher:2020"
CONFIGURATION = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins: {{score: {{disabled: [{{name: "*"}}], enabled: [{{name: {plugin}}}]}}}}
  pluginConfig:
  - name: {plugin}
    args: {{watcherAddress: "http://load-watcher.loadwatcher:2020", {argument}: {value}}}
"""
LARGE = ("1e308", "-1e308", "5e-324", "9223372036854775807", "9223372036854775808")
VALUES = {
    ("TargetLoadPacking", "targetUtilization"): LARGE,
    ("TargetLoadPacking", "defaultRequestsMultiplier"): tuple(f'"{number}"' for number in LARGE),
    ("TargetLoadPacking", "defaultRequests"): ("{cpu: 9E}", '{cpu: "-9E"}', "{cpu: 1e12}"),
    ("LoadVariationRiskBalancing", "safeVarianceMargin"): LARGE,
    ("LoadVariationRiskBalancing", "safeVarianceSensitivity"): LARGE,
    ("LowRiskOverCommitment", "smoothingWindowSize"): LARGE,
    ("LowRiskOverCommitment", "riskLimitWeights"): tuple(f"{{cpu: {number}}}" for number in LARGE),
    ("Peaks", "NodePowerModel"): tuple(
        f"{{idle: {{k1: {k1}, k2: {k2}}}, busy: {{k1: 1, k2: 1}}}}" for k1 in LARGE for k2 in LARGE
    ),
}


def scores(plugin: str, argument: str, value: str) -> list[int]:
    """What a pod without requests and one with them get on an idle node and on a busy one."""
    text = CONFIGURATION.format(plugin=plugin, argument=argument, value=value)
    if plugin == "Peaks":
        text = text.replace("watcherAddress", "WatcherAddress")
    configuration = load_configuration(text, "test")
    resources = ResourceRequirements(requests={"cpu": "4", "memory": "1Gi"}, limits={"memory": "2Gi"})
    spec = PodSpec(containers=[Container(name="asks", resources=resources), Container(name="does-not")])
    requests = ResourceRequirements(requests={"cpu": "2"})
    asking = PodSpec(
        containers=[Container(name="a", resources=requests), Container(name="b"), Container(name="c")]
    )
    snapshot = a_snapshot(
        nodes=[a_node("idle"), a_node("busy")],
        pods=[a_pod("there", node="busy", spec=spec), a_pod("p", spec=asking)],
    )

    def figures(average: float) -> tuple[Metric, ...]:
        kinds = (CPU_TYPE, MEMORY_TYPE)
        return tuple(
            Metric(kind, operator, amount)
            for kind in kinds
            for operator, amount in ((AVERAGE, average), (DEVIATION, average / 3))
        )

    watcher = WatcherMetrics({"idle": figures(0.0), "busy": figures(55.0)}, 0.0, 0.0, 0.0, "test")
    inputs = PluginInputs.of(snapshot, SchedulerView({WATCHER: watcher}))
    scheduler = make_scheduler(configuration, configuration.profiles[0], inputs)
    state = ClusterState.of(snapshot)
    pod_class = state.pod_class[snapshot.pods.row["default", "p"]]
    placement = scheduler.place(state, pod_class)
    return [] if placement.rejected else placement.scores[plugin].tolist()


def scores_unless_refused(plugin: str, argument: str, value: str) -> list[int]:
    try:
        return scores(plugin, argument, value)
    except InputError:
        return []


@rows("plugin, argument", VALUES)
def test_an_argument_is_refused_or_scored_with_whatever_its_size(plugin: str, argument: str) -> None:
    for value in VALUES[plugin, argument]:
        found = scores_unless_refused(plugin, argument, value)
        assert all(0 <= score <= 100 for score in found), value


@rows(
    "plugin, argument, value, message",
    [
        ("TargetLoadPacking", "targetUtilization", "101", "less than or equal to 100"),
        ("TargetLoadPacking", "defaultRequestsMultiplier", '"1001"', "is more than 1000"),
        ("TargetLoadPacking", "defaultRequests", "{cpu: 9E}", "is more than any machine has"),
        ("LowRiskOverCommitment", "smoothingWindowSize", "1e308", "less than or equal to"),
    ],
)
def test_what_is_beyond_a_bound_is_refused_with_the_bound(
    plugin: str, argument: str, value: str, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        scores(plugin, argument, value)


def test_the_bounds_themselves_are_accepted() -> None:
    assert scores("TargetLoadPacking", "targetUtilization", "100")
    assert scores("TargetLoadPacking", "defaultRequestsMultiplier", '"1000"')
