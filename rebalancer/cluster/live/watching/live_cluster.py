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

A version proves that only while there is one history. Where etcd was restored from a backup, versions go
back, and other objects may have the same ones later:

    before         4711 ADDED lost-1, which the watch has seen
    the restore    at 4700 again; 4711 is now ADDED new-1, and the watch goes on after 4711
    the reading    4720 is reached; lost-1 is not there any more, and new-1 was never seen

A restore ends every WATCH. So after one that was cut, and once an hour, a kind is listed all the same and
compared with what its watch made of it, object by object; a watch that differs is begun anew.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping

import msgspec

from rebalancer.cluster.changes import FOLLOWED, ChangeLog
from rebalancer.cluster.dumps.listing import Listing, ListingBuilder, Recording
from rebalancer.cluster.kinds import KINDS, METRICS, PODS, Kind
from rebalancer.cluster.live.client import PAGE_SIZE, RawApi
from rebalancer.cluster.live.lists import READING_SECONDS
from rebalancer.cluster.live.reader import LiveReader
from rebalancer.cluster.live.watching.feed import Feed
from rebalancer.cluster.live.watching.latest_objects import Key, LatestObjects, SeenPod, latest_objects
from rebalancer.cluster.pods import version_number
from rebalancer.cluster.wire.json_items import decode_head
from rebalancer.deadlines import Deadline
from rebalancer.errors import RebalancerError, StopRequestedError
from rebalancer.telemetry import span

LOGGER = logging.getLogger(__name__)
MAX_WAIT_SECONDS = 3.0  # for watches to reach the present version, before their kinds are listed after all
LARGE = 4 * PAGE_SIZE  # objects of a kind that is worth waiting so long
_SHORT_WAIT_SECONDS = 0.1  # where no large kind is behind
_REFUSED_SECONDS = 600.0  # a kind that the server will not let us watch is not tried again for so long
_LOOK_SECONDS = 0.05
_CLOSING_SECONDS = 0.5
_SAID_AFTER = 3  # readings in a row, for which a watch did not come up to date
COMPARED_SECONDS = 3600.0  # a kind is compared with a LIST as often as that
AFTER_CUT_SECONDS = 600.0  # a kind whose watches a proxy cuts again and again is not compared more often


class _Fence(msgspec.Struct, frozen=True):
    """The version that a kind must have reached, and the moment before it was asked for."""

    version: int
    asked_at: float  # Unix seconds


