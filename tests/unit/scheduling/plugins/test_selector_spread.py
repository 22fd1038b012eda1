"""SelectorSpread scores in the schedulers that have it among their defaults, up to 1.19."""

from __future__ import annotations

from rebalancer.load.scheduler_view import EMPTY_VIEW
from rebalancer.scheduling.framework.plugin import PluginInputs
from rebalancer.scheduling.registry import default_configuration, make_scheduler
from rebalancer.scheduling.state.cluster_state import ClusterState
from rebalancer.scheduling.versions.release import Release
from tests.builders import a_node, a_pod, a_snapshot

ZONE = "topology.kubernetes.io/zone"
SERVICE = {"metadata": {"name": "web", "namespace": "default"}, "spec": {"selector": {"app": "web"}}}


def scores(release: Release, *, zoned: bool, service: bool = True) -> dict[str, list[int]]:
    """Of a, where two pods of the Service run, b, where one does, and c, in another zone than these."""
    zones = {"a": "x", "b": "x", "c": "y"}
    nodes = [a_node(name, labels={ZONE: zone} if zoned else {}) for name, zone in zones.items()]
    pods = [
        a_pod("q", labels={"app": "web"}),
        a_pod("p-0", node="a", labels={"app": "web"}),
        a_pod("p-1", node="a", labels={"app": "web"}),
        a_pod("p-2", node="b", labels={"app": "web"}),
    ]
    snapshot = a_snapshot(nodes=nodes, pods=pods, services=[SERVICE] if service else [])
    configuration = default_configuration("1.19")
    inputs = PluginInputs.of(snapshot, EMPTY_VIEW, release)
    scheduler = make_scheduler(configuration, configuration.profiles[0], inputs)
    state = ClusterState.of(snapshot, release)
    row = snapshot.pods.row["default", "q"]
    placement = scheduler.place(state, state.pod_class[row])
    return {name: values.tolist() for name, values in placement.scores.items()}


def test_nodes_with_fewer_pods_of_the_service_score_higher() -> None:
    found = scores(Release.of("1.19"), zoned=False)
    assert found["SelectorSpread"] == [0, 50, 100]
    assert found["PodTopologySpread"] == [200, 200, 200]


def test_zones_weigh_twice_as_much_as_nodes() -> None:
    assert scores(Release.of("1.19"), zoned=True)["SelectorSpread"] == [0, 16, 100]


def test_a_pod_of_no_service_scores_alike_everywhere() -> None:
    assert scores(Release.of("1.19"), zoned=True, service=False)["SelectorSpread"] == [100, 100, 100]


def test_default_constraints_take_its_place_since_1_20() -> None:
    found = scores(Release.of("1.20"), zoned=True)
    assert "SelectorSpread" not in found
    assert len(set(found["PodTopologySpread"])) > 1
