"""The model of kube-scheduler: where it would place a pod, computed over arrays on a copy of the cluster.

A ``Scheduler`` is made from a profile of the scheduler's configuration and places pods of a class on a
``ClusterState``; the ``Placement`` says which nodes are feasible, how they score and where the pod may land.
"""

from rebalancer.scheduling.framework.cycle import Placement, Preemptions, Rejections, Scheduler, waiting_pods
from rebalancer.scheduling.framework.plugin import (
    RECENT_AFTER_START_SECONDS,
    SCHEDULER_LAG_SECONDS,
    Normalization,
    ObjectsRead,
    Plugin,
    PluginInputs,
    normalize_by_maximum,
)
from rebalancer.scheduling.matching import (
    BindingLabelReaders,
    PodSelector,
    SelectorIndex,
    label_match,
    tolerates_any,
)
from rebalancer.scheduling.plugins.prometheus_score import Definition, Direction, described_score
from rebalancer.scheduling.plugins.registry import (
    CATALOGUE,
    ENTRY_POINT_GROUP,
    MODELLED,
    UnreadInputs,
    default_configuration,
    described,
    load_configuration,
    make_scheduler,
    neutral_plugins,
    plugin_queries,
    queries_of,
)
from rebalancer.scheduling.resources import pod_requests, requested_amounts
from rebalancer.scheduling.state.cluster_state import UNBOUND, ClusterState
from rebalancer.scheduling.versions import (
    GATES_AS_RELEASED,
    REFERENCE,
    RULES,
    FeatureGates,
    Release,
    differing_rules,
    is_verified,
    major_minor,
    unpredictable_rule,
    verified_in_words,
    version_warnings,
    why_unverified,
)

__all__ = [
    "CATALOGUE",
    "ENTRY_POINT_GROUP",
    "GATES_AS_RELEASED",
    "MODELLED",
    "RECENT_AFTER_START_SECONDS",
    "REFERENCE",
    "RULES",
    "SCHEDULER_LAG_SECONDS",
    "UNBOUND",
    "BindingLabelReaders",
    "ClusterState",
    "Definition",
    "Direction",
    "FeatureGates",
    "Normalization",
    "ObjectsRead",
    "Placement",
    "Plugin",
    "PluginInputs",
    "PodSelector",
    "Preemptions",
    "Rejections",
    "Release",
    "Scheduler",
    "SelectorIndex",
    "UnreadInputs",
    "default_configuration",
    "described",
    "described_score",
    "differing_rules",
    "is_verified",
    "label_match",
    "load_configuration",
    "major_minor",
    "make_scheduler",
    "neutral_plugins",
    "normalize_by_maximum",
    "plugin_queries",
    "pod_requests",
    "queries_of",
    "requested_amounts",
    "tolerates_any",
    "unpredictable_rule",
    "verified_in_words",
    "version_warnings",
    "waiting_pods",
    "why_unverified",
]
