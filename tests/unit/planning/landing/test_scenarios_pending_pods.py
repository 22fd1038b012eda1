"""Pending pods compete for the same room: they are placed before any move, in queue order."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest

from rebalancer.planning.inputs import PlanningInputs
from rebalancer.planning.landing.evaluation import MAX_WAITING_CLASSES
from rebalancer.planning.prepared import prepare
from rebalancer.scheduling.state.cluster_state import UNBOUND
from tests.builders import a_node
from tests.rows import rows
from tests.unit.planning.builders import (
    Workload,
    a_workload,
    at,
    kept,
    moved,
    plan_of,
    planning_inputs,
    with_scheduler,
)
from tests.unit.planning.landing.hot_pods import hot_pod, only


def waiting(name: str, cpu: str = "5", **spec: Any) -> Workload:
    created = spec.pop("created", at(-60))
    return a_workload(name, [""], cpu=cpu, spec=spec, created=created)


def placed(*workloads: Workload, **inputs: Any) -> dict[str, str]:
    """Where the Pending pods are put, by workload; one that fits nowhere is absent."""
    prepared = prepare(planning_inputs([a_node("cool", cpu=8)], workloads, **inputs))
    state = prepared.state
    return {
        name.rsplit("-", 1)[0]: state.nodes.names[state.node[row]]
        for row, name in enumerate(prepared.pods.names)
        if state.node[row] != UNBOUND
    }


def test_a_pending_pod_is_put_where_it_fits() -> None:
    assert placed(waiting("web")) == {"web": "cool"}


@pytest.mark.parametrize(
    "first",
    [waiting("z", priority=10), waiting("z", created=at(-61))],
    ids=["higher priority", "earlier"],
)
def test_the_queue_goes_by_priority_and_then_by_age(first: Workload) -> None:
    assert placed(waiting("a"), first) == {"z": "cool"}


def test_priority_comes_before_age() -> None:
    assert placed(waiting("a", created=at(-3600)), waiting("z", priority=10)) == {"z": "cool"}


def test_a_gated_pod_does_not_take_part() -> None:
    assert placed(waiting("web", schedulingGates=[{"name": "wait"}])) == {}


def test_nobody_knows_where_a_pod_of_a_scheduler_that_is_not_configured_goes() -> None:
    inputs = planning_inputs([a_node("cool", cpu=8)], [waiting("web", schedulerName="volcano")])
    assert placed(waiting("web", schedulerName="volcano")) == {}
    assert plan_of(inputs).warnings == (
        "1 Pending pod has a scheduler that is not configured (volcano): which nodes they take is not "
        "known, and no landing allows for them",
    )


def test_a_terminating_pod_does_not_take_part() -> None:
    workload = waiting("web")
    workload.pods[0]["metadata"]["deletionTimestamp"] = at(-1)
    assert placed(workload) == {}


def test_a_pending_pod_counts_by_its_request() -> None:
    prepared = prepare(planning_inputs([a_node("cool", cpu=8)], [waiting("web", cpu="2")]))
    assert prepared.usage[0, 0] == 2000


def test_what_fits_nowhere_is_counted() -> None:
    prepared = prepare(planning_inputs([a_node("cool", cpu=8)], [waiting("web", cpu="9"), waiting("api")]))
    assert (prepared.pending.placed, prepared.pending.unplaced, len(prepared.pending.waiting)) == (1, 1, 1)


def test_pending_pods_that_a_node_never_admits_keep_no_pod_there() -> None:
    """Many jobs wait for a GPU node; none of them could take room on a node without the label."""

    def moves(*waiting_for_gpu: Workload) -> dict[str, str]:
        web = a_workload("web", ["a"] * 9)
        nodes = [a_node("a", cpu=10), a_node("b", cpu=20)]
        return moved(plan_of(planning_inputs(nodes, [web, *waiting_for_gpu])))

    kinds = range(MAX_WAITING_CLASSES + 1)
    jobs = [waiting(f"job-{kind}", cpu="1", nodeSelector={"gpu": str(kind)}) for kind in kinds]
    assert moves(*jobs) == moves() != {}


def test_pending_pods_take_their_room_first() -> None:
    nodes = [a_node("hot"), a_node("cool", cpu=8)]
    waiting = a_workload("early", [""], cpu="5")
    plan = plan_of(planning_inputs(nodes, [hot_pod(), waiting]))
    assert kept(plan) == {"web-0": "NoLanding"}


def test_a_pending_pod_that_would_take_the_room_keeps_the_pod() -> None:
    nodes = [a_node("hot"), a_node("cool", cpu=8)]
    plan = plan_of(
        planning_inputs(
            nodes,
            [
                hot_pod(),
                a_workload("huge", [""], cpu="4", spec={"nodeSelector": {"kubernetes.io/hostname": "hot"}}),
            ],
        )
    )
    only("RoomTaken", "a Pending pod of default/huge would fit where it leaves", plan)
    assert "1 Pending pod does not fit on any node now" in plan.warnings


def test_a_pending_pod_that_fits_nowhere_even_then_keeps_nothing() -> None:
    nodes = [a_node("hot"), a_node("cool", cpu=8)]
    plan = plan_of(planning_inputs(nodes, [hot_pod(), a_workload("huge", [""], cpu="100")]))
    assert moved(plan) == {"web-0": "cool"}


def of_volcano(cpu: str, node: str, **spec: Any) -> Workload:
    return waiting(
        "gang", cpu, schedulerName="volcano", nodeSelector={"kubernetes.io/hostname": node}, **spec
    )


@rows(
    "pod, keeps",
    [
        (of_volcano("4", "hot"), True),
        (of_volcano("5", "hot"), False),  # more than the node has
        (of_volcano("100m", "hot"), False),  # it does not wait for room: there is enough of it
        (of_volcano("100", "cool"), False),
        (of_volcano("4", "hot", schedulingGates=[{"name": "wait"}]), False),
    ],
)
def test_a_pod_that_waits_for_the_room_keeps_it_whatever_its_scheduler(pod: Workload, keeps: bool) -> None:
    plan = plan_of(planning_inputs([a_node("hot"), a_node("cool", cpu=8)], [hot_pod(), pod]))
    if keeps:
        only("RoomTaken", "default/gang, whose scheduler volcano is not configured, may fit", plan)
    else:
        assert moved(plan) == {"web-0": "cool"}


@rows("before", [0, 19, 20, 60])
def test_of_many_kinds_of_waiting_pods_none_is_overlooked(before: int) -> None:
    huge = [waiting(f"huge-{number:02}", "500", priority=9) for number in range(before)]
    small = waiting("small", "4", nodeSelector={"kubernetes.io/hostname": "hot"})
    plan = plan_of(planning_inputs([a_node("hot"), a_node("cool", cpu=8)], [hot_pod(), *huge, small]))
    only("RoomTaken", "a Pending pod of default/small would fit where it leaves", plan)


def test_where_too_many_kinds_may_fit_to_ask_each_of_them_the_pod_stays() -> None:
    """Each of them fits by its requests, and a port that another pod holds keeps it off the node."""
    taken = {"containers": [{"name": "main", "ports": [{"hostPort": 80, "containerPort": 80}]}]}
    holder = a_workload("holder", ["hot", "cool"], cpu="1m", spec=taken)
    others = [waiting(f"other-{number:02}", "1", **taken) for number in range(MAX_WAITING_CLASSES + 1)]
    nodes = [a_node("hot"), a_node("cool", cpu=8)]
    few, many = (plan_of(planning_inputs(nodes, [hot_pod(), holder, *some])) for some in (others[1:], others))
    assert moved(few) == {"web-0": "cool"}
    only("RoomTaken", f"Pending pods of {len(others)} kinds request no more than would be free", many)


def beside_a_tie(version: str, *pending: Workload) -> PlanningInputs:
    """b is at 72 %, c at 20 %, and to the scheduler they are equal."""
    nodes = [a_node(name, cpu=10) for name in "abc"]
    web = a_workload("web", ["a"] * 9)
    rest = a_workload("warm", ["b"]), a_workload("cool", ["c"])
    loads = {"a": (90, 20), "b": (72, 20), "c": (20, 20)}
    return with_scheduler(planning_inputs(nodes, [web, *rest, *pending], load=loads), version=version)


@pytest.mark.parametrize("version", ["1.34", "1.35"])
def test_a_pending_pod_that_may_go_to_several_nodes_splits_the_scenarios(version: str) -> None:
    """Where it takes c, the next pod goes to b, which would be hot: nothing may count on its taking b."""
    pending = a_workload("new", [""], cpu="2")
    prepared = prepare(beside_a_tie(version, pending))
    row = prepared.pods.row["default", "new-0"]
    names = prepared.nodes.names
    chances: dict[str, float] = defaultdict(float)
    for scenario in prepared.start.all:
        chances[names[scenario.after_termination.node[row]]] += scenario.chance
    assert set(chances) == {"b", "c"}
    assert sum(chances.values()) == pytest.approx(1)
    assert moved(plan_of(beside_a_tie(version, pending))) == {}


def test_a_pending_pod_that_fits_in_some_scenarios_only_waits_in_the_others() -> None:
    """The first pod may take either node; the second wants one of them, and may find it taken."""
    nodes = [a_node(name, cpu=4, labels={"name": name}) for name in "ab"]
    first = waiting("first", cpu="3", priority=10)
    second = waiting("second", cpu="2", nodeSelector={"name": "a"})
    prepared = prepare(planning_inputs(nodes, [first, second]))
    row = prepared.pods.row["default", "second-0"]
    found = {scenario.after_termination.node[row] for scenario in prepared.start.all}
    assert found == {UNBOUND, prepared.nodes.row["a"]}
    assert (prepared.pending.placed, prepared.pending.unplaced, len(prepared.pending.waiting)) == (2, 0, 1)


def test_so_many_pending_pods_that_scenarios_would_cost_too_much_keep_two() -> None:
    nodes = [a_node(name, cpu=100, memory="64Gi") for name in "abcdefghij"]
    few, many = (
        prepare(planning_inputs(nodes, [waiting(f"new-{n}", cpu="1m") for n in range(count)]))
        for count in (3, 600)
    )
    assert [len(found.start.all) for found in (few, many)] == [8, 3]


def _beside_a_preemptor(*pools: str, cores: str = "9500m", **spec: Any) -> PlanningInputs:
    """Node a is hot; the nodes of a pool have pods of 6 of 10 cores, and a Pending pod needs 9.5 there."""
    nodes = [
        a_node("a", cpu=10),
        *(a_node(f"b{at}", cpu=10, labels={"pool": "b"}) for at, _ in enumerate(pools)),
    ]
    fill = [a_workload(f"fill-{at}", [f"b{at}"], cpu="6", memory="16Mi") for at, _ in enumerate(pools)]
    vip = waiting("vip", cores, nodeSelector={"pool": "b"}, priority=1000, **spec)
    load = {"a": (90.0, 10.0), **{f"b{at}": (20.0, 10.0) for at, _ in enumerate(pools)}}
    workloads = [a_workload("web", ["a"] * 9, cpu="1", memory="16Mi"), *fill, vip]
    return planning_inputs(nodes, workloads, load=load)


def test_no_pod_moves_to_where_a_pending_pod_is_about_to_preempt_others() -> None:
    assert moved(plan_of(_beside_a_preemptor("b"))) == {}


def test_where_it_may_preempt_on_either_of_two_nodes_each_is_the_one_in_some_scenario() -> None:
    prepared = prepare(_beside_a_preemptor("b", "b"))
    names = prepared.nodes.names
    kept_on = [
        {names[node] for node in state.nominated.values()}
        for scenario in prepared.start.all
        for state in (scenario.while_terminating, scenario.after_termination)
    ]
    assert {"b0"} in kept_on
    assert {"b1"} in kept_on
    assert all(len(nodes) == 1 for nodes in kept_on)


@pytest.mark.parametrize(
    "spec", [{"preemptionPolicy": "Never"}, {"cores": "11"}], ids=["never preempts", "fits on none of them"]
)
def test_a_pending_pod_that_preempts_nobody_takes_no_room(spec: dict[str, Any]) -> None:
    assert moved(plan_of(_beside_a_preemptor("b", **spec)))
