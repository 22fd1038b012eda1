"""Evaluates a move: where its replacement may land in every scenario, and whether that is acceptable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rebalancer.cluster.arrays import FloatArray, IntArray
from rebalancer.load.report import percent_of_allocatable
from rebalancer.planning.inputs import PlanningInputs
from rebalancer.planning.landing.acceptability import LandingCheck
from rebalancer.planning.landing.no_landing import NoLanding
from rebalancer.planning.landing.scenarios import Scenario, Scenarios
from rebalancer.planning.landing.schedulers import Model
from rebalancer.planning.reasons import KeptReason, Reason
from rebalancer.scheduling import Placement

_NEGLIGIBLE = 1e-12  # dust of floating point, not a chance


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """A pod that may be evicted."""

    row: int  # in the pod table
    source: int  # row of its node
    replacement: int  # class of what comes back
    usage: FloatArray  # (measured resources,) thousandths of a core, bytes, …
    replaced_late: bool  # its replacement is made only after it is gone (StatefulSet)


@dataclass(frozen=True, slots=True, eq=False)
class LandingDistribution:
    """Where a replacement lands in one scenario: rows with a chance, the mean of both states."""

    rows: IntArray
    chance: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class Evaluation:
    """What an evaluation found."""

    candidate: Candidate
    by_scenario: tuple[LandingDistribution, ...]
    unacceptable: float  # chance of an unacceptable landing
    gain: FloatArray  # (resources,) least over the acceptable landings; inf where the node is not hot
    refused: KeptReason | None  # why the pod should stay, before the plan's confidence is asked
    sampled: bool  # the scheduler may look at a part of the feasible nodes only: landings are a probability
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
    """What is expected on the nodes when a landing is judged."""

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
    """Tries moves in the scenarios as they are, leaving them as they were."""

    def __init__(
        self, inputs: PlanningInputs, model: Model, landing_check: LandingCheck, waiting: Sequence[int]
    ) -> None:
        """``waiting`` are the classes of Pending pods that fit nowhere: they retry when room is freed."""
        self._inputs = inputs
        self._model = model
        self._landing_check = landing_check
        self._waiting = waiting
        self.no_landing = NoLanding(model)
        self._names = inputs.snapshot.nodes.names
        self.placements = 0

    def percent_of(self, scenario: Scenario, row: int) -> FloatArray:
        """(resources,) percent of allocatable expected on a node."""
        return np.asarray(self._percents_of((scenario,), row)[0], np.float64)

    def percents_of(self, scenarios: Scenarios, row: int) -> FloatArray:
        """(scenarios, resources) percent of allocatable expected on a node in each scenario."""
        return self._percents_of(scenarios.all, row)

    def _percents_of(self, scenarios: Sequence[Scenario], row: int) -> FloatArray:
        usage = np.array([scenario.usage[row] for scenario in scenarios])
        count = np.array([scenario.after_termination.pod_count[row] for scenario in scenarios])
        return percent_of_allocatable(usage, count, self._inputs.load.allocatable[row])

    def make(self, candidate: Candidate, scenarios: Scenarios) -> Evaluation:
        """Try a move in every scenario."""
        landings: list[LandingDistribution] = []
        masses: list[float] = []
        only_while_terminating = True
        sampled = False
        gain = np.full(len(self._inputs.load.percent_resources), np.inf)
        refused: KeptReason | None = None
        percents = self.percents_of(scenarios, candidate.source)
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
        return len(scenarios.all) * (states * self._model.most_views + len(self._waiting))

    def _sampled(self, candidate: Candidate, placement: Placement) -> bool:
        return len(placement.feasible) > self._model.nodes_to_find(candidate.replacement)

    def _place(self, candidate: Candidate, scenario: Scenario) -> tuple[tuple[Placement, ...], str]:
        """The replacement's placements, the last one once all evicted pods are gone; who would take its room.

        Each evicted pod goes at a pace of its own: this one may linger where those before it are gone, and
        the other way round.
        """
        schedulers = self._model.views(candidate.replacement)
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
                    placements += [item.place(state, candidate.replacement) for item in schedulers]
                finally:
                    state.restore(row, source)
            state.remove(row)
            try:
                placements += [item.place(state, candidate.replacement) for item in schedulers]
                taken = self._room_taken(candidate, scenario) if state is scenario.after_termination else ""
            finally:
                state.restore(row, source)
        self.placements += len(placements)
        return tuple(placements), taken

    def _room_taken(self, candidate: Candidate, scenario: Scenario) -> str:
        for class_index in self._waiting:
            self.placements += 1
            if self._model.scheduler(class_index).feasible(scenario.after_termination, class_index)[
                candidate.source
            ]:
                pod = self._model.state.classes[class_index]
                return f"a Pending pod of {pod.namespace}/{pod.owner.name or '?'} would fit where it leaves"
        return ""

    def _score(self, candidate: Candidate, load: _Load, before: FloatArray, placement: Placement) -> _Score:
        """How much chance a placement gives to unacceptable landings, and the likeliest of them in words."""
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
            why = landing_check.why_not(candidate.source, int(rows[likeliest]), before, after[likeliest])
            score.why = f"may land ({chance[~good].sum():.0%}) where it must not: {why}"
        return score


def _mean(placements: Sequence[Placement], nodes: int) -> LandingDistribution:
    """The chances of several placements, averaged."""
    total = np.zeros(nodes)
    for placement in placements:
        total[placement.feasible] += placement.chance
    rows = np.flatnonzero(total / len(placements) > _NEGLIGIBLE)
    return LandingDistribution(rows, total[rows] / len(placements))
