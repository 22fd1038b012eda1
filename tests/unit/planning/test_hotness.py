from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from rebalancer.cluster.snapshot import Snapshot
from rebalancer.counting import counted
from rebalancer.errors import SafetyError
from rebalancer.load.scheduler_view import Metric, SchedulerView, WatcherMetrics
from rebalancer.planning.inputs import PlannerOptions
from rebalancer.planning.plan import NodeReport, Plan
from rebalancer.planning.planner import Planner
from rebalancer.planning.prepared import prepare
from rebalancer.policy.schema import RebalancePolicy
from rebalancer.scheduling.registry import load_configuration
from rebalancer.state.run_state import RunState
from tests.builders import a_node
from tests.rows import rows
from tests.unit.planning.builders import (
    NOW,
    a_policy,
    a_workload,
    because,
    kept,
    moved,
    plan_of,
    planning_inputs,
)

UNKNOWN = float("nan")
TRIMARAN = load_configuration(
    """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins: {score: {enabled: [{name: TargetLoadPacking}]}}
  pluginConfig:
  - name: TargetLoadPacking
    args: {watcherAddress: "http://watcher:2020"}
""",
    "test",
)


def report(plan: Plan, name: str) -> NodeReport:
    return next(node for node in plan.nodes if node.name == name)


def hot(plan: Plan) -> set[str]:
    return {node.name for node in plan.nodes if node.hot}


def rules(*items: dict[str, Any]) -> dict[str, Any]:
    return {"forRuns": 1, "any": list(items)}


def utilization(**levels: float) -> dict[str, Any]:
    return {"utilization": levels, "coolTo": {name: level - 15 for name, level in levels.items()}}


def test_a_node_is_hot_only_above_its_threshold() -> None:
    plan = plan_of(planning_inputs([a_node("at"), a_node("over")], load={"at": 80, "over": 80.1}))
    assert hot(plan) == {"over"}


@pytest.mark.parametrize(("percent", "lands"), [(20, {"web-0": "other"}), (94, {})])
def test_without_rules_no_node_is_hot_and_landings_keep_to_max_after(
    percent: float, lands: dict[str, str]
) -> None:
    nodes = [a_node("over", taints=[{"key": "new", "effect": "NoSchedule"}]), a_node("other")]
    policy = a_policy(hotNodes={"any": []}, strategies={"misplaced": True})
    load = {"over": 99.0, "other": percent}
    plan = plan_of(planning_inputs(nodes, [a_workload("web", ["over"])], policy=policy, load=load))
    assert hot(plan) == set()
    assert moved(plan) == lands, "it moves for the taint alone"


def test_a_hot_node_says_its_figure_threshold_and_cool_level() -> None:
    plan = plan_of(planning_inputs([a_node("a")], load={"a": 91}))
    assert report(plan, "a").because[0] == "cpu 91.0 %: hot above 80 %, cool at 65 %"


def test_memory_and_pods_make_a_node_hot_as_cpu_does() -> None:
    policy = a_policy(hotNodes=rules(utilization(memory=70, pods=50)))
    nodes = [a_node("full", pods=2), a_node("big"), a_node("quiet")]
    pods = [a_workload("web", ["full", "full"])]
    plan = plan_of(planning_inputs(nodes, pods, policy=policy, load={"big": (1, 75), "full": 1, "quiet": 1}))
    assert {node.name: node.because[0][:6] for node in plan.nodes if node.hot} == {
        "full": "pods 1",
        "big": "memory",
    }


def test_a_node_is_hot_if_any_rule_matches_and_each_match_is_listed() -> None:
    policy = a_policy(hotNodes=rules(utilization(memory=50), utilization(cpu=90)))
    plan = plan_of(planning_inputs([a_node("a")], policy=policy, load={"a": (95, 60)}))
    assert [text.split()[0] for text in report(plan, "a").because[:2]] == ["memory", "cpu"]


def test_deviation_counts_points_above_the_mean() -> None:
    policy = a_policy(hotNodes=rules({"deviation": {"cpu": 20}, "coolTo": {"cpu": 10}}))
    nodes = [a_node(name) for name in "abc"]
    plan = plan_of(planning_inputs(nodes, policy=policy, load={"a": 30, "b": 30, "c": 60.1}))
    assert report(plan, "c").because[0] == (
        "cpu 60.1 %: hot above 60 % (20 points above the mean of 40.0 %), cool at 50 %"
    )


