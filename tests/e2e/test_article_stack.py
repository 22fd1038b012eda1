"""Stacks that people run, whole: metrics-server, load-watcher, a second scheduler, our CronJob's command."""

from __future__ import annotations

import os
import re
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import SUMMARY
from tests.e2e import metrics
from tests.e2e.api import Api, Object, documents
from tests.e2e.clusters import deployment, namespace, node
from tests.e2e.command import COMMAND, Finished
from tests.e2e.controlplane import ControlPlane
from tests.e2e.loads import CPU_MILLI
from tests.e2e.processes import wait_until

ROOT = Path(__file__).parents[2]
PINNED = "kubernetes.io/hostname"

RecordProperty = Callable[[str, object], None]


@pytest.fixture
def stack(tmp_path: Path, control_plane: ControlPlane) -> ControlPlane:
    """A cluster with its default scheduler, an aggregated metrics API to be, and our manifests applied."""
    control_plane.start(kwok=False, api_server_flags=metrics.front_proxy_flags(tmp_path))
    control_plane.start_kwok(metrics.USAGE)
    control_plane.kubectl("apply", "--server-side", f"--kustomize={ROOT / 'k8s/overlays/active'}")
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
    _keep(api, configuration)
    api.create(_scheduler_deployment("warm"))
    stack.wait_for_pods()

    # While there was but one node to take them, it took them all.
    _only_schedulable(api, "hot")
    stack.start_scheduler(configuration, "trimaran-scheduler")
    for number in range(6):
        uses = {CPU_MILLI: "1100"}
        api.create(deployment(f"web-{number}", 2, cpu="700m", scheduler="trimaran", annotations=uses))
    wait_until(lambda: len(_pods(api, "trimaran")) == 12, "12 pods made")
    stack.wait_for_pods()
    _only_schedulable(api, "hot", "warm", "cool")
    before = _pods(api, "trimaran")
    assert Counter(before.values()) == {"hot": 12}
    wait_until(
        lambda: metrics.watched_cpu(address).get("hot", 0.0) > 80.0, "load-watcher sees it", seconds=180.0
    )
    seen_before = metrics.watched_cpu(address)

    # Read from metrics-server itself, the same node is hot, by the same figures.
    policy = _k3s_policy(address)
    policy["load"]["sources"] = [{"metricsServer": {}}]
    planned = _rebalancer(stack, tmp_path, policy, "plan").document["nodes"]
    assert {item["name"]: item["load"]["cpu"] for item in planned} == {
        name: pytest.approx(percent, abs=1.0) for name, percent in seen_before.items()
    }
    assert [item["name"] for item in planned if item["hot"]] == ["hot"]

    _nothing_moves_after_a_restart(stack, tmp_path, _k3s_policy(address), configuration, set(before))

    others = _pods(api, "default-scheduler")
    first = _cron_job(stack, tmp_path, _k3s_policy(address))
    second = _cron_job(stack, tmp_path, _k3s_policy(address))

    # The shipped policy wants a node to be hot in two runs; then as many pods leave as a node may lose.
    assert (first.exit_code, first.document["outcomes"]) == (0, []), first.stderr
    assert second.exit_code == 0, second.stderr
    outcomes = second.document["outcomes"]
    assert [_fate(outcome) for outcome in outcomes] == [("hot", "Landed", "cool")] * 3
    assert [_planned(outcome) for outcome in outcomes] == [{"cool"}] * 3  # and nowhere else
    after = _pods(api, "trimaran")
    assert Counter(after.values()) == {"hot": 9, "cool": 3}
    assert set(before) - set(after) == {outcome["move"]["pod"]["uid"] for outcome in outcomes}
    assert _placed_by(api, set(after) - set(before)) == {"trimaran"}
    assert _pods(api, "default-scheduler") == others
    wait_until(
        lambda: metrics.watched_cpu(address)["hot"] < 65.0, "load-watcher sees it cooled", seconds=180.0
    )
    seen_after = metrics.watched_cpu(address)
    assert max(seen_after.values()) < 65.0
    third = _cron_job(stack, tmp_path, _k3s_policy(address))
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
    wait_until(lambda: Counter(_pods(api, "default-scheduler").values()) == running, "21, 17 and 25 pods")
    stack.wait_for_pods()
    _keep(api, _POD_CAPACITY)
    policy = _shipped("pods-per-node")
    policy["safety"]["unknownScheduler"] = "proceed"  # this one runs outside the cluster

    # Asked before that scheduler lives, so that nothing but the model can know.
    api.create(deployment("busybox", 1, scheduler=_SECOND))
    wait_until(lambda: len(_pods(api, _SECOND)) == 1, "its pod is made")
    ((pod, _),) = _named(api, _SECOND).items()
    explained = _rebalancer(stack, tmp_path, policy, "explain", f"pod/default/{pod}").document
    rows = {row["node"]: row for row in explained["table"]["nodes"]}
    assert {name: row["scores"]["PodCapacityOfNode"] for name, row in rows.items()} == _SCORES
    assert [(item["node"], item["probability"]) for item in explained["landings"]] == [("node2", 1.0)]

    stack.start_scheduler(_POD_CAPACITY, _SECOND, "--v=10")
    stack.wait_for_pods()

    assert _named(api, _SECOND) == {pod: "node2"}
    assert _scored(stack.programs[_SECOND].log, pod) == _SCORES

    # A node fills while it is the only one; then the others are there again. Each time a new scheduler
    # starts, which is sure to know.
    stack.stop_part(_SECOND)
    _only_schedulable(api, "node3")
    stack.start_scheduler(_POD_CAPACITY, _SECOND)
    for number in range(10):
        api.create(deployment(f"web-{number}", 4, scheduler=_SECOND))
    wait_until(lambda: len(_pods(api, _SECOND)) == 41, "40 more pods made")
    stack.wait_for_pods()
    stack.stop_part(_SECOND)
    _only_schedulable(api, *running)
    stack.start_scheduler(_POD_CAPACITY, _SECOND)
    before = _pods(api, _SECOND)
    assert Counter(before.values()) == {"node3": 40, "node2": 1}

    run = _cron_job(stack, tmp_path, policy)

    assert run.exit_code == 0, run.stderr
    outcomes = run.document["outcomes"]
    assert len(outcomes) == policy["limits"]["perNode"]
    assert {_fate(outcome)[:2] for outcome in outcomes} == {("node3", "Landed")}
    assert all(outcome["node"] in _planned(outcome) for outcome in outcomes)
    after = _pods(api, _SECOND)
    assert Counter(after.values())["node3"] == 40 - len(outcomes)
    assert set(before) - set(after) == {outcome["move"]["pod"]["uid"] for outcome in outcomes}
    assert _placed_by(api, set(after) - set(before)) == {_SECOND}
    landed = Counter(outcome["node"] for outcome in outcomes)
    record_property(
        SUMMARY,
        "e2e article's stack: PodCapacityOfNode scores 80, 84, 77 for 21, 17, 25 pods in model and scheduler;"
        f" a full node relieved of {len(outcomes)} pods, landed as planned on {dict(sorted(landed.items()))}",
    )


