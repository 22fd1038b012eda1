"""Nodes as a page: what it shows, and that names in it do nothing."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalancer.reporting.html.chart import HEIGHT, count_chart, line_chart
from rebalancer.reporting.html.pages import nodes_page
from rebalancer.reporting.tables.nodes import NodeListing, node_listing
from tests.unit.reporting.builders import a_node, a_plan
from tests.unit.reporting.html.parsed import HOSTILE, Page


def a_listing(*, warnings: tuple[str, ...] = (), source: str = "production") -> NodeListing:
    plan = a_plan(warnings=warnings, source=source)
    return node_listing(plan, plan.nodes)


def test_the_page_of_nodes_has_a_summary_a_chart_and_a_row_for_each() -> None:
    text = Page(nodes_page(a_listing())).words

    assert "3 nodes: 2 hot, 0 without a fresh figure" in text
    assert "mean p95 max cpu 65 91 91 memory 55 55 55" in text
    assert "node-0001 91 55 12 cpu 91 % is above 80 %" in text
    assert "% after" not in text, "nodes are shown as they are now"


def test_the_page_of_some_nodes_says_how_they_were_chosen_and_how_many_are_left_out() -> None:
    listing = a_listing()
    one = node_listing(a_plan(), listing.nodes[:2])
    text = Page(nodes_page(one, listing, "label pool in (web)", top=1)).words

    assert "3 nodes: 2 hot" in text
    assert "listed 2 of 3 nodes: label pool in (web)" in text
    assert "… 1 more node" in text
    assert "node-0002 84" not in text


@pytest.mark.parametrize(
    "page",
    [
        nodes_page(a_listing(warnings=(HOSTILE,), source=HOSTILE), chosen_by=HOSTILE),
        nodes_page(node_listing(a_plan(), (a_node(HOSTILE, because=HOSTILE),))),
    ],
)
def test_hostile_names_add_no_element_and_load_nothing(page: str) -> None:
    parsed = Page(page)

    parsed.check_harmless()
    assert "{{ 7 * 7 }}" in parsed.text
    assert "\x1b" not in page
    assert "\u202e" not in page


def test_lines_to_read_values_by_are_round_and_reach_the_highest_figure() -> None:
    found = line_chart("peak", {"a": [88.0, 61.5], "b": [12.0, float("nan")]}, "cycle", ["1", "2"])

    assert found is not None
    assert [figure for _, figure in found.lines] == ["0", "20", "40", "60", "80", "100"]
    assert found.series[1][1].count(",") == 1, "an unknown figure is left out, not drawn as 0"
    assert line_chart("peak", {"a": [float("nan")]}, "cycle", ["1"]) is None


def test_counts_are_bars_with_a_label_below_each() -> None:
    counts = count_chart("hot nodes", {"a": [2.0, 0.0], "b": [1.0, float("nan")]}, "cycle", ["1", "2"])

    assert counts is not None
    assert [figure for _, figure in counts.lines] == ["0", "1", "2"]
    assert [(bar.policy, bar.height, bar.title) for bar in counts.columns] == [
        (0, HEIGHT, "a, cycle 1: 2"),
        (1, HEIGHT / 2, "b, cycle 1: 1"),
    ]
    assert [label for _, label in counts.ticks] == ["1", "2"]
    assert count_chart("hot nodes", {"a": [float("nan")]}, "cycle", ["1"]) is None


@given(st.lists(st.text("0123456789:TZ-", min_size=1, max_size=20), min_size=1, max_size=300))
def test_labels_below_an_axis_do_not_overlap(labels: list[str]) -> None:
    drawn = line_chart("peak", {"a": [1.0] * len(labels)}, "moment", labels)

    assert drawn is not None
    assert drawn.ticks[0][1] == labels[0]
    assert drawn.ticks[-1][1] == labels[-1]
    longest = max(map(len, labels))
    apart = [after - before for (before, _), (after, _) in itertools.pairwise(drawn.ticks)]
    assert len(drawn.ticks) <= 2 or min(apart) > 5 * longest
