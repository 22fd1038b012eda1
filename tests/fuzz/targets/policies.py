"""Policies: text to a checked policy, which is written and read again as the same."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rebalancer import documents
from rebalancer.errors import InputError
from rebalancer.policy.policy_file import load_policy, parse_policy, to_yaml
from rebalancer.policy_import import import_policy
from tests.fuzz.clusters import folder
from tests.fuzz.structure import yaml_structure
from tests.fuzz.target import Target

POLICIES = Path(__file__).parents[3] / "policies"
PRICED = """apiVersion: rebalancer/v1alpha1
kind: RebalancePolicy
strategies: {consolidation: {pricesFile: prices.yaml}}
"""
INSTANCE = "m5.large"
PRICES = f"{INSTANCE}: 0.096\nc5.large: 1e-1\n"
FOREIGN = """apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
nodeSelector: pool=web
profiles:
- name: default
  pluginConfig:
  - name: DefaultEvictor
    args: {nodeFit: true, labelSelector: {matchLabels: {a: b}}, priorityThreshold: {value: 7}}
  - name: LowNodeUtilization
    args: {thresholds: {cpu: 20, memory: 20}, targetThresholds: {cpu: 50}, useDeviationThresholds: false}
  - name: PodLifeTime
    args: {maxPodLifeTimeSeconds: 86400, states: [Pending], namespaces: {exclude: [kube-system]}}
  plugins:
    balance: {enabled: [LowNodeUtilization]}
    deschedule: {enabled: [PodLifeTime]}
"""


def decode(content: bytes) -> None:
    """Read a file, and what is written of it."""
    path = folder() / "policy.yaml"
    path.write_bytes(content)
    policy = load_policy(path).policy
    assert parse_policy(to_yaml(policy), "written").policy == policy


def seeds() -> Mapping[str, bytes]:
    """The policies that are shipped."""
    return {path.name: path.read_bytes() for path in sorted(POLICIES.glob("*.yaml"))}


def decode_foreign(content: bytes) -> None:
    """Turn a policy of another descheduler into one of ours."""
    imported = import_policy(content.decode("utf-8", "replace"), "theirs.yaml")
    parse_policy(documents.to_yaml(imported.policy), "ours.yaml")


def decode_prices(content: bytes) -> None:
    """Read a policy that names a file of prices, of which nothing may be shown."""
    (folder() / "priced.yaml").write_text(PRICED)
    (folder() / "prices.yaml").write_bytes(content)
    try:
        load_policy(folder() / "priced.yaml")
    except InputError as error:
        if INSTANCE in str(error):
            raise RuntimeError(f"it quotes the file: {error}") from None
        raise


TARGETS = (
    Target("policy", decode, seeds, yaml_structure),
    Target("foreign-policy", decode_foreign, lambda: {"theirs.yaml": FOREIGN.encode()}, yaml_structure),
    Target(
        "prices", decode_prices, lambda: {"prices.yaml": b"m5.large: 0.096\nc5.large: 1e-1\n"}, yaml_structure
    ),
)
