"""When and where a setting of the policy applies: windows of time, days without evictions, scopes.

A window, a blackout or a limit is for all pods, or for those of some nodes or namespaces. Of windows those
for some pods replace those for all, so that they can be wider or narrower:

    {from: "22:00", to: "05:00"}                                                every pod but those below
    {from: "00:00", to: "00:00", nodeSelector: {matchLabels: {pool: batch}}}    of batch nodes: at any time
    {days: [Sun], from: "02:00", to: "04:00", namespaces: [payments]}           of payments: on Sundays
"""

from __future__ import annotations

import datetime as dt
import math
import re
import zoneinfo
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Annotated, Literal, Protocol, Self, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from rebalancer.policy.model import PolicyModel, Selector, Unique, setting

_NAMESPACE = re.compile(r"[a-z0-9*]([-a-z0-9*]{0,61}[a-z0-9*])?", re.ASCII)


def _namespace(name: str) -> str:
    if not _NAMESPACE.fullmatch(name):
        hint = "; the only pattern is *, as in team-*" if set(name) & set("?[]^$") else ""
        raise ValueError(f"{name[:70]!r} cannot be the name of a namespace{hint}")
    return name


NamespaceName = Annotated[str, AfterValidator(_namespace)]
"""A name that a namespace can have, of lower-case letters, digits and hyphens; * stands for any of these."""


