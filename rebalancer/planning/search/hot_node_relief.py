"""Cools one hot node: the smallest, cheapest set of its pods that may all move, or none of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rebalancer.cluster.arrays import FloatArray
from rebalancer.load.report import with_pods
from rebalancer.planning.hot_nodes.rules import Hotness
from rebalancer.planning.inputs import PlanningInputs
from rebalancer.planning.landing.evaluation import Candidate
from rebalancer.planning.reasons import KeptReason, Reason
from rebalancer.planning.search.covering_sets import covering_sets
from rebalancer.planning.search.disruption_cost import Disruption
from rebalancer.planning.search.plan_builder import AcceptedMove, PlanBuilder, Savepoint

_MAX_TRIES = 40  # sets of pods tried to cool one node
# What may end a plan halfway through a node: the next run goes on from there.
_NOT_NEEDED = KeptReason(Reason.NOT_NEEDED, "its node cools without moving it")
BOUNDS = frozenset({Reason.LIMIT, Reason.CONFIDENCE, Reason.SEARCH_ENDED})


@dataclass(frozen=True, slots=True, eq=False)
class _Failed:
    """The pod that kept a set from moving."""

    candidate: Candidate
    alone: bool = False  # it cannot move even before all others
    bounded: bool = False  # a bound of the plan was reached, for all; what moved before it stays


def relief_of(candidates: Sequence[Candidate], whole: FloatArray) -> FloatArray:
    """(candidates, resources) points of a node's allocatable, ``whole``, that leave with each of its pods."""
    amounts = with_pods(np.array([item.usage for item in candidates]), 1.0)
    return np.where(whole > 0, 100.0 * amounts / np.where(whole > 0, whole, 1.0), 0.0)


