"""``python -m tests.kubernetes_api.messages`` renews the protobuf messages of the embedded API server.

``kubectl create`` sends most objects as protobuf. The messages are those of the API's own generated.proto,
with what JSON needs taken from the Go types beside them:

    VolumeSource `json:",inline" protobuf:"…,name=volumeSource"`    its fields stand in the outer object
    Replicas *int32 `json:"replicas,omitempty" …`                   a pointer: 0 does not mean absent

A pointer keeps its label ``optional``; without it, proto3 takes zero for absent, as Go's ``omitempty`` does.
The JSON name of a field is kept as ``json_name``, and that of an inlined one is INLINE.
"""

from __future__ import annotations

import gzip
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorSet

from rebalancer_demo.api.protobuf_bodies import INLINE, MESSAGES, message_name
from rebalancer_demo.resources import RESOURCES
from tests.kubernetes_api.sources import module_folder

VERSION = "v0.35.4"  # of the minor that the embedded API server says it is
_MODULES = ("k8s.io/api", "k8s.io/apimachinery")
_STRUCT = re.compile(r"^type (\w+) struct \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_FIELD = re.compile(
    r'^\t(?:\w+\s+)?(\*?)[^\s`]+\s+`json:"([^",]*)([^"]*)"\s+protobuf:"([^"]+)"', re.MULTILINE
)
_OTHER_KINDS = (("authorization.k8s.io/v1", "SelfSubjectAccessReview"), ("v1", "DeleteOptions"))


@dataclass(frozen=True)
class JsonField:
    """What the Go type says of a field: its name in JSON, and whether it is a pointer."""

    name: str
    pointer: bool


def main() -> int:
    """Write the messages; says how many bytes they take."""
    folders = {module: module_folder(module, VERSION) for module in _MODULES}
    content = _encoded(_messages(folders))
    MESSAGES.write_bytes(content)
    sys.stdout.write(f"{MESSAGES.name}: {len(content)} bytes, of k8s.io/api {VERSION}\n")
    return 0


def _encoded(messages: FileDescriptorSet) -> bytes:
    return gzip.compress(messages.SerializeToString(deterministic=True), 9, mtime=0)


def _messages(folders: Mapping[str, Path]) -> FileDescriptorSet:
    """The messages of all kinds that are served, and those in them."""
    fields: dict[str, dict[str, JsonField]] = {}
    with tempfile.TemporaryDirectory() as name:
        written = []
        for module, folder in folders.items():
            for path in sorted(folder.glob("**/generated.proto")):
                target = Path(name) / module / path.relative_to(folder)
                target.parent.mkdir(parents=True, exist_ok=True)
                package = ".".join(target.parent.relative_to(name).parts)
                of_package = json_fields(path.parent)
                fields |= {f"{package}.{struct}": found for struct, found in of_package.items()}
                target.write_text(_as_proto3(path.read_text(), of_package))
                written.append(str(target.relative_to(name)))
        output = Path(name) / "descriptors"
        options = (f"-I{name}", f"--descriptor_set_out={output}", "--include_imports")
        command = [sys.executable, "-m", "grpc_tools.protoc", *options, *sorted(written)]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        if ended.returncode:
            raise SystemExit(ended.stderr)
        everything = FileDescriptorSet.FromString(output.read_bytes())
    return _needed(everything, fields)


def json_fields(folder: Path) -> dict[str, dict[str, JsonField]]:
    """By struct and name in protobuf, what the Go types of a package say."""
    structs: dict[str, dict[str, JsonField]] = {}
    for path in sorted(folder.glob("*.go")):
        if path.name.endswith(("_test.go", "generated.pb.go")):
            continue
        for struct, body in _STRUCT.findall(path.read_text()):
            found = structs.setdefault(struct, {})
            for pointer, name, options, tag in _FIELD.findall(body):
                named = dict(part.partition("=")[::2] for part in tag.split(",")).get("name", name)
                inline = not name and ",inline" in options
                found[named] = JsonField(INLINE if inline else name or named, bool(pointer))
    return structs


def _as_proto3(text: str, structs: Mapping[str, Mapping[str, JsonField]]) -> str:
    """The file with presence for pointers alone."""
    lines, message = [], ""
    for line in text.replace('syntax = "proto2";', 'syntax = "proto3";').splitlines():
        if found := re.match(r"message (\w+)", line):
            message = found[1]
        if found := re.match(r"  (?:optional|required) \S+ (\w+) = \d+", line):
            field = structs.get(message, {}).get(found[1])
            keep = field is not None and field.pointer
            line = line if keep else re.sub(r"^  (optional|required) ", "  ", line)  # noqa: PLW2901
        lines.append(line)
    return "\n".join(lines) + "\n"


def _needed(
    everything: FileDescriptorSet, fields: Mapping[str, Mapping[str, JsonField]]
) -> FileDescriptorSet:
    """Only the messages that served kinds consist of, with the names that their fields have in JSON."""
    messages = {f"{file.package}.{item.name}": item for file in everything.file for item in file.message_type}
    wanted = _reachable(messages, _served())
    kept = FileDescriptorSet()
    for file in everything.file:
        names = [item for item in file.message_type if f"{file.package}.{item.name}" in wanted]
        if not names:
            continue
        for item in names:
            for field in item.field:
                said = fields.get(f"{file.package}.{item.name}", {}).get(field.name)
                field.json_name = said.name if said else field.name
        found = kept.file.add(name=file.name, package=file.package, syntax=file.syntax)
        found.message_type.extend(names)
        found.dependency.extend(file.dependency)
    there = {file.name for file in kept.file}
    for file in kept.file:
        dependencies = [name for name in file.dependency if name in there]
        del file.dependency[:]
        file.dependency.extend(dependencies)
    return kept


def _served() -> Iterable[str]:
    for resource in RESOURCES:
        if resource.computed:
            continue
        yield message_name(resource.api_version, resource.kind)
        for subresource in resource.subresources:
            group = subresource.group or resource.group
            version = subresource.version or resource.version
            yield message_name(f"{group}/{version}" if group else version, subresource.kind)
    for api_version, kind in _OTHER_KINDS:
        yield message_name(api_version, kind)


def _reachable(messages: Mapping[str, DescriptorProto], roots: Iterable[str]) -> set[str]:
    found: set[str] = set()
    ahead = [name for name in roots if name in messages]
    while ahead:
        name = ahead.pop()
        if name in found:
            continue
        found.add(name)
        item = messages[name]
        types = [field.type_name for part in (item, *item.nested_type) for field in part.field]
        ahead += [kind.removeprefix(".") for kind in types if kind.removeprefix(".") in messages]
    return found


if __name__ == "__main__":
    sys.exit(main())
