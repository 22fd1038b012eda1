"""Load of the nodes at earlier runs: the window of sources that know only the present."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

import msgspec

MAX_SAMPLES = 100
MAX_SAMPLE_BYTES = 160 << 10

_Name = Annotated[str, msgspec.Meta(max_length=512)]
_Time = Annotated[float, msgspec.Meta(ge=0, le=1e12)]
_Percent = Annotated[float, msgspec.Meta(ge=0, le=1e9)]


class Sample(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """One run: percent of allocatable by resource, then by node; null where there was no figure."""

    at: _Time  # Unix seconds
    percent: dict[_Name, tuple[_Percent | None, ...]]


class LoadSamples(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Samples of the same nodes, oldest first."""

    nodes: tuple[_Name, ...] = ()
    taken: tuple[Sample, ...] = ()

    def of(self, node: str, resource: str) -> list[tuple[float, float]]:
        """(time, percent) of a node and a resource, oldest first."""
        if node not in self.nodes:
            return []
        position = self.nodes.index(node)
        return [
            (sample.at, value)
            for sample in self.taken
            if (value := _at(sample.percent.get(resource, ()), position)) is not None
        ]


def _at(values: Sequence[float | None], position: int) -> float | None:
    return values[position] if position < len(values) else None


def with_sample(
    samples: LoadSamples, at: float, percent: Mapping[str, Mapping[str, float]], window_seconds: float
) -> LoadSamples:
    """The samples with one more, ``percent`` by resource and node; those outside the window are dropped."""
    earlier = [sample for sample in samples.taken if at - window_seconds <= sample.at < at]
    seen = {
        node
        for sample in earlier
        for values in sample.percent.values()
        for node, value in zip(samples.nodes, values, strict=False)
        if value is not None
    }
    nodes = tuple(sorted(seen | {node for found in percent.values() for node in found}))
    added = Sample(
        at=at,
        percent={
            resource: tuple(
                round(min(max(found[node], 0.0), 1e9), 1) if node in found else None for node in nodes
            )
            for resource, found in sorted(percent.items())
        },
    )
    return bounded(_aligned(nodes, [(samples.nodes, sample) for sample in earlier] + [(nodes, added)]))


def bounded(samples: LoadSamples) -> LoadSamples:
    """The newest samples that fit the room there is for them."""
    left = MAX_SAMPLE_BYTES - len(msgspec.json.encode(samples.nodes))
    kept: list[Sample] = []
    for sample in reversed(samples.taken[-MAX_SAMPLES:]):
        left -= len(msgspec.json.encode(sample)) + 1
        if left < 0:
            break
        kept.append(sample)
    return LoadSamples(nodes=samples.nodes if kept else (), taken=tuple(reversed(kept)))


def _aligned(nodes: tuple[str, ...], taken: Sequence[tuple[tuple[str, ...], Sample]]) -> LoadSamples:
    """Samples of other node lists, all over the same nodes."""
    result = []
    for names, sample in taken:
        if names != nodes:
            position = {name: index for index, name in enumerate(names)}
            percent = {
                resource: tuple(_at(values, position[node]) if node in position else None for node in nodes)
                for resource, values in sample.percent.items()
            }
            result.append(Sample(at=sample.at, percent=percent))
        else:
            result.append(sample)
    return LoadSamples(nodes=nodes, taken=tuple(result))
