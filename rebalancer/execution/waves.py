"""Carries out a plan wave by wave, until it is done or there is a reason to stop.

    before each wave        the safety checks; moves that no longer hold are skipped
    within a wave           one eviction after another, each announced, requested and answered; the next one
                            once the replacement of the one before is placed
    at the end of a wave    all replacements are waited for, and compared with the plan

Everything that happens is published as an event; see ``events`` for who keeps what of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import msgspec
from msgspec.structs import replace

from rebalancer.cluster.live import RawApi
from rebalancer.errors import InputError, InternalError, RebalancerError, UnreachableError
from rebalancer.execution.clock import RunClock
from rebalancer.execution.events import (
    EventStream,
    EvictionAnnounced,
    EvictionAnswered,
    EvictionDue,
    MoveEnded,
    NotKnown,
    PlacedAgain,
    ReplacementsSeen,
    RunFinished,
    RunStarted,
    SaveOutcomes,
    Subscriber,
    WaveFinished,
    WavesEnded,
    WaveStarted,
    stop_reason_for,
)
from rebalancer.execution.evict import Attempt, EvictionClient, Patience, Verdict, evict
from rebalancer.execution.journal import Journal
from rebalancer.execution.lease import HeldLease
from rebalancer.execution.observed_pods import ObservedPod, PodReader, Scope
from rebalancer.execution.outcomes import Outcome, Outcomes, Stop, StopReason, exit_code
from rebalancer.execution.restart import restart
from rebalancer.execution.safety import ClusterHealth, SafetyChecks, read_health
from rebalancer.execution.verify import (
    Appraisal,
    PodsSeen,
    WatchedReplacements,
    await_landings,
    match,
)
from rebalancer.planning.plan import POD_GONE, POD_LEAVING, Move, Plan
from rebalancer.policy.schema import Execution
from rebalancer.state.results import Result

# The plan assumes that replacements are scheduled in the order of the evictions, so each eviction waits for
# the replacement of the one before, at most so long. Verification finds landings that went wrong by that.
MAX_SECONDS_TO_PLACE = 3.0
_FIRST_LOOK_SECONDS = 0.05
_LAST_LOOK_SECONDS = 3.0  # after a request to stop: where the replacements are by then


class Replanner(Protocol):
    """Judges moves by the cluster as it is now, as the planner did when it made the plan."""

    def validate(self, moves: Sequence[Move]) -> Mapping[str, str | Move]:
        """Read the cluster again: pod uid -> why the move no longer holds, or the move with its new landings.

        Moves that are absent from the answer hold unchanged.
        """

    def check_landing(self, move: Move, node: str) -> str | None:
        """Why the node on which a replacement landed is not acceptable; None when it is."""


class WorkloadPods(msgspec.Struct, frozen=True, kw_only=True):
    """How the pods of a move's workload are found."""

    # The label selector of the controller of a move's pod; empty where it is not known.
    selector_of: Callable[[Move], str] = lambda _: ""
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
    save: SaveOutcomes = lambda _: None  # an error it raises stops the run before the next eviction
    shown_to: Sequence[Subscriber] = ()  # learn of every event after it was saved and journaled
    patience: Patience = msgspec.field(default_factory=Patience)
    dry_run: bool = False


