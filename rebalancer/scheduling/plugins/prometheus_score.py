"""A score that is a PromQL result, so that a metric-driven plugin is mirrored without code."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

import msgspec
import numpy as np

from rebalancer.cluster.arrays import BoolArray, FloatArray, IntArray
from rebalancer.profiles.types import (
    Arguments,
    ExtensionPoint,
    Input,
    PluginDescription,
    PluginQuery,
    RawArguments,
    extension_points,
)
from rebalancer.scheduling.framework.plugin import EXCLUDED, MAX_SCORE, Normalization, Plugin, PluginInputs
from rebalancer.scheduling.state.cluster_state import ClusterState, once_a_cluster

_LARGEST = float(1 << 55)  # so that 100 times a value is an int64


class Direction(StrEnum):
    """Which values are better."""

    HIGHER = "higher"
    LOWER = "lower"


class Definition(msgspec.Struct, frozen=True):
    """A plugin's score: what it asks, and how a value becomes a score."""

    plugin: str
    query: PluginQuery
    direction: Direction = Direction.LOWER
    normalization: Normalization = Normalization.RANGE
    scale: float = 1.0
    missing_score: int | None = None  # of a node without a value; None: unknown
    resource: str = ""  # whose use the value follows


def described_score(definition: Definition) -> PluginDescription:
    """The description of the plugin, which may be enabled for scores only; its arguments are not read."""

    def make(_arguments: Arguments | None, inputs: PluginInputs) -> Plugin:
        key = definition.query.address, definition.query.query
        return PrometheusScore(definition, inputs.view.queries.get(key, {}))

    return PluginDescription(
        name=definition.plugin,
        points=frozenset({ExtensionPoint.PRE_SCORE, ExtensionPoint.SCORE}),
        arguments=RawArguments,
        inputs=frozenset((Input.NODES, Input.PODS, Input.PROMETHEUS)),
        make=make,
        queries=(definition.query,),
        every_node=definition.missing_score is None,
        scored_resources=frozenset(filter(None, (definition.resource,))),
    )


class QueriedScore(Plugin):
    """A score by the result of a PromQL query: one value a node."""

    static = True
    missing_score: int | None = None  # of a node without a value; None: its cycle fails

    def __init__(self, values: Mapping[str, float]) -> None:
        """``values`` by node name."""
        self._values = values

    @once_a_cluster
    def values_of_nodes(self, state: ClusterState) -> FloatArray:
        """(nodes,) NaN where there is no value."""
        return np.array([self._values.get(name, np.nan) for name in state.nodes.names], np.float64)

    def without_value(self, state: ClusterState, feasible: IntArray) -> str:
        """The first of these nodes that has no value; empty when all have one."""
        missing = np.flatnonzero(np.isnan(self.values_of_nodes(state)[feasible]))
        return state.nodes.names[feasible[missing[0]]] if len(missing) else ""

    def has_figures(self, state: ClusterState, pod_class: int) -> BoolArray:
        return ~np.isnan(self.values_of_nodes(state))


class PrometheusScore(QueriedScore):
    """Scores trunc(value · scale): relative to range or maximum of the nodes compared, or as it is."""

    points = extension_points("preScore score")
    normalization = Normalization.RANGE

    def __init__(self, definition: Definition, values: Mapping[str, float]) -> None:
        """``values`` by node name."""
        super().__init__(values)
        self.name = definition.plugin
        self.normalization = (
            Normalization.EACH if definition.normalization is Normalization.NONE else definition.normalization
        )
        self._higher = definition.direction is Direction.HIGHER
        self._scale = definition.scale
        self.missing_score = definition.missing_score

    def fails(self, state: ClusterState, pod_class: int, feasible: IntArray) -> str:
        """A compared node without a value fails the cycle, unless ``missing_score`` is given."""
        if self.missing_score is not None:
            return ""
        missing = self.without_value(state, feasible)
        return f"no value of node {missing}" if missing else ""

    def raw_scores(self, state: ClusterState, pod_class: int, feasible: IntArray) -> IntArray:
        """trunc(value · scale); nodes without a value take no part in the extremes."""
        values = self.values_of_nodes(state)[feasible]
        scaled = np.clip(np.nan_to_num(values, nan=0.0) * self._scale, -_LARGEST, _LARGEST)
        return np.where(np.isnan(values), EXCLUDED, np.trunc(scaled).astype(np.int64))

    def normalize(self, raw: IntArray, smallest: int, largest: int) -> IntArray:
        """100·(raw−min) ÷ (max−min), 100·raw ÷ max, or raw; 100 less that when lower is better."""
        has_figure = raw != EXCLUDED
        figures = np.where(has_figure, raw, 0)
        match self.normalization:
            case Normalization.EACH:
                scores = np.clip(figures, 0, MAX_SCORE)
            case Normalization.MAXIMUM:
                positive = np.maximum(figures, 0)
                scores = MAX_SCORE * positive // largest if largest > 0 else np.zeros_like(raw)
            case _:
                above = np.where(has_figure, raw - np.where(has_figure, smallest, 0), 0)
                width = largest - smallest
                scores = MAX_SCORE * above // width if width > 0 else np.zeros_like(raw)
        scores = scores if self._higher else MAX_SCORE - scores
        return np.where(has_figure, scores, self.missing_score or 0)
