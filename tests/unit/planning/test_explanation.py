from __future__ import annotations

import re

import pytest
from msgspec.structs import replace

from rebalancer.errors import InputError
from rebalancer.planning.explanation import (
    LOAD_NOT_KNOWN,
    NodeExplanation,
    PodExplanation,
    WorkloadExplanation,
)
from rebalancer.planning.inputs import PlanningInputs
from rebalancer.planning.planner import Planner
from rebalancer.planning.subjects import find_subject, parse_subject
from rebalancer.reporting.tables.explain import explain_table
from tests.builders import a_budget, a_node, a_pod, a_snapshot
from tests.rows import rows
from tests.unit.planning.builders import a_policy, a_workload, at, planning_inputs


def _inputs() -> PlanningInputs:
    """Node hot at 100 %; cool is empty; small is too small; cordoned and away are not for these pods."""
    return planning_inputs(
        [
            a_node("hot"),
            a_node("cool"),
            a_node("small", cpu="500m"),
            a_node("tiny", cpu="500m"),
            a_node("cordoned", unschedulable=True),
        ],
        [a_workload("web", ["hot", "hot"], cpu="1500m"), a_workload("side", ["hot"], cpu="1")],
    )


def _pod(inputs: PlanningInputs, name: str) -> PodExplanation:
    found = Planner(inputs).explain(find_subject(inputs.snapshot, name))
    assert isinstance(found, PodExplanation)
    return found


def _node(inputs: PlanningInputs, name: str) -> NodeExplanation:
    found = Planner(inputs).explain(find_subject(inputs.snapshot, name))
    assert isinstance(found, NodeExplanation)
    return found


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("shop/web-0", "did you mean pod/shop/web-0 or deployment/shop/web-0?"),
        ("web-0", "did you mean node/web-0 or pod/web-0 or deployment/web-0?"),
        ("nod/hot", "did you mean node/hot?"),
    ],
)
def test_a_name_without_a_kind_is_answered_with_the_kinds_it_may_have(text: str, meant: str) -> None:
    with pytest.raises(InputError, match=re.escape(meant)):
        parse_subject(text)


@rows(
    "name, namespace, kind",
    [
        ("hot", "", "node"),
        ("web-0", "", "pod"),
        ("web-0", "default", "pod"),
        ("hot", "default", "node"),
        ("side", "", "ReplicaSet"),
    ],
)
def test_a_name_will_do_where_only_one_thing_has_it(name: str, namespace: str, kind: str) -> None:
    found = find_subject(_inputs().snapshot, parse_subject(name, namespace, name_will_do=True))

    assert found.kind == kind


@rows(
    "name, said",
    [
        ("web", "'web' names node/web and replicaset/web (say which)"),
        ("hto", "no node 'hto' (did you mean node/hot"),
        ("like-nothing", "'like-nothing' names neither a pod nor a node nor a workload"),
        ("pod", "'pod' names neither a pod nor a node nor a workload"),
    ],
)
def test_a_name_that_none_or_several_have_is_refused(name: str, said: str) -> None:
    snapshot = planning_inputs([a_node("hot"), a_node("web")], [a_workload("web", ["hot"])]).snapshot
    with pytest.raises(InputError) as caught:
        find_subject(snapshot, parse_subject(name, name_will_do=True))

    assert said in str(caught.value)


@rows(
    "name, meant",
    [
        ("node/node-128", "(did you mean node/node-1280 or node/node-1281?)"),
        ("node/node-1820", "(did you mean node/node-1280 or "),
        ("pod/shop", "(did you mean pod/default/shop-7-1 or pod/default/shop-7-0?)"),
        ("replicaset/shop", "(did you mean replicaset/default/shop-7?)"),
    ],
)
def test_a_name_without_its_end_is_answered_with_those_that_begin_so(name: str, meant: str) -> None:
    nodes = [a_node("node-1280"), a_node("node-1281"), a_node("node-18")]
    workloads = [a_workload("shop-7", ["node-18"] * 2), a_workload("shap", ["node-18"])]
    snapshot = planning_inputs(nodes, workloads).snapshot
    with pytest.raises(InputError) as caught:
        find_subject(snapshot, name)

    assert meant in str(caught.value)


