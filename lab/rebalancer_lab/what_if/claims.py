"""Claims that each pod to come gets of its own, and whether they leave open where it can run.

A StatefulSet makes a claim of each of its volumeClaimTemplates for each pod, and a generic ephemeral volume
is a claim of its pod. A claim that exists already is that of the pod, wherever its volume is. For one that
does not, its StorageClass decides:

    volumeBindingMode: WaitForFirstConsumer    the scheduler chooses the node, and the volume is made for it
    volumeBindingMode: Immediate               the volume is made first, at a place that its driver chooses

Source: kubernetes v1.35.4 pkg/controller/statefulset/stateful_set_utils.go getPersistentVolumeClaimName,
pkg/controller/volume/ephemeral, pkg/volume/util/storageclass.go GetDefaultClass.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import replace

from rebalancer.cluster import records
from rebalancer.cluster.kinds import CLAIMS, STORAGE_CLASSES
from rebalancer.cluster.pod_classes import PodClass
from rebalancer.cluster.snapshot import Snapshot
from rebalancer.documents import Document, Path
from rebalancer.planning.workloads.stateful_sets import without_own_claims
from rebalancer.scheduling.state.volumes import ON_FIRST_CONSUMER, claims_by_name, class_name

MAX_PODS_WITH_CLAIMS = 250  # each is of a class of its own
_DEFAULT_CLASS = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)


class OwnClaim(msgspec.Struct, frozen=True):
    """A claim that each pod gets of its own, as the file describes it."""

    volume: str  # the name of the volume in the pod
    claim: records.PersistentVolumeClaim
    is_ephemeral: bool  # a generic ephemeral volume, not of a StatefulSet's volumeClaimTemplates

    def name_for(self, pod_name: str) -> str:
        """The name of the claim of a pod."""
        return f"{pod_name}-{self.volume}" if self.is_ephemeral else f"{self.volume}-{pod_name}"


def own_claims_in(document: Document, path: Path, kind: str) -> tuple[OwnClaim, ...]:
    """The claims of each pod; ``path`` is that of the pod template. InputError for what is no claim."""
    claims: list[OwnClaim] = []
    if kind == "StatefulSet":
        listed: Path = ("spec", "volumeClaimTemplates")
        for index, template in enumerate(_list_at(document, listed)):
            claim = _claim(document, template, (*listed, index))
            claims.append(OwnClaim(claim.metadata.name, claim, is_ephemeral=False))
    volumes: Path = (*path, "spec", "volumes")
    for index, volume in enumerate(_list_at(document, volumes)):
        source = volume.get("ephemeral") if isinstance(volume, dict) else None
        template = source.get("volumeClaimTemplate") if isinstance(source, dict) else None
        if template is not None:
            at: Path = (*volumes, index, "ephemeral", "volumeClaimTemplate")
            claims.append(
                OwnClaim(str(volume.get("name")), _claim(document, template, at), is_ephemeral=True)
            )
    return tuple(claims)


def _list_at(document: Document, path: Path) -> list[Any]:
    part: Any = document.value
    for key in path:
        part = part.get(key) if isinstance(part, dict) else None
    return part if isinstance(part, list) else []


def _claim(document: Document, template: Any, path: Path) -> records.PersistentVolumeClaim:
    try:
        return msgspec.convert(template, records.PersistentVolumeClaim, strict=False)
    except msgspec.ValidationError as error:
        raise document.error(path, f"cannot be read: {error}") from error


def without_ephemeral_claims(spec: records.PodSpec) -> records.PodSpec:
    """The spec without its generic ephemeral volumes, each of which is a claim of one pod."""
    volumes = [volume for volume in spec.volumes or () if volume.ephemeral is None]
    return replace(spec, volumes=volumes or None)


def without_claims_of_its_own(pod: PodClass, pod_name: str) -> PodClass:
    """The class of a running pod without the volumes that are its own."""
    pod = without_own_claims(pod, pod_name)
    return replace(pod, spec=without_ephemeral_claims(pod.spec))


def why_not_known(claims: Sequence[OwnClaim], snapshot: Snapshot) -> str:
    """Why it cannot be known where pods with such new claims land; empty where it can."""
    for own in claims:
        if not snapshot.has(STORAGE_CLASSES):
            return f"its volume {own.volume} needs a StorageClass, and storageclasses were not read"
        name = _class_of(own.claim, snapshot)
        classes = snapshot.recording.records(STORAGE_CLASSES)
        storage_class = next((candidate for candidate in classes if candidate.metadata.name == name), None)
        if name is None:
            return f"its volume {own.volume} names no StorageClass, and the cluster has no default class"
        if storage_class is None:
            return f"its volume {own.volume} needs StorageClass {name!a:.70}, which the cluster does not have"
        if storage_class.volume_binding_mode != ON_FIRST_CONSUMER:
            return (
                f"StorageClass {name} makes volume {own.volume} before the pod is placed (volumeBindingMode: "
                "Immediate), and where its driver makes it decides"
            )
    return ""


def _class_of(claim: records.PersistentVolumeClaim, snapshot: Snapshot) -> str | None:
    """The StorageClass of a claim as admission completes it; None where there is no default class."""
    if claim.spec.storage_class_name is not None or class_name(claim):
        return class_name(claim)
    defaults = [
        storage_class.metadata
        for storage_class in snapshot.recording.records(STORAGE_CLASSES)
        if _is_default(storage_class)
    ]
    if not defaults:
        return None
    newest = max(metadata.creation_timestamp or "" for metadata in defaults)
    return min(metadata.name for metadata in defaults if (metadata.creation_timestamp or "") == newest)


def _is_default(storage_class: records.StorageClass) -> bool:
    annotations = storage_class.metadata.annotations or {}
    return any(annotations.get(name) == "true" for name in _DEFAULT_CLASS)


def with_own_claims(
    snapshot: Snapshot, pod: PodClass, claims: Sequence[OwnClaim], pod_names: Sequence[str]
) -> tuple[Snapshot, tuple[PodClass, ...]]:
    """The snapshot with the claims of pods to come, and the class of each of these pods.

    ``pod`` is their class without claims of their own. A claim that exists is left as it is.
    """
    existing = claims_by_name(snapshot)
    new_claims: list[records.PersistentVolumeClaim] = []
    classes: list[PodClass] = []
    for pod_name in pod_names:
        volumes = list(pod.spec.volumes or ())
        for own in claims:
            name = own.name_for(pod_name)
            source = records.ClaimSource(claim_name=name)
            volumes.append(records.Volume(name=own.volume, persistent_volume_claim=source))
            if (pod.namespace, name) not in existing:
                new_claims.append(_new_claim(own.claim, snapshot, pod.namespace, name))
        classes.append(replace(pod, spec=replace(pod.spec, volumes=volumes)))
    if snapshot.has(CLAIMS):
        snapshot = replace(snapshot, recording=snapshot.recording.with_more(CLAIMS, new_claims))
    return snapshot, tuple(classes)


def _new_claim(
    template: records.PersistentVolumeClaim, snapshot: Snapshot, namespace: str, name: str
) -> records.PersistentVolumeClaim:
    metadata = replace(template.metadata, namespace=namespace, name=name, uid=f"asked {namespace}/{name}")
    spec = replace(template.spec, storage_class_name=_class_of(template, snapshot))
    return records.PersistentVolumeClaim(metadata, spec, records.ClaimStatus(phase="Pending"))


def names_of_pods_to_come(
    snapshot: Snapshot, kind: str, namespace: str, name: str, first_ordinal: int, count: int
) -> tuple[str, ...]:
    """What the next pods are called: a StatefulSet numbers them, and passes over those that it has."""
    if kind != "StatefulSet":
        return tuple(f"{name}-new-{number}" for number in range(1, count + 1))
    return tuple(_names_not_taken(snapshot, namespace, name, first_ordinal, count))


def _names_not_taken(
    snapshot: Snapshot, namespace: str, name: str, first_ordinal: int, count: int
) -> Iterator[str]:
    pods = snapshot.pods
    own_classes = [
        number
        for number, pod_class in enumerate(pods.classes)
        if (pod_class.owner.kind, pod_class.owner.name, pod_class.namespace)
        == ("StatefulSet", name, namespace)
    ]
    rows = np.flatnonzero(np.isin(pods.pod_class, own_classes))
    taken = {pods.names[row] for row in rows.tolist()}
    ordinal = first_ordinal
    while count:
        pod_name = f"{name}-{ordinal}"
        if pod_name not in taken:
            count -= 1
            yield pod_name
        ordinal += 1
