"""Evaluates a move: where its replacement may land in every scenario, and whether that is acceptable.

While the scheduler places a replacement, its predecessor may still be there:

    a StatefulSet          makes the replacement once the old pod is gone
    a rolling update       makes it while the old pod serves, and counts in full
    any other controller   makes it as the old pod begins to terminate; whether that is gone when the
                           scheduler comes to the replacement is a race

The room that a pod leaves may be taken by Pending pods, which retry as soon as something becomes free. If one
of them fits there, the node is as full as before, and the eviction was for nothing.

Nothing is placed twice. Two pods of a class that leave the same node leave the same cluster behind, unless
they were just bound: their replacements land alike, and only what they use differs. Neither does it matter
which search asks, or in which order the moves before were made. What a search may cost is bounded by what
it asks for, not by what had to be computed: otherwise plans would depend on what was searched before.
"""

from __future__ import annotations

import copy
import itertools
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from functools import partial

import msgspec
import numpy as np
from msgspec.structs import replace

from rebalancer.cluster.arrays import BoolArray, FloatArray, IntArray, NodeRow, PodClassIndex, PodRow
from rebalancer.cluster.nodes import BASE_RESOURCES
from rebalancer.counting import counted
from rebalancer.planning.inputs import PlanningInputs
from rebalancer.planning.landing.landing_check import LandingCheck
from rebalancer.planning.landing.purpose import Landings, Purpose
from rebalancer.planning.landing.scenarios import (
    Branch,
    LandingDistribution,
    Scenario,
    Scenarios,
    branches_of,
    mean_of,
)
from rebalancer.planning.landing.schedulers import ProfileSchedulers
from rebalancer.planning.reasons import NotMoved, Reason
from rebalancer.planning.workloads.lookup import WorkloadInfo, grace_period_seconds
from rebalancer.policy.schema import BOLDEST
from rebalancer.scheduling.framework.cycle import Placement
from rebalancer.scheduling.framework.preemption import Preemption, Preemptions
from rebalancer.scheduling.state.cluster_state import ClusterState


class Predecessor(Enum):
    """The state of the old pod when its replacement is placed."""

    SERVES = "serves"
    TERMINATES = "terminates"
    GONE = "gone"


@contextmanager
def with_predecessor(state: ClusterState, row: PodRow, predecessor: Predecessor) -> Iterator[None]:
    """The state while a pod of a node is in this state; as it was when the block ends."""
    if predecessor is Predecessor.TERMINATES:
        with state.while_terminating(row):
            yield
        return
    with state.without((row,) if predecessor is Predecessor.GONE else ()):
        yield


# Filters whose verdict depends on a pod's class and the node alone.
_STATIC = frozenset({"NodeName", "NodeUnschedulable", "NodeAffinity", "TaintToleration"})
# So many classes of Pending pods are asked whether they take the room of one pod; with more, one of them may.
MAX_WAITING_CLASSES = 20


class FreedRoom:
    """The classes of Pending pods that fit nowhere, and the nodes on which they wait for room."""

    def __init__(self, schedulers: ProfileSchedulers, waiting: Sequence[int]) -> None:
        """``waiting`` are classes, in queue order."""
        self._schedulers = schedulers
        self._waiting = np.array(waiting, np.int64)
        self._never: dict[tuple[int, NodeRow], bool] = {}
        classes = schedulers.state.classes
        self._wanted = np.array(
            [classes.vector(classes.requests[index].incoming) for index in waiting], np.int64
        ).reshape(len(waiting), len(classes.resources))
        self._unfiltered = np.array(
            [
                not schedulers.is_foreign(index) and not schedulers.needs_requested_room(index)
                for index in waiting
            ],
            np.bool_,
        )

    def __bool__(self) -> bool:
        """Whether any pod waits."""
        return bool(len(self._waiting))

    def may_be_taken_by(self, row: PodRow, source: NodeRow, state: ClusterState) -> list[int]:
        """The classes whose requests fit once a pod has left its node, and which labels and taints admit.

        ``state`` still has the pod.
        """
        if not len(self._waiting):
            return []
        classes = state.classes
        free = classes.allocatable[source] - state.requested[source]
        free = free + classes.present[state.pod_class[row]]
        free[BASE_RESOURCES.index("pods")] = 1  # a pod leaves, so there is room for one
        fits = ((self._wanted <= free) | (self._wanted == 0)).all(axis=1) | self._unfiltered
        return [
            index for index in self._waiting[fits].tolist() if not self._is_shut_out(index, source, state)
        ]

    def takes(self, pod_class: int, source: NodeRow, state: ClusterState) -> bool:
        """Whether pods of a class fit on a node, or may; ``state`` is without the pod that leaves it."""
        return self._schedulers.is_foreign(pod_class) or bool(
            self._schedulers.scheduler(pod_class).feasible(state, pod_class)[source]
        )

    def words(self, pod_class: int) -> str:
        """Who takes the room."""
        pod = self._schedulers.state.classes[pod_class]
        name = f"a Pending pod of {pod.namespace}/{pod.owner.name or '?'}"
        if self._schedulers.is_foreign(pod_class):
            return f"{name}, whose scheduler {pod.scheduler_name} is not configured, may fit where it leaves"
        return f"{name} would fit where it leaves"

    def _is_shut_out(self, pod_class: int, source: NodeRow, state: ClusterState) -> bool:
        key = (pod_class, source)
        if key not in self._never:
            scheduler = self._schedulers.likely_scheduler(pod_class)
            self._never[key] = bool(scheduler.rejection_at(state, pod_class, source, _STATIC))
        return self._never[key]


