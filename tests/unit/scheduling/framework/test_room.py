"""Filters and scores by the room of a node are asked about a node only when its pods take something else."""

from __future__ import annotations

import pytest

from rebalancer.cluster.arrays import IntArray
from rebalancer.cluster.snapshot import Snapshot
from rebalancer.load.scheduler_view import EMPTY_VIEW
from rebalancer.scheduling.framework.cycle import Scheduler
from rebalancer.scheduling.framework.plugin import PluginInputs
from rebalancer.scheduling.plugins.node_resources.balanced_allocation import NodeResourcesBalancedAllocation
from rebalancer.scheduling.registry import load_configuration, make_scheduler
from rebalancer.scheduling.state.cluster_state import ClusterState
from tests.builders import a_node, a_pod, a_snapshot

V1 = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
NODES = 20
SCORE = "NodeResourcesBalancedAllocation"


def a_cluster() -> Snapshot:
    nodes = [a_node(f"node-{number:02}", cpu=4) for number in range(NODES)]
    pods = [a_pod(f"pod-{number}", node=f"node-{number:02}", cpu="1") for number in range(4)]
    return a_snapshot(nodes=nodes, pods=pods)


def a_scheduler(snapshot: Snapshot) -> Scheduler:
    configuration = load_configuration(V1, "test")
    return make_scheduler(configuration, configuration.profiles[0], PluginInputs.of(snapshot, EMPTY_VIEW))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """The nodes that the score is asked about, a call at a time."""
    calls: list[list[int]] = []
    raw_scores = NodeResourcesBalancedAllocation.raw_scores

    def recorded(
        self: NodeResourcesBalancedAllocation, state: ClusterState, pod_class: int, feasible: IntArray
    ) -> IntArray | None:
        calls.append(feasible.tolist())
        return raw_scores(self, state, pod_class, feasible)

    monkeypatch.setattr(NodeResourcesBalancedAllocation, "raw_scores", recorded)
    return calls


def test_a_score_by_room_is_asked_only_about_nodes_whose_pods_take_something_else(
    asked: list[list[int]],
) -> None:
    snapshot = a_cluster()
    scheduler = a_scheduler(snapshot)
    state = ClusterState.of(snapshot)
    scheduler.place(state, 0)
    asked.clear()
    state.evict(0)
    scheduler.place(state, 0)
    assert asked == [], "a terminating pod takes what it took"
    state.remove(0)
    scheduler.place(state, 0)
    assert asked == [[0]]


def test_states_that_take_turns_are_asked_about_no_node_twice(asked: list[list[int]]) -> None:
    snapshot = a_cluster()
    scheduler = a_scheduler(snapshot)
    with_the_pod = ClusterState.of(snapshot)
    without_it = with_the_pod.copy()
    without_it.remove(0)
    scheduler.place(with_the_pod, 0)
    scheduler.place(without_it, 0)
    scheduler.place(with_the_pod, 0)
    asked.clear()
    scheduler.place(without_it, 0)
    scheduler.place(with_the_pod, 0)
    assert asked == []


def test_a_placement_that_is_read_later_has_the_scores_of_its_time() -> None:
    snapshot = a_cluster()
    scheduler = a_scheduler(snapshot)
    state = ClusterState.of(snapshot)
    before = scheduler.place(state, 0)
    expected = a_scheduler(snapshot).place(ClusterState.of(snapshot), 0).scores[SCORE].tolist()
    state.bind(state.add(0), 7)
    after = scheduler.place(state, 0)
    assert before.scores[SCORE].tolist() == expected
    assert after.scores[SCORE].tolist() != expected


def test_what_the_pods_of_nodes_take_is_the_same_number_only_where_they_take_the_same() -> None:
    state = ClusterState.of(a_cluster())
    first = state.taken.copy()
    assert len(set(first[:4].tolist())) == 1
    assert first[0] != first[5]
    state.remove(0)
    assert state.taken[0] == first[5]
    state.bind(state.add(0), 5)
    assert state.taken[5] == first[1]
    state.restore(0, 0)
    assert state.taken[0] == first[0]
