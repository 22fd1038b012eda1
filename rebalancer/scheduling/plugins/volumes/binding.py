"""VolumeBinding: where a pod's claims are, or can be, bound.

Bound claims tie a pod to the nodes that their volumes' node affinity names. Of a bound volume of an in-tree
kind, a node whose kubelet has handed the kind over to a CSI driver is compared in the words of that driver;
free volumes are compared as they are.

Of free volumes of equal size the scheduler takes any, as its maps list them. Where these are not alike, what
is left for other claims is unknown: each stays free here, and a pod that could take one may land on any node
that then passes.

    v-1 (10Gi, nodes a and b), v-2 (10Gi, nodes a and c), and pod p is placed on node a
    pod q takes what p left                     it lands on a, b or c
    both volumes on nodes a and b alone         p takes v-1: either is the same to q

From 1.37 on it scores, too: a node scores the less, the larger the share that the pod's unbound claims take
of the free volumes found for them there, or else of the capacity that a CSI driver publishes for it.

Source: kubernetes v1.34.4 pkg/scheduler/framework/plugins/volumebinding/volume_binding.go:417, v1.35.4
binder.go:364, :856, :1109; v1.37.2 volume_binding.go:468, scorer.go:37.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from fractions import Fraction

import msgspec
import numpy as np
from msgspec.structs import replace
from pydantic import Field

from rebalancer.cluster.arrays import BoolArray, IntArray
from rebalancer.cluster.kinds import (
    CLAIMS,
    CSI_CAPACITIES,
    CSI_DRIVERS,
    CSI_NODES,
    PERSISTENT_VOLUMES,
    STORAGE_CLASSES,
    Kind,
)
from rebalancer.cluster.pod_classes import PodClass
from rebalancer.cluster.quantities import units_of
from rebalancer.cluster.records import (
    ClaimReference,
    CsiStorageCapacity,
    LabelSelector,
    NodeSelector,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from rebalancer.profiles.types import Arguments, ExtensionPoint, extension_points, inputs_of
from rebalancer.scheduling.framework.plugin import (
    NO_OTHER_SCORES,
    PASS,
    SKIP,
    Enabled,
    Evidence,
    ObjectsRead,
    OtherScores,
    Plugin,
    PreFilter,
)
from rebalancer.scheduling.matching import label_match
from rebalancer.scheduling.plugins.node_resources.scored_resources import ShapePoint, on_shape
from rebalancer.scheduling.resources import round_half_away
from rebalancer.scheduling.state.cluster_state import ClusterState, Result, once_a_class
from rebalancer.scheduling.state.volumes import (
    NO_PROVISIONER,
    ON_FIRST_CONSUMER,
    SELECTED_NODE_ANNOTATION,
    Volumes,
    claim_names,
    claim_size,
    class_name,
    in_tree_plugin,
    is_bound,
    migrated_affinity,
    migrated_plugins,
    storage,
)
from rebalancer.scheduling.versions.release import REFERENCE_RELEASE, Release
from rebalancer.scheduling.versions.rules import (
    AFFINITY_REASON,
    IDLE_ZEROS,
    LOST_CLAIMS,
    MIGRATED_DISKS,
    OLD_VOLUME_REASON,
    STORAGE_CAPACITY,
    STORAGE_CAPACITY_SCORING,
)

_ELSEWHERE = 1
_NONE_FREE = 2
_NO_SPACE = 4
_NO_VOLUME = 8
_REASONS = {
    _ELSEWHERE: "node(s) didn't match PersistentVolume's node affinity",
    _NONE_FREE: "node(s) didn't find available persistent volumes to bind",
    _NO_SPACE: "node(s) did not have enough free storage",
    _NO_VOLUME: "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
}
_REASONS_UNTIL_122 = {_NO_VOLUME: "pvc(s) bound to non-existent pv(s)"}
_REASONS_UNTIL_132 = {_ELSEWHERE: "node(s) had volume node affinity conflict"}

_TAKEN_BY_CHANCE = "another claim takes one of several free volumes of equal size, and which is not known"


class SortedClaims(msgspec.Struct, frozen=True):
    """The claims of a class: why they reject it, those bound, those to bind when it is placed."""

    rejected: str = ""
    bound: tuple[PersistentVolumeClaim, ...] = ()
    to_bind: tuple[PersistentVolumeClaim, ...] = ()


class Assumed:
    """What claims have taken since the snapshot was made: free volumes, and nodes for volumes to be made."""

    def __init__(self, volumes: Mapping[str, PersistentVolume]) -> None:
        """``volumes`` are those of the snapshot by name."""
        self.volumes: Mapping[str, PersistentVolume] = volumes  # those taken reserved for their claims
        self.perhaps_taken: set[str] = set()  # names of free volumes of which claims took some
        self._selected: dict[tuple[str, str], str] = {}  # claim -> node where its volume is to be made
        self._taken: set[tuple[str, str]] = set()  # claims with a volume

    def has_volume(self, claim: PersistentVolumeClaim) -> bool:
        """Whether a claim has taken a free volume."""
        return _key(claim) in self._taken

    def take(self, claim: PersistentVolumeClaim, volume: PersistentVolume | None, node: str) -> None:
        """Reserve a volume for a claim; without one, note the node where it is to be made."""
        if volume is None:
            self._selected[_key(claim)] = node
            return
        self._taken.add(_key(claim))
        reference = ClaimReference(*_key(claim), claim.metadata.uid)
        reserved = replace(volume, spec=replace(volume.spec, claim_ref=reference))
        self.volumes = {**self.volumes, volume.metadata.name: reserved}

    def selected_node(self, claim: PersistentVolumeClaim) -> str | None:
        """The node where a claim's volume is to be made; None when it is free to be anywhere."""
        annotation = (claim.metadata.annotations or {}).get(SELECTED_NODE_ANNOTATION)
        return self._selected.get(_key(claim), annotation)


