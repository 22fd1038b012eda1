"""Carries a plan out in the model: wave by wave, each replacement where the scheduler would put it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from rebalancer.cluster.arrays import NodeRow, PodClassIndex, PodRow
from rebalancer.planning import Move, Plan, PreparedInputs, check_landing
from rebalancer.planning.landing.distribution import LandingDistribution
from rebalancer.planning.workloads.stateful_sets import replaced_after_termination
from rebalancer.scheduling import waiting_pods
from rebalancer.scheduling.framework.placement import Placement
from rebalancer.state import PastMove

LANDED, ELSEWHERE, UNEXPECTED, PENDING = "Landed", "LandedElsewhere", "Unexpected", "Pending"
NOWHERE = NodeRow(-1)


@dataclass(frozen=True, slots=True)
class SimulatedOutcome:
    """A move that was carried out, and where its replacement went."""

    move: Move
    row: PodRow
    node: NodeRow  # NOWHERE while Pending
    pod_class: PodClassIndex
    result: str
    because: str


def draw(placement: Placement, random: np.random.Generator) -> NodeRow:
    """A node by the chances of a placement; NOWHERE when there is none."""
    if not len(placement.feasible) or float(placement.chance.sum()) <= 0:
        return NOWHERE
    return LandingDistribution(placement.feasible, placement.chance).draw(random)


class SimulatedExecution:
    """The cluster while one plan is carried out."""

    def __init__(self, prepared: PreparedInputs, random: np.random.Generator) -> None:
        self._prepared = prepared
        self._random = random
        self._state = prepared.schedulers.state.copy()
        self._stop = prepared.policy.execution.on_unexpected_landing == "stop"
        self._made: list[PastMove] = []
        self.stopped = ""

    def carry_out(self, plan: Plan) -> Iterator[SimulatedOutcome]:
        """Wave by wave; a run ends after the wave in which a replacement lands unacceptably or nowhere."""
        for wave in sorted({move.wave for move in plan.moves}):
            outcomes = list(self._wave(plan, [move for move in plan.moves if move.wave == wave]))
            yield from outcomes
            failed = next((item for item in outcomes if item.result in (UNEXPECTED, PENDING)), None)
            if failed is not None and (self._stop or failed.result == PENDING):
                self.stopped = f"{failed.move.pod.full_name}: {failed.because}"
                return

    def _wave(self, plan: Plan, moves: Sequence[Move]) -> Iterator[SimulatedOutcome]:
        state, prepared = self._state, self._prepared
        pods = prepared.pods
        rows = [PodRow(pods.row[move.pod.namespace, move.pod.name]) for move in moves]
        # Whether the scheduler acts before the evicted pods are gone is a race.
        still_terminating = self._random.random() < 0.5
        for row in rows:
            if prepared.candidate(row).restarted:
                continue  # it serves until its replacement does
            if still_terminating and not replaced_after_termination(pods.class_of(row).owner):
                state.evict(row)
            else:
                state.remove(row)
        for move, row in zip(moves, rows, strict=True):
            pod_class = prepared.eviction.replacement(row).class_index
            placed = prepared.candidate(row).replacement
            pod = state.add(placed)
            node = draw(prepared.schedulers.scheduler(placed).place(state, placed), self._random)
            if node != NOWHERE:
                state.bind(pod, node)
            result, because = self._result(plan, move, node)
            self._made.append(self._past(move, node, result))
            yield SimulatedOutcome(move, row, node, pod_class, result, because)
        for row in rows:
            if state.node[row] >= 0:
                state.remove(row)

    def _past(self, move: Move, node: NodeRow, result: str) -> PastMove:
        inputs = self._prepared.inputs
        return PastMove(
            namespace=move.pod.namespace,
            name=move.pod.name,
            uid=move.pod.uid,
            workload=move.pod.workload,
            controller_uid=move.pod.controller_uid,
            from_node=move.from_node,
            to_node="" if node == NOWHERE else inputs.snapshot.nodes.names[node],
            result=result,
            evicted_at=inputs.now,
            landed_at=None if node == NOWHERE else inputs.now,
            load=dict(move.load),
        )

    @property
    def made(self) -> tuple[PastMove, ...]:
        """The moves carried out, as the next run remembers them."""
        return tuple(self._made)

    def _result(self, plan: Plan, move: Move, node: NodeRow) -> tuple[str, str]:
        if node == NOWHERE:
            return PENDING, "no node is feasible for its replacement"
        name = self._prepared.inputs.snapshot.nodes.names[node]
        if any(landing.node == name for landing in move.landings):
            return LANDED, ""
        why = check_landing(self._prepared, plan, move, name, self._made)
        return (UNEXPECTED, why) if why else (ELSEWHERE, f"{name} is acceptable")

    def retry_pending(self) -> Iterator[tuple[int, NodeRow]]:
        """Pods of the snapshot that were Pending and fit somewhere now, with their nodes, in queue order."""
        state, pods, by_name = self._state, self._prepared.pods, self._prepared.schedulers.by_name
        for row in waiting_pods(state, pods):
            pod_class = state.pod_class[row]
            scheduler = by_name.get(pods.classes[pod_class].scheduler_name)
            if scheduler is None:
                continue
            node = draw(scheduler.place(state, pod_class), self._random)
            if node != NOWHERE:
                state.bind(row, node)
                yield row, node
