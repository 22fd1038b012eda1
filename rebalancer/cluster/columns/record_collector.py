"""Collects the records of one kind as they are read, without annotations that nothing uses."""

from __future__ import annotations

from functools import lru_cache

import msgspec

from rebalancer.cluster import records
from rebalancer.cluster.kinds import Kind
from rebalancer.cluster.malformed import Malformed, listed_twice

_ANNOTATION_DOMAINS = frozenset({"kubernetes.io", "k8s.io", "karpenter.sh"})
_ANNOTATION_SUBDOMAINS = (".kubernetes.io", ".k8s.io", ".karpenter.sh")
# Of the others: who applies an object and may undo a change, and which restart a pod comes from.
_NAMES_KEPT = frozenset({"argocd.argoproj.io/tracking-id", "kubectl.kubernetes.io/restartedAt"})
_MAX_VERSION_LENGTH = 40
_MAX_SHARED_IMAGES = 1 << 17
_encoder = msgspec.json.Encoder(order="deterministic")


def key_of(record: records.Record) -> tuple[str, str]:
    """Namespace and name."""
    metadata = records.metadata_of(record)
    return metadata.namespace, metadata.name


@lru_cache(maxsize=4096)
def _kept(annotation: str) -> bool:
    """Whether an annotation may affect scheduling or eviction.

    The others are forgotten: some are long, and some hold secrets (kubectl's last-applied-configuration
    repeats every environment variable).
    """
    if annotation in _NAMES_KEPT:
        return True
    domain = annotation.partition("/")[0]
    if domain == "kubectl.kubernetes.io":
        return False
    return domain in _ANNOTATION_DOMAINS or domain.endswith(_ANNOTATION_SUBDOMAINS)


def _without_other_annotations(metadata: records.Metadata) -> records.Metadata:
    annotations = metadata.annotations or {}
    if all(map(_kept, annotations)):
        return metadata
    kept = {name: value for name, value in annotations.items() if _kept(name)}
    return msgspec.structs.replace(metadata, annotations=kept or None)


def _slim(record: records.Record) -> records.Record:
    metadata = records.metadata_of(record)
    slim = _without_other_annotations(metadata)
    if slim is not metadata:
        record = msgspec.structs.replace(record, metadata=slim)
    if isinstance(record, records.Workload) and record.spec.template is not None:
        template = record.spec.template
        slim = _without_other_annotations(template.metadata)
        if slim is not template.metadata:
            template = msgspec.structs.replace(template, metadata=slim)
            record = msgspec.structs.replace(
                record, spec=msgspec.structs.replace(record.spec, template=template)
            )
    return record


def _rank(record: records.Record) -> tuple[int, bytes]:
    """Of two versions of an object the newer one counts, whichever came first."""
    version = records.metadata_of(record).resource_version
    usable = version.isascii() and version.isdigit() and len(version) < _MAX_VERSION_LENGTH
    return int(version) if usable else -1, _encoder.encode(record)


class RecordCollector:
    """Collects the records of a kind as they come."""

    def __init__(self) -> None:
        self._by_key: dict[tuple[str, str], records.Record] = {}
        self._older: list[records.Record] = []
        self._images: dict[tuple[int, tuple[str, ...] | None], records.NodeImage] = {}

    def __len__(self) -> int:
        return len(self._by_key)

    def add(self, record: records.Record) -> None:
        """Keep a record."""
        record = self._slim(record)
        key = key_of(record)
        found = self._by_key.setdefault(key, record)
        if found is record or found == record:
            return
        newer, older = (record, found) if _rank(found) < _rank(record) else (found, record)
        self._by_key[key] = newer
        self._older.append(older)

    def replace(self, record: records.Record) -> None:
        """Keep a record in place of the one of its name."""
        record = self._slim(record)
        self._by_key[key_of(record)] = record

    def remove(self, key: tuple[str, str]) -> None:
        """Forget the record of this namespace and name, where there is one."""
        self._by_key.pop(key, None)

    def version_of(self, key: tuple[str, str]) -> str:
        """The version of the record of this namespace and name; empty without one."""
        found = self._by_key.get(key)
        return records.metadata_of(found).resource_version if found is not None else ""

    def latest(self) -> tuple[records.Record, ...]:
        """All records, sorted by namespace and name."""
        return tuple(self._by_key[key] for key in sorted(self._by_key))

    def _slim(self, record: records.Record) -> records.Record:
        record = _slim(record)
        return self._sharing_images(record) if isinstance(record, records.Node) else record

    def _sharing_images(self, node: records.Node) -> records.Node:
        """The same node; an image that other nodes have too is kept once."""
        if len(self._images) > _MAX_SHARED_IMAGES:  # of nodes that have long forgotten them
            self._images.clear()
        images = [
            self._images.setdefault(
                (image.size_bytes, None if image.names is None else tuple(image.names)), image
            )
            for image in node.status.images or ()
        ]
        if not images:
            return node
        return msgspec.structs.replace(node, status=msgspec.structs.replace(node.status, images=images))

    def seal(self, kind: Kind) -> tuple[tuple[records.Record, ...], None, list[Malformed]]:
        """All records, sorted by namespace and name."""
        return self.latest(), None, [listed_twice(kind, record) for record in self._older]
