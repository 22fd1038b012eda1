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

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

import msgspec
import numpy as np
from msgspec.structs import replace

from rebalancer.agreement.decisions import MAX_WEIGHT, Decision, NodeScores, Result
from rebalancer.agreement.moments import Following, turned_back
from rebalancer.cluster.arrays import IntArray
from rebalancer.cluster.changes import Change, PodThen
from rebalancer.planning.inputs import PlanningInputs
from rebalancer.planning.landing.scenarios import LandingDistribution, mean_of
from rebalancer.planning.landing.schedulers import ProfileSchedulers
from rebalancer.scheduling.framework.cycle import Placement
from rebalancer.scheduling.state.volumes import claim_names

MAX_AROUND = 8
AT_ONCE_SECONDS = 2.0
MAX_REORDERED = 20  # decisions of one replay that are computed in other orders
MAX_STATES = 12  # of one replay: a state is made anew where a node changed before a binding
MAX_SHOWN = 3  # nodes beside the one chosen
MAX_SHOWN_NOW = 20  # the same where one decision alone is asked for
_CHURN = "nodes changed faster than states of the cluster can be made anew"
_CLAIMS = "a volume of it was being bound at the same time"


def decide_now(inputs: PlanningInputs, row: int) -> Decision:
    """The decision on a pod that is on a node, on the cluster as it is now but without that pod."""
    pods = inputs.snapshot.pods
    fields, number = pods.fields(row), int(pods.pod_class[row])
    unbound = pods.classes[pods.class_before_binding.get(number, number)]
    before = PodThen(replace(fields, node_name="", deleted=None), unbound)
    after = PodThen(fields, pods.classes[number])
    key = fields.namespace, fields.name
    change = Change(fields.version, inputs.now, key, before, after)
    claims = {(fields.namespace, claim) for claim in claim_names(unbound.spec)}
    found = decide_again(inputs, (change,), upto=fields.version, bound_claims=claims, shown=MAX_SHOWN_NOW)
    return next(found)


class _Computed(msgspec.Struct, frozen=True, eq=False):
    """What the model makes of a pod on one state."""

    pod_class: int
    number: int
    placement: Placement  # by the figures we have
    landings: LandingDistribution | None  # None: it fits nowhere

    def chance_of(self, node: int) -> float:
        if self.landings is None:
            return 0.0
        found = np.flatnonzero(self.landings.rows == node)
        return float(self.landings.chance[found[0]]) if len(found) else 0.0


class _Moment:
    """The cluster from a moment on, until a node changes."""

    def __init__(self, inputs: PlanningInputs, undone: Sequence[Change]) -> None:
        snapshot = turned_back(inputs.snapshot, undone)
        self.schedulers = ProfileSchedulers(replace(inputs, snapshot=snapshot))
        self.following = Following(snapshot, self.schedulers.state)
        self.unpredictable = self.schedulers.unpredictable()
        self.nodes = snapshot.nodes

    def compute(self, pod: PodThen, following: Following) -> _Computed:
        kind, number = following.class_of(pod), following.number_of(pod)
        views = self.schedulers.views(kind)
        placements = [scheduler.place(following.state, kind, number) for scheduler in views]
        lands = all(len(item.feasible) and item.chance.any() for item in placements)
        landings = mean_of(placements, len(self.nodes)) if lands else None
        return _Computed(kind, number, placements[0], landings)


def decide_again(
    inputs: PlanningInputs,
    changes: Sequence[Change],
    *,
    upto: int,
    bound_claims: Collection[tuple[str, str]],
    chosen: Callable[[int], Collection[int]] = range,
    shown: int = MAX_SHOWN,
) -> Iterator[Decision]:
    """Every binding up to a version, computed on the cluster as it was just before.

    ``inputs`` are of the cluster after them, ``changes`` what happened since the replay before, in order.
    ``bound_claims`` are the PersistentVolumeClaims that were bound then. ``chosen`` says which of so many
    bindings are computed; the others happen all the same. So many nodes are ``shown`` beside the one chosen.
    """
    binding = [at for at, change in enumerate(changes) if change.binds and change.version <= upto]
    wanted = {binding[number] for number in chosen(len(binding))}
    moment: _Moment | None = None
    states = done = reordered = 0
    stale = False
    for at in binding:
        stale = stale or any(change.of_node for change in changes[done:at])
        if at not in wanted:
            continue
        if moment is None or (stale and states < MAX_STATES):
            done = _since(changes, at)
            moment, stale, states = _Moment(inputs, changes[done:]), False, states + 1
        moment.following.apply(changes[done:at])
        done = at
        doubt = _CHURN if stale else _why_unpredictable(moment, changes[at], bound_claims)
        item = _decided(moment, changes, at, doubt, MAX_REORDERED - reordered, shown)
        reordered += item.result in (Result.REORDERED, Result.MISSED)
        yield item


def _since(changes: Sequence[Change], at: int) -> int:
    """Where the changes begin that a scheduler may not have known: behind the last one of a node."""
    for since in range(at, max(0, at - MAX_AROUND), -1):
        if changes[since - 1].of_node:
            return since
    return max(0, at - MAX_AROUND)


