"""Joins the stages: what each command does, as one function that takes options and returns a value.

The functions are imported when they are first used: commands must show their help without numpy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from rebalancer.pipeline.run_settings import PipelineOptions, RecordingOptions, RunOptions

if TYPE_CHECKING:
    from rebalancer.pipeline.planning import (
        explain_subject,
        make_plan,
        make_plan_and_snapshot,
        make_reported_plan,
    )
    from rebalancer.pipeline.questions import (
        check_policy,
        diff_policies,
        fit_pods,
        suggest_policy,
        what_if_changed,
        why_nothing_moves,
    )
    from rebalancer.pipeline.recording import describe_recording, record_cluster
    from rebalancer.pipeline.running import run, run_within
    from rebalancer.pipeline.scheduler.configuration import check_configuration
    from rebalancer.pipeline.simulating import inputs_by_policy, simulate

__all__ = [
    "PipelineOptions",
    "RecordingOptions",
    "RunOptions",
    "check_configuration",
    "check_policy",
    "describe_recording",
    "diff_policies",
    "explain_subject",
    "fit_pods",
    "inputs_by_policy",
    "make_plan",
    "make_plan_and_snapshot",
    "make_reported_plan",
    "record_cluster",
    "run",
    "run_within",
    "simulate",
    "suggest_policy",
    "what_if_changed",
    "why_nothing_moves",
]

_MODULES = {
    "check_configuration": "scheduler.configuration",
    "check_policy": "questions",
    "describe_recording": "recording",
    "diff_policies": "questions",
    "explain_subject": "planning",
    "fit_pods": "questions",
    "inputs_by_policy": "simulating",
    "make_plan": "planning",
    "make_plan_and_snapshot": "planning",
    "make_reported_plan": "planning",
    "record_cluster": "recording",
    "run": "running",
    "run_within": "running",
    "simulate": "simulating",
    "suggest_policy": "questions",
    "what_if_changed": "questions",
    "why_nothing_moves": "questions",
}


def __getattr__(name: str) -> Any:
    """The function of a stage, imported now."""
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{module}"), name)