@rows("text", ["service/web", "svc/web", "services/web", "ing/web"])
def test_a_kind_that_is_explained_by_nothing_is_not_taken_for_a_namespace(text: str) -> None:
    with pytest.raises(InputError, match="of kinds there are pod, node, deployment, ") as caught:
        parse_subject(text)

    assert "did you mean" not in str(caught.value)


def test_a_pod_that_moves_is_explained_with_its_landing_and_its_gain() -> None:
    explained = _pod(_inputs(), "pod/default/web-0")

    assert (explained.evictable, explained.verdict, explained.node) == (True, "Moved", "hot")
    assert [(item.node, item.probability) for item in explained.landings] == [("cool", 1.0)]
    assert explained.staying is not None
    assert explained.staying.forgone["cpu"] == 62.5  # from 100 % to 37.5 %
    assert explained.staying.above == {"cpu": 35.0}
    assert explained.staying.share["cpu"] == 37.5


def test_a_protected_pod_is_explained_with_every_reason_and_the_setting_behind_it() -> None:
    """Whoever lifts the first protection would otherwise meet the next one in the next plan."""
    inputs = planning_inputs(
        [a_node("hot"), a_node("cool")],
        [a_workload("web", ["hot"], cpu="3500m", spec={"volumes": [{"name": "cache", "emptyDir": {}}]})],
        policy=a_policy(evictable={"protect": ["SingleReplica", "LocalStorage"], "minReplicas": 2}),
    )
    explained = _pod(inputs, "pod/default/web-0")
    settings = (
        "evictable.protect: LocalStorage",
        "evictable.protect: SingleReplica",
        "evictable.minReplicas",
    )
    assert tuple(item.setting for item in explained.refusals) == settings
    assert explained.refusals[0].because == explained.because
    table = " ".join(explain_table(explained).plain.split())
    assert "protected (LocalStorage): volume cache is an emptyDir freed by evictable.protect: [" in table
    assert "also protected (MinReplicas): " in table


def test_what_is_unknown_of_a_pod_without_a_controller_is_not_called_unread() -> None:
    """Of a controller that is gone the kind was read; a pod that never had one names no kind."""
    lost = a_workload("web", ["hot"])
    inputs = planning_inputs([a_node("hot")], pods=[*lost.pods, a_pod("bare", node="hot")])
    unread = planning_inputs([a_node("hot")], pods=lost.pods, unread=["replicasets"])

    for name in ("web-0", "bare"):
        because = [item.because for item in _pod(inputs, f"pod/default/{name}").refusals]
        assert "no controller says how many are wanted" in because
        assert not any("not read" in words for words in because)
    because = [item.because for item in _pod(unread, "pod/default/web-0").refusals]
    assert "ReplicaSets were not read: how many it wants is unknown" in because


def test_scores_by_plugin_add_up_to_the_total_and_the_best_node_has_the_chance() -> None:
    table = _pod(_inputs(), "pod/default/web-0").table

    assert table is not None
    assert table.feasible == len(table.nodes) == 1
    only = table.nodes[0]
    assert (only.node, only.probability) == ("cool", 1.0)
    assert only.total == sum(only.scores.values())
    assert "NodeResourcesFit" in only.scores


def test_a_landing_back_on_its_own_node_leaves_that_as_it_is() -> None:
    """It uses there what it did: counted twice, a node at 88 % would be said to end at 126 %."""
    inputs = planning_inputs(
        [a_node("hot"), a_node("full")],
        [a_workload("web", ["hot"], cpu="1"), a_workload("all", ["full"], cpu="4")],
        load={"hot": 87.5, "full": 40.0},
    )
    explained = _pod(inputs, "pod/default/web-0")

    assert explained.table is not None
    (own,) = explained.table.nodes
    assert (own.node, own.unacceptable) == ("hot", "hot is the node it leaves")
    assert explained.staying is not None
    assert own.after["cpu"] == explained.staying.load["cpu"] == 87.5


def test_infeasible_nodes_are_grouped_by_reason_with_the_most_frequent_first() -> None:
    table = _pod(_inputs(), "pod/default/web-0").table

    assert table is not None
    assert [(item.reason, item.count, item.nodes) for item in table.rejected] == [
        ("NodeResourcesFit: Insufficient cpu", 3, ("hot", "small", "tiny")),
        ("NodeUnschedulable: node(s) were unschedulable", 1, ("cordoned",)),
    ]


