"""The strategy that empties whole nodes, by the landings of the user's own scheduler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from rebalancer.errors import InputError
from rebalancer.planning.inputs import PlanningInputs
from rebalancer.planning.plan import Plan
from rebalancer.planning.planner import Planner
from rebalancer.planning.prepared import prepare
from rebalancer.planning.strategies.consolidation import Consolidation, ConsolidationSettings
from rebalancer.planning.taints import EMPTIED, reopened
from rebalancer.policy.policy_file import load_policy
from rebalancer.profiles import SchedulerConfiguration
from rebalancer.scheduling.registry import load_configuration
from rebalancer.state.run_state import RunState
from tests.builders import a_budget, a_node, a_pod, owned_by
from tests.rows import rows
from tests.unit.planning.builders import (
    DEFAULTS,
    NOW,
    Workload,
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

_PACKING = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins: {score: {disabled: [{name: NodeResourcesBalancedAllocation}]}}
  pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated}}
"""


@pytest.fixture(name="packing", scope="module")
def _packing() -> SchedulerConfiguration:
    """A scheduler that fills nodes."""
    return load_configuration(_PACKING, "test")


def inputs(
    configuration: SchedulerConfiguration,
    workloads: Sequence[Workload],
    nodes: Sequence[Mapping[str, Any]] = (),
    settings: Mapping[str, Any] | bool = True,
    **more: Any,
) -> PlanningInputs:
    """Three nodes of 4 cores unless others are given."""
    limits = more.pop("limits", {})
    policy = a_policy(strategies={"consolidation": settings}, limits=limits)
    nodes = nodes or [a_node(name) for name in "abc"]
    return planning_inputs(nodes, workloads, configuration=configuration, policy=policy, **more)


def planned(*arguments: Any, **more: Any) -> Plan:
    return plan_of(inputs(*arguments, **more))


# a requests 1 core in 1 pod, b and c 2 cores in 2 pods each: a is the cheapest to empty.
USUAL = [a_workload("few", ["a"]), a_workload("many", ["b", "b", "c", "c"])]


def test_the_node_that_is_rid_of_the_fewest_pods_is_emptied_and_the_plan_says_why(packing: Any) -> None:
    plan = planned(packing, USUAL, settings={"maxNodes": 1})
    assert list(moved(plan)) == ["few-0"]
    assert plan.moves[0].because.startswith("a is to be emptied: 1 pod must leave it; its replacement will")
    report = plan.strategies["consolidation"]
    assert report.message.startswith(
        "1 of 3 nodes in use emptied (1 at most by requests), 1.0 evictions each"
    )
    assert report.figures["requestedCpuBefore"] == pytest.approx(100 * 5 / 12, abs=0.01)
    assert report.figures["requestedCpuAfter"] == pytest.approx(100 * 5 / 8, abs=0.01)
    assert report.figures["largestPodCoresAfter"] == 4.0


def test_a_scheduler_that_prefers_empty_nodes_empties_none_and_the_reason_is_said() -> None:
    plan = planned(DEFAULTS, USUAL)
    assert plan.moves == ()
    assert "a is the node it leaves" in because(plan, "few-0")


def graded(*cores: str) -> list[Workload]:
    """A pod on each of the nodes a, b, …; a scheduler that fills nodes sends it to a fuller one."""
    return [a_workload(f"on-{name}", [name], cpu=cpu) for name, cpu in zip("abcdef", cores, strict=False)]


def test_the_plan_says_how_many_nodes_could_be_emptied_with_a_taint() -> None:
    message = planned(DEFAULTS, USUAL).strategies["consolidation"].message
    assert message.endswith("1 node could be emptied with a taint meanwhile (taintFor)")


def test_with_a_taint_a_scheduler_that_prefers_empty_nodes_empties_them_too() -> None:
    plan = planned(DEFAULTS, USUAL, [a_node(name) for name in "abcd"], {"taintFor": "30m"})
    assert set(moved(plan).values()) <= {"b", "c", "b,c"}
    assert list(moved(plan)) == ["few-0"]
    assert plan.closed == ("a", "d")  # d is empty, and the pod would go there
    assert plan.closed_seconds == 1800


