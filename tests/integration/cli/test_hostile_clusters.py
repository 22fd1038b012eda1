"""Objects that are broken, huge or hostile: named, protected, never obeyed and never a traceback."""

from __future__ import annotations

import contextlib
import copy
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from rebalancer.cli.program import main
from tests.conftest import examples, some_of
from tests.integration.cli.conftest import Program
from tests.integration.cli.dumps import NOW, Items, a_metric, a_rich_cluster, write_dump

ESCAPE = "\x1b[2J\x1b]0;owned\x07\u202e"
Dump = Callable[[Items], Path]
Place = tuple[Any, ...]


def put(items: Items, place: Place, value: Any) -> Items:
    """The same cluster with something else at a place."""
    changed = copy.deepcopy(items)
    target: Any = changed
    for step in place[:-1]:
        target = target[step]
    target[place[-1]] = value
    return changed


def planned(rebalancer_program: Program, path: Path) -> dict[str, Any]:
    """The plan of a dump, which must come out as a safe table and in JSON."""
    table = rebalancer_program("plan", "--from", path, "--all")
    result = rebalancer_program("plan", "--from", path, "-o", "json")
    nodes = rebalancer_program("nodes", "--from", path)
    info = rebalancer_program("snapshot", "info", path, "--all")
    for answer in (table, result, nodes, info):
        assert (answer.exit_code, answer.stderr) == (0, ""), answer.stderr
        assert answer.stdout.replace("\n", "").isprintable()
    plan: dict[str, Any] = json.loads(result.stdout)
    return plan


def moved(plan: dict[str, Any]) -> set[str]:
    return {move["pod"]["name"] for move in plan["moves"]}


POD = ("pods", 1)
CONTAINER = (*POD, "spec", "containers", 0)
MALFORMED_PODS: list[tuple[Place, Any]] = [
    ((*POD, "metadata", "labels"), 5),
    ((*POD, "metadata", "creationTimestamp"), "yesterday"),
    ((*POD, "spec", "priority"), 10**30),
    ((*POD, "spec", "tolerations"), "all"),
    ((*POD, "status"), []),
    ((*CONTAINER, "resources", "requests", "cpu"), "1 Gi"),
    ((*CONTAINER, "resources", "requests", "cpu"), "NaN"),
    ((*CONTAINER, "resources", "requests", "cpu"), "-1"),
    ((*CONTAINER, "resources", "requests", "memory"), "9" * 40),
    ((*CONTAINER, "resources", "requests", "memory"), ESCAPE),
    ((*CONTAINER, "resources", "requests", ESCAPE), "x"),
]


@pytest.mark.many_cases
@pytest.mark.parametrize(("place", "value"), some_of(MALFORMED_PODS))
def test_a_malformed_pod_is_named_and_stays(
    rebalancer_program: Program, dump: Dump, items: Items, place: Place, value: Any
) -> None:
    plan = planned(rebalancer_program, dump(put(items, place, value)))

    assert "web-1" not in moved(plan)
    assert any(text.startswith("could not be read: Pod shop/web-1: ") for text in plan["warnings"])


MALFORMED_NODES: list[tuple[Place, Any]] = [
    (("nodes", 1, "status", "allocatable"), 5),
    (("nodes", 1, "status", "allocatable", "cpu"), "-4"),
    (("nodes", 1, "status", "capacity", "memory"), "1e40"),
    (("nodes", 1, "status", "allocatable", ESCAPE), "x"),
    (("nodes", 1, "spec", "taints"), {}),
    (("nodes", 1, "status", "conditions", 0, "lastTransitionTime"), "soon"),
]


@pytest.mark.many_cases
@pytest.mark.parametrize(("place", "value"), some_of(MALFORMED_NODES))
def test_a_malformed_node_is_named_and_never_a_landing(
    rebalancer_program: Program, dump: Dump, items: Items, place: Place, value: Any
) -> None:
    plan = planned(rebalancer_program, dump(put(items, place, value)))

    assert any(text.startswith("could not be read: Node n1: ") for text in plan["warnings"])
    assert "n1" not in {landing["node"] for move in plan["moves"] for landing in move["landings"]}


