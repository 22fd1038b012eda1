"""Before each wave its moves are judged as if the whole plan was: with what its earlier waves have used."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from rebalancer.planning.inputs import PlanningInputs
from rebalancer.planning.plan import POD_GONE, Move, Progress
from rebalancer.planning.planner import Planner
from rebalancer.scheduling.registry import load_configuration
from tests.builders import a_budget, a_node
from tests.rows import rows
from tests.unit.planning.builders import a_policy, a_workload, plan_of, planning_inputs
from tests.unit.planning.landing.alike_nodes import alike
from tests.unit.planning.strategies.test_consolidation import _PACKING

ONE_BY_ONE = {"firstWave": 1, "waveSize": 1}


def several(**policy: Any) -> PlanningInputs:
    """Nine pods on one hot node, of which some are moved, each in a wave of its own."""
    nodes = [a_node("hot", cpu=10), a_node("cool", cpu=100)]
    pods = [a_workload("web", ["hot"] * 9)]
    return planning_inputs(nodes, pods, policy=a_policy(execution=ONE_BY_ONE, **policy))


def evicted(moves: Sequence[Move], read: Callable[[list[Move]], PlanningInputs]) -> list[Move]:
    """The moves of a run that reads the cluster before each wave; ``read`` gets those made so far."""
    left, made = sorted(moves, key=lambda move: move.wave), list[Move]()
    while left:
        wave = left[0].wave
        progress = Progress(made=made, left=left)
        verdicts = Planner(read(made)).recheck(left, progress, through=wave)
        found = [verdicts.get(move.pod.uid, move) for move in left]
        left = [verdict for verdict in found if isinstance(verdict, Move)]
        made += [move for move in left if move.wave == wave]
        left = [move for move in left if move.wave != wave]
    return made


def test_moves_of_later_waves_are_judged_when_it_is_their_turn_unless_their_pods_are_gone() -> None:
    moves = plan_of(several()).moves
    gone = a_workload("web", ["hot"] * 9)
    del gone.pods[2]
    inputs = planning_inputs([a_node("hot", cpu=10), a_node("cool", cpu=100)], [gone], load={"hot": 90})
    verdicts = Planner(inputs).recheck(moves, through=1)

    assert len(moves) > 2
    assert isinstance(verdicts[moves[0].pod.uid], Move)
    assert verdicts["uid-default-web-2"] == POD_GONE
    assert len(verdicts) == 2


@pytest.mark.parametrize("policy", [{}, {"planning": {"partialRelief": False}}])
def test_all_moves_are_judged_where_some_hold_only_together(policy: dict[str, Any]) -> None:
    """Pods of a node move together where partialRelief is false, and a pod with the one it makes room for."""
    inputs = several(**policy)
    moves = plan_of(inputs).moves
    if not policy:
        moves = (replace(moves[0], makes_room_for=moves[-1].pod.uid), *moves[1:])

    assert len(moves) > 2
    assert set(Planner(inputs).recheck(moves, through=1)) == {move.pod.uid for move in moves}


def test_all_moves_are_judged_of_a_plan_that_does_not_say_whose_wish_they_are() -> None:
    moves = [replace(move, strategy="") for move in plan_of(several()).moves]
    assert set(Planner(several()).recheck(moves, through=1)) == {move.pod.uid for move in moves}


def scaled(replicas: int, moved: int = 0, **limits: Any) -> PlanningInputs:
    """Five pods on a hot node of which some are moved, of a workload that wants so many."""
    web = a_workload("web", ["hot"] * 5 + ["cool"] * (moved + max(replicas - 5, 0)), replicas=replicas)
    del web.pods[:moved]
    nodes = [a_node("hot", cpu=10, labels={"pool": "batch"}), a_node("cool", cpu=100)]
    policy = a_policy(limits=limits, execution=ONE_BY_ONE, planning={"aggressiveness": 4})
    return planning_inputs(nodes, [web], policy=policy, load={"hot": 110 - 10 * moved})


@rows(
    "limits, most",
    [
        ({"perWorkload": "40%"}, 2),
        ({"perNode": 2}, 2),
        ({"perNamespace": 1}, 1),
        ({"perRun": 3}, 3),
        ({"perHour": 2}, 2),
        ({"scoped": [{"nodeSelector": {"matchLabels": {"pool": "batch"}}, "perRun": 1}]}, 1),
    ],
)
def test_limits_count_what_earlier_waves_of_the_plan_have_made(limits: dict[str, Any], most: int) -> None:
    """The plan was made when there were ten replicas, and with limits that allowed more."""
    moves = plan_of(scaled(10)).moves
    made = evicted(moves, lambda made: scaled(5, len(made), **limits))

    assert len(moves) > most
    assert len(made) == most


def sampled(bad: int, confidence: float, moved: int = 0) -> PlanningInputs:
    """The scheduler looks at a sample of nodes, of which some are bad: 5 are a risk of 2 % for each move."""
    names = [f"n{number:03}" for number in range(249)]
    nodes = [a_node("hot", cpu=10), *(a_node(name, cpu=10, labels={"pool": "x"}) for name in names)]
    web = a_workload("web", ["hot"] * 10 + names[100 : 100 + moved], spec={"nodeSelector": {"pool": "x"}})
    del web.pods[:moved]
    web.item["spec"]["replicas"] = 10
    policy = a_policy(planning={"confidence": confidence}, execution=ONE_BY_ONE)
    unknown = dict.fromkeys(names[:bad], float("nan"))
    return planning_inputs(nodes, [web], load=unknown, configuration=alike(0), policy=policy)


@pytest.mark.parametrize(("confidence", "most"), [(0.975, 1), (0.955, 2), (0.935, 3)])
def test_the_confidence_is_of_all_waves_of_the_plan(confidence: float, most: int) -> None:
    moves = plan_of(sampled(0, confidence)).moves
    made = evicted(moves, lambda made: sampled(5, confidence, len(made)))

    assert len(moves) > most
    assert [round(move.risk, 2) for move in made] == [0.02] * most


def test_a_plan_says_the_risk_of_each_move() -> None:
    assert [move.risk for move in plan_of(sampled(0, 0.5)).moves[:2]] == [0.0, 0.0]
    assert [round(move.risk, 2) for move in plan_of(sampled(5, 0.955)).moves] == [0.02, 0.02]


def test_within_a_wave_limits_and_confidence_count_what_was_made_before() -> None:
    limited = Planner(scaled(10, perWorkload=2))
    first, second, third = plan_of(scaled(10)).moves[:3]

    landed = [(first, "cool")]
    assert isinstance(limited.next_in_wave(landed, second, Progress(made=[first])), Move)
    assert "perWorkload 2" in str(limited.next_in_wave(landed, third, Progress(made=[second, first])))

    sure = Planner(sampled(5, 0.955))
    first, second, third = plan_of(sampled(0, 0.955)).moves[:3]
    risky = replace(second, risk=0.03)
    landed = [(first, "n100")]
    assert isinstance(sure.next_in_wave(landed, third, Progress(made=[first])), Move)
    verdict = sure.next_in_wave(landed, third, Progress(made=[risky, first]))
    assert "confidence of 95.50% leaves no room" in str(verdict)


def test_a_move_that_is_looked_at_just_before_it_is_made_does_not_count_as_made() -> None:
    moves = plan_of(scaled(10)).moves
    progress = Progress(made=moves[:1], left=moves[1:])
    assert isinstance(Planner(scaled(10, perWorkload=1)).recheck(moves[:1], progress)[moves[0].pod.uid], Move)


def test_the_rest_of_a_node_stays_where_an_eviction_was_refused_and_pods_move_only_together() -> None:
    inputs = several(planning={"partialRelief": False})
    first, refused, third = plan_of(inputs).moves[:3]
    progress = Progress(stayed=[refused], left=[first, third])
    together = "it would move only together with default/web-1, which stays"

    assert together in str(Planner(inputs).recheck([first, third], progress)[third.pod.uid])
    assert together in str(Planner(inputs).next_in_wave([], third, progress))
    assert isinstance(Planner(inputs).next_in_wave([], third, Progress(left=[first, third])), Move)


def emptying(made: Sequence[Move] = (), **change: Any) -> PlanningInputs:
    """n1 (a, b) and n2 (c) are to be emptied. Once a has moved, n3 is full, and b still has n2 to go to."""
    names = {move.pod.name for move in made}
    a = a_workload("a", ["n3" if "a-0" in names else "n1"], cpu="500m")
    b = a_workload("b", ["n2" if "b-0" in names else "n1"], cpu="500m")
    for item in (a, b):
        if item.pods[0]["metadata"]["name"] in names:
            item.pods[0]["metadata"]["uid"] += "-new"
    rest = [a_workload("c", ["n2"] * 3, cpu="1"), a_workload("k", ["n3"] * 4, cpu="1")]
    late = [a_workload("late", ["n3"], cpu="5500m")] if names else []
    policy = a_policy(strategies={"consolidation": {"maxNodes": 2, "minNodeAge": "0s"}}, execution=ONE_BY_ONE)
    return planning_inputs(
        [a_node(name, cpu=10) for name in ("n1", "n2", "n3")],
        [a, b, *rest, *late, *change.pop("more", ())],
        policy=policy,
        configuration=load_configuration(_PACKING, "test"),
        **change,
    )


def test_a_node_that_is_to_be_emptied_is_not_left_half_emptied_for_one_that_cannot_be() -> None:
    budgets = [a_budget("c", labels={"app": "c"}, allowed=0)]  # c must stay, so n2 is not emptied

    moves = plan_of(emptying()).moves
    made = evicted(moves, lambda made: emptying(made, poddisruptionbudgets=budgets))

    assert {(move.pod.name, move.from_node) for move in moves} >= {
        ("a-0", "n1"),
        ("b-0", "n1"),
        ("c-0", "n2"),
    }
    assert {move.pod.name for move in made} == {"a-0", "b-0"}


def test_a_pod_that_is_looked_at_alone_does_not_go_to_a_node_that_is_to_be_emptied() -> None:
    moves = plan_of(emptying()).moves
    a, b = (next(move for move in moves if move.pod.name == name) for name in ("a-0", "b-0"))
    left = [move for move in moves if move.pod.name not in ("a-0", "b-0")]
    inputs, taken = emptying([a]), "n2 is empty, or is to be emptied"

    alone = Planner(inputs).recheck([b], Progress(made=[a, b], left=left))[b.pod.uid]
    assert taken in str(alone)
    assert taken in str(Planner(inputs).next_in_wave([(a, "n3")], b, Progress(made=[a], left=[b, *left])))


def test_a_node_is_not_emptied_any_more_once_another_pod_is_there() -> None:
    moves = plan_of(emptying()).moves
    new = emptying(more=[a_workload("new", ["n1"])])
    found = {uid: str(found) for uid, found in Planner(new).recheck(moves).items()}

    assert (
        found["uid-default-a-0"] == found["uid-default-b-0"] == "NotNeeded: its node is not emptied any more"
    )
