"""A plan that stops short names the setting that holds most of the load, not the one with most pods."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from rebalancer.cluster.arrays import PodRow
from rebalancer.planning.plan import Obstacle, Plan
from rebalancer.planning.planner import Planner
from rebalancer.planning.reasons import NotMoved, Reason
from rebalancer.planning.strategies.hot_nodes.report import find_obstacles
from rebalancer.policy.schema import Protection, RebalancePolicy
from tests.builders import a_node
from tests.rows import rows
from tests.unit.planning.builders import a_policy, a_workload, at, plan_of, planning_inputs

ON_DISK = {"volumes": [{"name": "cache", "emptyDir": {}}]}
NODES = (a_node("a", cpu=10), a_node("cool", cpu=100))


def obstacles(*workloads: Any, policy: RebalancePolicy | None = None, **inputs: Any) -> tuple[Obstacle, ...]:
    return plan_of(planning_inputs(NODES, workloads, policy=policy, **inputs)).obstacles


def protecting(*kinds: str, **evictable: Any) -> RebalancePolicy:
    return a_policy(evictable={"protect": list(kinds), **evictable})


def test_one_large_pod_outweighs_many_small_ones() -> None:
    found = obstacles(
        a_workload("store", ["a"], cpu="6", spec=ON_DISK),
        a_workload("fresh", ["a"] * 3, cpu="1", created=at(-60)),
        policy=protecting("LocalStorage", minAge="10m"),
    )
    assert [(item.setting, item.pods) for item in found] == [
        ("evictable.protect: LocalStorage", 1),
        ("evictable.minAge", 3),
    ]
    assert found[0].share == pytest.approx(60 / 90, abs=0.001)
    assert found[0].example == "default/store-0"
    assert found[0].because == "volume cache is an emptyDir"


def test_a_pod_that_a_second_setting_keeps_as_well_would_not_move_without_the_first() -> None:
    found = obstacles(
        a_workload("store", ["a"], cpu="5", spec=ON_DISK),
        a_workload("cache", ["a", "a"], cpu="2", spec=ON_DISK),
        policy=protecting("LocalStorage", "SingleReplica"),
    )
    assert [(item.pods, item.moves_if_lifted) for item in found] == [(3, 2)]


def lifted(**changes: Any) -> list[tuple[str, int, int | None]]:
    """Of a node with nine pods, six of which run nowhere else: setting, pods kept, pods that would move."""
    here = {"nodeSelector": {"kubernetes.io/hostname": "a"}}
    workloads = [a_workload("free", ["a"] * 3), a_workload("held", ["a"] * 6, spec=here)]
    found = obstacles(*workloads, policy=a_policy(**changes))
    return [(item.setting, item.pods, item.moves_if_lifted) for item in found]


@pytest.mark.parametrize(
    ("changes", "setting"),
    [
        ({"limits": {"perRun": 0}}, "limits.perRun"),
        ({"evictable": {"namespaces": {"exclude": ["default"]}}}, "evictable.namespaces"),
        ({"evictable": {"minReplicas": 99}}, "evictable.minReplicas"),
        ({"evictable": {"windows": [{"from": "13:00", "to": "14:00"}]}}, "evictable.windows"),
    ],
)
def test_without_a_setting_only_those_move_that_have_a_landing(changes: Any, setting: str) -> None:
    assert lifted(**changes) == [(setting, 9, 3)]


def test_what_moves_without_a_protection_is_bounded_by_the_limits_all_the_same() -> None:
    assert lifted(evictable={"minReplicas": 99}, limits={"perRun": 2}) == [("evictable.minReplicas", 9, 2)]


def test_what_a_plan_would_choose_without_a_protection_is_not_known_once_its_limit_is_used_up() -> None:
    """A new plan might move the protected pod instead: that none moves besides would say nothing of it."""
    found = obstacles(
        a_workload("store", ["a"], cpu="7", spec=ON_DISK),
        a_workload("web", ["a"] * 2, cpu="1"),
        policy=a_policy(evictable={"protect": ["LocalStorage"]}, limits={"perRun": 1}),
    )
    assert [(item.setting, item.moves_if_lifted) for item in found] == [
        ("limits.perRun", 1),
        ("evictable.protect: LocalStorage", None),
    ]


def test_what_no_setting_could_lift_is_not_tried() -> None:
    found = obstacles(a_workload("web", ["a"] * 9, spec={"nodeSelector": {"kubernetes.io/hostname": "a"}}))
    assert [(item.setting, item.moves_if_lifted) for item in found] == [("", None)]


def test_limits_are_named_as_the_policy_names_them() -> None:
    policy = a_policy(limits={"perRun": 2, "perNode": 2})
    assert {item.setting for item in obstacles(a_workload("web", ["a"] * 9), policy=policy)} == {
        "limits.perRun and limits.perNode"
    }


def test_pods_that_never_move_hold_nothing_that_a_setting_could_release() -> None:
    agents = a_workload("agent", ["a"], kind="DaemonSet", cpu="9")
    assert obstacles(agents) == ()


def test_a_plan_that_cools_every_node_has_no_obstacles() -> None:
    plan: Plan = plan_of(planning_inputs(NODES, [a_workload("web", ["a"] * 9)]))
    assert plan.moves
    assert plan.obstacles == ()


def test_a_cluster_without_a_better_landing_is_not_blamed_on_a_setting() -> None:
    full = (a_node("a", cpu=10), a_node("b", cpu=10, taints=[{"key": "k", "effect": "NoSchedule"}]))
    found = plan_of(planning_inputs(full, [a_workload("web", ["a"] * 9)])).obstacles
    assert [(item.setting, item.reasons) for item in found] == [("", ("NoBetterLanding",))]


@rows(
    "planning, settings",
    [
        ({"minGain": 50}, ("planning.minGain",)),
        ({"maxAfter": {"cpu": 55}}, ("planning.maxAfter",)),
        ({"minGain": 50, "maxAfter": {"cpu": 55}}, ("planning.maxAfter and planning.minGain",)),
        ({"minGain": 0}, ("",)),  # two pods move; a third would be no better off on b
    ],
)
def test_a_landing_that_only_a_setting_refuses_leads_to_it(
    planning: dict[str, Any], settings: tuple[str, ...]
) -> None:
    """From 90 to 60 %: a better place by the rules, which the policy's own bounds refuse."""
    nodes = (a_node("a", cpu=10), a_node("b", cpu=10))
    work = [a_workload("web", ["a"] * 9), a_workload("other", ["b"] * 5)]
    rule = {"utilization": {"cpu": 80}, "coolTo": {"cpu": 20}}
    policy = a_policy(hotNodes={"forRuns": 1, "any": [rule]}, planning=planning)
    found = plan_of(planning_inputs(nodes, work, policy=policy)).obstacles
    assert tuple(item.setting for item in found) == settings


