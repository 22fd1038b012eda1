"""Relieves one hot node: moves the smallest, cheapest set of its pods that may all move, or none of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rebalancer.cluster.arrays import FloatArray, NodeRow, PodRow
from rebalancer.load.report import with_pods
from rebalancer.planning.landing.evaluation import Candidate
from rebalancer.planning.prepared import PreparedInputs
from rebalancer.planning.reasons import KeptReason, Reason
from rebalancer.planning.search.covering_sets import covering_sets
from rebalancer.planning.search.disruption_cost import Disruption
from rebalancer.planning.search.plan_builder import AcceptedMove, PlanBuilder, Savepoint

_MAX_TRIES = 40  # sets of pods tried to cool one node
_NOT_NEEDED = KeptReason(Reason.NOT_NEEDED, "its node cools without moving it")
# Reasons that end a plan halfway through a node; the next run goes on from there.
BOUNDS = frozenset({Reason.LIMIT, Reason.CONFIDENCE, Reason.SEARCH_ENDED})


@dataclass(frozen=True, slots=True, eq=False)
class _Failed:
    """The pod that kept a set from moving."""

    candidate: Candidate
    alone: bool = False  # it cannot move even before all others
    bounded: bool = False  # a bound of the plan was reached; the pods before this one have moved


def relief_of(candidates: Sequence[Candidate], whole: FloatArray) -> FloatArray:
    """(candidates, resources) points of a node's allocatable, ``whole``, that leave with each of its pods."""
    amounts = with_pods(np.array([item.usage for item in candidates]), 1.0)
    return np.where(whole > 0, 100.0 * amounts / np.where(whole > 0, whole, 1.0), 0.0)


class NodeRelief:
    """Adds the moves of one node to a builder."""

    def __init__(
        self, prepared: PreparedInputs, builder: PlanBuilder, disruption: Disruption, node: NodeRow
    ) -> None:
        self._builder = builder
        self._node = node
        self._hotness = prepared.hotness
        self._disruption = disruption
        self._allocatable = prepared.inputs.load.allocatable[node]
        self._weights = prepared.policy.planning.weights
        self._names = prepared.pods.full_name
        self._kept: dict[PodRow, KeptReason] = {}

    def relieve(self, candidates: list[Candidate]) -> dict[PodRow, KeptReason]:
        """Move the fewest pods that bring the node to its coolTo, else below its threshold, else none.

        Returns why each of the candidates that do not move stays.
        """
        percent = self._builder.expected_percent(self._node)
        if self._hotness.is_cool(self._node, percent):
            self._keep(candidates, _NOT_NEEDED)
        elif candidates:
            self._relieve(candidates, percent)
        return self._kept

    def _relieve(self, candidates: list[Candidate], percent: FloatArray) -> None:
        relief = relief_of(candidates, self._allocatable)
        above = percent > self._hotness.cool_to[self._node]
        helps: Sequence[bool] = np.any(relief[:, above] > 0, axis=1).tolist()
        useless = [candidates[at] for at, does in enumerate(helps) if not does]
        self._keep(useless, KeptReason(Reason.NO_RELIEF, "it uses nothing of what its node is hot in"))
        useful = [candidates[at] for at, does in enumerate(helps) if does]
        stuck = self._stuck(percent - relief.sum(axis=0))
        if stuck:
            self._keep(useful, KeptReason(Reason.CANNOT_COOL, stuck))
            return
        self._keep(useful, _NOT_NEEDED)
        for level in (self._hotness.cool_to[self._node], self._hotness.hot_above[self._node]):
            if self._cool_to(useful, relief[np.array(helps)], percent - level):
                break
            if any(self._bounded(item) for item in useful):
                self._cool_partly(useful)
                break
        else:
            self._explain_failure(useful, percent)

    def _bounded(self, candidate: Candidate) -> bool:
        kept = self._kept.get(candidate.row)
        return kept is not None and kept.reason in BOUNDS

    def _cool_partly(self, candidates: list[Candidate]) -> None:
        """Go as far as the bounds allow, the largest pods first: the next run goes on from there."""
        left = [item for item in candidates if item.row in self._kept]
        if not left or self._is_cool():
            return
        relief = relief_of(left, self._allocatable).sum(axis=1)
        order = sorted(range(len(left)), key=lambda at: (-float(relief[at]), self._names(left[at].row)))
        for candidate in (left[at] for at in order):
            found = self._builder.find(candidate)
            if isinstance(found, KeptReason):
                self._kept[candidate.row] = found
                continue
            self._add(found)
            if self._is_cool():
                return

    def _is_cool(self) -> bool:
        return self._hotness.is_cool(self._node, self._builder.expected_percent(self._node))

    def _stuck(self, percent: FloatArray) -> str:
        """Why the node would stay hot at (resources,) percent; empty when it would not."""
        above = percent > self._hotness.hot_above[self._node]
        levels = ", ".join(
            f"{percent[column]:.1f} % {self._hotness.names[column]}"
            for column in np.flatnonzero(above).tolist()
        )
        return f"even without all its evictable pods its node would stay hot at {levels}" if levels else ""

    def _cool_to(self, candidates: list[Candidate], relief: FloatArray, above: FloatArray) -> bool:
        """Move the smallest, then cheapest set that removes the points ``above`` a level; False if none can.

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

    def _explain_failure(self, candidates: list[Candidate], percent: FloatArray) -> None:
        """Explain why movable pods stay: moving them alone would not cool the node."""
        able = [item for item in candidates if self._kept[item.row].reason is Reason.NOT_NEEDED]
        if not able:
            return
        after = percent - relief_of(able, self._allocatable).sum(axis=0)
        level = self._hotness.hot_above[self._node]
        levels = ", ".join(
            f"{after[column]:.1f} % {self._hotness.names[column]}"
            for column in np.flatnonzero(after > level).tolist()
        )
        because = f"with only the pods that may move gone its node would stay hot at {levels}"
        if not levels:
            because = "no set of pods that cools its node can move together"
        self._keep(able, KeptReason(Reason.CANNOT_COOL, because))

    def _keep(self, candidates: list[Candidate], reason: KeptReason) -> None:
        for candidate in candidates:
            self._kept[candidate.row] = reason

    def _move_all(self, chosen: Sequence[Candidate]) -> _Failed | None:
        """Move all of them or none; where a bound of the plan is reached, those before it have moved."""
        savepoint: Savepoint | None = None
        for position, candidate in enumerate(chosen):
            found = self._builder.find(candidate)
            if not isinstance(found, KeptReason):
                if savepoint is None and len(chosen) > 1:
                    savepoint = self._builder.savepoint()
                self._add(found)
                continue
            self._kept[candidate.row] = found
            if savepoint is None:
                return _Failed(candidate, alone=True, bounded=self._builder.has_ended(candidate.source))
            if found.reason in BOUNDS:
                return _Failed(candidate, bounded=True)
            for row in self._builder.go_back(savepoint):
                self._kept[row] = _NOT_NEEDED
            again = self._builder.find(candidate)  # without those that would have gone before it
            if not isinstance(again, KeptReason):
                self._kept[candidate.row] = _NOT_NEEDED
            return _Failed(candidate, alone=isinstance(again, KeptReason) and position > 0)
        return None

    def _add(self, found: AcceptedMove) -> None:
        self._builder.add(found)
        self._kept.pop(found.evaluation.candidate.row, None)
