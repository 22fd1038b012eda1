"""Pods: containers with odd requests, sidecars, overhead, resizes, host ports, images."""

from __future__ import annotations

from tests.conformance.generator import constraints
from tests.conformance.generator.draws import APPS, GPU, NAMESPACES, Draws, Object, without_empty
from tests.conformance.generator.nodes import image_names

CPUS = (
    "100m",
    "0",
    "1",
    "500m",
    "250m",
    "1500m",
    "0.1",
    "10m",
    "1m",
    "2",
    "4",
    "999m",
    "1e-1",
    "1u",
    "99999n",
)
TINY_CPUS = ("1u", "99999n", "1500u", "999999n", "1m")
MEMORIES = (
    *("128Mi", "0", "1Gi", "512Mi", "200Mi", "209715200", "100M", "1", "2Gi", "4Gi", "1234567890"),
    *("0.5Gi", "1e9", "1500m", "1.1Ki"),
)


def resources(draws: Draws, emphasis: frozenset[str]) -> Object:
    """Requests and limits of a container, as stored: a limit alone has been copied to the requests."""
    requests: Object = {}
    tiny = draws.chance(0.1)  # sums that are rounded once or for each container
    if draws.chance(0.75):
        requests["cpu"] = draws.one(TINY_CPUS if tiny else CPUS, 4, 2, 3, 3)
    if draws.chance(0.75):
        requests["memory"] = draws.one(MEMORIES, 4, 2, 3, 3)
    limits: Object = {}
    if draws.chance(0.15):
        limits[GPU] = requests[GPU] = draws.one(("1", "2", "0"), 3)
    if draws.chance(0.15 if "resources" in emphasis else 0.05):
        requests["ephemeral-storage"] = draws.one(("1Gi", "5Gi", "0"))
    if draws.chance(0.05 if "resources" in emphasis else 0.01):
        limits["hugepages-2Mi"] = requests["hugepages-2Mi"] = draws.one(("2Mi", "64Mi"))
    for name, larger in (("cpu", "4"), ("memory", "8Gi")):
        if name in requests and draws.chance(0.3):
            limits[name] = draws.one((requests[name], larger))
    return without_empty({"requests": requests, "limits": limits})


def _ports(draws: Draws) -> list[Object]:
    return [
        without_empty(
            {
                "containerPort": 80 + index,
                "hostPort": draws.one((8080, 8081, 0), 4, 2),
                "protocol": draws.one(("TCP", "UDP", "SCTP"), 5),
                "hostIP": draws.one((None, "0.0.0.0", "10.0.0.1", "10.0.0.2"), 4),
            }
        )
        for index in range(draws.number(1, 2))
    ]


def _container(draws: Draws, name: str, emphasis: frozenset[str]) -> Object:
    return without_empty(
        {
            "name": name,
            "image": image_names(draws)[0],
            "resources": resources(draws, emphasis),
            "ports": _ports(draws) if draws.chance(0.5 if "ports" in emphasis else 0.03) else None,
        }
    )


def _init_containers(draws: Draws, emphasis: frozenset[str]) -> list[Object]:
    made = []
    for index in range(draws.few(3) if draws.chance(0.6 if "resources" in emphasis else 0.15) else 0):
        container = _container(draws, f"i{index}", emphasis)
        if draws.chance(0.5):
            container["restartPolicy"] = "Always"
        made.append(container)
    return made


def _affinity(draws: Draws, emphasis: frozenset[str]) -> Object:
    affinity: Object = {}
    if draws.chance(0.6 if "nodeaffinity" in emphasis else 0.1):
        affinity["nodeAffinity"] = constraints.node_affinity(draws)
    for kind in ("podAffinity", "podAntiAffinity"):
        if draws.chance(0.4 if "interpod" in emphasis else 0.07):
            affinity[kind] = constraints.pod_affinity(draws)
    return without_empty(affinity)


