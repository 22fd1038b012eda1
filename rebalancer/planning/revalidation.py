"""Looks again at a plan while it is carried out: landings it did not list, and moves not made yet.

Time passes between a plan and its last wave. Pods land where the plan did not expect them, and the cluster
changes by itself. ``check_landing`` decides whether an unexpected landing is good all the same, by the
figures of the plan; ``revalidate_moves`` tries the remaining moves on the cluster as it is now, each after
those before it; and ``next_in_wave`` tries one move after those of its wave that have landed, each on the
node where it did. A plan lists every node on which a replacement may land, and what follows from each: once
it is on one of them only that counts.

    the plan      web-1 may land on b or c, and then web-2 on the other one
    web-1 is on b, and the scheduler would put web-2 there too: b would be hot, so web-2 stays
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import inf

import numpy as np
from msgspec.structs import replace

from rebalancer.cluster.arrays import FloatArray, IntArray, NodeRow, PodRow
from rebalancer.load.report import percent_of_allocatable
from rebalancer.planning.builder import PartialPlan, PlanBuilder, PlannedMove
from rebalancer.planning.inputs import PlanningInputs
from rebalancer.planning.landing.evaluation import Candidate, Wish
from rebalancer.planning.landing.purpose import Landings
from rebalancer.planning.plan import POD_GONE, POD_LEAVING, Move, Plan, Progress
from rebalancer.planning.prepared import PreparedInputs
from rebalancer.planning.reasons import NotMoved, Reason
from rebalancer.planning.report import as_move
from rebalancer.planning.strategies import strategies_of
from rebalancer.planning.strategies.one_by_one import move_of, together_with
from rebalancer.planning.strategies.strategy import Strategy
from rebalancer.state.run_state import PastMove

_NOBODY_COMES = "the pod for which it would make room does not move"


def check_landing(
    prepared: PreparedInputs, plan: Plan, move: Move, node: str, made: Sequence[PastMove] = ()
) -> str | None:
    """Why a landing that the plan did not list is not acceptable; None when it is.

    ``made`` are the moves made so far, with or without this one. Moves of the same wave whose landing is not
    known yet are counted on the node where they most likely go.
    """
    inputs = prepared.inputs
    row = inputs.snapshot.nodes.row.get(node)
    source = inputs.snapshot.nodes.row.get(move.from_node)
    if row is None:
        return f"{node} was not there when the plan was made"
    if source is None:
        return f"{move.from_node} was not there when the plan was made"
    pod = inputs.snapshot.pods.row.get((move.pod.namespace, move.pod.name), -1)
    usage, count = _now(prepared, plan, move, made)
    check = prepared.landing_check
    before = inputs.load.percent[source]
    load = _load(inputs, move)
    after = check.percent_after(np.array([row]), usage, count, np.nan_to_num(load))
    points = percent_of_allocatable(load, np.ones((), np.int64), inputs.load.allocatable[source])
    strategies = _resumed(prepared, plan.moves)
    strategy = next((strategy for strategy in strategies if strategy.name == move.strategy), None)
    purpose = strategy.purpose if strategy else prepared.cooler_node
    landings = Landings(PodRow(pod), NodeRow(source), np.array([row]), before, after, points)
    return check.why_not(landings, 0, purpose) or None


def _resumed(prepared: PreparedInputs, moves: Sequence[Move]) -> tuple[Strategy, ...]:
    """The strategies, which know that these moves are being carried out."""
    strategies = strategies_of(prepared)
    for strategy in strategies:
        strategy.resume(moves)
    return strategies


def _load(inputs: PlanningInputs, move: Move) -> FloatArray:
    """(measured resources,) what the pod of a move uses; NaN where that is not known."""
    return np.array([move.load.get(resource, np.nan) for resource in inputs.load.resources])


def _now(
    prepared: PreparedInputs, plan: Plan, move: Move, made: Sequence[PastMove]
) -> tuple[FloatArray, IntArray]:
    """(nodes, resources) usage and (nodes,) pods without the moved pod, once the others have landed."""
    usage = prepared.usage.copy()
    count = prepared.state.pod_count.copy()
    landed = {past.uid: past.to_node for past in made if past.to_node}
    row_of = prepared.inputs.snapshot.nodes.row
    pods = prepared.inputs.snapshot.pods
    for planned in plan.moves:
        if planned.pod.uid in landed:
            target = row_of.get(landed[planned.pod.uid])
        elif planned.wave == move.wave:
            target = row_of[planned.landings[0].node]
        else:
            continue
        source = row_of[planned.from_node]
        used = np.nan_to_num(_load(prepared.inputs, planned))
        if planned.pod.uid != move.pod.uid and target == source:
            continue  # the new pod uses there what the one before it did
        pod = pods.row.get((planned.pod.namespace, planned.pod.name))
        usage[source] -= used if pod is None else np.nan_to_num(prepared.inputs.load.relief[pod])
        count[source] -= 1
        if planned.pod.uid != move.pod.uid and target is not None:
            usage[target] += used
            count[target] += 1
    return usage, count


def next_in_wave(
    prepared: PreparedInputs,
    landed: Sequence[tuple[Move, str]],
    move: Move,
    progress: Progress,
    *,
    tainted: Sequence[str],
) -> str | Move:
    """Whether a move holds now that those before it in its wave have landed.

    ``landed`` are the moves of the wave whose replacements are bound, in their order, with the nodes of
    these. Those whose pod is live in ``prepared``, which may have been read before or since, are made in it
    first. Limits and confidence count all moves that are made by ``progress``. The nodes that have the soft
    taint in this wave are ``tainted``, and no others get it.
    Returns the move with the landings it has now, or why it does not hold.
    """
    strategies = _resumed(prepared, [*progress.made, *progress.left, move])
    builder = PlanBuilder(prepared, strategies)
    builder.fix_taints(tainted)
    builder.resume(progress.made)
    for earlier, name in landed:
        row = _live(prepared, earlier)
        node = prepared.nodes.row.get(name)
        if row is None:
            continue
        if node is None:
            return f"{earlier.pod.full_name} landed on {name}, which was not there when the wave began"
        wish = _wish(prepared, strategies, builder, row, earlier) if earlier.makes_room_for else None
        builder.landed(prepared.candidate(row), NodeRow(node))
        if isinstance(wish, Wish) and wish.room is not None:
            wish.room.take(builder.scenarios)
    row = _live(prepared, move)
    if row is None:
        return POD_GONE
    tried = _try_again(prepared, ((row,),), {row: move}, builder, strategies)
    for refusal in (
        *tried.staying.values(),
        *_together(prepared, tried, strategies, progress.stayed).values(),
    ):
        return f"{refusal.reason}: {refusal.message}"
    planned = tried.moves[-1]
    strategy = next(strategy for strategy in strategies if strategy.name == planned.candidate.wish.strategy)
    return replace(_renewed(prepared, move, planned, strategy), avoids=move.avoids)


def _renewed(prepared: PreparedInputs, move: Move, planned: PlannedMove, strategy: Strategy) -> Move:
    """A move with the landings that it has now, and what is said of it where these are others."""
    renewed = as_move(prepared, planned, strategy)
    # A wave that is under way has its taints.
    avoids = move.avoids if prepared.so_far.tainted is not None else renewed.avoids
    if renewed.chances == move.chances:
        return replace(move, risk=renewed.risk, avoids=avoids)
    return replace(
        move,
        landings=renewed.landings,
        from_load=renewed.from_load,
        risk=renewed.risk,
        gain=renewed.gain,
        because=renewed.because,
        avoids=avoids,
    )


def _live(prepared: PreparedInputs, move: Move) -> PodRow | None:
    """The row of the pod of a move; None where it is gone or leaves."""
    pods = prepared.pods
    row = pods.row.get((move.pod.namespace, move.pod.name))
    if row is None or pods.uids[row] != move.pod.uid or pods.terminating[row]:
        return None
    return PodRow(row)


def revalidate_moves(
    prepared: PreparedInputs,
    moves: Sequence[Move],
    progress: Progress,
    *,
    through: int | None = None,
) -> dict[str, str | Move]:
    """Judge the moves not made yet by the cluster as it is now.

    By the uid of their pod: the move with the landings it has now, after the moves before it, or why it no
    longer holds; nothing for one that was not looked at. Limits and confidence count the moves that are made
    by ``progress``, which is of this plan; not those of ``moves`` among them, which are looked at just before
    they are made.

    ``through`` is the wave about to be made, where there is one. The moves of later waves are judged when it
    is their turn, by a newer cluster, unless some of the moves hold only together: then all are judged.
    """
    verdicts: dict[str, str | Move] = {}
    rows: dict[PodRow, Move] = {}
    for move in moves:
        row = _row_of(prepared, move)
        if isinstance(row, str):
            verdicts[move.pod.uid] = row
        else:
            rows[row] = move
    asked = {move.pod.uid for move in moves}
    before = [move for move in progress.made if move.pod.uid not in asked]
    strategies = _resumed(prepared, [*before, *progress.left, *moves])
    last = inf if through is None or _hold_together(rows, strategies) else through
    waves: dict[int, list[PodRow]] = {}
    for pod, move in rows.items():
        if move.wave <= last:
            waves.setdefault(move.wave, []).append(pod)
    builder = PlanBuilder(prepared, strategies)
    builder.resume(before)
    tried = _try_again(prepared, waves.values(), rows, builder, strategies)
    tried = replace(
        tried, staying={**_together(prepared, tried, strategies, progress.stayed), **tried.staying}
    )
    for pod, refusal in tried.staying.items():
        leaving = refusal.reason == Reason.TERMINATING
        verdicts[prepared.pods.uids[pod]] = f"{POD_LEAVING if leaving else refusal.reason}: {refusal.message}"
    all_tried = asked.issuperset(move.pod.uid for move in progress.left)
    by_name = {strategy.name: strategy for strategy in strategies}
    for planned in tried.moves:
        move = rows[planned.candidate.row]
        strategy = by_name[planned.candidate.wish.strategy]
        room = planned.candidate.wish.room
        vain = room.why_in_vain(builder.scenarios) if all_tried and room is not None else ""
        verdict = f"{Reason.NOT_NEEDED}: {vain}" if vain else _renewed(prepared, move, planned, strategy)
        verdicts.setdefault(move.pod.uid, verdict)
    for uid, verdict in verdicts.items():
        if isinstance(verdict, Move) and isinstance(verdicts.get(verdict.makes_room_for), str):
            verdicts[uid] = f"{Reason.NOT_NEEDED}: {_NOBODY_COMES}"
    return verdicts


def _row_of(prepared: PreparedInputs, move: Move) -> PodRow | str:
    """The row of the pod of a move, or why nobody may move it."""
    pods = prepared.pods
    row = pods.row.get((move.pod.namespace, move.pod.name))
    if row is None or pods.uids[row] != move.pod.uid:
        return POD_GONE
    if pods.terminating[row]:
        return POD_LEAVING
    source = prepared.nodes.row.get(move.from_node)
    if pods.node[row] != source:
        return "the pod runs on another node" if source is not None else f"its node {move.from_node} is gone"
    outdated = prepared.outdated_by_this_run.get(prepared.node_of(PodRow(row)))
    return PodRow(row) if outdated is None else outdated


def _hold_together(moves: Mapping[PodRow, Move], strategies: Sequence[Strategy]) -> bool:
    """Whether one of the moves may hold only together with another one."""
    groups = {strategy.name: strategy.group for strategy in strategies}
    return any(
        move.makes_room_for or move.strategy not in groups or groups[move.strategy](pod)
        for pod, move in moves.items()
    )


def _together(
    prepared: PreparedInputs, tried: PartialPlan, strategies: Sequence[Strategy], stayed_moves: Sequence[Move]
) -> dict[PodRow, NotMoved]:
    """The pods that would move only together with one that stays; those of ``stayed_moves`` did so before."""
    groups = {strategy.name: strategy.group for strategy in strategies}
    rows = ((move.strategy, _live(prepared, move)) for move in stayed_moves)
    stayed = {(name, groups[name](pod)): pod for name, pod in rows if pod is not None and name in groups}
    stays = {
        (name, group(pod)): pod
        for name, group in groups.items()
        for pod, why in tried.staying.items()
        if why.reason not in (Reason.TERMINATING, Reason.NOT_NEEDED)
    }
    stays = {key: pod for key, pod in (stayed | stays).items() if key[1]}
    refusals: dict[PodRow, NotMoved] = {}
    for move in tried.moves:
        pod = move.candidate.row
        name = move.candidate.wish.strategy
        other = stays.get((name, groups[name](pod))) if name in groups else None
        if other is not None:
            refusals[pod] = together_with(prepared, other)
    return refusals


def _try_again(
    prepared: PreparedInputs,
    waves: Iterable[Sequence[PodRow]],
    planned: Mapping[PodRow, Move],
    builder: PlanBuilder,
    strategies: Sequence[Strategy],
) -> PartialPlan:
    """Try only these pods, in these waves, in the way they were ``planned`` to be moved."""
    staying: dict[PodRow, NotMoved] = {}
    for number, rows in enumerate(waves):
        if number:
            builder.next_wave()
        for row in rows:
            wish = _wish(prepared, strategies, builder, row, planned[row])
            if isinstance(wish, NotMoved):
                staying[row] = wish
                continue
            outcome = _moved_otherwise(prepared.candidate(row, wish), planned[row]) or move_of(
                prepared, builder, row, wish, may_wait=False
            )
            if isinstance(outcome, NotMoved):
                staying[row] = outcome
                continue
            builder.add(outcome)
    return PartialPlan(builder, staying)


def _wish(
    prepared: PreparedInputs, strategies: Sequence[Strategy], builder: PlanBuilder, row: PodRow, planned: Move
) -> Wish | NotMoved:
    """The wish for which a pod was planned to move, or any if the plan names none; else that it is gone.

    For a pod that makes room it is the wish to move the pod for which it does.
    """
    other = None
    if planned.makes_room_for:
        uids = prepared.pods.uids
        if planned.makes_room_for not in uids:
            return NotMoved(Reason.NOT_NEEDED, "the pod for which it would make room is gone")
        other = PodRow(uids.index(planned.makes_room_for))
    for strategy in strategies:
        if strategy.name == planned.strategy or (not planned.strategy and row in strategy.pods(builder)):
            message = strategy.why_still(row if other is None else other, builder)
            if message:
                return strategy.wish(row, message, builder, other)
    named = next((strategy.settled for strategy in strategies if strategy.name == planned.strategy), "")
    return NotMoved(Reason.NOT_NEEDED, named or Strategy.settled)


def _moved_otherwise(candidate: Candidate, planned: Move) -> NotMoved | None:
    """A pod that would now be evicted and not restarted, or the other way round: not what was planned."""
    if candidate.restarted == planned.is_restart:
        return None
    message = "the rolling update of its Deployment " + (
        "would not move it without downtime any more" if planned.is_restart else "could move it now"
    )
    return NotMoved(Reason.SINGLE_REPLICA, message)
