"""The demo's hot cluster with the model as its scheduler, and what a run has left there."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from rebalancer.load.scheduler_view import WatcherMetrics, decode_watcher
from rebalancer.scheduling.registry import load_configuration
from rebalancer_demo import Sandbox, Surface
from rebalancer_demo.hot_cluster import (
    CONFIGURATION,
    WATCHER_NAMESPACE,
    WATCHER_PORT,
    WATCHER_SERVICE,
    hot_cluster,
)
from rebalancer_demo.model_decider import ModelDecider
from tests.waiting import present


def hot_sandbox(
    *,
    seed: int = 3,
    lag_seconds: float = 60.0,
    ready_after: float = 0.2,
    load_watcher: Callable[[Mapping[str, str]], Any] | None = None,
    surface: Surface | None = None,
) -> Sandbox:
    """The cluster, not started yet. Scheduler and rebalancer see it through the same load-watcher."""

    def watch() -> WatcherMetrics:
        return decode_watcher(msgspec.json.encode(serve({})))

    decide = ModelDecider(load_configuration(CONFIGURATION, "test"), watch, seed=seed)
    sandbox = Sandbox(
        hot_cluster(present()),
        decide=decide,
        ready_after=ready_after,
        terminates_after=ready_after,
        surface=surface,
    )
    serve = load_watcher or sandbox.watcher(lag_seconds=lag_seconds)
    sandbox.serve(WATCHER_NAMESPACE, WATCHER_SERVICE, WATCHER_PORT, "watcher", serve)
    return sandbox


def uids(sandbox: Sandbox) -> frozenset[str]:
    """The pods there are."""
    return frozenset(pod["metadata"]["uid"] for pod in sandbox.pods())


def evicted(sandbox: Sandbox, before: frozenset[str]) -> frozenset[str]:
    """Those of the pods there were that are gone or terminating."""
    staying = {pod["metadata"]["uid"] for pod in sandbox.pods() if "deletionTimestamp" not in pod["metadata"]}
    return before - staying


def results_in_state(sandbox: Sandbox) -> dict[str, str]:
    """Result by uid of every eviction in the state ConfigMap, which the next run reads."""
    kept = sandbox.store.get("configmaps", "rebalancer", "state")
    moves = json.loads(kept["data"]["state.json"])["moves"] if kept else []
    return {move["uid"]: move["result"] for move in moves}
