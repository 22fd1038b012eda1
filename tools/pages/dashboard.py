"""Generates the Grafana dashboard of the chart: a panel is a question and the queries that answer it.

Counters are shown as what they grew by: those of a replica that is gone would drop out of a sum.

A test runs every query against a Prometheus that scraped a service, and each has to return something.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
CLUSTER = '{cluster=~"$cluster"}'  # what the variable of the dashboard chooses; all, also without the label
_WIDTH = 24  # of the whole dashboard, in Grafana's units


@dataclass(frozen=True, slots=True)
class Query:
    """A PromQL expression, and how its series are called."""

    expression: str
    legend: str


@dataclass(frozen=True, slots=True)
class Panel:
    """A question, its answer as queries, and the unit of their figures."""

    title: str
    queries: tuple[Query, ...]
    description: str
    unit: str = "short"
    kind: str = "timeseries"
    width: int = 8
    height: int = 7


def _figure(title: str, expression: str, description: str, *, unit: str = "short") -> Panel:
    """A panel of one large figure a cluster; four of them fill a row."""
    return Panel(
        title, (Query(expression, "{{cluster}}"),), description, unit, kind="stat", width=6, height=4
    )


PANELS: tuple[Panel, ...] = (
    _figure(
        "Hot nodes",
        f"max by (cluster) (rebalancer_hot_nodes{CLUSTER})",
        "Nodes above a threshold of the policy when the last plan was made.",
    ),
    _figure(
        "Since the last success",
        f"time() - max by (cluster) (rebalancer_last_success_timestamp_seconds{CLUSTER})",
        "How long ago a run ended with exit code 0.",
        unit="s",
    ),
    _figure(
        "Exit code of the last run",
        f"max by (cluster) (rebalancer_run_exit_code{CLUSTER})",
        "0 is done; `rebalancer --help` has the meaning of the others.",
    ),
    _figure(
        "Replicas that act",
        f"sum by (cluster) (rebalancer_leader{CLUSTER})",
        "One replica of a service leads, the others stand by.",
    ),
    Panel(
        "Nodes hot and unmovable",
        (Query(f"count by (cluster, reason) (rebalancer_unsolved_node{CLUSTER})", "{{cluster}} {{reason}}"),),
        "Hot nodes that stay hot after the plan, by what keeps most of their pods.",
    ),
    Panel(
        "Pods kept on hot nodes",
        (Query(f"max by (cluster, reason) (rebalancer_pods_kept{CLUSTER})", "{{cluster}} {{reason}}"),),
        "Pods that the plan does not move, by reason; the reference of protections explains each.",
    ),
    Panel(
        "Nodes with known load",
        (Query(f"max by (cluster, load) (rebalancer_nodes{CLUSTER})", "{{cluster}} {{load}}"),),
        "A node whose load is not known is neither relieved nor a destination.",
    ),
    Panel(
        "Evictions by result",
        (
            Query(
                f"sum by (cluster, result) (increase(rebalancer_evictions_total{CLUSTER}[$__rate_interval]))",
                "{{cluster}} {{result}}",
            ),
        ),
        "Evictions that were requested, and how each ended.",
    ),
    Panel(
        "Evictions of an hour by namespace",
        (
            Query(
                f"sum by (cluster, namespace, reason) (increase(rebalancer_evictions_total{CLUSTER}[1h]))",
                "{{cluster}} {{namespace}}, {{reason}}",
            ),
        ),
        "Whose pods were evicted, and by which strategy.",
    ),
    Panel(
        "Landings of an hour",
        (
            Query(
                f"sum by (cluster, landing) (increase(rebalancer_landings_total{CLUSTER}[1h]))",
                "{{cluster}} {{landing}}",
            ),
        ),
        "Where replacements landed beside what the plan predicted; NotAllowed stops a run.",
    ),
    Panel(
        "Stops of an hour",
        (
            Query(
                f"sum by (cluster, stop) (increase(rebalancer_stops_total{CLUSTER}[1h]))",
                "{{cluster}} {{stop}}",
            ),
        ),
        "Runs that ended before the end of their plan, by the reason.",
    ),
    Panel(
        "Decisions of schedulers in an hour",
        (
            Query(
                "sum by (cluster, profile, result) "
                f"(increase(rebalancer_scheduler_decisions_total{CLUSTER}[1h]))",
                "{{cluster}} {{profile}} {{result}}",
            ),
        ),
        "What schedulers decided beside what rebalancer computes for the same pods.",
    ),
)


def dashboard() -> str:
    """The dashboard as JSON, as Grafana imports it."""
    panels: list[dict[str, Any]] = []
    column = row = 0
    for number, panel in enumerate(PANELS, start=1):
        if column + panel.width > _WIDTH:
            column = 0
            row = row + PANELS[number - 2].height
        panels.append(_panel(panel, number, column, row))
        column += panel.width
    whole = {
        "uid": "rebalancer",
        "title": "rebalancer",
        "tags": ["kubernetes"],
        "timezone": "browser",
        "schemaVersion": 39,
        "refresh": "1m",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {
            "list": [
                {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"},
                {
                    "name": "cluster",
                    "label": "Cluster",
                    "type": "query",
                    "datasource": _SOURCE,
                    "query": "label_values(rebalancer_run_exit_code, cluster)",
                    "refresh": 2,
                    "multi": True,
                    "includeAll": True,
                    "allValue": ".*",
                    "current": {"text": "All", "value": "$__all"},
                },
            ]
        },
        "panels": panels,
    }
    return json.dumps(whole, indent=2) + "\n"


def _panel(panel: Panel, number: int, column: int, row: int) -> dict[str, Any]:
    return {
        "id": number,
        "title": panel.title,
        "description": panel.description,
        "type": panel.kind,
        "datasource": _SOURCE,
        "gridPos": {"x": column, "y": row, "w": panel.width, "h": panel.height},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": [
            {
                "refId": chr(ord("A") + index),
                "datasource": _SOURCE,
                "expr": query.expression,
                "legendFormat": query.legend,
            }
            for index, query in enumerate(panel.queries)
        ],
    }
