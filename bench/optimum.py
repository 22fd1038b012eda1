"""What any planner could do at best, exactly.

Mixed-integer programs over the evictable pods of the hot nodes. ``departures_alone`` asks for the fewest
that cool every hot node, wherever pods land. The others let each pod land on any node that the model's
filters admit and on which its landing would be acceptable, whatever the scheduler's scores would prefer:
``departures_and_landings`` asks for the fewest departures that cool the nodes, ``least_excess`` for the least
excess left with so many moves. No plan can do better, and none is as good where the scheduler prefers other
landings: what is known to be reachable then is the matter of ``best_known``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from msgspec.structs import replace
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_matrix

from rebalancer.cluster.arrays import FloatArray, NodeRow, PodRow
from rebalancer.planning.eviction import why_protected
from rebalancer.planning.landing.purpose import Landings
from rebalancer.planning.prepared import PreparedInputs

_UNCOOLED = 10_000.0  # what leaving a node hot costs, in departures
_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Optimum:
    """Of one cluster."""

    departures: int
    uncooled: int  # hot nodes that no such set of moves brings to their coolTo
    proven: bool  # the solver proved it


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """The pods that may leave, in percent of allocatable of every node."""

    hot: list[int]
    pods: list[int]  # rows
    source: list[int]  # by pod: its node
    relief: FloatArray  # (pods, nodes, 3) points of each node's allocatable that the pod is


def problem_of(prepared: PreparedInputs, *, chains: bool = False) -> Problem:
    """What a plan starts from; with ``chains`` pods of cool nodes may leave too, to make room."""
    hot = np.flatnonzero(prepared.hotness.hot).tolist()
    pods: list[int] = []
    source: list[int] = []
    for node in range(len(prepared.nodes)) if chains else hot:
        for row in prepared.pods.by_node.get(node, np.zeros(0, np.int64)).tolist():
            if why_protected(prepared.eviction, PodRow(row)) is None:
                pods.append(row)
                source.append(node)
    usage = np.column_stack([prepared.inputs.load.pod_usage[pods][:, :2], np.ones(len(pods))])
    allocatable = np.maximum(prepared.inputs.load.allocatable[:, :3], 1e-9)
    return Problem(hot, pods, source, 100.0 * usage[:, None, :] / allocatable[None, :, :])


def departures_alone(prepared: PreparedInputs, problem: Problem) -> Optimum:
    """Node by node: the fewest of its pods whose leaving brings it to its coolTo."""
    percent, cool_to = prepared.inputs.load.percent, prepared.hotness.cool_to
    departures = uncooled = 0
    for node in problem.hot:
        mine = [at for at, source in enumerate(problem.source) if source == node]
        wanted = np.flatnonzero(percent[node] > cool_to[node])
        need = (percent[node] - cool_to[node])[wanted]
        relief = problem.relief[mine, node][:, wanted] if mine else np.zeros((0, len(wanted)))
        if not mine or (relief.sum(axis=0) < need).any():
            uncooled += 1
            continue
        solved = milp(
            np.ones(len(mine)),
            constraints=LinearConstraint(relief.T, lb=need),
            integrality=np.ones(len(mine)),
            bounds=Bounds(0, 1),
        )
        departures += round(solved.fun)
    return Optimum(departures, uncooled, True)


class _Rows:
    """Rows of a sparse constraint matrix."""

    def __init__(self) -> None:
        self.entries: list[tuple[int, int, float]] = []
        self.upper: list[float] = []

    def add(self, terms: list[tuple[int, float]], upper: float) -> None:
        self.entries += [(len(self.upper), column, value) for column, value in terms]
        self.upper.append(upper)

    def constraint(self, columns: int) -> LinearConstraint:
        rows, at, values = zip(*self.entries, strict=True)
        matrix = coo_matrix((values, (rows, at)), shape=(len(self.upper), columns)).tocsr()
        return LinearConstraint(matrix, ub=np.array(self.upper))


def departures_and_landings(prepared: PreparedInputs, problem: Problem) -> Optimum:
    """The fewest departures over all landings that filters admit and that would be acceptable."""
    pairs = _admitted(prepared, problem)
    pods, nodes = len(problem.pods), len(prepared.inputs.snapshot.nodes)
    # Columns: does a pod leave, does it land on a node, does a hot node stay above its coolTo, or even hot.
    first = pods + len(pairs)
    stuck = {node: (first + 2 * at, first + 2 * at + 1) for at, node in enumerate(problem.hot)}
    columns = first + 2 * len(stuck)
    rows, _, arrivals = _landings(problem, pairs, nodes)
    for above, hot in stuck.values():
        rows.add([(hot, 1.0), (above, -1.0)], 0.0)
    _levels(prepared, problem, rows, arrivals, stuck)
    _room(prepared, problem, rows, arrivals)
    cost = np.concatenate([np.ones(pods), np.zeros(len(pairs)), np.full(2 * len(stuck), _UNCOOLED)])
    solved = milp(
        cost,
        constraints=rows.constraint(columns),
        integrality=np.ones(columns),
        bounds=Bounds(0, 1),
        options={"time_limit": _SECONDS},
    )
    if solved.x is None:
        raise RuntimeError(f"no solution: {solved.message}")
    chosen = np.round(solved.x)
    return Optimum(int(chosen[:pods].sum()), int(chosen[first::2].sum()), solved.status == 0)


@dataclass(frozen=True, slots=True)
class Relief:
    """The most relief that moves can give."""

    moves: int
    excess: float  # points left
    proven: bool


def least_excess(prepared: PreparedInputs, problem: Problem, moves: int) -> Relief:
    """The least excess that so many moves can leave; NaN where the solver fails."""
    pairs = _admitted(prepared, problem)
    pods, hotness, percent = len(problem.pods), prepared.hotness, prepared.inputs.load.percent
    rows, _, arrivals = _landings(problem, pairs, len(percent))
    # Columns: does a pod leave, does it land on a node, is a hot node above its coolTo, by how many points,
    # and by how many above each level from which on points count more.
    first = pods + len(pairs)
    above = {node: first + at for at, node in enumerate(problem.hot)}
    cells = [(node, column) for node in problem.hot for column in range(3) if hotness.resources[node, column]]
    columns = first + len(above)
    points: dict[tuple[int, int], int] = {}  # above coolTo
    counts: dict[int, float] = {}  # by column of points
    for node, column in cells:
        points[node, column] = columns
        steeper = (1.0, 1.0, 2.0)  # above coolTo, the threshold and 100 %
        for level, more in zip(hotness.steps[:, node, column].tolist(), steeper, strict=True):
            upper = level - float(percent[node, column])
            rows.add([(columns, -1.0), *_changes(problem, arrivals, node, column)], upper)
            counts[columns] = more
            columns += 1
    for (node, column), at in points.items():
        rows.add(
            [(at, 1.0), (above[node], float(hotness.cool_to[node, column] - percent[node, column]))], 0.0
        )
    for node, landings in arrivals.items():
        if node in above:  # nothing lands on a node that is above its coolTo
            for _, at in landings:
                rows.add([(at, 1.0), (above[node], 1.0)], 1.0)
        for column in range(3):
            most = min(
                float(hotness.landing_limit(np.array([node]))[0, column]), _max_after(prepared, column)
            )
            upper = most - float(percent[node, column])
            if np.isfinite(upper) and landings and (node, column) not in points and upper >= 0:
                rows.add(_changes(problem, arrivals, node, column), upper)
    _room(prepared, problem, rows, arrivals)
    rows.add([(pod, 1.0) for pod in range(pods)], float(moves))
    left = list(counts)
    cost = np.zeros(columns)
    cost[left] = list(counts.values())
    upper_bounds, integrality = np.ones(columns), np.ones(columns)
    upper_bounds[left], integrality[left] = np.inf, 0
    solved = milp(
        cost,
        constraints=rows.constraint(columns),
        integrality=integrality,
        bounds=Bounds(0, upper_bounds),
        options={"time_limit": _SECONDS, "mip_rel_gap": 1e-3},
    )
    if solved.x is None:
        return Relief(moves, np.nan, False)
    moved = int(np.round(solved.x[:pods]).sum())
    return Relief(moved, float(cost @ solved.x), solved.status == 0)


def _max_after(prepared: PreparedInputs, column: int) -> float:
    name = prepared.inputs.load.percent_resources[column]
    return float(prepared.policy.planning.max_after.get(name, np.inf))


def _changes(
    problem: Problem, arrivals: dict[int, list[tuple[int, int]]], node: int, column: int
) -> list[tuple[int, float]]:
    """What moves add to a node's percentage, and take from it."""
    terms = [(at, float(problem.relief[pod, node, column])) for pod, at in arrivals[node]]
    leaving = [pod for pod, source in enumerate(problem.source) if source == node]
    return [*terms, *((pod, -float(problem.relief[pod, node, column])) for pod in leaving)]


