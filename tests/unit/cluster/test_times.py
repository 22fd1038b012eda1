from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalancer.cluster import times
from tests.rows import rows


@given(st.integers(-62_135_596_800, 253_402_300_799))
def test_a_time_printed_parses_to_the_same_second(seconds: int) -> None:
    assert times.parse(times.render(seconds)) == seconds
    assert times.parse(times.render_micro(seconds)) == seconds


@given(st.floats() | st.integers())
def test_a_number_is_a_time_or_a_value_error(seconds: float) -> None:
    for render in (times.render, times.render_micro):
        try:
            text = render(seconds)
        except ValueError:
            assert not times.EARLIEST <= seconds <= times.LATEST
        else:
            assert times.parse(text) == pytest.approx(seconds, abs=1)


@pytest.mark.parametrize("text", ["0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59"])
def test_an_offset_that_leads_out_of_the_years_is_no_time(text: str) -> None:
    with pytest.raises(ValueError, match="is not a time between the years 1 and 9999"):
        times.parse(text)


def test_micro_times_have_six_decimals_even_when_they_are_zero() -> None:
    assert times.render_micro(1795176000.0) == "2026-11-20T12:00:00.000000Z"


@pytest.mark.parametrize(
    "text",
    ["2026-11-20T12:00:00Z", "2026-11-20T13:00:00+01:00", "2026-11-20T12:00:00.000000000Z"],
)
def test_offsets_and_fractions_of_seconds_are_understood(text: str) -> None:
    assert times.parse(text) == 1795176000.0


@rows(
    "text", ["", "now", "2026-11-20", "2026-11-20 12:00:00Z", "2026-13-20T12:00:00Z", "٢٠٢٦-11-20T12:00:00Z"]
)
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        times.parse(text)


def test_an_absent_time_is_unknown() -> None:
    assert math.isnan(times.parse_optional(None))


@rows(
    "text, seconds",
    [("15s", 15), ("20.1s", 20.1), ("1m0s", 60), ("1h0m30.5s", 3630.5), ("500ms", 0.5), ("0s", 0)],
)
def test_durations_are_read_as_go_prints_them(text: str, seconds: float) -> None:
    assert times.parse_duration(text) == pytest.approx(seconds)


@rows("text", ["", "15", "-15s", "1 m", "1d", "s", "١s", "1e3s", "1_0s", "1" * 20 + "s"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        times.parse_duration(text)