def test_a_protected_pod_is_explained_with_its_reason_and_with_where_it_would_have_gone() -> None:
    inputs = planning_inputs(
        [a_node("hot"), a_node("cool")],
        [a_workload("web", ["hot"], cpu="3"), a_workload("side", ["hot"], cpu="500m")],
        policy=a_policy(evictable={"protect": ["SingleReplica"]}),
    )
    explained = _pod(inputs, "pod/default/web-0")

    assert (explained.evictable, explained.reason, explained.verdict) == (
        False,
        "SingleReplica",
        "SingleReplica",
    )
    assert [item.node for item in explained.landings] == ["cool"]


def test_a_pod_on_a_node_that_is_not_hot_costs_nothing_by_staying() -> None:
    inputs = planning_inputs([a_node("a"), a_node("b")], [a_workload("web", ["a", "b"])])
    explained = _pod(inputs, "pod/default/web-0")

    assert explained.verdict == "NodeNotHot"
    assert explained.staying is not None
    assert explained.staying.because == "nothing: a is not hot"


def test_a_node_whose_load_is_not_known_is_not_said_to_be_not_hot_where_its_pods_are_explained() -> None:
    nodes, web = [a_node("dark"), *map(a_node, "abcd")], a_workload("web", ["dark", "a"])
    inputs = planning_inputs(nodes, [web], load={"dark": (float("nan"), float("nan"))})
    pod = _pod(inputs, "pod/default/web-0")
    node = _node(inputs, "node/dark")
    workload = Planner(inputs).explain(find_subject(inputs.snapshot, "replicaset/default/web"))

    assert (pod.verdict, pod.verdict_because) == (
        "NodeNotHot",
        "the load of dark is not known, so it is not taken for hot: nothing needs to leave it",
    )
    assert pod.staying is not None
    assert pod.staying.because == "nothing: the load of dark is not known, so it is not taken for hot"
    assert [item.because for item in node.pods] == [LOAD_NOT_KNOWN]
    assert isinstance(workload, WorkloadExplanation)
    known = "nothing protects it, and its node is not hot"
    assert [item.because for item in workload.pods] == [LOAD_NOT_KNOWN, known]
    assert "may move, but its node has no known load" in explain_table(workload).plain


def test_a_landing_that_would_not_do_says_why_in_the_table() -> None:
    inputs = planning_inputs(
        [a_node("hot"), a_node("warm")],
        [a_workload("web", ["hot", "hot"], cpu="1800m"), a_workload("other", ["warm"], cpu="2")],
    )
    explained = _pod(inputs, "pod/default/web-0")

    assert explained.verdict == "NoBetterLanding"
    assert explained.unacceptable == 1.0
    assert explained.table is not None
    assert "warm would be at 95.0 % cpu, hot above 80.0 %" in explained.table.nodes[0].unacceptable


def test_a_pending_pod_is_explained_with_its_own_cycle_not_with_that_of_one_after_it() -> None:
    inputs = planning_inputs(
        [a_node("one", cpu="4"), a_node("other", cpu="4")],
        [a_workload("side", ["other"], cpu="1"), a_workload("web", [""], cpu="2500m")],
    )

    explained = _pod(inputs, "pod/default/web-0")

    assert explained.table is not None
    assert [(row.node, row.after["cpu"]) for row in explained.table.nodes] == [("one", 62.5), ("other", 87.5)]
    assert [(item.node, item.probability) for item in explained.landings] == [("one", 1.0)]
    assert (explained.node, explained.staying) == ("", None)
    assert explained.because == "it is Pending: it runs on no node"
    assert len(explained.refusals) == 1


def test_a_node_is_explained_with_why_it_is_hot_and_every_pod_with_share_and_verdict() -> None:
    explained = _node(_inputs(), "node/hot")

    assert explained.hot
    assert explained.because == ("cpu 100.0 %: hot above 80 %, cool at 65 %",)
    assert explained.after["cpu"] <= 65.0
    verdicts = {pod.pod.name: (pod.share["cpu"], pod.verdict) for pod in explained.pods}
    assert set(verdicts) == {"web-0", "web-1", "side-0"}
    assert sorted(verdict for _, verdict in verdicts.values()) == ["Moved", "NotNeeded", "NotNeeded"]
    assert verdicts["side-0"][0] == 25.0


