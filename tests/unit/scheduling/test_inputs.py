"""What plugins are told beside the state: what was not read, figures of the network, the queue."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rebalancer.cluster.snapshot import Snapshot
from rebalancer.load.view import SchedulerView
from rebalancer.profiles.types import Profile
from rebalancer.scheduling import (
    ClusterState,
    ObjectsRead,
    PluginInputs,
    Scheduler,
    load_configuration,
    make_scheduler,
    neutral_plugins,
    unread_inputs,
)
from rebalancer.scheduling.framework.queue import queue_order
from rebalancer.scheduling.plugins.articles.network_traffic import NetworkTraffic, published_query, rate_query
from rebalancer.scheduling.plugins.node_properties.node_prefer_avoid_pods import ANNOTATION
from tests.builders import a_node, a_pod, a_snapshot, owned_by

V1 = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
NETWORK = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins: {score: {disabled: [{name: "*"}], enabled: [{name: NetworkTraffic}]}}
  pluginConfig:
  - name: NetworkTraffic
    args: {ip: "http://prometheus:9090", deviceName: eth0, timeRange: 3}
"""


def _profile(text: str = V1) -> Profile:
    return load_configuration(text, "test").profiles[0]


def _scheduler(snapshot: Snapshot, text: str = V1, view: SchedulerView | None = None) -> Scheduler:
    configuration = load_configuration(text, "test")
    inputs = PluginInputs.of(snapshot, view or SchedulerView())
    return make_scheduler(configuration, configuration.profiles[0], inputs)


def _unread(pod: dict[str, Any], *others: dict[str, Any], **kinds: Any) -> tuple[str, ...]:
    snapshot = a_snapshot(nodes=[a_node("n")], pods=[pod, *others], **kinds)
    row = snapshot.pods.row[pod["metadata"]["namespace"], pod["metadata"]["name"]]
    return unread_inputs(_profile(), snapshot.pods.class_of(row), ObjectsRead(snapshot))


def test_a_pod_with_default_constraints_needs_the_services_and_its_controllers_kind() -> None:
    pod = a_pod("p", owner=owned_by("ReplicaSet", "r"))
    assert _unread(pod) == ("replicasets", "services")
    assert _unread(pod, services=[]) == ("replicasets",)
    assert _unread(pod, services=[], replicasets=[]) == ()


def test_a_pod_with_constraints_of_its_own_needs_neither() -> None:
    constraint = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    pod = a_pod("p", owner=owned_by("ReplicaSet", "r"), topologySpreadConstraints=[constraint])
    assert _unread(pod) == ()


def _near(namespace_selector: dict[str, Any]) -> dict[str, Any]:
    term = {
        "topologyKey": "zone",
        "labelSelector": {"matchLabels": {"app": "web"}},
        "namespaceSelector": namespace_selector,
    }
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def test_namespaces_matter_to_those_who_select_them_and_to_those_who_may_be_selected() -> None:
    selective = a_pod("near", affinity=_near({"matchLabels": {"team": "a"}}))
    assert _unread(selective, services=[]) == ("namespaces",)
    assert _unread(a_pod("p", labels={"app": "web"}), selective, services=[]) == ("namespaces",)
    assert _unread(a_pod("p", labels={"app": "db"}), selective, services=[]) == ()
    assert _unread(a_pod("all", affinity=_near({})), services=[]) == ()
    assert _unread(selective, services=[], namespaces=[]) == ()


def test_a_pod_with_claims_needs_what_the_volume_plugins_read() -> None:
    pod = a_pod("p", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}])
    everything: dict[str, list[Any]] = {
        "persistentvolumeclaims": [],
        "persistentvolumes": [],
        "storageclasses": [],
        "csinodes": [],
        "csidrivers": [],
        "csistoragecapacities": [],
        "volumeattachments": [],
    }
    assert _unread(pod, services=[]) == tuple(sorted(everything))
    assert _unread(pod, services=[], **everything) == ()
    assert _unread(a_pod("plain"), services=[]) == ()


