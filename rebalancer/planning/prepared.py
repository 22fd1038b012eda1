"""What is known before the search begins, computed once and never changed by it.

A plan needs more than its inputs: figures that take earlier moves into account, one scheduler for each
profile, what the rules of eviction look up, which nodes are hot, and where the Pending pods will go first.
All of that is one immutable value, so the search, explanations, revalidation and simulations start from the
same place, and none of them can see what another one did.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property

import msgspec
import numpy as np
from msgspec.structs import replace

from rebalancer.cluster.arrays import BoolArray, FloatArray, IntArray, NodeRow, PodRow
from rebalancer.counting import counted
from rebalancer.errors import SafetyError
from rebalancer.load.correction import correct, end_times, leaving_pods, recent_load
from rebalancer.load.report import LoadReport
from rebalancer.load.usage import RESOURCES
from rebalancer.planning.disruption_cost import Disruption
from rebalancer.planning.eviction import EvictionContext, moves_by_restart
from rebalancer.planning.hotness import Hotness, coverage_of, find_hot_nodes
from rebalancer.planning.inputs import AS_USUAL, FRESH_RUN, OfInputs, PlannerOptions, PlanningInputs, RunSoFar
from rebalancer.planning.landing.evaluation import Candidate, MoveEvaluator, Wish
from rebalancer.planning.landing.landing_check import CoolerNode, LandingCheck
from rebalancer.planning.landing.purpose import Peer
from rebalancer.planning.landing.scenarios import MAX_SCENARIOS, MIN_SCENARIOS, Scenarios
from rebalancer.planning.landing.schedulers import ProfileSchedulers, find_unpredictable
from rebalancer.planning.landing.spread import Spread
from rebalancer.planning.reasons import NotMoved, Reason
from rebalancer.planning.steering import Steering
from rebalancer.planning.taints import as_a_run_has_them
from rebalancer.policy.hotness import ScoreRule
from rebalancer.scheduling.framework.cycle import Placement
from rebalancer.scheduling.framework.preemption import Preemptions
from rebalancer.scheduling.framework.queue import waiting_pods
from rebalancer.scheduling.resources import requested_amounts
from rebalancer.scheduling.state.cluster_state import ClusterState
from rebalancer.state.results import Result
from rebalancer.state.run_state import PastMove

_MAX_PENDING_PLACEMENTS = 2000  # with more Pending pods than that allows fewer scenarios are kept


class Pending(msgspec.Struct, frozen=True):
    """What became of the Pending pods in the model."""

    waiting: Sequence[int]  # classes that fit nowhere, in queue order
    placed: int
    unplaced: int
    of_others: Mapping[str, int]  # pods by scheduler that is not configured


def place_pending(
    inputs: PlanningInputs,
    schedulers: ProfileSchedulers,
    scenarios: Scenarios,
    ensure_wanted: Callable[[], object],
) -> Pending:
    """Bind every Pending pod that fits, and add its request to what its node uses.

    One that may go to several nodes splits the scenarios, as the landing of a replacement does. What they
    will use is not known yet; their requests are the best estimate. One that fits on no node is about to
    preempt pods of lower priority where it can, so room is kept for it on one of those nodes. Where pods of a
    scheduler that is not configured go is not known; those that fit on no node wait for room as others do.

    Schedulers side by side have a queue each, and which of them is the first is not known: the scenarios are
    those of either order.
    """
    state = scenarios.all[0].after_termination
    queues: dict[int, list[int]] = {}
    for row in waiting_pods(state, inputs.snapshot.pods):
        queues.setdefault(schedulers.number(state.pod_class[row]), []).append(row)
    count = sum(map(len, queues.values()))
    affordable = _MAX_PENDING_PLACEMENTS // max(count, 1)
    scenarios.max_scenarios = max(MIN_SCENARIOS, min(MAX_SCENARIOS, affordable))
    orders = [list(itertools.chain.from_iterable(queues[number] for number in sorted(queues)))]
    if len(queues) > 1:
        orders.append(
            list(itertools.chain.from_iterable(queues[number] for number in sorted(queues, reverse=True)))
        )
    in_other_order = scenarios.copy() if len(orders) > 1 else None
    pending = _place_queue(inputs, schedulers, scenarios, orders[0], ensure_wanted)
    if in_other_order is not None:
        other = _place_queue(inputs, schedulers, in_other_order, orders[1], ensure_wanted)
        scenarios.join(in_other_order)
        pending = Pending(
            tuple(dict.fromkeys((*pending.waiting, *other.waiting))),
            min(pending.placed, other.placed),
            max(pending.unplaced, other.unplaced),
            pending.of_others,
        )
    scenarios.max_scenarios = MAX_SCENARIOS
    return pending


def _place_queue(
    inputs: PlanningInputs,
    schedulers: ProfileSchedulers,
    scenarios: Scenarios,
    rows: Sequence[int],
    ensure_wanted: Callable[[], object],
) -> Pending:
    """Place Pending pods in this order."""
    pods = inputs.snapshot.pods
    infeasible: dict[int, None] = {}
    nowhere: dict[int, IntArray] = {}  # where pods of a class may preempt others, by class
    foreign: set[int] = set()
    placed = unplaced = 0
    of_others: Counter[str] = Counter()
    state = scenarios.all[0].after_termination
    preemptions = Preemptions(schedulers.state)
    # Where fragmentation makes room for such pods they need not preempt anybody.
    fragmentation = getattr(inputs.policy.strategies, "fragmentation", None)
    makes_room = getattr(fragmentation, "despite_preemption", False)
    for row in rows:
        ensure_wanted()
        pod_class = state.pod_class[row]
        scheduler = schedulers.likely_scheduler(pod_class)
        if schedulers.is_foreign(pod_class):
            if pods.classes[pod_class].spec.scheduling_gates:
                continue
            of_others[pods.classes[pod_class].scheduler_name] += 1
            if pod_class not in foreign:
                foreign.add(pod_class)
                feasible = [
                    scheduler.feasible(scenario.after_termination, pod_class) for scenario in scenarios.all
                ]
                if not all(nodes.any() for nodes in feasible):
                    infeasible.setdefault(pod_class)
            continue
        placements: list[Placement] = []
        if pod_class not in nowhere:
            placements = [
                scheduler.place(scenario.after_termination, pod_class, row) for scenario in scenarios.all
            ]
        fits = [bool(placement.chance.any()) for placement in placements]
        if not all(fits) or not fits:
            infeasible.setdefault(pod_class)  # in one scenario at least
        if not any(fits):
            if pod_class not in nowhere:
                nowhere[pod_class] = preemptions.of(scheduler, pod_class).nodes
            if row not in state.nominated and not makes_room:
                scenarios.nominate(row, nowhere[pod_class])
            unplaced += 1
            continue
        request = requested_amounts(state.classes.requests[pod_class].incoming, inputs.load.resources)
        scenarios.place_pending(row, placements, np.array(request, np.float64))
        placed += 1
    return Pending(tuple(infeasible), placed, unplaced, of_others)


class PreparedInputs(OfInputs, frozen=True, eq=False, dict=True):
    """The inputs of a plan, and what follows from them before any pod is moved.

    The figures of its ``inputs`` are corrected for the moves of earlier runs.
    """

    so_far: RunSoFar
    options: PlannerOptions
    schedulers: ProfileSchedulers
    eviction: EvictionContext
    hotness: Hotness
    landing_check: LandingCheck
    cooler_node: CoolerNode  # the purpose of moves that are to relieve their node
    start: Scenarios  # Pending pods placed; copy them before changing them
    pending: Pending
    # By row of a node: why its figures cannot be corrected for what this run has moved.
    outdated_by_this_run: Mapping[int, str]

    def pods_on(self, node: NodeRow) -> list[PodRow]:
        """The pods that run on a node."""
        rows = self.pods.by_node.get(node)
        return [] if rows is None else [PodRow(row) for row in rows.tolist()]

    @property
    def state(self) -> ClusterState:
        """The cluster with the Pending pods where they most likely go; copy it before changing it."""
        return self.start.likeliest.after_termination

    @property
    def usage(self) -> FloatArray:
        """(nodes, measured resources) expected there."""
        return self.start.likeliest.usage

    def evaluator(self, peers: Sequence[Peer]) -> MoveEvaluator:
        """An evaluator that has placed nothing yet, for moves that may spoil nothing for these strategies."""
        check = self.landing_check.beside(peers)
        ensure_wanted = self.options.ensure_wanted
        return MoveEvaluator(self.inputs, self.schedulers, check, self.pending.waiting, ensure_wanted)

    @cached_property
    def steering(self) -> Steering:
        """Chooses the nodes that get the soft taint for a move."""
        return Steering(self.inputs.snapshot)

    @cached_property
    def disruption(self) -> Disruption:
        """What it costs to restart pods."""
        return Disruption(self.inputs, self.eviction.workloads)

    def node_of(self, pod: PodRow) -> NodeRow:
        """The node that a pod runs on; -1 where there is none."""
        return NodeRow(int(self.pods.node[pod]))

    def labels_of(self, node: NodeRow) -> Mapping[str, str]:
        """The labels of a node."""
        return self.nodes.records[node].metadata.labels or {}

    def bound_pods(self) -> Iterator[PodRow]:
        """All pods that run on a node, in order of node and name."""
        for node in sorted(self.pods.by_node):
            if node >= 0:
                yield from self.pods_on(NodeRow(node))

    def candidate(self, row: PodRow, wish: Wish | None = None) -> Candidate:
        """A pod as the evaluator needs it; without a wish it is looked at as if its node had to cool."""
        restarted = moves_by_restart(self.eviction, row)
        replacement = self.eviction.replacement(row).pod_class
        workload = self.eviction.workload(row)
        return Candidate(
            row=row,
            source=self.node_of(row),
            namespace=self.pods.namespaces[row],
            workload=workload,
            replacement=self.schedulers.next_revision(replacement) if restarted else replacement,
            usage=self._brought_by(row),
            relief=self._known_relief[row],
            points=self.inputs.load.points[row],
            wish=wish or Wish("", self.cooler_node),
            restarted=restarted,
            scheduler=self.schedulers.number(replacement),
        )

    @cached_property
    def _known_relief(self) -> FloatArray:
        """(pods, measured resources) by how much the figure of its node falls when each pod leaves."""
        relief = np.nan_to_num(self.inputs.load.relief)
        relief.flags.writeable = False  # computed once for all candidates
        return relief

    @cached_property
    def _usage_known(self) -> BoolArray:
        """(pods,) of which every measured resource is known."""
        unknown = np.isnan(self.inputs.load.pod_usage)
        return np.asarray(~unknown.any(axis=1), np.bool_)

    def _brought_by(self, row: PodRow) -> FloatArray:
        """(measured resources,) what a pod uses where it lands: what it requests of what is not known."""
        load = self.inputs.load
        usage: FloatArray = load.pod_usage[row]
        if self._usage_known[row]:
            return usage
        requests = self.state.classes.requests[int(self.pods.pod_class[row])].incoming
        return np.where(np.isnan(usage), requested_amounts(requests, load.resources), usage)

    def settling(self, node: NodeRow) -> NotMoved | None:
        """Why nothing may leave a node whose figures still show an earlier move; None when they do not."""
        settling = self.landing_check.settling.get(node)
        return NotMoved(Reason.SETTLING, settling) if settling else None


def prepare(
    inputs: PlanningInputs,
    so_far: RunSoFar = FRESH_RUN,
    options: PlannerOptions = AS_USUAL,
) -> PreparedInputs:
    """Compute what precedes the search; SafetyError when too few nodes have a fresh figure to act on."""
    by_this_run = correct(inputs.load, inputs.snapshot.nodes, so_far.moved)
    inputs = replace(inputs, load=by_this_run.load)
    if not options.ignore_coverage:
        _check_coverage(inputs)
    earlier = inputs.state.moves if inputs.state else ()
    corrected = correct(inputs.load, inputs.snapshot.nodes, earlier)
    settling = {**_still_leaving(inputs, earlier), **corrected.figures_outdated}
    inputs = replace(inputs, load=corrected.load)
    schedulers = ProfileSchedulers(inputs)
    load = inputs.load
    leaving = pods_leaving(inputs)
    hotness = find_hot_nodes(inputs, schedulers.rule_scores(), leaving, so_far.hot)
    snapshot = as_a_run_has_them(inputs.snapshot, so_far.closed or (), inputs.now)
    if snapshot is not inputs.snapshot:
        inputs = replace(inputs, snapshot=snapshot)
        schedulers = ProfileSchedulers(inputs)
    pods = inputs.snapshot.pods
    by_class = [
        requested_amounts(of_class.incoming, RESOURCES) for of_class in schedulers.state.classes.requests
    ]
    requests = np.array(by_class, np.float64).reshape(-1, len(RESOURCES))[pods.pod_class]
    recent = recent_load(inputs.load, pods, inputs.snapshot.nodes, requests, (*earlier, *so_far.moved))
    # What leaves by itself is not hot, and is there for a while; nor can nodes use less than their pods do.
    hot = hotness.hot[:, None]
    gone = load.usage_of(leaving)
    usage = np.where(hot, np.maximum(load.usage - gone, 0.0), load.usage + recent.missing)
    lingering = np.nan_to_num(np.maximum(load.least_usage - usage, np.where(hot, load.usage - usage, 0.0)))
    unpredictable = find_unpredictable(inputs)
    eviction = EvictionContext.of(inputs, unpredictable, schedulers.claims, leaving, so_far.moved_workloads)
    spread = Spread(eviction.workloads, pods, inputs.snapshot.nodes)
    planning = inputs.policy.planning
    leaving_count = np.where(hotness.hot, load.count_of(leaving), 0)
    random = np.random.default_rng(inputs.seed)
    start = Scenarios(schedulers.state.copy(), usage, random, load.allocatable, leaving_count)
    pending = place_pending(inputs, schedulers, start, options.ensure_wanted)
    return PreparedInputs(
        inputs=inputs,
        so_far=so_far,
        options=options,
        schedulers=schedulers,
        eviction=eviction,
        hotness=hotness,
        cooler_node=CoolerNode(hotness, planning.min_gain, spread, planning.weights.spread),
        landing_check=LandingCheck(inputs, hotness, spread, settling, recent.recent_arrivals, lingering),
        start=start,
        pending=pending,
        outdated_by_this_run=by_this_run.figures_outdated,
    )


def pods_leaving(inputs: PlanningInputs) -> BoolArray:
    """(pods,) whose load is gone before the next run, whatever this one does."""
    ends = end_times(inputs.snapshot)
    return leaving_pods(ends, inputs.now, inputs.policy.hot_nodes.run_interval)


def hotness_of(inputs: PlanningInputs) -> tuple[LoadReport, Hotness]:
    """The load that a plan of these inputs would go by, and what of it is hot.

    Raises SafetyError as ``prepare`` does: of a cluster whose load is not known, nobody knows what is hot.
    """
    _check_coverage(inputs)
    earlier = inputs.state.moves if inputs.state else ()
    inputs = replace(inputs, load=correct(inputs.load, inputs.snapshot.nodes, earlier).load)
    by_score = any(isinstance(rule, ScoreRule) for rule in inputs.policy.hot_nodes.every_rule)
    scores = ProfileSchedulers(inputs).rule_scores() if by_score else {}
    return inputs.load, find_hot_nodes(inputs, scores, pods_leaving(inputs))


def _still_leaving(inputs: PlanningInputs, moves: Iterable[PastMove]) -> dict[int, str]:
    """The nodes that a pod of an earlier run is still being moved away from, with the reason.

    Somebody else moves it, or a rolling update that had not ended when its run did.

    That pod counted against the limits of its run, and its load will go: nothing else is moved in its stead,
    for as long as its workload is left alone after a first move.
    """
    pods = inputs.snapshot.pods
    nodes = inputs.snapshot.nodes
    reason_by_node: dict[int, str] = {}
    for move in moves:
        row = pods.row.get((move.namespace, move.name))
        if not Result.of(move.result).is_under_way or row is None or pods.uids[row] != move.uid:
            continue
        node = nodes.row.get(move.from_node)
        if node == pods.node[row] and inputs.now - move.evicted_at < inputs.policy.planning.cooldown:
            reason_by_node[int(pods.node[row])] = (
                f"{move.namespace}/{move.name} is still being moved away from it"
            )
    return reason_by_node


# How a window of the policy is tried on a recorded cluster.
_TRY_ANOTHER_TIME = (
    "a recording is as old as its figures: leave --now out; to try a window at another time, write "
    "load: {maxAge: 24h} into a copy of the policy, as long as --now is away from them"
)


def _check_coverage(inputs: PlanningInputs) -> None:
    coverage = coverage_of(inputs)
    least = inputs.policy.load.min_coverage
    load = inputs.load
    if coverage.share >= least:
        return
    that_count = "" if coverage.counts.all() else " that pods may leave or land on"
    counts = (
        f"only {coverage.with_figure:,} of {counted(coverage.counted, 'node')}{that_count} "
        f"{'has' if coverage.counted == 1 else 'have'} a fresh load figure ({coverage.share:.0%}), "
        f"load.minCoverage is {least:.0%}"
    )
    if load.why_stale:
        raise SafetyError(
            f"{load.why_stale}: {counts}",
            where=inputs.snapshot.source,
            hint="" if inputs.live else _TRY_ANOTHER_TIME,
        )
    missing = {
        name: np.isnan(load.usage[coverage.counts, load.resources.index(name)]) for name in load.required
    }
    lacking = [f"{name} of {counted(int(at.sum()), 'node')}" for name, at in missing.items() if at.any()]
    why = [f"no fresh figure of {', '.join(lacking)}" if lacking else "others lack allocatable cpu or memory"]
    why += load.warnings[:1]  # the first reason that a source gave
    if dark := [name for name, at in missing.items() if at.all()]:
        answering = f"{', '.join(load.sources)} answered, and " if load.sources else ""
        why.append(f"{answering}no source gives {' or '.join(dark)}, without which a node is unknown")
    raise SafetyError(
        f"{counts}; {'; '.join(why)}",
        where=inputs.snapshot.source,  # not the sources that answered: it is another that is missing
        hint="see which nodes are unknown with rebalancer nodes and the same options",
    )
