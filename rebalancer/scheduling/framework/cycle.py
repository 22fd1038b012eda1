"""One scheduling cycle of a profile: filter, score, normalise, choose; and preemption where no node is left.

Room is kept for nominated pods. A pod that preempted others waits until they are gone; meanwhile
``status.nominatedNodeName`` names the node where room is kept for it. A pod of the same priority or a lower
one passes that node only if it passes both beside the pods nominated there and without them. Scores ignore
them.

    node a has 1 core free, and a nominated pod of priority 10 that requests 1 core
    a pod of priority 20 that requests 1 core     passes: it does not yield
    a pod of priority 10 that requests 1 core     is rejected: Insufficient cpu

Source: kubernetes v1.34.4 pkg/scheduler/schedule_one.go:430, :776; v1.35.4
framework/runtime/framework.go:1145.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import msgspec
import numpy as np
from msgspec.structs import replace

from rebalancer.cluster.arrays import BoolArray, FloatArray, IntArray
from rebalancer.cluster.pods import PodTable
from rebalancer.profiles.types import Extender, ExtensionPoint, Profile
from rebalancer.scheduling.framework.plugin import Plugin
from rebalancer.scheduling.framework.sampling import Search, nodes_to_find
from rebalancer.scheduling.framework.scores import ClassScores, RawScores, StaticScores
from rebalancer.scheduling.framework.start_index import RACED, TieBreak
from rebalancer.scheduling.framework.unknown_scores import chances_of_all_scores
from rebalancer.scheduling.matching import Tolerations
from rebalancer.scheduling.state.cluster_state import GONE, UNBOUND, ClusterState, once_a_class
from rebalancer.scheduling.state.domains import DomainCounter
from rebalancer.scheduling.state.nodes import NodeOrder
from rebalancer.scheduling.versions.release import Release
from rebalancer.scheduling.versions.rules import HEAP_TIES, SKIPPED_FILTERS

NO_POD = -1
TAINTS = "TaintToleration"
# That of scheduler-plugins spares some pods that DefaultPreemption would not.
_PREEMPTING = frozenset({"DefaultPreemption", "PreemptionToleration"})
NOT_A_CANDIDATE = "PreFilterResult"
_NO_NODES: IntArray = np.zeros(0, np.int64)
_EXTENDER = "extender"  # how the names of their plugins begin
_ALL_REJECTED = "extender: it rejects so many nodes that it may reject all those that a search finds"


Starts = Mapping[int, IntArray]
"""By the number of a scheduler: the indices at which its searches may start; absent: at any."""
ANY_START: Starts = {}


class Placement(msgspec.Struct, frozen=True, eq=False):
    """What one scheduling cycle would do with a pod; rows are those of the node table."""

    feasible: IntArray  # (feasible,) node rows, ascending
    scores: Mapping[str, IntArray]  # (feasible,) weighted scores by plugin, all feasible nodes compared
    chance: FloatArray  # (feasible,) of being chosen
    total_without_scores: int = 0  # 1 when the profile has no score plugin
    rejected: str = ""  # "Plugin: message" when no node was looked at, or the cycle fails
    score_failure: str = ""  # "Plugin: message" when no node could be scored, even if one needs no score
    left_open: str = ""  # "Plugin: message", why some of the feasible nodes may not be; any may be chosen
    tie: TieBreak | None = None  # what decides among equal totals where nothing is drawn
    is_sampled: bool = False  # whether only some of the feasible nodes are compared

    @property
    def totals(self) -> IntArray:
        """(feasible,) the sum of the scores."""
        if isinstance(self.scores, ClassScores):
            return self.scores.total + self.total_without_scores
        total = np.full(len(self.feasible), self.total_without_scores, np.int64)
        for values in self.scores.values():
            total += values
        return total

    @property
    def notes(self) -> tuple[str, ...]:
        """``Plugin: message``, remarks on how to read the scores."""
        if self.rejected or not isinstance(self.scores, ClassScores):
            return ()
        return (*self.scores.notes, *filter(None, [self.left_open]))

    def raw_scores_at(self, at: int) -> dict[str, int]:
        """The raw scores of one feasible node by plugin."""
        if not isinstance(self.scores, ClassScores):
            return {}
        return {name: int(scores.raw[at]) for name, scores in self.scores.by_plugin.items()}

    def preferred(
        self, plugins: Iterable[str], here: Sequence[int] | IntArray, there: Sequence[int] | IntArray
    ) -> BoolArray:
        """(here, there) whether one node scores higher than another in total and by a plugin, lower by none.

        Nodes are given by row; those that are not feasible score neither higher nor lower.
        """
        rows = np.asarray(here, np.int64), np.asarray(there, np.int64)
        if not (len(self.feasible) and isinstance(self.scores, ClassScores)):
            return np.zeros((len(rows[0]), len(rows[1])), np.bool_)
        last = len(self.feasible) - 1
        from_ = self.feasible.searchsorted(rows[0]).clip(max=last)
        to = self.feasible.searchsorted(rows[1]).clip(max=last)
        total = self.totals
        by_a_plugin = np.zeros((len(from_), len(to)), np.bool_)
        higher = total[to] > total[from_][:, None]
        higher &= (self.feasible[to] == rows[1]) & (self.feasible[from_] == rows[0])[:, None]
        for plugin in plugins:
            if plugin in self.scores:
                sign = self.scores.beside(plugin, from_, to)
                by_a_plugin = by_a_plugin | (sign > 0)
                higher = higher & (sign >= 0)
        better: BoolArray = by_a_plugin & higher
        return better

    def chance_from(self, starts: Starts) -> FloatArray:
        """(feasible,) the chance of being chosen if the searches of schedulers start at one of these."""
        own = None if self.tie is None else starts.get(self.tie.scheduler)
        if self.tie is None or own is None:
            return self.chance
        return self.tie.chance(len(self.feasible), own)


class _Candidates(msgspec.Struct, frozen=True, eq=False):
    """What the PreFilters left: the nodes to look at and the filters to run."""

    rejected: str
    restricted_to: BoolArray | None
    skipped: frozenset[str]


class ClassCycle(msgspec.Struct, frozen=True, eq=False):
    """The cycle of a class, with all that depends on the class and the nodes alone computed.

    What is left of a placement are the filters and scores in which other pods and free room have a part.
    """

    candidates: _Candidates  # by the PreFilters that are the same in every state
    pre_filters: Sequence[Plugin]  # the others
    admitted: BoolArray  # (nodes,) may be looked at, and pass the static filters
    filters: Sequence[Plugin]  # the others, which could reject a node
    static: StaticScores
    scores: Sequence[Plugin]  # those whose scores change
    filter_failure: str  # why every cycle fails: a filter runs without what prepares it
    leaving_open: Sequence[Plugin]  # filters that may not know all that the scheduler goes by
    preparing: Sequence[Plugin]  # those that may fail as they prepare to score
    # The order in which nodes are found decides among equal totals, where all are candidates.
    takes_root: bool


class Scheduler:
    """Places pods as one profile of the scheduler does, on a state; it changes nothing."""

    def __init__(
        self,
        profile: Profile,
        plugins: Mapping[str, Plugin],
        percentage_of_nodes_to_score: int,
        parallelism: int,
        extenders: Sequence[Extender] = (),
        *,
        number: int = 0,
        view: int = 0,
    ) -> None:
        """``plugins`` are the modelled ones by name; enabled names missing there are neutral.

        What ``extenders`` answer is among the plugins; of pods that they are asked about ties are drawn. Of
        several schedulers side by side each has a ``number``, which all of its profiles share, and sees the
        state that stands at its ``view``.
        """
        self.profile = profile
        self._number = number
        self.view = view
        self._percentage = percentage_of_nodes_to_score
        self._pre_filters = self._at(ExtensionPoint.PRE_FILTER, plugins)
        self._filters = self._at(ExtensionPoint.FILTER, plugins)
        self._scores = self._at(ExtensionPoint.SCORE, plugins)
        self._leaving_open = [
            plugin for plugin in self._filters if type(plugin).leaves_open is not Plugin.leaves_open
        ]
        every = dict.fromkeys((*self._filters, *self._scores))
        self._spreading = [
            plugin for plugin in every if type(plugin).spread_counters is not Plugin.spread_counters
        ]
        self._raced = 0.0 if parallelism == 1 else RACED
        self._extenders = extenders
        self._asks_of_sample = any(plugin.of_extender for plugin in self._filters)
        # A plugin that does not score any more may still prepare to, and fail; without scores none prepares.
        scoring = (*self._at(ExtensionPoint.PRE_SCORE, plugins), *self._scores) if self._scores else ()
        self._failing = [
            plugin for plugin in dict.fromkeys(scoring) if type(plugin).fails is not Plugin.fails
        ]
        self._needs_pre_filter = [
            (plugin.name, plugin.needs_pre_filter)
            for plugin in self._filters
            if plugin not in self._pre_filters
        ]
        pre_scores = self._at(ExtensionPoint.PRE_SCORE, plugins)
        self._score_failure = next(
            (
                _unprepared(plugin.name, "score")
                for plugin in self._scores
                if plugin.needs_pre_score and plugin not in pre_scores
            ),
            "",
        )

    @property
    def recent_pods(self) -> frozenset[int]:
        """Pods that count differently from others of their class and node when they leave."""
        return frozenset(pod for plugin in self._scores for pod in plugin.recent_pods)

    def _at(self, point: ExtensionPoint, plugins: Mapping[str, Plugin]) -> tuple[Plugin, ...]:
        return tuple(plugins[name] for name in self.profile.enabled(point) if name in plugins)

    def of_class(self, state: ClusterState, pod_class: int) -> ClassCycle:
        """The cycle of a class, computed anew only once further classes may concern it."""
        key = pod_class, self, state.classes.counters.catch_up()
        results = state.classes.results
        if key not in results:
            results[key] = self._specialise(state, pod_class)
        cycle: ClassCycle = results[key]
        return cycle

    def _specialise(self, state: ClusterState, pod_class: int) -> ClassCycle:
        release = state.classes.release
        lasting = [plugin for plugin in self._pre_filters if plugin.has_static_pre_filter]
        candidates = _pre_filtered(lasting, state, pod_class)
        admitted = self._admitting(state, pod_class)
        if candidates.restricted_to is not None:
            admitted = admitted & candidates.restricted_to
        concerned = [plugin for plugin in self._filters if plugin.concerns(state, pod_class)]
        changing = [plugin for plugin in concerned if not plugin.static]
        preparing = [
            plugin
            for plugin in self._failing
            if plugin.prepares_score_by is None
            or release.has(plugin.prepares_score_by)
            or plugin in self._scores
        ]
        return ClassCycle(
            candidates,
            [
                plugin
                for plugin in self._pre_filters
                if plugin in changing and not plugin.has_static_pre_filter
            ],
            admitted,
            [plugin for plugin in changing if plugin.name not in candidates.skipped],
            StaticScores.of(
                self._static_scores(state, pod_class), self.profile.enabled(ExtensionPoint.SCORE)
            ),
            [plugin for plugin in self._scores if not plugin.static],
            self._filter_failure(release),
            self._leaving_open,
            preparing,
            release.has(HEAP_TIES) and not self._is_asked(state, pod_class),
        )

    def _static_scores(self, state: ClusterState, pod_class: int) -> Iterator[RawScores]:
        """Of each plugin that always scores a class alike, on all nodes."""
        every = np.arange(len(state.nodes))
        for plugin in self._scores:
            raw = plugin.raw_scores(state, pod_class, every) if plugin.static else None
            if raw is not None:
                others = plugin.other_raw_scores(state, pod_class)
                yield RawScores(plugin, self.profile.weights[plugin.name], raw, others)

    def _candidates(self, state: ClusterState, pod_class: int, cycle: ClassCycle) -> _Candidates:
        """The result of all PreFilters."""
        if not cycle.pre_filters:
            return cycle.candidates
        changing = _pre_filtered(cycle.pre_filters, state, pod_class)
        if cycle.candidates.rejected and changing.rejected:
            return _pre_filtered(self._pre_filters, state, pod_class)  # the first in order counts
        return _Candidates(
            cycle.candidates.rejected or changing.rejected,
            _both(cycle.candidates.restricted_to, changing.restricted_to),
            cycle.candidates.skipped | changing.skipped,
        )

    def _codes(self, plugin: Plugin, state: ClusterState, pod_class: int) -> IntArray:
        if not plugin.static:
            return plugin.filter(state, pod_class)
        return state.classes.cached(pod_class, self, plugin.name, lambda: plugin.filter(state, pod_class))

    def admitting(self, state: ClusterState, pod_class: int) -> BoolArray:
        """(nodes,) which nodes pass the filters that no other pod and no free room has a part in."""
        return self._admitting(state.seen_by(self.view), pod_class)

    @once_a_class
    def _admitting(self, state: ClusterState, pod_class: int) -> BoolArray:
        mask = np.ones(len(state.nodes), np.bool_)
        for plugin in self._filters:
            if plugin.static:
                mask &= plugin.filter(state, pod_class) == 0
        return mask

    def spread_counters(self, state: ClusterState, pod_class: int, when: str) -> list[DomainCounter]:
        """By topology spread constraint that counts for a class, for ``when`` unsatisfiable."""
        state = state.seen_by(self.view)
        counters: list[DomainCounter] = []
        for plugin in self._spreading:
            counters += plugin.spread_counters(state, pod_class, when)
        return counters

    def named(
        self, filters: Collection[str], scores: Collection[str]
    ) -> tuple[Sequence[Plugin], Sequence[Plugin]]:
        """The filters with one of some names, and the plugins that score with one of others."""
        by_filter = [plugin for plugin in self._filters if plugin.name in filters]
        by_score = [plugin for plugin in self._scores if plugin.name in scores]
        return by_filter, by_score

    def nodes_to_find(self, candidates: int) -> int:
        """How many feasible nodes end the search; when more are feasible the scheduler compares a sample."""
        return nodes_to_find(candidates, self._percentage)

    def feasible(self, state: ClusterState, pod_class: int) -> BoolArray:
        """(nodes,) which nodes pass every filter."""
        return self.feasible_as_seen(state.seen_by(self.view), pod_class)

    def feasible_as_seen(self, state: ClusterState, pod_class: int) -> BoolArray:
        """The same of a state that is already as this scheduler sees it."""
        cycle = self.of_class(state, pod_class)
        candidates = self._candidates(state, pod_class, cycle)
        return self._feasible(state, pod_class, cycle, candidates)

    def _feasible(
        self,
        state: ClusterState,
        pod_class: int,
        cycle: ClassCycle,
        candidates: _Candidates,
        pod: int = NO_POD,
        *,
        asking: bool = True,
    ) -> BoolArray:
        """(nodes,) as ``feasible``; before extenders are asked where ``asking`` is false."""
        if candidates.rejected:
            return np.zeros(len(state.nodes), np.bool_)
        mask = cycle.admitted
        if cycle.pre_filters and candidates.restricted_to is not None:
            mask = mask & candidates.restricted_to
        for plugin in cycle.filters:
            if asking or not plugin.of_extender:
                mask = mask & ~plugin.rejected(state, pod_class)
        if state.added_taint is not None and TAINTS in self.profile.enabled(ExtensionPoint.FILTER):
            taint, nodes = state.added_taint
            if not Tolerations(state.classes[pod_class].spec.tolerations).tolerate(taint):
                mask = mask.copy()
                mask[list(nodes)] = False
        if state.nominated:
            mask = mask.copy()
            mask[list(self._beside_nominated(state, pod_class, pod, candidates, mask))] = False
        return mask

    def rejections(self, state: ClusterState, pod_class: int, pod: int = NO_POD) -> dict[int, str]:
        """``Plugin: reason`` by row of each rejected node; the first plugin in the profile's order counts."""
        state = state.seen_by(self.view)
        candidates = self._candidates(state, pod_class, self.of_class(state, pod_class))
        if candidates.rejected:
            return dict.fromkeys(range(len(state.nodes)), candidates.rejected)
        among = candidates.restricted_to
        looked_at: BoolArray = np.ones(len(state.nodes), np.bool_) if among is None else among
        reasons = dict.fromkeys(np.flatnonzero(~looked_at).tolist(), NOT_A_CANDIDATE)
        open_nodes = looked_at.copy()
        for plugin in self._filters:
            if plugin.name in candidates.skipped:
                continue
            codes = self._codes(plugin, state, pod_class)
            for row in np.flatnonzero(open_nodes & (codes != 0)).tolist():
                reason = plugin.reason(state, pod_class, int(codes[row]))
                reasons[row] = f"{plugin.name}: {reason}"
            open_nodes &= codes == 0
        if state.nominated:
            reasons.update(self._beside_nominated(state, pod_class, pod, candidates, looked_at))
        return reasons

    def _beside_nominated(
        self, state: ClusterState, pod_class: int, pod: int, candidates: _Candidates, among: BoolArray
    ) -> dict[int, str]:
        """Why a pod does not pass beside the pods nominated to a node, by node; those it passes are absent.

        ``among`` (nodes,) are the nodes to look at.
        """
        priority = state.classes[pod_class].priority
        by_node: dict[int, list[int]] = {}
        for other, node in state.nominated.items():
            if other != pod and among[node] and state.classes[state.pod_class[other]].priority >= priority:
                by_node.setdefault(node, []).append(other)
        running = [plugin for plugin in self._filters if plugin.name not in candidates.skipped]
        reasons = {
            node: self._first_reason(pod_class, running, state.with_nominated(pods, node), node)
            for node, pods in by_node.items()
        }
        return {node: reason for node, reason in reasons.items() if reason}

    def _first_reason(self, pod_class: int, filters: Iterable[Plugin], state: ClusterState, node: int) -> str:
        """``Plugin: reason`` of the first of these filters that rejects a node; empty when none does."""
        for plugin in filters:
            code = int(self._codes(plugin, state, pod_class)[node])
            if code:
                return f"{plugin.name}: {plugin.reason(state, pod_class, code)}"
        return ""

    def rejection_at(self, state: ClusterState, pod_class: int, node: int, names: Collection[str]) -> str:
        """``Plugin: reason`` of the first of the named filters that rejects a node; empty when none does."""
        state = state.seen_by(self.view)
        named = (plugin for plugin in self._filters if plugin.name in names)
        running = (plugin for plugin in named if not plugin.pre_filter(state, pod_class).skip)
        return self._first_reason(pod_class, running, state, node)

    def _scores_of(
        self, state: ClusterState, pod_class: int, cycle: ClassCycle, feasible: IntArray, sample_size: int
    ) -> ClassScores:
        changing: list[RawScores] = []
        for plugin in cycle.scores:
            raw = plugin.raw_scores_of_sample(state, pod_class, feasible, sample_size)
            if raw is not None:
                others = plugin.other_raw_scores(state, pod_class)
                changing.append(RawScores(plugin, self.profile.weights[plugin.name], raw, others))
        static = cycle.static
        if state.added_soft_taint is not None:
            taint, nodes = state.added_soft_taint
            if not Tolerations(state.classes[pod_class].spec.tolerations).tolerate(taint):
                tainted = np.zeros(len(state.nodes), np.int64)
                tainted[list(nodes)] = 1
                static = static.with_more(TAINTS, tainted)
        return ClassScores(static, changing, feasible)

    def place(self, state: ClusterState, pod_class: int, pod: int = NO_POD) -> Placement:
        """Where a pod of a class would land on this state; ``pod`` is its number if the state has it."""
        state = state.seen_by(self.view)
        cycle = self.of_class(state, pod_class)
        candidates = self._candidates(state, pod_class, cycle)
        feasible = self._feasible(state, pod_class, cycle, candidates, pod).nonzero()[0]
        if not len(feasible):
            return Placement(_NO_NODES, {}, np.zeros(0), rejected=candidates.rejected)
        search = self._search(state, pod_class, cycle, candidates, feasible, pod)
        scores = self._scores_of(state, pod_class, cycle, feasible, search.size)
        failing = (
            cycle.filter_failure
            or scores.out_of_range
            or _failure(cycle.preparing, state, pod_class, feasible)
            or self._score_failure
        )
        if not failing and search.may_be_empty:
            failing = _ALL_REJECTED
        # One feasible node is taken without scoring, and so is the node the pod was nominated to.
        rejected = ""
        left_open = _left_open(cycle.leaving_open, state, pod_class)
        tie: TieBreak | None = None
        nominated = _NO_NODES
        if pod in state.nominated:
            nominated = np.flatnonzero(feasible == state.nominated[pod])
        chance: FloatArray
        if left_open and not failing:
            chance = np.full(len(feasible), 1.0 / len(feasible))
        elif len(nominated):
            chance = np.zeros(len(feasible))
            chance[nominated] = 1.0
        elif failing:
            chance = np.zeros(len(feasible))
            if len(feasible) > 1 or cycle.filter_failure or failing.startswith(_EXTENDER):
                rejected = failing
            else:
                chance[0] = 1.0
        else:
            chance, tie = _outcome(search, scores)
        if tie is not None and self._number:
            tie = replace(tie, scheduler=self._number)
        return Placement(
            feasible=feasible,
            scores=scores,
            chance=chance,
            tie=tie,
            total_without_scores=0 if self._scores or self._extenders else 1,
            rejected=rejected,
            left_open=left_open,
            score_failure=failing,
            is_sampled=search.is_sample,
        )

    def chances_by_weight(
        self, state: ClusterState, pod_class: int, pod: int, weights: Collection[int]
    ) -> Iterator[tuple[str, int, IntArray, FloatArray]]:
        """What ``place`` would say if a score plugin had another weight: each plugin with each of these.

        Gives the plugin, its weight, the feasible nodes and (feasible,) the chance of each.
        """
        state = state.seen_by(self.view)
        cycle = self.of_class(state, pod_class)
        candidates = self._candidates(state, pod_class, cycle)
        feasible = np.flatnonzero(self._feasible(state, pod_class, cycle, candidates, pod))
        if not len(feasible):
            return
        search = self._search(state, pod_class, cycle, candidates, feasible, pod)
        scores = self._scores_of(state, pod_class, cycle, feasible, search.size)
        for name, present in scores.by_plugin.items():
            others = scores.total - present.weighted
            for weight in weights:
                changed = RawScores(present.plugin, weight, present.raw)
                yield name, weight, feasible, search.chances(others + changed.weighted)

    def _limit(self, candidates: int) -> int:
        """How many feasible nodes end the search among so many."""
        if self._scores or any(extender.filter_verb for extender in self._extenders):
            return self.nodes_to_find(candidates)
        return 1

    def _search(
        self,
        state: ClusterState,
        pod_class: int,
        cycle: ClassCycle,
        candidates: _Candidates,
        feasible: IntArray,
        pod: int,
    ) -> Search:
        """The search that ends with some of these nodes.

        Nodes that a PreFilter names are looked at in no particular order.
        """
        passing = feasible
        if self._asks_of_sample and self._is_asked(state, pod_class):
            passing = np.flatnonzero(self._feasible(state, pod_class, cycle, candidates, pod, asking=False))
        nodes = state.nodes
        if candidates.restricted_to is None:
            limit = self._limit(len(nodes))
            orders: Sequence[NodeOrder] = nodes.orders_of_samples if len(passing) > limit else nodes.orders
            return Search(feasible, passing, orders, limit, cycle.takes_root, self._raced)
        limit = self._limit(int(np.count_nonzero(candidates.restricted_to)))
        order = (nodes.orders_of_samples if len(passing) > limit else nodes.orders)[0]
        return Search(feasible, passing, [order.among(candidates.restricted_to)], limit, raced=self._raced)

    def _is_asked(self, state: ClusterState, pod_class: int) -> bool:
        """Whether an extender is asked about pods of a class."""
        return any(extender.is_interested(state.classes[pod_class]) for extender in self._extenders)

    def scores_everywhere(self, state: ClusterState, pod_class: int) -> dict[str, IntArray]:
        """(nodes,) score of each plugin in 0..100, unweighted, as if every node were feasible."""
        state = state.seen_by(self.view)
        everything = np.arange(len(state.nodes))
        cycle = self.of_class(state, pod_class)
        scores = self._scores_of(state, pod_class, cycle, everything, len(everything))
        return {
            name: plugin_scores.plugin.normalize(plugin_scores.raw, *plugin_scores.extremes)
            for name, plugin_scores in scores.by_plugin.items()
        }

    def has_figures(self, state: ClusterState, pod_class: int) -> dict[str, BoolArray]:
        """(nodes,) has the figures that a plugin's score follows, by plugin; absent where it needs none."""
        state = state.seen_by(self.view)
        by_plugin: dict[str, BoolArray] = {}
        for plugin in self._scores:
            has_figure = plugin.has_figures(state, pod_class)
            if has_figure is not None:
                by_plugin[plugin.name] = has_figure
        return by_plugin

    def _filter_failure(self, release: Release) -> str:
        """Why every cycle fails: a filter runs without what prepares it; empty where none does."""
        for name, needs in self._needs_pre_filter:
            if needs if isinstance(needs, bool) else release.has(needs):
                return _unprepared(name, "filter")
        return ""


