"""Writes records in protobuf as an API server would: fields in the order of their numbers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
from google.protobuf.message import Message

from rebalancer.cluster import times
from rebalancer.cluster.records import Pod
from rebalancer.cluster.wire import messages

_SOURCES = frozenset(messages.VolumeSource.DESCRIPTOR.fields_by_name)


def encode_list(pods: Iterable[Pod], resource_version: str = "1", token: str = "") -> bytes:
    """A PodList as an answer."""
    return encode_items((_encoded(pod) for pod in pods), resource_version, token)


def encode_items(items: Iterable[bytes], resource_version: str = "1", token: str = "") -> bytes:
    """A PodList of pods that are encoded already."""
    answer: Message = messages.AnswerOfEncodedPods(
        type_meta={"api_version": "v1", "kind": "PodList"},
        raw={
            "metadata": {"resource_version": resource_version, "continue_token": token},
            "items": list(items),
        },
    )
    return b"k8s\x00" + answer.SerializeToString(deterministic=True)


def encode_event(kind: str, pod: Pod) -> bytes:
    """An event of a watch as a frame."""
    return encode_frame(kind, _encoded(pod))


def encode_frame(kind: str, item: bytes, item_kind: str = "Pod") -> bytes:
    """An event whose object is encoded already, as a frame: its length, then the event."""
    answer: Message = messages.AnyAnswer(type_meta={"api_version": "v1", "kind": item_kind}, raw=item)
    event: Message = messages.WatchEvent(
        type=kind, object={"raw": b"k8s\x00" + answer.SerializeToString(deterministic=True)}
    )
    frame = event.SerializeToString(deterministic=True)
    return len(frame).to_bytes(4, "big") + frame


def _encoded(pod: Pod) -> bytes:
    message: Message = messages.Pod()
    _fill(message, pod)
    return message.SerializeToString(deterministic=True)


def _fill(message: Any, record: msgspec.Struct) -> None:
    """Set the fields of a message from the attributes of the record of its name."""
    message.SetInParent()
    for name in record.__struct_fields__:
        value = getattr(record, name)
        if value is not None and name != "unknown_field":  # no API server writes that
            _set(
                message.source if isinstance(message, messages.Volume) and name in _SOURCES else message,
                name,
                value,
            )


def _set(message: Any, name: str, value: Any) -> None:
    kind = message.DESCRIPTOR.fields_by_name[name].message_type
    if kind is None and not isinstance(value, list):
        setattr(message, name, value)
    elif kind is None:
        getattr(message, name).extend(value)
    elif isinstance(value, msgspec.Struct):
        _fill(getattr(message, name), value)
    elif isinstance(value, list):
        for item in value:
            _fill(getattr(message, name).add(), item)
    elif kind.name == "Time":
        getattr(message, name).seconds = int(times.parse(value))
    else:
        _set_map(getattr(message, name), kind.fields_by_name["value"], value)


def _set_map(found: Any, field: Any, values: dict[str, str]) -> None:
    for key, value in values.items():
        if field.message_type is not None:
            found[key].string = value
        else:
            found[key] = value.encode() if field.type == field.TYPE_BYTES else value