@pytest.mark.parametrize(
    "left_out",
    [a_node("out", ready=False), a_node("out", unschedulable=True), a_node("out")],
    ids=["not ready", "unschedulable", "unknown"],
)
def test_the_mean_is_of_ready_known_and_schedulable_nodes(left_out: dict[str, Any]) -> None:
    unknown = (
        left_out["status"]["conditions"][0]["status"] == "True" and not left_out["spec"]["unschedulable"]
    )
    policy = a_policy(hotNodes=rules({"deviation": {"cpu": 20}}))
    load = {"a": 20.0, "b": 61.0, "out": UNKNOWN if unknown else 100.0}
    plan = plan_of(planning_inputs([a_node("a"), a_node("b"), left_out], policy=policy, load=load))
    assert "mean of 40.5 %" in report(plan, "b").because[0]


CONTROL_PLANE = {"key": "node-role.kubernetes.io/control-plane", "value": "", "effect": "NoSchedule"}


def even_workers(**pod: Any) -> Plan:
    """Three workers at 60 % beside three idle nodes of the control plane; a pod beside the workers'."""
    nodes = [a_node(f"m{number}", cpu=10, taints=[CONTROL_PLANE]) for number in range(3)]
    nodes += [a_node(f"w{number}", cpu=10) for number in range(3)]
    policy = a_policy(
        hotNodes=rules({"deviation": {"cpu": 20}, "coolTo": {"cpu": 10}}),
        evictable={"namespaces": {"exclude": ["kube-system"]}},
    )
    web = a_workload("web", ["w0", "w1", "w2"], cpu="1")
    other = a_workload("other", ["w0"], **{"cpu": "1m", "tolerations": [{"operator": "Exists"}], **pod})
    load = {f"w{number}": 60.0 for number in range(3)} | {f"m{number}": 0.0 for number in range(3)}
    return plan_of(planning_inputs(nodes, [web, other], policy=policy, load=load))


@pytest.mark.parametrize(
    "pod",
    [{"tolerations": []}, {"kind": "DaemonSet"}, {"namespace": "kube-system"}],
    ids=["it does not tolerate the taint", "a DaemonSet", "a namespace that is left alone"],
)
def test_idle_nodes_that_no_evictable_pod_could_run_on_do_not_lower_the_mean(pod: dict[str, Any]) -> None:
    assert hot(even_workers(**pod)) == set()


def test_idle_nodes_that_an_evictable_pod_tolerates_are_in_the_mean() -> None:
    assert hot(even_workers()) == {"w0", "w1", "w2"}


def test_no_deviation_is_hot_below_its_floor() -> None:
    policy = a_policy(hotNodes=rules({"deviation": {"cpu": 20}, "floor": {"cpu": 70}}))
    plan = plan_of(planning_inputs([a_node("a"), a_node("b")], policy=policy, load={"a": 10, "b": 65}))
    assert hot(plan) == set()


def test_a_node_without_allocatable_pods_does_not_silence_the_deviation_of_pods() -> None:
    policy = a_policy(hotNodes=rules({"deviation": {"pods": 20}}))
    nodes = [a_node("virtual", pods=0), a_node("idle", pods=4), a_node("full", pods=4)]
    plan = plan_of(planning_inputs(nodes, [a_workload("web", ["full"] * 4, cpu="1m")], policy=policy))
    assert hot(plan) == {"full"}


def test_a_node_without_allocatable_pods_can_still_cool() -> None:
    nodes = [a_node("virtual", pods=0), a_node("cool")]
    plan = plan_of(planning_inputs(nodes, [a_workload("web", ["virtual"] * 4, cpu="950m")]))
    assert len(moved(plan)) == 2
    assert report(plan, "virtual").after is not None
    assert not plan.unsolved


def scored(levels: dict[str, float]) -> SchedulerView:
    nodes = {name: (Metric("CPU", "AVG", value),) for name, value in levels.items()}
    return SchedulerView({"http://watcher:2020": WatcherMetrics(nodes, NOW, NOW - 900, NOW, "test")})


SCORE_RULE = {"score": {"plugins": ["TargetLoadPacking"], "below": 30}}