def test_the_claim_of_an_ephemeral_volume_is_never_known() -> None:
    pod = a_pod("p", volumes=[{"name": "scratch", "ephemeral": {}}])
    assert _unread(pod, services=[]) == ("the claim of its ephemeral volume scratch",)


@pytest.mark.parametrize("version", ["v1", "v1beta3", "v1beta2", "v1beta1"])
def test_every_plugin_that_is_enabled_by_default_is_modelled(version: str) -> None:
    configuration = load_configuration(V1.replace("v1\n", f"{version}\n"), "test")
    assert neutral_plugins(configuration, configuration.profiles[0]) == ()


def _traffic(values: dict[str, float], *, rate: bool = False) -> tuple[Scheduler, ClusterState, int]:
    snapshot = a_snapshot(nodes=[a_node("n-1"), a_node("n-2")], pods=[a_pod("p")])
    arguments = _profile(NETWORK).argument("NetworkTraffic")
    query = (rate_query if rate else published_query)(arguments)  # type: ignore[arg-type]
    view = SchedulerView(queries={("http://prometheus:9090", query): values})
    state = ClusterState.of(snapshot)
    return _scheduler(snapshot, NETWORK, view), state, state.pod_class[0]


@pytest.mark.parametrize("rate", [False, True])
def test_the_less_a_node_receives_the_higher_it_scores(rate: bool) -> None:
    scheduler, state, pod = _traffic({"n-1": 140_000.9, "n-2": 200_000.0}, rate=rate)
    assert scheduler.place(state, pod).scores["NetworkTraffic"].tolist() == [30, 0]


def test_no_traffic_anywhere_scores_all_alike_and_is_flagged() -> None:
    scheduler, state, pod = _traffic({"n-1": 0.0, "n-2": 0.0})
    placement = scheduler.place(state, pod)
    assert placement.scores["NetworkTraffic"].tolist() == [100, 100]
    assert placement.notes == ("NetworkTraffic: no traffic anywhere: all nodes score 100",)


def test_a_node_without_a_sample_fails_the_cycle() -> None:
    scheduler, state, pod = _traffic({"n-1": 1.0})
    placement = scheduler.place(state, pod)
    assert placement.rejected == "NetworkTraffic: no sample of node n-2"
    assert not placement.chance.any()


def test_the_published_query_covers_the_configured_minutes() -> None:
    arguments: Any = _profile(NETWORK).argument("NetworkTraffic")
    counter = 'node_network_receive_bytes_total{device="eth0"}'
    expected = f"sum_over_time({counter}[3m]) * on(instance) group_left(nodename) (node_uname_info)"
    assert published_query(arguments) == expected
    assert NetworkTraffic({}).note(np.array([1])) == ""


def test_the_queue_is_by_priority_then_age_without_gated_pods() -> None:
    pods = [
        a_pod("young", created="2026-01-01T00:00:09Z"),
        a_pod("old", created="2026-01-01T00:00:01Z"),
        a_pod("urgent", priority=5, created="2026-01-01T00:00:10Z"),
        a_pod("gated", priority=9, schedulingGates=[{"name": "quota"}]),
    ]
    snapshot = a_snapshot(nodes=[a_node("n")], pods=pods)
    order = queue_order(snapshot.pods, range(len(snapshot.pods)))
    assert [snapshot.pods.names[row] for row in order] == ["urgent", "old", "young"]


def test_a_node_is_spared_the_pods_of_the_controller_it_names() -> None:
    owner = owned_by("ReplicaSet", "r")
    node = a_node("n-1")
    avoided = f'{{"podSignature": {{"podController": {{"kind": "ReplicaSet", "uid": "{owner["uid"]}"}}}}}}'
    node["metadata"]["annotations"] = {ANNOTATION: f'{{"preferAvoidPods": [{avoided}]}}'}
    snapshot = a_snapshot(nodes=[node, a_node("n-2")], pods=[a_pod("p", owner=owner)], services=[])
    placement = _scheduler(snapshot, V1.replace("v1\n", "v1beta1\n")).place(ClusterState.of(snapshot), 0)
    assert placement.scores["NodePreferAvoidPods"].tolist() == [0, 1_000_000]
