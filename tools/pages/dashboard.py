"""Generates the Grafana dashboard of the chart: a panel is a question and the queries that answer it.

Counters are shown as what they grew by: those of a replica that is gone would drop out of a sum.

A test runs every query against a Prometheus that scraped a service, and each has to return something.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
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
    unit: str = "short"
    kind: str = "timeseries"
    width: int = 8
    height: int = 7


def _quantiles(metric: str, by: str) -> tuple[Query, ...]:
    return tuple(
        Query(
            f"histogram_quantile({share}, sum by (le, {by}) (rate({metric}_bucket[$__rate_interval])))",
            f"{{{{{by}}}}} p{share * 100:.0f}",
        )
        for share in (0.5, 0.95)
    )


def _figure(title: str, expression: str, legend: str, *, unit: str = "short") -> Panel:
    """A panel of one large figure; six of them fill a row."""
    return Panel(title, (Query(expression, legend),), unit, kind="stat", width=4, height=4)


PANELS: tuple[Panel, ...] = (
    _figure("Hot nodes", "max(rebalancer_hot_nodes)", "hot"),
    _figure("Cannot be cooled", "max(rebalancer_unsolved_nodes)", "unsolved"),
    _figure(
        "Since the last success", "time() - max(rebalancer_last_success_timestamp_seconds)", "age", unit="s"
    ),
    _figure("Exit code of the last run", "max(rebalancer_run_exit_code)", "code"),
    _figure("Moves in the queue", "max(rebalancer_moves_queued)", "moves"),
    _figure("Replicas that act", "sum(rebalancer_leader)", "leaders"),
    Panel(
        "Highest load of a node",
        (
            Query("max by (resource) (rebalancer_highest_load_percent)", "{{resource}}"),
            Query("max by (resource) (rebalancer_highest_load_after_percent)", "{{resource}} expected"),
        ),
        unit="percent",
    ),
    Panel(
        "Points above coolTo",
        (
            Query("max(rebalancer_excess_points)", "excess"),
            Query("max(rebalancer_excess_after_points)", "expected"),
        ),
    ),
    Panel(
        "Deviation of the load",
        (
            Query("max by (resource) (rebalancer_load_deviation_points)", "{{resource}}"),
            Query("max by (resource) (rebalancer_load_deviation_after_points)", "{{resource}} expected"),
        ),
        unit="percent",
    ),
    Panel(
        "Evictions by result",
        (Query("sum by (result) (increase(rebalancer_evictions_total[$__rate_interval]))", "{{result}}"),),
    ),
    Panel(
        "Evictions of an hour by namespace",
        (
            Query(
                "sum by (namespace, reason) (increase(rebalancer_evictions_total[1h]))",
                "{{namespace}}, {{reason}}",
            ),
        ),
    ),
    Panel(
        "Landings of an hour, predicted and real",
        (
            Query("sum by (landing) (increase(rebalancer_landings_total[1h]))", "{{landing}}"),
            Query("sum(increase(rebalancer_landings_likeliest_expected_total[1h]))", "Likeliest, predicted"),
        ),
    ),
    Panel(
        "Nodes hot and unmovable",
        (Query("count by (reason) (rebalancer_unsolved_node)", "{{reason}}"),),
    ),
    Panel("Pods kept on hot nodes", (Query("max by (reason) (rebalancer_pods_kept)", "{{reason}}"),)),
    Panel(
        "Stops of an hour",
        (Query("sum by (stop) (increase(rebalancer_stops_total[1h]))", "{{stop}}"),),
    ),
    Panel(
        "How long runs take",
        (
            Query(
                "histogram_quantile(0.95, sum by (le) "
                "(rate(rebalancer_run_duration_seconds_bucket[$__rate_interval])))",
                "p95",
            ),
        ),
        unit="s",
    ),
    Panel("How long stages take", _quantiles("rebalancer_stage_duration_seconds", "stage"), unit="s"),
    Panel(
        "Requests to the API server",
        _quantiles("rebalancer_api_request_duration_seconds", "request"),
        unit="s",
    ),
    Panel(
        "What the model knows",
        (
            Query("min(rebalancer_scheduler_verified)", "scheduler verified"),
            Query("max(rebalancer_unverified_rules)", "rules that differ"),
            Query("max(rebalancer_neutral_plugins)", "plugins not modelled"),
            Query("max(rebalancer_plan_warnings)", "warnings"),
        ),
    ),
    Panel(
        "Nodes with known load",
        (Query("max(rebalancer_known_nodes)", "known"), Query("max(rebalancer_nodes)", "all")),
    ),
    Panel("Size of the state", (Query("max(rebalancer_state_bytes)", "state"),), unit="bytes"),
    Panel(
        "Looks at the load in an hour",
        (Query("sum by (result) (increase(rebalancer_load_checks_total[1h]))", "{{result}}"),),
    ),
)


def dashboard() -> str:
    """The dashboard as JSON, as Grafana imports it."""
    panels: list[dict[str, Any]] = []
    column = row = 0
    for number, panel in enumerate(PANELS, start=1):
        if column + panel.width > _WIDTH:
            column, row = 0, row + PANELS[number - 2].height
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
                {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}
            ]
        },
        "panels": panels,
    }
    return json.dumps(whole, indent=2) + "\n"


def _panel(panel: Panel, number: int, column: int, row: int) -> dict[str, Any]:
    return {
        "id": number,
        "title": panel.title,
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
