"""One scheduling cycle of a profile: filter, score, normalise, choose.

The scheduler keeps room for nominated pods. A pod that preempted others waits until they are gone; meanwhile
its ``status.nominatedNodeName`` names the node where the scheduler keeps room for it. Another pod of the same
or of lower priority passes that node only if it passes twice: beside the pods nominated there, and without
them. Scores ignore nominated pods.

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
from rebalancer.cluster.records import Taint
from rebalancer.profiles.types import Extender, ExtensionPoint, Profile
from rebalancer.scheduling.framework.plugin import NO_OTHER_SCORES, Plugin
from rebalancer.scheduling.framework.sampling import Search, nodes_to_find
from rebalancer.scheduling.framework.scores import ClassScores, RawScores, Scoring, StaticScores
from rebalancer.scheduling.framework.start_index import RACED, TieBreak
from rebalancer.scheduling.framework.unknown_scores import chances_of_all_scores
from rebalancer.scheduling.matching import Tolerations
from rebalancer.scheduling.state.cluster_state import ClusterState, once_a_class
from rebalancer.scheduling.state.domains import DomainCounter
from rebalancer.scheduling.state.nodes import NodeOrder
from rebalancer.scheduling.versions.release import Release
from rebalancer.scheduling.versions.rules import HEAP_TIES, SKIPPED_FILTERS

NO_POD = -1
TAINTS = "TaintToleration"
NOT_A_CANDIDATE = "PreFilterResult"
_NO_NODES: IntArray = np.zeros(0, np.int64)
_EXTENDER = "extender"  # the name of an extender's plugin begins so
_ALL_REJECTED = "extender: it rejects so many nodes that it may reject all those that a search finds"


Starts = Mapping[int, IntArray]
"""By number of a scheduler: the indices at which its searches may start; where it is absent: at any."""
ANY_START: Starts = {}


class Placement(msgspec.Struct, frozen=True, eq=False):
    """What one scheduling cycle would do with a pod; rows are those of the node table."""

    feasible: IntArray  # (feasible,) node rows, ascending
    # (feasible,) by plugin, weighted; normalised over all feasible nodes, also where a sample is compared
    scores: Mapping[str, IntArray]
    chance: FloatArray  # (feasible,) of being chosen
    total_without_scores: int = 0  # 1 when the profile has no score plugin
    # "Plugin: message" each; empty where that is not so.
    rejected: str = ""  # why the scheduler looks at no node, or the cycle fails
    score_failure: str = ""  # why scoring fails, even where the only feasible node is taken without scores
    left_open: str = ""  # why some of the feasible nodes may not be feasible: any of them may be chosen
    # What decides among equal totals; None where one is drawn, or there is no tie.
    tie: TieBreak | None = None
    is_sampled: bool = False  # whether the scheduler compares only some of the feasible nodes

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
        """The raw scores of the feasible node at an index of ``feasible``, by plugin."""
        if not isinstance(self.scores, ClassScores):
            return {}
        return {name: int(scores.raw[at]) for name, scores in self.scores.by_plugin.items()}

    def preferred(
        self, plugins: Iterable[str], here: Sequence[int] | IntArray, there: Sequence[int] | IntArray
    ) -> BoolArray:
        """(here, there) whether a node of ``there`` scores higher than one of ``here``.

        It does if its total is higher, and of these plugins one scores it higher and none lower. Nodes are
        given by row; a node that is not feasible is neither higher nor lower than another.
        """
        here = np.asarray(here, np.int64)
        there = np.asarray(there, np.int64)
        if not (len(self.feasible) and isinstance(self.scores, ClassScores)):
            return np.zeros((len(here), len(there)), np.bool_)
        # Indices into ``feasible``; that of a node which is not feasible is of some other node.
        last = len(self.feasible) - 1
        here_at = self.feasible.searchsorted(here).clip(max=last)
        there_at = self.feasible.searchsorted(there).clip(max=last)
        here_is_feasible = self.feasible[here_at] == here
        there_is_feasible = self.feasible[there_at] == there
        total = self.totals
        # (here, there), as all that follows
        higher = total[there_at] > total[here_at][:, None]
        higher &= there_is_feasible & here_is_feasible[:, None]
        higher_by_a_plugin = np.zeros(higher.shape, np.bool_)
        for plugin in plugins:
            if plugin in self.scores:
                sign = self.scores.beside(plugin, here_at, there_at)
                higher_by_a_plugin |= sign > 0
                higher &= sign >= 0
        preferred: BoolArray = higher_by_a_plugin & higher
        return preferred

    def best_of_each_kind(self, plugins: Iterable[str], nodes: IntArray) -> IntArray:
        """Of nodes that these plugins score alike the one with the highest total, by row.

        Where none of these is ``preferred`` to another node, none of ``nodes``, which are feasible, is.
        """
        if not (len(nodes) and isinstance(self.scores, ClassScores)):
            return nodes
        at = self.feasible.searchsorted(nodes)
        kinds = [self.scores.by_plugin[plugin].raw[at] for plugin in plugins if plugin in self.scores]
        order = np.lexsort((self.totals[at], *kinds))
        is_last = np.ones(len(nodes), np.bool_)
        is_last[:-1] = np.logical_or.reduce(
            [kind[order[1:]] != kind[order[:-1]] for kind in kinds], initial=False
        )
        return nodes[order[is_last]]

    def chance_from(self, starts: Starts) -> FloatArray:
        """(feasible,) the chance of being chosen if each scheduler's searches start at these places."""
        if self.tie is None:
            return self.chance
        starts_of_scheduler = starts.get(self.tie.scheduler)
        if starts_of_scheduler is None:
            return self.chance
        return self.tie.chance(len(self.feasible), starts_of_scheduler)


