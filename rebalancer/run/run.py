"""A run that acts: lease, state, read, plan, act, in this order and each from what the step before returned.

No step can be taken out of its turn: the state is read under a held lease, the plan is made from that state,
and only that plan is carried out. Were it otherwise, two runs at once could plan from the same state and move
the same workload twice:

    run A  reads the state, plans web-1                 takes the lease, evicts web-1, writes it
    run B        reads the state, plans web-2 of the same workload ...     takes the lease, evicts web-2

A run by itself connects, reads its policy, hears signals and takes the lease. A service does all that once,
and hands it to each of its runs as a ``RunEnvironment``. While a user reads the plan and answers, the cluster
goes on; how old the plan may be is asked of ``PlanAge``:

    answered within 30 s      carried out as it is
    answered within 180 s     its first wave is checked again, as every later wave is
    answered later            refused; the lease was held all that time, and other runs waited for it
"""

from __future__ import annotations

import logging
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import msgspec
from msgspec.structs import replace

from rebalancer import files
from rebalancer.cluster.kinds import REPLICATION_CONTROLLERS
from rebalancer.cluster.live import RawApi
from rebalancer.cluster.nodes import NodeTable
from rebalancer.cluster.pods import version_number
from rebalancer.cluster.records import LabelSelector
from rebalancer.cluster.selectors import query
from rebalancer.cluster.snapshot import Snapshot
from rebalancer.deadlines import Deadline, StopRequest
from rebalancer.documents import read_text_again
from rebalancer.errors import SafetyError, StopRequestedError, UnreachableError
from rebalancer.execution.clock import RunClock
from rebalancer.execution.events import EventWriter, Subscriber
from rebalancer.execution.journal import Journal
from rebalancer.execution.lease import HeldLease, RunLease, holder_identity
from rebalancer.execution.observed_pods import ObservedPod
from rebalancer.execution.outcomes import Outcome, Outcomes, with_taints_left
from rebalancer.execution.safety import SafetyChecks
from rebalancer.execution.waves import RunContext, WorkloadPods, carry_out
from rebalancer.load.scheduler_view import SchedulerView
from rebalancer.observe.plan_options import (
    MAX_CONFIRMATION_SECONDS,
    PlanOptions,
    RunOptions,
    open_api,
    policy_of,
)
from rebalancer.observe.read import open_cluster, read_planners, state_store
from rebalancer.planning.inputs import FRESH_RUN, PlanningInputs, RunSoFar
from rebalancer.planning.other_deschedulers import ensure_allowed
from rebalancer.planning.plan import Move, Plan, Progress
from rebalancer.planning.planner import Planner
from rebalancer.planning.reasons import Reason
from rebalancer.planning.scheduler_location import schedulers_of
from rebalancer.planning.unmatched_settings import ensure_protections
from rebalancer.planning.unverified_schedulers import not_acted_on
from rebalancer.planning.workloads.rolling_updates import min_ready_seconds
from rebalancer.policy.policy_file import LoadedPolicy, parse_policy
from rebalancer.policy.scopes import has_changed
from rebalancer.run.memory import RunMemory, finding
from rebalancer.run.taints import RunTaints
from rebalancer.signals import stop_on_signal
from rebalancer.state.run_state import RunState, memory_seconds
from rebalancer.telemetry import span

if TYPE_CHECKING:
    from rebalancer.cluster.live.watching import LiveCluster


LOGGER = logging.getLogger(__name__)
MAX_STALE_VIEWS = 3
MAX_FRESH_SECONDS = 30.0
_REPORTER = "rebalancer"

_Result = TypeVar("_Result")