def _landings(
    problem: Problem, pairs: list[tuple[int, int]], nodes: int
) -> tuple[_Rows, dict[int, list[int]], dict[int, list[tuple[int, int]]]]:
    """Constraints by which a pod leaves exactly when it lands; the columns of its landings, and of nodes'."""
    pods, rows = len(problem.pods), _Rows()
    by_pod: dict[int, list[int]] = {pod: [] for pod in range(pods)}
    arrivals: dict[int, list[tuple[int, int]]] = {node: [] for node in range(nodes)}
    for at, (pod, node) in enumerate(pairs, start=pods):
        by_pod[pod].append(at)
        arrivals[node].append((pod, at))
    for pod, options in by_pod.items():
        rows.add([(pod, 1.0), *((column, -1.0) for column in options)], 0.0)
        rows.add([(pod, -1.0), *((column, 1.0) for column in options)], 0.0)
    return rows, by_pod, arrivals


def _admitted(prepared: PreparedInputs, problem: Problem) -> list[tuple[int, int]]:
    """(pod, node) whose filters pass on an otherwise empty node, and whose gain would be enough."""
    state = prepared.schedulers.state.copy()
    for row in range(len(prepared.pods)):
        if state.node[row] >= 0:
            state.remove(row)
    percent, check = prepared.inputs.load.percent, prepared.landing_check
    # The last points above coolTo may be fewer than minGain, and how many are left is not known here.
    purpose = replace(prepared.cooler_node, min_gain=0.0)
    found: list[tuple[int, int]] = []
    feasible: dict[int, list[int]] = {}
    for at, row in enumerate(problem.pods):
        source = problem.source[at]
        kind = prepared.eviction.replacement(PodRow(row)).pod_class
        if kind not in feasible:
            mask = prepared.schedulers.scheduler(kind).feasible(state, kind)
            feasible[kind] = np.flatnonzero(mask).tolist()
        for node in feasible[kind]:
            if node == source or node in check.excluded:
                continue
            # A hot node's own pods may leave first; nobody's own load is below nothing.
            base = np.zeros_like(percent[node]) if node in problem.source else percent[node]
            after = base.copy()
            after[:3] += problem.relief[at, node]
            points = prepared.inputs.load.points[row]
            landings = Landings(
                PodRow(row), NodeRow(source), np.array([node]), percent[source], after[None, :], points
            )
            if purpose.serves(landings).all():
                found.append((at, node))
    return found


