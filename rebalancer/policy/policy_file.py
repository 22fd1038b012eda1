"""Policies in and out: text to a checked policy, a policy to text, and the JSON schema."""

from __future__ import annotations

import hashlib
import pathlib
from dataclasses import dataclass
from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core.core_schema import WithDefaultSchema

from rebalancer.documents import parse, read_text, redacted_document, redacted_text, validate
from rebalancer.documents import to_yaml as dump_yaml
from rebalancer.policy.resources import check_resources
from rebalancer.policy.schema import API_VERSION, KIND, RebalancePolicy


@dataclass(frozen=True, slots=True)
class LoadedPolicy:
    """A policy, where it was written, and the SHA-256 of its text without secrets."""

    policy: RebalancePolicy
    source: str
    digest: str


def load_policy(path: str | pathlib.Path) -> LoadedPolicy:
    """The policy in a file; InputError with file:line:column when it cannot be used."""
    return parse_policy(read_text(path), str(path))


def parse_policy(text: str, source: str) -> LoadedPolicy:
    """The policy in a text; ``source`` is its name in errors."""
    document = parse(text, source)
    if isinstance(document.value, dict):
        for key, expected in (("apiVersion", API_VERSION), ("kind", KIND)):
            found = document.value.get(key)
            if found is None:
                raise document.error((), f"{key} is required", hint=f"write {key}: {expected}")
            if found != expected:
                raise document.error(
                    (key,), f"{found!s:.60} is not supported", hint=f"write {key}: {expected}"
                )
    policy = validate(RebalancePolicy, document)
    check_resources(policy, document)
    return LoadedPolicy(policy, source, _digest(redacted_text(text, source)))


def default_policy() -> LoadedPolicy:
    """The policy with every default."""
    policy = RebalancePolicy()
    return LoadedPolicy(policy, "defaults", _digest(to_yaml(policy)))


def _digest(text: str) -> str:
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def to_yaml(policy: RebalancePolicy) -> str:
    """The whole policy as YAML, defaults included; it parses back to an equal one."""
    return dump_yaml(policy.model_dump(mode="json", by_alias=True, exclude_none=True))


def shown(policy: RebalancePolicy) -> tuple[Any, bool]:
    """The whole policy as plain values without its secrets, and whether it has any."""
    value = policy.model_dump(mode="json", by_alias=True, exclude_none=True)
    safe = redacted_document(value)
    return safe, safe != value


SCHEMA_ID = "urn:rebalancer:policy:v1alpha1"


class _WrittenDefaults(GenerateJsonSchema):
    """Shows a default as a policy would write it: ``10m``, where the program holds 600 seconds."""

    def default_schema(self, schema: WithDefaultSchema) -> JsonSchemaValue:
        """The schema of a field that has a default."""
        found = super().default_schema(schema)
        serialization: Any = schema["schema"].get("serialization") or {}
        if found.get("default") is not None and "function" in serialization:
            found["default"] = serialization["function"](schema["default"])
        return found


def schema() -> dict[str, Any]:
    """The JSON schema of a policy, keys in camelCase, with a sentence for each."""
    found = RebalancePolicy.model_json_schema(
        by_alias=True, mode="validation", schema_generator=_WrittenDefaults
    )
    found["required"] = ["apiVersion", "kind"]
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": SCHEMA_ID, **found}
