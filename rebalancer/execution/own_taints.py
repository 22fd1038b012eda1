"""The taints of a run: set before evictions, on nodes that a wave avoids or on those that the run empties.

A run may be killed before it takes them away. So a taint's value says whose it is and until when it may
stay, and the next run under the same lease takes it away before it evicts anything, as any run does once that
time is over:

    rebalancer/hot=5f0c9a1e.3b2a81d0c4f7.1795651200:PreferNoSchedule
                   lease    run          until, Unix seconds

The soft taint goes with its wave. Its key says hot on nodes that only would be too: one key is what the
right to patch nodes is narrowed to, and what people take away by hand. The taint of emptied nodes stays for
a time after the run, so that somebody can remove them meanwhile; it was set for longer, as the run may be
killed. From a node that was not emptied it goes with the run too.

One request changes a node whose taints are as they were seen last, whatever else of it has changed. It
names what it expects, and the API server refuses it where that is not so:

    no taint was seen       /spec/taints is null: add it, with ours alone
    others were seen        append ours to /spec/taints
    ours was set there      /spec/taints/2 is ours: remove it, or replace it

Then the node is read, and its list of taints replaced as a whole. That request names the version that was
read; whoever changes the node in between makes the API server refuse it, and the node is read anew.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

import msgspec

from rebalancer.cluster import times
from rebalancer.cluster.live import RawApi
from rebalancer.cluster.live.failures import RequestRejectedError, remedy
from rebalancer.cluster.records import Taint
from rebalancer.errors import RebalancerError, RightsError, SafetyError, UnreachableError
from rebalancer.planning.taints import HOT, taint_ends

LOGGER = logging.getLogger(__name__)
_ATTEMPTS = 5  # for one node that others change at the same time
_END_SECONDS = 5.0  # for taking all taints away, even after a request to stop
_NODE_SECONDS = 0.5
_MOST_SAID = 5  # nodes that keep their taint, one by one
_RIGHT = "it needs get and patch on nodes: k8s/components/steer grants both"

_JsonPatch = Sequence[Mapping[str, Any]]


class OwnTaints(msgspec.Struct, eq=False, dict=True):
    """What one run has set; ``until`` is in Unix seconds, ``clock`` tells them."""

    _api: RawApi
    lease: tuple[str, str]
    run: str
    until: float
    _clock: Callable[[], float]
    _kind: Taint = HOT
    _stays_seconds: float = 0.0  # after the end of the run, where it stays
    # What was set, by node: where its taint was seen last, and as what; None where that is not known.
    _set: dict[str, tuple[str, Mapping[str, Any]] | None] = {}

    def __post_init__(self) -> None:
        self._owner = f"{hashlib.sha256('/'.join(self.lease).encode()).hexdigest()[:8]}.{self.run[:12]}"
        self.until = int(self.until)

    @property
    def nodes(self) -> tuple[str, ...]:
        """The nodes that have what was set, or may have it."""
        return tuple(self._set)

    def begin(
        self, nodes: Sequence[str], left_behind: Collection[str], seen: Mapping[str, Sequence[Taint]] = {}
    ) -> None:
        """Taint these nodes, and take away what earlier runs left on others.

        ``seen`` are all taints of each node as it was read. Raises SafetyError where a run under another
        lease steers, and what its requests raise.
        """
        api = self._api.within(self.until - self._clock())  # a taint that is set later is over by then
        for name in sorted({*left_behind} - {*nodes}):
            self._change(api, name, None, self._is_over if self._kind is HOT else self._is_late)
        value = f"{self._owner}.{self.until}"
        taint = self._taint(value)
        first: _JsonPatch = (
            {"op": "test", "path": "/spec/taints", "value": None},
            {"op": "add", "path": "/spec/taints", "value": [taint]},
        )
        further: _JsonPatch = ({"op": "add", "path": "/spec/taints/-", "value": taint},)
        for name in nodes:
            self._set[name] = None  # before the request, whose answer may be lost
            there = [(seen_taint.key, seen_taint.effect) for seen_taint in seen.get(name, ())]
            is_ours = (self._kind.key, self._kind.effect) in there  # whose it is has to be read
            self._change(api, name, value, self._is_over, () if is_ours else further if there else first)

    def renew(self, until: float) -> None:
        """Let what was set stay until later; a taint that is gone by now does not come back.

        One whose value somebody has changed to what no run writes is still the one that was set.
        """
        value = f"{self._owner}.{int(until)}"
        api = self._api.within(until - self._clock())
        for name in self._set:
            expected = self._where_it_was(name, {"op": "replace", "value": self._taint(value)})
            self._change(api, name, value, self._is_no_other_runs, expected, renews=True)
        self.until = int(until)

    def end(self, staying: Collection[str] = ()) -> tuple[str, ...]:
        """Take away what was set, or let it stay no longer than it is to; returns where that failed.

        Why it failed is said.
        """
        seconds = _END_SECONDS + _NODE_SECONDS * len(self._set)
        failed = list[str]()
        api = self._api.finishing(seconds).within(seconds)
        until = times.render(self.until)
        for name in (*self._set,):
            stays = name in staying and self._clock() < self.until
            ends = min(int(self._clock() + self._stays_seconds), int(self.until))
            value = f"{self._owner}.{ends}" if stays else None
            operation = {"op": "replace", "value": self._taint(value)} if value else {"op": "remove"}
            try:
                expected = self._where_it_was(name, operation)
                self._change(api, name, value, self._is_no_other_runs, expected, renews=stays)
                del self._set[name]
            except RebalancerError as error:
                failed.append(name)
                if len(failed) <= _MOST_SAID:
                    LOGGER.warning(
                        "the taint %s stays on node %s until %s: %s", self._kind.key, name, until, error
                    )
        if more := failed[_MOST_SAID:]:
            LOGGER.warning("the taint %s stays on %d more nodes until %s", self._kind.key, len(more), until)
        return tuple(failed)

    def _taint(self, value: str) -> Mapping[str, Any]:
        return {"key": self._kind.key, "value": value, "effect": self._kind.effect}

    def _where_it_was(self, name: str, operation: Mapping[str, Any]) -> _JsonPatch:
        """What is to be done with the taint that was set, if it is still where it was; empty if unknown."""
        seen = self._set[name]
        if seen is None:
            return ()
        path, taint = seen
        return {"op": "test", "path": path, "value": taint}, {"path": path, **operation}

    def _change(
        self,
        api: RawApi,
        name: str,
        value: str | None,
        goes: Callable[[Mapping[str, Any], str], bool],
        expected: _JsonPatch = (),
        *,
        renews: bool = False,
    ) -> None:
        """Give a node the taint, or take it away; ``goes`` says which of our taints are to go.

        Where it ``renews``, the node gets the taint for one that goes, and none otherwise. ``expected`` does
        all this where the node's taints are as they were seen last.
        """
        path = f"/api/v1/nodes/{quote(name, safe='')}"
        what = f"{'taint' if value else 'untaint'} node {name}"
        if api.retries.run.stopped:
            expected = ()  # a read, unlike a write, does not begin then
        for attempt in range(_ATTEMPTS):
            at_once = expected
            expected = ()
            try:
                body = at_once or self._replaced(api, what, path, name, value, goes, renews=renews)
                if body is not None:
                    node = _decoded(api.write(what, "PATCH", path, body), what, name)
                    self._check(what, value, node)
                    self._note(name, value, node)
            except RightsError as error:
                if value and not (attempt or renews or self._is_seen(api, what, path, name)):
                    del self._set[name]  # it has no taint that would have to go
                raise RightsError(error.message, where=error.where, hint=remedy(error, _RIGHT)) from error
            except UnreachableError as error:
                rejected = error if isinstance(error, RequestRejectedError) else None
                if rejected is not None and rejected.proves_absence(path):
                    return  # with the node its taint is gone
                # Its taints are not as expected, or the answer was lost, or others changed it meanwhile.
                conflict = rejected is not None and rejected.status == HTTPStatus.CONFLICT
                if attempt == _ATTEMPTS - 1 or not (at_once or conflict):
                    raise
            else:
                return

    def _is_seen(self, api: RawApi, what: str, path: str, name: str) -> bool:
        """Whether a node has a taint of this run, whatever the answer to the request that sets it said."""
        try:
            content = api.find(what, path)
            return content is not None and bool(self._of_this_run(_decoded(content, what, name)))
        except RebalancerError:
            return False

    def _replaced(
        self,
        api: RawApi,
        what: str,
        path: str,
        name: str,
        value: str | None,
        goes: Callable[[Mapping[str, Any], str], bool],
        *,
        renews: bool,
    ) -> Mapping[str, Any] | None:
        """Read a node; a merge patch that replaces its taints, or None where there is nothing to change."""
        content = api.find(what, path)
        if content is None:
            return None
        node = _decoded(content, what, name)
        taints = node.spec.get("taints") or []
        new_taints = [taint for taint in taints if not (self._is_ours(taint) and goes(taint, name))]
        if renews and len(new_taints) == len(taints):
            return None
        new_taints += [self._taint(value)] if value else []
        version = node.metadata.get("resourceVersion", "")
        body = {"metadata": {"resourceVersion": version}, "spec": {"taints": new_taints or None}}
        return body if new_taints != taints else None

    def _check(self, what: str, value: str | None, node: _WholeNode) -> None:
        """Raise UnreachableError where the API server has not stored what was asked for."""
        expected = set() if value is None else {value}
        if self._of_this_run(node) != expected:
            raise RequestRejectedError(
                f"{what}: the API server stored other taints than were sent",
                where=self._api.host,
                hint="does an admission webhook change nodes, or a proxy answer in the API server's place?",
                status=HTTPStatus.UNPROCESSABLE_ENTITY,
            )

    def _of_this_run(self, node: _WholeNode) -> set[str]:
        """The values of the node's taints that are this run's."""
        return {
            taint["value"]
            for taint in node.spec.get("taints") or ()
            if self._is_ours(taint) and taint["value"].startswith(f"{self._owner}.")
        }

    def _note(self, name: str, value: str | None, node: _WholeNode) -> None:
        """Where the taint is that was set now."""
        if value is not None:
            taints = enumerate(node.spec.get("taints") or ())
            set_now = ((f"/spec/taints/{at}", taint) for at, taint in taints if taint == self._taint(value))
            self._set[name] = next(set_now, None)

    def _is_no_other_runs(self, taint: Mapping[str, Any], node: str) -> bool:
        """True for a taint of this run, or of none that may still go on."""
        return taint["value"].startswith(f"{self._owner}.") or self._is_late(taint, node)

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
        return (
            isinstance(taint, dict)
            and (taint.get("key"), taint.get("effect")) == (self._kind.key, self._kind.effect)
            and isinstance(taint.setdefault("value", ""), str)
        )


class _WholeNode(msgspec.Struct, frozen=True):
    metadata: dict[str, Any]
    spec: dict[str, Any]


def _decoded(content: bytes, what: str, name: str) -> _WholeNode:
    """The node of that name, with all its fields. Raises RequestRejectedError for anything else."""
    try:
        node = msgspec.json.decode(content, type=_WholeNode)
    except (msgspec.DecodeError, RecursionError) as error:
        raise RequestRejectedError(
            f"{what}: the answer is not a Node: {str(error)[:200]}", status=422
        ) from error
    if node.metadata.get("name") != name:
        raise RequestRejectedError(f"{what}: the answer is another object", status=422)
    return node
