"""A question about a change says what becomes of the plan: hot nodes after it, its moves, its warnings."""

from __future__ import annotations

from msgspec.structs import replace

from rebalancer.planning.inputs import About, PlanningInputs, PlanWarning
from rebalancer.planning.planner import Planner
from rebalancer.scheduling.registry import load_configuration
from rebalancer_lab.what_if.changed_cluster import what_if
from rebalancer_lab.what_if.changes import parse_changes
from rebalancer_lab.what_if.tables import what_if_table
from tests.builders import a_node
from tests.unit.planning.builders import a_workload, planning_inputs

OLD = """
apiVersion: kubescheduler.config.k8s.io/v1beta3
kind: KubeSchedulerConfiguration
"""


def a_hot_cluster() -> PlanningInputs:
    """Node a is hot, and a plan sends a pod of it to b, which is emptier than c."""
    web = a_workload("web", ["a", "a", "a", "c"])
    nodes = [a_node("a", cpu=4), a_node("b", cpu=8), a_node("c", cpu=8)]
    return planning_inputs(nodes, [web], load={"a": 95.0, "b": 5.0, "c": 20.0})


def test_a_cordon_changes_where_the_moves_of_a_plan_go() -> None:
    inputs = a_hot_cluster()
    assert Planner(inputs).plan().moves[0].landings[0].node == "b"

    answer = what_if(inputs, parse_changes((), ("b",), (), ()))

    assert answer.hot_after_plan == (0, 0)
    assert {move.before[0].node for move in answer.changed_moves} == {"b"}
    assert {move.after[0].node for move in answer.changed_moves if move.after} == {"c"}
    text = what_if_table(answer).plain
    assert "hot after a plan       0 → 0" in text
    assert "MOVES OF A PLAN THAT CHANGE" in text


def test_without_room_elsewhere_a_node_stays_hot_and_nothing_moves() -> None:
    answer = what_if(a_hot_cluster(), parse_changes((), ("b", "c"), (), ()))

    assert answer.hot_after_plan == (0, 1)
    assert answer.moves[1] == 0
    assert all(move.after == () for move in answer.changed_moves)


def test_a_new_node_cools_what_nothing_else_could() -> None:
    web = a_workload("web", ["a", "a", "a"])
    inputs = planning_inputs([a_node("a", cpu=4)], [web], load={"a": 95.0})

    answer = what_if(inputs, parse_changes((), (), ("a=1",), ()))

    assert answer.hot == (1, 1)
    assert answer.hot_after_plan == (1, 0)
    assert {move.after[0].node for move in answer.changed_moves} == {"a-new-1"}


def test_a_change_that_changes_no_move_lists_none() -> None:
    assert what_if(a_hot_cluster(), parse_changes((), (), (), ("rs/web=4",))).changed_moves == ()


def test_every_warning_of_a_plan_is_one_of_the_answer() -> None:
    inputs = a_hot_cluster()
    warnings = tuple(PlanWarning(about, f"about {about.name}") for about in About)
    inputs = replace(inputs, warnings=(*inputs.warnings, *warnings))

    answer = what_if(inputs, parse_changes((), ("b",), (), ()))

    assert answer.warnings == Planner(inputs).plan().warnings
    assert {f"about {about.name}" for about in About} <= set(answer.warnings)


def test_what_the_other_configuration_alone_is_warned_of_comes_first() -> None:
    inputs = a_hot_cluster()
    (scheduler,) = inputs.schedulers
    other = replace(
        inputs,
        schedulers=(replace(scheduler, configuration=load_configuration(OLD, "old.yaml")),),
        warnings=(*inputs.warnings, PlanWarning(About.SCHEDULER, "it does not read v1beta3")),
    )

    answer = what_if(inputs, parse_changes((), (), (), ()), other)

    assert answer.configuration_warnings == ("it does not read v1beta3",)
    lines = what_if_table(answer).plain.splitlines()
    assert (
        "  it does not read v1beta3"
        in lines[: lines.index(next(line for line in lines if "hot nodes" in line))]
    )


def test_a_plugin_that_an_option_names_is_unmatched_only_where_neither_configuration_has_it() -> None:
    unmatched = PlanWarning(About.NAME, "--assume-neutral names the plugin Noise, which defaults do not have")
    also = PlanWarning(About.NAME, "--assume-neutral names the plugin Noise, which new.yaml does not have")
    inputs = a_hot_cluster()
    given = replace(inputs, warnings=(*inputs.warnings, unmatched))
    no_change = parse_changes((), (), (), ())

    assert unmatched.sentence not in what_if(given, no_change, inputs).warnings
    assert unmatched.sentence in what_if(given, no_change, replace(inputs, warnings=(also,))).warnings
    assert what_if(inputs, no_change, given).configuration_warnings == ()