@pytest.mark.parametrize("most", [1, 2])
def test_a_node_that_would_not_be_emptied_once_it_is_closed_is_not_closed(most: int) -> None:
    """While b is open the pods of a would make it hot; once it is closed they take what its own pod needs."""
    workloads = [
        a_workload("web", ["a", "a", "a"]),
        a_workload("busy", ["b"], cpu="100m"),
        a_workload("many", ["c", "c"], cpu="700m"),
    ]
    load = {"a": 95.0, "b": 66.0, "c": 5.0}
    found = inputs(
        DEFAULTS,
        workloads,
        settings={"taintFor": "30m"},
        limits={"perRun": most},
        load=load,
        pod_load={"busy-0": 0.4},
    )
    plan = plan_of(found)
    assert set(plan.closed) <= {move.from_node for move in plan.moves if move.strategy == "consolidation"}


def test_of_a_node_that_no_taint_would_empty_the_plan_says_which_pod_keeps_it_and_why() -> None:
    plan = planned(DEFAULTS, USUAL, settings={"taintFor": "30m"}, load={"b": 70.0, "c": 70.0})
    assert (plan.moves, plan.closed) == ((), ())
    assert "b would be at 95.0 % cpu, hot above 80.0 % (consolidation: a is to be" in because(plan, "few-0")
    assert because(plan, "many-0") == "it would move only together with default/many-1, which stays"


def test_of_the_nodes_beside_one_that_a_taint_empties_the_plan_says_why_they_are_not() -> None:
    budget = a_budget("few", labels={"app": "few"}, allowed=0)
    plan = planned(DEFAULTS, USUAL, settings={"taintFor": "30m"}, poddisruptionbudgets=[budget])
    assert plan.closed == ("b",)
    assert list(moved(plan)) == ["many-0", "many-1"]
    assert because(plan, "few-0").startswith("budget default/few allows 0")


def test_a_pod_that_tolerates_every_taint_keeps_its_node() -> None:
    agent = a_workload("agent", ["a"], spec={"tolerations": [{"operator": "Exists"}]})
    plan = planned(DEFAULTS, [agent, *USUAL[1:]], settings={"taintFor": "30m"})
    assert "agent-0" not in moved(plan)


@pytest.mark.parametrize(("until", "stays"), [(600, True), (-600, False)])
def test_an_emptied_node_stays_closed_until_the_time_in_its_taint(until: int, stays: bool) -> None:
    taint = {"key": EMPTIED.key, "effect": EMPTIED.effect, "value": f"lease.run.{int(NOW + until)}"}
    before = inputs(DEFAULTS, USUAL, [a_node("a"), a_node("b"), a_node("c"), a_node("d", taints=[taint])])
    taints = prepare(before).nodes.records[3].spec.taints
    assert bool(taints) == stays
    assert reopened(before.snapshot, NOW) == (() if stays else ("d",))


def test_pods_of_emptied_nodes_land_on_none_that_is_empty_or_emptied_too(packing: Any) -> None:
    plan = planned(packing, graded("400m", "500m", "2", "1"), [a_node(name) for name in "abcde"])
    assert moved(plan) == {"on-a-0": "c", "on-b-0": "c"}


def test_the_pods_of_a_node_move_together_or_not_at_all(packing: Any) -> None:
    large = a_workload("large", ["a"], cpu="3")
    plan = planned(packing, [a_workload("small", ["a"]), large, a_workload("full", ["b", "b", "c", "c"])])
    assert "small-0" not in moved(plan)
    assert kept(plan)["large-0"] == "NoLanding"


