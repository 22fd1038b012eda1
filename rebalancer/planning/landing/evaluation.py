"""Evaluates a move: where its replacement may land in every scenario, and whether that is acceptable."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from rebalancer.cluster.arrays import FloatArray, IntArray, NodeRow, PodClassIndex, PodRow
from rebalancer.planning.inputs import PlanningInputs
from rebalancer.planning.landing.acceptability import LandingCheck
from rebalancer.planning.landing.distribution import LandingDistribution, mean_of
from rebalancer.planning.landing.freed_room import FreedRoom
from rebalancer.planning.landing.known_placements import KnownPlacements
from rebalancer.planning.landing.no_landing import NoLanding
from rebalancer.planning.landing.predecessors import Predecessor, with_predecessor
from rebalancer.planning.landing.scenarios import Scenario, Scenarios
from rebalancer.planning.landing.schedulers import ProfileSchedulers
from rebalancer.planning.reasons import KeptReason, Reason
from rebalancer.planning.workloads.lookup import grace_period_seconds
from rebalancer.scheduling import ClusterState, Placement

_NEGLIGIBLE = 1e-12  # a chance below this is floating-point error


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """A pod that may be evicted."""

    row: PodRow
    source: NodeRow  # of the node it leaves
    replacement: PodClassIndex  # of the pod that comes back
    usage: FloatArray  # (measured resources,) thousandths of a core, bytes, …
    replaced_late: bool  # its replacement is created only after it is gone (StatefulSet)
    restarted: bool = False  # by the rolling update of its Deployment, which makes the replacement first

    @property
    def ends_its_wave(self) -> bool:
        """Whether nothing else can be planned beside it: what happens before what would not be known."""
        return self.replaced_late or self.restarted

    @property
    def likely_predecessor(self) -> Predecessor:
        """What it most likely still does when its replacement is placed."""
        if self.restarted:
            return Predecessor.SERVES
        return Predecessor.GONE if self.replaced_late else Predecessor.TERMINATES


@dataclass(frozen=True, slots=True, eq=False)
class Evaluation:
    """What the evaluation of a move found."""

    candidate: Candidate
    by_scenario: tuple[LandingDistribution, ...]  # each the mean over both of its states
    unacceptable: float  # chance of an unacceptable landing
    gain: FloatArray  # (resources,) least over the acceptable landings; inf where the node is not hot
    refused: KeptReason | None  # why the pod should stay, the plan's confidence aside
    sampled: bool  # the scheduler may look at a sample of the feasible nodes only
    only_while_terminating: bool  # unacceptable only while this wave's pods are still terminating

    def landings(self) -> LandingDistribution:
        """The mean over all scenarios."""
        rows = np.unique(np.concatenate([item.rows for item in self.by_scenario]))
        chance = np.zeros(len(rows))
        for item in self.by_scenario:
            chance[np.searchsorted(rows, item.rows)] += item.chance / len(self.by_scenario)
        return LandingDistribution(rows, chance)


@dataclass(frozen=True, slots=True, eq=False)
class _Load:
    """What is expected on the nodes when a landing is checked."""

    usage: FloatArray  # (nodes, measured resources)
    pod_count: IntArray  # (nodes,)


@dataclass(slots=True, eq=False)
class _Score:
    """What the placements of one evaluation add up to."""

    unacceptable: float
    gain: FloatArray
    why: str = ""
    reason: Reason = Reason.NO_BETTER_LANDING
    settings: tuple[str, ...] = ()  # of the policy, without which the landing would be acceptable


@dataclass(frozen=True, slots=True, eq=False)
class _InScenario:
    """What the evaluation of a move found in one scenario."""

    placements: list[Placement]
    worst: _Score
    only_while_terminating: bool  # unacceptable, but not once all evicted pods are gone
    sampled: bool


def timings(candidate: Candidate, inputs: PlanningInputs) -> tuple[Predecessor, ...]:
    """What a pod does when its replacement is placed, the likeliest first; several where that is a race."""
    likeliest = candidate.likely_predecessor
    if candidate.ends_its_wave:
        return (likeliest,)
    likely = inputs.policy.planning.termination_race == "likely"
    grace = grace_period_seconds(inputs.snapshot.pods.class_of(candidate.row))
    return (likeliest,) if likely and grace > 0 else (likeliest, Predecessor.GONE)


def kind_of(candidate: Candidate, state: ClusterState, predecessor: Predecessor) -> Hashable:
    """What the scheduler can see of a move: the same for pods of a class that leave the same node."""
    return state.pod_class[candidate.row], candidate.replacement, candidate.source, predecessor


def placements_of(
    schedulers: ProfileSchedulers, candidate: Candidate, state: ClusterState, predecessor: Predecessor
) -> list[Placement]:
    """The replacement's placements as the schedulers see the nodes; the state is left as it was."""
    with with_predecessor(state, candidate.row, candidate.source, predecessor):
        views = schedulers.views(candidate.replacement)
        return [item.place(state, candidate.replacement) for item in views]


