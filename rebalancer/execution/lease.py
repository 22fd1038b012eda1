"""The lease that keeps two runs from acting at once.

``RunLease.acquire`` returns a ``HeldLease``, and whatever only one run may do takes one. Two rules make
sure that no two runs hold it at once, however their clocks differ; both count on one clock that only moves
forward, and compare no time of two machines:

- A holder believes in its lease for one duration from when it began to write its last renewal, and needs
  enough of that left for the answer to an eviction.
- Whoever finds the lease of another takes it only after watching it unchanged for its whole duration.

    0 s   A renews, and believes in the lease until 60 s
    1 s   B finds the renewal, which B's clock dates ten minutes back, and begins to watch
    20 s  A renews: B sees the lease change, and gives up

``RunLease.acquire`` is for a run that either gets the lease now or leaves. A standby stays: its
``LeaseWatch`` has seen for how long the lease has been unchanged whenever that matters.

    30 s  A is killed
    80 s  the standby has seen the same record for the 60 s that it is held for, and takes the lease

Where A ends in order it gives the lease up, and the standby has it at its next look.

Runs are paused where they look before each eviction anyway: by an annotation of the lease, whatever it says,
which those who renew the lease leave as it is. A lease that cannot be read lets nothing be evicted.

    rebalancer pause "incident 42"            rebalancer/paused: incident 42
    rebalancer resume                         the annotation is gone
"""

from __future__ import annotations

import contextlib
import logging
import os
import platform
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
from msgspec.structs import replace

from rebalancer.cluster import times
from rebalancer.cluster.live import RawApi, client, object_path
from rebalancer.cluster.live.failures import NO_API_SERVER
from rebalancer.deadlines import CLOSING_SECONDS
from rebalancer.errors import (
    LeaseHeldError,
    RebalancerError,
    SafetyError,
    StopRequestedError,
    UnreachableError,
)

LOGGER = logging.getLogger(__name__)
PAUSED = "rebalancer/paused"  # the annotation by which runs are paused; its value is the reason
MAX_TRANSITIONS = 2**31 - 1  # of an int32: the API server refuses more
DURATION_SECONDS = 60.0
MAX_WATCHED_SECONDS = 120.0  # a lease of somebody else that lasts longer is not waited for
_MAX_REASON = 200  # characters of a pause's reason that are shown
_LOOK_SECONDS = 2.0
_VERSION = "coordination.k8s.io/v1"


class LeaseLostError(SafetyError):
    """The lease could not be renewed: another run may be at work."""


def holder_identity(run: str) -> str:
    """Who holds a lease, for whoever reads it: the pod or the host, the process, and the run."""
    return f"{os.environ.get('POD_NAME') or platform.node() or 'unknown'}_{os.getpid()}_{run}"


def spec_of(lease: dict[str, Any] | None) -> dict[str, Any]:
    """The spec of a lease; empty for whatever else stands there."""
    spec = (lease or {}).get("spec")
    return spec if isinstance(spec, dict) else {}


def _annotations(lease: dict[str, Any] | None) -> dict[str, Any]:
    metadata = (lease or {}).get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    return annotations if isinstance(annotations, dict) else {}


def text_of(spec: dict[str, Any], field: str) -> str:
    """A field of the spec; empty when it is not text."""
    value = spec.get(field)
    return value if isinstance(value, str) else ""


def record_of(lease: dict[str, Any]) -> dict[str, Any]:
    """What a holder changes when it renews."""
    return {field: spec_of(lease).get(field) for field in ("holderIdentity", "renewTime", "leaseTransitions")}


def duration_of(spec: dict[str, Any], default: float) -> float:
    """For how many seconds it is held."""
    value = spec.get("leaseDurationSeconds")
    if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
        return default
    return float(value)


