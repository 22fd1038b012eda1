"""Protobuf messages as the records that JSON is decoded to, so that nothing else depends on the encoding.

``pods.proto`` names its messages and fields after the records and their attributes, so one rule converts
them all: a field that is present sets the attribute of its name, an absent one keeps the record's default.

    PodSpec{priority: 0, tolerations: [Toleration{key: "a"}]}          the message
    PodSpec(priority=0, tolerations=[Toleration(key="a")])             the record

The exceptions are times, quantities, and the source of a volume, whose fields JSON writes into the volume.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from rebalancer.cluster import records, times

if TYPE_CHECKING:
    from google.protobuf.descriptor import FieldDescriptor
    from google.protobuf.message import Message

_Parsed = TypeVar("_Parsed", bound="Message")


def parse(message: type[_Parsed], data: bytes) -> _Parsed:
    """The message that ``data`` encodes; ValueError when it is none."""
    from google.protobuf.message import DecodeError  # noqa: PLC0415 - 0.1 s that dumps do without

    try:
        return message.FromString(data)
    except DecodeError as error:
        raise ValueError(f"not protobuf: no {message.DESCRIPTOR.name}") from error


def to_record(message: Message) -> Any:
    """The record of a message's name; ValueError when a time or a text in it cannot be one."""
    return getattr(records, message.DESCRIPTOR.name)(**_attributes(message))


def _attributes(message: Message) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for field, value in message.ListFields():
        if field.name == "source":
            found.update(_attributes(value))
        else:
            found[field.name] = _converted(field, value)
    return found


def _converted(field: FieldDescriptor, value: Any) -> Any:
    if field.type == field.TYPE_BYTES:
        return value.decode(errors="replace")
    kind = field.message_type
    if kind is None:
        return list(value) if field.is_repeated else value
    if kind.GetOptions().map_entry:
        each = kind.fields_by_name["value"]
        return {key: _converted(each, item) for key, item in value.items()}
    convert: Callable[[Any], Any] = _CONVERSIONS.get(kind.name, to_record)
    return [convert(item) for item in value] if field.is_repeated else convert(value)


def _time(message: Any) -> str | None:
    """A time as JSON writes it; the zero time of Go is written without seconds."""
    return times.render(message.seconds) if message.HasField("seconds") else None


def _quantity(message: Any) -> str:
    return message.string if message.HasField("string") else "0"


_CONVERSIONS: dict[str, Callable[[Any], Any]] = {"Time": _time, "Quantity": _quantity}
