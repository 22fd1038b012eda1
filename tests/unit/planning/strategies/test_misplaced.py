"""The strategy that moves pods which their nodes would not admit any more."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalancer.planning.builder import PlanBuilder
from rebalancer.planning.plan import Plan
from rebalancer.planning.planner import Planner
from rebalancer.planning.prepared import prepare
from rebalancer.planning.strategies import strategies_of
from rebalancer.planning.strategies.misplaced import Misplaced
from rebalancer.scheduling.registry import load_configuration
from tests.builders import a_node
from tests.rows import rows
from tests.unit.planning.builders import a_policy, a_workload, because, kept, moved, plan_of, planning_inputs
from tests.unit.planning.eviction.protected_pods import LEAVING

_ADDED = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  pluginConfig:
  - name: NodeAffinity
    args:
      addedAffinity:
        requiredDuringSchedulingIgnoredDuringExecution:
          nodeSelectorTerms: [{matchExpressions: [{key: disk, operator: In, values: [ssd]}]}]
"""
SSD = {"nodeSelector": {"disk": "ssd"}}
EXCLUDED = {
    "affinity": {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}
            ]
        }
    }
}
SPREAD = {
    "topologySpreadConstraints": [
        {
            "maxSkew": 1,
            "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "web"}},
        }
    ]
}
ON = a_policy(strategies={"misplaced": True})


def tainted(key: str) -> list[dict[str, str]]:
    return [{"key": key, "value": "", "effect": "NoSchedule"}]


def planned_with(spec: dict[str, Any], *, policy: Any = ON, on: tuple[str, ...] = ("a",), **a: Any) -> Plan:
    """Pods on node a, which is cool; b has an ssd."""
    nodes = [a_node("a", **a), a_node("b", labels={"disk": "ssd"})]
    return plan_of(planning_inputs(nodes, [a_workload("web", list(on), spec=spec)], policy=policy))


def test_it_is_off_unless_asked_for() -> None:
    assert planned_with(SSD, policy=a_policy()).moves == ()


def test_a_pod_whose_node_lost_a_label_it_selects_moves_where_it_is() -> None:
    plan = planned_with(SSD)
    assert moved(plan) == {"web-0": "b"}
    assert plan.moves[0].because.startswith("a would not admit it any more (NodeAffinity: ")


def test_a_pod_that_does_not_tolerate_its_node_any_more_moves() -> None:
    plan = planned_with({}, taints=tainted("dedicated"))
    assert moved(plan) == {"web-0": "b"}
    assert "taint dedicated" in plan.moves[0].because


@pytest.mark.parametrize("key", ["node.kubernetes.io/unschedulable", "node.kubernetes.io/disk-pressure"])
def test_taints_that_speak_of_the_node_itself_do_not_count(key: str) -> None:
    assert planned_with({}, taints=tainted(key)).moves == ()


@rows("key", LEAVING)
def test_a_node_that_is_about_to_be_removed_is_not_drained(key: str) -> None:
    assert planned_with({}, taints=tainted(key)).moves == ()


@rows("key", LEAVING)
def test_a_pod_misplaced_for_another_reason_waits_for_whoever_removes_its_node(key: str) -> None:
    plan = planned_with(SSD, taints=tainted(key))
    assert kept(plan) == {"web-0": "NodeLeaving"}
    assert key in plan.kept[0].because


@rows(
    "excluded, moves",
    [
        (["dedicated"], 0),
        (["dedicated=batch"], 0),
        (["dedicated=web"], 1),
        (["dedicated/*"], 1),
        ([], 1),
    ],
)
def test_the_policy_names_taints_that_make_no_pod_misplaced(excluded: list[str], moves: int) -> None:
    policy = a_policy(strategies={"misplaced": {"excludedTaints": excluded}})
    taints = [{"key": "dedicated", "value": "batch", "effect": "NoSchedule"}]
    assert len(planned_with({}, policy=policy, taints=taints).moves) == moves


@rows(
    "included, moves",
    [
        (["dedicated"], 1),
        (["dedicated=batch"], 1),
        (["dedicated=web"], 0),
        (["other"], 0),
        ([], 0),
        (None, 1),
    ],
)
def test_the_policy_names_the_only_taints_that_make_a_pod_misplaced(
    included: list[str] | None, moves: int
) -> None:
    policy = a_policy(strategies={"misplaced": {"includedTaints": included}})
    taints = [{"key": "dedicated", "value": "batch", "effect": "NoSchedule"}]
    assert len(planned_with({}, policy=policy, taints=taints).moves) == moves


