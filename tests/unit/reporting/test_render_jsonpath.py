"""The dialect is kubectl's: what is expected here, kubectl printed for the same document."""

from __future__ import annotations

from typing import Any

import pytest

from rebalancer.errors import InputError
from rebalancer.reporting.render import parse_template
from tests.rows import rows

DOCUMENT: dict[str, Any] = {
    "kind": "Config",
    "current-context": "b",
    "clusters": [
        {"name": "one", "cluster": {"server": "https://one"}},
        {"name": "two.x", "cluster": {"server": "https://two"}},
    ],
    "contexts": [
        {"name": "a", "context": {"cluster": "one", "user": "u1", "namespace": "n"}},
        {"name": "b", "context": {"cluster": "two.x", "user": "u2"}},
    ],
    "labels": {"kubernetes.io/os": "linux"},
}


@rows(
    "template, printed",
    [
        ("{.contexts[*].name}", "a b"),
        ("{$.kind}{@.kind}{.kind}", "ConfigConfigConfig"),
        (".contexts[*].name", "a b"),
        ("kind", "Config"),
        ("{.current-context}", "b"),
        (r'{range .contexts[*]}{.name}{"\t"}{.context.namespace}{"\n"}{end}', "a\tn\nb\t\n"),
        ("{range .contexts[*]}[{.name}]{end}", "[a][b]"),
        ('{.contexts[?(@.name=="b")].context.user}', "u2"),
        ("{.contexts[?(@.name=='b')].context.user}", "u2"),
        ('{.contexts[?(@.context.user!="u1")].name}', "b"),
        ("{.contexts[?(@.context.namespace)].name}", "a"),
        ("{.contexts[-1:].name}", "b"),
        ("{.contexts[0:1].name}", "a"),
        ("{.contexts[1].context}", '{"cluster":"two.x","user":"u2"}'),
        ("{..server}", "https://one https://two"),
        ("{.contexts.*.name}", "a b"),
        ("{['kind']}", "Config"),
        (r"{.labels.kubernetes\.io/os}", "linux"),
        ("{.nope}{.contexts[*].nope}", ""),
        ("before {.kind} after", "before Config after"),
        ("{'a'}{.kind}", "aConfig"),
    ],
)
def test_a_template_prints_what_kubectl_prints(template: str, printed: str) -> None:
    assert parse_template(template).render(DOCUMENT) == printed


@rows(
    "template, complaint",
    [
        ("{.contexts[*", "a { has no }"),
        ("{.contexts[*}", "a [ has no ]"),
        ("{range .contexts[*]}{.name}", "{range} without {end}"),
        ("{.kind}{end}", "{end} without {range}"),
        ("{}", "{} is empty"),
        ("{.a b}", "is not part of a path"),
        ("{.contexts[?(@.name==)]}", "contexts"),
        ("{'only text'}", "names no value"),
    ],
)
def test_a_template_that_is_none_is_refused_before_anything_is_read(template: str, complaint: str) -> None:
    with pytest.raises(InputError) as refused:
        parse_template(template)

    assert complaint in str(refused.value)


def test_names_from_a_cluster_cannot_act_on_a_terminal() -> None:
    assert parse_template("{.a}").render({"a": "x\x1b[2J\ny"}) == r"x\x1b[2J\ny"
    assert "\u202e" not in parse_template("{.a}").render({"a": {"b": "x\u202ey"}})
