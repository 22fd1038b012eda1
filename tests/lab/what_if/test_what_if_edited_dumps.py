"""Questions about dumps to which somebody added a node, or from which somebody took one."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rebalancer.observe.plan_options import PlanOptions
from rebalancer.run.plan import planner_of
from rebalancer_lab.what_if.asking import what_if_changed
from rebalancer_lab.what_if.changed_cluster import WhatIf
from rebalancer_lab.what_if.changes import parse_changes
from rebalancer_lab.what_if.tables import what_if_table

EXAMPLE = Path(__file__).parents[3] / "examples" / "hot-cluster"
Items = list[dict[str, Any]]
Edit = Callable[[dict[str, Items]], None]


@pytest.fixture
def edited(tmp_path: Path) -> Callable[[Edit], PlanOptions]:
    def make(edit: Edit) -> PlanOptions:
        dump = tmp_path / "dump"
        shutil.copytree(EXAMPLE, dump)
        lists = {name: json.loads((dump / f"{name}.json").read_text()) for name in ("nodes", "pods")}
        edit({name: found["items"] for name, found in lists.items()})
        for name, found in lists.items():
            (dump / f"{name}.json").write_text(json.dumps(found))
        return PlanOptions(source=dump)

    return make


def asked(options: PlanOptions, *, add: str = "", drain: str = "") -> WhatIf:
    changes = parse_changes([drain] if drain else [], [], [add] if add else [], [])
    return what_if_changed(options, changes, None)


def without_node_1(lists: dict[str, Items]) -> None:
    lists["nodes"][:] = [item for item in lists["nodes"] if item["metadata"]["name"] != "node-1"]


def waiting_for_node_1(lists: dict[str, Items]) -> None:
    without_node_1(lists)
    for pod in lists["pods"]:
        if pod["spec"].get("nodeName") == "node-1":
            del pod["spec"]["nodeName"]
            pod["status"] = {"phase": "Pending"}


def with_node_7(lists: dict[str, Items]) -> None:
    node = json.loads(
        json.dumps(lists["nodes"][-1]).replace(lists["nodes"][-1]["metadata"]["name"], "node-7")
    )
    node["metadata"]["uid"] = "node-7"
    lists["nodes"].append(node)


def test_pods_whose_node_is_gone_are_named_in_plans_and_answers(
    edited: Callable[[Edit], PlanOptions],
) -> None:
    options = edited(without_node_1)
    words = (
        "7 pods run on nodes that the cluster does not have, e.g. shop/api-7d9f-01: they, and what replaces "
        "them, count nowhere"
    )

    assert words in {item.sentence for item in planner_of(options).inputs.warnings}
    answer = asked(options, drain="node-2")
    assert words in answer.warnings
    assert "they, and what replaces" in " ".join(what_if_table(answer).plain.split())


def test_where_every_node_is_there_no_pod_is_said_to_be_lost() -> None:
    assert not [
        text for text in asked(PlanOptions(source=EXAMPLE), drain="node-2").warnings if "run on" in text
    ]


def test_load_that_pending_pods_bring_anyway_is_not_taken_for_that_of_the_change(
    edited: Callable[[Edit], PlanOptions],
) -> None:
    answer = asked(edited(waiting_for_node_1), add="node-2=1")

    changed = {item.node for item in answer.nodes if item.change or item.before != item.after}
    assert changed == {"node-2-new-1"}
    assert "Pending pods are counted where they land, before the change too" in answer.notes


def test_a_new_node_like_one_without_figures_is_said_to_be_unknown(
    edited: Callable[[Edit], PlanOptions],
) -> None:
    answer = asked(edited(with_node_7), add="node-7=2")

    words = "how busy node-7 is, and so a new node like it, is not known: moves do not land there"
    assert words in answer.notes
    assert not [
        note for note in asked(PlanOptions(source=EXAMPLE), add="node-5=1").notes if "how busy" in note
    ]


def test_many_new_nodes_are_shown_in_order_and_summarised() -> None:
    answer = asked(PlanOptions(source=EXAMPLE), add="node-5=200")

    new = [item.node for item in answer.nodes if item.change == "new"]
    assert new[:11] == [f"node-5-new-{number}" for number in range(1, 12)]
    assert len(what_if_table(answer).plain.splitlines()) < 60
