"""Promise 2: no eviction without a better landing, in every state the cluster may be in."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rebalancer.cluster import times
from rebalancer.load.load_watcher.document import AVERAGE, CPU, Metric, WatcherMetrics
from rebalancer.load.view import SchedulerView
from rebalancer.planning import Plan, PlanningInputs, SchedulerStart, prepare
from rebalancer.planning.planner import search
from rebalancer.planning.search import hot_node_relief
from rebalancer.profiles import SchedulerConfiguration
from rebalancer.scheduling import load_configuration
from rebalancer.state import RunState
from tests.builders import a_node, a_pod
from tests.unit.planning.builders import (
    NOW,
    a_past_move,
    a_policy,
    a_workload,
    at,
    because,
    kept,
    moved,
    plan_of,
    planning_inputs,
)

UNKNOWN = float("nan")
SPREADING = load_configuration(
    """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins:
    multiPoint: {disabled: [{name: "*"}], enabled: [{name: PrioritySort}, {name: DefaultBinder}]}
    preFilter: {enabled: [{name: NodeResourcesFit}]}
    filter: {enabled: [{name: NodeUnschedulable}, {name: NodeAffinity}, {name: NodeResourcesFit}]}
    score: {enabled: [{name: NodeResourcesFit}]}
""",
    "test",
)
PACKING = load_configuration(
    """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins:
    multiPoint: {disabled: [{name: "*"}], enabled: [{name: PrioritySort}, {name: DefaultBinder}]}
    preFilter: {enabled: [{name: NodeResourcesFit}]}
    filter: {enabled: [{name: NodeResourcesFit}]}
    score: {enabled: [{name: NodeResourcesFit}]}
  pluginConfig:
  - name: NodeResourcesFit
    args:
      scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}
