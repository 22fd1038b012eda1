"""``rebalancer serve`` as a process: what it does to a cluster, to signals and to its policy."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from rebalancer.errors import ExitCode
from rebalancer.execution.journal import MAX_BYTES, read_journal
from rebalancer_demo.usage import CPU_ANNOTATION
from tests.integration.serving.replicas import EVERY_SECOND, Cluster, a_hot_cluster
from tests.waiting import eventually

CALM = EVERY_SECOND.replace("runInterval: 1s", "runInterval: 1h")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with a_hot_cluster(tmp_path) as found:
        yield found


def test_without_act_it_plans_again_and_again_and_changes_nothing(cluster: Cluster) -> None:
    before = cluster.sandbox.store.version
    replica = cluster.start()
    replica.waits_for("2 hot nodes of 6, 4 moves planned", times=3)

    assert replica.says("would evict shop/")
    assert replica.get("/readyz") == (200, "ok: plans only\n")
    assert "rebalancer_hot_nodes 2.0" in replica.get("/metrics")[1]
    assert cluster.gone == set()
    assert cluster.holder == ""
    assert cluster.known == {}
    assert cluster.sandbox.store.get("leases", "rebalancer", "rebalancer") is None
    assert before <= cluster.sandbox.store.version


def test_with_act_the_cluster_cools_and_stays_cool(cluster: Cluster) -> None:
    replica = cluster.start("--act")
    eventually(lambda: cluster.hottest() < 80, awaited="the nodes cooled")
    replica.waits_for("0 hot nodes of 6, 0 moves planned", times=3)
    evicted = cluster.gone

    assert evicted == set(cluster.known)
    assert replica.get("/readyz") == (200, "ok: leads\n")
    assert replica.ends_after(signal.SIGTERM) == ExitCode.DONE
    assert cluster.holder == ""
    assert cluster.gone == evicted
    assert not [line for line in replica.log if "Traceback" in line]


def test_with_act_a_long_journal_is_rotated_before_a_run(cluster: Cluster, tmp_path: Path) -> None:
    journal = tmp_path / "journal.jsonl"
    with journal.open("wb") as file:
        file.truncate(MAX_BYTES)

    cluster.start("--act", f"--journal={journal}")
    eventually(lambda: cluster.hottest() < 80, awaited="the nodes cooled")

    assert (tmp_path / "journal.jsonl.1").stat().st_size == MAX_BYTES
    assert {line["pod"] for line in read_journal(journal) if line["event"] == "evicting"}


def test_an_interval_has_one_run_also_when_another_replica_takes_over(cluster: Cluster) -> None:
    cluster.policy.write_text(CALM)
    first = cluster.start("--act")
    first.waits_for("run-finished")
    second = cluster.start("--act")
    second.waits_for("stands by: ")
    eventually(lambda: second.get("/readyz") == (200, "ok: stands by\n"), awaited="it has read the cluster")
    assert "rebalancer_leader 0.0" in second.get("/metrics")[1]
    assert first.ends_after(signal.SIGTERM) == ExitCode.DONE
    second.waits_for("leads: took lease rebalancer/rebalancer")
    eventually(lambda: "rebalancer_leader 1.0" in second.get("/metrics")[1], awaited="it leads")

    # The run of the first was a moment ago, and the next one is due in an hour.
    assert not second.says("hot nodes of")

    # One that is started anew leads at once, and is ready long before its first run.
    assert second.ends_after(signal.SIGTERM) == ExitCode.DONE
    third = cluster.start("--act")
    eventually(lambda: third.get("/readyz") == (200, "ok: leads\n"), awaited="it has read the cluster")
    assert not third.says("hot nodes of")


def test_a_changed_policy_is_in_force_from_the_next_run_and_a_bad_one_is_refused(cluster: Cluster) -> None:
    cluster.policy.write_text(
        CALM.replace(
            "utilization: {cpu: 80, memory: 85}, coolTo: {cpu: 65, memory: 75}", "utilization: {cpu: 99}"
        )
    )
    replica = cluster.start()
    replica.waits_for("0 hot nodes of 6")
    cluster.policy.write_text(CALM + "limits: {}\n")  # a key twice
    replica.process.send_signal(signal.SIGHUP)
    replica.waits_for("the policy is refused, nothing is evicted until it can be used")
    eventually(
        lambda: "rebalancer_policy_last_reload_successful 0.0" in replica.get("/metrics")[1],
        awaited="it is said",
    )
    assert replica.is_ready()

    cluster.policy.write_text(EVERY_SECOND)
    replica.waits_for("the policy demo is in force from now on")
    replica.waits_for("2 hot nodes of 6")
    assert "rebalancer_policy_last_reload_successful 1.0" in replica.get("/metrics")[1]


def set_use(cluster: Cluster, cpu: str | None) -> None:
    """Let every pod of the shop use so much; None: what it used before."""
    for pod in cluster.sandbox.pods("shop"):
        metadata = pod["metadata"]
        annotations = dict(metadata["annotations"])
        annotations.setdefault("test/used", annotations[CPU_ANNOTATION])
        annotations[CPU_ANNOTATION] = cpu or annotations["test/used"]
        changed = {**pod, "metadata": {**metadata, "annotations": annotations}}
        cluster.sandbox.store.update("pods", changed)


def test_a_run_that_fails_is_counted_and_the_next_one_is_made(cluster: Cluster) -> None:
    from rebalancer_demo import Fault

    cluster.sandbox.faults.add(Fault("status", path="^/api/v1/nodes", code=403, times=1))
    replica = cluster.start("--act")
    eventually(
        lambda: 'rebalancer_runs_total{exit_code="5"} 1.0' in replica.get("/metrics")[1], awaited="it failed"
    )
    eventually(lambda: cluster.hottest() < 80, awaited="the nodes cooled")
    eventually(replica.is_ready, awaited="it is ready again")


def test_a_bad_policy_at_the_start_ends_it(cluster: Cluster) -> None:
    cluster.policy.write_text("kind: Other")
    replica = cluster.start()
    assert replica.ended() == ExitCode.BAD_INPUT
    assert replica.says("error: ")
