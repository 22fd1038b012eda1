from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalancer.cluster import quantities
from tests.rows import rows

SUFFIXES = {
    "": Fraction(1),
    **{
        name: Fraction(1024) ** (power + 1) for power, name in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"))
    },
    **{
        name: Fraction(10) ** power
        for name, power in {
            "n": -9,
            "u": -6,
            "m": -3,
            "k": 3,
            "M": 6,
            "G": 9,
            "T": 12,
            "P": 15,
            "E": 18,
            "e0": 0,
            "e3": 3,
            "E6": 6,
            "e-3": -3,
            "E-9": -9,
            "e+2": 2,
        }.items()
    },
}


@given(
    st.sampled_from(("", "+", "-")),
    st.integers(0, 10**18),
    st.integers(0, 9),
    st.sampled_from(sorted(SUFFIXES)),
)
def test_what_is_printed_parses_to_exactly_the_same_value(
    sign: str, digits: int, places: int, suffix: str
) -> None:
    whole, fraction = divmod(digits, 10**places)
    text = f"{sign}{whole}.{fraction:0{places}}{suffix}" if places else f"{sign}{whole}{suffix}"
    value = Fraction(digits, 10**places) * SUFFIXES[suffix]

    assert quantities.parse(text) == (-value if sign == "-" else value)


@rows(
    "text",
    [
        *("NaN", "Inf", "inf", "1_000", "1 Gi", " 1", "1 ", "1\n", "", ".", "+", "-", "1..2", "1.2.3"),
        *("١", "１", "²", "½", "1µ", "1K", "1ki", "1GI", "1Gii", "1e", "1e1234", "1e3Ki", "0x10", "1,5"),
        *("--1", "+-1", "1m1", "m", "Gi", "1" * 65),
    ],
)
def test_what_the_api_server_would_refuse_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a Kubernetes quantity"):
        quantities.parse(text)


@given(st.text(max_size=12))
def test_any_text_parses_or_is_refused_with_one_kind_of_error(text: str) -> None:
    try:
        value = quantities.parse(text)
    except ValueError:
        return
    assert text.isascii()
    assert isinstance(value, Fraction)


@rows(
    "text, milli",
    [("500m", 500), ("2", 2000), ("0.0001", 1), ("1n", 1), ("100000001n", 101), ("1.5", 1500), ("0", 0)],
)
def test_cpu_is_rounded_up_to_thousandths(text: str, milli: int) -> None:
    assert quantities.cpu_milli(text) == milli


@rows(
    "text, units",
    [("1Ki", 1024), ("1k", 1000), ("1.5Gi", 3 << 29), ("100m", 1), ("1e3", 1000), ("0.1", 1), ("1E", 10**18)],
)
def test_everything_else_is_rounded_up_to_whole_units(text: str, units: int) -> None:
    assert quantities.units(text) == units


@pytest.mark.parametrize("text", ["1e999", "9999999999Ei", "123456789012345678901234567890"])
def test_amounts_beyond_int64_saturate_as_the_schedulers_do(text: str) -> None:
    assert quantities.units(text) == quantities.cpu_milli(text) == (1 << 63) - 1
    assert quantities.units(f"-{text}") == -(1 << 63) + 1


@given(st.lists(st.integers(0, 10**12), max_size=6))
def test_a_sum_is_rounded_once_and_not_by_its_parts(nanos: list[int]) -> None:
    total = sum((quantities.parse(f"{nano}n") for nano in nanos), Fraction(0))

    assert quantities.milli_of(total) == -(-sum(nanos) // 10**6)
