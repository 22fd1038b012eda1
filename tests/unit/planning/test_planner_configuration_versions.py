"""Configurations of each version place pods: those with which schedulers of that time are set up.

A version enables its default plugins at other extension points than the next. What is enabled there has to
fit the rules by which pods are placed, whichever version of the scheduler these are of.
"""

from __future__ import annotations

import pytest

from rebalancer.load.scheduler_view import AVERAGE, CPU_TYPE, Metric, SchedulerView, WatcherMetrics
from rebalancer.planning.plan import Plan
from rebalancer.planning.scheduler_facts import mirrored_plugins
from rebalancer.profiles.types import DEFAULTS, ExtensionPoint
from rebalancer.scheduling.plugins.network_traffic import NetworkTrafficArguments, published_query
from rebalancer.scheduling.registry import MODELLED, load_configuration
from tests.builders import a_node
from tests.conftest import some_of
from tests.rows import rows
from tests.unit.planning.builders import (
    NOW,
    a_policy,
    a_workload,
    kept,
    moved,
    plan_of,
    planning_inputs,
    with_scheduler,
)

# The oldest and the newest scheduler that reads a version; and the one whose rules hold where none is known.
RELEASES = {
    "v1beta1": ("1.19", "1.20", "1.21", "1.22", "1.35"),
    "v1beta2": ("1.22", "1.27", "1.35"),
    "v1beta3": ("1.23", "1.26", "1.28", "1.35"),
    "v1": ("1.25", "1.26", "1.35", "1.37"),
}

BARE = """
clientConnection:
  kubeconfig: /etc/srv/kubernetes/kube-scheduler/kubeconfig
"""
POD_CAPACITY_BESIDE_THE_DEFAULT = """
leaderElection:
  leaderElect: false
profiles:
- schedulerName: scheduler-plugins-scheduler
  plugins:
    score:
      enabled:
      - name: PodCapacityOfNode
"""
POD_CAPACITY_AS_DEFAULT = """
leaderElection:
  leaderElect: true
clientConnection:
  kubeconfig: /etc/kubernetes/scheduler.conf
profiles:
- schedulerName: default-scheduler
  plugins:
    score:
      enabled:
      - name: PodCapacityOfNode
"""
NETWORK_TRAFFIC_ALONE = """
clientConnection:
  kubeconfig: /mnt/d/src/go_work/customScheduler/scheduler.conf
profiles:
- schedulerName: custom-scheduler
  plugins:
    score:
      enabled:
      - name: "NetworkTraffic"
      disabled:
      - name: "*"
  pluginConfig:
    - name: "NetworkTraffic"
      args:
        ip: "http://10.0.0.4:9090"
        deviceName: "eth0"
        timeRange: 60
"""
CUSTOM_PLUGINS = """
profiles:
  - plugins:
      score:
        disabled:
        - name: PodTopologySpread
        enabled:
        - name: MyCustomPluginA
          weight: 2
        - name: MyCustomPluginB
          weight: 1
"""
NO_SCORING = """
profiles:
  - schedulerName: default-scheduler
    plugins:
      preScore:
        disabled:
        - name: '*'
      score:
        disabled:
        - name: '*'
  - schedulerName: no-scoring-scheduler
    plugins:
      preScore:
        disabled:
        - name: '*'
      score:
        disabled:
        - name: '*'
"""
# The chart writes MultiPoint, which versions before v1beta3 do not have.
TRIMARAN_BY_MULTI_POINT = """
leaderElection:
  leaderElect: false
profiles:
# Compose all plugins in one profile
- schedulerName: trimaran
  plugins:
    multiPoint:
      enabled:
      - name: TargetLoadPacking
      disabled:
      - name: NodeResourcesBalancedAllocation
      - name: NodeResourcesLeastAllocated
  pluginConfig:
  - args:
      watcherAddress: http://load-watcher.loadwatcher.svc.cluster.local:2020
    name: TargetLoadPacking
"""
TRIMARAN_BY_POINT = TRIMARAN_BY_MULTI_POINT.replace("multiPoint:", "score:")

MIRRORED = ("MyCustomPluginA", "MyCustomPluginB")
PROMETHEUS = "http://prometheus.monitoring:9090"
MIRRORS = {
    "mirror": [
        {"plugin": name, "prometheusScore": {"address": PROMETHEUS, "query": name}} for name in MIRRORED
    ]
}

