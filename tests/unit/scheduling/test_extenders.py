"""Scores of extenders in the model: what reaches the scheduler, how ties are broken, what is not known."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from rebalancer.cluster.snapshot import Snapshot
from rebalancer.errors import InputError
from rebalancer.load.scheduler_view import SchedulerView
from rebalancer.planning import scheduler_facts
from rebalancer.planning.inputs import canonical
from rebalancer.policy.policy_file import LoadedPolicy
from rebalancer.policy.schema import RebalancePolicy
from rebalancer.profiles.types import ConfigurationText, PluginDescription, SchedulerConfiguration
from rebalancer.scheduling.framework.cycle import Placement
from rebalancer.scheduling.framework.plugin import PluginInputs
from rebalancer.scheduling.registry import make_scheduler, plugin_queries
from rebalancer.scheduling.state.cluster_state import ClusterState
from rebalancer.scheduling.versions.release import Release
from tests.builders import a_node, a_pod, a_snapshot
from tests.extender.classes import own_plugins
from tests.unit.planning.builders import a_workload, because, moved, plan_of, planning_inputs

URL, ADDRESS, QUERY = "http://localhost:8890", "http://prometheus:9090", "busy"
BUSY = {"name": "Busy", "prometheusScore": {"address": ADDRESS, "query": QUERY, "normalization": "none"}}
PODS_PER_NODE = {"plugin": "PodCapacityOfNode"}
NO_OTHER_SCORE = {"profiles": [{"plugins": {"score": {"disabled": [{"name": "*"}]}}}]}
ARTICLE = {"node1": 21, "node2": 17, "node3": 25}


def configured(
    *scores: dict[str, Any],
    max_score: int = 10,
    document: Mapping[str, Any] = NO_OTHER_SCORE,
    installed: Callable[[], Iterable[PluginDescription]] = tuple,
    **extender: Any,
) -> SchedulerConfiguration:
    """A configuration with one extender, which the policy says computes these scores."""
    settings = {"urlPrefix": URL, "prioritizeVerb": "prioritize", "weight": 1, "nodeCacheCapable": True}
    file = {"apiVersion": "rebalancer/v1alpha1", "kind": "ExtenderScores", "maxScore": max_score}
    policy = RebalancePolicy.model_validate(
        {"scheduler": {"extenders": [{"urlPrefix": f"{URL}/", "scores": {**file, "scores": scores}}]}}
    )
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    text = json.dumps({**head, **document, "extenders": [settings | extender]})
    known = {item.url: item.scores or "" for item in policy.schedulers[0].extenders}
    written = ConfigurationText(text, "c.yaml", known)
    return scheduler_facts.configured(
        LoadedPolicy(policy, "p.yaml", ""), policy.schedulers[0], written, (), installed
    )


def placed(
    configuration: SchedulerConfiguration,
    snapshot: Snapshot,
    values: Mapping[str, float] | None = None,
    release: str = "1.35",
) -> Placement:
    view = SchedulerView(queries={(ADDRESS, QUERY): values} if values is not None else {})
    state = ClusterState.of(snapshot, Release.of(release))
    inputs = PluginInputs.of(snapshot, view)
    row = snapshot.pods.row["default", "p"]
    return make_scheduler(configuration, configuration.profiles[0], inputs).place(state, state.pod_class[row])


def the_article() -> Snapshot:
    pods = [
        a_pod(f"{node}-{number}", node=node) for node, count in ARTICLE.items() for number in range(count)
    ]
    return a_snapshot(nodes=[a_node(name, pods=110) for name in ARTICLE], pods=[*pods, a_pod("p")])


@pytest.mark.parametrize(
    ("max_score", "weight", "added", "chances"),
    [
        (100, 1, [800, 840, 770], [0.0, 1.0, 0.0]),
        (10, 1, [80, 80, 70], [0.5, 0.5, 0.0]),
        (10, 3, [240, 240, 210], [0.5, 0.5, 0.0]),
    ],
)
def test_an_answer_counts_ten_times_its_weight_and_ten_steps_make_near_nodes_equal(
    max_score: int, weight: int, added: list[int], chances: list[float]
) -> None:
    placement = placed(configured(PODS_PER_NODE, max_score=max_score, weight=weight), the_article())
    assert placement.totals.tolist() == added
    assert placement.chance.tolist() == chances
    assert placement.tie is None


def test_what_it_answers_is_added_to_what_the_plugins_score() -> None:
    snapshot = the_article()
    both = placed(configured(PODS_PER_NODE, document={}), snapshot)
    without = both.totals - both.scores["extender/PodCapacityOfNode"]
    assert both.scores["extender/PodCapacityOfNode"].tolist() == [80, 80, 70]
    assert len(both.scores) > 3
    assert (without > 0).all()


@pytest.mark.parametrize(("release", "drawn"), [("1.34", True), ("1.35", True), ("1.36", True)])
def test_equal_nodes_are_drawn_where_an_extender_is_asked(release: str, drawn: bool) -> None:
    snapshot = a_snapshot(nodes=[a_node(name) for name in "abcd"], pods=[a_pod("p")])
    placement = placed(configured(PODS_PER_NODE), snapshot, release=release)
    assert placement.chance.tolist() == [0.25] * 4
    assert (placement.tie is None) is drawn


def test_of_pods_that_it_is_not_asked_about_the_start_decides_as_without_it() -> None:
    snapshot = a_snapshot(nodes=[a_node(name) for name in "abcd"], pods=[a_pod("p")])
    placement = placed(configured(PODS_PER_NODE, managedResources=[{"name": "example.com/gpu"}]), snapshot)
    assert placement.tie is not None
    assert placement.totals.tolist() == [0] * 4


def test_a_node_without_a_figure_gets_nothing_and_changes_no_other() -> None:
    snapshot = a_snapshot(nodes=[a_node(name) for name in "abc"], pods=[a_pod("p")])
    assert placed(configured(BUSY), snapshot, {"a": 19, "c": 65}).totals.tolist() == [80, 0, 30]
    ranged = {**BUSY, "prometheusScore": {**BUSY["prometheusScore"], "normalization": "range"}}  # type: ignore[dict-item]
    assert placed(configured(ranged), snapshot, {"a": 10, "c": 20}).totals.tolist() == [100, 0, 0]
    assert placed(configured(BUSY), snapshot, {}).totals.tolist() == [0, 0, 0]


def test_it_filters_before_scores_are_compared() -> None:
    score = {"name": "Busy", "prometheusScore": {"address": ADDRESS, "query": QUERY}, "rejectAbove": 90}
    snapshot = a_snapshot(nodes=[a_node(name) for name in "abcd"], pods=[a_pod("p")])
    values = {"a": 95.0, "b": 60.0, "c": 20.0}
    placement = placed(configured(score, filterVerb="filter"), snapshot, values)
    assert placement.feasible.tolist() == [1, 2, 3]
    assert placement.totals.tolist() == [0, 100, 0]
    assert placed(configured(score), snapshot, values).feasible.tolist() == [0, 1, 2, 3]


SAMPLED = [f"n-{number:03}" for number in range(150)]  # the scheduler ends its search at a hundred


def of_sampled(values: Mapping[str, float], pods: Iterable[Mapping[str, Any]] = (), **pod: Any) -> Placement:
    """Where a pod is placed by what an extender says, which rejects nodes above 90."""
    score = {"name": "Busy", "prometheusScore": {"address": ADDRESS, "query": QUERY}, "rejectAbove": 90}
    snapshot = a_snapshot(nodes=[a_node(name) for name in SAMPLED], pods=[*pods, a_pod("p", **pod)])
    document = {} if pod else NO_OTHER_SCORE
    configuration = configured(score, filterVerb="filter", max_score=100, document=document)
    return placed(configuration, snapshot, values)


def test_what_it_rejects_of_a_sample_is_never_a_landing() -> None:
    cool = dict.fromkeys(SAMPLED, 40.0)
    best = {**cool, "n-000": 1.0, "n-001": 2.0}
    assert of_sampled(best).chance[:2].sum() > 0.6
    placement = of_sampled({**best, "n-000": 95.0, "n-140": 95.0})
    assert not {0, 140} & set(placement.feasible.tolist())
    assert placement.chance[0] == placement.chance.max() > 0.6
    assert placement.is_sampled
    assert placement.chance.sum() == pytest.approx(1.0)


def test_where_it_may_reject_all_that_a_search_finds_no_landing_is_known() -> None:
    assert of_sampled({name: 95.0 * (number < 99) for number, name in enumerate(SAMPLED)}).chance.any()
    placement = of_sampled({name: 95.0 * (number < 100) for number, name in enumerate(SAMPLED)})
    assert "it may reject all those that a search finds" in placement.rejected
    assert not placement.chance.any()


@pytest.mark.parametrize(
    ("extender", "why"),
    [
        ({"prioritizeVerb": "score"}, "the verbs of a rebalancer extender are filter and prioritize"),
        ({"bindVerb": "bind"}, "a rebalancer extender neither binds nor preempts"),
        ({"nodeCacheCapable": False}, "a rebalancer extender needs nodeCacheCapable: true"),
    ],
)
def test_an_extender_that_ours_cannot_be_stays_unpredictable(extender: dict[str, Any], why: str) -> None:
    configuration = configured(PODS_PER_NODE, **extender)
    assert not configuration.computed
    assert configuration.warnings == (f"p.yaml: scheduler.extenders: extender {URL} is not computed: {why}",)
    nodes = [a_node("hot", cpu=7), a_node("cold", cpu=100)]
    plan = plan_of(
        planning_inputs(nodes, [a_workload("web", ["hot", "hot"], cpu="3")], configuration=configuration)
    )
    assert "scheduler.extenders of the policy does not say what it computes" in because(plan, "web-0")


def test_a_plan_moves_pods_of_an_extender_that_is_computed() -> None:
    nodes = [a_node("hot", cpu=7), a_node("full", cpu=100, pods=10), a_node("free", cpu=100)]
    workloads = [a_workload("web", ["hot", "hot"], cpu="3"), a_workload("other", ["full"] * 8, cpu="10m")]
    inputs = planning_inputs(nodes, workloads, configuration=configured(PODS_PER_NODE))
    assert moved(plan_of(inputs)) == {"web-0": "free"}


def test_what_the_extender_needs_that_is_missing_makes_its_pods_unpredictable() -> None:
    nodes = [a_node("hot", cpu=7), a_node("cold", cpu=100)]
    inputs = planning_inputs(
        nodes, [a_workload("web", ["hot", "hot"], cpu="3")], configuration=configured(BUSY)
    )
    assert because(plan_of(inputs), "web-0").startswith("what extender/Busy sees is unknown")


def test_a_query_that_is_named_as_a_plugin_is_asked_and_so_is_a_plugins_own() -> None:
    named = configured({**BUSY, "name": "NetworkTraffic"})
    assert [item.query for item in plugin_queries(named)] == [QUERY]
    args = {"ip": ADDRESS, "deviceName": "eth0", "timeRange": 3}
    (asked,) = plugin_queries(configured({"plugin": "NetworkTraffic", "args": args}))
    assert "[3m]" in asked.query


def test_the_scores_of_extenders_are_part_of_a_digest() -> None:
    texts = [ConfigurationText("a: 1", "c", {URL: scores}) for scores in ("x", "y")]
    assert canonical(texts[0]) != canonical(texts[1])


def test_what_an_extender_keeps_from_the_scheduler_is_not_asked_of_nodes() -> None:
    asks = {"name": "example.com/gpu", "ignoredByScheduler": True}
    configuration = configured(PODS_PER_NODE, managedResources=[asks], document={})
    pod = a_pod("p")
    pod["spec"]["containers"][0]["resources"]["requests"] = {"example.com/gpu": "1"}
    snapshot = a_snapshot(nodes=[a_node("a"), a_node("b")], pods=[pod])
    assert placed(configuration, snapshot).feasible.tolist() == [0, 1]


def test_yaml_of_the_docs_is_read() -> None:
    """A mapping in a policy is kept as text."""
    policy = RebalancePolicy.model_validate(
        {"scheduler": {"extenders": [{"urlPrefix": URL, "scores": {"scores": [PODS_PER_NODE]}}]}}
    )
    assert yaml.safe_load(policy.schedulers[0].extenders[0].scores or "") == {"scores": [PODS_PER_NODE]}


def test_scores_of_a_policy_import_nothing_and_may_name_what_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "a_trap.py").write_text("raise SystemExit('imported')")
    with pytest.raises(InputError, match="class: unknown field"):
        configured({"class": "a_trap:Score"})
    with pytest.raises(InputError, match=r"p.yaml scheduler.extenders .*a_trap:Score is unknown"):
        configured({"plugin": "a_trap:Score"})
    assert "extender/FewPods" in configured({"plugin": "FewPods"}, installed=own_plugins).plugins
