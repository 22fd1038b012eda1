"""The messages of protobuf by which pods are read: what the records say, and a number for each field.

A message has the name of the record that JSON is decoded to. Its fields have the names of the record's
attributes, which say their types as well, so that a field is declared once:

    host_port: Int32 = 0                       of the record ContainerPort
    "ContainerPort": "host_port=2 ..."         its number, here
    message ContainerPort { int32 host_port = 2; ... }

A type is written here where no record says it. After it stands ``[]`` for a list, ``{}`` for a map, and ``?``
where an absent value means something else than zero. Numbers are those of the Kubernetes API
(k8s.io/api/core/v1 and k8s.io/apimachinery), in which none ever changes or is used again.
"""

from __future__ import annotations

import functools
import typing
from collections.abc import Mapping
from typing import Any

import msgspec

from rebalancer.cluster import records
from rebalancer.cluster.records import base
from rebalancer.cluster.wire.known_fields import RECORDS

if typing.TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import DescriptorProto

_MESSAGES: Mapping[str, str] = {
    # An answer of the API server, after the bytes "k8s\0": runtime.Unknown, whose `raw` holds the list.
    "Answer": "type_meta:TypeMeta=1 raw:PodList=2",
    "TypeMeta": "api_version:string=1 kind:string=2",
    "PodList": "metadata:ListMeta=1 items:PodOutline[]=2",
    "ListMeta": "resource_version:string=2 continue_token:string=3",  # "continue" in the API
    # The same answer with its pods left encoded: decoded one by one where one of them is malformed.
    "AnswerOfEncodedPods": "type_meta:TypeMeta=1 raw:EncodedPodList=2",
    "EncodedPodList": "metadata:ListMeta=1 items:bytes[]=2",
    # An event of a WATCH, as it stands in a frame. Its object is an answer of its own, after "k8s\0".
    "WatchEvent": "type:string=1 object:RawExtension=2",
    "RawExtension": "raw:bytes=1",
    "PodAnswer": "type_meta:TypeMeta=1 raw:PodOutline=2",
    # The same with what it holds left encoded: a pod that is malformed, or a Status.
    "AnyAnswer": "type_meta:TypeMeta=1 raw:bytes=2",
    # Which version of which pod an event brings, whatever else is wrong with it.
    "VersionedName": "metadata:VersionedObjectName=1",
    "VersionedObjectName": "name:string=1 namespace:string=3 resource_version:string=6",
    # Why a watch ended: the object of an ERROR.
    "Status": "message:string=3 reason:string=4 code:int32=6",
    # A pod as every one is decoded. What is each pod's own has fields; what pods of a class share stays
    # bytes, by which the class is recognised. `[]`, where the API has one value, keeps every byte of one that
    # is written twice. Conditions and states of containers are bytes because most need not be decoded.
    "PodOutline": "metadata:MetadataOutline=1 spec:SpecOutline=2 status:StatusOutline=3",
    "MetadataOutline": "name:string=1 namespace:string=3 uid:string=5 resource_version:string=6 "
    "creation_timestamp:Time=8 deletion_timestamp:Time=9 labels:bytes[]=11 annotations:bytes{}=12 "
    "owner_references:bytes[]=13",
    "SpecOutline": "node_name:string=10",  # all else is kept as unknown fields
    "StatusOutline": "phase:string=1 conditions:bytes[]=2 reason:string=4 start_time:Time=7 "
    "container_statuses:ContainerStatusOutline[]=8 init_container_statuses:ContainerStatusOutline[]=10 "
    "nominated_node_name:string=11 ephemeral_container_statuses:ContainerStatusOutline[]=13 "
    "allocated_resources:bytes[]=19 resources:bytes[]=20",
    "ContainerStatusOutline": "name:string=1 state:bytes=2 last_state:bytes=3 restart_count:int32=5 "
    "allocated_resources:bytes[]=10 resources:bytes[]=11",
    # Which pod it is and where it runs: for a pod of which nothing else can be decoded.
    "PodIdentity": "metadata:ObjectName=1 spec:SpecOutline=2",
    "ObjectName": "name:string=1 namespace:string=3",
    # A pod with all that is read of it: decoded once a class.
    "Pod": "metadata=1 spec=2 status=3",
    "Time": "seconds:int64?=1",
    "Quantity": "string:string?=1",
    # Of annotations the API server accepts bytes that are not UTF-8.
    "Metadata": "name=1 namespace=3 uid=5 resource_version=6 generation=7 creation_timestamp:Time=8 "
    "deletion_timestamp:Time=9 deletion_grace_period_seconds=10 labels=11 annotations:bytes{}=12 "
    "owner_references=13",
    "OwnerReference": "kind=1 name=3 uid=4 api_version=5 controller=6",
    # hostNetwork is written when false too, where JSON leaves it out.
    "PodSpec": "volumes=1 containers=2 restart_policy=3 termination_grace_period_seconds=4 "
    "active_deadline_seconds=5 node_selector=7 node_name=10 host_network:bool=11 affinity=18 "
    "scheduler_name=19 init_containers=20 tolerations=22 priority_class_name=24 priority=25 "
    "runtime_class_name=29 preemption_policy=31 overhead:Quantity{}=32 topology_spread_constraints=33 "
    "host_users=37 scheduling_gates=38 resource_claims=39 resources=40 workload_ref=42 scheduling_group=43",
    "SchedulingGate": "name=1",
    "ResourceClaim": "name=1",
    "Volume": "name=1 source:VolumeSource=2",
    "VolumeSource": "host_path=1 empty_dir=2 gce_persistent_disk=3 aws_elastic_block_store=4 iscsi=8 "
    "persistent_volume_claim=10 rbd=11 cinder=13 config_map=19 azure_disk=22 portworx_volume=24 "
    "ephemeral=29 image=30",
    "Present": "",
    "EmptyDir": "medium=1",
    "ImageVolume": "reference=1",
    "ConfigMapSource": "source:LocalObjectReference=1",
    "LocalObjectReference": "name=1",
    "GcePersistentDisk": "pd_name=1 read_only=4",
    "AwsElasticBlockStore": "volume_id=1 read_only=4",
    "AzureDisk": "disk_uri=2 kind=6",
    "Cinder": "volume_id=1",
    "PortworxVolume": "volume_id=1",
    "Iscsi": "iqn=2 read_only=6",
    "ClaimSource": "claim_name=1 read_only=2",
    "Rbd": "monitors=1 image=2 pool=4 read_only=8",
    "Container": "name=1 image=2 command=3 args=4 ports=6 resources=8 restart_policy=24 "
    "restart_policy_rules=25",
    "RestartRule": "action=1",
    "ContainerPort": "host_port=2 container_port=3 protocol=4 host_ip=5",
    "ResourceRequirements": "limits:Quantity{}=1 requests:Quantity{}=2",
    "Affinity": "node_affinity=1 pod_affinity=2 pod_anti_affinity=3",
    "NodeAffinity": "required=1 preferred=2",
    "NodeSelector": "node_selector_terms=1",
    "NodeSelectorTerm": "match_expressions=1 match_fields=2",
    "Requirement": "key=1 operator=2 values=3",
    "PreferredSchedulingTerm": "weight=1 preference=2",
    "PodAffinity": "required=1 preferred=2",
    "PodAffinityTerm": "label_selector=1 namespaces=2 topology_key=3 namespace_selector=4 match_label_keys=5 "
    "mismatch_label_keys=6",
    "WeightedPodAffinityTerm": "weight=1 pod_affinity_term=2",
    "LabelSelector": "match_labels=1 match_expressions=2",
    "Toleration": "key=1 operator=2 value=3 effect=4 toleration_seconds=5",
    "TopologySpreadConstraint": "max_skew=1 topology_key=2 when_unsatisfiable=3 label_selector=4 "
    "min_domains=5 node_affinity_policy=6 node_taints_policy=7 match_label_keys=8",
    "PodStatus": "phase=1 conditions=2 reason=4 start_time:Time=7 container_statuses=8 "
    "init_container_statuses=10 nominated_node_name=11 ephemeral_container_statuses=13 "
    "allocated_resources:Quantity{}=19 resources=20",
    "Condition": "type=1 status=2 last_transition_time:Time=4 reason=5",
    "ContainerStatus": "name=1 state=2 last_state=3 ready=4 restart_count=5 "
    "allocated_resources:Quantity{}=10 resources=11",
    "ContainerState": "waiting=1 terminated=3",  # 2 while it runs
    "ContainerStateWaiting": "reason=1",
    "ContainerStateTerminated": "exit_code=1 reason=3",
}
_PACKAGE = "rebalancer.pods"
_TYPES: Mapping[Any, str] = {
    str: "string",
    bool: "bool",
    base.Int32: "int32",
    base.Int64: "int64",
    base.Labels: "string{}",
}