def test_a_node_the_scheduler_scores_low_is_hot_where_its_load_is_above_the_mean() -> None:
    inputs = planning_inputs(
        [a_node("busy"), a_node("free")],
        policy=a_policy(hotNodes=rules(SCORE_RULE)),
        load={"busy": 90, "free": 30},
        configuration=TRIMARAN,
        view=scored({"busy": 90, "free": 30}),
    )
    because = report(plan_of(inputs), "busy").because
    assert because[0] == (
        "score 7 of 100 by TargetLoadPacking, hot below 30, with cpu 90.0 % above the mean of 60.0 %"
    )


def test_a_low_score_alone_does_not_make_a_node_hot() -> None:
    inputs = planning_inputs(
        [a_node("busy"), a_node("free")],
        policy=a_policy(hotNodes=rules(SCORE_RULE)),
        load={"busy": 30, "free": 30},
        configuration=TRIMARAN,
        view=scored({"busy": 90, "free": 30}),
    )
    assert hot(plan_of(inputs)) == set()


@rows(
    "busy, floor, is_hot",
    [
        (30.9, {}, False),  # 0.45 points above the mean of 30.45 %
        (31.0, {}, True),
        (90.0, {"cpu": 89.9}, True),
        (90.0, {"cpu": 90}, False),
    ],
)
def test_the_node_that_is_scored_lowest_is_not_hot_for_that_alone(
    busy: float, floor: dict[str, float], is_hot: bool
) -> None:
    """Some node is always last; it is hot half a point above the mean, and above the rule's floor."""
    inputs = planning_inputs(
        [a_node("busy"), a_node("free")],
        policy=a_policy(hotNodes=rules({**SCORE_RULE, "floor": floor})),
        load={"busy": busy, "free": 30},
        configuration=TRIMARAN,
        view=scored({"busy": 90, "free": 30}),
    )
    assert hot(plan_of(inputs)) == ({"busy"} if is_hot else set())


def test_a_floor_of_what_the_plugin_does_not_score_is_warned_of() -> None:
    inputs = planning_inputs(
        [a_node("busy")],
        policy=a_policy(hotNodes=rules({**SCORE_RULE, "floor": {"memory": 50, "cpu": 50}})),
        configuration=TRIMARAN,
        view=scored({"busy": 90}),
    )
    warning = "hotNodes: a score rule has a floor for memory, which TargetLoadPacking does not score"
    assert f"{warning}: it has no effect" in plan_of(inputs).warnings


def test_a_node_hot_by_score_stays_hot_after_a_plan_that_moves_nothing() -> None:
    inputs = planning_inputs(
        [a_node("busy"), a_node("free")],
        policy=a_policy(hotNodes=rules(SCORE_RULE)),
        load={"busy": 90, "free": 30},
        configuration=TRIMARAN,
        view=scored({"busy": 90, "free": 30}),
    )
    after = report(plan_of(inputs), "busy").after
    assert after is not None
    assert after.hot


def test_no_pod_is_sent_where_it_would_make_a_low_scored_node_hot() -> None:
    inputs = planning_inputs(
        [a_node("busy", cpu=10), a_node("low", cpu=10)],
        [a_workload("web", ["busy"] * 2, cpu="4500m")],
        policy=a_policy(hotNodes=rules(SCORE_RULE)),
        load={"busy": 90, "low": 44},
        configuration=TRIMARAN,
        view=scored({"busy": 90, "low": 85}),
    )
    plan = plan_of(inputs)
    assert moved(plan) == {}
    assert set(kept(plan).values()) == {"NoBetterLanding"}


def test_a_node_is_hot_in_what_the_plugin_scores_not_in_what_stands_out_most() -> None:
    inputs = planning_inputs(
        [a_node("busy"), a_node("free")],
        policy=a_policy(hotNodes=rules(SCORE_RULE)),
        load={"busy": (90, 95), "free": (60, 5)},
        configuration=TRIMARAN,
        view=scored({"busy": 90, "free": 60}),
    )
    found = prepare(inputs).hotness
    assert dict(zip(found.names, found.resources[0].tolist(), strict=True)) == {
        "cpu": True,
        "memory": False,
        "pods": False,
    }
    assert found.cool_to[0].tolist() == [75.0, np.inf, np.inf]


