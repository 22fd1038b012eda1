"""Scenarios: the cluster as it may be after the moves planned so far, and how likely each course of it is.

The scheduler's own choice is not certain: a landing is a distribution. It is checked as a whole before a pod
is evicted. Where the next replacement lands depends on where the earlier ones landed, and on whether their
predecessors are still terminating. Neither is known when the plan is made, so a further move must hold in
every scenario kept here.

What the landings of several moves are together does not follow from what each is by itself. Up to 1.34 the
scheduler draws among equal totals, each time anew. Later nothing is drawn: the index at which its search
starts decides, it is the same for pod after pod, and only it is unknown (``framework.start_index``). So ten
equal nodes are ten courses, in each of which all replacements go to the same node for as long as that is one
of the best. A scenario is such a course with the start indices that lead to it, and ``Scenarios`` are all of
them.

    start            one scenario, any index: a 90 %, b 20 %, c 20 %
    move web-1 of a  b and c are equal: 2 scenarios; from half of the indices it is on b, from the others on c
    move web-2 of a  evaluated in both; b is at 35 % where web-1 went there, and the node it leaves at 80 %;
                     where b is still one of the best, web-2 goes there too
    while web-1 is   both are also tried with web-1 still on a: its requests are still taken there,
    terminating      so the scheduler sees a as full as before
    next wave        2 scenarios, web-1 and web-2 gone from a in each

At most ``MAX_SCENARIOS`` are kept while plans are searched. Where the start index leads to more courses,
those that fill a node most are kept, and some of the others stand for all others; once the plan is found, its
moves are made again with ``MAX_FOLLOWED``: every course of 100 equal nodes. Where landings are drawn, each
scenario draws its own, from a generator seeded by the inputs.

Each scenario holds two states, because termination takes its time: one in which the pods evicted in this wave
still terminate, and one in which they are gone. A landing must be acceptable in both. When the wave is over
only the second state is left.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Collection, Sequence

import msgspec
import numpy as np
from msgspec.structs import replace

from rebalancer.cluster.arrays import BoolArray, FloatArray, IntArray, NodeRow, weighted_sum
from rebalancer.cluster.records import Taint
from rebalancer.load.report import percent_of_allocatable
from rebalancer.scheduling.framework.cycle import ANY_START, Placement, Starts
from rebalancer.scheduling.state.cluster_state import ClusterState

NEGLIGIBLE = 1e-12  # a chance below this is floating-point error


class LandingDistribution(msgspec.Struct, frozen=True, eq=False):
    """The nodes a replacement may land on and the chance of each."""

    rows: IntArray  # of nodes
    chance: FloatArray

    def likeliest(self) -> NodeRow:
        """The node with the highest chance; of several, the first."""
        return NodeRow(int(self.rows[int(np.argmax(self.chance))]))

    def draw(self, random: np.random.Generator | Draws) -> NodeRow:
        """One node, each with its chance."""
        edges = np.cumsum(self.chance)
        position = int(np.searchsorted(edges, random.random() * edges[-1], side="right"))
        return NodeRow(int(self.rows[min(position, len(self.rows) - 1)]))


NOWHERE = NodeRow(-1)
NO_LANDING = LandingDistribution(np.zeros(0, np.int64), np.zeros(0))


class LandingDraws:
    """Draws landings one after another, as the schedulers make them.

    Where nothing is drawn among equal nodes, the index at which all searches of a scheduler start is, once.
    """

    def __init__(self, random: np.random.Generator) -> None:
        self._random = random
        self._starts: dict[int, float] = {}  # by scheduler: of all nodes, where its searches start

    def node(self, placement: Placement) -> NodeRow:
        """A node by the chances of a placement; NOWHERE when there is none."""
        if not len(placement.feasible) or float(placement.chance.sum()) <= 0:
            return NOWHERE
        starts: Starts = ANY_START
        if placement.tie is not None:
            scheduler = placement.tie.scheduler
            if scheduler not in self._starts:
                self._starts[scheduler] = self._random.random()
            start = self._starts[scheduler] * len(placement.tie.by_start)
            starts = {scheduler: np.array([int(start)])}
        return LandingDistribution(placement.feasible, placement.chance_from(starts)).draw(self._random)


def mean_of(placements: Sequence[Placement], nodes: int, starts: Starts = ANY_START) -> LandingDistribution:
    """The chances of several placements, averaged, if the searches start at one of these."""
    total = np.zeros(nodes)
    for placement in placements:
        total[placement.feasible] += placement.chance_from(starts)
    rows = np.flatnonzero(total / len(placements) > NEGLIGIBLE)
    return LandingDistribution(rows, total[rows] / len(placements))


class Draws:
    """Numbers from 0 to 1 of a generator; copies go on with the same ones, which are drawn once for all."""

    def __init__(self, generator: np.random.Generator, drawn: list[float] | None = None, at: int = 0) -> None:
        self._generator = generator
        self._drawn = [] if drawn is None else drawn
        self._at = at

    def copy(self) -> Draws:
        """Draws that go on as these do, independent of them."""
        return Draws(self._generator, self._drawn, self._at)

    def random(self) -> float:
        """The next number."""
        if self._at == len(self._drawn):
            self._drawn.append(self._generator.random())
        self._at += 1
        return self._drawn[self._at - 1]


class Branch(msgspec.Struct, frozen=True, eq=False):
    """One way in which a landing may turn out in a scenario."""

    node: NodeRow
    chance: float  # within the scenario
    starts: Starts  # the start indices that lead to it


def branches_of(placements: Sequence[Placement], starts: Starts) -> tuple[Branch, ...]:
    """The landings from each start index, without races; nothing where one of the placements is a draw.

    The placements are those of one scheduler; ``starts`` are those of the scenario.
    """
    ties = [placement.tie for placement in placements if placement.tie is not None]
    scheduler = ties[0].scheduler if ties else 0
    own = starts.get(scheduler)
    by_node: dict[int, tuple[float, IntArray | None]] = {}
    for placement in placements:
        if placement.tie is None:
            likely = np.flatnonzero(placement.chance > NEGLIGIBLE)
            if len(likely) != 1:
                return ()
            parts = [(int(likely[0]), 1.0, own)]
        else:
            every = np.arange(len(placement.tie.by_start)) if own is None else own
            taken = placement.tie.by_start[every]
            parts = [
                (place, float(np.mean(taken == place)), every[taken == place])
                for place in _distinct(taken).tolist()
            ]
        for place, chance, leading in parts:
            node = int(placement.feasible[place])
            before, earlier = by_node.get(node, (0.0, leading))
            both = None if earlier is None or leading is None else np.concatenate([earlier, leading])
            by_node[node] = before + chance / len(placements), None if both is None else _distinct(both)
    return tuple(
        Branch(NodeRow(node), chance, starts if leading is None else {**starts, scheduler: leading})
        for node, (chance, leading) in sorted(by_node.items())
    )


def _distinct(values: IntArray) -> IntArray:
    """Numbers that are not negative, each once, ascending; what numpy has for it imports much else."""
    return np.flatnonzero(np.bincount(values))


MIN_SCENARIOS = 2
MAX_SCENARIOS = 8
MAX_FOLLOWED = 100


class Scenario(msgspec.Struct, eq=False):
    """One way the moves so far may have turned out."""

    while_terminating: ClusterState  # pods evicted in this wave still terminate
    after_termination: ClusterState  # they are gone
    # Both are (nodes, measured resources).
    usage: FloatArray  # expected after termination; NaN unknown
    terminating_usage: FloatArray  # what the pods evicted in this wave still use where they were
    is_terminating: bool = False  # a pod was evicted in this wave, so the two states differ
    chance: float = 1.0  # that it is this one
    starts: Starts = ANY_START  # the indices at which the schedulers' searches may start

    def copy(self) -> Scenario:
        """An independent scenario."""
        return replace(
            self,
            while_terminating=self.while_terminating.copy(),
            after_termination=self.after_termination.copy(),
            usage=self.usage.copy(),
            terminating_usage=self.terminating_usage.copy(),
        )

    def next_wave(self) -> Scenario:
        """This scenario when the wave is over and its evicted pods are gone."""
        return replace(
            self,
            while_terminating=self.after_termination.copy(),
            terminating_usage=np.zeros_like(self.terminating_usage),
            is_terminating=False,
        )


class MoveEffect(msgspec.Struct, frozen=True, eq=False):
    """What one move does to the nodes that it concerns, in percent of allocatable by resource."""

    source_before: FloatArray  # (resources,) of the node that the pod leaves
    source_after: FloatArray  # (resources,)
    before: FloatArray  # (landings, resources) of each node that its replacement may land on
    after: FloatArray  # (landings, resources) if it lands there


class Scenarios:
    """All scenarios of a plan; they start as one and split where a landing is uncertain."""

    def __init__(
        self,
        state: ClusterState,
        usage: FloatArray,
        random: np.random.Generator,
        allocatable: FloatArray,
        leaving: IntArray,
    ) -> None:
        """``allocatable`` is (nodes, resources), as ``usage``.

        ``leaving`` is how many pods of each node, (nodes,), are in the state still and count no more.
        """
        self._leaving = leaving
        self._random = Draws(random)
        self._allocatable = allocatable
        self.max_scenarios = MAX_SCENARIOS  # that a split keeps
        self.are_some = False  # some courses stand for others that are not kept
        self.all = [Scenario(state, state.copy(), usage.copy(), np.zeros_like(usage))]

    def copy(self) -> Scenarios:
        """Independent scenarios that will draw the same landings."""
        other = copy.copy(self)
        other._random = self._random.copy()
        other.all = [scenario.copy() for scenario in self.all]
        return other

    def taint(self, taint: Taint, nodes: Collection[int]) -> None:
        """Give these nodes a taint in every scenario, and no others; see ``ClusterState.taint``."""
        for scenario in self.all:
            for state in (scenario.while_terminating, scenario.after_termination):
                state.taint(taint, nodes)

    def only(self, max_scenarios: int) -> Scenarios:
        """The first scenarios, to estimate with; what is planned for certain must hold in all of them."""
        other = self.copy()
        other.all = other.all[:max_scenarios]
        other.max_scenarios = max_scenarios
        other._rescale()
        return other

    def join(self, other: Scenarios) -> None:
        """Take the scenarios of another course of the same pods as well, which is as likely as this one.

        Where both courses led to the same it is one.
        """
        if self._pending() == other._pending():
            return
        self.all += other.all
        self.are_some |= other.are_some
        self._rescale()

    def _pending(self) -> list[tuple[object, ...]]:
        """What became of Pending pods in each scenario: class and node of those placed, and nominations."""
        states = [scenario.after_termination for scenario in self.all]
        return [(sorted(state.bound_here.values()), state.nominated) for state in states]

    @property
    def likeliest(self) -> Scenario:
        """The scenario with the highest chance; of several, the first."""
        return max(self.all, key=lambda scenario: round(scenario.chance, 9))

    def next_wave(self) -> Scenarios:
        """The scenarios of the next wave; they share state with these, so only one may be used further."""
        other = copy.copy(self)
        other.all = [scenario.next_wave() for scenario in self.all]
        return other

    @property
    def chances(self) -> FloatArray:
        """(scenarios,) how likely each is."""
        return np.array([scenario.chance for scenario in self.all])

    def percents(self, node: NodeRow) -> FloatArray:
        """(scenarios, resources) percent of a node's allocatable expected in each scenario."""
        usage = np.array([scenario.usage[node] for scenario in self.all])
        count = np.array([scenario.after_termination.pod_count[node] for scenario in self.all])
        return percent_of_allocatable(usage, count - self._leaving[node], self._allocatable[node])

    def effect(
        self,
        source: NodeRow,
        relief: FloatArray,
        landings: Sequence[LandingDistribution],
        usage: FloatArray,
        counts: BoolArray,
    ) -> MoveEffect:
        """What a move does that has yet to be made, whose ``landings`` are by scenario.

        Of each node it is what happens in the likeliest scenario in which the replacement lands there. Of the
        node left it is the likeliest that ``counts``, (scenarios,), if any does. A mean over scenarios may be
        a figure that no course of the plan leads to. ``relief`` and ``usage`` are those of the pod, (measured
        resources,), where it leaves and where it lands.
        """
        rows = _distinct(np.concatenate([landing.rows for landing in landings]))
        likely = np.round(self.chances, 9)
        likeliest = self.all[int(np.argmax(np.where(counts, likely, 0.0) if counts.any() else likely))]
        usage_there = self.all[0].usage.take(rows, axis=0)
        pods_there = self.all[0].after_termination.pod_count.take(rows)
        if len(self.all) > 1:
            chances = np.zeros((len(landings), len(rows)))
            for at, (scenario, landing) in enumerate(zip(self.all, landings, strict=True)):
                chances[at, rows.searchsorted(landing.rows)] = scenario.chance * landing.chance
            for place, at in enumerate(chances.argmax(axis=0).tolist()):
                row = rows[place]
                usage_there[place] = self.all[at].usage[row]
                pods_there[place] = self.all[at].after_termination.pod_count[row]
        source_usage = likeliest.usage[source]
        source_count = likeliest.after_termination.pod_count[source] - self._leaving[source]
        count = pods_there - self._leaving.take(rows)
        back = rows == source  # where it lands again on its node it uses there what it did
        # Before and after of the source, then of each landing before and after.
        percents = percent_of_allocatable(
            np.concatenate(
                [
                    [source_usage, source_usage - relief],
                    usage_there,
                    np.where(back[:, None], usage_there, usage_there + usage),
                ]
            ),
            np.concatenate([[source_count, source_count - 1], count, count + ~back]),
            self._allocatable.take(np.concatenate([[source, source], rows, rows]), axis=0),
        )
        return MoveEffect(percents[0], percents[1], percents[2 : 2 + len(rows)], percents[2 + len(rows) :])

    def expected_percent(self, node: NodeRow) -> FloatArray:
        """(resources,) percent of a node's allocatable, the mean over the scenarios."""
        return weighted_sum(self.chances, self.percents(node))

    def levels(self) -> FloatArray:
        """(scenarios, nodes, resources) percent of allocatable of every node."""
        return np.array(
            [
                percent_of_allocatable(
                    scenario.usage, scenario.after_termination.pod_count - self._leaving, self._allocatable
                )
                for scenario in self.all
            ]
        )

    def mean_percent(self) -> FloatArray:
        """(nodes, resources) percent of allocatable of every node, the mean over the scenarios."""
        return weighted_sum(self.chances, self.levels())

    def land(
        self,
        landings: Sequence[LandingDistribution],
        branches: Sequence[tuple[Branch, ...]],
        pod_usage: FloatArray,
    ) -> list[NodeRow]:
        """Split where a landing is uncertain, and decide it in each scenario: a node for each of ``all``.

        ``landings`` and ``branches`` are by scenario, the branches empty where the scheduler draws.
        """
        if all(branches):
            return self._branch(branches, pod_usage)
        landings = list(landings)
        branches = list(branches)
        if len(self.all) == 1:
            self._split()
            landings = landings * len(self.all)
            branches = branches * len(self.all)
        nodes = []
        for scenario, landing, ways in zip(self.all, landings, branches, strict=True):
            if not ways:
                nodes.append(landing.draw(self._random))
                continue
            chances = np.array([way.chance for way in ways])
            way = ways[int(LandingDistribution(np.arange(len(ways)), chances).draw(self._random))]
            scenario.starts = way.starts
            nodes.append(way.node)
        return nodes

    def _branch(self, branches: Sequence[tuple[Branch, ...]], pod_usage: FloatArray) -> list[NodeRow]:
        """Follow every branch of every scenario, or as many as may be kept."""
        ways = [
            (scenario, way, scenario.chance * way.chance)
            for scenario, of_scenario in zip(self.all, branches, strict=True)
            for way in of_scenario
        ]
        if len(ways) > max(self.max_scenarios, len(self.all)):
            ways = self._fullest_and_some(ways, pod_usage)
            self.are_some = True
        split: list[Scenario] = []
        followed: set[int] = set()
        for scenario, way, chance in ways:
            course = scenario.copy() if id(scenario) in followed else scenario
            followed.add(id(scenario))
            split.append(course)
            course.chance = chance
            course.starts = way.starts
        self.all = split
        return [way.node for _, way, _ in ways]

    def _fullest_and_some(
        self, ways: list[tuple[Scenario, Branch, float]], pod_usage: FloatArray
    ) -> list[tuple[Scenario, Branch, float]]:
        """Half of the ways kept fill a node most; the others are spread evenly over the rest, by chance."""
        rows = np.array([way.node for _, way, _ in ways])
        usage = np.array([scenario.usage[way.node] for scenario, way, _ in ways]) + pod_usage
        count = np.array([scenario.after_termination.pod_count[way.node] + 1 for scenario, way, _ in ways])
        after = percent_of_allocatable(usage, count, self._allocatable[rows])
        fullness = np.where(rows < 0, 0.0, np.nan_to_num(after, nan=np.inf).max(axis=1))
        order = np.argsort(-fullness, kind="stable")
        max_ways = max(self.max_scenarios, len(self.all))
        fullest = np.sort(order[: max_ways // 2])
        less_full = np.sort(order[max_ways // 2 :])
        chance = np.array([each for _, _, each in ways])
        edges = np.cumsum(chance[less_full])
        remaining = max_ways - len(fullest)
        at = edges.searchsorted((np.arange(remaining) + 0.5) / remaining * edges[-1])
        standing = Counter(less_full[np.minimum(at, len(less_full) - 1)].tolist())
        share = float(edges[-1]) / remaining
        chances = {index: float(chance[index]) for index in fullest.tolist()}
        chances |= {index: share * times for index, times in standing.items()}
        return [(*ways[index][:2], chances[index]) for index in sorted(chances)]

    def place_pending(self, pod: int, placements: Sequence[Placement], request: FloatArray) -> None:
        """Bind a Pending pod in each scenario where it fits; ``request`` is what it will use."""
        nodes = len(self._allocatable)
        landings = [
            mean_of([placement], nodes, scenario.starts) if placement.chance.any() else NO_LANDING
            for scenario, placement in zip(self.all, placements, strict=True)
        ]
        branches = [
            branches_of([placement], scenario.starts)
            if placement.chance.any()
            else (Branch(NOWHERE, 1.0, scenario.starts),)
            for scenario, placement in zip(self.all, placements, strict=True)
        ]
        self.bind_pending(pod, self.land(landings, branches, request), request)

    def bind_pending(self, pod: int, targets: Sequence[NodeRow], request: FloatArray) -> None:
        """Bind a Pending pod to a node in each scenario, or nowhere; ``request`` is what it will use."""
        for scenario, target in zip(self.all, targets, strict=True):
            if target == NOWHERE:
                continue
            for state in (scenario.while_terminating, scenario.after_termination):
                if state.node[pod] != target:
                    state.bind(pod, target)
            scenario.usage[target] += request

    def nominate(self, pod: int, nodes: IntArray) -> None:
        """Keep room for a Pending pod on one of these nodes, scenario by scenario on another one."""
        if len(nodes) > 1 and len(self.all) == 1 < self.max_scenarios:
            self._split()
        for at, scenario in enumerate(self.all if len(nodes) else ()):
            for state in (scenario.while_terminating, scenario.after_termination):
                state.nominate(pod, int(nodes[(at + len(state.nominated)) % len(nodes)]))

    def landed_at(self, node: NodeRow, branches: Sequence[tuple[Branch, ...]]) -> None:
        """The landing was seen: keep the start indices that lead to it, or all where none does."""
        leading = [
            (scenario, way)
            for scenario, ways in zip(self.all, branches, strict=True)
            for way in ways
            if way.node == node
        ]
        for scenario, way in leading:
            scenario.chance = scenario.chance * way.chance
            scenario.starts = way.starts
        if leading:
            self.all = [scenario for scenario, _ in leading]
            self._rescale()

    def _rescale(self) -> None:
        whole = float(self.chances.sum())
        for scenario in self.all:
            scenario.chance /= whole

    def _split(self) -> None:
        """Split one scenario into as many as are kept."""
        self.all[0].chance /= self.max_scenarios
        self.all += [self.all[0].copy() for _ in range(self.max_scenarios - 1)]