def test_pods_of_a_cool_node_are_listed_as_evictable_or_not() -> None:
    inputs = planning_inputs(
        [a_node("a"), a_node("b")],
        [a_workload("web", ["a"]), a_workload("agent", ["a"], kind="DaemonSet")],
    )
    explained = _node(inputs, "node/a")

    assert {pod.pod.name: pod.verdict for pod in explained.pods} == {
        "web-0": "Evictable",
        "agent-0": "DaemonSet",
    }


@rows(
    "asked, suggested",
    [
        ("pod/default/wev-0", "pod/default/web-0"),
        ("pod/defautl/web-0", "pod/default/web-0"),
        ("pod/web-7", "pod/default/web-"),
        ("node/hott", "node/hot"),
        ("nod/hot", "node/hot"),
        ("hot", "pod/NAMESPACE/NAME, node/NAME or, for example, deployment/"),
        ("node/", "pod/NAMESPACE/NAME, node/NAME or, for example, deployment/"),
        ("pod/a/b/c", "pod/NAMESPACE/NAME, node/NAME or, for example, deployment/"),
    ],
)
def test_a_name_that_is_nearly_one_gets_a_suggestion(asked: str, suggested: str) -> None:
    with pytest.raises(InputError) as caught:
        find_subject(_inputs().snapshot, asked)

    assert suggested in caught.value.hint


def test_a_workload_is_explained_by_its_pods_however_kubectl_names_its_kind() -> None:
    inputs = _inputs()
    subjects = {find_subject(inputs.snapshot, f"{kind}/web") for kind in ("rs", "replicasets", "ReplicaSet")}
    found = Planner(inputs).explain(subjects.pop())

    assert subjects == set()
    assert isinstance(found, WorkloadExplanation)
    assert {pod.pod.workload for pod in found.pods} == {"ReplicaSet/web"}
    assert found.pods[0].verdict == "Moved"
    assert len(found.pods) == sum(
        pod.owner.name == "web"
        for pod in map(inputs.snapshot.pods.class_of, range(len(inputs.snapshot.pods)))
    )


@pytest.mark.parametrize(("text", "namespace"), [("po/web-0", "default"), ("no/hot", "default")])
def test_a_namespace_completes_the_name_of_what_has_one(text: str, namespace: str) -> None:
    assert parse_subject(text, namespace).name == {"po/web-0": "default/web-0", "no/hot": "hot"}[text]
    with pytest.raises(InputError, match="-n asks for"):
        parse_subject("pod/other/web-0", namespace)


def test_a_pod_may_be_named_without_its_namespace_where_only_one_has_it() -> None:
    snapshot = _inputs().snapshot
    assert find_subject(snapshot, "pod/web-0") == find_subject(snapshot, "pod/default/web-0")

    twice = planning_inputs(
        [a_node("a")], [a_workload("web", ["a"]), a_workload("web", ["a"], namespace="shop")]
    ).snapshot
    with pytest.raises(InputError, match="2 namespaces"):
        find_subject(twice, "pod/web-0")


def test_a_chance_that_is_another_once_the_evicted_pod_is_gone_is_said_to_be_over_both_times() -> None:
    here = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["a"]}
    preferred = [{"weight": 100, "preference": {"matchExpressions": [here]}}]
    spec = {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}}
    web = a_workload("web", ["a"], cpu="3500m", spec=spec)
    inputs = planning_inputs([a_node("a"), a_node("b")], [web])

    explained = _pod(inputs, "pod/default/web-0")

    assert explained.table is not None
    (only,) = explained.table.nodes  # a has no room for it before the pod is gone
    assert (only.node, only.probability, only.in_course) == ("b", 0.5, 1.0)
    said = " ".join(explain_table(explained).plain.split())
    assert "HERE: the chance with these scores; CHANCE is over all courses, and over the time once" in said


HOT_AND_COOL = (a_node("a", cpu=10), a_node("cool", cpu=100))
YOUNG = a_policy(evictable={"minAge": "10m"})


def test_a_node_names_what_holds_its_own_load_and_not_that_of_others() -> None:
    nodes = (*HOT_AND_COOL, a_node("b", cpu=10))
    budget = a_budget("tight", labels={"app": "web"}, allowed=0)
    workloads = [
        a_workload("fresh", ["a"] * 9, cpu="1", created=at(-60)),
        a_workload("web", ["b"] * 9, cpu="1"),
    ]
    inputs = planning_inputs(nodes, workloads, policy=YOUNG, poddisruptionbudgets=[budget])

    explained = _node(inputs, "node/b")

    assert [(item.reasons, item.share, item.pods) for item in explained.obstacles] == [(("Budget",), 1.0, 9)]
    assert "load that could leave and does not: 100% by Budget" in explain_table(explained).plain


