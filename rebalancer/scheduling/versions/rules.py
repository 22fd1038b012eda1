"""The rules by which the schedulers of different Kubernetes minors differ, each with the minors that have it.

In everything else the model follows 1.35. This table is the only place that names the minors of a rule: code
that computes one asks the ``Release`` whether it holds, and the table in the documentation and the warnings
are made from this one.

An API server drops fields that its version does not have, and so does the model before it looks at a pod: see
``Rule.without``. A rule with a gate makes pods unpredictable where rebalancer cannot see whether the gate is
on. Nobody turns off the gates that were on by default in 1.27 already. So for most rules of those times
``locked_since`` is the minor that turned the gate on by default, rather than the one that locked it.

Sources: the differences between kubernetes v1.19.16, v1.20.15, v1.21.14, v1.22.17, v1.23.17, v1.24.17,
v1.25.16, v1.26.15, v1.27.16, v1.28.15, v1.29.14, v1.30.14, v1.31.14, v1.32.13, v1.33.13, v1.34.4, v1.35.4,
v1.36.3, v1.37.2 and v1.38.0-beta.0 under pkg/scheduler, and pkg/features/kube_features.go of each.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from msgspec.structs import replace

from rebalancer.cluster.pod_classes import POD_ITSELF, PodClass
from rebalancer.cluster.records import Container, PodAffinity, PodAffinityTerm
from rebalancer.scheduling.versions.release import Gate, Release, Rule

DEVICE_CLASS_PREFIX = "deviceclass.resource.kubernetes.io/"


def without_sidecars(pod: PodClass) -> PodClass:
    """The pod as if its sidecars were init containers that end."""
    init_containers = pod.spec.init_containers or ()
    if not any(container.restart_policy for container in init_containers):
        return pod
    ending = [replace(container, restart_policy=None) for container in init_containers]
    return _with_spec(pod, init_containers=ending)


def without_pod_level_resources(pod: PodClass) -> PodClass:
    """The pod without spec.resources."""
    if pod.spec.resources is None:
        return pod
    return _with_spec(pod, resources=None)


def without_resize(pod: PodClass) -> PodClass:
    """The pod as if nobody resized it."""
    if not pod.statuses and not pod.resize_infeasible:
        return pod
    return replace(pod, statuses=(), resize_infeasible=False)


def _sidecars(pod: PodClass) -> list[Container]:
    """The init containers that restart always."""
    return [container for container in pod.spec.init_containers or () if container.restart_policy == "Always"]


def without_sidecar_ports(pod: PodClass) -> PodClass:
    """The pod without the ports of its sidecars; those of other init containers never count."""
    if not any(container.ports for container in _sidecars(pod)):
        return pod
    without_ports = [replace(container, ports=None) for container in pod.spec.init_containers or ()]
    return _with_spec(pod, init_containers=without_ports)


def is_resized_as_a_whole(pod: PodClass) -> bool:
    """Whether the pod-level resources of a pod are being resized."""
    return any(status.name == POD_ITSELF for status in pod.statuses)


def without_pod_level_resize(pod: PodClass) -> PodClass:
    """The pod as if nobody resized its pod-level resources."""
    if not is_resized_as_a_whole(pod):
        return pod
    return replace(pod, statuses=tuple(status for status in pod.statuses if status.name != POD_ITSELF))


def without_constraint_fields(*fields: str) -> Callable[[PodClass], PodClass]:
    """A function that drops these fields of a pod's topology spread constraints."""
    dropped = dict.fromkeys(fields)

    def without(pod: PodClass) -> PodClass:
        constraints = pod.spec.topology_spread_constraints or []
        if not any(getattr(constraint, field) is not None for constraint in constraints for field in fields):
            return pod
        changed = [replace(constraint, **dropped) for constraint in constraints]
        return _with_spec(pod, topology_spread_constraints=changed)

    return without


