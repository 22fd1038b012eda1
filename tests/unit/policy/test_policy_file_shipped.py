"""The policies that come with rebalancer say what they seem to."""

from __future__ import annotations

from pathlib import Path

from rebalancer.policy.hotness import HotNodes
from rebalancer.policy.policy_file import default_policy, load_policy, parse_policy, starter
from rebalancer.policy.schedulers import SchedulerSettings
from rebalancer.policy.schema import RebalancePolicy
from tests.rows import rows
from tests.unit.policy.policy_texts import read_back

POLICIES = sorted((Path(__file__).parents[3] / "policies").glob("*.yaml"))


def test_the_starter_says_exactly_the_defaults() -> None:
    assert parse_policy(starter(), "starter").policy == RebalancePolicy() == default_policy().policy


@rows("path", POLICIES)
def test_the_policies_we_ship_are_valid_and_named_after_their_file(path: Path) -> None:
    policy = load_policy(path).policy
    assert policy.metadata.name == path.stem
    assert read_back(policy) == policy


def test_the_policy_named_default_says_the_defaults() -> None:
    shipped = next(load_policy(path).policy for path in POLICIES if path.stem == "default")
    assert shipped == RebalancePolicy()


def test_policies_for_articles_are_shipped_and_the_conservative_one_names_no_configuration() -> None:
    names = {path.stem for path in POLICIES}
    assert {"balanced", "conservative", "k3s-trimaran", "network-traffic", "pods-per-node"} <= names
    conservative = next(load_policy(path).policy for path in POLICIES if path.stem == "conservative")
    assert conservative.scheduler == SchedulerSettings()
    assert conservative.hot_nodes.any == HotNodes().any


@rows("path", POLICIES)
def test_a_policy_we_ship_runs_where_the_namespaces_are_missing_that_it_protects(path: Path) -> None:
    """A name that no namespace has is taken for a slip; a pattern may match nothing."""
    excluded = load_policy(path).policy.evictable.namespaces.exclude
    assert {name for name in excluded if "*" not in name} <= {"kube-system"}
