"""Rates, pauses and the longest duration that a policy sets, kept by runs that follow each other."""

from __future__ import annotations

import json

import pytest

from rebalancer.execution.outcomes import Outcomes
from rebalancer.execution.waves import RunContext
from rebalancer.planning.plan import Plan
from rebalancer.run import run as runs
from tests.integration.running.hot_clusters import HotCluster, cluster, results

__all__ = ["cluster"]


def test_a_rate_is_kept_over_runs_by_the_state(cluster: HotCluster) -> None:
    cluster.policy = cluster.policy.replace("limits: {", "limits: {perHour: 1, ")
    state = ("--state", str(cluster.folder / "state.json"))
    _, first = cluster.run(*state)
    result, second = cluster.run(*state)

    assert (results(first), second["outcomes"], cluster.evicted()) == (["Landed"], [], 1)
    assert result.exit_code == 0
    kept = json.loads(cluster.start("plan", *state, "-o", "json").stdout)["kept"]
    assert any("perHour 1 (1 before this plan) is reached" in item["because"] for item in kept)


def test_a_run_without_a_memory_of_earlier_ones_keeps_no_rate_and_so_evicts_nothing(
    cluster: HotCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "state_store", lambda *_, **__: None)  # as in a pod without --state-config-map
    scoped = "scoped: [{namespaces: [shop], perDay: 5}]"
    cluster.policy = cluster.policy.replace("limits: {", f"limits: {{{scoped}, ")
    result, _ = cluster.run()

    assert result.exit_code == 3
    assert "perDay count what earlier runs evicted, and this run has no state of them" in result.stderr
    assert cluster.evicted() == 0


def test_a_run_pauses_between_its_waves(cluster: HotCluster) -> None:
    cluster.policy = cluster.policy.replace("waveSize: 3", "waveSize: 1, pauseBetweenWaves: 10m")
    passed: list[int] = []
    cluster.waits.after(590.0, lambda: passed.append(cluster.evicted()))
    cluster.waits.after(1790.0, lambda: passed.append(cluster.evicted()))
    _, outcomes = cluster.run()

    assert results(outcomes) == ["Landed"] * 4
    assert passed == [1, 3]


def test_a_policy_says_how_long_a_run_may_take_and_an_option_goes_before_it(
    cluster: HotCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    longest: list[float | None] = []

    def carried_out(plan: Plan, context: RunContext) -> Outcomes:
        longest.append(context.clock.max_duration_seconds)
        return Outcomes(plan_inputs=plan.inputs, run=context.run)

    monkeypatch.setattr(runs, "carry_out", carried_out)
    cluster.run()
    cluster.policy = cluster.policy.replace("waveSize: 3", "waveSize: 3, maxDuration: 20m")
    cluster.run()
    cluster.run("--max-duration", "10m")
    assert longest == [None, 1200.0, 600.0]
