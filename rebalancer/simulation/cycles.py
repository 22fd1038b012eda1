"""The cycles of a simulation: plan, land, let time pass, and again."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence

import msgspec
import numpy as np

from rebalancer.cluster import times
from rebalancer.cluster.arrays import FloatArray, NodeRow, PodClassIndex, PodRow
from rebalancer.errors import SafetyError
from rebalancer.load.report import PERCENT_RESOURCES
from rebalancer.planning.inputs import PlanningInputs
from rebalancer.planning.landing.evaluation import NO_CLASS
from rebalancer.planning.landing.scenarios import LandingDistribution
from rebalancer.planning.plan import Move, Plan, PodReference
from rebalancer.planning.planner import plan_prepared, prepare_to_plan
from rebalancer.planning.prepared import PreparedInputs
from rebalancer.planning.revalidation import check_landing
from rebalancer.planning.warnings import sentences
from rebalancer.scheduling.framework.cycle import Placement, waiting_pods
from rebalancer.simulation.report import Cycle, LoadSpread, PolicyRun, SimulatedMove, Simulation
from rebalancer.simulation.world import LoadShape, SimulatedCluster
from rebalancer.state.results import Result
from rebalancer.state.run_state import (
    MoveHistory,
    PastMove,
    RunState,
    after_moves,
    after_plan,
    memory_seconds,
)

NOWHERE = NodeRow(-1)


class SimulatedOutcome(msgspec.Struct, frozen=True):
    """A move that was carried out, and where its replacement went."""

    move: Move
    row: PodRow
    node: NodeRow  # NOWHERE while Pending
    pod_class: PodClassIndex
    result: Result
    because: str


class LandingDraws:
    """Draws landings one after another, as one scheduler makes them.

    Where nothing is drawn among equal nodes, the index at which all its searches start is, once.
    """

    def __init__(self, random: np.random.Generator) -> None:
        self._random = random
        self._start: float | None = None  # of all nodes, where the searches start

    def node(self, placement: Placement) -> NodeRow:
        """A node by the chances of a placement; NOWHERE when there is none."""
        if not len(placement.feasible) or float(placement.chance.sum()) <= 0:
            return NOWHERE
        starts = None
        if placement.tie is not None:
            self._start = self._random.random() if self._start is None else self._start
            starts = np.array([int(self._start * len(placement.tie.by_start))])
        return LandingDistribution(placement.feasible, placement.chance_from(starts)).draw(self._random)


class SimulatedExecution:
    """The cluster while one plan is carried out."""

    def __init__(
        self, prepared: PreparedInputs, random: np.random.Generator, draws: LandingDraws | None = None
    ) -> None:
        """``draws`` are those of the executions before, by the same scheduler."""
        self._prepared = prepared
        self._random = random
        self._draws = draws or LandingDraws(random)
        self._state = prepared.schedulers.state.copy()
        self._on_unexpected = prepared.policy.execution.on_unexpected_landing
        self._made: list[PastMove] = []
        self.stopped = ""

    def carry_out(self, plan: Plan) -> Iterator[SimulatedOutcome]:
        """Wave by wave; a run ends after the wave in which a replacement lands unacceptably or nowhere."""
        for wave in sorted({move.wave for move in plan.moves}):
            outcomes = list(self._wave(plan, [move for move in plan.moves if move.wave == wave]))
            yield from outcomes
            failed = next((item for item in outcomes if item.result.ends_run(self._on_unexpected)), None)
            if failed is not None:
                self.stopped = f"{failed.move.pod.full_name}: {failed.because}"
                return

    def _wave(self, plan: Plan, moves: Sequence[Move]) -> Iterator[SimulatedOutcome]:
        state, prepared = self._state, self._prepared
        pods = prepared.pods
        for move in moves:
            if move.finished:
                row = PodRow(pods.with_finished.row[move.pod.namespace, move.pod.name])
                yield SimulatedOutcome(move, row, NOWHERE, NO_CLASS, Result.REMOVED, "")
        moves = [move for move in moves if not move.finished]
        rows = [PodRow(pods.row[move.pod.namespace, move.pod.name]) for move in moves]
        # Whether the scheduler acts before the evicted pods are gone is a race.
        still_terminating = self._random.random() < 0.5
        for row in rows:
            if prepared.candidate(row).restarted:
                continue  # it serves until its replacement does
            if still_terminating and not prepared.eviction.workload(row).replaced_late:
                state.evict(row)
            else:
                state.remove(row)
        for move, row in zip(moves, rows, strict=True):
            pod_class = prepared.eviction.replacement(row).pod_class
            placed = prepared.candidate(row).replacement
            pod = state.add(placed)
            node = self._draws.node(prepared.schedulers.scheduler(placed).place(state, placed))
            if node != NOWHERE:
                state.bind(pod, node)
            result, because = self._result(plan, move, node)
            self._made.append(self._past(move, node, result))
            yield SimulatedOutcome(move, row, node, pod_class, result, because)
        for row in rows:
            if state.node[row] >= 0:
                state.remove(row)

    def _past(self, move: Move, node: NodeRow, result: Result) -> PastMove:
        inputs = self._prepared.inputs
        return PastMove(
            namespace=move.pod.namespace,
            name=move.pod.name,
            uid=move.pod.uid,
            workload=move.pod.workload,
            controller_uid=move.pod.controller_uid,
            from_node=move.from_node,
            to_node="" if node == NOWHERE else inputs.snapshot.nodes.names[node],
            result=result.value,
            evicted_at=inputs.now,
            landed_at=None if node == NOWHERE else inputs.now,
            load=dict(move.load),
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
        why = check_landing(self._prepared, plan, move, name, self._made)
        return (Result.UNEXPECTED, why) if why else (Result.LANDED_ELSEWHERE, f"{name} is acceptable")

    def retry_pending(self) -> Iterator[tuple[int, NodeRow]]:
        """Pods of the snapshot that were Pending and fit somewhere now, with their nodes, in queue order."""
        state, pods, by_name = self._state, self._prepared.pods, self._prepared.schedulers.by_name
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
        noise=settings.shape.noise,
        daily=settings.shape.daily,
        lag_seconds=settings.shape.lag_seconds,
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
        after=_spread(cluster, hot_above),
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
    try:
        prepared = prepare_to_plan(inputs)
    except SafetyError as error:
        spread = _spread(cluster, hot_above)
        return _cycle_value(number, spread, (), cluster, str(error)), state, hot_above
    hot_above = prepared.hotness.hot_above
    spread = _spread(cluster, hot_above)
    plan = plan_prepared(prepared)
    execution = SimulatedExecution(prepared, random, draws)
    outcomes = list(execution.carry_out(plan))
    pending = list(execution.retry_pending())
    for item in outcomes:
        if item.result is Result.REMOVED:
            cluster.remove_finished(item.move.pod.uid)
        else:
            cluster.place(item.row, item.node, item.pod_class)
    for row, node in pending:
        cluster.bind(row, node)
    history, names = MoveHistory(made), inputs.snapshot.nodes.names
    moves = tuple(
        SimulatedMove(
            pod=item.move.pod.full_name,
            workload=item.move.pod.workload,
            from_node=item.move.from_node,
            node="" if item.node == NOWHERE else names[item.node],
            result=item.result.value,
            because=item.because,
            again=not item.move.finished and is_again(history, item.move.pod, inputs),
        )
        for item in outcomes
    )
    made += execution.made
    spacing = inputs.policy.hot_nodes.run_spacing_seconds
    hot = [node.name for node in plan.nodes if node.hot]
    remembered = after_plan(state, hot, cluster.now, spacing)
    after = after_moves(remembered, execution.made, cluster.now, memory_seconds(inputs.policy))
    return _cycle_value(number, spread, moves, cluster, execution.stopped), after, hot_above


def _cycle_value(
    number: int, spread: LoadSpread, moves: tuple[SimulatedMove, ...], cluster: SimulatedCluster, stopped: str
) -> Cycle:
    return Cycle(
        cycle=number,
        hot=spread.hot,
        peak=spread.peak,
        deviation=spread.deviation,
        evictions=len(moves),
        pending=len(cluster.pending),
        moves=moves,
        stopped=stopped,
    )


def _spread(cluster: SimulatedCluster, hot_above: FloatArray | None) -> LoadSpread:
    """Over the nodes whose load is known."""
    percent = cluster.percent()
    known = ~np.isnan(percent[:, : len(_MEASURED)]).any(axis=1)
    hot = 0 if hot_above is None else int(np.count_nonzero((percent > hot_above).any(axis=1) & known))
    if not known.any():
        return LoadSpread(hot=hot, peak={}, deviation={})
    measured = percent[known]
    return LoadSpread(
        hot=hot,
        peak={name: round(float(measured[:, at].max()), _DIGITS) for at, name in enumerate(_MEASURED)},
        deviation={name: round(float(measured[:, at].std()), _DIGITS) for at, name in enumerate(_MEASURED)},
    )


def is_again(history: MoveHistory, pod: PodReference, inputs: PlanningInputs) -> bool:
    """Whether a workload was moved less than its cooldown ago, doubled as often as it was moved by then.

    This checks the planner, so it reads the history of the whole simulation and asks no rule of eviction.
    """
    planning, workload = inputs.policy.planning, f"{pod.namespace}/{pod.workload}"
    cooldown = history.cooldown_seconds(
        inputs.now,
        first=planning.cooldown,
        most=planning.cooldown_max,
        window=planning.cooldown_window,
        workload=workload,
        controller_uid=pod.controller_uid,
    )
    last = history.in_cooldown(inputs.now, cooldown, workload=workload, controller_uid=pod.controller_uid)
    return last is not None
