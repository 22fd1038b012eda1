"""Carries a plan out in the model: wave by wave, each replacement where the scheduler would draw it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from rebalancer.planning.plan import Move, Plan
from rebalancer.planning.planner import Planner
from rebalancer.planning.revalidation import check_landing
from rebalancer.scheduling import ClusterState, Placement, waiting_pods
from rebalancer.state import PastMove

LANDED, ELSEWHERE, UNEXPECTED, PENDING = "Landed", "LandedElsewhere", "Unexpected", "Pending"
NOWHERE = -1


@dataclass(frozen=True, slots=True)
class Landed:
    """A move that was carried out, and where its replacement went."""

    move: Move
    row: int  # of the pod
    node: int  # row, NOWHERE while Pending
    pod_class: int
    result: str
    because: str


def draw(placement: Placement, random: np.random.Generator) -> int:
    """A node by the chances of a placement; NOWHERE when there is none."""
    total = float(placement.chance.sum())
    if not len(placement.feasible) or total <= 0:
        return NOWHERE
    at = np.searchsorted(np.cumsum(placement.chance), random.random() * total, side="right")
    return int(placement.feasible[min(int(at), len(placement.feasible) - 1)])


class Landings:
    """The cluster while one plan is carried out."""

    def __init__(self, planner: Planner, random: np.random.Generator) -> None:
        self._planner = planner
        self._random = random
        self._state: ClusterState = planner.model.state.copy()
        self._stop = planner.policy.execution.on_unexpected_landing == "stop"
        self._made: list[PastMove] = []
        self.stopped = ""

    def carry_out(self, plan: Plan) -> Iterator[Landed]:
        """Wave by wave; a run ends after the wave in which a replacement lands unacceptably or nowhere."""
        for wave in sorted({move.wave for move in plan.moves}):
            landed = list(self._wave([move for move in plan.moves if move.wave == wave]))
            yield from landed
            failed = next((item for item in landed if item.result in (UNEXPECTED, PENDING)), None)
            if failed is not None and (self._stop or failed.result == PENDING):
                self.stopped = f"{failed.move.pod.full_name}: {failed.because}"
                return

    def _wave(self, moves: Sequence[Move]) -> Iterator[Landed]:
        state, planner = self._state, self._planner
        rows = [planner.pods.row[move.pod.namespace, move.pod.name] for move in moves]
        # Whether the scheduler acts before the evicted pods are gone is a race.
        lingering = self._random.random() < 0.5
        for row in rows:
            late = planner.pods.class_of(row).owner.kind == "StatefulSet"
            state.evict(row) if lingering and not late else state.remove(row)
        for move, row in zip(moves, rows, strict=True):
            pod_class = planner.protections.replacement(row).class_index
            pod = state.add(pod_class)
            node = draw(planner.model.scheduler(pod_class).place(state, pod_class), self._random)
            if node != NOWHERE:
                state.bind(pod, node)
            result, because = self._result(move, node)
            self._made.append(self._past(move, node, result))
            yield Landed(move, row, node, pod_class, result, because)
        for row in rows:
            if state.node[row] >= 0:
                state.remove(row)

    def _past(self, move: Move, node: int, result: str) -> PastMove:
        inputs = self._planner.inputs
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

    def _result(self, move: Move, node: int) -> tuple[str, str]:
        if node == NOWHERE:
            return PENDING, "no node is feasible for its replacement"
        name = self._planner.inputs.snapshot.nodes.names[node]
        if any(landing.node == name for landing in move.landings):
            return LANDED, ""
        why = check_landing(self._planner, move, name, self._made)
        return (UNEXPECTED, why) if why else (ELSEWHERE, f"{name} is acceptable")

    def retry_pending(self) -> Iterator[tuple[int, int]]:
        """Pods of the snapshot that were Pending and fit somewhere now, with their nodes, in queue order."""
        state, pods = self._state, self._planner.pods
        for row in waiting_pods(state, pods):
            pod_class = state.pod_class[row]
            scheduler = self._planner.model.schedulers.get(pods.classes[pod_class].scheduler_name)
            if scheduler is None:
                continue
            node = draw(scheduler.place(state, pod_class), self._random)
            if node != NOWHERE:
                state.bind(row, node)
                yield row, node
