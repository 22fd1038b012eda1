"""Drafts of plans: moves in one or two likely courses of events, cheap enough to compare hundreds of them.

A plan must hold in every scenario, whatever is still terminating, wave by wave. A draft follows few courses:
replacements are placed while their predecessors terminate and once all pods evicted before are gone. Where
the scheduler may choose one of several nodes, one course takes the likeliest and another one the next. So no
draft is a plan; the plan builder makes its moves one by one and leaves out those that do not hold.

Where the next pod lands depends on which moves were made, not on their order. So placements are remembered by
the moves before them, and drafts that share moves share placements:

    web-1 to n4, api-2 to n5, then db-0    placed
    api-2 to n5, web-1 to n4, then db-0    remembered
    web-2 to n4, api-2 to n5, then db-0    remembered: web-1 and web-2 are alike and left the same node

Two searches over drafts find good ones, each where the other one does not. Where landings are scarce, the
move that removes most now may take the room of two others. A **beam** follows several drafts at once: of
those with one move the best ones are kept, each of these is tried with further moves until some have an
acceptable landing, of all drafts with two moves the best are kept, and so on until none can go on.

    one move     a-1 (20 points left), b-1 (24), b-2 (25), a-3 (27)
    two moves    a-1 b-2 (11), b-2 b-3 (9), b-1 a-3 (12), b-2 a-3 (12)
    three        b-2 b-3 a-3 (0)     while a-1 had taken the node on which both b-2 and b-3 can land

A beam gives up drafts that begin with small moves, though these are what helps where the node that the
scheduler prefers has room for small pods only: once it has some, the scheduler prefers another node. A
**sweep** always makes the smallest move that removes at least so much, its floor, and lowers the floor where
there is none:

    floor 12     b-3 (13 points), a-2 (14), c-1 (19), then none of 12 or more has a landing
    floor 6      a-3 (7), then none; floor 3: none; floor 1.5: c-4 (2)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import msgspec
import numpy as np

from rebalancer.cluster.arrays import FloatArray, IntArray, NodeRow
from rebalancer.load.report import percent_of_allocatable
from rebalancer.planning.builder import PlanBuilder, UsedLimits
from rebalancer.planning.landing.evaluation import Candidate, Predecessor, kind_of, placements_of, timings
from rebalancer.planning.landing.landing_check import Landings
from rebalancer.planning.landing.scenarios import mean_of
from rebalancer.planning.prepared import PreparedInputs
from rebalancer.planning.strategies.hot_nodes.node_pods import NEGLIGIBLE, NodePods, relieved
from rebalancer.scheduling.framework.cycle import Placement

# (hot nodes, resources) percent, (hot nodes,) points of excess, and whether each is hot.
_Levels = tuple[FloatArray, FloatArray, tuple[bool, ...]]
# A move as the scheduler sees it: the class that leaves, the node left, the landing.
_Kind = tuple[int, NodeRow, NodeRow]


class _Course(msgspec.Struct, frozen=True, eq=False):
    """One way in which the moves of a draft may turn out."""

    moves: tuple[tuple[int, NodeRow], ...]  # which pod of ``Drafts.pods``, and where its replacement goes
    kinds: frozenset[tuple[_Kind, int]]  # the moves as the scheduler sees them, and how many of each kind
    usage: FloatArray  # (nodes, measured resources)
    pod_count: IntArray  # (nodes,)


class Draft(msgspec.Struct, frozen=True, eq=False):
    """Some moves, and what they lead to."""

    pods: tuple[int, ...]  # of ``Drafts.pods``, in the order in which they move
    courses: tuple[_Course, ...]
    used: UsedLimits
    percent: FloatArray  # (hot nodes, resources) of allocatable
    excess: FloatArray  # (hot nodes,) points
    is_hot: tuple[bool, ...]  # by hot node: whether it still is

    @property
    def left(self) -> float:
        """Points of excess."""
        return float(self.excess.sum())


class Drafts:
    """Makes drafts that go on from a plan builder; the builder and its scenarios stay as they are."""

    def __init__(
        self,
        prepared: PreparedInputs,
        builder: PlanBuilder,
        nodes: Mapping[NodeRow, NodePods],
        *,
        either_way: bool = False,
    ) -> None:
        """``either_way``: landings must be acceptable whatever the race of the policy allows the predecessor
        to do, not only in the likeliest case; up to twice the work.
        """
        scenario = builder.scenarios.all[0]
        self._prepared = prepared
        self._either_way = either_way
        self._known = builder.evaluator.placements
        self._state = scenario.after_termination.copy()
        self._made: list[tuple[int, NodeRow, int]] = []  # in the state: pod, landing, number of replacement
        self._found: dict[tuple[object, ...], list[Placement]] = {}
        self._hot = list(nodes)
        self.pods: list[Candidate] = [item for node in nodes.values() for item in node.candidates]
        of_node = [at for at, node in enumerate(nodes.values()) for _ in node.candidates]
        self._node = np.array(of_node, np.int64)
        resources = prepared.inputs.load.allocatable.shape[1]
        self._relief = np.concatenate([np.zeros((0, resources)), *(node.relief for node in nodes.values())])
        self._most_unacceptable = 1.0 - prepared.policy.planning.confidence
        self.placements = 0
        used = builder.used.copy()
        used.total = -len(self.pods)  # perRun cuts the moves of a plan, and decides nothing before
        course = _Course((), frozenset(), scenario.usage, np.array(self._state.pod_count))
        self.start = Draft((), (course,), used, *self._levels((course,), range(len(self._hot))))
        least = [node.least(builder.expected_percent(node.node)) for node in nodes.values()]
        self._wanted = np.concatenate([np.zeros(0), *least])

    def _levels(self, courses: Sequence[_Course], hot: Sequence[int]) -> _Levels:
        """Percent of allocatable, excess, and whether each node is hot still; the mean over courses."""
        rows, hotness = np.array([self._hot[at] for at in hot], np.int64), self._prepared.hotness
        whole = self._prepared.inputs.load.allocatable[rows]
        percent = np.mean(
            [percent_of_allocatable(item.usage[rows], item.pod_count[rows], whole) for item in courses],
            axis=0,
        )
        above = hotness.resources[rows] & (percent > hotness.hot_above[rows] + NEGLIGIBLE)
        return percent, hotness.excess(rows, percent).sum(axis=1), tuple(above.any(axis=1).tolist())

    def gains(self, draft: Draft) -> FloatArray:
        """(pods,) points of excess that each pod would remove; 0 where that is not worth its cost."""
        rows = np.array(self._hot, np.int64)[self._node]
        hotness, percent = self._prepared.hotness, draft.percent[self._node]
        need = hotness.above(rows, percent)
        points = relieved(self._relief, need)
        ends = np.array(draft.is_hot, np.bool_)[self._node] & (points >= need.sum(axis=1) - NEGLIGIBLE)
        gain = hotness.removed(rows, percent, self._relief)
        gain[~((points >= self._wanted - NEGLIGIBLE) | ends)] = 0.0
        gain[list(draft.pods)] = 0.0
        return gain

    def extended(self, draft: Draft, at: int) -> Draft | None:
        """The draft with one more move; None where limits or landings do not allow it."""
        pod = self.pods[at]
        if draft.used.reached(pod):
            return None
        landings = []
        for course in draft.courses:
            found = self._landings(course, pod)
            if not found:
                return None
            landings.append((course, found))
        if len(landings) == 1 and len(landings[0][1]) > 1:
            landings *= 2
        courses = tuple(
            self._moved(course, at, found[min(number, len(found) - 1)])
            for number, (course, found) in enumerate(landings)
        )
        used = draft.used.copy()
        used.count(pod)
        changed = {pod.source} | {item.moves[-1][1] for item in courses}
        hot = [item for item, row in enumerate(self._hot) if row in changed]
        percent, excess, is_hot = draft.percent.copy(), draft.excess.copy(), list(draft.is_hot)
        percent[hot], excess[hot], still = self._levels(courses, hot)
        for item, remains in zip(hot, still, strict=True):
            is_hot[item] = remains
        return Draft((*draft.pods, at), courses, used, percent, excess, tuple(is_hot))

    def _moved(self, course: _Course, at: int, landing: NodeRow) -> _Course:
        pod = self.pods[at]
        usage, count = course.usage.copy(), course.pod_count.copy()
        usage[pod.source] -= pod.relief
        usage[landing] += pod.usage
        count[pod.source] -= 1
        count[landing] += 1
        kinds = Counter(dict(course.kinds))
        kinds[int(self._state.pod_class[pod.row]), pod.source, landing] += 1
        return _Course((*course.moves, (at, landing)), frozenset(kinds.items()), usage, count)

    def _landings(self, course: _Course, pod: Candidate) -> list[NodeRow]:
        """The two likeliest nodes, or the only one; none where an unacceptable landing is too likely."""
        check, load = self._prepared.landing_check, self._prepared.inputs.load
        source = [pod.source]
        before = percent_of_allocatable(
            course.usage[source], course.pod_count[source], load.allocatable[source]
        )[0]
        placements: list[Placement] = []
        for predecessor in self._timings(pod):
            found = self._place(course, pod, predecessor)
            if any(item.rejected or not len(item.feasible) for item in found):
                return []
            likely = mean_of(found, len(course.usage))
            after = check.percent_after(likely.rows, course.usage, course.pod_count, pod.usage)
            landings = Landings(pod.row, pod.source, likely.rows, before, after)
            good = check.acceptable(landings, pod.wish.purpose)
            if float(likely.chance[~good].sum()) > self._most_unacceptable:
                return []
            placements += found
        likely = mean_of(placements, len(course.usage))
        best = np.argsort(-likely.chance, kind="stable")[:2]
        return [NodeRow(row) for row in likely.rows[best].tolist()]

    def _timings(self, pod: Candidate) -> tuple[Predecessor, ...]:
        found = timings(pod, self._prepared.inputs)
        return found if self._either_way else found[:1]

    def _place(self, course: _Course, pod: Candidate, predecessor: Predecessor) -> list[Placement]:
        key = course.kinds, kind_of(pod, self._state, predecessor)
        found = self._found.get(key)
        if found is None:
            self._make(course)
            compute = partial(placements_of, self._prepared.schedulers, pod, self._state, predecessor)
            found = self._known.shared(self._state, key[1], compute)
            self.placements += len(found)
            self._found[key] = found
        return found

    def _make(self, course: _Course) -> None:
        """Bring the state to where the moves of a course lead, from where it is."""
        same = 0
        for (at, landing, _), move in zip(self._made, course.moves, strict=False):
            if (at, landing) != move:
                break
            same += 1
        while len(self._made) > same:
            at, _, number = self._made.pop()
            self._state.remove(number)
            self._state.restore(self.pods[at].row, self.pods[at].source)
        for at, landing in course.moves[same:]:
            self._state.remove(self.pods[at].row)
            number = self._state.add(self.pods[at].replacement)
            self._state.bind(number, landing)
            self._made.append((at, landing, number))


_WIDTH = 8  # drafts of a length that are kept
_BRANCHES = 3  # acceptable moves that each of them is tried with
_FLOORS = (30.0, 20.0, 12.0, 6.0)  # points
_LOWEST_FLOOR = 0.3
_SWEEPS_SHARE = 3  # of the placements, one of so many parts is for sweeps


def best_drafts(drafts: Drafts, placements: int) -> list[Draft]:
    """The best draft of each search, the better one first; so many placements end the search."""
    swept = [_swept(drafts, floor, placements // _SWEEPS_SHARE) for floor in _FLOORS]
    beam = [item for level in _beam(drafts, placements) for item in level]
    found = [min(items, key=_worth) for items in (beam, swept) if items]
    return sorted((item for item in found if item.pods), key=_worth)


def _worth(draft: Draft) -> tuple[float, int]:
    """What drafts are compared by; less is better."""
    return round(draft.left, 6), len(draft.pods)


def _beam(drafts: Drafts, placements: int) -> Iterator[list[Draft]]:
    """The best drafts of one move, of two, and so on, until there were so many placements."""
    level = [drafts.start]
    while level and drafts.placements < placements:
        longer: dict[frozenset[int], Draft] = {}
        for draft in level:
            for item in _longer(drafts, draft, placements):
                longer.setdefault(frozenset(item.pods), item)
        level = sorted(longer.values(), key=_worth)[:_WIDTH]
        yield level


def _longer(drafts: Drafts, draft: Draft, placements: int) -> Iterator[Draft]:
    """The drafts with one more move, of those that remove most."""
    gains, branches = np.round(drafts.gains(draft), 6), 0
    for at in np.argsort(-gains, kind="stable").tolist():
        if gains[at] <= NEGLIGIBLE or branches >= _BRANCHES or drafts.placements >= placements:
            return
        item = drafts.extended(draft, at)
        if item is not None:
            branches += 1
            yield item


def _swept(drafts: Drafts, floor: float, placements: int) -> Draft:
    """The draft of a sweep; as far as it came when there were so many placements."""
    draft = drafts.start
    while floor >= _LOWEST_FLOOR and drafts.placements < placements:
        gains = np.round(drafts.gains(draft), 6)
        order = np.argsort(gains, kind="stable")
        longer = (drafts.extended(draft, at) for at in order[gains[order] >= floor].tolist())
        following = next((item for item in longer if item is not None), None)
        if following is None:
            floor /= 2
        else:
            draft = following
    return draft