def pod(draws: Draws, name: str, emphasis: frozenset[str]) -> Object:
    """A pod without a node."""
    namespace = draws.one(NAMESPACES, 3)
    app = draws.one(APPS)
    labels: Object = {"app": app} if draws.chance(0.95) else {}
    labels |= {"rev": draws.one(("r1", "r2"))} if draws.chance(0.7) else {}
    labels |= {"tier": draws.one(("front", "back"))} if draws.chance(0.4) else {}
    metadata: Object = {"name": name, "namespace": namespace, "uid": f"uid-{name}", "labels": labels}
    if draws.chance(0.4):
        kind, suffix = draws.one((("ReplicaSet", "-r1"), ("StatefulSet", "-set")), 3)
        owner = {"apiVersion": "apps/v1", "kind": kind, "name": app + suffix, "controller": True}
        metadata["ownerReferences"] = [owner | {"uid": f"{namespace}-{app}{suffix}"}]
    spec = without_empty(
        {
            "schedulerName": "default-scheduler",
            "containers": [_container(draws, f"c{n}", emphasis) for n in range(1 + draws.few(2))],
            "initContainers": _init_containers(draws, emphasis),
            "affinity": _affinity(draws, emphasis),
            "priority": draws.one((0, 0, 10, 1000, -5)),
        }
    )
    if draws.chance(0.25 if "resources" in emphasis else 0.05):
        spec["overhead"] = draws.one(({"cpu": "50m", "memory": "64Mi"}, {"cpu": "1u"}, {"memory": "500m"}), 2)
    if draws.chance(0.2 if "resources" in emphasis else 0.03):
        spec["resources"] = {
            "requests": draws.one(({"cpu": "2"}, {"cpu": "1", "memory": "1Gi"}, {"memory": "3Gi"}))
        }
    if draws.chance(0.5 if "taints" in emphasis else 0.15):
        spec["tolerations"] = constraints.tolerations(draws)
    if draws.chance(0.25 if "nodeaffinity" in emphasis else 0.04):
        spec["nodeSelector"] = {"disk": draws.one(("ssd", "hdd"))}
    if draws.chance(0.65 if "spread" in emphasis else 0.08):
        spec["topologySpreadConstraints"] = constraints.spread_constraints(draws)
    if draws.chance(0.15 if "images" in emphasis else 0.01):
        spec["volumes"] = [{"name": "image", "image": {"reference": image_names(draws)[0]}}]
    return {"metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}


def running(draws: Draws, name: str, node: str, emphasis: frozenset[str]) -> Object:
    """A pod on a node: mostly running; terminating, finished or being resized now and then."""
    made = pod(draws, name, emphasis)
    made["spec"]["nodeName"] = node
    made["status"]["phase"] = draws.one(("Running", "Pending", "Succeeded", "Failed"), 20)
    if draws.chance(0.06):
        made["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    if draws.chance(0.25 if "resize" in emphasis else 0.01):
        _resize(draws, made)
    return made


def _resize(draws: Draws, made: Object) -> None:
    every = draws.chance(0.3)
    initial = [c for c in made["spec"].get("initContainers", []) if every or "restartPolicy" in c]
    for field, containers in (
        ("containerStatuses", made["spec"]["containers"]),
        ("initContainerStatuses", initial),
    ):
        statuses = []
        for container in containers:
            status: Object = {"name": container["name"]}
            if draws.chance(0.7):
                status["resources"] = draws.one(
                    ({}, {"requests": {"cpu": "750m"}}, {"requests": {"memory": "3Gi"}})
                )
            if draws.chance(0.6):
                status["allocatedResources"] = draws.one(({"cpu": "1"}, {"cpu": "50m", "memory": "2Gi"}))
            statuses.append(status)
        if statuses:
            made["status"][field] = statuses
    if draws.chance(0.4):
        reason = draws.one(("Infeasible", "Deferred"))
        made["status"]["conditions"] = [{"type": "PodResizePending", "status": "True", "reason": reason}]
    if draws.chance(0.6 if "resources" in made["spec"] else 0.2):
        made["status"]["resources"] = draws.one(({}, {"requests": {"cpu": "3"}}))
        if draws.chance(0.5):
            made["status"]["allocatedResources"] = {"cpu": "2500m", "memory": "1Gi"}
    own = made["spec"].get("resources", {}).get("requests")
    if own and draws.chance(0.3):  # a container is resized, and the pod itself is not
        made["status"]["resources"] = {"requests": dict(own)}
        made["status"]["allocatedResources"] = dict(own)