ARTICLES = {
    "bare": (BARE, "default-scheduler"),
    "PodCapacityOfNode beside the default": (POD_CAPACITY_BESIDE_THE_DEFAULT, "scheduler-plugins-scheduler"),
    "PodCapacityOfNode as default": (POD_CAPACITY_AS_DEFAULT, "default-scheduler"),
    "NetworkTraffic alone": (NETWORK_TRAFFIC_ALONE, "custom-scheduler"),
    "custom plugins mirrored": (CUSTOM_PLUGINS, "default-scheduler"),
    "Trimaran": (TRIMARAN_BY_POINT, "trimaran"),
    "Trimaran as its chart renders it": (TRIMARAN_BY_MULTI_POINT, "trimaran"),
}
CASES = [
    (version, text, scheduler_name, minor)
    for version in DEFAULTS
    for minor in RELEASES[version]
    for text, scheduler_name in ARTICLES.values()
    if "multiPoint" not in text or DEFAULTS[version].has_multi_point
]


def _view() -> SchedulerView:
    """Figures by which a is the busiest node, for each plugin that asks for some."""
    percent = {"a": 90.0, "b": 20.0, "c": 30.0}
    watched = WatcherMetrics(
        {node: (Metric(CPU_TYPE, AVERAGE, value),) for node, value in percent.items()},
        timestamp=NOW,
        window_start=NOW - 900,
        window_end=NOW,
        source="test",
    )
    traffic = NetworkTrafficArguments.model_validate(
        {"ip": "http://10.0.0.4:9090", "deviceName": "eth0", "timeRange": 60}
    )
    queries = {(PROMETHEUS, name): percent for name in MIRRORED}
    queries["http://10.0.0.4:9090", published_query(traffic)] = percent
    return SchedulerView({"http://load-watcher.loadwatcher.svc.cluster.local:2020": watched}, queries=queries)


def planned(version: str, text: str, scheduler_name: str, minor: str) -> Plan:
    """A hot node with six pods of a scheduler, and two free ones."""
    policy = a_policy(scheduler=MIRRORS)
    head = f"apiVersion: kubescheduler.config.k8s.io/{version}\nkind: KubeSchedulerConfiguration"
    configuration = load_configuration(
        head + text, "scheduler.yaml", extra_plugins=mirrored_plugins(policy.schedulers[0])
    )
    workloads = [
        a_workload(f"web{number}", ["a"], cpu="1500m", spec={"schedulerName": scheduler_name})
        for number in range(6)
    ]
    inputs = planning_inputs(
        [a_node(name, cpu=10, pods=110) for name in "abc"],
        workloads,
        policy=policy,
        configuration=configuration,
        view=_view(),
    )
    return plan_of(with_scheduler(inputs, version=minor))


@pytest.mark.many_cases
@rows("version, text, scheduler_name, minor", some_of(CASES))
def test_a_configuration_moves_pods_off_a_hot_node(
    version: str, text: str, scheduler_name: str, minor: str
) -> None:
    plan = planned(version, text, scheduler_name, minor)
    assert moved(plan), kept(plan)
    assert "a" not in moved(plan).values()


@rows("version", DEFAULTS)
def test_without_scores_any_node_may_be_the_landing(version: str) -> None:
    plan = planned(version, NO_SCORING, "no-scoring-scheduler", RELEASES[version][0])
    assert set(kept(plan).values()) == {"NoBetterLanding"}


@rows("version", DEFAULTS)
def test_what_a_version_enables_as_filter_or_score_is_prepared_there(version: str) -> None:
    """Whatever rules judge it: those of a scheduler that reads the version, or the newest."""
    text = f"apiVersion: kubescheduler.config.k8s.io/{version}\nkind: KubeSchedulerConfiguration"
    (profile,) = load_configuration(text, "scheduler.yaml").profiles
    unprepared = [
        f"{name} without {before}"
        for point, before, attribute in (
            (ExtensionPoint.FILTER, ExtensionPoint.PRE_FILTER, "needs_pre_filter"),
            (ExtensionPoint.SCORE, ExtensionPoint.PRE_SCORE, "needs_pre_score"),
        )
        for name in profile.enabled(point)
        if name in MODELLED and getattr(MODELLED[name], attribute) and name not in profile.enabled(before)
    ]
    assert unprepared == []


@pytest.mark.parametrize(("minor", "reasons"), [("1.26", set()), ("1.27", {"NoLanding"})])
def test_the_filter_of_volume_restrictions_needs_its_pre_filter_since_1_27(
    minor: str, reasons: set[str]
) -> None:
    """Before, it read nothing that the other prepared."""
    text = "\nprofiles: [{plugins: {preFilter: {disabled: [{name: VolumeRestrictions}]}}}]\n"
    plan = planned("v1", text, "default-scheduler", minor)
    assert {reason for reason in kept(plan).values() if reason == "NoLanding"} == reasons
