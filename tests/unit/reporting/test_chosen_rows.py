"""What -n, -l and --field-selector choose is what the API server would choose, and never the plan itself."""

from __future__ import annotations

from typing import Any

import pytest

from rebalancer.cluster.selectors import parse_fields, parse_labels
from rebalancer.cluster.snapshot import Snapshot
from rebalancer.planning.plan import NodeReport, Plan
from rebalancer.reporting.chosen_rows import Choice, chosen_nodes, chosen_pods, sorted_moves
from tests.builders import a_node, a_pod, a_snapshot
from tests.rows import rows
from tests.unit.reporting import builders


def labelled(item: Any, **labels: str) -> Any:
    item["metadata"]["labels"] = labels
    return item


@pytest.fixture
def snapshot() -> Snapshot:
    return a_snapshot(
        nodes=[labelled(a_node("node-0001"), pool="a"), labelled(a_node("node-0002"), pool="b")],
        pods=[
            labelled(a_pod("web-1", namespace="shop", node="node-0001"), app="web"),
            labelled(a_pod("api-1", namespace="shop", node="node-0002"), app="api"),
        ],
    )


def plan() -> Plan:
    moves = (builders.a_move("web-1", gain=5.0), builders.a_move("api-1", from_node="node-0002", gain=9.0))
    return builders.a_plan(moves=moves, kept=())


@pytest.mark.parametrize(
    ("choice", "names"),
    [
        (Choice(), ["web-1", "api-1"]),
        (Choice(namespace="shop"), ["web-1", "api-1"]),
        (Choice(namespace="other"), []),
        (Choice(labels=parse_labels("app=web")), ["web-1"]),
        (Choice(labels=parse_labels("app!=web")), ["api-1"]),
        (Choice(labels=parse_labels("app in (web,api),!tier")), ["web-1", "api-1"]),
        (Choice(fields=parse_fields("spec.nodeName=node-0002")), ["api-1"]),
        (Choice(fields=parse_fields("spec.nodeName!=node-0002")), ["web-1"]),
        (Choice(fields=parse_fields("spec.schedulerName=other")), []),
    ],
)
def test_pods_are_chosen_as_a_server_would(snapshot: Snapshot, choice: Choice, names: list[str]) -> None:
    assert [move.pod.name for move in chosen_pods(plan(), choice, snapshot).moves] == names


@pytest.mark.parametrize(
    ("choice", "names"),
    [
        (Choice(labels=parse_labels("pool=b")), ["node-0002"]),
        (Choice(fields=parse_fields("metadata.name=node-0001")), ["node-0001"]),
        (Choice(fields=parse_fields("spec.unschedulable=true")), []),
        (Choice(fields=parse_fields("spec.unschedulable=false")), ["node-0001", "node-0002"]),
    ],
)
def test_nodes_are_chosen_as_a_server_would(snapshot: Snapshot, choice: Choice, names: list[str]) -> None:
    reports: tuple[NodeReport, ...] = (builders.a_node("node-0001"), builders.a_node("node-0002"))

    assert [node.name for node in chosen_nodes(reports, choice, snapshot)] == names


def test_a_choice_says_in_words_what_it_chooses() -> None:
    choice = Choice("shop", parse_labels("app=web"), parse_fields("spec.nodeName!=n"))

    assert str(choice) == "namespace shop, label app=web, spec.nodeName is not n"
    assert choice.needs_snapshot
    assert not Choice("shop", None, parse_fields("spec.nodeName=n")).needs_snapshot


def test_moves_can_be_ordered_by_what_they_gain() -> None:
    assert [move.pod.name for move in sorted_moves(plan(), "gain").moves] == ["api-1", "web-1"]
    assert sorted_moves(plan(), "wave") == plan()


@rows("text", ["a b", "in (x)", "a in x", "=x", "(", "a=b=c", "a>1", "a in (b c)", "a in (b=c)"])
def test_what_is_no_label_selector_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="unable to parse"):
        parse_labels(text)
