"""Strict JSON schemas of the kinds that are shipped; ``python -m tests.kubernetes_api.schemas`` renews them.

They come from the OpenAPI documents of Kubernetes itself, of the oldest and of the newest minor that
rebalancer is verified on: a field must exist in the one, and not be gone from the other. An API server
ignores a field it does not know unless it is asked not to; here such a field is an error, wherever it stands.
"""

from __future__ import annotations

import functools
import gzip
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jsonschema
from jsonschema.exceptions import ValidationError

from tests.kubernetes_api.sources import module_folder

VERSIONS = ("v1.31.14", "v1.36.3")
# By the OpenAPI document that holds them.
KINDS: Mapping[str, tuple[str, ...]] = {
    "apis__admissionregistration.k8s.io__v1": (
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
    ),
    "api__v1": ("ConfigMap", "Namespace", "Node", "Pod", "Secret", "Service", "ServiceAccount"),
    "apis__apps__v1": ("Deployment",),
    "apis__batch__v1": ("CronJob", "Job"),
    "apis__coordination.k8s.io__v1": ("Lease",),
    "apis__networking.k8s.io__v1": ("NetworkPolicy",),
    "apis__policy__v1": ("PodDisruptionBudget",),
    "apis__rbac.authorization.k8s.io__v1": ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"),
    "apis__scheduling.k8s.io__v1": ("PriorityClass",),
}
# Kinds of the Prometheus operator, whose definitions are no part of Kubernetes.
WITHOUT_SCHEMA = frozenset({"monitoring.coreos.com"})
_FILE = Path(__file__).with_name("schemas.json.gz")
_REFERENCE = "#/components/schemas/"
_KEPT = ("type", "required", "oneOf", "enum", "items", "properties", "additionalProperties", "allOf", "$ref")


def problems(item: Mapping[str, Any], version: str) -> list[str]:
    """What is wrong with an object by the schemas of a version; unknown kinds are wrong too."""
    api_version, kind = str(item.get("apiVersion")), str(item.get("kind"))
    if api_version.partition("/")[0] in WITHOUT_SCHEMA:
        return []
    definitions = _kept()[version]
    name = definitions["kinds"].get(f"{api_version} {kind}")
    if name is None:
        return [f"{kind} of {api_version}: no such kind among the schemas"]
    schema = {"$ref": f"#/$defs/{name}", "$defs": definitions["schemas"]}
    found: Iterator[ValidationError] = jsonschema.Draft202012Validator(schema).iter_errors(item)
    return sorted(f"{kind} {error.json_path}: {error.message}" for error in found)


def properties_of(definition: str, version: str) -> frozenset[str]:
    """The fields of a definition, as of ``DeploymentSpec``, by the schemas of a version."""
    schemas = _kept()[version]["schemas"]
    (found,) = [schema for name, schema in schemas.items() if name.rpartition(".")[2] == definition]
    return frozenset(found["properties"])


@functools.cache
def _kept() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(gzip.decompress(_FILE.read_bytes()))
    return found


def main() -> int:
    """Write the schemas; says how many bytes they take."""
    content = {version: _of_version(module_folder("k8s.io/kubernetes", version)) for version in VERSIONS}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    _FILE.write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    sys.stdout.write(f"{_FILE.name}: {_FILE.stat().st_size} bytes, of Kubernetes {', '.join(VERSIONS)}\n")
    return 0


def _of_version(folder: Path) -> dict[str, Any]:
    kinds: dict[str, str] = {}
    schemas: dict[str, Any] = {}
    for document, wanted in KINDS.items():
        path = folder / "api" / "openapi-spec" / "v3" / f"{document}_openapi.json"
        everything = json.loads(path.read_text())["components"]["schemas"]
        for name, schema in everything.items():
            about = schema.get("x-kubernetes-group-version-kind") or [{}]
            kind = about[0].get("kind")
            if len(about) == 1 and kind in wanted:
                group, version = about[0]["group"], about[0]["version"]
                kinds[f"{group}/{version} {kind}" if group else f"{version} {kind}"] = name
                _keep(name, everything, schemas)
    missing = sum(map(len, KINDS.values())) - len(kinds)
    if missing:
        raise SystemExit(f"{missing} kinds are not in the OpenAPI documents of {folder}")
    return {"kinds": kinds, "schemas": schemas}


def _keep(name: str, everything: Mapping[str, Any], schemas: dict[str, Any]) -> None:
    """Keep a definition and all that it refers to."""
    if name in schemas:
        return
    schemas[name] = {}
    schemas[name] = _strict(everything[name])
    for reference in _references(everything[name]):
        _keep(reference, everything, schemas)


def _strict(schema: Any) -> Any:
    """The schema without what only people read, and closed: no property beside those that it names."""
    kept = {key: schema[key] for key in _KEPT if key in schema}
    for key in ("items", "additionalProperties"):
        if isinstance(kept.get(key), dict):
            kept[key] = _strict(kept[key])
    for key in ("allOf", "oneOf"):
        if key in kept:
            kept[key] = [_strict(part) for part in kept[key]]
    if "properties" in kept:
        kept["properties"] = {name: _strict(part) for name, part in kept["properties"].items()}
        kept.setdefault("additionalProperties", False)
    if "$ref" in kept:
        kept["$ref"] = f"#/$defs/{kept['$ref'].removeprefix(_REFERENCE)}"
    return kept


def _references(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        if isinstance(schema.get("$ref"), str):
            yield schema["$ref"].removeprefix(_REFERENCE)
        for part in schema.values():
            yield from _references(part)
    elif isinstance(schema, list):
        for part in schema:
            yield from _references(part)


if __name__ == "__main__":
    sys.exit(main())
