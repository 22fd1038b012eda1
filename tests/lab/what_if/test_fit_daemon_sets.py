"""Of a DaemonSet the question is which nodes cannot take one more pod."""

from __future__ import annotations

from typing import Any

from rebalancer_lab.what_if.tables import fit_table
from tests.builders import a_node, a_pod, owned_by
from tests.lab.what_if.builders import LABELS, a_manifest, a_pod_spec, fit_of
from tests.unit.planning.builders import a_workload, planning_inputs

GPU = {"key": "gpu", "effect": "NoSchedule"}


def a_daemon_set(**spec: Any) -> dict[str, Any]:
    return a_manifest("DaemonSet", **spec)


def test_each_node_that_it_is_for_takes_one_or_says_why_not() -> None:
    nodes = [a_node("a", cpu=1), a_node("b", cpu=2), a_node("c", cpu=2, taints=[GPU])]
    inputs = planning_inputs(nodes, [a_workload("web", ["a"])])

    answer = fit_of(inputs, a_daemon_set())

    assert answer.daemon is not None
    assert answer.fits == 1
    assert answer.daemon.for_it == 2
    assert [(item.node, item.because) for item in answer.daemon.without_room] == [
        ("a", "NodeResourcesFit: Insufficient cpu")
    ]
    assert [(item.nodes, item.reason) for item in answer.daemon.passed_by] == [
        (("c",), "TaintToleration: node(s) had untolerated taint(s)")
    ]
    text = fit_table(answer).plain
    assert "DaemonSet default/new: 1 of the 2 nodes that it is for takes one, 1 cannot" in text
    assert "NODES THAT CANNOT TAKE ONE" in text
    assert "NODES THAT IT IS NOT FOR" in text


def test_a_node_selector_chooses_the_nodes_however_full_they_are() -> None:
    nodes = [a_node("a", cpu=1, labels={"disk": "ssd"}), a_node("b", cpu=1), a_node("c", cpu=1)]
    inputs = planning_inputs(nodes, [a_workload("web", ["a", "b"])])

    answer = fit_of(inputs, a_daemon_set(nodeSelector={"disk": "ssd"}))

    assert answer.daemon is not None
    assert (answer.fits, answer.daemon.for_it) == (0, 1)
    assert [item.node for item in answer.daemon.without_room] == ["a"]


def test_a_cordoned_node_and_one_under_pressure_get_a_pod_all_the_same() -> None:
    pressure = {"key": "node.kubernetes.io/disk-pressure", "effect": "NoSchedule"}
    cordon = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    nodes = [a_node("a", taints=[pressure]), a_node("b", unschedulable=True, taints=[cordon])]

    answer = fit_of(planning_inputs(nodes), a_daemon_set())

    assert (answer.fits, answer.stopped) == (2, ())
    assert "fits on each of the 2 nodes that it is for" in fit_table(answer).plain


def test_pods_of_it_that_run_are_replaced_by_those_of_the_file() -> None:
    running = a_pod("new-x", node="a", labels=LABELS, owner=owned_by("DaemonSet", "new"), **a_pod_spec("1"))
    inputs = planning_inputs([a_node("a", cpu=2)], pods=[running])
    larger = a_daemon_set(**a_pod_spec("2"))
    larger_still = a_daemon_set(**a_pod_spec("3"))

    assert fit_of(inputs, larger).fits == 1
    assert fit_of(inputs, larger_still).fits == 0
    assert "1 pod of it that runs is taken to be replaced" in fit_of(inputs, larger).notes[0]


def test_a_pod_that_would_get_its_room_from_others_is_said_to_preempt() -> None:
    vital = {"metadata": {"name": "vital"}, "value": 1000}
    inputs = planning_inputs([a_node("a", cpu=1)], [a_workload("web", ["a"])], priorityclasses=[vital])

    answer = fit_of(inputs, a_daemon_set(priorityClassName="vital"))

    assert answer.daemon is not None
    assert [item.preempts for item in answer.daemon.without_room] == [True]
