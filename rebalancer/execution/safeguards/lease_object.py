"""The Lease as an object of the API: read and written by one holder; anybody may have set its fields."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import msgspec

from rebalancer.cluster import times
from rebalancer.cluster.live import RawApi
from rebalancer.cluster.live.answers import RequestRejectedError
from rebalancer.cluster.live.updates import APPLY, create_version, replace_version
from rebalancer.deadlines import CLOSING_SECONDS
from rebalancer.errors import UnreachableError

MAX_TRANSITIONS = 2**31 - 1  # of an int32: the API server refuses more
_GROUP, _VERSION, _PLURAL = "coordination.k8s.io", "v1", "leases"


class LeaseObject:
    """The Lease in the API server: reads it, and writes it as this holder."""

    def __init__(
        self, api: RawApi, namespace: str, name: str, identity: str, clock: Callable[[], float]
    ) -> None:
        self.api = api
        self.identity = identity
        self.where = f"lease {namespace}/{name}"
        self._calls = api.client.custom_objects
        self._namespace = namespace
        self._name = name
        self._clock = clock

    def closing(self) -> LeaseObject:
        """The same lease, for what is done with it after the end of the run, in bounded time."""
        other = self.within(CLOSING_SECONDS)
        other.api = other.api.finishing()
        return other

    def within(self, seconds: float) -> LeaseObject:
        """The same lease, read and written within so many seconds from now."""
        other = copy.copy(self)
        other.api = self.api.within(seconds)
        return other

    def read(self) -> dict[str, Any] | None:
        """The lease as it is; None when there is none. Raises UnreachableError for what is not a lease."""
        try:
            body = self.api.get(
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
            raise UnreachableError(
                f"the answer is not a lease: {str(error)[:200]}", where=self.where, hint="kubectl delete it"
            ) from error

    def write(
        self, item: dict[str, Any] | None, holder: str, duration_seconds: float, *, fresh: bool = False
    ) -> None:
        """Create or replace the lease as it was read.

        Raises NotWrittenError, or InputError when its namespace does not exist.
        """
        now = self._clock()
        spec = {
            **spec_of(item),
            "holderIdentity": holder,
            "leaseDurationSeconds": max(1, round(duration_seconds)) if holder else 1,
            "renewTime": times.render_micro(now),
        }
        if fresh:
            before = spec.get("leaseTransitions")
            transitions = before if isinstance(before, int) and 0 <= before < MAX_TRANSITIONS else 0
            spec["acquireTime"] = times.render_micro(now)
            spec["leaseTransitions"] = transitions + 1
        path = (_GROUP, _VERSION, self._namespace, _PLURAL)
        what = f"write {self.where}"
        if item is None:
            body = {
                "apiVersion": f"{_GROUP}/{_VERSION}",
                "kind": "Lease",
                "metadata": {"namespace": self._namespace, "name": self._name},
                "spec": spec,
            }
            create_version(
                self.api,
                what,
                self._calls.create_namespaced_custom_object,
                *path,
                body,
                namespace=self._namespace,
                hint=f"{APPLY}, or name a lease elsewhere with --lease",
            )
        else:
            call = self._calls.replace_namespaced_custom_object
            replace_version(self.api, what, call, *path, self._name, body={**item, "spec": spec})

    def age(self, spec: dict[str, Any]) -> float:
        """Seconds since its holder renewed it, by two clocks; infinite when it does not say."""
        try:
            return self._clock() - times.parse(text_of(spec, "renewTime"))
        except (ValueError, OverflowError):
            return float("inf")


def spec_of(item: dict[str, Any] | None) -> dict[str, Any]:
    """The spec of a lease; empty for whatever else stands there."""
    spec = (item or {}).get("spec")
    return spec if isinstance(spec, dict) else {}


def text_of(spec: dict[str, Any], field: str) -> str:
    """A field of the spec; empty when it is not text."""
    value = spec.get(field)
    return value if isinstance(value, str) else ""


def record_of(item: dict[str, Any]) -> dict[str, Any]:
    """What a holder changes when it renews."""
    return {field: spec_of(item).get(field) for field in ("holderIdentity", "renewTime", "leaseTransitions")}


def duration_of(spec: dict[str, Any], otherwise: float) -> float:
    """For how many seconds it is held."""
    value = spec.get("leaseDurationSeconds")
    if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
        return otherwise
    return float(value)
