"""PodTopologySpread: similar numbers of matching pods in every topology domain.

The constraints of a pod class are its own, else the profile's defaults.

Source: kubernetes v1.34.4 pkg/scheduler/framework/plugins/podtopologyspread/common.go, filtering.go:311,
scoring.go:196.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Annotated, Literal, Self

import msgspec
import numpy as np
from pydantic import BeforeValidator, Field, model_validator

from rebalancer.cluster.arrays import BoolArray, IntArray
from rebalancer.cluster.kinds import SERVICES, Kind
from rebalancer.cluster.pod_classes import PodClass
from rebalancer.cluster.records import TopologySpreadConstraint
from rebalancer.cluster.selectors import LabelMatch
from rebalancer.profiles.types import Arguments, ExtensionPoint, extension_points, inputs_of
from rebalancer.scheduling.framework.plugin import (
    EXCLUDED,
    MAX_SCORE,
    PASS,
    SKIP,
    Alike,
    Enabled,
    Evidence,
    KindScores,
    Normalization,
    ObjectsRead,
    Plugin,
    PluginInputs,
    PreFilter,
)
from rebalancer.scheduling.matching import (
    EVERYTHING,
    OWNER_KINDS,
    Owners,
    PodSelector,
    Tolerations,
    label_match,
)
from rebalancer.scheduling.plugins.node_properties.node_affinity import required_by_pod
from rebalancer.scheduling.plugins.node_properties.taint_toleration import untolerated_hard_taints
from rebalancer.scheduling.resources import take
from rebalancer.scheduling.state.cluster_state import ClusterState
from rebalancer.scheduling.state.counters import MatchingPods
from rebalancer.scheduling.state.domains import Constraint, DomainCounter
from rebalancer.scheduling.versions.release import Release
from rebalancer.scheduling.versions.rules import (
    DEFAULT_SPREAD,
    EMPTY_SPREAD_SELECTOR,
    EMPTY_SPREAD_SELECTOR_BEFORE,
    IDLE_SCORES,
    MIN_DOMAINS,
    SELECTING_OWNERS,
    SPREAD_BESIDE,
    TRUNCATED_SPREAD,
)

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
HARD = "DoNotSchedule"
SOFT = "ScheduleAnyway"
_HONOR = "Honor"
_TOO_SKEWED = 1
_NO_LABEL = 2
_MAX_RESULTS = 32  # of the scores of a class that are kept


class DefaultConstraint(Arguments):
    """A topology spread constraint for pods that state none; its selector is derived from their owners."""

    max_skew: int = Field(ge=1)
    topology_key: str = Field(min_length=1)
    when_unsatisfiable: Literal["DoNotSchedule", "ScheduleAnyway"]
    min_domains: int | None = Field(default=None, ge=1)
    node_affinity_policy: Literal["Honor", "Ignore"] | None = None
    node_taints_policy: Literal["Honor", "Ignore"] | None = None
    match_label_keys: tuple[str, ...] = ()
    label_selector: None = Field(default=None, description="Must be absent: it is derived.")


class PodTopologySpreadArguments(Arguments):
    """Arguments of PodTopologySpread."""

    defaulting_type: Annotated[
        Literal["System", "List"], BeforeValidator(lambda given: given or "System")
    ] = "System"
    default_constraints: tuple[DefaultConstraint, ...] = ()

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.defaulting_type == "System" and self.default_constraints:
            raise ValueError("defaultConstraints need defaultingType: List")
        seen = [
            (constraint.topology_key, constraint.when_unsatisfiable)
            for constraint in self.default_constraints
        ]
        repeated = next((pair for pair in seen if seen.count(pair) > 1), None)
        if repeated is not None:
            raise ValueError(f"defaultConstraints lists {' '.join(repeated)} twice")
        return self


def _filled_in(
    constraint: TopologySpreadConstraint | DefaultConstraint, selector: LabelMatch | None, release: Release
) -> Constraint:
    return Constraint(
        constraint.max_skew,
        constraint.topology_key,
        selector,
        (constraint.min_domains if release.has(MIN_DOMAINS) else None) or 1,
        (constraint.node_affinity_policy or _HONOR) == _HONOR,
        constraint.node_taints_policy == _HONOR,
    )


def _own_selector(constraint: TopologySpreadConstraint, pod: PodClass) -> LabelMatch | None:
    selector = label_match(constraint.label_selector)
    keys = [key for key in constraint.match_label_keys or () if key in pod.labels]
    return (selector or LabelMatch()).also((key, pod.labels[key]) for key in keys) if keys else selector


class Groups(msgspec.Struct, frozen=True, eq=False):
    """Nodes that are in the same domains by some topology keys, as groups."""

    of_node: IntArray  # (nodes,)
    count: int
    domains: Mapping[str, IntArray]  # by key: (groups,) -1 where its nodes lack the key


class SoftConstraints(msgspec.Struct, frozen=True, eq=False):
    """The soft constraints of a class, and how a release scores by them.

    Nodes that are in the same domains by every key but the hostname are a group. Of a group, nodes with as
    many matching pods have the same score: they are of one kind. So scores are computed for each kind that
    there is, and not for each node. With 2 groups, the kind of a node is 2 · its matching pods + its group:

        node        a    b    c    d
        zone        x    y    x    x         groups 0 1 0 0
        pods        0    1    0    1         kinds  0 3 0 2
    """

    counters: Sequence[DomainCounter]
    truncated: bool
    ignored: BoolArray | None  # (nodes,) lack a key although all are required; None: no node
    on_nodes: DomainCounter | None  # the constraint by hostname
    groups: Groups
    ignored_groups: BoolArray | None  # (groups,) those of ``ignored``
    # Scores of kinds, by all that they depend on: pods that are looked at find few kinds of nodes changed.
    results: dict[Hashable, KindScores] = msgspec.field(default_factory=dict)


def _groups(state: ClusterState, keys: Iterable[str]) -> Groups:
    """The nodes by these keys; by the hostname no more than whether they have it. Found once a cluster."""
    distinct = tuple(dict.fromkeys(keys))

    def compute() -> Groups:
        of_node = np.zeros(len(state.nodes), np.int64)
        columns = []
        for key in distinct:
            column = state.nodes.labels.column(key)
            columns.append(np.minimum(column.values, 0) if key == HOSTNAME else column.values)
            # Numbered anew after each key, so that there are never more groups than nodes.
            of_node = of_node * (len(column.names) + 1) + columns[-1] + 1
            of_node = np.unique(of_node, return_inverse=True)[1]
        count = int(of_node.max()) + 1 if len(of_node) else 1
        example = np.zeros(count, np.int64)
        example[of_node] = np.arange(len(of_node))
        domains = {key: values[example] for key, values in zip(distinct, columns, strict=True)}
        return Groups(of_node, count, domains)

    return state.nodes.cached(Groups, distinct, compute)


class PodTopologySpread(Plugin):
    """Hard constraints reject domains that are too full, soft ones prefer the emptier.

    In a sampled cluster (over 100 nodes) a raw score depends on the sample: on its number of nodes, which
    is known, and on the topology values in it, for which those of all feasible nodes are taken. Exact as
    long as every sample has a node of every zone, and none lacks a required key.
    """

    name = "PodTopologySpread"
    needs_pre_filter = True
    needs_pre_score = True
    points = extension_points("preFilter filter preScore score")
    Arguments = PodTopologySpreadArguments
    inputs = inputs_of(SERVICES, *OWNER_KINDS.values())
    evidence = Evidence.DECISIONS
    normalization = Normalization.RANGE
    is_in_range = True
    static_pre_filter = True
    reasons = {
        _TOO_SKEWED: "node(s) didn't match pod topology spread constraints",
        _NO_LABEL: "node(s) didn't match pod topology spread constraints (missing required label)",
    }

    @classmethod
    def make(cls, arguments: PodTopologySpreadArguments, inputs: PluginInputs) -> Self:
        return cls(arguments, inputs.owners)

    @classmethod
    def needs(cls, pod: PodClass, enabled: Enabled, objects: ObjectsRead) -> Iterable[Kind]:
        """What the selector of default constraints is derived from: Services and the pod's controller."""
        arguments = enabled.arguments
        if pod.spec.topology_spread_constraints:
            return ()
        if not isinstance(arguments, PodTopologySpreadArguments) or arguments.defaulting_type == "System":
            has_defaults = ExtensionPoint.SCORE in enabled.points  # the scheduler's own are all soft
        else:
            has_defaults = bool(arguments.default_constraints)
        if not has_defaults:
            return ()
        if objects.release.has(SELECTING_OWNERS):
            return (SERVICES, *OWNER_KINDS.values())
        controller = OWNER_KINDS.get((pod.owner.api_version, pod.owner.kind))
        return (SERVICES,) if controller is None else (SERVICES, controller)

    def __init__(self, arguments: PodTopologySpreadArguments, owners: Owners) -> None:
        self._owners = owners
        self._defaults = arguments.default_constraints
        self._system_defaults = arguments.defaulting_type == "System"  # the scheduler's own, all soft
        self._hard_defaults = any(constraint.when_unsatisfiable == HARD for constraint in self._defaults)

    def _constraints(self, pod: PodClass, when: str, release: Release) -> Sequence[Constraint]:
        """The constraints for ``when`` unsatisfiable; a pod with any of its own has no defaults."""
        if pod.spec.topology_spread_constraints:
            return [
                _filled_in(constraint, _own_selector(constraint, pod), release)
                for constraint in pod.spec.topology_spread_constraints
                if constraint.when_unsatisfiable == when
            ]
        defaults = [constraint for constraint in self._defaults if constraint.when_unsatisfiable == when]
        by_system = self._system_defaults and when == SOFT and release.has(DEFAULT_SPREAD)
        derived = EVERYTHING
        if defaults or by_system:
            selecting = release.has(SELECTING_OWNERS)
            derived = self._owners.derived_from_all(pod) if selecting else self._owners.derived(pod)
        if derived.is_empty:
            return ()
        if by_system:
            return (Constraint(3, HOSTNAME, derived), Constraint(5, ZONE, derived))
        return [_filled_in(constraint, derived, release) for constraint in defaults]

    def _missing(self, state: ClusterState, constraints: Sequence[Constraint]) -> BoolArray | None:
        """(nodes,) lacks the key of any constraint; None where no node does."""
        missing: BoolArray | None = None
        for constraint in constraints:
            column = state.nodes.labels.column(constraint.topology_key)
            if column.count < len(column.values):
                lacks = column.values < 0
                missing = lacks if missing is None else missing | lacks
        return missing

    def _counter(
        self,
        state: ClusterState,
        pod_class: int,
        constraint: Constraint,
        missing: BoolArray | None,
        *,
        beside: bool,
    ) -> DomainCounter:
        pod = state.classes[pod_class]
        column = state.nodes.labels.column(constraint.topology_key)
        by_affinity = constraint.honor_affinity and bool(pod.spec.node_selector or pod.spec.affinity)
        rows: IntArray | None = None
        if missing is not None or by_affinity or constraint.honor_taints:
            counted = column.values >= 0
            if missing is not None:
                counted &= ~missing
            if by_affinity:
                counted &= required_by_pod(state, pod.spec)
            if constraint.honor_taints:
                counted &= ~untolerated_hard_taints(state, pod_class)
                if state.added_taint is not None and not Tolerations(pod.spec.tolerations).tolerate(
                    state.added_taint[0]
                ):
                    counted[list(state.added_taint[1])] = False
            rows = np.flatnonzero(counted) if int(np.count_nonzero(counted)) < column.count else None
        selector = constraint.selector
        counter = -1
        # From 1.27 to 1.37 {} selects the pod itself, but counts nothing.
        release = state.classes.release
        empty_counts = release.has(EMPTY_SPREAD_SELECTOR) or release.has(EMPTY_SPREAD_SELECTOR_BEFORE)
        if selector is not None and (empty_counts or not selector.is_empty):
            selected = PodSelector(frozenset({pod.namespace}), selector)
            counter = state.classes.counters.number(MatchingPods((selected,), terminating=False))
        return DomainCounter(
            constraint,
            column.values,
            len(column.names),
            column.count,
            counter,
            rows,
            int(selector is not None and selector.matches(pod.labels)),
            pod.namespace,
            counts_beside=beside,
        )

    def hard(self, state: ClusterState, pod_class: int) -> Sequence[DomainCounter]:
        """The constraints of a class that reject."""

        def compute() -> Sequence[DomainCounter]:
            release = state.classes.release
            constraints = self._constraints(state.classes[pod_class], HARD, release)
            missing = self._missing(state, constraints)
            beside = release.has(SPREAD_BESIDE)
            return [
                self._counter(state, pod_class, constraint, missing, beside=beside)
                for constraint in constraints
            ]

        return state.classes.cached(pod_class, self, (HARD, self._taint(state, pod_class)), compute)

    def soft(self, state: ClusterState, pod_class: int) -> SoftConstraints:
        """The constraints of a class that score."""
        key = SOFT, self._taint(state, pod_class)
        return state.classes.cached(pod_class, self, key, lambda: self._find_soft(state, pod_class))

    def _find_soft(self, state: ClusterState, pod_class: int) -> SoftConstraints:
        pod = state.classes[pod_class]
        constraints = self._constraints(pod, SOFT, state.classes.release)
        require_all = bool(pod.spec.topology_spread_constraints) or not self._system_defaults
        missing = self._missing(state, constraints) if require_all else None
        counters = [
            self._counter(state, pod_class, constraint, missing, beside=False) for constraint in constraints
        ]
        groups = _groups(state, [constraint.topology_key for constraint in constraints])
        ignored_groups: BoolArray | None = None
        if missing is not None:
            ignored_groups = np.zeros(groups.count, np.bool_)
            ignored_groups[groups.of_node[missing]] = True
        return SoftConstraints(
            counters,
            state.classes.release.has(TRUNCATED_SPREAD),
            missing,
            next((counter for counter in counters if counter.constraint.topology_key == HOSTNAME), None),
            groups,
            ignored_groups,
        )

    def _taint(self, state: ClusterState, pod_class: int) -> Hashable:
        """The taint that a state has besides its nodes' own, where a constraint of a class may mind it."""
        if state.added_taint is None:
            return None
        own = state.classes[pod_class].spec.topology_spread_constraints
        minds = any(constraint.node_taints_policy == _HONOR for constraint in own or self._defaults)
        return state.added_taint if minds else None

    def spread_counters(self, state: ClusterState, pod_class: int, when: str) -> Sequence[DomainCounter]:
        return self.hard(state, pod_class) if when == HARD else self.soft(state, pod_class).counters

    def pre_filter(self, state: ClusterState, pod_class: int) -> PreFilter:
        return PASS if self.hard(state, pod_class) else SKIP

    def filter(self, state: ClusterState, pod_class: int) -> IntArray:
        """Rejects where count + itself − smallest count > maxSkew, and where the key is missing."""
        codes = np.zeros(len(state.nodes), np.int64)
        for counter in self.hard(state, pod_class):
            counts = counter.counts(state)
            enough = len(counter.populated) >= counter.constraint.min_domains
            smallest = counts[counter.populated].min() if enough and len(counter.populated) else 0
            skewed = counts + (counter.itself - smallest) > counter.constraint.max_skew
            by_domain = skewed * _TOO_SKEWED
            by_domain[-1] = _NO_LABEL
            codes = np.where(codes == 0, by_domain[counter.values], codes)
        return codes

    def concerns(self, state: ClusterState, pod_class: int) -> bool:
        """Those with a hard constraint, of their own or else of the scheduler's configuration."""
        own = state.classes[pod_class].spec.topology_spread_constraints
        if own:
            return any(constraint.when_unsatisfiable == HARD for constraint in own)
        return self._hard_defaults

    def may_reject(self, state: ClusterState, pod_class: int, nodes: IntArray) -> BoolArray:
        doubtful = np.zeros(len(nodes), np.bool_)
        for counter in self.hard(state, pod_class):
            doubtful |= counter.may_reject(state, nodes)
        return doubtful

    def is_static(self, point: ExtensionPoint, state: ClusterState, pod_class: int) -> bool:
        """It scores no class without soft constraints."""
        return point is ExtensionPoint.SCORE and not self.soft(state, pod_class).counters

    def raw_scores(self, state: ClusterState, pod_class: int, feasible: IntArray) -> IntArray | None:
        """Of all feasible nodes, when all are compared."""
        scores = self.raw_scores_of_sample(state, pod_class, feasible, len(feasible))
        return scores.scores.raw.take(scores.kind) if isinstance(scores, Alike) else scores

    def raw_scores_of_sample(
        self, state: ClusterState, pod_class: int, feasible: IntArray, sample_size: int
    ) -> IntArray | Alike | None:
        """rnd(Σ count·ln(size + 2) + maxSkew − 1) over the constraints whose key the node has."""
        soft = self.soft(state, pod_class)
        if not soft.counters:
            idle = state.classes.release.has(IDLE_SCORES)
            return np.zeros(len(feasible), np.int64) if idle else None
        kind = take(soft.groups.of_node, feasible)
        if soft.on_nodes is not None and soft.on_nodes.counter >= 0:
            pods = take(state.counter(soft.on_nodes.counter)[:-1], feasible)
            kind = pods * soft.groups.count + kind
        number = np.bincount(kind)  # of nodes by kind
        kinds = number.nonzero()[0]
        # What the scores of kinds depend on; where some nodes are ignored, on how many of each there are.
        key: list[object] = [len(feasible), sample_size, kinds.tobytes()]
        if soft.ignored_groups is not None:
            key.append(number.tobytes())
        by_domain = [
            counter.counts(state)
            for counter in soft.counters
            if counter is not soft.on_nodes and counter.with_key
        ]
        key.extend(counts.tobytes() for counts in by_domain)
        scores = soft.results.get(tuple(key))
        if scores is None:
            if len(soft.results) >= _MAX_RESULTS:
                soft.results.clear()
            raw = self._of_kinds(soft, kinds, number, by_domain, len(feasible), sample_size)
            scores = soft.results[tuple(key)] = KindScores.of(self, kinds, raw)
        return Alike(kind, scores)

    def _of_kinds(
        self,
        soft: SoftConstraints,
        kinds: IntArray,
        number: IntArray,
        counts_by_domain: Iterable[IntArray],
        feasible: int,
        sample_size: int,
    ) -> IntArray:
        """(kinds,) raw scores, where ``number`` says how many nodes are of each, ``feasible`` in all.

        ``counts_by_domain`` are those of each constraint by another key than the hostname.
        """
        groups = kinds % soft.groups.count
        compared = feasible
        compared_groups = groups
        if soft.ignored_groups is not None:
            is_compared = ~soft.ignored_groups.take(groups)
            compared = int(number.take(kinds[is_compared]).sum())
            compared_groups = groups[is_compared]
        scores = np.zeros(len(kinds))
        counts = iter(counts_by_domain)
        for counter in soft.counters:
            if not counter.with_key:
                continue
            constant = float(counter.constraint.max_skew - 1)
            domains = soft.groups.domains[counter.constraint.topology_key]
            if counter is soft.on_nodes:
                weight = math.log(compared * sample_size // feasible + 2)
                part = kinds // soft.groups.count * weight + constant
                if not counter.on_every_node:
                    part[domains.take(groups) < 0] = 0.0
            else:
                size = np.count_nonzero(np.bincount(domains.take(compared_groups) + 1))
                by_domain = next(counts) * math.log(size + 2) + constant
                by_domain[-1] = 0.0  # of a node without the key nothing counts
                part = by_domain[domains.take(groups)]
            scores += part
        # Go's math.Round of 0 and of numbers from 1 on: below 1, half of the spacing may be rounded up.
        raw = (scores if soft.truncated else np.floor(scores + 0.5)).astype(np.int64)
        if soft.ignored_groups is not None:
            raw[~is_compared] = EXCLUDED
        return raw

    def normalize(self, raw: IntArray, smallest: int, largest: int) -> IntArray:
        """100·(max + min − raw) ÷ max, all 100 when max is 0; 0 for a node that lacks a required key."""
        scores: IntArray = np.full(len(raw), MAX_SCORE, np.int64)
        if largest > 0:
            scores = MAX_SCORE * (largest + smallest - raw) // largest
        excluded = raw == EXCLUDED
        if np.count_nonzero(excluded):
            scores[excluded] = 0
        return scores
