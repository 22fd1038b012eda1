"""Whatever a policy of another descheduler holds, it becomes one of ours, or an error of one line."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalancer.documents import to_yaml
from rebalancer.errors import InputError, RebalancerError
from rebalancer.policy.policy_file import parse_policy
from rebalancer.policy_import import import_policy
from tests.unit.policy_import.test_descheduler_and_openshift import CURRENT, FIRST, OPERATOR

KEYS = sorted({"enabled", "include", "value", *re.findall(r"([A-Za-z]+):", CURRENT + FIRST + OPERATOR)})
WORDS = ["a=b", "", "x", "LowNodeUtilization", "!a"]
values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-10, 200) | st.sampled_from(WORDS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5),
    max_leaves=12,
)
TOP = ["profiles", "strategies", "spec", "nodeSelector", "maxNoOfPodsToEvictTotal"]


def test_protections_that_change_nothing_are_no_difference() -> None:
    """As in the default policy of descheduler's chart."""
    empty = "podProtections: {defaultDisabled: [], extraEnabled: []}"
    found = import_policy(CURRENT.replace("evictLocalStoragePods: true", empty), "theirs.yaml")

    assert "podProtections" not in found.warning
    assert {note.key: str(note.fate) for note in found.notes}["podProtections"] == "mapped"


@given(
    st.sampled_from(
        [
            ("descheduler/v1alpha1", "DeschedulerPolicy"),
            ("descheduler/v1alpha2", "DeschedulerPolicy"),
            ("operator.openshift.io/v1", "KubeDescheduler"),
        ]
    ),
    st.dictionaries(st.sampled_from(TOP), values, max_size=4),
)
def test_any_file_becomes_a_policy_or_one_line(kind: tuple[str, str], rest: dict[str, Any]) -> None:
    text = to_yaml({**rest, "apiVersion": kind[0], "kind": kind[1]})
    message = ""
    try:
        found = import_policy(text, "theirs.yaml")
        parse_policy(to_yaml(found.policy), "ours.yaml")
    except RebalancerError as error:
        message = str(error)
    assert "\n" not in message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "is not a mapping"),
        ("kind: Deployment\napiVersion: apps/v1\n", "Deployment of apps/v1"),
        ("a: 1\n", "no kind of no apiVersion"),
    ],
)
def test_another_kind_of_file_is_refused_with_what_is_expected(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        import_policy(text, "other.yaml")
    assert "DeschedulerPolicy" in caught.value.hint


def test_a_plugin_without_a_name_is_noted_as_one_that_is_not_enabled() -> None:
    text = """apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
profiles:
- name: default
  pluginConfig: [{args: {thresholds: {cpu: 20}}}]
  plugins: {deschedule: {enabled: [PodLifeTime]}}
"""
    sentences = [note.sentence for note in import_policy(text, "theirs.yaml").notes]

    assert (
        "theirs.yaml:5:18 name has no effect in descheduler either: the profile does not enable this plugin."
        in sentences
    )
