"""The planner: greedy, hottest node first, each move tried in every possible scenario before it counts.

Bounded by counts, never by time; ordered by load and name, never by chance or by the order of the input.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rebalancer.cluster.arrays import FloatArray, IntArray
from rebalancer.errors import SafetyError
from rebalancer.load.correction import correct
from rebalancer.planning.eviction.protections import Protections
from rebalancer.planning.hot_nodes.rules import Hotness, find_hot_nodes, groups_of
from rebalancer.planning.inputs import PlanningInputs
from rebalancer.planning.landing.acceptability import LandingCheck
from rebalancer.planning.landing.evaluation import Candidate, MoveEvaluator
from rebalancer.planning.landing.pending_pods import place_pending
from rebalancer.planning.landing.scenarios import Scenarios
from rebalancer.planning.landing.schedulers import Model
from rebalancer.planning.reasons import KeptReason, Reason
from rebalancer.planning.search.constraint_violations import ConstraintViolations
from rebalancer.planning.search.covering_sets import fewest
from rebalancer.planning.search.disruption_cost import Disruption
from rebalancer.planning.search.hot_node_relief import BOUNDS, NodeRelief, relief_of
from rebalancer.planning.search.plan_builder import PlanBuilder, PlannedMove

_MAX_ORDERS = 3  # in which the hot nodes are tried
# Reasons that may be another node's doing: it went first, and took the room.
_DEPENDS_ON_ORDER = frozenset({Reason.NO_BETTER_LANDING, Reason.CANNOT_COOL})


@dataclass(frozen=True, slots=True, eq=False)
class Before:
    """What is expected on the nodes before any move, Pending pods placed."""

    usage: FloatArray  # (nodes, measured resources)
    pod_count: IntArray  # (nodes,)


class Planner:
    """Plans one run; ``moves`` and ``kept`` hold what it decided."""

    def __init__(self, inputs: PlanningInputs) -> None:
        """Raises SafetyError when too few nodes have a fresh figure to act on."""
        _check_coverage(inputs)
        corrected = correct(inputs.load, inputs.snapshot.nodes, inputs.state.moves if inputs.state else ())
        inputs = dataclasses.replace(inputs, load=corrected.load)
        self.inputs = inputs
        self.policy = inputs.policy
        self.pods = inputs.snapshot.pods
        self.model = Model(inputs)
        self.protections = Protections(inputs, self.model.unpredictable())
        self.hotness = hot_nodes(inputs, self.model)
        self.landing_check = LandingCheck(inputs, self.hotness, corrected.settling)
        random = np.random.default_rng(inputs.seed)
        state = self.model.state.copy()
        usage = inputs.load.usage.copy()
        self.pending = place_pending(inputs, self.model, state, usage)
        self.before = Before(usage.copy(), state.pod_count.copy())
        self.evaluator = MoveEvaluator(inputs, self.model, self.landing_check, self.pending.waiting)
        scenarios = Scenarios(state, usage, random)
        self.builder = PlanBuilder(inputs, self.protections, self.evaluator, scenarios)
        self.kept: dict[int, KeptReason] = {}
        self.misplaced = ConstraintViolations(inputs, self.model)
        self.disruption = Disruption(inputs, self.protections.workloads)

    @property
    def scenarios(self) -> Scenarios:
        """Where the moves so far may lead."""
        return self.builder.scenarios

    @property
    def moves(self) -> list[PlannedMove]:
        """The moves so far."""
        return self.builder.moves

    # What to do

    def plan(self) -> None:
        """Cool the hot nodes, hottest first; where that leaves some hot or takes more pods than the fewest,
        those first. The plan that leaves the fewest hot counts, of such the one with the fewest moves.
        """
        order = self._hottest_first()
        candidates = {node: self._candidates(node, self._blocked(node)) for node in order}
        start, protected = self.builder.scenarios, self.kept
        best: tuple[tuple[int, int], PlanBuilder, dict[int, KeptReason]] | None = None
        for _ in range(_MAX_ORDERS):
            self.builder = PlanBuilder(self.inputs, self.protections, self.evaluator, start.copy())
            self.kept = dict(protected)
            self._cool_in_order(order, candidates)
            uncooled, strained = self._strained(order, candidates)
            result = (uncooled, len(self.moves))
            if best is None or result < best[0]:
                best = result, self.builder, self.kept
            if not strained or order[: len(strained)] == strained or self._bounded():
                break
            order = [*strained, *(node for node in order if node not in strained)]
        assert best is not None
        _, self.builder, self.kept = best
        if self.policy.strategies.misplaced:
            self._move_misplaced()

    def _cool_in_order(self, order: Sequence[int], candidates: Mapping[int, list[Candidate]]) -> None:
        """What one node leaves may be room for what another could not move: again until nothing moves."""
        relief = NodeRelief(self.inputs, self.builder, self.hotness, self.disruption, self.kept)
        left = {node: candidates[node] for node in order}
        moves = -1
        while len(self.moves) > moves:
            moves = len(self.moves)
            for node in order:
                relief.cool(node, left[node])
                left[node] = [item for item in left[node] if item.row in self.kept]

    def _bounded(self) -> bool:
        return any(protection.reason in BOUNDS for protection in self.kept.values())

    def _strained(
        self, order: Sequence[int], candidates: Mapping[int, list[Candidate]]
    ) -> tuple[int, list[int]]:
        """How many nodes stay above their coolTo, and which might do better if they came first."""
        moves = Counter(move.evaluation.candidate.source for move in self.moves)
        uncooled, strained = 0, []
        for node in order:
            cool = self.hotness.is_cool(node, self.expected_percent(node))
            uncooled += not cool
            reasons = {self.kept[item.row].reason for item in candidates[node] if item.row in self.kept}
            wasteful = cool and moves[node] > self._fewest(node, candidates[node])
            if wasteful or (not cool and reasons & _DEPENDS_ON_ORDER):
                strained.append(node)
        return uncooled, strained

    def _fewest(self, node: int, candidates: Sequence[Candidate]) -> int:
        """No fewer pods than this cool a node, wherever they land."""
        relief = relief_of(candidates, self.inputs.load.allocatable[node]) if candidates else np.zeros((0, 0))
        need = self.inputs.load.percent[node] - self.hotness.cool_to[node]
        return fewest(relief, np.maximum(np.nan_to_num(need, nan=0.0, neginf=0.0), 0.0))

    def _move_misplaced(self) -> None:
        """Move pods that their nodes would not admit any more, in order of node and name."""
        moved = {move.evaluation.candidate.row for move in self.moves}
        for node in sorted(self.pods.by_node):
            for row in self.pods.by_node[node].tolist() if node >= 0 else ():
                if row in moved or self.misplaced.looked_at >= self.policy.planning.max_placements:
                    continue
                because = self.misplaced.because(row, self.scenarios.all[0].after_termination)
                if not because:
                    continue
                protection = self._settling(node) or self.protections.judge(row)
                found = protection or self.builder.find(self._candidate(row, node))
                if isinstance(found, KeptReason):
                    self.kept[row] = KeptReason(found.reason, f"{found.because} (misplaced: {because})")
                else:
                    self.builder.add(found, because)
                    self.kept.pop(row, None)

    def try_moves(self, waves: Iterable[Sequence[int]]) -> None:
        """Try these pods only, in these waves; ``kept`` says of those that no longer hold, why."""
        for rows in waves:
            self.builder.next_wave()
            for row in rows:
                node = int(self.pods.node[row])
                protection = self._settling(node) or self.protections.judge(row)
                misplaced = self._misplaced(row)
                if not misplaced and self.hotness.is_cool(node, self.expected_percent(node)):
                    protection = KeptReason(Reason.NOT_NEEDED, "its node has cooled without moving it")
                candidate = self._candidate(row, node)
                found = protection or self.builder.find(candidate, may_wait=False)
                if isinstance(found, KeptReason):
                    self.kept[row] = found
                else:
                    self.builder.add(found, misplaced)

    def _misplaced(self, row: int) -> str:
        return (
            self.misplaced.because(row, self.scenarios.all[0].after_termination)
            if self.policy.strategies.misplaced
            else ""
        )

    def _hottest_first(self) -> list[int]:
        excess = np.nan_to_num(self.inputs.load.percent - self.hotness.cool_to, nan=-np.inf).max(axis=1)
        names = self.inputs.snapshot.nodes.names
        hot = np.flatnonzero(self.hotness.hot).tolist()
        return sorted(hot, key=lambda node: (-float(excess[node]), names[node]))

    def _settling(self, node: int) -> KeptReason | None:
        settling = self.landing_check.settling.get(node)
        return KeptReason(Reason.SETTLING, settling) if settling else None

    def _blocked(self, node: int) -> KeptReason | None:
        """Why nothing may leave a hot node in this run."""
        settling = self._settling(node)
        if settling:
            return settling
        state, needed = self.inputs.state, self.policy.hot_nodes.for_runs
        runs = state.hot_runs(self.inputs.snapshot.nodes.names[node]) + 1 if state else needed
        if runs < needed:
            return KeptReason(Reason.HOT_TOO_BRIEFLY, f"its node is hot in run {runs} of the {needed} wanted")
        return None

    def _candidates(self, node: int, blocked: KeptReason | None) -> list[Candidate]:
        """The evictable pods of a node; all others are kept with their reason."""
        found: list[Candidate] = []
        for row in self.pods.by_node.get(node, np.zeros(0, np.int64)).tolist():
            protection = self.protections.judge(row) or blocked
            if protection is not None:
                self.kept[row] = protection
            else:
                found.append(self._candidate(row, node))
        return found

    def _candidate(self, row: int, node: int) -> Candidate:
        return Candidate(
            row=row,
            source=node,
            replacement=self.protections.replacement(row).class_index,
            usage=self.inputs.load.pod_usage[row],
            replaced_late=self.pods.class_of(row).owner.kind == "StatefulSet",
        )

    # Choosing

    def expected_percent(self, node: int) -> FloatArray:
        """(resources,) percent of allocatable expected on a node after the moves so far (mean)."""
        return self.builder.expected_percent(node)


def hot_nodes(inputs: PlanningInputs, model: Model) -> Hotness:
    """Which nodes are hot by the policy's rules."""
    nodes = inputs.snapshot.nodes
    unschedulable = np.array([node.spec.unschedulable for node in nodes.records], np.bool_)
    known = inputs.load.known
    return find_hot_nodes(
        groups_of(inputs.policy.hot_nodes, [node.metadata.labels or {} for node in nodes.records]),
        inputs.load.percent,
        known=known,
        counted=np.asarray(nodes.ready & known & ~unschedulable, np.bool_),
        scores=model.rule_scores(),
        names=inputs.load.percent_resources,
    )


def _check_coverage(inputs: PlanningInputs) -> None:
    load, least = inputs.load, inputs.policy.load.min_coverage
    if load.coverage < least:
        known = int(np.count_nonzero(load.known))
        sources = ", ".join(load.sources) or "no source"
        raise SafetyError(
            f"only {known} of {len(load.known)} nodes have a fresh load figure ({load.coverage:.0%}), "
            f"load.minCoverage is {least:.0%}",
            where=sources,
            hint="see which nodes are unknown with: rebalancer nodes",
        )