def selectors_of(snapshot: Snapshot) -> Callable[[Move], str]:
    """The label selector of the controller of a move's pod, as a LIST takes it: not its whole namespace.

    Empty where it is not known, as for controllers of add-ons, which are not read.
    """

    def selector_of(move: Move) -> str:
        # A rolling update makes another ReplicaSet: its Deployment selects the pods of both.
        uid = move.pod.workload_uid if move.is_restart else move.pod.controller_uid
        workload = snapshot.workloads.get(uid)
        if workload is None:
            return ""
        kind, record = workload
        try:
            if kind is REPLICATION_CONTROLLERS:  # a plain map
                labels = msgspec.convert(record.spec.selector, dict[str, str])
                return query(LabelSelector(match_labels=labels))
            return query(msgspec.convert(record.spec.selector, LabelSelector))
        except (ValueError, TypeError):
            return ""

    return selector_of


def min_ready_seconds_in(snapshot: Snapshot) -> Callable[[Move], float]:
    """For how long a move's replacement has to be ready before its controller calls it available."""

    def min_ready_seconds_of(move: Move) -> float:
        if move.pod.controller_uid not in snapshot.workloads:
            return 0.0
        _, workload = snapshot.workloads[move.pod.controller_uid]
        return min_ready_seconds(workload)

    return min_ready_seconds_of


