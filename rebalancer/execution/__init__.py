"""Carries out a plan: evicts in waves, verifies every landing, stops for safety, keeps a journal.

What to move was decided by the planner; ``carry_out(plan, context)`` is the only way in.
"""

from rebalancer.execution.clock import RunClock
from rebalancer.execution.events import Subscriber
from rebalancer.execution.journal import Journal, read_journal
from rebalancer.execution.kubernetes_events import EventWriter
from rebalancer.execution.lease import HeldLease, LeaseWatch, RunLease, holder_identity
from rebalancer.execution.outcomes import Outcome, Outcomes, Stop, after_outcomes, past_moves
from rebalancer.execution.safety import PauseSwitch, SafetyChecks
from rebalancer.execution.scheduler_health import scheduler_start
from rebalancer.execution.waves import RunContext, WorkloadPods, carry_out

__all__ = [
    "EventWriter",
    "HeldLease",
    "Journal",
    "LeaseWatch",
    "Outcome",
    "Outcomes",
    "PauseSwitch",
    "RunClock",
    "RunContext",
    "RunLease",
    "SafetyChecks",
    "Stop",
    "Subscriber",
    "WorkloadPods",
    "after_outcomes",
    "carry_out",
    "holder_identity",
    "past_moves",
    "read_journal",
    "scheduler_start",
]
