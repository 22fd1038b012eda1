"""VolumeZone: volumes labelled with a zone or region.

Source: kubernetes v1.34.4 pkg/scheduler/framework/plugins/volumezone/volume_zone.go:191.
"""

from __future__ import annotations

import msgspec
import numpy as np

from rebalancer.cluster.arrays import BoolArray, IntArray
from rebalancer.cluster.kinds import CLAIMS, PERSISTENT_VOLUMES, STORAGE_CLASSES
from rebalancer.cluster.records import PersistentVolume
from rebalancer.profiles.types import extension_points, inputs_of
from rebalancer.scheduling.framework.plugin import PASS, SKIP, Evidence, Plugin, PreFilter
from rebalancer.scheduling.state.cluster_state import ClusterState, once_a_class
from rebalancer.scheduling.state.volumes import ON_FIRST_CONSUMER, claim_names, class_name
from rebalancer.scheduling.versions.rules import ZONES_BY_EITHER_LABEL, ZONES_ON_EACH_NODE

# Each key, and the one a node may carry in its place.
_KEYS = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region": "topology.kubernetes.io/region",
}
_DELIMITER = "__"
_REJECTED = 2


class _Zones(msgspec.Struct, frozen=True):
    """Where the volumes of a class are: a label key and the values it may have, for each volume and key."""

    rejected: str  # why a claim rejects the pod
    required: tuple[tuple[str, frozenset[str]], ...]  # of the volumes before that claim


def _zones(volume: PersistentVolume) -> list[tuple[str, frozenset[str]]]:
    labels = volume.metadata.labels or {}
    zones = []
    for key in _KEYS:
        values = [value.strip() for value in labels[key].split(_DELIMITER)] if key in labels else []
        if values and all(values):
            zones.append((key, frozenset(values)))
    return zones


class VolumeZone(Plugin):
    """A node that has zone labels at all must carry a value of each label of the pod's bound volumes."""

    name = "VolumeZone"
    points = extension_points("preFilter filter")
    kinds_for_claims = (CLAIMS, PERSISTENT_VOLUMES, STORAGE_CLASSES)
    inputs = inputs_of(*kinds_for_claims)
    evidence = Evidence.DECISIONS
    static = True
    reasons = {1: "node(s) had no available volume zone"}

    @once_a_class
    def _required(self, state: ClusterState, pod_class: int) -> _Zones:
        pod = state.classes[pod_class]
        volumes = state.classes.volumes
        required: list[tuple[str, frozenset[str]]] = []
        for name in claim_names(pod.spec):
            claim = volumes.claims.get((pod.namespace, name))
            if not name or claim is None:
                return _Zones(f'persistentvolumeclaim "{name}" not found', tuple(required))
            if claim.spec.volume_name:
                volume = volumes.volumes.get(claim.spec.volume_name)
                if volume is None:
                    return _Zones(f'persistentvolume "{claim.spec.volume_name}" not found', tuple(required))
                required += _zones(volume)
                continue
            kind = class_name(claim)
            if not kind:
                return _Zones("PersistentVolumeClaim had no pv name and storageClass name", tuple(required))
            if kind not in volumes.classes:
                return _Zones(f'storageclass.storage.k8s.io "{kind}" not found', tuple(required))
            if volumes.classes[kind].volume_binding_mode != ON_FIRST_CONSUMER:
                return _Zones("PersistentVolume had no name", tuple(required))
        return _Zones("", tuple(required))

    def pre_filter(self, state: ClusterState, pod_class: int) -> PreFilter:
        zones = self._required(state, pod_class)
        if state.classes.release.has(ZONES_ON_EACH_NODE):
            return PASS
        if zones.rejected:
            return PreFilter(rejected=zones.rejected)
        return PASS if zones.required else SKIP

    def _has(self, state: ClusterState, key: str, values: frozenset[str]) -> BoolArray:
        """(nodes,) carries one of the values; the newer key counts where the older is absent."""
        labels = state.nodes.labels
        if not state.classes.release.has(ZONES_BY_EITHER_LABEL):
            return labels.among(key, values)
        missing = labels.column(key).values < 0
        return np.where(missing, labels.among(_KEYS[key], values), labels.among(key, values))

    def filter(self, state: ClusterState, pod_class: int) -> IntArray:
        """1 where a label is missing or has another value; a node with none of the labels passes.

        2 where, up to 1.26, a claim rejects the pod.
        """
        labelled = np.zeros(len(state.nodes), np.bool_)
        fits = np.ones(len(state.nodes), np.bool_)
        for key in _KEYS:
            labelled |= state.nodes.labels.column(key).values >= 0
        zones = self._required(state, pod_class)
        if zones.rejected and not state.classes.release.has(ZONES_ON_EACH_NODE):
            return np.zeros(len(state.nodes), np.int64)  # no node is looked at
        for key, values in zones.required:
            fits &= self._has(state, key, values)
        codes = (labelled & ~fits).astype(np.int64)
        if zones.rejected:
            codes[labelled & fits] = _REJECTED
        return codes

    def reason(self, state: ClusterState, pod_class: int, code: int) -> str:
        return self._required(state, pod_class).rejected if code == _REJECTED else self.reasons[code]
