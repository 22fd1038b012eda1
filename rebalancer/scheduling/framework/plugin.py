"""What a plugin is: one class that declares itself and answers for one pod class over all nodes at once.

A plugin is declared once, in its own file. The class attributes say where it may be enabled, which arguments
it takes, what it reads and which resources it scores; the methods compute. The catalogue, the registry and
the table in the documentation are made from the attributes. Third parties subclass ``Plugin`` in the same way
(entry point group ``rebalancer.plugins``).

A filter answers with one code for each node, 0 where the node passes. A score answers with one integer for
each feasible node. What a class does not override passes, scores and says nothing. A class
that overrides ``normalize`` declares ``normalization`` as well, or is refused when it is defined.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum, StrEnum
from functools import cached_property
from typing import Any, ClassVar, Self

import msgspec
import numpy as np
from msgspec.structs import replace

from rebalancer.cluster.arrays import BoolArray, FloatArray, IntArray
from rebalancer.cluster.kinds import Kind
from rebalancer.cluster.pod_classes import PodClass
from rebalancer.cluster.snapshot import Snapshot
from rebalancer.load.scheduler_view import EMPTY_VIEW, SchedulerView
from rebalancer.profiles.types import Arguments as PluginArguments
from rebalancer.profiles.types import ExtensionPoint, Input, PluginQuery
from rebalancer.scheduling.matching import AffinityTerm, NamespaceLabels, Owners, terms_of
from rebalancer.scheduling.state.cluster_state import ClusterState
from rebalancer.scheduling.state.domains import DomainCounter
from rebalancer.scheduling.state.volumes import claim_names, claims_by_name, is_bound
from rebalancer.scheduling.versions.release import REFERENCE_RELEASE, Release, Rule

MAX_SCORE = 100
# The raw score of a feasible node that is left out when the extremes are determined.
EXCLUDED = int(np.iinfo(np.int64).min)
# The figures of a window do not show a pod that was bound less than this before the window's end
# (scheduler-plugins v0.34.7 pkg/trimaran/targetloadpacking/targetloadpacking.go:157).
_UNSEEN_SECONDS = 60.0
MAX_WINDOWS = 4  # of a view: each is one more placement wherever a pod could land
_INSTANT = 1e-3
_LISTING_SECONDS = 5.0  # the time a scheduler takes at its start until it has listed the pods
# A scheduler takes all pods that it lists at its start to be bound at that moment (trimaran/handler.go:96).
# Their load is in the figures for it once our window ends so much later, and by as much as its own is older.
RECENT_AFTER_START_SECONDS = _UNSEEN_SECONDS + _LISTING_SECONDS
# How often, from its start on, it forgets pods bound more than a minute before (trimaran/handler.go:142).
_FORGETS_EVERY_SECONDS = 300.0


def last_forgot_at(started: float, at: float) -> float | None:
    """When a scheduler that started then last forgot pods before a moment; None where it did not yet."""
    times = int((at - started) // _FORGETS_EVERY_SECONDS)
    return started + times * _FORGETS_EVERY_SECONDS if times > 0 else None


class PluginInputs(msgspec.Struct, frozen=True, eq=False):
    """What plugins are made from besides their arguments."""

    view: SchedulerView = EMPTY_VIEW
    bound_at: FloatArray | None = None  # (pods,) Unix seconds, NaN when unknown
    node: Sequence[int] = ()  # by pod: its node's row
    pod_class: Sequence[int] = ()  # by pod
    owners: Owners = msgspec.field(default_factory=Owners)
    namespaces: NamespaceLabels = {}  # labels by name
    release: Release = REFERENCE_RELEASE
    unseen_seconds: float = _UNSEEN_SECONDS
    forgot_at: float | None = None  # Unix seconds, when it last forgot pods that were bound long before

    @property
    def with_stale_windows(self) -> list[PluginInputs]:
        """The same inputs as of each window that the scheduler may still use, the oldest first.

        They differ by the pods that were bound between the times at which the windows end: of two such pods
        the earlier one may be in the figures already, or both, or neither. Of many some are chosen.
        """
        ends = np.array([[watcher.window_end] for watcher in self.view.watchers.values()])
        if self.bound_at is None or not len(ends):
            return [self]
        before = ends - _UNSEEN_SECONDS - self.bound_at  # (windows, pods) whose load is in its figures since
        between = set(before[(before >= 0) & (before < self.view.lag_seconds)].tolist())
        unseen = [_UNSEEN_SECONDS, *(_UNSEEN_SECONDS + at + _INSTANT for at in sorted(between))]
        if len(unseen) > MAX_WINDOWS:
            unseen = [unseen[at] for at in np.linspace(0, len(unseen) - 1, MAX_WINDOWS).astype(int)]
        return [replace(self, unseen_seconds=seconds) for seconds in reversed(unseen)]

    def recently_bound(self, window_end: float) -> tuple[tuple[int, int, int], ...]:
        """(pod, class, node) of those bound too late for a window's figures to show them."""
        if self.bound_at is None:
            return ()
        counted = self.bound_at > window_end - self.unseen_seconds
        if self.forgot_at is not None:
            # On nodes where a younger pod is; the others keep all of theirs (trimaran/handler.go:142).
            old = self.bound_at <= self.forgot_at - _UNSEEN_SECONDS
            young = np.flatnonzero(~old & (self.bound_at <= self.forgot_at))
            node = np.asarray(self.node, np.int64)
            counted &= ~(old & np.isin(node, node[young]))
        rows = np.flatnonzero(counted)
        return tuple(
            (row, self.pod_class[row], self.node[row]) for row in rows.tolist() if self.node[row] >= 0
        )

    @classmethod
    def of(
        cls, snapshot: Snapshot, view: SchedulerView, release: Release = REFERENCE_RELEASE
    ) -> PluginInputs:
        """The inputs that a snapshot and the scheduler's view of the load give."""
        pods = snapshot.pods
        return cls(
            view,
            # Bound a moment ago, its kubelet has said nothing yet.
            np.where(np.isnan(pods.started), pods.created, pods.started),
            pods.node.tolist(),
            pods.pod_class.tolist(),
            Owners.of(snapshot),
            snapshot.namespaces or {},
            release,
        )


