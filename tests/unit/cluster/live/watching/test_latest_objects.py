"""What events make of a listing is what a LIST would bring; what cannot be believed is refused."""

from __future__ import annotations

import itertools

import pytest

from rebalancer.cluster.dumps.listing import ListingBuilder
from rebalancer.cluster.kinds import NODES, PODS, REPLICA_SETS, Kind
from rebalancer.cluster.live.watching.latest_objects import LatestObjects, LatestPods, latest_objects
from rebalancer.cluster.wire.watch_events import EventSplitter
from tests.builders import a_pod, names_of
from tests.churn import Churn, Object, a_bookmark, compare, digest_of, json_line, watched
from tests.conftest import some_of
from tests.rows import rows


@rows("seed", range(3))
@rows("kind, protobuf", [(PODS, False), (PODS, True), (NODES, False), (REPLICA_SETS, False)])
def test_after_any_events_it_is_what_a_list_would_bring(kind: Kind, protobuf: bool, seed: int) -> None:
    churn = Churn(seed, kind)
    assert list(compare(churn, watched(churn), 160, 20, protobuf=protobuf))[-1] == 160


@pytest.mark.many_cases
@rows("every, seed", some_of(list(itertools.product([10, 1], range(3)))))
def test_a_few_changed_rows_of_many_make_the_same_columns(seed: int, every: int) -> None:
    churn = Churn(seed, PODS, names=300)
    assert list(compare(churn, watched(churn), 200, every, protobuf=False))[-1] == 200


def test_what_was_handed_out_does_not_change_any_more() -> None:
    churn = Churn(0, PODS, names=300)
    objects = watched(churn)
    handed_out = []
    for _ in range(20):
        for _ in range(5):
            applied(objects, json_line(*churn.change()))
        listing = objects.listing(0.0)
        handed_out.append((listing, digest_of(listing)))
    assert len({found for _, found in handed_out}) == 20
    assert all(digest_of(listing) == found for listing, found in handed_out)


def applied(objects: LatestObjects, *lines: bytes) -> list[bool]:
    return [objects.apply(event) for event in EventSplitter("application/json").events(b"".join(lines))]


def at(version: int, name: str = "web-1", **options: object) -> Object:
    pod = a_pod(name, node="n1", **options)  # type: ignore[arg-type]
    pod["metadata"]["resourceVersion"] = str(version)
    return pod


def objects_at_100(*pods: Object) -> LatestObjects:
    churn = Churn(0, PODS, names=0)
    churn.objects = {(pod["metadata"]["namespace"], pod["metadata"]["name"]): pod for pod in pods}
    return watched(churn)


def test_an_event_that_is_delivered_twice_counts_once() -> None:
    objects = objects_at_100(at(7))
    changed, deleted = json_line("MODIFIED", at(101)), json_line("DELETED", at(102))
    assert applied(objects, changed, changed, deleted, deleted) == [True, False, True, False]
    assert names_of(objects.listing(0.0)) == []


@pytest.mark.parametrize(
    "late",
    [
        json_line("ADDED", at(104, "web-2")),
        json_line("MODIFIED", at(104, "web-1")),
        json_line("DELETED", at(104, "web-3")),
    ],
)
def test_an_event_that_comes_too_late_is_not_believed_and_neither_is_what_follows(late: bytes) -> None:
    objects = objects_at_100(at(7), at(8, "web-3"))
    applied(objects, json_line("ADDED", at(105, "web-4")))
    with pytest.raises(ValueError, match="an event at 104 after one at 105"):
        applied(objects, late)


def test_a_bookmark_moves_the_version_forward_and_never_back() -> None:
    objects = objects_at_100(at(7))
    before = objects.listing(1.0)
    applied(objects, a_bookmark(110), a_bookmark(90))
    after = objects.listing(2.0)
    assert (after.resource_version, after.read_at) == ("110", 2.0)
    assert after.pods is before.pods, "what did not change is shared"


def test_a_pod_that_finished_counts_no_more_and_one_that_cannot_be_read_is_named() -> None:
    objects = objects_at_100(at(7), at(8, "web-2"))
    done = at(101)
    done["status"]["phase"] = "Succeeded"
    applied(objects, json_line("MODIFIED", done), json_line("MODIFIED", at(102, "web-2", cpu="many")))
    listing = objects.listing(0.0)
    assert (names_of(listing), len(listing)) == (["web-1"], 0)
    assert [(item.name, item.node_name) for item in listing.malformed] == [("web-2", "n1")]
    applied(objects, json_line("MODIFIED", at(103, "web-2")))
    assert not objects.listing(0.0).malformed


def test_classes_without_pods_are_forgotten_in_the_end() -> None:
    objects = objects_at_100(at(7))
    assert isinstance(objects, LatestPods)
    for version in range(101, 1101):
        applied(objects, json_line("MODIFIED", at(version, labels={"rollout": str(version)})))
        if version % 100 == 0:
            objects.listing(0.0)
    assert len(objects.classes.classes) < 400
    assert digest_of(objects.listing(0.0)) == digest_of(
        objects_at_100(at(1100, labels={"rollout": "1100"})).listing(0.0)
    )


@rows("version", ["", "abc", "-1", "9" * 30])
def test_a_kind_whose_versions_cannot_be_compared_is_not_watched(version: str) -> None:
    builder = ListingBuilder(PODS)
    builder.resource_version = version
    assert latest_objects(builder.listing(), builder) is None


def test_a_kind_with_an_object_that_has_no_usable_name_is_not_watched() -> None:
    builder = ListingBuilder(PODS)
    builder.resource_version = "7"
    builder.add(b'{"metadata": {"name": "../etc"}}')
    assert latest_objects(builder.listing(), builder) is None
