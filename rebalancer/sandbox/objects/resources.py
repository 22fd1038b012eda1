"""The table of resources the embedded API server serves; discovery and routing are made from it."""

from __future__ import annotations

from dataclasses import dataclass, field

_WRITABLE = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
_READABLE = ("get", "list")


@dataclass(frozen=True)
class Subresource:
    """A path below an object, such as ``pods/eviction``; ``group`` and ``version`` are those of its kind."""

    name: str
    kind: str
    verbs: tuple[str, ...]
    group: str = ""
    version: str = ""


_STATUS = ("get", "patch", "update")


@dataclass(frozen=True)
class Resource:
    """One row: a kind of object and how it is addressed.

    ``has_generation``: the server counts its spec changes. ``stored_as``: the plural whose objects this
    resource shows in another shape; ``computed``: nothing is stored, a callable makes the answer.
    """

    group: str
    version: str
    plural: str
    kind: str
    singular: str
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    has_generation: bool = False
    has_status: bool = False
    subresources: tuple[Subresource, ...] = field(default=())
    stored_as: str = ""
    computed: bool = False

    @property
    def api_version(self) -> str:
        """``v1`` or ``apps/v1``."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def verbs(self) -> tuple[str, ...]:
        """What discovery says a client may try."""
        return _READABLE if self.computed else _WRITABLE

    @property
    def storage(self) -> str:
        """The plural under which the store keeps its objects."""
        return self.stored_as or self.plural


_SCALE = Subresource("scale", "Scale", _STATUS, "autoscaling", "v1")


def _workload(plural: str, kind: str, short: str, *, scale: bool = True) -> Resource:
    return Resource(
        "apps",
        "v1",
        plural,
        kind,
        kind.lower(),
        short_names=(short,),
        has_generation=True,
        has_status=True,
        subresources=(_SCALE,) if scale else (),
    )


_POD_SUBRESOURCES = (
    Subresource("binding", "Binding", ("create",)),
    Subresource("eviction", "Eviction", ("create",), "policy", "v1"),
)

RESOURCES: tuple[Resource, ...] = (
    Resource(
        "", "v1", "pods", "Pod", "pod", short_names=("po",), has_status=True, subresources=_POD_SUBRESOURCES
    ),
    Resource("", "v1", "nodes", "Node", "node", namespaced=False, short_names=("no",), has_status=True),
    Resource(
        "",
        "v1",
        "namespaces",
        "Namespace",
        "namespace",
        namespaced=False,
        short_names=("ns",),
        has_status=True,
    ),
    Resource("", "v1", "services", "Service", "service", short_names=("svc",), has_status=True),
    Resource("", "v1", "events", "Event", "event", short_names=("ev",)),
    Resource("", "v1", "configmaps", "ConfigMap", "configmap", short_names=("cm",)),
    Resource("", "v1", "serviceaccounts", "ServiceAccount", "serviceaccount", short_names=("sa",)),
    Resource(
        "",
        "v1",
        "persistentvolumeclaims",
        "PersistentVolumeClaim",
        "persistentvolumeclaim",
        short_names=("pvc",),
        has_status=True,
    ),
    Resource(
        "",
        "v1",
        "persistentvolumes",
        "PersistentVolume",
        "persistentvolume",
        namespaced=False,
        short_names=("pv",),
        has_status=True,
    ),
    Resource(
        "",
        "v1",
        "replicationcontrollers",
        "ReplicationController",
        "replicationcontroller",
        short_names=("rc",),
        has_generation=True,
        has_status=True,
        subresources=(_SCALE,),
    ),
    Resource(
        "", "v1", "resourcequotas", "ResourceQuota", "resourcequota", short_names=("quota",), has_status=True
    ),
    Resource("", "v1", "limitranges", "LimitRange", "limitrange", short_names=("limits",)),
    _workload("deployments", "Deployment", "deploy"),
    _workload("replicasets", "ReplicaSet", "rs"),
    _workload("statefulsets", "StatefulSet", "sts"),
    _workload("daemonsets", "DaemonSet", "ds", scale=False),
    Resource("batch", "v1", "jobs", "Job", "job", has_generation=True, has_status=True),
    Resource(
        "policy",
        "v1",
        "poddisruptionbudgets",
        "PodDisruptionBudget",
        "poddisruptionbudget",
        short_names=("pdb",),
        has_generation=True,
        has_status=True,
    ),
    Resource(
        "autoscaling",
        "v2",
        "horizontalpodautoscalers",
        "HorizontalPodAutoscaler",
        "horizontalpodautoscaler",
        short_names=("hpa",),
        has_status=True,
    ),
    Resource(
        "scheduling.k8s.io",
        "v1",
        "priorityclasses",
        "PriorityClass",
        "priorityclass",
        namespaced=False,
        short_names=("pc",),
    ),
    Resource(
        "storage.k8s.io",
        "v1",
        "storageclasses",
        "StorageClass",
        "storageclass",
        namespaced=False,
        short_names=("sc",),
    ),
    Resource("storage.k8s.io", "v1", "csinodes", "CSINode", "csinode", namespaced=False),
    Resource("storage.k8s.io", "v1", "csidrivers", "CSIDriver", "csidriver", namespaced=False),
    Resource("storage.k8s.io", "v1", "csistoragecapacities", "CSIStorageCapacity", "csistoragecapacity"),
    Resource(
        "storage.k8s.io",
        "v1",
        "volumeattachments",
        "VolumeAttachment",
        "volumeattachment",
        namespaced=False,
        has_status=True,
    ),
    Resource("coordination.k8s.io", "v1", "leases", "Lease", "lease"),
    Resource("events.k8s.io", "v1", "events", "Event", "event", short_names=("ev",), stored_as="events"),
    Resource("metrics.k8s.io", "v1beta1", "nodes", "NodeMetrics", "", namespaced=False, computed=True),
    Resource("metrics.k8s.io", "v1beta1", "pods", "PodMetrics", "", computed=True),
)

BY_PATH: dict[tuple[str, str, str], Resource] = {
    (resource.group, resource.version, resource.plural): resource for resource in RESOURCES
}
STORED: dict[str, Resource] = {
    resource.plural: resource for resource in RESOURCES if not resource.computed and not resource.stored_as
}
BY_KIND: dict[tuple[str, str], Resource] = {
    (resource.group, resource.kind): resource for resource in RESOURCES if not resource.stored_as
}

# What a status holds before a controller wrote any: the fields a real server never leaves out.
INITIAL_STATUS: dict[str, dict[str, object]] = {
    "namespaces": {"phase": "Active"},
    "pods": {"phase": "Pending"},
    "replicationcontrollers": {"replicas": 0},
    "replicasets": {"replicas": 0},
    "statefulsets": {"replicas": 0, "availableReplicas": 0},
    "daemonsets": {
        "currentNumberScheduled": 0,
        "numberMisscheduled": 0,
        "desiredNumberScheduled": 0,
        "numberReady": 0,
    },
    "poddisruptionbudgets": {
        "disruptionsAllowed": 0,
        "currentHealthy": 0,
        "desiredHealthy": 0,
        "expectedPods": 0,
    },
}
