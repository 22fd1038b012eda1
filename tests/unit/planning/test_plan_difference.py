from __future__ import annotations

from rebalancer.planning.plan import Benefit, Change, NodeReport, difference
from rebalancer.reporting.tables.plan import difference_table
from tests.unit.reporting.builders import a_kept, a_move, a_plan


def test_the_same_plan_differs_in_nothing() -> None:
    found = difference(a_plan(), a_plan())

    assert (found.same_moves, found.changed) == (2, ())
    assert difference_table(found).plain.startswith("The plans make the same moves.")


def test_a_pod_that_only_one_plan_moves_is_named_with_the_reason_of_the_other() -> None:
    first = a_plan(moves=(a_move("web-1"),))
    second = a_plan(policy="strict", moves=(), kept=(a_kept("web-1", "Limit", "perRun 0 is reached"),))
    found = difference(first, second)

    assert found.moves == (1, 0)
    assert [(change.pod, change.before, change.after) for change in found.changed] == [
        ("shop/web-1", "moved in wave 1 to node-0007", "stays (Limit): perRun 0 is reached")
    ]
    assert "1 pod treated differently, 0 moves the same" in difference_table(found).plain


def test_a_pod_of_a_node_without_a_known_load_is_not_said_to_be_on_one_that_is_not_hot() -> None:
    unknown = NodeReport(name="node-0001", load={}, hot=False)
    first = a_plan(moves=(a_move("web-1"),))

    for nodes, stays in (((), "its node is not hot"), ((unknown,), "the load of its node is not known")):
        (change,) = difference(first, a_plan(nodes=nodes, moves=())).changed
        assert change.after == f"stays: {stays}"


def test_a_pod_that_lands_elsewhere_is_a_difference() -> None:
    found = difference(
        a_plan(moves=(a_move("web-1"),)), a_plan(moves=(a_move("web-1", to=("node-3", "node-4"), wave=2),))
    )

    assert [change.after for change in found.changed] == ["moved in wave 2 to node-3 or 1 more"]


def test_what_either_plan_leaves_and_costs_is_shown() -> None:
    first = a_plan(benefit=a_benefit(left=15.0, cost=2.4))
    second = a_plan(benefit=a_benefit(left=0.0, cost=4.7))
    found = difference(first, second)

    assert (found.excess, found.cost) == ((15.0, 0.0), (2.4, 4.7))
    shown = difference_table(found).plain
    assert "  excess after it   15 → 0\n" in shown
    assert "  cost              2.4 → 4.7\n" in shown


def test_a_plan_that_does_not_say_what_it_gains_is_not_taken_to_gain_nothing() -> None:
    found = difference(a_plan(benefit=None), a_plan(benefit=a_benefit(left=0.0, cost=4.7)))

    assert (found.excess, found.cost) == (None, None)
    assert "excess" not in difference_table(found).plain


def a_benefit(*, left: float, cost: float) -> Benefit:
    return Benefit(hot_nodes=Change(before=2, after=0), excess=Change(before=41.0, after=left), cost=cost)
