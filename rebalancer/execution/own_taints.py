"""The taints of a run: set before its first eviction, on nodes to avoid or on those that it empties.

A run may be killed between the two. So a taint's value says whose it is and until when it may stay, and the
next run under the same lease takes it away before it evicts anything, as any run does once that time is over:

    rebalancer/hot=5f0c9a1e.3b2a81d0c4f7.1795651200:PreferNoSchedule
                   lease    run          until, Unix seconds

The soft taint goes with the run. Its key says hot on nodes that are only not cool too: one key is what the
right to patch nodes is narrowed to, and what people take away by hand. The taint of emptied nodes stays until
its time is over, so that somebody can remove them meanwhile; from a node that was not emptied it goes with
the run too.

The list of a node's taints can only be replaced as a whole. Each request therefore names the version of the
node that was read; whoever changes the node in between makes the API server refuse it, and it is read anew.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

import msgspec

from rebalancer.cluster import times
from rebalancer.cluster.live import RawApi
from rebalancer.cluster.live.failures import RequestRejectedError
from rebalancer.cluster.records import Taint
from rebalancer.errors import RebalancerError, RightsError, SafetyError
from rebalancer.planning.steering import HOT, taint_ends

LOGGER = logging.getLogger(__name__)
_ATTEMPTS = 5  # for one node that others change at the same time
_END_SECONDS, _NODE_SECONDS = 5.0, 0.5  # for taking all taints away, even after a request to stop
_RIGHT = "it needs get and patch on nodes: k8s/components/steer grants both"


class OwnTaints:
    """What one run has set; ``until`` is in Unix seconds, ``clock`` tells them."""

    def __init__(
        self,
        api: RawApi,
        lease: tuple[str, str],
        run: str,
        until: float,
        clock: Callable[[], float],
        kind: Taint = HOT,
    ) -> None:
        self._api = api
        self._kind = kind
        self._owner = f"{hashlib.sha256('/'.join(lease).encode()).hexdigest()[:8]}.{run[:12]}"
        self._until = int(until)
        self._clock = clock
        self._set: list[str] = []

    def begin(self, nodes: Sequence[str], left_behind: Iterable[str]) -> None:
        """Taint these nodes, and take away what earlier runs left on others.

        Raises SafetyError where a run under another lease steers, and what its requests raise.
        """
        for name in sorted({*left_behind} - {*nodes}):
            self._change(self._api, name, None, self._is_over if self._kind is HOT else self._is_late)
        for name in nodes:
            self._set.append(name)  # before the request, whose answer may be lost
            self._change(self._api, name, f"{self._owner}.{self._until}", self._is_over)

    def renew(self, until: float) -> None:
        """Let what was set stay until later; a taint that is gone by now does not come back."""
        value = f"{self._owner}.{int(until)}"
        for name in self._set:
            self._change(self._api, name, value, self._is_of_this_run, renews=True)
        self._until = int(until)

    def end(self, staying: Collection[str] = ()) -> tuple[str, ...]:
        """Take away what was set, but where it stays; returns where that failed, after saying why."""
        api, failed = self._api.finishing(_END_SECONDS + _NODE_SECONDS * len(self._set)), []
        for name in self._set:
            if name in staying and self._clock() < self._until:
                continue
            try:
                self._change(api, name, None, self._is_of_this_run)
            except RebalancerError as error:
                until = times.render(self._until)
                LOGGER.warning(
                    "the taint %s stays on node %s until %s: %s", self._kind.key, name, until, error
                )
                failed.append(name)
        return tuple(failed)

    def _change(
        self,
        api: RawApi,
        name: str,
        value: str | None,
        goes: Callable[[Mapping[str, Any], str], bool],
        *,
        renews: bool = False,
    ) -> None:
        """Give a node the taint, or take it away; ``goes`` says which of our taints are to go.

        Where it ``renews``, the node gets the taint for one that goes, and none otherwise.
        """
        path, what = f"/api/v1/nodes/{quote(name, safe='')}", f"{'taint' if value else 'untaint'} node {name}"
        for attempt in range(_ATTEMPTS):
            try:
                node = _decoded(api.get(what, path), what)
                taints = node.spec.get("taints") or []
                wanted = [taint for taint in taints if not (self._is_ours(taint) and goes(taint, name))]
                if renews and len(wanted) == len(taints):
                    return
                wanted += (
                    [{"key": self._kind.key, "value": value, "effect": self._kind.effect}] if value else []
                )
                if wanted != taints:
                    version = node.metadata.get("resourceVersion", "")
                    body = {"metadata": {"resourceVersion": version}, "spec": {"taints": wanted or None}}
                    api.write(what, "PATCH", path, body)
            except RightsError as error:
                raise RightsError(error.message, where=error.where, hint=_RIGHT) from error
            except RequestRejectedError as error:
                if error.status == 409 and attempt < _ATTEMPTS - 1:
                    continue  # somebody changed the node meanwhile
                if error.status != 404:  # with the node its taint is gone
                    raise
            return

    def _is_of_this_run(self, taint: Mapping[str, Any], _node: str) -> bool:
        return bool(taint["value"].startswith(f"{self._owner}."))

    def _is_over(self, taint: Mapping[str, Any], node: str) -> bool:
        """True for a taint whose time is over, or whose run cannot go on, as this one has its lease."""
        same = taint["value"].partition(".")[0] == self._owner.partition(".")[0]
        if same or self._kind is not HOT or self._is_late(taint, node):
            return True
        until = times.render(taint_ends(taint["value"]))
        raise SafetyError(
            f"a run under another lease steers: node {node} has its taint until {until}",
            hint="let runs that steer share one lease",
        )

    def _is_late(self, taint: Mapping[str, Any], _node: str) -> bool:
        """True for a taint whose time is over, or cannot be read."""
        return taint_ends(taint["value"]) <= self._clock()

    def _is_ours(self, taint: object) -> bool:
        """Whether a taint as it was read is one of this program."""
        return (
            isinstance(taint, dict)
            and (taint.get("key"), taint.get("effect")) == (self._kind.key, self._kind.effect)
            and isinstance(taint.setdefault("value", ""), str)
        )


class _WholeNode(msgspec.Struct, frozen=True):
    metadata: dict[str, Any]
    spec: dict[str, Any]


def _decoded(content: bytes, what: str) -> _WholeNode:
    """A node with all its fields. Raises RequestRejectedError for anything else."""
    try:
        return msgspec.json.decode(content, type=_WholeNode)
    except (msgspec.DecodeError, RecursionError) as error:
        raise RequestRejectedError(
            f"{what}: the answer is not a Node: {str(error)[:200]}", status=422
        ) from error
