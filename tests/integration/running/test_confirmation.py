"""While a user reads the plan the cluster goes on: an old plan is checked again before its first wave."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rebalancer.deadlines import StopRequest
from rebalancer.errors import SafetyError
from rebalancer.execution.outcomes import Outcomes
from rebalancer.observe.plan_options import PlanOptions, RunOptions
from rebalancer.planning.plan import Plan
from rebalancer.run import run as plan_age
from rebalancer.run.run import run as run_pipeline
from rebalancer_demo.objects import Object
from tests.integration.running.hot_clusters import HotCluster, cluster

__all__ = ["cluster"]


def confirmed(cluster: HotCluster, meanwhile: Callable[[Plan], Any]) -> Outcomes:
    """A run; this happens while its user reads the plan."""
    policy = cluster.folder / "policy.yaml"
    policy.write_text(cluster.policy)
    kubeconfig = cluster.sandbox.write_kubeconfig(cluster.folder / "kubeconfig")
    options = PlanOptions(policy_path=policy, kubeconfig=kubeconfig, state_path=cluster.folder / "state.json")
    run_options = RunOptions(journal=cluster.folder / "journal.jsonl")
    _, outcomes = run_pipeline(options, run_options, (), StopRequest(), meanwhile)
    return outcomes


def protect_what_moves(cluster: HotCluster) -> Callable[[Plan], None]:
    def annotate(pod: Object) -> None:
        pod["metadata"].setdefault("annotations", {})["karpenter.sh/do-not-disrupt"] = "true"

    def protect(plan: Plan) -> None:
        for move in plan.moves:
            cluster.sandbox.store.mutate("pods", move.pod.namespace, move.pod.name, annotate)

    return protect


def test_a_plan_that_waited_for_its_answer_is_checked_again_before_its_first_wave(
    cluster: HotCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan_age, "MAX_FRESH_SECONDS", -1.0)
    outcomes = confirmed(cluster, protect_what_moves(cluster))
    assert outcomes.outcomes
    assert {outcome.result.value for outcome in outcomes.outcomes} == {"Skipped"}
    assert "karpenter.sh/do-not-disrupt" in outcomes.outcomes[0].because
    assert cluster.evicted() == 0


def test_a_plan_that_waited_too_long_is_not_carried_out_and_the_lease_is_free(
    cluster: HotCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan_age, "MAX_CONFIRMATION_SECONDS", -1.0)
    with pytest.raises(SafetyError, match="old when it was confirmed; nothing was evicted"):
        confirmed(cluster, lambda _: None)
    assert cluster.evicted() == 0
    lease = cluster.sandbox.store.get("leases", "rebalancer", "rebalancer")
    assert lease is not None
    assert lease["spec"]["holderIdentity"] == ""


def test_a_lease_taken_by_hand_meanwhile_is_seen_before_anything_is_evicted(cluster: HotCluster) -> None:
    def take(_plan: Plan) -> None:
        cluster.sandbox.store.mutate(
            "leases", "rebalancer", "rebalancer", lambda item: item["spec"].update(holderIdentity="other")
        )

    outcomes = confirmed(cluster, take)
    assert outcomes.stop is not None
    assert outcomes.stop.value == "LeaseLost"
    assert cluster.evicted() == 0
