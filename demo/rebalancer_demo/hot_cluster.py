"""A small hot cluster for the demo: the stack of a k3s cluster with Trimaran and load-watcher.

Two nodes joined late and are empty, two old ones are hot: a scheduler places a pod once and never moves it.
"""

from __future__ import annotations

from rebalancer.cluster import times
from rebalancer_demo.api.discovery import VERSION
from rebalancer_demo.objects import Object

SCHEDULER_NAME = "trimaran"
NAMESPACE = "shop"
WATCHER_NAMESPACE = "loadwatcher"
WATCHER_SERVICE = "load-watcher"
WATCHER_PORT = 2020
WATCHER_ADDRESS = f"http://{WATCHER_SERVICE}.{WATCHER_NAMESPACE}:{WATCHER_PORT}"
CONFIGURATION_NAMESPACE = "scheduler-plugins"
CONFIGURATION_NAME = "scheduler-config"
_AGE_SECONDS = 14 * 24 * 3600.0

CONFIGURATION = f"""\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
- schedulerName: {SCHEDULER_NAME}
  plugins:
    score:
      enabled:
      - name: TargetLoadPacking
        weight: 5
      disabled:
      - name: NodeResourcesBalancedAllocation
  pluginConfig:
  - name: TargetLoadPacking
    args:
      watcherAddress: {WATCHER_ADDRESS}
      targetUtilization: 60
"""

POLICY = f"""\
apiVersion: rebalancer/v1alpha1
kind: RebalancePolicy
metadata: {{name: demo}}
scheduler:
  configMap: {{namespace: {CONFIGURATION_NAMESPACE}, name: {CONFIGURATION_NAME}}}
load:
  sources:
    - metricsServer: {{}}
    - loadWatcher: {{address: "{WATCHER_ADDRESS}"}}
hotNodes:
  forRuns: 1
  any:
    - {{utilization: {{cpu: 80, memory: 85}}, coolTo: {{cpu: 65, memory: 75}}}}
evictable: {{minAge: 10m}}
limits: {{perRun: 8, perNode: 4, perNamespace: 8, perWorkload: 25%}}
planning: {{minGain: 5}}
execution: {{waveSize: 3, firstWave: 1, waveTimeout: 20s}}
"""

# Deployment -> CPU and memory requested and used by each of its pods, and where the pods run.
# They use what TargetLoadPacking expects of them, one and a half times what they request.
_DEPLOYMENTS: tuple[tuple[str, str, str, str, str, dict[str, int]], ...] = (
    ("web", "300m", "256Mi", "450m", "400Mi", {"node-1": 4, "node-2": 2, "node-3": 1, "node-4": 1}),
    ("api", "400m", "512Mi", "600m", "700Mi", {"node-1": 2, "node-2": 3, "node-3": 1}),
    ("search", "500m", "1Gi", "750m", "1500Mi", {"node-2": 1, "node-3": 1, "node-4": 1}),
    ("mail", "100m", "128Mi", "150m", "200Mi", {"node-1": 1}),
)
_NODES = 6
_NODE_INFO = {
    "kubeletVersion": VERSION["gitVersion"],
    "operatingSystem": "linux",
    "architecture": "amd64",
    "osImage": "simulated",
    "containerRuntimeVersion": "simulated://1",
}


def hot_cluster(now: float) -> list[Object]:
    """The objects of the demo, two weeks old at ``now`` (Unix seconds)."""
    then = times.render(now - _AGE_SECONDS)
    objects = [_node(f"node-{number}", then) for number in range(1, _NODES + 1)]
    objects += [
        _object("v1", "Namespace", name, "", then)
        for name in (NAMESPACE, WATCHER_NAMESPACE, CONFIGURATION_NAMESPACE, "kube-system", "rebalancer")
    ]
    objects.append(
        _object("v1", "ConfigMap", CONFIGURATION_NAME, CONFIGURATION_NAMESPACE, then)
        | {"data": {"scheduler-config.yaml": CONFIGURATION}}
    )
    for deployment in _DEPLOYMENTS:
        objects += _deployment(*deployment, then=then)
    objects += _agents(then)
    objects.append(_budget("web", "60%", then))
    objects.append(_budget("search", "100%", then))
    return objects


def _object(api_version: str, kind: str, name: str, namespace: str, then: str) -> Object:
    metadata = {"name": name, "uid": f"{kind.lower()}-{namespace}-{name}", "creationTimestamp": then}
    if namespace:
        metadata["namespace"] = namespace
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata}


