"""Pods in protobuf, straight into columns, without a record of each.

Most of what is written of a pod repeats what is written of its siblings. So a pod is decoded only in outline
(``PodOutline`` of ``pods.proto``): its name, node and times become fields, and what the pods of a class share
stays bytes. Only where those bytes are new is the whole pod decoded, and its class built and checked.

    web-1   node a   labels 0x5a…, spec 0x0a…   new: decode the pod; class 0
    web-2   node b   labels 0x5a…, spec 0x0a…   known: class 0
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rebalancer.cluster import times
from rebalancer.cluster.kinds import Kind
from rebalancer.cluster.malformed import Malformed, admitted, check_names
from rebalancer.cluster.pods import (
    FINISHED,
    HONOURED_ANNOTATIONS,
    PHASE_INDEX,
    UNKNOWN_PHASE,
    PodFields,
    PodIntake,
    read_conditions,
    version_number,
)
from rebalancer.cluster.wire.json_items import Page
from rebalancer.cluster.wire.protobuf_records import parse, to_record

if TYPE_CHECKING:
    from rebalancer.cluster.wire import pods_pb2

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
MAGIC = b"k8s\x00"  # before every answer of an API server
Pods = Sequence["pods_pb2.PodOutline | bytes"]
"""Pods of a list; the bytes of one that cannot be decoded."""
_MAX_CACHED_CLASSES = 1 << 16
# A volume that admission adds: a name of a fixed length, which is each pod's own.
_TOKEN_NAME = re.compile(rb"\x0a\x15(kube-api-access-[a-z0-9]{5})\x12", re.ASCII)


def decode_answer(body: bytes) -> tuple[Page, Pods]:
    """A LIST of pods as an API server answers it: its head, and its pods.

    Raises ValueError when it is none. A pod that cannot be decoded stays encoded: the others count.
    """
    from rebalancer.cluster.wire import pods_pb2  # noqa: PLC0415 - as in ``parse``

    if not body.startswith(MAGIC):
        raise ValueError("not protobuf of an API server")
    encoded = body[len(MAGIC) :]
    answer: pods_pb2.Answer | pods_pb2.AnswerOfEncodedPods
    pods: Pods
    try:
        answer = parse(pods_pb2.Answer, encoded)
        pods = answer.raw.items
    except ValueError:
        answer = parse(pods_pb2.AnswerOfEncodedPods, encoded)
        pods = [outline_if_any(item) for item in answer.raw.items]
    kind, metadata = answer.type_meta.kind, answer.raw.metadata
    version, token = metadata.resource_version, metadata.continue_token
    return Page(kind, answer.type_meta.api_version, [], version, token, kind.endswith("List")), pods


def outline_if_any(item: bytes) -> pods_pb2.PodOutline | bytes:
    """A pod in outline; its bytes where they are none."""
    from rebalancer.cluster.wire import pods_pb2  # noqa: PLC0415 - as in ``parse``

    try:
        return parse(pods_pb2.PodOutline, item)
    except ValueError:
        return item


class ProtobufPods:
    """Puts the pods of lists and events into columns."""

    def __init__(self, kind: Kind, collector: PodIntake) -> None:
        from rebalancer.cluster.wire import pods_pb2  # noqa: PLC0415 - as in ``parse``

        self._messages = pods_pb2
        self._kind = kind
        self._collector = collector
        self._classes: dict[tuple[object, ...], int] = {}

    def add(self, pod: pods_pb2.PodOutline | bytes, position: int) -> Malformed | None:
        """Keep a pod; one that is malformed is returned, identified as far as possible."""
        if isinstance(pod, bytes):
            try:
                identity = parse(self._messages.PodIdentity, pod)
            except ValueError:
                identity = self._messages.PodIdentity()
            return self._malformed(identity, position, "not protobuf: no Pod")
        try:
            self._keep(pod)
        except ValueError as error:
            return self._malformed(pod, position, str(error))
        return None

    def _malformed(
        self, pod: pods_pb2.PodOutline | pods_pb2.PodIdentity, position: int, reason: str
    ) -> Malformed:
        namespace, name, node_name = (
            text if admitted(text) else ""
            for text in (pod.metadata.namespace, pod.metadata.name, pod.spec.node_name)
        )
        return Malformed(self._kind.name, namespace, name or f"#{position}", node_name, reason)

    def _keep(self, pod: pods_pb2.PodOutline) -> None:
        metadata, spec, status = pod.metadata, pod.spec, pod.status
        name, namespace, node_name = metadata.name, metadata.namespace, spec.node_name
        check_names(namespace, name)
        version = version_number(metadata.resource_version)
        phase = PHASE_INDEX.get(status.phase, UNKNOWN_PHASE)
        if phase in FINISHED:
            self._collector.forget(namespace, name, version, node_name)
            return
        ready, resize_infeasible = read_conditions(status.conditions)
        deleted = _seconds(metadata.deletion_timestamp)
        self._collector.keep(
            PodFields(
                name=name,
                namespace=namespace,
                uid=metadata.uid,
                version=version,
                node_name=node_name,
                pod_class=self._class_of(pod, resize_infeasible),
                phase=phase,
                created=_seconds(metadata.creation_timestamp),
                started=_seconds(status.start_time),
                ready=ready,
                deleted=None if math.isnan(deleted) else times.render(deleted),
                annotations={
                    key: metadata.annotations[key].decode(errors="replace")
                    for key in metadata.annotations
                    if key in HONOURED_ANNOTATIONS
                },
                nominated=status.nominated_node_name,
            )
        )

    def _class_of(self, pod: pods_pb2.PodOutline, resize_infeasible: bool) -> int:
        """The class of a pod by what its siblings have too; ValueError when its quantities are malformed."""
        metadata, spec, status = pod.metadata, pod.spec, pod.status
        node_name, spec.node_name = spec.node_name, ""
        written = spec.SerializeToString()  # the bytes of all other fields, as they came
        spec.node_name = node_name
        token = _TOKEN_NAME.search(written)
        key = (
            metadata.namespace,
            tuple(metadata.labels),
            tuple(metadata.owner_references),
            written.replace(token[1], b"") if token else written,
            resize_infeasible,
            tuple(status.allocated_resources),
            tuple(status.resources),
            *(
                (found.name, tuple(found.allocated_resources), tuple(found.resources))
                for statuses in (status.container_statuses, status.init_container_statuses)
                for found in statuses
                if found.allocated_resources or found.resources
            ),
        )
        number = self._classes.get(key)
        if number is None:
            whole = parse(self._messages.Pod, pod.SerializeToString())
            number = self._collector.class_of(to_record(whole))
            if len(self._classes) >= _MAX_CACHED_CLASSES:  # pods that resemble no other: nothing is gained
                self._classes.clear()
            self._classes[key] = number
        return number


def _seconds(time: pods_pb2.Time) -> float:
    """Unix seconds of a time, NaN for none; ValueError for one that JSON could not hold."""
    return times.checked(time.seconds) if time.HasField("seconds") else math.nan
