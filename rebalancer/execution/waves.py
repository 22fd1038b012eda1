"""Carries out a plan wave by wave, until it is done or there is a reason to stop.

    before the first wave   finished pods are removed, whose removal moves no load
    before each wave        the safety checks; moves that no longer hold are skipped; nodes that its moves
                            avoid get a soft taint, and lose it when the wave is over
    within a wave           one eviction after another, each announced, requested and answered; a pod that
                            changed meanwhile is checked again; the next one is evicted once the replacement
                            of the one before is bound to a node that is acceptable
    at the end of a wave    all replacements are waited for, and compared with the plan

A wave ends early where a replacement is not bound within seconds, or lands where it must not. What is left of
it is another wave, which begins only once the first was verified. So however large a wave is, it goes on only
while it goes well:

    wave of 5: web-1 lands on b, where it must   web-2 is evicted
               web-2 lands on c of b, c and d    web-3 is judged as c is now, and so is each after it
               web-3 is not bound within 3 s     the wave is verified; web-4 and web-5 wait for that

A run does not end when its plan is used up. Where moves were skipped, landed elsewhere than most likely, or
left nodes hot (what was uncertain of their landings is known by now), it plans again by the cluster as it is,
until a plan has no moves or none of its moves could be made:

    15 hot nodes     24 moves: 9 made, 13 skipped, 2 not needed any more
     8 hot nodes      7 moves: 7 made, 3 of them elsewhere than most likely
     1 hot node       0 moves: nothing more is to be gained

Everything that happens is published as an event; see ``events`` for who keeps what of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

import msgspec
from msgspec.structs import replace

from rebalancer.cluster.live import RawApi
from rebalancer.cluster.live.discovery import Discovery
from rebalancer.errors import InputError, RebalancerError, UnreachableError
from rebalancer.execution import events
from rebalancer.execution.clock import RunClock
from rebalancer.execution.evict import Attempt, Ends, EvictionClient, Leaving, Patience, Verdict, evict
from rebalancer.execution.journal import Journal
from rebalancer.execution.lease import HeldLease
from rebalancer.execution.observed_pods import ObservedPod, Scope, read_pods, why_not_replaced
from rebalancer.execution.outcomes import (
    CleanupOutcome,
    Outcome,
    Outcomes,
    PlanOfRun,
    Stop,
    StopReason,
    exit_code,
)
from rebalancer.execution.restart import restart
from rebalancer.execution.safety import ClusterHealth, SafetyChecks, read_health
from rebalancer.execution.verify import Appraisal, LandingPoller, MinReadySeconds, PodsSeen
from rebalancer.planning.plan import POD_GONE, POD_LEAVING, Cleanup, Move, Plan, Progress
from rebalancer.planning.reasons import Reason
from rebalancer.planning.scheduler_location import SchedulerLocation
from rebalancer.policy.schema import Execution
from rebalancer.state.results import Result

_PAUSE_SECONDS = 5.0  # at most, between two looks whether the run is to end during a pause
_LAST_LOOK_SECONDS = 3.0  # after a request to stop: where the replacements are by then


class Replanner(Protocol):
    """Judges moves by the cluster as it is now, as the planner did when it made the plan."""

    def validate(
        self, moves: Sequence[Move], progress: Progress, landed: Sequence[Outcome] = ()
    ) -> Mapping[str, str | Move]:
        """Read the cluster again: pod uid -> why the move no longer holds, or the move with its new landings.

        ``landed`` are moves of the wave that goes on whose replacements are bound. Moves of later waves than
        the first are judged when it is their turn, unless some hold only together. Moves that are absent
        from the answer hold unchanged, or are not judged yet.
        """

    def plan_again(self, made: Sequence[Move], waves: int) -> Plan:
        """The plan of what is still worthwhile, by the cluster as it is now, after the moves made so far.

        Its waves are numbered from the one after ``waves``. Raises RebalancerError.
        """

    def next_in_wave(self, landed: Sequence[Outcome], move: Move, progress: Progress) -> str | Move:
        """Whether a move holds after these of its wave, as the cluster was read last; see ``validate``."""

    def has_seen(self, pod: ObservedPod) -> bool:
        """Whether the last check of the moves saw this version of the pod."""

    def check_landing(self, move: Move, node: str) -> str | None:
        """Why the node on which a replacement landed is not acceptable; None when it is."""


class WorkloadPods(msgspec.Struct, frozen=True, kw_only=True):
    """How the pods of a move's workload are found."""

    # The label selector of the controller of a move's pod; empty where it is not known.
    selector_of: Callable[[Move], str] = lambda _: ""
    # For how long a replacement has to be ready before its controller calls it available.
    min_ready_seconds_of: MinReadySeconds = lambda _: 0.0
    # The pods of a controller as a watch last showed them: when it is worth to look for replacements.
    watched: PodsSeen = lambda _: None


