"""Whether a replacement is placed before its predecessor is gone, and what the boldest level counts on."""

from __future__ import annotations

from typing import Any

import pytest

from tests.builders import a_node
from tests.rows import rows
from tests.unit.planning.builders import Workload, a_policy, a_workload, kept, moved, plan_of, planning_inputs

RACES: dict[str, dict[str, Any]] = {"strict": {}, "likely": {"aggressiveness": 5, "minGain": 5}}
PREFERS_A = {
    "nodeAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {
                "weight": 100,
                "preference": {
                    "matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["a"]}]
                },
            }
        ]
    }
}


def found(race: str, **pod: Any) -> tuple[dict[str, str], dict[str, str]]:
    """Node a is full by requests, so a replacement that prefers it returns there once its place is free."""
    web: Workload = a_workload("web", ["a"] * 10, spec={"affinity": PREFERS_A, **pod.pop("spec", {})}, **pod)
    policy = a_policy(planning=RACES[race], limits={"perRun": 1})
    plan = plan_of(planning_inputs([a_node("a", cpu=10), a_node("b", cpu=100)], [web], policy=policy))
    return moved(plan), kept(plan)


def test_strict_asks_for_a_good_landing_before_and_after_the_predecessor_is_gone() -> None:
    moves, stay = found("strict")
    assert moves == {}
    assert set(stay.values()) == {"NoBetterLanding"}


def test_likely_counts_on_the_predecessor_to_be_terminating_still() -> None:
    moves, _ = found("likely")
    assert list(moves.values()) == ["b"]


@pytest.mark.parametrize("race", ["strict", "likely"])
def test_a_pod_without_a_grace_period_may_be_gone_at_once(race: str) -> None:
    moves, _ = found(race, spec={"terminationGracePeriodSeconds": 0})
    assert moves == {}


@pytest.mark.parametrize("race", ["strict", "likely"])
def test_a_stateful_set_makes_its_pod_anew_once_the_old_one_is_gone(race: str) -> None:
    moves, _ = found(race, kind="StatefulSet")
    assert moves == {}


@rows("race", ["strict", "likely"])
@rows("kind", ["StrimziPodSet", "Job"])
def test_where_nobody_knows_when_a_replacement_is_made_both_landings_count(race: str, kind: str) -> None:
    """A StrimziPodSet uses the name again, and a Job waits after each failure."""
    web = a_workload(
        "web", ["a"] * 10, kind=kind if kind == "Job" else "ReplicaSet", spec={"affinity": PREFERS_A}
    )
    for pod in web.pods if kind != "Job" else ():
        pod["metadata"]["ownerReferences"][0] |= {"kind": kind, "apiVersion": "core.strimzi.io/v1beta2"}
    named = [{"apiVersion": "core.strimzi.io/v1beta2", "kind": "StrimziPodSet"}]
    policy = a_policy(
        planning=RACES[race],
        limits={"perRun": 1},
        evictable={"jobs": True, "controllers": named},
    )
    plan = plan_of(planning_inputs([a_node("a", cpu=10), a_node("b", cpu=100)], [web], policy=policy))
    assert set(kept(plan).values()) == {"NoBetterLanding"}


@pytest.mark.parametrize("race", ["strict", "likely"])
def test_a_waiting_pod_takes_the_room_that_becomes_free_in_either_case(race: str) -> None:
    waiting = a_workload("waiting", [""], spec={"nodeSelector": {"kubernetes.io/hostname": "a"}})
    web = a_workload("web", ["a"] * 10)
    policy = a_policy(planning=RACES[race])
    plan = plan_of(
        planning_inputs([a_node("a", cpu=10), a_node("b", cpu=100)], [web, waiting], policy=policy)
    )
    assert {kept(plan)[pod.split("/")[-1]] for pod in kept(plan)} == {"RoomTaken"}
