"""Decides again what the schedulers of a cluster have decided, one binding after another.

The versions of the API server put bindings in an order, and that is nearly the order of the decisions. A
scheduler decides on one pod at a time and counts it on its node at once, but writes the binding on another
thread; and what happens in the cluster reaches it a moment later than the API server:

    decided     web-1 to a, web-2 to b                    web-2 on the cluster with web-1 on a
    written     101 web-2 to b, 102 web-1 to a            at 101 web-1 is on no node yet

So where the node chosen is not among those computed, the decision is computed again with the next bindings
made already, and without the latest changes: at most ``MAX_AROUND`` of either, within ``AT_ONCE_SECONDS``.
A decision that agrees only then is counted apart, and its chance is divided by the number of orders tried.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

import msgspec
import numpy as np
from msgspec.structs import replace

from rebalancer.agreement.decisions import MAX_WEIGHT, Decision, NodeScores, Result
from rebalancer.agreement.moments import Following, turned_back
from rebalancer.cluster.arrays import BoolArray, IntArray
from rebalancer.cluster.changes import Change, PodThen
from rebalancer.cluster.pod_classes import PodClass
from rebalancer.cluster.pods import PodTable
from rebalancer.cluster.records import Container, PodSpec
from rebalancer.load.scheduler_view import SchedulerView
from rebalancer.planning.inputs import PlanningInputs
from rebalancer.planning.landing.scenarios import LandingDistribution, mean_of
from rebalancer.planning.landing.schedulers import ProfileSchedulers, find_unpredictable, sees_otherwise
from rebalancer.scheduling.framework.cycle import Placement, Scheduler
from rebalancer.scheduling.framework.plugin import PluginInputs, last_forgot_at
from rebalancer.scheduling.state.volumes import claim_names

MAX_AROUND = 8
AT_ONCE_SECONDS = 2.0
MAX_AT_ONCE = 64  # bindings within so many seconds before another, or after it; see ``_at_once``
# Seconds by which times of binding may be wrong, and whether the scheduler's own forgetting counts.
_EDGES = ((1.0, False), (-1.0, False), (2.0, False), (-2.0, False), (0.0, True), (1.0, True), (-1.0, True))
_NO_EDGE = (0.0, False)
_MOMENT_SECONDS = 30.0  # after which pods that were bound at its beginning may be in the figures
_NEAR_SECONDS = 1.0  # from a decision until its binding is heard of
MAX_REORDERED = 20  # decisions of one replay that are computed in other orders
MAX_STATES = 12  # of one replay: a state is made anew where a node changed before a binding
MAX_SHOWN = 3  # nodes beside the one chosen
MAX_SHOWN_NOW = 20  # the same where one decision alone is asked for
_TRIED_WEIGHTS = (0, 1, 2, 3, 5, 10, 20, 50, 100)  # of a plugin, where a sample of the nodes is compared
_CHURN = "nodes changed faster than states of the cluster can be made anew"
_OLDER = "its load-aware plugins may still have had figures from before the cluster was followed"
_CLAIMS = "a volume of it was being bound at the same time"
_AT_ONCE = (
    f"more than {MAX_AT_ONCE} other pods were bound within {AT_ONCE_SECONDS:g} s before it, or after it: "
    "their bindings do not tell the order of the decisions"
)


def decide_now(inputs: PlanningInputs, row: int) -> Decision:
    """The decision on a pod that is on a node, on the cluster as it is now but without that pod."""
    pods = inputs.snapshot.pods
    fields = pods.fields(row)
    number = int(pods.pod_class[row])
    unbound = pods.classes[pods.class_before_binding.get(number, number)]
    before = PodThen(replace(fields, node_name="", deleted=None), unbound)
    after = PodThen(fields, pods.classes[number])
    key = fields.namespace, fields.name
    change = Change(fields.version, inputs.now, key, before, after)
    claims = {(fields.namespace, claim) for claim in claim_names(unbound.spec)}
    decisions = decide_again(inputs, (change,), upto=fields.version, bound_claims=claims, shown=MAX_SHOWN_NOW)
    return next(decisions)


def _of_containers(read: Callable[[Container], object]) -> Callable[[PodSpec], object]:
    def read_by_name(containers: Sequence[Container] | None) -> list[tuple[str, object]]:
        return [(container.name, read(container)) for container in containers or ()]

    return lambda spec: (read_by_name(spec.containers), read_by_name(spec.init_containers))


# What of a spec scheduling looks at, and the plugin that does, by the field that differs.
_READERS: Mapping[str, tuple[str, Callable[[PodSpec], object]]] = {
    "nodeSelector": ("NodeAffinity", lambda spec: spec.node_selector or {}),
    "nodeAffinity": ("NodeAffinity", lambda spec: spec.affinity and spec.affinity.node_affinity),
    "podAffinity": (
        "InterPodAffinity",
        lambda spec: spec.affinity and (spec.affinity.pod_affinity, spec.affinity.pod_anti_affinity),
    ),
    "tolerations": ("TaintToleration", lambda spec: spec.tolerations or []),
    "topologySpreadConstraints": ("PodTopologySpread", lambda spec: spec.topology_spread_constraints or []),
    "resources": (
        "NodeResourcesFit",
        lambda spec: (
            _of_containers(lambda container: container.resources)(spec),
            spec.overhead,
            spec.resources,
        ),
    ),
    "images": ("ImageLocality", _of_containers(lambda container: container.image)),
    "ports": ("NodePorts", _of_containers(lambda container: container.ports)),
    "priority": ("PrioritySort", lambda spec: spec.priority or 0),
}


def _edited_fields(pod: PodClass, sibling: PodClass) -> dict[str, str]:
    """The fields by which a pod differs from its sibling, by the plugin that looks at them."""
    fields_by_plugin: dict[str, list[str]] = {}
    for field, (plugin, read) in _READERS.items():
        if read(pod.spec) != read(sibling.spec):
            fields_by_plugin.setdefault(plugin, []).append(field)
    return {plugin: ", ".join(fields) for plugin, fields in fields_by_plugin.items()}


class Siblings:
    """The pods of each controller that are on nodes at a moment; later ones may differ.

    A plan takes a replacement to be what its predecessor is. Where an admission webhook was installed since,
    or edits some pods only, the scheduler decides on another pod than the plan computed:

        web-7f9c-abcde, there since Monday       nodeSelector: {}
        web-7f9c-xyzzy, of the same ReplicaSet   nodeSelector: {pool: spot}      NodeAffinity
    """

    def __init__(self, pods: PodTable) -> None:
        self._pods = pods
        self._classes: dict[str, set[int]] = {}
        for kind in np.unique(pods.pod_class[pods.node >= 0]).tolist():
            if owner := pods.classes[kind].owner.uid:
                self._classes.setdefault(owner, set()).add(kind)

    def beside(self, kind: int) -> tuple[int, Mapping[str, str]] | None:
        """The class of a sibling that differs, and the fields by plugin; None where none does."""
        classes = self._pods.classes
        for other in sorted(self._classes.get(classes[kind].owner.uid, ())):
            if other != kind and (fields := _edited_fields(classes[kind], classes[other])):
                return other, fields
        return None


class SeenView(msgspec.Struct, frozen=True, eq=False):
    """Figures that load-aware plugins could read from a moment on, and until another; Unix seconds."""

    view: SchedulerView
    since: float  # at the earliest
    until: float = math.inf  # at the latest


class _Computed(msgspec.Struct, frozen=True, eq=False):
    """What the model makes of a pod on one state."""

    pod_class: int
    number: int
    placement: Placement  # by the figures we have
    landings: LandingDistribution | None  # None: it fits nowhere

    def chance_of(self, node: int) -> float:
        if self.landings is None:
            return 0.0
        places = np.flatnonzero(self.landings.rows == node)
        if not len(places):
            return 0.0
        return float(self.landings.chance[places[0]])


class _Moment:
    """The cluster from a moment on, until a node changes or the figures are others."""

    def __init__(
        self,
        inputs: PlanningInputs,
        undone: Sequence[Change],
        seen: Sequence[SeenView],
        bound_at: Mapping[str, float],
    ) -> None:
        snapshot = turned_back(inputs.snapshot, undone)
        inputs = replace(inputs, snapshot=snapshot)
        self.schedulers = ProfileSchedulers(inputs)
        self.following = Following(snapshot, self.schedulers.state)
        self.unpredictable = find_unpredictable(inputs)
        self.nodes = snapshot.nodes
        self.siblings = Siblings(snapshot.pods)
        self._heard = [bound_at.get(uid, math.nan) for uid in snapshot.pods.uids] if bound_at else []
        self.edges = _EDGES if any(seen_view.view.watchers for seen_view in seen) else ()
        self._seen = seen
        self._plugin_inputs: dict[str, list[PluginInputs]] = {}  # by schedulerName, for each view
        self._by_view: dict[tuple[int, str, float, float | None], Scheduler] = {}

    def _inputs_of(self, scheduler_name: str) -> list[PluginInputs]:
        """What the plugins of a profile may have read, by each view."""
        if scheduler_name not in self._plugin_inputs:
            plugin_inputs = self.schedulers.plugin_inputs[scheduler_name]
            if self._heard and plugin_inputs.bound_at is not None:
                bound_at = np.where(np.isnan(self._heard), plugin_inputs.bound_at, self._heard)
                plugin_inputs = replace(plugin_inputs, bound_at=bound_at)
            self._plugin_inputs[scheduler_name] = [
                replace(plugin_inputs, view=seen_view.view) for seen_view in self._seen
            ]
        return self._plugin_inputs[scheduler_name]

    def _views(self, kind: int, at: float, edge: tuple[float, bool]) -> Sequence[Scheduler]:
        """The scheduler of a class by each view that its plugins may have had at a moment.

        ``edge``: pods were heard of so many seconds later than they were bound, and whether the scheduler
        has forgotten some since its start.
        """
        late, forgets = edge
        profile = self.schedulers.scheduler(kind).profile
        facts = self.schedulers.facts[profile.scheduler_name]
        by_view = self._inputs_of(profile.scheduler_name)
        started = facts.start.at if facts.start and forgets else None
        forgot_at = None if started is None else last_forgot_at(started, at)
        schedulers: list[Scheduler] = []
        different: list[PluginInputs] = []
        for number in reversed(range(len(by_view))):
            seen_view = self._seen[number]
            oldest = at - seen_view.view.lag_seconds - _NEAR_SECONDS
            if seen_view.since > at + _NEAR_SECONDS or seen_view.until < oldest:
                continue
            plugin_inputs = by_view[number]
            unseen_seconds = plugin_inputs.unseen_seconds + late
            plugin_inputs = replace(plugin_inputs, unseen_seconds=unseen_seconds, forgot_at=forgot_at)
            if all(sees_otherwise(facts.configuration, profile, other, plugin_inputs) for other in different):
                different.append(plugin_inputs)
                key = number, profile.scheduler_name, late, forgot_at
                if key not in self._by_view:
                    self._by_view[key] = self.schedulers.seeing(profile.scheduler_name, plugin_inputs)
                schedulers.append(self._by_view[key])
        return schedulers or self.schedulers.views(kind)

    def may_have_older_figures(self, kind: int, at: float) -> bool:
        """Whether load-aware plugins of a class may have had figures at a moment that nobody here saw."""
        scheduler = self.schedulers.scheduler(kind)
        plugins = self.schedulers.facts[scheduler.profile.scheduler_name].configuration.plugins
        inputs_by_plugin = [plugins[name].inputs for name in scheduler.profile.weights if name in plugins]
        if not self._seen or at - self._seen[0].view.lag_seconds >= self._seen[0].since:
            return False
        return any(plugin_input.is_load for inputs in inputs_by_plugin for plugin_input in inputs)

    def compute(
        self,
        pod: PodThen,
        following: Following,
        at: float,
        kind: int | None = None,
        edge: tuple[float, bool] = _NO_EDGE,
    ) -> _Computed:
        """``kind`` is another class than the pod's, ``edge`` as above."""
        kind = following.class_of(pod) if kind is None else kind
        number = following.number_of(pod)
        views = self._views(kind, at, edge)
        placements = [scheduler.place(following.state, kind, number) for scheduler in views]
        lands = all(len(placement.feasible) and placement.chance.any() for placement in placements)
        landings = mean_of(placements, len(self.nodes)) if lands else None
        return _Computed(kind, number, placements[0], landings)


