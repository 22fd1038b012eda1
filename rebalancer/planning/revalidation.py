"""Judges what became of a plan: landings it did not list, and moves whose time has passed."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from rebalancer.cluster.arrays import FloatArray, IntArray
from rebalancer.errors import SafetyError
from rebalancer.load.correction import correct
from rebalancer.planning.inputs import PlanningInputs
from rebalancer.planning.plan import Move
from rebalancer.planning.planner import Planner
from rebalancer.planning.report import possible_landings
from rebalancer.state import PastMove


def check_landing(planner: Planner, move: Move, node: str, made: Sequence[PastMove] = ()) -> str | None:
    """Why a landing that the plan did not list is not acceptable; None when it is.

    ``made`` are the moves made so far, this one's included or not. Those of its wave whose landing is not
    known yet are counted where they most likely go.
    """
    inputs = planner.inputs
    row, source = inputs.snapshot.nodes.row.get(node), inputs.snapshot.nodes.row.get(move.from_node)
    if row is None:
        return f"{node} was not there when the plan was made"
    if source is None:
        return f"{move.from_node} was not there when the plan was made"
    usage = np.array([move.load.get(resource, np.nan) for resource in inputs.load.resources])
    there, count = _now(planner, move, made)
    rows = np.array([row])
    after = planner.landing_check.percent_after(rows, there, count, usage)
    before = inputs.load.percent[source]
    return planner.landing_check.why_not(source, row, before, after[0]) or None


def _now(planner: Planner, move: Move, made: Sequence[PastMove]) -> tuple[FloatArray, IntArray]:
    """(nodes, resources) usage and (nodes,) pods without the moved pod, once the others have landed."""
    usage, count = planner.before.usage.copy(), planner.before.pod_count.copy()
    landed = {past.uid: past for past in made if past.to_node}
    row_of = planner.inputs.snapshot.nodes.row
    for planned in planner.moves:
        candidate = planned.evaluation.candidate
        uid = planner.pods.uids[candidate.row]
        past = landed.get(uid)
        target: int | None = None
        if past is not None:
            target = row_of.get(past.to_node)
        elif planned.wave == move.wave:
            landings = planned.evaluation.landings()
            target = int(landings.rows[int(np.argmax(landings.chance))])
        else:
            continue
        usage[candidate.source] -= candidate.usage
        count[candidate.source] -= 1
        if uid != move.pod.uid and target is not None:
            usage[target] += candidate.usage
            count[target] += 1
    return usage, count


def revalidate_moves(
    inputs: PlanningInputs, moves: Sequence[Move], made: Sequence[PastMove] = ()
) -> Mapping[str, str | Move]:
    """How the moves that are not made yet stand on the cluster as it is now, by the uid of their pod.

    A move that holds comes with the landings that the moves before it have left; of one that no longer
    holds it is said why. ``made`` are the moves this run has made so far: figures may not show them yet.
    """
    corrected = correct(inputs.load, inputs.snapshot.nodes, made)
    inputs = dataclasses.replace(inputs, load=corrected.load)
    pods = inputs.snapshot.pods
    found: dict[str, str | Move] = {}
    rows: dict[int, Move] = {}
    for move in moves:
        row = pods.row.get((move.pod.namespace, move.pod.name))
        if row is None or pods.uids[row] != move.pod.uid:
            found[move.pod.uid] = "the pod is gone"
        elif pods.node[row] != inputs.snapshot.nodes.row.get(move.from_node):
            found[move.pod.uid] = "the pod runs on another node"
        elif (settling := corrected.settling.get(int(pods.node[row]))) is not None:
            found[move.pod.uid] = settling
        else:
            rows[row] = move
    try:
        planner = Planner(inputs)
    except SafetyError as error:
        return {move.pod.uid: str(error) for move in moves}
    waves: dict[int, list[int]] = {}
    for row, move in rows.items():
        waves.setdefault(move.wave, []).append(row)
    planner.try_moves(waves.values())
    for row, kept in planner.kept.items():
        if row in rows:
            found[pods.uids[row]] = f"{kept.reason}: {kept.because}"
    for planned in planner.moves:
        evaluation = planned.evaluation
        move = rows[evaluation.candidate.row]
        landings = possible_landings(planner, evaluation.landings())
        found[move.pod.uid] = msgspec.structs.replace(move, landings=landings)
    return found