class PlanAge:
    """The time since a plan was made, by the monotonic clock."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._made_at = clock()

    @property
    def seconds(self) -> float:
        """Since the plan was made."""
        return self._clock() - self._made_at

    @property
    def fresh(self) -> bool:
        """Whether its moves may be made without reading the cluster again."""
        return self.seconds <= MAX_FRESH_SECONDS

    def ensure_usable(self) -> None:
        """Raise SafetyError for a plan that is too old even to be checked again."""
        if self.seconds > MAX_CONFIRMATION_SECONDS:
            raise SafetyError(
                f"the plan was {self.seconds:.0f} s old when it was confirmed; nothing was evicted",
                hint=f"answer within {MAX_CONFIRMATION_SECONDS:.0f} s, or evict without a question by --yes",
            )


class RunEnvironment(msgspec.Struct, frozen=True, kw_only=True):
    """The connection, the policy, the request to stop, and the lease if somebody else takes and renews it."""

    api: RawApi
    cluster: LiveCluster  # read again and again, by one run or by many
    loaded: LoadedPolicy
    stop: StopRequest
    policy_now: Callable[[], LoadedPolicy]  # as its file says now: a mounted one may change meanwhile
    held: HeldLease | None = None  # None: the run takes the lease itself


def run_environment(options: PlanOptions, stop: StopRequest) -> RunEnvironment:
    """Those of a run by itself. Raises InputError where there is no usable policy or no credentials."""
    api = open_api(options)
    assert api is not None  # the commands that act refuse a recorded cluster
    api = api.until(Deadline(stop=stop))
    loaded = policy_of(options)
    return RunEnvironment(
        api=api,
        cluster=open_cluster(api),
        loaded=loaded,
        stop=stop,
        policy_now=reread(options, loaded),
    )


def reread(options: PlanOptions, loaded: LoadedPolicy) -> Callable[[], LoadedPolicy]:
    """The policy as its file says now: a mounted one may change while a run goes on.

    What came through a pipe cannot be read again, and stays as it was.
    """
    path = options.policy_path
    if path is None or (files.may_exist(path) and not files.is_file(path)):
        return lambda: loaded
    return lambda: parse_policy(read_text_again(path), str(path))


class _Planned(msgspec.Struct, frozen=True):
    """A plan, and what made it."""

    planner: Planner
    plan: Plan
    age: PlanAge

    @property
    def inputs(self) -> PlanningInputs:
        """What it was made from."""
        return self.planner.inputs


def run(
    options: PlanOptions,
    run_options: RunOptions,
    observers: Sequence[Subscriber],
    stop: StopRequest,
    show_plan: Callable[[Plan], None] = lambda _: None,
) -> tuple[Plan, Outcomes]:
    """Plan as ``make_plan`` does, show the plan, carry it out and keep what became of it for later runs.

    Signals set the request to stop as soon as there is something that must end in order.
    """
    environment = run_environment(options, stop)
    with stop_on_signal(stop), environment.cluster:
        return Run(environment, options, run_options, observers, show_plan).finish()


class Run(msgspec.Struct, eq=False, dict=True):
    """One run of a program that makes one, or one after another.

    A dry run takes the same steps without a lease: it asks the API server whether it would allow each
    eviction, and leaves no trace.
    """

    _environment: RunEnvironment
    _options: PlanOptions
    _run_options: RunOptions
    _observers: Sequence[Subscriber]
    _show_plan: Callable[[Plan], None]
    _taints: RunTaints | None = None  # None before its plan
    _closed: tuple[str, ...] | None = None  # the nodes that it empties; the same

    def __post_init__(self) -> None:
        self._began = time.monotonic()
        api = self._environment.api
        stop = self._environment.stop
        self._policy = self._environment.loaded.policy
        given = self._run_options.max_duration_seconds
        self._most_seconds = given if given is not None else self._policy.execution.max_duration
        last_wave_at = self._began + (self._most_seconds or float("inf"))
        self._end = last_wave_at + self._policy.execution.wave_timeout
        self._api = api.until(Deadline(self._end, stop=stop))
        # What a wave needs before it begins is of no use after the last one may begin.
        self._reading_api = api.until(Deadline(last_wave_at, stop=stop))
        # A dry run decides by the state of the run that it announces, though that may not be there yet.
        self._store = state_store(self._options, self._api, acts=True)
        self.id = uuid.uuid4().hex

    def finish(self) -> tuple[Plan, Outcomes]:
        """Take all steps. Raises LeaseHeldError before anything is read or written, and their errors."""
        with span("run", run=self.id):
            planned, outcomes = self.carry_out()
        return planned.plan, outcomes

    def carry_out(self) -> tuple[_Planned, Outcomes]:
        """Take the steps; the one place that says in which order. Raises as ``finish``."""
        with self.lease() as held:
            memory = self.memory(held)
            planned = self.plan(self.read(memory), memory)
            return planned, self.act(planned, held, memory)

    @contextmanager
    def lease(self) -> Iterator[HeldLease | None]:
        """Take the lease and renew it, unless the environment does, or nothing is changed."""
        if self._run_options.dry_run or self._environment.held is not None:
            yield None if self._run_options.dry_run else self._environment.held
            return
        held = self._run_lease.acquire()
        try:
            with held.renewed_meanwhile():
                yield held
        finally:
            held.release()

    def memory(self, held: HeldLease | None) -> RunMemory:
        """Read the state."""
        if held is None:
            return RunMemory.read_only(self._store)
        server_time = self._api.client.server_time
        return RunMemory.under(
            held, self._store, self.id, memory_seconds(self._policy), time.time, server_time
        )

    def read(self, memory: RunMemory) -> Planner:
        """Observe the cluster, and assemble what a plan is made from."""
        return self._in_time(lambda: self._observed(memory.before, FRESH_RUN))

    def _observed(self, state: RunState | None, so_far: RunSoFar) -> Planner:
        given = (self._options, (self._environment.loaded,), self._reading_api, state)
        (planner,) = read_planners(*given, cluster=self._environment.cluster)
        # A move of a wave that has begun is placed anew after that too.
        ensure_wanted = partial(self._api.retries.run.check, "plan")
        tainted = None if self._taints is None else self._taints.of_wave
        return replace(
            planner,
            so_far=replace(so_far, tainted=tainted, closed=self._closed),
            options=replace(planner.options, ensure_wanted=ensure_wanted),
        )

    def plan(self, planner: Planner, memory: RunMemory) -> _Planned:
        """Plan and show the plan; refuse one that must not be carried out."""

        def plan() -> _Planned:
            planned = _planned(planner)
            if self._run_options.dry_run:
                planned = replace(
                    planned, plan=replace(planned.plan, runs=planner.in_later_run(planned.plan))
                )
            self._show_plan(planned.plan)
            return planned

        planned = self._in_time(plan)
        planned.age.ensure_usable()
        ensure_allowed(planned.inputs.snapshot, planned.inputs.policy.safety)
        ensure_protections(planned.inputs.policy, planned.inputs.snapshot)
        _refuse_unverified(planned.inputs, planned.plan)
        rates = " and ".join(self._policy.limits.rates)
        if rates and memory.before is None:
            raise SafetyError(
                f"limits: {rates} count what earlier runs evicted, and this run has no state of them",
                hint="name one with --state or --state-config-map",
            )
        memory.keep_finding(finding(planned.inputs, planned.plan))
        return planned

    def _in_time(self, work: Callable[[], _Result]) -> _Result:
        try:
            result = work()
        except UnreachableError as error:
            seconds = self._most_seconds
            if seconds is None or time.monotonic() < self._began + seconds:
                raise
            why = "; ".join(filter(None, (self._api.client.slowness(), str(error))))
            raise SafetyError(
                f"the run reached its longest duration of {seconds:.0f} s before it had a plan: {why}",
                hint="give it more time with --max-duration, or execution.maxDuration of the policy",
            ) from error
        if self._environment.stop.is_set():
            raise StopRequestedError("asked to stop by a signal")
        return result

    def act(self, planned: _Planned, held: HeldLease | None, memory: RunMemory) -> Outcomes:
        """Evict in waves, each checked again before it begins."""
        run_options = self._run_options
        stop = self._environment.stop
        lease = self._lease_place
        events = () if run_options.dry_run else (EventWriter(self._api, _REPORTER, time.time, lease),)
        inputs = planned.inputs
        replanner = _Replanner(planned, memory, self._observed)
        self._closed = planned.plan.closed
        emptied: set[str] = set()
        path = run_options.journal
        to_stderr = Journal(sys.stderr, self.id, time.time)
        with to_stderr if path is None else Journal.to_file(path, self.id, time.time) as journal:
            taints = RunTaints(
                api=self._api,
                lease=lease,
                run=self.id,
                began=self._began,
                execution=self._policy.execution,
                journal=journal,
                events=events,
                dry_run=run_options.dry_run,
                seen=lambda: replanner.nodes_read.taints,
            )
            self._taints = taints
            replanner.taints = taints
            context = RunContext(
                run=self.id,
                api=self._api,
                clock=RunClock(
                    now=time.time,
                    monotonic=self._api.retries.clock,
                    sleep=stop.wait,
                    began=self._began,
                    max_duration_seconds=self._most_seconds,
                    stop_requested=stop.is_set,
                    steers_for=lambda: taints.seconds,
                    slowness=self._api.client.slowness,
                ),
                execution=self._policy.execution,
                safety=SafetyChecks(
                    policy=self._environment.loaded,
                    policy_now=self._environment.policy_now,
                    why_paused=self._run_lease.why_paused,
                    agreement=memory.before.agreement if memory.before is not None else None,
                ),
                replanner=replanner,
                schedulers_of=lambda plan: schedulers_of(plan, replanner.inputs),
                journal=journal,
                lease=held,
                pods=WorkloadPods(
                    selector_of=selectors_of(inputs.snapshot),
                    min_ready_seconds_of=min_ready_seconds_in(inputs.snapshot),
                    watched=self._environment.cluster.pods_of,
                ),
                save=memory.checkpoint,
                shown_to=(*events, *self._observers),
                dry_run=run_options.dry_run,
                refused=_no_scheduler(inputs, planned.plan),
                tainted=taints.of_wave_with,
            )
            with taints.of_plan(planned.plan, inputs.snapshot, inputs.now, emptied):
                outcomes = carry_out(planned.plan, context)
                emptied.update(_emptied(planned.plan.closed, outcomes))
        return with_taints_left(outcomes, taints.left_behind)

    @property
    def _run_lease(self) -> RunLease:
        return RunLease(self._api, *self._lease_place, holder_identity(self.id), time.time)

    @property
    def _lease_place(self) -> tuple[str, str]:
        namespace, name = self._run_options.lease.split("/")
        return namespace, name


def _emptied(closed: Sequence[str], outcomes: Outcomes) -> Iterator[str]:
    """The closed nodes that each pod left which was to leave them, with the empty ones if there are any."""
    left = {outcome.move.from_node for outcome in outcomes.outcomes if outcome.result.landed}
    stuck = {outcome.move.from_node for outcome in outcomes.outcomes if not outcome.result.landed}
    if not (left - stuck).isdisjoint(closed):
        yield from (name for name in closed if name not in stuck)


def _planned(planner: Planner, waves: int = 0) -> _Planned:
    """Plan; the waves are numbered from the one after ``waves``. Raises SafetyError as the planner does."""
    with span("plan") as planning:
        plan = planner.plan()
        planning.add(hot_nodes=plan.hot_count, moves=len(plan.moves))
    moves = tuple(replace(move, wave=waves + move.wave) for move in plan.moves) if waves else plan.moves
    return _Planned(planner, replace(plan, moves=moves), PlanAge())


def _refuse_unverified(inputs: PlanningInputs, plan: Plan) -> None:
    """An unverified scheduler is acted on if no rule in which it differs is in use by the plan's pods."""
    pods = inputs.snapshot.pods
    moved = [pods.class_of(pods.row[move.pod.namespace, move.pod.name]) for move in plan.moves]
    for scheduler, sentence in not_acted_on(inputs, moved):
        raise SafetyError(
            sentence,
            where=inputs.snapshot.source,
            hint=(
                f"in the policy, set {'' if scheduler.version else 'scheduler.version, or '}"
                "scheduler.allowUnverifiedVersion: true to act all the same"
            ),
        )


