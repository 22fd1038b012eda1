"""After a wave: wait until every evicted pod is gone and replaced, then compare the landings with the plan.

The API does not record which replica replaced which. Replicas of one controller are interchangeable, so
of all pairings that the creation times allow, one with the most planned landings is taken:

    evicted: web-1 (planned: a), web-2 (planned: b)      new: web-x on b, web-y on a
    pairing: web-1 -> web-y, web-2 -> web-x              both landed as planned

A move is settled when waiting longer cannot change its outcome:

    replacement ready on a planned node, old pod gone     Landed, settled
    replacement bound to a node that fails the check      Unexpected, settled
    replacement bound, not ready yet                      NotReady unless that changes before the timeout
    no replacement yet                                    NotReplaced unless that changes before the timeout
    eviction started only, old pod still at work          Started unless that changes before the timeout

Where pods are watched, the watch decides when the API server is asked, and the API server's answer decides
the outcome. A watch that is silent makes the run ask late, and one that shows too much makes it ask in vain:

    evicted web-1     seen: web-1 gone, web-x on b      placed: the next pod of the wave may be evicted
                      seen: web-x ready                 done: the API server is asked, and decides
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from rebalancer.errors import InternalError, RebalancerError
from rebalancer.execution.observed_pods import ObservedPod
from rebalancer.execution.outcomes import Outcome
from rebalancer.execution.restart import appraise_rollout, made_by_rollout
from rebalancer.planning.plan import Move
from rebalancer.state import Result

if TYPE_CHECKING:
    from rebalancer.cluster.live.watching import SeenPod


@dataclass(frozen=True, slots=True)
class Evicted:
    """A move whose pod was evicted."""

    move: Move
    at: float  # Unix seconds, our clock
    not_before: float  # no replacement is created before this, by the API server's clock
    started: bool = False  # the pod leaves once somebody else has moved it, or stays
    restarted_at: str = ""  # of a rolling update: the annotation of the pods it makes


def match(
    evicted: Sequence[Evicted], before: Collection[str], now: Iterable[ObservedPod]
) -> Mapping[str, ObservedPod]:
    """The replacement of each evicted pod that has one, by the evicted pod's uid.

    ``before`` are the uids of the pods that existed before the wave: none of them replaces another.
    """
    known = set(before) | {item.move.pod.uid for item in evicted}
    fresh = [pod for pod in now if pod.metadata.uid not in known and not pod.terminating]
    found: dict[str, ObservedPod] = {}
    by_controller: dict[tuple[str, str], list[Evicted]] = {}
    by_name = {(pod.metadata.namespace, pod.metadata.name): pod for pod in fresh}
    for item in evicted:
        pod = item.move.pod
        if item.move.is_restart:
            new = made_by_rollout(item.move, item.restarted_at, known, fresh)
            if new is not None:
                found[pod.uid] = new
        elif pod.controller_kind == "StatefulSet":
            successor = by_name.get((pod.namespace, pod.name))
            if successor is not None and successor.controller_uid == pod.controller_uid:
                found[pod.uid] = successor
        elif pod.controller_uid:
            by_controller.setdefault((pod.namespace, pod.controller_uid), []).append(item)
    for (namespace, controller), items in by_controller.items():
        candidates = [
            pod for pod in fresh if pod.metadata.namespace == namespace and pod.controller_uid == controller
        ]
        found.update(_pair(items, candidates))
    return found


def _pair(items: Sequence[Evicted], candidates: Iterable[ObservedPod]) -> dict[str, ObservedPod]:
    """Pair evictions with pods made after them: as many as possible, and of these as many as planned."""
    chosen = _choose(items, candidates)
    taken_by = _planned(items, chosen)
    left = iter(sorted(set(range(len(items))) - set(taken_by.values())))
    for pod in range(len(chosen)):
        if pod not in taken_by:
            taken_by[pod] = next(left)
    return {items[item].move.pod.uid: chosen[pod] for pod, item in taken_by.items()}


def _choose(items: Sequence[Evicted], candidates: Iterable[ObservedPod]) -> list[ObservedPod]:
    """The replacements: each eviction, latest first, takes the earliest pod made after it.

    A pod made after a later eviction was made after every earlier one too, so no pair is lost. A pod that
    failed was itself replaced, so it is taken only when there is no other.
    """
    left = sorted(
        candidates,
        key=lambda pod: (pod.failed, _created(pod), pod.metadata.name, pod.metadata.uid),
    )
    chosen: list[ObservedPod] = []
    for item in sorted(items, key=lambda item: -item.not_before):
        earliest = math.floor(item.not_before)  # creation times are whole seconds
        first = next((index for index, pod in enumerate(left) if _created(pod) >= earliest), None)
        if first is not None:
            chosen.append(left.pop(first))
    return chosen


def _created(pod: ObservedPod) -> float:
    return -math.inf if math.isnan(pod.created_at) else pod.created_at


def _planned(items: Sequence[Evicted], pods: Sequence[ObservedPod]) -> dict[int, int]:
    """The largest pairing of pods with moves that listed their node: pod index -> item index."""
    listed = [{landing.node for landing in item.move.landings} for item in items]
    item_of: dict[int, int] = {}

    def assign(item: int, tried: set[int]) -> bool:
        for pod, candidate in enumerate(pods):
            if candidate.spec.node_name not in listed[item] or pod in tried:
                continue
            tried.add(pod)
            if pod not in item_of or assign(item_of[pod], tried):
                item_of[pod] = item
                return True
        return False

    for item in range(len(items)):
        assign(item, set())
    return item_of


LandingCheck = Callable[[Move, str], str | None]
"""Why the node on which a replacement landed is not acceptable; None when it is."""

FIRST_PAUSE_SECONDS = 0.5
MAX_PAUSE_SECONDS = 5.0
_LAST_READ_SECONDS = 1.0  # for the read that ends the waiting, begun just in time


@dataclass(frozen=True, slots=True)
class OutcomeSoFar:
    """The outcome of a move as it stands; ``settled`` when waiting longer would not change it."""

    outcome: Outcome
    settled: bool


@dataclass(frozen=True, kw_only=True)
class Waiting:
    """How to wait for a wave: what to read, how often and how long, and when to stop."""

    read: Callable[[float], Sequence[ObservedPod]]  # the pods of their controllers, in so many seconds
    check: LandingCheck
    clock: Callable[[], float]  # moves only forward
    sleep: Callable[[float], object]
    timeout_seconds: float
    first_pause_seconds: float = FIRST_PAUSE_SECONDS
    interrupted: Callable[[], bool] = lambda: False
    after_each_read: Callable[[Sequence[OutcomeSoFar]], None] = lambda _: None


def await_landings(
    evicted: Sequence[Evicted], before: Collection[str], waiting: Waiting
) -> tuple[Outcome, ...]:
    """Wait until all moves of a wave are settled, or the timeout; one outcome for each, in order.

    Read errors are tolerated until the timeout; moves still unseen are reported Unknown.
    """
    if not evicted:
        return ()
    check = _CachedCheck(waiting.check)
    deadline = waiting.clock() + waiting.timeout_seconds
    pause = waiting.first_pause_seconds
    while True:
        left = max(deadline - waiting.clock(), _LAST_READ_SECONDS)
        landings, trouble = _read(evicted, before, lambda: waiting.read(left), check)  # noqa: B023 - called at once
        waiting.after_each_read(landings)
        if not trouble and all(landing.settled for landing in landings):
            return tuple(landing.outcome for landing in landings)
        if waiting.interrupted():
            return tuple(_unseen(landing, trouble or "the run was interrupted") for landing in landings)
        left = deadline - waiting.clock()
        if left <= 0:
            if trouble:
                return tuple(_unseen(landing, trouble) for landing in landings)
            return tuple(landing.outcome for landing in landings)
        waiting.sleep(min(pause, left))
        pause = min(pause * 1.6, MAX_PAUSE_SECONDS)


def appraise(
    evicted: Sequence[Evicted], before: Collection[str], now: Sequence[ObservedPod], check: LandingCheck
) -> tuple[OutcomeSoFar, ...]:
    """The outcome of each move as it stands, given the pods of its namespace now."""
    replacement = match(evicted, before, now)
    present = {pod.metadata.uid: pod for pod in now}
    return tuple(
        _appraise(item, replacement.get(item.move.pod.uid), present.get(item.move.pod.uid), check)
        for item in evicted
    )


def _appraise(
    item: Evicted, replacement: ObservedPod | None, old: ObservedPod | None, check: LandingCheck
) -> OutcomeSoFar:
    if item.move.is_restart:
        return _appraise_restart(item, replacement, old, check)
    if old is not None and (item.started or old.being_evicted) and not old.terminating:
        if not old.finished:
            because = "somebody else moves it; it had not left yet when it was looked at last"
            return _so_far(item, Result.STARTED, because, replacement)
        old = None  # its work went on elsewhere, and what is left of it is not cleaned up yet
    if replacement is None:
        because = "its controller has made no replacement"
        if old is not None:
            because += f"; {_of_the_evicted_pod(old)}"
        return _so_far(item, Result.NOT_REPLACED, because)
    if replacement.failed:
        why = replacement.status.reason or replacement.status.message or "no reason is given"
        return _so_far(item, Result.NOT_READY, f"the replacement failed: {why[:200]}", replacement)
    node = replacement.spec.node_name
    if not node:
        because = f"{replacement.why_pending}; {_of_the_node_left(item, old)}"
        return _so_far(item, Result.PENDING, because, replacement)
    planned = any(landing.node == node for landing in item.move.landings)
    objection = None if planned else check(item.move, node)
    if objection is not None:
        return _so_far(item, Result.UNEXPECTED, objection, replacement, settled=True)
    if replacement.ready_at is None:
        because = f"on {node}, not ready yet; {_of_the_node_left(item, old)}"
        return _so_far(item, Result.NOT_READY, because, replacement)
    because = "as planned" if planned else "not listed in the plan, yet acceptable"
    if old is not None:
        because += f"; {_of_the_evicted_pod(old)}"
    result = Result.LANDED if planned else Result.LANDED_ELSEWHERE
    return _so_far(item, result, because, replacement, settled=old is None)


def _appraise_restart(
    item: Evicted, new: ObservedPod | None, old: ObservedPod | None, check: LandingCheck
) -> OutcomeSoFar:
    node = new.spec.node_name if new else ""
    planned = any(landing.node == node for landing in item.move.landings)
    objection = check(item.move, node) if node and not planned else None
    result, because, settled = appraise_rollout(item.move, new, old, objection, planned=planned)
    return _so_far(item, result, because, new, settled=settled)


def _of_the_node_left(item: Evicted, old: ObservedPod | None) -> str:
    """What a move has come to whose replacement does not serve yet."""
    if old is not None:
        return _of_the_evicted_pod(old)
    return f"{item.move.from_node} has lost the pod's load, but its replacement still waits"


def _of_the_evicted_pod(old: ObservedPod) -> str:
    """Why it is still there."""
    if old.terminating:
        return "the evicted pod is still terminating"
    return "the eviction was accepted, yet the pod is still there and nobody is deleting it"


def _so_far(
    item: Evicted,
    result: Result,
    because: str,
    replacement: ObservedPod | None = None,
    *,
    settled: bool = False,
) -> OutcomeSoFar:
    outcome = Outcome(
        move=item.move,
        result=result,
        because=because,
        node=replacement.spec.node_name if replacement else "",
        replacement=replacement.metadata.name if replacement else "",
        replacement_uid=replacement.metadata.uid if replacement else "",
        replacement_controller_uid=replacement.controller_uid if replacement else "",
        evicted_at=item.at,
        bound_at=_not_before(item.at, replacement.bound_at if replacement else None),
        ready_at=_not_before(item.at, replacement.ready_at if replacement else None),
    )
    return OutcomeSoFar(outcome, settled)


def _not_before(evicted_at: float, moment: float | None) -> float | None:
    """The API keeps whole seconds, so that what follows an eviction may carry an earlier time."""
    return None if moment is None else max(evicted_at, moment)


def _read(
    evicted: Sequence[Evicted],
    before: Collection[str],
    read: Callable[[], Sequence[ObservedPod]],
    check: LandingCheck,
) -> tuple[tuple[OutcomeSoFar, ...], str]:
    """The moves as they stand, and why they could not be read if they could not."""
    try:
        return appraise(evicted, before, read(), check), ""
    except InternalError:
        raise
    except RebalancerError as error:
        trouble = f"how it ended could not be seen: {error}"
        return tuple(_so_far(item, Result.UNKNOWN, trouble) for item in evicted), trouble


def _unseen(landing: OutcomeSoFar, why: str) -> Outcome:
    """The outcome of a move that was not waited for to the end."""
    if landing.settled or landing.outcome.result is Result.UNKNOWN:
        return landing.outcome
    verb = "restarted" if landing.outcome.move.is_restart else "evicted"
    return Outcome(
        move=landing.outcome.move,
        result=Result.UNKNOWN,
        because=f"{verb}; {why} before its end was seen ({landing.outcome.because})",
        node=landing.outcome.node,
        replacement=landing.outcome.replacement,
        replacement_uid=landing.outcome.replacement_uid,
        replacement_controller_uid=landing.outcome.replacement_controller_uid,
        evicted_at=landing.outcome.evicted_at,
        bound_at=landing.outcome.bound_at,
    )


class _CachedCheck:
    """Checks each move and node once, however often the wave is read."""

    def __init__(self, check: LandingCheck) -> None:
        self._check = check
        self._verdicts: dict[tuple[str, str], str | None] = {}

    def __call__(self, move: Move, node: str) -> str | None:
        key = (move.pod.uid, node)
        if key not in self._verdicts:
            self._verdicts[key] = self._check(move, node)
        return self._verdicts[key]


def uids(pods: Sequence[ObservedPod]) -> frozenset[str]:
    """The uids of these pods."""
    return frozenset(pod.metadata.uid for pod in pods)


PodsSeen: TypeAlias = "Callable[[str], Sequence[SeenPod] | None]"
"""The pods of the controller with this uid as a watch last showed them; None where it shows nothing."""


class Sightings:
    """The replacements of one wave as a watch shows them."""

    def __init__(self, pods_seen: PodsSeen, evicted: Sequence[Evicted], before: Collection[str]) -> None:
        """``before`` are the uids of the pods that existed before the wave."""
        self._pods_seen = pods_seen
        self._leaving = {item.move.pod.uid for item in evicted}
        self._known = self._leaving | set(before)
        self._expected = Counter(item.move.pod.controller_uid for item in evicted)
        self._last = evicted[-1].move.pod.controller_uid if evicted else ""

    def possible(self) -> bool:
        """Whether a watch shows the pods of all controllers."""
        return all(self._seen(uid) is not None for uid in self._expected)

    def placed(self) -> bool:
        """Whether the controller of the last evicted pod has as many new pods on nodes as were evicted."""
        new = [pod for pod in self._new(self._last) if pod.node_name]
        return len(new) >= self._expected[self._last] > 0

    def done(self) -> bool:
        """Whether all evicted pods have left and as many new ones are ready."""
        return all(
            sum(pod.ready for pod in self._new(uid)) >= count
            and not any(pod.uid in self._leaving for pod in self._seen(uid) or ())
            for uid, count in self._expected.items()
        )

    def _seen(self, uid: str) -> Sequence[SeenPod] | None:
        return self._pods_seen(uid) if uid else None

    def _new(self, uid: str) -> list[SeenPod]:
        return [pod for pod in self._seen(uid) or () if pod.uid not in self._known]
