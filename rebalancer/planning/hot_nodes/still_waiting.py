"""Whether relief helped: nodes that earlier runs cooled and on which pods wait all the same.

How far pressure falls when a pod leaves cannot be predicted, so it is looked at afterwards, by the next run.
Pressure is a rate over some minutes and its figure may be a little old, so a node is only judged once its
figure holds nothing of the time before the move:

    12:00 web-1 leaves n1; the figures of 12:04 are over 11:59 to 12:04      not judged yet
    12:15 n1 is at 60 % cpu, below its threshold; pressure 33 %, above 20 %  cooled but still waiting
"""

from __future__ import annotations

from rebalancer.load.usage import PRESSURE_WINDOW_SECONDS
from rebalancer.planning.hot_nodes.levels import Hotness
from rebalancer.planning.inputs import PlanningInputs


def still_waiting(inputs: PlanningInputs, hotness: Hotness) -> dict[str, str]:
    """What pods wait for on nodes that were cooled, by the node's name."""
    cooled: dict[str, float] = {}
    for move in inputs.state.moves if inputs.state else ():
        cooled[move.from_node] = max(cooled.get(move.from_node, 0.0), move.landed_at or move.evicted_at)
    judged = inputs.now - PRESSURE_WINDOW_SECONDS - inputs.policy.load.max_age
    names = inputs.snapshot.nodes.names
    return {
        names[row]: words
        for row, words in hotness.waiting.items()
        if cooled.get(names[row], inputs.now) <= judged
    }