BUDGET = ("poddisruptionbudgets", 0)
BUDGETS: list[tuple[Place, Any]] = [
    ((*BUDGET, "status", "disruptionsAllowed"), 2**31),
    ((*BUDGET, "status", "disruptionsAllowed"), 10**30),
    ((*BUDGET, "status", "disruptionsAllowed"), -5),
    ((*BUDGET, "status", "observedGeneration"), 0),
    ((*BUDGET, "status"), None),
    ((*BUDGET, "spec"), 5),
    ((*BUDGET, "metadata"), 5),
    ((*BUDGET, "metadata", "name"), ESCAPE),
    ((*BUDGET, "spec", "selector"), {"matchExpressions": [{"key": "app", "operator": "Like"}]}),
]


@pytest.mark.many_cases
@pytest.mark.parametrize(("place", "value"), some_of(BUDGETS))
def test_a_budget_that_cannot_be_read_or_believed_protects_its_pods(
    rebalancer_program: Program, dump: Dump, items: Items, place: Place, value: Any
) -> None:
    plan = planned(rebalancer_program, dump(put(items, place, value)))

    assert moved(plan) == set()
    assert {kept["reason"] for kept in plan["kept"]} <= {"Unpredictable", "Budget"}


METRICS: list[Any] = [
    {"metadata": {"name": "n2"}, "timestamp": NOW, "usage": 5},
    a_metric("n2", "1e300"),
    a_metric("n2", "-1"),
    a_metric("n2", "NaN"),
    a_metric("n2", "9000"),
    a_metric("n2", "300m", moment="2020-01-01T00:00:00Z"),
    a_metric("n2", "300m", moment="now"),
    {**a_metric("n2", "300m"), "window": ESCAPE},
]


@pytest.mark.many_cases
@pytest.mark.parametrize("metric", some_of(METRICS))
def test_a_node_whose_figures_cannot_be_believed_is_never_a_landing(
    rebalancer_program: Program, dump: Dump, items: Items, metric: Any, tmp_path: Path
) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(
        "apiVersion: rebalancer/v1alpha1\nkind: RebalancePolicy\n"
        "load: {minCoverage: 50%, sources: [{metricsServer: {}}]}\n"
    )
    path = dump(put(items, ("nodemetrics", 2), metric))
    result = rebalancer_program("plan", "--from", path, "--policy", policy, "-o", "json")

    assert (result.exit_code, result.stderr) == (0, "")
    plan = json.loads(result.stdout)
    assert any("n2" in text for text in plan["warnings"])
    assert all(landing["node"] != "n2" for move in plan["moves"] for landing in move["landings"])


NAMES: list[Place] = [
    (*POD, "metadata", "name"),
    (*POD, "metadata", "namespace"),
    (*POD, "metadata", "uid"),
    (*POD, "metadata", "labels", "app"),
    (*POD, "metadata", "labels", ESCAPE),
    (*POD, "metadata", "ownerReferences", 0, "name"),
    (*POD, "metadata", "ownerReferences", 0, "kind"),
    (*POD, "spec", "schedulerName"),
    (*POD, "spec", "nodeName"),
    (*POD, "spec", "priorityClassName"),
    (*POD, "status", "phase"),
    (*CONTAINER, "image"),
    (*CONTAINER, "name"),
    ("nodes", 1, "metadata", "name"),
    ("nodes", 1, "metadata", "labels", "kubernetes.io/hostname"),
    ("replicasets", 0, "metadata", "name"),
    ("namespaces", 0, "metadata", "name"),
    ("nodemetrics", 2, "metadata", "name"),
]


@pytest.mark.many_cases
@pytest.mark.parametrize("place", some_of(NAMES))
def test_terminal_escapes_in_a_cluster_never_reach_the_terminal(
    rebalancer_program: Program, dump: Dump, items: Items, place: Place
) -> None:
    path = dump(put(items, place, ESCAPE))
    for arguments in (
        ("plan", "--all"),
        ("plan", "-o", "json"),
        ("plan", "-o", "yaml"),
        ("nodes",),
        ("snapshot", "info", path),
    ):
        source = () if "info" in arguments else ("--from", path)
        result = rebalancer_program(*arguments, *source)
        assert result.exit_code in (0, 3)
        for text in (result.stdout, result.stderr):
            assert text.replace("\n", "").isprintable()


