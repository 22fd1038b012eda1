"""Joins the stages: what `plan` and `run` share up to the plan, and what `run` adds."""

from __future__ import annotations

import dataclasses
import sys
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from rebalancer import planning
from rebalancer.cluster.live.connection import RawApi
from rebalancer.errors import SafetyError
from rebalancer.execution.context import RunContext
from rebalancer.execution.events import EventWriter
from rebalancer.execution.health import SchedulerLocation
from rebalancer.execution.journal import Journal
from rebalancer.execution.lease import RunLease
from rebalancer.execution.outcomes import Outcome, Outcomes
from rebalancer.execution.progress import Observer
from rebalancer.execution.remembering import after_outcomes, past_moves
from rebalancer.execution.run import carry_out
from rebalancer.pipeline.gathering import Gathered, gather, load_policy_of, open_api, remembered
from rebalancer.pipeline.options import PipelineOptions, RunOptions
from rebalancer.pipeline.signals import stop_on_signal
from rebalancer.planning import Move, Plan, check_landing, plan_prepared, prepare, revalidate_moves
from rebalancer.planning.plan import NodeReport
from rebalancer.policy import LoadedPolicy, load_policy
from rebalancer.policy.schema import Safety
from rebalancer.scheduling.framework.versions import VERIFIED
from rebalancer.scheduling.plugins.registry import SCHEDULER_LAG_SECONDS
from rebalancer.state import (
    ConfigMapStore,
    FileStore,
    PastMove,
    RunState,
    StateStore,
    after_plan,
    after_reading,
    memory_seconds,
)

_REPORTER = "rebalancer"


@dataclass(frozen=True, slots=True)
class PlanResult:
    """A plan and the report of every node."""

    plan: Plan
    nodes: tuple[NodeReport, ...]


def make_plan(options: PipelineOptions) -> PlanResult:
    """Gather, plan, and only that."""
    loaded = load_policy_of(options)
    state = remembered(options)
    gathered = gather(options, loaded, open_api(options), state)
    plan = planning.make_plan((_without_refusal(gathered) if options.only_look else gathered).inputs)
    return PlanResult(plan, plan.nodes)


def _without_refusal(gathered: Gathered) -> Gathered:
    """The same inputs, to be looked at however few of the nodes are known."""
    inputs = gathered.inputs
    settings = inputs.policy.load
    if inputs.load.coverage >= settings.min_coverage:
        return gathered
    told = (
        f"load is known of {inputs.load.coverage:.0%} of the nodes, load.minCoverage is "
        f"{settings.min_coverage:.0%}: a run would refuse to act"
    )
    lenient = inputs.policy.model_copy(update={"load": settings.model_copy(update={"min_coverage": 0.0})})
    inputs = dataclasses.replace(inputs, policy=lenient, warnings=(*inputs.warnings, told))
    return dataclasses.replace(gathered, inputs=inputs)


def run(
    options: PipelineOptions,
    run_options: RunOptions,
    observer: Observer,
    planned: Callable[[Plan], None] = lambda _: None,
) -> tuple[Plan, Outcomes]:
    """Plan as ``make_plan`` does, tell it to ``planned``, carry it out and remember what became of it."""
    loaded = load_policy_of(options)
    api = open_api(options)
    assert api is not None  # the command refuses a recorded cluster
    store = _store(options, run_options, api)
    state = (store.load() or RunState()) if store else None
    gathered = gather(options, loaded, api, state)
    prepared = prepare(gathered.inputs)
    plan = plan_prepared(prepared)
    planned(plan)
    _refuse_unverified(gathered)
    hot = [node.name for node in plan.nodes if node.hot]
    kept = None if run_options.dry_run else store  # a dry run leaves no trace
    memory = _Memory(kept, state, _next_state(gathered, state, hot) if kept else None, loaded)
    memory.keep()
    with ExitStack() as stack:
        stop = stack.enter_context(stop_on_signal())
        run_id = uuid.uuid4().hex
        context = RunContext(
            run=run_id,
            api=api,
            clock=time.time,
            sleep=stop.wait,
            execution=loaded.policy.execution,
            safety=_safety(options, loaded),
            validate=_validator(options, gathered, api, memory),
            judge=lambda move, node: check_landing(prepared, plan, move, node, memory.moved),
            journal=stack.enter_context(_journal(run_options, run_id)),
            lease=None if run_options.dry_run else _lease(run_options, api, run_id),
            schedulers=(SchedulerLocation(name="kube-scheduler"),),
            max_duration_seconds=run_options.max_duration_seconds,
            stop_requested=stop.is_set,
            observer=observer,
            checkpoint=memory.checkpoint,
            events=None if run_options.dry_run else EventWriter(api, _REPORTER, time.time),
            dry_run=run_options.dry_run,
        )
        outcomes = carry_out(plan, context)
    return plan, outcomes


