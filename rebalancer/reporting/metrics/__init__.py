"""Prometheus metrics of runs: scraped from a service, or written and pushed by a run that ends.

``METRICS`` is the table of all names; ``RunMetrics`` follows runs and is read as a registry.
"""

from rebalancer.reporting.metrics.followed import RunMetrics, run_metrics
from rebalancer.reporting.metrics.names import METRICS, SERVICE_METRICS, MetricKind

__all__ = ["METRICS", "SERVICE_METRICS", "MetricKind", "RunMetrics", "run_metrics"]
