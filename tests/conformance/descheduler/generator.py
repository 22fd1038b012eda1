"""Random clusters with something to do for each plugin of the descheduler, and a policy that enables it.

The same seed, plugin and number make the same case. What a plugin looks for occurs often in its own cases and
now and then in all others; so do the pods that an evictor holds back.
"""

from __future__ import annotations

from rebalancer.cluster import times
from tests.conformance.generator.draws import HOSTNAME, ZONE, Draws, Object, without_empty

NOW = times.parse("2026-06-01T12:00:00Z")
NAMESPACES = ("default", "prod", "dev")
APPS = ("web", "api", "db", "cache")
DAY, HOUR = 86_400, 3_600
DESCHEDULE = (
    "RemoveFailedPods",
    "PodLifeTime",
    "RemovePodsHavingTooManyRestarts",
    "RemovePodsViolatingNodeTaints",
    "RemovePodsViolatingNodeAffinity",
    "RemovePodsViolatingInterPodAntiAffinity",
)
BALANCE = ("RemoveDuplicates", "RemovePodsViolatingTopologySpreadConstraint", "LowNodeUtilization")
PLUGINS = (*DESCHEDULE, *BALANCE)


def make_case(seed: int, plugin: str, number: int) -> Object:
    """One case of a plugin."""
    draws = Draws((seed, plugin, number))
    nodes = [_node(draws, index, plugin) for index in range(draws.number(3, 7))]
    names = [item["metadata"]["name"] for item in nodes]
    objects: Object = {
        "nodes": nodes,
        "namespaces": [
            {"metadata": {"name": name, "labels": {"team": draws.one(("x", "y"))}}} for name in NAMESPACES
        ],
        "pods": [], "replicasets": [], "statefulsets": [], "daemonsets": [], "persistentvolumeclaims": [],
        "poddisruptionbudgets": [],
    }  # fmt: skip
    for index in range(draws.number(3, 8)):
        _workload(draws, index, plugin, names, objects)
    return {
        "id": f"{plugin}-{seed}-{number}",
        "family": plugin,
        "now": times.render(NOW),
        "objects": {plural: items for plural, items in objects.items() if items},
        "policy": policy(plugin, _arguments(draws, plugin), _evictor(draws)),
    }


def policy(plugin: str, arguments: Object, evictor: Object, **limits: int) -> Object:
    """A DeschedulerPolicy with one plugin."""
    point = "balance" if plugin in BALANCE else "deschedule"
    return {
        "apiVersion": "descheduler/v1alpha2",
        "kind": "DeschedulerPolicy",
        **limits,
        "profiles": [
            {
                "name": "default",
                "pluginConfig": [
                    {"name": "DefaultEvictor", "args": evictor},
                    {"name": plugin, "args": arguments},
                ],
                "plugins": {point: {"enabled": [plugin]}},
            }
        ],
    }


def _node(draws: Draws, index: int, plugin: str) -> Object:
    name = f"node-{index}"
    labels = {HOSTNAME: name, ZONE: f"zone-{draws.one('abc')}", "disk": draws.one(("ssd", "hdd"))}
    taints = [
        without_empty(
            {
                "key": draws.one(("dedicated", "maint")),
                "value": draws.one(("gpu", None)),
                "effect": draws.one(("NoSchedule", "PreferNoSchedule"), 3),
            }
        )
        for _ in range(draws.number(0, 2) if "Taints" in plugin else draws.chance(0.1))
    ]
    size = {"cpu": draws.one(("4", "8")), "memory": draws.one(("8Gi", "16Gi")), "pods": "40"}
    spec = without_empty({"taints": taints, "unschedulable": draws.chance(0.05) or None})
    return {
        "metadata": {"name": name, "labels": labels, "creationTimestamp": _ago(90 * DAY)},
        "spec": spec,
        "status": {
            "allocatable": size,
            "capacity": size,
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": _ago(90 * DAY)}],
        },
    }


def _ago(seconds: float) -> str:
    return times.render(NOW - seconds)


