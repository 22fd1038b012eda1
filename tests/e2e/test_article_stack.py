"""Stacks that people run, whole: metrics-server, load-watcher, a second scheduler, our CronJob's command."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import SUMMARY
from tests.e2e import metrics
from tests.e2e.api import Object
from tests.e2e.article_stacks import (
    apply_manifests,
    fate,
    keep_configuration,
    leave_schedulable,
    nodes_by_name,
    nodes_by_uid,
    placed_by,
    planned_nodes,
    rebalancer,
    run_cron_job,
    shipped_policy,
)
from tests.e2e.clusters import deployment, namespace, node
from tests.e2e.controlplane import CONFIGURATION_VERSION, ControlPlane
from tests.e2e.loads import CPU_MILLI
from tests.e2e.processes import wait_until

PINNED = "kubernetes.io/hostname"

RecordProperty = Callable[[str, object], None]


@pytest.fixture
def stack(tmp_path: Path, control_plane: ControlPlane) -> ControlPlane:
    """A cluster with its default scheduler, an aggregated metrics API to be, and our manifests applied."""
    control_plane.start(kwok=False, api_server_flags=metrics.front_proxy_flags(tmp_path))
    control_plane.start_kwok(metrics.USAGE)
    apply_manifests(control_plane)
    control_plane.api.create(namespace("scheduler-plugins"))
    return control_plane


def test_a_hot_node_is_cooled_through_trimaran_and_load_watcher(
    stack: ControlPlane, tmp_path: Path, record_property: RecordProperty
) -> None:
    api = stack.api
    for name in ("hot", "warm", "cool"):
        api.create(metrics.scraped(node(name, cpu="16", memory="64Gi")))
    # The default scheduler's own pods: half of one node, a tenth of another.
    api.create(_pinned("warm-load", 5, "warm", uses=1600))
    api.create(_pinned("cool-load", 1, "cool", uses=1600))
    api.create(_pinned("agent", 1, "hot", uses=10))
    stack.wait_for_pods()
    metrics.start_metrics_server(stack)
    wait_until(lambda: len(metrics.measured_cores(api)) == 3, "metrics-server measures 3 nodes")
    address = metrics.start_load_watcher(stack)
    configuration = _trimaran(address)
    keep_configuration(api, configuration)
    api.create(_scheduler_deployment("warm"))
    stack.wait_for_pods()

    # While there was but one node to take them, it took them all.
    leave_schedulable(api, "hot")
    stack.start_scheduler(configuration, "trimaran-scheduler")
    for number in range(6):
        uses = {CPU_MILLI: "1100"}
        api.create(deployment(f"web-{number}", 2, cpu="700m", scheduler="trimaran", annotations=uses))
    wait_until(lambda: len(nodes_by_uid(api, "trimaran")) == 12, "12 pods made")
    stack.wait_for_pods()
    leave_schedulable(api, "hot", "warm", "cool")
    before = nodes_by_uid(api, "trimaran")
    assert Counter(before.values()) == {"hot": 12}
    wait_until(
        lambda: metrics.watched_cpu(address).get("hot", 0.0) > 80.0, "load-watcher sees it", seconds=180.0
    )
    seen_before = metrics.watched_cpu(address)

    # Read from metrics-server itself, the same node is hot, by the same figures.
    policy = _k3s_policy(address)
    policy["load"]["sources"] = [{"metricsServer": {}}]
    planned = rebalancer(stack, tmp_path, policy, "plan").document["nodes"]
    assert {item["name"]: item["load"]["cpu"] for item in planned} == {
        name: pytest.approx(percent, abs=1.0) for name, percent in seen_before.items()
    }
    assert [item["name"] for item in planned if item["hot"]] == ["hot"]

    _nothing_moves_after_a_restart(stack, tmp_path, _k3s_policy(address), configuration, set(before))

    others = nodes_by_uid(api, "default-scheduler")
    first = run_cron_job(stack, tmp_path, _k3s_policy(address))
    second = run_cron_job(stack, tmp_path, _k3s_policy(address))

    # The shipped policy wants a node to be hot in two runs; then as many pods leave as a node may lose.
    assert (first.exit_code, first.document["outcomes"]) == (0, []), first.stderr
    assert second.exit_code == 0, second.stderr
    outcomes = second.document["outcomes"]
    assert [fate(outcome) for outcome in outcomes] == [("hot", "Landed", "cool")] * 3
    assert [planned_nodes(outcome) for outcome in outcomes] == [{"cool"}] * 3  # and nowhere else
    after = nodes_by_uid(api, "trimaran")
    assert Counter(after.values()) == {"hot": 9, "cool": 3}
    assert set(before) - set(after) == {outcome["move"]["pod"]["uid"] for outcome in outcomes}
    assert placed_by(api, set(after) - set(before)) == {"trimaran"}
    assert nodes_by_uid(api, "default-scheduler") == others
    wait_until(
        lambda: metrics.watched_cpu(address)["hot"] < 65.0, "load-watcher sees it cooled", seconds=180.0
    )
    seen_after = metrics.watched_cpu(address)
    assert max(seen_after.values()) < 65.0
    third = run_cron_job(stack, tmp_path, _k3s_policy(address))
    assert (third.exit_code, third.document["outcomes"]) == (0, []), third.stderr
    stack.programs["load-watcher"].kill()  # which does not end when asked to
    record_property(
        SUMMARY,
        "e2e article's stack: TargetLoadPacking over load-watcher over metrics-server: 3 pods moved,"
        " 3 of 3 placed by trimaran as planned,"
        " after none while it had just been restarted;"
        f" load-watcher saw {_percents(seen_before)}, then {_percents(seen_after)}",
    )


def test_a_pod_lands_where_pod_capacity_of_node_says_and_a_full_node_is_relieved(
    stack: ControlPlane, tmp_path: Path, record_property: RecordProperty
) -> None:
    api = stack.api
    running = {"node1": 21, "node2": 17, "node3": 25}
    for name, count in running.items():
        api.create(node(name, cpu="32", memory="128Gi", pods="110"))
        api.create(_pinned(f"on-{name}", count, name))
    wait_until(
        lambda: Counter(nodes_by_uid(api, "default-scheduler").values()) == running, "21, 17 and 25 pods"
    )
    stack.wait_for_pods()
    keep_configuration(api, _POD_CAPACITY)
    policy = shipped_policy("pods-per-node")
    policy["safety"]["unknownScheduler"] = "proceed"  # this one runs outside the cluster

    # Asked before that scheduler lives, so that nothing but the model can know.
    api.create(deployment("busybox", 1, scheduler=_SECOND))
    wait_until(lambda: len(nodes_by_uid(api, _SECOND)) == 1, "its pod is made")
    ((pod, _),) = nodes_by_name(api, _SECOND).items()
    explained = rebalancer(stack, tmp_path, policy, "explain", f"pod/default/{pod}").document
    rows = {row["node"]: row for row in explained["table"]["nodes"]}
    assert {name: row["scores"]["PodCapacityOfNode"] for name, row in rows.items()} == _SCORES
    assert [(item["node"], item["probability"]) for item in explained["landings"]] == [("node2", 1.0)]

    stack.start_scheduler(_POD_CAPACITY, _SECOND, "--v=10")
    stack.wait_for_pods()

    assert nodes_by_name(api, _SECOND) == {pod: "node2"}
    assert _scored(stack.programs[_SECOND].log.read_text(errors="replace"), pod) == _SCORES

    # A node fills while it is the only one; then the others are there again. Each time a new scheduler
    # starts, which is sure to know.
    stack.stop_part(_SECOND)
    leave_schedulable(api, "node3")
    stack.start_scheduler(_POD_CAPACITY, _SECOND)
    for number in range(10):
        api.create(deployment(f"web-{number}", 4, scheduler=_SECOND))
    wait_until(lambda: len(nodes_by_uid(api, _SECOND)) == 41, "40 more pods made")
    stack.wait_for_pods()
    stack.stop_part(_SECOND)
    leave_schedulable(api, *running)
    stack.start_scheduler(_POD_CAPACITY, _SECOND)
    before = nodes_by_uid(api, _SECOND)
    assert Counter(before.values()) == {"node3": 40, "node2": 1}

    run = run_cron_job(stack, tmp_path, policy)

    assert run.exit_code == 0, run.stderr
    outcomes = run.document["outcomes"]
    assert len(outcomes) == policy["limits"]["perNode"]
    assert {fate(outcome)[:2] for outcome in outcomes} == {("node3", "Landed")}
    assert all(outcome["node"] in planned_nodes(outcome) for outcome in outcomes)
    after = nodes_by_uid(api, _SECOND)
    assert Counter(after.values())["node3"] == 40 - len(outcomes)
    assert set(before) - set(after) == {outcome["move"]["pod"]["uid"] for outcome in outcomes}
    assert placed_by(api, set(after) - set(before)) == {_SECOND}
    landed = Counter(outcome["node"] for outcome in outcomes)
    record_property(
        SUMMARY,
        "e2e article's stack: PodCapacityOfNode scores 80, 84, 77 for 21, 17, 25 pods in model and scheduler;"
        f" a full node relieved of {len(outcomes)} pods, landed as planned on {dict(sorted(landed.items()))}",
    )


_SECOND = "scheduler-plugins-scheduler"
_SCORES = {"node1": 80, "node2": 84, "node3": 77}
# As the article's ConfigMap has it, in the version that the scheduler here reads.
_POD_CAPACITY = f"""\
apiVersion: kubescheduler.config.k8s.io/{CONFIGURATION_VERSION}
kind: KubeSchedulerConfiguration
leaderElection:
  leaderElect: false
