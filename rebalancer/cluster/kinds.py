"""The kinds of objects we read: one table from which readers, dumps, rights and reports are made."""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec
from msgspec.structs import replace

from rebalancer.cluster import records


class Kind(msgspec.Struct, frozen=True):
    """One kind: its plural as in ``kubectl get``, API group and version, and the record it decodes to."""

    plural: str
    name: str
    group: str
    version: str
    record: type[records.ApiObject]
    paged: bool = True
    resource: str = ""  # the plural in the path, where it differs from the dump's
    optional: bool = False  # a dump need not hold it
    # The versions in which older API servers serve it, the newest first, and the record that each decodes to.
    older: tuple[tuple[str, type[records.ApiObject]], ...] = ()

    @property
    def path(self) -> str:
        """The LIST path over all namespaces."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        return f"{root}/{self.path_name}"

    @property
    def path_name(self) -> str:
        """The plural as it stands in paths and in discovery."""
        return self.resource or self.plural

    @property
    def api_version(self) -> str:
        """``group/version`` as objects carry it."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def forms(self) -> tuple[Kind, ...]:
        """The kind in each version that rebalancer reads, the newest first."""
        older = (replace(self, version=version, record=record, older=()) for version, record in self.older)
        return self, *older

    def in_version(self, api_version: str) -> Kind | None:
        """The kind as objects of this ``group/version`` are read; None where rebalancer does not read it."""
        return next((form for form in self.forms if form.api_version == api_version), None)


R = TypeVar("R", bound=records.ApiObject)


class KindOf(Kind, Generic[R], frozen=True):
    """A kind, with the type of its records; the other fields are as in ``Kind``, and in its order."""

    record: type[R]
    paged: bool = True
    resource: str = ""
    optional: bool = False
    older: tuple[tuple[str, type[records.ApiObject]], ...] = ()


