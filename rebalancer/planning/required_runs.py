"""In how many runs a node has to be hot before its pods move, where the next run makes no such move.

A plan without a state of earlier runs shows what comes once a node was hot long enough, and says that no run
does that at once. A dry run decides as the run would, and says which later run would make moves.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from rebalancer.counting import counted
from rebalancer.planning.inputs import PlanningInputs
from rebalancer.planning.plan import Move, Plan
from rebalancer.planning.reasons import Reason
from rebalancer.policy.strategies import ALWAYS_ON
from rebalancer.policy.units import format_duration
from rebalancer.state.run_state import after_plan


def assumed_runs(inputs: PlanningInputs, moves: Sequence[Move]) -> str:
    """That the next run makes no such moves of a plan that no earlier runs are known for; empty where it may.

    It would be the first, and the plan took all nodes that are hot for hot in enough runs.
    """
    needed = inputs.policy.hot_nodes.for_runs
    waiting = sum(move.strategy in ALWAYS_ON for move in moves)
    if inputs.state is not None or needed < 2 or not waiting:
        return ""
    which = f"{waiting} of these moves" if waiting < len(moves) else "these moves"
    if len(moves) == 1:
        which = "this move"
    whose = "its node is" if waiting == 1 else "nodes are"
    spacing = inputs.policy.hot_nodes.run_spacing_seconds
    apart = f" at least {format_duration(spacing)} apart" if spacing else ""
    return f"run makes {which} once {whose} hot in {needed} runs{apart}; next is run 1"


def later_run(inputs: PlanningInputs, plan: Plan, plan_of: Callable[[PlanningInputs], Plan]) -> str:
    """Which run after this one would move pods that stay because their nodes were hot in too few runs.

    Empty where none stays for that, or none of them would move then. The cluster is taken to stay as it is;
    ``plan_of`` plans for it by another state.
    """
    state = inputs.state
    waiting = {pod.node for pod in plan.kept if pod.reason == Reason.HOT_TOO_BRIEFLY}
    if state is None or not waiting:
        return ""
    hot_nodes = inputs.policy.hot_nodes
    spacing = hot_nodes.run_spacing_seconds
    needed = hot_nodes.for_runs
    counts = state.counts_again(inputs.now, spacing)
    after = after_plan(state, plan.hot_names, inputs.now, spacing)
    longest = max(after.hot_runs(node) for node in waiting)
    more = needed - longest
    streaks = {node: after.hot_runs(node) + more for node in plan.hot_names}
    then = replace(after, hot_streaks=streaks, hot_counted_at=inputs.now)
    further = len(plan_of(replace(inputs, state=then)).moves) - len(plan.moves)
    if further <= 0:
        return ""
    minutes = math.ceil(after.counts_in(inputs.now, spacing) / 60)
    apart = f" at least {format_duration(spacing)} apart" if spacing else ""
    which = f"a run in {minutes} min or later"
    if more > 1:
        which = f"the last of {more} further runs{apart},"
    elif counts:
        which = f"a run at least {format_duration(spacing)} after this one" if spacing else "the next run"
    moves = f"{further} more" if plan.moves else counted(further, "pod")
    so_far = (
        f"hot nodes wait: hot in {longest} of {needed} required runs{', with this one' if counts else ''}"
    )
    return f"{so_far}; {which} that finds them still hot would move {moves}"
