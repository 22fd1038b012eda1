"""One run leaves next to nothing hot: it plans again where replacements landed elsewhere than most likely."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

from bench.loaded_clusters import HOT, MOST_EVICTIONS, MOST_HOT
from tests.conftest import SUMMARY
from tests.e2e import assets, metrics
from tests.e2e.command import Rebalancer
from tests.e2e.controlplane import ControlPlane
from tests.e2e.loaded_cluster import PODS, hot_nodes, policy, start_loaded

SEED = int(os.environ.get("REBALANCER_REPLANNING_SEED", "2"))
# From 1.35 on nothing is drawn among equal nodes: plans know more landings, and make nearly as many nodes as
# cool as coolTo as can be. 35 are the fewest evictions that bring all of them there but one.
MOST = MOST_EVICTIONS if int(assets.MINOR.split(".")[1]) < 35 else 35
# none or softTaint, with which nodes have a soft taint meanwhile.
STEER = os.environ.get("REBALANCER_REPLANNING_STEER", "none")

RecordProperty = Callable[[str, object], None]


def test_one_run_leaves_at_most_one_node_hot(
    control_plane: ControlPlane, tmp_path: Path, record_property: RecordProperty
) -> None:
    record_property("seed", SEED)
    start_loaded(control_plane, SEED)
    api = control_plane.api
    with metrics.exact_metrics(control_plane):
        before, uids = hot_nodes(api), {pod["metadata"]["uid"] for pod in api.list(PODS)}
        assert len(before) == HOT
        rebalancer = Rebalancer(tmp_path / "run", control_plane.kubeconfig(), json.dumps(policy(STEER)))
        options = ("--lease=default/rebalancer", f"--state={tmp_path / 'state.json'}")
        planned = rebalancer.plan(options[1]).document
        began = time.monotonic()
        finished = rebalancer.run(*options, seconds=1800)
        seconds = time.monotonic() - began
        assert finished.exit_code == 0, finished.stderr
        document, after = finished.document, hot_nodes(api)
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
