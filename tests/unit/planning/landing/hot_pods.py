"""One hot pod and a node that may take it."""

from __future__ import annotations

from typing import Any

from rebalancer.scheduling.registry import load_configuration
from tests.builders import a_node
from tests.unit.planning.builders import (
    a_workload,
    because,
    kept,
    moved,
    plan_of,
    planning_inputs,
)

UNKNOWN = float("nan")
PACKED = load_configuration(
    """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins: {score: {enabled: [{name: TargetLoadPacking, weight: 9}]}}
  pluginConfig: [{name: TargetLoadPacking, args: {watcherAddress: "http://w"}}]
""",
    "test",
)


def hot_pod(**changes: Any) -> Any:
    """One pod that makes a node of four cores hot, and may go."""
    return a_workload("web", ["hot"], **{"cpu": "3500m", **changes})


def with_cool(cool: dict[str, Any], **inputs: Any) -> Any:
    return plan_of(planning_inputs([a_node("hot"), cool], [hot_pod()], **inputs))


def only(reason: str, words: str, plan: Any) -> None:
    assert moved(plan) == {}
    assert kept(plan)["web-0"] == reason
    assert words in because(plan, "web-0")
