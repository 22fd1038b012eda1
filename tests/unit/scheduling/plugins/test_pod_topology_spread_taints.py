"""A taint that a plan adds to nodes counts in topology spread as one that they were read with."""

from __future__ import annotations

from typing import Any

from rebalancer.cluster.records import Taint
from rebalancer.load.scheduler_view import EMPTY_VIEW
from rebalancer.scheduling.framework.cycle import Placement
from rebalancer.scheduling.framework.plugin import PluginInputs
from rebalancer.scheduling.registry import load_configuration, make_scheduler
from rebalancer.scheduling.state.cluster_state import ClusterState
from tests.builders import a_node, a_pod, a_snapshot
from tests.rows import rows

ZONE = "topology.kubernetes.io/zone"
TAINT = Taint(key="emptied", effect="NoSchedule")
WRITTEN = {"key": "emptied", "effect": "NoSchedule"}
NODES = {"a1": "a", "a2": "a", "b1": "b"}
DEFAULTS = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- pluginConfig:
  - name: PodTopologySpread
    args:
      defaultingType: List
      defaultConstraints:
      - {maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: %s, nodeTaintsPolicy: Honor}
"""
PLAIN = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def placed(tainted: set[str], *, added: set[str], text: str, spec: dict[str, Any]) -> tuple[Any, ...]:
    """Where a pod lands that is spread by zone; two siblings run on a1, and two on b1."""
    nodes = []
    for name, zone in NODES.items():
        node = a_node(name, labels={ZONE: zone})
        node["spec"] = {"taints": [WRITTEN]} if name in tainted else {}
        nodes.append(node)
    running = [
        a_pod(f"web-{at}", node=at[:2], labels={"app": "web"}, **spec) for at in ("a1x", "a1y", "b1x", "b1y")
    ]
    service = {"metadata": {"name": "web", "namespace": "default"}, "spec": {"selector": {"app": "web"}}}
    snapshot = a_snapshot(nodes=nodes, pods=running, services=[service], replicasets=[])
    configuration = load_configuration(text, "test")
    scheduler = make_scheduler(
        configuration, configuration.profiles[0], PluginInputs.of(snapshot, EMPTY_VIEW)
    )
    state = ClusterState.of(snapshot)
    scheduler.place(state, 0)  # what is remembered of the nodes as they are must not be taken later
    for names in ({"b1"}, added):
        if added:
            state.taint(TAINT, {snapshot.nodes.row[name] for name in names})
            found: Placement = scheduler.place(state, 0)
    found = scheduler.place(state, 0)
    return found.feasible.tolist(), found.totals.tolist(), found.chance.tolist()


@rows("policy", ["Honor", "Ignore"])
@rows("when", ["DoNotSchedule", "ScheduleAnyway"])
@rows("tolerations", [[], [{"key": "emptied", "operator": "Exists"}]])
@rows("by_default", [False, True])
def test_a_node_with_an_added_taint_counts_in_no_domain_where_taints_are_honoured(
    policy: str, when: str, tolerations: list[dict[str, str]], by_default: bool
) -> None:
    own = {
        "maxSkew": 1,
        "topologyKey": ZONE,
        "whenUnsatisfiable": when,
        "nodeTaintsPolicy": policy,
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    spec: dict[str, Any] = {"tolerations": tolerations}
    text = DEFAULTS % when if by_default else PLAIN
    if not by_default:
        spec["topologySpreadConstraints"] = [own]
    read = placed({"a1"}, added=set(), text=text, spec=spec)
    assert placed(set(), added={"a1"}, text=text, spec=spec) == read
    if policy == "Honor" and when == "DoNotSchedule" and not tolerations:
        assert read[0] == [1]  # a2 alone: zone a counts none, and b two
