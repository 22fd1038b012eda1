"""One attempt to move a pod: where its replacement may land in every possible world, and is that good."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rebalancer.cluster.columns.nodes import FloatArray, IntArray
from rebalancer.load.report import percent_of_allocatable
from rebalancer.planning.inputs import PlanningInputs
from rebalancer.planning.landing.acceptability import Acceptance
from rebalancer.planning.landing.no_landing import NoLanding
from rebalancer.planning.landing.scenarios import World, Worlds
from rebalancer.planning.landing.schedulers import Model
from rebalancer.planning.reasons import Protection, Reason
from rebalancer.scheduling.framework.placement import Placement

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
class Landings:
    """Where a replacement lands in one world: rows with a chance, the mean of both states."""

    rows: IntArray
    chance: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class Attempt:
    """What an attempt found."""

    candidate: Candidate
    by_world: tuple[Landings, ...]
    unacceptable: float  # chance of an unacceptable landing
    gain: FloatArray  # (resources,) least over the acceptable landings; inf where the node is not hot
    refused: Protection | None  # why the pod should stay, before the plan's confidence is asked
    sampled: bool  # the scheduler may look at a part of the feasible nodes only: landings are a probability
    only_lingering: bool  # unacceptable only while this wave's pods are still terminating

    def landings(self) -> Landings:
        """The mean over all worlds."""
        rows = np.unique(np.concatenate([item.rows for item in self.by_world]))
        chance = np.zeros(len(rows))
        for item in self.by_world:
            chance[np.searchsorted(rows, item.rows)] += item.chance / len(self.by_world)
        return Landings(rows, chance)


@dataclass(frozen=True, slots=True, eq=False)
class _Load:
    """What is expected on the nodes when a landing is judged."""

    usage: FloatArray  # (nodes, measured resources)
    pod_count: IntArray  # (nodes,)


@dataclass(slots=True, eq=False)
class _Tally:
    """What the placements of one attempt add up to."""

    unacceptable: float
    gain: FloatArray
    why: str = ""
    reason: Reason = Reason.NO_BETTER_LANDING


class Attempts:
    """Tries moves in the worlds as they are, leaving them as they were."""

    def __init__(
        self, inputs: PlanningInputs, model: Model, acceptance: Acceptance, waiting: Sequence[int]
    ) -> None:
        """``waiting`` are the classes of Pending pods that fit nowhere: they retry when room is freed."""
        self._inputs = inputs
        self._model = model
        self._acceptance = acceptance
        self._waiting = waiting
        self.no_landing = NoLanding(model)
        self._names = inputs.snapshot.nodes.names
        self.placements = 0

    def percent_of(self, world: World, row: int) -> FloatArray:
        """(resources,) percent of allocatable expected on a node."""
        return np.asarray(self._percents_of((world,), row)[0], np.float64)

    def percents_of(self, worlds: Worlds, row: int) -> FloatArray:
        """(worlds, resources) percent of allocatable expected on a node in each world."""
        return self._percents_of(worlds.all, row)

    def _percents_of(self, worlds: Sequence[World], row: int) -> FloatArray:
        usage = np.array([world.usage[row] for world in worlds])
        count = np.array([world.settled.pod_count[row] for world in worlds])
        return percent_of_allocatable(usage, count, self._inputs.load.allocatable[row])

    def make(self, candidate: Candidate, worlds: Worlds) -> Attempt:
        """Try a move in every world."""
        landings: list[Landings] = []
        masses: list[float] = []
        only_lingering = True
        sampled = False
        gain = np.full(len(self._inputs.load.percent_resources), np.inf)
        refused: Protection | None = None
        percents = self.percents_of(worlds, candidate.source)
        for world, before in zip(worlds.all, percents, strict=True):
            placements, taken = self._place(candidate, world)
            if taken:
                refused, only_lingering = Protection(Reason.ROOM_TAKEN, taken), False
                masses.append(1.0)
                break
            now = _Load(world.usage + world.held, world.lingering.pod_count)
            tallies = [self._judge(candidate, now, before, placement) for placement in placements]
            worst = max(tallies, key=lambda tally: tally.unacceptable)
            masses.append(worst.unacceptable)
            gain = np.minimum(gain, np.min([tally.gain for tally in tallies], axis=0))
            if worst.unacceptable > _NEGLIGIBLE:
                later = _Load(world.usage, world.settled.pod_count)
                once_gone = self._judge(candidate, later, before, placements[-1])
                only_lingering &= once_gone.unacceptable <= _NEGLIGIBLE
                refused = refused or Protection(worst.reason, worst.why)
            sampled |= any(self._sampled(candidate, placement) for placement in placements)
            landings.append(_mean(placements, len(self._names)))
            if masses[-1] >= 1.0:
                break
        mass = 1.0 if masses[-1] >= 1.0 else float(np.mean(masses))
        return Attempt(
            candidate, tuple(landings), mass, gain, refused, sampled, only_lingering and refused is not None
        )

    def cost(self, worlds: Worlds) -> int:
        """The most placements that one attempt computes."""
        states = 4 if worlds.all[0].lingers else 2
        return len(worlds.all) * (states * self._model.most_views + len(self._waiting))

    def _sampled(self, candidate: Candidate, placement: Placement) -> bool:
        return len(placement.feasible) > self._model.nodes_to_find(candidate.replacement)

    def _place(self, candidate: Candidate, world: World) -> tuple[tuple[Placement, ...], str]:
        """The replacement's placements, the last one once all evicted pods are gone; who would take its room.

        Each evicted pod goes at a pace of its own: this one may linger where those before it are gone, and
        the other way round.
        """
        schedulers = self._model.views(candidate.replacement)
        row, source = candidate.row, candidate.source
        placements: list[Placement] = []
        states = (world.lingering, world.settled) if world.lingers else (world.settled,)
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
                taken = self._room_taken(candidate, world) if state is world.settled else ""
            finally:
                state.restore(row, source)
        self.placements += len(placements)
        return tuple(placements), taken

    def _room_taken(self, candidate: Candidate, world: World) -> str:
        for class_index in self._waiting:
            self.placements += 1
            if self._model.scheduler(class_index).feasible(world.settled, class_index)[candidate.source]:
                pod = self._model.state.facts.classes[class_index]
                return f"a Pending pod of {pod.namespace}/{pod.owner.name or '?'} would fit where it leaves"
        return ""

    def _judge(self, candidate: Candidate, load: _Load, before: FloatArray, placement: Placement) -> _Tally:
        """How much chance a placement gives to unacceptable landings, and the likeliest of them in words."""
        if placement.rejected or not len(placement.feasible):
            why = placement.rejected or self.no_landing.why(candidate.replacement)
            return _Tally(1.0, np.full_like(before, np.inf), why, Reason.NO_LANDING)
        possible = placement.chance > _NEGLIGIBLE
        rows, chance = placement.feasible[possible], placement.chance[possible]
        acceptance = self._acceptance
        after = acceptance.percent_after(rows, load.usage, load.pod_count, candidate.usage)
        good = acceptance.acceptable(candidate.source, rows, before, after)
        gains = acceptance.gains(candidate.source, before, after)
        least = np.min(gains[good], axis=0) if good.any() else np.full_like(before, np.inf)
        tally = _Tally(float(chance[~good].sum()), least)
        if not good.all():
            bad = np.flatnonzero(~good)
            likeliest = int(bad[np.argmax(chance[bad])])
            why = acceptance.why_not(candidate.source, int(rows[likeliest]), before, after[likeliest])
            tally.why = f"may land ({chance[~good].sum():.0%}) where it must not: {why}"
        return tally


def _mean(placements: Sequence[Placement], nodes: int) -> Landings:
    """The chances of several placements, averaged."""
    total = np.zeros(nodes)
    for placement in placements:
        total[placement.feasible] += placement.chance
    rows = np.flatnonzero(total / len(placements) > _NEGLIGIBLE)
    return Landings(rows, total[rows] / len(placements))
