"""Autoscalers by what they scale."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rebalancer.cluster import times
from rebalancer.cluster.kinds import HORIZONTAL_AUTOSCALERS, VERTICAL_AUTOSCALERS, Kind
from rebalancer.cluster.records import (
    HorizontalAutoscaler,
    HorizontalAutoscalerStatus,
    VerticalAutoscaler,
    Workload,
)
from rebalancer.cluster.snapshot import Snapshot

Target = tuple[str, str, str]  # namespace, kind, name
_LEAVES_REQUESTS_ALONE = "Off"
_DEFAULT_MODE = "Auto"


class Autoscalers:
    """Looks up the autoscalers of a workload and of the controllers above it."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._horizontal: dict[Target, HorizontalAutoscaler] = {}
        self._vertical: dict[Target, VerticalAutoscaler] = {}
        for item in snapshot.recording.records(HORIZONTAL_AUTOSCALERS):
            if isinstance(item, HorizontalAutoscaler):
                target = item.spec.scale_target_ref
                self._horizontal[item.metadata.namespace, target.kind, target.name] = item
        for item in snapshot.recording.records(VERTICAL_AUTOSCALERS):
            if isinstance(item, VerticalAutoscaler):
                target = item.spec.target_ref
                self._vertical[item.metadata.namespace, target.kind, target.name] = item

    @property
    def unread(self) -> Kind | None:
        """The kind of autoscaler that could not be read; an add-on that is not there has none."""
        if not self._snapshot.has(HORIZONTAL_AUTOSCALERS):
            return HORIZONTAL_AUTOSCALERS
        refused = VERTICAL_AUTOSCALERS.plural in self._snapshot.recording.unread
        return VERTICAL_AUTOSCALERS if refused else None

    def of(
        self, chain: Iterable[tuple[str, Workload]], namespace: str
    ) -> Iterator[tuple[str, HorizontalAutoscalerStatus]]:
        """Name and status of what scales any controller of a chain."""
        for kind, record in chain:
            found = self._horizontal.get((namespace, kind, record.metadata.name))
            if found is not None:
                yield f"HorizontalPodAutoscaler {found.metadata.name}", found.status

    def scaling(self, chain: Iterable[tuple[str, Workload]], namespace: str) -> str:
        """The name of what scales any controller of a chain; empty when nothing does."""
        return next((name for name, _ in self.of(chain, namespace)), "")

    @staticmethod
    def scaled_at(status: HorizontalAutoscalerStatus) -> float:
        """Unix seconds of its last change; NaN when it does not say."""
        try:
            return times.parse_optional(status.last_scale_time)
        except ValueError:
            return float("nan")

    def rewriting(self, chain: Iterable[tuple[str, Workload]], namespace: str) -> tuple[str, str] | None:
        """Name and mode of the vertical autoscaler that rewrites the requests of new pods."""
        for kind, record in chain:
            found = self._vertical.get((namespace, kind, record.metadata.name))
            if found is None:
                continue
            policy = found.spec.update_policy
            mode = (policy.update_mode if policy else None) or _DEFAULT_MODE
            if mode != _LEAVES_REQUESTS_ALONE:
                return f"VerticalPodAutoscaler {found.metadata.name}", mode
        return None