def test_a_node_that_only_another_load_than_the_scored_one_fills_is_not_hot() -> None:
    inputs = planning_inputs(
        [a_node("busy"), a_node("free")],
        policy=a_policy(hotNodes=rules(SCORE_RULE)),
        load={"busy": (30, 95), "free": (60, 5)},
        configuration=TRIMARAN,
        view=scored({"busy": 90, "free": 10}),
    )
    assert hot(plan_of(inputs)) == set()


def test_a_node_that_the_plugin_has_no_figure_of_is_unknown_to_the_rule_and_named() -> None:
    inputs = planning_inputs(
        [a_node("a"), a_node("b")],
        policy=a_policy(hotNodes=rules(SCORE_RULE)),
        load={"a": 30, "b": 10},
        configuration=TRIMARAN,
        view=scored({"10.0.0.1:9100": 30, "b": 10}),
    )
    plan = plan_of(inputs)
    assert (hot(plan), report(plan, "a").scores["TargetLoadPacking"]) == (set(), 0)
    assert (
        "hotNodes: TargetLoadPacking has no figure of node a: its score makes no node hot there"
        in plan.warnings
    )


def test_a_score_rule_of_a_plugin_that_no_profile_enables_says_so() -> None:
    policy = a_policy(hotNodes=rules(SCORE_RULE))
    plan = plan_of(planning_inputs([a_node("a")], policy=policy, load={"a": 90}))
    assert plan.warnings == (
        "hotNodes: no profile that the policy acts on scores by TargetLoadPacking: this score rule makes no "
        "node hot",
    )


def test_an_unknown_node_is_not_hot_and_says_why() -> None:
    plan = plan_of(planning_inputs([a_node("dark"), a_node("b")], load={"dark": UNKNOWN, "b": 1}))
    assert report(plan, "dark").because == ("no fresh load figure: neither hot nor a landing to count on",)
    assert not report(plan, "dark").hot


def test_a_node_is_hot_by_a_figure_that_it_has_though_another_is_unknown_and_it_is_not_known() -> None:
    plan = plan_of(planning_inputs([a_node("half")], load={"half": (95, UNKNOWN)}))
    assert (hot(plan), plan.known_count) == ({"half"}, 0)


def test_pods_leave_a_node_of_which_another_figure_is_unknown_and_none_lands_on_such_a_node() -> None:
    """What the pod uses of memory is not known either; its request counts where it lands."""
    nodes = [a_node("half", cpu=10), a_node("whole", cpu=10)]
    pods = [a_workload("web", ["half"] * 2, cpu="3", memory="1Gi")]
    load = {"half": (95.0, UNKNOWN), "whole": (10.0, 10.0)}
    pod_load = {"web-0": UNKNOWN, "web-1": UNKNOWN}
    plan = plan_of(planning_inputs(nodes, pods, load=load, pod_load=pod_load))
    assert moved(plan) == {"web-0": "whole"}
    assert [set(move.gain) for move in plan.moves] == [{"cpu"}]
    load = {"half": (95.0, 10.0), "whole": (10.0, UNKNOWN)}
    plan = plan_of(planning_inputs(nodes, pods, load=load))
    assert moved(plan) == {}
    assert "whole has no fresh load figure" in because(plan, "web-0")


def test_too_few_known_nodes_refuse_to_plan() -> None:
    policy = a_policy(load={"minCoverage": "80%"})
    with pytest.raises(SafetyError, match="only 1 of 2 nodes have a fresh load figure"):
        Planner(planning_inputs([a_node("a"), a_node("b")], policy=policy, load={"a": UNKNOWN})).plan()


FOR_TWO_RUNS = a_policy(hotNodes={"forRuns": 2})


def hot_once(state: RunState | None) -> Plan:
    nodes = [a_node("hot"), a_node("cool")]
    return plan_of(
        planning_inputs(nodes, [a_workload("web", ["hot"] * 4, cpu="950m")], policy=FOR_TWO_RUNS, state=state)
    )


def test_a_node_hot_for_the_first_run_is_left_alone() -> None:
    plan = hot_once(RunState())
    assert set(kept(plan).values()) == {"HotTooBriefly"}
    assert because(plan, "web-0") == "its node was hot in 1 of 2 required runs"


