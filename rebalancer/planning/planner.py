"""The planner: greedy, hottest node first, each move tried in every possible world before it counts.

Bounded by counts, never by time; ordered by load and name, never by chance or by the order of the input.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from rebalancer.cluster.nodes import FloatArray, IntArray
from rebalancer.errors import SafetyError
from rebalancer.load.correction import correct
from rebalancer.load.report import with_pods
from rebalancer.planning.acceptance import Acceptance
from rebalancer.planning.attempt import Attempt, Attempts, Candidate
from rebalancer.planning.budgets import WaveBudgets
from rebalancer.planning.choosing import sets_that_cool
from rebalancer.planning.disruption import Disruption
from rebalancer.planning.hotness import Hotness, find_hot_nodes
from rebalancer.planning.inputs import PlanningInputs
from rebalancer.planning.limits import Used
from rebalancer.planning.model import Model
from rebalancer.planning.pending import place_pending
from rebalancer.planning.protections import Protections
from rebalancer.planning.reasons import Protection, Reason
from rebalancer.planning.worlds import Worlds

_MOST_TRIES = 40  # sets of pods tried to cool one node
# What may end a plan halfway through a node: the next run goes on from there.
_BOUNDS = frozenset({Reason.LIMIT, Reason.CONFIDENCE, Reason.SEARCH_ENDED})


@dataclass(frozen=True, slots=True, eq=False)
class Before:
    """What is expected on the nodes before any move, Pending pods placed."""

    usage: FloatArray  # (nodes, measured resources)
    pod_count: IntArray  # (nodes,)


@dataclass(frozen=True, slots=True, eq=False)
class _Found:
    """A move that holds."""

    attempt: Attempt
    later: bool  # in the next wave


@dataclass(frozen=True, slots=True, eq=False)
class _Failed:
    """The pod that kept a set from moving."""

    candidate: Candidate
    alone: bool = False  # it cannot move even before all others
    bounded: bool = False  # a bound of the plan was reached; what moved before it stays


@dataclass(frozen=True, slots=True, eq=False)
class PlannedMove:
    """A move with the attempt that justified it."""

    attempt: Attempt
    wave: int  # counted from 1
    before: FloatArray  # (resources,) percent of the node left, when the move was planned


@dataclass(frozen=True, slots=True, eq=False)
class _Checkpoint:
    """The planner before a node was tried, to go back to."""

    worlds: Worlds
    used: Used
    budgets: WaveBudgets
    confidence: float
    wave: int
    in_wave: int
    moves: int


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
        self.disruption = Disruption(inputs, self.protections.workloads)
        self.hotness = hot_nodes(inputs, self.model)
        self.acceptance = Acceptance(inputs, self.hotness, corrected.settling)
        random = np.random.default_rng(inputs.seed)
        state = self.model.state.copy()
        usage = inputs.load.usage.copy()
        self.pending = place_pending(inputs, self.model, state, usage)
        self.before = Before(usage.copy(), state.pod_count.copy())
        self.worlds = Worlds(state, usage, random)
        self.attempts = Attempts(inputs, self.model, self.acceptance, self.pending.waiting)
        self.moves: list[PlannedMove] = []
        self.kept: dict[int, Protection] = {}
        self._confidence = 1.0
        self._wave = 1
        self._in_wave = 0
        self._wave_budgets = WaveBudgets()
        self._used = Used(inputs.policy.limits)
        self._later: Worlds | None = None

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
                candidate = self._candidate(row, node)
                found = protection or self._find(candidate, may_wait=False)
                if isinstance(found, Protection):
                    self.kept[row] = found
                else:
                    self._commit(found)

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
        """Move the fewest pods that bring the node to its coolTo, else below its threshold, else none."""
        percent = self.expected_percent(node)
        if self.hotness.is_cool(node, percent):
            self._keep(candidates, Protection(Reason.NOT_NEEDED, "its node cools without moving it"))
            return
        if not candidates:
            return
        relief = np.array([self._relief(item) for item in candidates])
        above = percent > self.hotness.cool_to[node]
        helps: Sequence[bool] = np.any(relief[:, above] > 0, axis=1).tolist()
        useless = [candidates[at] for at, does in enumerate(helps) if not does]
        self._keep(useless, Protection(Reason.NO_RELIEF, "it uses nothing of what its node is hot in"))
        useful = [candidates[at] for at, does in enumerate(helps) if does]
        stuck = self._stuck(node, percent - relief.sum(axis=0))
        if stuck:
            self._keep(useful, Protection(Reason.CANNOT_COOL, stuck))
            return
        self._keep(useful, Protection(Reason.NOT_NEEDED, "its node cools without moving it"))
        for level in (self.hotness.cool_to[node], self.hotness.hot_above[node]):
            if self._cool_to(useful, percent, level):
                break
            if any(self._bounded(item) for item in useful):
                self._cool_partly(node, useful)
                break
        else:
            self._explain_failure(node, useful, percent)

    def _bounded(self, candidate: Candidate) -> bool:
        kept = self.kept.get(candidate.row)
        return kept is not None and kept.reason in _BOUNDS

    def _cool_partly(self, node: int, candidates: list[Candidate]) -> None:
        """Go as far as the bounds allow, the largest pods first: the next run goes on from there."""
        left = [item for item in candidates if item.row in self.kept]
        left.sort(key=lambda item: (-float(self._relief(item).sum()), self.pods.full_name(item.row)))
        for candidate in left:
            if self.hotness.is_cool(node, self.expected_percent(node)):
                return
            found = self._find(candidate)
            if isinstance(found, Protection):
                self.kept[candidate.row] = found
            else:
                self._commit(found)

    def _stuck(self, node: int, percent: FloatArray) -> str:
        """Why a node that ends at (resources,) percent has not cooled; empty when it is not hot any more."""
        above = percent > self.hotness.hot_above[node]
        levels = ", ".join(
            f"{percent[column]:.1f} % {self.hotness.names[column]}"
            for column in np.flatnonzero(above).tolist()
        )
        return f"even without all its evictable pods its node would stay hot at {levels}" if levels else ""

    def _cool_to(self, candidates: list[Candidate], percent: FloatArray, level: FloatArray) -> bool:
        """Move the cheapest smallest set that brings a node to a level; False when no such set can move."""
        need = np.maximum(np.nan_to_num(percent - level, nan=0.0, neginf=0.0), 0.0)
        movable = list(candidates)
        tries = 0
        while movable and tries < _MOST_TRIES:
            relief = np.array([self._relief(item) for item in movable])
            cost = self.disruption.costs([item.row for item in movable])
            for chosen in sets_that_cool(relief, need, cost, self.policy.planning.weights.fit):
                tries += 1
                failed = self._move_all([movable[at] for at in chosen])
                if failed is None:
                    return True
                if failed.bounded:
                    return False
                if failed.alone:
                    movable = [item for item in movable if item is not failed.candidate]
                    break
                if tries >= _MOST_TRIES:
                    return False
            else:
                return False
        return False

    def _explain_failure(self, node: int, candidates: list[Candidate], percent: FloatArray) -> None:
        """Say of the pods that could move why they do not: without the others it would be for nothing."""
        able = [item for item in candidates if self.kept[item.row].reason is Reason.NOT_NEEDED]
        if not able:
            return
        after = percent - np.sum([self._relief(item) for item in able], axis=0)
        level = self.hotness.hot_above[node]
        levels = ", ".join(
            f"{after[column]:.1f} % {self.hotness.names[column]}"
            for column in np.flatnonzero(after > level).tolist()
        )
        because = f"with only the pods that may move gone its node would stay hot at {levels}"
        if not levels:
            because = "no set of pods that cools its node can move together"
        self._keep(able, Protection(Reason.CANNOT_COOL, because))

    def _keep(self, candidates: list[Candidate], protection: Protection) -> None:
        for candidate in candidates:
            self.kept[candidate.row] = protection

    def _relief(self, candidate: Candidate) -> FloatArray:
        """(resources,) points of allocatable that leave the node with the pod."""
        amounts = with_pods(candidate.usage, 1.0)
        allocatable = self.inputs.load.allocatable[candidate.source]
        return np.where(allocatable > 0, 100.0 * amounts / np.where(allocatable > 0, allocatable, 1.0), 0.0)

    # Trying

    def _move_all(self, chosen: Sequence[Candidate]) -> _Failed | None:
        """Move all of them, or none but where a bound is reached on the way."""
        checkpoint: _Checkpoint | None = None
        for position, candidate in enumerate(chosen):
            found = self._find(candidate)
            if not isinstance(found, Protection):
                if checkpoint is None and len(chosen) > 1:
                    checkpoint = self._checkpoint()
                self._commit(found)
                continue
            self.kept[candidate.row] = found
            if checkpoint is None:
                return _Failed(candidate, alone=True)
            if found.reason in _BOUNDS:
                return _Failed(candidate, bounded=True)
            self._go_back(checkpoint)
            again = self._find(candidate)  # without those that would have gone before it
            if not isinstance(again, Protection):
                self.kept[candidate.row] = Protection(Reason.NOT_NEEDED, "its node cools without moving it")
            return _Failed(candidate, alone=isinstance(again, Protection) and position > 0)
        return None

    def _checkpoint(self) -> _Checkpoint:
        return _Checkpoint(
            self.worlds.copy(),
            self._used.copy(),
            self._wave_budgets.copy(),
            self._confidence,
            self._wave,
            self._in_wave,
            len(self.moves),
        )

    def _go_back(self, checkpoint: _Checkpoint) -> None:
        for move in self.moves[checkpoint.moves :]:
            because = "its node cools without moving it"
            self.kept[move.attempt.candidate.row] = Protection(Reason.NOT_NEEDED, because)
        del self.moves[checkpoint.moves :]
        self.worlds, self._used, self._wave_budgets = checkpoint.worlds, checkpoint.used, checkpoint.budgets
        self._confidence, self._wave, self._in_wave = (
            checkpoint.confidence,
            checkpoint.wave,
            checkpoint.in_wave,
        )
        self._later = None

    def _limit(self, candidate: Candidate) -> Protection | None:
        reached = self._used.refusal(
            candidate.source, self.pods.namespaces[candidate.row], self.protections.workload(candidate.row)
        )
        if reached:
            return reached
        most = self.policy.planning.max_placements
        tries = 2 if self._in_wave else 1  # the second in the next wave
        if self.attempts.placements + tries * self.attempts.cost(self.worlds) > most:
            return Protection(Reason.SEARCH_ENDED, f"maxPlacements {most} is reached")
        return None

    def _find(self, candidate: Candidate, *, may_wait: bool = True) -> _Found | Protection:
        """A move that holds in this wave or, where it may wait, in the next one; else why the pod stays."""
        limit = self._limit(candidate)
        if limit:
            return limit
        exhausted = self._wave_budgets.exhausted(self.protections.budgets.spending(candidate.row))
        if exhausted and not may_wait:
            return Protection(Reason.BUDGET, f"budget {exhausted.name} {exhausted.because}, spent by others")
        later = may_wait and self._in_wave > 0 and (exhausted is not None or self._wave_is_full())
        attempt = self.attempts.make(candidate, self._next_worlds() if later else self.worlds)
        if may_wait and not later and attempt.only_lingering and self._in_wave:
            # What this wave evicts is still in the way; it will be gone when the next one starts.
            later = True
            attempt = self.attempts.make(candidate, self._next_worlds())
        holds = self._confidence * (1.0 - attempt.unacceptable)
        wanted = self.policy.planning.confidence
        if attempt.refused and not (attempt.sampled and holds >= wanted):
            if attempt.sampled and 1.0 - attempt.unacceptable >= wanted:
                because = f"{attempt.refused.because}; the plan's confidence of {wanted:.2%} leaves no room"
                return Protection(Reason.CONFIDENCE, because)
            return attempt.refused
        return _Found(attempt, later)

    def _wave_is_full(self) -> bool:
        execution = self.policy.execution
        return self._in_wave >= (execution.first_wave if self._wave == 1 else execution.wave_size)

    def _next_worlds(self) -> Worlds:
        """The worlds once this wave is over."""
        if self._later is None:
            self._later = self.worlds.later()
        return self._later

    def _next_wave(self) -> None:
        if not self._in_wave:
            return
        self.worlds, self._later = self._next_worlds(), None
        self._wave += 1
        self._in_wave = 0
        self._wave_budgets = WaveBudgets()

    def _commit(self, found: _Found) -> None:
        """Carry the move out in every world, each with a landing of its own."""
        if found.later:
            self._next_wave()
        self._later = None
        attempt = found.attempt
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
        self._used.count(
            candidate.source, self.pods.namespaces[candidate.row], self.protections.workload(candidate.row)
        )
        self.moves.append(PlannedMove(attempt, self._wave, before))
        self.kept.pop(candidate.row, None)


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
