"""A cluster that is read once and then kept up to date, and proves that it is before it answers.

A kind whose objects fit one page is listed each time: to ask whether it changed would cost as much. The
others are followed by a WATCH each. To know that nothing is missing, the server is asked for the present
version of the kind, by a LIST of one object, and events are waited for until they have reached that version:

    LIST pods, limit 1      at 4711
    the watch               ... 4698 MODIFIED web-1, 4720 DELETED web-2      reached: no pod is listed
    the watch               ... 4698 MODIFIED web-1, nothing more            not reached: the pods are listed

Versions count the changes of all kinds, so a kind that nobody changes falls behind. How far it has come, the
server says in bookmarks: once a minute, and before the end of a WATCH. Where a large kind is behind, watches
are therefore begun anew for three seconds before anything is listed. To list small ones takes no longer.

So what ``current`` returns is never older than the moment it was called, as with a reading of everything; a
watch that is cut, silent or refused makes it slower, and not wrong.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping

import msgspec

from rebalancer.cluster.dumps.listing import Listing, ListingBuilder, Recording
from rebalancer.cluster.kinds import KINDS, METRICS, PODS, Kind
from rebalancer.cluster.live.client import RawApi
from rebalancer.cluster.live.lists import PAGE_SIZE
from rebalancer.cluster.live.reader import LiveReader
from rebalancer.cluster.live.watching.feed import Feed, Traffic
from rebalancer.cluster.live.watching.latest_objects import SeenPod, latest_objects
from rebalancer.cluster.pods import version_number
from rebalancer.cluster.wire.json_items import decode_head
from rebalancer.deadlines import Deadline
from rebalancer.errors import RebalancerError, StopRequestedError

LOGGER = logging.getLogger(__name__)
MAX_WAIT_SECONDS = 3.0  # for watches to reach the present version, before their kinds are listed after all
LARGE = 4 * PAGE_SIZE  # objects of a kind that is worth waiting so long
_SHORT_WAIT_SECONDS = 0.1  # where no large kind is behind
_REFUSED_SECONDS = 600.0  # a kind that the server will not let us watch is not tried again for so long
_LOOK_SECONDS = 0.05
_CLOSING_SECONDS = 0.5
_SAID_AFTER = 3  # readings in a row, for which a watch did not come up to date


class _Fence(msgspec.Struct, frozen=True):
    """The version that a kind must have reached, and the moment before it was asked for."""

    version: int
    asked_at: float  # Unix seconds


class LiveCluster:
    """The cluster behind an API server; ``current`` reads all of it once, and later only what changed."""

    def __init__(
        self,
        api: RawApi,
        clock: Callable[[], float] = time.time,
        *,
        page_size: int = PAGE_SIZE,
        watch_above: int = PAGE_SIZE,
        large: int = LARGE,
        max_wait_seconds: float = MAX_WAIT_SECONDS,
    ) -> None:
        """Kinds of more than ``watch_above`` objects are watched, those of more than ``large`` waited for."""
        self._api = api
        self._clock = clock
        self._page_size = page_size
        self._watch_above = watch_above
        self._large = large
        self._max_wait_seconds = max_wait_seconds
        self._changed = threading.Condition(threading.RLock())
        self.feeds: dict[Kind, Feed] = {}
        self._quiet: dict[Kind, int] = {}  # events so far of a watch that has not shown that it is current
        self._missed: Counter[Kind] = Counter()  # readings in a row for which a watch was not current in time
        # Until when a kind is not watched, by the monotonic clock; the Metrics API knows no WATCH at all.
        self._unwatchable: dict[Kind, float] = dict.fromkeys(METRICS, float("inf"))
        self._said_refused = False
        self._traffic = Traffic()

    @classmethod
    def open(cls, api: RawApi, clock: Callable[[], float] = time.time) -> LiveCluster:
        """The cluster behind an API server; nothing is read before it is asked for."""
        return cls(api, clock)

    def __enter__(self) -> LiveCluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End all watches."""
        feeds, self.feeds = list(self.feeds.values()), {}
        for feed in feeds:
            feed.close()
            self._count(feed)
        for feed in feeds:
            feed.join(_CLOSING_SECONDS)

    @property
    def watched(self) -> tuple[str, ...]:
        """The plurals of the kinds that are watched now."""
        return tuple(sorted(kind.plural for kind in self.feeds))

    @property
    def traffic(self) -> Traffic:
        """What watching cost so far; requests of other kinds are not counted here."""
        total = Traffic(self._traffic.watches, self._traffic.events, self._traffic.bytes)
        for feed in self.feeds.values():
            _add(total, feed.traffic)
        return total

    def pods_of(self, controller_uid: str) -> tuple[SeenPod, ...] | None:
        """The pods of a controller as their watch last showed them; None where pods are not watched.

        Nothing proves that this is how they are now: it tells when it is worth asking.
        """
        feed = self.feeds.get(PODS)
        return None if feed is None or feed.over else feed.pods_of(controller_uid)

    def current(
        self, deadline: Deadline | None = None, progress: Callable[[str], None] = lambda _: None
    ) -> Recording:
        """Every kind as it is now, each at its own moment, none older than this call.

        Raises as ``LiveReader.read`` does.
        """
        api = self._api if deadline is None else self._api.until(deadline)
        fences = self._fences(api)
        hurried = self._hurry(fences)  # it takes a second or two, while the other kinds are listed
        reading = self._read(api, (kind for kind in KINDS if kind not in fences), progress)
        self._wait(api, fences, self._max_wait_seconds if hurried else _SHORT_WAIT_SECONDS)
        found = dict(reading.listings)
        missed = [kind for kind, fence in fences.items() if not self._reached(kind, fence)]
        for kind, fence in fences.items():
            if kind not in missed:
                found[kind.plural] = self.feeds[kind].listing(fence.asked_at)
        self._note(fences, missed)
        again = self._read(api, missed, progress)
        found.update(again.listings)
        return Recording(
            api.host,
            {kind.plural: found[kind.plural] for kind in KINDS if kind.plural in found},
            {**reading.unread, **again.unread},
            refused=reading.refused | again.refused,
        )

    def _read(self, api: RawApi, kinds: Iterable[Kind], progress: Callable[[str], None]) -> Recording:
        return LiveReader(api, self._clock, self._page_size, keep=self._follow).read(kinds, progress)

    def _follow(self, listing: Listing, builder: ListingBuilder) -> None:
        """Watch a kind from now on that was just listed, where that is worth it."""
        kind = listing.kind
        if kind in self.feeds or len(listing) <= self._watch_above:
            return
        if time.monotonic() < self._unwatchable.get(kind, 0.0):
            return
        objects = latest_objects(listing, builder)
        if objects is not None:
            feed = self.feeds[kind] = Feed(self._api, objects, self._changed)
            feed.start()

    def _fences(self, api: RawApi) -> dict[Kind, _Fence]:
        """The present version of each kind whose watch may have reached it; one that is over is dropped."""
        fences: dict[Kind, _Fence] = {}
        for kind, feed in list(self.feeds.items()):
            asked_at = self._clock()
            if feed.over:
                self._give_up(kind, feed.over)
            elif self._quiet.get(kind) != feed.traffic.events:
                known = feed.position
                version = self._present_version(api, kind)
                if 0 <= version < known:
                    self._give_up(kind, f"the server was at {known} and is at {version}, as after a restore")
                elif version >= 0:
                    fences[kind] = _Fence(version, asked_at)
        return fences

    def _present_version(self, api: RawApi, kind: Kind) -> int:
        """The version of a LIST that begins now; -1 where it cannot be known: then the kind is listed."""
        try:
            return version_number(decode_head(api.list_page(kind, {"limit": 1}).body).resource_version)
        except StopRequestedError:
            raise
        except (RebalancerError, ValueError, RecursionError) as error:
            LOGGER.debug("%s: the present version is not known: %s", kind.plural, error)
            return -1

    def _reached(self, kind: Kind, fence: _Fence) -> bool:
        feed = self.feeds[kind]
        return not feed.over and feed.reached(fence.version)

    def _hurry(self, fences: Mapping[Kind, _Fence]) -> bool:
        """Let the server soon say how far the watches have come; whether that is worth waiting for.

        It is for a large kind, and then the others need not be listed either.
        """
        behind = [kind for kind, fence in fences.items() if not self._reached(kind, fence)]
        worth_it = any(len(self.feeds[kind]) > self._large for kind in behind)
        for kind in behind if worth_it else ():
            self.feeds[kind].hurry()
        return worth_it

    def _wait(self, api: RawApi, fences: Mapping[Kind, _Fence], seconds: float) -> None:
        """Wait at most so long until the watches have reached their versions, or are over."""
        limit = api.retries.run.within(seconds)
        with self._changed:
            while any(
                not (self.feeds[kind].over or self._reached(kind, fence)) for kind, fence in fences.items()
            ):
                if limit.stopped:
                    raise StopRequestedError("watch the cluster: asked to stop")
                if limit.seconds_left <= 0:
                    return
                self._changed.wait(min(_LOOK_SECONDS, limit.seconds_left))

    def _note(self, asked: Iterable[Kind], missed: Iterable[Kind]) -> None:
        """Remember which watches were not current: until something comes, they are not asked about again.

        One that stays behind for several readings costs a whole list each time, so it is said.
        """
        self._quiet = {
            kind: events for kind, events in self._quiet.items() if self.feeds[kind].traffic.events == events
        }
        for kind in set(asked) - set(missed):
            del self._missed[kind]
        for kind in missed:
            LOGGER.debug("%s: the watch did not show in time that it is current; listed again", kind.plural)
            self._quiet[kind] = self.feeds[kind].traffic.events
            self._missed[kind] += 1
            if self._missed[kind] == _SAID_AFTER:
                LOGGER.info(
                    "%s: the watch was not up to date for %d readings, so each of them listed all; "
                    "the API server or this program is overloaded, or a proxy holds events back",
                    kind.plural,
                    _SAID_AFTER,
                )

    def _give_up(self, kind: Kind, why: str) -> None:
        """Watch a kind no longer: it is listed again, and may be watched from there."""
        feed = self.feeds.pop(kind)
        self._quiet.pop(kind, None)
        if feed.refused:
            self._unwatchable[kind] = time.monotonic() + _REFUSED_SECONDS
            level = logging.DEBUG if self._said_refused else logging.INFO
            self._said_refused = True
            LOGGER.log(level, "%s: not watched, so each reading lists all of them", why)
        else:
            LOGGER.debug("%s: watched anew: %s", kind.plural, why)
        feed.close()
        self._count(feed)

    def _count(self, feed: Feed) -> None:
        _add(self._traffic, feed.traffic)


def _add(total: Traffic, more: Traffic) -> None:
    total.watches += more.watches
    total.events += more.events
    total.bytes += more.bytes
