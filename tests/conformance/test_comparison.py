"""Every way in which two decisions can differ is found and named; what means the same does not differ."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.conformance.comparison import compare
from tests.rows import rows

ANSWER: dict[str, Any] = {
    "id": "c",
    "pods": [
        {
            "pod": "default/q0",
            "chosen": "a",
            "nodes": {
                "a": {"scores": {"NodeResourcesFit": 80, "ImageLocality": 0}, "total": 80},
                "b": {"filter": "NodeResourcesFit: Insufficient x/a, Insufficient x/b"},
            },
        },
        {"pod": "default/q1", "preFilter": "VolumeBinding: no claim", "nodes": {}},
    ],
}


def _changed(path: tuple[str | int, ...], value: object) -> dict[str, Any]:
    changed = copy.deepcopy(ANSWER)
    holder: Any = changed["pods"]
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = value
    return changed


@rows(
    "path, value, signature",
    [
        ((0, "nodes", "a", "scores", "NodeResourcesFit"), 81, ("score", "NodeResourcesFit")),
        ((0, "nodes", "a", "scores", "TaintToleration"), 1, ("score", "TaintToleration")),
        ((0, "nodes", "a", "total"), 81, ("total", "")),
        ((0, "nodes", "b", "filter"), "NodePorts: taken", ("filter", "NodeResourcesFit")),
        ((0, "nodes", "b", "filter"), "NodeResourcesFit: Too many pods", ("reason", "NodeResourcesFit")),
        ((0, "nodes", "a"), {"filter": "NodePorts: taken"}, ("filter", "NodePorts")),
        ((0, "chosen"), "b", ("chosen", "")),
        ((0, "error"), "failed", ("error", "")),
        ((1, "preFilter"), "VolumeBinding: other", ("preFilter", "VolumeBinding")),
    ],
)
def test_a_difference_is_named_by_kind_and_plugin(
    path: tuple[str | int, ...], value: object, signature: tuple[str, str]
) -> None:
    result = compare(ANSWER, _changed(path, value))
    assert signature in {difference.signature for difference in result.differences}
    assert result.equal == result.compared - 1


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ((0, "nodes", "a", "scores"), {"NodeResourcesFit": 80}),
        ((0, "nodes", "b", "filter"), "NodeResourcesFit: Insufficient x/b, Insufficient x/a"),
    ],
)
def test_a_zero_and_the_order_of_reasons_are_no_difference(
    path: tuple[str | int, ...], value: object
) -> None:
    result = compare(ANSWER, _changed(path, value))
    assert (result.compared, result.equal, result.differences) == (2, 2, ())


def test_pods_after_different_placements_are_not_compared() -> None:
    assert compare(ANSWER, _changed((0, "chosen"), "b")).compared == 1


def test_the_words_of_a_failed_cycle_are_the_schedulers_own() -> None:
    result = compare(_changed((0, "error"), "theirs"), _changed((0, "error"), "ours"))
    assert result.equal == 2


def test_of_a_decision_that_is_open_only_the_nodes_that_may_pass_are_compared() -> None:
    decided = copy.deepcopy(ANSWER)
    decided["pods"][0] |= {"open": "VolumeBinding: unknown", "chosen": "b"}
    decided["pods"][0]["nodes"]["b"] = {"total": 90}
    result = compare(ANSWER, decided)
    assert (result.compared, result.equal) == (1, 1)
    decided["pods"][0]["nodes"]["a"] = {"filter": "VolumeBinding: none"}
    assert [item.node for item in compare(ANSWER, decided).differences] == ["a"]
