"""Whom the real descheduler would evict, recorded, is whom we would, but for differences that have a name."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from rebalancer.policy_import.mapping import KeyFate
from tests.conformance.descheduler import differential, recorded
from tests.conformance.descheduler.candidates import Asked
from tests.conformance.descheduler.deviations import DEVIATIONS, deviation
from tests.conformance.descheduler.generator import PLUGINS, make_case
from tests.conftest import some_of

# Plugins whose own tables have all that we ask of a pod; other tables have pods without times or controllers.
COMPLETE = (
    "RemovePodsHavingTooManyRestarts",
    "RemovePodsViolatingInterPodAntiAffinity",
    "RemovePodsViolatingTopologySpreadConstraint",
)


@functools.cache  # not when the module is imported: each worker imports all of them
def the_cases(name: str) -> Sequence[recorded.Case]:
    """Random clusters; or ``tables``, clusters of the descheduler's own unit tests as JSON.

    Those are of kubernetes-sigs/descheduler v0.36.0 (Apache-2.0).
    """
    return recorded.read(name)


@pytest.mark.many_cases
@pytest.mark.parametrize("plugin", PLUGINS)
def test_every_difference_from_the_descheduler_has_a_name(plugin: str) -> None:
    cases = [case for case in the_cases("random") if case["family"] == plugin]
    found = differential.tally(some_of(cases))[plugin]
    assert found.unexplained == []
    assert found.same >= 0.6 * found.of
    assert sum(len(case["evictions"]) for case in cases) > 10, "the cases have something to do"


def test_every_deviation_is_documented_with_why() -> None:
    page = (Path(__file__).parents[1] / "RESULTS.md").read_text()
    names = Counter((item.name, item.theirs) for item in DEVIATIONS)
    assert max(names.values()) == 1
    assert all(f"| {item.name} | {item.because} |" in page for item in DEVIATIONS)


def test_pods_that_a_node_takes_only_after_other_moves_are_no_candidates_there() -> None:
    """The only node of the other zone is full until pods of another constraint have left it."""
    case = make_case(31, "RemovePodsViolatingTopologySpreadConstraint", 10)
    both = differential.compared({**case, "evictions": []})
    names = [f"dev/cache-{number}" for number in range(4)]
    assert set(names) <= both.ours.keys()
    assert {deviation(both, name, theirs=False) for name in names} == {"no node takes it"}


@pytest.mark.parametrize("plugin", COMPLETE)
def test_what_its_own_unit_tests_evict_we_would_move(plugin: str) -> None:
    for case in the_cases("tables"):
        if case["family"] == plugin:
            asked = Asked.of({"now": "2026-11-23T07:20:00Z", **case})
            assert set(case["evictions"]) <= asked.wishes().keys(), case["id"]


def test_every_policy_of_its_own_unit_tests_is_imported() -> None:
    assert len(the_cases("tables")) == 295
    unknown = {
        note.key
        for case in the_cases("tables")
        for note in Asked.of(case).imported.notes
        if note.fate is KeyFate.DROPPED and note.text.startswith("no strategy of ours")
    }
    assert unknown == set()