def _key(claim: PersistentVolumeClaim) -> tuple[str, str]:
    return claim.metadata.namespace, claim.metadata.name


def sort_claims(
    volumes: Volumes, namespace: str, names: Sequence[str], release: Release = REFERENCE_RELEASE
) -> SortedClaims:
    """The claims of a pod by what has to happen to them; those that keep it from being placed first."""
    bound = []
    to_bind = []
    immediate = False
    for name in names:
        claim = volumes.claims.get((namespace, name))
        if claim is None:
            return SortedClaims(f'persistentvolumeclaim "{name}" not found')
        if claim.status.phase == "Lost" and release.has(LOST_CLAIMS):
            gone = claim.spec.volume_name
            return SortedClaims(
                f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{gone}"'
            )
        if claim.metadata.deletion_timestamp is not None:
            return SortedClaims(f'persistentvolumeclaim "{name}" is being deleted')
        storage_class = volumes.classes.get(class_name(claim))
        delayed = storage_class is not None and storage_class.volume_binding_mode == ON_FIRST_CONSUMER
        if is_bound(claim):
            bound.append(claim)
        elif delayed and not claim.spec.volume_name:
            to_bind.append(claim)
        else:
            immediate = True
    if immediate:
        return SortedClaims("pod has unbound immediate PersistentVolumeClaims")
    return SortedClaims("", tuple(bound), tuple(to_bind))


