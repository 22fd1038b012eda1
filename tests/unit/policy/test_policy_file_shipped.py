"""The policies that come with rebalancer say what they seem to."""

from __future__ import annotations

from pathlib import Path

import yaml

from rebalancer.policy.hotness import HotNodes
from rebalancer.policy.policy_file import default_policy, load_policy, parse_policy, starter
from rebalancer.policy.schedulers import SchedulerSettings
from rebalancer.policy.schema import Metadata, RebalancePolicy
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


def guards(policy: RebalancePolicy) -> dict[str, float]:
    """What bounds what a run does, each so that a larger figure is bolder."""
    pods = 1000
    evictable = policy.evictable
    limits = policy.limits
    execution = policy.execution
    safety = policy.safety
    return {
        "load.maxAge": policy.load.max_age,
        "load.minCoverage": -policy.load.min_coverage,
        "evictable.minAge": -evictable.min_age,
        "evictable.priorityBelow": evictable.priority_below,
        "evictable.protect": -len(evictable.protect),
        "evictable.jobs": evictable.jobs,
        "evictable.minReplicas": -evictable.min_replicas,
        "limits.perRun": limits.per_run,
        "limits.perNode": limits.per_node,
        "limits.perNamespace": limits.per_namespace,
        "limits.perWorkload": limits.per_workload.of(pods),
        "planning.confidence": -policy.planning.confidence,
        "planning.cooldown": -policy.planning.cooldown,
        "execution.waveSize": execution.wave_size,
        "execution.firstWave": execution.first_wave,
        "execution.onUnexpectedLanding": execution.on_unexpected_landing == "continue",
        "safety.maxNotReadyNodes": safety.max_not_ready_nodes.of(pods),
        "safety.maxPendingPods": safety.max_pending_pods.of(pods),
        "safety.unknownScheduler": safety.unknown_scheduler == "proceed",
        "safety.otherDeschedulers": safety.other_deschedulers == "allow",
    }


ROOT = Path(__file__).parents[3]
BOLD = {
    "balanced": "named so, and says so in its first line",
    "consolidate": "a node is emptied as a whole, so its limits are the pods of a node",
}


def policy_of_the_chart() -> RebalancePolicy:
    values = yaml.safe_load((ROOT / "charts" / "rebalancer" / "values.yaml").read_text())
    return RebalancePolicy.model_validate(values["policy"])


def test_the_conservative_policy_those_of_chart_and_manifests_and_the_defaults_are_one() -> None:
    expected = RebalancePolicy(metadata=Metadata(name="conservative"))
    assert load_policy(ROOT / "policies" / "conservative.yaml").policy == expected
    assert load_policy(ROOT / "k8s" / "base" / "policy.yaml").policy == expected
    assert policy_of_the_chart() == expected


@rows("path", POLICIES)
def test_no_policy_we_ship_is_bolder_than_the_defaults_unless_it_says_so(path: Path) -> None:
    defaults = guards(RebalancePolicy())
    given = guards(load_policy(path).policy)
    bolder = {name for name, figure in given.items() if figure > defaults[name]}
    assert bool(bolder) == (path.stem in BOLD), bolder


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