def _no_scheduler(inputs: PlanningInputs, plan: Plan) -> str:
    """Why a plan moves nothing for want of a scheduler; empty where it moves something, or nothing should."""
    if plan.moves or not any(pod.reason == Reason.SCHEDULER_NOT_ALIVE for pod in plan.kept):
        return ""
    return next(scheduler.not_alive for scheduler in inputs.schedulers if scheduler.not_alive)


class _Replanner(msgspec.Struct, eq=False, dict=True):
    """Judges moves as the plan did; before every wave but a fresh first one the cluster is read again.

    What this run moved already corrects figures whose windows began before, but puts nothing into
    cooldown: several pods of a workload may be part of one plan.
    """

    _planned: _Planned
    _memory: RunMemory
    _read_again: Callable[[RunState | None, RunSoFar], Planner]
    clock: Callable[[], float] = time.time
    taints: RunTaints | None = None

    def __post_init__(self) -> None:
        self.nodes_read: NodeTable = self._planned.inputs.snapshot.nodes
        self._read = [_views_of(self._planned.inputs)]
        self._begin(self._planned)

    def _begin(self, planned: _Planned) -> None:
        self._planned = planned
        self._is_first = True
        self._of_wave = planned.planner  # by the cluster before this wave
        # By the uid of its pod, what was known when a move was checked last, if not when the plan was made.
        self._checked: dict[str, tuple[float, int]] = {}

    def validate(
        self, moves: Sequence[Move], progress: Progress, landed: Sequence[Outcome] = ()
    ) -> Mapping[str, str | Move]:
        """See Replanner. Raises StopRequestedError when a signal comes meanwhile."""
        was_first = self._is_first
        self._is_first = False
        if was_first and self._planned.age.fresh:
            return {}
        # A move that is looked at again just before it is made is announced already.
        asked = {move.pod.uid for move in moves}
        moved = tuple(past for past in self._memory.moved_with(landed) if past.uid not in asked)
        planner = self._planned.planner
        so_far = replace(planner.so_far, moved=moved, hot=planner.hot_in_run)
        planner = self._planner(self._memory.before, so_far)
        wave = min((move.wave for move in moves), default=0)
        verdicts = planner.recheck(moves, progress, through=wave)
        for pod in (move.pod for move in moves if move.pod.uid in verdicts):
            self._checked[pod.uid] = _seen(planner.inputs, pod.namespace, pod.name)
        self._of_wave = planner
        return verdicts

    @property
    def inputs(self) -> PlanningInputs:
        """What the plan that is carried out was made from."""
        return self._planned.inputs

    def plan_again(self, made: Sequence[Move], waves: int) -> Plan:
        """See Replanner. Raises StopRequestedError when a signal comes meanwhile."""
        so_far = RunSoFar(made=tuple(made), hot=self._planned.planner.hot_in_run)
        planner = self._planner(self._memory.now(self._planned.plan), so_far)
        planned = _planned(planner, waves)
        ensure_allowed(planned.inputs.snapshot, planned.inputs.policy.safety)
        _refuse_unverified(planned.inputs, planned.plan)
        if planned.plan.moves and self.taints is not None:
            self.taints.renew()  # this changes nodes, and awaits the answers whatever signal comes
        self._begin(planned)
        return planned.plan

    def has_seen(self, pod: ObservedPod) -> bool:
        """See Replanner."""
        metadata = pod.metadata
        checked = self._checked.get(metadata.uid)
        moment, version = checked or _seen(self.inputs, metadata.namespace, metadata.name)
        if has_changed(self.inputs.policy.evictable, moment, self.clock()):  # a wave may outlast a window
            return False
        return 0 <= version_number(metadata.resource_version) == version

    def next_in_wave(self, landed: Sequence[Outcome], move: Move, progress: Progress) -> str | Move:
        """See Replanner."""
        pairs = [(outcome.move, outcome.node) for outcome in landed]
        tainted = () if self.taints is None else self.taints.of_wave or ()
        return self._of_wave.next_in_wave(pairs, move, progress, tainted=tainted)

    def _planner(self, state: RunState | None, so_far: RunSoFar) -> Planner:
        """Read the cluster again, with the figures that the scheduler may still have."""
        planner = self._read_again(state, so_far)
        inputs = planner.inputs
        self.nodes_read = inputs.snapshot.nodes
        schedulers = []
        for scheduler in inputs.schedulers:
            read = [(now, views[scheduler.name]) for now, views in self._read if scheduler.name in views]
            stale = stale_views(read, inputs.now - scheduler.view.lag_seconds) if read else ()
            schedulers.append(replace(scheduler, stale_views=stale))
        self._read.append(_views_of(inputs))
        return replace(planner, inputs=replace(inputs, schedulers=tuple(schedulers)))

    def check_landing(self, move: Move, node: str) -> str | None:
        """See Replanner."""
        return self._planned.planner.landed_well(self._planned.plan, move, node, self._memory.moved)


def _views_of(inputs: PlanningInputs) -> tuple[float, Mapping[str, SchedulerView]]:
    """The moment of the inputs, in Unix seconds, and what each scheduler saw then, by its name."""
    return inputs.now, {scheduler.name: scheduler.view for scheduler in inputs.schedulers}


def _seen(inputs: PlanningInputs, namespace: str, name: str) -> tuple[float, int]:
    """The moment of the inputs, in Unix seconds, and the version that a pod had then; -1 for no pod."""
    pods = inputs.snapshot.pods.with_finished
    row = pods.row.get((namespace, name))
    return inputs.now, -1 if row is None else pods.fields(row).version


def stale_views(read: Sequence[tuple[float, SchedulerView]], oldest: float) -> tuple[SchedulerView, ...]:
    """Of the views read so far, with the moments of reading, those that a scheduler may still have.

    It renewed its figures since ``oldest``: by then it had the last view from before, at the latest. At most
    ``MAX_STALE_VIEWS`` of them, the first and the newest: each is one more scenario.
    """
    begin = max((index for index, (moment, _) in enumerate(read) if moment <= oldest), default=0)
    views = [view for _, view in read[begin:]]
    return (views[0], *views[1:][-(MAX_STALE_VIEWS - 1) :])
