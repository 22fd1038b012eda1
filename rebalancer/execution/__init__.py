"""Carries out a plan: evicts in waves, verifies every landing, stops for safety, keeps a journal.

What to move was decided by the planner; ``carry_out(plan, context)`` is the only way in.
"""

from rebalancer.execution.context import RunContext
from rebalancer.execution.eviction.events import EventWriter
from rebalancer.execution.journal import Journal, read_journal
from rebalancer.execution.outcomes import Outcome, Outcomes, Result, Stop
from rebalancer.execution.past_moves import after_outcomes, past_moves
from rebalancer.execution.progress import Observer, Silent
from rebalancer.execution.run import carry_out
from rebalancer.execution.safeguards.lease import HeldLease, RunLease, holder_identity
from rebalancer.execution.safeguards.lease_watch import LeaseWatch
from rebalancer.execution.safeguards.pause import PauseSwitch
from rebalancer.execution.safeguards.scheduler_health import LeaseName, SchedulerLocation
from rebalancer.execution.safeguards.scheduler_pods import PodSelection, is_scheduler_image
from rebalancer.execution.safeguards.scheduler_start import scheduler_start

__all__ = [
    "EventWriter",
    "HeldLease",
    "Journal",
    "LeaseName",
    "LeaseWatch",
    "Observer",
    "Outcome",
    "Outcomes",
    "PauseSwitch",
    "PodSelection",
    "Result",
    "RunContext",
    "RunLease",
    "SchedulerLocation",
    "Silent",
    "Stop",
    "after_outcomes",
    "carry_out",
    "holder_identity",
    "is_scheduler_image",
    "past_moves",
    "read_journal",
    "scheduler_start",
]
