"""Carries out a plan wave by wave, until it is done or there is a reason to stop."""

from __future__ import annotations

from collections.abc import Sequence

from rebalancer.errors import InputError, RebalancerError, UnreachableError
from rebalancer.execution.context import Halt, Ledger, RunContext, halt_for
from rebalancer.execution.journal import RUN_STARTED
from rebalancer.execution.outcomes import Outcome, Outcomes, Stop, exit_code
from rebalancer.execution.safety import engaged_brake, read_health, unknowns
from rebalancer.execution.waves import WaveRunner
from rebalancer.planning.plan import POD_GONE, POD_LEAVING, Move, Plan
from rebalancer.state import Result
from rebalancer.telemetry import span


def carry_out(plan: Plan, context: RunContext) -> Outcomes:
    """Evict the moves of a plan in waves, wait for each wave, and check every landing.

    Every move gets an outcome, whatever happens. Raises JournalError when the journal cannot be begun and
    InputError for a plan that names a pod twice: nothing was evicted then.
    """
    _check(plan)
    started = context.api.retries.clock() if context.began is None else context.began
    context.journal.write(
        RUN_STARTED,
        plan=plan.inputs,
        policy=plan.policy,
        moves=len(plan.moves),
        dryRun=context.dry_run or None,
    )
    ledger = Ledger(context)
    if plan.moves:
        _stopping_at_errors(plan, context, ledger, started)
        ledger.save()  # outcomes of moves that no wave reached, or that the end of a wave failed to save
    outcomes = _finish(plan, context, ledger)
    context.observer.finished(outcomes)
    return outcomes


def _check(plan: Plan) -> None:
    seen: set[str] = set()
    for move in plan.moves:
        if not move.pod.uid:
            raise InputError("a move without the pod's uid cannot be carried out", where=move.pod.full_name)
        if move.pod.uid in seen:
            raise InputError("the plan moves this pod twice", where=move.pod.full_name)
        seen.add(move.pod.uid)


def _stopping_at_errors(plan: Plan, context: RunContext, ledger: Ledger, started: float) -> None:
    runner = WaveRunner(context, ledger, started)
    begun_at = context.clock()
    try:
        _waves(plan, context, ledger, runner, begun_at)
    except RebalancerError as error:
        # A request that ended with the run's own time says less than that the time is over.
        over = runner.over() if isinstance(error, UnreachableError) else None
        ledger.stop(over or halt_for(error))


def _waves(plan: Plan, context: RunContext, ledger: Ledger, runner: WaveRunner, begun_at: float) -> None:
    left = sorted(plan.moves, key=lambda move: move.wave)
    for wave in sorted({move.wave for move in left}):
        halt = runner.over() or _brake(plan, context, ledger, begun_at)
        if halt is not None:
            ledger.stop(halt)
            return
        left = _still_holding(context, ledger, left)
        moves = [move for move in left if move.wave == wave]
        left = [move for move in left if move.wave != wave]
        if moves:
            with span("wave", wave=wave):
                runner.run(wave, moves)
        if ledger.halt is not None:
            return


def _brake(plan: Plan, context: RunContext, ledger: Ledger, started: float) -> Halt | None:
    """Read the cluster's health and check every brake."""
    if context.lease is not None:
        context.lease.renew_if_due()
    reason = context.why_paused()
    if reason:
        return Halt(Stop.BRAKE, reason)
    safety = context.safety()
    health = read_health(context.api, context.clock(), started, context.schedulers, plan.pod_count)
    for unknown in unknowns(health):
        ledger.record("not-known", because=unknown)
        context.observer.warned(unknown)
    engaged = engaged_brake(safety, health)
    return Halt(Stop.BRAKE, engaged) if engaged else None


def _still_holding(context: RunContext, ledger: Ledger, moves: Sequence[Move]) -> list[Move]:
    """The moves with the landings they have now; those that no longer hold are skipped."""
    verdicts = context.validate(moves)
    holding: list[Move] = []
    for move in moves:
        verdict = verdicts.get(move.pod.uid, move)
        if isinstance(verdict, str):
            gone = verdict == POD_GONE or verdict.startswith(POD_LEAVING)
            ledger.settle(Outcome(move=move, result=Result.GONE if gone else Result.SKIPPED, because=verdict))
            continue
        if verdict.landings != move.landings:
            landings = {landing.node: landing.probability for landing in verdict.landings}
            ledger.record("placed-again", verdict, landings=landings)
        holding.append(verdict)
    return holding


def _skipped(move: Move, because: str) -> Outcome:
    return Outcome(move=move, result=Result.SKIPPED, because=because)


def _finish(plan: Plan, context: RunContext, ledger: Ledger) -> Outcomes:
    for move in plan.moves:
        if not ledger.knows(move):
            reason = ledger.halt.because if ledger.halt else "never reached"
            ledger.settle(_skipped(move, f"the run stopped before it: {reason}"))
    outcomes = ledger.outcomes(plan.moves)
    counted = [
        outcome.result for outcome in outcomes if not (context.dry_run and outcome.result is Result.SKIPPED)
    ]
    halt = ledger.halt
    code = exit_code(counted, halt.stop if halt else None)
    ledger.record("run-finished", exitCode=int(code), stopped=halt.because if halt else None)
    return Outcomes(
        plan_inputs=plan.inputs,
        run=context.run,
        outcomes=outcomes,
        stop=halt.stop if halt else None,
        stopped=halt.because if halt else "",
        dry_run=context.dry_run,
        exit_code=int(code),
    )
