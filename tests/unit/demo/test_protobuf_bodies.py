"""Bodies that kubectl sends as protobuf are read as the JSON it prints with ``--dry-run=client -o json``.

``kubectl_bodies.json`` holds what kubectl 1.34 sent for each command, in base64, and what it printed.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import message_factory
from google.protobuf.message import Message

from rebalancer.cluster.wire.messages import AnyAnswer, TypeMeta
from rebalancer_demo.api import protobuf_bodies
from rebalancer_demo.api.protobuf_bodies import message_name, read_object
from rebalancer_demo.objects import StatusError
from rebalancer_demo.resources import RESOURCES
from tests.rows import rows

RECORDED = json.loads(Path(__file__).with_name("kubectl_bodies.json").read_text())


def without_empty(value: Any) -> Any:
    """Without nulls and empty objects, which mean nothing in what is created here."""
    if isinstance(value, dict):
        kept = {key: without_empty(item) for key, item in value.items()}
        return {key: item for key, item in kept.items() if item not in (None, {})}
    return [without_empty(item) for item in value] if isinstance(value, list) else value


@rows("recorded", RECORDED)
def test_what_kubectl_sends_is_what_it_prints(recorded: dict[str, Any]) -> None:
    found = read_object(base64.b64decode(recorded["body"]))

    if recorded["json"] is None:
        assert found is not None
        assert found["spec"]["resourceAttributes"]["verb"] == "create"
        return
    assert found is not None
    assert without_empty({**found, "status": None}) == without_empty({**recorded["json"], "status": None})


def body_of(api_version: str, kind: str, fill: Any) -> bytes:
    descriptor = protobuf_bodies._pool().FindMessageTypeByName(message_name(api_version, kind))
    message: Message = message_factory.GetMessageClass(descriptor)()
    fill(message)
    meta = TypeMeta(api_version=api_version, kind=kind)
    answer: Message = AnyAnswer(type_meta=meta, raw=message.SerializeToString())
    return b"k8s\x00" + answer.SerializeToString()


def test_inlined_fields_pointers_times_and_shares_are_as_in_json() -> None:
    def fill(pod: Any) -> None:
        pod.metadata.name = "p"
        pod.metadata.creationTimestamp.seconds = 1_800_000_000
        pod.spec.volumes.add(name="scratch").volumeSource.emptyDir.medium = ""
        container = pod.spec.containers.add(name="main")
        container.resources.requests["cpu"].string = "500m"
        container.livenessProbe.handler.httpGet.port.intVal = 8080
        container.envFrom.add().configMapRef.localObjectReference.name = "settings"
        pod.spec.automountServiceAccountToken = False
        pod.spec.priority = 0
        pod.spec.hostNetwork = False

    found = read_object(body_of("v1", "Pod", fill))

    assert found is not None
    assert found["metadata"] == {"name": "p", "creationTimestamp": "2027-01-15T08:00:00Z"}
    spec = found["spec"]
    assert spec["volumes"] == [{"name": "scratch", "emptyDir": {}}]
    (container,) = spec["containers"]
    assert container["resources"] == {"requests": {"cpu": "500m"}}
    assert container["livenessProbe"] == {"httpGet": {"port": 8080}}
    assert container["envFrom"] == [{"configMapRef": {"name": "settings"}}]
    assert (spec["automountServiceAccountToken"], spec["priority"]) == (False, 0), (
        "a pointer's zero is a value"
    )
    assert "hostNetwork" not in spec, "zero of a field that is no pointer is absent"


@rows("resource", [row for row in RESOURCES if not row.computed])
def test_every_kind_that_is_served_can_be_sent(resource: Any) -> None:
    body = body_of(
        resource.api_version, resource.kind, lambda message: setattr(message.metadata, "name", "x")
    )

    assert read_object(body) == {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": "x"},
    }


def test_options_of_a_deletion_are_the_same_in_every_group() -> None:
    body = body_of("apps/v1", "DeleteOptions", lambda options: setattr(options, "gracePeriodSeconds", 0))

    assert read_object(body) == {"apiVersion": "apps/v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0}


def test_a_kind_that_is_not_served_is_none() -> None:
    meta = TypeMeta(api_version="apps/v1", kind="ControllerRevision")

    assert read_object(b"k8s\x00" + AnyAnswer(type_meta=meta).SerializeToString()) is None


@rows("body", [b"{}", b"", b"k8s\x00\xff\xff\xff", b"k8s\x00\x0a\x10v1"])
def test_a_malformed_body_is_refused(body: bytes) -> None:
    with pytest.raises(StatusError) as caught:
        read_object(body)
    assert caught.value.code == 400
