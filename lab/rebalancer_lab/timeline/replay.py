"""What would have become of a recorded timeline under other policies, side by side.

Each row is a world of its own (``world``). At every moment pods leave and arrive as recorded, the policy
plans from what a run would have read, and its replacements land where the model draws them. What counts then
is the load until the next moment:

    12:00  recorded  a 85 %, b 30 %    hot above 80 %: 1 node hot
           default   moves web-1       a 70 %, b 45 %: none is hot until 12:05
    12:05  …

All rows are judged by the same thresholds, those of one policy, so that figures can be compared. Two rows
are always there: nothing done, and the descheduler's LowNodeUtilization. Where rebalancer itself evicted pods
in the recording, what it did is undone in every row but one, which shows it as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from statistics import median

import msgspec
import numpy as np
from msgspec.structs import replace

from rebalancer.cluster import times
from rebalancer.cluster.arrays import FloatArray, PodRow
from rebalancer.cluster.nodes import CPU, MEMORY, PODS_COLUMN
from rebalancer.cluster.snapshot import build_snapshot
from rebalancer.errors import InputError, RebalancerError, SafetyError, UnreachableError
from rebalancer.observe.plan_options import PlanOptions
from rebalancer.observe.read import observe
from rebalancer.observe.recorded import recorded_state
from rebalancer.planning.assemble import assemble, requests_by_pod
from rebalancer.planning.disruption_cost import Disruption
from rebalancer.planning.inputs import Observation, PlannerOptions, PlanningInputs
from rebalancer.planning.landing.scenarios import NOWHERE, LandingDraws
from rebalancer.planning.plan import API_VERSION, Value
from rebalancer.planning.planner import Planner
from rebalancer.planning.prepared import hotness_of
from rebalancer.planning.workloads.lookup import Workloads
from rebalancer.policy.hotness import ScoreRule
from rebalancer.policy.policy_file import (
    LoadedPolicy,
    measured_resources,
    pressure_resources,
    required_resources,
)
from rebalancer.state.results import Result
from rebalancer.state.run_state import (
    PastMove,
    RunState,
    after_moves,
    after_plan,
    after_reading,
    memory_seconds,
)
from rebalancer_lab.simulation.cycles import SimulatedExecution
from rebalancer_lab.timeline.descheduler import LowNodeUtilization
from rebalancer_lab.timeline.timeline import Happened, RecordedMoves, Timeline
from rebalancer_lab.timeline.world import Moment, World

NOTHING = "nothing done"
DESCHEDULER = "descheduler"
RECORDED = "as recorded"
_MAX_GAP = 3.0  # times the usual distance of moments: a longer gap in the recording counts no more
_DIGITS = 3
_MEASURED = ("cpu", "memory")


class ReplayedMove(Value, frozen=True):
    """A pod that was evicted, and where its replacement went."""

    pod: str  # namespace/name
    workload: str
    from_node: str
    node: str  # empty while Pending
    result: str
    cost: float  # of its disruption, by the judging policy's weights
    refused: str = ""  # why the recorded cluster would not have taken it, as of the next moment


class ReplayedMoment(Value, frozen=True):
    """A moment, once the row has acted; the load holds until the next one."""

    at: str
    minutes: float
    hot: int  # nodes
    peak: dict[str, float]  # the highest percent of allocatable of any node
    excess: float  # points above the thresholds, of all nodes
    pending: int  # pods without a node
    moves: tuple[ReplayedMove, ...] = ()
    stopped: str = ""  # why nothing was planned, or the run ended before its plan did


class Measures(Value, frozen=True):
    """One row: what a policy would have done to the recorded days, and for them."""

    policy: str
    hot_node_minutes: float
    excess_minutes: float  # points above the thresholds times minutes
    peak: dict[str, float]
    evictions: int
    disruption_cost: float
    moved_twice: int  # pods that moved more than once
    pending_minutes: float
    refused_landings: int  # that the recorded cluster would not have taken
    unexpected: int  # landings that the plan did not allow for
    refusals: int  # moments at which the policy would not act
    moments: tuple[ReplayedMoment, ...] = ()

    @property
    def refusal(self) -> str:
        """At how many moments it would not act, and why at the first of them; empty where at none."""
        if not self.refusals:
            return ""
        why = next(moment.stopped for moment in self.moments if moment.stopped and not moment.moves)
        return f"would not act at {self.refusals} of {len(self.moments)} moments: {why}"


class Reproduction(Value, frozen=True):
    """How closely the model alone reproduces the recording, with no policy; points of percent."""

    arrivals: int  # pods that came
    as_recorded: int  # of them, those whose recorded node was among the landings computed
    mean_error: float  # over nodes, resources and moments
    largest_error: float


class Replay(Value, frozen=True):
    """Policies side by side over the same recorded timeline."""

    source: str
    begins: str
    ends: str
    minutes: float  # that count
    seed: int
    judge: str  # the policy whose thresholds say what is hot
    runs: tuple[Measures, ...]
    reproduction: Reproduction | None = None
    happened: Happened = Happened()
    left_out: tuple[str, ...] = ()  # moments that could not be read or judged, and why
    warnings: tuple[str, ...] = ()
    api_version: str = API_VERSION
    kind: str = "Replay"


class Span(msgspec.Struct, frozen=True):
    """Which part of a timeline is replayed; Unix seconds, both ends included."""

    begins: float = float("-inf")
    ends: float = float("inf")


def replay(
    timeline: Timeline,
    policies: Sequence[tuple[str, LoadedPolicy]],
    *,
    seed: int,
    judge: LoadedPolicy | None = None,
    descheduler: LowNodeUtilization | None = None,
    baselines: bool = True,
    span: Span = Span(),  # noqa: B008 - frozen
    options: PlanOptions = PlanOptions(),  # noqa: B008 - frozen
    warnings: tuple[str, ...] = (),
    progress: Callable[[str], None] = lambda _: None,
) -> Replay:
    """Replay a timeline under policies, given by name; the same arguments, the same result.

    ``judge`` says by its thresholds what is hot; by default the first policy. Without ``baselines`` only the
    policies have a row, and nothing is said of how closely the recording is reproduced. Of ``options`` those
    about the scheduler count. Raises InputError where no moment can be read and judged.
    """
    judged = judge or policies[0][1]
    rows = [_Row(name, seed, policy=loaded) for name, loaded in policies]
    check = None
    if baselines:
        rule = descheduler or LowNodeUtilization()
        rows = [_Row(NOTHING, seed), _Row(DESCHEDULER, seed, rule=rule), *rows]
        check = _Check(World(np.random.default_rng((seed, 2)), always_place=True))
    recorded_moves = RecordedMoves()
    as_recorded = _Row(RECORDED, seed)
    left_out: list[str] = []
    moments = [at for at in timeline.moments() if span.begins <= at <= span.ends]
    minutes = _minutes(moments)
    counted = 0.0
    happened = Happened()
    before = None
    every = (judged, *(loaded for _, loaded in policies))
    for moment, observation in _read(timeline, moments, every, options, left_out):
        state = recorded_state(moment.snapshot.recording)
        undone = recorded_moves.of(moment)
        happened = happened.and_then(moment)
        try:
            reading = _Reading(observation)
            inputs = reading.inputs(judged, state)
            standard = _Standard(inputs)
        except RebalancerError as error:
            left_out.append(f"{times.render(moment.at)}: {error.args[0]}")
            continue
        counted += minutes[moment.at]
        for row in [*rows, as_recorded] if baselines else rows:
            row.advance(moment, {} if row is as_recorded else undone, inputs, minutes[moment.at])
            row.act(moment, reading, inputs, standard)
        if baselines:
            as_recorded.tell(recorded_moves.take(), moment, before or standard)
        before = standard
        if check is not None:
            check.advance(moment, inputs)
        progress(times.render(moment.at))
    if not counted:
        raise InputError(
            f"no moment can be replayed: {left_out[0] if left_out else 'none is recorded then'}",
            where=str(timeline.folder),
        )
    if baselines and recorded_moves.replacements:
        rows = [rows[0], as_recorded, *rows[1:]]
    return Replay(
        source=str(timeline.folder),
        begins=times.render(moments[0]),
        ends=times.render(moments[-1]),
        minutes=round(counted, _DIGITS),
        seed=seed,
        judge=judged.policy.metadata.name,
        runs=tuple(row.measures() for row in rows),
        reproduction=check.reproduction() if check is not None else None,
        happened=replace(happened, own_moves=len(recorded_moves.replacements)),
        left_out=tuple(left_out),
        warnings=warnings,
    )


def _read(
    timeline: Timeline,
    moments: Sequence[float],
    policies: Sequence[LoadedPolicy],
    options: PlanOptions,
    left_out: list[str],
) -> Iterator[tuple[Moment, Observation]]:
    """The moments that can be read, in order."""
    before: Moment | None = None
    for at in moments:
        try:
            snapshot = build_snapshot(timeline.recording(at))
            observation = observe(options, policies, None, environment={}, snapshot=snapshot)
        except InputError as error:
            left_out.append(f"{times.render(at)}: {error}")
            continue
        before = Moment(at, snapshot, before and replace(before, before=None))
        yield before, observation


def _minutes(moments: Sequence[float]) -> dict[float, float]:
    """How long the load of each moment holds."""
    gaps = [(later - at) / 60.0 for at, later in pairwise(moments)]
    usual = median(gaps) if gaps else 1.0
    return {at: min(gap, _MAX_GAP * usual) for at, gap in zip(moments, [*gaps, usual], strict=bool(moments))}


class _Standard:
    """What all rows are judged by, at one moment. Raises SafetyError where the load is not known."""

    def __init__(self, judged: PlanningInputs) -> None:
        self.load, hotness = hotness_of(judged)
        self._hot_above: FloatArray = hotness.makes_hot
        self.workloads = Workloads(judged.snapshot)
        self._disruption = Disruption(judged, self.workloads)

    def cost(self, row: PodRow) -> float:
        """Of restarting a pod."""
        return 1.0 + float(self._disruption.costs([row])[0])

    def points(self, percent: FloatArray) -> FloatArray:
        """(nodes,) points above the thresholds, by the worst resource of each; an unknown load has none."""
        with np.errstate(invalid="ignore"):
            over = percent - self._hot_above
        return np.asarray(np.where(over > 0.0, over, 0.0).max(axis=1), np.float64)


class _Reading:
    """What a moment means to each policy; policies that read the same of it share that."""

    def __init__(self, observation: Observation) -> None:
        self._observation = observation
        self._assembled: list[tuple[tuple[object, ...], PlanningInputs]] = []

    def inputs(self, loaded: LoadedPolicy, state: RunState | None) -> PlanningInputs:
        """What a plan by a policy is made from. Raises the errors of ``assemble``."""
        policy = loaded.policy
        key: tuple[object, ...] = (
            *(policy.load, policy.scheduler, policy.safety.unknown_scheduler),
            *(measured_resources(policy), required_resources(policy), pressure_resources(policy)),
            *(rule for rule in policy.hot_nodes.every_rule if isinstance(rule, ScoreRule)),
        )
        for other, assembled in self._assembled:
            if other == key:
                return replace(assembled, policy=policy, state=state)
        assembled = assemble(self._observation, loaded, state)
        if not assembled.present_load:  # else figures depend on what earlier runs sampled
            self._assembled.append((key, assembled))
        return assembled


class _Row:
    """One policy, and the world it acts in."""

    def __init__(
        self,
        name: str,
        seed: int,
        *,
        policy: LoadedPolicy | None = None,
        rule: LowNodeUtilization | None = None,
    ) -> None:
        self.name = name
        self._policy = policy
        self._rule = rule
        self._random = np.random.default_rng((seed, 1))
        self._draws = LandingDraws(self._random)
        self._world = World(np.random.default_rng((seed, 0)))
        self._state: RunState | None = None
        self._moments: list[ReplayedMoment] = []
        self._open: list[tuple[str, int]] = []  # uid of each landing of the last moment, and its place there
        self._moved: dict[str, int] = {}
        self._minutes = 0.0

    def advance(
        self, moment: Moment, undone: dict[str, str], recorded: PlanningInputs, minutes: float
    ) -> None:
        """Let a moment come, and hold the landings before it against what happened."""
        self._world.advance(moment, undone, recorded)
        self._minutes = minutes
        if self._open:
            self._judge_landings(moment)

    def _judge_landings(self, moment: Moment) -> None:
        """Whether the recorded cluster had room for them, one by one and in order."""
        nodes = moment.snapshot.nodes
        pods = moment.snapshot.pods
        requests = np.column_stack([requests_by_pod(moment.snapshot), np.ones(len(pods))])
        taken = np.zeros((len(nodes), 3))
        bound = pods.node >= 0
        np.add.at(taken, pods.node[bound], requests[bound])
        room = nodes.allocatable[:, [CPU, MEMORY, PODS_COLUMN]] - taken
        last = self._moments[-1]
        moves = list(last.moves)
        for uid, place in self._open:
            row = moment.row.get(uid)
            if row is None or not moves[place].node:
                continue
            node = nodes.row.get(moves[place].node, -1)
            why = ""
            if node < 0:
                why = "the node is gone"
            elif nodes.records[node].spec.unschedulable:
                why = "the node is cordoned"
            elif not nodes.ready[node]:
                why = "the node is not ready"
            elif int(pods.node[row]) != node:
                if (requests[row] > room[node] + 1e-6).any():
                    why = "others had taken its room"
                room[node] -= requests[row]
            if why:
                moves[place] = replace(moves[place], refused=why)
        self._moments[-1] = replace(last, moves=tuple(moves))

    def act(self, moment: Moment, reading: _Reading, recorded: PlanningInputs, standard: _Standard) -> None:
        """Plan and move as a run would at this moment, then keep what the load is."""
        moves: list[ReplayedMove] = []
        stopped = ""
        self._open = []
        try:
            if self._policy is not None:
                moves, stopped = self._run(moment, reading, self._policy, standard)
            elif self._rule is not None:
                moves = self._evict(moment, self._rule, recorded, standard)
        except (SafetyError, InputError, UnreachableError) as error:  # as a run of that moment would have
            stopped = str(error)
        percent = self._world.percent(moment, standard.load)
        points = standard.points(percent)
        self._moments.append(
            ReplayedMoment(
                at=times.render(moment.at),
                minutes=round(self._minutes, _DIGITS),
                hot=int(np.count_nonzero(points)),
                peak=_peak(percent),
                excess=round(float(points.sum()), _DIGITS),
                pending=self._world.pending(moment),
                moves=tuple(moves),
                stopped=stopped,
            )
        )

    def tell(self, made: Sequence[tuple[str, PastMove]], moment: Moment, before: _Standard) -> None:
        """Count moves that were made in the recording, by their pods' first uids; ``before`` weighs them."""
        rows = moment.before.row if moment.before else {}
        moves = [
            ReplayedMove(
                pod=f"{move.namespace}/{move.name}",
                workload=move.workload,
                from_node=move.from_node,
                node=move.to_node,
                result=move.result,
                cost=round(before.cost(PodRow(rows[move.uid])), _DIGITS) if move.uid in rows else 1.0,
            )
            for _, move in made
        ]
        for uid, _ in made:
            self._moved[uid] = self._moved.get(uid, 0) + 1
        self._moments[-1] = replace(self._moments[-1], moves=tuple(moves))

    def _run(
        self, moment: Moment, reading: _Reading, loaded: LoadedPolicy, standard: _Standard
    ) -> tuple[list[ReplayedMove], str]:
        state = self._state
        if state is None:  # what was known when the recording began
            state = recorded_state(moment.snapshot.recording) or RunState()
        inputs = self._world.inputs(moment, reading.inputs(loaded, state))
        planner = Planner(inputs, options=PlannerOptions(explains=False))
        plan = planner.plan()
        execution = SimulatedExecution(planner, self._random, self._draws)
        moves: list[ReplayedMove] = []
        names = moment.snapshot.nodes.names
        for outcome in execution.carry_out(plan):
            node = "" if outcome.node == NOWHERE else names[outcome.node]
            moves.append(self._moved_to(moment, outcome.row, node, outcome.result.value, standard))
        for row, at in execution.retry_pending():
            if moment.uids[row] in self._world.elsewhere:
                self._world.bind(moment, row, names[at])
        self._state = _after(state, inputs, [node.name for node in plan.nodes if node.hot], execution.made)
        return moves, execution.stopped

    def _evict(
        self, moment: Moment, rule: LowNodeUtilization, recorded: PlanningInputs, standard: _Standard
    ) -> list[ReplayedMove]:
        prepared = Planner(self._world.inputs(moment, recorded)).prepared
        names = moment.snapshot.nodes.names
        state = prepared.schedulers.state.copy()
        rows = rule.evictions(prepared)
        moves = []
        for row in rows:
            state.evict(row)
        for row in rows:
            kind = prepared.eviction.replacement(row).pod_class
            node = self._draws.node(prepared.schedulers.likely_scheduler(kind).place(state, kind))
            if node != NOWHERE:
                state.bind(state.add(kind), node)
            result = Result.PENDING if node == NOWHERE else Result.LANDED
            moves.append(
                self._moved_to(moment, row, "" if node == NOWHERE else names[node], result.value, standard)
            )
        return moves

    def _moved_to(
        self, moment: Moment, row: PodRow, node: str, result: str, standard: _Standard
    ) -> ReplayedMove:
        pods = moment.snapshot.pods
        uid = moment.uids[row]
        slot = self._world.elsewhere.get(uid)
        here = slot.node if slot else moment.snapshot.nodes.names[int(pods.node[row])]
        self._world.move(moment, row, node)
        self._moved[uid] = self._moved.get(uid, 0) + 1
        self._open.append((uid, len(self._open)))
        return ReplayedMove(
            pod=pods.full_name(row),
            workload=standard.workloads.of(row).name,
            from_node=here,
            node=node,
            result=result,
            cost=round(standard.cost(row), _DIGITS),
        )

    def measures(self) -> Measures:
        """The row, once the last moment is over."""
        moments = self._moments
        moves = [move for moment in moments for move in moment.moves]
        peak: dict[str, float] = {}
        for name in _MEASURED:
            peaks = [moment.peak[name] for moment in moments if name in moment.peak]
            if peaks:
                peak[name] = max(peaks)
        return Measures(
            policy=self.name,
            hot_node_minutes=round(sum(moment.hot * moment.minutes for moment in moments), _DIGITS),
            excess_minutes=round(sum(moment.excess * moment.minutes for moment in moments), _DIGITS),
            peak=peak,
            evictions=len(moves),
            disruption_cost=round(sum(move.cost for move in moves), _DIGITS),
            moved_twice=sum(times > 1 for times in self._moved.values()),
            pending_minutes=round(sum(moment.pending * moment.minutes for moment in moments), _DIGITS),
            refused_landings=sum(bool(move.refused) for move in moves),
            unexpected=sum(Result.of(move.result).is_bad for move in moves),
            refusals=sum(bool(moment.stopped) and not moment.moves for moment in moments),
            moments=tuple(moments),
        )


