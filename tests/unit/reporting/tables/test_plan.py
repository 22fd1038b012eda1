from __future__ import annotations

import io
from collections.abc import Sequence

import pytest
from msgspec.structs import replace
from syrupy.assertion import SnapshotAssertion

from rebalancer.planning.plan import (
    Benefit,
    Change,
    Cleanup,
    Figure,
    Landing,
    NodeAfter,
    NodeReport,
    Obstacle,
    Plan,
    StrategyReport,
)
from rebalancer.reporting.console import ReportConsole
from rebalancer.reporting.html.pages import html_report
from rebalancer.reporting.tables.plan import landing_words, plan_table
from rebalancer.reporting.tables.text import ASCII, Lines, Style
from tests.rows import rows
from tests.unit.reporting.builders import a_kept, a_move, a_node, a_plan

HOSTILE = "[bold red]\x1b[2Jevil\u202e\n[/]"


def a_plan_of_a_big_cluster() -> Plan:
    reasons = [
        "DisruptionBudget",
        "SingleReplica",
        "Unpredictable",
        "Priority",
        "NoBetterLanding",
        "Namespace",
        "TooYoung",
    ]
    return a_plan(
        node_count=1523,
        hot_count=69,
        known_count=1520,
        nodes=tuple(a_node(f"node-{number:04d}", 80.0 + number / 10, after=70.0) for number in range(69)),
        moves=tuple(a_move(f"web-{number:05d}", wave=1 + number // 5) for number in range(40)),
        kept=tuple(a_kept(f"pod-{number}", reasons[number % 7]) for number in range(900)),
        unsolved={
            f"node-{number:04d}": f"cause {number % 6}, a sentence that is rather long. " * 5
            for number in range(40)
        },
        warnings=tuple(f"warning {number}" for number in range(30)),
    )


def test_a_plan_reads_in_one_look(snapshot: SnapshotAssertion) -> None:
    assert plan_table(a_plan()).plain == snapshot


def test_a_plan_of_a_big_cluster_is_summarised(snapshot: SnapshotAssertion) -> None:
    assert plan_table(a_plan_of_a_big_cluster()).plain == snapshot


def test_a_plan_of_a_big_cluster_fits_on_one_screen() -> None:
    lines = plan_table(a_plan_of_a_big_cluster()).plain.splitlines()

    assert len(lines) <= 61
    assert max(map(len, lines)) <= 80


def test_moves_that_may_land_badly_are_counted_with_the_chance_of_all_of_them() -> None:
    def table(*risks: float) -> str:
        moves = tuple(replace(a_move(f"web-{number}"), risk=risk) for number, risk in enumerate(risks))
        return " ".join(plan_table(a_plan(moves=moves)).plain.split())

    both = (
        "2 moves may land where they should not, with a chance of 4.0% in all: planning.confidence allows it"
    )
    assert both in table(0.02, 0.0, 0.02)
    assert "1 move may land where it should not, with a chance of 2.0% in all" in table(0.0, 0.02)
    assert "should not" not in table(0.0, 0.0)


def test_each_move_is_one_line() -> None:
    moves = tuple(a_move(f"web-{number:05d}", wave=1 + number // 5) for number in range(20))
    lines = plan_table(a_plan(moves=moves)).plain.partition("MOVES")[2].splitlines()

    assert [line.split()[:2] for line in lines[2:22]] == [
        [str(1 + number // 5), f"shop/web-{number:05d}"] for number in range(20)
    ]


def test_a_move_shows_the_loads_of_both_nodes_and_the_chance_of_its_landing() -> None:
    text = plan_table(a_plan()).plain

    assert "1 shop/web-7d9f8b6c5d-x2x4z node-0001 91→68 node-0007      100% 20→43   12" in text
    assert "node-0003 +6    14%" in text


def test_a_wide_table_has_whole_names_and_every_landing() -> None:
    text = plan_table(a_plan(), Style(width=160, wide=True)).plain

    assert "Deployment/web" in text
    assert "node-0004 14.3%" in text


def test_of_many_other_landings_a_wide_table_names_the_likeliest_and_sums_up_the_rest() -> None:
    landings = [Landing(node=f"node-{number:03}", probability=0.9 / 400) for number in range(400)]
    landings += [Landing(node="better", probability=0.04), Landing(node="best", probability=0.06)]
    plan = a_plan(moves=(replace(a_move("web-1"), landings=tuple(landings)),))
    text = plan_table(plan, Style(wide=True, bounded=False)).plain
    row = next(line for line in text.splitlines() if "web-1" in line)

    assert "best +401" in row
    assert "better 4%, node-000 0.2%" in row
    assert row.rstrip().endswith("node-008 0.2%, and 391 others, together 88%")
    assert "node-399 0.2%" in plan_table(plan, Style(wide=True, bounded=False, everything=True)).plain


def test_without_headers_only_the_moves_are_listed() -> None:
    lines = plan_table(a_plan(), Style(no_headers=True)).plain.splitlines()

    assert [line.split()[1] for line in lines] == ["shop/web-7d9f8b6c5d-x2x4z", "shop/api-5b9c-kk8vq"]


def test_the_first_rows_of_each_list_are_shown_when_so_many_are_asked_for() -> None:
    text = plan_table(a_plan_of_a_big_cluster(), Style(top=2)).plain

    assert text.count("shop/web-") == 2
    assert "67 more hot nodes" in text


def a_benefit() -> Benefit:
    return Benefit(
        hot_nodes=Change(before=76, after=56),
        excess=Change(before=1896.3, after=1236.1),
        peak={"cpu": Change(before=106.7, after=101.2), "memory": Change(before=87.6, after=87.6)},
        deviation={"cpu": Change(before=25.41, after=24.32), "memory": Change(before=23.1, after=23.2)},
        pods_moved=20,
        pods=9397,
        cost=31.81,
        score=20.75,
    )


def test_benefit_and_cost_of_a_plan_are_a_line_each() -> None:
    lines = plan_table(a_plan(benefit=a_benefit()), Style(wide=True)).plain.splitlines()
    assert "benefit  hot 76 → 56, excess 1896 → 1236, peak 107 → 101, deviation 25.4 → 24.3" in lines
    assert "cost     20 of 9,397 pods (0.21 %), cost 31.8; score 20.8 points per unit" in lines


def test_a_plan_that_moves_nothing_has_no_benefit_to_show() -> None:
    assert "benefit" not in plan_table(a_plan(moves=(), benefit=a_benefit())).plain


def test_in_which_runs_the_moves_are_made_is_said_right_below_the_headline() -> None:
    said = "a run makes these moves once their nodes were hot in 2 runs"
    lines = plan_table(replace(a_plan(), runs=said)).plain.splitlines()

    assert lines[1] == f"runs     {said}"


def test_nodes_with_a_soft_taint_are_named_by_wave_and_counted_where_there_are_many() -> None:
    def steered(*waves: Sequence[str], everything: bool = False) -> str:
        moves = [
            a_move(wave=number, avoids=dict.fromkeys(nodes, "would be at 91.0 % cpu"))
            for number, nodes in enumerate(waves, 1)
        ]
        table = plan_table(a_plan(moves=tuple(moves)), Style(everything=everything))
        text = " ".join(table.plain.split())  # it may be wrapped
        return text.partition(" steer ")[2].partition(" HOT NODES ")[0]

    assert steered(["n1", "n2"]) == "a soft taint on n1, n2 in wave 1"
    assert steered(["n1"], [], ["n1"]) == "a soft taint on n1 in wave 1; on n1 in wave 3"
    assert (
        steered(["n1", "n2", "n3"], ["n3", "n4"])
        == "a soft taint on 4 nodes in 2 waves, on 3 at once at most"
    )
    why = f"for {a_move().pod.full_name} it would be at 91.0 % cpu"
    assert steered(["n1", "n2"], everything=True).startswith(
        f"a soft taint in wave 1 on n1, {why}; n2, {why}"
    )
    assert steered([]) == ""


def test_what_a_higher_limit_would_give_is_shown_in_full() -> None:
    sentence = (
        "perRun 84 and perNamespace 45 would bring 58 of 76 hot nodes down to coolTo (65 %), this plan 20"
    )
    text = plan_table(a_plan(strategies={"hotNodes": StrategyReport(moves=1, message=sentence)})).plain
    assert sentence in " ".join(text.split())
    assert max(map(len, text.splitlines())) <= 80


def test_a_row_shows_what_its_own_move_does_and_each_landing_has_its_own_figures() -> None:
    landings = (
        Landing(node="node-5", probability=0.5, load={"cpu": Change(before=3.0, after=18.0)}),
        Landing(node="node-6", probability=0.5, load={"cpu": Change(before=7.0, after=22.0)}),
    )
    left = {"cpu": Change(before=89.2, after=74.0)}
    move = replace(a_move("web-1"), landings=landings, from_load=left, gain={"cpu": 67.2})
    lines = plan_table(a_plan(moves=(move,)), Style(wide=True, width=200)).plain.splitlines()
    row = next(line for line in lines if "web-1" in line)

    assert "89→74" in row
    assert "3→18" in row
    assert "node-6 50% 7→22" in row


def test_everything_is_shown_when_asked_for() -> None:
    text = plan_table(a_plan_of_a_big_cluster(), Style(everything=True)).plain

    assert all(f"web-{number:05d}" in text for number in range(40))
    assert all(f"pod-{number} on" in text for number in range(900))
    assert all(f"node-{number:04d}" in text for number in range(69))
    assert all(f"warning {number}" in text for number in range(30))
    assert "more" not in text.replace("no more", "")


@rows("width", [60, 80, 100, 120, 300])
def test_no_line_is_wider_than_the_screen(width: int) -> None:
    lines = plan_table(a_plan_of_a_big_cluster(), Style(width=width)).plain.splitlines()

    assert max(map(len, lines)) <= width


def test_a_node_that_is_not_hot_but_above_cool_to_is_not_cool_and_not_called_still_hot() -> None:
    nodes = (a_node(after=70.0), a_node("node-0002", 84.0, after=84.0, hot_after=True))
    text = plan_table(a_plan(nodes=nodes, unsolved={"node-0001": "above", "node-0002": "above"})).plain

    assert "NOT COOL AFTER THIS PLAN  2 nodes above coolTo: 1 not hot, 1 still hot" in text
    states = [
        line[-9:].strip() for line in text.splitlines() if line.startswith("  node-000") and "→" in line
    ]
    assert sorted(states) == ["not hot", "still hot"]


def test_what_stays_hot_says_why() -> None:
    text = plan_table(a_plan()).plain

    assert "84→84" in text
    assert "still hot" in text
    assert "node-0002: no evictable pod whose replacement lands elsewhere" in text


def test_each_hot_node_shows_its_load_before_and_after() -> None:
    text = plan_table(a_plan()).plain

    hot = hot_nodes_of(text)

    assert "node-0001  █████▒▒░  91→68" in hot
    assert "node-0007" not in hot


def test_a_node_that_only_receives_pods_is_not_called_hot() -> None:
    text = plan_table(a_plan(hot_count=0, nodes=(a_node(hot=False, after=70.0),), unsolved={})).plain

    assert "no longer hot" not in text
    assert "HOT NODES" not in text


def test_without_hot_nodes_there_is_nothing_to_do() -> None:
    text = plan_table(a_plan(hot_count=0, nodes=(), moves=(), kept=(), unsolved={})).plain

    assert text.startswith("Plan: nothing to do: no node is hot")
    assert "MOVES" not in text


def test_pods_that_another_strategy_cannot_move_are_not_nothing_to_do() -> None:
    kept = a_plan().kept[:1]
    text = plan_table(a_plan(hot_count=0, nodes=(), moves=(), kept=kept, unsolved={})).plain

    assert text.startswith("Plan: evict nothing: no node is hot (1 of 10 of unknown load)\n")
    assert "\n      and 1 other pod cannot be moved\n" in text


def test_moves_that_are_not_for_relief_say_what_they_are_for_on_a_narrow_screen() -> None:
    spread = replace(a_move("spread-0", gain=0.0), strategy="topologySpread")
    text = plan_table(a_plan(moves=(a_move(), spread))).plain
    lines = [line.split() for line in text.splitlines()]
    rows = {line[2]: line + lines[at + 1] for at, line in enumerate(lines) if line[:2] == ["wave", "1"]}

    assert "or what it is for" in text
    assert rows["shop/spread-0"][-1] == "topologySpread"
    assert max(map(len, text.splitlines())) <= 80


def a_cleanup(name: str) -> Cleanup:
    return Cleanup(
        pod=a_move(name).pod,
        node="node-0001",
        because="it failed (Evicted) and is 9 d old",
        strategy="failed",
    )


def test_finished_pods_are_listed_apart_from_the_moves() -> None:
    cleanups = tuple(a_cleanup(f"done-{number}") for number in range(3))
    text = plan_table(a_plan(cleanups=cleanups)).plain
    moves, _, rest = text.partition("CLEANUPS")

    assert text.startswith("Plan: ")
    assert "3 finished pods removed" in " ".join(text.split())
    assert "done-0" not in moves
    assert "shop/done-2" in rest
    assert "it failed (Evicted) and is 9 d old" in " ".join(rest.split())


def test_a_plan_that_only_removes_finished_pods_has_something_to_do() -> None:
    quiet = {"hot_count": 0, "nodes": (), "moves": (), "kept": (), "unsolved": {}}

    assert plan_table(a_plan(**quiet, cleanups=(a_cleanup("done"),))).plain.startswith(
        "Plan: 1 finished pod removed"
    )


def test_hot_nodes_without_a_move_are_said_to_stay_as_they_are() -> None:
    assert plan_table(a_plan(moves=())).plain.startswith("Plan: evict nothing: 2 hot nodes")


def an_obstacle(
    setting: str, share: float, moves: int | None = None, because: str = "is 2 min old"
) -> Obstacle:
    return Obstacle(
        setting=setting,
        reasons=("TooYoung",),
        share=share,
        pods=3,
        pods_in_all=4,
        moves_if_lifted=moves,
        example="shop/web-1",
        because=because,
        remedy="evictable.minAge: 2m",
    )


def test_a_plan_without_moves_names_the_setting_that_keeps_most_of_the_load() -> None:
    held = (an_obstacle("evictable.minAge", 0.74, moves=2), an_obstacle("", 0.26))
    text = plan_table(a_plan(moves=(), obstacles=held)).plain

    assert text.startswith(
        "Plan: evict nothing: 2 hot nodes; evictable.minAge keeps 74% of the movable load\n"
    )
    ended = text[text.index("BLOCKED BY") :].splitlines()
    assert ended[:6] == [
        "BLOCKED BY  share of the load of 4 pods that could leave nodes above coolTo",
        "  LOAD  PODS  MOVE WITHOUT IT  SETTING OR REASON",
        "   74%     3                2  evictable.minAge",
        "      shop/web-1: is 2 min old; freed by evictable.minAge: 2m",
        "   26%     3                -  TooYoung",
        "      shop/web-1: is 2 min old; freed by evictable.minAge: 2m",
    ]


def test_a_plan_with_moves_says_in_a_line_what_keeps_most_of_the_rest() -> None:
    held = (an_obstacle("evictable.minAge", 0.74, moves=2), an_obstacle("", 0.26))
    text = plan_table(a_plan(obstacles=held)).plain

    assert "evictable.minAge keeps 74% of the movable load, e.g." in text
    assert "… 1 more setting or reason (--all)" in text
    everything = plan_table(a_plan(obstacles=held), Style(everything=True)).plain
    assert "is 2 min old" in everything
    assert "(TooYoung keeps 26%" in " ".join(everything.split()), "what keeps it comes before its code"


def test_several_settings_that_keep_a_pod_together_are_a_plural() -> None:
    both = an_obstacle("limits.perRun and limits.perNode", 1.0)
    text = plan_table(a_plan(obstacles=(both,)), Style(width=120)).plain
    assert "limits.perRun and limits.perNode together keep 100% of the movable load" in text


def test_plugins_taken_as_neutral_are_warned_of() -> None:
    text = plan_table(a_plan()).plain
    assert text.count("not modelled, so ignored: NetworkTraffic") == 1


def test_names_from_the_cluster_are_printed_and_never_obeyed() -> None:
    hostile = a_plan(
        source=HOSTILE,
        policy=HOSTILE,
        nodes=(a_node(HOSTILE, because=HOSTILE, after=70.0),),
        moves=(a_move(HOSTILE, from_node=HOSTILE, to=(HOSTILE, "node-2"), because=HOSTILE),),
        kept=(a_kept(HOSTILE, HOSTILE, HOSTILE),),
        unsolved={HOSTILE: HOSTILE},
        obstacles=(an_obstacle(HOSTILE, 1.0, because=HOSTILE),),
        warnings=(HOSTILE,),
    )
    stream = io.StringIO()
    text = plan_table(hostile)
    ReportConsole(stream, force_terminal=True, width=80).print(text, soft_wrap=True)

    written = stream.getvalue()
    assert "\x1b[2J" not in written
    assert "\u202e" not in written
    assert "[bold red]" in written


def test_a_screen_without_unicode_gets_plain_ascii() -> None:
    text = plan_table(a_plan_of_a_big_cluster(), Style(glyphs=ASCII)).plain

    assert text.isascii()
    assert "91->68" in plan_table(a_plan(), Style(glyphs=ASCII)).plain


def test_a_resource_that_is_neither_hot_nor_nearly_full_does_not_crowd_the_screen() -> None:
    node = NodeReport(
        name="node-1", load={"cpu": 90.0, "memory": 10.0, "pods": 9.0}, hot=True, because=("cpu",)
    )
    hot_in_pods = replace(node, because=("pods 9 of 10",))

    assert "PODS" not in hot_nodes_of(plan_table(a_plan(nodes=(node,))).plain)
    assert "PODS" in hot_nodes_of(plan_table(a_plan(nodes=(hot_in_pods,))).plain)
    assert "PODS" in hot_nodes_of(plan_table(a_plan(nodes=(node,)), Style(everything=True)).plain)


def hot_nodes_of(text: str) -> str:
    return text.partition("HOT NODES")[2].partition("MOVES")[0]


def test_an_unknown_figure_is_called_unknown_and_not_nought() -> None:
    node = NodeReport(name="node-1", load={}, hot=True, after=NodeAfter(load={"cpu": 10.0}))

    assert "node-1  unknown" in plan_table(a_plan(nodes=(node,))).plain


def landings(*probabilities: float) -> tuple[Landing, ...]:
    return tuple(Landing(node=f"n{number}", probability=value) for number, value in enumerate(probabilities))


@rows(
    "given, expected",
    [
        (landings(), "nowhere"),
        (landings(1.0), "n0"),
        (landings(0.96), "n0 96%"),
        (landings(0.75, 0.25), "n0 75%, n1 25%"),
        (landings(0.1, 0.6, 0.1, 0.2), "any of 4 nodes, e.g. n1 60%"),
    ],
)
def test_a_landing_says_where_and_how_likely(given: tuple[Landing, ...], expected: str) -> None:
    assert landing_words(given) == expected


def test_all_landings_are_listed_when_everything_is_wanted() -> None:
    assert (
        landing_words(landings(0.25, 0.25, 0.25, 0.25), everything=True) == "n0 25%, n1 25%, n2 25%, n3 25%"
    )


def test_equal_plans_give_equal_tables() -> None:
    assert plan_table(a_plan()).markup == plan_table(a_plan()).markup


def test_hidden_rows_are_called_more_whatever_their_plural() -> None:
    lines = Lines(Style())
    lines.more(1, "setting or reason", plural="settings or reasons")
    lines.more(2, "setting or reason", plural="settings or reasons")
    lines.more(2, "pod")

    assert lines.text.plain.splitlines() == [
        "  … 1 more setting or reason (--all)",
        "  … 2 more settings or reasons (--all)",
        "  … 2 more pods (--all)",
    ]


@pytest.mark.parametrize(
    ("requested", "said"),
    [(0, ""), (1, ", for 1 of them as requested, not measured"), (2, ", as requested, not measured")],
)
def test_a_load_that_is_only_requested_is_not_called_known_without_saying_so(
    requested: int, said: str
) -> None:
    sources = ["requests"] * requested + ["metrics-server"] * (2 - requested)
    nodes = tuple(
        replace(a_node(f"n{number}"), figures={"cpu": Figure(source=source, age_seconds=0.0)})
        for number, source in enumerate(sources)
    )
    plan = a_plan(nodes=nodes, node_count=2, known_count=2)

    assert f"load known for 2{said} policy" in " ".join(plan_table(plan).plain.split())
    assert ("; load" in html_report(plan, "", {})) == bool(said)


def test_nodes_that_are_closed_are_named_with_how_long() -> None:
    one = plan_table(a_plan(closed=("a",), closed_seconds=20.0)).plain
    assert "on a while it is emptied, and until removed, at most 20s more" in " ".join(one.split())
    two = plan_table(a_plan(closed=("a", "b"), closed_seconds=5400.0)).plain
    assert "on a, b while they are emptied, and until removed, at most 1h30m more" in " ".join(two.split())
