"""What a plan says, or does not say any more, without a right."""

from __future__ import annotations

from dataclasses import dataclass

from tests.e2e import assets
from tests.e2e.api import Object
from tests.e2e.rights_of_the_account import (
    READ,
    Right,
)


@dataclass(frozen=True)
class Fails:
    """The command fails for want of rights, and one line says which."""

    text: str


@dataclass(frozen=True)
class Tells:
    """Of an app's pods on the hot node the plan says this, which it does not with the right."""

    app: str
    text: str


@dataclass(frozen=True)
class Warns:
    """The plan warns so, and says other things of what moves measure."""

    text: str
    method: str


def cannot(verb: str, resource: str, group: str = "") -> Fails:
    return Fails(f'cannot {verb} resource "{resource}" in API group "{group}"')


def unpredictable(app: str, *unread: str) -> Tells:
    return Tells(app, f"Unpredictable: where it would land depends on what was not read: {', '.join(unread)}")


def not_read(app: str, kinds: str) -> Tells:
    return Tells(app, f"Unpredictable: {kinds} were not read")


STORAGE = "storage.k8s.io"


# What a plan says, or does not say any more, without a right.
PLANS: dict[Right, Fails | Tells | Warns] = {
    Right(READ, group, resource, verb, name): effect
    for group, resource, verb, name, effect in (
        ("", "nodes", "list", "", cannot("list", "nodes")),
        ("", "pods", "list", "", cannot("list", "pods")),
        ("", "namespaces", "list", "", not_read("web", "namespaces")),
        ("", "services", "list", "", unpredictable("web", "services")),
        ("", "replicationcontrollers", "list", "", not_read("legacy", "ReplicationControllers")),
        ("", "persistentvolumeclaims", "list", "", unpredictable("stored", "persistentvolumeclaims")),
        ("", "persistentvolumes", "list", "", unpredictable("stored", "persistentvolumes")),
        ("", "resourcequotas", "list", "", not_read("web", "quotas")),
        ("", "limitranges", "list", "", not_read("web", "LimitRanges")),
        ("autoscaling", "horizontalpodautoscalers", "list", "", not_read("web", "HorizontalPodAutoscalers")),
        (
            "autoscaling.k8s.io",
            "verticalpodautoscalers",
            "list",
            "",
            not_read("web", "VerticalPodAutoscalers"),
        ),
        ("lifecycle.k8s.io", "evictionrequests", "list", "", not_read("web", "EvictionRequests")),
        ("lifecycle.k8s.io", "evictions", "list", "", not_read("web", "Evictions")),
        ("policy", "poddisruptionbudgets", "list", "", not_read("web", "disruption budgets")),
        ("apps", "replicasets", "list", "", not_read("web", "ReplicaSets")),
        ("apps", "statefulsets", "list", "", not_read("database", "StatefulSets")),
        ("apps", "deployments", "list", "", not_read("web", "Deployments")),
        ("batch", "jobs", "list", "", Tells("report", "JobWouldFail: Job report was not read")),
        ("batch", "cronjobs", "list", "", Warns("not read: cronjobs (list cro", "measured")),
        ("scheduling.k8s.io", "priorityclasses", "list", "", not_read("urgent", "PriorityClasses")),
        (
            "node.k8s.io",
            "runtimeclasses",
            "list",
            "",
            Warns("not read: runtimeclasses (list run", "measured"),
        ),
        (
            "resource.k8s.io",
            "deviceclasses",
            "list",
            "",
            Warns("not read: deviceclasses (list dev", "measured"),
        ),
        (STORAGE, "storageclasses", "list", "", unpredictable("stored", "storageclasses")),
        (STORAGE, "csinodes", "list", "", unpredictable("stored", "csinodes")),
        (STORAGE, "volumeattachments", "list", "", unpredictable("stored", "volumeattachments")),
        (STORAGE, "csidrivers", "list", "", unpredictable("claiming", "csidrivers")),
        (STORAGE, "csistoragecapacities", "list", "", unpredictable("claiming", "csistoragecapacities")),
        ("metrics.k8s.io", "nodes", "list", "", cannot("list", "nodes", group="metrics.k8s.io")),
        ("metrics.k8s.io", "pods", "list", "", Warns("not read: podmetrics (list pods.metrics", "share")),
        ("", "configmaps", "get", "scheduler-config", cannot("get", "configmaps")),
        ("", "configmaps", "get", "custom-scheduler", cannot("get", "configmaps")),
    )
}


def settings_for(right: Right) -> Object:
    """A policy that makes use of a right."""
    if right.resource != "configmaps":
        return {}
    place = {"namespace": "scheduling", "name": right.name, "key": "scheduler-config.yaml"}
    return {"scheduler": {"version": assets.MINOR, "configMap": place}}