def spreads_by_label_keys(pod: PodClass) -> bool:
    """Whether a topology spread constraint has matchLabelKeys that its labelSelector does not state as well.

    Since 1.34 the API server states them there, as requirements that a key is in one value
    (pkg/registry/core/pod/strategy.go, applyMatchLabelKeys).
    """
    for constraint in pod.spec.topology_spread_constraints or ():
        selector = constraint.label_selector
        requirements = (selector.match_expressions if selector else None) or ()
        stated = {
            (requirement.key, *(requirement.values or ()))
            for requirement in requirements
            if requirement.operator == "In"
        }
        for key in constraint.match_label_keys or ():
            if key in pod.labels and (key, pod.labels[key]) not in stated:
                return True
    return False


def spreads_by_empty_selector(pod: PodClass) -> bool:
    """Whether a topology spread constraint of the pod has the labelSelector {}."""
    for constraint in pod.spec.topology_spread_constraints or ():
        selector = constraint.label_selector
        if selector is not None and not selector.match_labels and not selector.match_expressions:
            return True
    return False


def requests_as_a_whole(pod: PodClass) -> bool:
    """Whether the pod has pod-level requests."""
    return bool(pod.spec.resources and pod.spec.resources.requests)


def _with_spec(pod: PodClass, **changes: object) -> PodClass:
    return replace(pod, spec=replace(pod.spec, **changes))


def has_claims(pod: PodClass) -> bool:
    """Whether the pod has volumes of PersistentVolumeClaims."""
    return any(volume.persistent_volume_claim or volume.ephemeral for volume in pod.spec.volumes or ())


def has_attached_volumes(pod: PodClass) -> bool:
    """Whether the pod may have volumes that are attached to its node: of claims, or of an in-tree kind."""
    return has_claims(pod) or any(
        volume.aws_elastic_block_store
        or volume.gce_persistent_disk
        or volume.azure_disk
        or volume.cinder
        or volume.portworx_volume
        for volume in pod.spec.volumes or ()
    )


def affinity_terms(pod: PodClass) -> list[PodAffinityTerm]:
    """The required and preferred terms of the pod's affinity and anti-affinity to pods."""
    affinity = pod.spec.affinity
    if affinity is None:
        return []
    terms: list[PodAffinityTerm] = []
    for side in (affinity.pod_affinity, affinity.pod_anti_affinity):
        if side is not None:
            terms += side.required or ()
            terms += [
                preference.pod_affinity_term
                for preference in side.preferred or ()
                if preference.pod_affinity_term
            ]
    return terms


def without_affinity_fields(*fields: str) -> Callable[[PodClass], PodClass]:
    """A function that drops these fields of a pod's affinity terms."""
    dropped = dict.fromkeys(fields)

    def without_fields(side: PodAffinity | None) -> PodAffinity | None:
        if side is None:
            return None
        return replace(
            side,
            required=[replace(term, **dropped) for term in side.required or ()],
            preferred=[
                replace(preference, pod_affinity_term=replace(preference.pod_affinity_term, **dropped))
                for preference in side.preferred or ()
                if preference.pod_affinity_term
            ],
        )

    def without(pod: PodClass) -> PodClass:
        if not any(getattr(term, field) is not None for term in affinity_terms(pod) for field in fields):
            return pod
        affinity = pod.spec.affinity
        assert affinity is not None
        changed = replace(
            affinity,
            pod_affinity=without_fields(affinity.pod_affinity),
            pod_anti_affinity=without_fields(affinity.pod_anti_affinity),
        )
        return _with_spec(pod, affinity=changed)

    return without


def selects_namespaces(pod: PodClass) -> bool:
    """Whether an affinity term of the pod has a namespaceSelector."""
    return any(term.namespace_selector is not None for term in affinity_terms(pod))


def has_spread_constraints(pod: PodClass) -> bool:
    """Whether the pod has topology spread constraints of its own."""
    return bool(pod.spec.topology_spread_constraints)


