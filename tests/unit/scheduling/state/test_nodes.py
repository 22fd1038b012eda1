"""The order in which the scheduler looks at the nodes: those that it listed by name, then as they came."""

from __future__ import annotations

import math

import numpy as np

from rebalancer.cluster import times
from rebalancer.scheduling.state.nodes import NodeIndex, listed_since
from tests.builders import a_node, a_snapshot
from tests.rows import rows

MORNING, NOON, EVENING = "2026-11-20T08:00:00Z", "2026-11-20T12:00:00Z", "2026-11-20T18:00:00Z"
NODES = {"a": EVENING, "b": MORNING, "c": NOON, "d": MORNING, "e": NOON}
TABLE = a_snapshot(nodes=[a_node(name, created=created) for name, created in NODES.items()], pods=[]).nodes


@rows(
    "moment, order",
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
    assert listed_since(TABLE, moment).names == list(order)


def test_from_a_minor_on_those_that_it_finds_when_it_starts_come_in_no_order() -> None:
    names = [f"n{number:03}" for number in range(200)]
    nodes = [a_node(name, created=MORNING) for name in names]
    table = a_snapshot(nodes=[*nodes, a_node("a", created=EVENING)], pods=[]).nodes
    first, second, turned = (listed_since(table, times.parse(NOON), shuffle).names for shuffle in (1, 2, -1))
    assert [first[-1], second[-1], turned[-1]] == ["a", "a", "a"]  # it is younger than the scheduler
    assert turned[:-1] == first[-2::-1]
    for one, other in (names, first), (first[:-1], second), (names, second):
        at = {name: place for place, name in enumerate(other)}
        places = [at[name] for name in one]
        assert abs(np.corrcoef(range(200), places)[0, 1]) < 0.25
        assert sum(abs(np.diff(places)) == 1) < 8  # neighbours that stay so: two of 199 pairs, by chance


def test_times_of_creation_that_nobody_can_read_are_the_latest_and_others_are_compared_as_times() -> None:
    created = {
        "a": "2026-11-20T08:00:00.5Z",
        "b": "yesterday",
        "c": "2026-11-20T09:30:00+02:00",
        "d": None,
        "e": "2026-11-20T08:00:00Z",
        "f": "9999-12-31T23:59:59Z",
        "g": "1969-12-31T23:59:59Z",
    }
    nodes = [a_node(name) for name in created]
    for node, at in zip(nodes, created.values(), strict=True):
        node["metadata"]["creationTimestamp"] = at
    table = a_snapshot(nodes=nodes, pods=[]).nodes
    assert listed_since(table, -math.inf).names == list("gceafbd")
    assert listed_since(table, times.parse(MORNING)).names == list("cegafbd")
    assert listed_since(table, math.inf).names == list("abcdefg")


def test_nodes_of_one_second_come_by_name_or_turned_round() -> None:
    assert [listed_since(TABLE, -math.inf, shuffle).names for shuffle in (1, -1)] == [
        list("bdcea"),
        list("dbeca"),
    ]


def test_a_node_that_is_only_assumed_comes_last() -> None:
    nodes = [a_node("a", created=None), a_node("b"), a_node("c")]
    assert listed_since(a_snapshot(nodes=nodes, pods=[]).nodes, -math.inf).names == ["b", "c", "a"]


def test_orders_that_are_the_same_count_once() -> None:
    registered = [listed_since(TABLE, moment) for moment in (-math.inf, times.parse(MORNING), math.inf)]
    orders = NodeIndex(TABLE, registered).orders
    assert [order.rows.tolist() for order in orders] == [[1, 3, 2, 4, 0], [0, 1, 2, 3, 4]]
    assert [order.count for order in orders] == [2, 1]
    (by_name,) = NodeIndex(TABLE).orders
    assert by_name.rows.tolist() == [0, 1, 2, 3, 4]


def test_for_samples_orders_differ_by_which_nodes_were_listed_and_not_by_how_these_were_drawn() -> None:
    moments = (times.parse(NOON), math.inf)
    registered = [listed_since(TABLE, moment, shuffle) for moment in moments for shuffle in (1, -1, 2)]
    index = NodeIndex(TABLE, registered)
    listed = [order.listed.tolist() for order in index.orders_of_samples]
    assert listed == [[name != "a" for name in "abcde"], [True] * 5]
    assert sum(order.count for order in index.orders_of_samples) == 6