HUGE: list[tuple[Place, Any]] = [
    ((*POD, "spec", "terminationGracePeriodSeconds"), 2**63 - 1),
    ((*POD, "metadata", "generation"), 2**63 - 1),
    ((*CONTAINER, "ports"), [{"hostPort": 2**31 - 1}, {"hostPort": -5}]),
    ((*CONTAINER, "resources", "limits"), {"memory": "1e30"}),
    ((*CONTAINER, "resources", "requests", "memory"), str(1 << 53)),
    (("nodes", 1, "status", "images"), [{"names": ["app:v1"], "sizeBytes": 2**63 - 1}] * 3),
    (("nodes", 1, "status", "images"), [{"names": ["app:v1"], "sizeBytes": -(2**63)}]),
    (("nodes", 1, "status", "allocatable", "memory"), str(1 << 53)),
    (("replicasets", 0, "spec", "replicas"), 2**31 - 1),
    (("replicasets", 0, "spec", "replicas"), -7),
    (("priorityclasses",), [{"metadata": {"name": "p"}, "value": -(2**31)}]),
    (("namespaces",), None),
    (("services",), None),
]


@pytest.mark.many_cases
@pytest.mark.parametrize(("place", "value"), some_of(HUGE))
def test_numbers_kubernetes_admits_never_fail_a_plan(
    rebalancer_program: Program, dump: Dump, items: Items, place: Place, value: Any
) -> None:
    planned(rebalancer_program, dump(put(items, place, value)))


NUMBERS = (0, -1, 2**31 - 1, 2**31, 2**63 - 1, 10**40, 0.5)
TEXTS = ("", "x", "-1", "1e999", "NaN", "0", "0.1", ESCAPE, NOW, "In", "Exists", "DoNotSchedule")
SHAPES: tuple[Any, ...] = (
    None,
    True,
    [],
    {},
    [None],
    [[]],
    [{}],
    {"": None},
    {"a": {"b": []}},
    {"app": "web"},
)
WEIRD = st.sampled_from((*NUMBERS, *TEXTS, *SHAPES))


def places(value: Any, here: Place = ()) -> list[Place]:
    """Every place in a document."""
    found: list[Place] = [here] if here else []
    steps = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, inner in steps:
        found += places(inner, (*here, step))
    return found


CLUSTER = a_rich_cluster()


@given(st.lists(st.tuples(st.sampled_from(places(CLUSTER)), WEIRD), min_size=1, max_size=3))
@settings(max_examples=examples(100))
def test_whatever_stands_in_a_dump_is_planned_or_refused_in_one_line(
    changes: list[tuple[Place, Any]],
) -> None:
    items = CLUSTER
    for place, value in changes:
        with contextlib.suppress(KeyError, IndexError, TypeError):
            items = put(items, place, value)
    with tempfile.TemporaryDirectory() as folder:
        path = write_dump(Path(folder) / "dump", items)
        policy = Path(folder) / "policy.yaml"
        policy.write_text(
            "apiVersion: rebalancer/v1alpha1\nkind: RebalancePolicy\n"
            "evictable: {protect: []}\nload: {minCoverage: 30%, sources: [{metricsServer: {}}]}\n"
        )
        arguments = ["plan", "--from", str(path), "--policy", str(policy), "-o", "json"]
        result = CliRunner().invoke(main, arguments)

    assert result.exit_code in (0, 2, 3), result.stderr
    assert (result.stdout == "", result.stderr.count("\n")) in ((True, 1), (False, 0))


def test_an_object_listed_twice_is_named_and_both_its_nodes_are_looked_at(
    rebalancer_program: Program, dump: Dump, items: Items
) -> None:
    again = copy.deepcopy(items["pods"][0])
    again["spec"]["nodeName"] = "n1"
    again["metadata"]["resourceVersion"] = "5"
    plan = planned(rebalancer_program, dump(items | {"pods": [*items["pods"], again]}))

    assert "could not be read: Pod shop/web-0: listed twice; the newest one counts" in plan["warnings"]


def test_the_same_file_twice_changes_nothing(rebalancer_program: Program, dump: Dump, items: Items) -> None:
    once = planned(rebalancer_program, dump(items))
    folder = dump(items)
    (folder / "again.json").write_bytes((folder / "pods.json").read_bytes())

    assert planned(rebalancer_program, folder) == once
