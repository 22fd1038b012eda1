"""What is read of a pod is one row, whatever it was read from; finished pods are there for who asks."""

from __future__ import annotations

import json
import math
from typing import Any

import msgspec
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from rebalancer.cluster.dumps.listing import Listing, ListingBuilder
from rebalancer.cluster.dumps.writer import list_pieces
from rebalancer.cluster.kinds import PODS
from rebalancer.cluster.pods import ContainerReport, PodCondition, PodFields
from rebalancer.cluster.records import Pod
from rebalancer.cluster.wire.protobuf import decode_answer
from tests.builders import LONG_AGO, a_node, a_pod, a_snapshot, owned_by
from tests.conftest import examples
from tests.pod_statuses import statuses
from tests.protobuf_encoder import encode_list
from tests.rows import rows

Item = dict[str, Any]


@st.composite
def pods(draw: st.DrawFn) -> list[Item]:
    found = []
    for number in range(draw(st.integers(0, 6))):
        pod = a_pod(
            f"web-{number}",
            node=draw(st.sampled_from(("", "n1", "n2"))),
            cpu="1",
            owner=owned_by("Job", draw(st.sampled_from("ab"))),
        )
        pod["status"] |= draw(statuses())
        found.append(pod)
    return found


def in_json(items: list[Item]) -> Listing:
    builder = ListingBuilder(PODS)
    builder.add_list(json.dumps({"kind": "PodList", "items": items}).encode())
    return builder.listing()


def in_protobuf(items: list[Item]) -> Listing:
    builder = ListingBuilder(PODS)
    builder.add_protobuf(decode_answer(encode_list(msgspec.convert(item, Pod) for item in items))[1])
    return builder.listing()


def told(listing: Listing) -> tuple[Any, ...]:
    assert listing.pods is not None
    return (*listing.pods.digest_parts(), listing.malformed, listing.pods.unfinished)


@given(pods())
@settings(max_examples=examples(200))
def test_pods_are_the_same_rows_in_json_in_protobuf_and_read_back_from_a_recording(items: list[Item]) -> None:
    listing = in_json(items)
    recorded = ListingBuilder(PODS)
    recorded.add_list(b"".join(list_pieces(listing)))

    assert told(in_protobuf(items)) == told(listing) == told(recorded.listing())


@given(pods())
@settings(max_examples=examples(100))
def test_finished_pods_come_after_the_others_and_are_in_order_themselves(items: list[Item]) -> None:
    listed = in_json(items).pods
    assert listed is not None
    finished = [fields.finished for fields in listed.columns.rows()]

    assert finished == sorted(finished)
    assert listed.unfinished == finished.count(False)
    for part in (listed.names[: listed.unfinished], listed.names[listed.unfinished :]):
        assert list(part) == sorted(part)


def fields_of(**status: Any) -> PodFields:
    pod = a_pod("web-1", node="n1")
    pod["status"] |= status
    listed = in_json([pod]).pods
    assert listed is not None
    return listed.columns.row(0)


def test_a_pod_that_runs_as_it_should_has_nothing_to_report() -> None:
    runs = {"name": "main", "restartCount": 0, "state": {"running": {"startedAt": LONG_AGO}}, "lastState": {}}
    completed = {"terminated": {"exitCode": 0, "reason": "Completed"}}
    done = {"name": "init", "restartCount": 0, "state": completed}
    usual = [{"type": kind, "status": "True"} for kind in ("PodScheduled", "Initialized", "Ready")]
    fields = fields_of(containerStatuses=[runs], initContainerStatuses=[done], conditions=usual)

    assert (fields.reason, fields.conditions, fields.containers) == ("", (), ())


def test_what_became_of_a_pod_and_of_its_containers_is_read() -> None:
    fields = fields_of(
        phase="Failed",
        reason="Evicted",
        conditions=[
            {"type": "DisruptionTarget", "status": "True", "reason": "Taint", "lastTransitionTime": LONG_AGO},
            {"type": "Ready", "status": "False", "reason": "PodFailed"},
        ],
        containerStatuses=[
            {
                "name": "main",
                "restartCount": 3,
                "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}},
            }
        ],
        initContainerStatuses=[
            {"name": "init", "restartCount": 2, "state": {"terminated": {"exitCode": 1, "reason": "Error"}}}
        ],
    )

    assert fields.finished
    assert fields.reason == "Evicted"
    taint, unready = fields.conditions
    assert (taint.type, taint.status, taint.reason) == ("DisruptionTarget", "True", "Taint")
    assert taint.since == fields.created
    assert (unready.type, unready.reason, math.isnan(unready.since)) == ("Ready", "PodFailed", True)
    assert fields.containers == (
        ContainerReport("main", False, 3, "CrashLoopBackOff", "", None, "OOMKilled", 137),
        ContainerReport("init", True, 2, "", "Error", 1),
    )


