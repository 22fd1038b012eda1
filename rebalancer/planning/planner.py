"""Makes a plan: what is known before the search, then each strategy in its turn, then the plan as a value.

Greedy, and bounded by counts, never by time. Everything is ordered by load and by name, never by chance or by
the order of the input, so the same inputs give the same plan, byte by byte.

    prepare        n1 is hot (92 % cpu, cool at 65 %); 3 of its 9 pods are protected
    search         hot node relief: web-1 and web-2 may go to n4, and then n1 is at 64 %
                   constraint violations: api-3 runs on a node whose taint it no longer tolerates
    build_plan     3 moves in 2 waves; every other pod of n1 is kept, with the reason
"""

from __future__ import annotations

from rebalancer.planning.builder import PlanBuilder
from rebalancer.planning.inputs import PlanningInputs
from rebalancer.planning.plan import Plan
from rebalancer.planning.prepared import PreparedInputs, prepare
from rebalancer.planning.report import build_plan
from rebalancer.planning.strategies.hot_nodes.relief import HotNodeRelief
from rebalancer.planning.strategies.misplaced import ConstraintViolationRemoval
from rebalancer.planning.strategies.strategy import PartialPlan, SearchResult, Strategy


def make_plan(inputs: PlanningInputs) -> Plan:
    """The plan of these inputs; SafetyError when too few nodes have a fresh figure to act on."""
    return plan_prepared(prepare(inputs))


def plan_prepared(prepared: PreparedInputs) -> Plan:
    """The plan, for callers that go on to use what was prepared."""
    return build_plan(prepared, search(prepared))


def search(prepared: PreparedInputs) -> SearchResult:
    """The moves that the strategies find together, and why other pods stay."""
    builder = PlanBuilder(prepared.inputs, prepared.eviction, prepared.evaluator(), prepared.scenarios())
    plan = PartialPlan(builder, {})
    for strategy in strategies(prepared):
        plan = strategy.extend(plan)
    return SearchResult.of(plan)


def strategies(prepared: PreparedInputs) -> tuple[Strategy, ...]:
    """The strategies that the policy enables, in the order in which they may move pods."""
    relief = HotNodeRelief(prepared)
    if not prepared.policy.strategies.misplaced:
        return (relief,)
    return relief, ConstraintViolationRemoval(prepared)
