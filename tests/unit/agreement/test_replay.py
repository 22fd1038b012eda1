"""Each binding is computed on the cluster as it was just before, and nothing else counts as agreement."""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from rebalancer.agreement.decisions import Agreement, Decision, Result, Tally
from rebalancer.agreement.replay import MAX_AT_ONCE, MAX_STATES, decide_again
from rebalancer.planning.landing.schedulers import ProfileSchedulers
from rebalancer.profiles import SchedulerConfiguration
from rebalancer.profiles.types import ExtensionPoint as P
from rebalancer.scheduling.registry import default_configuration, with_each_plugin
from tests.builders import a_node
from tests.conftest import examples, some_of
from tests.unit.agreement.watched import Watched

DEFAULTS = default_configuration()


def decided(
    cluster: Watched,
    claims: Collection[tuple[str, str]] = (),
    chosen: Any = range,
    weighed: int = 0,
    **given: Any,
) -> list[Decision]:
    """All bindings of a cluster, decided again."""
    found = decide_again(
        cluster.inputs(**given),
        cluster.changes,
        upto=cluster.version,
        bound_claims=claims,
        chosen=chosen,
        weighed=weighed,
    )
    return list(found)


def results(found: list[Decision]) -> dict[str, Result]:
    return {item.pod.partition("/")[2]: item.result for item in found}


def with_weights(weights: Mapping[str, int]) -> SchedulerConfiguration:
    """The default configuration with other weights of score plugins."""
    (profile,) = DEFAULTS.profiles
    return replace(DEFAULTS, profiles=(replace(profile, weights={**profile.weights, **weights}),))


def scheduled(
    seed: int, pods: int, configuration: SchedulerConfiguration = DEFAULTS, nodes: int = 6
) -> Watched:
    """A cluster whose pods come, are placed by the model with a configuration, and go."""
    chance = random.Random(seed)
    cluster = Watched(*(a_node(f"n{number}", cpu=2 + number % 3) for number in range(nodes)))
    for number in range(pods):
        labels = {"app": f"app-{chance.randrange(3)}"}
        spread: dict[str, Any] = {
            "maxSkew": 1,
            "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": labels},
        }
        more: dict[str, Any] = {"topologySpreadConstraints": [spread]} if chance.random() < 0.4 else {}
        cpu, memory = f"{chance.choice([50, 100, 300])}m", f"{chance.choice([64, 512])}Mi"
        cluster.create(f"p{number}", cpu=cpu, memory=memory, labels=labels, **more)
        inputs = cluster.inputs(configuration=configuration)
        schedulers = ProfileSchedulers(inputs)
        row = inputs.snapshot.pods.row["default", f"p{number}"]
        pod_class = schedulers.state.pod_class[row]
        placement = schedulers.scheduler(pod_class).place(schedulers.state, pod_class, row)
        node = chance.choices(placement.feasible.tolist(), placement.chance.tolist())[0]
        cluster.bind(f"p{number}", inputs.snapshot.nodes.names[node])
        if number >= 12:
            cluster.delete(f"p{number - 12}")
    return cluster


def tallied(found: list[Decision]) -> Agreement:
    tally = Tally("test", 0.0)
    tally.add(found)
    return tally.report(60.0)


@settings(max_examples=examples(8), deadline=None)
@given(st.integers(0, 1 << 16))
def test_a_scheduler_that_decides_as_the_model_always_agrees(seed: int) -> None:
    found = decided(scheduled(seed, 25))

    assert {item.result for item in found} == {Result.AS_COMPUTED}
    assert len(found) == 25
    assert all(0 < item.chance <= 1 for item in found)


def test_chances_are_as_surprising_as_the_model_expects() -> None:
    report = tallied(decided(scheduled(3, 80)))

    (profile,) = report.profiles
    assert report.share == 1.0
    assert profile.surprise is not None
    assert profile.expected_surprise is not None
    assert profile.expected_surprise > 0
    assert profile.surprise == pytest.approx(profile.expected_surprise, abs=0.15)


def test_a_node_that_the_model_would_not_choose_is_a_miss_with_both_nodes_scored() -> None:
    cluster = Watched(a_node("big", cpu=8), a_node("small", cpu=1))
    cluster.create("web", cpu="900m")
    cluster.bind("web", "small")

    (miss,) = decided(cluster)

    assert (miss.result, miss.chance, miss.feasible) == (Result.MISSED, 0.0, 2)
    assert [node.node for node in miss.nodes] == ["small", "big"]
    assert miss.nodes[0].total < miss.nodes[1].total
    assert miss.nodes[1].raw.keys() >= miss.nodes[1].weighted.keys() > set()


def test_a_node_that_a_filter_rejects_names_the_filter() -> None:
    cluster = Watched(a_node("big"), a_node("small", cpu=1))
    cluster.create("web", cpu="2")
    cluster.bind("web", "small")

    (miss,) = decided(cluster)

    assert miss.nodes[0].rejected == "NodeResourcesFit: Insufficient cpu"
    (suspect,) = tallied([miss]).suspects
    assert suspect.what == "NodeResourcesFit"