def test_a_run_too_soon_after_another_says_when_the_next_one_counts() -> None:
    moment = planning_inputs([a_node("a")], policy=FOR_TWO_RUNS).now
    for passed, minutes in (
        (60.0, 7),
        (449.0, 1),
    ):  # of 7.5 minutes: a run 6 minutes later counts for nothing
        plan = hot_once(RunState(hot_streaks={"hot": 1}, hot_counted_at=moment - passed))
        said = f"its node was hot in 1 of 2 required runs; the next run that counts: in {minutes} min"
        assert because(plan, "web-0") == said


def test_a_node_hot_in_enough_runs_is_cooled() -> None:
    assert moved(hot_once(RunState(hot_streaks={"hot": 1})))


def test_without_a_state_a_plan_shows_what_comes_after_enough_runs_and_that_the_next_is_the_first() -> None:
    plan = hot_once(None)
    assert moved(plan)
    which = "this move once its node is" if len(plan.moves) == 1 else "these moves once nodes are"
    assert plan.runs == f"run makes {which} hot in 2 runs at least 7m30s apart; next is run 1"
    assert not [warning for warning in plan.warnings if "hotNodes.forRuns" in warning]
    assert hot_once(RunState(hot_streaks={"hot": 1})).runs == ""


def test_a_run_that_never_knows_of_earlier_ones_counts_each_hot_node_and_the_plan_warns() -> None:
    nodes = [a_node("hot"), a_node("cool")]
    inputs = planning_inputs(nodes, [a_workload("web", ["hot"] * 4, cpu="950m")], policy=FOR_TWO_RUNS)
    plan = Planner(inputs, options=PlannerOptions(remembers_runs=False)).plan()
    assert (bool(plan.moves), plan.runs) == (True, "")
    assert "no state of earlier runs: hot nodes count as hot in 2 runs (hotNodes.forRuns)" in plan.warnings


@pytest.mark.parametrize(
    ("state", "policy", "said"),
    [
        (
            RunState(),
            FOR_TWO_RUNS,
            "hot in 1 of 2 required runs, with this one; a run at least 7m30s after this one",
        ),
        (
            RunState(hot_streaks={"hot": 1}, hot_counted_at=-60.0),
            FOR_TWO_RUNS,
            "hot in 1 of 2 required runs; a run in 7 min or later",
        ),
        (
            RunState(),
            a_policy(hotNodes={"forRuns": 4}),
            "hot in 1 of 4 required runs, with this one; the last of 3 further runs at least 7m30s apart,",
        ),
    ],
)
def test_a_plan_of_a_run_says_which_later_run_moves_what_it_leaves(
    state: RunState, policy: RebalancePolicy, said: str
) -> None:
    nodes = [a_node("hot"), a_node("cool")]
    pods = [a_workload("web", ["hot"] * 4, cpu="950m")]
    moment = planning_inputs(nodes, pods, policy=policy).now
    if state.hot_counted_at < 0:
        state = replace(state, hot_counted_at=moment + state.hot_counted_at)
    planner = Planner(planning_inputs(nodes, pods, policy=policy, state=state))
    plan = planner.plan()
    enough = replace(state, hot_streaks={"hot": 9}, hot_counted_at=0.0)
    then = plan_of(planning_inputs(nodes, pods, policy=policy, state=enough))
    moves = counted(len(then.moves), "pod")
    assert (plan.moves, bool(then.moves)) == ((), True)
    assert planner.in_later_run(plan) == (
        f"hot nodes wait: {said} that finds them still hot would move {moves}"
    )


def test_of_a_later_run_that_moves_nothing_either_nothing_is_said() -> None:
    nodes = [a_node("hot"), a_node("cool")]
    policy = a_policy(hotNodes={"forRuns": 2}, evictable={"podSelector": {"matchLabels": {"tier": "other"}}})
    pods = [a_workload("web", ["hot"] * 4, cpu="950m")]
    planner = Planner(planning_inputs(nodes, pods, policy=policy, state=RunState()))
    assert planner.in_later_run(planner.plan()) == ""


def test_a_protection_is_reported_before_the_hot_streak() -> None:
    nodes = [a_node("hot"), a_node("cool")]
    pods = [a_workload("agent", ["hot"], kind="DaemonSet", cpu="3900m")]
    plan = plan_of(planning_inputs(nodes, pods, policy=FOR_TWO_RUNS, state=RunState()))
    assert kept(plan) == {"agent-0": "DaemonSet"}


