"""The cycles of a simulation: plan, land, plan again where a run would, let time pass, and again."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from math import inf

import msgspec
import numpy as np
from msgspec.structs import replace

from rebalancer.cluster import times
from rebalancer.cluster.arrays import FloatArray
from rebalancer.errors import SafetyError
from rebalancer.load.report import PERCENT_RESOURCES
from rebalancer.planning.inputs import PlanningInputs
from rebalancer.planning.plan import Plan, PodReference
from rebalancer.planning.planner import plan_prepared, prepare_to_plan
from rebalancer.planning.prepared import PreparedInputs
from rebalancer.planning.warnings import sentences
from rebalancer.simulation.execution import NOWHERE, LandingDraws, SimulatedExecution, SimulatedOutcome
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

_DIGITS = 2
_MEASURED = PERCENT_RESOURCES[:2]
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
        return _cycle_value(number, spread, (), cluster, str(error), 0), state, hot_above
    hot_above = prepared.hotness.hot_above
    spread = _spread(cluster, hot_above)
    plan = plan_prepared(prepared)
    hot = [node.name for node in plan.nodes if node.hot]
    run = _Run(cluster, state, random, draws)
    outcomes = run.carry_out(prepared, plan)
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
    made += run.made
    spacing = inputs.policy.hot_nodes.run_spacing_seconds
    remembered = after_plan(state, hot, cluster.now, spacing)
    after = after_moves(remembered, run.made, cluster.now, memory_seconds(inputs.policy))
    stopped = run.stopped or ("" if moves or not hot else _why_nothing(plan))
    return _cycle_value(number, spread, moves, cluster, stopped, run.plans), after, hot_above


def _why_nothing(plan: Plan) -> str:
    """What keeps most of the pods that would have to move."""
    counted = Counter(item.because for item in plan.kept if item.setting)
    return counted.most_common(1)[0][0] if counted else ""


class _Run:
    """One run: its plans, each by the cluster as the one before has left it."""

    def __init__(
        self, cluster: SimulatedCluster, state: RunState, random: np.random.Generator, draws: LandingDraws
    ) -> None:
        self._cluster, self._state = cluster, state
        self._random, self._draws = random, draws
        self.made: tuple[PastMove, ...] = ()
        self.plans = 0
        self.stopped = ""

    def carry_out(self, prepared: PreparedInputs, plan: Plan) -> list[SimulatedOutcome]:
        """What becomes of the first plan, and of those that follow, in the cluster."""
        replan = prepared.policy.execution.replan
        tainted, closed = plan.tainted, plan.closed
        outcomes: list[SimulatedOutcome] = []

        def read_again(state: RunState = self._state) -> PlanningInputs:
            return replace(self._cluster.inputs(state), tainted=tainted, closed=closed)

        while True:
            self.plans += 1
            execution = SimulatedExecution(prepared, self._random, self._draws, read_again)
            before = len(outcomes)
            for item in execution.carry_out(plan):
                outcomes.append(item)
                self._land(item)
            for row, node in execution.retry_pending():
                self._cluster.bind(row, node)
            self.made += execution.made
            self.stopped = execution.stopped
            now = outcomes[before:]
            elsewhere = any(item.is_elsewhere(prepared.nodes.names) for item in now)
            as_planned = not execution.skipped and not elsewhere
            if not (replan and now) or self.stopped or (as_planned and not plan.unsolved):
                return outcomes
            remembered = after_moves(self._state, self.made, self._cluster.now, inf)
            made = tuple(item.move for item in outcomes)
            prepared = prepare_to_plan(replace(read_again(remembered), made=made))
            plan = plan_prepared(prepared)

    def _land(self, item: SimulatedOutcome) -> None:
        if item.result is Result.REMOVED:
            self._cluster.remove_finished(item.move.pod.uid)
        else:
            self._cluster.place(item.row, item.node, item.pod_class)


def _cycle_value(
    number: int,
    spread: LoadSpread,
    moves: tuple[SimulatedMove, ...],
    cluster: SimulatedCluster,
    stopped: str,
    plans: int,
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
        plans=plans,
        over80=spread.over80,
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
        over80=int(np.count_nonzero((measured[:, : len(_MEASURED)] > _COMMON_LEVEL).any(axis=1))),
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