def namespace_matches(name: str, patterns: Iterable[str]) -> bool:
    """Whether one of the names, in which * stands for anything, is that of a namespace."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)


Labels = Mapping[str, str]


class Scope(PolicyModel):
    """Which pods something is for: all of them where it names neither nodes nor namespaces."""

    node_selector: Selector | None = setting(None, "Only for pods on nodes with these labels.")
    namespaces: Annotated[tuple[NamespaceName, ...], Unique] = setting(
        (), "Only for pods of these namespaces."
    )

    @property
    def is_for_all(self) -> bool:
        """Whether it names neither nodes nor namespaces."""
        return self.node_selector is None and not self.namespaces

    def selects(self, namespace: str, node_labels: Labels | None) -> bool:
        """Whether it is for a pod of a namespace on a node; labels that are not known count as wanted."""
        if self.namespaces and not namespace_matches(namespace, self.namespaces):
            return False
        return self.node_selector is None or node_labels is None or self.node_selector.selects(node_labels)

    @property
    def in_words(self) -> str:
        """Such as `` of pool=batch in team-*``; empty for all pods."""
        nodes = f" of {self.node_selector}" if self.node_selector is not None else ""
        return nodes + (f" in {', '.join(self.namespaces)}" if self.namespaces else "")


Scoped = TypeVar("Scoped", bound=Scope)


Day = Literal["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]
_DAYS: tuple[Day, ...] = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_DAY = "|".join(_DAYS)
_DayOrDays = Annotated[str, Field(pattern=f"^({_DAY})(-({_DAY}))?$")]
# Without a region stand localtime, posixrules and Factory, which mean another time on each machine; below
# right and posix stand copies of the database, of which one counts leap seconds.
_ZONE_PATTERN = r"^(UTC|[A-Z][A-Za-z]*(/[A-Za-z0-9_+-]+)+)$"
_TIME = re.compile(r"([01]\d|2[0-3]):([0-5]\d)", re.ASCII)
_DATE = re.compile(r"(?:(\d{4})-)?(\d{2})-(\d{2})", re.ASCII)
_MAX_CHANGES = 400  # of windows and blackouts that are looked through for the next moment of evictions


def _days(value: object) -> object:
    """``Mon-Fri`` is written out: the days from one to the other, over Sunday where that is on the way."""
    if not isinstance(value, (list, tuple)):
        return value
    days: list[object] = []
    for entry in value:
        first, dash, last = entry.partition("-") if isinstance(entry, str) else ("", "", "")
        if dash and first in _DAYS and last in _DAYS:
            begin = _DAYS.index(first)
            end = _DAYS.index(last)
            days += [_DAYS[(begin + step) % 7] for step in range((end - begin) % 7 + 1)]
        else:
            days.append(entry)
    return tuple(days)


def _date(text: object) -> object:
    """A day of one year, or of every year; ValueError for one that no calendar has."""
    if isinstance(text, str):
        match = _DATE.fullmatch(text)
        if match is None:
            raise ValueError(f"{text[:40]!r} is not a day; write e.g. 2026-12-24, or 12-24 for every year")
        dt.date(int(match[1] or 2000), int(match[2]), int(match[3]))  # 2000 has a 29 February
    return text


Date = Annotated[
    str, BeforeValidator(_date), Field(pattern=r"^(\d{4}-)?\d{2}-\d{2}$", examples=["2026-12-24"])
]
TimeOfDay = Annotated[str, Field(pattern=r"^([01]\d|2[0-3]):[0-5]\d$", examples=["22:00"])]


def _minutes(text: str) -> int:
    match = _TIME.fullmatch(text)
    assert match is not None  # the field's pattern
    return int(match[1]) * 60 + int(match[2])


class _Zoned(Scope):
    """What happens by the clock of a time zone."""

    time_zone: str = setting(
        "UTC",
        "UTC, or a name of the tz database.",
        pattern=_ZONE_PATTERN,
        examples=["Europe/Berlin"],
    )

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

    def _at(self, now: float) -> dt.datetime:
        return dt.datetime.fromtimestamp(now, self._zone())


class Blackout(_Zoned):
    """Days on which no pod is evicted, the first and the last included."""

    from_date: Date = Field(
        alias="from", description="First day, such as 2026-12-24; 12-24 is of every year."
    )
    to_date: Date = Field(alias="to", description="Last day, written as the first.")

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if len(self.from_date) != len(self.to_date):
            raise ValueError("from and to are both of one year, or both of every year")
        if len(self.from_date) > 5 and self.from_date > self.to_date:
            raise ValueError(f"it ends on {self.to_date}, before it begins on {self.from_date}")
        return self

    def holds(self, now: float) -> bool:
        """Whether a moment, in Unix seconds, is on one of the days."""
        day = self._at(now).date().isoformat()[-len(self.from_date) :]
        if self.from_date <= self.to_date:
            return self.from_date <= day <= self.to_date
        return day >= self.from_date or day <= self.to_date  # over the end of the year

    def next_day(self, now: float) -> float:
        """When the day after the one of a moment begins, in Unix seconds."""
        day = self._at(now).date() + dt.timedelta(days=1)
        return dt.datetime.combine(day, dt.time(), self._zone()).timestamp()

    def __str__(self) -> str:
        """In words."""
        days = self.from_date if self.from_date == self.to_date else f"{self.from_date} to {self.to_date}"
        return f"{days} {self.time_zone}{self.in_words}"


class Window(_Zoned):
    """When pods may be evicted: from one time of day to another, past midnight if that is the earlier one."""

    days: Annotated[
        tuple[Day, ...], Unique, BeforeValidator(_days, json_schema_input_type=list[_DayOrDays])
    ] = setting(_DAYS, "Days on which it begins, such as Mon-Fri.", min_length=1)
    from_time: TimeOfDay = Field(alias="from", description="When it begins.")
    to_time: TimeOfDay = Field(
        alias="to",
        description="When it ends, on the next day if not later than from.",
    )

    def holds(self, now: float) -> bool:
        """Whether a moment, in Unix seconds, lies in the window."""
        moment = self._at(now)
        minute = moment.hour * 60 + moment.minute
        begins = _minutes(self.from_time)
        ends = _minutes(self.to_time)
        today = _DAYS[moment.weekday()]
        yesterday = _DAYS[moment.weekday() - 1]
        if begins < ends:
            return today in self.days and begins <= minute < ends
        return (today in self.days and minute >= begins) or (yesterday in self.days and minute < ends)

    def next_begin(self, now: float) -> float:
        """When it begins next, in Unix seconds, after a moment outside it.

        That is its time of day, of which there are two where clocks are put back, or the moment at which
        clocks are put forward over that time, or back into the window.
        """
        zone = self._zone()
        today = dt.datetime.fromtimestamp(now, zone).date()
        hour, minute = divmod(_minutes(self.from_time), 60)
        begins = (
            dt.datetime.combine(today + dt.timedelta(days=days), dt.time(hour, minute, fold=fold), zone)
            for days in range(2 * len(_DAYS) + 1)  # it does not begin on a day whose clocks skip all of it
            for fold in (0, 1)
        )
        begin = min(
            moment for moment in map(dt.datetime.timestamp, begins) if moment > now and self.holds(moment)
        )
        change = self._clock_change(now, begin)
        return change if change is not None and self.holds(change) else begin

    def _clock_change(self, after: float, until: float) -> float | None:
        """When clocks are put forward or back between two moments; None where they are not."""
        before = self._at(after).utcoffset()
        if before == self._at(until).utcoffset():
            return None
        early = math.floor(after)
        late = math.ceil(until)
        while late - early > 1:
            middle = (early + late) // 2
            early, late = (middle, late) if self._at(middle).utcoffset() == before else (early, middle)
        return float(late)

    def __str__(self) -> str:
        """In words."""
        first = _DAYS.index(self.days[0])
        is_span = 2 < len(self.days) < len(_DAYS) and self.days == _DAYS[first : first + len(self.days)]
        days = f"{self.days[0]}-{self.days[-1]}" if is_span else ", ".join(self.days)
        days = "every day" if len(self.days) == len(_DAYS) else days
        return f"{days} {self.from_time} to {self.to_time} {self.time_zone}{self.in_words}"


class Timed(Protocol):
    """What says when pods may be evicted: ``evictable`` of a policy."""

    @property
    def windows(self) -> tuple[Window, ...]:
        """When."""

    @property
    def blackouts(self) -> tuple[Blackout, ...]:
        """When not."""


def has_changed(timed: Timed, before: float, now: float) -> bool:
    """Whether a window or a blackout holds at one of two moments, in Unix seconds, and not at the other."""
    return any(scoped.holds(before) != scoped.holds(now) for scoped in timed.windows) or any(
        scoped.holds(before) != scoped.holds(now) for scoped in timed.blackouts
    )


def _specific_or_all(windows: list[Window]) -> list[Window]:
    """Those for some pods alone, which count instead of those for all; without any, those for all."""
    return [window for window in windows if not window.is_for_all] or windows


def closed(
    timed: Timed, namespace: str, node_labels: Labels | None, now: float
) -> tuple[str, float | None, str] | None:
    """Why a pod may not be evicted at a moment, when it next may, and the setting; None when it may.

    The moment is None where it is further away than anybody plans. Where the labels of the pod's node are not
    known, it counts as open only if it is whichever of the windows and blackouts of nodes are for the pod.
    """

    def mine(items: Iterable[Scoped]) -> list[Scoped]:
        return [scoped for scoped in items if scoped.selects(namespace, node_labels)]

    days = mine(timed.blackouts)
    times = mine(timed.windows)
    doubtful = [window for window in times if node_labels is None and window.node_selector is not None]
    certain = [window for window in times if window not in doubtful]
    sets = [_specific_or_all(certain), *(_specific_or_all([*certain, window]) for window in doubtful)]

    def shut(moment: float) -> list[Window]:
        """Windows of which one has to hold and none does."""
        for windows in sets:
            if windows and not any(window.holds(moment) for window in windows):
                return windows
        return []

    def opens() -> float | None:
        moment = now
        for _ in range(_MAX_CHANGES):
            dark = next((blackout for blackout in days if blackout.holds(moment)), None)
            if dark is not None:
                moment = dark.next_day(moment)
            elif windows := shut(moment):
                moment = min(window.next_begin(moment) for window in windows)
            else:
                return moment
        return None

    dark = next((blackout for blackout in days if blackout.holds(now)), None)
    if dark is not None:
        return f"nothing is evicted {dark}", opens(), "evictable.blackouts"
    if not (windows := shut(now)):
        return None
    return f"evictions are made only {' or '.join(map(str, windows))}", opens(), "evictable.windows"