def _workload(draws: Draws, index: int, plugin: str, nodes: list[str], objects: Object) -> None:
    """A controller, its pods and its budget; two in one namespace never have the same name."""
    app, namespace = draws.one(APPS), draws.one(NAMESPACES)
    # A namesake of another namespace now and then, with pods of the same names.
    name = app if draws.chance(0.4) else f"{app}-{index}"
    taken = {(item["metadata"]["namespace"], item["metadata"]["name"]) for item in objects["pods"]}
    if (namespace, f"{name}-0") in taken:
        name = f"{app}-{index}"
    kind = draws.one(("ReplicaSet", "StatefulSet", "DaemonSet", None), 8, 3, 0.5, 0.5)
    labels = {"app": app, "tier": draws.one(("front", "back")), "workload": name}
    spec = _spec(draws, plugin, app)
    replicas = draws.number(1, 8 if plugin in BALANCE else 4)
    crowded = draws.some(nodes, 3, 1) if plugin in BALANCE else nodes
    for replica in range(replicas):
        where = draws.one(nodes) if draws.chance(0.25) else draws.one(crowded)
        owner = (kind, name) if kind else None
        objects["pods"].append(
            _pod(draws, plugin, f"{name}-{replica}", namespace, labels, spec, where, owner)
        )
    if kind:
        running = [item for item in objects["pods"][-replicas:] if item["status"]["phase"] == "Running"]
        wanted = replicas if kind == "StatefulSet" else len(running)
        objects[f"{kind.lower()}s"].append(_controller(kind, name, namespace, labels, spec, wanted))
    for volume in spec.get("volumes", ()):
        if claim := volume.get("persistentVolumeClaim"):
            metadata = {"name": claim["claimName"], "namespace": namespace}
            claimed = {"storageClassName": draws.one(("fast", "slow")), "accessModes": ["ReadWriteMany"]}
            objects["persistentvolumeclaims"].append({"metadata": metadata, "spec": claimed})
    if draws.chance(0.3):
        objects["poddisruptionbudgets"].append(_budget(name, namespace, replicas))


def _spec(draws: Draws, plugin: str, app: str) -> Object:
    images = [draws.one(("app:v1", "app:v2")) for _ in range(draws.number(1, 2))]
    requests = {
        "cpu": draws.one(("100m", "250m", "500m", "1")),
        "memory": draws.one(("128Mi", "512Mi", "1Gi")),
    }
    affinity: Object = {}
    if draws.chance(0.6 if "NodeAffinity" in plugin else 0.05):
        affinity["nodeAffinity"] = _node_affinity(draws, soft=draws.chance(0.4))
    if draws.chance(0.6 if "AntiAffinity" in plugin else 0.05):
        affinity["podAntiAffinity"] = {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                without_empty(
                    {
                        "labelSelector": {"matchLabels": {"app": draws.one((app, *APPS), 4)}},
                        "topologyKey": draws.one((HOSTNAME, ZONE), 3),
                        "namespaces": draws.some(NAMESPACES, 2, 1) if draws.chance(0.2) else None,
                    }
                )
            ]
        }
    spread = []
    if draws.chance(0.8 if "Spread" in plugin else 0.05):
        spread = [_spread(draws, app) for _ in range(draws.one((1, 2), 4))]
    tolerations = []
    if draws.chance(0.4):
        tolerations = [draws.one(({"key": "dedicated", "operator": "Exists"}, {"operator": "Exists"}), 4)]
    volume: Object = draws.one(
        ({"emptyDir": {}}, {"hostPath": {"path": "/x"}}, {"persistentVolumeClaim": {"claimName": app}}), 2
    )
    return without_empty(
        {
            "schedulerName": "default-scheduler",
            "containers": [
                {"name": f"c{n}", "image": image, "resources": {"requests": requests}}
                for n, image in enumerate(images)
            ],
            "affinity": affinity,
            "topologySpreadConstraints": spread,
            "tolerations": tolerations,
            "nodeSelector": {"disk": "ssd"} if draws.chance(0.05) else None,
            "volumes": [{"name": "v", **volume}] if draws.chance(0.12) else None,
            "priority": draws.one((0, 1000, 2_000_000_000), 8, 2, 0.3),
        }
    )