_SECOND = "scheduler-plugins-scheduler"
_SCORES = {"node1": 80, "node2": 84, "node3": 77}
_POD_CAPACITY = f"""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {{leaderElect: false}}
profiles:
  - schedulerName: {_SECOND}
    plugins: {{score: {{enabled: [{{name: PodCapacityOfNode}}]}}}}
"""


def _trimaran(address: str) -> str:
    """What the chart of scheduler-plugins makes of the article's values, in this version of the format."""
    return f"""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {{leaderElect: false}}
profiles:
  - schedulerName: trimaran
    plugins:
      multiPoint:
        enabled: [{{name: TargetLoadPacking}}]
        disabled: [{{name: NodeResourcesBalancedAllocation}}, {{name: NodeResourcesLeastAllocated}}]
    pluginConfig:
      - name: TargetLoadPacking
        args: {{watcherAddress: "{address}"}}
"""


def _k3s_policy(address: str) -> Object:
    """The shipped policy for this stack, on this version, for pods that are not yet 15 minutes old.

    Runs follow each other at once here: by the policy as shipped, two within minutes count as one.
    """
    policy = _shipped("k3s-trimaran")
    policy["hotNodes"]["runInterval"] = "1s"
    policy["load"]["sources"][0]["loadWatcher"]["address"] = address
    return policy


def _shipped(name: str) -> Object:
    policy: Object = yaml.safe_load((ROOT / "policies" / f"{name}.yaml").read_text())
    policy["scheduler"] |= {"version": "1.34", "allowUnverifiedVersion": True}
    policy["evictable"]["minAge"] = "0s"
    return policy


