"""One run leaves next to nothing hot: it plans again where replacements landed elsewhere than most likely."""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.conftest import SUMMARY
from tests.e2e import assets, clusters, metrics
from tests.e2e.api import Api
from tests.e2e.command import Rebalancer
from tests.e2e.controlplane import ControlPlane
from tests.e2e.loads import CPU_MILLI, loads_of
from tests.e2e.processes import wait_until

SEED = int(os.environ.get("REBALANCER_REPLANNING_SEED", "2"))
NODES, HOT, CORES, MEAN = 60, 15, 16, 68.0
HOT_ABOVE, COOL_TO = 80.0, 65.0
PROTECTED = 0.15
_SAFE_TO_EVICT = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}
_PODS = "/api/v1/namespaces/default/pods"
_POLICY = {
    "apiVersion": "rebalancer/v1alpha1",
    "kind": "RebalancePolicy",
    "metadata": {"name": "replanning"},
    "scheduler": {"version": assets.MINOR, "cores": os.cpu_count()},
    "load": {"sources": [{"metricsServer": {}}]},
    "hotNodes": {"forRuns": 1, "any": [{"utilization": {"cpu": HOT_ABOVE}, "coolTo": {"cpu": COOL_TO}}]},
    "evictable": {"minAge": "0s", "protect": []},
    "limits": {"perRun": 50, "perNode": 10, "perNamespace": 50, "perWorkload": "50%"},
    "execution": {"waveTimeout": "180s"},
}

RecordProperty = Callable[[str, object], None]


@dataclass(frozen=True)
class _Pod:
    """A pod to be made, and the node it is bound to."""

    workload: str
    node: str


def _loads(chance: random.Random) -> dict[str, float]:
    """What each node is to bear, in percent: some are hot, and all of them are at the mean together."""
    hot = [chance.uniform(82.0, 98.0) for _ in range(HOT)]
    cool = [chance.uniform(50.0, 72.0) for _ in range(NODES - HOT)]
    shift = (MEAN * NODES - sum(hot) - sum(cool)) / len(cool)
    return {
        f"node-{number:02d}": load for number, load in enumerate([*hot, *(load + shift for load in cool)])
    }


def _fill(api: Api, chance: random.Random) -> None:
    """Make workloads and bind their pods by what they use, whatever they request."""
    room = {name: CORES * 10.0 * load for name, load in _loads(chance).items()}  # thousandths of a core
    requestable = dict.fromkeys(room, CORES * 970.0)
    wanted: list[_Pod] = []
    number = 0
    while max(room.values()) > 150.0:
        name, replicas = f"app-{number:03d}", chance.choice([1, 2, 2, 3, 3, 4, 6])
        uses = int(min(chance.lognormvariate(6.9, 0.6), 4000.0, max(room.values()) + 50.0))
        request = max(10, int(uses * chance.lognormvariate(-0.4, 0.5)) // 10 * 10)
        nodes: list[str] = []
        for _ in range(replicas):
            fitting = [
                node
                for node in room
                if room[node] > uses - 100.0 and requestable[node] > request and node not in nodes
            ]
            if not fitting:
                break
            node = max(fitting, key=lambda node: (room[node], node))
            room[node] -= uses
            requestable[node] -= request
            nodes.append(node)
        number += 1
        if not nodes:
            if number > 2000:
                break
            continue
        annotations = {CPU_MILLI: str(uses)} | (_SAFE_TO_EVICT if chance.random() < PROTECTED else {})
        cpu = f"{request}m"
        api.create(clusters.deployment(name, len(nodes), cpu=cpu, memory="64Mi", annotations=annotations))
        wanted += [_Pod(name, node) for node in nodes]
    _bind(api, wanted)


def _bind(api: Api, wanted: list[_Pod]) -> None:
    wait_until(lambda: len(api.list(_PODS)) == len(wanted), f"{len(wanted)} pods made", seconds=300, every=1)
    left: dict[str, list[str]] = {}
    for pod in wanted:
        left.setdefault(pod.workload, []).append(pod.node)
    for made in api.list(_PODS):
        name = made["metadata"]["name"]
        target = {"kind": "Node", "name": left[made["metadata"]["labels"]["app"]].pop()}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
        api.request("POST", f"{_PODS}/{name}/binding", binding)


def _hot(api: Api) -> set[str]:
    return {name for name, load in loads_of(api).items() if load.cpu > HOT_ABOVE}


def test_one_run_leaves_at_most_one_node_hot(
    control_plane: ControlPlane, tmp_path: Path, record_property: RecordProperty
) -> None:
    record_property("seed", SEED)
    control_plane.start(scheduler=False)
    api = control_plane.api
    for number in range(NODES):
        api.create(clusters.node(f"node-{number:02d}", cpu=str(CORES), memory="64Gi"))
    _fill(api, random.Random(SEED))
    control_plane.start_scheduler()
    control_plane.wait_for_pods(seconds=300.0)
    with metrics.exact_metrics(control_plane):
        before, uids = _hot(api), {pod["metadata"]["uid"] for pod in api.list(_PODS)}
        assert len(before) == HOT
        rebalancer = Rebalancer(tmp_path / "run", control_plane.kubeconfig(), json.dumps(_POLICY))
        options = ("--lease=default/rebalancer", f"--state={tmp_path / 'state.json'}")
        planned = rebalancer.plan(options[1]).document
        began = time.monotonic()
        finished = rebalancer.run(*options, seconds=1800)
        seconds = time.monotonic() - began
        assert finished.exit_code == 0, finished.stderr
        document, after = finished.document, _hot(api)
        again = rebalancer.run(*options, seconds=600)

    made = [item for item in document["outcomes"] if item.get("evictedAt") is not None]
    likeliest = sum(item["node"] == item["move"]["landings"][0]["node"] for item in made)
    plans = "; then ".join(
        f"{plan['made']} of {plan['moves']} made, {plan['elsewhere']} elsewhere, {plan['skipped']} skipped"
        for plan in document["plans"]
    )
    record_property(
        SUMMARY,
        f"e2e replanning, seed {SEED}: {len(before)} -> {len(after)} hot nodes in one run, {len(made)} "
        f"evictions, {likeliest} landed as most likely, {seconds:.0f} s; {plans}",
    )
    first = [move["pod"]["uid"] for move in planned["moves"]]
    assert [item["move"]["pod"]["uid"] for item in document["outcomes"]][: len(first)] == first
    assert len(after) <= 1, plans
    assert after <= before  # no node is hot that was not
    assert len(made) <= 25, plans
    assert {item["move"]["pod"]["uid"] for item in made} <= uids  # no pod that a move has made
    assert again.document["outcomes"] == [], again.stderr