def carry_out(plan: Plan, context: RunContext) -> Outcomes:
    """Evict the moves of a plan in waves, wait for each wave, and check every landing.

    Every move gets an outcome, whatever happens. Raises JournalError when the journal cannot be begun and
    InputError for a plan that names a pod twice: nothing was evicted then.
    """
    _check(plan)
    with EventStream(context.save, context.journal, context.clock.now, context.shown_to) as stream:
        stream.publish(RunStarted(plan, context.dry_run))
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

    def __init__(self, plan: Plan, context: RunContext, stream: EventStream) -> None:
        self._plan = plan
        self._context = context
        self._stream = stream
        self._clock = context.clock
        self._outcomes: dict[str, Outcome] = {}  # by uid of the pod, provisional ones too
        self._begun_at = context.clock.now()
        self._client = EvictionClient(
            context.api,
            context.clock.now,
            patience=context.patience,
            why_forbidden=self._why_forbidden,
            interrupted=lambda: self._clock.stop_requested() or self._is_stopped(),
            dry_run=context.dry_run,
        )

    def carry_out(self) -> Outcomes:
        """All waves, and the end."""
        if self._plan.moves:
            try:
                self._waves()
            except RebalancerError as error:
                # A request that ended with the run's own time says less than that the time is over.
                over = self._clock.why_over() if isinstance(error, UnreachableError) else None
                self._stream.stop(over or stop_reason_for(error))
            self._stream.publish(WavesEnded())
            for move in self._plan.moves:
                if move.pod.uid not in self._outcomes:
                    stop = self._stream.stop_reason
                    reason = stop.message if stop else "never reached"
                    self._end(move, Result.SKIPPED, f"the run stopped before it: {reason}")
        outcomes = self._finished()
        self._stream.publish(RunFinished(outcomes))
        return outcomes

    def _finished(self) -> Outcomes:
        stop, dry_run = self._stream.stop_reason, self._context.dry_run
        outcomes = tuple(self._outcomes[move.pod.uid] for move in self._plan.moves)
        results = (outcome.result for outcome in outcomes)
        counted = [result for result in results if not (dry_run and result is Result.SKIPPED)]
        return Outcomes(
            plan_inputs=self._plan.inputs,
            run=self._context.run,
            outcomes=outcomes,
            stop=stop.stop if stop else None,
            stopped=stop.message if stop else "",
            dry_run=dry_run,
            exit_code=int(exit_code(counted, stop.stop if stop else None)),
        )

    def _waves(self) -> None:
        left = sorted(self._plan.moves, key=lambda move: move.wave)
        for wave in sorted({move.wave for move in left}):
            reason = self._clock.why_over() or self._unsafe()
            if reason is not None:
                self._stream.stop(reason)
                return
            left = self._still_holding(left)
            moves = [move for move in left if move.wave == wave]
            left = [move for move in left if move.wave != wave]
            if moves:
                self._wave(wave, moves)
            if self._stream.stop_reason is not None:
                return

    def _unsafe(self) -> StopReason | None:
        if self._context.lease is not None:
            self._context.lease.renew_if_due()
        why = self._context.safety.why_stop(self._read_health)
        return StopReason(Stop.BRAKE, why) if why else None

    def _read_health(self) -> ClusterHealth:
        now, schedulers = self._clock.now(), self._context.safety.schedulers
        health = read_health(self._context.api, now, self._begun_at, schedulers, self._plan.pod_count)
        for unknown in health.unknown:
            self._stream.publish(NotKnown(unknown))
        return health

    def _still_holding(self, moves: Sequence[Move]) -> list[Move]:
        """The moves with the landings they have now; those that no longer hold are skipped."""
        verdicts = self._context.replanner.validate(moves)
        holding: list[Move] = []
        for move in moves:
            verdict = verdicts.get(move.pod.uid, move)
            if isinstance(verdict, str):
                gone = verdict == POD_GONE or verdict.startswith(POD_LEAVING)
                self._end(move, Result.GONE if gone else Result.SKIPPED, verdict)
                continue
            if verdict.landings != move.landings:
                self._stream.publish(PlacedAgain(verdict))
            holding.append(verdict)
        return holding

    def _wave(self, wave: int, moves: Sequence[Move]) -> None:
        """Evict these pods and verify the landings. Raises when the pods cannot be read beforehand."""
        pods = PodReader(self._context.api).pods(self._scopes(moves))
        before = frozenset(pod.metadata.uid for pod in pods)
        self._stream.publish(WaveStarted(wave, moves))
        evicted: list[Attempt] = []
        for position, move in enumerate(moves):
            over = self._clock.why_over()
            if over is not None:
                self._stream.stop(over)
            if self._stream.stop_reason is not None:
                break
            attempt = self._evict(move)
            if attempt is not None:
                evicted.append(attempt)
                if position + 1 < len(moves):
                    self._await_placement(evicted, before)
        if evicted:
            self._verify(wave, evicted, before)
        self._stream.publish(WaveFinished(wave))

    def _scopes(self, moves: Sequence[Move]) -> frozenset[Scope]:
        """The pods among which replacements are looked for, and no others: they are read again and again."""
        return frozenset(
            Scope(move.pod.namespace, self._context.pods.selector_of(move))
            for move in moves
            if not move.finished
        )

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
            self._stream.stop(stop_reason_for(error))
            return str(error)
        return ""

    def _evict(self, move: Move) -> Attempt | None:
        """Evict or restart one pod; the attempt, if a replacement has to be waited for."""
        dry_run = self._context.dry_run
        if not (dry_run or self._announced(move)):
            return None
        if not self._stream.publish(EvictionDue(move, dry_run)):
            self._end(move, Result.SKIPPED, "the journal cannot be written")
            return None
        attempt = (restart if move.is_restart else evict)(self._client, move)
        self._stream.publish(EvictionAnswered(attempt, dry_run))
        if not attempt.is_granted:
            self._not_granted(attempt)
        elif dry_run:
            would = "the API server would evict it"
            if move.is_restart:
                would = f"the API server would let {move.pod.workload} be restarted"
            elif attempt.verdict is Verdict.STARTED:
                would = f"its eviction would begin so: {attempt.message}"
            self._end(move, Result.SKIPPED, f"dry run: {would}")
        elif move.finished:
            self._end(move, Result.REMOVED, attempt.message, evicted_at=attempt.at)
        else:
            return attempt
        return None

    def _announced(self, move: Move) -> bool:
        """Save an eviction to the state before it is requested: this run may be killed before it ends."""
        because = "evicted, or about to be, when this was written; how it ended is not known"
        now = self._clock.now()
        outcome = Outcome(move=move, result=Result.UNKNOWN, because=because, evicted_at=now)
        self._outcomes[move.pod.uid] = outcome
        self._stream.publish(EvictionAnnounced(outcome))
        stop = self._stream.stop_reason
        if stop is not None:
            self._end(move, Result.SKIPPED, f"it could not be saved for the next run: {stop.message}")
        return stop is None

    def _not_granted(self, attempt: Attempt) -> None:
        move, message = attempt.move, attempt.message
        # For the load of the nodes, a pod that may have been evicted counts as evicted.
        perhaps = attempt.at if attempt.verdict is Verdict.UNKNOWN else None
        self._end(move, Result.of(attempt.verdict), message, evicted_at=perhaps)
        verb = "restarting" if move.is_restart else "evicting"
        if attempt.rights_missing:
            self._stream.stop(StopReason(Stop.RIGHTS, f"{verb} {move.pod.full_name}: {message}"))
        elif attempt.rejected:
            self._stream.stop(StopReason(Stop.REJECTED, f"{verb} {move.pod.full_name}: {message}"))
        elif attempt.verdict is Verdict.UNKNOWN:
            done = "restarted" if move.is_restart else "evicted"
            unknown = f"whether {move.pod.full_name} was {done} is not known: {message}"
            self._stream.stop(StopReason(Stop.OUTCOME, unknown))

    def _await_placement(self, evicted: Sequence[Attempt], before: frozenset[str]) -> None:
        """Wait up to 3 s for the last evicted pod's replacement to be bound."""
        move = evicted[-1].move
        deadline = self._clock.monotonic() + MAX_SECONDS_TO_PLACE
        watched = WatchedReplacements(self._context.pods.watched, evicted, before)

        def placed() -> bool:
            shown = watched.placed()
            if shown is not None:
                return shown
            pods = PodReader(self._context.api.within(deadline - self._clock.monotonic()))
            try:
                found = match(evicted, before, pods.pods(self._scopes([move]))).get(move.pod.uid)
            except InternalError:
                raise
            except RebalancerError:
                return True  # waiting is of no use: verification reads again at the end of the wave
            return found is not None and bool(found.spec.node_name)

        self._clock.wait_until(
            placed, deadline, _FIRST_LOOK_SECONDS, poke=watched.placed, give_up=self._is_stopped
        )

    def _verify(self, wave: int, evicted: Sequence[Attempt], before: frozenset[str]) -> None:
        """Wait for the replacements of a wave; a landing that the plan did not allow for stops the run."""
        scopes = self._scopes([item.move for item in evicted])

        def read(seconds: float) -> Sequence[ObservedPod]:
            api = self._context.api.finishing(_LAST_LOOK_SECONDS).within(seconds)
            # After a request to stop the answer to one request is awaited, and none is tried again.
            retries = replace(api.retries, pause=self._clock.sleep)
            return PodReader(replace(api, retries=retries)).pods(scopes)

        def after_each_read(appraisals: Sequence[Appraisal]) -> None:
            settled = sum(is_settled for _, is_settled in appraisals)
            self._stream.publish(ReplacementsSeen(wave, settled, len(appraisals)))
            self._keep_lease()

        execution = self._context.execution
        outcomes = await_landings(
            evicted,
            before,
            read,
            self._context.replanner.check_landing,
            self._clock,
            timeout_seconds=execution.wave_timeout,
            watched=WatchedReplacements(self._context.pods.watched, evicted, before).ready,
            after_each_read=after_each_read,
        )
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
            self._stream.stop(stop_reason_for(error))

    def _is_stopped(self) -> bool:
        """Whether nothing more is evicted, also because the lease is found to be lost."""
        self._keep_lease()
        return self._stream.stop_reason is not None

    def _end(self, move: Move, result: Result, because: str, *, evicted_at: float | None = None) -> None:
        self._ended(Outcome(move=move, result=result, because=because, evicted_at=evicted_at))

    def _ended(self, outcome: Outcome) -> None:
        self._outcomes[outcome.move.pod.uid] = outcome
        self._stream.publish(MoveEnded(outcome))
