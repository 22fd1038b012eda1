"""The strategy that moves pods which restart: whom, in which order, to where, and how often."""

from __future__ import annotations

from typing import Any

from rebalancer.planning.inputs import PlanningInputs
from rebalancer.planning.plan import Plan
from rebalancer.planning.planner import Planner
from rebalancer.policy.schema import RebalancePolicy
from rebalancer.state.run_state import RunState
from tests.builders import a_budget, a_node
from tests.rows import rows
from tests.unit.planning.builders import (
    Workload,
    a_past_move,
    a_policy,
    a_workload,
    because,
    kept,
    moved,
    plan_of,
    planning_inputs,
)

NODES = (a_node("a", unschedulable=True), a_node("b"))


def restarting(
    name: str, *restarts: int, init: int = 0, waiting: str = "CrashLoopBackOff", **workload: Any
) -> Workload:
    """A workload on node a whose pods were restarted so often; with a reason to wait they are not ready."""
    made = a_workload(name, ["a"] * len(restarts), cpu="100m", **workload)
    for pod, count in zip(made.pods, restarts, strict=True):
        state = {"waiting": {"reason": waiting}} if waiting and count else {"running": {}}
        pod["status"]["containerStatuses"] = [{"name": "main", "restartCount": count, "state": state}]
        if init:
            done = {"terminated": {"reason": "Completed", "exitCode": 0}}
            pod["status"]["initContainerStatuses"] = [{"name": "i", "restartCount": init, "state": done}]
        if waiting and count:
            pod["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
            made.item["status"]["readyReplicas"] -= 1
    return made


def inputs(*workloads: Workload, policy: RebalancePolicy | None = None, **case: Any) -> PlanningInputs:
    chosen = policy or a_policy(strategies={"restarts": case.pop("settings", True)})
    return planning_inputs(case.pop("nodes", NODES), workloads, policy=chosen, **case)


def plan(*workloads: Workload, **case: Any) -> Plan:
    return plan_of(inputs(*workloads, **case))


def order(found: Plan) -> list[str]:
    return [move.pod.name for move in found.moves]


def test_it_is_off_unless_asked_for() -> None:
    assert plan(restarting("web", 500), policy=a_policy()).moves == ()


def test_a_pod_that_restarts_moves_to_another_node_and_the_plan_says_why() -> None:
    found = plan(restarting("web", 130))

    assert moved(found) == {"web-0": "b"}
    assert found.moves[0].because == (
        "its containers were restarted 130 times; its replacement will be placed on b"
    )


def test_the_threshold_counts_as_too_often_and_what_is_below_does_not() -> None:
    assert order(plan(restarting("web", 100), restarting("api", 99))) == ["web-0"]
    assert order(plan(restarting("web", 7), restarting("api", 6), settings={"threshold": 7})) == ["web-0"]


def test_the_most_restarts_move_first() -> None:
    assert order(plan(restarting("a", 120), restarting("b", 300), restarting("c", 120))) == [
        "b-0",
        "a-0",
        "c-0",
    ]


def test_restarts_of_init_containers_count_where_that_is_asked() -> None:
    pods = restarting("web", 60, init=50)

    assert order(plan(pods)) == []
    assert order(plan(pods, settings={"includingInitContainers": True})) == ["web-0"]


@rows(
    "settings, due",
    [
        ({"states": ["CrashLoopBackOff"]}, ["stuck-0"]),
        ({"states": ["Running"]}, ["now-0", "stuck-0"]),
        ({"states": ["Error"]}, []),
        ({"podSelector": {"matchLabels": {"app": "now"}}}, ["now-0"]),
        ({"excludeOwnerKinds": ["ReplicaSet"]}, []),
    ],
)
def test_only_pods_in_the_states_that_are_asked_for(settings: dict[str, Any], due: list[str]) -> None:
    assert order(plan(restarting("stuck", 150), restarting("now", 150, waiting=""), settings=settings)) == due


def test_it_stays_where_its_replacement_may_run_on_the_same_node() -> None:
    pinned = {"nodeSelector": {"kubernetes.io/hostname": "a"}}
    web, nodes = restarting("web", 130, spec=pinned), [a_node("a"), a_node("b")]

    assert kept(plan(web, nodes=nodes)) == {"web-0": "NoBetterLanding"}
    assert "a is the node it leaves (restarts: " in because(plan(web, nodes=nodes), "web-0")


def test_of_a_workload_the_worst_pod_moves_and_the_others_wait_for_a_later_run() -> None:
    found = plan(restarting("web", 110, 130, 120))

    assert (order(found), kept(found)) == (["web-1"], {"web-0": "Siblings", "web-2": "Siblings"})


def test_a_pod_that_fails_on_every_node_is_not_moved_again_and_again() -> None:
    after = {
        name: plan(restarting("web", 130), state=RunState(moves=(a_past_move(result=name),)))
        for name in ("Landed", "NotReady")
    }

    assert kept(after["Landed"]) == {"web-0": "Cooldown"}
    assert kept(after["NotReady"]) == {"web-0": "LandedBadly"}


def test_a_budget_that_allows_nothing_keeps_a_pod_that_is_ready() -> None:
    budgets = [a_budget("web", labels={"app": "web"}, allowed=0)]

    assert kept(plan(restarting("web", 130, waiting=""), poddisruptionbudgets=budgets)) == {"web-0": "Budget"}


def test_before_a_later_wave_a_pod_that_was_replaced_meanwhile_stays() -> None:
    moves = plan(restarting("web", 130)).moves

    assert Planner(inputs(restarting("web", 130))).recheck(moves) == {moves[0].pod.uid: moves[0]}
    assert Planner(inputs(restarting("web", 3))).recheck(moves) == {
        moves[0].pod.uid: "NotNeeded: it was not restarted so often, or is in none of the states any more"
    }
