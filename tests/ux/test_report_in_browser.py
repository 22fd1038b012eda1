"""The report in a real browser: no request, no complaint, hostile names as text, small for 1,500 nodes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from rebalancer.planning.explanation import SchedulingTable, ScoredNode
from rebalancer.reporting.html.pages import html_report, nodes_page
from rebalancer.reporting.tables.nodes import node_listing
from rebalancer_lab.simulation.page import simulation_page
from tests.lab.simulation.simulations import a_simulation
from tests.unit.reporting.builders import (
    a_kept,
    a_large_plan,
    a_move,
    a_node,
    a_plan,
    an_outcome,
    some_outcomes,
)
from tests.unit.reporting.tables.names import NODES, a_plan_of
from tests.ux.browser import Browser, find_browser

HOSTILE = "</script><script>document.title='x'</script><img src=http://example.com/x onerror=alert(1)>"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    program = find_browser()
    if program is None:
        pytest.skip("no Chromium on this machine")
    with Browser(program) as found:
        yield found


def test_a_report_of_1500_nodes_is_small_and_asks_for_nothing(browser: Browser, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    page.write_text(html_report(a_large_plan(), "kind: RebalancePolicy\n", {}))

    assert page.stat().st_size < 1_000_000
    seen = browser.open(page)
    assert seen.requests == [page.as_uri()]
    assert seen.complaints == []
    assert "100 pods restart" in seen.text


def test_hostile_names_do_nothing_in_a_browser(browser: Browser, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    plan = a_plan(
        source=HOSTILE,
        nodes=(a_node(HOSTILE, because=HOSTILE, after=70.0),),
        moves=(a_move(HOSTILE, from_node=HOSTILE, because=HOSTILE),),
        kept=(a_kept(HOSTILE, HOSTILE, HOSTILE),),
        warnings=(HOSTILE,),
    )
    outcomes = some_outcomes(an_outcome(name=HOSTILE, because=HOSTILE), stopped=HOSTILE)
    page.write_text(html_report(plan, HOSTILE, {}, outcomes))

    seen = browser.open(page)

    assert seen.requests == [page.as_uri()]
    assert seen.complaints == []
    assert HOSTILE in seen.text


def test_pages_of_nodes_and_of_simulations_ask_for_nothing_and_complain_of_nothing(
    browser: Browser, tmp_path: Path
) -> None:
    nodes = (*a_large_plan().nodes, a_node(HOSTILE, 30.0, hot=False))
    listing = node_listing(a_plan(source=HOSTILE), nodes)
    pages = {
        "nodes.html": (nodes_page(listing), "1,524 nodes: 76 hot"),
        "simulation.html": (simulation_page(a_simulation(HOSTILE, because=HOSTILE)), "Simulation: 2 cycles"),
    }
    for name, (content, words) in pages.items():
        page = tmp_path / name
        page.write_text(content)

        assert page.stat().st_size < 1_000_000
        seen = browser.open(page)
        assert (seen.requests, seen.complaints) == ([page.as_uri()], [])
        assert words in seen.text
        assert HOSTILE in seen.text


def pages_of_long_names() -> dict[str, str]:
    plan = a_plan_of(NODES["EKS of two regions"])
    long = replace(plan.moves[0], pod=replace(plan.moves[0].pod, name="w" * 63))
    plan = replace(plan, moves=(*plan.moves, long), source="arn:aws:eks:eu-central-1:1234567890:cluster/prod")
    scored = tuple(
        ScoredNode(
            node.name,
            412,
            {"NodeResourcesBalancedAllocation": at, "TargetLoadPacking": 2 * at},
            0.25,
            0.25,
            {},
        )
        for at, node in enumerate(plan.nodes)
    )
    table = SchedulingTable("default-scheduler", 4, scored, ())
    tables = {move.pod.uid: table for move in plan.moves}
    outcomes = some_outcomes(*(replace(an_outcome(), move=move) for move in plan.moves))
    policy = "kind: RebalancePolicy\nmetadata: {name: " + "p" * 100 + "}\n"
    return {
        "plan": html_report(plan, policy, tables),
        "run": html_report(plan, policy, tables, outcomes),
        "plan of GKE": html_report(a_plan_of(NODES["GKE"]), policy, {}),
        "large plan": html_report(a_large_plan(), policy, {}),
        "nodes": nodes_page(node_listing(plan, plan.nodes)),
        "many nodes": nodes_page(node_listing(a_plan(), a_large_plan().nodes)),
        "simulation": simulation_page(a_simulation("checkout-api-7c9d6f5b8f-x2x4z", because="it is hot")),
    }


@pytest.mark.parametrize(("name", "content"), pages_of_long_names().items())
def test_on_a_phone_nothing_is_scrolled_sideways_and_charts_can_be_read(
    browser: Browser, tmp_path: Path, name: str, content: str
) -> None:
    page = tmp_path / f"{name}.html"
    page.write_text(content)

    narrow = browser.on_a_phone(page)

    assert narrow.too_wide == []
    assert narrow.smallest_text >= 9.0, "pixels"
    assert narrow.cut == []
    assert narrow.lowest_link >= 40.0, "pixels, so that a finger meets one link"


def test_what_opens_on_a_screen_is_open_on_paper(browser: Browser, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    page.write_text(html_report(a_plan(), "kind: RebalancePolicy\n", {}))

    printed = browser.printed_text(page)

    assert "2 pods restart" in printed
    assert "node-0001 is hot; node-0007 has the highest total" in printed, "why a pod moves"
    assert "the only replica of its workload" in printed, "why a pod stays"
    assert "kind: RebalancePolicy" in printed
