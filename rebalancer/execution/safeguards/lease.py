"""The lease that keeps two runs from acting at once: taken, renewed before each eviction, released."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import msgspec

from rebalancer.cluster import times
from rebalancer.cluster.live import RawApi
from rebalancer.cluster.live.answers import RequestRejectedError
from rebalancer.cluster.live.updates import MAX_ATTEMPTS, NotWrittenError, update, write_version
from rebalancer.errors import LeaseHeldError, RebalancerError, SafetyError, StopRequestedError

DURATION_SECONDS = 60.0
_MAX_DURATION_SECONDS = 3600.0
_GROUP, _VERSION, _PLURAL = "coordination.k8s.io", "v1", "leases"


class LeaseLostError(SafetyError):
    """The lease could not be renewed: another run may be at work."""


class RunLease:
    """A coordination.k8s.io Lease held by one run.

    ``identity`` names the run; a lease with this identity is ours. Another one has expired when its renew
    time and duration lie in the past by our clock: clocks are assumed to differ by less than the duration.
    """

    def __init__(
        self,
        api: RawApi,
        namespace: str,
        name: str,
        identity: str,
        clock: Callable[[], float],
        *,
        duration_seconds: float = DURATION_SECONDS,
    ) -> None:
        self._api = api
        self._calls = api.client.custom_objects
        self._namespace = namespace
        self._name = name
        self._identity = identity
        self._clock = clock
        self._duration = duration_seconds
        self._renewed_at = float("-inf")
        self._held = False

    @property
    def where(self) -> str:
        """The object, as messages name it."""
        return f"lease {self._namespace}/{self._name}"

    @property
    def held(self) -> bool:
        """Whether this run took the lease and has neither lost nor released it."""
        return self._held

    def acquire(self) -> None:
        """Take the lease when it is free or expired.

        Raises LeaseHeldError naming the holder, RightsError or UnreachableError.
        """

        def attempt() -> None:
            item = self._read()
            if item is not None:
                self._refuse_if_held(item)
            self._write(item, self._identity, fresh=True)

        try:
            update(self._api, f"take {self.where}", attempt, deadline_seconds=self._duration)
        except NotWrittenError as error:
            if error.unanswered is not None:
                raise error.unanswered from error
            raise LeaseHeldError(
                f"could not be taken in {MAX_ATTEMPTS} attempts", where=self.where
            ) from error
        self._held = True

    def renew(self) -> None:
        """Show that this run is still at work. Raises LeaseLostError: no renewal, no eviction."""

        def attempt() -> None:
            item = self._read()
            holder = _text(_spec(item), "holderIdentity")
            if not self._held or item is None or holder != self._identity:
                self._held = False
                now = f"it is held by {holder!a}" if holder else "it was removed"
                raise LeaseLostError(f"the lease was lost: {now}", where=self.where)
            self._write(item, self._identity)

        try:
            update(self._api, f"renew {self.where}", attempt, deadline_seconds=self._duration)
        except (LeaseLostError, StopRequestedError):
            raise
        except NotWrittenError as error:
            why = f"in {MAX_ATTEMPTS} attempts ({error})"
            raise LeaseLostError(f"the lease could not be renewed {why}", where=self.where) from error
        except RebalancerError as error:
            raise LeaseLostError(f"the lease could not be renewed: {error}", where=self.where) from error

    def renew_if_due(self) -> None:
        """Renew when a third of the duration has passed; for loops that wait. Raises LeaseLostError."""
        if self._clock() - self._renewed_at >= self._duration / 3:
            self.renew()

    def release(self) -> None:
        """Give the lease up if it is ours; after a failure the next run waits until it expires."""
        if not self._held:
            return
        self._held = False
        with contextlib.suppress(RebalancerError, NotWrittenError):
            item = self._read()
            if item is not None and _text(_spec(item), "holderIdentity") == self._identity:
                self._write(item, "")

    def _refuse_if_held(self, item: dict[str, Any]) -> None:
        spec = _spec(item)
        holder = _text(spec, "holderIdentity")
        if not holder or holder == self._identity:
            return
        seconds = _duration(spec, self._duration)
        if _renew_time(spec) + seconds > self._clock():
            raise LeaseHeldError(
                f"held by {holder[:200]!a}, renewed {_text(spec, 'renewTime')[:40]} for {seconds:.0f} s",
                where=self.where,
                hint="another run is at work; if it is dead, the lease frees itself after that time",
            )

    def _read(self) -> dict[str, Any] | None:
        try:
            body = self._api.get(
                f"read {self.where}",
                self._calls.get_namespaced_custom_object,
                _GROUP,
                _VERSION,
                self._namespace,
                _PLURAL,
                self._name,
            )
            return msgspec.json.decode(body, type=dict[str, Any])
        except RequestRejectedError as error:
            if error.status == 404:
                return None
            raise
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            raise LeaseHeldError(
                f"the answer is no lease: {str(error)[:200]}", where=self.where, hint="kubectl delete it"
            ) from error

    def _write(self, item: dict[str, Any] | None, holder: str, *, fresh: bool = False) -> None:
        """Create or replace the lease as it was read. Raises NotWrittenError."""
        now = self._clock()
        spec = {
            **_spec(item),
            "holderIdentity": holder,
            "leaseDurationSeconds": max(1, round(self._duration)) if holder else 1,
            "renewTime": times.render_micro(now),
        }
        if fresh:
            transitions = spec.get("leaseTransitions")
            spec["acquireTime"] = times.render_micro(now)
            spec["leaseTransitions"] = (transitions if isinstance(transitions, int) else 0) + 1
        path = (_GROUP, _VERSION, self._namespace, _PLURAL)
        what = f"write {self.where}"
        if item is None:
            body = {
                "apiVersion": f"{_GROUP}/{_VERSION}",
                "kind": "Lease",
                "metadata": {"namespace": self._namespace, "name": self._name},
                "spec": spec,
            }
            write_version(self._api, what, self._calls.create_namespaced_custom_object, *path, body)
        else:
            call = self._calls.replace_namespaced_custom_object
            write_version(self._api, what, call, *path, self._name, {**item, "spec": spec})
        self._renewed_at = now


def _spec(item: dict[str, Any] | None) -> dict[str, Any]:
    spec = (item or {}).get("spec")
    return spec if isinstance(spec, dict) else {}


def _text(spec: dict[str, Any], field: str) -> str:
    value = spec.get(field)
    return value if isinstance(value, str) else ""


def _renew_time(spec: dict[str, Any]) -> float:
    """When the holder last renewed it, Unix seconds; 0 when that cannot be read."""
    try:
        return times.parse(_text(spec, "renewTime"))
    except (ValueError, OverflowError):
        return 0.0


def _duration(spec: dict[str, Any], otherwise: float) -> float:
    value = spec.get("leaseDurationSeconds")
    if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
        return otherwise
    return min(float(value), _MAX_DURATION_SECONDS)