def test_snapshots_are_not_changed_by_planning() -> None:
    inputs = planning_inputs([a_node("hot"), a_node("cool")], [a_workload("web", ["hot"] * 4, cpu="950m")])
    snapshot: Snapshot = inputs.snapshot
    before = inputs.load.usage.copy(), snapshot.pods.node.copy()
    plan_of(inputs)
    assert (inputs.load.usage == before[0]).all()
    assert (snapshot.pods.node == before[1]).all()


def hot_by(percents: Mapping[str, float], labels: Mapping[str, str], **rules: Any) -> set[str]:
    """Names of hot nodes; ``labels`` gives each node's pool."""
    nodes = [a_node(name, labels={"pool": labels[name]} if name in labels else {}) for name in percents]
    policy = a_policy(hotNodes={"forRuns": 1, "any": [{"utilization": {"cpu": 80}}], **rules})
    plan = plan_of(planning_inputs(nodes, load=percents, policy=policy))
    return {node.name for node in plan.nodes if node.hot}


def test_a_pool_has_thresholds_of_its_own() -> None:
    pool = {
        "name": "gpu",
        "nodeSelector": {"matchLabels": {"pool": "gpu"}},
        "any": [{"utilization": {"cpu": 95}}],
    }
    assert hot_by({"a": 85, "g": 85, "h": 96}, {"g": "gpu", "h": "gpu"}, pools=[pool]) == {"a", "h"}


def test_a_pool_without_rules_is_never_hot() -> None:
    pool = {"name": "batch", "nodeSelector": {"matchLabels": {"pool": "batch"}}}
    assert hot_by({"a": 85, "b": 100}, {"b": "batch"}, pools=[pool]) == {"a"}


def test_the_first_pool_that_selects_a_node_counts() -> None:
    pools = [
        {
            "name": "one",
            "nodeSelector": {"matchLabels": {"pool": "x"}},
            "any": [{"utilization": {"cpu": 99}}],
        },
        {"name": "all", "nodeSelector": {}, "any": [{"utilization": {"cpu": 50}}]},
    ]
    assert hot_by({"a": 60, "x": 90}, {"x": "x"}, pools=pools) == {"a"}


def test_the_mean_of_a_pool_is_over_its_own_nodes() -> None:
    pool = {
        "name": "p",
        "nodeSelector": {"matchLabels": {"pool": "p"}},
        "any": [{"deviation": {"cpu": 10}, "coolTo": {"cpu": 5}}],
    }
    percents = {"a": 10, "b": 10, "p": 60, "q": 60, "r": 75}
    assert hot_by(percents, dict.fromkeys("pqr", "p"), pools=[pool]) == set()
    percents["r"] = 90
    assert hot_by(percents, dict.fromkeys("pqr", "p"), pools=[pool]) == {"r"}


def test_only_selected_nodes_are_hot_and_no_pod_is_sent_where_it_would_make_another_hot() -> None:
    selector = {"matchLabels": {"pool": "mine"}}
    assert hot_by({"a": 95, "b": 95}, {"a": "mine"}, nodeSelector=selector) == {"a"}
    nodes = [a_node("a", labels={"pool": "mine"}), a_node("b")]
    policy = a_policy(hotNodes={"any": [{"utilization": {"cpu": 80}}], "nodeSelector": selector})
    web = a_workload("web", ["a"], cpu="3500m")
    assert plan_of(planning_inputs(nodes, [web], policy=policy, load={"b": 70})).moves == ()


@pytest.mark.parametrize(
    ("version", "evictable"), [("1.99", {}), ("1.35", {"namespaces": {"exclude": ["no-such-namespace"]}})]
)
def test_a_plan_that_a_run_refuses_is_not_said_to_be_carried_out_once_nodes_are_hot_in_enough_runs(
    version: str, evictable: dict[str, Any]
) -> None:
    inputs = planning_inputs(
        [a_node("hot"), a_node("cool")],
        [a_workload("web", ["hot"] * 4, cpu="950m")],
        policy=a_policy(hotNodes={"forRuns": 2}, evictable=evictable),
    )
    (scheduler,) = inputs.schedulers
    plan = plan_of(replace(inputs, state=None, schedulers=(replace(scheduler, version=version),)))
    assert moved(plan)
    assert plan.refusals or plan.protects_nothing
    assert plan.runs.startswith("run refuses to act on this plan; otherwise run makes th")