""",
    "test",
)


def hot_pod(**changes: Any) -> Any:
    """One pod that makes a node of four cores hot, and may go."""
    return a_workload("web", ["hot"], **{"cpu": "3500m", **changes})


def with_cool(cool: dict[str, Any], **inputs: Any) -> Any:
    return plan_of(planning_inputs([a_node("hot"), cool], [hot_pod()], **inputs))


def only(reason: str, words: str, plan: Any) -> None:
    assert moved(plan) == {}
    assert kept(plan)["web-0"] == reason
    assert words in because(plan, "web-0")


def just_ready(seconds: float) -> dict[str, Any]:
    node = a_node("cool", cpu=8)
    node["status"]["conditions"][0]["lastTransitionTime"] = at(-seconds)
    return node


def being_deleted() -> dict[str, Any]:
    node = a_node("cool", cpu=8)
    node["metadata"]["deletionTimestamp"] = at(-1)
    return node


def tainted(key: str) -> dict[str, Any]:
    return a_node("cool", cpu=8, taints=[{"key": key, "value": "x", "effect": "PreferNoSchedule"}])


def test_a_pod_moves_to_a_node_that_stays_cool() -> None:
    plan = with_cool(a_node("cool", cpu=8))
    assert moved(plan) == {"web-0": "cool"}
    assert plan.moves[0].gain == {"cpu": 43.75}


def test_the_node_left_is_no_landing() -> None:
    nodes = [a_node("hot", cpu=10), a_node("small", cpu=1)]
    plan = plan_of(planning_inputs(nodes, [hot_pod()], load={"hot": 90}))
    only("NoBetterLanding", "hot is the node it leaves", plan)


@pytest.mark.parametrize(
    ("cool", "words"),
    [
        (a_node("cool", cpu=8, ready=False), "cool is not Ready"),
        (just_ready(119), "cool became Ready only just now"),
        (being_deleted(), "cool is being deleted"),
        (tainted("ToBeDeletedByClusterAutoscaler"), "cool is about to be removed"),
        (tainted("DeletionCandidateOfClusterAutoscaler"), "cool is about to be removed"),
        (tainted("karpenter.sh/disrupted"), "cool is about to be removed"),
        (a_node("cool"), "cool would be at 87.5 % cpu, hot above 80.0 %"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_no_pod_is_sent_to_a_node_to_avoid(cool: dict[str, Any], words: str) -> None:
    only("NoBetterLanding", words, with_cool(cool))


def test_a_node_ready_for_long_enough_is_a_landing() -> None:
    assert moved(with_cool(just_ready(121))) == {"web-0": "cool"}


def test_a_node_without_figures_is_never_a_landing() -> None:
    only(
        "NoBetterLanding",
        "cool has no fresh load figure",
        with_cool(a_node("cool", cpu=8), load={"cool": UNKNOWN}),
    )


def test_a_node_holding_a_pod_that_could_not_be_read_is_never_a_landing() -> None:
    unread = a_pod("odd", node="cool", cpu="-1")
    plan = with_cool(a_node("cool", cpu=8), pods=[unread])
    only("NoBetterLanding", "cool runs a pod that could not be read", plan)


def test_a_settling_node_is_never_a_landing() -> None:
    past = a_past_move(to_node="cool", workload="ReplicaSet/x", controller_uid="x", result="Unknown", load={})
    plan = with_cool(a_node("cool", cpu=8), state=RunState(moves=(past,)), window=900.0)
    only("NoBetterLanding", "whose load is unknown", plan)


def test_the_load_of_past_moves_counts_where_figures_do_not_show_it_yet() -> None:
    past = a_past_move(
        to_node="cool",
        workload="ReplicaSet/x",
        controller_uid="x",
        load={"cpu": 4000.0, "memory": 0.0},
        landed_at=NOW - 10,
    )
    state = RunState(moves=(past,))
    assert moved(with_cool(a_node("cool", cpu=8), load={"cool": 10})) == {"web-0": "cool"}
    only(
        "NoBetterLanding",
        "cool would be at",
        with_cool(a_node("cool", cpu=8), load={"cool": 10}, state=state, window=900.0),
    )


@pytest.mark.parametrize(("load", "moves"), [(38.7, True), (38.8, False)])
def test_a_move_must_gain_min_gain_points(load: float, moves: bool) -> None:
    nodes = [a_node("hot", cpu=10), a_node("cool", cpu=10)]
    pods = [a_workload("web", ["hot"], cpu="3760m"), a_workload("rest", ["hot"], kind="DaemonSet", cpu="5")]
    policy = a_policy(
        hotNodes={"any": [{"utilization": {"cpu": 80}, "coolTo": {"cpu": 50}}]}, planning={"minGain": 5}
    )
    plan = plan_of(planning_inputs(nodes, pods, policy=policy, load={"hot": 81.34, "cool": load}))
    assert bool(moved(plan)) is moves


def test_a_move_must_gain_in_every_resource_its_node_is_hot_in() -> None:
    policy = a_policy(hotNodes={"any": [{"utilization": {"cpu": 80, "memory": 80}}]})
    nodes = [a_node("hot"), a_node("cool", cpu=40, memory="8Gi")]
    pods = [a_workload("web", ["hot"], cpu="1", memory="1Gi")]
    load = {"hot": (90.0, 83.0), "cool": (1.0, 66.0)}
    plan = plan_of(planning_inputs(nodes, pods, policy=policy, load=load))
    only("NoBetterLanding", "points of memory", plan)


def test_what_earlier_moves_have_cooled_need_not_gain_again() -> None:
    policy = a_policy(hotNodes={"any": [{"utilization": {"cpu": 80, "memory": 80}}]})
    nodes = [a_node("hot", cpu=10, memory="10Gi"), a_node("cool", cpu=10, memory="100Gi")]
    pods = [
        a_workload("cpu", ["hot"], cpu="3500m", memory="1Mi"),
        a_workload("memory", ["hot"], cpu="0", memory="5Gi"),
        a_workload("rest", ["hot"], kind="DaemonSet", cpu="5", memory="4Gi"),
        a_workload("other", ["cool"], kind="DaemonSet", cpu="1450m", memory="1Gi"),
    ]
    plan = plan_of(planning_inputs(nodes, pods, policy=policy))
    assert moved(plan) == {"cpu-0": "cool", "memory-0": "cool"}
    assert [set(move.gain) for move in plan.moves] == [{"cpu", "memory"}, {"cpu"}]


def test_every_tied_node_must_be_acceptable() -> None:
    nodes = [a_node("hot"), a_node("a", cpu=8), a_node("b", cpu=8)]
    plan = plan_of(planning_inputs(nodes, [hot_pod()], configuration=SPREADING))
    assert moved(plan) == {"web-0": "a,b"}
    plan = plan_of(planning_inputs(nodes, [hot_pod()], configuration=SPREADING, load={"b": 60}))
    only("NoBetterLanding", "may land (50%) where it must not: b would be at", plan)


def test_chances_of_a_tie_are_equal_and_sum_to_one() -> None:
    nodes = [a_node("hot"), *(a_node(name, cpu=8) for name in "abc")]
    plan = plan_of(planning_inputs(nodes, [hot_pod()], configuration=SPREADING))
    assert [landing.probability for landing in plan.moves[0].landings] == pytest.approx([1 / 3] * 3, abs=1e-6)


def test_a_scheduler_that_packs_says_where_it_would_put_the_pod() -> None:
    nodes = [a_node("hot", cpu=10), a_node("full", cpu=10), a_node("empty", cpu=10)]
    pods = [
        a_workload("web", ["hot"] * 3, cpu="3"),
        a_workload("other", ["full"], kind="DaemonSet", cpu="6"),
    ]
    plan = plan_of(planning_inputs(nodes, pods, configuration=PACKING))
    only("NoBetterLanding", "full would be at 90.0 % cpu", plan)


def test_a_scheduler_that_packs_is_used_where_its_landing_is_acceptable() -> None:
    nodes = [a_node("hot", cpu=10), a_node("half", cpu=10), a_node("empty", cpu=10)]
    pods = [
        a_workload("web", ["hot"] * 3, cpu="2"),
        a_workload("other", ["half"], kind="DaemonSet", cpu="6500m"),
    ]
    used = {f"web-{number}": 3.0 for number in range(3)} | {"other-0": 1.0}
    plan = plan_of(planning_inputs(nodes, pods, configuration=PACKING, pod_load=used))
    assert moved(plan) == {"web-0": "half"}


def test_a_replacement_that_fits_nowhere_is_not_evicted() -> None:
    nodes = [a_node("hot"), a_node("cool", cpu=40, unschedulable=True)]
    only("NoLanding", "no node is feasible", plan_of(planning_inputs(nodes, [hot_pod()])))


def test_what_the_scheduler_cannot_score_is_not_evicted() -> None:
    pod = hot_pod(spec={"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "missing"}}]})
    plan = plan_of(planning_inputs([a_node("hot"), a_node("cool", cpu=8)], [pod]))
    assert kept(plan) == {"web-0": "NoLanding"}


def test_a_pod_goes_to_a_node_that_was_hot_only_once_it_has_cooled() -> None:
    """a is cooled first; then b's pod, which only a can take, lands there, a wave later."""
    nodes = [a_node("a", cpu=10), a_node("b"), a_node("c", cpu=20, labels={"disk": "c"})]
    on_c = {"nodeSelector": {"disk": "c"}}
    pods = [
        a_workload("first", ["a"], cpu="9", spec=on_c),
        a_workload("web", ["b"], cpu="3500m", spec={"nodeSelector": {"pool": "x"}}),
    ]
    for node in nodes[:2]:
        node["metadata"]["labels"]["pool"] = "x"
    plan = plan_of(planning_inputs(nodes, pods))
    assert moved(plan) == {"first-0": "c", "web-0": "a"}
    assert [move.wave for move in plan.moves] == [1, 2]