@pytest.mark.parametrize(
    ("selector", "said"),
    [
        ({}, " is freed by limits.perRun: 1\n"),
        ({"kubernetes.io/hostname": "a"}, "without limits.perRun alone no pod is found to leave\n"),
    ],
)
def test_a_node_names_no_limit_as_what_frees_pods_that_would_stay_all_the_same(
    selector: dict[str, str], said: str
) -> None:
    web = a_workload("web", ["a"] * 9, cpu="1", spec={"nodeSelector": selector})
    inputs = planning_inputs(HOT_AND_COOL, [web], policy=a_policy(limits={"perRun": 0}))

    assert said in explain_table(_node(inputs, "node/a")).plain


def test_a_pod_names_every_rule_that_protects_it() -> None:
    budget = a_budget("tight", labels={"app": "fresh"}, allowed=0)
    fresh = a_workload("fresh", ["a"] * 9, cpu="1", created=at(-60))
    inputs = planning_inputs(HOT_AND_COOL, [fresh], policy=YOUNG, poddisruptionbudgets=[budget])

    assert [item.reason for item in _pod(inputs, "pod/default/fresh-0").refusals] == ["TooYoung", "Budget"]


def test_a_pod_that_a_limit_keeps_says_whether_it_would_move_without_it() -> None:
    one = a_policy(limits={"perRun": 1, "perNode": 8, "perWorkload": "100%"}, planning={"confidence": 0.5})
    inputs = planning_inputs(HOT_AND_COOL, [a_workload("web", ["a"] * 9, cpu="1")], policy=one)
    held = [item.pod.name for item in Planner(inputs).plan().kept if item.setting == "limits.perRun"]
    free = {move.pod.name for move in Planner(_without_limit(inputs)).plan().moves}
    assert held
    assert free

    for name in held:
        words = "the plan would move it" if name in free else "it would stay all the same: "
        explained = _pod(inputs, f"pod/default/{name}")
        assert f"perRun 1 is reached; without limits.perRun {words}" in explained.verdict_because
        assert explained.remedy.startswith("limits.perRun: ") == (name in free)  # else it frees nothing
    assert not free.issuperset(held)


def _without_limit(inputs: PlanningInputs) -> PlanningInputs:
    limits = inputs.policy.limits.model_copy(update={"per_run": 100})
    return replace(inputs, policy=inputs.policy.model_copy(update={"limits": limits}))


@rows(
    "source, kind, told",
    [
        ("https://10.0.0.1:6443", "node", "kubectl get nodes"),
        ("https://10.0.0.1:6443", "pod", "kubectl get pods -A"),
        ("my dump", "node", "rebalancer nodes --from 'my dump'"),
        ("my dump", "pod", "rebalancer explain node/NAME --from 'my dump'"),
    ],
)
def test_names_of_a_recorded_cluster_are_not_looked_for_in_another_one(
    source: str, kind: str, told: str
) -> None:
    snapshot = _inputs().snapshot
    snapshot = replace(snapshot, source=source)
    name = "zzzz" if kind == "node" else "zzzz/zzzz"
    with pytest.raises(InputError, match=re.escape(f"see what there is with: {told}")):
        find_subject(snapshot, f"{kind}/{name}")


def test_a_node_is_found_by_its_name_as_tables_show_it_without_its_domain() -> None:
    names = ("ip-10-0-1-1.eu-west-1.internal", "ip-10-0-1-11.eu-west-1.internal", "a.x", "a.y")
    snapshot = a_snapshot(nodes=[a_node(name) for name in names], pods=[])

    for asked, found in (("ip-10-0-1-1", names[0]), (names[1], names[1])):
        assert snapshot.nodes.names[find_subject(snapshot, f"node/{asked}").row] == found
    with pytest.raises(InputError, match="no node 'a'"):
        find_subject(snapshot, "node/a")
    with pytest.raises(InputError, match="no node 'ip-10-0-1'"):
        find_subject(snapshot, "node/ip-10-0-1")