def _after(state: RunState, inputs: PlanningInputs, hot: Sequence[str], made: Sequence[PastMove]) -> RunState:
    """What the next run knows."""
    policy = inputs.policy
    now = inputs.now
    remembered = after_plan(state, hot, now, policy.hot_nodes.run_spacing_seconds)
    remembered = after_reading(remembered, inputs.present_load, now, policy.load.window)
    return after_moves(remembered, made, now, memory_seconds(policy))


def _peak(percent: FloatArray) -> dict[str, float]:
    by_resource = {
        name: column[~np.isnan(column)] for name, column in zip(_MEASURED, percent.T, strict=False)
    }
    return {name: round(float(column.max()), _DIGITS) for name, column in by_resource.items() if len(column)}


class _Check:
    """Whether the model alone, with no policy, puts pods where they went."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._sum = 0.0
        self._count = 0
        self._largest = 0.0

    def advance(self, moment: Moment, recorded: PlanningInputs) -> None:
        """Let a moment come, and compare the load of its nodes."""
        self._world.advance(moment, {}, recorded)
        measured = len(_MEASURED)
        wrong = np.abs(self._world.percent(moment, recorded.load) - recorded.load.percent)[:, :measured]
        wrong = wrong[~np.isnan(wrong)]
        self._sum += float(wrong.sum())
        self._count += len(wrong)
        self._largest = max(self._largest, float(wrong.max(initial=0.0)))

    def reproduction(self) -> Reproduction:
        """How far off it was."""
        return Reproduction(
            arrivals=self._world.placed,
            as_recorded=self._world.as_recorded,
            mean_error=round(self._sum / max(self._count, 1), _DIGITS),
            largest_error=round(self._largest, _DIGITS),
        )
