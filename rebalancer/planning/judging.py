"""Judges what became of a plan: landings it did not list, and moves whose time has passed."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from rebalancer.errors import SafetyError
from rebalancer.load.correction import correct
from rebalancer.planning.inputs import PlanningInputs
from rebalancer.planning.plan import Move
from rebalancer.planning.planner import Planner
from rebalancer.state import PastMove


def judge_landing(planner: Planner, move: Move, node: str) -> str | None:
    """Why a landing that the plan did not list is not acceptable; None when it is."""
    inputs = planner.inputs
    row, source = inputs.snapshot.nodes.row.get(node), inputs.snapshot.nodes.row.get(move.from_node)
    if row is None:
        return f"{node} was not there when the plan was made"
    if source is None:
        return f"{move.from_node} was not there when the plan was made"
    usage = np.array([move.load.get(resource, np.nan) for resource in inputs.load.resources])
    rows = np.array([row])
    # All moves of the plan are counted where they may have landed already: the state it ends in.
    world = planner.worlds.all[0]
    after = planner.acceptance.percent_after(rows, world.usage, world.settled.pod_count, usage)
    before = inputs.load.percent[source]
    return planner.acceptance.why_not(source, row, before, after[0]) or None


def moves_that_fail(
    inputs: PlanningInputs, moves: Sequence[Move], made: Sequence[PastMove] = ()
) -> Mapping[str, str]:
    """Of the moves not made yet, those that no longer hold on the cluster as it is now, with the reason.

    ``made`` are the moves this run has made so far: figures may not show them yet.
    """
    corrected = correct(inputs.load, inputs.snapshot.nodes, made)
    inputs = dataclasses.replace(inputs, load=corrected.load)
    pods = inputs.snapshot.pods
    failing: dict[str, str] = {}
    rows: dict[int, Move] = {}
    for move in moves:
        row = pods.row.get((move.pod.namespace, move.pod.name))
        if row is None or pods.uids[row] != move.pod.uid:
            failing[move.pod.uid] = "the pod is gone"
        elif pods.node[row] != inputs.snapshot.nodes.row.get(move.from_node):
            failing[move.pod.uid] = "the pod runs on another node"
        elif (settling := corrected.settling.get(int(pods.node[row]))) is not None:
            failing[move.pod.uid] = settling
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
    for row, move in rows.items():
        if row in planner.kept:
            kept = planner.kept[row]
            failing[move.pod.uid] = f"{kept.reason}: {kept.because}"
    return failing
