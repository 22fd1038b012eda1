"""What becomes of evictions beside the descheduler: counted alike for both, by what the scheduler chooses."""

from __future__ import annotations

from typing import Any

import pytest

from bench import strategies
from bench.strategies import Outcome, World, cluster, put, run, summary, table

Case = dict[str, Any]


class Placing:
    """A scheduler that puts every pod on one node, or nowhere."""

    def __init__(self, node: str | None) -> None:
        self._node = node

    def answer(self, asked: Case) -> Case:
        names = [f"{item['metadata']['namespace']}/{item['metadata']['name']}" for item in asked["pending"]]
        return {"pods": [{"pod": name, "chosen": self._node} for name in names]}


class Evicting:
    """A descheduler that evicts these pods, by their place among all of them, once."""

    def __init__(self, *at: int) -> None:
        self._at = at

    def answer(self, case: Case) -> Case:
        pods = [case["objects"]["pods"][at]["metadata"] for at in self._at]
        self._at = ()
        return {"evictions": [{"pod": f"{item['namespace']}/{item['name']}"} for item in pods]}


def a_case(family: str = "RemoveDuplicates") -> Case:
    """Two pods of a ReplicaSet on the first of two nodes."""
    made = cluster(7, family, 0)
    pod = next(item for item in made["objects"]["pods"] if item["metadata"].get("ownerReferences"))
    nodes = made["objects"]["nodes"][:2]
    pods = []
    for number in range(2):
        metadata = {
            **pod["metadata"],
            "name": f"web-{number}",
            "uid": f"uid-{number}",
            "namespace": "default",
        }
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "w", "controller": True}
        metadata |= {"ownerReferences": [owner], "labels": {"app": "web"}}
        spec = {"containers": [{"name": "c", "image": "a:1"}], "schedulerName": "default-scheduler"}
        on = {**spec, "nodeName": nodes[0]["metadata"]["name"]}
        pods.append({"metadata": metadata, "spec": on, "status": {"phase": "Running"}})
    return {**made, "objects": {"nodes": nodes, "pods": pods}}


def outcome(node: str | None, monkeypatch: pytest.MonkeyPatch, wishes: tuple[str, ...] = ()) -> Outcome:
    """What comes of the eviction of the first pod, where the rule would then move these."""
    monkeypatch.setattr(World, "wishes", lambda self: dict.fromkeys(wishes, "why"))
    placing, evicting = Placing(node), Evicting(0)
    return run(a_case(), placing, evicting)  # type: ignore[arg-type]  # what a program answers


def test_an_eviction_is_better_the_same_or_pending_by_where_the_scheduler_puts_its_replacement(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, second = (node["metadata"]["name"] for node in a_case()["objects"]["nodes"])
    assert outcome(second, monkeypatch) == Outcome(evictions=1, better=1)
    assert outcome(first, monkeypatch) == Outcome(evictions=1, same_node=1)
    assert outcome(None, monkeypatch) == Outcome(evictions=1, pending=1)


def test_a_replacement_that_the_rule_would_move_again_is_no_better(monkeypatch: pytest.MonkeyPatch) -> None:
    second = a_case()["objects"]["nodes"][1]["metadata"]["name"]
    found = outcome(second, monkeypatch, ("default/web-0-r1",))
    assert found == Outcome(evictions=1, no_better=1, left=1)


def test_evictions_of_replacements_in_later_cycles_count_as_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(World, "wishes", lambda self: {})
    evicted = iter([["default/web-0"], ["default/web-0-r1", "default/web-1"], [], [], [], []])
    monkeypatch.setattr(strategies, "theirs", lambda *_: [next(evicted)])
    found = run(a_case(), Placing("n"), Evicting())  # type: ignore[arg-type]  # as above
    assert (found.evictions, found.again) == (1, 1)


def test_what_has_failed_or_belongs_to_nobody_is_not_replaced() -> None:
    case = a_case()
    case["objects"]["pods"][0]["status"]["phase"] = "Failed"
    del case["objects"]["pods"][1]["metadata"]["ownerReferences"]
    world = World(case, Placing("n"))  # type: ignore[arg-type]  # as above
    made = [new for _, _, new in world.evict(["default/web-0", "default/web-1"])]
    assert made == [None, None]
    assert world.case["objects"]["pods"] == []


def test_the_table_has_both_beside_one_another_and_the_page_keeps_the_rest(tmp_path: Any) -> None:
    found = {"A": (Outcome(evictions=3, pending=1, again=2), Outcome(evictions=2, better=2))}
    text = table(found, "title")
    assert "| A | 3 → 2 | 0 → 2 | 0 → 0 | 0 → 0 | 1 → 0 | 0 → 0 | 0 → 0 | 2 → 0 |" in text
    assert "3 evictions: 1 helped nobody, and 2 pods were evicted again" in summary(found, 12, "1.35")

    page = tmp_path / "page.md"
    page.write_text(f"above\n{strategies._BEGIN}old\n{strategies._END}below\n")
    put(page, text)
    assert page.read_text() == f"above\n{strategies._BEGIN}\n{text}\n{strategies._END}below\n"
