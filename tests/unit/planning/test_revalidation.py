"""What became of a plan: landings it did not list, and moves whose time has passed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from rebalancer.load.scheduler_view import AVERAGE, CPU_TYPE, Metric, SchedulerView, WatcherMetrics
from rebalancer.planning.inputs import PlanningInputs, RunSoFar
from rebalancer.planning.plan import POD_GONE, POD_LEAVING, Move, Plan
from rebalancer.planning.planner import Planner
from rebalancer.state.run_state import PastMove
from tests.builders import a_budget, a_node
from tests.unit.planning.builders import (
    NOW,
    a_past_move,
    a_policy,
    a_workload,
    plan_of,
    planning_inputs,
    with_scheduler,
)
from tests.unit.planning.landing.hot_pods import PACKED

NODES = [a_node("hot"), a_node("cool", cpu=40), a_node("warm", cpu=8), a_node("small")]
UNKNOWN = float("nan")


def a_cluster(**changes: Any) -> PlanningInputs:
    values: dict[str, Any] = {"workloads": [a_workload("web", ["hot"], cpu="3500m")], **changes}
    return planning_inputs(values.pop("nodes", NODES), values.pop("workloads"), **values)


def judged(node: str, **changes: Any) -> str | None:
    inputs = a_cluster(load={"warm": 20, "dark": UNKNOWN}, nodes=[*NODES, a_node("dark")], **changes)
    planner = Planner(inputs)
    plan = planner.plan()
    return planner.landed_well(plan, plan.moves[0], node)


def test_a_landing_elsewhere_that_is_good_as_well_is_acceptable() -> None:
    assert judged("warm") is None


def test_a_landing_back_on_the_node_left_is_not() -> None:
    assert judged("hot") == "hot is the node it leaves"


def test_a_landing_that_makes_a_node_hot_is_not() -> None:
    assert judged("small") == "small would be at 87.5 % cpu, hot above 80.0 %"


def test_a_landing_without_figures_is_not() -> None:
    assert judged("dark") == "dark has no fresh load figure"


def test_a_landing_on_a_node_that_came_later_is_not() -> None:
    assert judged("new") == "new was not there when the plan was made"


def the_moves() -> tuple[Move, ...]:
    return plan_of(a_cluster()).moves


def failing(
    inputs: PlanningInputs, moves: tuple[Move, ...] | None = None, made: Sequence[PastMove] = ()
) -> dict[str, str]:
    found = Planner(inputs, RunSoFar(moved=tuple(made))).recheck(moves or the_moves())
    return {uid.removeprefix("uid-default-"): said for uid, said in found.items() if isinstance(said, str)}


def test_on_an_unchanged_cluster_every_move_still_holds() -> None:
    assert failing(a_cluster()) == {}


def test_a_pod_that_is_gone_is_not_moved() -> None:
    assert failing(a_cluster(workloads=[])) == {"web-0": "the pod is gone"}


def test_a_pod_that_leaves_by_itself_is_not_moved_even_where_its_node_has_cooled() -> None:
    workload = a_workload("web", ["hot"], cpu="3500m")
    workload.pods[0]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    for load in ({}, {"hot": 60}):
        assert failing(a_cluster(workloads=[workload], load=load)) == {"web-0": POD_LEAVING}


def test_a_pod_that_somebody_else_moves_by_now_is_leaving() -> None:
    annotated = {"descheduler.alpha.kubernetes.io/eviction-in-progress": "true"}
    workload = a_workload("web", ["hot"], cpu="3500m", annotations=annotated)
    said = failing(a_cluster(workloads=[workload]))["web-0"]
    assert said.startswith(f"{POD_LEAVING}: is being evicted already")


def test_a_pod_of_the_same_name_is_another_pod() -> None:
    workload = a_workload("web", ["hot"], cpu="3500m")
    workload.pods[0]["metadata"]["uid"] = "another"
    assert failing(a_cluster(workloads=[workload])) == {"web-0": "the pod is gone"}


def test_a_pod_that_runs_elsewhere_by_now_is_not_moved() -> None:
    assert failing(a_cluster(workloads=[a_workload("web", ["warm"])])) == {
        "web-0": "the pod runs on another node"
    }


def test_a_pod_whose_node_is_gone_is_not_moved() -> None:
    assert failing(a_cluster(nodes=NODES[1:])) == {"web-0": "its node hot is gone"}


def test_a_pod_whose_node_has_cooled_is_not_moved() -> None:
    found = failing(a_cluster(load={"hot": 60}))
    assert found == {"web-0": "NotNeeded: its node has cooled without moving it"}


def test_a_pod_whose_node_is_below_its_threshold_but_not_cool_still_moves() -> None:
    assert failing(a_cluster(load={"hot": 70}, pod_load={"web-0": 2.0})) == {}


def test_its_reason_then_names_the_level_that_is_above_coolto() -> None:
    nodes = [a_node("hot"), a_node("cool", cpu=40), a_node("cold", cpu=80), a_node("small")]
    inputs = a_cluster(nodes=nodes, load={"hot": 70}, pod_load={"web-0": 2.0})
    (now,) = Planner(inputs).recheck(the_moves()).values()

    assert isinstance(now, Move)
    assert now.because.startswith(
        "hot is at 70.0 % cpu (cool at 65.0 %); its replacement will be placed on cold"
    )


def test_a_move_off_such_a_node_must_still_gain() -> None:
    inputs = a_cluster(load={"hot": 70, "cool": 64}, pod_load={"web-0": 2.0})
    assert "minGain 5" in failing(inputs)["web-0"]


def test_a_pod_that_became_protected_is_not_moved() -> None:
    budgets = [a_budget("web", labels={"app": "web"}, allowed=0)]
    assert failing(a_cluster(poddisruptionbudgets=budgets))["web-0"].startswith("Budget: ")


def test_a_landing_that_became_bad_stops_the_move() -> None:
    assert failing(a_cluster(load={"cool": 79}))["web-0"].startswith("NoBetterLanding: ")


def test_too_few_figures_stop_every_move() -> None:
    inputs = a_cluster(load={"cool": UNKNOWN}, policy=a_policy(load={"minCoverage": "100%"}))
    assert "only 3 of 4 nodes" in failing(inputs)["web-0"]


def test_figures_that_do_not_show_our_own_moves_yet_are_corrected() -> None:
    made = [a_past_move(from_node="hot", to_node="warm", evicted_at=inputs_now(), landed_at=inputs_now())]
    inputs = a_cluster(load={"hot": 87}, pod_load={"web-0": 1.0})
    assert failing(inputs, made=made) == {"web-0": "NotNeeded: its node has cooled without moving it"}


def inputs_now() -> float:
    return a_cluster().now


def test_nothing_leaves_a_node_whose_figures_cannot_be_corrected() -> None:
    made = [a_past_move(from_node="hot", result="Unknown", evicted_at=inputs_now(), load={})]
    assert "whose load is unknown" in failing(a_cluster(), made=made)["web-0"]


def several() -> PlanningInputs:
    nodes = [a_node("hot", cpu=10), a_node("cool", cpu=100)]
    return planning_inputs(nodes, [a_workload("web", ["hot"] * 9)])


def test_a_move_that_holds_comes_with_the_landings_it_has_now() -> None:
    nodes = [a_node("hot"), a_node("cool", cpu=40), a_node("cold", cpu=80), a_node("small")]
    (move,) = the_moves()
    (now,) = Planner(a_cluster(nodes=nodes)).recheck([move]).values()
    assert [landing.node for landing in move.landings] == ["cool"]
    assert isinstance(now, Move)
    assert [landing.node for landing in now.landings] == ["cold"]
    assert "its replacement will be placed on cold, a gain of at least" in now.because
    assert f"{now.gain['cpu']:.1f} points of cpu" in now.because
    assert now.gain["cpu"] > move.gain["cpu"]
    assert replace(now, landings=move.landings, because=move.because, gain=move.gain) == move


def test_a_move_must_hold_with_figures_that_the_scheduler_may_not_have_renewed() -> None:
    """It packs up to 40 %: b by what is known now, a by what it knew half a minute ago."""

    def seen(**percent: float) -> SchedulerView:
        nodes = {name: (Metric(CPU_TYPE, AVERAGE, value),) for name, value in percent.items()}
        return SchedulerView({"http://w": WatcherMetrics(nodes, NOW, NOW - 900, NOW, "test")})

    inputs = planning_inputs(
        [a_node("hot"), a_node("a", cpu=10), a_node("b", cpu=10)],
        [a_workload("web", ["hot"], cpu="200m")],
        configuration=PACKED,
        view=seen(hot=95, a=20, b=30),
        load={"hot": 95, "a": 20, "b": 30},
        pod_load={"web-0": 1.2},
    )
    (move,) = plan_of(inputs).moves
    stale = with_scheduler(inputs, stale_views=(seen(hot=95, a=30, b=20),))
    (now,) = Planner(stale).recheck([move]).values()
    assert isinstance(now, Move)
    assert [landing.node for landing in move.landings] == ["b"]
    assert [landing.node for landing in now.landings] == ["a", "b"]


def test_a_move_must_hold_with_every_figure_that_the_scheduler_may_still_have() -> None:
    """It packs up to 40 %: what was read first and last agrees, what was read between does not."""

    def seen(**percent: float) -> SchedulerView:
        nodes = {name: (Metric(CPU_TYPE, AVERAGE, value),) for name, value in percent.items()}
        return SchedulerView({"http://w": WatcherMetrics(nodes, NOW, NOW - 900, NOW, "test")})

    now, between, first = seen(hot=95, a=20, b=30), seen(hot=95, a=30, b=20), seen(hot=95, a=20, b=30)
    inputs = planning_inputs(
        [a_node("hot"), a_node("a", cpu=10), a_node("b", cpu=10)],
        [a_workload("web", ["hot"], cpu="200m")],
        configuration=PACKED,
        view=now,
        load={"hot": 95, "a": 20, "b": 30},
        pod_load={"web-0": 1.2},
    )
    (move,) = plan_of(inputs).moves
    (holding,) = Planner(with_scheduler(inputs, stale_views=(first, between))).recheck([move]).values()
    assert isinstance(holding, Move)
    assert [landing.node for landing in holding.landings] == ["a", "b"]


def test_moves_of_one_wave_are_judged_together() -> None:
    moves = tuple(replace(move, wave=1) for move in plan_of(several()).moves)
    allowed_one = [a_budget("web", labels={"app": "web"}, allowed=1)]
    nodes = [a_node("hot", cpu=10), a_node("cool", cpu=100)]
    inputs = planning_inputs(nodes, [a_workload("web", ["hot"] * 9)], poddisruptionbudgets=allowed_one)
    assert set(failing(inputs, moves)) == {"web-1", "web-2"}
    apart = tuple(replace(move, wave=number) for number, move in enumerate(moves, 1))
    assert failing(inputs, apart) == {}


def test_a_move_that_no_longer_holds_leaves_the_others_as_they_are() -> None:
    moves = plan_of(several()).moves
    gone = a_workload("web", ["hot"] * 9)
    del gone.pods[1]
    inputs = planning_inputs([a_node("hot", cpu=10), a_node("cool", cpu=100)], [gone], load={"hot": 90})
    assert failing(inputs, moves) == {"web-1": "the pod is gone"}


def two_moves_to_one_node() -> tuple[Planner, Plan]:
    """Two hot nodes, each sends a pod to cool: there both leave no room for a third."""
    planner = Planner(
        planning_inputs(
            [a_node("h1"), a_node("h2"), a_node("cool", cpu=8), a_node("other", cpu=8, labels={"x": "y"})],
            [a_workload("one", ["h1"], cpu="3500m"), a_workload("two", ["h2"], cpu="3400m")],
            load={"other": 20},
            policy=a_policy(execution={"firstWave": 1, "waveSize": 1}),
        )
    )
    return planner, planner.plan()


def test_moves_that_are_not_made_yet_do_not_count_against_a_landing() -> None:
    planner, plan = two_moves_to_one_node()
    first, second = plan.moves
    assert (first.wave, second.wave) == (1, 2)
    where_the_second_goes = second.landings[0].node
    assert planner.landed_well(plan, first, where_the_second_goes) is None


def test_moves_that_are_made_count_where_they_have_landed() -> None:
    planner, plan = two_moves_to_one_node()
    first, second = plan.moves
    target = second.landings[0].node
    made = a_past_move(uid=first.pod.uid, from_node=first.from_node, to_node=target, load=first.load)
    assert "would be at" in (planner.landed_well(plan, second, target, [made]) or "")


def two_equal_pods(cool: int = 24) -> Planner:
    """Two pods of 9 points each may leave a hot node for one of two that are equal to the scheduler."""
    nodes = [a_node(name, cpu=64, memory="256Gi") for name in ("hot", "b", "c")]
    small = [a_workload(name, ["hot"], cpu="50m", memory="64Mi") for name in ("one", "two")]
    kept = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}
    rest = [a_workload(f"at-{node}", [node], cpu=cpu, annotations=kept) for node, cpu in STAYING.items()]
    points = {"one-0": 9, "two-0": 9, "at-hot-0": 70, "at-b-0": cool, "at-c-0": cool}
    loads = {name: 64 * percent / 100 for name, percent in points.items()}
    policy = a_policy(execution={"firstWave": 5, "waveSize": 5})
    inputs = planning_inputs(nodes, [*small, *rest], pod_load=loads, policy=policy)
    return Planner(with_scheduler(inputs, version="1.35"))


STAYING = {"hot": "6", "b": "1", "c": "1"}


def two_moves() -> tuple[Move, Move]:
    first, second = two_equal_pods().plan().moves
    assert first.wave == second.wave
    assert {landing.node for landing in second.landings} == {"b", "c"}
    return first, second


def test_the_next_move_goes_where_the_last_one_went_for_as_long_as_that_is_best() -> None:
    first, second = two_moves()
    for node in ("b", "c"):
        now = two_equal_pods().next_in_wave([(first, node)], second)
        assert isinstance(now, Move)
        assert now.landings[0].node == node
        assert now.landings[0].probability > 0.9


def test_the_next_move_is_judged_by_where_the_last_one_is_though_the_plan_listed_that() -> None:
    """Nothing goes on to a node that the pod before it has filled, in a wave that was good when planned."""
    first, second = two_moves()
    said = two_equal_pods(cool=65).next_in_wave([(first, "b")], second)
    assert said == (
        "NoBetterLanding: may land (95%) where it must not: b would be at 83.0 % cpu, hot above 80.0 %"
    )
    assert isinstance(two_equal_pods(cool=65).next_in_wave([], second), Move)


def test_nothing_follows_a_landing_on_a_node_that_came_meanwhile() -> None:
    first, second = two_moves()
    said = two_equal_pods().next_in_wave([(first, "new")], second)
    assert said == "default/one-0 landed on new, which was not there when the wave began"


def test_what_the_cluster_shows_already_is_not_counted_again() -> None:
    """The first pod had left when the cluster was read, and its replacement is one of the pods there."""
    first, second = two_moves()
    before = replace(first, pod=replace(first.pod, uid="of a pod that is gone"))
    now = two_equal_pods(cool=65).next_in_wave([(before, "b")], second)
    assert isinstance(now, Move)
    assert now == two_equal_pods(cool=65).next_in_wave([], second)


def test_a_pod_that_is_gone_is_not_moved_next() -> None:
    _, second = two_moves()
    gone = replace(second, pod=replace(second.pod, uid="other"))
    assert two_equal_pods().next_in_wave([], gone) == POD_GONE