_STORAGE = ("storage.k8s.io", "v1")
_LIFECYCLE = ("lifecycle.k8s.io", "v1alpha1")
NODES = KindOf("nodes", "Node", "", "v1", records.Node)
PODS = KindOf("pods", "Pod", "", "v1", records.EncodedPod)
DISRUPTION_BUDGETS = KindOf(
    "poddisruptionbudgets",
    "PodDisruptionBudget",
    "policy",
    "v1",
    records.DisruptionBudget,
    older=(("v1beta1", records.BetaDisruptionBudget),),
)
REPLICA_SETS = KindOf("replicasets", "ReplicaSet", "apps", "v1", records.Workload)
STATEFUL_SETS = KindOf("statefulsets", "StatefulSet", "apps", "v1", records.Workload)
DEPLOYMENTS = KindOf("deployments", "Deployment", "apps", "v1", records.Workload)
JOBS = KindOf("jobs", "Job", "batch", "v1", records.Workload)
REPLICATION_CONTROLLERS = KindOf(
    "replicationcontrollers", "ReplicationController", "", "v1", records.Workload
)
NAMESPACES = KindOf("namespaces", "Namespace", "", "v1", records.Namespace)
PRIORITY_CLASSES = KindOf(
    "priorityclasses", "PriorityClass", "scheduling.k8s.io", "v1", records.PriorityClass
)
# Optional: a dump need not hold them, and then what admission adds, and who serves devices, is not known.
RUNTIME_CLASSES = KindOf(
    "runtimeclasses",
    "RuntimeClass",
    "node.k8s.io",
    "v1",
    records.RuntimeClass,
    optional=True,
    older=(("v1beta1", records.RuntimeClass),),
)
DEVICE_CLASSES = KindOf(
    "deviceclasses",
    "DeviceClass",
    "resource.k8s.io",
    "v1",
    records.DeviceClass,
    optional=True,
    older=(
        ("v1beta2", records.DeviceClass),
        ("v1beta1", records.DeviceClass),
        ("v1alpha3", records.DeviceClass),
    ),
)
SERVICES = KindOf("services", "Service", "", "v1", records.Service)
CLAIMS = KindOf("persistentvolumeclaims", "PersistentVolumeClaim", "", "v1", records.PersistentVolumeClaim)
PERSISTENT_VOLUMES = KindOf("persistentvolumes", "PersistentVolume", "", "v1", records.PersistentVolume)
STORAGE_CLASSES = KindOf("storageclasses", "StorageClass", *_STORAGE, records.StorageClass)
CSI_NODES = KindOf("csinodes", "CSINode", *_STORAGE, records.CsiNode)
CSI_DRIVERS = KindOf("csidrivers", "CSIDriver", *_STORAGE, records.CsiDriver)
CSI_CAPACITIES = KindOf(
    "csistoragecapacities",
    "CSIStorageCapacity",
    *_STORAGE,
    records.CsiStorageCapacity,
    older=(("v1beta1", records.CsiStorageCapacity), ("v1alpha1", records.CsiStorageCapacity)),
)
VOLUME_ATTACHMENTS = KindOf("volumeattachments", "VolumeAttachment", *_STORAGE, records.VolumeAttachment)
HORIZONTAL_AUTOSCALERS = KindOf(
    "horizontalpodautoscalers",
    "HorizontalPodAutoscaler",
    "autoscaling",
    "v2",
    records.HorizontalAutoscaler,
    older=(("v2beta2", records.HorizontalAutoscaler), ("v1", records.HorizontalAutoscaler)),
)
VERTICAL_AUTOSCALERS = KindOf(
    "verticalpodautoscalers",
    "VerticalPodAutoscaler",
    "autoscaling.k8s.io",
    "v1",
    records.VerticalAutoscaler,
    optional=True,
)
RESOURCE_QUOTAS = KindOf("resourcequotas", "ResourceQuota", "", "v1", records.ResourceQuota)
LIMIT_RANGES = KindOf("limitranges", "LimitRange", "", "v1", records.LimitRange)
EVICTION_REQUESTS = KindOf(
    "evictionrequests", "EvictionRequest", *_LIFECYCLE, records.EvictionRequest, optional=True
)
EVICTIONS = KindOf("evictions", "Eviction", *_LIFECYCLE, records.EvictionRequest, optional=True)
# Optional: a dump need not hold them, and then only a descheduler whose pods run is seen.
CRON_JOBS = KindOf(
    "cronjobs",
    "CronJob",
    "batch",
    "v1",
    records.CronJob,
    optional=True,
    older=(("v1beta1", records.CronJob),),
)
NODE_METRICS = KindOf(
    "nodemetrics", "NodeMetrics", "metrics.k8s.io", "v1beta1", records.NodeMetrics, False, "nodes"
)
POD_METRICS = KindOf(
    "podmetrics", "PodMetrics", "metrics.k8s.io", "v1beta1", records.PodMetrics, False, "pods"
)

KINDS: tuple[Kind, ...] = tuple(kind for kind in [*vars().values()] if isinstance(kind, KindOf))
"""All that are read, in the order in which they stand here."""
REQUIRED: tuple[Kind, ...] = (NODES, PODS)
"""Every plan needs these: without nodes and pods there is nothing to plan."""
WORKLOADS = (REPLICA_SETS, STATEFUL_SETS, DEPLOYMENTS, JOBS, REPLICATION_CONTROLLERS)
METRICS = (NODE_METRICS, POD_METRICS)
DAEMON_SETS = KindOf("daemonsets", "DaemonSet", "apps", "v1", records.Workload)
# Known in a dump, and needed by no plan: pods of DaemonSets are never evicted.
_IN_DUMPS = (*KINDS, DAEMON_SETS)
BY_PLURAL = {kind.plural: kind for kind in _IN_DUMPS}
BY_NAME = {kind.name: kind for kind in _IN_DUMPS}