def test_a_node_that_was_hot_takes_no_pod_beyond_its_cool_level() -> None:
    nodes = [a_node("a", cpu=10), a_node("b"), a_node("c", cpu=20, labels={"disk": "c"})]
    pods = [
        a_workload("first", ["a"], cpu="5", spec={"nodeSelector": {"disk": "c"}}),
        a_workload("rest", ["a"], kind="DaemonSet", cpu="100m"),
        a_workload("web", ["b"], cpu="3500m", spec={"nodeSelector": {"pool": "x"}}),
    ]
    for node in nodes[:2]:
        node["metadata"]["labels"]["pool"] = "x"
    plan = plan_of(planning_inputs(nodes, pods, pod_load={"rest-0": 3.2}))
    assert moved(plan) == {"first-0": "c"}
    assert "is hot and cool at 65.0 %" in because(plan, "web-0")


def test_what_could_not_move_is_tried_again_once_others_have_left_room() -> None:
    """hotter's pod fits only where the pod of hot is; hot is cooled after hotter was tried."""
    nodes = [a_node("hotter"), a_node("hot", cpu=10), a_node("c", cpu=20, labels={"disk": "c"})]
    pods = [
        a_workload("first", ["hot"], cpu="8100m", spec={"nodeSelector": {"disk": "c"}}),
        a_workload("web", ["hotter"], cpu="3900m", spec={"nodeSelector": {"pool": "x"}}),
    ]
    for node in nodes[:2]:
        node["metadata"]["labels"]["pool"] = "x"
    plan = plan_of(planning_inputs(nodes, pods))
    assert moved(plan) == {"first-0": "c", "web-0": "hot"}
    assert kept(plan) == {}


