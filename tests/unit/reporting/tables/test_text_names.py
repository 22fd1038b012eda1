"""No name is cut: every pod and every node of a table can be told from every other, at every width."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace
from rich.text import Text

from rebalancer.planning.cluster_explanation import ClusterExplanation, Distance
from rebalancer.planning.explanation import (
    PodExplanation,
    PodOfWorkload,
    SchedulingTable,
    ScoredNode,
    WorkloadExplanation,
)
from rebalancer.planning.plan import Plan
from rebalancer.reporting.tables.explain import cluster_table, explain_table
from rebalancer.reporting.tables.nodes import node_listing, nodes_table
from rebalancer.reporting.tables.outcomes import outcomes_table
from rebalancer.reporting.tables.plan import plan_table
from rebalancer.reporting.tables.text import Style, common_beginning, common_ending
from rebalancer.state.results import Result
from tests.rows import rows
from tests.unit.reporting.builders import NOW, an_outcome, some_outcomes
from tests.unit.reporting.tables.names import NODES, a_plan_of

Table = Callable[[Plan, Style], Text]
OF_PLAN: dict[str, Any] = {"source": "production", "policy": "demo", "inputs": "sha256:0", "now": NOW}


def outcomes(plan: Plan, style: Style) -> Text:
    results = (Result.LANDED, Result.LANDED_ELSEWHERE, Result.SKIPPED)
    made = [
        replace(an_outcome(result), move=move, node=move.likeliest.node)
        for result, move in zip(results, plan.moves, strict=True)
    ]
    return outcomes_table(some_outcomes(*made), style)


def cluster(plan: Plan, style: Style) -> Text:
    nearest = tuple(Distance(node.name, "cpu", 70.0, 80.0) for node in plan.nodes)
    found = ClusterExplanation(**OF_PLAN, moves=0, verdict="no node is hot", nearest=nearest)
    return cluster_table(found, style)


def workload(plan: Plan, style: Style) -> Text:
    pods = tuple(PodOfWorkload(move.pod, move.from_node, True, {}, "Moved", "") for move in plan.moves)
    found = WorkloadExplanation(**OF_PLAN, namespace="shop", workload="Deployment/checkout-api", pods=pods)
    return explain_table(found, style)


def pod(plan: Plan, style: Style) -> Text:
    scored = tuple(
        ScoredNode(node.name, 412, {"Fit": at}, 0.25, 0.25, {}) for at, node in enumerate(plan.nodes)
    )
    move = plan.moves[0]
    found = PodExplanation(
        **OF_PLAN, pod=move.pod, node=move.from_node, evictable=True, reason="", because="", verdict="Moved",
        verdict_because=move.because, landings=move.landings, unacceptable=0.0, staying=None,
        table=SchedulingTable("default-scheduler", 4, scored, ()),
    )  # fmt: skip
    return explain_table(replace(found, node=""), style)


TABLES: Mapping[str, Table] = {
    "plan": plan_table,
    "nodes": lambda plan, style: nodes_table(node_listing(plan, plan.nodes), style),
    "outcomes": outcomes,
    "explain": cluster,
    "explain deployment": workload,
    "explain pod": pod,
}
# The pods and nodes that each table lists.
PODS_OF = {"plan": 3, "outcomes": 3, "explain deployment": 3}
ALL_NODES = {"nodes", "plan", "explain", "explain pod"}


def named(text: str, name: str) -> bool:
    """Whether a whole word of the text is the name."""
    return re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-]|\.\w)", text) is not None


@pytest.mark.parametrize("cloud", NODES)
@pytest.mark.parametrize("table", TABLES)
@given(st.integers(60, 300), st.booleans(), st.booleans())
@example(60, True, False)
@example(80, True, False)
@example(80, False, False)
def test_every_pod_and_node_is_named_in_whole(
    table: str, cloud: str, width: int, bounded: bool, wide: bool
) -> None:
    plan = a_plan_of(NODES[cloud])
    ending = common_ending(NODES[cloud]) if bounded else ""

    shown = TABLES[table](plan, Style(width=width, bounded=bounded, wide=wide)).plain

    for name in NODES[cloud] if table in ALL_NODES else []:
        assert named(shown, name.removesuffix(ending)), shown
    if not ending and table in ALL_NODES:
        assert "left out here" not in shown
    pods = [move.pod for move in plan.moves[: PODS_OF.get(table, 0)]]
    for listed in pods:
        assert named(shown, listed.full_name) or named(shown, listed.name), shown


@rows("cloud", NODES)
@rows("table", TABLES)
def test_markdown_names_every_pod_and_node_in_whole(table: str, cloud: str) -> None:
    plan = a_plan_of(NODES[cloud])

    shown = TABLES[table](plan, Style(markdown=True)).plain

    for name in NODES[cloud] if table in ALL_NODES else []:
        assert named(shown, name)
    assert "…" not in shown


@rows("table", TABLES)
def test_markdown_is_not_wrapped_and_only_bars_and_commands_are_laid_out(table: str) -> None:
    plan = a_plan_of(NODES["EKS"])

    narrow, wide = (TABLES[table](plan, Style(width=width, markdown=True)).plain for width in (40, 300))

    assert narrow == wide
    laid_out = "".join(wide.split("```")[1::2]).splitlines()
    assert [
        line for line in laid_out if not line.startswith(("text", "rebalancer ", "  cpu", "  memory"))
    ] == []


@pytest.mark.parametrize("table", TABLES)
@given(st.integers(60, 300))
def test_no_line_is_wider_than_the_terminal_with_the_names_of_a_cloud(table: str, width: int) -> None:
    for cloud in ("ours", "EKS", "GKE", "AKS"):
        shown = TABLES[table](a_plan_of(NODES[cloud]), Style(width=width)).plain

        assert max(map(len, shown.splitlines())) <= width, shown


numbers = st.integers(0, 255)
eks_nodes = st.lists(
    st.builds("ip-10-{}-{}-{}.eu-central-1.compute.internal".format, numbers, numbers, numbers),
    min_size=4, max_size=4, unique=True,
)  # fmt: skip
words_of_pods = st.text("abcdefghijklmnopqrstuvwxyz0123456789-", min_size=1, max_size=63)


@pytest.mark.parametrize("table", TABLES)
@given(eks_nodes, st.lists(words_of_pods, min_size=3, max_size=3), st.sampled_from([80, 100, 120]))
@example(["n0", "n1", "n2", "n3"], ["web", "0" * 63, "0" * 63], 80)
def test_with_any_long_names_no_line_is_too_wide_and_titles_are_one_line(
    table: str, nodes: list[str], pods: list[str], width: int
) -> None:
    plan = a_plan_of(nodes)
    moves = tuple(
        replace(move, pod=replace(move.pod, name=name)) for move, name in zip(plan.moves, pods, strict=True)
    )

    lines = TABLES[table](replace(plan, moves=moves), Style(width=width)).plain.splitlines()

    assert max(map(len, lines)) <= width
    titles = [at for at, line in enumerate(lines) if re.fullmatch(r"  +[A-Z][A-Z0-9 ,%:]*", line)]
    assert all(after - before > 1 for before, after in itertools.pairwise(titles)), "\n".join(lines)


def test_without_a_terminal_a_row_is_one_line_and_every_move_has_its_row() -> None:
    moves = a_plan_of(NODES["EKS"]).moves * 20
    plan = replace(a_plan_of(NODES["EKS"]), moves=moves)

    shown = plan_table(plan, Style(bounded=False)).plain.splitlines()

    rows = [
        line for line in shown if "eu-west-1.compute.internal" in line and "→" in line and "shop/" in line
    ]
    assert len(rows) == len(moves)


def test_what_all_node_names_end_in_is_left_out_once_it_is_said() -> None:
    shown = plan_table(a_plan_of(NODES["EKS"]), Style(width=100)).plain

    assert shown.count(".eu-west-1.compute.internal") == 1
    assert "of nodes end in .eu-west-1.compute.internal, left out here" in shown


@rows(
    "names, ending",
    [
        (["a.x.internal", "b.x.internal"], ".x.internal"),
        (["ip-1.x", "ip-11.x"], ".x"),
        (["10.0.0.1", "10.0.1.1"], ""),
        (["a.internal"], ""),
        (["a.x", "b.y"], ""),
        (["a-x", "b-x"], ""),
        ([], ""),
    ],
)
def test_only_a_domain_that_all_names_share_is_left_out(names: list[str], ending: str) -> None:
    assert common_ending(names) == ending


@given(st.lists(st.from_regex(r"[a-z0-9]([a-z0-9.-]{0,20}[a-z0-9])?", fullmatch=True), unique=True))
def test_names_without_their_ending_still_differ(names: list[str]) -> None:
    ending = common_ending(names)

    assert len({name.removesuffix(ending) for name in names}) == len(names)
    assert all(name.removesuffix(ending) for name in names)


@rows(
    "names, beginning",
    [
        (NODES["GKE"], "gke-production-web-pool-1-3f2a1b4c-"),
        (NODES["AKS"], "aks-nodepool1-12345678-"),
        (NODES["ours"], ""),
        (("openb-node-0001", "openb-node-0002"), ""),
        (("gke-production-web-1",), ""),
        ((), ""),
    ],
)
def test_what_all_names_begin_with_is_left_out_where_the_rest_names_something(
    names: tuple[str, ...], beginning: str
) -> None:
    assert common_beginning(names) == beginning


def test_of_several_regions_no_part_of_a_domain_is_left_out() -> None:
    assert common_ending(NODES["EKS of two regions"]) == ""
    assert common_ending(NODES["EKS"]) == ".eu-west-1.compute.internal"
    assert common_ending(("a.team1.example.com", "b.team2.example.com")) == ".example.com"