@rows(
    "state, debugged_by",
    [
        ({"running": {"startedAt": LONG_AGO}}, "debugger"),
        ({}, "debugger"),  # nothing says that it does not run
        ({"waiting": {"reason": "ContainerCreating"}}, ""),
        ({"terminated": {"exitCode": 0}}, ""),
    ],
)
def test_a_pod_whose_ephemeral_container_runs_is_being_debugged(
    state: dict[str, Any], debugged_by: str
) -> None:
    assert (
        fields_of(ephemeralContainerStatuses=[{"name": "debugger", "state": state}]).debugged_by
        == debugged_by
    )


def test_equal_reports_are_kept_once() -> None:
    items = [a_pod(name, node="n1") for name in ("a", "b")]
    for item in items:
        item["status"]["conditions"] = [
            {"type": "Ready", "status": "False", "lastTransitionTime": LONG_AGO},
        ]
    listed = in_json(items).pods
    assert listed is not None
    first, second = (fields.conditions for fields in listed.columns.rows())

    assert first is second
    assert isinstance(first[0], PodCondition)


def finished_pod(name: str, phase: str = "Failed", **fields: Any) -> Item:
    pod = a_pod(name, node="n1", owner=owned_by("Job", name), **fields)
    pod["status"]["phase"] = phase
    return pod


def test_finished_pods_have_rows_and_classes_after_those_of_the_others() -> None:
    table = a_snapshot(
        nodes=[a_node("n1")],
        pods=[
            finished_pod("a"),
            a_pod("b", node="n1"),
            finished_pod("c", "Succeeded"),
            a_pod("d", node="gone"),
        ],
    ).pods

    assert (table.names, len(table)) == (("b", "d"), 2)
    assert {row: pods.tolist() for row, pods in table.by_node.items()} == {-1: [1], 0: [0]}
    assert table.finished is not None
    assert table.finished.names == ("a", "c")
    every = table.with_finished
    assert every.names == ("b", "d", "a", "c")
    assert every.node.tolist() == [0, -1, 0, 0]
    assert [every.class_of(row).owner.name for row in range(4)] == ["", "", "a", "c"]
    assert every.classes[: len(table.classes)] == table.classes
    assert [every.fields(row).finished for row in range(4)] == [False, False, True, True]


def test_a_table_without_finished_pods_is_the_table_with_them() -> None:
    table = a_snapshot(nodes=[a_node("n1")], pods=[a_pod("b", node="n1")]).pods

    assert table.finished is None
    assert table.with_finished is table


@rows("phase", ["Failed", "Succeeded"])
@rows("damage", [{"overhead": {"cpu": "-1"}}, {"priority": "high"}, {"containers": [{"name": 5}]}])
def test_a_finished_pod_that_cannot_be_read_is_named_and_puts_no_node_in_doubt(
    phase: str, damage: dict[str, Any]
) -> None:
    snapshot = a_snapshot(nodes=[a_node("n1")], pods=[finished_pod("odd", phase, **damage)])

    assert [item.name for item in snapshot.malformed] == ["odd"]
    assert not snapshot.nodes.incomplete.any()


def test_pods_are_taken_and_joined_with_all_that_is_known_of_them() -> None:
    named = "karpenter.sh/do-not-disrupt"
    items = [a_pod(name, node="n1", annotations={named: name}) for name in "abc"]
    table = a_snapshot(nodes=[a_node("n1")], pods=[finished_pod("x"), *items]).pods
    some = table.take(np.array([2, 0]))
    more = some.joined([table.fields(1)], np.array([-1]))

    assert more.names == ("c", "a", "b")
    assert [more.annotations[row][named] for row in range(3)] == ["c", "a", "b"]
    assert more.node.tolist() == [0, 0, -1]
    assert more.with_finished.names == ("c", "a", "b", "x")