class Enabled(msgspec.Struct, frozen=True):
    """How a profile enables a plugin: its arguments, and the extension points where it runs."""

    arguments: PluginArguments | None
    points: frozenset[ExtensionPoint]


class ObjectsRead:
    """Which kinds of objects a snapshot holds, and what plugins look up there to know what they need.

    Made once for all classes of a snapshot, because the look-ups go through all its pods and claims.
    """

    def __init__(self, snapshot: Snapshot, release: Release = REFERENCE_RELEASE) -> None:
        self._snapshot = snapshot
        self.release = release  # of the scheduler whose verdicts are asked for

    def has(self, kind: Kind) -> bool:
        """Whether objects of a kind were read, even if there were none."""
        return self._snapshot.has(kind)

    @cached_property
    def bound_claims(self) -> frozenset[tuple[str, str]]:
        """Namespace and name of the persistent volume claims that are completely bound."""
        return frozenset(key for key, claim in claims_by_name(self._snapshot).items() if is_bound(claim))

    @cached_property
    def namespace_selecting_terms(self) -> frozenset[AffinityTerm]:
        """The affinity terms of any pod that select namespaces by their labels."""
        classes = self._snapshot.pods.classes
        return frozenset(term for pod in classes for term, _ in terms_of(pod) if term.selects_namespaces)


class PreFilter(msgspec.Struct, frozen=True):
    """The result of a plugin's PreFilter, before any node is looked at."""

    skip: bool = False  # this plugin's filter is not run for this pod
    rejected: str = ""  # the reason why no node at all is feasible
    restricted_to: BoolArray | None = None  # (nodes,) only these are looked at


PASS = PreFilter()
SKIP = PreFilter(skip=True)


class OtherScores(msgspec.Struct, frozen=True, eq=False):
    """Raw scores that the scheduler may have instead of those computed; each array is (nodes,)."""

    listed: Sequence[IntArray] = ()
    # Where there are more than can be listed, no score is below the first or above the second.
    bounds: tuple[IntArray, IntArray] | None = None


NO_OTHER_SCORES = OtherScores()


class KindScores(msgspec.Struct, frozen=True, eq=False):
    """Scores of kinds of nodes that are compared; kinds are numbered, and there need not be one of each."""

    raw: IntArray  # (numbers,) 0 for a number that no kind has, as below
    extremes: tuple[int, int]  # of the raw scores of the kinds that take part
    normalized: IntArray  # (numbers,) 0..100

    @classmethod
    def of(cls, plugin: Plugin, kinds: IntArray, raw: IntArray) -> KindScores:
        """The (kinds,) scores of the kinds with some numbers, ascending."""
        taking_part = raw[raw != EXCLUDED]
        if not len(taking_part):
            taking_part = raw
        smallest = int(taking_part.min())
        largest = int(taking_part.max())
        raw_by_number = np.zeros(int(kinds[-1]) + 1, np.int64)
        raw_by_number[kinds] = raw
        normalized = np.zeros_like(raw_by_number)
        normalized[kinds] = plugin.normalize(raw_by_number[kinds], smallest, largest)
        return cls(raw_by_number, (smallest, largest), normalized)


