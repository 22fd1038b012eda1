"""NetworkTraffic scores by what Prometheus answers about the network."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rebalancer.cluster.snapshot import Snapshot
from rebalancer.load.scheduler_view import SchedulerView
from rebalancer.profiles.types import Profile
from rebalancer.scheduling.framework.cycle import Scheduler
from rebalancer.scheduling.framework.plugin import PluginInputs
from rebalancer.scheduling.plugins.network_traffic import NetworkTraffic, published_query, rate_query
from rebalancer.scheduling.registry import load_configuration, make_scheduler
from rebalancer.scheduling.state.cluster_state import ClusterState
from tests.builders import a_node, a_pod, a_snapshot

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
