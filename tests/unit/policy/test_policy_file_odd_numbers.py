"""A number that no setting can take is refused at its place, however large, small or strange."""

from __future__ import annotations

import pytest

from rebalancer.errors import InputError
from rebalancer.policy.policy_file import parse_policy
from tests.rows import rows

HEAD = "apiVersion: rebalancer/v1alpha1\nkind: RebalancePolicy\n"
NUMBERS = ("1e308", "1e400", ".inf", "-.inf", ".nan", "1" + "0" * 400, "-1" + "0" * 400, "-5")
PLACES = (
    "load: {maxAge: NUMBER}",
    "load: {minCoverage: NUMBER}",
    "load: {window: NUMBER}",
    "limits: {perRun: NUMBER}",
    "limits: {perWorkload: NUMBER}",
    "planning: {cooldown: NUMBER}",
    "planning: {confidence: NUMBER}",
    "hotNodes: {runInterval: NUMBER}",
    "hotNodes: {forRuns: NUMBER}",
    "hotNodes: {any: [{utilization: {cpu: NUMBER}}]}",
    "hotNodes: {any: [{utilization: {cpu: 80}, coolTo: {cpu: NUMBER}}]}",
    "evictable: {minAge: NUMBER}",
    "execution: {waveSize: NUMBER}",
    "safety: {maxNotReadyNodes: NUMBER}",
)


@rows("place", PLACES)
@rows("number", NUMBERS)
def test_a_number_that_cannot_be_is_refused_at_its_place(place: str, number: str) -> None:
    with pytest.raises(InputError, match=r"^policy\.yaml:3:\d+"):
        parse_policy(HEAD + place.replace("NUMBER", number) + "\n", "policy.yaml")
