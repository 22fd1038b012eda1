"""A protection that names nothing of the cluster is a line under a plan's headline, and ends a run."""

from __future__ import annotations

import json

import yaml

from tests.integration.running.hot_clusters import HotCluster, cluster

__all__ = ["cluster"]

MISSPELT = "evictable.namespaces.exclude names the namespace kube-sytem, which the cluster does not have"


def protect(cluster: HotCluster, namespace: str) -> None:
    """Let the policy exclude a further namespace."""
    document = yaml.safe_load(cluster.policy)
    document["evictable"]["namespaces"] = {"exclude": ["kube-system", namespace]}
    cluster.policy = yaml.safe_dump(document)


def test_a_protection_that_matches_nothing_ends_a_run_before_it_evicts(cluster: HotCluster) -> None:
    protect(cluster, "kube-sytem")
    plan = cluster.start("plan", "-o", "json")
    table = cluster.start("plan")
    result, _ = cluster.run()

    (sentence,) = json.loads(plan.stdout)["protectsNothing"]
    assert sentence.startswith(MISSPELT)
    assert table.stdout.splitlines()[1].startswith("PROTECTS NOTHING: evictable.namespaces.exclude")
    assert (result.exit_code, cluster.evicted()) == (2, 0)
    assert MISSPELT in result.stderr
    assert "a pattern such as shop* may match nothing" in result.stderr


def test_a_pattern_that_matches_nothing_holds_up_no_run(cluster: HotCluster) -> None:
    protect(cluster, "istio-*")
    plan = cluster.start("plan", "-o", "json")
    result, _ = cluster.run()

    assert json.loads(plan.stdout)["protectsNothing"] == []
    assert result.exit_code == 0, result.stderr


def test_a_label_that_no_pod_has_protects_none_and_ends_a_run(cluster: HotCluster) -> None:
    document = yaml.safe_load(cluster.policy)
    expression = {"key": "ap", "operator": "NotIn", "values": ["db"]}
    document["evictable"]["podSelector"] = {"matchExpressions": [expression]}
    cluster.policy = yaml.safe_dump(document)
    table = cluster.start("plan").stdout.splitlines()
    result, _ = cluster.run()

    said = "evictable.podSelector names the label ap, which no pod has (did you mean app?)"
    assert said in " ".join(" ".join(table[1:3]).split())
    assert table[1].startswith("PROTECTS NOTHING: ")
    assert (result.exit_code, cluster.evicted()) == (2, 0)
    assert said in result.stderr