def _failure(plugins: Iterable[Plugin], state: ClusterState, pod_class: int, feasible: IntArray) -> str:
    """Why preparing to score these nodes fails; empty when it does not."""
    for plugin in plugins:
        message = plugin.fails(state, pod_class, feasible)
        if message:
            return f"{plugin.name}: {message}"
    return ""


def _left_open(plugins: Iterable[Plugin], state: ClusterState, pod_class: int) -> str:
    """Why the scheduler may reject nodes that pass here; empty when it does not."""
    for plugin in plugins:
        because = plugin.leaves_open(state, pod_class)
        if because:
            return f"{plugin.name}: {because}"
    return ""


def _outcome(search: Search, scores: ClassScores) -> tuple[FloatArray, TieBreak | None]:
    """(feasible,) the chances, and what decides among equal totals where nothing is drawn."""
    if len(search.feasible) > 1 and scores.may_be_others:
        return chances_of_all_scores(search, list(scores.by_plugin.values())), None
    return search.outcome(scores.total)


def _unprepared(plugin: str, point: str) -> str:
    return f"{plugin}: it is enabled as {point} and not as pre{point.title()}"


def _both(left: BoolArray | None, right: BoolArray | None) -> BoolArray | None:
    if left is None or right is None:
        return right if left is None else left
    return left & right