class _Candidates(msgspec.Struct, frozen=True, eq=False):
    """What the PreFilters left: the nodes to look at and the filters to run."""

    rejected: str  # "Plugin: message", of the first PreFilter that rejects the pod; empty: none does
    restricted_to: BoolArray | None  # (nodes,) None: all of them
    skipped: frozenset[str]  # the filters that have nothing to look at for this pod


class ClassCycle(msgspec.Struct, frozen=True, eq=False):
    """What every placement of a class has in common: all that depends on the class and the nodes alone.

    A placement only computes the filters and scores that depend on other pods as well, or on free room.
    """

    candidates: _Candidates  # what the static PreFilters leave: those with the same result in every state
    pre_filters: Sequence[Plugin]  # the PreFilters that are not static
    admitted: BoolArray  # (nodes,) passes the static PreFilters and the static filters
    filters: Sequence[Plugin]  # the other filters that may reject a node
    static: StaticScores  # of the plugins whose scores are the same in every state
    scores: Sequence[Scoring]  # the plugins with other scores
    may_be_others: bool  # the scheduler may have other raw scores than those computed
    may_be_out_of_range: bool  # one of those scores, or of those that depend on the nodes compared
    filter_failure: str  # why every cycle fails: a filter lacks its PreFilter; empty: none does
    leaving_open: Sequence[Plugin]  # the filters that may not know all that the scheduler knows
    preparing: Sequence[Plugin]  # the plugins that may fail as they prepare to score
    # Whether the scheduler takes the root of a heap of the best nodes, see ``start_index``, and draws none.
    takes_root: bool


