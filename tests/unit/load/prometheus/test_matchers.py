"""Matchers are added to every selector of an expression, and to nothing else in it."""

from __future__ import annotations

from rebalancer.load.prometheus.matchers import with_matchers
from tests.rows import rows

NORTH = {"cluster": "north"}


@rows(
    "query, expected",
    [
        ("up", 'up{cluster="north"}'),
        ("up{}", 'up{cluster="north"}'),
        ('up {job="a"}', 'up {cluster="north",job="a"}'),
        ('{__name__=~"a|b"}', '{cluster="north",__name__=~"a|b"}'),
        ("sum by (instance, node) (rate(a[5m]))", 'sum by (instance, node) (rate(a{cluster="north"}[5m]))'),
        ("sum(a) by (node)", 'sum(a{cluster="north"}) by (node)'),
        ("sum without(cpu) (a)", 'sum without(cpu) (a{cluster="north"})'),
        (
            "a * on (node) group_left (zone) b",
            'a{cluster="north"} * on (node) group_left (zone) b{cluster="north"}',
        ),
        ("a / ignoring(x) group_right b", 'a{cluster="north"} / ignoring(x) group_right b{cluster="north"}'),
        ("a or b unless c", 'a{cluster="north"} or b{cluster="north"} unless c{cluster="north"}'),
        ("a > bool 1e3", 'a{cluster="north"} > bool 1e3'),
        ("a offset 5m @ end()", 'a{cluster="north"} offset 5m @ end()'),
        ("rate(a:b:rate5m[10m:1m])", 'rate(a:b:rate5m{cluster="north"}[10m:1m])'),
        (
            'label_replace(a, "x", "$1 b", "y", "}")',
            'label_replace(a{cluster="north"}, "x", "$1 b", "y", "}")',
        ),
        ('a{x="}"} + b', 'a{cluster="north",x="}"} + b{cluster="north"}'),
        ("a # b {\n+ c", 'a{cluster="north"} # b {\n+ c{cluster="north"}'),
        ("time() - vector(1) + Inf", "time() - vector(1) + Inf"),
    ],
)
def test_every_selector_has_the_matchers_of_the_policy(query: str, expected: str) -> None:
    assert with_matchers(query, NORTH) == expected


def test_a_value_is_quoted_as_promql_quotes_it() -> None:
    assert with_matchers("up", {"a": 'x"y\\z', "b": "ü"}) == r'up{a="x\"y\\z",b="ü"}'


def test_without_labels_an_expression_stays_as_it_is() -> None:
    assert with_matchers("sum(up) # all", {}) == "sum(up) # all"