def decide_again(
    inputs: PlanningInputs,
    changes: Sequence[Change],
    *,
    upto: int,
    bound_claims: Collection[tuple[str, str]],
    seen: Sequence[SeenView] = (),
    bound_at: Mapping[str, float] = {},
    chosen: Callable[[int], Collection[int]] = range,
    weighed: int = 0,
    shown: int = MAX_SHOWN,
) -> Iterator[Decision]:
    """Every binding up to a version, computed on the cluster as it was just before.

    ``inputs`` are of the cluster after them, ``changes`` what happened since the replay before, in order.
    ``bound_claims`` are the PersistentVolumeClaims that were bound then, ``seen`` what load-aware plugins may
    have read meanwhile, in order, ``bound_at`` when pods were bound, by uid, as far as that was heard.
    ``chosen`` says which of so many bindings are computed; the others happen all the same. Other weights are
    tried for the first ``weighed`` decisions that compare a sample, which takes many times as long. So many
    nodes are ``shown`` beside the one chosen.
    """
    binding = [at for at, change in enumerate(changes) if change.binds and change.version <= upto]
    computed_bindings = {binding[number] for number in chosen(len(binding))}
    crowded = _at_once([changes[at].at for at in binding])
    moment: _Moment | None = None
    states = done = reordered = 0
    stale = False
    began = 0.0
    for number, at in enumerate(binding):
        stale = stale or any(change.of_node for change in changes[done:at])
        if at not in computed_bindings:
            continue
        aged = bool(seen) and changes[at].at > began + _MOMENT_SECONDS
        if moment is None or ((stale or aged) and states < MAX_STATES):
            done = _since(changes, at)
            moment = _Moment(inputs, changes[done:], seen, bound_at)
            stale = False
            states = states + 1
            began = changes[done].at
        moment.following.apply(changes[done:at])
        done = at
        doubt = _CHURN if stale else _why_unpredictable(moment, changes[at], bound_claims)
        doubt = doubt or (_AT_ONCE if crowded[number] else "")
        decision = _decided(moment, changes, at, doubt, MAX_REORDERED - reordered, shown, weighs=weighed > 0)
        weighed -= decision.sampled
        reordered += decision.result in (Result.REORDERED, Result.MISSED)
        yield decision