class Scheduler:
    """Places pods on a state as one profile of the scheduler does, and leaves the state as it was."""

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
        """``plugins`` are the modelled ones by name; a plugin of the profile that is not there is neutral.

        What ``extenders`` answer is among the plugins. Of pods that the scheduler asks extenders about, it
        draws among equal totals. Each of several schedulers in a cluster has a ``number``, which all of its
        profiles share, and sees the state as ``ClusterState.seen_by`` gives it for its ``view``.
        """
        self.profile = profile
        self._number = number
        self.view = view
        self._percentage = percentage_of_nodes_to_score
        self._pre_filters = self._at(ExtensionPoint.PRE_FILTER, plugins)
        self._filters = self._at(ExtensionPoint.FILTER, plugins)
        self._scores = self._at(ExtensionPoint.SCORE, plugins)
        self._leaving_open = _that_define("leaves_open", self._filters)
        self._spreading = _that_define("spread_counters", (*self._filters, *self._scores))
        self._raced = 0.0 if parallelism == 1 else RACED
        self._extenders = extenders
        self._asks_of_sample = any(plugin.of_extender for plugin in self._filters)
        pre_scores = self._at(ExtensionPoint.PRE_SCORE, plugins)
        # A plugin whose score is disabled may still prepare to score, and fail. Where all are, none prepares.
        self._failing = _that_define("fails", (*pre_scores, *self._scores) if self._scores else ())
        self._score_failure = ""  # why no profile of this kind can score: a plugin lacks its PreScore
        for plugin in self._scores:
            if plugin.needs_pre_score and plugin not in pre_scores:
                self._score_failure = _unprepared(plugin.name, "score")
                break

    def _at(self, point: ExtensionPoint, plugins: Mapping[str, Plugin]) -> tuple[Plugin, ...]:
        return tuple(plugins[name] for name in self.profile.enabled(point) if name in plugins)

    def of_class(self, state: ClusterState, pod_class: int) -> ClassCycle:
        """The cycle of a class; it is kept until the state gets further classes, which may change it."""
        terms = state.classes.counters.catch_up()
        return state.classes.cached(pod_class, self, terms, lambda: self._compute_cycle(state, pod_class))

    def _compute_cycle(self, state: ClusterState, pod_class: int) -> ClassCycle:
        release = state.classes.release
        static_pre_filters = [plugin for plugin in self._pre_filters if plugin.has_static_pre_filter]
        candidates = _pre_filtered(static_pre_filters, state, pod_class)
        admitted = self._admitting(state, pod_class)
        if candidates.restricted_to is not None:
            admitted = admitted & candidates.restricted_to
        concerned = [
            plugin for plugin in self._filters if not plugin.static and plugin.concerns(state, pod_class)
        ]
        changing_pre_filters = [
            plugin for plugin in self._pre_filters if plugin in concerned and not plugin.has_static_pre_filter
        ]
        filters: list[Plugin] = []
        for plugin in concerned:
            if plugin.name in candidates.skipped:
                continue
            if plugin.is_static(ExtensionPoint.FILTER, state, pod_class):
                admitted = admitted & ~plugin.rejected(state, pod_class)
            else:
                filters.append(plugin)
        static_scores = self._static_scores(state, pod_class)
        static = StaticScores.of(static_scores, self.profile.enabled(ExtensionPoint.SCORE))
        scores = [
            Scoring.of(plugin, self.profile.weights[plugin.name])
            for plugin in self._scores
            if not plugin.is_static(ExtensionPoint.SCORE, state, pod_class)
        ]
        compared = (*(scores.plugin for scores in static.compared), *(scoring.plugin for scoring in scores))
        return ClassCycle(
            candidates=candidates,
            pre_filters=changing_pre_filters,
            admitted=admitted,
            filters=filters,
            static=static,
            scores=scores,
            may_be_others=static.may_be_others or any(scoring.has_others for scoring in scores),
            may_be_out_of_range=not all(plugin.is_in_range or plugin.of_extender for plugin in compared),
            filter_failure=self._filter_failure(release),
            leaving_open=[
                plugin for plugin in self._leaving_open if _may_leave_open(plugin, state, pod_class)
            ],
            preparing=[
                plugin
                for plugin in self._failing
                if self._prepares(plugin, release) and _may_fail(plugin, state, pod_class)
            ],
            takes_root=release.has(HEAP_TIES) and not self._is_asked(state, pod_class),
        )

    def _prepares(self, plugin: Plugin, release: Release) -> bool:
        """Whether a plugin prepares to score, in a release, if only because it scores."""
        rule = plugin.prepares_score_by
        return rule is None or release.has(rule) or plugin in self._scores

    def _static_scores(self, state: ClusterState, pod_class: int) -> Iterator[RawScores]:
        """The scores of all nodes by each plugin whose scores are the same in every state."""
        all_nodes = np.arange(len(state.nodes))
        for plugin in self._scores:
            if not plugin.is_static(ExtensionPoint.SCORE, state, pod_class):
                continue
            raw = plugin.raw_scores(state, pod_class, all_nodes)
            if raw is not None:
                others = plugin.other_raw_scores(state, pod_class)
                yield RawScores(plugin, self.profile.weights[plugin.name], raw, others)

    def _candidates(self, state: ClusterState, pod_class: int, cycle: ClassCycle) -> _Candidates:
        """What all PreFilters leave on this state."""
        if not cycle.pre_filters:
            return cycle.candidates
        changing = _pre_filtered(cycle.pre_filters, state, pod_class)
        if cycle.candidates.rejected and changing.rejected:
            # The profile's first plugin that rejects the pod gives the reason.
            return _pre_filtered(self._pre_filters, state, pod_class)
        return _Candidates(
            cycle.candidates.rejected or changing.rejected,
            _both(cycle.candidates.restricted_to, changing.restricted_to),
            cycle.candidates.skipped | changing.skipped,
        )

    def _codes(self, plugin: Plugin, state: ClusterState, pod_class: int) -> IntArray:
        """(nodes,) the codes of a filter, see ``Plugin.filter``; those of a static one are computed once."""
        if not plugin.static:
            return plugin.filter(state, pod_class)
        return state.classes.cached(pod_class, self, plugin.name, lambda: plugin.filter(state, pod_class))

    def admitting(self, state: ClusterState, pod_class: int) -> BoolArray:
        """(nodes,) which nodes pass the filters whose results no other pod and no free room changes."""
        return self._admitting(state.seen_by(self.view), pod_class)

    @once_a_class
    def _admitting(self, state: ClusterState, pod_class: int) -> BoolArray:
        mask = np.ones(len(state.nodes), np.bool_)
        for plugin in self._filters:
            if plugin.static:
                mask &= plugin.filter(state, pod_class) == 0
        return mask

    def spread_counters(self, state: ClusterState, pod_class: int, when: str) -> list[DomainCounter]:
        """The counters of a class's topology spread constraints whose whenUnsatisfiable is ``when``."""
        state = state.seen_by(self.view)
        counters: list[DomainCounter] = []
        for plugin in self._spreading:
            counters += plugin.spread_counters(state, pod_class, when)
        return counters

    def named(
        self, filters: Collection[str], scores: Collection[str]
    ) -> tuple[Sequence[Plugin], Sequence[Plugin]]:
        """The enabled filters with these names, and the enabled score plugins with these names."""
        by_filter = [plugin for plugin in self._filters if plugin.name in filters]
        by_score = [plugin for plugin in self._scores if plugin.name in scores]
        return by_filter, by_score

    def feasible(self, state: ClusterState, pod_class: int) -> BoolArray:
        """(nodes,) which nodes pass every filter."""
        return self.feasible_as_seen(state.seen_by(self.view), pod_class)

    def feasible_as_seen(self, state: ClusterState, pod_class: int) -> BoolArray:
        """(nodes,) which nodes pass every filter on a state that is already as this scheduler sees it."""
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
        """(nodes,) which nodes pass every filter; those of extenders only where ``asking``."""
        if candidates.rejected:
            return np.zeros(len(state.nodes), np.bool_)
        mask = cycle.admitted
        if cycle.pre_filters and candidates.restricted_to is not None:
            mask = mask & candidates.restricted_to
        for plugin in cycle.filters:
            if asking or not plugin.of_extender:
                rejected = plugin.rejected(state, pod_class)
                if rejected.any():
                    mask = mask & ~rejected
        if state.added_taint is not None and TAINTS in self.profile.enabled(ExtensionPoint.FILTER):
            taint, nodes = state.added_taint
            if not _tolerates(state, pod_class, taint):
                mask = mask.copy()
                mask[list(nodes)] = False
        if state.nominated:
            mask = mask.copy()
            mask[list(self._beside_nominated(state, pod_class, pod, candidates, mask))] = False
        return mask

    def rejections(self, state: ClusterState, pod_class: int, pod: int = NO_POD) -> dict[int, str]:
        """``Plugin: reason`` by row of each rejected node, of the profile's first plugin that rejects it."""
        state = state.seen_by(self.view)
        candidates = self._candidates(state, pod_class, self.of_class(state, pod_class))
        if candidates.rejected:
            return dict.fromkeys(range(len(state.nodes)), candidates.rejected)
        looked_at: BoolArray = np.ones(len(state.nodes), np.bool_)
        if candidates.restricted_to is not None:
            looked_at = candidates.restricted_to
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
        """By node: why the pod is rejected beside the pods that are nominated there; absent where it passes.

        ``among`` (nodes,) are the nodes to look at. A pod yields to nominated pods of its own or a higher
        priority, and not to itself.
        """
        priority = state.classes[pod_class].priority
        nominated_by_node: dict[int, list[int]] = {}
        for other, node in state.nominated.items():
            priority_of_other = state.classes[state.pod_class[other]].priority
            if other != pod and among[node] and priority_of_other >= priority:
                nominated_by_node.setdefault(node, []).append(other)
        filters = [plugin for plugin in self._filters if plugin.name not in candidates.skipped]
        reasons: dict[int, str] = {}
        for node, nominated in nominated_by_node.items():
            reason = self._first_reason(pod_class, filters, state.with_nominated(nominated, node), node)
            if reason:
                reasons[node] = reason
        return reasons

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
        not_skipped = (plugin for plugin in named if not plugin.pre_filter(state, pod_class).skip)
        return self._first_reason(pod_class, not_skipped, state, node)

    def _scores_of(
        self, state: ClusterState, pod_class: int, cycle: ClassCycle, feasible: IntArray, sample_size: int
    ) -> ClassScores:
        """The scores of the feasible nodes; ``sample_size`` is how many of them the scheduler compares."""
        changing: list[RawScores] = []
        for scoring in cycle.scores:
            plugin = scoring.plugin
            raw = plugin.raw_scores_of_sample(state, pod_class, feasible, sample_size)
            if raw is not None:
                others = NO_OTHER_SCORES
                if scoring.has_others:
                    others = plugin.other_raw_scores(state, pod_class)
                changing.append(RawScores(plugin, scoring.weight, raw, others))
        static = cycle.static
        if state.added_soft_taint is not None:
            taint, nodes = state.added_soft_taint
            if not _tolerates(state, pod_class, taint):
                tainted = np.zeros(len(state.nodes), np.int64)
                tainted[list(nodes)] = 1
                static = static.with_more(TAINTS, tainted)
        return ClassScores(static, changing, feasible)

    def place(self, state: ClusterState, pod_class: int, pod: int = NO_POD) -> Placement:
        """Where a pod of a class would land on this state; ``pod`` is its row if the state has the pod."""
        state = state.seen_by(self.view)
        cycle = self.of_class(state, pod_class)
        candidates = self._candidates(state, pod_class, cycle)
        feasible = state.nodes.passing(self._feasible(state, pod_class, cycle, candidates, pod))
        if not len(feasible):
            return Placement(_NO_NODES, {}, np.zeros(0), rejected=candidates.rejected)
        search = self._search(state, pod_class, cycle, candidates, feasible, pod)
        scores = self._scores_of(state, pod_class, cycle, feasible, search.size)
        failure = (
            cycle.filter_failure
            or (cycle.may_be_out_of_range and scores.out_of_range)
            or _failure(cycle.preparing, state, pod_class, feasible)
            or self._score_failure
        )
        if not failure and search.may_be_empty:
            failure = _ALL_REJECTED
        rejected = ""
        left_open = _left_open(cycle.leaving_open, state, pod_class)
        tie: TieBreak | None = None
        nominated_at = _NO_NODES  # the index into ``feasible`` of the node to which the pod is nominated
        if pod in state.nominated:
            nominated_at = np.flatnonzero(feasible == state.nominated[pod])
        chance: FloatArray
        if left_open and not failure:
            chance = np.full(len(feasible), 1.0 / len(feasible))
        elif len(nominated_at):
            # The scheduler takes this node without scoring.
            chance = np.zeros(len(feasible))
            chance[nominated_at] = 1.0
        elif failure:
            chance = np.zeros(len(feasible))
            is_only_a_score = not cycle.filter_failure and not failure.startswith(_EXTENDER)
            if len(feasible) == 1 and is_only_a_score:
                # The scheduler takes the only feasible node without scoring.
                chance[0] = 1.0
            else:
                rejected = failure
        else:
            chance, tie = _outcome(search, scores, may_be_others=cycle.may_be_others)
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
            score_failure=failure,
            is_sampled=search.is_sample,
        )

    def chances_by_weight(
        self, state: ClusterState, pod_class: int, pod: int, weights: Collection[int]
    ) -> Iterator[tuple[str, int, IntArray, FloatArray]]:
        """The chances that ``place`` would give if one score plugin had another weight.

        Yields, for each plugin with each of these weights: the plugin, the weight, the rows of the feasible
        nodes, and (feasible,) the chance of each.
        """
        state = state.seen_by(self.view)
        cycle = self.of_class(state, pod_class)
        candidates = self._candidates(state, pod_class, cycle)
        feasible = state.nodes.passing(self._feasible(state, pod_class, cycle, candidates, pod))
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
        """How many feasible nodes end a search among so many candidates; the first one if nothing follows."""
        if self._scores or any(extender.filter_verb for extender in self._extenders):
            return nodes_to_find(candidates, self._percentage)
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
        """The search of the scheduler that finds some or all of the feasible nodes.

        If PreFilters restrict the nodes, the scheduler looks at these in no particular order.
        """
        # (passing,) the nodes that end the search: extenders are asked only about nodes that it found.
        passing = feasible
        if self._asks_of_sample and self._is_asked(state, pod_class):
            unasked = self._feasible(state, pod_class, cycle, candidates, pod, asking=False)
            passing = state.nodes.passing(unasked)
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
        all_nodes = np.arange(len(state.nodes))
        cycle = self.of_class(state, pod_class)
        scores = self._scores_of(state, pod_class, cycle, all_nodes, len(all_nodes))
        return {
            name: plugin_scores.plugin.normalize(plugin_scores.raw, *plugin_scores.extremes)
            for name, plugin_scores in scores.by_plugin.items()
        }

    def has_figures(self, state: ClusterState, pod_class: int) -> dict[str, BoolArray]:
        """(nodes,) by plugin: which nodes have the figures that its score needs; absent if it needs none."""
        state = state.seen_by(self.view)
        by_plugin: dict[str, BoolArray] = {}
        for plugin in self._scores:
            has_figure = plugin.has_figures(state, pod_class)
            if has_figure is not None:
                by_plugin[plugin.name] = has_figure
        return by_plugin

    def _filter_failure(self, release: Release) -> str:
        """Why every cycle fails: a filter is enabled without the PreFilter that it needs; empty: none is."""
        for plugin in self._filters:
            if plugin in self._pre_filters:
                continue
            needed = plugin.needs_pre_filter
            if not isinstance(needed, bool):
                needed = release.has(needed)
            if needed:
                return _unprepared(plugin.name, "filter")
        return ""


