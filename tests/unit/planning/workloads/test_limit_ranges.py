"""What LimitRanges make of a new pod, compared with what the admission plugin does."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalancer.cluster import quantities
from rebalancer.cluster.records import PodSpec
from rebalancer.cluster.snapshot import build_snapshot
from rebalancer.planning.workloads.limit_ranges import LimitRanges
from tests.builders import a_node, a_recording

NAMES = ("cpu", "memory")
AMOUNTS = ("1", "2", "500m", "0.5", "3")
Amounts = dict[str, str]


def ranges(*limits: dict[str, Any]) -> LimitRanges:
    item = {"metadata": {"name": "bounds", "namespace": "default"}, "spec": {"limits": list(limits)}}
    recording = a_recording(None, nodes=[a_node("a")], pods=[], limitranges=[item])
    return LimitRanges(build_snapshot(recording))


def a_spec(*resources: dict[str, Amounts], init: bool = False, **fields: Any) -> PodSpec:
    containers = [{"name": f"c{number}", "resources": item} for number, item in enumerate(resources)]
    return msgspec.convert({"initContainers" if init else "containers": containers, **fields}, PodSpec)


def amounts() -> st.SearchStrategy[Amounts]:
    return st.dictionaries(st.sampled_from(NAMES), st.sampled_from(AMOUNTS), max_size=2)


def resources() -> st.SearchStrategy[dict[str, Amounts]]:
    return st.fixed_dictionaries({"requests": amounts(), "limits": amounts()})


def limits(kind: str) -> st.SearchStrategy[dict[str, Any]]:
    keys = ["min", "max", "maxLimitRequestRatio"] + (
        ["default", "defaultRequest"] if kind == "Container" else []
    )
    return st.fixed_dictionaries({"type": st.just(kind)}, optional={key: amounts() for key in keys})


def as_admitted(limit: dict[str, Any], given_resources: dict[str, Amounts]) -> dict[str, Amounts]:
    """SetDefaults_LimitRangeItem, the pod's own defaults and mergeContainerResources, step by step."""
    default, default_request = dict(limit.get("default", {})), dict(limit.get("defaultRequest", {}))
    for name, value in limit.get("max", {}).items():
        default.setdefault(name, value)
    for name, value in default.items():
        default_request.setdefault(name, value)
    for name, value in limit.get("min", {}).items():
        default_request.setdefault(name, value)
    requests, limited = dict(given_resources["requests"]), dict(given_resources["limits"])
    for name, value in given_resources["limits"].items():
        requests.setdefault(name, value)
    for name, value in default.items():
        limited.setdefault(name, value)
    for name, value in default_request.items():
        requests.setdefault(name, value)
    return {"requests": requests, "limits": limited}


def is_refused(limit: dict[str, Any], admitted: dict[str, Amounts]) -> bool:
    """minConstraint, maxConstraint and limitRequestRatioConstraint of one container."""
    requests = {name: quantities.parse(text) for name, text in admitted["requests"].items()}
    limited = {name: quantities.parse(text) for name, text in admitted["limits"].items()}
    for name, text in limit.get("min", {}).items():
        least = quantities.parse(text)
        if name not in requests or requests[name] < least or (name in limited and limited[name] < least):
            return True
    for name, text in limit.get("max", {}).items():
        most = quantities.parse(text)
        if name not in limited or limited[name] > most or (name in requests and requests[name] > most):
            return True
    for name, text in limit.get("maxLimitRequestRatio", {}).items():
        if name not in requests or name not in limited or not requests[name] or not limited[name]:
            return True
        if Fraction(limited[name], requests[name]) > quantities.parse(text):
            return True
    return False


def plain(spec: PodSpec) -> list[dict[str, Amounts]]:
    return [
        {
            "requests": (item.resources.requests if item.resources else None) or {},
            "limits": (item.resources.limits if item.resources else None) or {},
        }
        for item in (*(spec.containers or ()), *(spec.init_containers or ()))
    ]