def _at_once(moments: Sequence[float]) -> BoolArray:
    """Which bindings were written beside so many others that they say nothing of the order of decisions.

    A scheduler that decides faster than its client may write keeps a queue of bindings, whose threads write
    them in nearly any order. Those that would agree are left out as well, or the share would be too high.
    Either side is enough: at the edge of a reading only one is known.
    """
    ordered = np.sort(moments)
    each = np.asarray(moments)
    before = np.searchsorted(ordered, each, side="right") - np.searchsorted(ordered, each - AT_ONCE_SECONDS)
    after = np.searchsorted(ordered, each + AT_ONCE_SECONDS, side="right") - np.searchsorted(ordered, each)
    return np.asarray(np.maximum(before, after) > 1 + MAX_AT_ONCE)  # each counts itself


def _since(changes: Sequence[Change], at: int) -> int:
    """Where the changes begin that a scheduler may not have known: behind the last one of a node."""
    for since in range(at, max(0, at - MAX_AROUND), -1):
        if changes[since - 1].of_node:
            return since
    return max(0, at - MAX_AROUND)


def _decided(
    moment: _Moment,
    changes: Sequence[Change],
    at: int,
    doubt: str,
    reorders: int,
    shown: int,
    *,
    weighs: bool,
) -> Decision:
    change = changes[at]
    before, after = _of_binding(change)
    namespace, name = change.key
    decision = Decision(
        pod=f"{namespace}/{name}",
        uid=before.fields.uid,
        version=change.version,
        at=change.at,
        scheduler=before.pod_class.scheduler_name,
        node=after.fields.node_name,
        result=Result.UNPREDICTABLE,
    )
    node = moment.nodes.row.get(after.fields.node_name)
    if doubt or node is None:
        return replace(decision, because=doubt or "its node is not known")
    computed = moment.compute(before, moment.following, change.at)
    chance = computed.chance_of(node)
    result = Result.AS_COMPUTED
    weights = _weights(moment, computed, node)
    if weighs and computed.placement.is_sampled:
        weights = _tried_weights(moment, computed, node)
    if not chance:
        result = Result.MISSED
        orders: list[tuple[Sequence[Change], Sequence[Change], tuple[float, bool]]] = []
        if reorders > 0:
            orders += [(*order, _NO_EDGE) for order in _orders(changes, at)]
            orders += [((), (), edge) for edge in moment.edges]
        for undone, early, edge in orders:
            following = moment.following.copy()
            following.undo(undone)
            following.apply(early)
            other = moment.compute(before, following, change.at, edge=edge)
            if other.chance_of(node):
                computed = other
                result = Result.REORDERED
                chance = other.chance_of(node) / (1 + len(orders))
                break
    sibling = moment.siblings.beside(moment.following.class_of(before))
    edited: Mapping[str, str] = {}
    as_sibling = 0.0
    if sibling is not None:
        sibling_class, edited = sibling
        as_sibling = moment.compute(before, moment.following, change.at, sibling_class).chance_of(node)
    landings = computed.landings
    if landings is None:
        possible = 0
        because = computed.placement.rejected
    else:
        possible = len(landings.rows)
        because = ""
    return replace(
        decision,
        edited=edited,
        as_sibling=as_sibling,
        result=result,
        chance=chance,
        expected=_expected(landings),
        possible=possible,
        feasible=len(computed.placement.feasible),
        sampled=computed.placement.is_sampled,
        weights=weights,
        because=because,
        nodes=_nodes(moment, computed, node, shown),
    )