def test_a_taint_that_is_included_by_name_is_not_excluded_by_default() -> None:
    pressure = "node.kubernetes.io/disk-pressure"
    policy = a_policy(strategies={"misplaced": {"includedTaints": [pressure]}})
    assert len(planned_with({}, policy=policy, taints=tainted(pressure)).moves) == 1


def test_a_prefix_names_all_taints_below_it() -> None:
    policy = a_policy(strategies={"misplaced": {"excludedTaints": ["example.com/*"]}})
    assert planned_with({}, policy=policy, taints=tainted("example.com/batch")).moves == ()
    assert len(planned_with({}, policy=policy, taints=tainted("example.community/batch")).moves) == 1


@pytest.mark.parametrize("excluded", [{}, {"excludedTaints": ["dedicated"]}, {"excludedTaints": []}])
def test_a_cordon_is_no_reason_to_move_whichever_taints_the_policy_excludes(excluded: dict[str, Any]) -> None:
    policy = a_policy(strategies={"misplaced": excluded})
    cordon = tainted("node.kubernetes.io/unschedulable")
    assert planned_with({}, policy=policy, unschedulable=True, taints=cordon).moves == ()


def test_of_two_pods_that_must_be_apart_one_moves() -> None:
    web = a_workload("web", ["a", "a"], spec=EXCLUDED)
    plan = plan_of(planning_inputs([a_node(name) for name in "abcd"], [web], policy=ON))
    assert len(plan.moves) == 1


def test_pods_that_are_not_spread_as_they_must_be_move() -> None:
    assert len(planned_with(SPREAD, on=("a", "a", "a")).moves) >= 1


def test_pods_that_want_the_same_port_of_their_node_are_parted() -> None:
    container = {"name": "main", "image": "app:v1", "ports": [{"hostPort": 80, "containerPort": 80}]}
    assert len(planned_with({"containers": [container]}, on=("a", "a")).moves) == 1


def test_a_pod_that_would_be_feasible_nowhere_else_stays() -> None:
    plan = planned_with({"nodeSelector": {"disk": "tape"}})
    assert kept(plan) == {"web-0": "NoLanding"}


def test_a_protected_pod_stays_however_misplaced() -> None:
    policy = a_policy(strategies={"misplaced": True}, evictable={"protect": ["SingleReplica"]})
    plan = planned_with(SSD, policy=policy)
    assert kept(plan) == {"web-0": "SingleReplica"}
    assert "misplaced: NodeAffinity" in plan.kept[0].because


def test_limits_hold_for_misplaced_pods_too() -> None:
    policy = a_policy(strategies={"misplaced": True}, limits={"perRun": 2})
    plan = planned_with(SSD, policy=policy, on=("a", "a", "a"))
    assert (len(plan.moves), plan.kept) == (2, ())
    assert plan.strategies["misplaced"].message == "1 more may move in later runs: perRun 2 is reached"


def test_a_pod_that_is_where_it_belongs_stays() -> None:
    plan = planned_with(SSD, on=("b",))
    assert (plan.moves, plan.kept) == ((), ())


def test_a_misplaced_pod_is_not_sent_where_it_would_make_a_node_hot() -> None:
    nodes = [a_node("a"), a_node("b", labels={"disk": "ssd"})]
    web = a_workload("web", ["a"], spec=SSD)
    plan = plan_of(planning_inputs(nodes, [web], policy=ON, load={"b": 70}))
    assert kept(plan) == {"web-0": "NoBetterLanding"}


@pytest.mark.parametrize("more", [{}, {"preferNoSchedule": True}])
def test_a_node_that_was_cooled_is_not_filled_again_by_a_misplaced_pod(more: dict[str, Any]) -> None:
    nodes = [a_node("a", cpu=10), a_node("b", cpu=10, labels={"disk": "ssd"}), a_node("c", cpu=10)]
    workloads = [a_workload("hot", ["b"] * 9, cpu="900m"), a_workload("web", ["a"], cpu="900m", spec=SSD)]
    policy = a_policy(
        strategies={"misplaced": more or True},
        hotNodes={"any": [{"utilization": {"cpu": 80}, "coolTo": {"cpu": 65}}]},
        limits={"perNode": 9, "perWorkload": 9},
    )
    plan = plan_of(planning_inputs(nodes, workloads, policy=policy))
    assert [move.from_node for move in plan.moves] == ["b", "b"]
    assert "it is hot, and may be filled up to 65.0 % only" in because(plan, "web-0")


