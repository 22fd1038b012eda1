"""What ``run`` does: plan as ``plan`` does, check the plan again before each wave, and carry it out."""

from __future__ import annotations

import dataclasses
import sys
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack

from rebalancer.cluster.live import RawApi
from rebalancer.errors import SafetyError
from rebalancer.execution import (
    EventWriter,
    Journal,
    Observer,
    Outcomes,
    RunContext,
    RunLease,
    SchedulerLocation,
    carry_out,
)
from rebalancer.pipeline.gathering import Gathered, gather, open_api, policy_of
from rebalancer.pipeline.run_memory import RunMemory
from rebalancer.pipeline.run_settings import PipelineOptions, RunOptions
from rebalancer.pipeline.signals import stop_on_signal
from rebalancer.planning import (
    Move,
    Plan,
    PlanningInputs,
    check_landing,
    plan_prepared,
    prepare,
    revalidate_moves,
)
from rebalancer.policy import LoadedPolicy, load_policy
from rebalancer.policy.schema import Safety
from rebalancer.scheduling import SCHEDULER_LAG_SECONDS, verified_in_words, why_unverified
from rebalancer.state import (
    ConfigMapStore,
    FileStore,
    RunState,
    StateStore,
    after_plan,
    after_reading,
    memory_seconds,
)

_REPORTER = "rebalancer"


def run(
    options: PipelineOptions,
    run_options: RunOptions,
    observer: Observer,
    show_plan: Callable[[Plan], None] = lambda _: None,
) -> tuple[Plan, Outcomes]:
    """Plan as ``make_plan`` does, show the plan, carry it out and keep what became of it for later runs."""
    loaded = policy_of(options)
    api = open_api(options)
    assert api is not None  # the command refuses a recorded cluster
    store = _store(options, run_options, api)
    state = (store.load() or RunState()) if store else None
    gathered = gather(options, loaded, api, state)
    prepared = prepare(gathered.inputs)
    plan = plan_prepared(prepared)
    show_plan(plan)
    _refuse_unverified(gathered.inputs, plan)
    hot = [node.name for node in plan.nodes if node.hot]
    kept = None if run_options.dry_run else store  # a dry run leaves no trace
    next_state = _next_state(gathered, state, hot) if kept else None
    memory = RunMemory(kept, state, next_state, memory_seconds(loaded.policy))
    memory.keep()
    with ExitStack() as stack:
        stop = stack.enter_context(stop_on_signal())
        run_id = uuid.uuid4().hex
        api = api.pausing(stop.wait)
        context = RunContext(
            run=run_id,
            api=api,
            clock=time.time,
            sleep=stop.wait,
            execution=loaded.policy.execution,
            safety=_safety(options, loaded),
            validate=_validator(options, loaded, gathered.inputs, api, memory),
            check_landing=lambda move, node: check_landing(prepared, plan, move, node, memory.moved),
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
    """The state with this run's hot nodes and, where a source keeps no history, its loads."""
    now, window = gathered.inputs.now, gathered.inputs.policy.load.window
    return after_reading(after_plan(state, hot, now), gathered.current_load, now, window)


def _store(options: PipelineOptions, run_options: RunOptions, api: RawApi) -> StateStore | None:
    if run_options.state_config_map:
        namespace, name = run_options.state_config_map.split("/")
        return ConfigMapStore(api, namespace, name)
    return FileStore(options.state_path) if options.state_path else None


def _refuse_unverified(inputs: PlanningInputs, plan: Plan) -> None:
    """An unverified scheduler is acted on if no rule in which it differs is in use by the plan's pods."""
    version, pods = inputs.scheduler_version, inputs.snapshot.pods
    moved = (pods.class_of(pods.row[move.pod.namespace, move.pod.name]) for move in plan.moves)
    reason = why_unverified(version, moved)
    if reason and not inputs.policy.scheduler.allow_unverified_version:
        raise SafetyError(
            f"scheduler {version or '(version unknown)'}: {reason}; only {verified_in_words()} were verified",
            where=inputs.snapshot.source,
            hint="set scheduler.allowUnverifiedVersion: true in the policy to act all the same",
        )


def _safety(options: PipelineOptions, loaded: LoadedPolicy) -> Callable[[], Safety]:
    """The brakes as the policy has them now: a mounted policy may change while a run goes on."""
    path = options.policy_path
    if path is None:
        return lambda: loaded.policy.safety
    return lambda: load_policy(path).policy.safety


def _validator(
    options: PipelineOptions,
    loaded: LoadedPolicy,
    planned_from: PlanningInputs,
    api: RawApi,
    memory: RunMemory,
) -> Callable[[Sequence[Move]], Mapping[str, str | Move]]:
    """Before the first wave the plan is fresh; before every later one the cluster is read again.

    What this run moved already corrects figures whose windows began before, but puts nothing into
    cooldown: several pods of a workload may be part of one plan.
    """
    first = threading.Event()
    read = [(planned_from.now, planned_from.view)]

    def validate(moves: Sequence[Move]) -> Mapping[str, str | Move]:
        if not first.is_set():
            first.set()
            # Between planning and taking the lease another run may have held it.
            reason = "another run has moved pods since this plan was made"
            return {move.pod.uid: reason for move in moves} if memory.overtaken() else {}
        inputs = gather(options, loaded, api, memory.before).inputs
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