def test_a_controller_of_an_unknown_kind_leads_to_the_setting_that_names_kinds() -> None:
    clone = a_workload("web", ["a"] * 9)
    for pod in clone.pods:
        pod["metadata"]["ownerReferences"][0].update(kind="CloneSet", apiVersion="apps.kruise.io/v1alpha1")
    assert [item.setting for item in obstacles(clone)] == ["evictable.controllers"]


@pytest.mark.parametrize(
    ("scheduler", "setting"),
    [
        ({}, "scheduler.configMap"),
        ({"file": "scheduler.yaml"}, "scheduler.file"),
        ({"profiles": ["other"]}, "scheduler.profiles"),
    ],
)
def test_a_profile_that_is_not_configured_is_told_from_one_that_the_policy_leaves_out(
    scheduler: dict[str, Any], setting: str
) -> None:
    name = "default-scheduler" if "profiles" in scheduler else "trimaran"
    web = a_workload("web", ["a"] * 9, spec={"schedulerName": name})
    assert [item.setting for item in obstacles(web, policy=a_policy(scheduler=scheduler))] == [setting]


def test_the_settings_of_reasons_are_keys_of_the_policy() -> None:
    """A setting that no policy has would send its reader nowhere."""
    document = RebalancePolicy().model_dump(by_alias=True)
    for reason in Reason:
        if not reason.setting:
            continue
        path, _, value = reason.setting.partition(": ")
        section: Any = document
        for key in path.split("."):
            section = section[key]
        assert not value or value in section or (path == "evictable.protect" and value in set(Protection))


def test_a_pod_on_no_node_keeps_no_node_hot() -> None:
    nodes = (a_node("cool", cpu=100), a_node("z", cpu=10))  # the last one is hot
    web, new = a_workload("web", ["z"] * 9, spec=ON_DISK), a_workload("new", [""], cpu="200")
    planner = Planner(planning_inputs(nodes, [web, new], policy=protecting("LocalStorage")))
    prepared = planner.prepared
    found = planner.decided
    pending = PodRow(prepared.pods.row["default", "new-0"])
    assert prepared.pods.node[pending] == -1
    why = NotMoved(Reason.LOCAL_STORAGE, "because", ("evictable.protect",))
    kept = {**found.staying, pending: why}
    (obstacle,) = find_obstacles(prepared, replace(found, staying=kept))
    assert obstacle.pods == 9


@pytest.mark.parametrize(
    ("load", "asked"),
    [
        (4.0, "execution.steer: softTaint would send 3 of them elsewhere"),
        (7.5, "a better node that fits it (rebalancer what-if --add-node)"),
    ],
)
def test_where_replacements_would_land_on_hot_nodes_it_is_said_how_many_taints_would_send_elsewhere(
    load: float, asked: str
) -> None:
    """Node b has nothing but its use, which the scheduler does not see: it gets what leaves node a."""
    nodes = [a_node("a", cpu=10), a_node("b", cpu=10), a_node("c", cpu=10)]
    workloads = [a_workload("web", ["a"] * 3, cpu="2"), a_workload("full", ["c"], cpu="8")]
    inputs = planning_inputs(
        nodes,
        workloads,
        load={"a": 90, "b": 79, "c": 10 * load},
        pod_load={**{f"web-{number}": 2.0 for number in range(3)}, "full-0": load},
    )
    (obstacle,) = plan_of(inputs).obstacles

    assert (obstacle.setting, obstacle.reasons) == ("", ("NoBetterLanding",))
    assert obstacle.remedy == asked
    assert obstacle.sentence.endswith(f"; freed by {obstacle.remedy}")


@pytest.mark.parametrize("steer", ["none", "softTaint"])
def test_no_taint_is_named_that_no_node_would_get(steer: str) -> None:
    """A taint on the only node of its pool would send nothing elsewhere: none is set there."""
    policy = a_policy(execution={"steer": steer})
    inputs = planning_inputs(
        [a_node("a", cpu=10)], [a_workload("web", ["a"] * 3)], policy=policy, load={"a": 90}
    )
    (obstacle,) = plan_of(inputs).obstacles

    assert obstacle.reasons == ("NoBetterLanding",)
    assert "execution.steer" not in obstacle.remedy


def test_a_setting_that_keeps_load_is_followed_by_the_value_that_frees_it() -> None:
    found = obstacles(a_workload("store", ["a"], cpu="9", spec=ON_DISK), policy=protecting("LocalStorage"))
    (obstacle,) = found
    assert obstacle.setting == "evictable.protect: LocalStorage"
    assert obstacle.remedy.startswith("evictable.protect: [], or the annotation ")
