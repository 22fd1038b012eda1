"""One policy acts for two schedulers side by side: a static default one, and a second one that is deployed.

The default one is of 1.35. The second one is scheduler-plugins 0.27, which mounts its configuration and has
leader election off.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from rebalancer.cluster import times
from rebalancer.cluster.dumps.writer import save
from rebalancer.observe.plan_options import PlanOptions, open_api
from rebalancer.observe.read import observe, read_planners
from rebalancer.observe.recorded import documents_of
from rebalancer.policy.policy_file import load_policy, named_resources, parse_policy
from rebalancer.run.first_policy import suggest_policy
from rebalancer.scheduling.registry import load_configuration
from rebalancer.state.run_state import RunState
from rebalancer_demo import Sandbox
from rebalancer_demo.model_decider import ModelDecider
from rebalancer_demo.objects import Object
from tests.integration.hot_cluster import uids
from tests.integration.reading.servers import a_sandbox
from tests.integration.running.hot_clusters import LANDED, HotCluster, Waits, results
from tests.waiting import present

SECOND = "scheduler-plugins-scheduler"
CONFIGURATION = f"""\
apiVersion: kubescheduler.config.k8s.io/v1beta3
kind: KubeSchedulerConfiguration
leaderElection: {{leaderElect: false}}
profiles:
- schedulerName: {SECOND}
  plugins: {{score: {{enabled: [{{name: PodCapacityOfNode}}]}}}}
"""
POLICY = """\
apiVersion: rebalancer/v1alpha1
kind: RebalancePolicy
metadata: {name: both}
scheduler:
- configMap: {namespace: scheduler-plugins, name: scheduler-config}
  allowUnverifiedVersion: true