def test_a_landing_that_needs_evicted_pods_to_be_gone_waits_for_the_next_wave() -> None:
    nodes = [a_node("a", labels={"pool": "x"}), a_node("b", labels={"pool": "x"}, cpu=9), a_node("c", cpu=16)]
    pods = [
        a_workload("big", ["b"], cpu="8", spec={"nodeSelector": {"kubernetes.io/hostname": "c"}}),
        a_workload("web", ["a"], cpu="3500m", spec={"nodeSelector": {"pool": "x"}}),
    ]
    plan = plan_of(planning_inputs(nodes, pods))
    assert [(move.pod.name, move.wave) for move in plan.moves] == [("big-0", 1), ("web-0", 2)]


def test_load_that_is_still_where_it_was_makes_a_landing_wait_for_the_next_wave() -> None:
    """By requests there is room for web on a at once; by load only when first is gone."""
    pool = {"pool": "x"}
    nodes = [
        a_node("a", cpu=10, labels=pool),
        a_node("b", labels=pool),
        a_node("c", cpu=20, labels={"disk": "c"}),
    ]
    pods = [
        a_workload("first", ["a"], cpu="100m", spec={"nodeSelector": {"disk": "c"}}),
        a_workload("web", ["b"], cpu="100m", spec={"nodeSelector": pool}),
    ]
    plan = plan_of(planning_inputs(nodes, pods, pod_load={"first-0": 9.0, "web-0": 3.5}))
    assert moved(plan) == {"first-0": "c", "web-0": "a"}
    assert [move.wave for move in plan.moves] == [1, 2]


def test_a_landing_beside_which_an_evicted_pod_still_ends_waits_for_the_next_wave() -> None:
    """web must not share a zone with first, which leaves zone one in the same run."""
    first_stays_away = {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"labelSelector": {"matchLabels": {"app": "first"}}, "topologyKey": "zone"}
            ]
        }
    }
    nodes = [
        a_node("a", labels={"zone": "one"}),
        a_node("b", labels={"zone": "three"}),
        a_node("c", cpu=8, labels={"zone": "one"}),
        a_node("d", cpu=8, labels={"zone": "two"}),
    ]
    pods = [
        a_workload("first", ["a"], cpu="3900m", spec={"nodeSelector": {"zone": "two"}}),
        a_workload(
            "web", ["b"], cpu="3500m", spec={"nodeSelector": {"zone": "one"}, "affinity": first_stays_away}
        ),
    ]
    plan = plan_of(planning_inputs(nodes, pods))
    assert moved(plan) == {"first-0": "d", "web-0": "c"}
    assert [move.wave for move in plan.moves] == [1, 2]


