"""What a run does, or does not do any more, without a right."""

from __future__ import annotations

from collections.abc import Callable

from tests.e2e import rights_cluster
from tests.e2e.api import path_of
from tests.e2e.rights_of_plans import cannot
from tests.e2e.rights_of_the_account import (
    EVENTS,
    EVICT,
    OWN,
    READ,
    RIGHTS_MISSING,
    STOPPED,
    Cluster,
    Right,
    errors,
)

Shown = Callable[[Cluster, Right], None]


def _stops(verb: str, resource: str, group: str = "", *, again: bool = True) -> Shown:
    """Without the right a run ends before it evicts anything; ``again``: an earlier run left its traces."""

    def shown(cluster: Cluster, right: Right) -> None:
        if again:
            cluster.leave_traces()
        before = cluster.pods()

        finished = cluster.run(without=right)

        assert finished.exit_code == RIGHTS_MISSING
        assert len(errors(finished)) == 1, finished.stderr + finished.stdout
        assert cannot(verb, resource, group).text in errors(finished)[0]
        assert "Traceback" not in finished.stderr
        assert cluster.pods() == before

    return shown


def _evictions_are_refused(cluster: Cluster, right: Right) -> None:
    before = cluster.pods()

    finished = cluster.run(without=right)

    outcomes = finished.document
    assert finished.exit_code == RIGHTS_MISSING
    assert outcomes["stop"] == "Rights"
    assert 'cannot create resource "pods/eviction"' in outcomes["stopped"]
    assert {item["result"] for item in outcomes["outcomes"]} == {"Refused", "Skipped"}
    assert cluster.pods() == before


def _no_pod_is_evicted_that_cannot_be_looked_at(cluster: Cluster, right: Right) -> None:
    """A webhook that is out of reach makes the API server answer evictions with 500: was the pod evicted?"""
    api, before = cluster.control_plane.api, cluster.pods()
    api.create(rights_cluster.UNREACHABLE_WEBHOOK)
    try:
        with_right = cluster.run(limits=ONE)
        without = cluster.run(limits=ONE, without=right)
    finally:
        api.delete(path_of(rights_cluster.UNREACHABLE_WEBHOOK))

    (refused,), (skipped,) = with_right.document["outcomes"], without.document["outcomes"]
    assert refused["result"] == "Refused"
    assert refused["because"].endswith("the pod is still there")
    assert (without.exit_code, without.document["stop"]) == (RIGHTS_MISSING, "Rights")
    assert skipped["result"] == "Skipped"
    assert "cannot be looked at again" in skipped["because"]
    assert 'cannot get resource "pods"' in skipped["because"]
    assert cluster.pods() == before


def _whether_the_scheduler_lives_is_unknown(cluster: Cluster, right: Right) -> None:
    with_right = cluster.run("--dry-run")
    without = cluster.run("--dry-run", without=right)

    assert (with_right.exit_code, without.exit_code) == (0, STOPPED)
    assert without.document["stop"] == "Brake"
    stopped = without.document["stopped"]
    assert stopped.startswith("whether the scheduler default-scheduler is alive is not known: ")
    assert cannot("list", *reversed(LEASES)).text in stopped
    assert "safety.unknownScheduler: proceed" in stopped


def _no_event_says_why_a_pod_went(cluster: Cluster, right: Right) -> None:
    before = len(cluster.events())

    finished = cluster.run(limits=ONE, without=right)

    assert finished.exit_code == 0
    assert [item["result"] for item in finished.document["outcomes"]] == ["Landed"]
    assert len(cluster.events()) == before


ONE = {"perRun": 1, "perNode": 1, "perNamespace": 1, "perWorkload": "100%"}
NOTHING = ONE | {"perRun": 0}
LEASES = ("coordination.k8s.io", "leases")
CONFIG_MAPS = ("", "configmaps")


# What a run does, or does not do any more, without a right.
RUNS: dict[Right, Shown] = {
    Right(EVICT, "", "pods/eviction", "create"): _evictions_are_refused,
    Right(EVICT, "", "pods", "get"): _no_pod_is_evicted_that_cannot_be_looked_at,
    Right(READ, *LEASES, "list", "kube-scheduler"): _whether_the_scheduler_lives_is_unknown,
    Right(OWN, *LEASES, "get", "rebalancer"): _stops("get", "leases", LEASES[0]),
    Right(OWN, *LEASES, "update", "rebalancer"): _stops("update", "leases", LEASES[0]),
    Right(OWN, *LEASES, "create"): _stops("create", "leases", LEASES[0], again=False),
    Right(OWN, *CONFIG_MAPS, "get", "rebalancer-state"): _stops("get", "configmaps"),
    Right(OWN, *CONFIG_MAPS, "update", "rebalancer-state"): _stops("update", "configmaps"),
    Right(OWN, *CONFIG_MAPS, "create"): _stops("create", "configmaps", again=False),
    Right(EVENTS, "events.k8s.io", "events", "create"): _no_event_says_why_a_pod_went,
}
