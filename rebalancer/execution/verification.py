"""After a wave: waits until every evicted pod is gone and replaced, and compares with what was planned."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from rebalancer.errors import InternalError, RebalancerError
from rebalancer.execution.observing import ObservedPod
from rebalancer.execution.outcomes import Outcome, Result
from rebalancer.execution.replacements import Evicted, match
from rebalancer.planning.plan import Move

Judge = Callable[[Move, str], str | None]
"""Why the node a replacement landed on is not acceptable; None when it is."""

FIRST_PAUSE_SECONDS = 0.5
MAX_PAUSE_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Landing:
    """How a move stands at one moment; ``settled`` when waiting longer would change nothing."""

    outcome: Outcome
    settled: bool


@dataclass(frozen=True, kw_only=True)
class Watch:
    """What waiting for a wave needs from outside."""

    read: Callable[[Collection[str]], Sequence[ObservedPod]]  # all pods of these namespaces
    judge: Judge
    clock: Callable[[], float]
    sleep: Callable[[float], object]
    timeout_seconds: float
    interrupted: Callable[[], bool] = lambda: False
    each_time: Callable[[Sequence[Landing]], None] = lambda _: None  # called after every reading


def await_landings(evicted: Sequence[Evicted], before: Collection[str], watch: Watch) -> tuple[Outcome, ...]:
    """Wait until all moves of a wave are settled, or the timeout; one outcome for each, in order.

    Faults of reading are borne until the timeout; what could not be seen by then is Unknown.
    """
    if not evicted:
        return ()
    judge = _Remembered(watch.judge)
    deadline = watch.clock() + watch.timeout_seconds
    pause = FIRST_PAUSE_SECONDS
    namespaces = sorted({item.move.pod.namespace for item in evicted})
    while True:
        landings, trouble = _look(evicted, before, namespaces, watch, judge)
        watch.each_time(landings)
        if not trouble and all(landing.settled for landing in landings):
            return tuple(landing.outcome for landing in landings)
        if watch.interrupted():
            return tuple(_unseen(landing, trouble or "the run was interrupted") for landing in landings)
        left = deadline - watch.clock()
        if left <= 0:
            if trouble:
                return tuple(_unseen(landing, trouble) for landing in landings)
            return tuple(landing.outcome for landing in landings)
        watch.sleep(min(pause, left))
        pause = min(pause * 1.6, MAX_PAUSE_SECONDS)


def appraise(
    evicted: Sequence[Evicted], before: Collection[str], now: Sequence[ObservedPod], judge: Judge
) -> tuple[Landing, ...]:
    """How each move stands, given the pods of its namespace now."""
    replacement = match(evicted, before, now)
    present = {pod.metadata.uid: pod for pod in now}
    return tuple(
        _appraise(item, replacement.get(item.move.pod.uid), present.get(item.move.pod.uid), judge)
        for item in evicted
    )


def _appraise(
    item: Evicted, replacement: ObservedPod | None, old: ObservedPod | None, judge: Judge
) -> Landing:
    if replacement is None:
        because = "its controller has made no replacement"
        if old is not None:
            because += "; the evicted pod is still terminating"
        return _landing(item, Result.NOT_REPLACED, because)
    if replacement.failed:
        said = replacement.status.reason or replacement.status.message or "no reason is given"
        return _landing(item, Result.NOT_READY, f"the replacement failed: {said[:200]}", replacement)
    node = replacement.spec.node_name
    if not node:
        return _landing(item, Result.PENDING, _why_pending(replacement), replacement)
    planned = any(landing.node == node for landing in item.move.landings)
    objection = None if planned else judge(item.move, node)
    if objection is not None:
        return _landing(item, Result.UNEXPECTED, objection, replacement, settled=True)
    if replacement.ready_at is None:
        return _landing(item, Result.NOT_READY, f"on {node}, not ready yet", replacement)
    because = "as planned" if planned else "not listed in the plan, yet acceptable"
    if old is not None:
        because += "; the evicted pod is still terminating"
    result = Result.LANDED if planned else Result.LANDED_ELSEWHERE
    return _landing(item, result, because, replacement, settled=old is None)


def _landing(
    item: Evicted,
    result: Result,
    because: str,
    replacement: ObservedPod | None = None,
    *,
    settled: bool = False,
) -> Landing:
    outcome = Outcome(
        move=item.move,
        result=result,
        because=because,
        node=replacement.spec.node_name if replacement else "",
        replacement=replacement.metadata.name if replacement else "",
        replacement_uid=replacement.metadata.uid if replacement else "",
        evicted_at=item.at,
        bound_at=_not_before(item.at, replacement.bound_at if replacement else None),
        ready_at=_not_before(item.at, replacement.ready_at if replacement else None),
    )
    return Landing(outcome, settled)


def _not_before(evicted_at: float, moment: float | None) -> float | None:
    """The API keeps whole seconds: what follows an eviction may seem to come before it."""
    return None if moment is None else max(evicted_at, moment)


def _why_pending(pod: ObservedPod) -> str:
    scheduled = pod.condition("PodScheduled")
    said = (scheduled.message or scheduled.reason) if scheduled else None
    return f"not bound: {said[:300]}" if said else "not bound, and the scheduler has not said why"


def _look(
    evicted: Sequence[Evicted], before: Collection[str], namespaces: Sequence[str], watch: Watch, judge: Judge
) -> tuple[tuple[Landing, ...], str]:
    """How the moves stand, and why that could not be seen if it could not."""
    try:
        return appraise(evicted, before, watch.read(namespaces), judge), ""
    except InternalError:
        raise
    except RebalancerError as error:
        trouble = f"how it ended could not be seen: {error}"
        return tuple(_landing(item, Result.UNKNOWN, trouble) for item in evicted), trouble


def _unseen(landing: Landing, why: str) -> Outcome:
    """The outcome of a move whose end was not waited for."""
    if landing.settled or landing.outcome.result is Result.UNKNOWN:
        return landing.outcome
    return Outcome(
        move=landing.outcome.move,
        result=Result.UNKNOWN,
        because=f"evicted; {why} before its end was seen ({landing.outcome.because})",
        node=landing.outcome.node,
        replacement=landing.outcome.replacement,
        replacement_uid=landing.outcome.replacement_uid,
        evicted_at=landing.outcome.evicted_at,
        bound_at=landing.outcome.bound_at,
    )


class _Remembered:
    """A judge that is asked once for each move and node, however often the wave is looked at."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self._verdicts: dict[tuple[str, str], str | None] = {}

    def __call__(self, move: Move, node: str) -> str | None:
        key = (move.pod.uid, node)
        if key not in self._verdicts:
            self._verdicts[key] = self._judge(move, node)
        return self._verdicts[key]


def uids(pods: Sequence[ObservedPod]) -> frozenset[str]:
    """The uids of these pods."""
    return frozenset(pod.metadata.uid for pod in pods)