def _levels(
    prepared: PreparedInputs,
    problem: Problem,
    rows: _Rows,
    arrivals: dict[int, list[tuple[int, int]]],
    stuck: dict[int, tuple[int, int]],
) -> None:
    """No node ends above what it may be at: its coolTo if it was hot, else its threshold."""
    percent = prepared.inputs.load.percent
    most = prepared.hotness.landing_limit(np.arange(len(percent)))
    departing: dict[int, list[int]] = {node: [] for node in problem.hot}
    for pod, node in enumerate(problem.source):
        departing[node].append(pod)
    for node, landings in arrivals.items():
        for column in range(3):
            upper = most[node, column] - percent[node, column]
            if not np.isfinite(upper):
                continue
            terms = [(at, float(problem.relief[pod, node, column])) for pod, at in landings]
            terms += [(pod, -float(problem.relief[pod, node, column])) for pod in departing.get(node, ())]
            if node in stuck and upper < 0:
                # Above coolTo up to the threshold at one price, as hot as it is at twice that.
                threshold = min(float(prepared.hotness.hot_above[node, column]), float(percent[node, column]))
                terms.append((stuck[node][0], float(most[node, column]) - threshold))
                terms.append((stuck[node][1], threshold - float(percent[node, column])))
            elif not terms:
                continue
            rows.add(terms, float(upper))


def _room(
    prepared: PreparedInputs, problem: Problem, rows: _Rows, arrivals: dict[int, list[tuple[int, int]]]
) -> None:
    """Requests fit; what hot nodes lose makes room."""
    state = prepared.schedulers.state
    classes = state.classes
    kinds = [prepared.eviction.replacement(PodRow(row)).pod_class for row in problem.pods]
    wants = np.array([classes.vector(classes.requests[kind].incoming) for kind in kinds])
    free = classes.allocatable - state.requested
    for node, landings in arrivals.items():
        leaving = [pod for pod, source in enumerate(problem.source) if source == node]
        for column, name in enumerate(classes.resources):
            terms = [(at, float(wants[pod, column])) for pod, at in landings if wants[pod, column]]
            if name == "pods" or not terms:
                continue
            scale = float(max(abs(value) for _, value in terms))
            terms += [(pod, -float(wants[pod, column])) for pod in leaving]
            rows.add([(at, value / scale) for at, value in terms], float(free[node, column]) / scale)