def _next_state(gathered: Gathered, state: RunState | None, hot: Sequence[str]) -> RunState:
    """The state with this run's hot nodes and, where a source knows only the present, its loads."""
    now, window = gathered.inputs.now, gathered.loaded.policy.load.window
    return after_reading(after_plan(state, hot, now), gathered.present, now, window)


class _Memory:
    """Keeps the run's state in its store; nothing where there is none."""

    def __init__(
        self,
        store: StateStore | None,
        before: RunState | None,
        state: RunState | None,
        loaded: LoadedPolicy,
    ) -> None:
        self.before = before  # what earlier runs knew
        self.moved: tuple[PastMove, ...] = ()  # by this run, so far
        self._store = store
        self._state = state
        self._horizon = memory_seconds(loaded.policy)

    def keep(self) -> None:
        """Write the state as it is."""
        if self._store is not None and self._state is not None:
            self._state = self._store.save(self._state)

    def overtaken(self) -> bool:
        """Whether another run has moved pods since this one read the state."""
        latest = self._store.load() if self._store is not None else None
        known = {move.uid for move in self.before.moves} if self.before else set()
        return latest is not None and any(move.uid not in known for move in latest.moves)

    def checkpoint(self, outcomes: Sequence[Outcome]) -> None:
        """Add what is known of the moves so far, and write."""
        self.moved = past_moves(outcomes)
        if self._store is not None:
            self._state = after_outcomes(self._state, outcomes, time.time(), self._horizon)
            self.keep()


def _store(options: PipelineOptions, run_options: RunOptions, api: RawApi) -> StateStore | None:
    if run_options.state_config_map:
        namespace, name = run_options.state_config_map.split("/")
        return ConfigMapStore(api, namespace, name)
    return FileStore(options.state_path) if options.state_path else None


def _refuse_unverified(gathered: Gathered) -> None:
    allowed = gathered.loaded.policy.scheduler.allow_unverified_version
    if gathered.version != VERIFIED and not allowed:
        raise SafetyError(
            f"scheduler {gathered.version or '(version unknown)'}: only {VERIFIED} was verified",
            where=gathered.inputs.snapshot.source,
            hint="set scheduler.allowUnverifiedVersion: true in the policy to act all the same",
        )


def _safety(options: PipelineOptions, loaded: LoadedPolicy) -> Callable[[], Safety]:
    """The brakes as the policy says them now: a mounted policy may change while a run goes on."""
    path = options.policy_path
    if path is None:
        return lambda: loaded.policy.safety
    return lambda: load_policy(path).policy.safety


def _validator(
    options: PipelineOptions, planned: Gathered, api: RawApi, memory: _Memory
) -> Callable[[Sequence[Move]], Mapping[str, str | Move]]:
    """Before the first wave the plan is fresh; before every later one the cluster is read again.

    What this run moved already corrects figures whose windows began before, but puts nothing into
    cooldown: several pods of a workload may be part of one plan.
    """
    first = threading.Event()
    read = [(planned.inputs.now, planned.inputs.view)]

    def validate(moves: Sequence[Move]) -> Mapping[str, str | Move]:
        if not first.is_set():
            first.set()
            # Between planning and taking the lease another run may have held it.
            reason = "another run has moved pods since this plan was made"
            return {move.pod.uid: reason for move in moves} if memory.overtaken() else {}
        inputs = gather(options, planned.loaded, api, memory.before).inputs
        oldest = inputs.now - SCHEDULER_LAG_SECONDS
        earlier = [view for moment, view in read if moment <= oldest][-1:] or [read[0][1]]
        read.append((inputs.now, inputs.view))
        return revalidate_moves(dataclasses.replace(inputs, earlier_view=earlier[0]), moves, memory.moved)

    return validate


def _journal(run_options: RunOptions, run_id: str) -> Journal:
    if run_options.journal is not None:
        return Journal.to_file(run_options.journal, run_id, time.time)
    return Journal(sys.stderr, run_id, time.time)


def _lease(run_options: RunOptions, api: RawApi, run_id: str) -> RunLease:
    namespace, name = run_options.lease.split("/")
    return RunLease(api, namespace, name, run_id, time.time)
