from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from rebalancer.cluster.dumps.listing import Listing, ListingBuilder, decode_listing
from rebalancer.cluster.kinds import (
    DISRUPTION_BUDGETS,
    NODE_METRICS,
    NODES,
    POD_METRICS,
    PODS,
    REPLICA_SETS,
    Kind,
)
from rebalancer.cluster.pods import HONOURED_ANNOTATIONS
from rebalancer.cluster.records import Workload
from tests.builders import a_budget, a_node, a_pod, a_replica_set, names_of
from tests.rows import rows


def listing_of(kind: Kind, *items: Any) -> Listing:
    encoded = (item if isinstance(item, bytes) else json.dumps(item).encode() for item in items)
    return decode_listing(kind, [msgspec.Raw(item) for item in encoded])


@rows(
    "damage",
    [
        {"metadata": {"name": "web-2", "namespace": "shop", "labels": 5}},
        {"spec": {"nodeName": "n1", "priority": 2**31}},
        {"spec": {"nodeName": "n1", "priority": "high"}},
        {"spec": {"nodeName": "n1", "containers": {}}},
        {"spec": {"nodeName": "n1", "containers": [{"ports": [{"hostPort": 10**30}]}]}},
        {"status": []},
    ],
)
def test_one_malformed_pod_is_named_with_its_node_and_never_fails_the_list(damage: dict[str, Any]) -> None:
    broken = {**a_pod("web-2", namespace="shop", node="n1"), **damage}
    listing = listing_of(PODS, a_pod("web-1", namespace="shop"), broken, a_pod("web-3", namespace="shop"))

    assert names_of(listing) == ["web-1", "web-3"]
    (malformed,) = listing.malformed
    assert (malformed.kind, malformed.namespace, malformed.name) == ("Pod", "shop", "web-2")
    assert malformed.node_name == "n1"
    assert str(malformed).startswith("Pod shop/web-2: ")


@rows("item", [b"{}", b"5", b"null", b"[]", b'{"metadata": 5}', b'{"metadata": null}'])
def test_an_object_without_a_name_is_identified_by_its_position(item: bytes) -> None:
    listing = listing_of(PODS, a_pod("web-1"), item)

    assert [malformed.name for malformed in listing.malformed] == ["#1"]


def test_a_pod_whose_name_cannot_be_read_still_puts_its_node_in_doubt() -> None:
    (malformed,) = listing_of(PODS, {"metadata": 5, "spec": {"nodeName": "n1"}}).malformed

    assert malformed.node_name == "n1"


@rows("name", ["\x1b[2J", "a b", "", "-a", "a\n", "é", "x" * 254, "../../etc/passwd"])
def test_a_name_kubernetes_does_not_admit_is_malformed_and_never_repeated_raw(name: str) -> None:
    (malformed,) = listing_of(PODS, a_pod(name)).malformed

    assert malformed.name == "#0"
    assert str(malformed).isprintable()


def test_json_nested_without_end_is_one_malformed_object() -> None:
    deep = b'{"metadata": {"name": "web-2", "labels": ' + b"[" * 100_000 + b"]" * 100_000 + b"}}"
    listing = listing_of(PODS, a_pod("web-1"), deep)

    assert names_of(listing) == ["web-1"]
    assert len(listing.malformed) == 1


@pytest.mark.parametrize("number", [2**31, -(2**31) - 1, 10**40])
def test_a_number_kubernetes_could_not_hold_makes_its_object_malformed(number: int) -> None:
    budget = a_budget("web", labels={}, allowed=number)
    (malformed,) = listing_of(DISRUPTION_BUDGETS, budget).malformed

    assert str(malformed).startswith("PodDisruptionBudget default/web: ")
    assert "$.status.disruptionsAllowed" in malformed.reason


def test_bytes_that_are_no_utf_8_make_their_object_malformed() -> None:
    broken = b'{"metadata": {"name": "n2", "labels": {"a": "\xff\xfe"}}}'
    listing = listing_of(NODES, a_node("n1"), broken)

    assert names_of(listing) == ["n1"]
    assert len(listing.malformed) == 1


def versioned(version: str, node: str) -> dict[str, Any]:
    pod = a_pod("web-1", node=node)
    pod["metadata"]["resourceVersion"] = version
    return pod


def test_of_an_object_listed_twice_the_newest_counts_whatever_the_order() -> None:
    older, newer = versioned("9", "n1"), versioned("10", "n2")

    for items in ((older, newer), (newer, older)):
        listing = listing_of(PODS, *items)
        (malformed,) = listing.malformed
        assert listing.pods is not None
        assert listing.pods.columns.texts("node_name") == ("n2",)
        assert malformed.node_name == "n1"
        assert "listed twice" in malformed.reason


