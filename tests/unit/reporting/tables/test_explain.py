from __future__ import annotations

import pytest
from msgspec.structs import replace

from rebalancer.planning.explanation import (
    NodeExplanation,
    PodExplanation,
    PodOnNode,
    SchedulingTable,
    ScoredNode,
    Staying,
)
from rebalancer.planning.plan import UNKNOWN_NODE, Landing
from rebalancer.reporting.tables.explain import explain_table
from rebalancer.reporting.tables.text import Style
from tests.unit.reporting.builders import NOW, a_pod


def an_explanation(verdict: str, reason: str) -> PodExplanation:
    return PodExplanation(
        source="production",
        policy="k3s-trimaran",
        inputs="sha256:0123",
        now=NOW,
        pod=a_pod("web-1"),
        node="node-0001",
        evictable=True,
        reason="",
        because="nothing protects it",
        verdict=verdict,
        verdict_because=reason,
        landings=(Landing(node="node-0007", probability=1.0),),
        unacceptable=0.0125,
    )


@pytest.mark.parametrize(
    ("verdict", "reason", "sentence"),
    [
        ("Moved", "wave 2: node-0001 is at 91 % cpu", "moved in wave 2: node-0001 is at 91 % cpu"),
        ("Limit", "perRun 20 is reached", "stays (Limit): perRun 20 is reached"),
        ("NodeNotHot", "it is Pending: it runs on no node", "not moved: it is Pending: it runs on no node"),
    ],
)
def test_what_the_plan_does_with_a_pod_reads_as_a_sentence(verdict: str, reason: str, sentence: str) -> None:
    assert f"in this plan: {sentence}\n" in explain_table(an_explanation(verdict, reason)).plain


def test_the_chance_of_an_unacceptable_landing_is_called_a_risk() -> None:
    text = explain_table(an_explanation("Limit", "perRun 20 is reached")).plain

    assert "EXPECTED LANDING  before any other move; risk of a bad one: 1.2 %" in text


def test_a_column_of_why_nodes_are_not_acceptable_has_a_cell_in_the_rows_that_are_shown() -> None:
    scored = [ScoredNode(f"node-{number:02}", 412, {"Fit": number}, 0.05, 0.05, {}) for number in range(20)]
    scored[15] = replace(scored[15], unacceptable="node-15 would be at 91.0 % cpu")
    table = SchedulingTable("default-scheduler", 20, tuple(scored), ())
    staying = Staying(load={}, hot=True, above={}, share={}, forgone={}, because="its node is hot")
    explained = replace(an_explanation("Limit", "perRun 20 is reached"), table=table, staying=staying)

    assert "NOT ACCEPTABLE" not in explain_table(explained).plain
    assert "node-15 would be at 91.0 % cpu" in explain_table(explained, Style(everything=True)).plain


def test_the_pods_of_a_node_read_as_sentences_too() -> None:
    verdicts = [
        ("Moved", "wave 1: it is large"),
        ("Evictable", "its node is not hot"),
        ("DaemonSet", "agent"),
    ]
    node = NodeExplanation(
        source="production",
        policy="k3s-trimaran",
        inputs="sha256:0123",
        now=NOW,
        node="node-0001",
        load={"cpu": 91.0},
        after={"cpu": 68.0},
        hot=True,
        because=("cpu 91.0 %: hot above 80 %, cool at 65 %",),
        levels={
            "cpu": "hot above 80 %, cool at 65 %",
            "memory": "hot above 85 %, cool at 75 %",
            "example.com/cpu": "hot above 80 %, cool at 65 %",
        },
        score=12.0,
        uncounted="",
        of_no_pod={},
        unsolved="",
        pods=tuple(
            PodOnNode(pod=a_pod(verdict.lower()), share={"cpu": 10.0}, verdict=verdict, because=reason)
            for verdict, reason in verdicts
        ),
    )
    text = explain_table(node).plain

    assert "      moved in wave 1: it is large\n" in text
    assert "      evictable: its node is not hot\n" in text
    assert "      stays (DaemonSet): agent\n" in text
    assert text.count("cpu 91.0 %: hot above 80 %, cool at 65 %\n") == 1
    assert "  cpu: " not in text  # its levels are in the line above
    assert "  memory: hot above 85 %, cool at 75 %\n" in text
    assert "  example.com/cpu: hot above 80 %, cool at 65 %\n" in text


@pytest.mark.parametrize(
    ("load", "because", "said"),
    [
        ({}, (f"no fresh load figure: {UNKNOWN_NODE}",), "node n1: its load is not known\n"),
        ({"pods": 1.0}, (f"no fresh load figure: {UNKNOWN_NODE}",), "node n1: its load is not known\n"),
        ({"cpu": 10.0}, (), "node n1: not hot\n"),
    ],
)
def test_a_node_whose_load_is_not_known_is_not_said_to_be_not_hot(
    load: dict[str, float], because: tuple[str, ...], said: str
) -> None:
    node = NodeExplanation(
        source="production",
        policy="default",
        inputs="sha256:0123",
        now=NOW,
        node="n1",
        load=load,
        after=load,
        hot=False,
        because=because,
        levels={},
        score=None,
        uncounted="",
        of_no_pod={},
        unsolved="",
        pods=(),
    )
    assert explain_table(node).plain.startswith(said)


def test_the_pods_of_a_node_have_a_column_for_each_resource_that_is_measured() -> None:
    """Of a node that is hot by its traffic cpu and memory alone would say nothing."""
    shares: list[dict[str, float]] = [
        {"cpu": 0.1, "memory": 2.0, "pods": 0.9, "networkReceive": 4.0},
        {"pods": 0.9},
    ]
    node = NodeExplanation(
        source="production",
        policy="network-traffic",
        inputs="sha256:0123",
        now=NOW,
        node="n1",
        load={"networkReceive": 40.0},
        after={"networkReceive": 40.0},
        hot=True,
        because=(),
        levels={},
        score=None,
        uncounted="",
        of_no_pod={},
        unsolved="",
        pods=tuple(
            PodOnNode(pod=a_pod(f"web-{number}"), share=share, verdict="Limit", because="a reason")
            for number, share in enumerate(shares)
        ),
    )
    rows = explain_table(node).plain.partition("PODS")[2].splitlines()
    figures = [row.split()[1:4] for row in rows if row.split()[:1] != ["stays"]]
    assert figures[1:4] == [["CPU", "MEM", "NETWORKRECEIVE"], ["0.1", "2.0", "4.0"], ["?", "?", "?"]]