def test_a_misplaced_move_still_holds_before_its_wave_although_its_node_is_cool() -> None:
    inputs = planning_inputs(
        [a_node("a"), a_node("b", labels={"disk": "ssd"})], [a_workload("web", ["a"], spec=SSD)], policy=ON
    )
    moves = plan_of(inputs).moves
    assert list(Planner(inputs).recheck(moves).values()) == list(moves)


# Soft rules.

PREFERS_SSD = {
    "affinity": {
        "nodeAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {
                    "weight": 100,
                    "preference": {
                        "matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]
                    },
                }
            ]
        }
    }
}


def prefers(kind: str, app: str) -> dict[str, Any]:
    """To be on the node of pods of an app, or not, as ``kind`` says."""
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": app}}}
    preferred = [{"weight": 100, "podAffinityTerm": term}]
    return {"affinity": {kind: {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}}


def soft(**options: bool) -> Any:
    return a_policy(strategies={"misplaced": options or dict.fromkeys(SOFT_OPTIONS, True)})


SOFT_OPTIONS = ("preferredNodeAffinity", "preferredPodAffinity", "preferNoSchedule")
PREFERRED_TAINT = [{"key": "dedicated", "value": "", "effect": "PreferNoSchedule"}]


@pytest.mark.parametrize(
    ("spec", "option", "node"),
    [
        (PREFERS_SSD, "preferredNodeAffinity", {}),
        (prefers("podAntiAffinity", "web"), "preferredPodAffinity", {}),
        ({}, "preferNoSchedule", {"taints": PREFERRED_TAINT}),
    ],
)
def test_soft_rules_move_pods_only_if_asked_for_and_come_to_rest(
    spec: dict[str, Any], option: str, node: dict[str, Any]
) -> None:
    on = ("a", "a") if option == "preferredPodAffinity" else ("a",)
    plan = planned_with(spec, policy=soft(**{option: True}), on=on, **node)

    assert planned_with(spec, on=on, **node).moves == ()
    others = {name: True for name in SOFT_OPTIONS if name != option}
    assert planned_with(spec, policy=soft(**others), on=on, **node).moves == ()
    assert len(plan.moves) == 1
    assert plan.moves[0].because.startswith("the scheduler prefers another node by ")
    after = ("b", "a") if len(on) == 2 else ("b",)
    assert planned_with(spec, policy=soft(), on=after, **node).moves == ()


def test_a_pod_moves_to_the_pods_it_prefers_to_be_with() -> None:
    nodes = [a_node("a"), a_node("b")]
    workloads = [a_workload("db", ["b"]), a_workload("web", ["a"], spec=prefers("podAffinity", "db"))]
    assert moved(plan_of(planning_inputs(nodes, workloads, policy=soft()))) == {"web-0": "b"}


def test_a_preferred_node_without_room_is_no_reason_to_move() -> None:
    """What descheduler evicts for ever: the better node need not fit there."""
    nodes = [a_node("a"), a_node("b", labels={"disk": "ssd"}, cpu="500m"), a_node("c")]
    plan = plan_of(planning_inputs(nodes, [a_workload("web", ["a"], spec=PREFERS_SSD)], policy=soft()))
    assert (plan.moves, plan.kept) == ((), ())


def test_a_preferred_node_that_scores_less_in_total_is_no_reason_to_move() -> None:
    nodes = [a_node("a"), a_node("b", labels={"disk": "ssd"}, taints=PREFERRED_TAINT)]
    inputs = planning_inputs(
        nodes, [a_workload("web", ["a"], spec=PREFERS_SSD)], policy=soft(preferredNodeAffinity=True)
    )
    assert (plan_of(inputs).moves, plan_of(inputs).kept) == ((), ())


def test_nobody_lands_a_pod_from_where_a_soft_rule_would_move_it_back() -> None:
    """The replacement goes to b while a has no room; once the pod has left a, it would be placed there."""
    nodes = [a_node("a", labels={"disk": "ssd"}), a_node("b", cpu=8)]
    web = a_workload("web", ["a"], cpu="3", spec=PREFERS_SSD)
    likely = {"aggressiveness": 5, "minGain": 5}
    plans = [
        plan_of(planning_inputs(nodes, [web], load={"a": 90.0}, pod_load={"web-0": 3.0}, policy=policy))
        for policy in (
            a_policy(planning=likely),
            a_policy(planning=likely, strategies={"misplaced": {"preferredNodeAffinity": True}}),
        )
    ]
    assert moved(plans[0]) == {"web-0": "b"}
    assert plans[1].moves == ()
    assert because(plans[1], "web-0").startswith(
        "may land (100%) where it must not: b is not where the scheduler would rather have it"
    )


def test_of_pods_that_prefer_another_node_and_that_a_limit_keeps_only_the_first_is_named() -> None:
    """It says which limit keeps them; what the others prefer would change nothing."""
    settings = {"misplaced": {"preferredNodeAffinity": True}}
    limited = a_policy(strategies=settings, limits={"perNamespace": 1})
    plan = planned_with(PREFERS_SSD, policy=limited, on=("a", "a", "a"))
    assert [len(moved(plan)), list(kept(plan).values())] == [1, ["Limit"]]
    free = planned_with(PREFERS_SSD, policy=a_policy(strategies=settings), on=("a", "a", "a"))
    assert len(moved(free)) > 1


def test_what_the_scheduler_adds_to_every_pod_counts_for_pods_that_ask_for_nothing() -> None:
    configuration = load_configuration(_ADDED, "test")
    nodes = [a_node("a"), a_node("b", labels={"disk": "ssd"})]
    workloads = [a_workload("web", ["a"]), a_workload("api", ["b"])]
    plan = plan_of(planning_inputs(nodes, workloads, policy=ON, configuration=configuration))
    assert moved(plan) == {"web-0": "b"}


def test_a_pod_that_asks_for_nothing_leaves_the_node_that_another_wants_free_of_it() -> None:
    """Either of the two may go; once one has, the other one stays."""
    nodes = [a_node(name, labels={"kubernetes.io/hostname": name}) for name in "ab"]
    workloads = [
        a_workload("web", ["a"]),
        a_workload("db", ["a"], spec=asks("podAntiAffinity required", "web", "kubernetes.io/hostname")),
    ]
    prepared = prepare(planning_inputs(nodes, workloads, policy=ON))
    plan = PlanBuilder(prepared, ())
    looked_at = next(item for item in strategies_of(prepared) if isinstance(item, Misplaced))

    assert {prepared.pods.full_name(pod): looked_at.why(pod, plan)[:16] for pod in looked_at.pods(plan)} == {
        "default/web-0": "InterPodAffinity",
        "default/db-0": "InterPodAffinity",
    }
    assert len(moved(plan_of(planning_inputs(nodes, workloads, policy=ON)))) == 1


def asks(kind: str, app: str, key: str) -> dict[str, Any]:
    """To be where pods of an app are, or not, by a rule of this kind over nodes or zones."""
    selector = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key}
    if kind == "spread":
        return {
            "topologySpreadConstraints": [{**selector, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}]
        }
    side, _, rule = kind.partition(" ")
    if rule == "preferred":
        preferred = [{"weight": 10, "podAffinityTerm": selector}]
        return {"affinity": {side: {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}}
    return {"affinity": {side: {"requiredDuringSchedulingIgnoredDuringExecution": [selector]}}}


KINDS = [
    f"{side} {rule}" for side in ("podAffinity", "podAntiAffinity") for rule in ("preferred", "required")
]
ASKS = st.builds(
    asks,
    st.sampled_from([*KINDS, "spread"]),
    st.sampled_from(["w0", "w1"]),
    st.sampled_from(["kubernetes.io/hostname", "zone"]),
)
SPECS = st.one_of(ASKS, ASKS, st.sampled_from([{}, SSD, PREFERS_SSD]))
ON_NODES = st.lists(st.sampled_from("abcd"), min_size=1, max_size=4)


@given(
    st.lists(st.tuples(SPECS, ON_NODES), min_size=1, max_size=4),
    st.sampled_from(["", *LEAVING, "own", "soft"]),
)
def test_every_pod_that_its_node_would_reject_is_looked_at(
    drawn: list[tuple[dict[str, Any], list[str]]], taint: str
) -> None:
    """Looking at classes and domains finds every pod that is found when each pod is asked about."""
    labels = [{"zone": "x", "disk": "ssd"}, {"zone": "x"}, {"zone": "y"}, {}]
    effect = "PreferNoSchedule" if taint == "soft" else "NoSchedule"
    taints = [{"key": taint, "value": "", "effect": effect}] if taint else []
    nodes = [
        a_node(name, cpu=64, labels=found, taints=taints if name == "a" else ())
        for name, found in zip("abcd", labels, strict=True)
    ]
    workloads = [a_workload(f"w{at}", on, spec=spec) for at, (spec, on) in enumerate(drawn)]
    prepared = prepare(planning_inputs(nodes, workloads, policy=soft()))
    strategy = Misplaced(prepared, soft().strategies.misplaced)
    plan = PlanBuilder(prepared, (strategy,))
    wishes = {pod for pod in prepared.bound_pods() if strategy.why(pod, plan)}

    assert wishes <= set(Misplaced(prepared, soft().strategies.misplaced).pods(plan))