@given(limits("Container"), st.lists(resources(), min_size=1, max_size=3), st.booleans())
def test_defaults_are_those_of_the_admission_plugin(
    limit: dict[str, Any], asked: list[dict[str, Amounts]], init: bool
) -> None:
    known, spec = ranges(limit), a_spec(*asked, init=init)
    admitted = known.admitted("default", spec)
    expected = [as_admitted(limit, item) for item in asked]
    for before, after, want in zip(asked, plain(admitted), expected, strict=True):
        changed = want["limits"] != before["limits"] or want["requests"] != {
            **before["limits"],
            **before["requests"],
        }
        assert after == (want if changed else before)
    assert known.admitted("default", admitted) == admitted
    assert not known.why_added("default", admitted)


@given(limits("Container"), st.lists(resources(), min_size=1, max_size=2))
def test_refusals_are_those_of_the_admission_plugin(
    limit: dict[str, Any], asked: list[dict[str, Amounts]]
) -> None:
    known = ranges(limit)
    expected = [as_admitted(limit, item) for item in asked]
    refusal = known.refusal("default", a_spec(*expected))
    assert bool(refusal) == any(is_refused(limit, item) for item in expected)


@given(limits("Pod"), st.lists(resources(), min_size=1, max_size=3))
def test_a_limit_of_pods_bounds_the_sum_of_their_containers(
    limit: dict[str, Any], asked: list[dict[str, Amounts]]
) -> None:
    """A resource that no container asks for is none of the sum."""
    total: dict[str, Amounts] = {
        field: {
            name: str(
                sum(
                    (quantities.parse(item[field][name]) for item in asked if name in item[field]),
                    Fraction(0),
                )
            )
            for name in NAMES
            if any(name in item[field] for item in asked)
        }
        for field in ("requests", "limits")
    }
    as_text = {
        field: {name: f"{int(Fraction(text) * 1000)}m" for name, text in values.items()}
        for field, values in total.items()
    }
    assert bool(ranges(limit).refusal("default", a_spec(*asked))) == is_refused(limit, as_text)


def test_a_pod_of_another_namespace_is_left_alone() -> None:
    spec = a_spec({})
    assert ranges({"type": "Container", "default": {"cpu": "1"}}).admitted("shop", spec) is spec


def test_overhead_does_not_count_against_a_limit_of_pods() -> None:
    spec = a_spec({"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}, overhead={"cpu": "1"})
    assert not ranges({"type": "Pod", "max": {"cpu": "1"}}).refusal("default", spec)


def test_the_only_limit_range_leaves_its_namespace_unknown_where_it_could_not_be_read() -> None:
    damaged = {"metadata": {"name": "bounds", "namespace": "default"}, "spec": {"limits": 7}}
    recording = a_recording(None, nodes=[a_node("a")], pods=[], limitranges=[damaged])
    known = LimitRanges(build_snapshot(recording))
    assert known.why_unknown("default", a_spec()).endswith("what it makes of a replacement is unknown")
    assert known.why_unknown("shop", a_spec()) == ""


def test_an_amount_that_cannot_be_read_refuses() -> None:
    refusal = ranges({"type": "Container", "max": {"cpu": "many"}}).refusal("default", a_spec({}))
    assert "cannot be read" in refusal


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        ("LimitRanger plugin set: cpu, memory request for container c0; cpu limit for container c0", False),
        ("LimitRanger plugin set: memory limit for init container c0", True),
        ("something else", False),
    ],
)
def test_what_a_limit_range_added_before_is_read_from_the_annotation(text: str, changed: bool) -> None:
    known = ranges({"type": "Container", "default": {"cpu": "1"}, "defaultRequest": {"memory": "2Gi"}})
    spec = a_spec({"requests": {"cpu": "1", "memory": "2Gi"}, "limits": {"cpu": "1000m", "memory": "3Gi"}})
    why = known.why_changed("default", spec, {"kubernetes.io/limit-ranger": text})
    assert bool(why) == changed
