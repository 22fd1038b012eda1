from __future__ import annotations

import math
from typing import Any

import pytest

from rebalancer.cluster.dumps.listing import Recording
from rebalancer.cluster.kinds import NAMESPACES, NODES, PODS
from rebalancer.cluster.quantities import MAX_AMOUNT
from rebalancer.cluster.snapshot import build_snapshot
from rebalancer.errors import InputError
from tests.builders import a_node, a_pod, a_recording, a_snapshot
from tests.rows import rows


def malformed_names(snapshot: Any) -> list[str]:
    return [str(item).partition(": ")[0] for item in snapshot.malformed]


@rows("amount", ["1 Gi", "NaN", "-1", "1e30", "9223372036854775807", "٤"])
@rows("which", ["allocatable", "capacity"])
def test_a_node_whose_size_cannot_be_believed_is_named_and_left_out(which: str, amount: str) -> None:
    broken = a_node("n2")
    broken["status"][which]["memory"] = amount
    snapshot = a_snapshot(nodes=[a_node("n1"), broken], pods=[a_pod("web-1", node="n2")])

    assert snapshot.nodes.names == ("n1",)
    assert malformed_names(snapshot) == ["Node n2"]
    assert snapshot.malformed[0].reason.startswith(f"status.{which}.memory: ")
    assert snapshot.pods.node_unknown.tolist() == [True]


def test_the_largest_amount_can_be_summed_and_multiplied_without_overflow() -> None:
    assert MAX_AMOUNT * 100 * 10 < 2**63
    assert a_snapshot(nodes=[a_node("n1", memory=str(MAX_AMOUNT))]).nodes.names == ("n1",)


@rows(
    "spec",
    [
        {"overhead": {"cpu": "-1"}},
        {"overhead": {"cpu": "1_000"}},
        {"resources": {"requests": {"memory": "1e30"}}},
        {"containers": [{"name": "main", "resources": {"requests": {"cpu": "x"}}}]},
        {"containers": [{"name": "main", "resources": {"limits": {"cpu": "x"}}}]},
        {"initContainers": [{"name": "init", "resources": {"requests": {"example.com/gpu": "-1"}}}]},
    ],
)
def test_a_pod_whose_requests_cannot_be_believed_is_named_and_its_node_is_in_doubt(
    spec: dict[str, Any],
) -> None:
    snapshot = a_snapshot(
        nodes=[a_node("n1"), a_node("n2")],
        pods=[a_pod("web-1", node="n1"), a_pod("web-2", node="n1", **spec)],
    )

    assert snapshot.pods.names == ("web-1",)
    assert malformed_names(snapshot) == ["Pod default/web-2"]
    assert snapshot.nodes.incomplete.tolist() == [True, False]


@pytest.mark.parametrize(
    "status", [{"allocatedResources": {"cpu": "x"}}, {"resources": {"requests": {"cpu": "-1"}}}]
)
def test_a_resize_that_cannot_be_believed_is_named_too(status: dict[str, Any]) -> None:
    pod = a_pod("web-1", node="n1", cpu="1")
    pod["status"]["containerStatuses"] = [{"name": "main", **status}]
    snapshot = a_snapshot(nodes=[a_node("n1")], pods=[pod])

    assert malformed_names(snapshot) == ["Pod default/web-1"]


def test_limits_may_be_as_large_as_they_like() -> None:
    containers = [{"name": "main", "resources": {"limits": {"memory": "1e30"}}}]

    assert a_snapshot(pods=[a_pod("web-1", containers=containers)]).malformed == ()


@pytest.mark.parametrize("missing", [NODES, PODS])
def test_without_nodes_or_pods_there_is_nothing_to_say(missing: Any) -> None:
    recording = a_recording()
    listings = {plural: item for plural, item in recording.listings.items() if plural != missing.plural}
    with pytest.raises(InputError, match=f"{missing.plural} were not read .forbidden.*kubectl get"):
        build_snapshot(Recording("test", listings, {missing.plural: "forbidden"}))


def test_a_kind_that_was_not_read_is_unknown_and_one_that_is_empty_is_not() -> None:
    assert a_snapshot().namespaces is None
    assert a_snapshot(namespaces=[]).namespaces == {}
    assert not a_snapshot().has(NAMESPACES)


def test_finished_pods_take_no_room_and_unbound_ones_have_no_node() -> None:
    done = a_pod("done", node="n1")
    done["status"]["phase"] = "Succeeded"
    snapshot = a_snapshot(nodes=[a_node("n1")], pods=[done, a_pod("waiting"), a_pod("web", node="n1")])

    assert snapshot.pods.names == ("waiting", "web")
    assert snapshot.pods.node.tolist() == [-1, 0]


def test_pods_the_scheduler_cannot_tell_apart_share_a_class() -> None:
    pods = [a_pod("a", node="n1", cpu="1"), a_pod("b", cpu="1"), a_pod("c", cpu="2")]
    snapshot = a_snapshot(nodes=[a_node("n1")], pods=pods)
    first, second, third = snapshot.pods.pod_class.tolist()

    assert first == second != third


def test_a_node_that_does_not_say_since_when_it_is_ready_is_not_taken_to_be_old() -> None:
    node = a_node("n1")
    del node["status"]["conditions"][0]["lastTransitionTime"]

    assert math.isnan(a_snapshot(nodes=[node]).nodes.ready_since[0])
