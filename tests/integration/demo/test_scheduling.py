"""The embedded scheduler: it binds, says so, and misbehaves on request."""

from __future__ import annotations

import threading

import pytest
from kubernetes import client

from rebalancer_demo import ClusterView, Misbehaviour, Sandbox, UnschedulableError
from rebalancer_demo.objects import Object, condition_of, node_of, not_found
from tests.integration.demo.builders import (
    StillClock,
    a_node,
    a_pod,
    a_replica_set,
    connected,
    eviction_of,
    names,
)


def bound(sandbox: Sandbox, name: str) -> str:
    pod = sandbox.pod("shop", name)
    assert pod is not None
    return node_of(pod)


def test_a_pod_is_bound_to_the_node_of_the_decider_with_an_event() -> None:
    def last(view: ClusterView, pod: Object) -> str:
        return max(names(view.all("nodes")))

    with connected(Sandbox([a_node("n1"), a_node("n2"), a_pod("web")], decide=last)) as (sandbox, core):
        assert sandbox.wait_until(lambda: bound(sandbox, "web") == "n2")
        assert sandbox.wait_until(lambda: core.list_namespaced_event("shop").items)
        event = core.list_namespaced_event("shop", field_selector="involvedObject.name=web").items[0]
    assert (event.reason, event.message) == ("Scheduled", "Successfully assigned shop/web to n2")
    assert event.source.component == "default-scheduler"


def test_a_pod_that_fits_nowhere_says_why_and_is_bound_once_it_does() -> None:
    with connected(Sandbox([a_node("n1", cpu="1"), a_pod("web", cpu="2")])) as (sandbox, core):

        def reason() -> str:
            condition = condition_of(sandbox.pod("shop", "web") or {}, "PodScheduled") or {}
            return str(condition.get("reason", ""))

        assert sandbox.wait_until(lambda: reason() == "Unschedulable")
        assert sandbox.wait_until(lambda: core.list_namespaced_event("shop").items)
        assert [event.reason for event in core.list_namespaced_event("shop").items] == ["FailedScheduling"]
        core.create_node(a_node("n2"))
        core.patch_node_status("n2", {"status": a_node("n2")["status"]})
        assert sandbox.wait_until(lambda: bound(sandbox, "web") == "n2")


def test_the_words_of_the_decider_reach_the_event() -> None:
    def refuse(view: ClusterView, pod: Object) -> str:
        raise UnschedulableError("0/1 nodes are available: 1 node(s) were too hot.")

    with connected(Sandbox([a_node("n1"), a_pod("web")], decide=refuse)) as (sandbox, core):
        assert sandbox.wait_until(lambda: core.list_namespaced_event("shop").items)
        assert core.list_namespaced_event("shop").items[0].message.endswith("too hot.")


def test_an_event_that_is_refused_keeps_no_pod_from_its_node(monkeypatch: pytest.MonkeyPatch) -> None:
    def decide(view: ClusterView, pod: Object) -> str:
        if pod["metadata"]["name"] == "broken":
            raise ValueError("no such rule")
        return "n1"

    sandbox = Sandbox([a_node("n1"), a_pod("bound"), a_pod("broken"), a_pod("later")], decide=decide)
    create = sandbox.registry.create

    def created(plural: str, item: Object) -> Object:
        if plural == "events":
            raise not_found("namespaces", "shop")
        return create(plural, item)

    monkeypatch.setattr(sandbox.registry, "create", created)
    with sandbox:
        assert sandbox.wait_until(lambda: bound(sandbox, "later") == "n1")
        assert bound(sandbox, "bound") == "n1"
        assert sandbox.store.count("events") == 0


def test_the_most_important_pod_is_scheduled_first() -> None:
    order: list[str] = []

    def note(view: ClusterView, pod: Object) -> str:
        order.append(pod["metadata"]["name"])
        return "n1"

    pods = [a_pod("a", priority=1), a_pod("b", priority=100), a_pod("c", priority=1)]
    with Sandbox([*pods, a_node("n1")], decide=note) as sandbox:
        assert sandbox.wait_until(lambda: len(order) == 3)
    assert order == ["b", "a", "c"]


def test_pods_of_other_schedulers_are_left_alone() -> None:
    pods = [a_pod("ours", schedulerName="trimaran"), a_pod("theirs")]
    with Sandbox([*pods, a_node("n1")], scheduler_names=["trimaran"]) as sandbox:
        assert sandbox.wait_until(lambda: bound(sandbox, "ours") == "n1")
        sandbox.settle()
        assert bound(sandbox, "theirs") == ""


def a_cluster(annotations: dict[str, str] | None = None) -> list[Object]:
    """One replica on n1, an empty n2, and n3 in between."""
    owner = a_replica_set(replicas=1, annotations=annotations)
    return [
        owner,
        a_pod("web-old", node="n1", owner=owner),
        a_pod("other", node="n3", app="other"),
        a_pod("heavy", node="n1", app="other"),
        *(a_node(name) for name in ("n1", "n2", "n3")),
    ]