def test_a_filter_that_the_scheduler_has_and_the_configuration_has_not_is_named() -> None:
    taint = {"key": "gpu", "value": "", "effect": "NoSchedule"}
    cluster = Watched(a_node("empty", cpu=8, taints=[taint]), a_node("other"))
    for number in range(4):
        cluster.create(f"web-{number}")
        cluster.bind(f"web-{number}", "other")
    profile = DEFAULTS.profiles[0]
    filters = tuple(name for name in profile.enabled(P.FILTER) if name != "TaintToleration")
    weights = {**profile.weights, "TaintToleration": 0}
    without = replace(profile, plugins={**profile.plugins, P.FILTER: filters}, weights=weights)
    told = replace(DEFAULTS, profiles=(without,))
    tally = Tally("test", 0.0)

    found = decided(cluster, configuration=told)
    tally.add(found)
    others = with_each_plugin(told).items()
    tally.plugins.add(found, {name: decided(cluster, configuration=item) for name, item in others})

    assert not tally.landed
    suspect = tally.report(1.0).suspects[0]
    assert (suspect.what, suspect.decisions) == ("TaintToleration", 4)
    assert "with TaintToleration, which is off in the configuration" in suspect.sentence


def test_pods_that_come_otherwise_than_those_of_their_controller_are_named_by_what_looks_at_them() -> None:
    cluster = Watched(
        a_node("big", cpu=8, labels={"pool": "a"}), a_node("spot", cpu=1, labels={"pool": "spot"})
    )
    owner = {"kind": "ReplicaSet", "name": "web", "uid": "rs", "controller": True, "apiVersion": "apps/v1"}
    cluster.create("web-0", owner=owner)
    cluster.bind("web-0", "big")
    cluster.log.take(cluster.version)
    cluster.create("web-1", owner=owner)
    cluster.bind("web-1", "big")
    cluster.create("web-2", owner=owner, nodeSelector={"pool": "spot"})
    cluster.bind("web-2", "spot")

    report = tallied(decided(cluster))

    assert report.share == 1.0
    (edit,) = report.edits
    assert (edit.what, edit.decisions, edit.explained, edit.compared) == ("NodeAffinity", 1, 1, 2)
    assert "came with other nodeSelector than pods of their controller" in edit.sentence


def full(first: str, second: str, *, seconds: float) -> Watched:
    """Two pods for two nodes with room for one each, and a label that prefers a; bound in this order."""
    prefers: dict[str, Any] = {
        "nodeAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {
                    "weight": 100,
                    "preference": {"matchExpressions": [{"key": "first", "operator": "Exists"}]},
                }
            ]
        }
    }
    cluster = Watched(a_node("a", cpu=1, labels={"first": ""}), a_node("b", cpu=1))
    for name in ("web-0", "web-1"):
        cluster.create(name, cpu="900m", affinity=prefers)
    places = {"web-0": "a", "web-1": "b"}
    cluster.bind(first, places[first], seconds=100.0)
    cluster.bind(second, places[second], seconds=seconds)
    return cluster


def test_bindings_that_were_written_in_another_order_than_decided_agree_and_are_counted_apart() -> None:
    found = decided(full("web-1", "web-0", seconds=0.1))

    assert results(found) == {"web-1": Result.REORDERED, "web-0": Result.AS_COMPUTED}
    assert 0 < found[0].chance < 1
    assert tallied(found).in_another_order == 1


def test_what_happened_long_after_explains_nothing() -> None:
    assert results(decided(full("web-1", "web-0", seconds=100.0)))["web-1"] is Result.MISSED


def test_a_pod_that_was_removed_a_moment_ago_may_not_be_known_to_be_gone() -> None:
    cluster = Watched(a_node("a", cpu=1), a_node("b", cpu=1))
    cluster.create("old", cpu="900m")
    cluster.bind("old", "a")
    cluster.create("small", cpu="500m")
    cluster.bind("small", "b")
    cluster.create("web", cpu="100m", seconds=60.0)
    cluster.delete("old", seconds=0.1)
    cluster.bind("web", "b", seconds=0.1)

    assert results(decided(cluster))["web"] is Result.REORDERED


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"schedulerName": "other"}, "its schedulerName is in no configuration that was read"),
        (
            {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]},
            "a volume of it was being bound at the same time",
        ),
    ],
)
def test_what_cannot_be_computed_is_no_agreement(fields: dict[str, Any], reason: str) -> None:
    cluster = Watched(a_node("a"))
    cluster.create("web", **fields)
    cluster.bind("web", "a")

    report = tallied(decided(cluster))

    assert (report.decisions, report.landed, report.share) == (0, 0, None)
    assert report.unpredictable == {reason: 1}


def test_a_pod_that_was_created_on_its_node_was_decided_by_nobody() -> None:
    cluster = Watched(a_node("a"))
    cluster.create("mirror", node="a")

    assert decided(cluster) == []


