"""Drafts that are made side by side: which pod is next in each, whether its move holds, what it changes.

Each draft holds in so many courses, a lane (``scheduling.lanes``) for each: of nodes that are equally good
different ones are taken, and a move must hold in all of them. The next pod is drawn by value with noise. One
that is refused is tried again once another has left or joined the node that refused it.

    two courses of a draft     web-1 lands on a        web-1 lands on b, which scores as a
    may db-3 move too?         c is best: acceptable   a is best, and would be hot: it stays in both

In a draft each move is a wave of its own: waves, quotas and budgets decide when it is made a plan.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from rebalancer.cluster.arrays import BoolArray, FloatArray, IntArray
from rebalancer.load.report import PERCENT_RESOURCES, with_pods
from rebalancer.planning.builder import PlanBuilder
from rebalancer.planning.landing.evaluation import Predecessor, timings
from rebalancer.planning.prepared import PreparedInputs
from rebalancer.planning.strategies.hot_nodes.movable import NEGLIGIBLE, MovablePods
from rebalancer.scheduling.framework.cycle import Scheduler
from rebalancer.scheduling.lanes import LanePod, Lanes, LaneTables
from rebalancer.scheduling.versions.rules import HEAP_TIES

POINTS_A_HOT_NODE = 10.0  # of excess, that a node which stays hot in a resource counts beside its own

_MOST_REFUSED = 12  # pods in a row, after which a draft ends
_OPEN = -3  # not refused
_NEVER = -2  # refused, whatever moves
_NOWHERE = -1  # no node is feasible


class Landed(msgspec.Struct, frozen=True):
    """A move of a draft: the number of its pod, and where it lands in each course; empty: not known yet."""

    pod: int
    nodes: tuple[int, ...]


class Beginning(msgspec.Struct, frozen=True):
    """How a draft is made."""

    again: Sequence[Landed]  # moves that land where they did: nothing came before that changes it
    first: Sequence[int]  # the numbers of the pods to try after these, before all others
    power: float  # of their value by which the others are drawn
    lean: float = 0.0  # the same of how many times what they use they request
    waits: bool = False  # pods that may land on several nodes move last


class _Levels:
    """What landings and excess are judged by, as arrays over nodes and pods."""

    def __init__(self, prepared: PreparedInputs, pods: MovablePods, start: PlanBuilder) -> None:
        self.hotness = prepared.hotness
        check = prepared.landing_check
        load = prepared.inputs.load
        policy = prepared.policy.planning
        nodes = len(prepared.nodes)
        scenarios = start.scenarios
        likeliest = scenarios.likeliest
        self.first: FloatArray = scenarios.levels()[scenarios.all.index(likeliest)]  # (nodes, resources)
        nothing = np.zeros(likeliest.usage.shape[1])
        counts = likeliest.after_termination.pod_count
        # (nodes, resources) what counts beside the usage of a node where a pod is about to land
        self.beside = check.percent_after(np.arange(nodes), likeliest.usage, counts, nothing) - self.first
        max_after = np.array([policy.max_after.get(name, np.inf) for name in load.percent_resources])
        self.max_percent = np.minimum(self.hotness.hot_above, max_after)
        self.usable: BoolArray = np.ones(nodes, np.bool_)
        self.usable[list(check.excluded)] = False
        self.min_gain = policy.min_gain
        whole = np.where(load.allocatable > 0, load.allocatable, np.nan)
        usage = np.array([pod.usage for pod in pods.candidates])
        # (pods, nodes, resources) percent of each node that a pod brings, without that it is one pod more
        self.brings = 100.0 * with_pods(usage, 0.0)[:, None] / whole
        self.one_pod = 100.0 * with_pods(np.zeros_like(nothing), 1.0) / whole
        self.points = np.array([pod.points for pod in pods.candidates])
        self.unmeasured = np.zeros(len(load.percent_resources), np.bool_)
        self.unmeasured[len(PERCENT_RESOURCES) :] = True

    def good(
        self, pods: IntArray, sources: IntArray, before: FloatArray, nodes: IntArray, percent: FloatArray
    ) -> BoolArray:
        """(landings,) which are acceptable for the purpose of relieving a node.

        Each is one of ``pods`` that leaves its source, at (landings, resources) ``before``, for one of
        ``nodes`` at ``percent``; see ``CoolerNode``, whose rules these are.
        """
        after = percent + self.beside[nodes] + self.brings[pods, nodes]
        highest = self.max_percent[nodes]
        cool = (after <= highest) | (self.unmeasured & np.isinf(highest))
        cool_to = self.hotness.cool_to[sources]
        above = before > cool_to
        hot = above & self.hotness.resources[sources]
        must_cool = np.where(hot.any(axis=1, keepdims=True), hot, above)
        points = self.points[pods]
        gains = before - after + NEGLIGIBLE
        gains_enough = gains >= np.minimum(self.min_gain, before - cool_to)
        serves = (must_cool & (points > 0.0) & gains_enough).any(axis=1)
        serves &= ~(must_cool & ~(points <= 0.0) & ~(gains >= 0.0)).any(axis=1)  # not fuller in any
        serves |= ~must_cool.any(axis=1)
        good: BoolArray = self.usable[nodes] & cool.all(axis=1) & (nodes != sources) & serves
        return good

    def brought(self, pods: IntArray, nodes: IntArray) -> FloatArray:
        """(pods, resources) percent of the nodes that the replacements take."""
        return np.nan_to_num(self.brings[pods, nodes] + self.one_pod[nodes])


class _Limits:
    """Which pods share a limit, and how many of each group may still move."""

    def __init__(self, pods: MovablePods, start: PlanBuilder) -> None:
        number: dict[tuple[str, object], int] = {}
        left: list[int] = []
        members: list[list[int]] = []
        for at, pod in enumerate(pods.candidates):
            for name, by, limit in start.used.counting(pod):
                group = number.setdefault((name, by), len(left))
                if group == len(left):
                    left.append(limit - start.used.counts[name][by])
                    members.append([])
                members[group].append(at)
        binding = [group for group, of_group in enumerate(members) if left[group] < len(of_group)]
        self.left = np.array([max(left[group], 0) for group in binding], np.int64)
        self.members: BoolArray = np.zeros((len(binding), len(pods.candidates)), np.bool_)
        for row, group in enumerate(binding):
            self.members[row, members[group]] = True
        # (pods,) those that a limit keeps which is used up before any move
        self.used_up: BoolArray = self.members[self.left == 0].any(axis=0)


class DraftStart:
    """What all drafts that go on from a builder have in common."""

    def __init__(
        self,
        prepared: PreparedInputs,
        pods: MovablePods,
        builder: PlanBuilder,
        least: FloatArray,
        asked: float,
    ) -> None:
        """``least`` are (pods,) points without which moving a pod never pays, ``asked`` those of a unit."""
        self.prepared = prepared
        self.pods = pods
        self.asked = asked
        self.levels = _Levels(prepared, pods, builder)
        self.limits = _Limits(pods, builder)
        self.sources = np.array([pod.source for pod in pods.candidates])
        when = [timings(pod, prepared.inputs) for pod in pods.candidates]
        self.while_terminating = np.array([Predecessor.TERMINATES in predecessors for predecessors in when])
        self.once_gone = np.array([Predecessor.GONE in predecessors for predecessors in when])
        state = builder.scenarios.likeliest.after_termination
        lane_pods = [LanePod(pod.row, pod.replacement, pod.source) for pod in pods.candidates]
        self.draws = not state.classes.release.has(HEAP_TIES)  # anew among equal nodes, for each pod
        self.tables = LaneTables(state, lane_pods, self._certain_scheduler)
        self.may_move = self.tables.is_known & (self.while_terminating | self.once_gone)
        self.may_move &= ~self.limits.used_up
        self.may_move[[at for at, pod in enumerate(pods.candidates) if pod.row in builder.moved]] = False
        count = np.bincount(pods.node, minlength=len(pods.nodes))
        # (hot nodes, most pods of one) the pods of each; where there are fewer, a number that is no pod's
        self.on = np.full((len(pods.nodes), max(count, default=0)), len(pods.candidates))
        for node, number in enumerate(count.tolist()):
            self.on[node, :number] = np.flatnonzero(pods.node == node)
        self.on_rows = np.repeat(pods.nodes[:, None], self.on.shape[1], axis=1)
        self.hot_number = np.full(len(prepared.nodes), -1)  # by node: which of the hot ones it is
        self.hot_number[pods.nodes] = np.arange(len(pods.nodes))
        # Of each pod, and last of none.
        self.relief = np.concatenate([pods.relief, np.zeros((1, pods.relief.shape[1]))])
        self.price = np.append(pods.value_price, 1.0)
        self.least = np.append(np.where(self.may_move, least, np.inf), np.inf)
        self.oversize = np.append(np.log(pods.oversize), 0.0)

    def _certain_scheduler(self, pod_class: int) -> Scheduler | None:
        """The scheduler of a class, where it sees the load of the nodes in one way only."""
        views = self.prepared.schedulers.views(pod_class)
        return views[0] if len(views) == 1 else None


class Drafting:
    """Drafts that are made side by side, each in so many courses.

    Arrays by draft have the drafts as their first axis, (drafts, …); those by lane have
    (drafts times courses, …), the lanes of a draft side by side.
    """

    def __init__(self, start: DraftStart, count: int, courses: int, random: np.random.Generator) -> None:
        """The drafts are to ``begin``."""
        self._start = start
        self._pods = start.pods
        self._levels = start.levels
        self._count = count
        self._courses = courses
        self._random = random
        lanes = count * courses
        self._lanes = Lanes(start.tables, lanes)
        self.placed = 0  # placements that were made
        pods = len(start.pods.candidates)
        # By draft: whether there may be more moves, those made, and the pods to try first, the first last.
        self.goes_on: BoolArray = np.zeros(count, np.bool_)
        self.made: list[list[Landed]] = [[] for _ in range(count)]
        self._first: list[list[int]] = [[] for _ in range(count)]
        shape = count, pods + 1
        self._refused = np.full(shape, _OPEN)
        self._late: BoolArray = np.zeros(shape, np.bool_)  # may land on several nodes
        self._waits: BoolArray = np.zeros(count, np.bool_)  # moves such pods last
        self._in_vain = np.zeros(count, np.int64)
        self._cost = np.zeros(count)
        self._left = np.tile(start.limits.left, (count, 1))
        self._power = np.ones(count)
        self._lean = np.zeros(count)
        # By lane.
        self._percent = np.tile(self._levels.first, (lanes, 1, 1))
        self._value = np.zeros((lanes, pods + 1))
        self._preference = np.zeros((lanes, len(self._levels.first)))  # of nodes that are equally good
        every = np.arange(len(self._pods.nodes))
        self._look_again(np.zeros_like(every), every)
        self._first_value = self._value[0].copy()

    def begin(self, drafts: IntArray, beginnings: Sequence[Beginning]) -> None:
        """Begin these drafts anew."""
        lanes = self._lanes_of(drafts)
        self._lanes.begin_anew(lanes)
        self.goes_on[drafts] = True
        self._percent[lanes] = self._levels.first
        self._value[lanes] = self._first_value
        self._preference[lanes] = self._preferences(len(drafts))
        self._refused[drafts] = _OPEN
        self._late[drafts] = False
        self._in_vain[drafts] = 0
        self._cost[drafts] = 0.0
        self._left[drafts] = self._start.limits.left
        self._waits[drafts] = [beginning.waits for beginning in beginnings]
        self._power[drafts] = [beginning.power for beginning in beginnings]
        self._lean[drafts] = [beginning.lean for beginning in beginnings]
        made: list[tuple[int, Landed]] = []
        for draft, beginning in zip(drafts.tolist(), beginnings, strict=True):
            made += ((draft, move) for move in beginning.again)
            self.made[draft] = []
            self._first[draft] = list(reversed(beginning.first))
        if made:
            of_drafts = np.array([draft for draft, _ in made])
            pods = np.array([move.pod for _, move in made])
            nodes = np.array([move.nodes for _, move in made])
            lanes = self._lanes_of(of_drafts)
            self._lanes.remove(lanes, np.repeat(pods, self._courses))
            self._lanes.land(lanes, np.repeat(pods, self._courses), nodes.ravel())
            self._have_moved(of_drafts, pods, nodes)

    def step(self) -> IntArray:
        """Try one more pod in each draft; returns the drafts that end, since none is left to try."""
        drafts, pods, ended = self._choose()
        drafts, pods, nodes = self._which_hold(drafts, pods)
        if len(drafts):
            self._lanes.land(self._lanes_of(drafts), np.repeat(pods, self._courses), nodes.ravel())
            self._have_moved(drafts, pods, nodes)
            self._reopen(drafts, pods, nodes)
        return ended

    def points(self, drafts: IntArray) -> FloatArray:
        """(drafts,) the points that they leave: the mean of their courses, with what their moves cost."""
        hot = self._pods.nodes
        hotness = self._levels.hotness
        percent = self._percent[self._lanes_of(drafts)][:, hot]  # (lanes, hot nodes, resources)
        excess = hotness.excess(hot, percent).sum(axis=(1, 2))
        points = excess + POINTS_A_HOT_NODE * hotness.times_hot(hot, percent - NEGLIGIBLE)
        mean: FloatArray = points.reshape(-1, self._courses).mean(axis=1)
        return mean + self._start.asked * self._cost[drafts]

    def _lanes_of(self, drafts: IntArray) -> IntArray:
        """(drafts times courses,) their lanes."""
        lanes: IntArray = (drafts[:, None] * self._courses + np.arange(self._courses)).ravel()
        return lanes

    def _preferences(self, drafts: int) -> FloatArray:
        """(drafts times courses, nodes) numbers: of equally good nodes a pod lands on that with the largest.

        Of two such nodes each is taken in one of two courses that follow each other.
        """
        pairs = (self._courses + 1) // 2
        numbers = self._random.random((drafts, pairs, 1, len(self._levels.first)))
        both = np.concatenate([numbers, 1.0 - numbers], axis=2).reshape(drafts, 2 * pairs, -1)
        chosen: FloatArray = both[:, : self._courses].reshape(drafts * self._courses, -1)
        return chosen

    def _choose(self) -> tuple[IntArray, IntArray, IntArray]:
        """The drafts that go on, the next pod of each, and the drafts that end."""
        value = self._value.reshape(self._count, self._courses, -1).mean(axis=1)
        worth = np.where((self._refused == _OPEN) & ~self._late, value, 0.0)
        exhausted = ~worth.any(axis=1)
        again = exhausted & self._waits
        if again.any():
            self._waits[again] = False
            self._late[again] = False
            worth[again] = np.where(self._refused[again] == _OPEN, value[again], 0.0)
            exhausted = ~worth.any(axis=1)
        with np.errstate(divide="ignore"):
            logarithm = np.log(worth)
        noise = self._random.gumbel(size=worth.shape)
        drawn = self._power[:, None] * logarithm + self._lean[:, None] * self._start.oversize + noise
        pods = drawn.argmax(axis=1)
        ended = exhausted | (self._in_vain > _MOST_REFUSED)
        for draft, first in enumerate(self._first):
            while first and not (self._refused[draft, first[-1]] == _OPEN and value[draft, first[-1]] > 0.0):
                first.pop()
            if first:
                pods[draft] = first.pop()
                ended[draft] = False
        ended &= self.goes_on
        self.goes_on[ended] = False
        drafts = np.flatnonzero(self.goes_on)
        return drafts, pods[drafts], np.flatnonzero(ended)

    def _which_hold(self, drafts: IntArray, pods: IntArray) -> tuple[IntArray, IntArray, IntArray]:
        """The moves whose landings are acceptable, and (drafts, courses) where they land.

        Their pods are gone from their nodes then, and not bound yet.
        """
        nodes = np.zeros((len(drafts), self._courses), np.int64)
        holds = np.ones(len(drafts), np.bool_)
        asked = self._start.while_terminating[pods].nonzero()[0]
        if len(asked):
            lanes = self._lanes_of(drafts[asked])
            of_lanes = np.repeat(pods[asked], self._courses)
            self._lanes.terminate(lanes, of_lanes)
            only = ~self._start.once_gone[pods[asked]]
            holds[asked], nodes[asked] = self._judge(drafts[asked], pods[asked], is_last=only)
            self._lanes.terminate(lanes, of_lanes, -1)
            drafts = drafts[holds]
            pods = pods[holds]
            nodes = nodes[holds]
        lanes = self._lanes_of(drafts)
        self._lanes.remove(lanes, np.repeat(pods, self._courses))
        holds = np.ones(len(drafts), np.bool_)
        asked = self._start.once_gone[pods].nonzero()[0]
        if len(asked):
            every = np.ones(len(asked), np.bool_)
            holds[asked], nodes[asked] = self._judge(drafts[asked], pods[asked], is_last=every)
            back = drafts[~holds]
            self._lanes.remove(self._lanes_of(back), np.repeat(pods[~holds], self._courses), -1)
        return drafts[holds], pods[holds], nodes[holds]

    def _judge(self, drafts: IntArray, pods: IntArray, *, is_last: BoolArray) -> tuple[BoolArray, IntArray]:
        """(drafts,) whether replacements may land on acceptable nodes only, in the lanes as they are.

        And (drafts, courses) where they land, which counts where this is the last that decides on the move.
        """
        lanes = self._lanes_of(drafts)
        of_lanes = np.repeat(pods, self._courses)
        sources = self._start.sources[of_lanes]
        best = self._lanes.place(lanes, of_lanes)
        self.placed += len(lanes)
        at, landings = best.nonzero()
        before = self._percent[lanes[at], sources[at]]
        percent = self._percent[lanes[at], landings]
        bad = ~self._levels.good(of_lanes[at], sources[at], before, landings, percent)
        number = np.bincount(at, minlength=len(lanes))  # of nodes that are equally good
        refused_by = np.where(number > 0, _OPEN, _NOWHERE)
        refused_by[at[bad][::-1]] = landings[bad][::-1]  # the first of them counts
        if self._start.draws:
            self._preference[lanes] = self._preferences(len(drafts))
        nodes = np.where(best, self._preference[lanes], -1.0).argmax(axis=1)
        last = np.repeat(is_last, self._courses)
        worse = last & (refused_by == _OPEN)
        worse[worse] = ~self._pays(lanes[worse], of_lanes[worse], sources[worse], nodes[worse])
        refused_by[worse] = nodes[worse]
        # What is refused in one course is refused.
        refused = refused_by.reshape(-1, self._courses).max(axis=1)
        is_refused = refused != _OPEN
        several = (number > 1).reshape(-1, self._courses).any(axis=1)
        late = is_last & ~is_refused & self._waits[drafts] & several
        self._late[drafts[late], pods[late]] = True
        self._refused[drafts[is_refused], pods[is_refused]] = refused[is_refused]
        self._in_vain[drafts[is_refused]] += 1
        return ~is_refused & ~late, nodes.reshape(-1, self._courses)

    def _pays(self, lanes: IntArray, pods: IntArray, sources: IntArray, nodes: IntArray) -> BoolArray:
        """(lanes,) whether a move removes more excess than it brings to another hot node."""
        pays = np.ones(len(lanes), np.bool_)
        on_hot = np.flatnonzero(self._start.hot_number[nodes] >= 0)
        if not len(on_hot):
            return pays
        pods = pods[on_hot]
        left = sources[on_hot]
        both = np.stack([left, nodes[on_hot]], axis=1)
        before = self._percent[lanes[on_hot][:, None], both]
        after = before.copy()
        after[:, 0] -= self._start.relief[pods]
        after[:, 1] += self._levels.brought(pods, nodes[on_hot])
        hotness = self._levels.hotness
        gained = (hotness.excess(both, before) - hotness.excess(both, after)).sum(axis=(1, 2))
        need = hotness.above(left, before[:, 0])
        still_hot = (before[:, 0] > hotness.hot_above[left] + NEGLIGIBLE) & hotness.resources[left]
        ends = (still_hot & (self._start.relief[pods] >= need - NEGLIGIBLE)).any(axis=1)
        enough = gained >= self._start.asked * self._pods.price[pods] - NEGLIGIBLE
        pays[on_hot] = (gained > NEGLIGIBLE) & (ends | enough)
        return pays

    def _have_moved(self, drafts: IntArray, pods: IntArray, nodes: IntArray) -> None:
        """See what moves change that were made in the lanes.

        They are those of (moves,) drafts, in which there may be several, to (moves, courses) ``nodes``.
        """
        lanes = self._lanes_of(drafts)
        sources = np.repeat(self._start.sources[pods], self._courses)
        landed = nodes.ravel()
        np.subtract.at(
            self._percent, (lanes, sources), np.repeat(self._start.relief[pods], self._courses, axis=0)
        )
        np.add.at(
            self._percent, (lanes, landed), self._levels.brought(np.repeat(pods, self._courses), landed)
        )
        np.add.at(self._cost, drafts, self._pods.price[pods])
        self._in_vain[drafts] = 0
        self._refused[drafts, pods] = _NEVER
        for draft, pod, where in zip(drafts.tolist(), pods.tolist(), nodes.tolist(), strict=True):
            self.made[draft].append(Landed(pod, tuple(where)))
        self._spend(drafts, pods)
        changed = np.concatenate([self._start.hot_number[sources], self._start.hot_number[landed]])
        is_hot = changed >= 0
        self._look_again(np.concatenate([lanes, lanes])[is_hot], changed[is_hot])

    def _reopen(self, drafts: IntArray, pods: IntArray, nodes: IntArray) -> None:
        """Let pods be tried again that a node refused which one of the moves leaves or joins.

        There is one move in each of these drafts; ``nodes`` are (drafts, courses).
        """
        refused = self._refused[drafts]
        again = (refused == _NOWHERE) | (refused == self._start.sources[pods][:, None])
        for course in range(self._courses):
            again |= refused == nodes[:, course, None]
        self._refused[drafts] = np.where(again, _OPEN, refused)

    def _spend(self, drafts: IntArray, pods: IntArray) -> None:
        """Count the moves for limits; where one is reached its other pods stay for good."""
        limits = self._start.limits
        if not len(limits.left):
            return
        counted = limits.members[:, pods].T  # (moves, limits)
        np.subtract.at(self._left, drafts, counted)
        reached = counted & (self._left[drafts] <= 0)
        for at, limit in zip(*(rows.tolist() for rows in reached.nonzero()), strict=True):
            self._refused[drafts[at], :-1][limits.members[limit]] = _NEVER

    def _look_again(self, lanes: IntArray, hot_numbers: IntArray) -> None:
        """Value the pods of one hot node in each lane anew."""
        if not len(lanes):
            return
        pods = self._start.on[hot_numbers]  # (lanes, pods)
        rows = self._pods.nodes[hot_numbers]
        percent = self._percent[lanes, rows]
        hotness = self._levels.hotness
        relief = self._start.relief[pods]
        now = hotness.excess(rows, percent).sum(axis=1)
        left = hotness.excess(self._start.on_rows[hot_numbers], percent[:, None] - relief).sum(axis=2)
        value = (now[:, None] - left) / self._start.price[pods]
        need = hotness.above(rows, percent)
        relieved = np.minimum(relief, need[:, None]).sum(axis=2)
        still_hot = (percent > hotness.hot_above[rows] + NEGLIGIBLE) & hotness.resources[rows]
        ends = (still_hot[:, None] & (relief >= need[:, None] - NEGLIGIBLE)).any(axis=2)
        least = self._start.least[pods]
        is_worth = (relieved >= least - NEGLIGIBLE) | (ends & (least < np.inf))
        self._value[lanes[:, None], pods] = np.where(is_worth & (value > NEGLIGIBLE), value, 0.0)
