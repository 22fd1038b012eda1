"""Which fields of a pod's spec are known: those that are read, and those that need not be, with the reason.

Any other field, which a newer API server may write, could decide where a pod runs. So it is noticed, by its
name in JSON and by its number in protobuf, and such pods are not predicted.

    spec.containers[0].image      a field of the record ``Container``       read
    spec.containers[0].env        NOT_READ                                  decides nothing about placement
    spec.containers[0].gpuShare   neither                                   unknown
"""

from __future__ import annotations

import re
import typing
from collections import defaultdict
from collections.abc import Mapping
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

import msgspec

from rebalancer.cluster import records
from rebalancer.cluster.records import PodSpec, Record

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor
    from google.protobuf.message import Message

_KUBELET = "the kubelet alone acts on it, once the pod is bound"
_PROCESS = "how a container starts, is watched and ends"
_MOUNT = "how a volume is mounted once the pod is bound"

# Records, why these fields of them are not read, and the numbers that they have in protobuf.
_ROWS = (
    (
        "PodSpec",
        _KUBELET,
        "dnsPolicy=6 hostPID=12 hostIPC=13 securityContext=14 imagePullSecrets=15 hostname=16 "
        "subdomain=17 hostAliases=23 dnsConfig=26 shareProcessNamespace=27 readinessGates=28 "
        "enableServiceLinks=30 setHostnameAsFQDN=35 os=36 hostnameOverride=41",
    ),
    (
        "PodSpec",
        "as whom its processes speak to the API server",
        "serviceAccountName=8 serviceAccount=9 automountServiceAccountToken=21",
    ),
    (
        "PodSpec",
        "no template has any, they request nothing, and whether one runs is read from the status",
        "ephemeralContainers=34",
    ),
    ("PodSpec", "who is asked before the pod is evicted", "evictionResponders=44"),
    (
        "Container",
        _PROCESS,
        "workingDir=5 env=7 livenessProbe=10 readinessProbe=11 lifecycle=12 terminationMessagePath=13 "
        "imagePullPolicy=14 securityContext=15 stdin=16 stdinOnce=17 tty=18 envFrom=19 "
        "terminationMessagePolicy=20 startupProbe=22 resizePolicy=23",
    ),
    ("Container", _MOUNT, "volumeMounts=9 volumeDevices=21"),
    ("ContainerPort", "a name for Services", "name=1"),
    ("RestartRule", _PROCESS, "exitCodes=2"),
    ("ResourceRequirements", "names a claim of spec.resourceClaims, which is read", "claims=3"),
    (
        "ResourceClaim",
        "a pod with any claim is not predicted",
        "resourceClaimName=3 resourceClaimTemplateName=4",
    ),
    (
        "Volume",
        "the scheduler has no filter and no score for a volume of this kind",
        "gitRepo=5 secret=6 nfs=7 glusterfs=9 flexVolume=12 cephfs=14 flocker=15 downwardAPI=16 fc=17 "
        "azureFile=18 vsphereVolume=20 quobyte=21 photonPersistentDisk=23 scaleIO=25 "
        "projected=26 storageos=27 csi=28",
    ),
    ("EmptyDir", _MOUNT, "sizeLimit=2 mode=3"),
    ("GcePersistentDisk", _MOUNT, "fsType=2 partition=3"),
    ("AwsElasticBlockStore", _MOUNT, "fsType=2 partition=3"),
    ("AzureDisk", _MOUNT, "diskName=1 cachingMode=3 fsType=4 readOnly=5"),
    ("Cinder", _MOUNT, "fsType=2 readOnly=3 secretRef=4"),
    ("PortworxVolume", _MOUNT, "fsType=2 readOnly=3"),
    (
        "Iscsi",
        _MOUNT,
        "targetPortal=1 lun=3 iscsiInterface=4 fsType=5 portals=7 chapAuthDiscovery=8 secretRef=10 "
        "chapAuthSession=11 initiatorName=12",
    ),
    ("Rbd", _MOUNT, "fsType=3 user=5 keyring=6 secretRef=7"),
    ("ImageVolume", _MOUNT, "pullPolicy=2"),
    ("ConfigMapSource", _MOUNT, "items=2 defaultMode=3 optional=4 defaultUser=5"),
)


def _numbers(fields: str) -> dict[str, int]:
    """The numbers of fields by name, of ``name=number`` each."""
    numbers = {}
    for field in fields.split():
        name, _, number = field.partition("=")
        numbers[name] = int(number)
    return numbers


