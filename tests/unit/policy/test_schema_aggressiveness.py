"""The aggressiveness of a policy: what each level sets, and what the policy's own keys keep."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from rebalancer.policy.policy_file import parse_policy, to_yaml
from rebalancer.policy.schema import LEVELS, Planning
from tests.rows import rows


def planning(**keys: Any) -> Planning:
    return Planning.model_validate(keys)


def test_without_a_word_of_it_the_dial_is_in_the_middle() -> None:
    assert planning() == planning(aggressiveness=3)
    assert (planning().min_gain, planning().confidence, planning().level.least_relief) == (5, 0.95, 1)


def test_the_description_names_what_every_level_sets() -> None:
    words = str(Planning.model_fields["aggressiveness"].description)
    for name in ("min_gain", "confidence"):
        assert f"({', '.join(f'{getattr(LEVELS[level], name):g}' for level in range(1, 6))})" in words
    assert [level for level in LEVELS if not planning(aggressiveness=level).partial_relief] == [1]


def test_each_level_asks_for_no_more_than_the_one_below() -> None:
    for careful, eager in itertools.pairwise(planning(aggressiveness=level) for level in range(1, 6)):
        assert careful.min_gain >= eager.min_gain
        assert careful.confidence >= eager.confidence
        assert careful.level.least_relief >= eager.level.least_relief
        assert careful.partial_relief <= eager.partial_relief


@rows("level", range(1, 6))
def test_a_key_that_the_policy_names_keeps_its_value_at_every_level(level: int) -> None:
    found = planning(aggressiveness=level, minGain=7, confidence=0.5, partialRelief=True)
    assert (found.min_gain, found.confidence, found.partial_relief) == (7, 0.5, True)


def test_a_printed_policy_reads_back_as_the_same_policy() -> None:
    text = (
        "apiVersion: rebalancer/v1alpha1\nkind: RebalancePolicy\nplanning: {aggressiveness: 1, minGain: 2}\n"
    )
    policy = parse_policy(text, "policy.yaml").policy
    assert parse_policy(to_yaml(policy), "printed.yaml").policy == policy
    assert (policy.planning.min_gain, policy.planning.confidence) == (2, 0.99)


@pytest.mark.parametrize("level", [0, 6])
def test_there_are_five_levels(level: int) -> None:
    with pytest.raises(ValueError, match="aggressiveness"):
        planning(aggressiveness=level)


def rows_of_the_page() -> list[list[str]]:
    page = Path(__file__).parents[3] / "docs" / "planning.md"
    lines = [line for line in page.read_text().splitlines() if line.startswith("| ")]
    return [[cell.strip().strip("`") for cell in line.strip("|").split("|")] for line in lines]


def test_the_documentation_tells_what_every_level_sets() -> None:
    documented = {row[0]: row[1:5] for row in rows_of_the_page() if row[0].isdecimal()}
    assert documented == {
        str(level): [
            f"{found.min_gain:g}",
            f"{found.confidence:g}",
            str(found.partial_relief).lower(),
            f"{found.least_relief:g}",
        ]
        for level, found in LEVELS.items()
    }