@pytest.mark.parametrize(
    ("pod", "says"),
    [
        ({"spec": {"volumes": [{"name": "data", "emptyDir": {}}]}}, "LocalStorage"),
        ({"annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}}, "Annotation"),
    ],
)
def test_a_node_with_a_protected_pod_is_not_emptied(packing: Any, pod: dict[str, Any], says: str) -> None:
    held = a_workload("held", ["a"], cpu="100m", **pod)
    policy = a_policy(strategies={"consolidation": True}, evictable={"protect": ["LocalStorage"]})
    nodes, workloads = [a_node(name) for name in "abc"], [held, *graded("400m", "500m", "2")]
    plan = plan_of(planning_inputs(nodes, workloads, policy=policy, configuration=packing))
    assert kept(plan) == {"held-0": says}
    assert moved(plan) == {"on-b-0": "c"}


def test_pods_of_daemon_sets_do_not_keep_a_node_in_use(packing: Any) -> None:
    agents = [
        a_pod(f"agent-{name}", node=name, cpu="100m", owner=owned_by("DaemonSet", "agent")) for name in "abc"
    ]
    plan = planned(packing, USUAL, settings={"maxNodes": 1}, pods=agents)
    assert list(moved(plan)) == ["few-0"]


@pytest.mark.parametrize(
    "node",
    [
        {"labels": {"karpenter.sh/nodepool": "default"}},
        {"labels": {"node-role.kubernetes.io/control-plane": ""}},
    ],
)
def test_nodes_of_others_are_left_to_them(packing: Any, node: dict[str, Any]) -> None:
    plan = planned(packing, USUAL, [a_node("a", **node), a_node("b", **node), a_node("c", **node)])
    assert plan.moves == ()


@pytest.mark.parametrize("limit", ["perNode", "perRun"])
def test_the_plan_says_which_nodes_the_policy_keeps_it_from(packing: Any, limit: str) -> None:
    nodes = [a_node("a", labels={"karpenter.sh/nodepool": "default"}), a_node("b"), a_node("c")]
    message = planned(packing, USUAL, nodes, limits={limit: 1}).strategies["consolidation"].message
    assert f"{limit} 1 keeps 2 with more pods; 1 left to Karpenter (allowKarpenter)" in message


def test_nodes_of_karpenter_are_emptied_where_the_policy_says_so(packing: Any) -> None:
    nodes = [a_node(name, labels={"karpenter.sh/nodepool": "default"}) for name in "abc"]
    assert planned(packing, USUAL, nodes, {"allowKarpenter": True}).moves


def test_a_young_node_is_not_emptied(packing: Any) -> None:
    nodes = [a_node(name) for name in "abc"]
    nodes[0]["metadata"]["creationTimestamp"] = at(-600)
    assert "few-0" not in moved(planned(packing, USUAL, nodes))


def test_a_node_that_pods_left_or_came_to_is_left_alone_while_it_settles(packing: Any) -> None:
    state = RunState(moves=(a_past_move(from_node="a", to_node="c", workload="ReplicaSet/other"),))
    plan = planned(packing, USUAL, state=state)
    assert {move.from_node for move in plan.moves} <= {"b"}


def test_so_many_nodes_stay_in_use_as_the_policy_keeps(packing: Any) -> None:
    for keep, moves in ((1, 2), (2, 1), (3, 0), ("67%", 0)):
        plan = planned(packing, graded("400m", "500m", "1"), settings={"keep": keep})
        assert len(plan.moves) == moves


def test_no_node_is_filled_above_max_requested(packing: Any) -> None:
    plan = planned(packing, USUAL, settings={"maxRequested": 60})
    assert plan.moves == ()
    assert "would be requested to 75.0 %, maxRequested 60" in because(plan, "few-0")
    assert next(item for item in plan.kept).setting == "strategies.consolidation.maxRequested"


@pytest.mark.parametrize(
    ("thresholds", "left"),
    [
        ({"cpu": 25}, {"a"}),  # as much as is requested
        ({"cpu": 24.9}, set()),
        ({"cpu": 50}, {"a", "b", "c"}),
        ({"pods": 10}, {"a"}),
        ({"pods": 0}, set()),
        ({"cpu": 100, "memory": 0}, set()),
        ({}, {"a", "b", "c"}),
    ],
)
def test_only_nodes_of_which_no_more_is_requested_than_the_thresholds_allow_are_emptied(
    packing: Any, thresholds: dict[str, float], left: set[str]
) -> None:
    nodes = [a_node(name, pods=10) for name in "abc"]
    plan = planned(packing, USUAL, nodes, {"thresholds": thresholds, "maxNodes": 1})
    assert {move.from_node for move in plan.moves} <= left
    assert bool(plan.moves) == bool(left)
    message = plan.strategies["consolidation"].message
    kept_open = f"thresholds keep {3 - len(left)} of which more is requested"
    assert (kept_open in message) == (len(left) < 3)


@pytest.mark.parametrize(("number", "left"), [(0, {"a"}), (1, {"a"}), (2, set()), (3, set())])
def test_nodes_are_emptied_only_while_more_than_so_many_are_within_thresholds(
    packing: Any, number: int, left: set[str]
) -> None:
    """As in descheduler, the empty node e counts beside a, and e2 does not, which is not ready."""
    nodes = [*(a_node(name) for name in "abce"), a_node("e2", ready=False)]
    settings = {"thresholds": {"cpu": 25}, "numberOfNodes": number}
    plan = planned(packing, USUAL, nodes, settings)
    assert {move.from_node for move in plan.moves} == left
    kept_open = f"no more than numberOfNodes {number} are within thresholds"
    assert (kept_open in plan.strategies["consolidation"].message) == (not left)


@pytest.mark.parametrize(
    ("thresholds", "modes", "emptied"),
    [
        ({"memory": 50}, [], True),
        ({"memory": 50}, ["OnlyThresholdingResources"], False),
        ({"memory": 50, "cpu": 25}, ["OnlyThresholdingResources"], True),
    ],
)
def test_a_node_with_a_pod_that_requests_none_of_the_resources_is_kept_in_the_mode_of_these(
    packing: Any, thresholds: dict[str, float], modes: list[str], emptied: bool
) -> None:
    alone = [{"name": "main", "image": "app:v1", "resources": {"requests": {"cpu": "1"}}}]
    workloads = [a_workload("few", ["a"], spec={"containers": alone}), USUAL[1]]
    settings = {"thresholds": thresholds, "evictionModes": modes, "maxNodes": 1}
    plan = planned(packing, workloads, settings=settings, limits={"perNode": 1})
    assert bool(plan.moves) == emptied
    kept_open = "evictionModes keeps 1 with a pod that requests no memory"
    assert (kept_open in plan.strategies["consolidation"].message) == (not emptied)


def test_the_mode_of_the_resources_of_thresholds_needs_some() -> None:
    with pytest.raises(ValidationError, match="evictionModes needs thresholds"):
        a_policy(strategies={"consolidation": {"evictionModes": ["OnlyThresholdingResources"]}})


@rows("wrong", [{"cpu": -1}, {"cpu": 101}, {"gpu": 5}, {"cpu": float("nan")}])
def test_a_threshold_is_a_percentage_of_cpu_memory_or_pods(wrong: dict[str, float]) -> None:
    with pytest.raises(ValidationError):
        a_policy(strategies={"consolidation": {"thresholds": wrong}})


def test_limits_hold_and_a_node_with_more_pods_is_not_begun(packing: Any) -> None:
    plan = planned(packing, USUAL, limits={"perNode": 1}, settings={"maxNodes": 3})
    assert list(moved(plan)) == ["few-0"]


def test_a_limit_that_other_strategies_have_reached_is_named(packing: Any) -> None:
    strategies = {"consolidation": True, "lifetime": {"maxAge": "1h"}}
    policy = a_policy(strategies=strategies, limits={"perRun": 1})
    nodes = [a_node(name) for name in "abc"]
    plan = plan_of(planning_inputs(nodes, USUAL, policy=policy, configuration=packing))
    assert [move.strategy for move in plan.moves] == ["lifetime"]
    assert "; perRun 1 is reached" in plan.strategies["consolidation"].message


def test_only_the_nodes_that_the_policy_selects_are_emptied(packing: Any) -> None:
    nodes = [a_node("a"), a_node("b", labels={"pool": "spare"}), a_node("c")]
    settings = {"nodeSelector": {"matchLabels": {"pool": "spare"}}}
    assert moved(planned(packing, graded("400m", "500m", "1"), nodes, settings)) == {"on-b-0": "c"}


@pytest.mark.parametrize("by_annotation", [False, True])
def test_the_dearest_node_is_emptied_first_for_what_its_pods_cost(packing: Any, by_annotation: bool) -> None:
    nodes, prices = [a_node(name) for name in "abc"], {"small": 0.1, "large": 1.0}
    for node, kind in zip(nodes, ("small", "large", "small"), strict=True):
        node["metadata"]["labels"]["node.kubernetes.io/instance-type"] = kind
        if by_annotation:
            node["metadata"]["annotations"] = {"rebalancer/price": str(prices[kind])}
    settings = {"maxNodes": 1} | ({} if by_annotation else {"prices": prices})
    plan = planned(packing, graded("400m", "500m", "1"), nodes, settings)
    assert moved(plan) == {"on-b-0": "c"}
    assert plan.strategies["consolidation"].figures["saving"] == 1.0


@pytest.mark.parametrize("price", ["inf", "1e400", "nan", "-1", "0", "dear", ""])
def test_a_node_whose_annotation_is_no_price_is_left_alone(packing: Any, price: str) -> None:
    nodes = [a_node(name) for name in "abc"]
    for node, text in zip(nodes, (price, "1.5", "1"), strict=True):
        node["metadata"]["annotations"] = {"rebalancer/price": text}
    plan = planned(packing, graded("400m", "500m", "1"), nodes)
    assert moved(plan) == {"on-b-0": "c"}
    assert plan.strategies["consolidation"].figures["saving"] == 1.5
    named = "the annotation rebalancer/price of a is no price" in plan.strategies["consolidation"].message
    assert named == (price != "0")


PRICED = """\
apiVersion: rebalancer/v1alpha1
kind: RebalancePolicy
strategies: {consolidation: {prices: {small: 2}, pricesFile: prices.yaml}}
"""


def test_prices_of_a_file_are_taken_where_the_policy_has_none(tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text(PRICED)
    (tmp_path / "prices.yaml").write_text("small: 1\nlarge: 0.5\n")
    settings = Consolidation.settings_in(load_policy(tmp_path / "policy.yaml").policy)
    assert isinstance(settings, ConsolidationSettings)
    assert settings.prices == {"small": 2.0, "large": 0.5}


@pytest.mark.parametrize("text", ["root:x:0:0", "a: .inf", "a: .nan", "a: -1", "a: dear", "[1]", "{", ""])
def test_a_file_of_prices_that_holds_something_else_is_refused_and_not_quoted(
    tmp_path: Path, text: str
) -> None:
    (tmp_path / "policy.yaml").write_text(PRICED)
    (tmp_path / "prices.yaml").write_text(text)
    with pytest.raises(InputError) as found:
        load_policy(tmp_path / "policy.yaml")
    assert found.value.message == "is no table of prices: numbers of 0 or more by instance type"


@pytest.mark.parametrize("price", [float("inf"), float("nan"), -1.0])
def test_a_price_of_the_policy_is_a_finite_number_of_0_or_more(price: float) -> None:
    with pytest.raises(ValidationError):
        a_policy(strategies={"consolidation": {"prices": {"small": price}}})


def test_before_a_later_wave_the_node_is_still_one_to_be_emptied(packing: Any) -> None:
    before = inputs(packing, USUAL, settings={"maxNodes": 1})
    plan = plan_of(before)
    verdicts = Planner(before).recheck(plan.moves)
    assert all(not isinstance(verdict, str) for verdict in verdicts.values())
    assert Planner(before).landed_well(plan, plan.moves[0], "a") is not None


def test_where_one_pod_of_a_node_may_not_leave_any_more_the_others_stay_too(packing: Any) -> None:
    nodes = [a_node(name) for name in "ab"]
    web, full = a_workload("web", ["a"], cpu="300m"), a_workload("full", ["b"], cpu="2")
    plan = planned(packing, [web, a_workload("api", ["a"], cpu="200m"), full], nodes)
    assert set(moved(plan)) == {"web-0", "api-0"}

    held = a_workload("api", ["a"], cpu="200m", annotations={"karpenter.sh/do-not-disrupt": "true"})
    verdicts = Planner(inputs(packing, [web, held, full], nodes)).recheck(plan.moves)
    by_name = {move.pod.name: verdicts[move.pod.uid] for move in plan.moves}
    assert str(by_name["api-0"]).startswith("Annotation: ")
    assert by_name["web-0"] == "Group: it would move only together with default/api-0, which stays"