def _node_affinity(draws: Draws, *, soft: bool) -> Object:
    term = {"matchExpressions": [{"key": "disk", "operator": "In", "values": [draws.one(("ssd", "hdd"))]}]}
    if soft:
        return {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": draws.one((1, 50)), "preference": term}
            ]
        }
    return {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}


def _spread(draws: Draws, app: str) -> Object:
    return without_empty(
        {
            "maxSkew": draws.one((1, 2), 4),
            "topologyKey": draws.one((ZONE, HOSTNAME)),
            "whenUnsatisfiable": draws.one(("DoNotSchedule", "ScheduleAnyway"), 4),
            "labelSelector": {"matchLabels": {"app": app}},
            "nodeTaintsPolicy": draws.one((None, "Honor"), 4),
        }
    )


def _pod(
    draws: Draws,
    plugin: str,
    name: str,
    namespace: str,
    labels: Object,
    spec: Object,
    node: str,
    owner: tuple[str, str] | None,
) -> Object:
    age = draws.one((10 * 60, 5 * HOUR, 3 * DAY, 20 * DAY))
    failed = draws.chance(0.5 if plugin == "RemoveFailedPods" else 0.05)
    restarts = draws.one((0, 3, 20, 150), 4, 1, 1, 1) if draws.chance(0.6) else 0
    metadata: Object = {
        "name": name,
        "namespace": namespace,
        "uid": f"{namespace}-{name}",
        "labels": labels,
        "creationTimestamp": _ago(age),
    }
    if owner:
        kind, controller = owner
        reference = {"apiVersion": "apps/v1", "kind": kind, "name": controller, "controller": True}
        metadata["ownerReferences"] = [reference | {"uid": f"{namespace}-{kind}-{controller}"}]
    if draws.chance(0.05):
        metadata["deletionTimestamp"] = _ago(60)
    if draws.chance(0.08):
        word = draws.one(("evict", "prefer-no-eviction"))
        metadata["annotations"] = {f"descheduler.alpha.kubernetes.io/{word}": draws.one(("true", "false"), 3)}
    state: Object = {"running": {}}
    if failed:
        state = {"terminated": {"reason": draws.one(("Error", "OOMKilled")), "exitCode": draws.one((1, 137))}}
    elif restarts and draws.chance(0.5):
        state = {"waiting": {"reason": draws.one(("CrashLoopBackOff", "ImagePullBackOff"))}}
    statuses = [
        {
            "name": item["name"],
            "restartCount": restarts if at == 0 else 0,
            "state": state if at == 0 else {"running": {}},
        }
        for at, item in enumerate(spec["containers"])
    ]
    reason = draws.one((None, "Evicted", "NodeAffinity"), 2) if failed else None
    return {
        "metadata": metadata,
        "spec": {**spec, "nodeName": node},
        "status": without_empty(
            {
                "phase": "Failed" if failed else "Running",
                "reason": reason,
                "startTime": _ago(age - 5),
                "containerStatuses": statuses,
                "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": _ago(age - 10)}],
            }
        ),
    }


def _controller(kind: str, name: str, namespace: str, labels: Object, spec: Object, replicas: int) -> Object:
    status = ("replicas", "readyReplicas", "availableReplicas", "updatedReplicas")
    return {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"{namespace}-{kind}-{name}",
            "generation": 1,
        },
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
        "status": {**dict.fromkeys(status, replicas), "observedGeneration": 1},
    }


def _budget(name: str, namespace: str, replicas: int) -> Object:
    healthy = {"currentHealthy": replicas, "desiredHealthy": 0, "expectedPods": replicas}
    return {
        "metadata": {"name": name, "namespace": namespace, "generation": 1},
        "spec": {"selector": {"matchLabels": {"workload": name}}, "maxUnavailable": replicas},
        "status": {"disruptionsAllowed": replicas, "observedGeneration": 1, **healthy},
    }


