"""Evaluates a move: where its replacement may land in every scenario, and whether that is acceptable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rebalancer.cluster.arrays import FloatArray, IntArray, NodeRow, PodClassIndex, PodRow
from rebalancer.planning.inputs import PlanningInputs
from rebalancer.planning.landing.acceptability import LandingCheck
from rebalancer.planning.landing.distribution import LandingDistribution
from rebalancer.planning.landing.no_landing import NoLanding
from rebalancer.planning.landing.scenarios import Scenario, Scenarios
from rebalancer.planning.landing.schedulers import ProfileSchedulers
from rebalancer.planning.reasons import KeptReason, Reason
from rebalancer.scheduling import Placement

_NEGLIGIBLE = 1e-12  # a chance below this is floating-point error


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """A pod that may be evicted."""

    row: PodRow
    source: NodeRow  # of the node it leaves
    replacement: PodClassIndex  # of the pod that comes back
    usage: FloatArray  # (measured resources,) thousandths of a core, bytes, …
    replaced_late: bool  # its replacement is created only after it is gone (StatefulSet)


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
        self._waiting = waiting
        self.no_landing = NoLanding(schedulers)
        self._names = inputs.snapshot.nodes.names
        self.placements = 0

    def evaluate(self, candidate: Candidate, scenarios: Scenarios) -> Evaluation:
        """Where the replacement may land in every scenario, and whether each landing is acceptable."""
        landings: list[LandingDistribution] = []
        masses: list[float] = []
        only_while_terminating = True
        sampled = False
        gain = np.full(len(self._inputs.load.percent_resources), np.inf)
        refused: KeptReason | None = None
        percents = scenarios.percents(candidate.source, self._inputs.load.allocatable)
        for scenario, before in zip(scenarios.all, percents, strict=True):
            placements, taken = self._place(candidate, scenario)
            if taken:
                refused, only_while_terminating = KeptReason(Reason.ROOM_TAKEN, taken), False
                masses.append(1.0)
                break
            now = _Load(scenario.usage + scenario.terminating_usage, scenario.while_terminating.pod_count)
            scores = [self._score(candidate, now, before, placement) for placement in placements]
            worst = max(scores, key=lambda score: score.unacceptable)
            masses.append(worst.unacceptable)
            gain = np.minimum(gain, np.min([score.gain for score in scores], axis=0))
            if worst.unacceptable > _NEGLIGIBLE:
                later = _Load(scenario.usage, scenario.after_termination.pod_count)
                once_gone = self._score(candidate, later, before, placements[-1])
                only_while_terminating &= once_gone.unacceptable <= _NEGLIGIBLE
                refused = refused or KeptReason(worst.reason, worst.why)
            sampled |= any(self._sampled(candidate, placement) for placement in placements)
            landings.append(_mean(placements, len(self._names)))
            if masses[-1] >= 1.0:
                break
        mass = 1.0 if masses[-1] >= 1.0 else float(np.mean(masses))
        return Evaluation(
            candidate,
            tuple(landings),
            mass,
            gain,
            refused,
            sampled,
            only_while_terminating and refused is not None,
        )

    def cost(self, scenarios: Scenarios) -> int:
        """The most placements that one evaluation computes."""
        states = 4 if scenarios.all[0].is_terminating else 2
        return len(scenarios.all) * (states * self._schedulers.max_views + len(self._waiting))

    def _sampled(self, candidate: Candidate, placement: Placement) -> bool:
        return len(placement.feasible) > self._schedulers.nodes_to_find(candidate.replacement)

    def _place(self, candidate: Candidate, scenario: Scenario) -> tuple[tuple[Placement, ...], str]:
        """The replacement's placements, the last one once all evicted pods are gone; who would take its room.

        Evicted pods terminate at different speeds: this one may still be terminating when earlier ones are
        gone, and the other way round, so all four combinations count.
        """
        views = self._schedulers.views(candidate.replacement)
        row, source = candidate.row, candidate.source
        placements: list[Placement] = []
        states = (
            (scenario.while_terminating, scenario.after_termination)
            if scenario.is_terminating
            else (scenario.after_termination,)
        )
        for state in states:
            if not candidate.replaced_late:
                state.evict(row)
                try:
                    placements += [item.place(state, candidate.replacement) for item in views]
                finally:
                    state.restore(row, source)
            state.remove(row)
            try:
                placements += [item.place(state, candidate.replacement) for item in views]
                taken = self._room_taken(candidate, scenario) if state is scenario.after_termination else ""
            finally:
                state.restore(row, source)
        self.placements += len(placements)
        return tuple(placements), taken

    def _room_taken(self, candidate: Candidate, scenario: Scenario) -> str:
        for class_index in self._waiting:
            self.placements += 1
            if self._schedulers.scheduler(class_index).feasible(scenario.after_termination, class_index)[
                candidate.source
            ]:
                pod = self._schedulers.state.classes[class_index]
                return f"a Pending pod of {pod.namespace}/{pod.owner.name or '?'} would fit where it leaves"
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
            why = landing_check.why_not(
                candidate.source, NodeRow(int(rows[likeliest])), before, after[likeliest]
            )
            score.why = f"may land ({chance[~good].sum():.0%}) where it must not: {why}"
        return score


def _mean(placements: Sequence[Placement], nodes: int) -> LandingDistribution:
    """The chances of several placements, averaged."""
    total = np.zeros(nodes)
    for placement in placements:
        total[placement.feasible] += placement.chance
    rows = np.flatnonzero(total / len(placements) > _NEGLIGIBLE)
    return LandingDistribution(rows, total[rows] / len(placements))
