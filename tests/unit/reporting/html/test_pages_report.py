from __future__ import annotations

import re
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from rebalancer.errors import InputError
from rebalancer.planning.explanation import SchedulingTable, ScoredNode
from rebalancer.planning.plan import Cleanup, Landing, Obstacle, Plan, encode
from rebalancer.reporting.html.chart import HEIGHT, chart
from rebalancer.reporting.html.embedded import embedded, read_plan, read_policy
from rebalancer.reporting.html.pages import html_report
from rebalancer.reporting.words import plain
from rebalancer.state.results import Result
from tests.rows import rows
from tests.unit.reporting.builders import (
    a_kept,
    a_move,
    a_node,
    a_plan,
    an_outcome,
    some_outcomes,
)
from tests.unit.reporting.html.parsed import HOSTILE, Page
from tests.unit.reporting.tables.names import NODES, a_plan_of


def report(
    plan: Plan, policy: str = "kind: RebalancePolicy\n", tables: Mapping[str, SchedulingTable] | None = None
) -> str:
    return html_report(plan, policy, tables or {})


def test_a_report_says_what_is_evicted_from_where_to_where_and_why() -> None:
    text = " ".join(Page(report(a_plan())).text.split())

    assert "1 of 2 hot nodes no longer hot, 1 stays hot; 2 pods restart" in text
    assert (
        "shop/web-7d9f8b6c5d-x2x4z from node-0001 to node-0007; cpu node-0001 91 → 68 %, node-0007 20 → 43 %"
        in text
    )
    assert "still hot : no evictable pod whose replacement lands elsewhere" in text
    assert "SingleReplica keeps 2 pods" in text
    assert "kind: RebalancePolicy" in text


def test_under_its_title_a_report_says_that_it_is_a_proposal_and_why_a_run_would_refuse() -> None:
    why = "the scheduler's version is not known, and run refuses to act"
    words = Page(report(a_plan(refusals=(why,), protects_nothing=("podSelector matches nothing",)))).words
    title, _, below = words.partition("A proposal by rebalancer: nothing was changed.")

    assert title.endswith("2 pods restart ")
    assert below.startswith(" Before a run: podSelector matches nothing; a run refuses to act.")
    assert f"Before a run: {why}. cluster production" in below
    assert "recorded 20 Nov 2026 12:00 UTC" in below
    done = html_report(a_plan(), "", {}, some_outcomes(an_outcome()))
    assert "nothing was changed" not in done


def test_a_move_says_how_many_replicas_there_are_how_to_keep_it_and_how_sure_its_landing_is() -> None:
    move = replace(a_move(to=("node-0007", "node-0008")), replicas=8, risk=0.0123)
    words = Page(report(a_plan(moves=(move,)))).words

    assert "(1 of 8 replicas) from node-0001 to node-0007 or node-0008, 50% each" in words
    assert "cpu node-0001 91 → 68 %, node-0007 20 → 43 % or node-0008 20 → 43 %" in words
    assert "risk of a bad landing 1.2%" in words
    assert 'the annotation rebalancer/evict: "false" on the pod' in words
    assert "evictable.namespaces.exclude" in words


def test_landings_that_are_hardly_possible_are_counted_and_not_listed() -> None:
    likely = Landing(node="node-0007", probability=0.88)
    rest = tuple(Landing(node=f"far-{number}", probability=0.12 / 400) for number in range(400))
    page = Page(report(a_plan(moves=(replace(a_move(), landings=(likely, *rest)),))))

    assert "to one of 401 nodes, likeliest node-0007 (88%)" in page.words
    assert "may land on node-0007 88%, and 400 others, together 12%" in page.words
    assert "far-7" not in page.words


def test_the_rule_that_all_hot_nodes_share_is_said_once_and_other_reasons_stay() -> None:
    rule = "hot above 80 %, cool at 65 %"
    nodes = tuple(
        replace(a_node(f"node-{at}", 90.0 + at, after=70.0), because=(f"cpu 9{at}.0 %: {rule}", "pods wait"))
        for at in range(3)
    )
    words = Page(report(a_plan(nodes=nodes))).words.replace("\N{NO-BREAK SPACE}", " ")

    assert words.count(f"cpu: {rule}") == 1
    assert words.count(rule) == 1
    assert "cpu 92.0 %; pods wait" in words


def test_what_all_names_of_nodes_begin_with_is_said_once_and_left_out_of_moves_and_charts() -> None:
    beginning = "gke-production-web-pool-1-3f2a1b4c-"
    page = Page(report(a_plan_of(NODES["GKE"])))

    assert f"names of nodes begin with {beginning}, left out here" in page.words
    assert "from x7k2 to a7k2" in page.words
    assert "x7k2 is at 91" in page.words
    assert f"{beginning}x7k2 is" not in page.words