def _evictor(draws: Draws) -> Object:
    """Arguments of DefaultEvictor: mostly none."""
    arguments: Object = {}
    if draws.chance(0.3):
        arguments["nodeFit"] = True
    if draws.chance(0.15):
        arguments["minReplicas"] = draws.one((2, 3))
    if draws.chance(0.15):
        arguments["minPodAge"] = draws.one(("1h", "48h"))
    if draws.chance(0.15):
        arguments["priorityThreshold"] = {"value": 500}
    if draws.chance(0.1):
        arguments["labelSelector"] = {"matchLabels": {"tier": "front"}}
    if draws.chance(0.1):
        arguments["namespaceLabelSelector"] = {"matchLabels": {"team": "x"}}
    if draws.chance(0.2):
        arguments["podProtections"] = {"defaultDisabled": ["PodsWithLocalStorage"]}
        extra = draws.one((None, "PodsWithPVC", "PodsWithoutPDB"))
        if extra:
            arguments["podProtections"]["extraEnabled"] = [extra]
        if extra == "PodsWithPVC" and draws.chance(0.4):
            classes = {"protectedStorageClasses": [{"name": "fast"}]}
            arguments["podProtections"]["config"] = {"PodsWithPVC": classes}
    elif draws.chance(0.2):
        arguments |= {"evictLocalStoragePods": True, "ignorePvcPods": draws.chance(0.5)}
    return arguments


def _arguments(draws: Draws, plugin: str) -> Object:
    """Arguments of a plugin."""
    made: Object = {}
    if plugin == "RemoveFailedPods":
        made = _some(
            draws,
            reasons=[draws.one(("Evicted", "Error", "OOMKilled"))],
            exitCodes=[draws.one((1, 137))],
            minPodLifetimeSeconds=draws.one((HOUR, DAY)),
            excludeOwnerKinds=["StatefulSet"],
        )
    elif plugin == "PodLifeTime":
        made = {"maxPodLifeTimeSeconds": draws.one((HOUR, DAY, 7 * DAY))}
        made |= _some(draws, states=[draws.one(("Running", "CrashLoopBackOff", "Pending"))])
    elif plugin == "RemovePodsHavingTooManyRestarts":
        made = {"podRestartThreshold": draws.one((3, 20, 100)), "includingInitContainers": True}
        made |= _some(draws, states=[draws.one(("Running", "CrashLoopBackOff"))])
    elif plugin == "RemovePodsViolatingNodeTaints":
        made = _some(draws, excludedTaints=[draws.one(("maint", "dedicated=gpu"))])
        made |= {"includePreferNoSchedule": True} if draws.chance(0.2) else {}
    elif plugin == "RemovePodsViolatingNodeAffinity":
        kind = draws.one(("required", "preferred"), 3)
        made = {"nodeAffinityType": [f"{kind}DuringSchedulingIgnoredDuringExecution"]}
    elif plugin == "RemoveDuplicates":
        made = _some(draws, excludeOwnerKinds=["StatefulSet"])
    elif plugin == "RemovePodsViolatingTopologySpreadConstraint":
        made = {"constraints": ["DoNotSchedule", "ScheduleAnyway"]} if draws.chance(0.3) else {}
    elif plugin == "LowNodeUtilization":
        low, high = draws.one((10, 20, 30)), draws.one((35, 50))
        return {
            "thresholds": {"cpu": low, "memory": low, "pods": low},
            "targetThresholds": {"cpu": high, "memory": high, "pods": high},
        }
    if draws.chance(0.15):
        made["namespaces"] = {draws.one(("include", "exclude")): draws.some(NAMESPACES, 2, 1)}
    return made


def _some(draws: Draws, **choices: object) -> Object:
    return {name: value for name, value in choices.items() if draws.chance(0.3)}