_MAX_CELLS = 1_000_000  # placements times nodes that are kept


class KnownPlacements:
    """By what the state is like, and by the kind of eviction."""

    def __init__(self, nodes: int) -> None:
        self.asked = 0
        self.computed = 0
        self._most = max(_MAX_CELLS // max(nodes, 1), 1)
        self._found: dict[tuple[Hashable, Hashable], list[Placement]] = {}
        # States are kept with what was placed in them, so that no other state can have the same id.
        self._since_move: dict[tuple[int, Hashable], tuple[ClusterState, list[Placement]]] = {}

    def of(
        self, state: ClusterState, kind: Hashable, compute: Callable[[], list[Placement]]
    ) -> list[Placement]:
        """The placements after an eviction of this kind; the first time since a move they count as asked."""
        place = id(state), kind
        here = self._since_move.get(place)
        if here is not None:
            return here[1]
        found = self.shared(state, kind, compute)
        self.asked += len(found)
        if len(self._since_move) >= self._most:
            self._since_move.clear()
        self._since_move[place] = state, found
        return found

    def shared(
        self, state: ClusterState, kind: Hashable, compute: Callable[[], list[Placement]]
    ) -> list[Placement]:
        """The same, for a search that bounds what it asks for itself."""
        key = state.key, kind
        found = self._found.get(key)
        if found is None:
            found = compute()
            self.computed += len(found)
            if len(self._found) >= self._most:
                self._found.clear()
            self._found[key] = found
        return found

    def forget(self) -> None:
        """Forget which state had which placements: a move was made since."""
        self._since_move.clear()


_MAX_REASONS = 3
_MAX_VICTIMS = 2


class NoLanding:
    """Finds the reason once for each class, for the cluster as it is before the plan."""

    def __init__(self, schedulers: ProfileSchedulers) -> None:
        self._schedulers = schedulers
        self._preemptions = Preemptions(schedulers.state)
        self._sentences: dict[int, str] = {}

    def why(self, pod_class: int) -> str:
        """Why no node is feasible for a class, and what its pods would do."""
        if pod_class not in self._sentences:
            scheduler = self._schedulers.scheduler(pod_class)
            found = self._preemptions.of(scheduler, pod_class)
            self._sentences[pod_class] = (
                f"no node is feasible for its replacement{self._rejections(pod_class)}: "
                + (self._preempting(found) if len(found.nodes) else "it would stay Pending")
            )
        return self._sentences[pod_class]

    def _rejections(self, pod_class: int) -> str:
        """`` (2 Insufficient cpu, 1 …)``, most frequent first, of the cluster before the plan."""
        scheduler = self._schedulers.scheduler(pod_class)
        reasons = scheduler.rejections(self._schedulers.state, pod_class).values()
        counts = Counter(part for reason in reasons for part in reason.split(": ", 1)[-1].split(", "))
        ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        listed = ", ".join(f"{count} {reason}" for reason, count in ordered[:_MAX_REASONS])
        more = ", …" if len(ordered) > _MAX_REASONS else ""
        return f" ({listed}{more})" if listed else ""

    def _preempting(self, found: Preemption) -> str:
        inputs = self._schedulers.inputs
        node = inputs.snapshot.nodes.names[int(found.nodes[0])]
        victims = ", ".join(inputs.snapshot.pods.full_name(pod) for pod in found.victims[:_MAX_VICTIMS])
        more = ", …" if len(found.victims) > _MAX_VICTIMS else ""
        where = counted(len(found.nodes), "node")
        return f"it would preempt pods of lower priority on {where}, e.g. on {node} {victims}{more}"


NEGLIGIBLE = 1e-12  # a chance below this is floating-point error
_ROUNDING = 1e-9  # of a sum of chances, which may be the same chance added up in another order


class Wish(msgspec.Struct, frozen=True, eq=False):
    """A strategy's wish to move a pod."""

    strategy: str  # its name; empty where nobody wishes, and a landing is only looked at
    purpose: Purpose  # what a landing must be good for
    message: str = ""  # why it wishes to, in words
    lifts: Collection[Reason] = ()  # what is no reason to keep the pod, if it is not ready
    makes_room_for: PodRow | None = None  # another pod, which moves after it


class Candidate(msgspec.Struct, frozen=True, eq=False):
    """A pod that may be evicted."""

    row: PodRow
    source: NodeRow  # of the node it leaves
    namespace: str
    workload: WorkloadInfo  # whose replica it is
    replacement: PodClassIndex  # of the pod that comes back
    usage: FloatArray  # (measured resources,) thousandths of a core, bytes, …
    relief: FloatArray  # (measured resources,) by how much the figure of its node falls when it leaves
    points: FloatArray  # (resources,) the same in percent of its node; NaN where that is not known
    replaced_late: bool  # its replacement is created only after it is gone, as a StatefulSet's
    wish: Wish
    restarted: bool = False  # by the rolling update of its Deployment, which makes the replacement first
    scheduler: int = 0  # the number of the scheduler that places its replacement

    @property
    def ends_its_wave(self) -> bool:
        """Whether nothing else can be planned beside it: what happens before what would not be known."""
        return self.replaced_late or self.restarted or self.replaced_any_time

    @property
    def replaced_any_time(self) -> bool:
        """Whether nobody knows if its replacement is made while it terminates or long after (a Job's)."""
        return self.workload.replaced_any_time


class Evaluation(msgspec.Struct, frozen=True, eq=False):
    """What the evaluation of a move found."""

    candidate: Candidate
    by_scenario: tuple[LandingDistribution, ...]  # each the mean over both of its states
    branches: tuple[tuple[Branch, ...], ...]  # the same by start index; empty where the scheduler draws
    weights: FloatArray  # (scenarios,) how likely each scenario is
    unacceptable: float  # chance of an unacceptable landing
    acceptable: tuple[Landings, ...]  # those of each placement, apart from the state; none of a refused move
    refused: NotMoved | None  # why the pod should stay, the plan's confidence aside
    sampled: bool  # what refuses it is in the sample of the nodes that the scheduler looks at by chance only
    only_while_terminating: bool  # unacceptable only while this wave's pods are still terminating
    beside: float = 0.0  # chance that it joins another replica, which the pod did not before
    emptied: float = 0.0  # chance that it leaves a zone without any replica, for one that has some
    spread_cost: float = 0.0  # what that costs, see ``Spread``

    @property
    def gain(self) -> FloatArray:
        """(resources,) points, least over the acceptable landings; inf where the node is not hot."""
        least = np.full(len(self.candidate.points), np.inf)
        for landings in self.acceptable:
            gains = self.candidate.wish.purpose.gains(landings)
            if gains is not None:
                least = np.minimum(least, gains.min(axis=0))
        return least

    def holds(self, tolerated: float) -> bool:
        """Whether nothing refuses the move but samples, by a chance that is ``tolerated``."""
        return self.refused is None or (self.sampled and self.unacceptable <= tolerated)

    def landings(self) -> LandingDistribution:
        """The mean over all scenarios; no node where nothing is placed."""
        if not self.by_scenario:
            return LandingDistribution(np.zeros(0, np.int64), np.zeros(0))
        if len(self.by_scenario) == 1:
            return self.by_scenario[0]
        rows = np.flatnonzero(np.bincount(np.concatenate([item.rows for item in self.by_scenario])))
        chance = np.zeros(len(rows))
        weights = self.weights / self.weights.sum()
        for item, weight in zip(self.by_scenario, weights.tolist(), strict=True):
            chance[np.searchsorted(rows, item.rows)] += item.chance * weight
        return LandingDistribution(rows, chance)


class JudgedPlacement(msgspec.Struct, frozen=True, eq=False):
    """Where the scheduler might put a replacement, and on which nodes it must not land."""

    rows: IntArray  # (feasible,) nodes
    totals: IntArray  # (feasible,) scores
    chance: FloatArray  # (feasible,) of being chosen
    acceptable: BoolArray  # (feasible,)
    tainted: frozenset[int]  # the rows of nodes that have the soft taint of a run
    why_not: Callable[[int], str]  # of one of them, in words that begin with its name; empty where it is


class _Score(msgspec.Struct, frozen=True, eq=False):
    """Which of the landings of one placement are acceptable in a scenario."""

    unacceptable: float  # chance of one that is not
    landings: Landings | None = None  # None where there are none
    good: BoolArray | None = None  # (landings,)
    refusal: Callable[[], NotMoved] | None = None  # for the likeliest of the unacceptable landings


_NOTHING_PLACED = _Score(0.0)


class _InScenario(msgspec.Struct, eq=False):
    """What the evaluation of a move has found so far in one scenario."""

    scenario: Scenario
    before: FloatArray  # (resources,) percent of the node that is left
    worst: _Score = _NOTHING_PLACED
    placements: list[Placement] = []
    bad_later: list[Placement] = []  # those that refuse the move although this wave's pods may be gone
    sampled: bool = False
    scores: dict[int, _Score] = {}  # by the chances, which placements that cannot differ share

    @property
    def refuses(self) -> bool:
        """Whether a landing is not acceptable, whose chance does not matter where no samples are taken."""
        return self.worst.unacceptable > NEGLIGIBLE

    @property
    def acceptable(self) -> Iterator[Landings]:
        """The acceptable landings of each placement, without the state and the scores."""
        for score in self.scores.values():
            landings = score.landings
            if landings is None or score.good is None or not np.count_nonzero(score.good):
                continue
            yield Landings(
                landings.pod,
                landings.source,
                landings.rows[score.good],
                landings.before,
                landings.after[score.good],
                landings.points,
            )


def timings(candidate: Candidate, inputs: PlanningInputs) -> tuple[Predecessor, ...]:
    """What a pod does when its replacement is placed, the likeliest first; several where that is a race."""
    if candidate.restarted:
        return (Predecessor.SERVES,)
    if candidate.replaced_late:
        return (Predecessor.GONE,)
    likely = inputs.policy.planning.level.counts_on_termination and not candidate.replaced_any_time
    if likely and grace_period_seconds(inputs.snapshot.pods.class_of(candidate.row)) > 0:
        return (Predecessor.TERMINATES,)
    return (Predecessor.TERMINATES, Predecessor.GONE)


def placement_key(candidate: Candidate, state: ClusterState, predecessor: Predecessor) -> Hashable:
    """What placements depend on beside the state: the same for alike pods that leave the same node."""
    apart = predecessor is Predecessor.GONE and candidate.row in state.apart
    kind = ~candidate.row if apart else state.pod_class[candidate.row]
    return kind, candidate.replacement, candidate.source, predecessor, state.added_soft_taint


def placements_of(
    schedulers: ProfileSchedulers, candidate: Candidate, state: ClusterState, predecessor: Predecessor
) -> list[Placement]:
    """The replacement's placements as the schedulers see the nodes; the state is left as it was."""
    with with_predecessor(state, candidate.row, predecessor):
        views = schedulers.views(candidate.replacement)
        return [item.place(state, candidate.replacement) for item in views]


def _mean_mass(found: Sequence[_InScenario]) -> float:
    """The chance of an unacceptable landing by the worst placement of each scenario; 1 where one is sure."""
    masses = np.array([item.worst.unacceptable for item in found])
    most = float(masses.max())
    if most >= 1.0 or most == 0.0:
        return min(most, 1.0)
    chances = np.array([item.scenario.chance for item in found])
    return float((masses * chances).sum() / chances.sum())


class MoveEvaluator:
    """Evaluates moves against scenarios, and leaves the scenarios as they were."""

    def __init__(
        self,
        inputs: PlanningInputs,
        schedulers: ProfileSchedulers,
        landing_check: LandingCheck,
        waiting: Sequence[int],
        ensure_wanted: Callable[[], object],
    ) -> None:
        """``waiting`` are the classes of Pending pods that fit nowhere: they retry when room is freed.

        ``ensure_wanted`` is called before each placement.
        """
        self._inputs = inputs
        self._schedulers = schedulers
        self._landing_check = landing_check
        self._ensure_wanted = ensure_wanted
        self._freed = FreedRoom(schedulers, waiting)
        self.no_landing = NoLanding(schedulers)
        self._names = inputs.snapshot.nodes.names
        self.placements = KnownPlacements(len(self._names))

    def taking_the_race_as_likely(self) -> MoveEvaluator:
        """The same under the boldest aggressiveness, which counts on it, and computes anew."""
        policy = self._inputs.policy
        other = copy.copy(self)
        planning = policy.planning.model_copy(update={"aggressiveness": BOLDEST})
        other._inputs = replace(self._inputs, policy=policy.model_copy(update={"planning": planning}))
        other.placements = KnownPlacements(len(self._names))
        return other

    def evaluate(
        self,
        candidate: Candidate,
        scenarios: Scenarios,
        tolerated: float | None = None,
        *,
        complete: bool = False,
    ) -> Evaluation:
        """Where the replacement may land in every scenario, and whether each landing is acceptable.

        A move is refused by one unacceptable landing; where the scheduler takes samples, by a greater chance
        of them than is ``tolerated``: None for all that ``planning.confidence`` leaves to a plan. So what
        refuses it ends the evaluation, and ``by_scenario`` is of moves that are not refused. An explanation
        asks for the landings of refused moves too: ``complete``.
        """
        if tolerated is None:
            tolerated = 1.0 - self._inputs.policy.planning.confidence
        percents = scenarios.percents(candidate.source)
        found = list(map(_InScenario, scenarios.all, percents))
        del found[self._look(candidate, found, np.inf if complete else tolerated + _ROUNDING) :]
        mass = _mean_mass(found)
        refusing = [item for item in found if item.refuses]
        refused = refusing[0].worst.refusal() if refusing and refusing[0].worst.refusal else None
        sampled = all(item.sampled for item in refusing)
        stays = refused is not None and not (sampled and mass <= tolerated + _ROUNDING)
        shown = [item for item in found if item.placements] if complete or not stays else []
        landings = [mean_of(item.placements, len(self._names), item.scenario.starts) for item in shown]
        return Evaluation(
            candidate,
            tuple(landings),
            tuple(branches_of(item.placements, item.scenario.starts) for item in found) if shown else (),
            np.array([item.scenario.chance for item in shown]),
            mass,
            tuple(each for item in shown for each in item.acceptable),
            refused,
            sampled,
            stays and self._holds_later(candidate, found, tolerated + _ROUNDING if sampled else NEGLIGIBLE),
            *self._lost(candidate, scenarios, landings),
        )

    def _look(self, candidate: Candidate, found: Sequence[_InScenario], tolerated: float) -> int:
        """Place the replacement until that refuses the move, and tell in how many scenarios it was placed.

        Evicted pods terminate at different speeds: this one may still be terminating when earlier ones are
        gone, and the other way round, so all four combinations count, but for those that ``timings`` rules
        out. What is unacceptable in one scenario mostly is in the others, so each is looked at in one state
        before any of them is in a second one. Never refused, where infinitely much is ``tolerated``.
        """
        at_least = 0.0
        is_first = True
        for is_later, predecessor in self._courses(candidate, found[0].scenario):
            for at, item in enumerate(found):
                before = item.worst.unacceptable
                taken = self._room_taken(candidate, item.scenario) if is_first else ""
                if taken:
                    item.worst = _Score(1.0, refusal=partial(NotMoved, Reason.ROOM_TAKEN, taken))
                elif is_first or item.placements:
                    self._place_in(candidate, item, predecessor, is_later=is_later)
                at_least += item.scenario.chance * (item.worst.unacceptable - before)
                settled = item.refuses and (not item.sampled or item.worst.unacceptable >= 1.0)
                if tolerated < np.inf and (settled or at_least > tolerated):
                    return at + 1 if is_first else len(found)
            is_first = False
        return len(found)

    def _place_in(
        self, candidate: Candidate, found: _InScenario, predecessor: Predecessor, *, is_later: bool
    ) -> None:
        """Place the replacement in one state of a scenario; ``is_later``: once this wave's pods are gone."""
        scenario = found.scenario
        state = scenario.after_termination if is_later else scenario.while_terminating
        for placement in self._place(candidate, state, predecessor):
            found.placements.append(placement)
            found.sampled |= placement.is_sampled
            score = found.scores.get(id(placement.chance))
            if score is None:
                score = self._score(candidate, found, placement, is_over=False)
                found.scores[id(placement.chance)] = score
            if is_later and score.unacceptable > NEGLIGIBLE:
                found.bad_later.append(placement)
            if score.unacceptable > found.worst.unacceptable:
                found.worst = score

    def _holds_later(self, candidate: Candidate, found: Sequence[_InScenario], tolerated: float) -> bool:
        """Whether nothing that was found refuses the move once all pods that this wave evicts are gone."""
        mass = 0.0
        for item in found:
            if not item.scenario.is_terminating or not item.placements:
                return False
            scores = [self._score(candidate, item, each, is_over=True) for each in item.bad_later]
            worst = max((score.unacceptable for score in scores), default=0.0)
            mass += item.scenario.chance * worst
            if worst >= 1.0 or mass > tolerated:
                return False
        return True

    def _lost(
        self, candidate: Candidate, scenarios: Scenarios, landings: Sequence[LandingDistribution]
    ) -> tuple[float, float, float]:
        """The chances to join another replica and to empty a zone, and the cost; 0 of refused moves."""
        if len(landings) != len(scenarios.all):
            return 0.0, 0.0, 0.0
        total = np.zeros(3)
        for scenario, landing in zip(scenarios.all, landings, strict=True):
            state = scenario.after_termination
            lost = self._landing_check.spread.lost(state, candidate.row, candidate.source, landing.rows)
            if lost.cost.any():
                parts = np.stack([lost.beside, lost.emptied, lost.cost])
                total += scenario.chance * (parts @ landing.chance)
        beside, emptied, cost = total.tolist()
        return beside, emptied, cost

    def cost(self, candidate: Candidate, scenarios: Scenarios) -> int:
        """The most placements that one evaluation computes."""
        courses = len(self._courses(candidate, scenarios.all[0]))
        waiting = 0
        if self._freed:
            waiting = max(len(self._may_be_taken_by(candidate, scenario)) for scenario in scenarios.all)
            waiting = min(waiting, MAX_WAITING_CLASSES)
        return len(scenarios.all) * (courses * self._schedulers.max_views + waiting)

    def _courses(self, candidate: Candidate, scenario: Scenario) -> Sequence[tuple[bool, Predecessor]]:
        """In which states a replacement may be placed: later or in this wave, and what its predecessor does.

        Pods that were evicted before it in the same wave may be gone already or not, whatever the policy.
        """
        times = (True, False) if scenario.is_terminating else (True,)
        return tuple(itertools.product(times, timings(candidate, self._inputs)))

    def _place(self, candidate: Candidate, state: ClusterState, predecessor: Predecessor) -> list[Placement]:
        """The replacement's placements as the schedulers see the nodes."""
        self._ensure_wanted()
        found = partial(placements_of, self._schedulers, candidate, state, predecessor)
        return self.placements.of(state, placement_key(candidate, state, predecessor), found)

    def once_gone(self, candidate: Candidate, state: ClusterState) -> Placement:
        """Where the replacement would be placed once the pod is gone; it does not count as asked."""
        gone = candidate, state, Predecessor.GONE
        found = partial(placements_of, self._schedulers, *gone)
        return self.placements.shared(state, placement_key(*gone), found)[0]

    def _may_be_taken_by(self, candidate: Candidate, scenario: Scenario) -> list[int]:
        found = self._freed.may_be_taken_by(candidate.row, candidate.source, scenario.after_termination)
        return [item for item in found if item not in candidate.wish.purpose.room_for] if found else found

    def _room_taken(self, candidate: Candidate, scenario: Scenario) -> str:
        """Which Pending pod would take the room that a pod leaves once it is gone; empty when none would."""
        if not self._freed:
            return ""
        waiting = self._may_be_taken_by(candidate, scenario)
        if not waiting:
            return ""
        state = scenario.after_termination
        with with_predecessor(state, candidate.row, Predecessor.GONE):
            for pod_class in waiting[:MAX_WAITING_CLASSES]:
                self.placements.asked += 1
                self.placements.computed += 1
                if self._freed.takes(pod_class, candidate.source, state):
                    return self._freed.words(pod_class)
        if len(waiting) <= MAX_WAITING_CLASSES:
            return ""
        return (
            f"Pending pods of {len(waiting)} kinds request no more than would be free where it leaves: "
            f"which of them fit was asked of {MAX_WAITING_CLASSES} only"
        )

    def _score(
        self, candidate: Candidate, found: _InScenario, placement: Placement, *, is_over: bool
    ) -> _Score:
        """The chance of an unacceptable landing in this wave, or once it ``is_over``."""
        if placement.rejected or not len(placement.feasible):
            why = placement.rejected or self.no_landing.why(candidate.replacement)
            return _Score(1.0, refusal=partial(NotMoved, Reason.NO_LANDING, why))
        scenario = found.scenario
        chance = placement.chance_from(scenario.starts)
        possible = (chance > NEGLIGIBLE).nonzero()[0]
        rows = placement.feasible.take(possible)
        chance = chance.take(possible)
        landings = self._landings(candidate, scenario, found.before, placement, rows, is_over=is_over)
        check = self._landing_check
        purpose = candidate.wish.purpose
        good = check.acceptable(landings, purpose)
        if np.count_nonzero(good) == len(good):
            return _Score(0.0, landings, good)
        unacceptable = float(chance[~good].sum())
        return _Score(unacceptable, landings, good, partial(self._refusal, landings, purpose, chance, good))

    def judged(self, candidate: Candidate, scenarios: Scenarios) -> Iterator[JudgedPlacement]:
        """Each placement of a replacement in every scenario, with what all feasible nodes would be like.

        Each is computed once it is asked for: what taints nodes meanwhile counts.
        """
        check = self._landing_check
        purpose = candidate.wish.purpose
        percents = scenarios.percents(candidate.source)
        for scenario, before in zip(scenarios.all, percents, strict=True):
            for is_later, predecessor in self._courses(candidate, scenario):
                state = scenario.after_termination if is_later else scenario.while_terminating
                soft_taint = state.added_soft_taint
                for placement in self._place(candidate, state, predecessor):
                    rows = placement.feasible
                    _, tainted = soft_taint or (None, frozenset())
                    landings = self._landings(candidate, scenario, before, placement, rows, is_over=False)
                    yield JudgedPlacement(
                        rows=rows,
                        totals=placement.totals,
                        chance=placement.chance_from(scenario.starts),
                        acceptable=check.acceptable(landings, purpose),
                        tainted=tainted,
                        why_not=partial(check.why_not, landings, purpose=purpose),
                    )

    def _landings(
        self,
        candidate: Candidate,
        scenario: Scenario,
        before: FloatArray,
        placement: Placement,
        rows: IntArray,
        *,
        is_over: bool,
    ) -> Landings:
        """What some of the feasible nodes would be like in this wave, or once it ``is_over``."""
        state = scenario.after_termination
        usage = scenario.usage
        pod_count = state.pod_count
        if scenario.is_terminating and not is_over:
            usage = usage + scenario.terminating_usage
            pod_count = scenario.while_terminating.pod_count
        return Landings(
            pod=candidate.row,
            source=candidate.source,
            rows=rows,
            before=before,
            after=self._landing_check.percent_after(rows, usage, pod_count, candidate.usage),
            points=candidate.points,
            state=state,
            placement=placement,
            replacement=candidate.replacement,
            once_gone=partial(self.once_gone, candidate, state),
        )

    def _refusal(self, landings: Landings, purpose: Purpose, chance: FloatArray, good: BoolArray) -> NotMoved:
        check = self._landing_check
        bad = (~good).nonzero()[0]
        likeliest = int(bad[np.argmax(chance[bad])])
        why = check.why_not(landings, likeliest, purpose)
        message = f"may land ({chance[bad].sum():.0%}) where it must not: {why}"
        settings = check.settings_behind(landings, likeliest, purpose)
        return NotMoved(Reason.NO_BETTER_LANDING, message, settings, int(landings.rows[likeliest]))
