"""The numbers of the fields we use of a Pod, as ``generated.proto`` of k8s.io/api/core/v1 has them.

Numbers are part of the API: none of them ever changes or is used again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rebalancer.cluster import records
from rebalancer.cluster.wire.protobuf import Entry, Message, Shape

_SHAPES = {
    "text": Shape.TEXT,
    "integer": Shape.INTEGER,
    "truth": Shape.TRUTH,
    "truth when set": Shape.TRUTH_WHEN_SET,
    "time": Shape.TIME,
    "texts": Shape.TEXTS,
    "texts by key": Shape.TEXT_MAP,
    "quantities": Shape.QUANTITY_MAP,
}
_Shown = str | Message | list[Message]


def _message(record: Any, entries: Mapping[int, tuple[str, _Shown]]) -> Message:
    return Message(record, {number: _entry(*shown) for number, shown in entries.items()})


def _entry(attribute: str, shown: _Shown) -> Entry:
    if isinstance(shown, str):
        return Entry(attribute, _SHAPES[shown])
    if isinstance(shown, list):
        return Entry(attribute, Shape.MESSAGES, shown[0])
    return Entry(attribute, Shape.MESSAGE if attribute else Shape.INLINE, shown)


OWNER = _message(
    records.OwnerReference,
    {
        1: ("kind", "text"),
        3: ("name", "text"),
        4: ("uid", "text"),
        5: ("api_version", "text"),
        6: ("controller", "truth"),
    },
)
METADATA = _message(
    records.Metadata,
    {
        1: ("name", "text"),
        3: ("namespace", "text"),
        5: ("uid", "text"),
        6: ("resource_version", "text"),
        7: ("generation", "integer"),
        8: ("creation_timestamp", "time"),
        9: ("deletion_timestamp", "time"),
        10: ("deletion_grace_period_seconds", "integer"),
        11: ("labels", "texts by key"),
        12: ("annotations", "texts by key"),
        13: ("owner_references", [OWNER]),
    },
)
_REQUIREMENT = _message(
    records.Requirement, {1: ("key", "text"), 2: ("operator", "text"), 3: ("values", "texts")}
)
_LABEL_SELECTOR = _message(
    records.LabelSelector, {1: ("match_labels", "texts by key"), 2: ("match_expressions", [_REQUIREMENT])}
)
_NODE_TERM = _message(
    records.NodeSelectorTerm, {1: ("match_expressions", [_REQUIREMENT]), 2: ("match_fields", [_REQUIREMENT])}
)
_NODE_SELECTOR = _message(records.NodeSelector, {1: ("node_selector_terms", [_NODE_TERM])})
_PREFERRED_NODES = _message(
    records.PreferredSchedulingTerm, {1: ("weight", "integer"), 2: ("preference", _NODE_TERM)}
)
_POD_TERM = _message(
    records.PodAffinityTerm,
    {
        1: ("label_selector", _LABEL_SELECTOR),
        2: ("namespaces", "texts"),
        3: ("topology_key", "text"),
        4: ("namespace_selector", _LABEL_SELECTOR),
        5: ("match_label_keys", "texts"),
        6: ("mismatch_label_keys", "texts"),
    },
)
_WEIGHTED_POD_TERM = _message(
    records.WeightedPodAffinityTerm, {1: ("weight", "integer"), 2: ("pod_affinity_term", _POD_TERM)}
)
_POD_AFFINITY = _message(
    records.PodAffinity, {1: ("required", [_POD_TERM]), 2: ("preferred", [_WEIGHTED_POD_TERM])}
)
_AFFINITY = _message(
    records.Affinity,
    {
        1: (
            "node_affinity",
            _message(
                records.NodeAffinity, {1: ("required", _NODE_SELECTOR), 2: ("preferred", [_PREFERRED_NODES])}
            ),
        ),
        2: ("pod_affinity", _POD_AFFINITY),
        3: ("pod_anti_affinity", _POD_AFFINITY),
    },
)
_TOLERATION = _message(
    records.Toleration,
    {
        1: ("key", "text"),
        2: ("operator", "text"),
        3: ("value", "text"),
        4: ("effect", "text"),
        5: ("toleration_seconds", "integer"),
    },
)
_SPREAD = _message(
    records.TopologySpreadConstraint,
    {
        1: ("max_skew", "integer"),
        2: ("topology_key", "text"),
        3: ("when_unsatisfiable", "text"),
        4: ("label_selector", _LABEL_SELECTOR),
        5: ("min_domains", "integer"),
        6: ("node_affinity_policy", "text"),
        7: ("node_taints_policy", "text"),
        8: ("match_label_keys", "texts"),
    },
)
_RESOURCES = _message(
    records.ResourceRequirements, {1: ("limits", "quantities"), 2: ("requests", "quantities")}
)
_PORT = _message(
    records.ContainerPort,
    {
        2: ("host_port", "integer"),
        3: ("container_port", "integer"),
        4: ("protocol", "text"),
        5: ("host_ip", "text"),
    },
)
_CONTAINER = _message(
    records.Container,
    {
        1: ("name", "text"),
        2: ("image", "text"),
        6: ("ports", [_PORT]),
        8: ("resources", _RESOURCES),
        24: ("restart_policy", "text"),
    },
)
_PRESENT = _message(records.Present, {})
_VOLUME_SOURCE = _message(
    records.Volume,
    {
        1: ("host_path", _PRESENT),
        2: ("empty_dir", _PRESENT),
        3: (
            "gce_persistent_disk",
            _message(records.GcePersistentDisk, {1: ("pd_name", "text"), 4: ("read_only", "truth")}),
        ),
        4: (
            "aws_elastic_block_store",
            _message(records.AwsElasticBlockStore, {1: ("volume_id", "text"), 4: ("read_only", "truth")}),
        ),
        8: ("iscsi", _message(records.Iscsi, {2: ("iqn", "text"), 6: ("read_only", "truth")})),
        10: (
            "persistent_volume_claim",
            _message(records.ClaimSource, {1: ("claim_name", "text"), 2: ("read_only", "truth")}),
        ),
        11: (
            "rbd",
            _message(
                records.Rbd,
                {
                    1: ("monitors", "texts"),
                    2: ("image", "text"),
                    4: ("pool", "text"),
                    8: ("read_only", "truth"),
                },
            ),
        ),
        29: ("ephemeral", _PRESENT),
    },
)
_VOLUME = _message(records.Volume, {1: ("name", "text"), 2: ("", _VOLUME_SOURCE)})
SPEC = _message(
    records.PodSpec,
    {
        1: ("volumes", [_VOLUME]),
        2: ("containers", [_CONTAINER]),
        3: ("restart_policy", "text"),
        4: ("termination_grace_period_seconds", "integer"),
        7: ("node_selector", "texts by key"),
        10: ("node_name", "text"),
        11: ("host_network", "truth when set"),
        18: ("affinity", _AFFINITY),
        19: ("scheduler_name", "text"),
        20: ("init_containers", [_CONTAINER]),
        22: ("tolerations", [_TOLERATION]),
        24: ("priority_class_name", "text"),
        25: ("priority", "integer"),
        31: ("preemption_policy", "text"),
        32: ("overhead", "quantities"),
        33: ("topology_spread_constraints", [_SPREAD]),
        38: ("scheduling_gates", [_message(records.SchedulingGate, {1: ("name", "text")})]),
        39: ("resource_claims", [_message(records.ResourceClaim, {1: ("name", "text")})]),
        40: ("resources", _RESOURCES),
    },
)
_CONDITION = _message(
    records.Condition,
    {1: ("type", "text"), 2: ("status", "text"), 4: ("last_transition_time", "time"), 5: ("reason", "text")},
)
CONTAINER_STATUS = _message(
    records.ContainerStatus,
    {
        1: ("name", "text"),
        4: ("ready", "truth"),
        10: ("allocated_resources", "quantities"),
        11: ("resources", _RESOURCES),
    },
)
STATUS = _message(
    records.PodStatus,
    {
        1: ("phase", "text"),
        2: ("conditions", [_CONDITION]),
        7: ("start_time", "time"),
        8: ("container_statuses", [CONTAINER_STATUS]),
        10: ("init_container_statuses", [CONTAINER_STATUS]),
        11: ("nominated_node_name", "text"),
    },
)
POD = _message(records.Pod, {1: ("metadata", METADATA), 2: ("spec", SPEC), 3: ("status", STATUS)})