def names_its_node(pod: PodClass) -> bool:
    """Whether the pod's required node affinity names nodes (by matchFields), rather than labels of nodes."""
    node_affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    if node_affinity is None or node_affinity.required is None:
        return False
    return any(term.match_fields for term in node_affinity.required.node_selector_terms or ())


def has_several_containers(pod: PodClass) -> bool:
    """Whether the pod's request is a sum: of several containers, or of one and the overhead."""
    return len(pod.spec.containers or ()) > 1 or bool(pod.spec.overhead)


def extended_resources(pod: PodClass) -> frozenset[str]:
    """The extended resources that the pod requests, also those that stand for a DeviceClass."""
    return frozenset(
        name
        for container in pod.spec.every_container
        if container.resources
        for name in container.resources.requests or ()
        if name.startswith(DEVICE_CLASS_PREFIX) or ("/" in name and "kubernetes.io/" not in name)
    )


def _has_image_volumes(pod: PodClass) -> bool:
    return any(volume.image for volume in pod.spec.volumes or ())


def needs_declared_features(pod: PodClass) -> bool:
    """Whether the pod needs a feature that its node must declare.

    Source: component-helpers v0.36.3 nodedeclaredfeatures/features.
    """
    spec = pod.spec
    restarts = any(
        rule.action == "RestartAllContainers"
        for container in spec.every_container
        for rule in container.restart_policy_rules or ()
    )
    return restarts or (bool(spec.host_network) and spec.host_users is False)


