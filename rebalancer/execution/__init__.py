"""Carries out a plan: evicts in waves, waits, checks every landing, brakes, journals. It decides nothing."""

from rebalancer.execution.context import RunContext
from rebalancer.execution.events import EventWriter
from rebalancer.execution.health import SchedulerLocation
from rebalancer.execution.journal import Journal, read_journal
from rebalancer.execution.lease import RunLease
from rebalancer.execution.outcomes import Outcome, Outcomes, Result, Stop
from rebalancer.execution.progress import Observer, Silent
from rebalancer.execution.remembering import after_outcomes
from rebalancer.execution.run import carry_out

__all__ = [
    "EventWriter",
    "Journal",
    "Observer",
    "Outcome",
    "Outcomes",
    "Result",
    "RunContext",
    "RunLease",
    "SchedulerLocation",
    "Silent",
    "Stop",
    "after_outcomes",
    "carry_out",
    "read_journal",
]
