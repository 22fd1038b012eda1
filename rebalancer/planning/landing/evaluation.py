"""Evaluates a move: where its replacement may land in every scenario, and whether that is acceptable.

While the scheduler places a replacement, its predecessor may still be there:

    a StatefulSet          makes the replacement once the old pod is gone
    a rolling update       makes it while the old pod serves, and counts in full
    any other controller   makes it as the old pod begins to terminate; whether that is gone when the
                           scheduler comes to the replacement is a race

Pending pods may take the room that a pod leaves: see ``freed_room``.

A search is bounded by how many placements it makes. Pods that are alike are placed each for itself.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from functools import partial

import msgspec
import numpy as np
from msgspec.structs import replace

from rebalancer.cluster.arrays import (
    BoolArray,
    FloatArray,
    IntArray,
    NodeRow,
    PodClassIndex,
    PodRow,
    weighted_sum,
)
from rebalancer.planning.inputs import PlanningInputs
from rebalancer.planning.landing.freed_room import FreedRoom
from rebalancer.planning.landing.landing_check import LandingCheck
from rebalancer.planning.landing.no_landing import NoLanding
from rebalancer.planning.landing.purpose import Landings, MadeRoom, Purpose
from rebalancer.planning.landing.scenarios import (
    NEGLIGIBLE,
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
from rebalancer.scheduling.state.cluster_state import ClusterState


class Predecessor(Enum):
    """The state of the old pod when its replacement is placed."""

    SERVES = "serves"
    TERMINATES = "terminates"
    GONE = "gone"


@contextmanager
def with_predecessor(state: ClusterState, row: PodRow, predecessor: Predecessor) -> Iterator[None]:
    """The cluster while the predecessor serves, terminates or is gone; restored when the block ends."""
    if predecessor is Predecessor.TERMINATES:
        with state.while_terminating(row):
            yield
        return
    with state.without((row,) if predecessor is Predecessor.GONE else ()):
        yield


# The evaluator tries no more classes of Pending pods in the room of a pod. Of more, it assumes that one fits.
MAX_WAITING_CLASSES = 20
_ROUNDING = 1e-9  # of a sum of chances, which may be the same chance added up in another order


class Wish(msgspec.Struct, frozen=True, eq=False):
    """A strategy's wish to move a pod."""

    strategy: str  # its name; empty where nobody wishes, and a landing is only looked at
    purpose: Purpose  # what a landing must be good for
    message: str = ""  # why it wishes to, in words
    lifts: Collection[Reason] = ()  # what is no reason to keep the pod, if it is not ready
    makes_room_for: PodRow | None = None  # another pod, which moves after it or is Pending
    room: MadeRoom | None = None  # which it makes on its node for what fits on none


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
    wish: Wish
    restarted: bool  # by the rolling update of its Deployment, which makes the replacement first
    scheduler: int  # the number of the scheduler that places its replacement

    @property
    def ends_its_wave(self) -> bool:
        """Whether nothing else can be planned beside it: what happens before what would not be known."""
        workload = self.workload
        return workload.replaced_late or self.restarted or workload.replaced_any_time


class Evaluation(msgspec.Struct, frozen=True, eq=False):
    """What the evaluation of a move found."""

    candidate: Candidate
    by_scenario: tuple[LandingDistribution, ...]  # each the mean of its placements
    branches: tuple[tuple[Branch, ...], ...]  # the same by start index; empty where the scheduler draws
    weights: FloatArray  # (scenarios,) how likely each scenario is
    unacceptable: float  # chance of an unacceptable landing
    acceptable: tuple[Landings, ...]  # those of each placement, apart from the state; none of a refused move
    refused: NotMoved | None  # why the pod should stay, the plan's confidence aside
    sampled: bool  # what refuses it is in the sample of the nodes that the scheduler looks at by chance only
    only_while_terminating: bool  # unacceptable only while this wave's pods are still terminating
    beside: float  # chance that it joins another replica, which the pod did not before
    emptied: float  # chance that it leaves a zone without any replica, for one that has some
    spread_cost: float  # what that costs, see ``Spread``

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
        rows = np.flatnonzero(
            np.bincount(np.concatenate([distribution.rows for distribution in self.by_scenario]))
        )
        chance = np.zeros(len(rows))
        weights = self.weights / self.weights.sum()
        for distribution, weight in zip(self.by_scenario, weights.tolist(), strict=True):
            chance[np.searchsorted(rows, distribution.rows)] += distribution.chance * weight
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
    scores: list[_Score] = []  # by placement

    @property
    def refuses(self) -> bool:
        """Whether a landing is not acceptable, whose chance does not matter where no samples are taken."""
        return self.worst.unacceptable > NEGLIGIBLE

    @property
    def acceptable(self) -> Iterator[Landings]:
        """The acceptable landings of each placement, without the state and the scores."""
        for score in self.scores:
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
    """What the old pod may be doing when its replacement is placed, the likeliest first."""
    if candidate.restarted:
        return (Predecessor.SERVES,)
    workload = candidate.workload
    if workload.replaced_late:
        return (Predecessor.GONE,)
    # A policy may count on a pod with a grace period still terminating when its replacement is placed.
    counts_on_it = inputs.policy.planning.level.counts_on_termination and not workload.replaced_any_time
    if counts_on_it and grace_period_seconds(inputs.snapshot.pods.class_of(candidate.row)) > 0:
        return (Predecessor.TERMINATES,)
    return (Predecessor.TERMINATES, Predecessor.GONE)