def test_a_decision_is_computed_on_the_nodes_as_they_were() -> None:
    cluster = Watched(a_node("a", labels={"zone": "1"}), a_node("b"))
    for number in range(2):
        cluster.create(f"web-{number}", nodeSelector={"zone": "1"})
    cluster.bind("web-0", "a", seconds=60.0)
    cluster.label("a")
    cluster.label("b", zone="1")
    cluster.bind("web-1", "b", seconds=60.0)

    assert set(results(decided(cluster)).values()) == {Result.AS_COMPUTED}


def test_decisions_about_pods_of_a_gang_count_neither_for_the_model_nor_against_it() -> None:
    cluster = Watched(a_node("a"))
    for name, gang in (("web-0", "training"), ("web-1", ""), ("web-2", "inference")):
        annotations = {"gang.scheduling.koordinator.sh/name": gang} if gang else {}
        cluster.create(name, labels={"gang": str(bool(gang))}, annotations=annotations)
        cluster.bind(name, "a", seconds=60.0)

    found = {item.pod: (item.result, item.because) for item in decided(cluster)}

    assert found["default/web-1"][0] is Result.AS_COMPUTED
    for name in ("default/web-0", "default/web-2"):
        assert found[name][0] is Result.UNPREDICTABLE
        assert found[name][1].startswith("it belongs to gang inference or another, whose pods are placed")


def test_nodes_that_change_all_the_time_leave_what_follows_uncomputed() -> None:
    cluster = Watched(a_node("a"))
    for number in range(MAX_STATES + 3):
        cluster.label("a", number=str(number))
        cluster.create(f"web-{number}")
        cluster.bind(f"web-{number}", "a")

    found = list(results(decided(cluster)).values())

    assert found.count(Result.AS_COMPUTED) == MAX_STATES
    assert found.count(Result.UNPREDICTABLE) == 3


def test_of_a_storm_some_bindings_are_computed_on_a_cluster_that_has_them_all() -> None:
    cluster = scheduled(5, 30)
    everything = decided(cluster)

    some = decided(cluster, chosen=lambda count: range(0, count, 4))

    assert [item.pod for item in some] == [item.pod for item in everything[::4]]
    assert [item.chance for item in some] == [item.chance for item in everything[::4]]


def test_bindings_of_a_storm_count_neither_for_the_model_nor_against_it() -> None:
    cluster = Watched(a_node("a"), a_node("b"))
    pods = [f"p{number}" for number in range(2 * MAX_AT_ONCE + 2)]
    for pod in pods:
        cluster.create(pod)
    for pod in pods:
        cluster.bind(pod, "a", seconds=0.01)
    cluster.create("later", seconds=60.0)
    cluster.bind("later", "b")

    *storm, later = decided(cluster)

    assert {item.result for item in storm} == {Result.UNPREDICTABLE}
    assert {item.because for item in storm} == {
        "more than 64 other pods were bound within 2 s before it, or after it: "
        "their bindings do not tell the order of the decisions"
    }
    assert later.result is Result.AS_COMPUTED


@pytest.mark.many_cases
@pytest.mark.parametrize(
    ("plugin", "weight"),
    some_of([("NodeResourcesBalancedAllocation", 6), ("PodTopologySpread", 0), ("NodeResourcesFit", 0)]),
)
def test_another_weight_is_found_within_200_decisions_and_its_plugin_named(plugin: str, weight: int) -> None:
    report = tallied(decided(scheduled(11, 150, with_weights({plugin: weight}))))

    assert report.landed < report.decisions
    assert report.suspects[0].what == plugin
    assert report.suspects[0].explained >= 0.9 * (report.decisions - report.landed)


@pytest.mark.many_cases
@pytest.mark.parametrize(
    ("plugin", "weight"), some_of([("NodeResourcesFit", 0), ("NodeResourcesBalancedAllocation", 10)])
)
def test_another_weight_is_named_where_a_sample_of_the_nodes_is_compared(plugin: str, weight: int) -> None:
    cluster = scheduled(12, 40, with_weights({plugin: weight}), nodes=130)
    found = decided(cluster, weighed=40)

    assert all(item.sampled for item in found)
    for item in found:
        present, *ranges = item.weights[plugin]
        assert weight in ranges  # with what the scheduler has it may have chosen so
        assert (present in ranges) == (item.result is Result.AS_COMPUTED)
    report = tallied(found)
    assert report.landed < report.decisions
    assert report.suspects[0].what == plugin
    assert report.suspects[0].explained == report.decisions - report.landed
    # Misses for which no other weight was tried neither name a plugin nor keep one from being named.
    later = [replace(item, weights={}) for item in found]
    assert not tallied(later).suspects
    assert tallied([*found, *later]).suspects[0].what == plugin


def test_with_the_weight_that_is_named_every_decision_that_is_compared_would_agree() -> None:
    found = decided(scheduled(11, 60, with_weights({"NodeResourcesBalancedAllocation": 6})))

    spans = [item.weights["NodeResourcesBalancedAllocation"] for item in found]
    assert all(lowest <= 6 <= highest for _, lowest, highest in spans)
    agreed = [lowest <= present <= highest for present, lowest, highest in spans]
    assert agreed == [item.result is Result.AS_COMPUTED for item in found]
    assert not np.all(agreed)
