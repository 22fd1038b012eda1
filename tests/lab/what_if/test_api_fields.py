"""A field that the API does not have is named, with the one that was meant."""

from __future__ import annotations

import json
from typing import Any

from rebalancer.documents import Document, parse
from rebalancer_lab.what_if.api_fields import unknown_fields
from rebalancer_lab.what_if.manifest_objects import POD_MAKERS
from tests.builders import a_node, a_snapshot
from tests.kubernetes_api.fields import fields_of
from tests.lab.what_if.builders import a_manifest, asked
from tests.rows import rows

CLUSTER = a_snapshot(nodes=[a_node("a")], priorityclasses=[])


def warnings_of(manifest: Any) -> tuple[str, ...]:
    return asked(manifest, CLUSTER).warnings


def test_a_misspelt_field_is_said_with_its_place_and_the_one_that_was_meant() -> None:
    manifest = a_manifest("Deployment", nodeSelecter={"disk": "ssd"})
    container = manifest["spec"]["template"]["spec"]["containers"][0]
    container["resorces"] = container.pop("resources")
    manifest["spec"]["replica"] = 3

    first, second, third = warnings_of(manifest)

    column = json.dumps(manifest).index('"resorces"') + 1
    assert first == (
        f"file:1:{column} spec.template.spec.containers[0]: the API has no field 'resorces' here; "
        "did you mean resources?"
    )
    assert (
        "spec.template.spec: the API has no field 'nodeSelecter' here; did you mean nodeSelector?" in second
    )
    assert "spec: the API has no field 'replica' here; did you mean replicas?" in third


def test_a_field_like_no_other_is_said_to_be_left_out() -> None:
    (warning,) = warnings_of(a_manifest(wattage=5))

    assert warning.endswith("the API has no field 'wattage' here, and the API server leaves it out")


def test_names_that_users_choose_are_no_fields() -> None:
    container = {
        "name": "main",
        "resources": {"requests": {"example.com/gpu": "1"}, "limits": {"example.com/gpu": "1"}},
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}, "capabilities": {"drop": ["ALL"]}},
        "livenessProbe": {"httpGet": {"path": "/", "port": 80}},
        "volumeMounts": [{"name": "scripts", "mountPath": "/scripts"}],
    }
    volumes = [
        {"name": "scripts", "configMap": {"name": "scripts", "defaultMode": 493}},
        {"name": "x", "emptyDir": {}},
    ]
    manifest = a_manifest(
        "Deployment", containers=[container], volumes=volumes, nodeSelector={"a": "b"}, overhead={"cpu": "1"}
    )
    manifest["metadata"] |= {
        "labels": {"x": "y"},
        "annotations": {"z": "w"},
        "managedFields": [{"manager": "kubectl", "fieldsV1": {"f:spec": {"f:replicas": {}}}}],
        "creationTimestamp": None,
    }
    manifest["apiVersion"] = "apps/v1"
    manifest["status"] = {"readyReplicas": 1}

    assert warnings_of(manifest) == ()


def test_of_a_kind_that_the_api_does_not_have_the_template_is_read_by_its_fields() -> None:
    manifest = a_manifest("Rollout", nodeSelecter={})
    manifest["spec"]["strategy"] = {"canary": {"steps": []}}

    (warning,) = warnings_of(manifest)

    assert "nodeSelector" in warning


@rows("kind", [kind for kind, maker in POD_MAKERS.items() if maker.message])
def test_every_kind_that_makes_pods_has_its_fields_in_the_list(kind: str) -> None:
    assert fields_of(POD_MAKERS[kind].message)


def test_nothing_is_said_of_a_type_that_the_list_lacks() -> None:
    document = asked(a_manifest(), CLUSTER)
    assert document.warnings == ()
    assert list(unknown_fields(_document({"x": 1}), "example.com/v1.Widget")) == []


def _document(value: Any) -> Document:
    return parse(json.dumps(value), "file")
