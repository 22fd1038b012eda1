"""Drafts of plans: large neighbourhoods of the best one so far, made by the hundred.

A greedy plan takes what is best now, and what is taken early may be in the way later. So many plans are
drafted, dozens side by side (``drafting``). A draft begins with the moves of the best one so far but a few:
some drawn at random, or all of one or two nodes. Then it goes on by value with noise. A draft that is worse
may become the one to begin with, early in the search more often than late.

    best so far   web-1, web-2 of a; api-1 of b          21 points left
    drops b       web-1, web-2; db-3 of b lands on c     19 points left: the next ones begin with this

Drafts hold in two courses, and the best of them are made once more in as many courses as plans follow, where
some of their moves may not hold. What is left then is what counts. Everything is counted, nothing is timed,
and the generator has a fixed seed, so the same cluster has the same drafts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
import numpy as np

from rebalancer.cluster.arrays import IntArray
from rebalancer.planning.landing.scenarios import MAX_SCENARIOS
from rebalancer.planning.strategies.hot_nodes.drafting import Beginning, Drafting, DraftStart, Landed
from rebalancer.planning.strategies.hot_nodes.movable import DIGITS

_DRAFTS = 64  # that are made side by side
_COURSES = 2  # of each
_PLACEMENTS = 45_000  # of one search, on nodes that are few enough
_PLACEMENTS_A_POD = 300  # that may move
_CELLS = 2_250_000  # placements times nodes
_FEWEST_A_POD = 20  # placements, without which drafts lead to nothing
_POWERS = (2.0, 4.0, 8.0, 16.0)  # of their value by which pods are drawn
_LEANS = (0.0, 0.0, 2.0, 4.0)  # the same of how many times what they use they request
_MOST_DROPPED = 6  # moves of the draft before
_TEMPERATURE = 1.0  # points by which a worse draft may be the next to begin with, on average at first
_MAX_HANDED_ON = 24  # drafts that are made once more
_BEST_AGAIN = 64  # after each so many drafts one that is far worse than the best gives way to it
_FAR_FROM_BEST = 5.0  # points
_NOTHING_NEW = 5  # drafts for each set of pods that moves in one of them: the search ends
_AFRESH = 0.1  # the share of drafts that begin with no move
_WAITING = 0.5  # the share of drafts that move pods last which may land on several nodes
_WHOLE_NODES = 0.5  # the share of drafts that drop all moves of some nodes


class Draft(msgspec.Struct, frozen=True):
    """Which pods move, first to last, and the points that this leaves: fewer are better."""

    points: float
    moves: tuple[Landed, ...]

    @property
    def order(self) -> tuple[int, ...]:
        """The numbers of the pods, first to last."""
        return tuple(move.pod for move in self.moves)


class Drafted(msgspec.Struct, frozen=True):
    """What a search comes to."""

    best: Sequence[Draft]  # the best first
    are_all: bool  # drafts moved the same pods again and again: hardly any others can be moved


def _affordable(nodes: int) -> int:
    """How many placements a search can afford on so many nodes."""
    return min(_PLACEMENTS, _CELLS // max(nodes, 1))


def can_be_drafted(pods: int, nodes: int) -> bool:
    """Whether drafts can afford enough placements for so many pods; their tables are (pods, nodes)."""
    return 0 < _FEWEST_A_POD * pods <= _affordable(nodes)


class Drafts:
    """Drafts plans that go on from a builder."""

    def __init__(self, start: DraftStart) -> None:
        self._start = start
        self._ensure_wanted = start.prepared.options.ensure_wanted
        movable = int(np.count_nonzero(start.may_move))
        affordable = _affordable(len(start.prepared.nodes))
        self._placements = min(affordable, _PLACEMENTS_A_POD * movable)

    def search(self, order: Sequence[int], number: int) -> Drafted:
        """The best drafts that the search of a ``number`` comes to from a plan.

        ``order`` are the pods that the plan moves.
        """
        random = np.random.default_rng(number)
        begin_with = Draft(np.inf, tuple(Landed(pod, ()) for pod in order))
        search = _Search(self._start, begin_with, self._placements, random)
        while search.goes_on:
            self._ensure_wanted()
            search.step()
        are_all = search.finds_nothing_new
        return Drafted(self._once_more(search.best(), random), are_all)

    def _once_more(self, drafts: Sequence[Draft], random: np.random.Generator) -> list[Draft]:
        """What becomes of drafts in more courses, the best first."""
        drafting = Drafting(self._start, len(drafts), MAX_SCENARIOS, random)
        every = np.arange(len(drafts))
        drafting.begin(every, [Beginning((), draft.order, _POWERS[-1]) for draft in drafts])
        while drafting.goes_on.any():
            self._ensure_wanted()
            drafting.step()
        return _sorted(_made(drafting, every))


def _made(drafting: Drafting, drafts: IntArray) -> list[Draft]:
    """Some of the drafts, as they are."""
    points = drafting.points(drafts).tolist()
    made = (tuple(drafting.made[draft]) for draft in drafts.tolist())
    return [Draft(round(left, DIGITS), moves) for left, moves in zip(points, made, strict=True)]


def _sorted(drafts: Iterable[Draft]) -> list[Draft]:
    """The best first."""
    return sorted(drafts, key=lambda draft: (draft.points, draft.order))


class _Search:
    """One search, which makes drafts until its placements are spent."""

    def __init__(self, start: DraftStart, model: Draft, placements: int, random: np.random.Generator) -> None:
        self._random = random
        self._nodes = start.pods.node.tolist()  # by pod
        self._max_placements = placements
        self._model = model
        self._best = model
        self._ended: dict[tuple[int, ...], Draft] = {}
        self._drafted = 0
        self._moved_together = set[frozenset[int]]()  # the pods of each draft so far
        self._drafting = Drafting(start, _DRAFTS, _COURSES, random)
        self._begin(np.arange(_DRAFTS))

    @property
    def goes_on(self) -> bool:
        """Whether there are placements left, and drafts that may be new."""
        return self._drafting.placed < self._max_placements and not self.finds_nothing_new

    @property
    def finds_nothing_new(self) -> bool:
        """Whether most drafts move the same pods as another one."""
        return bool(self._moved_together) and self._drafted >= _NOTHING_NEW * len(self._moved_together)

    def step(self) -> None:
        """Try one more pod in each draft; those that end begin anew."""
        ended = self._drafting.step()
        if len(ended):
            self._weigh(ended)
            self._begin(ended)

    def best(self) -> list[Draft]:
        """The best of the drafts, those included that have not ended, the best first."""
        self._weigh(np.arange(_DRAFTS))
        return _sorted(self._ended.values())[:_MAX_HANDED_ON]

    def _begin(self, drafts: IntArray) -> None:
        """Begin these drafts anew, with the moves of the model but a few."""
        random = self._random
        waits = random.random(len(drafts)) < _WAITING
        powers = random.choice(_POWERS, len(drafts))
        leans = random.choice(_LEANS, len(drafts))
        moves = self._model.moves
        landed = next((at for at, move in enumerate(moves) if not move.nodes), len(moves))
        beginnings: list[Beginning] = []
        for power, lean, late in zip(powers.tolist(), leans.tolist(), waits.tolist(), strict=True):
            dropped = self._dropped()
            # The moves before the first that is dropped land where they did.
            again = next((at for at, move in enumerate(moves[:landed]) if move.pod in dropped), landed)
            first = [move.pod for move in moves[again:] if move.pod not in dropped]
            beginnings.append(Beginning(moves[:again], first, power, lean, late))
        self._drafting.begin(drafts, beginnings)

    def _dropped(self) -> set[int]:
        """Some pods of the model, all of one or two nodes, or all."""
        order = self._model.order
        if not order:
            return set()
        random = self._random
        if random.random() < _AFRESH:
            return set(order)
        if random.random() < _WHOLE_NODES:
            nodes = {self._nodes[order[at]] for at in random.integers(len(order), size=2).tolist()}
            return {pod for pod in order if self._nodes[pod] in nodes}
        count = 1 + int(random.integers(min(_MOST_DROPPED, len(order))))
        return {order[at] for at in random.permutation(len(order))[:count].tolist()}

    def _weigh(self, drafts: IntArray) -> None:
        """Keep drafts with the points that they leave; others begin with the best of them, or with these."""
        left = max(1.0 - self._drafting.placed / self._max_placements, 0.0)
        for draft in _made(self._drafting, drafts):
            earlier = self._ended.get(draft.order)
            self._moved_together.add(frozenset(draft.order))
            if earlier is None or draft.points < earlier.points:
                self._ended[draft.order] = draft
            if draft.points < self._model.points + _TEMPERATURE * left * self._random.exponential():
                self._model = draft
            if draft.points < self._best.points:
                self._best = draft
            self._drafted += 1
            if self._drafted % _BEST_AGAIN == 0 and self._model.points > self._best.points + _FAR_FROM_BEST:
                self._model = self._best