def _of_binding(change: Change) -> tuple[PodThen, PodThen]:
    before = change.before
    after = change.after
    assert isinstance(before, PodThen)
    assert isinstance(after, PodThen)
    return before, after


def _why_unpredictable(moment: _Moment, change: Change, bound_claims: Collection[tuple[str, str]]) -> str:
    pod, _ = _of_binding(change)
    kind = moment.following.class_of(pod)
    if moment.schedulers.is_foreign(kind):
        return "its schedulerName is in no configuration that was read"
    spec = pod.pod_class.spec
    namespace = pod.pod_class.namespace
    ephemeral = any(volume.ephemeral for volume in spec.volumes or ())
    if ephemeral or any((namespace, claim) not in bound_claims for claim in claim_names(spec)):
        return _CLAIMS
    if moment.may_have_older_figures(kind, change.at):
        return _OLDER
    return moment.unpredictable.get(kind, "")


def _orders(changes: Sequence[Change], at: int) -> Iterator[tuple[Sequence[Change], Sequence[Change]]]:
    """What of the latest changes a scheduler may not have known, and which later bindings it may have made.

    Changes of nodes would need another state, so none beyond one of them is looked at.
    """
    moment = changes[at].at
    near = [change for change in changes[_since(changes, at) : at] if moment - change.at <= AT_ONCE_SECONDS]
    later = [change for change in changes[at + 1 : at + 1 + 4 * MAX_AROUND] if change.binds]
    later = [change for change in later[:MAX_AROUND] if change.at - moment <= AT_ONCE_SECONDS]
    for count in range(1, MAX_AROUND + 1):
        if count <= len(near):
            yield near[-count:], ()
            unheard = [change for change in near[-count:] if not change.binds]
            if unheard and len(unheard) < count:
                yield unheard, ()
        if count <= len(later):
            yield (), later[:count]
            if count > 1:
                yield (), later[count - 1 : count]


