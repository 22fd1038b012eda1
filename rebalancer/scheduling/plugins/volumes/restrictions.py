"""VolumeRestrictions: disks and claims that admit one pod.

Source: kubernetes v1.34.4 pkg/scheduler/framework/plugins/volumerestrictions/volume_restrictions.go:310.
"""

from __future__ import annotations

import msgspec
import numpy as np

from rebalancer.cluster.arrays import IntArray
from rebalancer.cluster.kinds import CLAIMS
from rebalancer.profiles.types import extension_points, inputs_of
from rebalancer.scheduling.framework.plugin import PASS, SKIP, Evidence, Plugin, PreFilter
from rebalancer.scheduling.state.cluster_state import ClusterState, once_a_class
from rebalancer.scheduling.state.counters import PodsWithTerm
from rebalancer.scheduling.state.volumes import ONE_POD, claim_names, marks_of
from rebalancer.scheduling.versions.rules import CLAIM_IN_USE_REASON, ONE_POD_CLAIMS, PREPARED_RESTRICTIONS

_DISK = 1
_CLAIM = 2
_DISK_TAKEN = "node(s) had no available disk"
_CLAIM_IN_USE = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by "
    "another pod"
)
_CLAIM_IN_USE_BEFORE = (
    "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode"
)


class _Conflicts(msgspec.Struct, frozen=True):
    """Of a class: the claim that is missing, the counters of pods with its one-pod claims and its disks."""

    missing: str = ""
    claims: int = -1
    disks: int = -1


class VolumeRestrictions(Plugin):
    """Pods may not write one disk of the old kinds on a node, nor share a ReadWriteOncePod claim at all."""

    name = "VolumeRestrictions"
    needs_pre_filter = PREPARED_RESTRICTIONS
    points = extension_points("preFilter filter")
    kinds_for_claims = (CLAIMS,)
    inputs = inputs_of(*kinds_for_claims)
    evidence = Evidence.DECISIONS

    @once_a_class
    def _conflicts(self, state: ClusterState, pod_class: int) -> _Conflicts:
        pod = state.classes[pod_class]
        volumes = state.classes.volumes
        alone = []
        one_pod = state.classes.release.has(ONE_POD_CLAIMS)
        for name in claim_names(pod.spec) if one_pod else ():
            claim = volumes.claims.get((pod.namespace, name))
            if claim is None:
                return _Conflicts(missing=f'persistentvolumeclaim "{name}" not found')
            if ONE_POD in (claim.spec.access_modes or ()):
                alone.append((("claim", pod.namespace, name), 1))
        disks: set[tuple[object, int]] = set()
        for mark in marks_of(pod.namespace, pod.spec):
            match mark:
                case (disk, bool() as read_only):
                    disks.add(((disk, False), 1))
                    if not read_only:
                        disks.add(((disk, True), 1))
        book = state.classes.counters
        return _Conflicts(
            claims=book.number(PodsWithTerm(frozenset(alone))) if alone else -1,
            disks=book.number(PodsWithTerm(frozenset(disks))) if disks else -1,
        )

    def concerns(self, state: ClusterState, pod_class: int) -> bool:
        return self._conflicts(state, pod_class) != _Conflicts()

    def _claim_in_use(self, state: ClusterState, conflicts: _Conflicts) -> bool:
        return conflicts.claims >= 0 and bool(state.counter(conflicts.claims).any())

    def pre_filter(self, state: ClusterState, pod_class: int) -> PreFilter:
        """A missing claim rejects the pod; nothing to filter without disks and one-pod claims in use."""
        conflicts = self._conflicts(state, pod_class)
        if conflicts.missing:
            return PreFilter(rejected=conflicts.missing)
        if conflicts.disks < 0 and not self._claim_in_use(state, conflicts):
            return SKIP
        return PASS

    def filter(self, state: ClusterState, pod_class: int) -> IntArray:
        """1 where another pod has the disk; 2 everywhere while a pod anywhere uses the claim."""
        conflicts = self._conflicts(state, pod_class)
        codes = np.full(len(state.nodes), _CLAIM if self._claim_in_use(state, conflicts) else 0, np.int64)
        if conflicts.disks >= 0:
            codes[state.counter(conflicts.disks)[:-1] > 0] = _DISK
        return codes

    def reason(self, state: ClusterState, pod_class: int, code: int) -> str:
        if code == _DISK:
            return _DISK_TAKEN
        return _CLAIM_IN_USE if state.classes.release.has(CLAIM_IN_USE_REASON) else _CLAIM_IN_USE_BEFORE
