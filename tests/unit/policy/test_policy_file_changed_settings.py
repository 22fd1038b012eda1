from __future__ import annotations

from rebalancer.policy.policy_file import changed_settings, parse_policy
from rebalancer.policy.schema import RebalancePolicy

HEAD = "apiVersion: rebalancer/v1alpha1\nkind: RebalancePolicy\n"


def a_policy(text: str) -> RebalancePolicy:
    return parse_policy(HEAD + text, "policy").policy


def test_a_key_that_is_left_to_its_default_differs_from_nothing() -> None:
    assert changed_settings(a_policy(""), a_policy("planning: {minGain: 5}\nmetadata: {name: other}\n")) == ()


def test_keys_are_named_as_the_policy_names_them_and_rules_by_their_place() -> None:
    one = a_policy("hotNodes: {any: [{utilization: {cpu: 80}}]}\n")
    other = a_policy("hotNodes: {any: [{utilization: {cpu: 70}}]}\nlimits: {perRun: 3}\n")

    assert {key: values for key, *values in changed_settings(one, other)} == {
        "hotNodes.any[0].utilization.cpu": ["80", "70"],
        "hotNodes.any[0].coolTo.cpu": ["70", "60"],
        "limits.perRun": ["5", "3"],
    }


def test_lists_of_another_length_are_shown_whole() -> None:
    found = changed_settings(
        a_policy("evictable: {protect: []}\n"), a_policy("evictable: {protect: [SingleReplica]}\n")
    )

    assert found == (("evictable.protect", "[]", '["SingleReplica"]'),)


def test_a_key_that_only_one_policy_has_is_empty_in_the_other() -> None:
    found = changed_settings(a_policy(""), a_policy("scheduler: {version: '1.34'}\n"))

    assert found == (("scheduler.version", "", "1.34"),)
