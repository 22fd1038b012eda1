"""Where the replacements of a wave are: asked within it and at its end, and compared with the plan.

Within a wave the next pod is evicted only once the replacement of the one before is bound to a node that is
acceptable. At its end every evicted pod must be gone, and its replacement ready.

The API does not record which replica replaced which. Replicas of one controller are interchangeable, so
of all pairings that the creation times allow, one with the most planned landings is taken:

    evicted: web-1 (planned: a), web-2 (planned: b)      new: web-x on b, web-y on a
    pairing: web-1 -> web-y, web-2 -> web-x              both landed as planned

A move is settled when waiting longer cannot change its outcome:

    replacement ready on a planned node, old pod gone     Landed, settled
    the same, not yet for its minReadySeconds             Landed unless that changes before the timeout
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
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import msgspec
from msgspec.structs import replace

from rebalancer.errors import RebalancerError
from rebalancer.execution.clock import RunClock
from rebalancer.execution.evict import Attempt, Verdict
from rebalancer.execution.observed_pods import ObservedPod
from rebalancer.execution.outcomes import Outcome
from rebalancer.execution.restart import appraise_rollout, made_by_rollout
from rebalancer.planning.plan import Move
from rebalancer.state.results import Result

if TYPE_CHECKING:
    from rebalancer.cluster.live.watching import SeenPod


def match(
    evicted: Sequence[Attempt[Move]], before: Collection[str], now: Iterable[ObservedPod]
) -> Mapping[str, ObservedPod]:
    """The replacement of each evicted pod that has one, by the evicted pod's uid.

    ``before`` are the uids of the pods that existed before the wave: none of them replaces another.
    """
    earlier = set(before) | {attempt.move.pod.uid for attempt in evicted}
    fresh = [pod for pod in now if pod.metadata.uid not in earlier and not pod.terminating]
    replacements: dict[str, ObservedPod] = {}
    by_controller: dict[tuple[str, str], list[Attempt[Move]]] = {}
    by_name = {(pod.metadata.namespace, pod.metadata.name): pod for pod in fresh}
    for attempt in evicted:
        pod = attempt.move.pod
        if attempt.move.is_restart:
            new = made_by_rollout(attempt.move, attempt.restarted_at, earlier, fresh)
            if new is not None:
                replacements[pod.uid] = new
        elif pod.controller_kind == "StatefulSet":
            successor = by_name.get((pod.namespace, pod.name))
            if successor is not None and successor.controller.uid == pod.controller_uid:
                replacements[pod.uid] = successor
        elif pod.controller_uid:
            by_controller.setdefault((pod.namespace, pod.controller_uid), []).append(attempt)
    for (namespace, controller), items in by_controller.items():
        candidates = [
            pod for pod in fresh if pod.metadata.namespace == namespace and pod.controller.uid == controller
        ]
        replacements.update(_pair(items, candidates))
    return replacements


def _pair(items: Sequence[Attempt[Move]], candidates: Iterable[ObservedPod]) -> dict[str, ObservedPod]:
    """Pair evictions with pods made after them: as many as possible, and of these as many as planned."""
    chosen = _choose(items, candidates)
    taken_by = _planned(items, chosen)
    left = iter(sorted(set(range(len(items))) - set(taken_by.values())))
    for pod in range(len(chosen)):
        if pod not in taken_by:
            taken_by[pod] = next(left)
    return {items[at].move.pod.uid: chosen[pod] for pod, at in taken_by.items()}


def _choose(items: Sequence[Attempt[Move]], candidates: Iterable[ObservedPod]) -> list[ObservedPod]:
    """The replacements: each eviction, latest first, takes the earliest pod made after it.

    A pod made after a later eviction was made after every earlier one too, so no pair is lost. A pod that
    failed was itself replaced, so it is taken only when there is no other.
    """
    left = sorted(
        candidates,
        key=lambda pod: (pod.failed, _created(pod), pod.metadata.name, pod.metadata.uid),
    )
    chosen: list[ObservedPod] = []
    for attempt in sorted(items, key=lambda attempt: -attempt.not_before):
        earliest = math.floor(attempt.not_before)  # creation times are whole seconds
        first = next((index for index, pod in enumerate(left) if _created(pod) >= earliest), None)
        if first is not None:
            chosen.append(left.pop(first))
    return chosen


def _created(pod: ObservedPod) -> float:
    return -math.inf if math.isnan(pod.created_at) else pod.created_at


def _planned(attempts: Sequence[Attempt[Move]], pods: Sequence[ObservedPod]) -> dict[int, int]:
    """The largest pairing of pods with moves that listed their node: pod index -> index of the attempt."""
    listed = [set(attempt.move.landing_nodes) for attempt in attempts]
    attempt_of: dict[int, int] = {}

    def assign(attempt: int, tried: set[int]) -> bool:
        for pod, candidate in enumerate(pods):
            if candidate.spec.node_name not in listed[attempt] or pod in tried:
                continue
            tried.add(pod)
            if pod not in attempt_of or assign(attempt_of[pod], tried):
                attempt_of[pod] = attempt
                return True
        return False

    for attempt in range(len(attempts)):
        assign(attempt, set())
    return attempt_of


LandingCheck = Callable[[Move, str], str | None]
"""Why the node on which a replacement landed is not acceptable; None when it is."""

MinReadySeconds = Callable[[Move], float]
"""For how long a replacement has to be ready before its controller calls it available."""

WhyNotAvailable = Callable[[Move, ObservedPod], str]
"""Why a replacement that is ready is not available yet; empty when it is."""

ReadPods = Callable[[Sequence[Move], float], Sequence[ObservedPod]]
"""The pods of the controllers of these moves, read within so many seconds."""


class Appraisal(NamedTuple):
    """The outcome of a move as it stands."""

    outcome: Outcome
    settled: bool  # waiting longer would not change it
    placed: bool  # the replacement is bound, and has not failed


MAX_SECONDS_TO_PLACE = 3.0
FIRST_PAUSE_SECONDS = 0.5
MAX_PAUSE_SECONDS = 5.0
_FIRST_LOOK_SECONDS = 0.05
# For the read that ends the waiting, begun just in time: an API server that is busy is slow, not gone.
_LAST_READ_SECONDS = 10.0


class LandingPoller(msgspec.Struct, eq=False):
    """Asks where the replacements of one wave are, and says what has become of its moves so far."""

    _before: Collection[str]  # the uids of the pods that existed before the wave
    _read: ReadPods
    _check: LandingCheck
    _clock: RunClock
    _pods_seen: PodsSeen = lambda _: None
    _min_ready_seconds: MinReadySeconds = lambda _: 0.0
    evicted: list[Attempt[Move]] = []
    _landed: dict[str, Outcome] = {}  # by uid of the evicted pod: replacements that were seen bound
    _checked: dict[tuple[str, str], str | None] = {}  # by uid of the evicted pod and node
    # By uid of the replacement: since when it is ready, as it says, and when we saw that, by our clock.
    _ready: dict[str, tuple[float, float]] = {}
    _waits_for_available: bool = False  # a replacement that was seen ready at the last look

    @property
    def landed(self) -> tuple[Outcome, ...]:
        """The outcomes so far of the moves whose replacements were seen bound to a node."""
        return tuple(self._landed.values())

    def until_placed(self, give_up: Callable[[], bool]) -> Appraisal | None:
        """Wait up to 3 s until the last evicted pod's replacement is bound; None when it was not seen to be.

        The plan assumes that replacements are scheduled in the order of the evictions, so the next eviction
        waits for this.
        """
        last = self.evicted[-1].move.pod
        siblings = [
            attempt for attempt in self.evicted if attempt.move.pod.controller_uid == last.controller_uid
        ]
        watched = WatchedReplacements(self._pods_seen, siblings, self._before)
        deadline = self._clock.monotonic() + MAX_SECONDS_TO_PLACE
        last_appraisal: Appraisal | None = None

        def placed() -> bool:
            nonlocal last_appraisal
            if watched.placed() is False:
                return False
            appraisals, trouble = self._look(siblings, deadline - self._clock.monotonic())
            if trouble:
                return True  # waiting is of no use: the wave is verified before it goes on
            last_appraisal = appraisals[-1] if appraisals[-1].placed else None
            return last_appraisal is not None

        self._clock.wait_until(placed, deadline, _FIRST_LOOK_SECONDS, poke=watched.placed, give_up=give_up)
        return last_appraisal

    def until_settled(
        self, timeout_seconds: float, after_each_read: Callable[[Sequence[Appraisal]], None] = lambda _: None
    ) -> tuple[Outcome, ...]:
        """Wait until all moves are settled, or the timeout; one outcome for each, in order.

        Read errors are tolerated until the timeout; moves still unseen are reported Unknown.
        """
        if not self.evicted:
            return ()
        clock = self._clock
        watched = WatchedReplacements(self._pods_seen, self.evicted, self._before)
        deadline = clock.monotonic() + timeout_seconds
        appraisals: tuple[Appraisal, ...] = ()
        trouble = ""  # why the pods could not be read

        def settled() -> bool:
            nonlocal appraisals, trouble
            left = max(deadline - clock.monotonic(), _LAST_READ_SECONDS)
            appraisals, trouble = self._look(self.evicted, left)
            after_each_read(appraisals)
            return not trouble and all(appraisal.settled for appraisal in appraisals)

        def poke() -> bool | None:
            # A watch does not show when a pod that is ready is available.
            return None if self._waits_for_available else watched.ready()

        first_pause = FIRST_PAUSE_SECONDS if watched.ready() is None else MAX_PAUSE_SECONDS
        if not settled():
            clock.wait_until(settled, deadline, first_pause, MAX_PAUSE_SECONDS, poke=poke)
        if clock.stop_requested():
            trouble = trouble or "the run was interrupted"
        return tuple(
            _unseen(appraisal, trouble) if trouble else appraisal.outcome for appraisal in appraisals
        )

    def _look(self, evicted: Sequence[Attempt[Move]], seconds: float) -> tuple[tuple[Appraisal, ...], str]:
        """These moves as they stand, and why they could not be read if they could not."""
        try:
            pods = self._read([attempt.move for attempt in evicted], seconds)
        except RebalancerError as error:
            trouble = f"how it ended could not be seen: {error}"
            return tuple(_so_far(attempt, Result.UNKNOWN, trouble) for attempt in evicted), trouble
        self._waits_for_available = False
        appraisals = appraise(evicted, self._before, pods, self._check_once, self._why_not_available)
        self._landed |= {
            appraisal.outcome.move.pod.uid: appraisal.outcome for appraisal in appraisals if appraisal.placed
        }
        return appraisals, ""

    def _why_not_available(self, move: Move, pod: ObservedPod) -> str:
        """See WhyNotAvailable. Counted by our clock from when it was seen: the pod's time is its node's."""
        needed = self._min_ready_seconds(move)
        if pod.ready_at is None or pod.finished or needed <= 0:
            return ""
        now = self._clock.monotonic()
        ready_at, seen_at = self._ready.get(pod.metadata.uid, (pod.ready_at, now))
        if ready_at != pod.ready_at:  # it was not ready in between
            seen_at = now
        self._ready[pod.metadata.uid] = (pod.ready_at, seen_at)
        if now - seen_at >= needed:
            return ""
        self._waits_for_available = True
        return f"ready for {now - seen_at:.0f} s of the {needed:.0f} s of its controller's minReadySeconds"

    def _check_once(self, move: Move, node: str) -> str | None:
        """See LandingCheck; once for each move and node, however often the wave is read."""
        key = (move.pod.uid, node)
        if key not in self._checked:
            self._checked[key] = self._check(move, node)
        return self._checked[key]


def appraise(
    evicted: Sequence[Attempt[Move]],
    before: Collection[str],
    now: Sequence[ObservedPod],
    check: LandingCheck,
    why_not_available: WhyNotAvailable = lambda _move, _pod: "",
) -> tuple[Appraisal, ...]:
    """The outcome of each move as it stands, given the pods of its namespace now."""
    replacements = match(evicted, before, now)
    present = {pod.metadata.uid: pod for pod in now}
    appraisals = []
    for attempt in evicted:
        uid = attempt.move.pod.uid
        appraisals.append(
            _appraise(attempt, replacements.get(uid), present.get(uid), check, why_not_available)
        )
    return tuple(appraisals)


def _appraise(
    attempt: Attempt[Move],
    replacement: ObservedPod | None,
    old: ObservedPod | None,
    check: LandingCheck,
    why_not_available: WhyNotAvailable,
) -> Appraisal:
    if attempt.move.is_restart:
        result, because, settled = appraise_rollout(attempt.move, replacement, old, check)
        return _so_far(attempt, result, because, replacement, settled=settled)
    if old is not None and (attempt.verdict is Verdict.STARTED or old.being_evicted) and not old.terminating:
        if not old.finished:
            because = "somebody else moves it; it had not left yet when it was looked at last"
            return _so_far(attempt, Result.STARTED, because, replacement)
        old = None  # it finished; the object is not deleted yet
    if replacement is None:
        because = "its controller has made no replacement"
        if old is not None:
            because += f"; {_of_the_evicted_pod(old)}"
        return _so_far(attempt, Result.NOT_REPLACED, because)
    if replacement.failed:
        why = replacement.status.reason or replacement.status.message or "no reason is given"
        return _so_far(attempt, Result.NOT_READY, f"the replacement failed: {why[:200]}", replacement)
    node = replacement.spec.node_name
    if not node:
        because = f"{replacement.why_pending}; {_of_the_node_left(attempt, old)}"
        return _so_far(attempt, Result.PENDING, because, replacement)
    planned = node in attempt.move.landing_nodes
    objection = None if planned else check(attempt.move, node)
    if objection is not None:
        return _so_far(attempt, Result.UNEXPECTED, objection, replacement, settled=True)
    if replacement.ready_at is None:
        because = f"on {node}, not ready yet; {_of_the_node_left(attempt, old)}"
        return _so_far(attempt, Result.NOT_READY, because, replacement)
    because = "as planned" if planned else "not listed in the plan, yet acceptable"
    if old is not None:
        because += f"; {_of_the_evicted_pod(old)}"
    not_available = why_not_available(attempt.move, replacement)
    if not_available:
        because += f"; {not_available}"
    result = Result.LANDED if planned else Result.LANDED_ELSEWHERE
    return _so_far(attempt, result, because, replacement, settled=old is None and not not_available)


def _of_the_node_left(attempt: Attempt[Move], old: ObservedPod | None) -> str:
    """What a move has come to whose replacement does not serve yet."""
    if old is not None:
        return _of_the_evicted_pod(old)
    return f"{attempt.move.from_node} has lost the pod's load, but its replacement still waits"


def _of_the_evicted_pod(old: ObservedPod) -> str:
    """Why it is still there."""
    if old.terminating:
        return "the evicted pod is still terminating"
    return "the eviction was accepted, yet the pod is still there and nobody is deleting it"


def _so_far(
    attempt: Attempt[Move],
    result: Result,
    because: str,
    replacement: ObservedPod | None = None,
    *,
    settled: bool = False,
) -> Appraisal:
    node = replacement.spec.node_name if replacement else ""
    outcome = Outcome(
        move=attempt.move,
        result=result,
        because=because,
        node=node,
        replacement=replacement.metadata.name if replacement else "",
        replacement_uid=replacement.metadata.uid if replacement else "",
        replacement_controller_uid=replacement.controller.uid if replacement else "",
        evicted_at=attempt.at,
        bound_at=_not_before(attempt.at, replacement.bound_at if replacement else None),
        ready_at=_not_before(attempt.at, replacement.ready_at if replacement else None),
    )
    placed = replacement is not None and bool(node) and not replacement.failed
    return Appraisal(outcome, settled, placed)


def _not_before(evicted_at: float, moment: float | None) -> float | None:
    """The API keeps whole seconds, so that what follows an eviction may carry an earlier time."""
    return None if moment is None else max(evicted_at, moment)


def _unseen(appraisal: Appraisal, why: str) -> Outcome:
    """The outcome of a move that was not waited for to the end."""
    outcome = appraisal.outcome
    if appraisal.settled or outcome.result is Result.UNKNOWN:
        return outcome
    verb = "restarted" if outcome.move.is_restart else "evicted"
    because = f"{verb}; {why} before its end was seen ({outcome.because})"
    return replace(outcome, result=Result.UNKNOWN, because=because, ready_at=None)


PodsSeen: TypeAlias = "Callable[[str], Sequence[SeenPod] | None]"
"""The pods of the controller with this uid as a watch last showed them; None where it shows nothing."""


class WatchedReplacements:
    """The replacements of one wave as a watch shows them; None where it does not show all controllers."""

    def __init__(
        self, pods_seen: PodsSeen, evicted: Sequence[Attempt[Move]], before: Collection[str]
    ) -> None:
        """``before`` are the uids of the pods that existed before the wave."""
        self._pods_seen = pods_seen
        self._leaving = {attempt.move.pod.uid for attempt in evicted}
        self._known_uids = self._leaving | set(before)
        self._expected = Counter(attempt.move.pod.controller_uid for attempt in evicted)
        self._last = evicted[-1].move.pod.controller_uid if evicted else ""

    def placed(self) -> bool | None:
        """Whether the controller of the last evicted pod has as many new pods on nodes as were evicted."""
        seen = self._seen()
        if seen is None:
            return None
        return sum(bool(pod.node_name) for pod in self._new(seen[self._last])) >= self._expected[self._last]

    def ready(self) -> bool | None:
        """Whether all evicted pods have left and as many new ones are ready."""
        seen = self._seen()
        if seen is None:
            return None
        for uid, count in self._expected.items():
            if any(pod.uid in self._leaving for pod in seen[uid]):
                return False
            if sum(pod.ready for pod in self._new(seen[uid])) < count:
                return False
        return True

    def _seen(self) -> Mapping[str, Sequence[SeenPod]] | None:
        pods_by_controller = {uid: self._pods_seen(uid) if uid else None for uid in self._expected}
        seen = {uid: pods for uid, pods in pods_by_controller.items() if pods is not None}
        return seen if len(seen) == len(pods_by_controller) > 0 else None

    def _new(self, pods: Sequence[SeenPod]) -> list[SeenPod]:
        return [pod for pod in pods if pod.uid not in self._known_uids]
