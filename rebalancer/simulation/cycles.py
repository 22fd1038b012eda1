"""The cycles of a simulation: plan, land, let time pass, and again."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from rebalancer.cluster import times
from rebalancer.cluster.arrays import FloatArray
from rebalancer.errors import SafetyError
from rebalancer.load.report import PERCENT_RESOURCES
from rebalancer.planning import Plan, PlanningInputs, plan_prepared, prepare
from rebalancer.planning.plan import PodReference
from rebalancer.simulation.cluster import SimulatedCluster
from rebalancer.simulation.execution import (
    NOWHERE,
    PENDING,
    UNEXPECTED,
    SimulatedExecution,
    SimulatedOutcome,
)
from rebalancer.simulation.report import Cycle, LoadSpread, PolicyRun, SimulatedMove, Simulation
from rebalancer.simulation.usage import LoadShape
from rebalancer.state import MoveHistory, PastMove, RunState, after_moves, after_plan, memory_seconds

_DIGITS = 2
_MEASURED = PERCENT_RESOURCES[:2]


@dataclass(frozen=True, slots=True)
class SimulationSettings:
    """How long, how often, and under which load."""

    cycles: int = 10
    interval_seconds: float = 600.0
    shape: LoadShape = field(default_factory=LoadShape)
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
    state = inputs.state or RunState()
    cycles: list[Cycle] = []
    made = list(state.moves)  # all of them, whatever a run's state would have forgotten
    hot_above: FloatArray | None = None
    for number in range(1, settings.cycles + 1):
        cycle, state, hot_above = _cycle(number, cluster, state, random, hot_above, made)
        cycles.append(cycle)
        cluster.advance(settings.interval_seconds)
        progress(name)
    moves = [move for cycle in cycles for move in cycle.moves]
    return PolicyRun(
        policy=name,
        cycles=tuple(cycles),
        after=_spread(cluster, hot_above),
        evictions=len(moves),
        unexpected=sum(move.result in (UNEXPECTED, PENDING) for move in moves),
        again=sum(move.again for move in moves),
        warnings=inputs.warnings,
    )


def _cycle(
    number: int,
    cluster: SimulatedCluster,
    state: RunState,
    random: np.random.Generator,
    hot_above: FloatArray | None,
    made: list[PastMove],
) -> tuple[Cycle, RunState, FloatArray | None]:
    """One run of the rebalancer, and what it leaves behind; its moves are added to ``made``."""
    inputs = cluster.inputs(state)
    try:
        prepared = prepare(inputs)
    except SafetyError as error:
        spread = _spread(cluster, hot_above)
        return _cycle_value(number, spread, (), cluster, str(error)), state, hot_above
    hot_above = prepared.hotness.hot_above
    spread = _spread(cluster, hot_above)
    plan = plan_prepared(prepared)
    execution = SimulatedExecution(prepared, random)
    outcomes = list(execution.carry_out(plan))
    pending = list(execution.retry_pending())
    for item in outcomes:
        cluster.place(item.row, item.node, item.pod_class)
    for row, node in pending:
        cluster.bind(row, node)
    history, names = MoveHistory(made), inputs.snapshot.nodes.names
    moves = tuple(_move(item, names, is_again(history, item.move.pod, inputs)) for item in outcomes)
    made += execution.made
    spacing = inputs.policy.hot_nodes.run_spacing_seconds
    remembered = _remembered(state, plan, cluster.now, spacing)
    after = after_moves(remembered, execution.made, cluster.now, memory_seconds(inputs.policy))
    return _cycle_value(number, spread, moves, cluster, execution.stopped), after, hot_above


def _remembered(state: RunState, plan: Plan, now: float, spacing_seconds: float) -> RunState:
    return after_plan(state, [node.name for node in plan.nodes if node.hot], now, spacing_seconds)


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


def _move(item: SimulatedOutcome, names: Sequence[str], again: bool) -> SimulatedMove:
    return SimulatedMove(
        pod=item.move.pod.full_name,
        workload=item.move.pod.workload,
        from_node=item.move.from_node,
        node="" if item.node == NOWHERE else names[item.node],
        result=item.result,
        because=item.because,
        again=again,
    )
