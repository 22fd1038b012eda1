"""Policies: text to a checked policy, which is written and read again as the same."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rebalancer.policy.policy_file import load_policy, parse_policy, to_yaml
from tests.fuzz.clusters import folder
from tests.fuzz.structure import yaml_structure
from tests.fuzz.target import Target

POLICIES = Path(__file__).parents[3] / "policies"


def decode(content: bytes) -> None:
    """Read a file, and what is written of it."""
    path = folder() / "policy.yaml"
    path.write_bytes(content)
    policy = load_policy(path).policy
    assert parse_policy(to_yaml(policy), "written").policy == policy


def seeds() -> Mapping[str, bytes]:
    """The policies that are shipped."""
    return {path.name: path.read_bytes() for path in sorted(POLICIES.glob("*.yaml"))}


TARGETS = (Target("policy", decode, seeds, yaml_structure),)