def _by_record() -> dict[str, tuple[tuple[str, Mapping[str, int]], ...]]:
    """The reasons not to read fields, with the numbers of the fields, by record."""
    by_record: defaultdict[str, tuple[tuple[str, Mapping[str, int]], ...]] = defaultdict(tuple)
    for record, why, fields in _ROWS:
        by_record[record] += ((why, _numbers(fields)),)
    return dict(by_record)


NOT_READ: Mapping[str, tuple[tuple[str, Mapping[str, int]], ...]] = _by_record()
# Of messages named otherwise: JSON writes the source into the volume, and the name into the source.
RECORDS = {"VolumeSource": "Volume", "LocalObjectReference": "ConfigMapSource"}
_UNKNOWN = re.compile(
    r"Object contains unknown field `(?P<name>.*?)`"
    r"(?: - at `\$(?:\.spec\.template\.spec)?\.?(?P<path>[^`]*)`)?",
    re.DOTALL,
)
_FIELD_NAME = re.compile(r"[A-Za-z][A-Za-z0-9]{0,99}", re.ASCII)


def _not_read(record: str) -> Mapping[str, int]:
    return {name: number for _, fields in NOT_READ.get(record, ()) for name, number in fields.items()}


@lru_cache(maxsize=1)
def _decoders() -> tuple[msgspec.json.Decoder[Any], msgspec.json.Decoder[Any], msgspec.json.Decoder[Any]]:
    """Of a spec, of an object with a template, and of a list of these: all refuse unknown fields."""
    spec = _closed(PodSpec)
    template = msgspec.defstruct("Template", [("spec", spec | None, None)])
    template_holder = msgspec.defstruct("Spec", [("template", template | None, None)])
    workload = msgspec.defstruct("Workload", [("spec", template_holder | None, None)])
    items = list[workload]  # type: ignore[valid-type] # known when it runs
    listed = msgspec.defstruct("List", [("items", items | None, None)])
    return msgspec.json.Decoder(spec), msgspec.json.Decoder(workload), msgspec.json.Decoder(listed)


@cache
def _closed(record: type[Record]) -> Any:
    """A type with the known fields of a record and of the records in it, their values left encoded."""
    if record is records.Present:
        return msgspec.Raw
    read = {field.encode_name: _value(field.type) for field in msgspec.structs.fields(record)}
    fields = {**read, **dict.fromkeys(_not_read(record.__name__), msgspec.Raw)}
    return msgspec.defstruct(
        record.__name__,
        [(name, kind, msgspec.field(default=msgspec.UNSET)) for name, kind in fields.items()],
        forbid_unknown_fields=True,
    )


def _value(annotation: Any) -> Any:
    for part in (annotation, *typing.get_args(annotation)):
        if typing.get_origin(part) is list and _is_record(typing.get_args(part)[0]):
            return list[_closed(typing.get_args(part)[0])] | None  # type: ignore[misc] # known when it runs
        if _is_record(part):
            return _closed(part) | None
    return msgspec.Raw


def _is_record(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, Record)


def unknown_in_spec(encoded: bytes | msgspec.Raw) -> str:
    """The first unknown field of a spec in JSON, such as ``containers[0].gpu``; empty for none."""
    return _refused(_decoders()[0], encoded)


def unknown_in_template(encoded: bytes | memoryview | msgspec.Raw) -> str:
    """The same of the template of a workload."""
    return _refused(_decoders()[1], encoded)


def is_known_list(body: bytes) -> bool:
    """Whether all templates in a list of workloads have known fields only."""
    return not _refused(_decoders()[2], body)


def _refused(decoder: msgspec.json.Decoder[Any], encoded: bytes | memoryview | msgspec.Raw) -> str:
    try:
        decoder.decode(encoded)
    except msgspec.ValidationError as error:
        match = _UNKNOWN.match(str(error))  # what else is wrong with it, reading it says
        if match is None:
            return ""
        name = match["name"] if _FIELD_NAME.fullmatch(match["name"]) else "a field that no API has"
        return ".".join(filter(None, (match["path"], name)))
    return ""


def unknown_in_message(message: Message) -> list[str]:
    """The fields of a message itself that are not known, such as ``field 45 of PodSpec``."""
    from google.protobuf.unknown_fields import UnknownFieldSet  # noqa: PLC0415 - 0.1 s that dumps do without

    name, not_read = _name_and_not_read(message.DESCRIPTOR)
    unknown = UnknownFieldSet(message)
    numbers = [unknown[place].field_number for place in range(len(unknown))]
    return [f"field {number} of {name}" for number in numbers if number not in not_read]


@cache
def _name_and_not_read(message: Descriptor) -> tuple[str, frozenset[int]]:
    """What a message is called in JSON, and the numbers of its fields that need not be read."""
    name = RECORDS.get(message.name, message.name)
    return name, frozenset(_not_read(name).values())
