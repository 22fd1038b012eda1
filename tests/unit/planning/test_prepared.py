"""What a look between two runs sees: the nodes that are hot, and those that can be used."""

from __future__ import annotations

from rebalancer.planning.prepared import Sight, sight_of
from tests.builders import a_node
from tests.unit.planning.builders import at, planning_inputs


def test_a_node_can_be_used_that_has_been_ready_for_a_while_and_is_not_to_be_left() -> None:
    new = a_node("new")
    new["status"]["conditions"][0]["lastTransitionTime"] = at(-60)
    leaving = {"key": "karpenter.sh/disrupted", "value": "", "effect": "NoSchedule"}
    nodes = [
        a_node("a"),
        a_node("cordoned", unschedulable=True),
        a_node("leaving", taints=[leaving]),
        a_node("lost", ready=False),
        new,
    ]
    inputs = planning_inputs(nodes, load={"a": 90.0})

    assert sight_of(inputs, usable=True) == Sight(frozenset({"a"}), frozenset({"a"}))
    assert sight_of(inputs, usable=False) == Sight(frozenset({"a"}), frozenset())