PACKED = load_configuration(
    """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins: {score: {enabled: [{name: TargetLoadPacking, weight: 9}]}}
  pluginConfig: [{name: TargetLoadPacking, args: {watcherAddress: "http://w"}}]
""",
    "test",
)


def packed(
    start: SchedulerStart | None, configuration: SchedulerConfiguration = PACKED, *, window_end: float = NOW
) -> Plan:
    """One pod to move, by a scheduler that started then."""
    percent = {"hot": 95.0, "a": 30.0, "b": 20.0}
    figures = {name: (Metric(CPU, AVERAGE, value),) for name, value in percent.items()}
    inputs = planning_inputs(
        [a_node("hot"), a_node("a", cpu=10), a_node("b", cpu=10)],
        [a_workload("web", ["hot"], cpu="200m"), a_workload("old", ["a"], cpu="1200m")],
        configuration=configuration,
        view=SchedulerView({"http://w": WatcherMetrics(figures, NOW, NOW - 900, window_end, "test")}),
        load=percent,
        pod_load={"web-0": 1.2},
    )
    return plan_of(replace(inputs, scheduler_start=start))


@pytest.mark.parametrize("seconds", [0, 35, 94])
def test_pods_wait_while_their_scheduler_takes_every_pod_to_be_just_bound(seconds: int) -> None:
    plan = packed(SchedulerStart(NOW - seconds, "it acquired its lease then"))
    assert moved(plan) == {}
    until = times.render(NOW + 95 - seconds)
    assert f"TargetLoadPacking counts every running pod as just bound until about {until}" in because(
        plan, "web-0"
    )


def test_a_minute_and_a_half_after_its_start_a_scheduler_is_as_any_other() -> None:
    assert moved(packed(SchedulerStart(NOW - 96, "then"))) == moved(packed(None)) == {"web-0": "a"}


def test_what_counts_after_a_start_is_the_window_of_the_figures() -> None:
    assert moved(packed(SchedulerStart(NOW - 96, "then"), window_end=NOW - 10)) == {}


def test_a_start_that_is_not_known_holds_pods_back_and_names_the_setting() -> None:
    plan = packed(SchedulerStart(None, "list leases is forbidden"))
    assert moved(plan) == {}
    assert "list leases is forbidden (scheduler.lease of the policy" in because(plan, "web-0")


def test_a_start_matters_only_to_plugins_that_count_recent_pods() -> None:
    others = load_configuration(PACKED.text.replace("TargetLoadPacking", "LowRiskOverCommitment"), "test")
    assert moved(packed(SchedulerStart(NOW, "then"), others)) == moved(packed(None, others)) != {}


@pytest.mark.parametrize(("seconds", "landings"), [(30, {"b"}), (75, {"a", "b"}), (200, {"a"})])
def test_a_pod_bound_a_minute_ago_is_in_the_figures_of_the_scheduler_or_not(
    seconds: int, landings: set[str]
) -> None:
    """It asks for new figures twice a minute: which ones it knows nobody can tell."""
    percent = {"hot": 95.0, "a": 30.0, "b": 20.0}
    figures = {name: (Metric(CPU, AVERAGE, value),) for name, value in percent.items()}
    plan = plan_of(
        planning_inputs(
            [a_node("hot"), a_node("a", cpu=10), a_node("b", cpu=10)],
            [
                a_workload("web", ["hot"], cpu="200m"),
                a_workload("new", ["a"], cpu="1200m", created=at(-seconds)),
            ],
            configuration=PACKED,
            view=SchedulerView({"http://w": WatcherMetrics(figures, NOW, NOW - 900, NOW, "test")}),
            load=percent,
            pod_load={"web-0": 1.2},
        )
    )
    assert [{landing.node for landing in move.landings} for move in plan.moves] == [landings]


ANTI_AFFINE = {
    "affinity": {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "zone"}
            ]
        }
    }
}


