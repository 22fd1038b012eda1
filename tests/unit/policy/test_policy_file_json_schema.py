"""The JSON schema of a policy, by which editors complete and check one."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from rebalancer.policy.policy_file import SCHEMA_ID, schema
from rebalancer.policy.schema import API_VERSION, KIND
from tests.rows import rows

ROOT = Path(__file__).parents[3]
SHIPPED = sorted([*(ROOT / "policies").glob("*.yaml"), *(ROOT / "k8s").glob("**/policy.yaml")])


@functools.cache
def validator() -> jsonschema.Draft202012Validator:
    """The schema, which is known to be one."""
    found = schema()
    jsonschema.Draft202012Validator.check_schema(found)
    return jsonschema.Draft202012Validator(found)


def every_default(entry: Any, place: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Each part of a schema that has a default, with its place."""
    if isinstance(entry, dict):
        if "default" in entry and not place.endswith("/properties"):
            yield place, entry
        for key, part in entry.items():
            yield from every_default(part, f"{place}/{key}")
    elif isinstance(entry, list):
        for index, part in enumerate(entry):
            yield from every_default(part, f"{place}/{index}")


def test_it_is_a_schema_with_an_identifier() -> None:
    jsonschema.Draft202012Validator.check_schema(schema())

    assert schema()["$id"] == SCHEMA_ID


def test_it_accepts_every_default_that_it_shows() -> None:
    found = schema()
    defaults = list(every_default(found))

    assert len(defaults) > 50
    for place, entry in defaults:
        part = {**{key: item for key, item in entry.items() if key != "default"}, "$defs": found["$defs"]}
        errors = jsonschema.Draft202012Validator(part).iter_errors(entry["default"])
        assert [error.message for error in errors] == [], place


@rows("path", SHIPPED)
def test_it_accepts_every_policy_that_is_shipped(path: Path) -> None:
    validator().validate(yaml.safe_load(path.read_text()))


def test_it_refuses_a_misspelt_key() -> None:
    with pytest.raises(jsonschema.ValidationError):
        validator().validate({"apiVersion": API_VERSION, "kind": KIND, "limts": {}})


@rows(
    "section, value",
    [
        ("limits", {"perRun": -1}),
        ("limits", {"perHour": -1}),
        ("hotNodes", {"any": [{"utilization": {"cpu": 150}}]}),
        ("hotNodes", {"any": [{"deviation": {"cpu": -5}}]}),
    ],
)
def test_a_number_out_of_its_bounds_is_found_by_an_editor(section: str, value: object) -> None:
    policy = {"apiVersion": API_VERSION, "kind": KIND, section: value}

    with pytest.raises(jsonschema.ValidationError):
        validator().validate(policy)


def test_a_percentage_may_be_a_text_and_no_key_is_titled_by_itself() -> None:
    policy = {"apiVersion": API_VERSION, "kind": KIND, "hotNodes": {"any": [{"utilization": {"cpu": "80%"}}]}}

    validator().validate(policy)
    titles = [part["title"] for part in schema()["properties"].values() if "title" in part]
    assert titles == []
