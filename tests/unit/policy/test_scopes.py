"""When windows open next, where clocks are put forward or back on the way."""

from __future__ import annotations

import datetime as dt
import zoneinfo
from zoneinfo import ZoneInfo

import pytest
from pydantic import ValidationError

from rebalancer.policy.schema import Evictable
from rebalancer.policy.scopes import Window, closed
from tests.rows import rows

CASES = [
    # from, to, zone, a moment outside it, by the clock there, and the first one in it
    ("02:30", "04:00", "Europe/Berlin", "2026-03-29T01:45+01:00", "2026-03-29T03:00+02:00"),
    ("02:30", "02:45", "Europe/Berlin", "2026-03-29T01:45+01:00", "2026-03-30T02:30+02:00"),
    ("00:45", "08:15", "America/Havana", "2026-03-07T09:00-05:00", "2026-03-08T01:00-04:00"),
    ("02:30", "04:00", "Europe/Berlin", "2026-10-25T02:15+02:00", "2026-10-25T02:30+02:00"),
    ("02:30", "04:00", "Europe/Berlin", "2026-10-25T02:15+01:00", "2026-10-25T02:30+01:00"),
    ("22:00", "02:30", "Europe/Berlin", "2026-10-25T02:45+02:00", "2026-10-25T02:00+01:00"),
    ("22:00", "02:30", "Europe/Berlin", "2026-10-25T02:45+01:00", "2026-10-25T22:00+01:00"),
]


@rows("begins, ends, zone, now, opens", CASES)
def test_the_next_opening_is_the_first_moment_in_the_window_whatever_becomes_of_the_clocks(
    begins: str, ends: str, zone: str, now: str, opens: str
) -> None:
    window = {"from": begins, "to": ends, "timeZone": zone}
    evictable = Evictable.model_validate({"windows": [window]})
    found = closed(evictable, "default", None, dt.datetime.fromisoformat(now).timestamp())

    assert found is not None
    assert found[1] is not None
    assert dt.datetime.fromtimestamp(found[1], ZoneInfo(zone)).isoformat(timespec="minutes") == opens


def test_every_name_of_the_database_with_a_region_is_a_time_zone() -> None:
    names = ["UTC", *(name for name in zoneinfo.available_timezones() if "/" in name)]

    for name in names:
        window = Window.model_validate({"from": "00:00", "to": "01:00", "timeZone": name})
        assert window.time_zone == name


def test_a_time_zone_that_means_another_time_on_each_machine_is_refused() -> None:
    names = ["localtime", "posixrules", "Factory", "right/UTC", "posix/Europe/Berlin", "Local/../localtime"]
    names += ["", ".", "Europe/Berlin\n", "/etc/localtime", "europe/berlin", "Mars/Olympus"]

    for name in names:
        with pytest.raises(ValidationError, match="timeZone"):
            Window.model_validate({"from": "00:00", "to": "01:00", "timeZone": name})