def test_a_report_says_whether_the_scheduler_decides_as_computed() -> None:
    said = "of 120 decisions of the scheduler 120 landed as computed (100.00%)"

    assert f"note {said}" in Page(report(replace(a_plan(), notes=(said,)))).words


def test_a_report_says_first_in_which_runs_its_moves_are_made() -> None:
    said = "a run makes these moves once their nodes were hot in 2 runs"

    assert f"runs {said} cluster" in Page(report(replace(a_plan(), runs=said))).words


def test_a_move_that_is_not_for_relief_says_what_it_is_for() -> None:
    spread = replace(a_move("spread-0"), strategy="duplicates", gain={})
    text = " ".join(Page(report(a_plan(moves=(spread,)))).text.split())

    assert "shop/spread-0 from node-0001 to node-0007; cpu node-0001 91 → 68 %" in text
    assert "node-0007 20 → 43 %, for duplicates" in text


def test_a_report_lists_the_finished_pods_that_a_run_removes() -> None:
    pod = a_move("done-0").pod
    cleanup = Cleanup(pod=pod, node="node-0001", because="it is 9 d old", strategy="lifetime")
    text = " ".join(Page(report(a_plan(cleanups=(cleanup,)))).text.split())

    assert "1 finished pod, removed before the first wave" in text
    assert "shop/done-0 node-0001 lifetime it is 9 d old" in text


@rows("name", ["=cmd|' /C calc'!A1", "<script>alert(1)</script>", "{{ 7*7 }}", "]]>", "a\u202eb"])
def test_a_name_is_shown_in_a_report_and_never_obeyed(name: str) -> None:
    plan = a_plan(moves=(a_move(name, to=(name,)),), kept=(a_kept(name, because=name),))
    page = Page(report(plan))

    assert plain(name) in page.text
    page.check_harmless()


def test_a_report_names_the_settings_that_keep_load_on_hot_nodes() -> None:
    obstacle = Obstacle(
        setting="limits.perWorkload",
        reasons=("Limit",),
        share=0.84,
        pods=9,
        pods_in_all=11,
        moves_if_lifted=8,
        example="shop/api-7",
        because=HOSTILE,
    )
    page = Page(report(a_plan(obstacles=(obstacle,))))

    assert "What keeps load on nodes above coolTo" in page.words
    assert "84 % 9 8 limits.perWorkload shop/api-7:" in page.words
    assert "share of the load of 11 pods" in page.words
    page.check_harmless()


def test_a_move_opens_to_the_scores_that_decide_its_landing() -> None:
    node = ScoredNode(
        node="node-0007",
        total=412,
        scores={"Fit": 90, "Taints": 300},
        probability=1.0,
        in_course=1.0,
        after={},
    )
    other = ScoredNode(
        node="node-0003",
        total=397,
        scores={"Fit": 75, "Taints": 300},
        probability=0.0,
        in_course=0.0,
        after={},
        unacceptable="hot",
    )
    table = SchedulingTable(profile="default-scheduler", feasible=2, nodes=(node, other), rejected=())
    text = " ".join(Page(report(a_plan(), tables={"uid-web-7d9f8b6c5d-x2x4z": table})).text.split())

    assert "node total chance Fit node-0007 412 100.0% 90 node-0003 397 75 hot" in text


def test_hostile_names_add_no_element_and_run_nothing() -> None:
    hostile = a_plan(
        source=HOSTILE,
        policy=HOSTILE,
        nodes=(a_node(HOSTILE, because=HOSTILE, after=70.0),),
        moves=(a_move(HOSTILE, from_node=HOSTILE, to=(HOSTILE, "node-2"), because=HOSTILE),),
        kept=(a_kept(HOSTILE, HOSTILE, HOSTILE),),
        unsolved={HOSTILE: HOSTILE},
        warnings=(HOSTILE,),
    )
    outcomes = some_outcomes(an_outcome(Result.PENDING, HOSTILE, HOSTILE), stopped=HOSTILE)
    text = html_report(hostile, HOSTILE, {}, outcomes)
    page = Page(text)

    assert [attributes for tag, attributes in page.elements if tag == "script"] == [
        {"type": "application/zlib", "id": name} for name in ("plan", "policy", "outcomes")
    ]
    assert "img" not in {tag for tag, _ in page.elements}
    assert not any(name.startswith("on") for _, attributes in page.elements for name in attributes)
    assert "{{ 7 * 7 }}" in page.text
    assert "\x1b" not in text
    assert "\u202e" not in text


def test_a_report_loads_nothing() -> None:
    page = Page(report(a_plan()))

    page.check_harmless()


