"""The RebalancePolicy: its schema, its defaults, and reading and writing it as text.

A policy never reads the cluster; it only states where things are read.
"""

from rebalancer.policy.evictability import Controller, Evictable, Namespaces, Protection
from rebalancer.policy.hotness import (
    DeviationRule,
    HotNodes,
    HotRule,
    Pool,
    ScoreRule,
    ScoreThreshold,
    UtilizationRule,
)
from rebalancer.policy.load_sources.prometheus import BasicAuth, Prometheus, PrometheusSource, Signal
from rebalancer.policy.load_sources.sources import (
    LoadSource,
    LoadWatcher,
    LoadWatcherSource,
    MetricsServer,
    MetricsServerSource,
    Recorded,
    RecordedSource,
    Requests,
    RequestsSource,
)
from rebalancer.policy.model import ResourceName
from rebalancer.policy.planning import Planning, Weights
from rebalancer.policy.policy_file import (
    LoadedPolicy,
    default_policy,
    load_policy,
    parse_policy,
    schema,
    shown,
    to_yaml,
)
from rebalancer.policy.resources import (
    measured_resources,
    named_resources,
    pressure_resources,
    required_resources,
    scorable_resources,
)
from rebalancer.policy.schedulers.scheduler_settings import (
    ConfigMapKey,
    SchedulerLease,
    SchedulerSettings,
)
from rebalancer.policy.schema import (
    API_VERSION,
    KIND,
    Execution,
    Limits,
    LoadSettings,
    Metadata,
    RebalancePolicy,
    Safety,
)
from rebalancer.policy.selection import Selector
from rebalancer.policy.strategies import Misplaced, Strategies
from rebalancer.policy.template import STARTER
from rebalancer.policy.time_windows import Window
from rebalancer.policy.units import Amount, format_duration, parse_duration

__all__ = [
    "API_VERSION",
    "KIND",
    "STARTER",
    "Amount",
    "BasicAuth",
    "ConfigMapKey",
    "Controller",
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
    "Misplaced",
    "Namespaces",
    "Planning",
    "Pool",
    "Prometheus",
    "PrometheusSource",
    "Protection",
    "RebalancePolicy",
    "Recorded",
    "RecordedSource",
    "Requests",
    "RequestsSource",
    "ResourceName",
    "Safety",
    "SchedulerLease",
    "SchedulerSettings",
    "ScoreRule",
    "ScoreThreshold",
    "Selector",
    "Signal",
    "Strategies",
    "UtilizationRule",
    "Weights",
    "Window",
    "default_policy",
    "format_duration",
    "load_policy",
    "measured_resources",
    "named_resources",
    "parse_duration",
    "parse_policy",
    "pressure_resources",
    "required_resources",
    "schema",
    "scorable_resources",
    "shown",
    "to_yaml",
]
