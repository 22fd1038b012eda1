"""Decides which pods to evict: a plan is a function of its inputs, and a value.

The names below are what other packages need; ``planner`` shows how a plan is made.
"""

from rebalancer.planning.coverage import coverage_of
from rebalancer.planning.explanation import explain, scheduling_tables
from rebalancer.planning.inputs import PlanningInputs, SchedulerStart
from rebalancer.planning.plan import Move, Plan
from rebalancer.planning.planner import make_plan, plan_prepared
from rebalancer.planning.prepared import PreparedInputs, hot_nodes_of, prepare
from rebalancer.planning.revalidation import check_landing, revalidate_moves
from rebalancer.planning.subjects import Subject, find_subject, parse_subject

__all__ = [
    "Move",
    "Plan",
    "PlanningInputs",
    "PreparedInputs",
    "SchedulerStart",
    "Subject",
    "check_landing",
    "coverage_of",
    "explain",
    "find_subject",
    "hot_nodes_of",
    "make_plan",
    "parse_subject",
    "plan_prepared",
    "prepare",
    "revalidate_moves",
    "scheduling_tables",
]