def _expected(landings: LandingDistribution | None) -> float:
    if landings is None:
        return 0.0
    return float(-(landings.chance * np.log(landings.chance)).sum())


def _weights(moment: _Moment, computed: _Computed, node: int) -> Mapping[str, tuple[int, ...]]:
    """By score plugin: its weight, and between which weights the node would have the highest total."""
    placement = computed.placement
    at = np.flatnonzero(placement.feasible == node)
    if not len(at) or len(placement.feasible) < 2 or computed.placement.is_sampled:
        return {}
    weights = moment.schedulers.scheduler(computed.pod_class).profile.weights
    total = placement.totals
    ranges_by_plugin = {}
    for plugin, weighted in placement.scores.items():
        weight = weights[plugin]
        if weight:
            score = weighted // weight
            ranges_by_plugin[plugin] = (weight, *_best_between(total - weighted, score, int(at[0])))
    return ranges_by_plugin


def _tried_weights(moment: _Moment, computed: _Computed, node: int) -> Mapping[str, tuple[int, ...]]:
    """As ``_weights``, where a sample of the nodes is compared: each weight tried is a range of its own."""
    scheduler = moment.schedulers.scheduler(computed.pod_class)
    state = moment.following.state
    weights = scheduler.profile.weights
    ranges_by_plugin = {name: [weights[name]] for name in computed.placement.scores if weights[name]}
    tried = sorted({*_TRIED_WEIGHTS, *weights.values()})
    for name, weight, feasible, chance in scheduler.chances_by_weight(
        state, computed.pod_class, computed.number, tried
    ):
        if name in ranges_by_plugin and chance[feasible == node].any():
            ranges_by_plugin[name] += [weight, weight]
    return {name: tuple(ranges) for name, ranges in ranges_by_plugin.items()}


