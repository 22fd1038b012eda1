"""The strategy that makes room on one node for a pod which fits on none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from pydantic import ValidationError

from rebalancer.planning.plan import Plan, Progress
from rebalancer.planning.planner import Planner
from tests.builders import a_node
from tests.rows import rows
from tests.unit.planning.builders import (
    NOW,
    Workload,
    a_policy,
    a_workload,
    at,
    kept,
    moved,
    plan_of,
    planning_inputs,
)

LIKELY = {"aggressiveness": 5, "minGain": 5, "confidence": 0.95}  # counts on pods to be terminating still


def asked(planning: dict[str, Any] | None = None, **settings: Any) -> Any:
    """A policy that makes room."""
    return a_policy(
        strategies={"fragmentation": settings or True}, planning=LIKELY if planning is None else planning
    )


ON = asked()


def pending(cpu: str = "2", *, name: str = "big", created: str = at(-3600), **spec: Any) -> Workload:
    """A workload whose only pod runs nowhere."""
    return a_workload(name, [""], cpu=cpu, created=created, spec=spec)


def inputs(*more: Workload, policy: Any = ON, cpu: int = 0, window: float = 0.0, **api: Any) -> Any:
    """Node a has 0.9 cores free, b 1.5, c none: 2 cores fit nowhere, and on a once api has gone to b."""
    workloads = [
        a_workload("web", ["a", "b"], cpu="2"),
        a_workload("api", ["a"], cpu="1100m", **api),
        a_workload("lib", ["b"], cpu="1500m"),
        a_workload("full", ["c"], cpu="4"),
    ]
    nodes = [a_node("a", cpu=4 + cpu), a_node("b", cpu=5 + cpu), a_node("c", cpu=4)]
    every = [*workloads, *more]
    used = {pod["metadata"]["name"]: 0.1 for workload in every for pod in workload.pods}
    return planning_inputs(nodes, every, policy=policy, pod_load=used, window=window)


def planned(*more: Workload, **case: Any) -> Plan:
    return plan_of(inputs(*more, **case))


def test_it_is_off_unless_asked_for() -> None:
    assert planned(pending(), policy=a_policy()).moves == ()


def test_of_nodes_that_are_alike_the_same_is_chosen_at_every_moment() -> None:
    hostname = "kubernetes.io/hostname"
    nodes = [a_node(name, cpu=4, labels={hostname: name}) for name in "abc"]
    spread = {"maxSkew": 1, "topologyKey": hostname, "whenUnsatisfiable": "ScheduleAnyway"}
    pairs = [
        a_workload(
            f"web-{name}",
            [name] * 2,
            created=at(-90 + number),
            spec={
                "topologySpreadConstraints": [
                    {**spread, "labelSelector": {"matchLabels": {"app": f"web-{name}"}}}
                ]
            },
        )
        for number, name in enumerate("abc")
    ]
    used = {pod["metadata"]["name"]: 0.1 for pair in pairs for pod in pair.pods}
    found = planning_inputs(nodes, [*pairs, pending("3")], policy=ON, pod_load=used, window=0.0)
    moments = [replace(found, now=found.now + 3.7 * number) for number in range(30)]
    assert {tuple(moved(plan_of(item))) for item in moments} == {("web-a-0",)}


def test_one_pod_moves_and_the_pending_pod_fits_on_its_node() -> None:
    plan = planned(pending())

    assert moved(plan) == {"api-0": "b"}
    assert plan.moves[0].because.startswith("it makes room on a for Pending default/big-0; ")
    assert plan.strategies["fragmentation"].message == (
        "Pending default/big-0 will fit on a in every scenario"
    )


def test_the_scheduler_places_the_pending_pod_there_in_every_scenario() -> None:
    planner = Planner(inputs(pending()))
    prepared = planner.prepared
    found = planner.decided
    big = prepared.pods.names.index("big-0")

    assert {item.after_termination.node[big] for item in found.scenarios.all} == {prepared.nodes.row["a"]}


def test_a_replacement_that_may_come_back_before_the_pending_pod_makes_no_room() -> None:
    """Once the old pod is gone its own node is the emptiest, and which of the two is first is not known."""
    plan = planned(pending(), policy=asked({}))

    assert plan.moves == ()
    assert "is the node it leaves" in plan.kept[0].because


def test_where_pods_may_come_back_the_plan_says_whether_the_boldest_level_would_make_room() -> None:
    message = planned(pending(), policy=asked({})).strategies["fragmentation"].message
    assert message == (
        "Pending default/big-0 gets no room: what would leave a may land there again; "
        "planning.aggressiveness 5 would make room on a"
    )


@pytest.mark.parametrize("planning", [{}, LIKELY])
def test_where_replacements_fit_beside_the_old_pods_the_plan_says_that_no_level_makes_room(
    planning: dict[str, Any],
) -> None:
    """A pod of 4 cores, and three nodes with room of 2 each: a replacement of 2 fits on any of them."""
    nodes = [a_node(name, cpu=6) for name in "abc"]
    workloads = [a_workload(f"{half}-{name}", [name], cpu="2") for name in "abc" for half in ("one", "two")]
    plan = plan_of(planning_inputs(nodes, [*workloads, pending("4")], policy=asked(planning)))

    assert plan.moves == ()
    assert plan.strategies["fragmentation"].message == (
        "Pending default/big-0 gets no room: what would leave a may land there again, "
        "with planning.aggressiveness 5 as well"
    )


def test_a_pod_that_was_pending_only_for_a_moment_waits_for_the_scheduler() -> None:
    assert planned(pending(created=at(-60))).moves == ()


def test_a_pod_that_fits_nowhere_for_other_reasons_gets_no_room() -> None:
    plan = planned(pending(nodeSelector={"disk": "ssd"}))

    assert plan.moves == ()
    assert "gets no room" in plan.strategies["fragmentation"].message


def test_where_the_scheduler_would_preempt_nothing_is_done_unless_asked_for() -> None:
    high = pending(priority=1000)

    assert planned(high).moves == ()
    despite = asked(despitePreemption=True)
    assert len(planned(high, policy=despite).moves) == 1


@rows(
    "sections, says",
    [
        ({"limits": {"perRun": 0}}, "default/api-0 stays: perRun 0 is reached"),
        ({"limits": {"perNode": 0}}, "default/api-0 stays: perNode 0 is reached"),
        (
            {"planning": {"maxAfter": {"cpu": 1}}},
            "default/api-0 stays: may land (100%) where it must not: b would be at ",
        ),
        ({"hotNodes": {"any": [{"utilization": {"cpu": 30}}]}}, "a would be too hot with it"),
        (
            {"evictable": {"protect": ["SingleReplica"]}},
            "no node has pods enough that may leave it and land elsewhere",
        ),
    ],
)
def test_the_plan_says_why_there_is_no_room(sections: dict[str, Any], says: str) -> None:
    planning = {**LIKELY, **sections.get("planning", {})}
    sections = {**sections, "planning": planning, "strategies": {"fragmentation": True}}
    plan = planned(pending(), policy=a_policy(**sections))

    assert plan.moves == ()
    assert plan.strategies["fragmentation"].message.startswith(f"Pending default/big-0 gets no room: {says}")


def test_the_plan_says_what_keeps_room_from_the_node_that_loses_the_fewest_pods() -> None:
    """Two pods may leave a, which the large one would make too hot; those of b might come back to it."""
    taint = {"key": "dedicated", "value": "big", "effect": "NoSchedule"}
    nodes = [a_node(name, cpu=4, taints=[taint] if name == "a" else ()) for name in "abc"]
    workloads = [
        a_workload(f"on-{name}", [name] * count, cpu="1") for name, count in (("a", 2), ("b", 3), ("c", 3))
    ]
    large = pending("4", tolerations=[{"operator": "Exists"}])
    used = {pod["metadata"]["name"]: 0.1 for workload in workloads for pod in workload.pods}
    plan = plan_of(planning_inputs(nodes, [*workloads, large], policy=ON, pod_load=used))

    assert plan.moves == ()
    assert plan.strategies["fragmentation"].message == (
        "Pending default/big-0 gets no room: a would be too hot with it"
    )


@rows("key", ["web", "a/b", "a/b/c\n", "a/b c/d", "a//b", "a/b/c/d"])
def test_a_workload_is_named_as_namespace_kind_and_name(key: str) -> None:
    with pytest.raises(ValidationError, match="should match pattern"):
        asked(workloads=[key])


def test_where_nodes_are_not_counted_on_yet_the_plan_says_so() -> None:
    """A node became Ready a minute ago, or its figures are older than pods that came to it."""
    fresh = inputs(pending())
    nodes = replace(fresh.snapshot.nodes, ready_since=np.array([NOW - 60.0] * 3))
    young = plan_of(replace(fresh, snapshot=replace(fresh.snapshot, nodes=nodes)))
    assert young.strategies["fragmentation"].message == (
        "Pending default/big-0 gets no room: no node has pods enough that may leave it and land elsewhere, "
        "and some are not counted on: a became Ready only just now and 2 more"
    )

    came = plan_of(inputs(pending(), created=at(-5), window=60.0))
    assert came.moves == ()
    assert "some are not counted on: a " in came.strategies["fragmentation"].message


def test_all_pods_of_a_node_move_or_none() -> None:
    """Both pods of a or of b would have to leave it, and there is room for one of them."""
    plan = planned(pending("3"))

    assert plan.moves == ()
    assert set(kept(plan).values()) <= {"NoLanding", "NoBetterLanding"}


def test_nobody_else_takes_the_room() -> None:
    """Another Pending pod that fits as well may be first, so nothing is moved."""
    assert planned(pending(), pending("1600m", name="other", created=at(-10))).moves == ()


def test_room_for_one_more_pod_of_a_workload_is_made_and_kept() -> None:
    policy = asked(workloads=["default/ReplicaSet/web"])
    plan = planned(policy=policy)

    assert moved(plan) == {"api-0": "b"}
    assert plan.moves[0].because.startswith("it makes room on a for one more pod of default/ReplicaSet/web; ")
    assert planned(policy=policy, cpu=1).moves == ()


def test_a_deferred_resize_gets_room_on_its_own_node() -> None:
    """db runs with less and asks for 2 cores: a has 4, and 3.1 are requested by others."""
    db = a_workload("db", ["a"], cpu="2")
    waits = {"type": "PodResizePending", "status": "True", "reason": "Deferred"}
    db.pods[0]["status"].setdefault("conditions", []).append(waits)
    plan = planned(db)

    assert moved(plan) == {"api-0": "b"}
    assert plan.moves[0].because.startswith("it makes room on a for the resize of default/db-0; ")
    del waits["reason"]
    assert planned(db).moves == ()


def test_before_a_later_wave_it_looks_whether_the_room_is_still_needed() -> None:
    plan = planned(pending())
    assert all(not isinstance(item, str) for item in Planner(inputs(pending())).recheck(plan.moves).values())

    placed = inputs(a_workload("big", ["c"], cpu="100m"))
    assert all(isinstance(item, str) for item in Planner(placed).recheck(plan.moves).values())

    gone = "NotNeeded: the pod for which it would make room is gone"
    assert set(Planner(inputs()).recheck(plan.moves).values()) == {gone}


def two_rooms(wave: int, *, api: str = "a") -> Any:
    """Nodes a and d each have room for one of two Pending pods once a pod has left for b or e."""
    workloads = [
        a_workload("web", ["a", "d"], cpu="2"),
        a_workload("api", [api], cpu="1100m"),
        a_workload("job", ["d"], cpu="1100m"),
        a_workload("lib", ["b", "e"], cpu="2500m"),
        a_workload("big", ["", ""], cpu="2", created=at(-3600)),
    ]
    policy = a_policy(
        strategies={"fragmentation": True},
        planning=LIKELY,
        execution={"firstWave": wave, "waveSize": wave},
    )
    used = {pod["metadata"]["name"]: 0.1 for workload in workloads for pod in workload.pods}
    return planning_inputs([a_node(name, cpu=4) for name in "abde"], workloads, policy=policy, pod_load=used)


@pytest.mark.parametrize("wave", [1000, 1])
def test_room_for_a_second_pod_is_still_made_before_the_first_one_has_taken_its_own(wave: int) -> None:
    moves = plan_of(two_rooms(wave)).moves
    found = Planner(two_rooms(wave)).recheck(moves)

    assert {move.pod.name for move in moves} == {"api-0", "job-0"}
    landings = {uid: item if isinstance(item, str) else item.landings for uid, item in found.items()}
    assert landings == {move.pod.uid: move.landings for move in moves}


def test_the_second_wave_goes_on_while_the_pod_of_the_first_one_is_not_bound_yet() -> None:
    first, second = plan_of(two_rooms(1)).moves
    found = Planner(two_rooms(1, api="b")).recheck([second])[second.pod.uid]

    assert first.pod.name == "api-0"
    assert not isinstance(found, str)
    assert [landing.node for landing in found.landings] == ["e"]


def two_leave(keeps: str = "", made: str = "", *more: Workload) -> Any:
    """Two pods leave a for one, each in a wave of its own: one that ``keeps`` may not; ``made`` has left."""
    annotation = {"descheduler.alpha.kubernetes.io/evict": "false"}
    workloads = [
        *(
            a_workload(
                name, ["b" if name == made else "a"], cpu="1", annotations=annotation if name == keeps else {}
            )
            for name in ("api", "job", "web")
        ),
        a_workload("lib", ["b", "c"], cpu="2500m"),
        pending("2500m", tolerations=[{"operator": "Exists"}]),
        *more,
    ]
    taint = {"key": "dedicated", "value": "big", "effect": "NoSchedule"}
    nodes = [a_node(name, cpu=4, taints=[taint] if name == "a" else ()) for name in "abc"]
    used = {pod["metadata"]["name"]: 0.1 for workload in workloads for pod in workload.pods}
    policy = a_policy(
        strategies={"fragmentation": True},
        planning=LIKELY,
        execution={"firstWave": 1, "waveSize": 1},
    )
    return planning_inputs(nodes, workloads, policy=policy, pod_load=used)


def test_what_makes_room_together_stays_together_before_a_later_wave() -> None:
    """Two pods leave a for one: where one of them may not any more, the other would make no room."""
    moves = plan_of(two_leave()).moves
    assert {move.pod.name for move in moves} == {"api-0", "job-0"}

    for keeps in ("api", "job"):
        found = Planner(two_leave(keeps)).recheck(moves)
        assert all(isinstance(verdict, str) for verdict in found.values()), found


@pytest.mark.parametrize("cpu", ["500m", "600m"])
def test_no_more_pods_leave_for_one_that_would_not_fit_then_as_another_took_its_room(cpu: str) -> None:
    first, second = plan_of(two_leave()).moves
    late = a_workload("late", ["a"], cpu=cpu)
    found = Planner(two_leave("", first.pod.workload.partition("/")[2], late)).recheck(
        [second], Progress(made=[first], left=[second]), through=2
    )[second.pod.uid]

    says = "NotNeeded: Pending default/big-0 would not fit on a without it either"
    assert (found == says) is (cpu == "600m")
    assert isinstance(found, str) is (cpu == "600m")


def test_nothing_to_do_leaves_the_plan_as_it_is() -> None:
    assert planned().moves == ()
    assert planned().strategies["fragmentation"].message == ""