def _cron_job(stack: ControlPlane, folder: Path, policy: Object) -> Finished:
    """What the pod of the CronJob does, with this policy, and as its service account."""
    manifests = documents(stack.kubectl("kustomize", str(ROOT / "k8s/overlays/active")).stdout)
    (cron_job,) = (item for item in manifests if item["kind"] == "CronJob")
    (container,) = cron_job["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    return _rebalancer(stack, folder, policy, *container["args"])


def _rebalancer(stack: ControlPlane, folder: Path, policy: Object, *arguments: str) -> Finished:
    path = folder / "policy.yaml"
    path.write_text(yaml.safe_dump(policy))
    token = stack.service_account_token("rebalancer", "rebalancer")
    command = [
        *COMMAND,
        *(argument for argument in arguments if not argument.startswith("--policy=")),
        f"--policy={path}",
        f"--kubeconfig={stack.kubeconfig(token)}",
        "--output=json",
    ]
    ended = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, "POD_NAMESPACE": "rebalancer", "POD_NAME": "rebalancer-1"},
    )
    assert ended.stdout, ended.stderr
    return Finished(ended.returncode, ended.stdout, ended.stderr, [])


def _keep(api: Api, configuration: str) -> None:
    """Keep a scheduler's configuration where its chart does, and where the policies look for it."""
    metadata = {"namespace": "scheduler-plugins", "name": "scheduler-config"}
    data = {"scheduler-config.yaml": configuration}
    api.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})


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
    early = _rebalancer(stack, folder, policy, "plan").document
    assert (early["hotCount"], early["moves"]) == (1, [])
    held = {item["reason"]: item["because"] for item in early["kept"] if item["pod"]["uid"] in pods}
    assert list(held) == ["Unpredictable"]
    assert "just bound" in held["Unpredictable"], held
    wait_until(
        lambda: _rebalancer(stack, folder, policy, "plan").document["moves"],
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


def _only_schedulable(api: Api, *names: str) -> None:
    for item in api.list("/api/v1/nodes"):
        name = item["metadata"]["name"]
        cordoned = None if name in names else True
        api.patch(f"/api/v1/nodes/{name}", {"spec": {"unschedulable": cordoned}})


def _of(api: Api, scheduler: str) -> list[Object]:
    return api.list("/api/v1/pods", fieldSelector=f"spec.schedulerName={scheduler}")


def _pods(api: Api, scheduler: str) -> dict[str, str]:
    """Node by uid of a scheduler's pods."""
    return {pod["metadata"]["uid"]: pod["spec"].get("nodeName", "") for pod in _of(api, scheduler)}


def _named(api: Api, scheduler: str) -> dict[str, str]:
    """Node by name of a scheduler's pods."""
    return {pod["metadata"]["name"]: pod["spec"].get("nodeName", "") for pod in _of(api, scheduler)}


def _placed_by(api: Api, uids: set[str]) -> set[str]:
    """Who says it has scheduled these pods; all of them, once their events are there."""

    def scheduled() -> dict[str, str]:
        events = api.list("/apis/events.k8s.io/v1/events")
        return {
            event["regarding"]["uid"]: event["reportingController"]
            for event in events
            if event["reason"] == "Scheduled"
        }

    wait_until(lambda: uids <= scheduled().keys(), "the events of their scheduling")
    return {who for uid, who in scheduled().items() if uid in uids}


def _fate(outcome: Object) -> tuple[str, str, str]:
    return outcome["move"]["from"], outcome["result"], outcome["node"]


def _planned(outcome: Object) -> set[str]:
    return {landing["node"] for landing in outcome["move"]["landings"]}


_SCORE = re.compile(
    r'"Plugin scored node for pod" pod="(?P<pod>[^"]+)" plugin="PodCapacityOfNode"'
    r' node="(?P<node>[^"]+)" score=(?P<score>\d+)'
)


def _scored(log: Path, pod: str) -> dict[str, int]:
    """What PodCapacityOfNode scored for this pod, as the scheduler logged it."""
    found = map(_SCORE.search, log.read_text(errors="replace").splitlines())
    return {item["node"]: int(item["score"]) for item in found if item and item["pod"] == f"default/{pod}"}


def _percents(loads: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value:.0f} %" for name, value in sorted(loads.items()))
