"""Which pods need objects that were not read, plugin by plugin."""

from __future__ import annotations

from typing import Any

from rebalancer.profiles.types import Profile
from rebalancer.scheduling.framework.plugin import ObjectsRead
from rebalancer.scheduling.registry import UnreadInputs, load_configuration
from tests.builders import a_node, a_pod, a_snapshot, owned_by

V1 = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def _profile(text: str = V1) -> Profile:
    return load_configuration(text, "test").profiles[0]


def _unread(pod: dict[str, Any], *others: dict[str, Any], **kinds: Any) -> tuple[str, ...]:
    snapshot = a_snapshot(nodes=[a_node("n")], pods=[pod, *others], **kinds)
    row = snapshot.pods.row[pod["metadata"]["namespace"], pod["metadata"]["name"]]
    return UnreadInputs(_profile(), ObjectsRead(snapshot)).of(snapshot.pods.class_of(row))


def test_a_pod_with_default_constraints_needs_the_services_and_its_controllers_kind() -> None:
    pod = a_pod("p", owner=owned_by("ReplicaSet", "r"))
    assert _unread(pod) == ("replicasets", "services")
    assert _unread(pod, services=[]) == ("replicasets",)
    assert _unread(pod, services=[], replicasets=[]) == ()


def test_a_pod_with_constraints_of_its_own_needs_neither() -> None:
    constraint = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    pod = a_pod("p", owner=owned_by("ReplicaSet", "r"), topologySpreadConstraints=[constraint])
    assert _unread(pod) == ()


def _near(namespace_selector: dict[str, Any]) -> dict[str, Any]:
    term = {
        "topologyKey": "zone",
        "labelSelector": {"matchLabels": {"app": "web"}},
        "namespaceSelector": namespace_selector,
    }
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def test_namespaces_matter_to_those_who_select_them_and_to_those_who_may_be_selected() -> None:
    selective = a_pod("near", affinity=_near({"matchLabels": {"team": "a"}}))
    assert _unread(selective, services=[]) == ("namespaces",)
    assert _unread(a_pod("p", labels={"app": "web"}), selective, services=[]) == ("namespaces",)
    assert _unread(a_pod("p", labels={"app": "db"}), selective, services=[]) == ()
    assert _unread(a_pod("all", affinity=_near({})), services=[]) == ()
    assert _unread(selective, services=[], namespaces=[]) == ()


def test_a_pod_with_claims_needs_what_the_volume_plugins_read() -> None:
    pod = a_pod("p", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}])
    everything: dict[str, list[Any]] = {
        "persistentvolumeclaims": [],
        "persistentvolumes": [],
        "storageclasses": [],
        "csinodes": [],
        "csidrivers": [],
        "csistoragecapacities": [],
        "volumeattachments": [],
    }
    assert _unread(pod, services=[]) == tuple(sorted(everything))
    assert _unread(pod, services=[], **everything) == ()
    assert _unread(a_pod("plain"), services=[]) == ()


def test_the_claim_of_an_ephemeral_volume_is_never_known() -> None:
    pod = a_pod("p", volumes=[{"name": "scratch", "ephemeral": {}}])
    assert _unread(pod, services=[]) == ("the claim of its ephemeral volume scratch",)
