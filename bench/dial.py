"""What ``planning.aggressiveness`` changes: moves, excess and hot nodes left at each level.

python -m bench.dial [--from DUMP [--policy FILE]]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from bench.loaded_clusters import loaded_inputs
from bench.random_clusters import NODES, random_inputs
from rebalancer.observe.plan_options import PlanOptions
from rebalancer.planning.inputs import PlanningInputs
from rebalancer.planning.planner import Planner
from rebalancer.policy.schema import LEVELS, SET_BY_LEVEL, RebalancePolicy
from rebalancer.run.plan import planner_of


def at_level(policy: RebalancePolicy, number: int) -> RebalancePolicy:
    """The policy with another level, and with what that level stands for."""
    level = LEVELS[number]
    values = {name: getattr(level, name) for name in SET_BY_LEVEL}
    planning = policy.planning.model_copy(update={"aggressiveness": number, **values})
    return policy.model_copy(update={"planning": planning})


def clusters(options: argparse.Namespace) -> Mapping[str, Callable[[], PlanningInputs]]:
    """What is planned, by name."""
    chosen: dict[str, Callable[[], PlanningInputs]] = {
        "crowded, 65 %, seed 0": partial(random_inputs, 0, 0.65, NODES),
        "crowded, 75 %, seed 2": partial(random_inputs, 2, 0.75, NODES),
        "60 nodes, seed 101": partial(loaded_inputs, 101),
    }
    if options.source is not None:
        recorded = PlanOptions(policy_path=options.policy, source=options.source)
        chosen[str(options.source)] = lambda: planner_of(recorded).inputs
    return chosen


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--from", dest="source", type=Path, help="a recorded cluster, beside the others")
    parser.add_argument("--policy", type=Path, help="the policy for the recorded cluster")
    options = parser.parse_args()
    print("cluster                    level  hot  moves  excess left  hot left  s of processor time")
    for name, inputs_of in clusters(options).items():
        inputs = inputs_of()
        for number in LEVELS:
            began = time.process_time()
            plan = Planner(replace(inputs, policy=at_level(inputs.policy, number))).plan()
            seconds = time.process_time() - began
            benefit = plan.benefit
            left = 0.0 if benefit is None else benefit.excess.after
            hot_left = 0 if benefit is None else int(benefit.hot_nodes.after)
            print(
                f"{name:25s} {number:6d} {plan.hot_count or 0:4d} {len(plan.moves):6d} {left:12.1f} "
                f"{hot_left:9d} {seconds:21.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
