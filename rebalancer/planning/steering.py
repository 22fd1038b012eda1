"""Steering: a soft taint on the nodes that would take a replacement and must not, while its wave is made.

Most pods that stay on a hot node stay because the scheduler would put their replacements where they must not
land. A ``PreferNoSchedule`` taint keeps no pod away and evicts none; it costs a node points of the
TaintToleration plugin, which the model knows as the scheduler does. With ``execution.steer: softTaint`` a
move that is refused for its landing is tried with such taints, on as few nodes as it takes:

    web-1 of a may land on         b 310, would be hot    c 290, would be hot    d 250    e 90, would be hot
    b and c get the taint          10                     -10                    250      90
    e needs none                   the scheduler prefers d as it is

A node gets the taint where its score is higher than that of the best node on which the replacement may land.
What remains in doubt, equal scores and samples of large clusters, is tried: a node whose taint changes
nothing for the move gets none.

All moves of a wave are made under the same taints. A later move of a wave may add to them only nodes on which
nothing else of the wave lands; otherwise it waits for the next wave, which begins without any.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial

import msgspec
import numpy as np

from rebalancer.cluster.arrays import BoolArray
from rebalancer.cluster.snapshot import Snapshot
from rebalancer.planning.landing.evaluation import (
    Candidate,
    Evaluation,
    JudgedPlacement,
    MoveEvaluator,
)
from rebalancer.planning.landing.scenarios import NEGLIGIBLE, Scenarios
from rebalancer.planning.taints import HOT, is_karpenters, is_ours
from rebalancer.scheduling.state.cluster_state import SOFT_TAINT, ClusterState

# So many nodes have the taint at most in a wave: each takes a request before it and one after it, and other
# pods avoid them meanwhile. Moves that would need more are small ones.
_SHARE = 1 / 6  # of the nodes
_FEWEST_AT_MOST = 10
_MOST_AT_MOST = 50


class SteeredMove(msgspec.Struct, frozen=True, eq=False):
    """A move that holds while some nodes have the soft taint."""

    evaluation: Evaluation
    # Rows of the nodes that have it for this move alone: why it must not land there.
    avoids: Mapping[int, str]


class _Chosen(msgspec.Struct, frozen=True, eq=False):
    is_certain: bool  # by its score the scheduler prefers it, whatever else is tainted
    why: Callable[[], str]


class Steering:
    """Chooses the nodes that a move needs tainted."""

    def __init__(self, snapshot: Snapshot) -> None:
        nodes = snapshot.nodes.records
        self._may_taint: BoolArray = np.array(
            [not is_karpenters(node.metadata.labels or {}) for node in nodes], np.bool_
        )
        self._max_tainted = min(max(int(len(nodes) * _SHARE), _FEWEST_AT_MOST), _MOST_AT_MOST)
        self._row_of = snapshot.nodes.row
        theirs = (taint for node in nodes for taint in node.spec.taints or ())
        # By other soft taints a node's score depends on which node has the most of them.
        self.scores_apart = not any(taint.effect == SOFT_TAINT and not is_ours(taint) for taint in theirs)

    def taint(self, state: ClusterState, names: Collection[str]) -> None:
        """Give these nodes the soft taint in a state, and no others."""
        state.taint(HOT, [self._row_of[name] for name in names])

    def steer(
        self,
        evaluator: MoveEvaluator,
        candidate: Candidate,
        scenarios: Scenarios,
        before: frozenset[int],
        tolerated: float,
    ) -> SteeredMove | None:
        """The move with as few more nodes tainted as it takes; None where no taint makes it hold.

        ``before`` are the nodes that have the taint in its wave already. The scenarios are left with the
        taints that were tried last.
        """
        chosen: dict[int, _Chosen] = {}
        evaluation = None
        scenarios.taint(HOT, before)
        while evaluation is None or not evaluation.holds(tolerated):
            count = len(chosen)
            if not self._choose(evaluator, candidate, scenarios, before, chosen) or len(chosen) == count:
                return None
            evaluation = evaluator.evaluate(candidate, scenarios, tolerated)
        for node in [row for row, choice in chosen.items() if not choice.is_certain]:
            fewer = {row: choice for row, choice in chosen.items() if row != node}
            scenarios.taint(HOT, before | fewer.keys())
            without = evaluator.evaluate(candidate, scenarios, tolerated)
            if without.holds(tolerated):
                evaluation = without
                chosen = fewer
        return SteeredMove(evaluation, {row: choice.why() for row, choice in chosen.items()})

    def _choose(
        self,
        evaluator: MoveEvaluator,
        candidate: Candidate,
        scenarios: Scenarios,
        before: frozenset[int],
        chosen: dict[int, _Chosen],
    ) -> bool:
        """Taint what the scheduler prefers in any scenario; False where that does not help."""
        for judged in evaluator.judged(candidate, scenarios):
            preferred = self._preferred(judged)
            if preferred is None or len(before | chosen.keys() | preferred.keys()) > self._max_tainted:
                return False
            if preferred:
                chosen.update({row: choice for row, choice in preferred.items() if row not in chosen})
                scenarios.taint(HOT, before | chosen.keys())
        return True

    def _preferred(self, judged: JudgedPlacement) -> dict[int, _Chosen] | None:
        """The nodes, by row, that the scheduler may choose and must not.

        None where it has none to choose instead, or where a taint would not help.
        """
        has_taint = np.zeros(len(self._may_taint), np.bool_)
        has_taint[list(judged.tainted)] = True
        may_take = judged.acceptable & ~has_taint[judged.rows]
        if not may_take.any():
            return None
        higher = judged.totals > judged.totals[may_take].max()
        wrong = ~judged.acceptable & (higher | (judged.chance > NEGLIGIBLE))
        if (wrong & (has_taint | ~self._may_taint)[judged.rows]).any():
            return None
        return {
            int(judged.rows[at]): _Chosen(bool(higher[at]), partial(judged.why_not, at))
            for at in np.flatnonzero(wrong).tolist()
        }