def zoned() -> list[dict[str, Any]]:
    return [a_node("hot", labels={"zone": "one"}), a_node("cool", cpu=8, labels={"zone": "one"})]


def test_a_replica_made_at_once_meets_the_evicted_pod_still_terminating() -> None:
    plan = plan_of(planning_inputs(zoned(), [hot_pod(spec=ANTI_AFFINE)]))
    assert kept(plan) == {"web-0": "NoLanding"}


def test_a_stateful_pod_is_made_again_only_after_it_is_gone() -> None:
    plan = plan_of(planning_inputs(zoned(), [hot_pod(kind="StatefulSet", spec=ANTI_AFFINE)]))
    assert moved(plan) == {"web-0": "cool"}


def lingering() -> PlanningInputs:
    """Of web and first on hot, web is drawn back to where it still is, if there is room."""
    beside_itself = {
        "podAffinityTerm": {
            "labelSelector": {"matchLabels": {"app": "web"}},
            "topologyKey": "kubernetes.io/hostname",
        },
        "weight": 100,
    }
    affinity = {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [beside_itself]}}
    pods = [
        a_workload("agent", ["hot"], kind="DaemonSet", cpu="1600m"),
        a_workload("first", ["hot"]),
        a_workload("web", ["hot"], spec={"affinity": affinity}),
    ]
    nodes = [a_node("hot"), a_node("cool", cpu=8)]
    policy = a_policy(execution={"firstWave": 5, "waveSize": 5})
    return planning_inputs(nodes, pods, load={"hot": 98}, policy=policy)


def test_a_pod_may_linger_where_those_before_it_are_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """With both there is no room on hot, with none nothing draws it back, with web alone hot does.

    In one order only: in the other one, both can be moved.
    """
    monkeypatch.setattr(hot_node_relief, "_ALTERNATIVE_CELLS", 0)
    plan = plan_of(lingering())
    assert moved(plan) == {"first-0": "cool"}
    assert "hot is the node it leaves" in because(plan, "web-0")


def test_the_order_in_which_both_can_be_moved_is_found() -> None:
    """The same cluster: web first, while first still takes its room on hot."""
    plan = plan_of(lingering())
    assert moved(plan) == {"web-0": "cool", "first-0": "cool"}
    assert [move.pod.name for move in plan.moves] == ["web-0", "first-0"]


def test_pending_pods_take_their_room_first() -> None:
    nodes = [a_node("hot"), a_node("cool", cpu=8)]
    waiting = a_workload("early", [""], cpu="5")
    plan = plan_of(planning_inputs(nodes, [hot_pod(), waiting]))
    assert kept(plan) == {"web-0": "NoLanding"}


def test_a_pending_pod_that_would_take_the_room_keeps_the_pod() -> None:
    nodes = [a_node("hot"), a_node("cool", cpu=8)]
    plan = plan_of(
        planning_inputs(
            nodes,
            [
                hot_pod(),
                a_workload("huge", [""], cpu="4", spec={"nodeSelector": {"kubernetes.io/hostname": "hot"}}),
            ],
        )
    )
    only("RoomTaken", "a Pending pod of default/huge would fit where it leaves", plan)
    assert "1 Pending pods fit nowhere and will retry when room is freed" in plan.warnings


def test_a_pending_pod_that_fits_nowhere_even_then_keeps_nothing() -> None:
    nodes = [a_node("hot"), a_node("cool", cpu=8)]
    plan = plan_of(planning_inputs(nodes, [hot_pod(), a_workload("huge", [""], cpu="100")]))
    assert moved(plan) == {"web-0": "cool"}


def test_a_crowd_is_not_sent_to_the_one_cool_node() -> None:
    nodes = [*(a_node(f"hot-{number}") for number in range(4)), a_node("cool", cpu=8)]
    pods = [a_workload("web", [f"hot-{number}" for number in range(4)], cpu="3500m")]
    plan = plan_of(planning_inputs(nodes, pods))
    assert list(moved(plan).values()) == ["cool"]
    assert not next(node for node in plan.nodes if node.name == "cool").after.hot  # type: ignore[union-attr]


