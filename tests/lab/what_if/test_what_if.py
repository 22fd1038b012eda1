from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from rebalancer.errors import InputError
from rebalancer.load.scheduler_view import Metric, SchedulerView, WatcherMetrics
from rebalancer.planning.inputs import PlanningInputs
from rebalancer.scheduling.registry import load_configuration
from rebalancer_lab.what_if.changed_cluster import Fate, PodFate, WhatIf, what_if
from rebalancer_lab.what_if.changes import Changes, parse_changes, with_added_nodes
from rebalancer_lab.what_if.tables import what_if_table
from tests.builders import a_budget, a_node, a_pod, owned_by
from tests.conftest import examples
from tests.lab.what_if.builders import a_manifest, a_pod_spec, fit_of
from tests.rows import rows
from tests.unit.planning.builders import NOW, a_workload, planning_inputs

PACKING = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - pluginConfig:
      - name: NodeResourcesFit
        args:
          scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}
"""


OTHER_PROFILE = PACKING.replace("- pluginConfig", "- schedulerName: other\n    pluginConfig")


def changes(
    drain: Iterable[str] = (), cordon: Iterable[str] = (), add: Iterable[str] = (), scale: Iterable[str] = ()
) -> Changes:
    return parse_changes(drain, cordon, add, scale)


def fates(answer: WhatIf) -> dict[str, Fate]:
    return {item.pod.partition("/")[2]: item.fate for item in answer.pods}


def fate(answer: WhatIf, name: str) -> PodFate:
    return next(item for item in answer.pods if item.pod == f"default/{name}")


def load(answer: WhatIf, node: str) -> tuple[float | None, float]:
    found = next(item for item in answer.nodes if item.node == node)
    return found.before.get("cpu"), found.after["cpu"]


def test_the_pods_of_a_drained_node_land_elsewhere_and_their_load_goes_with_them() -> None:
    web = a_workload("web", ["a", "a", "b"])
    inputs = planning_inputs([a_node("a"), a_node("b", cpu=8)], [web], load={"a": 90.0, "b": 20.0})

    answer = what_if(inputs, changes(drain=["a"]))

    assert fates(answer) == {"web-0": Fate.LANDS, "web-1": Fate.LANDS}
    assert [landing.node for landing in fate(answer, "web-0").landings] == ["b"]
    assert load(answer, "a") == (90.0, 40.0)  # the pods used 2 of the 3.6 cores
    assert load(answer, "b") == (20.0, 45.0)
    assert (answer.hot, answer.pending) == ((1, 0), (0, 0))
    assert answer.changes == ("drain a",)


def test_pods_that_belong_to_their_node_and_pods_nobody_recreates_stay() -> None:
    agent = a_pod("agent", node="a", owner=owned_by("DaemonSet", "agent"))
    inputs = planning_inputs([a_node("a"), a_node("b")], pods=[agent, a_pod("lone", node="a", cpu="1")])

    answer = what_if(inputs, changes(drain=["a"]))

    assert fates(answer) == {"agent": Fate.OF_ITS_NODE, "lone": Fate.STAYS}
    assert "has no controller" in fate(answer, "lone").because


def test_a_budget_is_given_back_by_a_landing_and_not_by_a_pod_that_waits() -> None:
    labels = {"app": "web"}
    web = a_workload("web", ["a", "a", "a"], labels=labels)
    budget = a_budget("web", labels=labels, allowed=1)
    inputs = planning_inputs([a_node("a"), a_node("b", cpu=1)], [web], poddisruptionbudgets=[budget])

    answer = what_if(inputs, changes(drain=["a"]))

    assert fates(answer) == {"web-0": Fate.LANDS, "web-1": Fate.PENDING, "web-2": Fate.STAYS}
    assert fate(answer, "web-1").because == (
        "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable."
    )
    assert "budget default/web allows 1" in fate(answer, "web-2").because
    assert answer.pending == (0, 1)


def test_a_budget_that_allows_nothing_keeps_its_pods() -> None:
    web = a_workload("web", ["a"], labels={"app": "web"})
    budget = a_budget("web", labels={"app": "web"}, allowed=0)
    inputs = planning_inputs([a_node("a"), a_node("b")], [web], poddisruptionbudgets=[budget])

    assert fates(what_if(inputs, changes(drain=["a"]))) == {"web-0": Fate.STAYS}


def test_budgets_that_were_not_read_keep_every_pod() -> None:
    inputs = planning_inputs(
        [a_node("a"), a_node("b")], [a_workload("web", ["a"])], unread=["poddisruptionbudgets"]
    )

    answer = what_if(inputs, changes(drain=["a"]))

    assert fate(answer, "web-0").because == "disruption budgets were not read"


def test_a_replacement_of_an_unknown_scheduler_is_not_guessed_and_leaves_no_load_behind() -> None:
    web = a_workload("web", ["a"], spec={"schedulerName": "other"})
    inputs = planning_inputs([a_node("a"), a_node("b")], [web], load={"a": 50.0})

    answer = what_if(inputs, changes(drain=["a"]))

    assert fates(answer) == {"web-0": Fate.UNPREDICTABLE}
    assert load(answer, "a") == (50.0, 25.0)


def test_a_pod_of_unknown_load_is_counted_with_its_requests() -> None:
    web = a_workload("web", ["a"], cpu="2")
    inputs = planning_inputs(
        [a_node("a"), a_node("b")], [web], load={"a": np.nan, "b": 10.0}, pod_load={"web-0": np.nan}
    )

    answer = what_if(inputs, changes(drain=["a"]))

    assert load(answer, "b") == (10.0, 60.0)
    assert "what 1 pod uses is not known: it is counted with its requests" in answer.notes


def test_nothing_lands_on_a_cordoned_node() -> None:
    web = a_workload("web", ["a"])
    inputs = planning_inputs([a_node("a"), a_node("b", cpu=32), a_node("c")], [web])

    answer = what_if(inputs, changes(drain=["a"], cordon=["b"]))

    assert [landing.node for landing in fate(answer, "web-0").landings] == ["c"]
    assert {item.node: item.change for item in answer.nodes} == {
        "a": "drained",
        "b": "cordoned",
        "c": "",
    }


def test_more_replicas_land_as_more_pods_of_the_same_file_would() -> None:
    spec = a_pod_spec()
    web = a_workload("new", ["a"], kind="StatefulSet", spec=spec)
    inputs = planning_inputs([a_node("a"), a_node("b"), a_node("c", cpu=2)], [web])

    answer = what_if(inputs, changes(scale=["sts/default/new=5"]))
    asked = fit_of(inputs, a_manifest("StatefulSet", **spec), at_most=4)

    landed = [item.landings[0].node for item in answer.pods]
    assert landed == [item.node for item in asked.landings]
    assert set(fates(answer)) == {f"new-new-{number}" for number in range(1, 5)}


def test_new_replicas_use_what_their_siblings_use() -> None:
    web = a_workload("web", ["a"], cpu="500m")
    inputs = planning_inputs([a_node("a"), a_node("b")], [web], pod_load={"web-0": 2.0})

    answer = what_if(inputs, changes(scale=["rs/default/web=2"]))

    assert load(answer, "b") == (0.0, 50.0)


def test_replicas_that_fit_nowhere_are_pending() -> None:
    inputs = planning_inputs([a_node("a", cpu=2)], [a_workload("web", ["a"])])

    answer = what_if(inputs, changes(scale=["rs/default/web=4"]))

    assert Counter(fates(answer).values()) == {Fate.LANDS: 1, Fate.PENDING: 2}
    assert answer.pending == (0, 2)


def test_fewer_replicas_leave_first_where_most_of_their_siblings_are() -> None:
    web = a_workload("web", ["a", "b", "b"])
    inputs = planning_inputs([a_node("a"), a_node("b")], [web])

    answer = what_if(inputs, changes(scale=["rs/default/web=2"]))

    assert [(item.from_node, item.fate) for item in answer.pods] == [("b", Fate.REMOVED)]
    assert load(answer, "b") == (50.0, 25.0)


def test_pods_of_a_gang_of_koordinator_are_not_guessed() -> None:
    gang = {"gang.scheduling.koordinator.sh/name": "training"}
    web = a_workload("web", ["a"], annotations=gang)
    web.pods[0]["metadata"]["labels"] |= {"topology.kubernetes.io/zone": "1"}  # since it was bound
    waiting = a_workload("db", [""], annotations=gang)
    answer = what_if(planning_inputs([a_node("a"), a_node("b")], [web, waiting]), changes(drain=["a"]))

    assert fates(answer) == {"web-0": Fate.UNPREDICTABLE, "db-0": Fate.UNPREDICTABLE}
    assert fate(answer, "web-0").because.startswith("it belongs to gang training, whose pods are placed")


def test_a_stateful_set_removes_its_last_replicas() -> None:
    inputs = planning_inputs(
        [a_node("a"), a_node("b")], [a_workload("db", ["a", "b", "b"], kind="StatefulSet")]
    )

    answer = what_if(inputs, changes(scale=["statefulset/default/db=1"]))

    assert list(fates(answer)) == ["db-2", "db-1"]


def test_replicas_whose_claims_do_not_exist_yet_are_not_guessed() -> None:
    claim = {"name": "data", "persistentVolumeClaim": {"claimName": "data-db-0"}}
    db = a_workload("db", ["a"], kind="StatefulSet", spec={"volumes": [claim]}, template={"volumes": None})
    claims = [{"metadata": {"name": "data-db-0", "namespace": "default"}, "spec": {}}]
    inputs = planning_inputs([a_node("a")], [db], persistentvolumeclaims=claims)

    answer = what_if(inputs, changes(scale=["sts/default/db=2"]))

    assert fates(answer) == {"db-new": Fate.UNPREDICTABLE}
    assert "claims do not exist yet" in fate(answer, "db-new").because


def test_pods_that_wait_land_on_an_added_node() -> None:
    waiting = a_pod("new", cpu="3", owner=owned_by("ReplicaSet", "web"))
    web = a_workload("web", ["a"], cpu="3")
    inputs = planning_inputs([a_node("a")], [web], pods=[waiting])

    answer = what_if(inputs, changes(add=["a=1"]))

    assert fate(answer, "new").landings[0].node == "a-new-1"
    assert answer.pending == (1, 0)
    assert load(answer, "a-new-1") == (None, 75.0)


def test_an_added_node_is_like_one_that_is_there() -> None:
    """More pods land alike on a cluster with the node and on one where it is added."""
    taint = {"key": "special", "value": "yes", "effect": "PreferNoSchedule"}
    agents = [
        a_pod(f"agent-{name}", node=name, cpu="500m", owner=owned_by("DaemonSet", "agent"))
        for name in ("a", "b", "b-new-1")
    ]
    nodes = [a_node("a"), a_node("b", cpu=6, taints=[taint], labels={"zone": "x"})]
    third = a_node("b-new-1", cpu=6, taints=[taint], labels={"zone": "x"})
    real = planning_inputs([*nodes, third], pods=agents)
    inputs = planning_inputs(nodes, pods=agents[:2])

    added = with_added_nodes(inputs, inputs.snapshot.nodes.row["b"], 1)  # type: ignore[arg-type]

    assert np.array_equal(added.load.usage, real.load.usage)
    assert np.array_equal(added.load.pod_count, real.load.pod_count)
    assert fit_of(added, a_manifest()).landings == fit_of(real, a_manifest()).landings


def test_an_added_node_is_seen_by_load_aware_plugins() -> None:
    figures = (Metric("CPU", "AVG", 80.0), Metric("CPU", "STD", 3.0))
    view = SchedulerView({"": WatcherMetrics({"a": figures}, NOW, NOW - 900, NOW, "test")})
    inputs = planning_inputs([a_node("a")], [a_workload("web", ["a"], cpu="2")], load={"a": 80.0}, view=view)

    added = with_added_nodes(inputs, 0, 1)  # type: ignore[arg-type]

    seen = {item.operator: item.value for item in added.schedulers[0].view.watchers[""].nodes["a-new-1"]}
    assert seen == {"AVG": pytest.approx(30.0), "STD": 3.0}  # 80 points, less the 50 of web


def test_two_configurations_are_compared_by_the_next_pod_of_every_workload() -> None:
    nodes = [a_node("a"), a_node("b")]
    workloads = [a_workload("web", ["a"]), a_workload("api", ["a"])]
    inputs = planning_inputs(nodes, workloads)
    other = planning_inputs(nodes, workloads, configuration=load_configuration(PACKING, "packing"))

    found = what_if(inputs, Changes(), other).comparison

    assert found is not None
    assert (found.configurations, found.compared) == (("defaults", "packing"), 2)
    assert [(item.pod, item.before[0].node, item.after[0].node) for item in found.differing] == [
        ("default/ReplicaSet/api", "b", "a"),
        ("default/ReplicaSet/web", "b", "a"),
    ]


def test_two_configurations_are_compared_by_the_pods_of_a_change() -> None:
    nodes = [a_node("a"), a_node("b"), a_node("c")]
    workloads = [a_workload("web", ["a", "b"])]
    inputs = planning_inputs(nodes, workloads)
    other = planning_inputs(nodes, workloads, configuration=load_configuration(PACKING, "packing"))

    answer = what_if(inputs, changes(drain=["a"]), other)

    assert answer.comparison is not None
    [differing] = answer.comparison.differing
    assert (differing.pod, differing.before[0].node, differing.after[0].node) == ("default/web-0", "c", "b")
    assert fate(answer, "web-0").landings == differing.after


def test_pods_whose_profile_the_other_configuration_lacks_are_listed_and_never_count_as_alike() -> None:
    nodes = [a_node("a"), a_node("b")]
    workloads = [a_workload("web", ["a"])]
    inputs = planning_inputs(nodes, workloads)
    other = planning_inputs(nodes, workloads, configuration=load_configuration(OTHER_PROFILE, "other"))

    for asked in (Changes(), changes(drain=["a"])):
        answer = what_if(inputs, asked, other)
        assert answer.comparison is not None
        [differing] = answer.comparison.differing
        assert answer.comparison.compared == 1
        assert differing.fates == (Fate.LANDS, Fate.UNPREDICTABLE)
        shown = " ".join(what_if_table(answer).plain.split())
        assert "0 of 1 pod lands alike" in shown
        assert "after: 1 pod: schedulerName default-scheduler is not in" in shown

        neither = what_if(other, asked, other).comparison
        assert neither is not None
        assert (neither.compared, neither.differing, len(neither.unknown)) == (0, (), 1)


def test_pods_that_stay_where_they_are_are_not_compared() -> None:
    nodes = [a_node("a"), a_node("b")]
    agent = a_pod("agent", node="a", owner=owned_by("DaemonSet", "agent"))
    inputs = planning_inputs(nodes, [a_workload("web", ["a"])], pods=[agent])

    found = what_if(inputs, changes(drain=["a"]), inputs).comparison

    assert found is not None
    assert (found.compared, found.differing) == (1, ())


@rows(
    "change, words",
    [
        ({"drain": ["\u001b[2J"]}, "is not the name of a node"),
        ({"add": ["a"]}, "TEMPLATE_NODE=N"),
        ({"add": ["a=0"]}, "is not between 1 and 1000"),
        ({"add": [f"a={'9' * 5000}"]}, "is not between 1 and 1000"),
        ({"add": [f"a={'0' * 60}1001"]}, ": 1001 is not between 1 and 1000"),
        ({"scale": [f"deployment/a/web={'0' * 60}{'9' * 5000}"]}, "is not between 0 and 1000"),
        ({"add": ["a=9999999999"]}, "9999999999 is not between 1 and 1000"),
        ({"add": ["=1"]}, "TEMPLATE_NODE=N"),
        ({"scale": ["web=1"]}, "did you mean deployment/web or statefulset/web?"),
        ({"scale": ["a/web=1"]}, "did you mean deployment/a/web or statefulset/a/web?"),
        ({"scale": ["=1"]}, "KIND/NAMESPACE/NAME=N"),
        ({"scale": ["pod/a/web-1=1"]}, "a pod cannot be scaled"),
        ({"scale": ["deploi/a/web=1"]}, "did you mean deploy/a/web?"),
        ({"scale": ["deploy/a/web=-1"]}, "KIND/NAMESPACE/NAME=N"),
        ({"scale": ["deploy/a/web=1", "deployment/a/web=2"]}, "twice"),
    ],
)
def test_a_change_that_cannot_be_read_is_refused_in_one_line(change: Any, words: str) -> None:
    with pytest.raises(InputError) as caught:
        changes(**change)

    assert words in str(caught.value)
    assert str(caught.value).isprintable()


@rows(
    "change, words",
    [
        ({"drain": ["hott"]}, "no node 'hott' (did you mean node/hot?)"),
        ({"add": ["x=1"]}, "no node 'x'"),
        ({"scale": ["rs/default/wep=3"]}, "(did you mean replicaset/default/web or "),
        ({"scale": ["rs/default/idle=3"]}, "rebalancer fit"),
    ],
)
def test_what_is_not_there_is_refused_with_what_is(change: Any, words: str) -> None:
    inputs = planning_inputs([a_node("hot")], [a_workload("web", ["hot"]), a_workload("idle", [])])

    with pytest.raises(InputError, match="no ") as caught:
        what_if(inputs, changes(**change))

    assert words in str(caught.value)


@st.composite
def drained_clusters(draw: st.DrawFn) -> tuple[PlanningInputs, list[str]]:
    count = draw(st.integers(2, 4))
    names = [f"n{number}" for number in range(count)]
    nodes = [a_node(name, cpu=draw(st.integers(2, 6))) for name in names]
    workloads = [
        a_workload(f"w{number}", draw(st.lists(st.sampled_from(names), min_size=1, max_size=3)), cpu="500m")
        for number in range(draw(st.integers(1, 3)))
    ]
    drained = draw(st.lists(st.sampled_from(names), min_size=1, max_size=count - 1, unique=True))
    return planning_inputs(nodes, workloads), drained


@settings(max_examples=examples(60), deadline=None)
@given(drained_clusters())
def test_no_load_is_lost_while_every_pod_lands_and_none_lands_on_a_drained_node(
    cluster: tuple[PlanningInputs, list[str]],
) -> None:
    inputs, drained = cluster

    answer = what_if(inputs, changes(drain=drained))

    landed = {landing.node for item in answer.pods for landing in item.landings}
    assert not landed & set(drained)
    rows = inputs.snapshot.nodes.row
    cores = inputs.load.allocatable[:, 0]
    moved = sum(
        cores[rows[item.node]] * (item.after["cpu"] - item.before["cpu"]) / 100 for item in answer.nodes
    )
    waiting = sum(item.fate is Fate.PENDING for item in answer.pods)
    assert moved == pytest.approx(-500 * waiting, abs=5)
    assert {item.from_node for item in answer.pods} <= set(drained)


def test_another_configuration_says_how_many_nodes_it_would_free() -> None:
    nodes = [a_node("a"), a_node("b")]
    workloads = [a_workload("web", ["a"]), a_workload("api", ["b"] * 2)]
    inputs = planning_inputs(nodes, workloads)
    other = planning_inputs(nodes, workloads, configuration=load_configuration(PACKING, "packing"))

    answer = what_if(inputs, Changes(), other)

    assert answer.emptied == (0, 1)
    assert "nodes to be emptied 0 → 1" in " ".join(what_if_table(answer).plain.split())
    assert what_if(inputs, changes(drain=["a"])).emptied is None
