"""The cluster while a plan is carried out, as a run does it, by landings that the model draws.

Pods are evicted one after another. Once a replacement is where it need not have been, what is left of the
plan is looked at again, as a run does before each wave and within it: moves that no longer hold are skipped.

    web-1 may land on b or c    it is on b
    web-2 to b                  b would be hot: skipped
    api-1 to d                  holds as before
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec
import numpy as np

from rebalancer.cluster.arrays import NodeRow, PodClassIndex, PodRow
from rebalancer.planning.inputs import PlanningInputs
from rebalancer.planning.landing.evaluation import NO_CLASS
from rebalancer.planning.landing.scenarios import LandingDistribution
from rebalancer.planning.plan import Move, Plan
from rebalancer.planning.prepared import PreparedInputs
from rebalancer.planning.revalidation import check_landing, next_in_wave, revalidate_moves
from rebalancer.scheduling.framework.cycle import Placement, waiting_pods
from rebalancer.state.results import Result
from rebalancer.state.run_state import PastMove

NOWHERE = NodeRow(-1)


class SimulatedOutcome(msgspec.Struct, frozen=True):
    """A move that was carried out, and where its replacement went."""

    move: Move
    row: PodRow
    node: NodeRow  # NOWHERE while Pending
    pod_class: PodClassIndex
    result: Result
    because: str

    def is_elsewhere(self, names: Sequence[str]) -> bool:
        """Whether its replacement is not where it most likely went."""
        return self.node != NOWHERE and names[self.node] != self.move.landings[0].node


class LandingDraws:
    """Draws landings one after another, as one scheduler makes them.

    Where nothing is drawn among equal nodes, the index at which all its searches start is, once.
    """

    def __init__(self, random: np.random.Generator) -> None:
        self._random = random
        self._start: float | None = None  # of all nodes, where the searches start

    def node(self, placement: Placement) -> NodeRow:
        """A node by the chances of a placement; NOWHERE when there is none."""
        if not len(placement.feasible) or float(placement.chance.sum()) <= 0:
            return NOWHERE
        starts = None
        if placement.tie is not None:
            self._start = self._random.random() if self._start is None else self._start
            starts = np.array([int(self._start * len(placement.tie.by_start))])
        return LandingDistribution(placement.feasible, placement.chance_from(starts)).draw(self._random)


class SimulatedExecution:
    """The cluster while one plan is carried out."""

    def __init__(
        self,
        prepared: PreparedInputs,
        random: np.random.Generator,
        draws: LandingDraws | None = None,
        read_again: Callable[[], PlanningInputs] | None = None,
    ) -> None:
        """``draws`` are those of the executions before, by the same scheduler.

        ``read_again`` reads the cluster as it is between two waves, in which the caller has made every
        outcome true that it was given; None where nothing is looked at again.
        """
        self._prepared = self._of_wave = prepared
        self._random = random
        self._draws = draws or LandingDraws(random)
        self._read_again = read_again
        self._state = prepared.schedulers.state.copy()
        self._on_unexpected = prepared.policy.execution.on_unexpected_landing
        self._made: list[PastMove] = []
        self._is_as_foreseen = True  # every landing so far was the only one possible, and nothing was skipped
        self.skipped = 0  # moves that did not hold any more
        self.stopped = ""

    def carry_out(self, plan: Plan) -> Iterator[SimulatedOutcome]:
        """Wave by wave; a run ends after the wave in which a replacement lands unacceptably or nowhere."""
        left = sorted(plan.moves, key=lambda move: move.wave)
        while left:
            wave = left[0].wave
            if self._made and not self._is_as_foreseen and self._read_again is not None:
                judged = revalidate_moves(self._read_again(), left, self._made)
                left = [item for move in left if (item := self._holding(move, judged.verdicts)) is not None]
                self._of_wave = judged.prepared or self._of_wave
            outcomes = list(self._wave(plan, [move for move in left if move.wave == wave]))
            left = [move for move in left if move.wave != wave]
            yield from outcomes
            failed = next((item for item in outcomes if item.result.ends_run(self._on_unexpected)), None)
            if failed is not None:
                self.stopped = f"{failed.move.pod.full_name}: {failed.because}"
                return

    def _holding(self, move: Move, verdicts: Mapping[str, str | Move]) -> Move | None:
        """A move as it is now; None, and counted, where it does not hold any more."""
        verdict = verdicts.get(move.pod.uid, move)
        if isinstance(verdict, Move):
            return verdict
        self._is_as_foreseen = False
        self.skipped += 1
        return None

    def _wave(self, plan: Plan, moves: Sequence[Move]) -> Iterator[SimulatedOutcome]:
        state, prepared = self._state, self._prepared
        pods = prepared.pods
        for finished in moves:
            if finished.finished:
                row = PodRow(pods.with_finished.row[finished.pod.namespace, finished.pod.name])
                yield SimulatedOutcome(finished, row, NOWHERE, NO_CLASS, Result.REMOVED, "")
        # Whether the scheduler acts before the evicted pods are gone is a race.
        still_terminating = self._random.random() < 0.5
        landed: list[tuple[Move, str]] = []
        evicted: list[PodRow] = []
        for planned in moves:
            move = None if planned.finished else self._after(landed, planned)
            if move is None:
                continue
            row = PodRow(pods.row[move.pod.namespace, move.pod.name])
            candidate = prepared.candidate(row)
            if not candidate.restarted:  # such a pod serves until its replacement does
                if still_terminating and not prepared.eviction.workload(row).replaced_late:
                    state.evict(row)
                else:
                    state.remove(row)
            placed = candidate.replacement
            pod = state.add(placed)
            node = self._draws.node(prepared.schedulers.scheduler(placed).place(state, placed))
            if node != NOWHERE:
                state.bind(pod, node)
            evicted.append(row)
            result, because = self._result(plan, move, node)
            self._made.append(self._past(move, node, result))
            landed.append((move, self._made[-1].to_node))
            self._is_as_foreseen &= [item.node for item in move.landings] == [self._made[-1].to_node]
            pod_class = prepared.eviction.replacement(row).pod_class
            yield SimulatedOutcome(move, row, node, pod_class, result, because)
            if result.ends_run(self._on_unexpected):
                break
        for row in evicted:
            if state.node[row] >= 0:
                state.remove(row)

    def _after(self, landed: Sequence[tuple[Move, str]], move: Move) -> Move | None:
        """The next move of a wave after the landings of those before it; None where it does not hold."""
        if self._read_again is None or all(
            [item.node for item in made.landings] == [node] for made, node in landed
        ):
            return move
        return self._holding(move, {move.pod.uid: next_in_wave(self._of_wave, landed, move)})

    def _past(self, move: Move, node: NodeRow, result: Result) -> PastMove:
        now, names = self._prepared.inputs.now, self._prepared.inputs.snapshot.nodes.names
        if node == NOWHERE:
            return move.made(result.value, "", now, None)
        return move.made(result.value, names[node], now, now)

    @property
    def made(self) -> tuple[PastMove, ...]:
        """The moves carried out, as the next run remembers them."""
        return tuple(self._made)

    def _result(self, plan: Plan, move: Move, node: NodeRow) -> tuple[Result, str]:
        if node == NOWHERE:
            return Result.PENDING, "no node is feasible for its replacement"
        name = self._prepared.inputs.snapshot.nodes.names[node]
        if any(landing.node == name for landing in move.landings):
            return Result.LANDED, ""
        why = check_landing(self._prepared, plan, move, name, self._made)
        return (Result.UNEXPECTED, why) if why else (Result.LANDED_ELSEWHERE, f"{name} is acceptable")

    def retry_pending(self) -> Iterator[tuple[int, NodeRow]]:
        """Pods of the snapshot that were Pending and fit somewhere now, with their nodes, in queue order."""
        state, pods, by_name = self._state, self._prepared.pods, self._prepared.schedulers.by_name
        for row in waiting_pods(state, pods):
            pod_class = state.pod_class[row]
            scheduler = by_name.get(pods.classes[pod_class].scheduler_name)
            if scheduler is None:
                continue
            node = self._draws.node(scheduler.place(state, pod_class))
            if node != NOWHERE:
                state.bind(row, node)
                yield row, node