class _Compared(msgspec.Struct):
    """When the watch of a kind last agreed with a LIST, by the monotonic clock."""

    at: float
    cuts: int = 0  # of its feed, until then
    after_cut_at: float = -float("inf")  # when that was because it had been cut
    before: tuple[int, Mapping[Key, int]] = (-1, {})  # what it knew when the LIST began


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
        monotonic: Callable[[], float] = time.monotonic,
        log: ChangeLog | None = None,
    ) -> None:
        """Nothing is read before it is asked for.

        Kinds of more than ``watch_above`` objects are watched, those of more than ``large`` waited for.

        ``log`` receives every change of pods and nodes, which are then watched however few there are.
        """
        self.log = log
        self._api = api
        self._clock = clock
        self._page_size = page_size
        self._watch_above = watch_above
        self._large = large
        self._max_wait_seconds = max_wait_seconds
        self._monotonic = monotonic
        self._compared: dict[Kind, _Compared] = {}
        self._changed = threading.Condition(threading.RLock())
        self.feeds: dict[Kind, Feed] = {}
        self._quiet: dict[Kind, int] = {}  # events so far of a watch that has not shown that it is current
        self._missed: Counter[Kind] = Counter()  # readings in a row for which a watch was not current in time
        # Until when a kind is not watched, by the monotonic clock; the Metrics API knows no WATCH at all.
        self._unwatchable: dict[Kind, float] = dict.fromkeys(METRICS, float("inf"))
        self._said_refused = False

    def __enter__(self) -> LiveCluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End all watches."""
        feeds = list(self.feeds.values())
        self.feeds = {}
        for feed in feeds:
            feed.close()
        for feed in feeds:
            feed.join(_CLOSING_SECONDS)

    def pods_of(self, controller_uid: str) -> tuple[SeenPod, ...] | None:
        """The pods of a controller as their watch last showed them; None where pods are not watched.

        Nothing proves that this is how they are now: it tells when it is worth asking.
        """
        feed = self.feeds.get(PODS)
        return None if feed is None or feed.over else feed.pods_of(controller_uid)

    def hurry(self, kinds: Iterable[Kind]) -> None:
        """Let the server say within a few seconds how far the watches of these kinds have come."""
        for kind in kinds:
            feed = self.feeds.get(kind)
            if feed is not None and not feed.over:
                feed.hurry()

    def current(
        self, deadline: Deadline | None = None, progress: Callable[[str], None] = lambda _: None
    ) -> Recording:
        """Every kind as it is now, each at its own moment, none older than this call.

        Raises as ``LiveReader.read`` does.
        """
        api = (self._api if deadline is None else self._api.until(deadline)).within(READING_SECONDS)
        fences = self._fences(api)
        hurried = self._hurry(fences)  # it takes a second or two, while the other kinds are listed
        followed = {kind.plural for kind in fences}
        forms = {kind.plural: kind for kind in self.feeds}  # in the versions that were served
        unfollowed = [forms.get(kind.plural, kind) for kind in KINDS if kind.plural not in followed]
        reading = self._read(api, unfollowed, progress)
        self._wait(api, fences, self._max_wait_seconds if hurried else _SHORT_WAIT_SECONDS)
        listings = dict(reading.listings)
        missed = [kind for kind, fence in fences.items() if not self._reached(kind, fence)]
        for kind, fence in fences.items():
            if kind not in missed:
                listings[kind.plural] = self.feeds[kind].listing(fence.asked_at)
        self._note(fences, missed, waited_for=hurried)
        again = self._read(api, missed, progress)
        listings.update(again.listings)
        return Recording(
            api.cluster,
            {kind.plural: listings[kind.plural] for kind in KINDS if kind.plural in listings},
            {**reading.unread, **again.unread},
            refused=reading.refused | again.refused,
        )

    def _read(self, api: RawApi, kinds: Iterable[Kind], progress: Callable[[str], None]) -> Recording:
        kinds = tuple(kinds)
        for kind in kinds:
            if kind in self.feeds:
                self._compared[kind].before = self.feeds[kind].versions()
        return LiveReader(api, self._clock, self._page_size, keep=self._follow).read(kinds, progress)

    def _follow(self, listing: Listing, builder: ListingBuilder) -> None:
        """Watch a kind from now on that was just listed, where that is worth it."""
        kind = listing.kind
        log = self.log if kind in FOLLOWED else None
        if kind not in self.feeds and (
            (len(listing) <= self._watch_above and log is None)
            or self._monotonic() < self._unwatchable.get(kind, 0.0)
        ):
            return
        objects = latest_objects(listing, builder)
        if kind in self.feeds:
            if self._agrees(kind, objects):
                return
            self._give_up(kind, "it did not agree with a LIST")
        if objects is None:
            return
        if log is not None:
            log.begun(kind, objects.position)
            objects.log = log
        feed = self.feeds[kind] = Feed(self._api, objects, self._changed, self._monotonic)
        self._compared[kind] = _Compared(self._monotonic())
        feed.start()

    def _agrees(self, kind: Kind, listed: LatestObjects | None) -> bool:
        """Whether the watch of a kind knows what a LIST brought that began after it was last asked."""
        if listed is None:
            return False
        feed = self.feeds[kind]
        compared = self._compared[kind]
        with span("compare", kind=kind.plural) as comparing:
            wrong = differing(compared.before, feed.versions(), (listed.position, listed.versions()))
            comparing.add(differing=len(wrong))
        if feed.cuts > compared.cuts:
            compared.after_cut_at = self._monotonic()
        compared.at = self._monotonic()
        compared.cuts = feed.cuts
        compared.before = (-1, {})
        if wrong:
            LOGGER.warning(
                "%s: %d of them differed from a LIST in what the watch had brought, e.g. %s; they are read "
                "anew (was etcd restored from a backup?)",
                *(kind.plural, len(wrong), "/".join(filter(None, min(wrong)))),
            )
        return not wrong

    def _is_to_be_compared(self, kind: Kind, feed: Feed) -> bool:
        compared = self._compared[kind]
        now = self._monotonic()
        after_cut = feed.cuts > compared.cuts and now - compared.after_cut_at >= AFTER_CUT_SECONDS
        return after_cut or now - compared.at >= COMPARED_SECONDS

    def _fences(self, api: RawApi) -> dict[Kind, _Fence]:
        """The present version of each kind whose watch may have reached it; one that is over is dropped."""
        fences: dict[Kind, _Fence] = {}
        for kind, feed in list(self.feeds.items()):
            asked_at = self._clock()
            if feed.over:
                self._give_up(kind, feed.over)
            elif self._is_to_be_compared(kind, feed):
                continue
            elif self._quiet.get(kind) != feed.events:
                position = feed.position
                version = self._present_version(api, kind)
                if 0 <= version < position:
                    self._give_up(
                        kind, f"the server was at {position} and is at {version}, as after a restore"
                    )
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

    def _note(self, asked: Iterable[Kind], missed: Iterable[Kind], *, waited_for: bool) -> None:
        """Remember which watches were not current: until something comes, they are not asked about again.

        One that stays behind for several readings, though it was waited for, costs a whole list each time, so
        it is said. One that was not is behind wherever objects of other kinds have changed since.
        """
        self._quiet = {
            kind: events for kind, events in self._quiet.items() if self.feeds[kind].events == events
        }
        for kind in set(asked) - set(missed):
            del self._missed[kind]
        for kind in missed:
            LOGGER.debug("%s: the watch did not show in time that it is current; listed again", kind.plural)
            self._quiet[kind] = self.feeds[kind].events
            self._missed[kind] += waited_for
            if waited_for and self._missed[kind] == _SAID_AFTER:
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
            self._unwatchable[kind] = self._monotonic() + _REFUSED_SECONDS
            level = logging.DEBUG if self._said_refused else logging.INFO
            self._said_refused = True
            LOGGER.log(level, "%s: not watched, so each reading lists all of them", why)
        else:
            LOGGER.debug("%s: watched anew: %s", kind.plural, why)
        feed.close()


Versions = tuple[int, Mapping[Key, int]]
"""A version, and that of each object which was there then."""


def differing(before: Versions, after: Versions, listed: Versions) -> frozenset[Key]:
    """The objects that a watch knew differently from a LIST that began when it knew ``before``.

    What changed meanwhile may be known to one of them alone, and does not count:

        listed at 12   web-1 at 5, web-2 at 11
        before, at 10  nothing                    web-1 is missing; web-2 could not be known yet
        after, at 14   web-2 at 11, web-3 at 7    web-3 is not there any more
    """
    version_before, objects_before = before
    version_after, objects_after = after
    version_listed, objects_listed = listed
    if version_listed < version_before:
        return frozenset(objects_before) | frozenset(objects_listed)
    missing = {
        key for key, at in objects_listed.items() if at <= version_before and objects_before.get(key) != at
    }
    if version_after < version_listed:  # it may not have heard yet of what was deleted
        return frozenset(missing)
    return frozenset(
        missing
        | {key for key, at in objects_after.items() if at <= version_listed and objects_listed.get(key) != at}
    )
