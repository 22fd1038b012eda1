"""Random statuses of pods, as an API server writes them: what has become of the pod and of its containers."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests.builders import LONG_AGO

PHASES = ("Pending", "Running", "Running", "Succeeded", "Failed", "Unknown", "Unheard-of")
_TIMES = (LONG_AGO, "2026-03-04T05:06:07Z", None)
_RUNNING = {"running": {"startedAt": LONG_AGO}}


def _terminated(reason: str, code: int) -> dict[str, Any]:
    return {"terminated": {"exitCode": code, "reason": reason, "startedAt": LONG_AGO}}


STATES: tuple[dict[str, Any], ...] = (
    {},
    _RUNNING,
    _RUNNING,
    {"waiting": {"reason": "CrashLoopBackOff"}},
    {"waiting": {}},
    _terminated("Completed", 0),
    _terminated("OOMKilled", 137),
    _terminated("", 0),
    _terminated("Error", -1),
)


def conditions() -> st.SearchStrategy[list[dict[str, Any]]]:
    """Conditions of a pod, some of them twice."""
    each = st.fixed_dictionaries(
        {
            "type": st.sampled_from(
                ("Ready", "Ready", "Initialized", "PodScheduled", "DisruptionTarget", "PodResizePending")
            ),
            "status": st.sampled_from(("True", "True", "False", "Unknown")),
            "reason": st.sampled_from(("", "PodFailed", "Infeasible", "\x1b[31m")),
            "lastTransitionTime": st.sampled_from(_TIMES),
        }
    )
    return st.lists(each, max_size=4)


def container_statuses(*names: str) -> st.SearchStrategy[list[dict[str, Any]]]:
    """Statuses of some of these containers."""
    each = st.fixed_dictionaries(
        {
            "name": st.sampled_from(names),
            "ready": st.booleans(),
            "restartCount": st.sampled_from((0, 0, 1, 99, 2**31 - 1)),
            "state": st.sampled_from(STATES),
            "lastState": st.sampled_from(STATES),
        },
        optional={"allocatedResources": st.just({"cpu": "2"})},
    )
    return st.lists(each, max_size=3)


def statuses() -> st.SearchStrategy[dict[str, Any]]:
    """Statuses of pods."""
    return st.fixed_dictionaries(
        {
            "phase": st.sampled_from(PHASES),
            "reason": st.sampled_from(("", "", "Evicted", "NodeLost")),
            "startTime": st.sampled_from(_TIMES),
            "conditions": conditions(),
            "containerStatuses": container_statuses("main", "side"),
            "initContainerStatuses": container_statuses("init", "main"),
            "ephemeralContainerStatuses": container_statuses("debugger-1", "debugger-2"),
        }
    )