def _that_define(method: str, plugins: Iterable[Plugin]) -> list[Plugin]:
    """The plugins, each once, that have a method of their own instead of the one of ``Plugin``."""
    return [
        plugin
        for plugin in dict.fromkeys(plugins)
        if getattr(type(plugin), method) is not getattr(Plugin, method)
    ]


def _may_leave_open(plugin: Plugin, state: ClusterState, pod_class: int) -> bool:
    """Whether a filter may leave anything open for a class, in some state."""
    is_static = plugin.is_static(ExtensionPoint.FILTER, state, pod_class)
    return not is_static or bool(plugin.leaves_open(state, pod_class))


def _may_fail(plugin: Plugin, state: ClusterState, pod_class: int) -> bool:
    """Whether preparing to score may fail for a class, for some nodes in some state."""
    is_static = plugin.is_static(ExtensionPoint.SCORE, state, pod_class)
    return not is_static or bool(plugin.fails(state, pod_class, np.arange(len(state.nodes))))


def _tolerates(state: ClusterState, pod_class: int, taint: Taint) -> bool:
    return Tolerations(state.classes[pod_class].spec.tolerations).tolerate(taint)


def _failure(plugins: Iterable[Plugin], state: ClusterState, pod_class: int, feasible: IntArray) -> str:
    """Why preparing to score these nodes fails; empty when it does not."""
    for plugin in plugins:
        message = plugin.fails(state, pod_class, feasible)
        if message:
            return f"{plugin.name}: {message}"
    return ""


def _left_open(plugins: Iterable[Plugin], state: ClusterState, pod_class: int) -> str:
    """Why the scheduler may reject nodes that pass in the model; empty when it does not."""
    for plugin in plugins:
        because = plugin.leaves_open(state, pod_class)
        if because:
            return f"{plugin.name}: {because}"
    return ""


def _outcome(
    search: Search, scores: ClassScores, *, may_be_others: bool
) -> tuple[FloatArray, TieBreak | None]:
    """(feasible,) the chances, and what decides among equal totals where nothing is drawn."""
    if may_be_others and len(search.feasible) > 1 and scores.may_be_others:
        return chances_of_all_scores(search, list(scores.by_plugin.values())), None
    return search.outcome(scores.total)


def _unprepared(plugin: str, point: str) -> str:
    return f"{plugin}: it is enabled as {point} and not as pre{point.title()}"


def _both(left: BoolArray | None, right: BoolArray | None) -> BoolArray | None:
    """The nodes of two restrictions; None: all nodes."""
    if left is None:
        return right
    if right is None:
        return left
    return left & right


def _pre_filtered(plugins: Sequence[Plugin], state: ClusterState, pod_class: int) -> _Candidates:
    """What the PreFilters of these plugins leave."""
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
