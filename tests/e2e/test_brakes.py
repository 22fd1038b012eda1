"""What keeps a run from evicting, or stops it: brakes, leases, and its longest duration."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Callable
from datetime import datetime

import pytest
import yaml

from rebalancer.errors import ExitCode
from tests.conftest import SUMMARY
from tests.e2e import clusters
from tests.e2e.api import Object
from tests.e2e.command import COMMAND
from tests.e2e.processes import wait_until
from tests.e2e.relocation_scene import (
    LEASE,
    NODES,
    PODS,
    REPLICAS,
    SCHEDULER_LEASE,
    Record,
    Run,
    Scene,
    api_time,
    ready_nodes,
)
from tests.e2e.silent_webhook import a_webhook_that_never_answers

pytestmark = pytest.mark.safety


# What goes wrong, each the way it does on a cluster, and what the run must say of it.


def pause(_scene: Scene, run: Run | None) -> None:
    """Somebody pauses the policy while the run has it open."""
    if run is not None:
        changed = yaml.safe_load(run.policy.read_text())
        changed["safety"]["pause"] = True
        run.policy.write_text(yaml.safe_dump(changed))


def switch_off(scene: Scene, run: Run | None) -> None:
    """Somebody pauses all runs: before there was one by rebalancer, during one by kubectl."""
    if run is None:
        kubeconfig = f"--kubeconfig={scene.control_plane.kubeconfig()}"
        pause = [*COMMAND, "pause", "incident 42", "--lease=default/rebalancer", kubeconfig]
        subprocess.run(pause, check=True, capture_output=True, timeout=60)
    else:
        lease = ("--namespace=default", "lease", "rebalancer")
        scene.control_plane.kubectl("annotate", *lease, "rebalancer/paused=incident 42")


def nodes_fail(scene: Scene, _run: Run | None) -> None:
    """Two nodes stop being ready, one may."""
    for node in NODES[:2]:
        change = {"metadata": {"annotations": {"e2e/not-ready": "true"}}}
        scene.api.patch(f"/api/v1/nodes/{node}", change)
    wait_until(lambda: len(ready_nodes(scene.api)) == len(NODES) - 1, "two nodes are not ready")


def pods_pend(scene: Scene, _run: Run | None) -> None:
    """Three pods fit nowhere, two may."""
    scene.api.create(clusters.deployment("huge", 3, cpu="900"))

    def tried() -> bool:
        pods = scene.api.list(PODS, labelSelector="app=huge")
        conditions = [item for pod in pods for item in pod["status"].get("conditions", ())]
        return [item.get("reason") for item in conditions] == ["Unschedulable"] * 3

    wait_until(tried, "three pods are Pending")


def scheduler_dies(scene: Scene, _run: Run | None) -> None:
    """The scheduler ended more than a minute ago: its lease says when it was last alive."""
    scene.control_plane.stop_part("kube-scheduler")
    scene.api.patch(SCHEDULER_LEASE, {"spec": {"renewTime": api_time(time.time() - 61.0)}})


Trouble = Callable[[Scene, Run | None], None]
BRAKES = {
    "paused": (pause, ("the policy is paused", "safety.pause")),
    "paused by the Lease": (
        switch_off,
        ("runs are paused by the lease default/rebalancer ('incident 42')", "lets them go on"),
    ),
    "nodes not ready": (nodes_fail, ("2 of 6 nodes are not ready (new-0, new-1); the limit is 1",)),
    "pods pending": (pods_pend, ("3 pods are Pending (default/huge-", "the limit is 2")),
    "scheduler dead": (
        scheduler_dies,
        (
            "the scheduler default-scheduler is not alive",
            "nobody holds lease kube-system/kube-scheduler, renewed ",
            "s ago, and not again in the ",
        ),
    ),
}
EACH_BRAKE = pytest.mark.parametrize("trouble", BRAKES)


@EACH_BRAKE
def test_a_brake_that_is_on_lets_nothing_be_evicted_and_says_why(
    scene: Scene, trouble: str, record_property: Record
) -> None:
    happens, sentences = BRAKES[trouble]
    happens(scene, None)
    run = scene.start(pause=trouble == "paused").finished()
    assert run.exit_code == ExitCode.STOPPED, run
    assert [line["event"] for line in run.journal if line["event"] == "evicting"] == []
    assert scene.untouched() == set(scene.pods)
    assert run.document["stop"] == "Brake"
    for sentence in sentences:
        assert sentence in run.document["stopped"]
        assert sentence in run.stderr
    # Of a scheduler that is not alive no pod is planned to move; every other brake skips what is planned.
    planned = 0 if trouble == "scheduler dead" else REPLICAS
    results = [outcome["result"] for outcome in run.document["outcomes"]]
    assert results == ["Skipped"] * planned
    record_property(SUMMARY, f"brakes, before a run, {trouble}: 0 evictions, exit {run.exit_code}")


@EACH_BRAKE
def test_a_brake_that_comes_on_between_waves_stops_the_run_before_the_next(
    scene: Scene, trouble: str, record_property: Record
) -> None:
    happens, sentences = BRAKES[trouble]
    run = scene.start()
    run.wait_for("evicted")
    if trouble == "scheduler dead":
        # The replacement of the pod that was evicted has been placed before.
        wait_until(lambda: len(_bound(scene)) == REPLICAS, "the replacement is bound")
    happens(scene, run)
    ended = scene.finish(run)
    assert ended.exit_code == ExitCode.STOPPED, ended
    assert ended.document["stop"] == "Brake", ended.document["stopped"]
    for sentence in sentences:
        assert sentence in ended.document["stopped"]
    assert len(run.events("evicting")) == len(run.events("evicted")) == 1
    assert len(scene.untouched()) == REPLICAS - 1
    results = sorted(outcome["result"] for outcome in ended.document["outcomes"])
    assert results == ["Landed", "Skipped", "Skipped", "Skipped"]
    record_property(SUMMARY, f"brakes, between waves, {trouble}: 1 eviction of 4, exit {ended.exit_code}")


@pytest.mark.parametrize("trouble", ["paused", "paused by the Lease"])
def test_a_pause_between_two_evictions_of_one_wave_holds_for_the_second(
    scene: Scene, trouble: str, record_property: Record
) -> None:
    happens, sentences = BRAKES[trouble]
    # The first eviction is in flight until the webhook hangs up, and is then granted.
    with a_webhook_that_never_answers(scene, failure_policy="Ignore") as webhook:
        run = scene.start(wave_size=REPLICAS)
        run.wait_for("evicting")
        webhook.wait_until_asked()  # after the line it looks at pod and brakes, and evicts then
        happens(scene, run)
        assert run.events("evicted") == []
        webhook.hang_up()
        ended = scene.finish(run)
    assert ended.exit_code == ExitCode.STOPPED, ended
    assert ended.document["stop"] == "Brake"
    for sentence in sentences:
        assert sentence in ended.document["stopped"]
    assert len(run.events("evicted")) == 1
    assert len(scene.untouched()) == REPLICAS - 1
    results = sorted(outcome["result"] for outcome in ended.document["outcomes"])
    assert results == ["Landed", "Skipped", "Skipped", "Skipped"]
    assert len(run.events("wave-started")) == 1
    record_property(SUMMARY, f"brakes, inside a wave, {trouble}: 1 eviction of 4, exit {ended.exit_code}")


def _bound(scene: Scene) -> list[Object]:
    return [
        pod
        for pod in scene.api.list(PODS, labelSelector="app=web")
        if pod["spec"].get("nodeName") and "deletionTimestamp" not in pod["metadata"]
    ]


def test_without_trouble_all_four_pods_are_moved(scene: Scene) -> None:
    ended = scene.finish(scene.start())
    assert ended.exit_code == ExitCode.DONE, ended
    assert [outcome["result"] for outcome in ended.document["outcomes"]] == ["Landed"] * REPLICAS
    assert scene.untouched() == set()


def test_a_second_run_leaves_and_says_who_holds_the_lease_and_the_first_goes_on(
    scene: Scene, record_property: Record
) -> None:
    # The first is in its first wave for as long as the second takes: the replacement is not ready before.
    first = scene.start()
    first.wait_for("evicted")
    second = scene.start().finished()
    assert second.exit_code == ExitCode.LEASE_HELD, second
    assert len(first.events("evicting")) == 1
    assert first.events("outcome") == []
    holder = first.journal()[0]["run"]
    assert re.search(rf"lease default/rebalancer: held by '[^']+_\d+_{holder}'", second.stderr)
    assert second.journal == []  # a run that may not act leaves no trace
    ended = scene.finish(first)
    assert ended.exit_code == ExitCode.DONE, ended
    assert scene.api.get(LEASE)["spec"].get("holderIdentity", "") == ""
    record_property(
        SUMMARY, f"two runs at once: the second left with {second.exit_code} and named the holder"
    )


def test_the_lease_of_a_killed_run_expires_and_the_next_run_acts(
    scene: Scene, record_property: Record
) -> None:
    first = scene.start()
    first.wait_for("evicted")
    first.process.kill()
    first.process.communicate()
    # As long a lease as the test wants to wait for.
    scene.api.patch(LEASE, {"spec": {"leaseDurationSeconds": 15}})
    left = scene.untouched()
    wait_until(lambda: len(_bound(scene)) == REPLICAS, "the replacement is bound")
    scene.let_pods_be_ready()
    renewed = scene.api.get(LEASE)["spec"]["renewTime"]
    codes = []
    deadline = time.monotonic() + 120.0
    while time.monotonic() < deadline:
        run = scene.start()
        ended = scene.finish(run)
        codes.append(ended.exit_code)
        if ended.exit_code != ExitCode.LEASE_HELD:
            break
        assert scene.untouched() == left
    assert codes[-1] == ExitCode.DONE, ended
    assert scene.untouched() == set()
    taken = scene.api.get(LEASE)["spec"]["acquireTime"]
    waited = datetime.fromisoformat(taken) - datetime.fromisoformat(renewed)
    assert waited.total_seconds() >= 15.0
    record_property(
        SUMMARY, f"a killed run: {len(codes) - 1} runs found its lease held, the next acted after it expired"
    )


def test_a_run_whose_lease_is_taken_away_evicts_nothing_more(scene: Scene, record_property: Record) -> None:
    run = scene.start()
    run.wait_for("evicted")
    scene.api.patch(LEASE, {"spec": {"holderIdentity": "somebody-else", "renewTime": api_time(time.time())}})
    ended = scene.finish(run)
    assert ended.exit_code == ExitCode.STOPPED, ended
    assert ended.document["stop"] == "LeaseLost"
    assert "the lease was lost: it is held by 'somebody-else'" in ended.document["stopped"]
    assert len(run.events("evicted")) == 1
    assert [line["attempts"] for line in run.events("skipped")] in ([], [0])  # an intent, never a request
    assert len(scene.untouched()) == REPLICAS - 1
    assert scene.api.get(LEASE)["spec"]["holderIdentity"] == "somebody-else"
    record_property(SUMMARY, f"a lease taken away: 1 eviction of 4, exit {ended.exit_code}")


def test_a_longest_duration_lets_no_wave_begin_after_it(scene: Scene, record_property: Record) -> None:
    run = scene.start("--max-duration=40s")  # it has to plan and evict one pod before
    run.wait_for("evicted")
    evicted = time.monotonic()  # the run itself began some seconds before
    wait_until(lambda: time.monotonic() > evicted + 40.0, "the longest duration is over")
    ended = scene.finish(run)
    assert ended.exit_code == ExitCode.STOPPED, ended
    assert "the run reached its longest duration of 40 s" in ended.document["stopped"]
    assert len(run.events("evicting")) == 1
    results = sorted(outcome["result"] for outcome in ended.document["outcomes"])
    assert results == ["Landed", "Skipped", "Skipped", "Skipped"]
    record_property(SUMMARY, f"--max-duration: 1 eviction of 4, exit {ended.exit_code}")