def _node(name: str, then: str) -> Object:
    node = _object("v1", "Node", name, "", then)
    node["metadata"]["labels"] = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux"}
    room = {"cpu": "4", "memory": "16Gi", "pods": "110", "ephemeral-storage": "100Gi"}
    node["spec"] = {}
    node["status"] = {
        "capacity": room,
        "allocatable": room,
        "nodeInfo": _NODE_INFO,
        "conditions": [
            {"type": "Ready", "status": "True", "lastHeartbeatTime": then, "lastTransitionTime": then}
        ],
    }
    return node


def _deployment(
    name: str, cpu: str, memory: str, used_cpu: str, used_memory: str, nodes: dict[str, int], *, then: str
) -> list[Object]:
    replicas = sum(nodes.values())
    labels = {"app": name}
    usage = {"sandbox.rebalancer/cpu": used_cpu, "sandbox.rebalancer/memory": used_memory}
    template: Object = {
        "metadata": {"labels": {**labels, "pod-template-hash": "7d9f"}, "annotations": usage},
        "spec": {
            "schedulerName": SCHEDULER_NAME,
            "terminationGracePeriodSeconds": 2,
            "containers": [
                {
                    "name": name,
                    "image": f"registry.example/{name}:v1",
                    "resources": {"requests": {"cpu": cpu, "memory": memory}},
                }
            ],
        },
    }
    deployment = _object("apps/v1", "Deployment", name, NAMESPACE, then)
    deployment["spec"] = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    replica_set = _object("apps/v1", "ReplicaSet", f"{name}-7d9f", NAMESPACE, then)
    replica_set["metadata"]["ownerReferences"] = [_owner(deployment)]
    replica_set["spec"] = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    replica_set["status"] = {"replicas": replicas, "readyReplicas": replicas, "availableReplicas": replicas}
    pods: list[Object] = []
    for node, count in nodes.items():
        for _ in range(count):
            pod = _object("v1", "Pod", f"{name}-7d9f-{len(pods) + 1:02}", NAMESPACE, then)
            pod["metadata"] |= {
                "labels": template["metadata"]["labels"],
                "annotations": usage,
                "ownerReferences": [_owner(replica_set)],
            }
            pod["spec"] = {**template["spec"], "nodeName": node, "priority": 0}
            pod["status"] = _running(then)
            pods.append(pod)
    return [deployment, replica_set, *pods]


def _owner(controller: Object) -> Object:
    metadata = controller["metadata"]
    return {
        "apiVersion": controller["apiVersion"],
        "kind": controller["kind"],
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
    }


def _running(then: str) -> Object:
    conditions = [
        {"type": kind, "status": "True", "lastTransitionTime": then} for kind in ("PodScheduled", "Ready")
    ]
    return {"phase": "Running", "startTime": then, "conditions": conditions}


def _agents(then: str) -> list[Object]:
    """A DaemonSet with a pod on every node."""
    daemon_set = _object("apps/v1", "DaemonSet", "node-agent", "kube-system", then)
    daemon_set["spec"] = {"selector": {"matchLabels": {"app": "node-agent"}}}
    daemon_set["status"] = {"desiredNumberScheduled": _NODES, "numberReady": _NODES}
    pods: list[Object] = []
    for number in range(1, _NODES + 1):
        pod = _object("v1", "Pod", f"node-agent-{number}", "kube-system", then)
        pod["metadata"] |= {
            "labels": {"app": "node-agent"},
            "annotations": {"sandbox.rebalancer/cpu": "120m", "sandbox.rebalancer/memory": "150Mi"},
            "ownerReferences": [_owner(daemon_set)],
        }
        pod["spec"] = {
            "nodeName": f"node-{number}",
            "schedulerName": "default-scheduler",
            "priority": 2_000_001_000,
            "containers": [
                {
                    "name": "agent",
                    "image": "registry.example/agent:v1",
                    "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}},
                }
            ],
            "tolerations": [{"operator": "Exists"}],
        }
        pod["status"] = _running(then)
        pods.append(pod)
    return [daemon_set, *pods]


def _budget(app: str, min_available: str, then: str) -> Object:
    budget = _object("policy/v1", "PodDisruptionBudget", app, NAMESPACE, then)
    budget["metadata"]["generation"] = 1
    budget["spec"] = {"minAvailable": min_available, "selector": {"matchLabels": {"app": app}}}
    return budget
