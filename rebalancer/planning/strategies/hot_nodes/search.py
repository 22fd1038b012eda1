"""The search for moves that relieve hot nodes: a greedy plan, and what drafts of others make better.

**Greedy.** Arithmetic says how much excess each pod would take away, for each unit of what moving it costs.
The pod of most value is placed. If its landing is acceptable it moves; otherwise it stays, and the next one
is placed. A refused pod is placed again once another has landed on the node that refused it, or that is cool.

    a 95 %   pods of 20, 20 and 5 points    hot above 80 %, cool at 65 %: the first removes 20 + 15
    b 88 %   pods of 25, 10 and 10 points   the first removes 23 + 8
    a moves 20; b moves 25; a moves another 20, which removes the 10 points that are left

A node that was hot takes pods of hotter ones, up to its threshold like any node, once its own moves have made
it cooler than that. Such a move must remove more excess from its node than it brings to the other one:

    a 95 %, b 95 %, cool at 65 %, hot above 80 %   two pods of b have left for c: b 70 %
    a pod of 10 points goes from a to b            a 85 %, b 80 %: neither starves, and less is above 80 %

**Drafts.** What is taken early may be in the way later, and where the scheduler puts one pod decides where it
puts the next. So where excess is left, the search drafts other plans by the hundred (``drafts``), and makes
plans of the best, for which waves and scenarios count as for any other. Pods of a scheduler that looks at a
sample of the nodes only, or decides by what drafts do not compute, move by the greedy plan. The search counts
placements, never time, so the same cluster has the same plan. It compares plans by what they leave: excess,
some points more for each node that stays hot, in each resource and for each threshold, and the least relief
for each unit of what their moves cost.

**Room.** A pod of a hot node may have no landing but on a node that it would make hot. So at the end pods of
such a node are moved as well, largest first, if few of them let the pod of the hot node in:

    a 90 %, its pods of 22 points may run on a and b only; b 70 %, its pods of 10 points anywhere; c empty
    two pods of b go to c, then one of a to b: a 68 %, b 72 %

Nodes that are hot by different resources swap pods that way, where the scheduler puts them there. Neither
node gets hotter by a swap than it was, and there is less excess after each of its moves.

**Pruning.** Whether a move pays is decided on the finished plan. Moves that a later one has made needless are
left out, and so are small ones off nodes that stay hot. Then other pods may take the room of those.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType

import msgspec
import numpy as np

from rebalancer.cluster.arrays import FloatArray, NodeRow, PodRow
from rebalancer.planning.builder import AcceptedMove, PlanBuilder
from rebalancer.planning.disruption_cost import least_relief
from rebalancer.planning.eviction import unknown_load, why_protected
from rebalancer.planning.landing.evaluation import Candidate
from rebalancer.planning.landing.landing_check import CoolerNode
from rebalancer.planning.prepared import PreparedInputs
from rebalancer.planning.reasons import NotMoved, Reason
from rebalancer.planning.strategies.hot_nodes.drafting import POINTS_A_HOT_NODE, DraftStart
from rebalancer.planning.strategies.hot_nodes.drafts import Drafts, can_be_drafted
from rebalancer.planning.strategies.hot_nodes.movable import DIGITS, NEGLIGIBLE, MovablePods

_MAX_DRAFT_ROUNDS = 4  # each goes on from the best plan made so far, and its best draft is made a plan
_ROOM_A_POD = 3  # placements that making room may ask for
_ROOM_CELLS = 37_500  # the same times nodes: large clusters can afford less
_FEW_PODS = 40  # that may move: there are as many placements as if there were so many
_MOST_FOR_ROOM = 3  # pods that leave a cool node for one of a hot node
_LEAST_FOR_ROOM = 1.0  # points that all of them remove for each unit of their cost, whatever the level

_NOT_NEEDED = NotMoved(Reason.NOT_NEEDED, "its node cools without moving it")
_NO_LESS_HEAT = "another node that is hot, or was in this run, would be that much warmer"
_NO_RELIEF = NotMoved(Reason.NO_RELIEF, "it uses nothing of what its node is above coolTo in")
# Reasons that later moves may remove: a landing has cooled down, or room has become free.
_DEPENDS_ON_MOVES = frozenset({Reason.NO_BETTER_LANDING, Reason.NO_LANDING, Reason.ROOM_TAKEN, Reason.BUDGET})

Quality = tuple[float, float, int]
Room = Mapping[int, Sequence[Candidate]]  # by pod: those that make room for it


class RankedPlan(msgspec.Struct, frozen=True, eq=False):
    """A plan, and why each of the pods that it could have moved stays."""

    quality: Quality  # what plans are compared by, less is better: see ``ReliefSearch.quality``
    attempt: Attempt  # a copy of which may go on
    closed: Mapping[int, NotMoved]  # the pods that it was not to move
    staying: Mapping[int, NotMoved]  # all pods that stay

    @property
    def builder(self) -> PlanBuilder:
        """All moves made."""
        return self.attempt.builder

    @property
    def order(self) -> tuple[int, ...]:
        """The pods moved, first to last."""
        return tuple(self.attempt.order)


class ReliefSearch:
    """Searches for plans that go on from a builder; ``asked`` is a least relief other than its level's."""

    def __init__(
        self, prepared: PreparedInputs, pods: MovablePods, start: PlanBuilder, asked: float | None = None
    ) -> None:
        self._prepared = prepared
        policy = prepared.policy.planning
        self.pods = pods
        self.start = start
        self.asked = policy.level.least_relief if asked is None else asked
        self.nodes = len(prepared.nodes)
        self.number = {pod.row: at for at, pod in enumerate(pods.candidates)}
        self.moved = [self.number[row] for row in start.moved & self.number.keys()]  # before the search
        self._partial = policy.partial_relief
        self._level = policy.aggressiveness
        self.first_percent = pods.percent(start)
        self.least = pods.least(self.asked, self.first_percent)

    def best(self) -> RankedPlan:
        """The best plan of those that the drafts lead to, within their placements."""
        best = self.plan()
        all_gone = self.pods.with_all_gone(self.first_percent)
        least = float(self.pods.excess(all_gone).sum()) + NEGLIGIBLE
        if best.attempt.excess <= least:
            return best
        drafts = self.drafts()
        if drafts is not None:
            best = self.best_draft(drafts, best, range(_MAX_DRAFT_ROUNDS))
        return self._with_room(best) if best.attempt.excess > least else best

    def drafts(self) -> Drafts | None:
        """What drafts plans from here; None where drafts can move none of the pods, or afford too little."""
        if not can_be_drafted(len(self.pods.candidates), self.nodes):
            return None
        start = DraftStart(self._prepared, self.pods, self.start, self.least, self.asked)
        return Drafts(start) if start.may_move.any() else None

    def best_draft(self, drafts: Drafts, best: RankedPlan, rounds: Iterable[int]) -> RankedPlan:
        """The best of a plan and those that are drafted from it, in rounds of these numbers.

        A round goes on from the best one that was made, even if some of its moves do not pay: where a plan
        without them lands otherwise, it may be far worse, and so would be what is drafted from it. The first
        round that makes nothing better is the last.
        """
        go_on_from = best
        tried = {frozenset(best.order)}
        for number in rounds:
            drafted = drafts.search(go_on_from.order, number)
            draft = next((draft for draft in drafted.best if frozenset(draft.order) not in tried), None)
            if draft is None or draft.points >= best.quality[0]:
                break
            tried.add(frozenset(draft.order))
            made = self._made(draft.order, {})
            paying = self._paying(made)
            best = min(best, paying, key=lambda plan: plan.quality)
            better = min(go_on_from, made, paying, key=lambda plan: plan.quality)
            if drafted.are_all or better is go_on_from:
                break
            go_on_from = better
        return best

    def _with_room(self, best: RankedPlan) -> RankedPlan:
        """The plan, or a better one in which pods of cool nodes make room."""
        attempt = best.attempt.copy()
        pods = max(len(self.pods.candidates), _FEW_PODS)
        attempt.make_room(min(_ROOM_A_POD * pods, _ROOM_CELLS // max(self.nodes, 1)))
        more = self._plan_of(attempt, best.closed)
        while more.attempt.room and (unpaid := self._unpaid(more)):
            paying = [at for at in more.order if at not in unpaid]
            more = self._made(paying, {**more.closed, **unpaid}, more.attempt.room)
        return min(best, more, key=lambda plan: plan.quality)

    def plan(self) -> RankedPlan:
        """The greedy plan, whose moves all pay."""
        return self._paying(self._made((), {}))

    def _paying(self, plan: RankedPlan) -> RankedPlan:
        """A plan made again without the moves that do not pay, until all do, and without those in vain."""
        why_closed = dict[int, NotMoved]()
        while more := self._unpaid(plan):
            why_closed |= more | self._too_small(plan)
            plan = self._made([at for at in plan.order if at not in why_closed], why_closed)
        needless = self._needless(plan)
        if needless:
            needed = [at for at in plan.order if at not in needless]
            without = self._made(needed, {**plan.closed, **dict.fromkeys(needless, _NOT_NEEDED)})
            if not self._unpaid(without):
                plan = min(plan, without, key=lambda other: other.quality)
        return plan

    def estimate(self) -> PlanBuilder:
        """What ``plan`` would come to, about: one attempt, without the moves that do not pay."""
        attempt = Attempt(self, {})
        attempt.go_on()
        plan = self._plan_of(attempt, {})
        return attempt.builder_without(self._unpaid(plan).keys() | self._needless(plan))

    def _made(
        self, first: Sequence[int], closed: Mapping[int, NotMoved], room: Room = MappingProxyType({})
    ) -> RankedPlan:
        attempt = Attempt(self, closed, room)
        attempt.run(first)
        return self._plan_of(attempt, closed)

    def _plan_of(self, attempt: Attempt, closed: Mapping[int, NotMoved]) -> RankedPlan:
        return RankedPlan(self.quality(attempt), attempt, closed, attempt.staying())

    def quality(self, attempt: Attempt) -> Quality:
        """Excess left, with moves at the least relief and nodes that stay hot; excess left; moves."""
        cost = sum(self.price(at, attempt.room.get(at, ())) for at in attempt.order)
        times_hot = self.pods.hotness.times_hot(self.pods.nodes, attempt.percent - NEGLIGIBLE)
        points = attempt.excess + self.asked * cost + POINTS_A_HOT_NODE * times_hot
        moves = len(attempt.order) + sum(map(len, attempt.room.values()))
        return round(float(points), DIGITS), round(attempt.excess, DIGITS), moves

    def price(self, at: int, room: Sequence[Candidate]) -> float:
        """What moving a pod costs, with the pods that make room for it."""
        return float(self.pods.price[at] + self.pods.prices(room).sum())

    def pays(self, at: int, percent: FloatArray, added: FloatArray, price: float) -> bool:
        """Whether a move removes more excess than it adds to hot nodes: enough, or its node's heat."""
        after = percent + added
        after[self.pods.node[at]] -= self.pods.relief[at]
        gained = float(self.pods.excess(percent).sum() - self.pods.excess(after).sum())
        ends = bool(self.pods.ends_heat(percent)[at])
        return gained > NEGLIGIBLE and (ends or gained >= self.asked * price - NEGLIGIBLE)

    def for_room(self, at: int, node: NodeRow, builder: PlanBuilder) -> list[PodRow]:
        """The pods of a node that may leave it for a pod of a hot one, those as large as that first."""
        prepared = self._prepared
        usage = self.pods.candidates[at].usage
        if prepared.settling(node):
            return []
        moved = builder.moved
        may_leave = [
            row
            for row in prepared.pods_on(node)
            if row not in moved
            and why_protected(prepared.eviction, row) is None
            and (row in self.number or not prepared.hotness.hot[node])
        ]
        relief = prepared.inputs.load.relief
        usage = np.where(usage > 0, usage, 1.0)
        size = {row: round(float(np.minimum(relief[row] / usage, 1.0).sum()), DIGITS) for row in may_leave}
        return sorted(may_leave, key=lambda row: (-size[row], prepared.pods.full_name(row)))

    def making_room(self, row: PodRow, at: int, builder: PlanBuilder) -> Candidate:
        """A pod that makes room on its node for one of a hot node, after a plan in which none did so yet."""
        prepared = self._prepared
        pod = self.pods.candidates[at]
        node, other = (prepared.nodes.names[place] for place in (prepared.node_of(row), pod.source))
        purpose = purpose_of_room(prepared, pod.row, builder)
        message = f"it makes room on {node} for {prepared.pods.full_name(pod.row)} of {other}"
        wish = msgspec.structs.replace(pod.wish, purpose=purpose, message=message, makes_room_for=pod.row)
        return prepared.candidate(row, wish)

    def _unpaid(self, plan: RankedPlan) -> dict[int, NotMoved]:
        """The moves of a plan that are not worth their cost, seen from its end, and why.

        Small moves pay on a node that they make cool, or that they make cool together with the pods that only
        the limits of this run keep: the next runs move those. A node that is hot in two resources, and stays
        so in one of them, is made cool in the other.
        """
        pods = self.pods
        unpaid = dict[int, NotMoved]()
        percent = pods.percent(plan.builder)
        later = percent.copy()
        for at, why in plan.staying.items():
            if why.reason is Reason.LIMIT:
                later[pods.node[at]] -= pods.relief[at]
        cools = pods.no_longer_hot(percent)
        cools_later = pods.no_longer_hot(later)
        before = {move.candidate.row: move.before for move in plan.builder.moves}
        points = {at: pods.relieves(at, before[pods.candidates[at].row]) for at in plan.order}
        relieved = {at: float(of_pod.sum()) for at, of_pod in points.items()}
        price = {at: self.price(at, plan.attempt.room.get(at, ())) for at in plan.order}
        for node in sorted({int(pods.node[at]) for at in plan.order}):
            here = sorted((at for at in plan.order if pods.node[at] == node), key=lambda at: relieved[at])
            usual = sum(relieved[at] for at in here) / sum(price[at] for at in here)
            for at in here:
                if not self._partial and not points[at][cools[node]].any():
                    unpaid[at] = self._cools_nothing(node, percent)
                    continue
                least = self.asked
                if points[at][cools_later[node]].any():
                    least = least_relief(self.asked, usual)
                back = percent - plan.attempt.shifts[at]
                heats = pods.still_hot(back)[node] & ~pods.still_hot(percent)[node]
                if relieved[at] < least * price[at] - NEGLIGIBLE and not heats.any():
                    percent = back
                    unpaid[at] = self._little(at, relieved[at], least * price[at])
        return unpaid

    def _too_small(self, plan: RankedPlan) -> dict[int, NotMoved]:
        """The pods whose leaving does not pay, since their node stays hot in all that they take, and why."""
        pods = self.pods
        percent = plan.attempt.percent
        small = pods.relieved(percent) < self.asked * pods.price - NEGLIGIBLE
        helps = (pods.relief * pods.no_longer_hot(percent)[pods.node]).any(axis=1)
        stays_hot = pods.still_hot(percent)[pods.node].any(axis=1)
        stay = np.flatnonzero(small & stays_hot & ~helps).tolist()
        return {at: plan.staying[at] for at in stay if at in plan.staying}

    def _needless(self, plan: RankedPlan) -> set[int]:
        """The moves without which the plan leaves as little excess, the first of them first."""
        percent = self.pods.percent(plan.builder)
        needless = set[int]()
        for at in plan.order:
            back = percent - plan.attempt.shifts[at]
            if self.pods.excess(back).sum() <= self.pods.excess(percent).sum() + NEGLIGIBLE:
                percent = back
                needless.add(at)
        return needless

    def _cools_nothing(self, node: int, percent: FloatArray) -> NotMoved:
        """That a node stays hot in what a pod takes away, or that it cools although the pod takes nothing."""
        still_hot = self.pods.still_hot(percent)[node]
        if not still_hot.any():
            return _NOT_NEEDED
        levels = ", ".join(
            f"{percent[node, column]:.1f} % {self.pods.hotness.names[column]}"
            for column in np.flatnonzero(still_hot).tolist()
        )
        message = f"its node would stay hot at {levels}, and planning.partialRelief is false"
        return NotMoved(Reason.CANNOT_COOL, message)

    def _little(self, at: int, relieves: float, least: float) -> NotMoved:
        return NotMoved(
            Reason.LITTLE_RELIEF,
            f"it would relieve its node by {relieves:.2g} points; at its cost of {self.pods.price[at]:.2g} "
            f"planning.aggressiveness {self._level} asks for {least:.2g}",
        )

    def why_not(self, at: int, builder: PlanBuilder, relieves: float, excess: float) -> NotMoved:
        """Why a pod stays that was not even placed, and that relieves its node of so much of its excess."""
        if not excess:
            return _NOT_NEEDED
        if relieves <= 0:
            return self._no_relief(at, builder)
        limit = builder.used.refusal(self.pods.candidates[at])
        if limit is None and relieves < self.least[at] - NEGLIGIBLE:
            return self._little(at, relieves, float(self.least[at]))
        return limit or builder.search_ended()

    def _no_relief(self, at: int, builder: PlanBuilder) -> NotMoved:
        """That a pod takes nothing away of what its node must cool in, or that nobody knows what it takes."""
        pod = self.pods.candidates[at]
        hotness = self.pods.hotness
        above = hotness.above(pod.source, builder.expected_percent(pod.source)) > 0.0
        unknown = [hotness.names[column] for column in np.flatnonzero(above & np.isnan(pod.points)).tolist()]
        if not unknown:
            return _NO_RELIEF
        return NotMoved(Reason.UNKNOWN_LOAD, unknown_load(unknown))


def purpose_of_room(prepared: PreparedInputs, pod: PodRow, plan: PlanBuilder) -> CoolerNode:
    """What is asked of landings of pods that make room for another one, which moves after a plan."""
    node = prepared.node_of(pod)
    return prepared.cooler_node.makes_room(prepared.inputs.load, pod, node, plan.expected_percent(node))


class Attempt:
    """One plan that is being made; ``closed`` are pods that it leaves where they are."""

    def __init__(
        self,
        search: ReliefSearch,
        closed: Mapping[int, NotMoved],
        room: Room = MappingProxyType({}),
    ) -> None:
        self._search = search
        self._pods = search.pods
        self.builder = search.start.copy()
        self._accepted: list[AcceptedMove] = []
        self._refused: dict[int, NotMoved] = dict(closed)
        self._room = room  # what moves before some pods
        self.room: dict[int, Sequence[Candidate]] = {}
        self.order: list[int] = []
        self.shifts: dict[int, FloatArray] = {}
        self.percent = search.first_percent
        pods = len(self._pods.candidates)
        self._open = np.ones(pods, np.bool_)
        self._open[[*closed, *search.moved]] = False
        # By pod: the node that refused it (the last entry: none did), and how many moves there were then.
        self._refused_by = np.full(pods, -1, np.int64)
        self._refused_at = np.zeros(pods, np.int64)
        self._refused_at[list(closed)] = pods + 1  # for good
        self._better = np.zeros(search.nodes + 1, np.int64)  # by node: the last move after which to ask again
        self._ended = False

    def copy(self) -> Attempt:
        """One that goes on from this one, and leaves it as it is."""
        other = copy.copy(self)
        kinds = (list, dict, np.ndarray, PlanBuilder)
        held = {name: value for name, value in vars(self).items() if isinstance(value, kinds)}
        vars(other).update({name: value.copy() for name, value in held.items() if name != "_room"})
        return other

    def builder_without(self, left_out: Collection[int]) -> PlanBuilder:
        """A builder with all other moves made, whose landings are as they were with these."""
        builder = self._search.start.copy()
        for at, move in zip(self.order, self._accepted, strict=True):
            if at not in left_out:
                builder.add(move)
        return builder

    @property
    def excess(self) -> float:
        """Points of excess left."""
        return float(self._pods.excess(self.percent).sum())

    def run(self, first: Sequence[int]) -> None:
        """Move these pods, where that holds and relieves, and go on until no open pod relieves anything."""
        for at in first:
            if at in self._room:
                self._try_after(at, [pod.row for pod in self._room[at]])
            elif self._open[at] and self._relieves(at):
                self._try(at)
        self.go_on()
        while self._reopen():
            self.go_on()

    def go_on(self) -> None:
        """Place the pod of most value until no open pod relieves anything."""
        seen = np.full_like(self.percent, np.nan)
        value = np.zeros(len(self._pods.candidates))
        while not self._ended:
            if seen is not self.percent:
                for pods in self._pods.on_changed(seen, self.percent):
                    worth = self._pods.value(self.percent, pods)
                    relieved = self._pods.relieved(self.percent, pods)
                    pays = relieved >= self._search.least[pods] - NEGLIGIBLE
                    worth[~(pays | self._pods.ends_heat(self.percent, pods))] = 0.0
                    value[pods] = worth
                seen = self.percent
            of_open = np.where(self._open, value, 0.0)
            left = (of_open > NEGLIGIBLE).nonzero()[0]
            if not len(left):
                return
            if not self._is_spent:
                self._try(self._pods.best(of_open, self.percent))
                continue
            for at in left.tolist():  # each is refused by the limit, in whatever order they are asked
                self._try(at)

    @property
    def _is_spent(self) -> bool:
        """Whether limits.perRun leaves no further move."""
        used = self.builder.used
        return used.most_used("per_run") >= used.limits.per_run

    def _reopen(self) -> bool:
        """Let pods be tried again that were refused before the last move; whether there are any."""
        again = [
            at
            for at, why in self._refused.items()
            if why.reason in _DEPENDS_ON_MOVES and self._refused_at[at] < len(self.order)
        ]
        self._open[again] = True
        self._refused_at[again] = len(self.order)
        return bool(again)

    def make_room(self, placements: int) -> None:
        """Let pods of cool nodes make room for pods that are refused there, for so many placements."""
        evaluator = self.builder.evaluator
        budget = evaluator.placed + placements
        tried = set[int]()
        while not self._ended and evaluator.placed < budget:
            value = self._pods.value(self.percent)
            refused = [
                at
                for at, why in self._refused.items()
                if why.node is not None and at not in tried and value[at] > 0
            ]
            if not refused:
                return
            at = max(refused, key=lambda pod: (round(float(value[pod]), DIGITS), -pod))
            tried.add(at)
            node = self._refused[at].node
            assert node is not None
            if self._try_after(at, self._search.for_room(at, NodeRow(node), self.builder)):
                self.go_on()
                while self._reopen():
                    self.go_on()

    def _try_after(self, at: int, room: Sequence[PodRow]) -> bool:
        """Move a pod once as few of these others as it takes have made room; whether it moves."""
        builder = self.builder
        search = self._search
        moved = list[Candidate]()
        before = builder.copy()
        start = self.percent
        relieves = float(self._pods.relieved(self.percent)[at])
        for row in room:
            pod = search.making_room(row, at, before)
            least = max(search.asked, _LEAST_FOR_ROOM)
            if len(moved) == _MOST_FOR_ROOM or relieves < least * search.price(at, (*moved, pod)):
                break
            if builder.try_move(pod) is not None:
                continue
            moved.append(pod)
            percent = self._pods.percent(builder)
            if self._pods.heats(start, percent):
                break  # a run may end before the other pod moves
            outcome = builder.find(self._pods.candidates[at])
            if not isinstance(outcome, NotMoved) and search.pays(
                at, start, percent - start + self._added(at, outcome), search.price(at, moved)
            ):
                self.room[at] = tuple(moved)
                for other in [at, *(search.number[pod.row] for pod in moved if pod.row in search.number)]:
                    self._open[other] = False
                    self._refused.pop(other, None)
                self._move(at, outcome)
                self.percent = self._pods.percent(builder)
                self.shifts[at] = self.percent - start
                return True
        builder.restore(before)
        return False

    def _relieves(self, at: int) -> bool:
        """Whether a pod takes something away of what its node is still above coolTo in."""
        points = self._pods.relieves(at, self.percent[self._pods.node[at]])
        return float(points.sum()) > NEGLIGIBLE

    def _try(self, at: int) -> None:
        outcome = self.builder.find(self._pods.candidates[at])
        self._open[at] = False
        if isinstance(outcome, NotMoved):
            self._ended = outcome.reason is Reason.SEARCH_ENDED
            if not self._ended:
                self._refuse(at, outcome)
            return
        rows = outcome.evaluation.landings().rows
        added = self._added(at, outcome)
        price = float(self._pods.price[at])
        if added.any() and not self._search.pays(at, self.percent, added, price):
            self._refuse(at, NotMoved(Reason.NO_BETTER_LANDING, _NO_LESS_HEAT, node=int(rows[0])))
            return
        self._move(at, outcome)

    def _added(self, at: int, move: AcceptedMove) -> FloatArray:
        return self._pods.added(self._pods.candidates[at], move.evaluation.landings())

    def _refuse(self, at: int, why: NotMoved) -> None:
        self._refused[at] = why
        self._refused_by[at] = -1 if why.node is None else why.node
        self._refused_at[at] = len(self.order)

    def _move(self, at: int, move: AcceptedMove) -> None:
        rows = move.evaluation.landings().rows
        self.shifts[at] = self._added(at, move)
        self.shifts[at][self._pods.node[at]] -= self._pods.relief[at]
        self.order.append(at)
        self._accepted.append(move)
        self._refused.pop(at, None)
        self.builder.add(move)
        self._update(at, rows.tolist())

    def _update(self, at: int, rows: list[int]) -> None:
        """What a move off its node and onto one of ``rows`` changes."""
        node = int(self._pods.node[at])
        percent = self.percent.copy()
        for row in {node, *np.flatnonzero(np.isin(self._pods.nodes, rows)).tolist()}:
            percent[row] = self.builder.expected_percent(NodeRow(int(self._pods.nodes[row])))
        self.percent = percent
        self._better[rows] = len(self.order)
        if not self._pods.still_hot(percent)[node].any():
            self._better[self._pods.nodes[node]] = len(self.order)
        self._better[-1] = len(self.order)
        again = [row for row in self._refused if self._better[self._refused_by[row]] > self._refused_at[row]]
        again = [row for row in again if self._refused[row].reason in _DEPENDS_ON_MOVES]
        self._open[again] = True

    def staying(self) -> dict[int, NotMoved]:
        """Why each of the other pods stays."""
        builder = self.builder
        number = self._search.number
        moved = {number.get(row) for row in builder.moved}
        relieves = self._pods.relieved(self.percent).tolist()
        excess = self._pods.excess(self.percent)[self._pods.node].tolist()
        return {
            at: self._refused.get(at) or self._search.why_not(at, builder, relieves[at], excess[at])
            for at in range(len(self._pods.candidates))
            if at not in moved
        }