def test_the_closest_single_pod_that_is_enough_goes() -> None:
    nodes = [a_node("hot", cpu=10), a_node("cool", cpu=40)]
    pods = [
        a_workload("small", ["hot"], cpu="1"),
        a_workload("enough", ["hot"], cpu="2700m"),
        a_workload("large", ["hot"], cpu="5300m"),
    ]
    assert moved(plan_of(planning_inputs(nodes, pods))) == {"enough-0": "cool"}


def test_pods_that_relieve_different_resources_are_taken_largest_first() -> None:
    policy = a_policy(hotNodes={"any": [{"utilization": {"cpu": 80, "memory": 80}}]})
    nodes = [a_node("hot", cpu=10, memory="10Gi"), a_node("cool", cpu=40, memory="40Gi")]
    pods = [
        a_workload("a-little", ["hot"], cpu="500m", memory="0"),
        a_workload("cpu", ["hot"], cpu="2500m", memory="0"),
        a_workload("memory", ["hot"], cpu="0", memory="3Gi"),
        a_workload("rest", ["hot"], kind="DaemonSet", cpu="6", memory="6Gi"),
    ]
    assert set(moved(plan_of(planning_inputs(nodes, pods, policy=policy)))) == {"cpu-0", "memory-0"}


def test_a_node_that_cannot_cool_is_relieved_as_far_as_it_goes() -> None:
    nodes = [a_node("hot", cpu=10), a_node("cool", cpu=40)]
    pods = [
        a_workload("rest", ["hot"], kind="DaemonSet", cpu="8500m"),
        a_workload("web", ["hot"], cpu="1"),
    ]
    plan = plan_of(planning_inputs(nodes, pods))
    assert moved(plan) == {"web-0": "cool"}
    assert plan.unsolved == {"hot": "stays at 85.0 % cpu; its pods: 1 DaemonSet"}


def test_a_resource_that_cannot_cool_keeps_none_from_cooling() -> None:
    policy = a_policy(
        hotNodes={"any": [{"utilization": {"cpu": 80, "memory": 85}, "coolTo": {"cpu": 65, "memory": 75}}]}
    )
    nodes = [a_node(name, cpu=10, memory="10Gi") for name in ("hot", "b", "c")]
    database = a_workload("db", ["hot"], kind="DaemonSet", cpu="100m", memory="9Gi")
    plan = plan_of(planning_inputs(nodes, [a_workload("web", ["hot"] * 9), database], policy=policy))
    assert len(plan.moves) == 3
    [hot] = [node for node in plan.nodes if node.hot]
    assert hot.after is not None
    assert hot.after.load["cpu"] <= 65


def test_without_partial_relief_a_node_that_cannot_cool_loses_nothing() -> None:
    nodes = [a_node("hot", cpu=10), a_node("cool", cpu=40)]
    pods = [
        a_workload("rest", ["hot"], kind="DaemonSet", cpu="8500m"),
        a_workload("web", ["hot"], cpu="1"),
    ]
    policy = a_policy(planning={"partialRelief": False})
    plan = plan_of(planning_inputs(nodes, pods, policy=policy))
    only("CannotCool", "its node would stay hot at 85.0 % cpu", plan)
    assert plan.unsolved == {"hot": "stays at 95.0 % cpu; its pods: 1 CannotCool, 1 DaemonSet"}


def test_placements_are_left_out_of_the_state_they_were_tried_on() -> None:
    inputs = planning_inputs([a_node("hot"), a_node("cool")], [hot_pod()])
    prepared = prepare(inputs)
    found = search(prepared)
    scenario, before = found.scenarios.all[0], prepared.schedulers.state
    assert found.moves == ()
    for state in (scenario.while_terminating, scenario.after_termination):
        assert (state.requested == before.requested).all()
        assert list(state.node) == list(before.node)
        assert list(state.terminating) == list(before.terminating)
