"""Usage of pods as the Metrics API reports it, packed, because there is one figure for every pod."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import overload

import msgspec

from rebalancer.cluster import records
from rebalancer.cluster.kinds import Kind
from rebalancer.cluster.malformed import TWO_FIGURES, Malformed

_encoder = msgspec.json.Encoder(order="deterministic")
_containers = msgspec.json.Decoder(list[records.ContainerMetrics] | None)
Packed = tuple[str, str, str, str, bytes]
"""namespace, name, timestamp, window, containers in JSON"""


class PackedPodMetrics(Sequence[records.PodMetrics]):
    """Usage of pods, sorted by namespace and name; each record is made when it is asked for."""

    def __init__(self, packed: tuple[Packed, ...]) -> None:
        self.packed = packed

    def __len__(self) -> int:
        return len(self.packed)

    def digest_parts(self) -> Iterator[bytes]:
        """Everything in which this usage may differ from another, independent of how it was read."""
        yield _encoder.encode([found[:-1] for found in self.packed])
        yield b"\n".join(found[-1] for found in self.packed)

    @overload
    def __getitem__(self, at: int) -> records.PodMetrics: ...
    @overload
    def __getitem__(self, at: slice) -> PackedPodMetrics: ...
    def __getitem__(self, at: int | slice) -> records.PodMetrics | PackedPodMetrics:
        """One record, or some of them."""
        return PackedPodMetrics(self.packed[at]) if isinstance(at, slice) else _unpacked(self.packed[at])

    def __iter__(self) -> Iterator[records.PodMetrics]:
        return map(_unpacked, self.packed)


def _unpacked(packed: Packed) -> records.PodMetrics:
    namespace, name, timestamp, window, containers = packed
    metadata = records.Metadata(name=name, namespace=namespace)
    return records.PodMetrics(metadata, timestamp, window, _containers.decode(containers))


class PodMetricsCollector:
    """Collects usage of pods in the order it is read; none of a pod that has two different figures."""

    def __init__(self) -> None:
        self._packed: list[Packed] = []
        self._texts: dict[str, str] = {}

    def add(self, record: records.ApiObject) -> None:
        """Keep what is used of a record."""
        assert isinstance(record, records.PodMetrics)
        metadata, once = record.metadata, self._texts.setdefault
        self._packed.append(
            (
                once(metadata.namespace, metadata.namespace),
                metadata.name,
                once(record.timestamp, record.timestamp),
                once(record.window, record.window),
                _encoder.encode(record.containers),
            )
        )

    def seal(self, kind: Kind) -> tuple[PackedPodMetrics, None, list[Malformed]]:
        """All of it, sorted by namespace and name; of two figures of one pod neither."""
        kept = sorted(set(self._packed))
        doubtful = {low[:2] for low, high in pairwise(kept) if low[:2] == high[:2]}
        twice = [Malformed(kind.name, namespace, name, "", TWO_FIGURES) for namespace, name in doubtful]
        return PackedPodMetrics(tuple(item for item in kept if item[:2] not in doubtful)), None, twice
