"""Every field of the kinds that plans read; ``python -m tests.kubernetes_api.fields`` renews the list.

It is taken from the Go modules of every minor that rebalancer is verified on, so a field that a newer minor
brings appears in it when the list is renewed, and the tests that walk it ask for a verdict.

    core/v1.PodSpec    nodeName     10, string
                       containers    2, core/v1.Container
"""

from __future__ import annotations

import functools
import gzip
import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from rebalancer_demo.api.protobuf_bodies import INLINE
from rebalancer_lab.what_if.api_fields import API_FIELDS
from tests.kubernetes_api.messages import JsonField, json_fields
from tests.kubernetes_api.sources import module_folder

VERSIONS = ("v0.31.14", "v0.32.13", "v0.33.13", "v0.34.4", "v0.35.4", "v0.36.3", "v0.37.2")
# By module: the packages whose messages are read.
_PACKAGES: Mapping[str, tuple[str, ...]] = {
    "k8s.io/api": (
        *("core/v1", "apps/v1", "batch/v1", "policy/v1", "scheduling/v1", "node/v1", "resource/v1"),
        *("autoscaling/v2", "storage/v1"),
    ),
    "k8s.io/apimachinery": ("pkg/apis/meta/v1",),
}
_MESSAGE = re.compile(r"^message (\w+) \{$")
_FIELD = re.compile(r"^  (?:(?:optional|required|repeated) (\S+)|map<\w+, (\S+)>) (\w+) = (\d+);")
_PREFIX = re.compile(r"^\.?k8s\.io\.(?:api|apimachinery)\.")


class Field(NamedTuple):
    """A field of a message: its number in protobuf, and the type of its values."""

    number: int
    type: str


@functools.cache
def fields_of(message: str) -> Mapping[str, Field]:
    """By its name in JSON, each field that a message such as ``core/v1.PodSpec`` has had in any minor."""
    return {name: Field(*field) for name, field in _kept().get(message, {}).items()}


@functools.cache
def _kept() -> Mapping[str, Mapping[str, tuple[int, str]]]:
    found: Mapping[str, Mapping[str, tuple[int, str]]] = json.loads(gzip.decompress(API_FIELDS.read_bytes()))
    return found


def main() -> int:
    """Write the list; says how many bytes it takes."""
    found: dict[str, dict[str, Field]] = {}
    for version in VERSIONS:
        for module, packages in _PACKAGES.items():
            for package in packages:
                folder = module_folder(module, version) / package
                if folder.is_dir():
                    for message, name, field in _fields(folder, package):
                        found.setdefault(message, {})[name] = field
    text = json.dumps(found, sort_keys=True, separators=(",", ":"))
    API_FIELDS.write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    sys.stdout.write(
        f"{API_FIELDS.name}: {API_FIELDS.stat().st_size} bytes, of k8s.io/api {', '.join(VERSIONS)}\n"
    )
    return 0


def _fields(folder: Path, package: str) -> Iterator[tuple[str, str, Field]]:
    """Message, name and field; one whose fields JSON writes into the message around it is named INLINE."""
    structs: Mapping[str, Mapping[str, JsonField]] = json_fields(folder)
    message = ""
    for line in (folder / "generated.proto").read_text().splitlines():
        if found := _MESSAGE.match(line):
            message = found[1]
        elif found := _FIELD.match(line):
            said = structs.get(message, {}).get(found[3])
            name = said.name if said else found[3]
            kind = _type(found[1] or found[2], package)
            yield (
                f"{package}.{message}",
                f"{INLINE}{found[3]}" if name == INLINE else name,
                Field(int(found[4]), kind),
            )


def _type(written: str, package: str) -> str:
    """A message as its package and name; the type of a scalar as it is."""
    if not written[0].isupper() and "." not in written:
        return written
    path, _, name = _PREFIX.sub("", written).rpartition(".")
    return f"{path.replace('.', '/') or package}.{name}"


if __name__ == "__main__":
    sys.exit(main())
