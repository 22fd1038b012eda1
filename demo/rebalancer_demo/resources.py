"""The table of resources that the embedded API server serves; discovery and routing are made from it.

Kinds that a plan reads come from the table of ``rebalancer.cluster``, with what only a server knows added;
the others have a row of their own.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from rebalancer.cluster import kinds
from rebalancer.cluster.kinds import Kind

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
        """The verbs that discovery lists."""
        return _READABLE if self.computed else _WRITABLE

    @property
    def storage(self) -> str:
        """The plural under which the store keeps its objects."""
        return self.stored_as or self.plural


_SCALE = Subresource("scale", "Scale", _STATUS, "autoscaling", "v1")


def _row(
    kind: Kind,
    short_name: str = "",
    *,
    namespaced: bool = True,
    has_generation: bool = False,
    has_status: bool = False,
    subresources: tuple[Subresource, ...] = (),
    computed: bool = False,
) -> Resource:
    """What an API server adds to a kind that a plan reads."""
    return Resource(
        kind.group,
        kind.version,
        kind.resource or kind.plural,
        kind.name,
        "" if computed else kind.name.lower(),
        namespaced,
        (short_name,) if short_name else (),
        has_generation,
        has_status,
        subresources,
        computed=computed,
    )


def _workload(kind: Kind, short_name: str = "", *, scale: bool = True) -> Resource:
    subresources = (_SCALE,) if scale else ()
    return _row(kind, short_name, has_generation=True, has_status=True, subresources=subresources)


_POD_SUBRESOURCES = (
    Subresource("binding", "Binding", ("create",)),
    Subresource("eviction", "Eviction", ("create",), "policy", "v1"),
)

RESOURCES: tuple[Resource, ...] = (
    _row(kinds.PODS, "po", has_status=True, subresources=_POD_SUBRESOURCES),
    _row(kinds.NODES, "no", namespaced=False, has_status=True),
    _row(kinds.NAMESPACES, "ns", namespaced=False, has_status=True),
    _row(kinds.SERVICES, "svc", has_status=True),
    Resource("", "v1", "events", "Event", "event", short_names=("ev",)),
    Resource("", "v1", "configmaps", "ConfigMap", "configmap", short_names=("cm",)),
    Resource("", "v1", "serviceaccounts", "ServiceAccount", "serviceaccount", short_names=("sa",)),
    _row(kinds.CLAIMS, "pvc", has_status=True),
    _row(kinds.PERSISTENT_VOLUMES, "pv", namespaced=False, has_status=True),
    _workload(kinds.REPLICATION_CONTROLLERS, "rc"),
    _row(kinds.RESOURCE_QUOTAS, "quota", has_status=True),
    _row(kinds.LIMIT_RANGES, "limits"),
    _workload(kinds.DEPLOYMENTS, "deploy"),
    _workload(kinds.REPLICA_SETS, "rs"),
    _workload(kinds.STATEFUL_SETS, "sts"),
    _workload(kinds.DAEMON_SETS, "ds", scale=False),
    _workload(kinds.JOBS, scale=False),
    _row(kinds.CRON_JOBS, "cj", has_generation=True, has_status=True),
    _row(kinds.DISRUPTION_BUDGETS, "pdb", has_generation=True, has_status=True),
    _row(kinds.HORIZONTAL_AUTOSCALERS, "hpa", has_status=True),
    _row(kinds.PRIORITY_CLASSES, "pc", namespaced=False),
    _row(kinds.STORAGE_CLASSES, "sc", namespaced=False),
    _row(kinds.CSI_NODES, namespaced=False),
    _row(kinds.CSI_DRIVERS, namespaced=False),
    _row(kinds.CSI_CAPACITIES),
    _row(kinds.VOLUME_ATTACHMENTS, namespaced=False, has_status=True),
    Resource("coordination.k8s.io", "v1", "leases", "Lease", "lease"),
    Resource("events.k8s.io", "v1", "events", "Event", "event", short_names=("ev",), stored_as="events"),
    _row(kinds.NODE_METRICS, namespaced=False, computed=True),
    _row(kinds.POD_METRICS, computed=True),
)

STORED: dict[str, Resource] = {
    resource.plural: resource for resource in RESOURCES if not resource.computed and not resource.stored_as
}
BY_KIND: dict[tuple[str, str], Resource] = {
    (resource.group, resource.kind): resource for resource in RESOURCES if not resource.stored_as
}

MINOR = 35  # of Kubernetes 1, which the embedded API server is unless it is asked to be an older one
_EVICTION_SINCE = 22  # policy/v1; policy/v1beta1 before
# The versions of a kind that change: the first minor that serves each, and the first that does not any more.
_VERSIONS: dict[Kind, tuple[tuple[str, int, int], ...]] = {
    kinds.DISRUPTION_BUDGETS: (("v1", 21, 99), ("v1beta1", 5, 25)),
    kinds.HORIZONTAL_AUTOSCALERS: (("v2", 23, 99), ("v2beta2", 12, 26), ("v1", 2, 99)),
    kinds.CSI_CAPACITIES: (("v1", 24, 99), ("v1beta1", 21, 27)),
}


class Surface:
    """What the API server of one minor of Kubernetes serves of the resources above, and in which versions."""

    def __init__(self, minor: int = MINOR, without: tuple[str, ...] = ()) -> None:
        """``without`` are groups that are not installed, such as ``metrics.k8s.io``."""
        self.minor = minor
        self.eviction_versions: tuple[str, ...] = ("policy/v1beta1",)
        if minor >= _EVICTION_SINCE:
            self.eviction_versions = ("policy/v1", "policy/v1beta1")
        self.resources: tuple[Resource, ...] = tuple(
            row
            for resource in RESOURCES
            if resource.group not in without
            for row in self._versions_of(resource)
        )
        self.by_path = {(row.group, row.version, row.plural): row for row in self.resources}

    def _versions_of(self, resource: Resource) -> tuple[Resource, ...]:
        if resource.plural == kinds.PODS.plural and not resource.computed:
            group, version = self.eviction_versions[0].split("/")
            eviction = Subresource("eviction", "Eviction", ("create",), group, version)
            others = tuple(row for row in resource.subresources if row.name != eviction.name)
            return (replace(resource, subresources=(*others, eviction)),)
        for kind, versions in _VERSIONS.items():
            if (kind.group, kind.path_name) == (resource.group, resource.plural):
                served = [name for name, since, until in versions if since <= self.minor < until]
                return tuple(replace(resource, version=name) for name in served)
        return (resource,)


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
