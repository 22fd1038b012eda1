"""Objects that kubectl sends as protobuf, as the JSON it would send.

``kubectl create`` sends most kinds as ``k8s\\0`` and an envelope with the object's type and its bytes. Their
messages are kept beside this module: ``python -m tests.kubernetes_api.messages`` takes them from the API.
Values that are one thing in JSON and a message in protobuf are few: quantities, times, numbers that may be
percentages.
"""

from __future__ import annotations

import base64
import datetime as dt
import functools
import gzip
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message

from rebalancer.cluster.wire.messages import AnyAnswer
from rebalancer_demo.objects import Object, bad_request

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
MESSAGES = Path(__file__).with_name("api_messages.binpb.gz")
INLINE = "inline"
_MAGIC = b"k8s\x00"
_META = "k8s.io.apimachinery.pkg.apis.meta.v1"


def message_name(api_version: str, kind: str) -> str:
    """The full name of a kind's message; DeleteOptions are the same in every group."""
    if kind == "DeleteOptions":
        return f"{_META}.{kind}"
    group, _, version = api_version.rpartition("/")
    return f"k8s.io.api.{group.partition('.')[0] or 'core'}.{version}.{kind}"


def read_object(body: bytes) -> Object | None:
    """The object in a body; None for a kind that is not served. Raises a StatusError when it is malformed."""
    if not body.startswith(_MAGIC):
        raise bad_request("the body of the request does not begin as protobuf of the Kubernetes API does")
    try:
        envelope = AnyAnswer.FromString(body[len(_MAGIC) :])
        api_version = envelope.type_meta.api_version
        kind = envelope.type_meta.kind
        try:
            descriptor = _pool().FindMessageTypeByName(message_name(api_version, kind))
        except KeyError:
            return None
        message = message_factory.GetMessageClass(descriptor).FromString(envelope.raw)
    except DecodeError as error:
        raise bad_request(f"the object provided is unrecognized: {error}") from error
    fields: Object = _object(message)
    return {"apiVersion": api_version, "kind": kind, **fields}


@functools.cache
def _pool() -> descriptor_pool.DescriptorPool:
    pool = descriptor_pool.DescriptorPool()
    files = descriptor_pb2.FileDescriptorSet.FromString(gzip.decompress(MESSAGES.read_bytes()))
    ahead = {file.name: file for file in files.file}

    def add(name: str) -> None:
        file = ahead.pop(name, None)
        if file is not None:
            for dependency in file.dependency:
                add(dependency)
            pool.AddSerializedFile(file.SerializeToString())

    for name in list(ahead):
        add(name)
    return pool


def _object(message: Message) -> Object:
    """A message's fields by their names in JSON; what is absent or empty is left out, as Go does."""
    fields: Object = {}
    for field, value in message.ListFields():
        shown = _field(field, value)
        if field.json_name == INLINE:
            fields.update(shown)
        elif shown is not None:
            fields[field.json_name] = shown
    return fields


def _field(field: FieldDescriptor, value: Any) -> Any:
    entry = field.message_type
    if entry is not None and entry.GetOptions().map_entry:
        values = entry.fields_by_name["value"]
        return {key: _single(values, value[key]) for key in sorted(value)}
    if field.is_repeated:
        return [_single(field, element) for element in value]
    return _single(field, value)


def _single(field: FieldDescriptor, value: Any) -> Any:
    if field.message_type is not None:
        convert = _SCALARS.get(field.message_type.full_name, _object)
        return convert(value)
    return base64.b64encode(value).decode("ascii") if isinstance(value, bytes) else value


def _time(message: Any) -> str | None:
    """An RFC 3339 time in UTC; None for Go's zero time."""
    if not (message.seconds or message.nanos):
        return None
    moment = dt.datetime.fromtimestamp(message.seconds, dt.UTC)
    fraction = f".{message.nanos // 1000:06d}" if message.nanos else ""
    return f"{moment:%Y-%m-%dT%H:%M:%S}{fraction}Z"


def _number_or_share(message: Any) -> int | str:
    return str(message.strVal) if message.type else int(message.intVal)


def _raw(message: Any) -> Any:
    return msgspec.json.decode(message.raw) if message.raw else None


_SCALARS: Mapping[str, Callable[[Any], Any]] = {
    "k8s.io.apimachinery.pkg.api.resource.Quantity": lambda message: str(message.string),
    "k8s.io.apimachinery.pkg.util.intstr.IntOrString": _number_or_share,
    f"{_META}.Time": _time,
    f"{_META}.MicroTime": _time,
    f"{_META}.FieldsV1": lambda message: msgspec.json.decode(message.Raw) if message.Raw else None,
    "k8s.io.apimachinery.pkg.runtime.RawExtension": _raw,
}
