"""One run leaves next to nothing hot: it plans again where replacements landed elsewhere than most likely."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

from bench.loaded_clusters import CORES, HOT, HOT_ABOVE, MOST_EVICTIONS, MOST_HOT, NODES, RULES, workloads
from bench.requested_clusters import HELD
from tests.conftest import SUMMARY
from tests.e2e import assets, clusters, metrics
from tests.e2e.api import Api
from tests.e2e.command import Rebalancer
from tests.e2e.controlplane import ControlPlane
from tests.e2e.loads import CPU_MILLI, loads_of
from tests.e2e.processes import wait_until

SEED = int(os.environ.get("REBALANCER_REPLANNING_SEED", "2"))
# From 1.35 on nothing is drawn among equal nodes: plans know more landings, and make nearly as many nodes as
# cool as coolTo as can be. 35 are the fewest evictions that bring all of them there but one.
MOST = MOST_EVICTIONS if int(assets.MINOR.split(".")[1]) < 35 else 35
# none or softTaint, with which nodes have a soft taint meanwhile.
STEER = os.environ.get("REBALANCER_REPLANNING_STEER", "none")
_PODS = "/api/v1/namespaces/default/pods"
_POLICY = {
    "apiVersion": "rebalancer/v1alpha1",
    "kind": "RebalancePolicy",
    "metadata": {"name": "replanning"},
    "scheduler": {"version": assets.MINOR},
    "load": {"sources": [{"metricsServer": {}}]},
    **RULES,
    "execution": {
        "waveSize": 5,
        "waveTimeout": "180s",
        "steer": STEER,
    },
    "safety": {"maxPendingPods": 20},
}

RecordProperty = Callable[[str, object], None]


def _fill(api: Api) -> None:
    """Make workloads and bind their pods by what they use, whatever they request."""
    wanted = list(workloads(SEED))
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
    wait_until(lambda: len(api.list(_PODS)) == pods, f"{pods} pods made", seconds=300, every=1)
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
    _fill(api)
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
        f"e2e replanning, seed {SEED}, steer {STEER}: {len(before)} -> {len(after)} hot nodes in one run, "
        f"{len(made)} evictions, {likeliest} landed as most likely, {seconds:.0f} s; {plans}",
    )
    first = [move["pod"]["uid"] for move in planned["moves"]]
    assert [item["move"]["pod"]["uid"] for item in document["outcomes"]][: len(first)] == first
    last = document["plans"][-1]
    assert last["moves"] or last["hotNodes"] == len(after), plans  # the run knows of its own moves, each once
    assert len(after) <= (MOST_HOT if STEER == "none" else 0), plans
    assert after <= before  # no node is hot that was not
    assert len(made) <= MOST, plans
    assert {item["move"]["pod"]["uid"] for item in made} <= uids  # no pod that a move has made
    assert again.document["outcomes"] == [], again.stderr
