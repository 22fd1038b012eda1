from __future__ import annotations

from typing import Any
from xml.dom import minidom

import numpy as np
import pytest
import yaml
from msgspec.structs import replace

from rebalancer.errors import InputError
from rebalancer.planning.landing.landing_check import excluded_destinations
from rebalancer.planning.planner import Planner
from rebalancer_lab.policy_tests.assertions import PolicyTestReport, check_plan, parse_policy_test
from rebalancer_lab.policy_tests.reports import junit_xml
from tests.builders import a_node, owned_by
from tests.rows import rows
from tests.unit.planning.builders import NOW, a_workload, planning_inputs

HEAD = {"apiVersion": "rebalancer/v1alpha1", "kind": "PolicyTest"}
NODES = (a_node("a", cpu=10), a_node("cool", cpu=100), a_node("dark"))
# Of the nine pods of web on a hot node three are moved; db has nothing to leave.
INPUTS = planning_inputs(
    NODES,
    [a_workload("web", ["a"] * 9), a_workload("db", ["cool"], kind="StatefulSet")],
    load={"a": 90.0, "cool": 5.0, "dark": float("nan")},
)


def report(**assertions: Any) -> PolicyTestReport:
    test = parse_policy_test(yaml.safe_dump(HEAD | assertions), "file")
    return check_plan(test, "file", Planner(INPUTS).plan(), INPUTS.snapshot)


def failing(**assertions: Any) -> dict[str, str]:
    """What fails, and why."""
    return {item.assertion: item.because for item in report(**assertions).assertions if not item.holds}


def test_assertions_that_hold_say_nothing() -> None:
    found = report(
        mustMove=["replicaset/default/web", "default/web-*", "pod/default/web-?"],
        mustStay=["default/db-0", "sts/default/*"],
        maxEvictions=3,
        minEvictions=3,
        hotNodes=["a"],
        coolNodes=["cool"],
        relievedNodes=["a"],
    )

    assert (found.failed, len(found.assertions)) == (0, 10)
    assert not any(item.because for item in found.assertions)


def test_pods_of_a_deployment_are_named_by_it_and_by_its_replica_set() -> None:
    web = a_workload("web-1", ["a"])
    web.item["metadata"]["ownerReferences"] = [owned_by("Deployment", "web")]
    inputs = planning_inputs([a_node("a")], [web])
    text = yaml.safe_dump(HEAD | {"mustStay": ["deployment/default/web", "replicaset/default/web-*"]})

    assert check_plan(parse_policy_test(text, "f"), "f", Planner(inputs).plan(), inputs.snapshot).failed == 0


def test_each_assertion_that_fails_says_what_the_plan_does_instead() -> None:
    found = failing(
        mustMove=["default/db-*"],
        mustStay=["default/web-*"],
        maxEvictions=2,
        minEvictions=4,
        hotNodes=["cool", "dark"],
        coolNodes=["a", "dark"],
        relievedNodes=["cool", "dark"],
    )

    assert found["mustMove: default/db-*"].startswith("default/db-0: NodeNotHot, cool is not hot")
    assert found["mustStay: default/web-*"].count("Moved, wave") == 3
    assert found["maxEvictions: 2"] == found["minEvictions: 4"] == "the plan has 3"
    assert found["hotNodes: cool"] == "cool is not hot"
    assert found["coolNodes: a"].startswith("a is hot: cpu 90.0 %")
    for field in ("hotNodes", "coolNodes", "relievedNodes"):
        assert found[f"{field}: dark"].startswith("dark is not known: no fresh load figure")
    assert found["relievedNodes: cool"] == "cool is not hot before the plan"


@pytest.mark.parametrize("lacks", [{"cpu": 0}, {"memory": "0"}])
def test_a_node_without_allocatable_is_not_known_to_be_cool_and_every_report_says_why(
    lacks: dict[str, Any],
) -> None:
    inputs = planning_inputs([a_node("bare", **lacks), a_node("b")], load={"bare": (20.0, 20.0)})
    test = parse_policy_test(yaml.safe_dump(HEAD | {"coolNodes": ["bare"]}), "file")
    plan, name = Planner(inputs).plan(), next(iter(lacks))

    (found,) = check_plan(test, "file", plan, inputs.snapshot).assertions
    because = f"no allocatable {name}: neither hot nor a landing to count on"
    assert (found.holds, found.because) == (False, f"bare is not known: {because}")
    assert (plan.known_count, [node.is_unknown for node in plan.nodes]) == (1, [False, True])
    assert [*excluded_destinations(inputs, {}).values()] == [f"has no allocatable {name}"]
    assert any(warning.startswith("1 node has no fresh load figure") for warning in plan.warnings)


