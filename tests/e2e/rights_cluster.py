"""A cluster in which every kind that a plan reads matters to some pod of its hot node."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime
from typing import Any

from rebalancer.scheduling.versions.release import minor_of
from tests.e2e import assets
from tests.e2e.api import Api, ApiRefusedError, Object, path_of
from tests.e2e.clusters import deployment, namespace, node
from tests.e2e.controlplane import ControlPlane
from tests.e2e.loads import CPU_MILLI
from tests.e2e.processes import wait_until

HOT, COOL = "hot", ("cool-1", "cool-2", "cool-3")
SHOP = "shop"  # whose pods runs may evict
QUIET = "quiet"  # whose pods only plans speak of
DRIVER = "csi.example"
# Gates that are on by default from 1.37 on: the scheduler has no pod that shows them.
_GATES = dict.fromkeys(("StorageCapacityScoring", "VolumeLimitScaling"), (minor_of(assets.MINOR) or 0) >= 37)
# Asked about every eviction, and never to be reached.
UNREACHABLE_WEBHOOK: Object = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "ValidatingWebhookConfiguration",
    "metadata": {"name": "unreachable"},
    "webhooks": [
        {
            "name": "unreachable.example.com",
            "clientConfig": {"url": "https://127.0.0.1:1/"},
            "rules": [
                {
                    "apiGroups": [""],
                    "apiVersions": ["v1"],
                    "resources": ["pods/eviction"],
                    "operations": ["CREATE"],
                }
            ],
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "failurePolicy": "Fail",
        }
    ],
}
_USES = {CPU_MILLI: "500"}
_METRICS = {"apiVersion": "metrics.k8s.io/v1beta1"}


def policy(**settings: Any) -> Object:
    """A policy under which the hot node is hot and nothing but rights stands in the way."""
    return {
        "apiVersion": "rebalancer/v1alpha1",
        "kind": "RebalancePolicy",
        "metadata": {"name": "rights"},
        "scheduler": {"version": assets.MINOR, "featureGates": _GATES},
        "load": {"sources": [{"metricsServer": {}}], "maxAge": "15m"},
        "hotNodes": {"forRuns": 1, "any": [{"utilization": {"cpu": 60}, "coolTo": {"cpu": 50}}]},
        "evictable": {"minAge": "0s", "protect": [], "jobs": True},
        "limits": {"perRun": 50, "perNode": 50, "perNamespace": 50, "perWorkload": "100%"},
        "planning": {"minGain": 1, "cooldown": "0s"},
        "execution": {"waveSize": 10, "firstWave": 10, "waveTimeout": "60s"},
        "safety": {"maxPendingPods": 20},
        **settings,
    }


def fill(control_plane: ControlPlane) -> None:
    """Create everything and wait until the pods run on the hot node, the only one that takes any so far."""
    api = control_plane.api
    for name in (SHOP, QUIET, "scheduling"):
        api.create(namespace(name))
    for name in (HOT, *COOL):
        api.create(node(name, cpu="10"))
        api.patch(f"/api/v1/nodes/{name}", {"spec": {"unschedulable": name != HOT}})
    _add_ons(api)
    _storage(api)
    _workloads(api)
    wait_until(lambda: len(_pods(api)) == _PODS, f"{_PODS} pods made")
    control_plane.wait_for_pods()
    _replace_claim(api)
    for name in COOL:
        api.patch(f"/api/v1/nodes/{name}", {"spec": {"unschedulable": None}})
    for name in ("scheduler-config", "custom-scheduler"):
        data = {"scheduler-config.yaml": _SCHEDULER}
        metadata = {"namespace": "scheduling", "name": name}
        api.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})


_SCHEDULER = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def measure(api: Api) -> None:
    """Let metrics-server's API tell what pods use now, as their annotations say."""
    now = {"timestamp": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"), "window": "15s"}
    used: dict[str, int] = defaultdict(int)
    current = set()
    for pod in _pods(api):
        milli = int(pod["metadata"].get("annotations", {}).get(CPU_MILLI, 0))
        used[pod["spec"].get("nodeName", "")] += milli
        name = {key: pod["metadata"][key] for key in ("namespace", "name")}
        containers = [{"name": "app", "usage": {"cpu": f"{milli}m", "memory": "64Mi"}}]
        api.apply({**_METRICS, "kind": "PodMetrics", "metadata": name, **now, "containers": containers})
        current.add((name["namespace"], name["name"]))
    for node_name in (HOT, *COOL):
        usage = {"cpu": f"{used[node_name]}m", "memory": "1Gi"}
        api.apply({**_METRICS, "kind": "NodeMetrics", "metadata": {"name": node_name}, **now, "usage": usage})
    for item in api.list("/apis/metrics.k8s.io/v1beta1/pods"):
        if (item["metadata"]["namespace"], item["metadata"]["name"]) not in current:
            api.delete(path_of({**_METRICS, "kind": "PodMetrics", "metadata": item["metadata"]}))


def _pods(api: Api) -> list[Object]:
    return [item for name in (SHOP, QUIET) for item in api.list(f"/api/v1/namespaces/{name}/pods")]


def _add_ons(api: Api) -> None:
    """APIs of add-ons, of metrics-server and the vertical autoscaler, as objects that are merely kept."""
    kinds = (
        ("metrics.k8s.io", "v1beta1", "nodes", "NodeMetrics", "Cluster"),
        ("metrics.k8s.io", "v1beta1", "pods", "PodMetrics", "Namespaced"),
        ("autoscaling.k8s.io", "v1", "verticalpodautoscalers", "VerticalPodAutoscaler", "Namespaced"),
    )
    for group, version, plural, kind, scope in kinds:
        schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        api.create(
            {
                "apiVersion": "apiextensions.k8s.io/v1",
                "kind": "CustomResourceDefinition",
                "metadata": {
                    "name": f"{plural}.{group}",
                    "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"},
                },
                "spec": {
                    "group": group,
                    "names": {"plural": plural, "kind": kind, "listKind": f"{kind}List"},
                    "scope": scope,
                    "versions": [
                        {
                            "name": version,
                            "served": True,
                            "storage": True,
                            "schema": {"openAPIV3Schema": schema},
                        }
                    ],
                },
            },
        )
        path = f"/apis/{group}/{version}/{plural}"
        wait_until(lambda path=path: _served(api, path), f"{path} served")  # type: ignore[misc]


