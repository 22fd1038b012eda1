"""Beside another descheduler a plan warns, and a run evicts nothing unless the policy allows it."""

from __future__ import annotations

import json

from tests.integration.running.hot_clusters import LANDED, HotCluster, cluster, results

__all__ = ["cluster"]

NAME = "kube-system/CronJob/descheduler"


def add_descheduler(cluster: HotCluster, *, suspend: bool) -> None:
    """A CronJob of the descheduler's own image, between two of its Jobs."""
    container = {"name": "it", "image": "registry.k8s.io/descheduler/descheduler:v0.34.0"}
    job = {"spec": {"template": {"spec": {"containers": [container], "restartPolicy": "Never"}}}}
    item = {
        "metadata": {"namespace": "kube-system", "name": "descheduler"},
        "spec": {"schedule": "*/2 * * * *", "suspend": suspend, "jobTemplate": job},
    }
    cluster.sandbox.registry.create("cronjobs", item)


def warnings(cluster: HotCluster) -> list[str]:
    """What a plan says of deschedulers."""
    result = cluster.start("plan", "-o", "json")
    assert result.exit_code == 0, result.stderr
    return [text for text in json.loads(result.stdout)["warnings"] if "descheduler" in text]


def test_a_plan_warns_of_a_descheduler_and_a_run_refuses_to_act(cluster: HotCluster) -> None:
    add_descheduler(cluster, suspend=False)

    (warning,) = warnings(cluster)
    assert warning.startswith(f"a run would refuse to act: another descheduler runs ({NAME})")
    result, _ = cluster.run()
    assert (result.exit_code, cluster.evicted()) == (3, 0)
    assert NAME in result.stderr
    assert "safety.otherDeschedulers: allow" in result.stderr


def test_a_run_acts_where_the_policy_says_that_the_descheduler_is_known(cluster: HotCluster) -> None:
    add_descheduler(cluster, suspend=False)
    cluster.policy += "safety: {otherDeschedulers: allow}\n"

    assert warnings(cluster) == []
    result, outcomes = cluster.run()
    assert result.exit_code == 0, result.stderr
    assert outcomes["outcomes"]
    assert set(results(outcomes)) <= LANDED


def test_a_suspended_descheduler_holds_up_no_run(cluster: HotCluster) -> None:
    add_descheduler(cluster, suspend=True)

    assert warnings(cluster) == []
    result, outcomes = cluster.run()
    assert result.exit_code == 0, result.stderr
    assert set(results(outcomes)) <= LANDED