class NodeRelief:
    """Adds moves to a builder; ``kept`` is told of every other pod of the node why it stays."""

    def __init__(
        self,
        inputs: PlanningInputs,
        builder: PlanBuilder,
        hotness: Hotness,
        disruption: Disruption,
        kept: dict[int, KeptReason],
    ) -> None:
        self.builder = builder
        self.kept = kept
        self._hotness = hotness
        self._disruption = disruption
        self._allocatable = inputs.load.allocatable
        self._weights = inputs.policy.planning.weights
        self._names = inputs.snapshot.pods.full_name

    def cool(self, node: int, candidates: list[Candidate]) -> None:
        """Move the fewest pods that bring the node to its coolTo, else below its threshold, else none."""
        percent = self.builder.expected_percent(node)
        if self._hotness.is_cool(node, percent):
            self._keep(candidates, _NOT_NEEDED)
            return
        if not candidates:
            return
        relief = relief_of(candidates, self._allocatable[node])
        above = percent > self._hotness.cool_to[node]
        helps: Sequence[bool] = np.any(relief[:, above] > 0, axis=1).tolist()
        useless = [candidates[at] for at, does in enumerate(helps) if not does]
        self._keep(useless, KeptReason(Reason.NO_RELIEF, "it uses nothing of what its node is hot in"))
        useful = [candidates[at] for at, does in enumerate(helps) if does]
        stuck = self._stuck(node, percent - relief.sum(axis=0))
        if stuck:
            self._keep(useful, KeptReason(Reason.CANNOT_COOL, stuck))
            return
        self._keep(useful, _NOT_NEEDED)
        for level in (self._hotness.cool_to[node], self._hotness.hot_above[node]):
            if self._cool_to(useful, relief[np.array(helps)], percent - level):
                break
            if any(self._bounded(item) for item in useful):
                self._cool_partly(node, useful)
                break
        else:
            self._explain_failure(node, useful, percent)

    def _bounded(self, candidate: Candidate) -> bool:
        kept = self.kept.get(candidate.row)
        return kept is not None and kept.reason in BOUNDS

    def _cool_partly(self, node: int, candidates: list[Candidate]) -> None:
        """Go as far as the bounds allow, the largest pods first: the next run goes on from there."""
        left = [item for item in candidates if item.row in self.kept]
        if not left or self._hotness.is_cool(node, self.builder.expected_percent(node)):
            return
        relief = relief_of(left, self._allocatable[node]).sum(axis=1)
        order = sorted(range(len(left)), key=lambda at: (-float(relief[at]), self._names(left[at].row)))
        for candidate in (left[at] for at in order):
            found = self.builder.find(candidate)
            if isinstance(found, KeptReason):
                self.kept[candidate.row] = found
                continue
            self._add(found)
            if self._hotness.is_cool(node, self.builder.expected_percent(node)):
                return

    def _stuck(self, node: int, percent: FloatArray) -> str:
        """Why a node that ends at (resources,) percent has not cooled; empty when it is not hot any more."""
        above = percent > self._hotness.hot_above[node]
        levels = ", ".join(
            f"{percent[column]:.1f} % {self._hotness.names[column]}"
            for column in np.flatnonzero(above).tolist()
        )
        return f"even without all its evictable pods its node would stay hot at {levels}" if levels else ""

    def _cool_to(self, candidates: list[Candidate], relief: FloatArray, above: FloatArray) -> bool:
        """Move the cheapest smallest set that takes a node's points ``above`` a level; False when none can.

        ``relief`` is (candidates, resources).
        """
        need = np.maximum(np.nan_to_num(above, nan=0.0, neginf=0.0), 0.0)
        movable = list(range(len(candidates)))
        tries = 0
        while movable and tries < _MAX_TRIES:
            cost = self._disruption.costs([candidates[at].row for at in movable])
            for chosen in covering_sets(relief[movable], need, cost, self._weights.fit):
                tries += 1
                failed = self._move_all([candidates[movable[at]] for at in chosen])
                if failed is None:
                    return True
                if failed.bounded:
                    return False
                if failed.alone:
                    movable = [at for at in movable if candidates[at] is not failed.candidate]
                    break
                if tries >= _MAX_TRIES:
                    return False
            else:
                return False
        return False

    def _explain_failure(self, node: int, candidates: list[Candidate], percent: FloatArray) -> None:
        """Say of the pods that could move why they do not: without the others it would be for nothing."""
        able = [item for item in candidates if self.kept[item.row].reason is Reason.NOT_NEEDED]
        if not able:
            return
        after = percent - relief_of(able, self._allocatable[node]).sum(axis=0)
        level = self._hotness.hot_above[node]
        levels = ", ".join(
            f"{after[column]:.1f} % {self._hotness.names[column]}"
            for column in np.flatnonzero(after > level).tolist()
        )
        because = f"with only the pods that may move gone its node would stay hot at {levels}"
        if not levels:
            because = "no set of pods that cools its node can move together"
        self._keep(able, KeptReason(Reason.CANNOT_COOL, because))

    def _keep(self, candidates: list[Candidate], protection: KeptReason) -> None:
        for candidate in candidates:
            self.kept[candidate.row] = protection

    def _move_all(self, chosen: Sequence[Candidate]) -> _Failed | None:
        """Move all of them, or none but where a bound is reached on the way."""
        checkpoint: Savepoint | None = None
        for position, candidate in enumerate(chosen):
            found = self.builder.find(candidate)
            if not isinstance(found, KeptReason):
                if checkpoint is None and len(chosen) > 1:
                    checkpoint = self.builder.checkpoint()
                self._add(found)
                continue
            self.kept[candidate.row] = found
            if checkpoint is None:
                return _Failed(candidate, alone=True, bounded=self.builder.has_ended(candidate.source))
            if found.reason in BOUNDS:
                return _Failed(candidate, bounded=True)
            for row in self.builder.go_back(checkpoint):
                self.kept[row] = _NOT_NEEDED
            again = self.builder.find(candidate)  # without those that would have gone before it
            if not isinstance(again, KeptReason):
                self.kept[candidate.row] = _NOT_NEEDED
            return _Failed(candidate, alone=isinstance(again, KeptReason) and position > 0)
        return None

    def _add(self, found: AcceptedMove) -> None:
        self.builder.add(found)
        self.kept.pop(found.evaluation.candidate.row, None)
