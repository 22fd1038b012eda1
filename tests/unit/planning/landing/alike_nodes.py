"""A scheduler to which all nodes are alike."""

from __future__ import annotations

from typing import Any

from rebalancer.scheduling.registry import load_configuration


def alike(percentage: int = 0) -> Any:
    """A scheduler that scores all nodes alike, so that chances are those of the sample."""
    return load_configuration(
        f"""\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
percentageOfNodesToScore: {percentage}
profiles:
- schedulerName: default-scheduler
  plugins:
    multiPoint: {{disabled: [{{name: "*"}}], enabled: [{{name: PrioritySort}}, {{name: DefaultBinder}}]}}
    preFilter: {{enabled: [{{name: NodeAffinity}}, {{name: NodeResourcesFit}}]}}
    filter: {{enabled: [{{name: NodeAffinity}}, {{name: NodeResourcesFit}}]}}
    preScore: {{enabled: [{{name: TaintToleration}}]}}
    score: {{enabled: [{{name: TaintToleration}}]}}
""",
        "test",
    )