class RunContext(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """Everything a run needs from outside."""

    run: str  # the run's identity: in the journal, the lease and the events
    api: RawApi
    clock: RunClock
    execution: Execution
    safety: SafetyChecks
    replanner: Replanner
    journal: Journal
    lease: HeldLease | None  # None where nothing but this run can act, as in a dry run
    pods: WorkloadPods = msgspec.field(default_factory=WorkloadPods)
    # The schedulers that place the replacements of a plan, and so must be alive.
    schedulers_of: Callable[[Plan], tuple[SchedulerLocation, ...]] = lambda _: ()
    save: events.SaveOutcomes = lambda _: None  # an error it raises stops the run before the next eviction
    shown_to: Sequence[events.Subscriber] = ()  # learn of every event after it was saved and journaled
    patience: Patience = msgspec.field(default_factory=Patience)
    dry_run: bool = False
    refused: str = ""  # why a plan without moves moves nothing, where that is no rest but a reason to stop
    # Gives nodes the soft taint that moves of a wave avoid, while it is made. Raises RebalancerError.
    tainted: Callable[[int, Sequence[Move]], AbstractContextManager[None]] = lambda _wave, _moves: (
        nullcontext()
    )


def carry_out(plan: Plan, context: RunContext) -> Outcomes:
    """Evict the moves of a plan in waves, wait for each wave, and check every landing.

    Every move gets an outcome, whatever happens. Raises JournalError when the journal cannot be begun and
    InputError for a plan that names a pod twice: nothing was evicted then.
    """
    _check(plan)
    with events.EventStream(context.save, context.journal, context.clock.now, context.shown_to) as stream:
        stream.publish(events.RunStarted(plan, context.dry_run))
        return _Run(plan, context, stream).carry_out()


def _check(plan: Plan) -> None:
    seen: set[str] = set()
    for move in plan.moves:
        if not move.pod.uid:
            raise InputError("a move without the pod's uid cannot be carried out", where=move.pod.full_name)
        if move.pod.uid in seen:
            raise InputError("the plan moves this pod twice", where=move.pod.full_name)
        seen.add(move.pod.uid)


class _Run:
    """One run; once something stops it, the stream of events has the reason."""

    def __init__(self, plan: Plan, context: RunContext, stream: events.EventStream) -> None:
        self._plans = [plan]
        self._accounts: list[PlanOfRun] = []  # of the plans before the last
        self._context = context
        self._stream = stream
        self._clock = context.clock
        self._outcomes: dict[str, Outcome] = {}  # by uid of the pod, provisional ones too
        self._landed: tuple[Outcome, ...] = ()  # of this wave: moves whose replacements are bound
        self._has_kept = False  # whether a move has ended within this wave whose pod stays
        self._begun_at = context.clock.now()
        self._ended_at: float | None = None  # the wave before, by the clock that moves only forward
        self._cleaned: list[CleanupOutcome] = []
        self._discovery = Discovery(context.api)
        self._client = self._client_judging(self._as_it_is_now)

    def _client_judging(
        self, judge: Callable[[Leaving, ObservedPod], Leaving | str]
    ) -> EvictionClient[Leaving]:
        return EvictionClient(
            self._context.api,
            self._context.clock.now,
            patience=self._context.patience,
            why_forbidden=self._why_forbidden,
            judge=judge,
            interrupted=lambda: self._clock.stop_requested() or self._is_stopped(),
            eviction_version=self._discovery.eviction_version,
            dry_run=self._context.dry_run,
        )

    def carry_out(self) -> Outcomes:
        self._clean_up()
        if self._plan.moves:
            try:
                self._waves()
                while self._planned_again():
                    self._waves()
            except RebalancerError as error:
                self._stop_after(error)
            self._stream.publish(events.WavesEnded())
            for move in self._moves():
                if move.pod.uid not in self._outcomes:
                    stop = self._stream.stop_reason
                    reason = stop.message if stop else "never reached"
                    self._end(move, Result.SKIPPED, f"the run stopped before it: {reason}")
        elif self._context.refused:
            self._stream.stop(StopReason(Stop.BRAKE, self._context.refused))
        outcomes = self._finished()
        self._stream.publish(events.RunFinished(outcomes))
        return outcomes

    def _clean_up(self) -> None:
        """Remove the finished pods of the plan, before its first wave: no load moves with them."""
        cleanups = self._plan.cleanups
        if not cleanups:
            return
        client = self._client_judging(self._as_it_was)
        try:
            self._stop_if_unsafe()
            for cleanup in cleanups:
                if self._stream.stop_reason is None:
                    self._remove(client, cleanup)
        except RebalancerError as error:
            self._stop_after(error)
        stop = self._stream.stop_reason
        for cleanup in cleanups[len(self._cleaned) :]:
            reason = stop.message if stop else "never reached"
            because = f"the run stopped before it: {reason}"
            self._cleanup_ended(CleanupOutcome(cleanup=cleanup, result=Result.SKIPPED, because=because))

    def _as_it_was(self, cleanup: Cleanup, pod: ObservedPod) -> Cleanup | str:
        """A cleanup whose pod was just read; a pod that has changed meanwhile is left to the next run."""
        if self._context.replanner.has_seen(pod):
            return cleanup
        return "it has changed since the plan was made"

    def _remove(self, client: EvictionClient[Cleanup], cleanup: Cleanup) -> None:
        """Remove one finished pod. That nobody knows how it ended stops no run: it moves no load."""
        if not self._stream.publish(events.CleanupDue(cleanup)):
            return
        attempt = evict(client, cleanup)
        result = Result.of(attempt.verdict)
        if attempt.is_granted:
            result = Result.WOULD_EVICT if self._context.dry_run else Result.REMOVED
        outcome = CleanupOutcome(cleanup=cleanup, result=result, because=attempt.message)
        self._cleanup_ended(outcome)
        self._stop_after_attempt(attempt, f"removing {cleanup.pod.full_name}")

    def _cleanup_ended(self, outcome: CleanupOutcome) -> None:
        self._cleaned.append(outcome)
        self._stream.publish(events.CleanupEnded(outcome))

    def _stop_if_unsafe(self) -> bool:
        """Look at the clock, the lease and the safety checks; whether one of them stops the run."""
        reason = self._clock.why_over() or self._unsafe()
        if reason is not None:
            self._stream.stop(reason)
        return reason is not None

    def _stop_after_attempt(self, attempt: Attempt[Leaving], what: str) -> None:
        """Stop the run where no other request would fare better than that of an attempt."""
        if attempt.failure is not None:
            self._stop_after(attempt.failure)
        elif attempt.ends is not None:
            stop = Stop.REJECTED if attempt.ends is Ends.REJECTED else Stop.RIGHTS
            self._stream.stop(StopReason(stop, f"{what}: {attempt.message}"))

    def _stop_after(self, error: RebalancerError) -> None:
        # A request that ended with the run's own time says less than that the time is over.
        over = self._clock.why_over() if isinstance(error, UnreachableError) else None
        self._stream.stop(over or events.stop_reason_for(error))

    @property
    def _plan(self) -> Plan:
        return self._plans[-1]

    def _moves(self) -> Iterable[Move]:
        """Each move of the run once, in the order of its plans."""
        return {move.pod.uid: move for plan in self._plans for move in plan.moves}.values()

    def _planned_again(self) -> bool:
        """Whether more may be gained than by the plan that was carried out, and another one has moves."""
        over = self._stream.stop_reason is not None or self._clock.why_over() is not None
        if over or self._context.dry_run or not self._context.execution.replan:
            return False
        before = self._account(self._plan)
        if not before.made or (before.is_as_planned and not self._plan.unsolved):
            return False
        made = [outcome.move_made for outcome in self._outcomes.values() if outcome.evicted_at is not None]
        waves = max(move.wave for move in self._moves())
        plan = self._context.replanner.plan_again(made, waves)
        _check(plan)
        for move in plan.moves:  # those that an earlier plan had to skip
            self._outcomes.pop(move.pod.uid, None)
        self._plans.append(plan)
        self._accounts.append(before)
        self._stream.publish(events.PlannedAgain(plan, before))
        return bool(plan.moves)

    def _account(self, plan: Plan) -> PlanOfRun:
        ended = [(move, self._outcomes[move.pod.uid]) for move in plan.moves]
        made = [(move, outcome) for move, outcome in ended if outcome.evicted_at is not None]
        elsewhere = [
            outcome for move, outcome in made if outcome.node and outcome.node != move.landings[0].node
        ]
        return PlanOfRun(
            inputs=plan.inputs,
            hot_nodes=plan.hot_count,
            moves=len(plan.moves),
            made=len(made),
            elsewhere=len(elsewhere),
            skipped=len(ended) - len(made),
        )

    def _finished(self) -> Outcomes:
        stop = self._stream.stop_reason
        dry_run = self._context.dry_run
        outcomes = tuple(self._outcomes[move.pod.uid] for move in self._moves())
        # What a plan had to skip is no failure of a run that has planned again since.
        last = {move.pod.uid for move in self._plan.moves}
        counted = [
            outcome.result
            for outcome in outcomes
            if outcome.result is not Result.SKIPPED or (outcome.move.pod.uid in last and not dry_run)
        ]
        counted += [outcome.result for outcome in self._cleaned]
        return Outcomes(
            plan_inputs=self._plans[0].inputs,
            run=self._context.run,
            outcomes=outcomes,
            cleanups=tuple(self._cleaned),
            plans=(*self._accounts, self._account(self._plan)),
            stop=stop.stop if stop else None,
            stopped=stop.message if stop else "",
            dry_run=dry_run,
            exit_code=int(exit_code(counted, stop.stop if stop else None)),
        )

    def _waves(self) -> None:
        left = sorted(self._plan.moves, key=lambda move: move.wave)
        while left:
            wave = left[0].wave
            self._pause()
            if self._stop_if_unsafe():
                return
            left = self._still_holding(left)
            moves = [move for move in left if move.wave == wave]
            left = [move for move in left if move.wave != wave]
            if moves:
                left = [*self._wave(wave, moves), *left]
            if self._stream.stop_reason is not None:
                return

    def _pause(self) -> None:
        """Wait for as long as the policy wants between the wave before and the next one."""
        seconds = self._context.execution.pause_between_waves
        if self._ended_at is None or not seconds or self._context.dry_run:
            return
        self._clock.wait_until(
            lambda: False,
            self._ended_at + seconds,
            first_pause=1.0,
            longest_pause=_PAUSE_SECONDS,
            give_up=lambda: self._is_stopped() or self._clock.why_over() is not None,
        )

    def _unsafe(self) -> StopReason | None:
        if self._context.lease is not None:
            self._context.lease.renew_if_due()
        why = self._context.safety.why_stop(self._read_health)
        return StopReason(Stop.BRAKE, why) if why else None

    def _read_health(self) -> ClusterHealth:
        now = self._clock.now()
        plan = self._plan
        schedulers = self._context.schedulers_of(plan)
        health = read_health(self._context.api, now, self._begun_at, schedulers, plan.pod_count)
        for unknown in health.unknown:
            self._stream.publish(events.NotKnown(unknown))
        return health

    def _still_holding(self, moves: Sequence[Move]) -> list[Move]:
        """The moves with the landings they have now; those that no longer hold are skipped.

        In a dry run nothing has moved, so that the moves before a wave cannot be seen: the plan holds.
        """
        if self._context.dry_run:
            return list(moves)
        return self._holding(moves, self._context.replanner.validate(moves, self._progress(), self._landed))

    def _progress(self) -> Progress:
        """What has become of the plan, its moves as they were judged last."""
        landed = {outcome.move.pod.uid: outcome for outcome in self._landed}
        made = list[Move]()
        not_made = list[Move]()
        left = list[Move]()
        for move in self._plan.moves:
            outcome = self._outcomes.get(move.pod.uid)
            if outcome is None:
                left.append(move)
            elif outcome.evicted_at is not None:
                made.append(landed.get(move.pod.uid, outcome).move_made)
            elif not outcome.because.startswith(Reason.NOT_NEEDED):
                not_made.append(move)
        return Progress(made, not_made, left)

    def _holding(self, moves: Sequence[Move], verdicts: Mapping[str, str | Move]) -> list[Move]:
        holding: list[Move] = []
        for move in moves:
            verdict = verdicts.get(move.pod.uid, move)
            if isinstance(verdict, str):
                gone = verdict == POD_GONE or verdict.startswith(POD_LEAVING)
                self._end(move, Result.GONE if gone else Result.SKIPPED, verdict)
                continue
            if verdict.chances != move.chances:
                self._stream.publish(events.PlacedAgain(verdict))
            holding.append(verdict)
        return holding

    def _wave(self, wave: int, moves: Sequence[Move]) -> list[Move]:
        """Evict these pods while it goes well, and verify the landings; the moves that have yet to be made.

        Raises when the pods cannot be read beforehand.
        """
        pods = read_pods(self._context.api, self._scopes(moves))
        before = frozenset(pod.metadata.uid for pod in pods)
        self._stream.publish(events.WaveStarted(wave, moves))
        check = self._context.replanner.check_landing
        watched = self._context.pods.watched
        min_ready = self._context.pods.min_ready_seconds_of
        landings = LandingPoller(before, self._read, check, self._clock, watched, min_ready)
        left = list(moves)
        self._landed = ()
        self._has_kept = False
        with self._context.tainted(wave, moves):
            left = self._made(wave, left, landings)
        self._landed = ()
        self._stream.publish(events.WaveFinished(wave))
        return left

    def _made(self, wave: int, left: list[Move], landings: LandingPoller) -> list[Move]:
        """Evict pods one after another, and verify their landings; the moves that have yet to be made."""
        allowed = self._context.execution.on_unexpected_landing
        while left:
            over = self._clock.why_over()
            if over is not None:
                self._stream.stop(over)
            if self._stream.stop_reason is not None:
                break
            try:
                following = self._after_landings(left[0])
            except RebalancerError as error:  # those made so far are verified all the same
                self._stop_after(error)
                break
            left = left[1:]
            attempt = self._evict(following) if following else None
            if attempt is None:
                self._has_kept |= not self._context.dry_run and bool(self._progress().stayed)
                continue
            landings.evicted.append(attempt)
            if not left:
                break
            last = landings.until_placed(self._is_stopped)
            if last is None or (last.settled and last.outcome.result.ends_run(allowed)):
                break
            self._landed = landings.landed
        if landings.evicted:
            self._verify(wave, landings)
            self._ended_at = self._clock.monotonic()
        return left

    def _after_landings(self, move: Move) -> Move | None:
        """The next move as it is after the landings of its wave so far; None where it does not hold."""
        alone = all(outcome.move.landing_nodes == [outcome.node] for outcome in self._landed)
        if alone and not self._has_kept:
            return move  # they landed where alone they could
        verdict = self._context.replanner.next_in_wave(self._landed, move, self._progress())
        return next(iter(self._holding([move], {move.pod.uid: verdict})), None)

    def _as_it_is_now(self, move: Move, pod: ObservedPod) -> Move | str:
        """A move whose pod was just read: as it holds, or why it does not. Raises RebalancerError."""
        replanner = self._context.replanner
        if replanner.has_seen(pod):
            return move
        verdict = replanner.validate([move], self._progress(), self._landed).get(move.pod.uid, move)
        return move if self._context.dry_run and isinstance(verdict, Move) else verdict

    def _scopes(self, moves: Sequence[Move]) -> frozenset[Scope]:
        """The pods among which replacements are looked for, and no others: they are read again and again."""
        return frozenset(Scope(move.pod.namespace, self._context.pods.selector_of(move)) for move in moves)

    def _why_forbidden(self) -> str:
        """Why the eviction that is about to be requested must not be; empty when it may.

        Asked immediately before each request: saving the state and waiting to try again take time. The lease
        comes last, because it must still be ours when the answer arrives.
        """
        try:
            why = self._context.safety.why_stop()
            if why:
                self._stream.stop(StopReason(Stop.BRAKE, why))
                return why
            if self._context.lease is not None:
                self._context.lease.ensure()
        except RebalancerError as error:
            self._stream.stop(events.stop_reason_for(error))
            return str(error)
        return ""

    def _evict(self, move: Move) -> Attempt[Move] | None:
        """Evict or restart one pod; the attempt, if a replacement has to be waited for."""
        dry_run = self._context.dry_run
        if not (dry_run or self._announced(move)):
            return None
        if not self._stream.publish(events.EvictionDue(move, dry_run)):
            self._end(move, Result.SKIPPED, "the journal cannot be written")
            return None
        attempt = (restart if move.is_restart else evict)(self._client, move)
        self._stream.publish(events.EvictionAnswered(attempt, dry_run))
        if not attempt.is_granted:
            self._not_granted(attempt)
        elif dry_run:
            result = Result.WOULD_EVICT
            would = "the API server would evict it"
            if move.is_restart:
                result = Result.WOULD_RESTART
                would = f"it would let {move.pod.workload} be restarted"
            elif attempt.verdict is Verdict.STARTED:
                would = f"its eviction would begin so: {attempt.message}"
            self._end(move, result, f"dry run: {would}")
        else:
            return attempt
        return None

    def _announced(self, move: Move) -> bool:
        """Save an eviction to the state before it is requested: this run may be killed before it ends."""
        because = "evicted, or about to be, when this was written; how it ended is not known"
        moment = self._clock.now()
        outcome = Outcome(move=move, result=Result.UNKNOWN, because=because, evicted_at=moment)
        self._outcomes[move.pod.uid] = outcome
        self._stream.publish(events.EvictionAnnounced(outcome))
        stop = self._stream.stop_reason
        if stop is not None:
            self._end(move, Result.SKIPPED, f"the run stopped before it: {stop.message}")
        return stop is None

    def _not_granted(self, attempt: Attempt[Move]) -> None:
        move = attempt.move
        message = attempt.message
        # For the load of the nodes, a pod that may have been evicted counts as evicted.
        perhaps = attempt.at if attempt.verdict is Verdict.UNKNOWN else None
        self._end(move, Result.of(attempt.verdict), message, evicted_at=perhaps)
        verb = "restarting" if move.is_restart else "evicting"
        self._stop_after_attempt(attempt, f"{verb} {move.pod.full_name}")
        if attempt.verdict is Verdict.UNKNOWN:
            done = "restarted" if move.is_restart else "evicted"
            unknown = f"whether {move.pod.full_name} was {done} is not known: {message}"
            self._stream.stop(StopReason(Stop.OUTCOME, unknown))

    def _read(self, moves: Sequence[Move], seconds: float) -> Sequence[ObservedPod]:
        api = self._context.api.finishing(_LAST_LOOK_SECONDS).within(seconds)
        # After a request to stop the answer to one request is awaited, and none is tried again.
        retries = replace(api.retries, pause=self._clock.sleep)
        return read_pods(replace(api, retries=retries), self._scopes(moves))

    def _verify(self, wave: int, landings: LandingPoller) -> None:
        """Wait for the replacements of a wave; a landing that the plan did not allow for stops the run."""

        def after_each_read(appraisals: Sequence[Appraisal]) -> None:
            settled = sum(appraisal.settled for appraisal in appraisals)
            self._stream.publish(events.ReplacementsSeen(wave, settled, len(appraisals)))
            self._keep_lease()

        execution = self._context.execution
        outcomes = self._explained(landings.until_settled(execution.wave_timeout, after_each_read))
        for outcome in outcomes:
            self._ended(outcome)
        reasons = [
            self._reason_to_stop(outcome)
            for outcome in outcomes
            if outcome.result.ends_run(execution.on_unexpected_landing)
        ]
        if reasons:
            # A failure in the cluster is a better reason than the request to stop.
            self._stream.stop(min(reasons, key=lambda reason: reason.stop is Stop.INTERRUPTED))

    def _explained(self, outcomes: Iterable[Outcome]) -> list[Outcome]:
        """The outcomes, with why a controller has made no replacement where it says so."""
        api = self._context.api.finishing(_LAST_LOOK_SECONDS).within(_LAST_LOOK_SECONDS)
        explained = []
        for outcome in outcomes:
            none = outcome.result is Result.NOT_REPLACED
            why = why_not_replaced(api, outcome.move.pod) if none else ""
            explained.append(replace(outcome, because=f"{outcome.because}; {why}") if why else outcome)
        return explained

    def _reason_to_stop(self, outcome: Outcome) -> StopReason:
        if outcome.result is Result.UNKNOWN and self._clock.stop_requested():
            return StopReason(Stop.INTERRUPTED, "asked to stop by a signal while waiting for replacements")
        where = f" on {outcome.node}" if outcome.node else ""
        pod = outcome.move.pod.full_name
        return StopReason(Stop.OUTCOME, f"{pod}: {outcome.result.value}{where}: {outcome.because}")

    def _keep_lease(self) -> None:
        """Renew the lease during long waits; once it is lost, nothing more is evicted."""
        lease = self._context.lease
        if lease is None or not lease.held or self._stream.stop_reason is not None:
            return
        try:
            lease.renew_if_due()
        except RebalancerError as error:
            self._stream.stop(events.stop_reason_for(error))

    def _is_stopped(self) -> bool:
        """Whether nothing more is evicted, also because the lease is found to be lost."""
        self._keep_lease()
        return self._stream.stop_reason is not None

    def _end(self, move: Move, result: Result, because: str, *, evicted_at: float | None = None) -> None:
        self._ended(Outcome(move=move, result=result, because=because, evicted_at=evicted_at))

    def _ended(self, outcome: Outcome) -> None:
        self._outcomes[outcome.move.pod.uid] = outcome
        self._stream.publish(events.MoveEnded(outcome))
