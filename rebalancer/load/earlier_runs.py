"""Windows for sources that know only the present: their figure now, and those that earlier runs kept."""

from __future__ import annotations

import dataclasses

import numpy as np

from rebalancer.cluster.arrays import FloatArray
from rebalancer.cluster.nodes import NodeTable
from rebalancer.load.figures.metric_windows import MetricWindow, deviation
from rebalancer.load.figures.node_figures import NodeFigures
from rebalancer.load.report import allocatable_of, named
from rebalancer.state import LoadSamples

_PODS_COLUMN = 2


def knows_only_the_present(figures: NodeFigures, window: MetricWindow) -> bool:
    """Whether a source looks back too little to cover the window."""
    if figures.source == "requests" or not window.seconds:
        return False
    return float(np.max(figures.window_seconds, initial=0.0)) * 2 < window.seconds


def room(nodes: NodeTable, figures: NodeFigures) -> FloatArray:
    """(nodes, resources) what percentages of the figures' resources are of."""
    return np.delete(allocatable_of(nodes, figures.resources, figures.capacity), _PODS_COLUMN, axis=1)


def present_percent(nodes: NodeTable, figures: NodeFigures) -> dict[str, dict[str, float]]:
    """What the state keeps of the figures: percent of allocatable by resource and node."""
    whole = room(nodes, figures)
    percent = np.where(whole > 0, 100.0 * figures.usage / np.where(whole > 0, whole, 1.0), np.nan)
    found = {
        resource: {
            name: float(value)
            for name, value in zip(nodes.names, percent[:, column], strict=True)
            if np.isfinite(value)
        }
        for column, resource in enumerate(figures.resources)
    }
    return {resource: values for resource, values in found.items() if values}


def over_earlier_runs(
    figures: NodeFigures, nodes: NodeTable, samples: LoadSamples | None, window: MetricWindow, now: float
) -> NodeFigures:
    """The window's statistic over the samples of earlier runs and the present; unknown stays unknown."""
    if samples is None:
        lack = f"no state of earlier runs: load.window {window.seconds:g} s is not covered"
        return dataclasses.replace(figures, warnings=(*figures.warnings, f"{figures.source}: {lack}"))
    usage, spread = figures.usage.copy(), np.full(figures.usage.shape, np.nan)
    own = figures.window_seconds
    windows = np.broadcast_to(own[:, None] if own.ndim == 1 else own, usage.shape).copy()
    whole = room(nodes, figures)
    brief: list[str] = []
    table = {node: position for position, node in enumerate(samples.nodes)}
    for row, name in enumerate(nodes.names):
        oldest = now
        for column, resource in enumerate(figures.resources):
            if np.isnan(usage[row, column]) or not whole[row, column] > 0 or name not in table:
                continue
            earlier = [
                (sample.at, values[table[name]])
                for sample in samples.taken
                if now - window.seconds <= sample.at < now
                and len(values := sample.percent.get(resource, ())) > table[name]
            ]
            past = [(at, value) for at, value in earlier if value is not None]
            points = np.array([value / 100 * whole[row, column] for _, value in past] + [usage[row, column]])
            usage[row, column] = window.of_resource(resource).of(points)
            spread[row, column] = deviation(points)
            begun = min((at for at, _ in past), default=now)
            windows[row, column] += now - begun
            oldest = min(oldest, begun)
        if not np.isnan(usage[row]).all() and (now - oldest) * 2 < window.seconds:
            brief.append(name)
    warnings = list(figures.warnings)
    if brief:
        warnings.append(f"{figures.source}: earlier runs cover less than half the window for {named(brief)}")
    return dataclasses.replace(
        figures,
        usage=usage,
        deviation=spread,
        window_seconds=windows,
        statistic=window.statistic,
        statistics=window.by_resource,
        warnings=tuple(warnings),
    )