- profiles: [default-scheduler]
hotNodes: {forRuns: 1, any: [{utilization: {cpu: 80}, coolTo: {cpu: 40}}]}
evictable: {minAge: 0s}
limits: {perRun: 8, perNode: 8, perNamespace: 8, perWorkload: 100%}
execution: {waveSize: 3, firstWave: 3, waveTimeout: 1m}
"""


def a_node(name: str, since: str) -> Object:
    room = {"cpu": "8", "memory": "32Gi", "pods": "110"}
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": since}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "creationTimestamp": since, "labels": {"kubernetes.io/hostname": name}},
        "status": {"capacity": room, "allocatable": room, "conditions": [ready]},
    }


def a_pod(
    namespace: str, name: str, node: str, owner: Object, spec: Object, since: str, **more: Any
) -> Object:
    conditions = [
        {"type": kind, "status": "True", "lastTransitionTime": since} for kind in ("PodScheduled", "Ready")
    ]
    metadata = {
        "namespace": namespace,
        "name": name,
        "uid": f"pod-{name}",
        "creationTimestamp": since,
        "ownerReferences": [{**owner, "controller": True}],
        **more,
    }
    status = {"phase": "Running", "startTime": since, "conditions": conditions}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {**spec, "nodeName": node},
        "status": status,
    }


def a_workload(
    namespace: str, name: str, nodes: dict[str, int], spec: Object, since: str, used: str = "0"
) -> Iterator[Object]:
    """A ReplicaSet with so many pods on each node."""
    labels = {"app": name}
    annotations = {"sandbox.rebalancer/cpu": used}
    replicas = sum(nodes.values())
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": f"rs-{name}"}
    yield {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"namespace": namespace, "name": name, "uid": owner["uid"], "creationTimestamp": since},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels, "annotations": annotations}, "spec": spec},
        },
        "status": {"replicas": replicas, "readyReplicas": replicas, "availableReplicas": replicas},
    }
    number = 0
    for node, count in nodes.items():
        for _ in range(count):
            number += 1
            more = {"labels": labels, "annotations": annotations}
            yield a_pod(namespace, f"{name}-{number}", node, owner, spec, since, **more)


def two_schedulers(since: str) -> Iterator[Object]:
    yield from (a_node(name, since) for name in ("master", "full", "free"))
    yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "rebalancer"}}
    yield {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"namespace": "scheduler-plugins", "name": "scheduler-config"},
        "data": {"scheduler-config.yaml": CONFIGURATION},
    }
    command = ["kube-scheduler", "--kubeconfig=/etc/kubernetes/scheduler.conf"]
    image = "registry.k8s.io/kube-scheduler:v1.35.4"
    first = {
        "hostNetwork": True,
        "containers": [{"name": "kube-scheduler", "image": image, "command": command}],
    }
    master = {"apiVersion": "v1", "kind": "Node", "name": "master", "uid": "node-master"}
    yield a_pod("kube-system", "kube-scheduler-master", "master", master, first, since)
    command = ["/bin/kube-scheduler", "--config=/etc/kubernetes/scheduler-config.yaml"]
    image = "registry.k8s.io/scheduler-plugins/kube-scheduler:v0.27.8"
    second = {
        "containers": [{"name": "scheduler", "image": image, "command": command}],
        "volumes": [{"name": "config", "configMap": {"name": "scheduler-config"}}],
    }
    yield from a_workload("scheduler-plugins", "second", {"master": 1}, second, since)
    container = {"name": "main", "image": "nginx", "resources": {"requests": {"cpu": "500m"}}}
    app = {"schedulerName": "default-scheduler", "containers": [container]}
    yield from a_workload("default", "app", {"full": 4, "free": 1}, app, since, "1")
    busybox = {"schedulerName": SECOND, "containers": [container]}
    yield from a_workload("default", "busybox", {"full": 4, "free": 1}, busybox, since, "1")


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HotCluster]:
    decide = ModelDecider(load_configuration(f"{CONFIGURATION}- schedulerName: default-scheduler\n", "test"))
    with Sandbox(
        list(two_schedulers(times.render(present() - 14 * 86400))),
        seed=1,
        decide=decide,
        ready_after=0.0,
        terminates_after=0.0,
    ) as sandbox:
        waits = Waits(sandbox)
        waits.are_those_of_runs(monkeypatch)
        yield HotCluster(sandbox, tmp_path, waits, POLICY, uids(sandbox))


def planned(cluster: HotCluster, *options: str) -> dict[str, Any]:
    result = cluster.start("plan", "-o", "json", *options)
    assert result.exit_code == 0, result.stderr
    plan: dict[str, Any] = json.loads(result.stdout)
    return plan


def workloads(items: list[dict[str, Any]]) -> set[str]:
    return {item["pod"]["controllerName"] for item in items}


def second_is_down(cluster: HotCluster) -> None:
    def change(pod: Object) -> None:
        for condition in pod["status"]["conditions"]:
            if condition["type"] == "Ready":
                condition["status"] = "False"

    assert cluster.sandbox.store.mutate("pods", "scheduler-plugins", "second-1", change) is not None


def test_pods_of_both_move_and_no_wave_has_pods_of_two_schedulers(cluster: HotCluster) -> None:
    result, outcomes = cluster.run()
    assert result.exit_code == 0, result.stderr
    assert set(results(outcomes)) <= LANDED
    moves = [item["move"] for item in outcomes["outcomes"]]
    assert workloads(moves) == {"app", "busybox"}
    by_wave: dict[int, list[dict[str, Any]]] = {}
    for move in moves:
        by_wave.setdefault(move["wave"], []).append(move)
    assert all(len(workloads(wave)) == 1 for wave in by_wave.values())


def test_the_version_of_the_second_is_that_of_its_own_pods_and_its_guard_holds(cluster: HotCluster) -> None:
    cluster.policy = POLICY.replace("  allowUnverifiedVersion: true\n", "")
    result, _ = cluster.run()
    assert result.exit_code == 3
    assert f"run does not act on scheduler 1.27 ({SECOND})" in result.stderr
    assert cluster.evicted() == 0


def test_a_version_that_the_policy_states_and_no_pod_has_is_said(cluster: HotCluster) -> None:
    cluster.policy = POLICY.replace("  allowUnverifiedVersion: true\n", '  version: "1.26"\n')
    assert (
        f"scheduler.version says 1.26, but the pods of scheduler {SECOND} have version 1.27; the policy is "
        "followed"
    ) in planned(cluster)["warnings"]


def test_one_that_is_down_keeps_its_own_pods_and_the_other_ones_move(cluster: HotCluster) -> None:
    second_is_down(cluster)
    plan = planned(cluster)
    assert workloads(plan["moves"]) == {"app"}
    kept = [item for item in plan["kept"] if item["reason"] == "SchedulerNotAlive"]
    assert workloads(kept) == {"busybox"}
    assert all(item["because"].startswith(f"the scheduler {SECOND} is not alive: ") for item in kept)
    result, outcomes = cluster.run()
    assert result.exit_code == 0, result.stderr
    assert workloads([item["move"] for item in outcomes["outcomes"]]) == {"app"}


def test_the_dry_run_of_one_that_is_down_is_the_plan_to_the_digest_and_so_is_its_recording(
    tmp_path: Path,
) -> None:
    moment = float(int(present()))
    now = ["--now", times.render(moment)]
    objects = list(two_schedulers(times.render(moment - 14 * 86400)))
    with a_sandbox(objects=objects, clock=lambda: moment) as sandbox:
        cluster = HotCluster(sandbox, tmp_path, Waits(sandbox), POLICY)
        renewed = times.render_micro(moment)
        lease = {"holderIdentity": "master_1", "leaseDurationSeconds": 60, "renewTime": renewed}
        metadata = {"namespace": "kube-system", "name": "kube-scheduler"}
        sandbox.registry.create("leases", {"metadata": metadata, "spec": lease})
        second_is_down(cluster)
        first = ["--state", str(tmp_path / "state.json")]  # of no earlier run, which a run begins with
        plan = planned(cluster, *now, *first)
        result = cluster.start("run", "--dry-run", "--yes", "-o", "json", *now, *first)
        assert result.exit_code == 0, result.stderr
        outcomes = json.loads(result.stdout)
        loaded = load_policy(tmp_path / "policy.yaml")
        options = PlanOptions(kubeconfig=tmp_path / "kubeconfig", now=moment)
        observation = observe(options, (loaded,), open_api(options))

    assert workloads(plan["moves"]) == {"app"}
    assert outcomes["planInputs"] == plan["inputs"]
    assert [item["move"]["pod"] for item in outcomes["outcomes"]] == [item["pod"] for item in plan["moves"]]
    documents = documents_of(observation, None)
    save(replace(observation.snapshot.recording, documents=documents), tmp_path / "saved", moment)
    (recorded,) = read_planners(PlanOptions(source=tmp_path / "saved"), (loaded,), None, RunState())
    assert recorded.inputs.digest == plan["inputs"]


def test_a_suggested_policy_names_both_and_a_rule_by_pods_where_one_of_them_scores_so(
    cluster: HotCluster,
) -> None:
    kubeconfig = cluster.sandbox.write_kubeconfig(cluster.folder / "kubeconfig")
    found = suggest_policy(PlanOptions(kubeconfig=kubeconfig))
    policy = parse_policy(found.text, "suggested").policy
    second, default = policy.schedulers
    assert second.config_map is not None
    assert second.config_map.name == "scheduler-config"
    assert default.profiles == ("default-scheduler",)
    assert "version 1.27 was seen" in found.text
    assert "version 1.35 was seen" in found.text
    assert "pods" in named_resources(policy)
    plan = planned(cluster)
    assert not any("is started with --config" in text for text in plan["warnings"])


def test_a_version_of_which_no_pod_was_seen_is_said_to_be_that_of_the_api_server(cluster: HotCluster) -> None:
    def built_by_somebody(pod: Object) -> None:
        pod["spec"]["containers"][0]["image"] = "registry.example/mine:v3"
        pod["spec"]["volumes"] = []

    for pod in cluster.sandbox.store.all("pods", "scheduler-plugins"):
        cluster.sandbox.store.mutate("pods", "scheduler-plugins", pod["metadata"]["name"], built_by_somebody)
    kubeconfig = cluster.sandbox.write_kubeconfig(cluster.folder / "kubeconfig")
    words = " ".join(suggest_policy(PlanOptions(kubeconfig=kubeconfig)).text.replace("#", "").split())
    assert f"{SECOND}: no pod that was seen tells its version, so it is taken to be 1." in words
    assert f"no pod was seen that runs the scheduler {SECOND}: it is taken to be 1." in " ".join(
        planned(cluster)["warnings"]
    )


def test_a_second_one_that_waits_for_the_lease_of_the_default_one_keeps_its_pods_until_it_does_not_elect(
    cluster: HotCluster,
) -> None:
    def says_nothing(item: Object) -> None:
        text = CONFIGURATION.replace("leaderElection: {leaderElect: false}\n", "")
        item["data"] = {"scheduler-config.yaml": text}

    def does_not_elect(pod: Object) -> None:
        pod["spec"]["containers"][0]["command"].append("--leader-elect=false")

    def master_holds(lease: Object) -> None:
        lease["spec"]["holderIdentity"] = "master_1"

    store = cluster.sandbox.store
    assert store.mutate("configmaps", "scheduler-plugins", "scheduler-config", says_nothing) is not None
    assert store.mutate("leases", "kube-system", "kube-scheduler", master_holds) is not None
    plan = planned(cluster)
    assert workloads(plan["moves"]) == {"app"}
    kept = [item for item in plan["kept"] if item["reason"] == "SchedulerNotAlive"]
    assert workloads(kept) == {"busybox"}
    assert all("(leaderElection.leaderElect: false)" in item["because"] for item in kept)
    assert store.mutate("pods", "scheduler-plugins", "second-1", does_not_elect) is not None
    assert workloads(planned(cluster)["moves"]) == {"app", "busybox"}
