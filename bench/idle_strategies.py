"""What each strategy costs where it has nothing to do, beside hot nodes alone.

    python -m bench.idle_strategies [--nodes 5000] [--pods 150000] [--repeat 3]

The pods of the cluster are spread as their constraints ask, so only some nodes are too hot. It is read once.
For each strategy, what precedes a search is prepared anew and hot nodes are searched; then everything that is
asked of the strategy counts, while the plan is searched and when it is written: the least processor time of
--repeat. What it is asked of the landings of other moves is a figure of its own, since it grows with these.
"""

from __future__ import annotations

import argparse
import gc
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import msgspec
from msgspec.structs import replace

from bench.cluster import write_cluster
from rebalancer.observe.plan_options import PlanOptions
from rebalancer.planning.inputs import PlanningInputs
from rebalancer.planning.prepared import prepare
from rebalancer.planning.search import search
from rebalancer.planning.strategies import strategies_of
from rebalancer.planning.strategies.strategy import Strategy
from rebalancer.policy.strategies import every_strategy
from rebalancer.run.plan import planner_of

# More moves than hot nodes need, so that no limit ends what strategies look at.
_POLICY = """
apiVersion: rebalancer/v1alpha1
kind: RebalancePolicy
metadata: {name: idle}
hotNodes: {forRuns: 1, any: [{utilization: {cpu: 99, memory: 99}, coolTo: {cpu: 84, memory: 84}}]}
evictable: {minAge: 10m, priorityBelow: 2000000000}
limits: {perRun: 1000, perNode: 4, perNamespace: 1000}
execution: {waveSize: 5}
"""
_ASKED = ("extend", "spoils", "report", "plan_fields")  # these ask it for the rest
_SOFT = {"preferredNodeAffinity": True, "preferredPodAffinity": True, "preferNoSchedule": True}
CASES: dict[str, dict[str, Any]] = {
    "misplaced": {"misplaced": True},
    "misplaced, soft rules": {"misplaced": _SOFT},
    "duplicates": {"duplicates": True},
    "topologySpread": {"topologySpread": True},
    "topologySpread, soft": {"topologySpread": {"constraints": ["DoNotSchedule", "ScheduleAnyway"]}},
    "fragmentation": {"fragmentation": True},
    "failed": {"failed": True},
    "lifetime": {"lifetime": {"maxAge": "87600h"}},
    "restarts": {"restarts": True},
    "consolidation": {"consolidation": {"keep": "100%"}},
    "consolidation, in vain": {"consolidation": True},  # it tries the nodes with few pods, and empties none
}


class Cost(msgspec.Struct):
    """Of one strategy in one plan."""

    seconds: dict[str, float]  # of processor time, by what it was asked
    moves: int  # that it wished for and got
    others: int  # moves of hot nodes
    landings: int  # that it was asked about
    kept: int  # pods that it wished to move and that stay

    @property
    def by_itself(self) -> float:
        """Seconds besides those for landings of other moves."""
        return sum(self.seconds.values()) - self.seconds["spoils"]


@contextmanager
def timed(strategy: Strategy, seconds: dict[str, float], calls: Counter[str]) -> Iterator[None]:
    """Count what a strategy takes, each moment once."""
    asked: list[str] = []

    def counting(name: str) -> Any:
        method = getattr(strategy, name)

        def call(*given: Any) -> Any:
            asked.append(name)
            began = time.process_time()
            try:
                return method(*given)
            finally:
                asked.pop()
                if not asked:
                    seconds[name] += time.process_time() - began
                    calls[name] += 1

        return call

    own = [name for name in _ASKED if name == "extend" or name in _overridden(type(strategy))]
    with mock.patch.multiple(strategy, **{name: counting(name) for name in own}):
        yield


def _overridden(kind: type[Strategy]) -> set[str]:
    return {name for name in _ASKED if getattr(kind, name) is not getattr(Strategy, name)}


def cost_of(inputs: PlanningInputs, given: dict[str, Any]) -> Cost:
    """What one strategy beside hot nodes costs."""
    policy = inputs.policy.model_copy(update={"strategies": every_strategy().model_validate(given)})
    gc.collect()
    prepared = prepare(replace(inputs, policy=policy))
    strategies = strategies_of(prepared)
    own, seconds, calls = strategies[-1], defaultdict[str, float](float), Counter[str]()
    with timed(own, seconds, calls):
        found = search(prepared, strategies)
        own.report(found)
        own.plan_fields(found)
    moves = sum(move.candidate.wish.strategy == own.name for move in found.moves)
    kept = sum(f"({own.name}: " in why.message for why in found.staying.values())
    return Cost(seconds, moves, len(found.moves) - moves, calls["spoils"], kept)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="bench.idle_strategies", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=150_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--only", nargs="+", choices=list(CASES), default=list(CASES))
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        policy, dump = Path(folder) / "policy.yaml", Path(folder) / "dump"
        policy.write_text(_POLICY)
        write_cluster(dump, given.nodes, given.pods, even=True)
        inputs = planner_of(PlanOptions(policy_path=policy, source=dump)).inputs
    sys.stdout.write(
        "strategy | ms by itself | ms for landings of others (asked) | moves of others | moves, kept\n"
    )
    for name in given.only:
        found = min(
            (cost_of(inputs, CASES[name]) for _ in range(given.repeat)), key=lambda item: item.by_itself
        )
        landings = f"{1000 * found.seconds['spoils']:.1f} ({found.landings})"
        wishes = f"{found.moves}, {found.kept}"
        sys.stdout.write(f"{name} | {1000 * found.by_itself:.1f} | {landings} | {found.others} | {wishes}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    gc.set_threshold(250_000)  # as the program does
    main()