def _served(api: Api, path: str) -> bool:
    try:
        api.get(path)
    except ApiRefusedError:
        return False
    return True


def _storage(api: Api) -> None:
    """A shared volume with its claim, and what a CSI driver says of itself."""
    api.create(
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": "shared"},
            "provisioner": DRIVER,
            "volumeBindingMode": "WaitForFirstConsumer",
        }
    )
    driver = {"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": DRIVER}}
    api.create({**driver, "spec": {"storageCapacity": True}})
    api.create(
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSIStorageCapacity",
            "metadata": {"namespace": QUIET, "name": "everywhere"},
            "storageClassName": "shared",
            "nodeTopology": {},
            "capacity": "100Gi",
        }
    )
    for name in ("data", "scratch"):
        api.create(
            {
                "apiVersion": "v1",
                "kind": "PersistentVolume",
                "metadata": {"name": name},
                "spec": {
                    "capacity": {"storage": "1Gi"},
                    "accessModes": ["ReadWriteMany"],
                    "storageClassName": "shared",
                    "claimRef": {"namespace": QUIET, "name": name},
                    "csi": {"driver": DRIVER, "volumeHandle": name},
                },
            }
        )
        api.create(_claim(name, volume=name))


def _claim(name: str, *, volume: str = "") -> Object:
    bound = {"pv.kubernetes.io/bind-completed": "yes"} if volume else {}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"namespace": QUIET, "name": name, "annotations": bound},
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "storageClassName": "shared",
            "resources": {"requests": {"storage": "1Gi"}},
            **({"volumeName": volume} if volume else {}),
        },
    }


def _replace_claim(api: Api) -> None:
    """Make a claim anew under a running pod: it is bound to no volume now."""
    path = f"/api/v1/namespaces/{QUIET}/persistentvolumeclaims/scratch"
    api.delete(path)
    api.patch(path, {"metadata": {"finalizers": None}})
    wait_until(lambda: not _served(api, path), "the claim removed")
    api.create(_claim("scratch"))


_SHOPS = 12
_PODS = _SHOPS + 7


def _workloads(api: Api) -> None:
    """In the shop a Deployment, elsewhere a workload of every kind and need; each pod uses half a core."""
    api.create(deployment("web", _SHOPS, namespace=SHOP, annotations=_USES))
    selector = {"matchLabels": {"team": "a"}}
    term = {
        "topologyKey": "kubernetes.io/hostname",
        "namespaceSelector": selector,
        "labelSelector": {"matchLabels": {"app": "rival"}},
    }
    rivals = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    api.create(
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": "important"},
            "value": 1000,
        }
    )
    for name, pod in (
        ("affine", {"affinity": {"podAntiAffinity": rivals}}),
        ("urgent", {"priorityClassName": "important"}),
        ("stored", _mounting("data")),
        ("claiming", _mounting("scratch")),
    ):
        api.create(deployment(name, 1, namespace=QUIET, annotations=_USES, pod=pod))
    for kind, name in (("StatefulSet", "database"), ("ReplicationController", "legacy"), ("Job", "report")):
        api.create(_of_kind(kind, name))


def _mounting(claim: str) -> Object:
    return {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]}


def _of_kind(kind: str, name: str) -> Object:
    """A workload of one pod."""
    made = deployment(name, 1, namespace=QUIET, annotations=_USES)
    spec = made["spec"]
    if kind == "StatefulSet":
        spec["serviceName"] = name
        return {**made, "kind": kind}
    if kind == "ReplicationController":
        return {**made, "apiVersion": "v1", "kind": kind, "spec": {**spec, "selector": {"app": name}}}
    template = spec["template"]
    template["spec"]["restartPolicy"] = "Never"
    return {**made, "apiVersion": "batch/v1", "kind": kind, "spec": {"template": template}}
