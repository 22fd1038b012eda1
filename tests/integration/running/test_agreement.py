"""The embedded cluster's scheduler decides by the model: every decision is found, compared and kept."""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rebalancer.agreement import following
from rebalancer.agreement.decisions import Agreement, Decision, Result, Tally
from rebalancer.cluster.dumps.listing import Recording
from rebalancer.cluster.live.watching import LiveCluster
from rebalancer.observe.plan_options import PlanOptions
from rebalancer.scheduling.registry import default_configuration
from rebalancer.state.run_state import decode
from rebalancer_demo import Sandbox
from rebalancer_demo.model_decider import ModelDecider
from tests.builders import a_node, a_pod
from tests.waiting import eventually

PODS = 12


def a_cluster(bookmark_seconds: float) -> Sandbox:
    objects = [
        {"apiVersion": "v1", "kind": "Node", **a_node(f"node-{number}", cpu=2 + number)}
        for number in range(4)
    ]
    decider = ModelDecider(default_configuration(), seed=1)
    return Sandbox(objects, decide=decider, bookmark_seconds=bookmark_seconds)


@pytest.fixture
def cluster() -> Iterator[Sandbox]:
    with a_cluster(0.05) as sandbox:
        yield sandbox


@pytest.fixture
def quiet_cluster() -> Iterator[Sandbox]:
    """One whose server says how far a watch has come only where the watch ends."""
    with a_cluster(3600.0) as sandbox:
        yield sandbox


def followed(
    cluster: Sandbox,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    pods: int = PODS,
    one_by_one: bool = False,
    told: Path | None = None,
) -> Agreement:
    """What is found of pods that are created once the cluster is followed; ``told`` is a configuration."""
    monkeypatch.setattr(following, "STEP_SECONDS", 0.05)
    monkeypatch.setattr(following, "MAX_SHARE", 1000.0)
    kubeconfig, state = cluster.write_kubeconfig(folder / "kubeconfig"), folder / "state.json"
    options = PlanOptions(kubeconfig=kubeconfig, state_path=state, scheduler_config=told)
    begun, found, compared = threading.Event(), list[Agreement](), [0]

    def stepped(tally: Tally, _: following.Step | None) -> None:
        compared[0] = tally.decisions

    def follow() -> None:
        found.append(following.watch_agreement(options, 600.0, pods, stepped, begun=begun.set))

    thread = threading.Thread(target=follow)
    thread.start()
    assert begun.wait(600.0)
    for number in range(pods):
        cluster.store.create("pods", a_pod(f"web-{number}", cpu="100m"))
        if one_by_one:
            eventually(lambda number=number: compared[0] > number, awaited="the decision is compared")  # type: ignore[misc]
    eventually(lambda: not thread.is_alive(), awaited="all decisions were compared")
    return found[0]


def test_every_binding_is_compared_and_what_was_measured_is_kept_for_runs(
    cluster: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = followed(cluster, tmp_path, monkeypatch)

    assert (found.decisions, found.landed) == (PODS, PODS)
    assert {item.pod for item in found.latest} == {f"default/web-{number}" for number in range(PODS)}
    assert {item.result for item in found.latest} <= {Result.AS_COMPUTED, Result.REORDERED}
    kept = decode((tmp_path / "state.json").read_bytes(), "state.json").agreement
    assert kept is not None
    assert (kept.decisions, kept.landed) == (PODS, PODS)


def test_bindings_are_compared_though_no_pod_changes_any_more_while_other_objects_do(
    quiet_cluster: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "_ARRIVING_SECONDS", 0.2)
    list_again = LiveCluster.current
    listed = [0]

    def with_something_else_changed(cluster: LiveCluster, *arguments: Any, **options: Any) -> Recording:
        """Each reading comes after a change that no watch of pods brings."""
        listed[0] += 1
        config_map = {"metadata": {"name": f"noise-{listed[0]}", "namespace": "default"}}
        quiet_cluster.store.create("configmaps", config_map)
        return list_again(cluster, *arguments, **options)

    is_due = following.Following.is_due

    def is_due_once_all_is_quiet(follower: following.Following) -> bool:
        pods = quiet_cluster.store.all("pods")
        ready = [pod for pod in pods if pod.get("status", {}).get("phase") == "Running"]
        return len(ready) == 2 and is_due(follower)

    monkeypatch.setattr(LiveCluster, "current", with_something_else_changed)
    monkeypatch.setattr(following.Following, "is_due", is_due_once_all_is_quiet)

    found = followed(quiet_cluster, tmp_path, monkeypatch, pods=2)

    assert (found.decisions, found.waiting) == (2, 0)


def test_so_many_decisions_as_asked_for_are_counted_though_more_came_at_once() -> None:
    unpredictable, compared = Result.UNPREDICTABLE, Result.AS_COMPUTED
    found = [_decision(result) for result in (compared, unpredictable, compared, unpredictable, compared)]

    assert [following.until_compared(found, count) for count in (1, 2, 3, 4)] == [1, 3, 5, 5]
    assert following.until_compared([], 1) == following.until_compared(found[1:2], 1) - 1 == 0


def _decision(result: Result) -> Decision:
    return Decision("default/web", "uid", 1, 1.0, "default-scheduler", "node-1", result)


@pytest.mark.parametrize(("again", "tried"), [(0.0, 2), (math.inf, 1)])
def test_misses_that_come_one_by_one_are_explained_again_and_again_but_not_all_the_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, again: float, tried: int
) -> None:
    monkeypatch.setattr(following, "TRIES", 1)
    monkeypatch.setattr(following, "TRY_AGAIN_SECONDS", again)
    taint = {"key": "gpu", "value": "", "effect": "NoSchedule"}
    nodes = [a_node("small"), a_node("large", cpu=64, memory="256Gi", taints=[taint])]
    objects = [{"apiVersion": "v1", "kind": "Node", **item} for item in nodes]
    told = tmp_path / "told.yaml"
    off = {"filter": {"disabled": [{"name": "TaintToleration"}]}}
    off |= {"preScore": off["filter"], "score": off["filter"]}
    document = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    told.write_text(json.dumps({**document, "profiles": [{"plugins": off}]}))
    with Sandbox(objects, decide=ModelDecider(default_configuration()), bookmark_seconds=0.05) as cluster:
        found = followed(cluster, tmp_path, monkeypatch, pods=7, one_by_one=True, told=told)

    assert (found.decisions, found.landed) == (7, 0)
    (suspect,) = (item for item in found.suspects if item.what == "TaintToleration")
    assert (suspect.decisions, suspect.compared) == (tried, tried)
