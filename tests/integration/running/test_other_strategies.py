"""Runs for other reasons than load do what they are for, and soon there is nothing left to do."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from tests.integration.running.hot_clusters import LANDED, HotCluster, cluster, results

__all__ = ["cluster"]

FURTHER = 3


@pytest.fixture(name="cool")
def _cool(cluster: HotCluster) -> HotCluster:
    """No node is hot, and what moves again is not left alone because it moved."""
    for before, after in (
        ("cpu: 80, memory: 85", "cpu: 99, memory: 99"),
        ("minAge: 10m", "minAge: 0s"),
        ("minGain: 5", "cooldown: 0s"),
    ):
        assert before in cluster.policy
        cluster.policy = cluster.policy.replace(before, after)
    return cluster


def until_rest(cluster: HotCluster) -> list[list[dict[str, Any]]]:
    """The moves of each run until one makes none, after which some more make none either."""
    runs: list[list[dict[str, Any]]] = []
    while not runs or runs[-1]:
        assert len(runs) < 25
        result, outcomes = cluster.run()
        assert result.exit_code == 0, result.stderr
        assert set(results(outcomes)) <= LANDED
        runs.append([item["move"] for item in outcomes["outcomes"]])
    for _ in range(FURTHER):
        assert cluster.run()[1]["outcomes"] == []
    return runs


def pods(cluster: HotCluster) -> dict[str, dict[str, Any]]:
    return {pod["metadata"]["name"]: pod for pod in cluster.sandbox.pods()}


def test_runs_take_crowded_pods_apart_until_none_can_move(cool: HotCluster) -> None:
    cool.policy += "strategies: {duplicates: true}\n"
    planned = json.loads(cool.start("plan", "-o", "json").stdout)["strategies"]["duplicates"]["figures"]
    moves = [move for run in until_rest(cool) for move in run]
    left = json.loads(cool.start("plan", "-o", "json").stdout)["strategies"]["duplicates"]["figures"]

    assert planned["tooMany"] > planned["tooManyAfter"] >= left["tooMany"]
    assert len(moves) == planned["tooMany"] - left["tooMany"]
    assert {move["strategy"] for move in moves} == {"duplicates"}


def test_runs_replace_old_pods_one_of_a_workload_at_a_time(cool: HotCluster) -> None:
    cool.policy += "strategies: {lifetime: {maxAge: 24h}}\n"
    old = set(pods(cool))
    runs = until_rest(cool)

    moved = [move["pod"] for run in runs for move in run]
    assert {pod["name"] for pod in moved} <= old
    assert len(moved) == len({pod["uid"] for pod in moved}) > len(runs[0])
    for run in runs:  # its disruption budget lets two of web go at once
        assert Counter(move["pod"]["workload"] for move in run) <= Counter(
            {"Deployment/web": 2, "Deployment/api": 1, "Deployment/search": 1, "Deployment/mail": 1}
        )


def test_a_run_moves_a_pod_that_restarts_to_another_node_once(cool: HotCluster) -> None:
    name = next(name for name in sorted(pods(cool)) if name.startswith("api"))

    def restarted(pod: dict[str, Any]) -> None:
        pod["status"]["containerStatuses"] = [{"name": "main", "restartCount": 200, "ready": True}]

    cool.sandbox.store.mutate("pods", "shop", name, restarted)
    cool.sandbox.settle()
    cool.policy += "strategies: {restarts: true}\n"
    (first, *_) = until_rest(cool)

    assert [move["pod"]["name"] for move in first] == [name]
    assert name not in pods(cool)