class MoveEvaluator:
    """Evaluates moves against scenarios, and leaves the scenarios as they were."""

    def __init__(
        self,
        inputs: PlanningInputs,
        schedulers: ProfileSchedulers,
        landing_check: LandingCheck,
        waiting: Sequence[int],
    ) -> None:
        """``waiting`` are the classes of Pending pods that fit nowhere: they retry when room is freed."""
        self._inputs = inputs
        self._schedulers = schedulers
        self._landing_check = landing_check
        self._freed = FreedRoom(schedulers, waiting)
        self.no_landing = NoLanding(schedulers)
        self._names = inputs.snapshot.nodes.names
        self.placements = KnownPlacements(len(self._names))

    def evaluate(self, candidate: Candidate, scenarios: Scenarios, *, complete: bool = False) -> Evaluation:
        """Where the replacement may land in every scenario, and whether each landing is acceptable.

        A move is refused by one unacceptable landing, unless the scheduler takes samples; so the first one
        ends the evaluation, and ``by_scenario`` is complete for moves that are not refused. An explanation
        asks for the landings of refused moves too: ``complete``.
        """
        landings: list[LandingDistribution] = []
        masses: list[float] = []
        only_while_terminating = True
        gain = np.full(len(self._inputs.load.percent_resources), np.inf)
        refused: KeptReason | None = None
        sampled = False
        percents = scenarios.percents(candidate.source, self._inputs.load.allocatable)
        for scenario, before in zip(scenarios.all, percents, strict=True):
            found = self._in_scenario(candidate, scenario, before, complete=complete)
            sampled |= found.sampled
            masses.append(found.worst.unacceptable)
            gain = np.minimum(gain, found.worst.gain)
            if found.worst.unacceptable > _NEGLIGIBLE:
                only_while_terminating &= found.only_while_terminating
                refused = refused or KeptReason(found.worst.reason, found.worst.why, found.worst.settings)
                if not complete and (not found.sampled or masses[-1] >= 1.0):
                    break
            if found.placements:
                landings.append(mean_of(found.placements, len(self._names)))
        mass = 1.0 if max(masses) >= 1.0 else float(np.mean(masses))
        return Evaluation(
            candidate,
            tuple(landings),
            mass,
            gain,
            refused,
            sampled,
            only_while_terminating and refused is not None,
        )

    def cost(self, candidate: Candidate, scenarios: Scenarios) -> int:
        """The most placements that one evaluation computes."""
        states = len(timings(candidate, self._inputs)) * (2 if scenarios.all[0].is_terminating else 1)
        waiting = max(len(self._may_be_taken_by(candidate, scenario)) for scenario in scenarios.all)
        return len(scenarios.all) * (states * self._schedulers.max_views + waiting)

    def _in_scenario(
        self, candidate: Candidate, scenario: Scenario, before: FloatArray, *, complete: bool
    ) -> _InScenario:
        """The replacement's placements in one scenario, until one of them refuses the move.

        Evicted pods terminate at different speeds: this one may still be terminating when earlier ones are
        gone, and the other way round, so all four combinations count, but for those that ``timings`` rules
        out.
        """
        taken = self._room_taken(candidate, scenario)
        if taken:
            refusal = _Score(1.0, np.full_like(before, np.inf), taken, Reason.ROOM_TAKEN)
            return _InScenario([], refusal, False, False)
        last_timing = timings(candidate, self._inputs)[-1]
        placements: list[Placement] = []
        worst = _Score(0.0, np.full_like(before, np.inf))
        later = _Load(scenario.usage, scenario.after_termination.pod_count)
        now = _Load(scenario.usage + scenario.terminating_usage, scenario.while_terminating.pod_count)
        only_while_terminating, sampled = True, False
        known: dict[int, _Score] = {}  # by the chances, which placements that cannot differ share
        for state, predecessor in self._states(candidate, scenario):
            once_gone = state is scenario.after_termination and predecessor is last_timing
            if (
                not complete
                and worst.unacceptable > _NEGLIGIBLE
                and not sampled
                and not (once_gone and scenario.is_terminating)
            ):
                break  # refused; where others terminate, it matters whether that is so once they are gone
            for placement in self._place(candidate, state, predecessor):
                placements.append(placement)
                sampled |= self._sampled(candidate, placement)
                score = known.get(id(placement.chance))
                if score is None:
                    score = known[id(placement.chance)] = self._score(candidate, now, before, placement)
                if once_gone and score.unacceptable > _NEGLIGIBLE:
                    gone = self._score(candidate, later, before, placement)
                    only_while_terminating &= gone.unacceptable <= _NEGLIGIBLE
                gain = np.minimum(worst.gain, score.gain)
                worst = max(worst, score, key=lambda item: item.unacceptable)
                worst.gain = gain
        return _InScenario(placements, worst, only_while_terminating, sampled)

    def _sampled(self, candidate: Candidate, placement: Placement) -> bool:
        return len(placement.feasible) > self._schedulers.nodes_to_find(candidate.replacement)

    def _states(self, candidate: Candidate, scenario: Scenario) -> Iterator[tuple[ClusterState, Predecessor]]:
        """The states in which a replacement may be placed, and what its predecessor does then.

        Pods that were evicted before it in the same wave may be gone already or not, whatever the policy.
        """
        states = (scenario.after_termination, scenario.while_terminating)
        for state in states if scenario.is_terminating else states[:1]:
            for predecessor in timings(candidate, self._inputs):
                yield state, predecessor

    def _place(self, candidate: Candidate, state: ClusterState, predecessor: Predecessor) -> list[Placement]:
        """The replacement's placements as the schedulers see the nodes."""
        found = partial(placements_of, self._schedulers, candidate, state, predecessor)
        return self.placements.of(state, kind_of(candidate, state, predecessor), found)

    def _may_be_taken_by(self, candidate: Candidate, scenario: Scenario) -> list[int]:
        return self._freed.may_be_taken_by(candidate.row, candidate.source, scenario.after_termination)

    def _room_taken(self, candidate: Candidate, scenario: Scenario) -> str:
        """Which Pending pod would take the room that a pod leaves once it is gone; empty when none would."""
        waiting = self._may_be_taken_by(candidate, scenario)
        if not waiting:
            return ""
        state = scenario.after_termination
        with with_predecessor(state, candidate.row, candidate.source, Predecessor.GONE):
            for class_index in waiting:
                self.placements.asked += 1
                self.placements.computed += 1
                if self._freed.takes(class_index, candidate.source, state):
                    return self._freed.words(class_index)
        return ""

    def _score(self, candidate: Candidate, load: _Load, before: FloatArray, placement: Placement) -> _Score:
        """The chance of an unacceptable landing, with the likeliest of those in words."""
        if placement.rejected or not len(placement.feasible):
            why = placement.rejected or self.no_landing.why(candidate.replacement)
            return _Score(1.0, np.full_like(before, np.inf), why, Reason.NO_LANDING)
        possible = placement.chance > _NEGLIGIBLE
        rows, chance = placement.feasible[possible], placement.chance[possible]
        landing_check = self._landing_check
        after = landing_check.percent_after(rows, load.usage, load.pod_count, candidate.usage)
        good = landing_check.acceptable(candidate.source, rows, before, after)
        gains = landing_check.gains(candidate.source, before, after)
        least = np.min(gains[good], axis=0) if good.any() else np.full_like(before, np.inf)
        score = _Score(float(chance[~good].sum()), least)
        if not good.all():
            bad = np.flatnonzero(~good)
            likeliest = int(bad[np.argmax(chance[bad])])
            where = candidate.source, NodeRow(int(rows[likeliest])), before, after[likeliest]
            why = landing_check.why_not(*where)
            score.why = f"may land ({chance[~good].sum():.0%}) where it must not: {why}"
            score.settings = landing_check.settings_behind(*where)
        return score