def _pre_filtered(plugins: Sequence[Plugin], state: ClusterState, pod_class: int) -> _Candidates:
    restricted: BoolArray | None = None
    skipped: set[str] = set()
    rejected = ""
    for plugin in plugins:
        outcome = plugin.pre_filter(state, pod_class)
        if outcome.skip and state.classes.release.has(SKIPPED_FILTERS):
            skipped.add(plugin.name)
        if outcome.rejected and not rejected:
            rejected = f"{plugin.name}: {outcome.rejected}"
        restricted = _both(restricted, outcome.restricted_to)
    return _Candidates(rejected, restricted, frozenset(skipped))


class Preemption(msgspec.Struct, frozen=True, eq=False):
    """Rows of the nodes that would admit the pod without the pods of lower priority there.

    Which of them the scheduler would choose, and which pods there it would spare, is not modelled.
    """

    nodes: IntArray  # ascending; empty: it would stay Pending
    victims: tuple[int, ...] = ()  # pods of lower priority on the first of them


class Preemptions:
    """Possible preemptions on one state; what depends only on the priority is computed once."""

    def __init__(self, state: ClusterState) -> None:
        """``state`` is not changed."""
        self._state = state
        self._without: dict[tuple[int, int], tuple[ClusterState, IntArray] | None] = {}

    def of(self, scheduler: Scheduler, pod_class: int) -> Preemption:
        """The preemption possible for a pod of a class that no node admits, or none after moves of a plan."""
        pod = self._state.classes[pod_class]
        if _PREEMPTING.isdisjoint(scheduler.profile.enabled(ExtensionPoint.POST_FILTER)):
            return Preemption(_NO_NODES)
        without = (
            None if pod.spec.preemption_policy == "Never" else self._without_lower(pod.priority, scheduler)
        )
        if without is None:
            return Preemption(_NO_NODES)
        emptied, had_lower = without
        nodes = np.intersect1d(np.flatnonzero(scheduler.feasible_as_seen(emptied, pod_class)), had_lower)
        victims = self._lower_on(int(nodes[0]), pod.priority) if len(nodes) else ()
        return Preemption(nodes, victims)

    def _without_lower(self, priority: int, scheduler: Scheduler) -> tuple[ClusterState, IntArray] | None:
        """What a scheduler sees without the pods of lower priority, and their nodes; None without any."""
        key = priority, scheduler.view
        if key not in self._without:
            state = self._state.seen_by(scheduler.view)
            lower = np.array([pod.priority < priority for pod in state.classes], np.bool_)
            node = state.node.values()
            pod_class = state.pod_class.values()
            leaving = lower[pod_class] & (node >= 0)
            terminating = state.terminating.values().astype(np.bool_)
            emptied = ClusterState(state.classes, np.where(leaving, GONE, node), pod_class, terminating)
            self._without[key] = (emptied, node[leaving]) if leaving.any() else None
        return self._without[key]

    def _lower_on(self, node: int, priority: int) -> tuple[int, ...]:
        classes = self._state.classes
        return tuple(
            pod
            for pod, where in enumerate(self._state.node)
            if where == node and classes[self._state.pod_class[pod]].priority < priority
        )


def queue_order(pods: PodTable, rows: Iterable[int]) -> list[int]:
    """PrioritySort: higher priority first, then the earlier queued; pods with scheduling gates are left out.

    The time a pod was queued is not recorded; its creation stands for it, then its name.
    Source: kubernetes v1.34.4 pkg/scheduler/framework/plugins/queuesort/priority_sort.go:45.
    """
    entering = [row for row in rows if not pods.class_of(row).spec.scheduling_gates]
    return sorted(entering, key=lambda row: (-pods.class_of(row).priority, float(pods.created[row]), row))


def waiting_pods(state: ClusterState, pods: PodTable) -> list[int]:
    """Rows of the snapshot's pods that are unbound in a state and not terminating, in queue order."""
    unbound = state.node.values()[: len(pods)] == UNBOUND
    return queue_order(pods, np.flatnonzero(unbound & ~pods.terminating).tolist())