def _decided(
    moment: _Moment, changes: Sequence[Change], at: int, doubt: str, reorders: int, shown: int
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
    computed = moment.compute(before, moment.following)
    chance, result = computed.chance_of(node), Result.AS_COMPUTED
    weights = _weights(moment, computed, node)
    if not chance:
        result = Result.MISSED
        orders = list(_orders(changes, at)) if reorders > 0 else []
        for undone, early in orders:
            following = moment.following.copy()
            following.undo(undone)
            following.apply(early)
            other = moment.compute(before, following)
            if other.chance_of(node):
                computed, result = other, Result.REORDERED
                chance = other.chance_of(node) / (1 + len(orders))
                break
    landings = computed.landings
    return replace(
        decision,
        result=result,
        chance=chance,
        expected=_expected(landings),
        possible=0 if landings is None else len(landings.rows),
        feasible=len(computed.placement.feasible),
        sampled=_is_sampled(moment, computed),
        weights=weights,
        because=computed.placement.rejected if landings is None else "",
        nodes=_nodes(moment, computed, node, shown),
    )


def _of_binding(change: Change) -> tuple[PodThen, PodThen]:
    before, after = change.before, change.after
    assert isinstance(before, PodThen)
    assert isinstance(after, PodThen)
    return before, after


def _why_unpredictable(moment: _Moment, change: Change, bound_claims: Collection[tuple[str, str]]) -> str:
    pod, _ = _of_binding(change)
    kind = moment.following.class_of(pod)
    if moment.schedulers.is_foreign(kind):
        return "its schedulerName is in no configuration that was read"
    spec, namespace = pod.pod_class.spec, pod.pod_class.namespace
    ephemeral = any(volume.ephemeral for volume in spec.volumes or ())
    if ephemeral or any((namespace, claim) not in bound_claims for claim in claim_names(spec)):
        return _CLAIMS
    return moment.unpredictable.get(kind, "")


def _orders(changes: Sequence[Change], at: int) -> Iterator[tuple[Sequence[Change], Sequence[Change]]]:
    """What of the latest changes a scheduler may not have known, and which later bindings it may have made.

    Changes of nodes would need another state, so none beyond one of them is looked at.
    """
    moment = changes[at].at
    near = [item for item in changes[_since(changes, at) : at] if moment - item.at <= AT_ONCE_SECONDS]
    later = [item for item in changes[at + 1 : at + 1 + 4 * MAX_AROUND] if item.binds]
    later = [item for item in later[:MAX_AROUND] if item.at - moment <= AT_ONCE_SECONDS]
    for count in range(1, MAX_AROUND + 1):
        if count <= len(near):
            yield near[-count:], ()
            unheard = [item for item in near[-count:] if not item.binds]
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


def _is_sampled(moment: _Moment, computed: _Computed) -> bool:
    return len(computed.placement.feasible) > moment.schedulers.nodes_to_find(computed.pod_class)


def _weights(moment: _Moment, computed: _Computed, node: int) -> Mapping[str, tuple[int, int, int]]:
    """By score plugin: its weight, and between which weights the node would have the highest total."""
    placement = computed.placement
    at = np.flatnonzero(placement.feasible == node)
    if not len(at) or len(placement.feasible) < 2 or _is_sampled(moment, computed):
        return {}
    weights = moment.schedulers.scheduler(computed.pod_class).profile.weights
    total, found = placement.totals, {}
    for plugin, weighted in placement.scores.items():
        weight = weights[plugin]
        if weight:
            score = weighted // weight
            found[plugin] = (weight, *_best_between(total - weighted, score, int(at[0])))
    return found


def _best_between(others: IntArray, score: IntArray, at: int) -> tuple[int, int]:
    """The weights from 0 to ``MAX_WEIGHT`` with which no node beats the one ``at``; 1, 0 where none."""
    ahead, behind = score[at] - score, others - others[at]  # weight × ahead ≥ behind for every node
    if (behind[ahead == 0] > 0).any():
        return 1, 0
    better, worse = ahead > 0, ahead < 0
    lowest = int((-(-behind[better] // ahead[better])).max(initial=0))
    highest = int((behind[worse] // ahead[worse]).min(initial=MAX_WEIGHT))
    return (lowest, highest) if lowest <= highest else (1, 0)


def _nodes(moment: _Moment, computed: _Computed, node: int, most: int) -> tuple[NodeScores, ...]:
    """The node chosen, and the likeliest others, as they were scored."""
    landings, placement = computed.landings, computed.placement
    likeliest: list[int] = []
    if landings is not None:
        likeliest = landings.rows[np.argsort(-landings.chance, kind="stable")].tolist()
    if len(likeliest) < most:
        totals = computed.placement.totals
        likeliest += placement.feasible[np.argsort(-totals, kind="stable")][: most + 1].tolist()
    shown = list(dict.fromkeys([node, *likeliest]))[: 1 + most]
    where = {int(row): at for at, row in enumerate(placement.feasible)}
    totals, weights = placement.totals, moment.schedulers.scheduler(computed.pod_class).profile.weights
    found = []
    for row in shown:
        at = where.get(row)
        weighted = {} if at is None else {name: int(values[at]) for name, values in placement.scores.items()}
        found.append(
            NodeScores(
                node=moment.nodes.names[row],
                chance=computed.chance_of(row),
                total=0 if at is None else int(totals[at]),
                raw={} if at is None else placement.raw_scores_at(at),
                weighted={name: value for name, value in weighted.items() if weights[name]},
                rejected="" if at is not None else _rejection(moment, computed, row),
            )
        )
    return tuple(found)


def _rejection(moment: _Moment, computed: _Computed, row: int) -> str:
    scheduler = moment.schedulers.scheduler(computed.pod_class)
    state = moment.following.state
    return scheduler.rejections(state, computed.pod_class, computed.number).reasons.get(row, "")