@functools.cache
def _types(record: str) -> Mapping[str, str]:
    """The types of a record's attributes, as the table writes them."""
    return {field.name: _type_of(field) for field in msgspec.structs.fields(getattr(records, record))}


def _type_of(field: msgspec.structs.FieldInfo) -> str:
    kind = field.type
    parts = typing.get_args(field.type)
    optional = type(None) in parts
    if optional:
        kind = parts[0]
        parts = typing.get_args(parts[0])
    if typing.get_origin(kind) is list:
        return f"{_TYPES.get(parts[0], parts[0].__name__)}[]"
    name = _TYPES.get(kind) or str(kind.__name__)
    is_scalar = name.islower() and not name.endswith("{}")
    return f"{name}?" if is_scalar and (optional or field.default not in ("", 0)) else name


def _add_field(message: DescriptorProto, name: str, kind: str, number: int) -> None:
    field = message.field.add(name=name, number=number, label="LABEL_OPTIONAL")
    if kind.endswith("{}"):
        entry = message.nested_type.add(name=f"{name.title().replace('_', '')}Entry")
        entry.options.map_entry = True
        _add_field(entry, "key", "string", 1)
        _add_field(entry, "value", kind.removesuffix("{}"), 2)
        kind = f"{message.name}.{entry.name}[]"
    if kind.endswith("[]"):
        field.label = field.LABEL_REPEATED
    elif kind.endswith("?"):
        field.proto3_optional = True
        field.oneof_index = len(message.oneof_decl)
        message.oneof_decl.add(name=f"_{name}")
    kind = kind.rstrip("[]?")
    if kind[0].isupper():
        field.type = field.TYPE_MESSAGE
        field.type_name = f".{_PACKAGE}.{kind}"
    else:
        field.type = field.Type.Value(f"TYPE_{kind.upper()}")


def __getattr__(name: str) -> Any:
    """The class of a message; ``DecodeError``, which says that bytes are none.

    All are built when the first is asked for: a plan of a dump does without, and without protobuf.
    """
    if name not in _MESSAGES and name != "DecodeError":
        raise AttributeError(name)
    from google.protobuf import descriptor_pb2, descriptor_pool  # noqa: PLC0415 - 0.1 s
    from google.protobuf.message import DecodeError  # noqa: PLC0415
    from google.protobuf.message_factory import GetMessageClass  # noqa: PLC0415

    file = descriptor_pb2.FileDescriptorProto(name="pods.proto", package=_PACKAGE, syntax="proto3")
    for message, fields in _MESSAGES.items():
        descriptor = file.message_type.add(name=message)
        for text in fields.split():
            written, _, number = text.partition("=")
            field, _, kind = written.partition(":")
            _add_field(descriptor, field, kind or _types(RECORDS.get(message, message))[field], int(number))
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    kinds = {message: pool.FindMessageTypeByName(f"{_PACKAGE}.{message}") for message in _MESSAGES}
    globals().update(
        {message: GetMessageClass(kind) for message, kind in kinds.items()}, DecodeError=DecodeError
    )
    return globals()[name]
