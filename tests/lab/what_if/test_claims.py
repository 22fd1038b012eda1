"""Pods with claims of their own land where their volumes can be."""

from __future__ import annotations

from typing import Any

import pytest

from rebalancer.planning.inputs import PlanningInputs
from rebalancer_lab.what_if.fit import Fit
from tests.builders import a_node, a_pod, owned_by
from tests.lab.what_if.builders import LABELS, a_manifest, a_pod_spec, fit_of
from tests.rows import rows
from tests.unit.planning.builders import planning_inputs

WAITS = {"metadata": {"name": "waits"}, "provisioner": "disk", "volumeBindingMode": "WaitForFirstConsumer"}
AT_ONCE = {"metadata": {"name": "at-once"}, "provisioner": "disk", "volumeBindingMode": "Immediate"}
BOUND = {"pv.kubernetes.io/bind-completed": "yes"}


def a_default(storage_class: dict[str, Any]) -> dict[str, Any]:
    metadata = storage_class["metadata"] | {
        "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}
    }
    return storage_class | {"metadata": metadata}


def a_claim_spec(storage_class: str | None = "waits") -> dict[str, Any]:
    spec: dict[str, Any] = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    return spec if storage_class is None else spec | {"storageClassName": storage_class}


def a_stateful_set(storage_class: str | None = "waits", **spec: Any) -> dict[str, Any]:
    manifest = a_manifest("StatefulSet", **spec)
    template = {"metadata": {"name": "data"}, "spec": a_claim_spec(storage_class)}
    manifest["spec"]["volumeClaimTemplates"] = [template]
    return manifest


def with_a_scratch_volume() -> dict[str, Any]:
    template = {"spec": a_claim_spec()}
    volume = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}
    return a_manifest("Deployment", volumes=[volume])


def csi_nodes(**limits: int) -> list[dict[str, Any]]:
    return [
        {
            "metadata": {"name": name},
            "spec": {"drivers": [{"name": "disk", "nodeID": name, "allocatable": {"count": count}}]},
        }
        for name, count in limits.items()
    ]


def a_cluster(*classes: dict[str, Any], **kinds: Any) -> PlanningInputs:
    nodes = [a_node("a", cpu=3), a_node("b", cpu=2)]
    return planning_inputs(nodes, storageclasses=classes, **kinds)


def nodes_of(answer: Fit) -> dict[str, int]:
    return {item.node: item.pods for item in answer.by_node}


@pytest.mark.parametrize("manifest", [a_stateful_set(), with_a_scratch_volume()])
def test_a_class_that_waits_admits_every_node(manifest: dict[str, Any]) -> None:
    answer = fit_of(a_cluster(WAITS), manifest)

    assert answer.unpredictable == ""
    assert nodes_of(answer) == {"a": 3, "b": 2}


@pytest.mark.parametrize("manifest", [a_stateful_set(), with_a_scratch_volume()])
def test_each_pod_takes_a_volume_of_its_own_from_what_its_node_may_attach(manifest: dict[str, Any]) -> None:
    answer = fit_of(a_cluster(WAITS, csinodes=csi_nodes(a=1, b=1)), manifest)

    assert nodes_of(answer) == {"a": 1, "b": 1}
    assert "max volume count" in answer.message


def test_the_topologies_that_a_class_allows_are_those_where_its_pods_land() -> None:
    only_b = WAITS | {
        "allowedTopologies": [{"matchLabelExpressions": [{"key": "kubernetes.io/hostname", "values": ["b"]}]}]
    }

    assert nodes_of(fit_of(a_cluster(only_b), a_stateful_set())) == {"b": 2}


def test_a_claim_without_a_class_takes_the_default_class() -> None:
    waiting = fit_of(a_cluster(a_default(WAITS), AT_ONCE), a_stateful_set(None))
    at_once = fit_of(a_cluster(WAITS, a_default(AT_ONCE)), a_stateful_set(None))

    assert waiting.fits == 5
    assert "StorageClass at-once makes volume data before the pod is placed" in at_once.unpredictable


@rows(
    "inputs, storage_class, words",
    [
        (a_cluster(AT_ONCE), "at-once", "volumeBindingMode: Immediate"),
        (a_cluster(WAITS), "fast", "needs StorageClass 'fast', which the cluster does not have"),
        (a_cluster(WAITS), None, "names no StorageClass, and the cluster has no default class"),
        (a_cluster(WAITS), "", "needs StorageClass '', which the cluster does not have"),
        (a_cluster(unread=["storageclasses"]), "waits", "storageclasses were not read"),
    ],
)
def test_why_a_new_volume_leaves_the_landing_open_is_said(
    inputs: PlanningInputs, storage_class: str | None, words: str
) -> None:
    answer = fit_of(inputs, a_stateful_set(storage_class))

    assert answer.fits == 0
    assert words in answer.unpredictable


def test_a_claim_that_a_pod_left_behind_is_where_it_comes_back() -> None:
    claim = {
        "metadata": {"name": "data-new-0", "namespace": "default", "annotations": BOUND},
        "spec": a_claim_spec() | {"volumeName": "left"},
    }
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["b"]}]}
    volume = {
        "metadata": {"name": "left"},
        "spec": {"storageClassName": "waits", "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}}},
        "status": {"phase": "Bound"},
    }
    inputs = a_cluster(WAITS, persistentvolumeclaims=[claim], persistentvolumes=[volume])

    answer = fit_of(inputs, a_stateful_set())

    assert answer.landings[0].node == "b"
    assert answer.fits == 5


def test_pods_that_a_stateful_set_has_keep_their_numbers_and_their_claims() -> None:
    own = {"name": "data", "persistentVolumeClaim": {"claimName": "data-new-0"}}
    running = a_pod(
        "new-0",
        node="a",
        labels=LABELS | {"statefulset.kubernetes.io/pod-name": "new-0"},
        owner=owned_by("StatefulSet", "new"),
        **a_pod_spec(),
        volumes=[own],
    )
    claim = {
        "metadata": {"name": "data-new-0", "namespace": "default", "annotations": BOUND},
        "spec": a_claim_spec() | {"volumeName": "v"},
    }
    volume = {
        "metadata": {"name": "v"},
        "spec": {"storageClassName": "waits", "csi": {"driver": "disk", "volumeHandle": "v"}},
    }
    stateful_set = {
        "metadata": {"name": "new", "namespace": "default", "uid": "StatefulSet-new"},
        "spec": {"replicas": 3, "selector": {"matchLabels": LABELS}},
    }
    inputs = a_cluster(
        WAITS,
        pods=[running],
        statefulsets=[stateful_set],
        persistentvolumeclaims=[claim],
        persistentvolumes=[volume],
        csinodes=csi_nodes(a=2, b=1),
    )

    answer = fit_of(inputs, a_stateful_set())

    assert answer.running == 1
    assert nodes_of(answer) == {"a": 1, "b": 1}


def test_what_is_no_claim_is_refused_where_it_stands() -> None:
    manifest = a_stateful_set()
    manifest["spec"]["volumeClaimTemplates"] = [{"metadata": {"name": "data"}, "spec": {"accessModes": "x"}}]

    with pytest.raises(Exception, match=r"spec.volumeClaimTemplates\[0\]: cannot be read"):
        fit_of(a_cluster(WAITS), manifest)
