"""Whom the descheduler's LowNodeUtilization would evict: what every policy is compared with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np

from rebalancer.cluster.arrays import FloatArray, PodRow
from rebalancer.cluster.pod_classes import PodClass
from rebalancer.documents import parse
from rebalancer.errors import InputError
from rebalancer.planning.eviction import why_protected
from rebalancer.planning.prepared import PreparedInputs

_ANY = 100.0  # percent: a target that is not set


class LowNodeUtilization(msgspec.Struct, frozen=True):
    """The plugin's arguments; percent of allocatable of cpu and memory, None where they follow a policy."""

    thresholds: tuple[float, float] = (50.0, 50.0)  # a node below all of them may take pods
    targets: tuple[float, float] | None = None  # a node above one of them is to lose pods
    deviation: bool = False  # both are points from the mean of the nodes
    by_requests: bool = True  # False: by what metrics-server measured
    more_low_than: int = 0  # numberOfNodes: nothing moves where no more nodes are low
    per_node: int | None = None
    in_all: int | None = None

    def evictions(self, prepared: PreparedInputs) -> list[PodRow]:
        """Lowest priority first, then BestEffort before Burstable before Guaranteed, while headroom is left.

        Headroom is shared: the sum of what the low nodes lack to the targets. A pod must fit on any other
        node. Without targets those of the policy count, and its protections always do.
        """
        state = prepared.schedulers.state
        measured = prepared.inputs.load
        classes = state.classes
        requested = np.array(
            [classes.present[kind][:2] for kind in prepared.pods.pod_class.tolist()], np.float64
        ).reshape(-1, 2)
        by_requests = self.by_requests
        usage = state.requested[:, :2].astype(np.float64) if by_requests else measured.usage[:, :2]
        amounts = requested if by_requests else measured.pod_usage[:, :2]
        allocatable = np.maximum(measured.allocatable[:, :2], 1e-9)
        percent = 100.0 * usage / allocatable
        target = (
            np.minimum(prepared.hotness.hot_above[:, :2], _ANY)
            if self.targets is None
            else np.broadcast_to(np.array(self.targets), percent.shape)
        )
        thresholds = np.array(self.thresholds)
        if self.deviation and self.targets is not None:
            mean = np.nanmean(percent, axis=0)
            target = np.minimum(mean + target, _ANY)
            thresholds = np.maximum(mean - thresholds, 0.0)
        low = (percent < thresholds).all(axis=1) & ~classes.nodes.unschedulable
        if int(low.sum()) <= self.more_low_than and self.more_low_than:
            return []
        headroom = np.sum((target - percent)[low] / 100.0 * allocatable[low], axis=0)
        high = np.flatnonzero((percent > target).any(axis=1)).tolist()
        chosen: list[PodRow] = []
        for node in sorted(high, key=lambda node: -float(percent[node].sum())):
            level = usage[node].copy()
            taken = 0
            for row in sorted(evictable(prepared, node), key=lambda row: _order(prepared, row)):
                over: FloatArray = 100.0 * level / allocatable[node] > target[node]
                if not over.any() or (headroom <= 0).any() or taken == self.per_node:
                    break
                if len(chosen) == self.in_all:
                    return chosen
                kind = state.pod_class[row]
                fits = prepared.schedulers.likely_scheduler(kind).feasible(state, kind)
                fits[node] = False
                if not fits.any():
                    continue
                level -= np.nan_to_num(amounts[row])
                headroom = headroom - np.nan_to_num(amounts[row])
                chosen.append(row)
                taken += 1
        return chosen


_MODELLED_ARGUMENTS = frozenset(
    {"thresholds", "targetThresholds", "useDeviationThresholds", "metricsUtilization", "numberOfNodes"}
) | {"evictionLimits"}


def read_descheduler(text: str, source: str) -> tuple[LowNodeUtilization, tuple[str, ...]]:
    """The plugin as a DeschedulerPolicy configures it, and what of it has no part in a replay.

    Raises InputError where the text is none, or does not configure the plugin.
    """
    value = parse(text, source).value
    try:
        profiles = value["profiles"]
        configured = [
            entry["args"]
            for profile in profiles
            for entry in profile["pluginConfig"]
            if entry["name"] == "LowNodeUtilization"
        ]
        arguments: Mapping[str, Any] = configured[0]
        metrics = arguments.get("metricsUtilization") or {}
        rule = LowNodeUtilization(
            thresholds=_percentages(arguments.get("thresholds")),
            targets=_percentages(arguments.get("targetThresholds")),
            deviation=bool(arguments.get("useDeviationThresholds", False)),
            by_requests=not (metrics.get("metricsServer") or metrics.get("source")),
            more_low_than=int(arguments.get("numberOfNodes") or 0),
            per_node=_limit((arguments.get("evictionLimits") or {}).get("node"))
            or _limit(value.get("maxNoOfPodsToEvictPerNode")),
            in_all=_limit(value.get("maxNoOfPodsToEvictTotal")),
        )
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise InputError(
            "is no DeschedulerPolicy that configures LowNodeUtilization",
            where=source,
            hint="give one of apiVersion descheduler/v1alpha2",
        ) from error
    return rule, tuple(
        f"{source}: {name} has no part in a replay" for name in sorted(set(arguments) - _MODELLED_ARGUMENTS)
    )


def _percentages(value: Any) -> tuple[float, float]:
    given = dict(value or {})
    return float(given.get("cpu", _ANY)), float(given.get("memory", _ANY))


def _limit(value: Any) -> int | None:
    return None if value is None else int(value)


def evictable(prepared: PreparedInputs, node: int) -> list[PodRow]:
    """Rows of the pods on a node that nothing protects."""
    rows = prepared.pods.by_node.get(node, np.zeros(0, np.int64)).tolist()
    return [PodRow(row) for row in rows if why_protected(prepared.eviction, PodRow(row)) is None]


def _order(prepared: PreparedInputs, row: PodRow) -> tuple[int, int, str]:
    pod = prepared.pods.class_of(row)
    return pod.priority, _quality_of_service(pod), prepared.pods.full_name(row)


def _quality_of_service(pod: PodClass) -> int:
    """0 BestEffort, 1 Burstable, 2 Guaranteed."""
    pairs: list[tuple[Mapping[str, str], Mapping[str, str]]] = []
    for container in pod.spec.containers or ():
        resources = container.resources
        if resources is None:
            pairs.append(({}, {}))
        else:
            pairs.append((resources.requests or {}, resources.limits or {}))
    if not any(requests or limits for requests, limits in pairs):
        return 0
    guaranteed = all(
        limits.get(name) and requests.get(name, limits[name]) == limits[name]
        for requests, limits in pairs
        for name in ("cpu", "memory")
    )
    return 2 if guaranteed else 1