def is_reserved_for(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether a volume is reserved for a claim."""
    reference = volume.spec.claim_ref
    return (
        reference is not None
        and (reference.namespace, reference.name) == (claim.metadata.namespace, claim.metadata.name)
        and reference.uid in ("", claim.metadata.uid)
    )


def suits(volume: PersistentVolume, claim: PersistentVolumeClaim, size: Fraction) -> bool:
    """Whether a free volume suits a claim, wherever it is."""
    selector = claim.spec.selector
    match = label_match(selector)
    return (
        volume.spec.claim_ref is None
        and volume.status.phase == "Available"
        and (selector is None or (match is not None and match.matches(volume.metadata.labels or {})))
        and set(claim.spec.access_modes or ()) <= set(volume.spec.access_modes or ())
        and is_large_enough(volume, claim, size)
    )


def is_large_enough(volume: PersistentVolume, claim: PersistentVolumeClaim, size: Fraction) -> bool:
    """Whether a volume that is not being deleted has the claim's mode and size."""
    capacity = storage(volume.spec.capacity)
    modes = (volume.spec.volume_mode or "Filesystem", claim.spec.volume_mode or "Filesystem")
    return (
        capacity is not None
        and capacity >= size
        and modes[0] == modes[1]
        and volume.metadata.deletion_timestamp is None
    )


def offers(capacity: CsiStorageCapacity, size: Fraction | int) -> bool:
    """Whether a published capacity suffices; the largest volume counts if it is stated."""
    limit = capacity.capacity if capacity.maximum_volume_size is None else capacity.maximum_volume_size
    offered = storage({"storage": limit}) if limit is not None else None
    return offered is not None and offered >= size


def reachable(state: ClusterState, volume: PersistentVolume) -> BoolArray:
    """(nodes,) matches the volume's node affinity."""
    affinity = volume.spec.node_affinity
    return _selected(state, affinity.required if affinity is not None else None)


def reachable_when_bound(state: ClusterState, volume: PersistentVolume) -> BoolArray:
    """(nodes,) matches it, each node in the words that it uses."""
    as_it_is = reachable(state, volume)
    plugin = in_tree_plugin(volume)
    if not plugin or not state.classes.release.has(MIGRATED_DISKS):
        return as_it_is
    csi_nodes = state.classes.volumes.csi_nodes
    handed_over = [plugin in migrated_plugins(csi_nodes.get(name)) for name in state.nodes.names]
    return np.where(handed_over, _selected(state, migrated_affinity(volume)), as_it_is)


def _selected(state: ClusterState, required: NodeSelector | None) -> BoolArray:
    return np.ones(len(state.nodes), np.bool_) if required is None else state.nodes.labels.selector(required)


class VolumeBindingArguments(Arguments):
    """Arguments of VolumeBinding; ``shape`` maps the share taken to a score, where it scores."""

    bind_timeout_seconds: int = Field(default=600, ge=0)
    shape: tuple[ShapePoint, ...] | None = None


# Where no shape is given: the more is taken, the lower the score (apis/config/v1/defaults.go:198).
_DEFAULT_SHAPE = (
    ShapePoint.model_construct(utilization=0, score=10),
    ShapePoint.model_construct(utilization=100, score=0),
)


class _Choice(msgspec.Struct, frozen=True, eq=False):
    """The volumes that a claim would take, each with (nodes,) where, and where one has to be made."""

    claim: PersistentVolumeClaim
    volumes: tuple[tuple[PersistentVolume, BoolArray], ...]
    to_make: BoolArray
    unclear: BoolArray  # (nodes,) where it may take others of these instead
    choices: frozenset[str]  # names of the volumes that it may take there
    contested: bool  # whether what another claim of the pod finds depends on that


def _size(volume: PersistentVolume) -> Fraction:
    return storage(volume.spec.capacity) or Fraction(0)


def _what_claims_see(volume: PersistentVolume) -> bytes:
    """What of a free volume decides which claims it suits and which nodes reach it, its size aside."""
    spec = volume.spec
    return msgspec.json.encode(
        (volume.metadata.labels, spec.node_affinity, sorted(spec.access_modes or ()), spec.volume_mode)
    )


def _suits_some(candidates: Sequence[PersistentVolume], choices: Collection[str]) -> bool:
    """Whether some of the volumes of these names are among the candidates, and others are not."""
    suiting = sum(volume.metadata.name in choices for volume in candidates)
    return 0 < suiting < len(choices)


class VolumeBinding(Plugin):
    """Bound claims tie the pod to their volumes' nodes; others need a free volume or room to make one.

    What pods that were bound on the state take is set aside for their claims, as the scheduler assumes it
    between placing a pod and the binding of its volumes.
    """

    name = "VolumeBinding"
    needs_pre_filter = True
    points = extension_points("preFilter filter reserve preBind preScore score")
    Arguments = VolumeBindingArguments
    kinds_for_claims = (CLAIMS, PERSISTENT_VOLUMES, STORAGE_CLASSES, CSI_NODES)
    inputs = inputs_of(*kinds_for_claims, CSI_DRIVERS, CSI_CAPACITIES)
    evidence = Evidence.DECISIONS
    static_pre_filter = True

    def __init__(self, arguments: VolumeBindingArguments | None = None) -> None:
        """``arguments`` None: the defaults."""
        self._shape = (arguments.shape if arguments else None) or _DEFAULT_SHAPE

    @classmethod
    def needs(cls, pod: PodClass, enabled: Enabled, objects: ObjectsRead) -> Iterable[Kind]:
        """Drivers and capacities too, unless all claims are bound."""
        kinds = super().needs(pod, enabled, objects)
        bound = all((pod.namespace, name) in objects.bound_claims for name in claim_names(pod.spec))
        return kinds if bound or not kinds else (*kinds, CSI_DRIVERS, CSI_CAPACITIES)

    @once_a_class
    def _claims(self, state: ClusterState, pod_class: int) -> SortedClaims:
        pod = state.classes[pod_class]
        return sort_claims(state.classes.volumes, pod.namespace, claim_names(pod.spec), state.classes.release)

    def is_static(self, point: ExtensionPoint, state: ClusterState, pod_class: int) -> bool:
        """Only what unbound claims find depends on what other pods have taken."""
        return not self._claims(state, pod_class).to_bind

    def pre_filter(self, state: ClusterState, pod_class: int) -> PreFilter:
        """A claim that is missing, lost, going, or should be bound already rejects the pod."""
        claims = self._claims(state, pod_class)
        if claims.rejected:
            return PreFilter(rejected=claims.rejected)
        return PASS if claims.bound or claims.to_bind else SKIP

    def filter(self, state: ClusterState, pod_class: int) -> IntArray:
        claims = self._claims(state, pod_class)

        def codes(assumed: Assumed) -> IntArray:
            return self._bound(state, claims.bound) | self._unbound(state, claims.to_bind, assumed)

        return self._assuming(state, pod_class, "codes", codes)

    def _assuming(
        self, state: ClusterState, pod_class: int, what: str, compute: Callable[[Assumed], Result]
    ) -> Result:
        """A result named ``what``, by what claims have taken; computed once while that is nothing."""
        if self._claims(state, pod_class).to_bind and state.volumes_here:
            return compute(self._assumed(state))
        nothing = Assumed(state.classes.volumes.volumes)
        return state.classes.cached(pod_class, self, what, lambda: compute(nothing))

    def _assumed(self, state: ClusterState) -> Assumed:
        """What the claims of the pods bound on the state have taken, in the order they were bound."""
        assumed = Assumed(state.classes.volumes.volumes)
        for pod_class, node in state.volumes_here.values():
            left = [
                claim
                for claim in self._claims(state, pod_class).to_bind
                if assumed.selected_node(claim) is None and not assumed.has_volume(claim)
            ]
            for choice in self._choices(state, left, assumed):
                if choice.unclear[node]:
                    choices = (assumed.volumes[name] for name in choice.choices)
                    assumed.perhaps_taken.update(
                        volume.metadata.name for volume in choices if reachable(state, volume)[node]
                    )
                    continue
                volume = next((candidate for candidate, here in choice.volumes if here[node]), None)
                assumed.take(choice.claim, volume, state.nodes.names[node])
        return assumed

    def _bound(self, state: ClusterState, claims: Sequence[PersistentVolumeClaim]) -> IntArray:
        codes = np.zeros(len(state.nodes), np.int64)
        for claim in claims:  # the first claim that fails on a node says why
            volume = state.classes.volumes.volumes.get(claim.spec.volume_name)
            if volume is None:
                codes[codes == 0] = _NO_VOLUME
            else:
                codes[(codes == 0) & ~reachable_when_bound(state, volume)] = _ELSEWHERE
        return codes

    def _unbound(
        self, state: ClusterState, claims: Sequence[PersistentVolumeClaim], assumed: Assumed
    ) -> IntArray:
        """Where each claim finds a free volume or can have one made."""
        codes = np.zeros(len(state.nodes), np.int64)
        wanted_elsewhere = np.zeros(len(state.nodes), np.bool_)
        for claim in claims:
            node = assumed.selected_node(claim)
            if node is not None:
                wanted_elsewhere |= np.array([name != node for name in state.nodes.names], np.bool_)
        for choice in self._choices(state, claims, assumed):  # the first claim that fails on a node says why
            codes = np.where((codes == 0) & choice.to_make, self._provision(state, choice.claim), codes)
        return np.where(wanted_elsewhere, _NONE_FREE, codes)

    def _choices(
        self, state: ClusterState, claims: Sequence[PersistentVolumeClaim], assumed: Assumed
    ) -> list[_Choice]:
        """The free volumes that claims would take, those with a selected node first, then the smallest.

        No volume is taken twice on a node, except where one of several is taken that matter to a later claim.
        """
        everywhere = np.ones(len(state.nodes), np.bool_)
        choices_of_claims = [
            _Choice(claim, (), everywhere, ~everywhere, frozenset(), False)
            for claim in claims
            if assumed.selected_node(claim) is not None
        ]
        to_find = [claim for claim in claims if assumed.selected_node(claim) is None]
        to_find.sort(key=lambda claim: claim_size(claim) or 0)
        by_claim = [self._candidates(assumed.volumes, claim, claim_size(claim)) for claim in to_find]
        taken: dict[str, BoolArray] = {}
        for number, (claim, candidates) in enumerate(zip(to_find, by_claim, strict=True)):
            unmatched = everywhere.copy()
            unclear = ~everywhere
            choices: set[str] = set()
            volumes: list[tuple[PersistentVolume, BoolArray]] = []
            for _, group in itertools.groupby(candidates, _size):
                equally_large = list(group)
                looking = unmatched.copy()
                kinds: dict[bytes, BoolArray] = {}
                for volume in equally_large:
                    used = taken.setdefault(volume.metadata.name, ~everywhere)
                    free = looking & reachable(state, volume) & ~used
                    kind = _what_claims_see(volume)
                    kinds[kind] = kinds.get(kind, ~everywhere) | free
                    if volume.metadata.name in assumed.perhaps_taken and free.any():
                        # It takes one of these, or else a larger one.
                        unclear |= free
                        choices.update(candidate.metadata.name for candidate in candidates)
                    volumes.append((volume, unmatched & free))
                    unmatched &= ~free
                several_kinds = np.sum(list(kinds.values()), axis=0) > 1
                if several_kinds.any():
                    unclear |= several_kinds
                    choices.update(alternative.metadata.name for alternative in equally_large)
            # Claims that every choice suits, or none, find the same whichever is taken.
            contested = any(_suits_some(later, choices) for later in by_claim[number + 1 :])
            for volume, here in volumes:
                certain = here & ~unclear if contested else here
                taken[volume.metadata.name] |= certain
            choices_of_claims.append(
                _Choice(claim, tuple(volumes), unmatched, unclear, frozenset(choices), contested)
            )
        return choices_of_claims

    def leaves_open(self, state: ClusterState, pod_class: int) -> str:
        """A claim could take a volume that another claim may have taken."""
        claims = self._claims(state, pod_class).to_bind
        if not claims or not (len(claims) > 1 or state.volumes_here):
            return ""

        def is_open(assumed: Assumed) -> bool:
            choices = self._choices(state, claims, assumed)
            names = {volume.metadata.name for choice in choices for volume, _ in choice.volumes}
            return bool(names & assumed.perhaps_taken) or any(choice.contested for choice in choices)

        return _TAKEN_BY_CHANCE if self._assuming(state, pod_class, "open", is_open) else ""

    def raw_scores(self, state: ClusterState, pod_class: int, feasible: IntArray) -> IntArray | None:
        """(feasible,) the less, the larger the share that the pod's unbound claims take."""
        scores = self._scores(state, pod_class)
        return None if scores is None else scores[0][feasible]

    def fails(self, state: ClusterState, pod_class: int, feasible: IntArray) -> str:
        """A scheduler that scores panics on a capacity of which only the largest volume is known.

        Source: kubernetes v1.37.2 pkg/scheduler/framework/plugins/volumebinding/volume_binding.go:513.
        """
        scores = self._scores(state, pod_class)
        if scores is None or state.classes.release.has(IDLE_ZEROS):
            return ""
        claims = self._claims(state, pod_class).to_bind
        for claim in claims:
            storage_class = state.classes.volumes.classes.get(class_name(claim))
            for capacity, here in self._capacities(state, storage_class, claim) or ():
                if capacity.capacity is None and here[feasible].any():
                    return (
                        f"CSIStorageCapacity {capacity.metadata.name} says no capacity, only a largest volume"
                    )
        return ""

    def other_raw_scores(self, state: ClusterState, pod_class: int) -> OtherScores:
        """Bounds of the scores where several published capacities suffice: any of them may be counted."""
        scores = self._scores(state, pod_class)
        if scores is None or np.array_equal(*scores):
            return NO_OTHER_SCORES
        return OtherScores((scores[1],), scores)

    def _scores(self, state: ClusterState, pod_class: int) -> tuple[IntArray, IntArray] | None:
        """(nodes,) the lowest and the highest score there may be; None where nothing is scored."""
        claims = self._claims(state, pod_class)
        release = state.classes.release
        if release.has(IDLE_ZEROS):
            nothing = np.zeros(len(state.nodes), np.int64)
            return nothing, nothing
        if not claims.to_bind or not release.has(STORAGE_CAPACITY_SCORING):
            return None
        return self._assuming(
            state, pod_class, "scores", lambda assumed: self._scored(state, claims.to_bind, assumed)
        )

    def _scored(
        self, state: ClusterState, claims: Sequence[PersistentVolumeClaim], assumed: Assumed
    ) -> tuple[IntArray, IntArray]:
        """By storage class: what is requested of what there is, of free volumes or else of capacities."""
        nodes = len(state.nodes)
        choices = self._choices(state, claims, assumed)
        names = list(dict.fromkeys(class_name(choice.claim) for choice in choices))
        requested, smallest, largest = np.zeros((3, len(names), nodes), np.int64)
        counts = np.zeros((len(names), nodes), np.bool_)
        bound = np.zeros(nodes, np.bool_)
        for choice in choices:
            at = names.index(class_name(choice.claim))
            size = units_of(claim_size(choice.claim) or Fraction(0))
            for volume, here in choice.volumes:
                requested[at, here] += size
                largest[at, here] += units_of(_size(volume))
                counts[at] |= here
                bound |= here
        smallest[:] = largest
        for choice in choices:
            at = names.index(class_name(choice.claim))
            size = units_of(claim_size(choice.claim) or Fraction(0))
            lowest, highest, published = self._published(state, choice.claim)
            here = choice.to_make & published & ~bound
            requested[at, here] += size
            smallest[at, here] = lowest[here]
            largest[at, here] = highest[here]
            counts[at] |= here
        scores = []
        for capacity in (smallest, largest):
            used = 100 * requested // np.maximum(capacity, 1)
            used = np.where((capacity == 0) | (requested > capacity), 100, used)
            total = np.where(counts, on_shape(self._shape, used), 0).sum(axis=0)
            mean = total / np.maximum(counts.sum(axis=0), 1)
            scores.append(round_half_away(mean))
        return np.minimum(*scores), np.maximum(*scores)

    def _published(
        self, state: ClusterState, claim: PersistentVolumeClaim
    ) -> tuple[IntArray, IntArray, BoolArray]:
        """(nodes,) the least and the most that a capacity which suffices says, and whether one does."""
        lowest = np.full(len(state.nodes), np.iinfo(np.int64).max)
        highest = np.full(len(state.nodes), -1)
        storage_class = state.classes.volumes.classes.get(class_name(claim))
        for capacity, here in self._capacities(state, storage_class, claim) or ():
            amount = units_of(storage({"storage": capacity.capacity or "0"}) or Fraction(0))
            lowest[here] = np.minimum(lowest[here], amount)
            highest[here] = np.maximum(highest[here], amount)
        return lowest, highest, highest >= 0

    def _candidates(
        self,
        volumes: Mapping[str, PersistentVolume],
        claim: PersistentVolumeClaim,
        size: Fraction | None,
    ) -> Sequence[PersistentVolume]:
        """Volumes to try in turn: the one reserved for the claim alone, else free ones, smallest first."""
        if size is None:
            return ()
        same_class = [volume for volume in volumes.values() if class_name(volume) == class_name(claim)]
        reserved = [
            volume
            for volume in same_class
            if is_reserved_for(volume, claim) and is_large_enough(volume, claim, size)
        ]
        if reserved:
            return reserved[:1]
        free = [volume for volume in same_class if suits(volume, claim, size)]
        return sorted(free, key=lambda volume: (_size(volume), volume.metadata.name))

    def _provision(self, state: ClusterState, claim: PersistentVolumeClaim) -> IntArray:
        """(nodes,) 0 where a volume can be made for the claim."""
        storage_class = state.classes.volumes.classes.get(class_name(claim))
        if storage_class is None or storage_class.provisioner in ("", NO_PROVISIONER):
            return np.full(len(state.nodes), _NONE_FREE, np.int64)
        allowed = self._allowed(state, storage_class)
        room = self._room(state, storage_class, claim)
        return np.where(allowed, np.where(room, 0, _NO_SPACE), _NONE_FREE)

    def _allowed(self, state: ClusterState, storage_class: StorageClass) -> BoolArray:
        """(nodes,) within the class's allowedTopologies: all expressions of any term hold."""
        terms = storage_class.allowed_topologies
        if not terms:
            return np.ones(len(state.nodes), np.bool_)
        allowed = np.zeros(len(state.nodes), np.bool_)
        for term in terms:
            expressions = term.match_label_expressions or ()
            matched = np.full(len(state.nodes), bool(expressions))
            for expression in expressions:
                matched &= state.nodes.labels.among(expression.key, expression.values or ())
            allowed |= matched
        return allowed

    def _room(
        self, state: ClusterState, storage_class: StorageClass, claim: PersistentVolumeClaim
    ) -> BoolArray:
        """(nodes,) a driver that publishes its capacity has some for the claim there."""
        capacities = self._capacities(state, storage_class, claim)
        if capacities is None:
            return np.ones(len(state.nodes), np.bool_)
        nowhere = np.zeros(len(state.nodes), np.bool_)
        return np.asarray(np.any([nowhere, *(here for _, here in capacities)], axis=0), np.bool_)

    def _capacities(
        self, state: ClusterState, storage_class: StorageClass | None, claim: PersistentVolumeClaim
    ) -> list[tuple[CsiStorageCapacity, BoolArray]] | None:
        """The capacities that suffice for a claim, and (nodes,) where; None where none is asked for."""
        if not state.classes.release.has(STORAGE_CAPACITY):
            return None
        driver = state.classes.volumes.drivers.get(storage_class.provisioner) if storage_class else None
        requests = claim.spec.resources.requests if claim.spec.resources else None
        if driver is None or not driver.spec.storage_capacity or "storage" not in (requests or {}):
            return None
        size = claim_size(claim)
        return [
            (capacity, self._selected(state, capacity.node_topology))
            for capacity in (state.classes.volumes.capacities if size is not None else ())
            if capacity.storage_class_name == class_name(claim) and offers(capacity, size or 0)
        ]

    def _selected(self, state: ClusterState, selector: LabelSelector | None) -> BoolArray:
        """(nodes,) whose labels a label selector matches; nil matches none."""
        match = label_match(selector)
        if match is None:
            return np.zeros(len(state.nodes), np.bool_)
        return np.array(
            [match.matches(node.metadata.labels or {}) for node in state.nodes.table.records], np.bool_
        )

    def reason(self, state: ClusterState, pod_class: int, code: int) -> str:
        """The scheduler's words, every reason that holds."""
        release = state.classes.release
        words = _REASONS if release.has(AFFINITY_REASON) else _REASONS | _REASONS_UNTIL_132
        if release.has(OLD_VOLUME_REASON):
            words = words | _REASONS_UNTIL_122
        return ", ".join(text for bit, text in words.items() if code & bit)