def _best_between(others: IntArray, score: IntArray, at: int) -> tuple[int, ...]:
    """The lowest and highest weight to ``MAX_WEIGHT`` with which no node beats the one ``at``, if any."""
    ahead = score[at] - score  # weight × ahead ≥ behind for every node
    behind = others - others[at]
    if (behind[ahead == 0] > 0).any():
        return ()
    better = ahead > 0
    worse = ahead < 0
    lowest = int((-(-behind[better] // ahead[better])).max(initial=0))
    highest = int((behind[worse] // ahead[worse]).min(initial=MAX_WEIGHT))
    return (lowest, highest) if lowest <= highest else ()


def _nodes(moment: _Moment, computed: _Computed, node: int, max_others: int) -> tuple[NodeScores, ...]:
    """The node chosen, and the likeliest others, as they were scored."""
    landings = computed.landings
    placement = computed.placement
    likeliest: list[int] = []
    if landings is not None:
        likeliest = landings.rows[np.argsort(-landings.chance, kind="stable")].tolist()
    if len(likeliest) < max_others:
        totals = computed.placement.totals
        likeliest += placement.feasible[np.argsort(-totals, kind="stable")][: max_others + 1].tolist()
    shown = list(dict.fromkeys([node, *likeliest]))[: 1 + max_others]
    where = {int(row): at for at, row in enumerate(placement.feasible)}
    scheduler = moment.schedulers.scheduler(computed.pod_class)
    totals = placement.totals
    weights = scheduler.profile.weights
    decided = moment.following.state, computed.pod_class, computed.number
    scored_nodes: list[NodeScores] = []
    for row in shown:
        name = moment.nodes.names[row]
        chance = computed.chance_of(row)
        at = where.get(row)
        if at is None:
            rejected = scheduler.rejections(*decided).get(row, "")
            scores = NodeScores(node=name, chance=chance, total=0, raw={}, weighted={}, rejected=rejected)
        else:
            scores = NodeScores(
                node=name,
                chance=chance,
                total=int(totals[at]),
                raw=placement.raw_scores_at(at),
                weighted={
                    plugin: int(weighted[at])
                    for plugin, weighted in placement.scores.items()
                    if weights[plugin]
                },
            )
        scored_nodes.append(scores)
    return tuple(scored_nodes)