def test_a_report_is_read_back_as_the_plan_it_shows() -> None:
    plan = a_plan(warnings=("</script>",))

    assert read_plan(report(plan).encode(), "report.html") == plan
    assert read_plan(encode(plan), "plan.json") == plan


@rows(
    "content, message",
    [
        (b"<html></html>", "this HTML holds no plan"),
        (b'<script type="application/zlib" id="plan">AAAA</script>', "damaged"),
        (b'<script type="application/zlib" id="plan">A</script>', "damaged"),
        (b"{}", "this is not a plan"),
        (b"\xff\xfe", "this is not a plan"),
        (b"", "this is not a plan"),
        (b'{"x": ' + b"[" * 200_000, "this is not a plan"),
        (encode(a_plan()).replace(b'"kind":"Plan"', b'"kind":"Outcomes"'), "it is 'Outcomes' of"),
        (
            encode(a_plan()).replace(b'"apiVersion":"rebalancer/', b'"apiVersion":"other/'),
            "it is 'Plan' of 'other",
        ),
    ],
)
def test_a_file_without_a_plan_is_an_error_that_names_it(content: bytes, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        read_plan(content, "other.html")
    assert caught.value.where == "other.html"


def test_a_report_of_a_big_cluster_is_smaller_than_a_megabyte() -> None:
    plan = a_plan(
        node_count=1523,
        hot_count=69,
        nodes=tuple(
            a_node(f"node-{number:04d}", 100.0 - number / 20, after=70.0, hot=number < 69)
            for number in range(1523)
        ),
        moves=tuple(a_move(f"web-{number:05d}") for number in range(60)),
        kept=tuple(a_kept(f"pod-{number}") for number in range(4000)),
    )

    assert len(report(plan)) < 1_000_000
    assert len(embedded(encode(plan))) < len(encode(plan)) / 4


@given(st.lists(st.floats(0, 300), min_size=1, max_size=400), st.floats(0, 300))
def test_no_bar_is_higher_than_the_chart_and_the_hottest_come_first(loads: list[float], after: float) -> None:
    nodes = [a_node(f"node-{number}", load, after=after) for number, load in enumerate(loads)]
    found = chart(nodes, "cpu")

    assert found is not None
    assert all(bar.stays + bar.leaves + bar.arrives <= HEIGHT + 0.01 for bar in found.bars)
    before = [bar.stays + bar.leaves for bar in found.bars]
    assert before == sorted(before, reverse=True)


def test_a_resource_that_nobody_measures_has_no_chart() -> None:
    assert chart([a_node()], "gpu") is None


def test_a_report_of_a_run_shows_outcomes_beside_predictions() -> None:
    landed, pending = an_outcome(), an_outcome(Result.PENDING, "api-1", "not bound")
    page = html_report(
        a_plan(), "kind: RebalancePolicy\n", {}, some_outcomes(landed, pending, stopped="brake")
    )
    text = " ".join(Page(page).text.split())

    assert "What happened: 1 Landed, 1 Pending; exit code" in text
    assert "Stopped early: brake" in text
    assert "Landed shop/web-7d9f8b6c5d-x2x4z node-0001 node-0007 node-0007 1 6" in text
    assert "Pending shop/api-1 node-0001 node-0007 not bound" in text
    assert read_plan(page.encode(), "report.html") == a_plan()


def test_the_policy_of_a_report_can_be_read_back() -> None:
    page = report(a_plan(), "kind: RebalancePolicy\nmetadata: {name: '<b>'}\n")

    assert read_policy(page.encode(), "r.html") == "kind: RebalancePolicy\nmetadata: {name: '<b>'}\n"
    with pytest.raises(InputError, match="holds no policy"):
        read_policy(b"<html></html>", "r.html")


def test_the_moves_come_first_and_the_contents_lead_to_every_part() -> None:
    html = report(a_plan())
    titles = re.findall(r'<h2 id="(\w+)">', html)

    assert titles[0] == "moves"
    assert re.findall(r'href="#(\w+)"', html) == titles


def test_a_finished_run_is_headed_by_what_it_achieved() -> None:
    page = html_report(a_plan(), "", {}, some_outcomes(an_outcome(), an_outcome(Result.PENDING, "web-2")))

    assert Page(page).text.strip().startswith("1 of 2 moves landed; 1 Landed, 1 Pending")


def test_a_report_of_what_was_not_done_says_so_first() -> None:
    assert Page(report(a_plan())).text.strip().startswith("Plan: 1 of 2 hot nodes no longer hot")
    dry_run = replace(some_outcomes(an_outcome(Result.WOULD_EVICT)), dry_run=True)
    page = html_report(a_plan(), "", {}, dry_run)

    assert Page(page).text.strip().startswith("Dry run: 1 of 2 hot nodes no longer hot")