def _mean_mass(in_scenarios: Sequence[_InScenario]) -> float:
    """The chance of an unacceptable landing by the worst placement of each scenario; 1 where one is sure."""
    masses = np.array([in_scenario.worst.unacceptable for in_scenario in in_scenarios])
    highest = float(masses.max())
    if highest >= 1.0 or highest == 0.0:
        return min(highest, 1.0)
    chances = np.array([in_scenario.scenario.chance for in_scenario in in_scenarios])
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

        The evaluator calls ``ensure_wanted`` before each placement; it may raise where nobody waits any more.
        """
        self._inputs = inputs
        self._schedulers = schedulers
        self._landing_check = landing_check
        self._ensure_wanted = ensure_wanted
        self._freed = FreedRoom(schedulers, waiting)
        self.no_landing = NoLanding(schedulers)
        self._nodes = len(inputs.snapshot.nodes)
        self.placed = 0  # placements that were made: searches are bounded by them

    def taking_the_race_as_likely(self) -> MoveEvaluator:
        """The evaluator of the boldest aggressiveness, which counts on pods that still terminate."""
        policy = self._inputs.policy
        other = copy.copy(self)
        planning = policy.planning.model_copy(update={"aggressiveness": BOLDEST})
        other._inputs = replace(self._inputs, policy=policy.model_copy(update={"planning": planning}))
        other.placed = 0
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

        One unacceptable landing refuses the move. Where the scheduler takes samples, only a chance of such
        landings that is greater than ``tolerated`` refuses it; None: all the chance that
        ``planning.confidence`` leaves to a plan. The evaluation ends there, without ``by_scenario``, unless
        it must be ``complete``: an explanation shows the landings of refused moves, too.
        """
        if tolerated is None:
            tolerated = 1.0 - self._inputs.policy.planning.confidence
        percents = scenarios.percents(candidate.source)
        tolerated += _ROUNDING
        in_scenarios = list(map(_InScenario, scenarios.all, percents))
        placed_in = self._look(candidate, in_scenarios, np.inf if complete else tolerated)
        in_scenarios = in_scenarios[:placed_in]
        mass = _mean_mass(in_scenarios)
        refusing = [in_scenario for in_scenario in in_scenarios if in_scenario.refuses]
        refused: NotMoved | None = None
        if refusing and refusing[0].worst.refusal:
            refused = refusing[0].worst.refusal()
        sampled = all(in_scenario.sampled for in_scenario in refusing)
        stays = refused is not None and not (sampled and mass <= tolerated)
        only_while_terminating = stays and self._holds_later(
            candidate, in_scenarios, tolerated if sampled else NEGLIGIBLE
        )
        shown: list[_InScenario] = []
        if complete or not stays:
            shown = [in_scenario for in_scenario in in_scenarios if in_scenario.placements]
        landings = [
            mean_of(in_scenario.placements, self._nodes, in_scenario.scenario.starts) for in_scenario in shown
        ]
        branches: list[tuple[Branch, ...]] = []
        if shown:
            branches = [
                branches_of(in_scenario.placements, in_scenario.scenario.starts)
                for in_scenario in in_scenarios
            ]
        beside, emptied, spread_cost = self._lost(candidate, scenarios, landings)
        return Evaluation(
            candidate=candidate,
            by_scenario=tuple(landings),
            branches=tuple(branches),
            weights=np.array([in_scenario.scenario.chance for in_scenario in shown]),
            unacceptable=mass,
            acceptable=tuple(landing for in_scenario in shown for landing in in_scenario.acceptable),
            refused=refused,
            sampled=sampled,
            only_while_terminating=only_while_terminating,
            beside=beside,
            emptied=emptied,
            spread_cost=spread_cost,
        )

    def _look(self, candidate: Candidate, in_scenarios: Sequence[_InScenario], tolerated: float) -> int:
        """Place the replacement in one scenario after another until one refuses the move; return how many.

        Evicted pods terminate at different speeds: this one may still be terminating when earlier ones are
        gone, and the other way round. So there are up to four courses, without those that ``timings`` rules
        out. What is unacceptable in one scenario mostly is in the others too, so every scenario gets the
        first course before any of them gets the second. With an infinite ``tolerated`` nothing refuses the
        move.
        """
        at_least = 0.0  # the chance of unacceptable landings, as far as is known
        is_first = True
        for is_later, predecessor in self._courses(candidate, in_scenarios[0].scenario):
            for at, in_scenario in enumerate(in_scenarios):
                before = in_scenario.worst.unacceptable
                taken = self._room_taken(candidate, in_scenario.scenario) if is_first else ""
                if taken:
                    in_scenario.worst = _Score(1.0, refusal=partial(NotMoved, Reason.ROOM_TAKEN, taken))
                elif is_first or in_scenario.placements:
                    self._place_in(candidate, in_scenario, predecessor, is_later=is_later)
                at_least += in_scenario.scenario.chance * (in_scenario.worst.unacceptable - before)
                settled = in_scenario.refuses and (
                    not in_scenario.sampled or in_scenario.worst.unacceptable >= 1.0
                )
                if tolerated < np.inf and (settled or at_least > tolerated):
                    return at + 1 if is_first else len(in_scenarios)
            is_first = False
        return len(in_scenarios)

    def _place_in(
        self, candidate: Candidate, in_scenario: _InScenario, predecessor: Predecessor, *, is_later: bool
    ) -> None:
        """Place the replacement in one state of a scenario; ``is_later``: once this wave's pods are gone."""
        scenario = in_scenario.scenario
        state = scenario.after_termination if is_later else scenario.while_terminating
        for placement in self._place(candidate, state, predecessor):
            in_scenario.placements.append(placement)
            in_scenario.sampled |= placement.is_sampled
            score = self._score(candidate, in_scenario, placement, is_over=False)
            in_scenario.scores.append(score)
            if is_later and score.unacceptable > NEGLIGIBLE:
                in_scenario.bad_later.append(placement)
            if score.unacceptable > in_scenario.worst.unacceptable:
                in_scenario.worst = score

    def _holds_later(
        self, candidate: Candidate, in_scenarios: Sequence[_InScenario], tolerated: float
    ) -> bool:
        """Whether nothing would refuse the move once all pods that this wave evicts are gone."""
        mass = 0.0
        for in_scenario in in_scenarios:
            if not in_scenario.scenario.is_terminating or not in_scenario.placements:
                return False
            scores = [
                self._score(candidate, in_scenario, each, is_over=True) for each in in_scenario.bad_later
            ]
            worst = max((score.unacceptable for score in scores), default=0.0)
            mass += in_scenario.scenario.chance * worst
            if worst >= 1.0 or mass > tolerated:
                return False
        return True

    def _lost(
        self, candidate: Candidate, scenarios: Scenarios, landings: Sequence[LandingDistribution]
    ) -> tuple[float, float, float]:
        """The chances to join another replica and to empty a zone, and what both cost; 0 if it is refused."""
        if len(landings) != len(scenarios.all):
            return 0.0, 0.0, 0.0
        total = np.zeros(3)
        for scenario, landing in zip(scenarios.all, landings, strict=True):
            state = scenario.after_termination
            lost = self._landing_check.spread.lost(state, candidate.row, candidate.source, landing.rows)
            if lost.cost.any():
                parts = np.stack([lost.beside, lost.emptied, lost.cost], axis=1)
                total += scenario.chance * weighted_sum(landing.chance, parts)
        beside, emptied, cost = total.tolist()
        return beside, emptied, cost

    def cost(self, candidate: Candidate, scenarios: Scenarios) -> int:
        """The most placements of a replacement that one evaluation makes."""
        courses = len(self._courses(candidate, scenarios.all[0]))
        return len(scenarios.all) * courses * self._schedulers.max_views

    def _courses(self, candidate: Candidate, scenario: Scenario) -> Sequence[tuple[bool, Predecessor]]:
        """The courses: whether pods evicted before it in this wave are gone, and what its predecessor does.

        Whatever the policy counts on for the predecessor, the others may be gone already or not.
        """
        others_are_gone = (True, False) if scenario.is_terminating else (True,)
        return tuple(itertools.product(others_are_gone, timings(candidate, self._inputs)))

    def _place(self, candidate: Candidate, state: ClusterState, predecessor: Predecessor) -> list[Placement]:
        """The replacement's placements as the schedulers see the nodes."""
        self._ensure_wanted()
        with with_predecessor(state, candidate.row, predecessor):
            views = self._schedulers.views(candidate.replacement)
            placements = [scheduler.place(state, candidate.replacement) for scheduler in views]
        self.placed += len(placements)
        return placements

    def once_gone(self, candidate: Candidate, state: ClusterState) -> Placement:
        """Where the replacement would be placed once the pod is gone; ``placed`` does not count it."""
        scheduler = self._schedulers.scheduler(candidate.replacement)
        with with_predecessor(state, candidate.row, Predecessor.GONE):
            return scheduler.place(state, candidate.replacement)

    def _may_be_taken_by(self, candidate: Candidate, scenario: Scenario) -> list[int]:
        """The classes of Pending pods that may take the room, but for those that the move makes room for."""
        fitting = self._freed.may_be_taken_by(candidate.row, candidate.source, scenario.after_termination)
        room = candidate.wish.room
        intended = () if room is None else room.classes
        return [pod_class for pod_class in fitting if pod_class not in intended]

    def _room_taken(self, candidate: Candidate, scenario: Scenario) -> str:
        """Which Pending pod would take the room that a pod leaves once it is gone; empty when none would."""
        waiting = self._may_be_taken_by(candidate, scenario)
        if not waiting:
            return ""
        state = scenario.after_termination
        with with_predecessor(state, candidate.row, Predecessor.GONE):
            for pod_class in waiting[:MAX_WAITING_CLASSES]:
                if self._freed.takes(pod_class, candidate.source, state):
                    return self._freed.sentence(pod_class)
        if len(waiting) <= MAX_WAITING_CLASSES:
            return ""
        return (
            f"Pending pods of {len(waiting)} kinds request no more than would be free where it leaves: "
            f"which of them fit was asked of {MAX_WAITING_CLASSES} only"
        )

    def _score(
        self, candidate: Candidate, in_scenario: _InScenario, placement: Placement, *, is_over: bool
    ) -> _Score:
        """The chance of an unacceptable landing in this wave, or once it ``is_over``."""
        if placement.rejected or not len(placement.feasible):
            why = placement.rejected or self.no_landing.why(candidate.replacement)
            return _Score(1.0, refusal=partial(NotMoved, Reason.NO_LANDING, why))
        scenario = in_scenario.scenario
        chance = placement.chance_from(scenario.starts)
        possible = (chance > NEGLIGIBLE).nonzero()[0]
        rows = placement.feasible.take(possible)
        chance = chance.take(possible)
        landings = self._landings(candidate, scenario, in_scenario.before, placement, rows, is_over=is_over)
        check = self._landing_check
        purpose = candidate.wish.purpose
        good = check.acceptable(landings, purpose)
        if np.count_nonzero(good) == len(good):
            return _Score(0.0, landings, good)
        unacceptable = float(chance[~good].sum())
        return _Score(unacceptable, landings, good, partial(self._refusal, landings, purpose, chance, good))

    def judged(self, candidate: Candidate, scenarios: Scenarios) -> Iterator[JudgedPlacement]:
        """Each placement of a replacement in every scenario, with what all feasible nodes would be like.

        Each is computed when the caller comes to it. So a taint that the caller adds to the states between
        two of them counts for the second.
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
                    tainted: frozenset[int] = frozenset()
                    if soft_taint is not None:
                        _, tainted = soft_taint
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
        """Why the move is refused: the chance of unacceptable landings, and why the likeliest is one."""
        check = self._landing_check
        bad = (~good).nonzero()[0]
        likeliest = int(bad[np.argmax(chance[bad])])
        why = check.why_not(landings, likeliest, purpose)
        message = f"may land ({chance[bad].sum():.0%}) where it must not: {why}"
        settings = check.settings_behind(landings, likeliest, purpose)
        return NotMoved(Reason.NO_BETTER_LANDING, message, settings, int(landings.rows[likeliest]))
