from __future__ import annotations

from rebalancer.planning.eviction.rules import ALWAYS, BY_POLICY
from rebalancer.planning.explanation import VERDICTS
from rebalancer.planning.reasons import Reason, groups
from rebalancer.policy.schema import Protection
from tools.pages.protections import protections_page


def test_every_reason_has_one_row() -> None:
    page = protections_page()
    assert [page.count(f"| `{reason}` |") for reason in Reason] == [1] * len(Reason)
    assert [reason for reasons in groups().values() for reason in reasons] == list(Reason)


def test_the_reason_of_every_value_of_protect_names_it() -> None:
    settings = {reason.value: reason.setting for reason in Reason}
    for kind in Protection:
        assert settings[kind] == f"evictable.protect: {kind}"


def test_groups_hold_as_many_reasons_as_rules_at_least() -> None:
    sizes = [len(reasons) for reasons in groups().values()]
    assert sizes[0] >= len(ALWAYS)
    assert sizes[1] >= len(BY_POLICY)


def test_the_verdicts_of_explain_that_are_no_reasons_are_named() -> None:
    for verdict in VERDICTS:
        assert f"`{verdict}`" in protections_page().partition("##")[0]