SCORED_POD_LEVEL_REQUESTS = Rule(
    "scored pod-level requests",
    "NodeResourcesFit's score counts what the incoming pod itself requests; before, only what its containers "
    "request",
    since=38,
    concerns=requests_as_a_whole,
)
EMPTY_SPREAD_SELECTOR = Rule(
    "empty spread selector",
    "a topology spread constraint whose labelSelector is {} counts every pod of the namespace; before, none",
    since=38,
    concerns=spreads_by_empty_selector,
)
STORAGE_CAPACITY_SCORING = Rule(
    "StorageCapacityScoring",
    "VolumeBinding scores nodes by the share that unbound claims take of free volumes, or of the capacity "
    "that CSI drivers publish",
    since=37,
    gate=Gate("StorageCapacityScoring", exists_since=33, modelled_since=37),
    concerns=has_claims,
)
VOLUME_LIMIT_SCALING = Rule(
    "VolumeLimitScaling",
    "a node that lacks the CSI driver of a volume is rejected, if the CSIDriver asks for that",
    since=37,
    gate=Gate("VolumeLimitScaling", exists_since=35, modelled_since=36),
    concerns=has_attached_volumes,
)
NODE_DECLARED_FEATURES = Rule(
    "NodeDeclaredFeatures",
    "a node must declare the features that a pod's fields need; not modelled",
    since=36,
    gate=Gate("NodeDeclaredFeatures", exists_since=35, locked_since=37),
    modelled=False,
    concerns=needs_declared_features,
)
BALANCE_BEFORE_AND_AFTER = Rule(
    "balance before and after",
    "NodeResourcesBalancedAllocation compares a node's balance with the pod and without it",
    since=36,
)
DRA_EXTENDED_RESOURCES = Rule(
    "DRAExtendedResource",
    "an extended resource that a DeviceClass names may be served by DRA where a node does not offer it; "
    "not modelled",
    since=36,
    gate=Gate("DRAExtendedResource", exists_since=34, locked_since=37),
    modelled=False,
    concerns=lambda pod: bool(extended_resources(pod)),
)
IN_TREE_VOLUME_LIMITS = Rule(
    "in-tree volume limits",
    "in-tree volumes of Portworx count on every node; before, only on nodes whose kubelet has migrated them "
    "to CSI; modelled as counted on every node",
    since=36,
    concerns=has_attached_volumes,
)
ATTACHMENTS_COUNT = Rule(
    "attachments count",
    "volumes that are attached to a node and used by no pod there count against the limit of their driver",
    since=32,
    concerns=has_attached_volumes,
)
LIMITS_OF_NODES = Rule(
    "limits of nodes",
    "attachable-volumes-csi-DRIVER of a node's allocatable limits a driver for which the node's CSINode has "
    "no limit",
    until=31,
    concerns=has_attached_volumes,
)
IMAGE_VOLUMES = Rule(
    "images of volumes",
    "ImageLocality counts the images of image volumes",
    since=36,
    concerns=_has_image_volumes,
)
IMAGE_VOLUMES_IN_LIMIT = Rule(
    "limit with images of volumes",
    "the size of images that scores highest grows with the number of containers and image volumes; before, "
    "with that of containers",
    since=37,
    concerns=_has_image_volumes,
)
UNIFORM_TIES = Rule("uniform ties", "among equal totals one is drawn at random", until=34, decides=False)
HEAP_TIES = Rule(
    "heap ties",
    "among equal totals the root of a heap wins, in the order in which nodes are found from a start index",
    since=35,
    decides=False,
)
SHUFFLED_NODES = Rule(
    "order of nodes",
    "as it starts, the scheduler gets the nodes in no particular order; before, sorted by name",
    since=35,
    gate=Gate("WatchListClient", exists_since=30),
    decides=False,
)
OPPORTUNISTIC_BATCHING = Rule(
    "OpportunisticBatching",
    "a pod may be placed by the order of nodes that was computed for an equal pod before it; never where "
    "PodTopologySpread has default constraints, elsewhere a plan warns of it; not modelled",
    since=35,
    gate=Gate("OpportunisticBatching", exists_since=35),
    decides=False,
)
POD_LEVEL_RESOURCES = Rule(
    "pod-level resources",
    "spec.resources of a pod counts instead of what its containers request",
    since=34,
    gate=Gate("PodLevelResources", exists_since=32, modelled_since=33),
    without=without_pod_level_resources,
    concerns=requests_as_a_whole,
)
POD_LEVEL_RESIZE = Rule(
    "pod-level resize",
    "of a pod whose pod-level resources are being resized the larger of spec, status and allocation counts",
    since=36,
    gate=Gate("InPlacePodLevelResourcesVerticalScaling", exists_since=35),
    without=without_pod_level_resize,
    concerns=is_resized_as_a_whole,
)
KEPT_NAMESPACE_SELECTOR = Rule(
    "kept namespaceSelector",
    "a namespaceSelector of the incoming pod that matches no labels at all matches every namespace",
    since=34,
    until=36,
    gate=Gate("PodAffinityNamespaceSelector", exists_since=21, locked_since=22),
    concerns=selects_namespaces,
)
PEAKS_REQUESTS = Rule(
    "requests in Peaks",
    "Peaks counts what sidecars and the pod itself request",
    since=34,
    concerns=lambda pod: pod.spec.resources is not None or bool(_sidecars(pod)),
)
CLAIM_IN_USE_REASON = Rule(
    "reason of one-pod claims",
    "the reason names the claim's access mode rather than the other pod",
    since=34,
    decides=False,
)
NAMED_TAINT = Rule("named taint", "the reason names the taint", until=33, decides=False)
AFFINITY_REASON = Rule(
    "reason of bound volumes",
    "the reason says that a volume's node affinity does not match, rather than that it conflicts",
    since=33,
    decides=False,
)
IN_PLACE_RESIZE = Rule(
    "in-place resize",
    "of a pod being resized the larger of spec, status and allocation counts",
    since=33,
    gate=Gate("InPlacePodVerticalScaling", exists_since=27, locked_since=35, modelled_since=33),
    without=without_resize,
    concerns=lambda pod: bool(pod.statuses) or pod.resize_infeasible,
)
RESIZE_SUMS = Rule(
    "sums of resizes",
    "of a pod being resized the largest sum over its containers counts, by spec, status or allocation, and "
    "not the sum of the largest of each",
    since=37,
    concerns=lambda pod: bool(pod.statuses) or pod.resize_infeasible,
)
BALANCE_SKIPS_BEST_EFFORT = Rule(
    "balance without requests",
    "NodeResourcesBalancedAllocation does not score pods that request nothing",
    since=33,
)
_SIDECAR_PORTS = Rule(
    "ports of sidecars",
    "host ports of init containers that restart always count",
    since=33,
    without=without_sidecar_ports,
    concerns=lambda pod: any(
        port.host_port for container in _sidecars(pod) for port in container.ports or ()
    ),
)
SCORED_SIDECARS = Rule(
    "scored sidecars",
    "of pods that are on a node, scores count init containers that restart always beside the containers, and "
    "round the sum of all containers rather than each",
    since=32,
)
_AFFINITY_KEYS = Rule(
    "affinity matchLabelKeys",
    "matchLabelKeys and mismatchLabelKeys of affinity terms",
    since=31,
    without=without_affinity_fields("match_label_keys", "mismatch_label_keys"),
    decides=False,  # the API server merges them into the terms' selectors, which decide
)
INIT_IMAGES = Rule(
    "images of init containers",
    "ImageLocality counts the images of init containers",
    since=30,
    concerns=lambda pod: bool(pod.spec.init_containers),
)
SIDECARS = Rule(
    "sidecars",
    "init containers that restart always count beside the containers",
    since=29,
    without=without_sidecars,
    concerns=lambda pod: bool(_sidecars(pod)),
)
_SPREAD_KEYS = Rule(
    "spread matchLabelKeys",
    "matchLabelKeys of topology spread constraints",
    since=27,
    gate=Gate("MatchLabelKeysInPodTopologySpread", exists_since=25),
    without=without_constraint_fields("match_label_keys"),
    concerns=spreads_by_label_keys,
)
MIN_DOMAINS = Rule(
    "minDomains",
    "minDomains of topology spread constraints",
    since=27,
    without=without_constraint_fields("min_domains"),
    concerns=lambda pod: any(
        constraint.min_domains for constraint in pod.spec.topology_spread_constraints or ()
    ),
)
_INCLUSION_POLICIES = Rule(
    "nodeInclusionPolicies",
    "nodeAffinityPolicy and nodeTaintsPolicy of topology spread constraints",
    since=26,
    without=without_constraint_fields("node_affinity_policy", "node_taints_policy"),
    concerns=lambda pod: any(
        constraint.node_affinity_policy or constraint.node_taints_policy
        for constraint in pod.spec.topology_spread_constraints or ()
    ),
)
ONE_POD_CLAIMS = Rule(
    "one-pod claims",
    "only one pod at a time uses a claim with access mode ReadWriteOncePod",
    since=27,
    gate=Gate("ReadWriteOncePod", exists_since=22, locked_since=27, modelled_since=27),
    concerns=has_claims,
)
NAMED_CANDIDATES = Rule(
    "nodes by name",
    "where each term of a required node affinity names nodes, the scheduler looks at no others",
    since=24,
    concerns=names_its_node,
)
CONFLICT_OF_EACH_TERM = Rule(
    "conflict of a term",
    "one term of a required node affinity that names different nodes at once rejects the pod, "
    "whatever its other terms say",
    since=24,
    until=26,
    concerns=names_its_node,
)
FIT_COMPARES_ALL = Rule(
    "room of all resources",
    "a node whose pods request more cpu, memory or ephemeral storage than it has rejects each pod that "
    "requests anything, also one that requests none of that",
    until=27,
)
ROUNDED_CONTAINERS = Rule(
    "rounded containers",
    "each container of a pod is rounded rather than their sum, and in scores a core of its overhead counts "
    "as a thousandth",
    until=26,
    concerns=has_several_containers,
)
IDLE_SCORES = Rule(
    "idle scores",
    "PodTopologySpread scores 100 for pods without constraints, and InterPodAffinity 0",
    until=27,
    decides=False,
)
IDLE_ZEROS = Rule(
    "idle zeros",
    "NodeAffinity and VolumeBinding score 0 for pods that they do not concern",
    until=29,
    decides=False,
)
EMPTY_SPREAD_SELECTOR_BEFORE = Rule(
    "empty spread selector before",
    "a topology spread constraint whose labelSelector is {} counts every pod of the namespace",
    until=26,
    concerns=spreads_by_empty_selector,
)
TRUNCATED_SPREAD = Rule(
    "truncated spread", "PodTopologySpread truncates a score before it compares", until=23
)
SPREAD_BESIDE = Rule(
    "spread beside",
    "hard topology spread constraints count pods on all nodes of a domain, also those that the pod may not "
    "use",
    until=23,
    concerns=has_spread_constraints,
)
OLD_TAINT_REASON = Rule(
    "reason of taints", "the reason of an untolerated taint is worded otherwise", until=23, decides=False
)
NAMESPACE_SELECTOR = Rule(
    "namespaceSelector",
    "namespaceSelector of affinity terms",
    since=22,
    without=without_affinity_fields("namespace_selector"),
    concerns=selects_namespaces,
)
EVERY_SCORED_RESOURCE = Rule(
    "every scored resource",
    "scores of resources count all that are listed, also those that a node does not offer or the pod does "
    "not request",
    until=21,
)
BALANCE_OF_TWO = Rule(
    "balance of two",
    "NodeResourcesBalancedAllocation scores one less the difference of the shares of cpu and memory, with "
    "defaults for what is not requested; 0 where a share is 1",
    until=21,
)
SELECTING_OWNERS = Rule(
    "selecting controllers",
    "default topology spread constraints select what every controller that selects the pod selects, rather "
    "than its owner alone",
    until=21,
)
STORAGE_CAPACITY = Rule(
    "CSIStorageCapacity",
    "a volume is provisioned only where its CSI driver publishes enough capacity",
    since=21,
    gate=Gate("CSIStorageCapacity", exists_since=19, locked_since=21),
    concerns=has_claims,
)
AFFINITY_RANGE_WITH_ZERO = Rule(
    "range with zero",
    "InterPodAffinity compares its scores with 0 as well",
    until=20,  # without ``concerns``: terms of other pods may give any pod such scores
)
EPHEMERAL_VOLUMES_COUNT = Rule(
    "ephemeral volumes count",
    "generic ephemeral volumes of pods on a node count against the limit of their driver",
    since=23,
    concerns=has_attached_volumes,
)
PREFERENCES_ARE_PREPARED = Rule(
    "prepared preferences",
    "a pod whose preferred node affinity does not parse fails, also where NodeAffinity does not score",
    since=21,
    decides=False,  # it decides only about pods whose preferences do not parse
)
OLD_AFFINITY_REASON = Rule(
    "reasons of affinity", "the reasons of InterPodAffinity begin with a general one", until=21, decides=False
)
STARTING_ZEROS = Rule(
    "extended resources of 0 at the start",
    "an extended resource of which an init container requests 0 is compared like that of a container",
    since=22,
    until=25,
    concerns=lambda pod: bool(extended_resources(pod)),
)
OLD_NODE_REASONS = Rule(
    "reasons of nodes",
    "the reasons of NodeAffinity and NodeName are worded otherwise",
    until=20,
    decides=False,
)
MIGRATED_DISKS = Rule(
    "migrated disks",
    "where a kubelet has migrated an in-tree volume to CSI, the labels of the CSI driver say which nodes "
    "reach it",
    since=23,
    concerns=has_claims,
)
ZONES_BY_EITHER_LABEL = Rule(
    "zones by either label",
    "the label topology.kubernetes.io of a node stands for failure-domain.beta.kubernetes.io of a volume",
    since=29,
    concerns=has_claims,
)
ZONES_ON_EACH_NODE = Rule(
    "zones on each node",
    "VolumeZone looks at a pod's claims on each node that has zone labels, rather than once",
    until=26,
    concerns=has_claims,
)
LOST_CLAIMS = Rule(
    "lost claims", "a claim that is lost rejects the pod at once", since=23, concerns=has_claims
)
OLD_VOLUME_REASON = Rule(
    "reason of missing volumes",
    "the reason of a claim whose volume is gone is worded otherwise",
    until=22,
    decides=False,
)
DEFAULT_SPREAD = Rule(
    "default spread",
    "default constraints of PodTopologySpread spread pods of a Service or controller; before, SelectorSpread",
    since=20,
    gate=Gate("DefaultPodTopologySpread", exists_since=18, locked_since=20),
    concerns=lambda pod: not has_spread_constraints(pod),
)
ZERO_SCALARS = Rule(
    "extended resources of 0",
    "a node whose pods request more of an extended resource than it has rejects a pod that requests 0 of it",
    until=25,
    concerns=lambda pod: bool(extended_resources(pod)),
)
SCORE_WITHOUT_OVERHEAD = Rule(
    "score without overhead",
    "the score of NodeResourcesFit leaves out the overhead of the pod being placed",
    since=22,
    until=23,
    concerns=lambda pod: bool(pod.spec.overhead),
)
SKIPPED_FILTERS = Rule(
    "skipped filters",
    "a filter that has nothing to look at for a pod is skipped, also where room is kept for nominated pods",
    since=27,
    # It decides only where nominated pods have an anti-affinity that no pod on the node has.
    decides=False,
)
PREPARED_RESTRICTIONS = Rule(
    "prepared VolumeRestrictions",
    "the filter of VolumeRestrictions fails where its preFilter is disabled",
    since=27,
    # It decides only where that is disabled. Such a scheduler rejects every pod, which somebody will notice.
    decides=False,
)
_V1 = Rule(
    "configuration v1",
    "the weights are those of v1beta3; 1.35 reads no other version",
    since=25,
    decides=False,
)
_V1BETA3 = Rule(
    "configuration v1beta3",
    "weights 3 for TaintToleration, 2 for NodeAffinity and InterPodAffinity",
    since=23,
    until=28,
    decides=False,
)
_V1BETA2 = Rule("configuration v1beta2", "no multiPoint; most weights 1", since=22, until=27, decides=False)
_V1BETA1 = Rule(
    "configuration v1beta1",
    "NodeResourcesLeastAllocated instead of NodeResourcesFit's score, NodePreferAvoidPods",
    since=19,
    until=22,
    decides=False,
)

# ``vars()`` are the names of this module so far: each rule above is in the table by being assigned to a name.
RULES: tuple[Rule, ...] = tuple(value for value in [*vars().values()] if isinstance(value, Rule))
"""All of them, in the order in which they stand here; messages list several in this order."""

GATES_OF_RULES = frozenset(rule.gate.name for rule in RULES if rule.gate is not None)
"""The names of the feature gates that rebalancer knows."""


def as_seen_by(release: Release, pod: PodClass) -> PodClass:
    """A pod without the fields that the scheduler of a release does not look at."""
    for without_field in _functions_that_drop_fields(release):
        pod = without_field(pod)
    return pod


@lru_cache(maxsize=16)
def _functions_that_drop_fields(release: Release) -> tuple[Callable[[PodClass], PodClass], ...]:
    """One function for each rule that a release does not follow, and that is about fields of pods."""
    return tuple(rule.without for rule in RULES if rule.without is not None and not release.has(rule))
