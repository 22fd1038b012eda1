"""What an answer takes for granted, or what the one who makes the change has to know besides."""

from __future__ import annotations

from typing import Any

import pytest

from rebalancer_lab.what_if.changed_cluster import what_if
from rebalancer_lab.what_if.changes import parse_changes
from rebalancer_lab.what_if.tables import what_if_table
from tests.builders import a_node
from tests.unit.planning.builders import a_workload, planning_inputs

AUTOSCALER = "an autoscaler, which may add nodes for pods that fit nowhere, is not modelled: see --add-node"


def notes(
    *, volumes: Any = (), on: str = "aab", cores: int = 8, drain: str = "", scale: str = ""
) -> tuple[str, ...]:
    """Of web, with a pod of 1 core on each of these nodes; a and b have so many cores."""
    web = a_workload("web", list(on), spec={"volumes": list(volumes)})
    inputs = planning_inputs([a_node("a", cpu=cores), a_node("b", cpu=cores)], [web])
    return what_if(inputs, parse_changes(drain, [], [], [scale] if scale else [])).notes


@pytest.mark.parametrize("medium", ["", "Memory"])
def test_a_drain_says_whose_data_it_deletes_and_what_kubectl_asks_for(medium: str) -> None:
    """kubectl makes no difference between an emptyDir on disk and one in memory."""
    said = notes(volumes=[{"name": "scratch", "emptyDir": {"medium": medium}}], drain="a")
    assert (
        "default/web-0 and 1 more would lose the data in emptyDir volumes: kubectl drain asks for "
        "--delete-emptydir-data"
    ) in said
    assert not any("emptyDir" in item for item in notes(volumes=[{"name": "x", "hostPath": {}}], drain="a"))
    assert not any("emptyDir" in item for item in notes(drain="a"))


def test_a_pod_that_stays_on_its_node_or_is_new_loses_no_data() -> None:
    volumes = [{"name": "scratch", "emptyDir": {}}]
    assert not any("emptyDir" in item for item in notes(volumes=volumes, scale="replicaset/web=5"))
    assert not any("emptyDir" in item for item in notes(volumes=volumes, on="bbb", drain="a"))


def test_where_pods_fit_nowhere_the_answer_says_that_no_autoscaler_is_modelled() -> None:
    assert AUTOSCALER in notes(cores=2, drain="a")
    assert AUTOSCALER in notes(cores=2, scale="replicaset/web=9")
    assert AUTOSCALER not in notes(drain="a")


def test_whether_a_node_without_a_known_load_is_hot_is_not_known_either() -> None:
    nodes, web = [a_node("dark"), *map(a_node, "abcd")], a_workload("web", ["dark", "a"])
    inputs = planning_inputs(nodes, [web], load={"dark": (float("nan"), float("nan"))})
    lines = what_if_table(what_if(inputs, parse_changes(["dark"], [], [], []))).plain.splitlines()
    (dark,) = [line.split() for line in lines if line.split()[1:2] == ["drained"]]
    (cool,) = [line.split() for line in lines if line.split()[:1] in (["b"], ["c"], ["d"])]
    assert dark == ["dark", "drained", "unknown", "unknown", "unknown"]
    assert cool[-1] == "no"