def test_a_node_that_is_hot_by_the_one_figure_that_it_has_says_so_and_that_nothing_lands_there() -> None:
    inputs = planning_inputs([a_node("bare", memory="0"), a_node("b")], load={"bare": (95.0, 95.0)})
    (bare,) = (node for node in Planner(inputs).plan().nodes if node.name == "bare")

    assert (bare.hot, bare.is_unknown) == (True, False)
    assert bare.because[0].startswith("cpu 95.0 %")
    assert "no allocatable memory: no landing to count on" in bare.because


def test_a_node_of_which_nobody_knows_how_much_it_has_of_a_resource_is_not_known_to_be_cool() -> None:
    load = INPUTS.load

    def with_disk(figures: Any, disk: float) -> Any:
        return np.column_stack([figures, np.full(len(figures), disk)])

    names = (*load.resources, "disk")
    columns = {"measured_at": NOW, "source": 0, "window_seconds": 0.0, "usage": 5.0, "allocatable": np.nan}
    columns |= {"deviation": np.nan, "pod_usage": np.nan, "pod_methods": 0}
    changed = {name: with_disk(getattr(load, name), disk) for name, disk in columns.items()}
    statistics = tuple((*item, "mean") for item in load.statistics)
    with_more = replace(load, resources=names, required=names, statistics=statistics, **changed)
    inputs = replace(INPUTS, load=with_more)
    nodes = {node.name: node for node in Planner(inputs).plan().nodes}

    because = "its disk in percent is not known"
    assert nodes["cool"].because == (f"{because}: neither hot nor a landing to count on",)
    assert nodes["a"].because[-1] == because
    assert (nodes["cool"].is_unknown, nodes["a"].is_unknown) == (True, False)


def test_what_is_left_out_of_a_reason_is_counted() -> None:
    inputs = planning_inputs([a_node(f"n{number}") for number in range(5)])
    test = parse_policy_test(yaml.safe_dump(HEAD | {"hotNodes": ["n*"]}), "file")

    found = check_plan(test, "file", Planner(inputs).plan(), inputs.snapshot).assertions[0]

    assert found.because == "n0 is not hot; n1 is not hot; n2 is not hot; and 2 more"


@rows("key", ["mustMove", "mustStay", "hotNodes", "coolNodes", "relievedNodes"])
def test_a_pattern_that_matches_nothing_fails(key: str) -> None:
    pattern = "nothing" if key.endswith("Nodes") else "default/nothing-*"

    assert list(failing(**{key: [pattern]})) == [f"{key}: {pattern}"]


@rows(
    "text, words",
    [
        ("[]", "is not a PolicyTest"),
        ("kind: PolicyTest", "apiVersion: is required"),
        ({"kind": "RebalancePolicy", "maxEvictions": 1}, "RebalancePolicy"),
        ({}, "asserts nothing"),
        ({"mustMove": []}, "asserts nothing"),
        ({"mustmove": ["a/b"]}, "did you mean mustMove?"),
        ({"mustMove": ["web"]}, "should be NAMESPACE/NAME or KIND/NAMESPACE/NAME"),
        ({"mustMove": ["thing/a/b"]}, "names neither a pod"),
        ({"mustMove": ["node/a/b"]}, "names neither a pod"),
        ({"mustMove": ["a/b", "a/b"]}, "listed twice"),
        ({"mustMove": ["a/" + "*a" * 300]}, "at most 512"),
        ({"maxEvictions": -1}, "greater than or equal to 0"),
        ({"mustMove": ["a/\u001b[2J"], "maxEvictions": "x"}, "maxEvictions"),
    ],
)
def test_a_file_that_asserts_nothing_usable_is_refused_in_one_line(text: Any, words: str) -> None:
    text = text if isinstance(text, str) else yaml.safe_dump(HEAD | text)

    with pytest.raises(InputError) as caught:
        parse_policy_test(text, "file")

    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_junit_holds_a_case_for_each_assertion_and_is_well_formed_whatever_the_names() -> None:
    found = report(mustMove=["default/<&\"'>\u0007*"], maxEvictions=3)

    suite = minidom.parseString(junit_xml([found])).getElementsByTagName("testsuite")[0]

    assert (suite.getAttribute("tests"), suite.getAttribute("failures")) == ("2", "1")
    cases = suite.getElementsByTagName("testcase")
    assert cases[0].getAttribute("name") == "mustMove: default/<&\"'>\\x07*"
    assert len(cases[0].getElementsByTagName("failure")) == 1
    assert len(cases[1].getElementsByTagName("failure")) == 0
