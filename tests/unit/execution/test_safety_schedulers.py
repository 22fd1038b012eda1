"""Whether a scheduler is alive is seen by its own Lease, else by its own pods, whatever the clocks say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from rebalancer.cluster import times
from rebalancer.cluster.records.pods import is_scheduler
from rebalancer.errors import StopRequestedError
from rebalancer.execution.safety import SchedulerHealth, scheduler_health
from rebalancer.planning.scheduler_location import NAMED_BY_POLICY, LeaseName, PodSelection, SchedulerLocation
from tests.rows import rows
from tests.unit.execution.builders import NOW
from tests.unit.execution.fake_api import Answer, FakeTime, Request, fake_api, refusal
from tests.unit.execution.schedulers import BY_CONFIG_MAP, BY_LEASE, LEASE, a_lease, a_scheduler_pod


def seen(
    location: SchedulerLocation,
    *,
    lease: Any = (),
    pods: Any = (),
    while_asleep: Callable[[], None] = lambda: None,
    pause: Callable[[float], object] | None = None,
) -> tuple[SchedulerHealth, FakeTime]:
    def handler(request: Request) -> Answer:
        if request.path.endswith("/leases"):
            assert location.lease is not None
            assert request.query["fieldSelector"] == f"metadata.name={location.lease.name}"
            found = lease() if callable(lease) else lease
            kind = "LeaseList"
        else:
            assert request.path == "/api/v1/namespaces/sched/pods"
            found, kind = pods, "PodList"
        if isinstance(found, Answer):
            return found
        return Answer(200, {"kind": kind, "metadata": {}, "items": list(found)})

    time = FakeTime(NOW)
    time.while_asleep = while_asleep
    api, _ = fake_api(handler, time)
    if pause is not None:
        api = replace(api, retries=replace(api.retries, pause=pause))
    return scheduler_health(api, location, NOW), time


@rows("age", [0.0, 3.0, 15.0, -5.0])
def test_a_lease_that_was_just_renewed_shows_a_live_scheduler_at_once(age: float) -> None:
    found, time = seen(BY_LEASE, lease=[a_lease(age)])
    assert found.alive is True
    assert found.message.startswith("lease kube-system/trimaran of node-1_abc was renewed ")
    assert not time.slept


def test_a_lease_that_nobody_renews_for_its_duration_shows_a_dead_scheduler() -> None:
    found, time = seen(BY_LEASE, lease=[a_lease(300)])
    assert found == SchedulerHealth(
        "trimaran",
        False,
        "lease kube-system/trimaran of node-1_abc was renewed 300 s ago, and not again in the 16 s for which "
        "it was watched",
    )
    assert sum(time.slept) == pytest.approx(16)


@pytest.mark.parametrize("skew", [-600.0, 600.0])
def test_clocks_that_differ_hide_no_live_scheduler_and_no_dead_one(skew: float) -> None:
    dead, _ = seen(BY_LEASE, lease=[a_lease(skew)])
    assert dead.alive is False
    renewals = iter([a_lease(skew), a_lease(skew), a_lease(skew - 4)])
    alive, time = seen(BY_LEASE, lease=lambda: [next(renewals)])
    assert alive.alive is True
    assert alive.message.endswith("again while it was watched; its clock differs from ours by about 600 s")
    assert sum(time.slept) == pytest.approx(4)


def test_a_lease_claims_no_more_than_a_minute() -> None:
    found, time = seen(BY_LEASE, lease=[a_lease(61, seconds=86_400)])
    assert found.alive is False
    assert 60 <= sum(time.slept) <= 62


def test_a_lease_that_was_given_up_shows_no_live_scheduler() -> None:
    found, _ = seen(BY_LEASE, lease=[a_lease(1, holder="")])
    assert found.alive is False
    assert found.message == (
        "nobody holds lease kube-system/trimaran, renewed 1 s ago, "
        "and not again in the 16 s for which it was watched"
    )
    given_up = iter([a_lease(60), a_lease(0, holder="")])
    last = a_lease(0, holder="")
    found, _ = seen(BY_LEASE, lease=lambda: [next(given_up, last)])
    assert found.alive is False


def test_a_lease_between_two_leaders_shows_a_live_scheduler_once_one_takes_it() -> None:
    handed_over = iter([a_lease(1, holder="", seconds=1), a_lease(-4, holder="node-2_def")])
    found, time = seen(BY_LEASE, lease=lambda: [next(handed_over)])
    assert found.alive is True
    assert sum(time.slept) == pytest.approx(2)


def test_watching_a_lease_ends_when_asked_to_stop() -> None:
    with pytest.raises(StopRequestedError, match="while lease kube-system/trimaran was watched"):
        seen(BY_LEASE, lease=[a_lease(300)], pause=lambda _: True)


@rows(
    "lease",
    [
        refusal(403, "forbidden"),
        [{"spec": {"holderIdentity": "a", "renewTime": "soon"}}],
        [{}],
        [7],
        Answer(200, b"[]"),
        Answer(200, b"{"),
        Answer(200, {"items": 7}),
        Answer(200, b'{"items":' + b"[" * 9000),
    ],
)
def test_a_lease_that_cannot_be_read_says_nothing_even_if_pods_are_ready(lease: Any) -> None:
    location = SchedulerLocation("trimaran", LEASE, pods=PodSelection(("sched",)))
    found, _ = seen(location, lease=lease, pods=[a_scheduler_pod()])
    assert found.alive is None
    assert found.message


def test_whether_the_lease_that_cannot_be_read_was_named_is_told() -> None:
    assert not seen(BY_LEASE, lease=refusal(403, "forbidden"))[0].says_what_to_do
    named = SchedulerLocation("trimaran", LEASE, named_by="scheduler.lease of the policy")
    assert seen(named, lease=refusal(403, "forbidden"))[0].says_what_to_do


@pytest.mark.parametrize("named_by", [NAMED_BY_POLICY, "leaderElection of c.yaml"])
def test_a_named_lease_that_does_not_exist_is_to_be_corrected_where_it_is_named(named_by: str) -> None:
    """To name the pods would change nothing: a Lease that is named counts before them."""
    location = SchedulerLocation("trimaran", LEASE, named_by=named_by, pods=PodSelection(("sched",)))
    found, _ = seen(location, pods=[a_scheduler_pod()])
    assert found.alive is None
    assert found.says_what_to_do
    assert f"which {named_by} names; " in found.message


def test_without_a_lease_ready_pods_show_that_the_scheduler_lives() -> None:
    location = SchedulerLocation("trimaran", LEASE, pods=PodSelection(("sched",)))
    found, _ = seen(location, pods=[a_scheduler_pod()])
    assert found.alive is True
    assert found.message == (
        "lease kube-system/trimaran does not exist; pod sched/trimaran-0 has been ready for 90 s"
    )


def test_a_lease_that_is_named_must_exist_even_if_pods_are_ready() -> None:
    location = SchedulerLocation("trimaran", LEASE, named_by=NAMED_BY_POLICY, pods=PodSelection(("sched",)))
    found, _ = seen(location, pods=[a_scheduler_pod()])
    assert (found.alive, found.message) == (
        None,
        "lease kube-system/trimaran does not exist, which scheduler.lease of the policy names; name the one "
        "that it holds there, or take it out where leader election is off",
    )


def test_without_a_lease_and_a_place_for_its_pods_a_scheduler_is_unknown() -> None:
    found, _ = seen(BY_LEASE)
    assert (found.alive, found.message) == (
        None,
        "lease kube-system/trimaran does not exist, and where its pods run is not known",
    )


@rows(
    "pods, alive",
    [
        ([a_scheduler_pod()], True),
        ([a_scheduler_pod(projected=True)], True),
        ([a_scheduler_pod(image="example.com/ours:1")], True),
        ([a_scheduler_pod(ready="False")], False),
        ([a_scheduler_pod(phase="Pending")], False),
        ([a_scheduler_pod(deletionTimestamp=times.render(NOW))], False),
        ([a_scheduler_pod(ready="False"), a_scheduler_pod("trimaran-1")], True),
        ([a_scheduler_pod(config_map="another")], None),
        ([], None),
        # Something else reads the same ConfigMap: the scheduler is the pod of the scheduler's image.
        ([a_scheduler_pod(ready="False"), a_scheduler_pod("ui", image="ui:1", owner="ui")], False),
        # Two schedulers, one of them down: it is not known which one places the pods.
        ([a_scheduler_pod(), a_scheduler_pod("b", owner="b", ready="False")], None),
        ([a_scheduler_pod(), a_scheduler_pod("b", owner="b")], True),
        # What a kubelet evicted stays behind.
        ([a_scheduler_pod(), a_scheduler_pod("b", owner="b", phase="Failed", ready="False")], True),
        ([a_scheduler_pod(phase="Succeeded", ready="False")], None),
        (refusal(403, "forbidden"), None),
        ([{"metadata": {"namespace": "sched", "name": "odd"}, "spec": 7}, a_scheduler_pod()], None),
    ],
)
def test_a_scheduler_without_leader_election_is_seen_by_the_pods_that_mount_its_configuration(
    pods: Any, alive: bool | None
) -> None:
    found, _ = seen(BY_CONFIG_MAP, pods=pods)
    assert found.alive is alive
    assert found.message


OF_A_NODE = {"kind": "Node", "name": "cp", "uid": "cp", "controller": True}


def test_pods_of_the_default_scheduler_say_nothing_about_a_second_one() -> None:
    default = a_scheduler_pod("kube-scheduler-cp", ownerReferences=[OF_A_NODE])
    second = SchedulerLocation("trimaran", None, "off", PodSelection(("sched",)))
    first = SchedulerLocation("default-scheduler", None, "off", PodSelection(("sched",), static=True))
    assert seen(second, pods=[default])[0].alive is None
    assert seen(second, pods=[default, a_scheduler_pod(ready="False")])[0].alive is False
    assert seen(first, pods=[default])[0].alive is True


def test_the_pods_of_a_neighbour_in_the_same_namespace_neither_vouch_for_a_scheduler_nor_stop_it() -> None:
    location = SchedulerLocation(
        "trimaran", None, "off", PodSelection(("sched",)), other_hosts={"other-0": "sched/other-0"}
    )

    def alive(*pods: Any) -> bool | None:
        return seen(location, pods=pods)[0].alive

    other = a_scheduler_pod("other-0", owner="other")
    assert alive(other) is None
    assert alive(other, a_scheduler_pod(ready="False")) is False
    assert alive(a_scheduler_pod("other-0", owner="other", ready="False"), a_scheduler_pod()) is True


@rows(
    "image, found",
    [
        ("kube-scheduler", True),
        ("registry.k8s.io/kube-scheduler:v1.35.2", True),
        ("registry.k8s.io/scheduler-plugins/kube-scheduler@sha256:abc", True),
        ("localhost:5000/kube-scheduler", True),
        ("kube-scheduler-simulator:1", False),
        ("kube-scheduler/web", False),
        ("", False),
    ],
)
def test_a_schedulers_image_is_known_by_its_last_name(image: str, found: bool) -> None:
    assert is_scheduler(image) is found


def test_a_lease_that_another_schedulers_pod_holds_is_no_proof_and_the_message_says_that_they_compete() -> (
    None
):
    for named_by, alive in ((NAMED_BY_POLICY, None), ("leaderElection of c.yaml", False)):
        location = SchedulerLocation(
            "trimaran",
            LEASE,
            named_by=named_by,
            own_hosts=frozenset({"trimaran-0"}),
            other_hosts={"node-1": "kube-system/kube-scheduler-cp"},
            serves_default=False,
        )
        found, _ = seen(location, lease=[a_lease(3.0)])
        assert found.alive is alive
        assert f"trimaran, which {named_by} names, is held by " in found.message
        assert ("take that out" in found.message) == (named_by == NAMED_BY_POLICY)
        assert ("in its configuration" in found.message) != (named_by == NAMED_BY_POLICY)
        assert (
            "held by pod kube-system/kube-scheduler-cp of another scheduler: the two compete" in found.message
        )


def test_a_lease_that_none_of_a_schedulers_known_pods_holds_is_no_proof() -> None:
    location = SchedulerLocation(
        "trimaran", LEASE, own_hosts=frozenset({"trimaran-0"}), hosts_are_certain=True, serves_default=False
    )
    found, _ = seen(location, lease=[a_lease(3.0)])
    assert found.alive is None
    assert "which is none of its pods (trimaran-0)" in found.message


# A second scheduler that elects a leader by the names of kube-scheduler, beside the cluster's default one.
COMPETING = SchedulerLocation(
    "trimaran",
    LeaseName("kube-system", "kube-scheduler"),
    pods=PodSelection(("sched",)),
    own_hosts=frozenset({"trimaran-0"}),
    hosts_are_certain=True,
    other_hosts={"node-1": "kube-system/kube-scheduler-node-1"},
    serves_default=False,
)


def test_a_second_scheduler_lives_while_one_of_its_own_pods_holds_the_usual_lease() -> None:
    found, _ = seen(COMPETING, lease=[a_lease(3.0, holder="trimaran-0_abc")], pods=[a_scheduler_pod()])
    assert found.alive is True


def test_a_second_scheduler_that_waits_for_the_usual_lease_is_not_alive_though_its_pods_are_ready() -> None:
    found, _ = seen(COMPETING, lease=[a_lease(3.0)], pods=[a_scheduler_pod()])
    assert found == SchedulerHealth(
        "trimaran",
        False,
        "lease kube-system/kube-scheduler is held by pod kube-system/kube-scheduler-node-1 of another "
        "scheduler: the two compete for it, and only its holder schedules; in its configuration, turn leader "
        "election off (leaderElection.leaderElect: false) or give it a Lease of its own "
        "(leaderElection.resourceName), or, if that is a pod of its own, name its pods in scheduler.pods",
    )


@pytest.mark.parametrize("certain", [True, False])
def test_a_second_scheduler_is_not_known_to_live_while_somebody_unknown_holds_the_usual_lease(
    certain: bool,
) -> None:
    location = replace(COMPETING, hosts_are_certain=certain)
    found, _ = seen(location, lease=[a_lease(3.0, holder="managed_1")], pods=[a_scheduler_pod()])
    assert found.alive is None
    assert "which is none of its pods (trimaran-0)" in found.message
    assert "leaderElection.leaderElect: false" in found.message


def test_a_second_scheduler_with_the_network_of_its_node_may_not_be_who_holds_the_usual_lease() -> None:
    """The kube-scheduler of k3s runs in no pod, and names its node as holder too."""
    location = replace(COMPETING, own_hosts=frozenset({"node-1"}), hosts_are_certain=False, other_hosts={})
    found, _ = seen(location, lease=[a_lease(3.0)], pods=[a_scheduler_pod()])
    assert found.alive is None
    assert "held by node-1_abc, whose network its pod shares" in found.message
    assert "leaderElection.leaderElect: false" in found.message


def test_a_second_scheduler_is_known_by_its_pods_where_nobody_made_the_usual_lease() -> None:
    found, _ = seen(COMPETING, pods=[a_scheduler_pod()])
    assert found.alive is True
    found, _ = seen(COMPETING, lease=refusal(403, "forbidden"), pods=[a_scheduler_pod()])
    assert found.alive is None


def test_a_lease_that_another_scheduler_takes_while_it_is_watched_is_no_proof() -> None:
    taken = iter([a_lease(60, holder="trimaran-0_abc"), a_lease(-2)])
    found, _ = seen(COMPETING, lease=lambda: [next(taken)])
    assert found.alive is False
    assert "the two compete for it" in found.message


def test_the_default_scheduler_holds_the_usual_lease_whether_its_pods_are_seen_or_not() -> None:
    for hosts in (frozenset[str](), frozenset({"node-1"})):
        location = SchedulerLocation("default-scheduler", COMPETING.lease, own_hosts=hosts)
        assert seen(location, lease=[a_lease(3.0)])[0].alive is True
