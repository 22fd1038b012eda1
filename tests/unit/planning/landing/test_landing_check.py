"""The example of the landing check: where a pod of 20 points may land that leaves a node at 92 %."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest
from msgspec.structs import replace

from rebalancer.cluster.arrays import BoolArray, FloatArray, NodeRow, PodRow
from rebalancer.load.report import PERCENT_RESOURCES
from rebalancer.planning.landing.landing_check import (
    JUST_READY_SECONDS,
    CoolerNode,
    LandingCheck,
    excluded_destinations,
)
from rebalancer.planning.landing.purpose import Landings, Peer, Purpose
from rebalancer.planning.prepared import PreparedInputs, prepare
from rebalancer.scheduling.state.cluster_state import ClusterState
from tests.builders import a_node
from tests.rows import rows
from tests.unit.planning.builders import a_policy, a_workload, at, planning_inputs

USED = {"left": 92.0, "b": 30.0, "c": 65.0, "d": 60.0, "e": float("nan"), "f": 90.0}
PERCENT = 20.0  # of a node, that the pod uses


def prepared_cluster(
    b_ready_since: str = "", pod_percent: float = PERCENT, **planning: Any
) -> PreparedInputs:
    """A pod on a node at 92 %, hot above 80 % and cool at 65 %, and nodes as full as ``USED``."""
    made = [a_node(name, cpu=10) for name in USED]
    if b_ready_since:
        made[1]["status"]["conditions"][0]["lastTransitionTime"] = b_ready_since
    return prepare(
        planning_inputs(
            made,
            [a_workload("web", ["left"], cpu="100m")],
            load=USED,
            pod_load={"web-0": pod_percent / 10},
            policy=a_policy(planning=planning),
        )
    )


def landings(prepared: PreparedInputs) -> Landings:
    """All nodes as landings of the pod."""
    row = prepared.nodes.row["left"]
    rows = np.arange(len(prepared.nodes))
    load = prepared.inputs.load
    pod: FloatArray = np.zeros(load.usage.shape[1])
    pod[0] = load.pod_usage[0, 0]
    before = load.percent[row]
    after = prepared.landing_check.percent_after(rows, prepared.usage, load.pod_count, pod)
    return Landings(PodRow(0), NodeRow(row), rows, before, after, load.points[0])


def why_not(prepared: PreparedInputs, purpose: Purpose | None = None, **changes: Any) -> dict[str, str]:
    """Why a landing on each node is not acceptable; empty where it is, as which it is counted too."""
    found, check = replace(landings(prepared), **changes), prepared.landing_check
    purpose = purpose or prepared.cooler_node
    names = [prepared.nodes.names[row] for row in found.rows.tolist()]
    acceptable = check.acceptable(found, purpose).tolist()
    words = {name: check.why_not(found, index, purpose) for index, name in enumerate(names)}
    assert {name: not why for name, why in words.items()} == dict(zip(names, acceptable, strict=True))
    return words


def test_the_example_of_the_module_is_so() -> None:
    assert why_not(prepared_cluster()) == {
        "left": "left is the node it leaves",
        "b": "",
        "c": "c would be at 85.0 % cpu, hot above 80.0 %",
        "d": "",
        "e": "e has no fresh load figure",
        "f": "f would be at 110.0 % cpu, hot above 80.0 %",
    }


@pytest.mark.parametrize("said", [0, 5, 7])
def test_a_strategy_that_does_not_judge_each_landing_is_refused_and_accepts_none(said: int) -> None:
    class Faulty(CoolerNode, frozen=True):
        def serves(self, landings: Landings) -> BoolArray:
            return np.ones(said, np.bool_)

    class FaultyPeer(Peer):
        name: ClassVar[str] = "faulty"

        def spoils(self, landings: Landings) -> BoolArray:
            return np.zeros(said, np.bool_)

        def spoiled(self, landings: Landings, at: int) -> str:
            return "is spoiled"

    prepared = prepared_cluster()
    found, check, usual = landings(prepared), prepared.landing_check, prepared.cooler_node
    faulty = Faulty(usual.hotness, usual.min_gain, usual.spread, usual.spread_weight)
    with pytest.raises(ValueError, match=f"Faulty says something of {said} landings, and must of each of 6"):
        check.acceptable(found, faulty)
    found = replace(found, state=ClusterState.of(prepared.inputs.snapshot))
    with pytest.raises(ValueError, match=f"FaultyPeer says something of {said} landings"):
        check.beside([FaultyPeer()]).acceptable(found, usual)


def test_a_landing_counts_the_pod_that_comes() -> None:
    prepared = prepared_cluster()
    found, load = landings(prepared), prepared.inputs.load
    row, pods = prepared.nodes.row["b"], load.percent_resources.index("pods")
    assert found.after[row, 0] == pytest.approx(50.0)
    assert found.after[row, pods] == pytest.approx(100.0 / 110)  # the node had none


@pytest.mark.parametrize(("most", "acceptable"), [(80, True), (79, False)])
def test_no_node_is_filled_above_max_after(most: int, acceptable: bool) -> None:
    words = why_not(prepared_cluster(maxAfter={"cpu": most}))
    assert (words["d"] == "") is acceptable
    if not acceptable:
        assert words["d"] == "d would be at 80.0 % cpu, planning.maxAfter 79.0 %"
        assert words["b"] == ""


@pytest.mark.parametrize(("gain", "acceptable"), [(12, True), (12.5, False)])
def test_a_landing_gains_as_many_points_as_are_asked_for(gain: float, acceptable: bool) -> None:
    """From 92 % to 80 % is 12 points; just as many are enough."""
    prepared = prepared_cluster(minGain=gain)
    words = why_not(prepared)
    assert words["d"] == ("" if acceptable else "d would gain 12.0 points of cpu, minGain 12.5")
    assert words["b"] == ""


@pytest.mark.parametrize(("age", "acceptable"), [(JUST_READY_SECONDS, True), (JUST_READY_SECONDS - 1, False)])
def test_a_node_that_became_ready_just_now_is_not_counted_on(age: float, acceptable: bool) -> None:
    words = why_not(prepared_cluster(at(-age)))
    assert words["b"] == ("" if acceptable else "b became Ready only just now")


REMOVED = {"key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule"}


@rows(
    "node, why",
    [
        (a_node("b"), ""),
        (a_node("b", ready=False), "is not Ready"),
        (a_node("b", memory="0"), "has no allocatable memory"),
        (a_node("b", taints=[REMOVED]), "is about to be removed (ToBeDeletedByClusterAutoscaler)"),
    ],
)
def test_a_node_that_no_landing_may_count_on_says_why(node: dict[str, Any], why: str) -> None:
    inputs = planning_inputs([a_node("left"), node], [a_workload("web", ["left"])])
    row = inputs.snapshot.nodes.row["b"]
    assert excluded_destinations(inputs, {}).get(row, "") == why
    assert excluded_destinations(inputs, {row: "settles"})[row] == (why or "settles")


def test_a_landing_is_at_an_unknown_level_of_what_its_node_does_not_say_it_has() -> None:
    inputs = planning_inputs([a_node("left"), a_node("b", memory="0")], [a_workload("web", ["left"])])
    load = inputs.load
    pod = np.ones(load.usage.shape[1])
    rows = np.array([inputs.snapshot.nodes.row["b"]])
    after = prepare(inputs).landing_check.percent_after(rows, np.zeros_like(load.usage), load.pod_count, pod)
    unknown = np.isnan(after[0])
    names = load.percent_resources
    assert [name for name, missing in zip(names, unknown, strict=True) if missing] == ["memory"]


@rows(
    "relieves, why",
    [(True, ""), (False, "f would be at 70.0 % cpu; it is hot, and may be filled up to 65.0 % only")],
)
def test_a_hot_node_is_filled_up_to_its_cool_to_unless_the_move_relieves_another_one(
    relieves: bool, why: str
) -> None:
    prepared = prepared_cluster()
    after = landings(prepared).after.copy()
    after[prepared.nodes.row["f"], 0] = 70.0
    purpose = replace(prepared.cooler_node, relieves=relieves)
    assert why_not(prepared, purpose, after=after)["f"] == why


def settings_behind(prepared: PreparedInputs) -> dict[str, tuple[str, ...]]:
    """By node: the settings without which it would be a landing."""
    found = landings(prepared)
    return {
        name: prepared.landing_check.settings_behind(found, row, prepared.cooler_node)
        for name, row in prepared.nodes.row.items()
    }


def test_settings_are_blamed_only_where_they_alone_stand_against_a_landing() -> None:
    nothing = dict.fromkeys(USED, ())
    assert settings_behind(prepared_cluster()) == nothing
    assert settings_behind(prepared_cluster(maxAfter={"cpu": 70})) == {**nothing, "d": ("planning.maxAfter",)}
    assert settings_behind(prepared_cluster(minGain=30)) == {**nothing, "d": ("planning.minGain",)}
    both = prepared_cluster(maxAfter={"cpu": 70}, minGain=30)
    assert settings_behind(both) == {**nothing, "d": ("planning.maxAfter", "planning.minGain")}


def test_a_setting_is_blamed_for_the_least_gain_too() -> None:
    """From 92 % to 91.5 % is half a point."""
    prepared = prepared_cluster(minGain=5)
    found = landings(prepared)
    row = prepared.nodes.row["b"]
    little = replace(found, after=np.where(np.isfinite(found.after), found.before - 0.5, found.after))
    assert prepared.cooler_node.settings_behind(little, row) == ("planning.minGain",)


def test_no_setting_is_blamed_for_a_node_that_is_not_counted_on_or_where_nothing_must_cool() -> None:
    just_ready = prepared_cluster(at(-1.0), maxAfter={"cpu": 40})
    assert settings_behind(just_ready)["b"] == ()
    prepared = prepared_cluster(maxAfter={"cpu": 40})
    assert settings_behind(prepared)["b"] == ("planning.maxAfter",)
    cool = replace(landings(prepared), before=np.zeros_like(landings(prepared).before))
    assert prepared.cooler_node.settings_behind(cool, prepared.nodes.row["b"]) == ()


def test_where_no_node_is_cool_enough_none_is_acceptable() -> None:
    assert all(why_not(prepared_cluster(maxAfter={"cpu": 10})).values())


def test_what_no_rule_bounds_may_be_unknown_and_what_one_bounds_may_not() -> None:
    unknown, unbounded, known = float("nan"), float("inf"), [50.0] * len(PERCENT_RESOURCES)
    after = np.array([[*known, unknown], [*known, unknown], [*known[1:], unknown, 1.0]])
    most = np.array([[*known, unbounded], [*known, 10.0], [*known[1:], unbounded, 10.0]])
    assert LandingCheck._cool_enough(after, most).all(axis=1).tolist() == [True, False, False]


def test_more_of_one_setting_is_never_blamed_where_nothing_is_gained() -> None:
    """A node as full as the one left is no landing, whatever minGain says."""
    prepared = prepared_cluster(minGain=30)
    found = landings(prepared)
    none_gained = replace(found, before=np.full_like(found.before, 80.0))
    row = prepared.nodes.row["d"]
    assert prepared.landing_check.settings_behind(none_gained, row, prepared.cooler_node) == ()


@pytest.mark.parametrize(("percent", "asks"), [(65.0, False), (65.1, True)])
def test_a_node_must_cool_in_what_is_above_its_cool_to_and_not_at_it(percent: float, asks: bool) -> None:
    prepared = prepared_cluster()
    found = landings(prepared)
    before = found.before.copy()
    before[0] = percent
    gains = prepared.cooler_node.gains(replace(found, before=before))[prepared.nodes.row["b"]]
    assert np.isfinite(gains).any() == asks
    if asks:
        assert gains[0] == pytest.approx(percent - 50.0)  # at which b would be


class NoB(Peer):
    """A strategy that would move pods off node b again."""

    name: ClassVar[str] = "noB"

    def __init__(self, prepared: PreparedInputs) -> None:
        self._row = prepared.nodes.row["b"]

    def spoils(self, landings: Landings) -> BoolArray | None:
        return np.asarray(landings.rows == self._row, np.bool_)

    def spoiled(self, landings: Landings, at: int) -> str:
        return f"would hold a pod of {landings.pod}"


class NoWord(Peer):
    """A strategy that objects to no landing."""

    name: ClassVar[str] = "noWord"

    def spoils(self, landings: Landings) -> BoolArray | None:
        return None

    def spoiled(self, landings: Landings, at: int) -> str:
        raise AssertionError("it is asked only for what it spoils")


def test_a_landing_that_another_strategy_would_undo_is_not_acceptable_and_no_setting_is_blamed() -> None:
    prepared = prepared_cluster(minGain=30)
    check = prepared.landing_check.beside((NoWord(), NoB(prepared)))
    purpose, row = prepared.cooler_node, prepared.nodes.row
    found = replace(landings(prepared), state=prepared.state)
    assert check.why_not(found, row["b"], purpose) == "b would hold a pod of 0, so noB would move pods again"
    assert not check.acceptable(found, purpose).any()
    assert check.settings_behind(found, row["b"], purpose) == ()
    assert check.settings_behind(found, row["d"], purpose) == ("planning.minGain",)
    estimated = replace(found, state=None)  # in estimates nobody else is asked
    assert np.flatnonzero(check.acceptable(estimated, purpose)).tolist() == [row["b"]]
    assert check.why_not(estimated, row["b"], purpose) == ""


def test_a_landing_that_no_strategy_would_undo_is_acceptable_beside_one_that_is_not() -> None:
    prepared = prepared_cluster()
    check = prepared.landing_check.beside((NoWord(), NoB(prepared)))
    found = replace(landings(prepared), state=prepared.state)
    acceptable = check.acceptable(found, prepared.cooler_node)
    assert np.flatnonzero(acceptable).tolist() == [prepared.nodes.row["d"]]


def two_replicas(**planning: Any) -> tuple[PreparedInputs, Landings]:
    """A pod of a node at 92 % whose other replica is on b, and b at 50 % as its landing."""
    nodes = [a_node(name, cpu=10) for name in ("left", "b")]
    inputs = planning_inputs(
        nodes,
        [a_workload("web", ["left", "b"], cpu="100m")],
        load={"left": 92.0, "b": 50.0},
        pod_load={"web-0": 2.0},
        policy=a_policy(planning=planning),
    )
    prepared = prepare(inputs)
    left, b = (NodeRow(prepared.nodes.row[name]) for name in ("left", "b"))
    after = inputs.load.percent[[b]].copy()
    after[0, 0] = 70.0
    before, points = inputs.load.percent[left], inputs.load.points[0]
    found = Landings(PodRow(0), left, np.array([b]), before, after, points, prepared.state)
    return prepared, found


@rows(
    "gain, spread, words, behind",
    [
        (10, 1.0, "", ()),
        (11, 1.0, "", ()),  # 22 points are just as many as minGain asks for twice
        (
            12,
            1.0,
            "b would gain 22.0 points of cpu; since replicas would lose their spread, minGain 12 and "
            "weights.spread 1 ask for 24.0",
            ("planning.weights.spread",),
        ),
        (12, 0.0, "", ()),
        (22, 0.0, "", ()),
        (
            22,
            1.0,
            "b would gain 22.0 points of cpu; since replicas would lose their spread, minGain 22 and "
            "weights.spread 1 ask for 44.0",
            ("planning.weights.spread",),
        ),
        (23, 1.0, "b would gain 22.0 points of cpu, minGain 23", ("planning.minGain",)),
    ],
)
def test_a_landing_that_costs_spread_gains_more(
    gain: float, spread: float, words: str, behind: tuple[str, ...]
) -> None:
    prepared, found = two_replicas(minGain=gain, weights={"spread": spread})
    check, purpose = prepared.landing_check, prepared.cooler_node
    assert check.why_not(found, 0, purpose) == words
    assert check.acceptable(found, purpose).tolist() == [not words]
    assert check.settings_behind(found, 0, purpose) == behind


def test_an_estimate_knows_of_no_replicas() -> None:
    prepared, found = two_replicas(minGain=12, weights={"spread": 1.0})
    estimated = replace(found, state=None)
    assert prepared.landing_check.acceptable(estimated, prepared.cooler_node).tolist() == [True]


@rows(
    "cpu, memory, asked",
    [(92.0, 70.0, "cpu"), (60.0, 70.0, "memory"), (92.0, 50.0, "cpu"), (60.0, 50.0, "")],
)
def test_points_are_asked_for_where_the_node_is_hot_and_then_where_it_is_not_cool(
    cpu: float, memory: float, asked: str
) -> None:
    """The node is hot by its cpu; its memory is above coolTo at 70 %, and not hot."""
    rules = [
        {"utilization": {"cpu": 80}, "coolTo": {"cpu": 65}},
        {"utilization": {"memory": 80}, "coolTo": {"memory": 60}},
    ]
    inputs = planning_inputs(
        [a_node("b", cpu=10), a_node("left", cpu=10)],
        [a_workload("web", ["left"], cpu="100m")],
        load={"b": (30.0, 30.0), "left": (92.0, 70.0)},
        policy=a_policy(hotNodes={"forRuns": 1, "any": rules}),
    )
    prepared = prepare(inputs)
    before = inputs.load.percent[1].copy()
    before[:2] = cpu, memory
    rows = np.array([0])
    points = inputs.load.points[0]
    found = Landings(PodRow(0), NodeRow(1), rows, before, inputs.load.percent[rows], points)
    gains = dict(zip(inputs.load.percent_resources, prepared.cooler_node.gains(found)[0], strict=True))
    assert [name for name, points in gains.items() if np.isfinite(points)] == ([asked] if asked else [])


def test_what_leaves_a_node_later_fills_it_for_a_while() -> None:
    prepared = prepared_cluster()
    inputs, row = prepared.inputs, prepared.nodes.row["d"]
    lingering = np.zeros_like(inputs.load.usage)
    lingering[row, 0] = 500.0  # 5 % of the node
    check = LandingCheck(inputs, prepared.hotness, prepared.landing_check.spread, {}, {}, lingering)
    pod = np.zeros(inputs.load.usage.shape[1])
    after = check.percent_after(np.array([row]), inputs.load.usage, inputs.load.pod_count, pod)
    assert after[0, 0] == pytest.approx(65.0)


def why_not_of_swap(source: str, before: float, hot_node_after: float, max_after: int) -> dict[str, str]:
    """By node: why a pod may not land there that makes room for another; both take 5 points of a node."""
    prepared = prepared_cluster(pod_percent=5.0, maxAfter={"cpu": max_after})
    found = landings(prepared)
    hot_node = found.source
    purpose = prepared.cooler_node.makes_room(prepared.inputs.load, found.pod, hot_node, found.before)
    after = found.after.copy()
    after[hot_node, 0] = hot_node_after
    percent = found.before.copy()
    percent[0] = before
    source_row = NodeRow(prepared.nodes.row[source])
    return why_not(prepared, purpose, source=source_row, before=percent, after=after)


@rows(
    "hot_node_after, max_after, why",
    [
        (96.9, 100, ""),
        (97.1, 100, "left would be at 97.1 % cpu, hot above 97.0 %"),
        (96.9, 95, "left would be at 96.9 % cpu, planning.maxAfter 95.0 %"),
    ],
)
def test_a_pod_that_makes_room_fills_the_hot_node_by_no_more_than_leaves_it_and_no_other_hot_node(
    hot_node_after: float, max_after: int, why: str
) -> None:
    """It leaves a node that is not hot, so it need not gain anything."""
    words = why_not_of_swap("d", 70.0, hot_node_after, max_after)
    assert words["left"] == why
    assert words["c"] == ""
    assert words["f"].startswith("f would be at 95.0 % cpu, hot above 80.0 %")


def test_a_pod_that_makes_room_and_leaves_a_hot_node_must_relieve_that_one_too() -> None:
    words = why_not_of_swap("f", 90.0, 96.9, max_after=100)
    assert words["left"] == "left would be at 96.9 % cpu, above the 90.0 % of the node that it leaves"
    assert words["b"] == ""


class NewPod(Purpose):
    """A purpose for which a new pod on the same node is as good, unless it objects."""

    own_node = True

    def __init__(self, objects: str = "") -> None:
        self._objects = objects

    def serves(self, landings: Landings) -> BoolArray:
        return np.full(len(landings.rows), not self._objects)

    def objection(self, landings: Landings, at: int) -> str:
        return self._objects

    def gains(self, landings: Landings) -> None:
        return None

    def settings_behind(self, landings: Landings, at: int) -> tuple[str, ...] | None:
        return ()


@pytest.mark.parametrize("objects", ["", "is as old"])
def test_the_node_that_is_left_is_a_landing_where_the_purpose_says_so(objects: str) -> None:
    prepared = prepared_cluster()
    found, check, purpose = landings(prepared), prepared.landing_check, NewPod(objects)
    row = prepared.nodes.row["left"]
    assert check.why_not(found, row, purpose) == (f"left {objects}" if objects else "")
    assert bool(check.acceptable(found, purpose)[row]) is not bool(objects)
    assert check.why_not(found, prepared.nodes.row["c"], purpose).startswith("c would be at 85.0 % cpu")


RULES = [
    {"utilization": {"cpu": 80}, "coolTo": {"cpu": 65}},
    {"utilization": {"memory": 85}, "coolTo": {"memory": 83}},
]


def of_two_rules(left: tuple[float, float], cool: tuple[float, float], uses: tuple[float, float]) -> str:
    """Why a pod stays that uses so many percent of cpu and memory; cool may be filled up to 99 % of both."""
    pool = {
        "name": "large",
        "nodeSelector": {"matchLabels": {"pool": "large"}},
        "any": [{"utilization": {"cpu": 99, "memory": 99}}],
    }
    rules = {"forRuns": 1, "any": RULES, "pools": [pool]}
    inputs = planning_inputs(
        [a_node("left"), a_node("cool", labels={"pool": "large"})],
        [a_workload("web", ["left"], cpu="100m")],
        load={"left": left, "cool": cool},
        policy=a_policy(hotNodes=rules, planning={"maxAfter": {"cpu": 100, "memory": 100}}),
    )
    prepared = prepare(inputs)
    source = NodeRow(inputs.snapshot.nodes.row["left"])
    row = inputs.snapshot.nodes.row["cool"]
    points = np.array([*uses, 1.0])
    after = inputs.load.percent[[row]] + np.nan_to_num(points)
    found = Landings(PodRow(0), source, np.array([row]), inputs.load.percent[source], after, points)
    purpose = prepared.cooler_node
    why = prepared.landing_check.why_not(found, 0, purpose)
    assert prepared.landing_check.acceptable(found, purpose).tolist() == [not why]
    return why


UNKNOWN = float("nan")
FULLER = "cool would be at 91.0 % memory, above the 90.0 % of the node that it leaves"
FEW = "of the 3.0 that its node is above coolTo"
NOTHING = "cool would take over nothing of the cpu and memory in which its node must cool"


@rows(
    "left, cool, uses, why",
    [
        # The example of CoolerNode.
        ((92, 90), (40, 83), (20, 1), ""),
        ((92, 90), (40, 88), (20, 1), ""),
        # As full as the node left is not fuller.
        ((92, 90), (40, 89), (20, 1), ""),
        ((92, 90), (40, 90), (20, 1), FULLER),
        # What the pod brings none of it makes no worse.
        ((92, 90), (40, 95), (20, 0), ""),
        # What is cooled already may be fuller elsewhere.
        ((92, 74), (40, 80), (20, 1), ""),
        # Little is gained in both, or in the one that the pod takes some of.
        ((92, 90), (70, 87), (20, 1), "cool would gain 2.0 points of cpu, minGain 5"),
        ((92, 90), (89, 40), (1, 0), "cool would gain 2.0 points of cpu, minGain 5"),
        # It is the one named of which the fewest points are lacking: 2 of 3, and not 3 of 5.
        ((92, 86), (70, 84), (20, 1), f"cool would gain 1.0 points of memory, {FEW}"),
        ((92, 90), (40, 40), (0, 0), NOTHING),
        # Fewer points than minGain are left above coolTo.
        ((60, 86), (40, 82), (0, 1), ""),
        ((60, 86), (40, 83), (0, 1), f"cool would gain 2.0 points of memory, {FEW}"),
        # An unknown share blocks no relief of a known one, and is none itself.
        ((92, 90), (40, 83), (20, UNKNOWN), ""),
        ((92, 90), (40, 83), (UNKNOWN, 1), ""),
        ((92, 90), (40, 40), (UNKNOWN, UNKNOWN), NOTHING),
        ((92, 90), (40, 91), (20, UNKNOWN), FULLER),
    ],
)  # fmt: skip
def test_a_landing_gains_in_one_resource_and_is_worse_in_none(
    left: tuple[float, float], cool: tuple[float, float], uses: tuple[float, float], why: str
) -> None:
    assert of_two_rules(left, cool, uses) == why
