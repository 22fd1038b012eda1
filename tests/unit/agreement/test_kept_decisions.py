"""What a service has compared can be asked for later, by pod."""

from __future__ import annotations

from pathlib import Path

import pytest

from rebalancer.agreement import kept_decisions as kept
from rebalancer.agreement.decisions import Decision, Result
from rebalancer.agreement.following import why_there
from rebalancer.agreement.kept_decisions import keep_decisions, kept_decisions
from rebalancer.errors import InputError
from rebalancer.observe.plan_options import PlanOptions


def a_decision(pod: str, version: int, node: str = "a") -> Decision:
    return Decision(
        pod=pod,
        uid=f"uid-{version}",
        version=version,
        at=1_795_176_000.0 + version,
        scheduler="default-scheduler",
        node=node,
        result=Result.AS_COMPUTED,
    )


def test_decisions_are_read_back_in_the_order_in_which_they_were_kept(tmp_path: Path) -> None:
    path = tmp_path / "decisions.jsonl"
    decisions = [a_decision("shop/web-1", 1), a_decision("shop/web-2", 2), a_decision("shop/web-1", 3, "b")]

    keep_decisions(path, decisions[:2])
    keep_decisions(path, [])
    keep_decisions(path, decisions[2:])

    assert kept_decisions(path) == decisions


def test_why_a_pod_landed_there_is_told_by_its_last_decision(tmp_path: Path) -> None:
    path = tmp_path / "decisions.jsonl"
    keep_decisions(path, [a_decision("shop/web-1", 1), a_decision("shop/web-1", 3, "b")])

    found = why_there(PlanOptions(), "pod/shop/web-1", "", path)

    assert (found.decision.node, found.recorded) == ("b", True)
    with pytest.raises(InputError, match="has no decision on pod web-9"):
        why_there(PlanOptions(), "pod/web-9", "", path)


def test_a_file_that_has_grown_makes_room_and_both_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept, "MAX_BYTES", 1)
    path = tmp_path / "decisions.jsonl"

    for version in range(4):
        keep_decisions(path, [a_decision("shop/web", version)])

    assert [item.version for item in kept_decisions(path)] == [2, 3]
    assert {entry.name for entry in tmp_path.iterdir()} == {"decisions.jsonl", "decisions.jsonl.1"}


def test_a_line_that_a_crash_cut_short_is_left_out_and_another_one_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "decisions.jsonl"
    keep_decisions(path, [a_decision("shop/web", 1)])
    whole = path.read_bytes()

    path.write_bytes(whole + whole[:40])
    assert [item.version for item in kept_decisions(path)] == [1]
    keep_decisions(path, [a_decision("shop/web", 2)])  # after a restart
    assert [item.version for item in kept_decisions(path)] == [1, 2]
    path.write_bytes(whole[:40])
    keep_decisions(path, [a_decision("shop/web", 3)])
    assert [item.version for item in kept_decisions(path)] == [3]
    path.write_bytes(whole[:40] + b"\n" + whole)
    with pytest.raises(InputError, match=r"decisions.jsonl:1: is no decision"):
        kept_decisions(path)


def test_a_place_that_cannot_be_written_is_an_error_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot keep decisions"):
        keep_decisions(tmp_path / "gone" / "decisions.jsonl", [a_decision("shop/web", 1)])
