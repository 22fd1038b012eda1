"""The order in which the scheduler looks at the nodes: those that it listed by name, then as they came."""

from __future__ import annotations

import math

import pytest

from rebalancer.cluster import times
from rebalancer.scheduling.state.nodes import NodeIndex, listed_since
from tests.builders import a_node, a_snapshot

MORNING, NOON, EVENING = "2026-11-20T08:00:00Z", "2026-11-20T12:00:00Z", "2026-11-20T18:00:00Z"
NODES = {"a": EVENING, "b": MORNING, "c": NOON, "d": MORNING, "e": NOON}
TABLE = a_snapshot(nodes=[a_node(name, created=created) for name, created in NODES.items()], pods=[]).nodes


@pytest.mark.parametrize(
    ("moment", "order"),
    [
        (math.inf, "abcde"),
        (-math.inf, "bdcea"),
        (times.parse(MORNING) - 1, "bdcea"),
        (times.parse(NOON), "bcdea"),
        (times.parse(NOON) + 0.5, "bcdea"),
        (times.parse(EVENING), "abcde"),
    ],
)
def test_nodes_come_by_name_until_the_scheduler_starts_and_then_by_age(moment: float, order: str) -> None:
    assert listed_since(TABLE, moment) == list(order)


def test_a_node_that_is_only_assumed_comes_last() -> None:
    nodes = [a_node("a", created=None), a_node("b"), a_node("c")]
    assert listed_since(a_snapshot(nodes=nodes, pods=[]).nodes, -math.inf) == ["b", "c", "a"]


def test_orders_that_are_the_same_count_once() -> None:
    orders = [listed_since(TABLE, moment) for moment in (-math.inf, times.parse(MORNING), math.inf)]
    assert [order.tolist() for order in NodeIndex(TABLE, orders).orders] == [[1, 3, 2, 4, 0], [0, 1, 2, 3, 4]]
    assert [order.tolist() for order in NodeIndex(TABLE).orders] == [[0, 1, 2, 3, 4]]
