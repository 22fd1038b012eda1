"""Which kinds a pod's verdict needs and that were not read: such a pod cannot be predicted (DESIGN §4)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from rebalancer.cluster.columns.pod_classes import PodClass
from rebalancer.cluster.kinds import (
    CLAIMS,
    CSI_CAPACITIES,
    CSI_DRIVERS,
    CSI_NODES,
    NAMESPACES,
    PERSISTENT_VOLUMES,
    SERVICES,
    STORAGE_CLASSES,
    VOLUME_ATTACHMENTS,
    Kind,
)
from rebalancer.cluster.records import PersistentVolumeClaim
from rebalancer.cluster.snapshot import Snapshot
from rebalancer.profiles.arguments import PodTopologySpreadArguments
from rebalancer.profiles.types import ExtensionPoint, Profile
from rebalancer.scheduling.matching.affinity_terms import AffinityTerm, terms_of
from rebalancer.scheduling.matching.owners import OWNER_KINDS
from rebalancer.scheduling.state.volumes import claim_names, is_bound

_OLD_DISKS = {"EBSLimits": "aws_elastic_block_store", "GCEPDLimits": "gce_persistent_disk"}
# What each volume plugin looks at for a pod with claims.
_FOR_CLAIMS: dict[str, tuple[Kind, ...]] = {
    "VolumeRestrictions": (CLAIMS,),
    "VolumeZone": (CLAIMS, PERSISTENT_VOLUMES, STORAGE_CLASSES),
    "VolumeBinding": (CLAIMS, PERSISTENT_VOLUMES, STORAGE_CLASSES),
    "NodeVolumeLimits": (CLAIMS, PERSISTENT_VOLUMES, STORAGE_CLASSES, CSI_NODES, VOLUME_ATTACHMENTS),
}


def unread_inputs(profile: Profile, pod: PodClass, snapshot: Snapshot) -> tuple[str, ...]:
    """The kinds, by plural, that the verdict on a pod of this class needs and that were not read; sorted.

    Also what is never read: the claims of generic ephemeral volumes, which are named after a pod that does
    not exist yet, and the limits of disks that are not behind a CSI driver.
    """
    missing = {kind.plural for kind in _needed(profile, pod, snapshot) if not snapshot.has(kind)}
    missing.update(_never_read(profile, pod))
    return tuple(sorted(missing))


def _needed(profile: Profile, pod: PodClass, snapshot: Snapshot) -> Iterator[Kind]:
    filters = profile.enabled(ExtensionPoint.FILTER)
    scores = profile.enabled(ExtensionPoint.SCORE)
    if "PodTopologySpread" in (*filters, *scores) and _has_default_constraints(profile, pod):
        yield SERVICES
        kind = OWNER_KINDS.get((pod.owner.api_version, pod.owner.kind))
        if kind is not None:
            yield kind
    unknown_namespaces = "InterPodAffinity" in (*filters, *scores) and not snapshot.has(NAMESPACES)
    if unknown_namespaces and _namespaces_matter(pod, snapshot):
        yield NAMESPACES
    if pod.spec.volumes and claim_names(pod.spec):
        for plugin in filters:
            yield from _FOR_CLAIMS.get(plugin, ())
        if "VolumeBinding" in filters and not _all_bound(pod, snapshot):
            yield CSI_DRIVERS
            yield CSI_CAPACITIES


def _has_default_constraints(profile: Profile, pod: PodClass) -> bool:
    if pod.spec.topology_spread_constraints:
        return False
    arguments = profile.argument("PodTopologySpread")
    if not isinstance(arguments, PodTopologySpreadArguments) or arguments.defaulting_type == "System":
        return "PodTopologySpread" in profile.enabled(ExtensionPoint.SCORE)
    return bool(arguments.default_constraints)


def _is_selective(term: AffinityTerm) -> bool:
    return term.namespace_selector is not None and not term.namespace_selector.is_empty


@lru_cache(maxsize=4)
def _selective_terms(snapshot: Snapshot) -> frozenset[AffinityTerm]:
    """The terms of any pod that look at namespaces' labels."""
    return frozenset(
        term for pod in snapshot.pods.classes for term, _ in terms_of(pod) if _is_selective(term)
    )


def _namespaces_matter(pod: PodClass, snapshot: Snapshot) -> bool:
    """Whether a term of the pod, or one of another pod that may select it, looks at namespaces' labels."""
    if any(_is_selective(term) for term, _ in terms_of(pod)):
        return True
    return any(
        term.labels is not None and term.labels.matches(pod.labels) for term in _selective_terms(snapshot)
    )


@lru_cache(maxsize=4)
def _bound_claims(snapshot: Snapshot) -> frozenset[tuple[str, str]]:
    """Namespace and name of the claims that are bound."""
    claims = snapshot.recording.records(CLAIMS)
    return frozenset(
        (item.metadata.namespace, item.metadata.name)
        for item in claims
        if isinstance(item, PersistentVolumeClaim) and is_bound(item)
    )


def _all_bound(pod: PodClass, snapshot: Snapshot) -> bool:
    bound = _bound_claims(snapshot)
    return all((pod.namespace, name) in bound for name in claim_names(pod.spec))


def _never_read(profile: Profile, pod: PodClass) -> Iterator[str]:
    for volume in pod.spec.volumes or ():
        if volume.ephemeral is not None:
            yield f"the claim of its ephemeral volume {volume.name}"
        for plugin, source in _OLD_DISKS.items():
            if plugin in profile.plugin_names and getattr(volume, source) is not None:
                yield f"the limits that {plugin} keeps"
