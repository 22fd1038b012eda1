"""Where a recording tells no version of the API server, that of the newest kubelet stands in for it."""

from __future__ import annotations

from typing import Any

import pytest

from rebalancer.load.raw_figures import RawFigures
from rebalancer.planning.inputs import ApiServer, Observation, SchedulerFacts
from rebalancer.planning.scheduler_facts import newest_kubelet, scheduler_facts
from rebalancer.policy.policy_file import LoadedPolicy, parse_policy
from tests.builders import a_node, a_snapshot

POLICY = "apiVersion: rebalancer/v1alpha1\nkind: RebalancePolicy\n"


def a_node_with_kubelet(name: str, version: str) -> dict[str, Any]:
    node = a_node(name)
    node["status"]["nodeInfo"] = {"kubeletVersion": version}
    return node


NODES = [
    a_node_with_kubelet("a", "v1.34.1+k3s1"),
    a_node_with_kubelet("b", "v1.33.5-eks-113cf36"),
    a_node_with_kubelet("c", "none"),
    a_node("d"),
]


def facts_of(policy: LoadedPolicy, *, server: str | None = None, live: bool = False) -> SchedulerFacts:
    observation = Observation(
        a_snapshot(nodes=NODES),
        RawFigures(),
        0.0,
        configurations={"": None},
        server=ApiServer(server),
        live=live,
    )
    (facts,) = scheduler_facts(observation, policy)
    return facts


@pytest.fixture
def policy() -> LoadedPolicy:
    return parse_policy(POLICY, "policy.yaml")


def test_the_newest_kubelet_counts() -> None:
    assert newest_kubelet(a_snapshot(nodes=NODES)) == "1.34"
    assert newest_kubelet(a_snapshot(nodes=[a_node("a")])) == ""


def test_it_stands_in_where_nothing_else_tells_the_version(policy: LoadedPolicy) -> None:
    facts = facts_of(policy)

    assert (facts.version, facts.is_as_kubelets) == ("1.34", True)


def test_the_api_server_goes_before_it(policy: LoadedPolicy) -> None:
    facts = facts_of(policy, server="v1.35.2")

    assert (facts.version, facts.is_as_kubelets) == ("1.35", False)


def test_a_stated_version_goes_before_it() -> None:
    facts = facts_of(parse_policy(POLICY + 'scheduler: {version: "1.36"}\n', "policy.yaml"))

    assert (facts.version, facts.is_as_kubelets) == ("1.36", False)


def test_a_live_cluster_is_never_judged_by_its_kubelets(policy: LoadedPolicy) -> None:
    assert facts_of(policy, live=True).version == ""
