"""A cluster of ``bench.loaded_clusters`` on a real control plane, whose load is what its pods use."""

from __future__ import annotations

from typing import Any

from bench.loaded_clusters import CORES, HOT_ABOVE, NODES, RULES, workloads
from bench.requested_clusters import HELD
from tests.e2e import assets, clusters
from tests.e2e.api import Api
from tests.e2e.controlplane import ControlPlane
from tests.e2e.loads import CPU_MILLI, loads_of
from tests.e2e.processes import wait_until

PODS = "/api/v1/namespaces/default/pods"
_SETTLED_SECONDS = 300.0


def policy(steer: str) -> dict[str, Any]:
    """The policy of its runs, judged by metrics-server; ``steer`` is none or softTaint."""
    return {
        "apiVersion": "rebalancer/v1alpha1",
        "kind": "RebalancePolicy",
        "metadata": {"name": "loaded"},
        "scheduler": {"version": assets.MINOR},
        "load": {"sources": [{"metricsServer": {}}]},
        **RULES,
        "execution": {"waveSize": 5, "waveTimeout": "180s", "steer": steer},
        "safety": {"maxPendingPods": 20},
    }


def start_loaded(control_plane: ControlPlane, seed: int) -> None:
    """Start a control plane with this cluster, and wait until all of its pods are ready."""
    control_plane.start(scheduler=False)
    api = control_plane.api
    for number in range(NODES):
        api.create(clusters.node(f"node-{number:02d}", cpu=str(CORES), memory="64Gi"))
    _fill(api, seed)
    control_plane.start_scheduler()
    control_plane.wait_for_pods(seconds=_SETTLED_SECONDS)


def hot_nodes(api: Api) -> set[str]:
    """The nodes that are hot by what their pods use now."""
    return {name for name, load in loads_of(api).items() if load.cpu > HOT_ABOVE}


def _fill(api: Api, seed: int) -> None:
    """Make workloads and bind their pods by what they use, whatever they request."""
    wanted = list(workloads(seed))
    for item in wanted:
        annotations = {CPU_MILLI: str(item.uses)} | (HELD if item.protected else {})
        api.create(
            clusters.deployment(
                item.name,
                len(item.nodes),
                cpu=f"{item.requests}m",
                memory="64Mi",
                annotations=annotations,
            )
        )
    _bind(api, {item.name: list(item.nodes) for item in wanted})


def _bind(api: Api, left: dict[str, list[str]]) -> None:
    """``left`` are the nodes that the pods of each workload are to be bound to."""
    pods = sum(map(len, left.values()))
    wait_until(lambda: len(api.list(PODS)) == pods, f"{pods} pods made", seconds=_SETTLED_SECONDS, every=1)
    for made in api.list(PODS):
        name = made["metadata"]["name"]
        target = {"kind": "Node", "name": left[made["metadata"]["labels"]["app"]].pop()}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
        api.request("POST", f"{PODS}/{name}/binding", binding)
