"""The embedded cluster's scheduler decides by the model: every decision is found, compared and kept."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from rebalancer.agreement.decisions import Agreement, Result
from rebalancer.observe.plan_options import PlanOptions
from rebalancer.run import agreement
from rebalancer.scheduling.registry import default_configuration
from rebalancer.state.run_state import decode
from rebalancer_demo import Sandbox
from rebalancer_demo.model_decider import ModelDecider
from tests.builders import a_node, a_pod
from tests.waiting import eventually

PODS = 12


@pytest.fixture
def cluster() -> Iterator[Sandbox]:
    objects = [
        {"apiVersion": "v1", "kind": "Node", **a_node(f"node-{number}", cpu=2 + number)}
        for number in range(4)
    ]
    decider = ModelDecider(default_configuration(), seed=1)
    with Sandbox(objects, decide=decider, bookmark_seconds=0.05) as sandbox:
        yield sandbox


def followed(cluster: Sandbox, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Agreement:
    """What is found of pods that are created once the cluster is followed."""
    monkeypatch.setattr(agreement, "STEP_SECONDS", 0.0)
    state = folder / "state.json"
    options = PlanOptions(kubeconfig=cluster.write_kubeconfig(folder / "kubeconfig"), state_path=state)
    begun, found = threading.Event(), list[Agreement]()

    def follow() -> None:
        found.append(
            agreement.watch_agreement(options, 600.0, PODS, None, lambda _tally: None, begun=begun.set)
        )

    thread = threading.Thread(target=follow)
    thread.start()
    assert begun.wait(600.0)
    for number in range(PODS):
        cluster.store.create("pods", a_pod(f"web-{number}", cpu="100m"))
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