profiles:
- schedulerName: {_SECOND}
  plugins:
    score:
      enabled:
      - name: PodCapacityOfNode
"""


def _trimaran(address: str) -> str:
    """What the chart of scheduler-plugins makes of the article's values, in the version read here."""
    return f"""\
apiVersion: kubescheduler.config.k8s.io/{CONFIGURATION_VERSION}
kind: KubeSchedulerConfiguration
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
        watcherAddress: {address}
      name: TargetLoadPacking
"""


def _k3s_policy(address: str) -> Object:
    """The shipped policy for this stack, on this version, for pods that are not yet 15 minutes old.

    Runs follow each other at once here: by the policy as shipped, two within minutes count as one. Three pods
    have to leave for the node to be cool.
    """
    policy = shipped_policy("k3s-trimaran")
    policy["limits"] = {"perRun": 3, "perNode": 3, "perNamespace": 3}
    policy["hotNodes"]["runInterval"] = "1s"
    policy["load"]["sources"][0]["loadWatcher"]["address"] = address
    return policy


def _scheduler_deployment(on: str) -> Object:
    """The Deployment of the chart; without leader election, its pod shows that the scheduler is alive."""
    volume = {"name": "scheduler-config", "configMap": {"name": "scheduler-config"}}
    return deployment(
        "scheduler-plugins-scheduler",
        1,
        namespace="scheduler-plugins",
        image="registry.k8s.io/scheduler-plugins/kube-scheduler:v0.31.8",
        cpu="50m",
        memory="32Mi",
        annotations={CPU_MILLI: "10"},
        pod={"nodeSelector": {PINNED: on}, "volumes": [volume]},
    )


