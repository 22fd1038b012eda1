"""Strategies beside hot nodes on a real control plane: before, the moves, after, and that they rest."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.e2e import clusters
from tests.e2e.command import Finished, Rebalancer
from tests.e2e.controlplane import ControlPlane

NODES = tuple(f"node-{number}" for number in range(4))
SIZES = {"web": 6, "api": 4, "db": 3}
FURTHER = 5
pytestmark = pytest.mark.safety
_PODS = "/api/v1/namespaces/default/pods"
_POLICY = """
apiVersion: rebalancer/v1alpha1
kind: RebalancePolicy
scheduler: {{version: "1.34", allowUnverifiedVersion: true}}
load: {{sources: [{{requests: {{}}}}]}}
hotNodes: {{forRuns: 1, any: [{{utilization: {{cpu: 99}}}}]}}
evictable: {{minAge: 0s, protect: []}}
limits: {{perRun: 50, perNode: 50, perNamespace: 50, perWorkload: 100%}}
planning: {{cooldown: 0s, cooldownMax: 0s}}
execution: {{waveSize: 5, firstWave: 5, waveTimeout: 120s}}
strategies: {{{strategies}}}
"""


class Crowded:
    """Four nodes, on the first of which every pod was placed while the others were cordoned."""

    def __init__(self, control_plane: ControlPlane, folder: Path) -> None:
        self.control_plane, self.folder, self.runs = control_plane, folder, 0
        control_plane.start()
        for name in NODES:
            control_plane.api.create(clusters.node(name, cpu="16"))
        self._cordon(unschedulable=True)
        for name, replicas in SIZES.items():
            control_plane.api.create(clusters.deployment(name, replicas))
        control_plane.wait_for_pods(_PODS)
        self._cordon(unschedulable=False)

    def _cordon(self, *, unschedulable: bool) -> None:
        for name in NODES[1:]:
            self.control_plane.api.patch(f"/api/v1/nodes/{name}", {"spec": {"unschedulable": unschedulable}})

    def run(self, strategies: str) -> Finished:
        """A run to its end, once all pods are there."""
        self.control_plane.wait_for_pods(_PODS)
        self.runs += 1
        policy = _POLICY.format(strategies=strategies)
        command = Rebalancer(self.folder / str(self.runs), self.control_plane.kubeconfig(), policy)
        finished = command.run("--lease=default/rebalancer", "--state-config-map=default/state")
        assert finished.exit_code == 0, finished.stderr
        return finished

    def pods(self) -> list[dict[str, Any]]:
        """The pods there are."""
        return self.control_plane.api.list(_PODS)

    def spread(self) -> dict[str, list[int]]:
        """How many pods of each workload its nodes run, the most first."""
        counts = {name: Counter[str]() for name in SIZES}
        for pod in self.pods():
            counts[pod["metadata"]["labels"]["app"]][pod["spec"]["nodeName"]] += 1
        return {name: sorted(count.values(), reverse=True) for name, count in counts.items()}


@pytest.fixture
def crowded(control_plane: ControlPlane, tmp_path: Path) -> Crowded:
    return Crowded(control_plane, tmp_path / "runs")


def moves(finished: Finished) -> list[tuple[str, str]]:
    """The workload of each move, and how it ended."""
    return [(item["move"]["pod"]["workload"], item["result"]) for item in finished.document["outcomes"]]


def test_each_strategy_does_what_it_is_for_and_then_evicts_nothing(crowded: Crowded) -> None:
    assert crowded.spread() == {name: [size] for name, size in SIZES.items()}

    first = crowded.run("duplicates: true")
    found = crowded.spread()
    assert {result for _, result in moves(first)} <= {"Landed", "LandedElsewhere"}
    assert all(max(found[name]) <= -(-size // len(NODES)) for name, size in SIZES.items()), found
    assert len(moves(first)) == sum(size - -(-size // len(NODES)) for size in SIZES.values())

    before = {pod["metadata"]["uid"] for pod in crowded.pods()}
    second = crowded.run("duplicates: true, lifetime: {maxAge: 1s}")
    assert Counter(workload for workload, _ in moves(second)) == dict.fromkeys(
        ("Deployment/web", "Deployment/api", "Deployment/db"), 1
    )
    assert len(before - {pod["metadata"]["uid"] for pod in crowded.pods()}) == len(SIZES)

    restarting = crowded.pods()[0]["metadata"]["name"]
    status = crowded.control_plane.api.get(f"{_PODS}/{restarting}")["status"]
    for item in status["containerStatuses"]:
        item["restartCount"] = 200
    crowded.control_plane.api.patch(f"{_PODS}/{restarting}/status", {"status": status})
    third = crowded.run("restarts: {sameNode: true}")
    assert [item["move"]["pod"]["name"] for item in third.document["outcomes"]] == [restarting]

    for _ in range(FURTHER):
        again = crowded.run("duplicates: true, lifetime: {maxAge: 1h}, restarts: true, failed: true")
        assert moves(again) == []
