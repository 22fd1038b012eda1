"""The cycles of a simulation: plan, land, plan again where a run would, let time pass, and again.

A plan is carried out as a run does it, by landings that the model draws. Pods are evicted one after another.
Once a replacement is where it need not have been, what is left of the plan is looked at again, as a run does
before each wave and within it: moves that no longer hold are skipped.

    web-1 may land on b or c    it is on b
    web-2 to b                  b would be hot: skipped
    api-1 to d                  holds as before
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import inf

import msgspec
import numpy as np
from msgspec.structs import asdict

from rebalancer.cluster import times
from rebalancer.cluster.arrays import FloatArray, NodeRow, PodClassIndex, PodRow
from rebalancer.errors import SafetyError
from rebalancer.load.report import PERCENT_RESOURCES
from rebalancer.planning.inputs import PlannerOptions, PlanningInputs, RunSoFar
from rebalancer.planning.landing.scenarios import NOWHERE, LandingDraws
from rebalancer.planning.plan import Move, Plan, PodReference, Progress
from rebalancer.planning.planner import Planner
from rebalancer.planning.prepared import pods_leaving
from rebalancer.planning.reasons import NEVER_MOVE, Reason
from rebalancer.planning.warnings import sentences
from rebalancer.scheduling.framework.queue import waiting_pods
from rebalancer.state.results import Result
from rebalancer.state.run_state import (
    MoveHistory,
    PastMove,
    RunState,
    after_moves,
    after_plan,
    memory_seconds,
)
from rebalancer_lab.simulation.report import Cycle, LoadSpread, PolicyRun, SimulatedMove, Simulation
from rebalancer_lab.simulation.world import LoadShape, SimulatedCluster


class SimulatedOutcome(msgspec.Struct, frozen=True):
    """A move that was carried out, and where its replacement went."""

    move: Move
    row: PodRow
    node: NodeRow  # NOWHERE while Pending
    pod_class: PodClassIndex
    result: Result
    because: str

    def is_elsewhere(self, names: Sequence[str]) -> bool:
        """Whether its replacement is not where it most likely went."""
        return self.node != NOWHERE and names[self.node] != self.move.landings[0].node


class SimulatedExecution(msgspec.Struct, eq=False, dict=True):
    """The cluster while one plan is carried out.

    ``draws`` are those of the executions before, by the same scheduler. ``read_again`` reads the cluster as
    it is between two waves, in which the caller has made every outcome true that it was given; None where
    nothing is looked at again.
    """

    _planner: Planner
    _random: np.random.Generator
    draws: LandingDraws | None = None
    read_again: Callable[[tuple[PastMove, ...]], Planner] | None = None
    skipped: int = 0  # moves that did not hold any more
    stopped: str = ""

    def __post_init__(self) -> None:
        self._prepared = self._planner.prepared
        # The cluster before this wave; None: to be read where a move of the wave asks.
        self._of_wave: Planner | None = self._planner
        self._draws = self.draws or LandingDraws(self._random)
        self._state = self._prepared.schedulers.state.copy()
        self._on_unexpected = self._prepared.policy.execution.on_unexpected_landing
        self._made: list[PastMove] = []
        self._progress = Progress()
        self._is_as_foreseen = True  # every landing so far was the only one possible, and nothing was skipped

    def carry_out(self, plan: Plan) -> Iterator[SimulatedOutcome]:
        """Wave by wave; a run ends after the wave in which a replacement lands unacceptably or nowhere."""
        left = sorted(plan.moves, key=lambda move: move.wave)
        self._progress = Progress(left=left)
        while left:
            wave = left[0].wave
            if self._made:
                self._of_wave = None
            if self._made and not self._is_as_foreseen and self.read_again is not None:
                self._of_wave = self.read_again(self.made)
                verdicts = self._of_wave.recheck(left, self._progress, through=wave)
                holding = [self._holding(move, verdicts) for move in left]
                left = [move for move in holding if move is not None]
            outcomes = list(self._wave(plan, [move for move in left if move.wave == wave]))
            left = [move for move in left if move.wave != wave]
            yield from outcomes
            for outcome in outcomes:
                if outcome.result.ends_run(self._on_unexpected):
                    self.stopped = f"{outcome.move.pod.full_name}: {outcome.because}"
                    return

    def _holding(self, move: Move, verdicts: Mapping[str, str | Move]) -> Move | None:
        """A move as it is now; None, and counted, where it does not hold any more."""
        verdict = verdicts.get(move.pod.uid, move)
        if isinstance(verdict, Move):
            return verdict
        self._ended(move, made=False, stays=not verdict.startswith(Reason.NOT_NEEDED))
        self._is_as_foreseen = False
        self.skipped += 1
        return None

    def _wave(self, plan: Plan, moves: Sequence[Move]) -> Iterator[SimulatedOutcome]:
        state = self._state
        prepared = self._prepared
        pods = prepared.pods
        # Whether the scheduler acts before the evicted pods are gone is a race.
        still_terminating = self._random.random() < 0.5
        landed: list[tuple[Move, str]] = []
        evicted: list[PodRow] = []
        tainted = sorted({name for move in moves for name in move.avoids})
        prepared.steering.taint(state, tainted)
        for planned in moves:
            move = self._after(landed, planned, tainted)
            if move is None:
                continue
            row = PodRow(pods.row[move.pod.namespace, move.pod.name])
            candidate = prepared.candidate(row)
            if not candidate.restarted:  # such a pod serves until its replacement does
                if still_terminating and not prepared.eviction.workload(row).replaced_late:
                    state.evict(row)
                else:
                    state.remove(row)
            placed = candidate.replacement
            pod = state.add(placed)
            node = self._draws.node(prepared.schedulers.scheduler(placed).place(state, placed))
            if node != NOWHERE:
                state.bind(pod, node)
            evicted.append(row)
            result, because = self._result(plan, move, node)
            now = prepared.inputs.now
            if node == NOWHERE:
                past_move = move.made(result.value, "", now, None)
            else:
                past_move = move.made(result.value, prepared.nodes.names[node], now, now)
            self._made.append(past_move)
            self._ended(move, made=True)
            landed.append((move, past_move.to_node))
            self._is_as_foreseen &= [landing.node for landing in move.landings] == [past_move.to_node]
            pod_class = prepared.eviction.replacement(row).pod_class
            yield SimulatedOutcome(move, row, node, pod_class, result, because)
            if result.ends_run(self._on_unexpected):
                break
        prepared.steering.taint(state, ())
        for row in evicted:
            if state.node[row] >= 0:
                state.remove(row)

    def _after(self, landed: Sequence[tuple[Move, str]], move: Move, tainted: Sequence[str]) -> Move | None:
        """The next move of a wave after the landings of those before it; None where it does not hold."""
        if self.read_again is None or all(made.landing_nodes == [node] for made, node in landed):
            return move
        if self._of_wave is None:
            self._of_wave = self.read_again(self.made)
        verdict = self._of_wave.next_in_wave(landed, move, self._progress, tainted=tainted)
        return self._holding(move, {move.pod.uid: verdict})

    def _ended(self, move: Move, *, made: bool, stays: bool = False) -> None:
        progress = self._progress
        self._progress = Progress(
            made=[*progress.made, move] if made else progress.made,
            stayed=[*progress.stayed, move] if stays else progress.stayed,
            left=[remaining for remaining in progress.left if remaining.pod.uid != move.pod.uid],
        )

    @property
    def made(self) -> tuple[PastMove, ...]:
        """The moves carried out, as the next run remembers them."""
        return tuple(self._made)

    def _result(self, plan: Plan, move: Move, node: NodeRow) -> tuple[Result, str]:
        if node == NOWHERE:
            return Result.PENDING, "no node is feasible for its replacement"
        name = self._prepared.inputs.snapshot.nodes.names[node]
        if any(landing.node == name for landing in move.landings):
            return Result.LANDED, ""
        why = self._planner.landed_well(plan, move, name, self._made)
        return (Result.UNEXPECTED, why) if why else (Result.LANDED_ELSEWHERE, f"{name} is acceptable")

    def retry_pending(self) -> Iterator[tuple[int, NodeRow]]:
        """Pods of the snapshot that were Pending and fit somewhere now, with their nodes, in queue order."""
        state = self._state
        pods = self._prepared.pods
        by_name = self._prepared.schedulers.by_name
        for row in waiting_pods(state, pods):
            pod_class = state.pod_class[row]
            scheduler = by_name.get(pods.classes[pod_class].scheduler_name)
            if scheduler is None:
                continue
            node = self._draws.node(scheduler.place(state, pod_class))
            if node != NOWHERE:
                state.bind(row, node)
                yield row, node


_DIGITS = 2
_MEASURED = PERCENT_RESOURCES[:2]
_OPTIONS = PlannerOptions(explains=False)
_COMMON_LEVEL = 80.0  # percent: policies are compared by one level, however bold their own are


class SimulationSettings(msgspec.Struct, frozen=True):
    """How long, how often, and under which load."""

    cycles: int = 10
    interval_seconds: float = 600.0
    shape: LoadShape = msgspec.field(default_factory=LoadShape)
    seed: int = 0


def simulate(
    named: Sequence[tuple[str, PlanningInputs]],
    settings: SimulationSettings,
    progress: Callable[[str], None] = lambda _message: None,
) -> Simulation:
    """Every policy on the same cluster, with the same seed; ``progress`` is called after each cycle."""
    runs = tuple(_run(name, inputs, settings, progress) for name, inputs in named)
    first = named[0][1]
    together = hashlib.sha256(repr([inputs.digest for _, inputs in named]).encode()).hexdigest()
    return Simulation(
        source=first.snapshot.source,
        inputs=f"sha256:{together}",
        now=times.render(first.now),
        seed=settings.seed,
        interval_seconds=settings.interval_seconds,
        **asdict(settings.shape),
        runs=runs,
    )


def _run(
    name: str, inputs: PlanningInputs, settings: SimulationSettings, progress: Callable[[str], None]
) -> PolicyRun:
    cluster = SimulatedCluster(inputs, settings.shape, np.random.default_rng((settings.seed, 0)))
    random = np.random.default_rng((settings.seed, 1))
    draws = LandingDraws(random)
    state = inputs.state or RunState()
    cycles: list[Cycle] = []
    made = list(state.moves)  # all of them, whatever a run's state would have forgotten
    hot_above: FloatArray | None = None
    for number in range(1, settings.cycles + 1):
        cycle, state, hot_above = _cycle(number, cluster, state, random, draws, hot_above, made)
        cycles.append(cycle)
        cluster.advance(settings.interval_seconds)
        progress(name)
    moves = [move for cycle in cycles for move in cycle.moves]
    return PolicyRun(
        policy=name,
        cycles=tuple(cycles),
        after=_spread(cluster, cluster.inputs(state), hot_above),
        evictions=len(moves),
        unexpected=sum(Result.of(move.result).is_bad for move in moves),
        again=sum(move.again for move in moves),
        warnings=sentences(inputs.warnings),
    )


def _cycle(
    number: int,
    cluster: SimulatedCluster,
    state: RunState,
    random: np.random.Generator,
    draws: LandingDraws,
    hot_above: FloatArray | None,
    made: list[PastMove],
) -> tuple[Cycle, RunState, FloatArray | None]:
    """One run of the rebalancer, and what it leaves behind; its moves are added to ``made``."""
    inputs = cluster.inputs(state)
    planner = Planner(inputs, options=_OPTIONS)
    try:
        prepared = planner.prepared
    except SafetyError as error:
        ended = Cycle(
            number,
            **asdict(_spread(cluster, inputs, hot_above)),
            evictions=0,
            pending=len(cluster.pending),
            moves=(),
            stopped=str(error),
            plans=0,
        )
        return ended, state, hot_above
    hot_above = prepared.hotness.makes_hot
    spread = _spread(cluster, inputs, hot_above)
    plan = planner.plan()
    hot = [node.name for node in plan.nodes if node.hot]
    run = SimulatedRun(cluster, state, random, draws)
    outcomes = run.carry_out(planner, plan)
    history = MoveHistory(made)
    names = inputs.snapshot.nodes.names
    moves = tuple(
        SimulatedMove(
            pod=outcome.move.pod.full_name,
            workload=outcome.move.pod.workload,
            from_node=outcome.move.from_node,
            node="" if outcome.node == NOWHERE else names[outcome.node],
            result=outcome.result.value,
            because=outcome.because,
            again=is_again(history, outcome.move.pod, inputs),
        )
        for outcome in outcomes
    )
    made += run.made
    spacing = inputs.policy.hot_nodes.run_spacing_seconds
    remembered = after_plan(state, hot, cluster.now, spacing)
    after = after_moves(remembered, run.made, cluster.now, memory_seconds(inputs.policy))
    stopped = run.stopped
    if not stopped and not moves and hot:
        stopped = _why_nothing(plan)
    ended = Cycle(
        number,
        **asdict(spread),
        evictions=len(moves),
        pending=len(cluster.pending),
        moves=moves,
        stopped=stopped,
        plans=run.plans,
    )
    return ended, after, hot_above


def _why_nothing(plan: Plan) -> str:
    """What keeps most of the pods that would have to move; of what differs from pod to pod, an example."""
    stays = [pod for pod in plan.kept if pod.reason not in NEVER_MOVE]
    if not stays:
        return "no pod on the hot nodes could ever move"
    reason = Counter(pod.reason for pod in stays).most_common(1)[0][0]
    return next(pod.because for pod in stays if pod.reason == reason)


class CarriedOutPlan(msgspec.Struct, frozen=True, eq=False):
    """One of the plans of a run, and what became of it."""

    planner: Planner
    plan: Plan
    outcomes: tuple[SimulatedOutcome, ...]
    skipped: int  # moves that did not hold any more


class SimulatedRun:
    """One run: its plans, each by the cluster as the one before has left it."""

    def __init__(
        self, cluster: SimulatedCluster, state: RunState, random: np.random.Generator, draws: LandingDraws
    ) -> None:
        self._cluster = cluster
        self._state = state
        self._random = random
        self._draws = draws
        self.made: tuple[PastMove, ...] = ()
        self.plans = 0
        self.stopped = ""

    def carry_out(self, planner: Planner, plan: Plan) -> list[SimulatedOutcome]:
        """What becomes of the first plan, and of those that follow, in the cluster."""
        outcomes: list[SimulatedOutcome] = []
        for carried_out in self.plan_by_plan(planner, plan):
            outcomes += carried_out.outcomes
        return outcomes

    def plan_by_plan(self, planner: Planner, plan: Plan) -> Iterator[CarriedOutPlan]:
        """The first plan and those that follow, each once the cluster is as it has left it."""
        replan = planner.inputs.policy.execution.replan
        closed = plan.closed
        made: tuple[Move, ...] = ()  # by the plans before

        def read_again(moved: tuple[PastMove, ...], state: RunState = self._state) -> Planner:
            so_far = RunSoFar(moved=moved, made=made, closed=closed, hot=planner.hot_in_run)
            return Planner(self._cluster.inputs(state), so_far, _OPTIONS)

        while True:
            self.plans += 1
            execution = SimulatedExecution(planner, self._random, self._draws, read_again)
            outcomes: list[SimulatedOutcome] = []
            for outcome in execution.carry_out(plan):
                outcomes.append(outcome)
                self._cluster.place(outcome.row, outcome.node, outcome.pod_class)
            for row, node in execution.retry_pending():
                self._cluster.bind(row, node)
            self.made += execution.made
            self.stopped = execution.stopped
            yield CarriedOutPlan(planner, plan, tuple(outcomes), execution.skipped)
            elsewhere = any(outcome.is_elsewhere(planner.prepared.nodes.names) for outcome in outcomes)
            as_planned = not execution.skipped and not elsewhere
            if not (replan and outcomes) or self.stopped or (as_planned and not plan.unsolved):
                return
            remembered = after_moves(self._state, self.made, self._cluster.now, inf)
            made += tuple(outcome.move for outcome in outcomes)
            planner = read_again((), remembered)
            plan = planner.plan()


def _spread(cluster: SimulatedCluster, inputs: PlanningInputs, hot_above: FloatArray | None) -> LoadSpread:
    """Over the nodes whose load is known; of a resource, over those at which it is.

    As in a plan, no node is hot by pods that leave before the next run; ``inputs`` are those of this moment.
    """
    percent = cluster.percent()
    of_all = {name: column[~np.isnan(column)] for name, column in zip(_MEASURED, percent.T, strict=False)}
    by_resource = {name: column for name, column in of_all.items() if len(column)}
    over = np.count_nonzero((percent[:, : len(_MEASURED)] > _COMMON_LEVEL).any(axis=1))
    is_some = bool(cluster.has_load.any())
    hot = None
    if hot_above is not None and is_some:
        hot = int(np.count_nonzero((cluster.percent(pods_leaving(inputs)) > hot_above).any(axis=1)))
    return LoadSpread(
        hot=hot,
        peak={name: round(float(column.max()), _DIGITS) for name, column in by_resource.items()},
        deviation={name: round(float(column.std()), _DIGITS) for name, column in by_resource.items()},
        over80=int(over) if is_some else None,
    )


def is_again(history: MoveHistory, pod: PodReference, inputs: PlanningInputs) -> bool:
    """Whether a workload was moved less than its cooldown ago, doubled as often as it was moved by then.

    This checks the planner, so it reads the history of the whole simulation and asks no rule of eviction.
    """
    planning = inputs.policy.planning
    workload = f"{pod.namespace}/{pod.workload}"
    cooldown = history.cooldown_seconds(
        inputs.now, first=planning.cooldown, workload=workload, controller_uid=pod.controller_uid
    )
    last = history.in_cooldown(inputs.now, cooldown, workload=workload, controller_uid=pod.controller_uid)
    return last is not None
