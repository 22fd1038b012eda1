"""A run that steers, on a real control plane: the scheduler goes by its taints, and none outlives it."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rebalancer.cluster import times
from rebalancer.cluster.live import open_api
from rebalancer.cluster.live.client import KubernetesClient
from rebalancer.cluster.records import Taint
from rebalancer.errors import ExitCode
from rebalancer.execution.journal import read_journal
from rebalancer.execution.own_taints import OwnTaints
from rebalancer.http import Answer
from rebalancer.planning.taints import TAINT_KEY
from tests.conftest import SUMMARY
from tests.e2e import clusters
from tests.e2e.api import Object
from tests.e2e.controlplane import ControlPlane
from tests.e2e.hot_cluster import HotCluster
from tests.e2e.moments import PLACES, SEED, Tally, course_of, disturbed, moments

pytestmark = pytest.mark.safety

KILLS = 50
STOPS = 10


def tainted(cluster: HotCluster) -> dict[str, float]:
    """The nodes with our taint, and the moment until which it says that it may stay."""
    return {
        node["metadata"]["name"]: float(taint["value"].rsplit(".", 1)[1])
        for node in cluster.control_plane.api.list("/api/v1/nodes")
        for taint in node["spec"].get("taints", ())
        if taint["key"] == TAINT_KEY
    }


def test_no_taint_outlives_the_next_run_whenever_a_run_is_killed(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    record_property("seed", SEED)
    tally = Tally("run that steers, SIGKILL")
    with HotCluster.started(tmp_path, steer="softTaint") as cluster:
        whole_run = course_of(cluster, "run")
        assert tainted(cluster) == {}
        for moment in moments(signal.SIGKILL, KILLS, whole_run, PLACES):
            found = disturbed(cluster, moment)
            if found is None:
                assert tainted(cluster) == {}
                continue
            crashed, seconds, _ = found
            tally.seconds.append(seconds)
            left = tainted(cluster)
            lines = read_journal(crashed.journal) if crashed.journal.exists() else ()
            said = [line for line in lines if line["event"] == "steering"]
            tally.counts["runs that left taints"] += bool(left)
            tally.counts["taints left"] += len(left)
            assert set(left) <= {node for line in said for node in line["nodes"]}
            assert set(left.values()) <= {float(int(times.parse(line["until"]))) for line in said}
            if cluster.lease_holder():
                cluster.expire_lease()
            finished = crashed.run_directly()
            assert finished.exit_code == ExitCode.DONE, finished.stderr
            assert tainted(cluster) == {}
    assert tally.counts["runs that left taints"] >= KILLS // 5
    record_property(SUMMARY, tally.line(("runs that left taints", "taints left")))


def test_a_run_that_is_stopped_takes_its_taints_away_itself(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    record_property("seed", SEED)
    tally = Tally("run that steers, SIGTERM")
    with HotCluster.started(tmp_path, steer="softTaint") as cluster:
        whole_run = course_of(cluster, "run")
        for moment in moments(signal.SIGTERM, STOPS, whole_run, PLACES):
            found = disturbed(cluster, moment)
            assert tainted(cluster) == {}
            if found is not None:
                tally.seconds.append(found[1])
    record_property(SUMMARY, tally.line(()))


def test_a_node_takes_one_request_a_change_whatever_its_kubelet_says_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = {"key": "team", "value": "a", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"}
    there: dict[str, list[Object]] = {"bare": [], "one": [theirs], "two": [{**theirs, "key": "b"}, theirs]}
    sent, send = list[str](), KubernetesClient.send

    def counted(client: KubernetesClient, method: str, *request: Any, **options: Any) -> Answer:
        sent.append(method)
        return send(client, method, *request, **options)

    monkeypatch.setattr(KubernetesClient, "send", counted)
    with ControlPlane(tmp_path) as plane:
        api = plane.start(controllers=False, scheduler=False, kwok=False).api

        def all_taints() -> dict[str, list[Object]]:
            nodes = api.list("/api/v1/nodes")
            return {node["metadata"]["name"]: node["spec"].get("taints", []) for node in nodes}

        for name, items in there.items():
            api.create(clusters.node(name))
            api.patch(f"/api/v1/nodes/{name}", {"spec": {"taints": items}})
        runs = open_api(plane.kubeconfig())
        taints = OwnTaints(runs, ("rebalancer", "rebalancer"), "run", time.time() + 600, time.time)
        steps = (
            lambda: taints.begin([*there], (), msgspec.convert(there, dict[str, list[Taint]])),
            lambda: taints.renew(time.time() + 900),
            taints.end,
        )
        for step in steps:
            for name in there:
                api.patch(
                    f"/api/v1/nodes/{name}/status", {"status": {"nodeInfo": {"osImage": str(len(sent))}}}
                )
            step()
            own = [taint for items in all_taints().values() for taint in items if taint["key"] == TAINT_KEY]
            assert len(own) == (0 if step == steps[-1] else len(there))
        assert sent == ["PATCH"] * 9
        assert all_taints() == there


def test_replacements_pass_by_nodes_that_they_would_make_hot_and_their_taints_go_with_each_wave(
    tmp_path: Path,
) -> None:
    with HotCluster.started(tmp_path, steer="softTaint") as cluster:
        given = cluster.new_round()
        loaded = {name for name, load in cluster.loads.items() if load.cpu > 50}
        finished = given.run()
        assert finished.exit_code == ExitCode.DONE, finished.stderr
        lines = read_journal(given.journal)
        avoided = {node for line in lines if line["event"] == "steering" for node in line["nodes"]}
        outcomes = [line for line in lines if line["event"] == "outcome"]

        assert avoided
        assert avoided <= loaded
        assert {line["result"] for line in outcomes} == {"Landed"}
        assert {line["node"] for line in outcomes} <= cluster.loads.keys() - loaded
        assert tainted(cluster) == {}