class Alike(msgspec.Struct, frozen=True, eq=False):
    """Raw scores of nodes of which many are alike: they are of one kind."""

    kind: IntArray  # (feasible,) the number of each node's kind
    scores: KindScores


class Normalization(Enum):
    """How a plugin's scores depend on the raw scores of the nodes that are compared."""

    NONE = "none"  # the raw score is the score
    EACH = "each"  # ``normalize`` turns each raw score into a score, whatever the other nodes have
    MAXIMUM = "maximum"  # ``normalize`` uses the largest raw score
    RANGE = "range"  # ``normalize`` uses the smallest and the largest raw score

    @property
    def compares_nodes(self) -> bool:
        """Whether the score of a node depends on which other nodes it is compared with."""
        return self in (Normalization.MAXIMUM, Normalization.RANGE)


class Evidence(StrEnum):
    """What the model of a plugin was checked against."""

    DECISIONS = "decisions"
    SOURCE = "source"
    ARTICLE = "article"


class Plugin:
    """The base of all plugins: declarations first, then what the cycle calls."""

    name: str
    points: ClassVar[frozenset[ExtensionPoint]] = frozenset()
    Arguments: ClassVar[type[PluginArguments] | None] = None
    inputs: ClassVar[frozenset[Input]] = frozenset()  # besides nodes and pods, which all plugins read
    kinds_for_claims: ClassVar[tuple[Kind, ...]] = ()  # what its filter reads for a pod with volume claims
    scored_resources: ClassVar[frozenset[str]] = frozenset()  # whose use its score follows
    versions: ClassVar[frozenset[str]] = frozenset()  # of the configuration API; empty: all of them
    process_wide_arguments: ClassVar[tuple[str, ...]] = ()  # fields the Go plugin keeps once per process
    counts_recent_pods: ClassVar[bool] = False  # adds pods that the measured load does not show yet
    evidence: ClassVar[Evidence] = Evidence.SOURCE

    reasons: ClassVar[Mapping[int, str]] = {}  # the scheduler's words for the codes of its filter
    normalization: Normalization = Normalization.NONE
    static: ClassVar[bool] = False  # all its results depend on the class and on static facts alone
    static_pre_filter: ClassVar[bool] = False  # the result of ``pre_filter`` does
    # Whether its Filter fails where its PreFilter is not enabled; a rule: in versions where the rule holds.
    needs_pre_filter: ClassVar[bool | Rule] = False
    # By which rule it has a PreScore at all; None: in all versions.
    prepares_score_by: ClassVar[Rule | None] = None
    needs_pre_score: ClassVar[bool] = False  # its Score fails where its PreScore is not enabled
    is_in_range: ClassVar[bool] = False  # its scores are within 0..100 whatever there is
    of_extender: ClassVar[bool] = False  # an extender asks after all plugins: of a sample, not of all nodes

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "normalize" in vars(cls) and cls.normalization is Normalization.NONE:
            raise TypeError(f"{cls.__name__} implements normalize and must declare its normalization")

    def __init__(self, arguments: Any = None) -> None:
        """``arguments`` are those of the profile; None for a plugin that takes none."""

    @classmethod
    def make(cls, arguments: Any, inputs: PluginInputs) -> Self:
        """The plugin of one profile; ``arguments`` are of the type ``Arguments``."""
        return cls() if cls.Arguments is None else cls(arguments)

    @classmethod
    def queries(cls, arguments: PluginArguments | None) -> tuple[PluginQuery, ...]:
        """What the plugin asks Prometheus."""
        return ()

    @classmethod
    def needs(cls, pod: PodClass, enabled: Enabled, objects: ObjectsRead) -> Iterable[Kind]:
        """The kinds of objects that the verdict on a pod of this class depends on."""
        filters = ExtensionPoint.FILTER in enabled.points
        return cls.kinds_for_claims if filters and pod.spec.volumes and claim_names(pod.spec) else ()

    @classmethod
    def never_read(cls, pod: PodClass) -> Iterable[str]:
        """What the verdict depends on and no snapshot ever holds, in words."""
        return ()

    def pre_filter(self, state: ClusterState, pod_class: int) -> PreFilter:
        """What can be decided before looking at nodes."""
        return PASS

    @property
    def has_static_pre_filter(self) -> bool:
        """Whether the result of ``pre_filter`` depends on the class and on static facts alone."""
        return self.static or self.static_pre_filter

    def is_static(self, point: ExtensionPoint, state: ClusterState, pod_class: int) -> bool:
        """Whether what it says of a class at an extension point is the same in every state of a cluster.

        That is its ``filter`` and what it ``leaves_open``, or its scores and whether it ``fails``. What does
        not fail for all nodes together then fails for no fewer of them.
        """
        return self.static

    def concerns(self, state: ClusterState, pod_class: int) -> bool:
        """Whether the filter could reject pods of a class on some node; the same in every state."""
        return not (self.has_static_pre_filter and self.pre_filter(state, pod_class).skip)

    def filter(self, state: ClusterState, pod_class: int) -> IntArray:
        """(nodes,) one code for each node, 0 where it passes; ``reason`` puts a code into words."""
        return np.zeros(len(state.nodes), np.int64)

    def leaves_open(self, state: ClusterState, pod_class: int) -> str:
        """Why the scheduler may reject nodes that pass here, by what it alone knows; empty: it does not.

        The pod may land on any of those that pass then, whatever they score.
        """
        return ""

    def rejected(self, state: ClusterState, pod_class: int) -> BoolArray:
        """(nodes,) whether the filter rejects each node."""
        rejected: BoolArray = self.filter(state, pod_class) != 0
        return rejected

    def reason(self, state: ClusterState, pod_class: int, code: int) -> str:
        """A filter's code in the scheduler's own words."""
        return self.reasons.get(code, str(code))

    def fails(self, state: ClusterState, pod_class: int, feasible: IntArray) -> str:
        """Why scoring these nodes fails the pod's whole cycle; empty when it does not."""
        return ""

    def note(self, raw: IntArray) -> str:
        """What a reader of the scores should know; empty when there is nothing."""
        return ""

    def raw_scores(self, state: ClusterState, pod_class: int, feasible: IntArray) -> IntArray | None:
        """(feasible,) raw scores of the rows in ``feasible``; None skips the plugin for this pod."""
        return None

    def has_figures(self, state: ClusterState, pod_class: int) -> BoolArray | None:
        """(nodes,) has the figures that the score of a pod follows; None when it needs none.

        A plugin gives a node without figures some score all the same; that score says nothing of its load.
        """
        return None

    def spread_counters(self, state: ClusterState, pod_class: int, when: str) -> Sequence[DomainCounter]:
        """By topology spread constraint of a class, for ``when`` unsatisfiable, if it looks at them."""
        return ()

    def may_reject(self, state: ClusterState, pod_class: int, nodes: IntArray) -> BoolArray:
        """(nodes,) whether the filter may reject a pod of a class that it concerns and that runs on each.

        True of each that it would reject, were the pod not there, and perhaps of more.
        """
        if self.static:
            rejected: BoolArray = self.filter(state, pod_class)[nodes] != 0
            return rejected
        return np.full(len(nodes), not self.pre_filter(state, pod_class).skip)

    def preferring(self, state: ClusterState) -> Iterable[int]:
        """The classes whose pods say which nodes they prefer; by default none."""
        return ()

    def may_score_higher(self, state: ClusterState, pod_class: int, nodes: IntArray) -> BoolArray:
        """(nodes,) whether another node may score higher for a pod of the class that runs on each.

        True of each where one would, were the pod not there, and perhaps of more.
        """
        return np.ones(len(nodes), np.bool_)

    def raw_scores_of_sample(
        self, state: ClusterState, pod_class: int, feasible: IntArray, sample_size: int
    ) -> IntArray | Alike | None:
        """As ``raw_scores``, when the scheduler compares only ``sample_size`` of them, nobody knows which."""
        return self.raw_scores(state, pod_class, feasible)

    def other_raw_scores(self, state: ClusterState, pod_class: int) -> OtherScores:
        """The raw scores that the scheduler may have instead, by facts that it alone knows.

        Each of those listed is as likely as ``raw_scores``, and all the nodes they lead to are possible
        landings; so is every node that the bounds do not rule out. A plugin with bounds does not normalise.
        """
        return NO_OTHER_SCORES

    def normalize(self, raw: IntArray, smallest: int, largest: int) -> IntArray:
        """Scores in 0..100 from raw ones, given the extremes of the raw scores among the nodes compared.

        The extremes are arguments because the scheduler of a large cluster compares only a sample.
        """
        return raw


def normalize_by_maximum(raw: IntArray, largest: int, *, reverse: bool = False) -> IntArray:
    """The scheduler's default normalisation (plugins/helper/normalize_score.go:28)."""
    if largest <= 0:
        return np.full_like(raw, MAX_SCORE if reverse else 0)
    scores = MAX_SCORE * raw // largest
    return MAX_SCORE - scores if reverse else scores
