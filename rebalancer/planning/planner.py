"""The planner: greedy, hottest node first, each move tried in every possible world before it counts.

Bounded by counts, never by time; ordered by load and name, never by chance or by the order of the input.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from rebalancer.cluster.nodes import FloatArray
from rebalancer.errors import SafetyError
from rebalancer.load.correction import correct
from rebalancer.load.report import with_pods
from rebalancer.planning.acceptance import Acceptance
from rebalancer.planning.attempt import Attempt, Attempts, Candidate
from rebalancer.planning.budgets import WaveBudgets
from rebalancer.planning.hotness import Hotness, find_hot_nodes
from rebalancer.planning.inputs import PlanningInputs
from rebalancer.planning.model import Model
from rebalancer.planning.pending import place_pending
from rebalancer.planning.protections import Protections
from rebalancer.planning.reasons import Protection, Reason
from rebalancer.planning.worlds import Worlds


@dataclass(frozen=True, slots=True, eq=False)
class PlannedMove:
    """A move with the attempt that justified it."""

    attempt: Attempt
    wave: int  # counted from 1
    before: FloatArray  # (resources,) percent of the node left, when the move was planned


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
        self.acceptance = Acceptance(inputs, self.hotness, corrected.settling)
        random = np.random.default_rng(inputs.seed)
        state = self.model.state.copy()
        usage = inputs.load.usage.copy()
        self.pending = place_pending(inputs, self.model, state, usage)
        self.worlds = Worlds(state, usage, random)
        self.attempts = Attempts(inputs, self.model, self.acceptance, self.pending.waiting)
        self.moves: list[PlannedMove] = []
        self.kept: dict[int, Protection] = {}
        self._confidence = 1.0
        self._wave = 1
        self._in_wave = 0
        self._wave_budgets = WaveBudgets()
        self._by_node: Counter[int] = Counter()
        self._by_namespace: Counter[str] = Counter()
        self._by_workload: Counter[str] = Counter()

    # What to do

    def plan(self) -> None:
        """Cool the hot nodes, hottest first; what one leaves may be room for what another could not move."""
        left = {node: self._candidates(node, self._blocked(node)) for node in self._hottest_first()}
        moves = -1
        while len(self.moves) > moves:
            moves = len(self.moves)
            for node, candidates in left.items():
                self._cool(node, candidates)
                left[node] = [item for item in candidates if item.row in self.kept]

    def try_moves(self, waves: Iterable[Sequence[int]]) -> None:
        """Try these pods only, in these waves; ``kept`` says of those that no longer hold, why."""
        for rows in waves:
            self._next_wave()
            for row in rows:
                node = int(self.pods.node[row])
                protection = self._settling(node) or self.protections.judge(row)
                if self.hotness.is_cool(node, self.expected_percent(node)):
                    protection = Protection(Reason.NOT_NEEDED, "its node has cooled without moving it")
                if protection is not None:
                    self.kept[row] = protection
                else:
                    self._try(self._candidate(row, node), may_wait=False)

    def _hottest_first(self) -> list[int]:
        excess = np.nan_to_num(self.inputs.load.percent - self.hotness.cool_to, nan=-np.inf).max(axis=1)
        names = self.inputs.snapshot.nodes.names
        hot = np.flatnonzero(self.hotness.hot).tolist()
        return sorted(hot, key=lambda node: (-float(excess[node]), names[node]))

    def _settling(self, node: int) -> Protection | None:
        settling = self.acceptance.settling.get(node)
        return Protection(Reason.SETTLING, settling) if settling else None

    def _blocked(self, node: int) -> Protection | None:
        """Why nothing may leave a hot node in this run."""
        settling = self._settling(node)
        if settling:
            return settling
        state, needed = self.inputs.state, self.policy.hot_nodes.for_runs
        runs = state.hot_runs(self.inputs.snapshot.nodes.names[node]) + 1 if state else needed
        if runs < needed:
            return Protection(Reason.HOT_TOO_BRIEFLY, f"its node is hot in run {runs} of the {needed} wanted")
        return None

    def _candidates(self, node: int, blocked: Protection | None) -> list[Candidate]:
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
        """(resources,) percent of allocatable expected on a node after the moves so far, over all worlds."""
        return np.asarray(
            np.mean([self.attempts.percent_of(world, node) for world in self.worlds.all], axis=0), np.float64
        )

    def _cool(self, node: int, candidates: list[Candidate]) -> None:
        """Move the pods that bring the node to its coolTo with the fewest departures."""
        left = candidates
        floor = self._coolest(node, candidates)
        if floor:
            self._keep(candidates, Protection(Reason.CANNOT_COOL, floor))
            return
        while left:
            percent = self.expected_percent(node)
            if self.hotness.is_cool(node, percent):
                self._keep(left, Protection(Reason.NOT_NEEDED, "its node cools without moving it"))
                return
            need = np.maximum(np.nan_to_num(percent - self.hotness.cool_to[node], nan=0.0, neginf=0.0), 0.0)
            best = min(left, key=lambda item: self._preference(item, need))
            left = [item for item in left if item is not best]
            if not self._relieves(best, need):
                self._keep([best], Protection(Reason.NO_RELIEF, "it uses nothing of what its node is hot in"))
            else:
                self._try(best)

    def _coolest(self, node: int, candidates: list[Candidate]) -> str:
        """Why no set of these pods makes the node cool enough not to be hot; empty when one may."""
        percent = self.expected_percent(node)
        best = (
            percent - np.sum([self._relief(item) for item in candidates], axis=0) if candidates else percent
        )
        stuck = best > self.hotness.hot_above[node]
        if not candidates or not stuck.any():
            return ""
        levels = ", ".join(
            f"{best[column]:.1f} % {self.hotness.names[column]}" for column in np.flatnonzero(stuck).tolist()
        )
        return f"even without all its evictable pods its node would stay hot at {levels}"

    def _keep(self, candidates: list[Candidate], protection: Protection) -> None:
        for candidate in candidates:
            self.kept[candidate.row] = protection

    def _relief(self, candidate: Candidate) -> FloatArray:
        """(resources,) points of allocatable that leave the node with the pod."""
        amounts = with_pods(candidate.usage, 1.0)
        allocatable = self.inputs.load.allocatable[candidate.source]
        return np.where(allocatable > 0, 100.0 * amounts / np.where(allocatable > 0, allocatable, 1.0), 0.0)

    def _relieves(self, candidate: Candidate, need: FloatArray) -> bool:
        return bool((self._relief(candidate)[need > 0] > 0).any())

    def _preference(self, candidate: Candidate, need: FloatArray) -> tuple[bool, float, int, str]:
        """One pod that is enough before several; of those the closest fit; else the one that leaves least."""
        wanted = need > 0
        share = self._relief(candidate)[wanted] / need[wanted]
        enough = bool((share >= 1).all())
        size = float(share.min()) if enough else -float(np.minimum(share, 1.0).sum())
        priority = self.pods.class_of(candidate.row).priority
        return not enough, size, priority, self.pods.full_name(candidate.row)

    # Trying

    def _limit(self, candidate: Candidate) -> Protection | None:
        limits = self.policy.limits
        if len(self.moves) >= limits.per_run:
            return Protection(Reason.LIMIT, f"perRun {limits.per_run} is reached")
        if self._by_node[candidate.source] >= limits.per_node:
            return Protection(Reason.LIMIT, f"perNode {limits.per_node} is reached")
        namespace = self.pods.namespaces[candidate.row]
        if self._by_namespace[namespace] >= limits.per_namespace:
            return Protection(Reason.LIMIT, f"perNamespace {limits.per_namespace} is reached for {namespace}")
        facts = self.protections.workload(candidate.row)
        most = limits.per_workload.of(facts.desired or 0)
        if self._by_workload[facts.key] >= most:
            return Protection(
                Reason.LIMIT, f"perWorkload {limits.per_workload} ({most}) is reached for {facts.name}"
            )
        most = self.policy.planning.max_placements
        tries = 2 if self._in_wave else 1  # the second in the next wave
        if self.attempts.placements + tries * self.attempts.cost(self.worlds) > most:
            return Protection(Reason.SEARCH_ENDED, f"maxPlacements {most} is reached")
        return None

    def _try(self, candidate: Candidate, *, may_wait: bool = True) -> None:
        """Plan a move if it holds; otherwise keep the pod with the reason."""
        found = self._limit(candidate) or self._attempt(candidate, may_wait)
        if isinstance(found, Protection):
            self.kept[candidate.row] = found
        else:
            self._commit(found)
            self.kept.pop(candidate.row, None)

    def _attempt(self, candidate: Candidate, may_wait: bool) -> Attempt | Protection:
        """A move that holds in this wave or, where it may wait, in the next one; else why the pod stays."""
        exhausted = self._wave_budgets.exhausted(self.protections.budgets.spending(candidate.row))
        if may_wait and (exhausted or self._wave_is_full()):
            self._next_wave()
        elif exhausted:
            return Protection(Reason.BUDGET, f"budget {exhausted.name} {exhausted.because}, spent by others")
        attempt = self.attempts.make(candidate, self.worlds)
        if may_wait and attempt.only_lingering and self._in_wave:
            # What this wave evicts is still in the way; it will be gone when the next one starts.
            self._next_wave()
            attempt = self.attempts.make(candidate, self.worlds)
        holds = self._confidence * (1.0 - attempt.unacceptable)
        if attempt.sampled and holds >= self.policy.planning.confidence:
            return attempt
        return attempt.refused or attempt

    def _wave_is_full(self) -> bool:
        execution = self.policy.execution
        return self._in_wave >= (execution.first_wave if self._wave == 1 else execution.wave_size)

    def _next_wave(self) -> None:
        if not self._in_wave:
            return
        self._wave += 1
        self._in_wave = 0
        self._wave_budgets = WaveBudgets()
        self.worlds.next_wave()

    def _commit(self, attempt: Attempt) -> None:
        """Carry the move out in every world, each with a landing of its own."""
        candidate = attempt.candidate
        before = self.expected_percent(candidate.source)
        by_world = list(attempt.by_world)
        if len(self.worlds.all) == 1 and len(by_world[0].rows) > 1:
            self.worlds.part()
            by_world *= len(self.worlds.all)
        for world, landings in zip(self.worlds.all, by_world, strict=True):
            target = self.worlds.draw(landings.rows, landings.chance)
            for state in (world.lingering, world.settled):
                if state is world.settled:
                    state.remove(candidate.row)
                else:
                    state.evict(candidate.row)
                state.bind(state.add(candidate.replacement), target)
            world.usage[candidate.source] -= candidate.usage
            world.held[candidate.source] += candidate.usage
            world.usage[target] += candidate.usage
        self._wave_budgets.spend(self.protections.budgets.spending(candidate.row))
        self._confidence *= 1.0 - attempt.unacceptable
        self._in_wave += 1
        self._by_node[candidate.source] += 1
        self._by_namespace[self.pods.namespaces[candidate.row]] += 1
        self._by_workload[self.protections.workload(candidate.row).key] += 1
        self.moves.append(PlannedMove(attempt, self._wave, before))


def hot_nodes(inputs: PlanningInputs, model: Model) -> Hotness:
    """Which nodes are hot by the policy's rules."""
    nodes = inputs.snapshot.nodes
    unschedulable = np.array([node.spec.unschedulable for node in nodes.records], np.bool_)
    known = inputs.load.known
    return find_hot_nodes(
        inputs.policy.hot_nodes,
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