def replacement(sandbox: Sandbox) -> Object | None:
    known = {"web-old", "other", "heavy"}
    return next((pod for pod in sandbox.pods("shop") if pod["metadata"]["name"] not in known), None)


def landing(sandbox: Sandbox) -> str:
    pod = replacement(sandbox)
    return node_of(pod) if pod else ""


@pytest.mark.parametrize(("node", "expected"), [("n3", "n3"), ("worst", "n1")])
def test_a_misplaced_replacement_lands_where_the_scheduler_did_not_want_it(node: str, expected: str) -> None:
    with connected(Sandbox(a_cluster())) as (sandbox, core):
        sandbox.misbehave(Misbehaviour("misplace", namespace="shop", workload="web", node=node))
        core.create_namespaced_pod_eviction("web-old", "shop", eviction_of("web-old"))
        assert sandbox.wait_until(lambda: landing(sandbox) == expected)


def test_an_annotation_misplaces_too() -> None:
    with connected(Sandbox(a_cluster({"sandbox.rebalancer/misplace": "n3"}))) as (sandbox, core):
        core.create_namespaced_pod_eviction("web-old", "shop", eviction_of("web-old"))
        assert sandbox.wait_until(lambda: landing(sandbox) == "n3")


def test_a_delayed_replacement_is_bound_late() -> None:
    clock = StillClock()
    with connected(Sandbox(a_cluster(), clock=clock)) as (sandbox, core):
        sandbox.misbehave(Misbehaviour("delay", workload="web", seconds=30))
        core.create_namespaced_pod_eviction("web-old", "shop", eviction_of("web-old"))
        assert sandbox.wait_until(lambda: replacement(sandbox) is not None)
        sandbox.settle()
        clock.advance(29)
        sandbox.settle()
        assert landing(sandbox) == ""
        clock.advance(2)
        assert sandbox.wait_until(lambda: landing(sandbox) == "n2")


def test_a_dropped_pod_is_never_bound_until_all_behave_again() -> None:
    clock = StillClock()
    with connected(Sandbox(a_cluster(), clock=clock)) as (sandbox, core):
        sandbox.misbehave(Misbehaviour("drop", namespace="shop"))
        core.create_namespaced_pod_eviction("web-old", "shop", eviction_of("web-old"))
        assert sandbox.wait_until(lambda: replacement(sandbox) is not None)
        sandbox.settle()
        assert landing(sandbox) == ""
        sandbox.behave()
        clock.advance(5)
        assert sandbox.wait_until(lambda: landing(sandbox) == "n2")


def test_a_dropped_replacement_is_never_created_until_all_behave_again() -> None:
    with connected(Sandbox(a_cluster(), terminates_after=0)) as (sandbox, core):
        sandbox.misbehave(Misbehaviour("drop-replacement", workload="web"))
        core.create_namespaced_pod_eviction("web-old", "shop", eviction_of("web-old"))
        assert sandbox.wait_until(lambda: sandbox.pod("shop", "web-old") is None)
        sandbox.settle()
        assert names(sandbox.pods("shop")) == ["heavy", "other"]
        sandbox.behave()
        assert sandbox.wait_until(lambda: landing(sandbox) == "n2")


def test_a_misbehaviour_for_one_pod_hits_one_pod() -> None:
    owner = a_replica_set(replicas=3)
    sandbox = Sandbox([owner, a_node("n1"), a_node("n2", cpu="64", memory="256Gi")])
    sandbox.misbehave(Misbehaviour("misplace", workload="web", node="n1", times=1))
    with sandbox:
        assert sandbox.wait_until(lambda: len(sandbox.pods("shop", phase="Running")) == 3)
        assert len(sandbox.pods(node="n1")) == 1


def test_the_schedulers_lease_is_renewed_while_it_lives_and_lapses_after() -> None:
    clock = StillClock()
    with connected(Sandbox([a_node("n1")], clock=clock)) as (sandbox, core):
        leases = client.CoordinationV1Api(core.api_client)

        def renewed() -> float:
            lease = leases.read_namespaced_lease("kube-scheduler", "kube-system")
            return float(lease.spec.renew_time.timestamp())

        assert sandbox.wait_until(lambda: sandbox.store.count("leases") == 1)
        clock.advance(3)
        assert sandbox.wait_until(lambda: renewed() == clock())
        sandbox.stop_scheduler()
        clock.advance(30)
        sandbox.settle()
        assert renewed() == clock() - 30
        sandbox.start_scheduler()
        assert sandbox.wait_until(lambda: renewed() == clock())


def test_a_stopped_sandbox_leaves_no_thread_behind() -> None:
    before = set(threading.enumerate())
    with connected(Sandbox([a_node("n1"), a_replica_set()])) as (_sandbox, core):
        assert core.list_node().items
        assert len(threading.enumerate()) > len(before)
    assert set(threading.enumerate()) <= before
