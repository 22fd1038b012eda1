"""The RebalancePolicy: its schema, its defaults, and reading and writing it as text.

A policy never reads the cluster; it only states where things are read.
"""

from rebalancer.policy.evictability import Evictable, Namespaces, Protection
from rebalancer.policy.hotness import (
    DeviationRule,
    HotNodes,
    HotRule,
    ScoreRule,
    ScoreThreshold,
    UtilizationRule,
)
from rebalancer.policy.load_sources import (
    LoadSource,
    LoadWatcher,
    LoadWatcherSource,
    MetricsServer,
    MetricsServerSource,
    Prometheus,
    PrometheusSource,
    Recorded,
    RecordedSource,
    Requests,
    RequestsSource,
    Signal,
)
from rebalancer.policy.model import Selector
from rebalancer.policy.planning_settings import Planning, Weights
from rebalancer.policy.policy_file import (
    LoadedPolicy,
    default_policy,
    load_policy,
    measured_resources,
    parse_policy,
    pressure_resources,
    required_resources,
    schema,
    scorable_resources,
    shown,
    to_yaml,
)
from rebalancer.policy.schedulers import ConfigMapKey, SchedulerLease, SchedulerSettings
from rebalancer.policy.schema import Execution, Limits, LoadSettings, Metadata, RebalancePolicy, Safety
from rebalancer.policy.template import STARTER
from rebalancer.policy.units import Amount, Window, format_duration, parse_duration

__all__ = [
    "STARTER",
    "Amount",
    "ConfigMapKey",
    "DeviationRule",
    "Evictable",
    "Execution",
    "HotNodes",
    "HotRule",
    "Limits",
    "LoadSettings",
    "LoadSource",
    "LoadWatcher",
    "LoadWatcherSource",
    "LoadedPolicy",
    "Metadata",
    "MetricsServer",
    "MetricsServerSource",
    "Namespaces",
    "Planning",
    "Prometheus",
    "PrometheusSource",
    "Protection",
    "RebalancePolicy",
    "Recorded",
    "RecordedSource",
    "Requests",
    "RequestsSource",
    "Safety",
    "SchedulerLease",
    "SchedulerSettings",
    "ScoreRule",
    "ScoreThreshold",
    "Selector",
    "Signal",
    "UtilizationRule",
    "Weights",
    "Window",
    "default_policy",
    "format_duration",
    "load_policy",
    "measured_resources",
    "parse_duration",
    "parse_policy",
    "pressure_resources",
    "required_resources",
    "schema",
    "scorable_resources",
    "shown",
    "to_yaml",
]
