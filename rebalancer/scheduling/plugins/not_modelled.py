"""Known plugins without a model: they run elsewhere in the cycle, or are taken to be neutral.

Source: kubernetes v1.34.4 pkg/scheduler/apis/config/v1/default_plugins.go:30.
"""

from __future__ import annotations

from pydantic import Field

from rebalancer.profiles.arguments import Arguments
from rebalancer.profiles.types import ExtensionPoint as P
from rebalancer.profiles.types import Input, PluginDescription


class DefaultPreemptionArguments(Arguments):
    """Arguments of DefaultPreemption; accepted, though preemption is not modelled."""

    min_candidate_nodes_percentage: int = Field(default=10, ge=0, le=100)
    min_candidate_nodes_absolute: int = Field(default=100, ge=0)


NOT_MODELLED = (
    PluginDescription("SchedulingGates", frozenset({P.PRE_ENQUEUE})),
    PluginDescription("PrioritySort", frozenset({P.QUEUE_SORT})),
    PluginDescription(
        "DefaultPreemption", frozenset({P.PRE_ENQUEUE, P.POST_FILTER}), DefaultPreemptionArguments
    ),
    PluginDescription("DefaultBinder", frozenset({P.BIND})),
    PluginDescription("NodeDeclaredFeatures", frozenset({P.PRE_FILTER, P.FILTER})),
    PluginDescription("GangScheduling", frozenset({P.PRE_ENQUEUE, P.RESERVE, P.PERMIT})),
    PluginDescription(
        "CinderLimits",
        frozenset({P.FILTER}),
        inputs=frozenset(
            {
                Input.NODES,
                Input.PODS,
                Input.PERSISTENT_VOLUME_CLAIMS,
                Input.PERSISTENT_VOLUMES,
                Input.STORAGE_CLASSES,
            }
        ),
        versions=frozenset({"v1beta1", "v1beta2", "v1beta3"}),
    ),
    PluginDescription(
        "SelectorSpread",
        frozenset({P.PRE_SCORE, P.SCORE}),
        inputs=frozenset(
            {
                Input.NODES,
                Input.PODS,
                Input.SERVICES,
                Input.REPLICA_SETS,
                Input.STATEFUL_SETS,
                Input.REPLICATION_CONTROLLERS,
            }
        ),
        versions=frozenset({"v1beta1", "v1beta2"}),
    ),
)
"""Descriptions of the known plugins without a class."""
