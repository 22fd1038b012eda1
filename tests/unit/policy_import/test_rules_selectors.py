"""Selectors as kubectl writes them, their opposites, and several as one."""

from __future__ import annotations

from typing import Any

from rebalancer.policy_import.rules import as_selector, opposite, parse_selector, together
from tests.rows import rows


@rows(
    "text, expected",
    [
        ("", []),
        (" a = b , c==d ", [("a", "In", ["b"]), ("c", "In", ["d"])]),
        ("a!=b", [("a", "NotIn", ["b"])]),
        ("a in (b, c),d notin (e),f=", [("a", "In", ["b", "c"]), ("d", "NotIn", ["e"]), ("f", "In", [""])]),
        ("example.com/a,!b,! c", [("example.com/a", "Exists"), ("b", "DoesNotExist"), ("c", "DoesNotExist")]),
    ],
)
def test_a_selector_is_read_as_kubectl_writes_it(text: str, expected: list[tuple[Any, ...]]) -> None:
    assert [tuple(item.values()) for item in parse_selector(text) or ()] == expected


@rows("text", ["a>1", "a=b=c", "=b", "a in b", "a in (b", "a of (b)", "a b", "!a=b", "in (a)"])
def test_what_is_no_selector_of_labels_is_not_read(text: str) -> None:
    assert parse_selector(text) is None


def test_opposites_and_selectors_together() -> None:
    one, other = {"key": "a", "operator": "In", "values": ["b"]}, {"key": "a", "operator": "Exists"}

    assert opposite(one) == {"key": "a", "operator": "NotIn", "values": ["b"]}
    assert opposite(opposite(other)) == other
    assert as_selector([one, one]) == {"matchLabels": {"a": "b"}}
    assert together([{"matchLabels": {"a": "b"}}, {"matchExpressions": [other]}]) == as_selector([one, other])
    assert together([{"matchLabels": {"a": "b"}}, {"matchLabels": 3}]) == {"matchLabels": 3}