def _nothing_moves_after_a_restart(
    stack: ControlPlane, folder: Path, policy: Object, configuration: str, pods: set[str]
) -> None:
    """A scheduler that has just started takes every pod to be just bound: a plan waits until it does not."""
    stack.stop_part("trimaran-scheduler")
    stack.start_scheduler(configuration, "trimaran-scheduler")
    _restart_pods(stack, "scheduler-plugins")
    early = rebalancer(stack, folder, policy, "plan").document
    assert (early["hotCount"], early["moves"]) == (1, [])
    held = {item["reason"]: item["because"] for item in early["kept"] if item["pod"]["uid"] in pods}
    assert list(held) == ["Unpredictable"]
    assert "just bound" in held["Unpredictable"], held
    wait_until(
        lambda: rebalancer(stack, folder, policy, "plan").document["moves"],
        "the window of the figures has passed the restart",
        seconds=300.0,
        every=5.0,
    )


def _restart_pods(stack: ControlPlane, namespace: str) -> None:
    """Delete the pods there, and wait until those made in their place are ready."""
    where = f"/api/v1/namespaces/{namespace}/pods"
    old = {item["metadata"]["name"] for item in stack.api.list(where)}
    for name in old:
        stack.api.delete(f"{where}/{name}", gracePeriodSeconds=0)
    wait_until(
        lambda: old.isdisjoint(item["metadata"]["name"] for item in stack.api.list(where)), "pods gone"
    )
    stack.wait_for_pods()


def _pinned(name: str, replicas: int, to: str, *, uses: int = 1) -> Object:
    """A Deployment of the default scheduler whose pods run on one node."""
    return deployment(
        name,
        replicas,
        cpu="50m",
        memory="32Mi",
        annotations={CPU_MILLI: str(uses)},
        pod={"nodeSelector": {PINNED: to}},
    )


def _scored(log: str, pod: str) -> dict[str, int]:
    """What PodCapacityOfNode scored for this pod, as the scheduler logged it or the article's plugin does."""
    lines = (
        rf'scored node for pod" pod="default/{pod}" plugin="PodCapacityOfNode" node="(.+)" score=(\d+)',
        rf"pod {pod} node (\S+) score is (\d+)",
    )
    return {node: int(score) for line in lines for node, score in re.findall(line, log)}


def _percents(loads: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value:.0f} %" for name, value in sorted(loads.items()))
