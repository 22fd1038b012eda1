"""A snapshot that is turned back is the one of then, and what follows it becomes the one of now."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from rebalancer.agreement.moments import Following, turned_back
from rebalancer.cluster.pod_classes import key_of
from rebalancer.cluster.snapshot import Snapshot
from rebalancer.scheduling.state.cluster_state import ClusterState
from tests.builders import a_node
from tests.conftest import examples
from tests.unit.agreement.watched import FIRST_VERSION, Watched

NODES, NAMES = ("a", "b"), ("web-0", "web-1", "web-2")
ACTIONS = st.lists(
    st.tuples(st.sampled_from(NAMES), st.integers(0, 7), st.sampled_from(NODES)), min_size=1, max_size=40
)


def acted(actions: list[tuple[str, int, str]]) -> Watched:
    """Pods that come, are bound, labelled, nominated, evicted, finish and go; nodes that are labelled."""
    cluster = Watched(*map(a_node, NODES))
    uids = 0
    for name, action, node in actions:
        pods = cluster.objects[next(kind for kind in cluster.objects if kind.plural == "pods")]
        pod = pods.get(name)
        if action == 7:
            cluster.label(node, zone=str(len(cluster.changes)))
        elif pod is None:
            uids += 1
            cluster.create(name, uid=f"{name}-{uids}", cpu=f"{uids}m")
        elif action in (0, 1, 2) and not pod["spec"].get("nodeName"):
            cluster.bind(name, node)
        elif action == 3:
            cluster.change(name, metadata={"labels": {"revision": str(len(cluster.changes))}})
        elif action == 4 and pod["spec"].get("nodeName"):
            cluster.change(name, metadata={"deletionTimestamp": "2026-06-01T12:00:00Z"})
        elif action == 5 and pod["spec"].get("nodeName"):
            cluster.change(name, status={"phase": "Succeeded"})
        elif action == 6 and not pod["spec"].get("nodeName"):
            cluster.change(name, status={"nominatedNodeName": node})
        else:
            cluster.delete(name)
    return cluster


def described(snapshot: Snapshot) -> dict[str, tuple[str, bool, bytes, str]]:
    """By uid of the pods on a node or nominated to one: where, whether it leaves, its class."""
    pods = snapshot.pods
    return {
        pods.uids[row]: (
            snapshot.nodes.names[pods.node[row]] if pods.node[row] >= 0 else "",
            bool(pods.terminating[row]),
            key_of(pods.class_of(row)),
            pods.nominated.get(row, ""),
        )
        for row in range(len(pods))
        if pods.node[row] >= 0 or row in pods.nominated
    }


def counted(state: ClusterState) -> tuple[object, ...]:
    """What a scheduler counts on each node, whatever order resources and pods have."""
    columns = sorted(range(len(state.classes.resources)), key=state.classes.resources.__getitem__)
    live = [0] * len(state.nodes)
    for pod, node in enumerate(state.node):
        if node >= 0 and not state.terminating[pod]:
            live[node] += 1
    nominated = sorted(
        (key_of(state.classes[state.pod_class[pod]]), node) for pod, node in state.nominated.items()
    )
    return state.requested[:, columns].tolist(), state.pod_count.tolist(), live, nominated


@settings(max_examples=examples(60), deadline=None)
@given(ACTIONS, st.data())
def test_a_snapshot_is_turned_back_to_any_moment(
    actions: list[tuple[str, int, str]], data: st.DataObject
) -> None:
    cluster = acted(actions)
    version = data.draw(st.sampled_from(sorted(cluster.snapshots)))
    undone = [change for change in cluster.changes if change.version > version]

    then = turned_back(cluster.snapshots[cluster.version], undone)

    assert described(then) == described(cluster.snapshots[version])
    assert [node.metadata.labels for node in then.nodes.records] == [
        node.metadata.labels for node in cluster.snapshots[version].nodes.records
    ]


@settings(max_examples=examples(60), deadline=None)
@given(ACTIONS, st.data())
def test_a_state_that_follows_changes_counts_what_the_cluster_then_holds(
    actions: list[tuple[str, int, str]], data: st.DataObject
) -> None:
    cluster = acted([item for item in actions if item[1] != 7] or [("web-0", 0, "a")])
    version = data.draw(st.sampled_from(sorted(cluster.snapshots)))
    snapshot = turned_back(cluster.snapshots[cluster.version], cluster.changes)
    following = Following(snapshot, ClusterState.of(snapshot))
    until = [change for change in cluster.changes if change.version <= version]

    following.apply(cluster.changes)
    assert counted(following.state) == counted(ClusterState.of(cluster.snapshots[cluster.version]))

    following.undo([change for change in cluster.changes if change.version > version])
    assert counted(following.state) == counted(ClusterState.of(cluster.snapshots[version]))

    following.undo(until)
    assert counted(following.state) == counted(ClusterState.of(cluster.snapshots[FIRST_VERSION]))


def test_what_kubelets_write_all_the_time_is_not_kept() -> None:
    cluster = Watched(a_node("a"))
    cluster.create("web-0")
    cluster.bind("web-0", "a")
    kept = len(cluster.changes)

    cluster.change("web-0", status={"phase": "Running", "startTime": "2026-06-01T12:00:00Z"})
    cluster.label("a", **{"kubernetes.io/hostname": "a"})

    assert len(cluster.changes) == kept


def test_pods_of_a_node_that_came_later_were_nowhere_before() -> None:
    cluster = Watched(a_node("b"))
    from rebalancer.cluster.kinds import NODES as KIND

    cluster.write(KIND, a_node("a"))
    cluster.create("web-0")
    cluster.bind("web-0", "a")

    then = turned_back(cluster.snapshots[cluster.version], cluster.changes)

    assert then.nodes.names == ("b",)
    assert np.all(then.pods.node == -1)
