from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalancer.cluster.records import LabelSelector, Requirement
from rebalancer.cluster.selectors import is_empty, matcher, matcher_of, parse_labels, query
from rebalancer_demo.objects import label_query
from tests.rows import rows

KEYS, VALUES = st.sampled_from(("app", "tier", "zone")), st.sampled_from(("", "a", "b", "c"))
LABELS = st.dictionaries(KEYS, VALUES)


@st.composite
def requirements(draw: st.DrawFn) -> Requirement:
    operator = draw(st.sampled_from(("In", "NotIn", "Exists", "DoesNotExist")))
    values = draw(st.lists(VALUES, min_size=1, max_size=3)) if operator.endswith("In") else None
    return Requirement(key=draw(KEYS), operator=operator, values=values)


@st.composite
def selectors(draw: st.DrawFn) -> LabelSelector:
    return LabelSelector(
        match_labels=draw(st.none() | LABELS),
        match_expressions=draw(st.none() | st.lists(requirements(), max_size=3)),
    )


def oracle(selector: LabelSelector, labels: dict[str, str]) -> bool:
    """The documentation of Kubernetes, sentence by sentence."""
    for key, value in (selector.match_labels or {}).items():
        if key not in labels or labels[key] != value:
            return False
    for requirement in selector.match_expressions or []:
        here = requirement.key in labels
        listed = here and labels[requirement.key] in (requirement.values or [])
        holds = {"In": listed, "NotIn": not listed, "Exists": here, "DoesNotExist": not here}
        if not holds[requirement.operator]:
            return False
    return True


@given(selectors(), LABELS)
def test_a_selector_matches_what_the_documentation_says(
    selector: LabelSelector, labels: dict[str, str]
) -> None:
    assert matcher(selector)(labels) == oracle(selector, labels)


@given(selectors(), LABELS)
def test_the_query_of_a_selector_selects_what_the_selector_does(
    selector: LabelSelector, labels: dict[str, str]
) -> None:
    selects = label_query(query(selector))
    assert selects({"metadata": {"labels": labels}}) == oracle(selector, labels)


def test_a_query_is_written_as_the_api_server_reads_it() -> None:
    expressions = [
        Requirement(key="tier", operator="In", values=["front", "back"]),
        Requirement(key="zone", operator="NotIn", values=["a"]),
        Requirement(key="app", operator="Exists"),
        Requirement(key="canary", operator="DoesNotExist"),
    ]
    selector = LabelSelector(match_labels={"app": "web"}, match_expressions=expressions)
    assert query(selector) == "app=web,tier in (front,back),zone!=a,app,!canary"


def test_a_requirement_of_one_value_is_written_so_that_an_empty_one_is_seen() -> None:
    assert query(parse_labels("app==,tier!=")) == "app=,tier!="


@given(LABELS)
def test_an_absent_selector_matches_nothing_and_an_empty_one_everything(labels: dict[str, str]) -> None:
    assert not matcher(None)(labels)
    assert matcher(LabelSelector())(labels)
    assert matcher(LabelSelector(match_labels={}, match_expressions=[]))(labels)


def test_only_a_selector_that_is_there_and_asks_for_nothing_is_empty() -> None:
    assert is_empty(LabelSelector())
    assert not is_empty(None)
    assert not is_empty(LabelSelector(match_labels={"app": "web"}))


@rows(
    "requirement, complaint",
    [
        (Requirement(operator="Exists"), "has no key"),
        (Requirement(key="app", operator="In"), "needs values"),
        (Requirement(key="app", operator="NotIn", values=[]), "needs values"),
        (Requirement(key="app", operator="Exists", values=["a"]), "takes no values"),
        (Requirement(key="app", operator="Gt", values=["1"]), "is not a selector operator"),
        (Requirement(key="app"), "is not a selector operator"),
    ],
)
def test_a_selector_the_api_server_would_refuse_is_refused(requirement: Requirement, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        matcher(LabelSelector(match_expressions=[requirement]))


@given(selectors(), LABELS)
def test_a_selector_in_json_selects_what_its_record_selects(
    selector: LabelSelector, labels: dict[str, str]
) -> None:
    assert matcher_of(msgspec.to_builtins(selector))(labels) == matcher(selector)(labels)
    assert not matcher_of(None)(labels)


@rows(
    "selector",
    [
        {"matchExpressions": [{"key": "app", "operator": "Near", "values": ["a"]}]},
        {"matchExpressions": [{"key": "app"}]},
        {"matchExpressions": [{"operator": "Exists"}]},
        {"matchExpressions": "app"},
        {"matchLabels": {"app": 1}},
        [],
        "app=a",
    ],
)
def test_json_that_is_no_selector_is_a_value_error(selector: object) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the library's own words differ
        matcher_of(selector)
