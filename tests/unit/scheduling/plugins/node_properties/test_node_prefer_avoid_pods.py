"""NodePreferAvoidPods reads an annotation of the node."""

from __future__ import annotations

from rebalancer.cluster.snapshot import Snapshot
from rebalancer.load.scheduler_view import SchedulerView
from rebalancer.scheduling.framework.cycle import Scheduler
from rebalancer.scheduling.framework.plugin import PluginInputs
from rebalancer.scheduling.plugins.node_properties.node_prefer_avoid_pods import ANNOTATION
from rebalancer.scheduling.registry import load_configuration, make_scheduler
from rebalancer.scheduling.state.cluster_state import ClusterState
from tests.builders import a_node, a_pod, a_snapshot, owned_by
from tests.rows import rows

V1 = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def _scheduler(snapshot: Snapshot, text: str = V1, view: SchedulerView | None = None) -> Scheduler:
    configuration = load_configuration(text, "test")
    inputs = PluginInputs.of(snapshot, view or SchedulerView())
    return make_scheduler(configuration, configuration.profiles[0], inputs)


def test_a_node_is_spared_the_pods_of_the_controller_it_names() -> None:
    owner = owned_by("ReplicaSet", "r")
    node = a_node("n-1")
    avoided = f'{{"podSignature": {{"podController": {{"kind": "ReplicaSet", "uid": "{owner["uid"]}"}}}}}}'
    node["metadata"]["annotations"] = {ANNOTATION: f'{{"preferAvoidPods": [{avoided}]}}'}
    snapshot = a_snapshot(nodes=[node, a_node("n-2")], pods=[a_pod("p", owner=owner)], services=[])
    placement = _scheduler(snapshot, V1.replace("v1\n", "v1beta1\n")).place(ClusterState.of(snapshot), 0)
    assert placement.scores["NodePreferAvoidPods"].tolist() == [0, 1_000_000]


@rows("text", ['{"x": ' + "[" * 200_000, "{", "", "[]", '{"preferAvoidPods": 7}'])
def test_an_annotation_that_cannot_be_read_spares_nothing(text: str) -> None:
    """As in the scheduler (node_prefer_avoid_pods.go): such a node scores as one without it."""
    owner = owned_by("ReplicaSet", "r")
    node = a_node("n-1")
    node["metadata"]["annotations"] = {ANNOTATION: text}
    snapshot = a_snapshot(nodes=[node, a_node("n-2")], pods=[a_pod("p", owner=owner)], services=[])
    placement = _scheduler(snapshot, V1.replace("v1\n", "v1beta1\n")).place(ClusterState.of(snapshot), 0)
    assert placement.scores["NodePreferAvoidPods"].tolist() == [1_000_000, 1_000_000]
