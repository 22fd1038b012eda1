"""Fields of a manifest that the Kubernetes API does not have, such as ``resorces`` of a container.

The API server leaves such a field out of what it stores, so the pod that runs is not the pod that was meant.
``api_fields.json.gz`` lists every field that a verified minor has; ``python -m tests.kubernetes_api.fields``
renews it from the sources of the Kubernetes API.

    core/v1.Container    resources    8, core/v1.ResourceRequirements
"""

from __future__ import annotations

import functools
import gzip
import json
from collections.abc import Iterator, Mapping
from pathlib import Path as FilePath
from typing import Any

from rebalancer.documents import Document, Path, format_path
from rebalancer.documents.models import did_you_mean

API_FIELDS = FilePath(__file__).with_name("api_fields.json.gz")
_INLINE = "inline"  # begins the name of a field whose own fields JSON writes into the object around it
_TYPE_META = frozenset({"apiVersion", "kind"})
_FREE_FORM = frozenset({"pkg/apis/meta/v1.FieldsV1", "pkg/apis/meta/v1.Time"})
_MAX_SHOWN_LENGTH = 60


@functools.cache
def _messages() -> Mapping[str, Mapping[str, tuple[int, str]]]:
    content: Mapping[str, Mapping[str, tuple[int, str]]] = json.loads(
        gzip.decompress(API_FIELDS.read_bytes())
    )
    return content


@functools.cache
def _types_of_fields(message: str) -> Mapping[str, str]:
    """By its name in JSON, the type of each field of a message."""
    types: dict[str, str] = {}
    for name, (_, field_type) in _messages().get(message, {}).items():
        if name.startswith(_INLINE):
            types.update(_types_of_fields(field_type))
        else:
            types[name] = field_type
    return types


def unknown_fields(document: Document, message: str, path: Path = ()) -> Iterator[str]:
    """A sentence for each field that ``message`` does not have, in the part of a document at ``path``.

    ``message`` is a type of the API, such as ``apps/v1.Deployment``; the list does not hold all of them, and
    fields of others give no sentence.
    """
    value: Any = document.value
    for step in path:
        value = value[step]
    yield from _unknown_in(document, value, message, path)


def _unknown_in(document: Document, value: Any, message: str, path: Path) -> Iterator[str]:
    types = _types_of_fields(message)
    if not types or message in _FREE_FORM:
        return
    if isinstance(value, list):
        for index, member in enumerate(value):
            yield from _unknown_in(document, member, message, (*path, index))
        return
    if not isinstance(value, dict):
        return
    for name, part in value.items():
        here = (*path, name)
        if name in types:
            yield from _unknown_in(document, part, types[name], here)
        elif path or name not in _TYPE_META:
            yield _sentence(document, here, types)


def _sentence(document: Document, path: Path, types: Mapping[str, str]) -> str:
    name = str(path[-1])
    place = f"{document.position(path, key=True)} {format_path(path[:-1])}".strip()
    meant = did_you_mean(name, types)
    field = f"{place}: the API has no field {name[:_MAX_SHOWN_LENGTH]!a} here"
    return f"{field}; {meant}" if meant else f"{field}, and the API server leaves it out"