@pytest.mark.parametrize("kind", [NODE_METRICS, POD_METRICS])
def test_of_two_different_figures_of_one_node_or_pod_neither_counts(kind: Kind) -> None:
    def figure(name: str, cpu: str, seconds: int) -> dict[str, Any]:
        usage = {"cpu": cpu, "memory": "1Gi"}
        timestamp = f"2026-01-01T00:00:{seconds:02}Z"
        containers = [{"name": "main", "usage": usage}]
        return {"metadata": {"name": name}, "timestamp": timestamp, "usage": usage, "containers": containers}

    once, early, late = figure("a", "1", 0), figure("b", "900m", 0), figure("b", "100m", 30)
    for items in ((early, once, late, once), (late, once, late, early)):
        listing = listing_of(kind, *items)
        (malformed,) = listing.malformed
        assert [record.metadata.name for record in listing.records] == ["a"]
        assert str(malformed) == f"{kind.name} b: listed twice with different figures; neither is used"


@pytest.mark.parametrize(
    ("pod", "field"),
    [
        (a_pod("web\r\n1"), "metadata.name 'web\\r\\n1'"),
        (a_pod("web-1", namespace="shop\r\n"), "metadata.namespace 'shop\\r\\n'"),
    ],
)
def test_of_a_name_and_a_namespace_that_is_named_which_kubernetes_does_not_admit(
    pod: dict[str, Any], field: str
) -> None:
    (malformed,) = listing_of(PODS, pod).malformed

    assert malformed.reason == f"{field} is not a name Kubernetes admits"


def test_the_same_object_from_two_files_is_no_fault() -> None:
    listing = listing_of(PODS, a_pod("web-1"), a_pod("web-1"))

    assert (names_of(listing), listing.malformed) == (["web-1"], ())


def test_of_a_node_annotations_are_kept_that_say_a_number_or_a_time() -> None:
    node = a_node("n")
    says = {"example.com/cost": "2.5", "example.com/since": "2025-12-01T10:00:00Z", "csi.k8s.io/id": "any"}
    node["metadata"]["annotations"] = {**says, "example.com/token": "s3cr3t"}
    (record,) = decode_listing(NODES, [msgspec.Raw(msgspec.json.encode(node))]).records
    assert record.metadata.annotations == says


def test_annotations_that_bear_on_nothing_are_forgotten_with_the_secrets_in_them() -> None:
    kept = {
        "kubernetes.io/config.source": "api",
        "descheduler.alpha.kubernetes.io/evict": "true",
        "karpenter.sh/do-not-disrupt": "true",
        "pv.kubernetes.io/bind-completed": "yes",
    }
    secret = {
        "kubectl.kubernetes.io/last-applied-configuration": "SECRET",
        "vault.hashicorp.com/token": "SECRET",
    }
    pod = a_pod("web-1", annotations={**kept, **secret})
    owner = a_replica_set("web")
    owner["spec"]["template"]["metadata"]["annotations"] = {**kept, **secret}
    owner["metadata"]["annotations"] = secret
    pods, (workload,) = listing_of(PODS, pod).pods, listing_of(REPLICA_SETS, owner).records

    assert pods is not None
    assert isinstance(workload, Workload)
    assert set(kept) > set(pods.columns.row(0).annotations) == set(kept) & HONOURED_ANNOTATIONS
    assert workload.metadata.annotations is None
    assert workload.spec.template is not None
    assert workload.spec.template.metadata.annotations == kept


@rows("kind", [PODS, NODES])
@rows("damage", [None, {"metadata": {"name": "b"}, "status": []}, 5, {"metadata": {"name": "-"}}])
def test_a_list_in_one_go_is_what_its_items_are_one_by_one(kind: Kind, damage: Any) -> None:
    build = a_pod if kind is PODS else a_node
    items = [build("a"), build("c"), *([damage] if damage is not None else []), build("d")]
    builder = ListingBuilder(kind)
    builder.add_list(json.dumps({"kind": f"{kind.name}List", "items": items}).encode())
    at_once, one_by_one = builder.listing(), listing_of(kind, *items)

    assert names_of(at_once) == names_of(one_by_one) == ["a", "c", "d"]
    assert at_once.malformed == one_by_one.malformed
    assert len(at_once.malformed) == (damage is not None)


def test_a_list_without_items_is_none() -> None:
    with pytest.raises(ValueError, match="items"):
        ListingBuilder(PODS).add_list(b'{"kind": "PodList"}')


def finished(version: str) -> dict[str, Any]:
    pod = versioned(version, "n1")
    pod["status"]["phase"] = "Failed"
    return pod


def test_a_pod_listed_twice_has_finished_when_the_newest_says_so_whatever_the_order() -> None:
    for running, done, left in (("9", "10", 0), ("10", "9", 1)):
        for items in ((versioned(running, "n2"), finished(done)), (finished(done), versioned(running, "n2"))):
            listing = listing_of(PODS, *items)
            assert names_of(listing) == ["web-1"]
            assert len(listing) == left
            assert [malformed.node_name for malformed in listing.malformed] == ["n1" if left else "n2"]