class HeldLease(msgspec.Struct, eq=False):
    """A lease that this run took. All durations are by the monotonic clock."""

    _lease: RunLease
    _began: float  # when the write that took it, or renewed it last, began
    _lost: LeaseLostError | None = None
    _why_paused: str = ""  # as it was read last
    _released: bool = False
    _lock: Any = msgspec.field(default_factory=threading.RLock)

    @property
    def held(self) -> bool:
        """Whether it is ours as far as is known: neither lost nor released nor run out."""
        return self._lost is None and not self._released and self.seconds_left > 0

    @property
    def seconds_left(self) -> float:
        """For how long nobody else can take it; negative afterwards."""
        return self._began + self._lease.duration_seconds - self._lease.now()

    @property
    def _needed(self) -> float:
        """Seconds that must be left for the answer to a request."""
        return self._lease.duration_seconds * 2 / 3

    def ensure(self) -> None:
        """Make sure that it is ours until the answer to a request sent now, and that nobody pauses runs.

        Two thirds of its duration are left then. It is read again even so: somebody may have taken it by
        hand, or paused runs. Where less is left, also because that reading took so long, or it could not be
        read, it is renewed, which reads it too. Raises LeaseLostError when it is not ours or cannot be
        renewed in time, SafetyError when runs are paused.
        """
        needed = self._needed
        began = self._lease.now()
        is_read = self.seconds_left > needed and self._confirm()
        if self._lost is None and (not is_read or self.seconds_left <= needed):
            self.renew()  # which a lease that was given up refuses
        if self._lost is not None:
            raise self._lost
        if self.seconds_left < needed:
            raise LeaseLostError(
                f"the API server is too slow to evict safely: it took {self._lease.now() - began:.0f} s to "
                f"confirm the lease, of whose {self._lease.duration_seconds:.0f} s two thirds must be left",
                where=self._lease.where,
                hint="is it overloaded? nothing is evicted until it answers sooner",
            )
        if self._why_paused:
            raise SafetyError(self._why_paused)

    def renew_if_due(self) -> None:
        """Renew when a third of the duration has passed; for loops that wait. Raises LeaseLostError."""
        if self.seconds_left <= self._needed:
            self.renew()

    def renew(self) -> None:
        """Show that this run is still at work. Raises LeaseLostError, and again ever after."""
        with self._lock:
            if self._lost is not None:
                raise self._lost
            if self._released:
                raise LeaseLostError("the lease was released", where=self._lease.where)
            try:
                self._began = self._renewed()
            except StopRequestedError:
                raise
            except LeaseLostError as error:
                self._lost = error
                raise
            except (client.NotWrittenError, RebalancerError) as error:
                raise LeaseLostError(
                    f"the lease could not be renewed: {error}", where=self._lease.where
                ) from error

    def _confirm(self) -> bool:
        """Whether it could be read again, and is ours."""
        with self._lock:
            if self._lost is not None or self._released:
                return False
            try:
                # Later than that, too little of the lease would be left whatever the answer.
                self._ours(self._lease.within(self.seconds_left - self._needed))
            except StopRequestedError:
                raise
            except LeaseLostError as error:
                self._lost = error
            except RebalancerError as error:
                LOGGER.info("%s could not be read again: %s", self._lease.where, error)
            else:
                return True
            return False

    def _ours(self, lease: RunLease) -> dict[str, Any]:
        """The lease as it is kept. Raises LeaseLostError when another holds it, or nobody."""
        stored = lease.read()
        holder = text_of(spec_of(stored), "holderIdentity")
        if stored is None or holder != self._lease.identity:
            nobody = "nobody holds it any more" if stored is not None else "it was removed"
            now = f"it is held by {holder[:200]!a}" if holder else nobody
            raise LeaseLostError(f"the lease was lost: {now}", where=self._lease.where)
        self._why_paused = lease.why_paused_by(stored)
        return stored

    def _renewed(self) -> float:
        lease = self._lease.within(self._lease.duration_seconds)

        def attempt() -> float:
            began = lease.now()
            lease.write(self._ours(lease), lease.identity)
            return began

        return client.update(
            lease.api, f"renew {lease.where}", attempt, deadline_seconds=lease.duration_seconds
        )

    def release(self) -> None:
        """Give the lease up if it is ours; after a failure the next run waits until it expires."""
        with self._lock:
            if self._released or self._lost is not None:
                return
            self._released = True
            with contextlib.suppress(RebalancerError, client.NotWrittenError):
                lease = self._lease.within(CLOSING_SECONDS)
                lease = replace(lease, api=lease.api.finishing())
                stored = lease.read()
                if stored is not None and text_of(spec_of(stored), "holderIdentity") == lease.identity:
                    lease.write(stored, "")

    @contextmanager
    def renewed_meanwhile(self) -> Iterator[None]:
        """Renew it on a thread of its own, for as long as reading a cluster or waiting may take.

        A renewal that fails is tried again; that it was lost shows where the lease is needed.
        """
        over = threading.Event()

        def work() -> None:
            while not over.wait(min(self._lease.duration_seconds / 12, _LOOK_SECONDS)):
                if self._lost is not None or self._released:
                    return
                with contextlib.suppress(RebalancerError):
                    self.renew_if_due()

        thread = threading.Thread(target=work, name="lease", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()


def _decoded(body: bytes, where: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(body, type=dict[str, Any])
    except (ValueError, RecursionError) as error:
        raise UnreachableError(
            f"the answer is not a lease: {str(error)[:200]}", where=where, hint=NO_API_SERVER
        ) from error


class RunLease(msgspec.Struct, frozen=True, eq=False):
    """A coordination.k8s.io Lease, as a run that wants it sees it: read, and written as by this holder."""

    api: RawApi
    _namespace: str
    _name: str
    identity: str
    _clock: Callable[[], float]  # dates what others read; durations are counted by the API's retries
    duration_seconds: float = DURATION_SECONDS

    @property
    def where(self) -> str:
        """The object, as messages name it."""
        return f"lease {self._namespace}/{self._name}"

    def now(self) -> float:
        """Seconds, by the monotonic clock."""
        return self.api.retries.clock()

    def within(self, seconds: float) -> RunLease:
        """The same lease, read and written within so many seconds from now."""
        return replace(self, api=self.api.within(seconds))

    def read(self) -> dict[str, Any] | None:
        """The lease as it is; None when there is none. Raises UnreachableError for what is not a lease."""
        body = self.api.find(f"read {self.where}", self._path(self._name))
        return None if body is None else _decoded(body, self.where)

    def write(self, stored: dict[str, Any] | None, holder: str, *, fresh: bool = False) -> None:
        """Create or replace the lease as it was read.

        Raises NotWrittenError, or InputError when its namespace does not exist.
        """
        now = self._clock()
        spec = {
            **spec_of(stored),
            "holderIdentity": holder,
            "leaseDurationSeconds": max(1, round(self.duration_seconds)) if holder else 1,
            "renewTime": times.render_micro(now),
        }
        if fresh:
            before = spec.get("leaseTransitions")
            transitions = before if isinstance(before, int) and 0 <= before < MAX_TRANSITIONS else 0
            spec["acquireTime"] = times.render_micro(now)
            spec["leaseTransitions"] = transitions + 1
        self._store(stored, {"spec": spec})

    def _store(self, stored: dict[str, Any] | None, fields: dict[str, Any]) -> bytes:
        """The lease as the API server keeps it once these fields are written. Raises as ``write`` does."""
        what = f"write {self.where}"
        if stored is not None:
            return client.replace_version(self.api, what, self._path(self._name), {**stored, **fields})
        metadata = {**fields.get("metadata", {}), "namespace": self._namespace, "name": self._name}
        return client.create_version(
            self.api,
            what,
            self._path(),
            {"apiVersion": _VERSION, "kind": "Lease", "spec": {}, **fields, "metadata": metadata},
            namespace=self._namespace,
            hint=f"{client.APPLY}, or name a lease elsewhere with --lease",
        )

    def why_paused(self) -> str:
        """Why its runs are paused, read now; empty when they are not. Raises as ``read`` does."""
        return self.why_paused_by(self.read())

    def why_paused_by(self, stored: dict[str, Any] | None) -> str:
        """The same of the lease as it was read."""
        reason = _annotations(stored).get(PAUSED)
        if reason is None:
            return ""
        place = f"{self._namespace}/{self._name}"
        which = "" if place == "rebalancer/rebalancer" else f" --lease {place}"
        return (
            f"runs are paused by the {self.where} ({str(reason)[:_MAX_REASON]!a}); "
            f"rebalancer resume{which} lets them go on"
        )

    def pause(self, reason: str | None) -> bool:
        """Pause its runs for a reason, or let them go on where it is None; whether that changed anything.

        A lease that does not exist is made: the first run finds it paused. Whatever the write is answered
        with, the lease is read again before it is said not to be so. Raises InputError when its namespace
        does not exist, RightsError, or UnreachableError, also when the API server did not keep it.
        """
        writes = 0  # that may have been carried out, whatever they were answered with

        def attempt() -> bool:
            nonlocal writes
            stored = self.read()
            annotations = _annotations(stored)
            if annotations.get(PAUSED) == reason:
                return writes > 0
            annotations = {key: value for key, value in annotations.items() if key != PAUSED}
            if reason is not None:
                annotations[PAUSED] = reason
            metadata = {**(stored or {}).get("metadata", {}), "annotations": annotations}
            writes += 1
            answer = self._store(stored, {"metadata": metadata})
            if _annotations(_decoded(answer, self.where)).get(PAUSED) != reason:
                raise UnreachableError("the API server has not kept what was written", where=self.where)
            return True

        try:
            return client.update(self.api, f"write {self.where}", attempt)
        except client.NotWrittenError as error:
            failure: RebalancerError = error.unanswered or UnreachableError(str(error), where=self.where)
        except StopRequestedError:
            raise
        except RebalancerError as error:
            failure = error
        return self._read_again(reason, failure)

    def _read_again(self, reason: str | None, failure: RebalancerError) -> bool:
        """True where the lease says what was to be written; else raises why not, with what it says."""
        try:
            stored = _annotations(self.read()).get(PAUSED)
        except RebalancerError as error:
            state = (
                f"whether runs are paused is not known: the lease could not be read again: {error.message}"
            )
        else:
            if stored == reason:
                return True
            state = "read again: runs are not paused"
            if stored is not None:
                state = f"read again: runs are paused ({str(stored)[:_MAX_REASON]!a})"
        failure.hint = f"{state}; {failure.hint}" if failure.hint else state
        raise failure

    def _path(self, *name: str) -> str:
        return object_path(_VERSION, self._namespace, "leases", *name)

    def take(self, lease: RunLease, stored: dict[str, Any] | None) -> HeldLease:
        """Write the lease that was found as ours, which the caller knows to be allowed.

        ``lease`` says for how long that may take; who holds it renews it later. Raises NotWrittenError when
        it has changed since, or when the answer was lost.
        """
        held = HeldLease(self, self.now())
        try:
            lease.write(stored, lease.identity, fresh=True)
        except StopRequestedError:  # the API server may have written it all the same
            held.release()
            raise
        return held

    def acquire(self) -> HeldLease:
        """Take the lease when it is free, or when its holder has not renewed it for its whole duration.

        Raises LeaseHeldError naming the holder, InputError when its namespace does not exist, RightsError,
        UnreachableError, or StopRequestedError when asked to stop while another's lease is watched.
        """
        # To watch it, and for requests before and after.
        deadline = 2 * self.duration_seconds + MAX_WATCHED_SECONDS
        lease = self.within(deadline)

        def attempt() -> HeldLease:
            stored = lease.read()
            if stored is not None:
                stored = self._watched_until_free(stored)
            return self.take(lease, stored)

        try:
            return client.update(lease.api, f"take {self.where}", attempt, deadline_seconds=deadline)
        except client.NotWrittenError as error:
            if error.unanswered is not None:
                raise error.unanswered from error
            raise LeaseHeldError(
                f"could not be taken in {client.MAX_ATTEMPTS} attempts", where=self.where
            ) from error

    def _watched_until_free(self, stored: dict[str, Any]) -> dict[str, Any] | None:
        """The lease once nobody holds it. Raises LeaseHeldError as soon as it is seen that somebody does."""
        spec = spec_of(stored)
        if self.is_free(spec):
            return stored
        seconds = duration_of(spec, self.duration_seconds)
        age = self._clock() - times.parse_if_possible(text_of(spec, "renewTime"))  # by two clocks
        if 0 <= age < seconds or seconds > MAX_WATCHED_SECONDS:
            raise self._held(spec, seconds)
        holder = text_of(spec, "holderIdentity")[:200]
        LOGGER.info(
            "%s of %a was not renewed in time: taken in %.0f s unless its holder shows that it lives",
            self.where,
            holder,
            seconds,
        )
        since = self.now()
        latest: dict[str, Any] | None = stored
        while self.now() - since < seconds:
            if self.api.retries.wait(min(_LOOK_SECONDS, seconds)):
                raise StopRequestedError(f"asked to stop while {self.where} of another run was watched")
            latest = self.read()
            if latest is None or self.is_free(spec_of(latest)):
                return latest
            if record_of(latest) != record_of(stored):
                raise self._held(spec_of(latest), seconds)
        return latest

    def is_free(self, spec: dict[str, Any]) -> bool:
        """Whether nobody holds it, or this run does."""
        return text_of(spec, "holderIdentity") in ("", self.identity)

    def _held(self, spec: dict[str, Any], seconds: float) -> LeaseHeldError:
        holder = text_of(spec, "holderIdentity")[:200]
        renewed = text_of(spec, "renewTime")[:40]
        return LeaseHeldError(
            f"held by {holder!a}, renewed {renewed} for {seconds:.0f} s",
            where=self.where,
            hint="another run is at work; if it is dead, the lease frees itself after that time"
            if seconds <= MAX_WATCHED_SECONDS
            else "if its holder is dead, delete the lease with kubectl",
        )


class LeaseWatch:
    """Looks at a lease that somebody else may hold."""

    def __init__(self, lease: RunLease) -> None:
        self._lease = lease
        self._seen: dict[str, Any] | None = None
        self._since = 0.0
        self.holder = ""  # who held it at the last look

    @property
    def why_not(self) -> str:
        """Why the last look did not take it."""
        return f"is held by {self.holder!a}" if self.holder else "changed just now, and is looked at again"

    def look(self) -> HeldLease | None:
        """Take the lease if it is free, or was seen unchanged for its whole duration; else None.

        Takes no longer than the lease is held for: to read it and to write it have one deadline.
        Raises RightsError, UnreachableError, InputError when its namespace does not exist, or
        StopRequestedError.
        """
        lease = self._lease.within(self._lease.duration_seconds)
        began = self._lease.now()
        stored = lease.read()  # as it was at ``began`` or later
        spec = spec_of(stored)
        self.holder = text_of(spec, "holderIdentity")[:200]
        if stored is not None and not self._lease.is_free(spec) and not self._expired(stored, began):
            return None
        try:
            held = self._lease.take(lease, stored)
        except client.NotWrittenError:
            self.holder = ""  # somebody else was faster, or the answer was lost: the next look tells
            return None
        self._seen = None
        return held

    def _expired(self, stored: dict[str, Any], now: float) -> bool:
        record = record_of(stored)
        seconds = duration_of(spec_of(stored), self._lease.duration_seconds)
        if record != self._seen:
            self._seen = record
            self._since = self._lease.now()
            return False
        return seconds <= MAX_WATCHED_SECONDS and now - self._since >= seconds
