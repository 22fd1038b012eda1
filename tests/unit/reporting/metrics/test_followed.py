"""What is counted over the life of a service stays bounded, whatever happens in its cluster."""

from __future__ import annotations

from msgspec.structs import replace
from prometheus_client import generate_latest

from rebalancer.execution.events import MoveEnded
from rebalancer.reporting.metrics import MAX_NAMESPACES, RunMetrics
from rebalancer.state.results import Result
from tests.unit.reporting.builders import an_outcome


def evicted_from(metrics: RunMetrics) -> set[str]:
    lines = generate_latest(metrics.registry).decode().splitlines()
    return {line.split('"')[1] for line in lines if line.startswith("rebalancer_evictions_total{")}


def test_of_namespaces_that_come_and_go_those_evicted_from_last_have_series() -> None:
    metrics = RunMetrics()
    for number in range(3 * MAX_NAMESPACES):
        for namespace in ("shop", f"preview-{number}"):
            for result in (Result.LANDED, Result.REFUSED, Result.PENDING):
                outcome = an_outcome(result)
                pod = replace(outcome.move.pod, namespace=namespace)
                metrics.follow(MoveEnded(replace(outcome, move=replace(outcome.move, pod=pod))))
    found = evicted_from(metrics)
    assert len(found) == MAX_NAMESPACES
    assert {"shop", f"preview-{3 * MAX_NAMESPACES - 1}"} <= found
    assert "preview-0" not in found


def test_every_series_has_the_name_of_the_cluster_where_one_is_given() -> None:
    metrics = RunMetrics("eu")
    metrics.ended(0, 0.0)
    lines = generate_latest(metrics.registry).decode().splitlines()
    assert all('cluster="eu"' in line for line in lines if not line.startswith("#"))
    assert 'rebalancer_runs_total{cluster="eu",exit_code="0"} 1.0' in lines
