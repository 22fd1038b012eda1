"""One wave: pods are evicted one by one, then their landings are verified against the plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rebalancer.errors import InternalError, RebalancerError
from rebalancer.execution.context import Halt, Ledger, RunContext, halt_for
from rebalancer.execution.evict import EvictionAnswer, Requester, Verdict, evict
from rebalancer.execution.journal import EVICTING, RESTARTING
from rebalancer.execution.observed_pods import ObservedPod, PodReader, Scope
from rebalancer.execution.outcomes import Outcome, Stop
from rebalancer.execution.restart import restart
from rebalancer.execution.verify import (
    FIRST_PAUSE_SECONDS,
    MAX_PAUSE_SECONDS,
    Evicted,
    OutcomeSoFar,
    Sightings,
    Waiting,
    await_landings,
    match,
    uids,
)
from rebalancer.planning.plan import Move
from rebalancer.state import Result
from rebalancer.telemetry import Span, record, span

# The plan assumes that replacements are scheduled in the order of the evictions, so each eviction waits for
# the replacement of the one before, at most so long. Verification finds landings that went wrong by that.
MAX_SECONDS_TO_PLACE = 3.0
_FIRST_LOOK_SECONDS = 0.05
_LAST_LOOK_SECONDS = 3.0  # after a request to stop: where the replacements are by then


class WaveRunner:
    """Carries out the waves of one run; when something stops it, the ledger holds the reason."""

    def __init__(self, context: RunContext, ledger: Ledger, started: float) -> None:
        self._context = context
        self._ledger = ledger
        self._deadline = (
            None if context.max_duration_seconds is None else started + context.max_duration_seconds
        )
        self._monotonic = context.api.retries.clock
        self._api = api = context.api
        self._pods = PodReader(api)
        self._evictions: dict[str, Span] = {}  # by uid of the pod
        self._requester = Requester(
            api,
            context.clock,
            patience=context.patience,
            permitted=self._permitted,
            interrupted=self._give_up,
            dry_run=context.dry_run,
        )

    def over(self) -> Halt | None:
        """Why no further eviction may begin: asked to stop, or out of time."""
        if self._context.stop_requested():
            return Halt(Stop.INTERRUPTED, "asked to stop by a signal")
        if self._deadline is not None and self._monotonic() >= self._deadline:
            seconds = self._context.max_duration_seconds
            return Halt(Stop.BRAKE, f"the run reached its longest duration of {seconds:.0f} s")
        return None

    def run(self, wave: int, moves: Sequence[Move]) -> None:
        """Evict these pods and verify the landings. Raises when the pods cannot be read beforehand."""
        before = uids(self._pods.pods(self._scopes(moves)))
        self._ledger.record("wave-started", wave=wave, moves=len(moves))
        self._context.observer.wave_started(wave, moves)
        evicted: list[Evicted] = []
        for position, move in enumerate(moves):
            halt = self.over()
            if halt is not None:
                self._ledger.stop(halt)
            if self._ledger.halt is not None:
                break
            known = len(evicted)
            self._evict(move, evicted)
            if len(evicted) > known and position + 1 < len(moves):
                self._await_placement(evicted, before)
        if evicted:
            self._verify(wave, evicted, before)
        self._ledger.save()
        self._ledger.record("wave-finished", wave=wave)

    def _await_placement(self, evicted: Sequence[Evicted], before: frozenset[str]) -> None:
        """Wait up to 3 s for the last evicted pod's replacement to be bound."""
        move = evicted[-1].move
        deadline = self._monotonic() + MAX_SECONDS_TO_PLACE
        pause = _FIRST_LOOK_SECONDS
        sightings = Sightings(self._context.pods_seen, evicted, before)
        while (left := deadline - self._monotonic()) > 0 and not self._give_up():
            self._context.sleep(min(pause, left))
            if sightings.possible():
                if sightings.placed():
                    return
                continue
            try:
                pods = PodReader(self._api.within(deadline - self._monotonic()))
                replacement = match(evicted, before, pods.pods(self._scopes([move]))).get(move.pod.uid)
            except InternalError:
                raise
            except RebalancerError:
                return  # verification reads again at the end of the wave
            if replacement is not None and replacement.spec.node_name:
                return
            pause *= 1.6

    def _rest(self, sightings: Sightings, seconds: float) -> None:
        """Wait so long or, where pods are watched, until the replacements are seen to be there."""
        if not sightings.possible() or sightings.done():
            self._context.sleep(min(seconds, FIRST_PAUSE_SECONDS) if sightings.possible() else seconds)
            return
        end = self._monotonic() + seconds
        while (left := end - self._monotonic()) > 0 and not self._context.stop_requested():
            self._context.sleep(min(_FIRST_LOOK_SECONDS, left))
            if sightings.done():
                return

    def _scopes(self, moves: Sequence[Move]) -> frozenset[Scope]:
        """The pods among which replacements are looked for, and no others: they are read again and again."""
        return frozenset(Scope(move.pod.namespace, self._context.selector_of(move)) for move in moves)

    def _permitted(self) -> str:
        """Why the eviction that is about to be requested must not be; empty when it may.

        Asked immediately before each request: saving the state and waiting to try again take time. The lease
        comes last, because it must still be ours when the answer arrives.
        """
        try:
            paused = self._context.why_paused()
            if paused:
                self._ledger.stop(Halt(Stop.BRAKE, paused))
                return paused
            if self._context.lease is not None:
                self._context.lease.ensure()
        except RebalancerError as error:
            self._ledger.stop(halt_for(error))
            return str(error)
        return ""

    def _evict(self, move: Move, evicted: list[Evicted]) -> None:
        """Evict or restart one pod: saved to the state before, journaled before and after.

        The move joins ``evicted`` when its replacement has to be waited for.
        """
        if not (self._context.dry_run or self._saved_before(move)):
            return
        event = RESTARTING if move.is_restart else EVICTING
        if not self._ledger.record(event, move, dryRun=self._context.dry_run or None):
            self._ledger.settle(_outcome(move, Result.SKIPPED, "the journal cannot be written"))
            return
        with span("eviction", pod=move.pod.full_name, node=move.from_node) as eviction:
            answer = (restart if move.is_restart else evict)(self._requester, move)
            eviction.add(verdict=answer.verdict.value, attempts=answer.attempts)
        self._evictions[move.pod.uid] = eviction
        started = answer.verdict is Verdict.STARTED
        granted = answer.verdict in (Verdict.EVICTED, Verdict.STARTED, Verdict.RESTARTED)
        waited_for = granted and not self._context.dry_run
        if waited_for:
            evicted.append(Evicted(move, answer.at, answer.not_before, started, answer.restarted_at))
        self._ledger.record(
            answer.verdict.value.lower(), move, because=answer.because, attempts=answer.attempts
        )
        self._context.observer.eviction_answered(move, answer)
        if waited_for:
            if self._context.events is not None:
                self._context.events.evicted(move, started=started)
        elif granted:
            would = "the API server would evict it"
            if move.is_restart:
                would = f"the API server would let {move.pod.workload} be restarted"
            elif started:
                would = f"its eviction would begin so: {answer.because}"
            self._ledger.settle(_outcome(move, Result.SKIPPED, f"dry run: {would}"))
        else:
            self._not_evicted(move, answer)

    def _saved_before(self, move: Move) -> bool:
        """Save an eviction to the state before it is requested: this run may be killed before it ends."""
        because = "evicted, or about to be, when this was written; how it ended is not known"
        now = self._context.clock()
        self._ledger.provisional(_outcome(move, Result.UNKNOWN, because, evicted_at=now))
        if self._ledger.halt is None:
            return True
        because = f"it could not be saved for the next run: {self._ledger.halt.because}"
        self._ledger.settle(_outcome(move, Result.SKIPPED, because))
        return False

    def _not_evicted(self, move: Move, answer: EvictionAnswer) -> None:
        # For the load of the nodes, a pod that may have been evicted counts as evicted.
        verb = "restarting" if move.is_restart else "evicting"
        perhaps = answer.at if answer.verdict is Verdict.UNKNOWN else None
        self._ledger.settle(_outcome(move, Result.of(answer.verdict), answer.because, evicted_at=perhaps))
        if answer.rights_missing:
            self._ledger.stop(Halt(Stop.RIGHTS, f"{verb} {move.pod.full_name}: {answer.because}"))
        elif answer.rejected:
            self._ledger.stop(Halt(Stop.REJECTED, f"{verb} {move.pod.full_name}: {answer.because}"))
        elif answer.verdict is Verdict.UNKNOWN:
            done = "restarted" if move.is_restart else "evicted"
            because = f"whether {move.pod.full_name} was {done} is not known: {answer.because}"
            self._ledger.stop(Halt(Stop.OUTCOME, because))

    def _verify(self, wave: int, evicted: Sequence[Evicted], before: frozenset[str]) -> None:
        def after_each_read(landings: Sequence[OutcomeSoFar]) -> None:
            self._context.observer.waiting(wave, sum(landing.settled for landing in landings), len(landings))
            self._keep_lease()

        scopes = self._scopes([item.move for item in evicted])

        def read(seconds: float) -> Sequence[ObservedPod]:
            api = self._api.finishing(_LAST_LOOK_SECONDS).within(seconds)
            # After a request to stop the answer to one request is awaited, and none is tried again.
            retries = replace(api.retries, pause=self._context.sleep)
            return PodReader(replace(api, retries=retries)).pods(scopes)

        sightings = Sightings(self._context.pods_seen, evicted, before)
        waiting = Waiting(
            read=read,
            check=self._context.check_landing,
            clock=self._monotonic,
            sleep=lambda seconds: self._rest(sightings, seconds),
            first_pause_seconds=MAX_PAUSE_SECONDS if sightings.possible() else FIRST_PAUSE_SECONDS,
            timeout_seconds=self._context.execution.wave_timeout,
            interrupted=self._context.stop_requested,
            after_each_read=after_each_read,
        )
        outcomes = await_landings(evicted, before, waiting)
        for outcome in outcomes:
            self._ledger.settle(outcome)
            self._record_landing(outcome)
        unexpected = self._context.execution.on_unexpected_landing
        halts = [self._halt_after(outcome) for outcome in outcomes if outcome.result.ends_run(unexpected)]
        if halts:
            # A failure in the cluster is a better reason than the request to stop.
            self._ledger.stop(min(halts, key=lambda halt: halt.stop is Stop.INTERRUPTED))

    def _record_landing(self, outcome: Outcome) -> None:
        """The time from an eviction to its replacement being ready, or to where it was given up."""
        pod, now = outcome.move.pod, self._context.clock()
        record(
            "landing",
            outcome.evicted_at or now,
            outcome.ready_at or now,
            self._evictions[pod.uid],
            pod=pod.full_name,
            node=outcome.node,
            result=outcome.result.value,
        )

    def _keep_lease(self) -> None:
        """Renew the lease during long waits; once it is lost, nothing more is evicted."""
        lease = self._context.lease
        if lease is None or not lease.held or self._ledger.halt is not None:
            return
        try:
            lease.renew_if_due()
        except RebalancerError as error:
            self._ledger.stop(halt_for(error))

    def _give_up(self) -> bool:
        """Whether a failed eviction must not be tried again."""
        self._keep_lease()
        return self._context.stop_requested() or self._ledger.halt is not None

    def _halt_after(self, outcome: Outcome) -> Halt:
        if outcome.result is Result.UNKNOWN and self._context.stop_requested():
            return Halt(Stop.INTERRUPTED, "asked to stop by a signal while waiting for replacements")
        where = f" on {outcome.node}" if outcome.node else ""
        pod = outcome.move.pod.full_name
        return Halt(Stop.OUTCOME, f"{pod}: {outcome.result.value}{where}: {outcome.because}")


def _outcome(move: Move, result: Result, because: str, *, evicted_at: float | None = None) -> Outcome:
    return Outcome(move=move, result=result, because=because, evicted_at=evicted_at)
