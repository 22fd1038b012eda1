"""Windows of time in which pods may be evicted."""

from __future__ import annotations

import datetime as dt
import re
import zoneinfo
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from rebalancer.policy.model import PolicyModel, Unique

Day = Literal["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]
_DAYS: tuple[Day, ...] = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_TIME = re.compile(r"([01]\d|2[0-3]):([0-5]\d)", re.ASCII)
TimeOfDay = Annotated[str, Field(pattern=r"^([01]\d|2[0-3]):[0-5]\d$", examples=["22:00"])]


def _minutes(text: str) -> int:
    match = _TIME.fullmatch(text)
    assert match is not None  # the field's pattern
    return int(match[1]) * 60 + int(match[2])


class Window(PolicyModel):
    """From one time of day to another, past midnight if the second is the earlier one."""

    days: Annotated[tuple[Day, ...], Unique] = Field(
        default=_DAYS, min_length=1, description="Days on which the window begins."
    )
    from_time: TimeOfDay = Field(alias="from", description="When it begins, such as 22:00.")
    to_time: TimeOfDay = Field(
        alias="to",
        description="When it ends, on the next day if not later than from; the same time means 24 hours.",
    )
    time_zone: str = Field(default="UTC", description="Time zone, such as Europe/Berlin.")

    @model_validator(mode="after")
    def _zone_is_known(self) -> Self:
        self._zone()
        return self

    def _zone(self) -> dt.tzinfo:
        if self.time_zone == "UTC":
            return dt.UTC
        try:
            return zoneinfo.ZoneInfo(self.time_zone)
        except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError) as error:
            raise ValueError(f"timeZone {self.time_zone[:60]!a} is unknown on this machine") from error

    def holds(self, now: float) -> bool:
        """Whether a moment, in Unix seconds, lies in the window."""
        moment = dt.datetime.fromtimestamp(now, self._zone())
        minute = moment.hour * 60 + moment.minute
        begins, ends = _minutes(self.from_time), _minutes(self.to_time)
        today, yesterday = _DAYS[moment.weekday()], _DAYS[moment.weekday() - 1]
        if begins < ends:
            return today in self.days and begins <= minute < ends
        return (today in self.days and minute >= begins) or (yesterday in self.days and minute < ends)

    def __str__(self) -> str:
        """In words."""
        days = "every day" if len(self.days) == len(_DAYS) else ", ".join(self.days)
        return f"{days} {self.from_time} to {self.to_time} {self.time_zone}"
