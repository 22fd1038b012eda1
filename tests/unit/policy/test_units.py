"""Durations, percentages and amounts, as policies write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalancer.policy.units import (
    Amount,
    format_duration,
    format_percentage,
    parse_amount,
    parse_duration,
    parse_percentage,
)
from tests.rows import rows
from tests.unit.policy.policy_texts import read


@rows(
    "text, seconds",
    [
        ("10m", 600),
        ("1h30m", 5400),
        ("90s", 90),
        ("500ms", 0.5),
        ("1.5h", 5400),
        ("0s", 0),
        ("1h0m0.25s", 3600.25),
    ],
)
def test_durations_are_read_as_kubernetes_writes_them(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@rows("text", ["", "10", "m", "1d", "-1m", "1m1h", "1m1m", " 1m", "1m ", "1 m", "1e3s", "٣m", "1h.5m"])
def test_other_durations_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        parse_duration(text)


@given(st.integers(0, 10**10).map(lambda milliseconds: milliseconds / 1000))
def test_a_printed_duration_parses_back(seconds: float) -> None:
    assert parse_duration(format_duration(seconds)) == seconds


@given(st.integers(0, 10_000))
def test_a_printed_percentage_parses_back(hundredths: int) -> None:
    fraction = hundredths / 10_000
    assert parse_percentage(format_percentage(fraction)) == fraction


@given(st.integers(0, 100), st.integers(0, 10**6))
def test_a_percentage_of_a_total_is_rounded_up(percent: int, total: int) -> None:
    amount = Amount(percent, percent=True).of(total)
    assert (amount - 1) * 100 < percent * total <= amount * 100


def test_an_amount_is_a_number_or_a_percentage() -> None:
    assert parse_amount("10%").of(11) == 2
    assert parse_amount("3").of(1000) == 3
    assert [str(Amount(3)), str(Amount(3, percent=True))] == ["3", "3%"]
    for text in ("-1", "1.5", "101%", "%", "x", ""):
        with pytest.raises(ValueError, match="neither a whole number nor a percentage"):
            parse_amount(text)


def test_percentages_may_be_written_with_and_without_the_sign() -> None:
    signed = read("load: {minCoverage: 80%}\nhotNodes: {any: [{utilization: {cpu: 85%}}]}\n")
    bare = read("load: {minCoverage: 80}\nhotNodes: {any: [{utilization: {cpu: 85}}]}\n")

    assert signed == bare
