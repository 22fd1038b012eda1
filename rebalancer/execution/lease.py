"""The lease that keeps two runs from acting at once: held, renewed before each eviction, released."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import msgspec
from kubernetes import client

from rebalancer.cluster import times
from rebalancer.cluster.live.connection import NotServedError, RawApi
from rebalancer.errors import LeaseHeldError, RebalancerError, SafetyError, UnreachableError

DURATION_SECONDS = 60.0
_MAX_DURATION_SECONDS = 3600.0
_PAUSE_SECONDS = 0.5
_ATTEMPTS = 4
_GROUP, _VERSION, _PLURAL = "coordination.k8s.io", "v1", "leases"


class LeaseLostError(SafetyError):
    """The lease could not be renewed: another run may be at work."""


class RunLease:
    """A coordination.k8s.io Lease held by one run.

    ``identity`` names the run; a lease of the same identity is ours. Expiry is judged by our clock
    against the renew time the holder wrote: clocks are taken to differ by less than the duration.
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
        self._calls = client.CustomObjectsApi(api.api)
        self._namespace = namespace
        self._name = name
        self._identity = identity
        self._clock = clock
        self._duration = duration_seconds
        self._renewed_at = float("-inf")
        self._held = False
        self._unanswered: UnreachableError | None = None  # of the last write

    @property
    def where(self) -> str:
        """The object, as messages name it."""
        return f"lease {self._namespace}/{self._name}"

    @property
    def held(self) -> bool:
        """Whether this run took the lease and has not let it go."""
        return self._held

    def acquire(self) -> None:
        """Take the lease when it is free or expired.

        Raises LeaseHeldError naming the holder, RightsError or UnreachableError.
        """
        for _ in range(_ATTEMPTS):
            item = self._read()
            if item is not None:
                self._refuse_if_held(item)
            if self._written(item, self._identity, fresh=True):
                self._held = True
                return
        if self._unanswered is not None:
            raise self._unanswered
        raise LeaseHeldError(f"could not be taken in {_ATTEMPTS} attempts", where=self.where)

    def renew(self) -> None:
        """Say that this run is still at work. Raises LeaseLostError: no renewal, no eviction."""
        try:
            for _ in range(_ATTEMPTS):
                item = self._read()
                holder = _text(_spec(item), "holderIdentity")
                if not self._held or item is None or holder != self._identity:
                    self._held = False
                    now_with = f"it is held by {holder!a}" if holder else "it was removed"
                    raise LeaseLostError(f"the lease was lost: {now_with}", where=self.where)
                if self._written(item, self._identity):
                    return
        except LeaseLostError:
            raise
        except RebalancerError as error:
            raise LeaseLostError(f"the lease could not be renewed: {error}", where=self.where) from error
        why = f" ({self._unanswered})" if self._unanswered is not None else ""
        raise LeaseLostError(f"the lease could not be renewed in {_ATTEMPTS} attempts{why}", where=self.where)

    def renew_if_due(self) -> None:
        """Renew when a third of the duration has passed; for loops that wait. Raises LeaseLostError."""
        if self._clock() - self._renewed_at >= self._duration / 3:
            self.renew()

    def release(self) -> None:
        """Let the lease go if it is ours; a failure only makes the next run wait until it expires."""
        if not self._held:
            return
        self._held = False
        with contextlib.suppress(RebalancerError):
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
        except NotServedError as error:
            if error.status == 404:
                return None
            raise
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            raise LeaseHeldError(
                f"the answer is no lease: {str(error)[:200]}", where=self.where, hint="kubectl delete it"
            ) from error

    def _written(self, item: dict[str, Any] | None, holder: str, *, fresh: bool = False) -> bool:
        """As ``_write``; False, after a short wait, when the answer was lost too: reading again tells."""
        self._unanswered = None
        try:
            return self._write(item, holder, fresh=fresh)
        except NotServedError:
            raise
        except UnreachableError as error:
            self._unanswered = error
            self._api.sleep(_PAUSE_SECONDS)
            return False

    def _write(self, item: dict[str, Any] | None, holder: str, *, fresh: bool = False) -> bool:
        """Create or replace the lease as it was read; False when somebody was faster."""
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
        try:
            if item is None:
                metadata = {"namespace": self._namespace, "name": self._name}
                body = {
                    "apiVersion": f"{_GROUP}/{_VERSION}",
                    "kind": "Lease",
                    "metadata": metadata,
                    "spec": spec,
                }
                self._api.write(what, self._calls.create_namespaced_custom_object, *path, body)
            else:
                call = self._calls.replace_namespaced_custom_object
                self._api.write(what, call, *path, self._name, {**item, "spec": spec})
        except NotServedError as error:
            if error.status in (404, 409):
                return False
            raise
        self._renewed_at = now
        return True


def _spec(item: dict[str, Any] | None) -> dict[str, Any]:
    spec = (item or {}).get("spec")
    return spec if isinstance(spec, dict) else {}


def _text(spec: dict[str, Any], field: str) -> str:
    value = spec.get(field)
    return value if isinstance(value, str) else ""


def _renew_time(spec: dict[str, Any]) -> float:
    """When the holder last renewed; long ago when it does not say in a way that can be read."""
    try:
        return times.parse(_text(spec, "renewTime"))
    except (ValueError, OverflowError):
        return 0.0


def _duration(spec: dict[str, Any], otherwise: float) -> float:
    value = spec.get("leaseDurationSeconds")
    if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
        return otherwise
    return min(float(value), _MAX_DURATION_SECONDS)
