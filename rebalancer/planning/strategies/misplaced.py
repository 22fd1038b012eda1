"""The strategy that moves pods which the scheduler's filters would no longer admit to the node they run on.

Only labels, taints, affinity, topology spread and host ports count. Room does not, because a running pod has
it already; neither do cordons and the policy's ``excludedTaints``, because this strategy must not drain
nodes.

Soft rules are preferred affinity and taints with PreferNoSchedule, each by an option. A pod moves for them
only where the scheduler, had it to place the pod now, would score the landing higher in total than the node
it runs on, one of these rules higher, and none of them lower:

    its node        NodeAffinity   0, in total 430    as if the pod were not there
    a landing       NodeAffinity 200, in total 487    better in both
    another one     NodeAffinity 200, in total 410    no: the scheduler would not choose it, or move it back

Each such move leaves the sum of what pods prefer higher than before, so they come to rest.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Literal, get_args

from msgspec.structs import replace
from pydantic import Field

from rebalancer.cluster.leaving_nodes import CONDITION_TAINTS, CORDON_TAINT, LEAVING_TAINTS, matches_taint
from rebalancer.cluster.records import Affinity
from rebalancer.planning.strategies.chosen_pods import ChosenPods
from rebalancer.planning.strategies.strategy import Replaced, Strategy
from rebalancer.policy.model import PolicyModel, Unique

if TYPE_CHECKING:
    from rebalancer.cluster.arrays import BoolArray, FloatArray, PodRow
    from rebalancer.cluster.pod_classes import PodClass
    from rebalancer.cluster.records import Taint
    from rebalancer.planning.builder import PlanBuilder, PlannedMove
    from rebalancer.planning.landing.landing_check import Landings, Purpose
    from rebalancer.planning.prepared import PreparedInputs
    from rebalancer.scheduling.framework.cycle import Placement
    from rebalancer.scheduling.state.cluster_state import ClusterState

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_TAINTS, _SOFT_RULES = "TaintToleration", ("NodeAffinity", "InterPodAffinity", "TaintToleration")
_PREFERS = "the scheduler prefers another node"
_AS_SCHEDULER = "by the scheduler's own filter, and only where the replacement lands well"
_TAINTS_DIFFER = (
    f"{_AS_SCHEDULER}; NoExecute counts too, a cordon never does, and taints of a node's condition or of its "
    "removal do not, unless excludedTaints are stated"
)
_PREFERRED_DIFFERS = (
    f"{_AS_SCHEDULER}; a node that a pod prefers counts only if the scheduler would choose it now, so that "
    "no pod comes straight back"
)
_PODS_DIFFER = (
    f"{_AS_SCHEDULER}; required affinity counts too, and pods of one name in two namespaces are two pods"
)
# Whose verdict on a class depends on nodes alone, and those of other pods.
_OF_NODES = frozenset({"TaintToleration", "NodeAffinity", "NodeName"})
_OF_PODS = frozenset({"InterPodAffinity", "PodTopologySpread", "NodePorts"})
_Filter = Literal[
    "TaintToleration", "NodeAffinity", "NodeName", "InterPodAffinity", "PodTopologySpread", "NodePorts"
]
_TaintPattern = Annotated[str, Field(pattern=r"^[A-Za-z0-9._/-]+(/\*)?(=[A-Za-z0-9._-]*)?$", max_length=400)]


class MisplacedSettings(ChosenPods):
    """Which pods count as misplaced."""

    filters: Annotated[tuple[_Filter, ...], Unique] = Field(
        default=get_args(_Filter),
        description="Only pods that one of these filters of the scheduler would reject on their own node.",
    )
    excluded_taints: Annotated[tuple[_TaintPattern, ...], Unique] = Field(
        default=(*LEAVING_TAINTS, *CONDITION_TAINTS),
        description="Taints that make no pod misplaced: key, key=value or prefix/*. By default the taints of "
        "nodes that are about to be removed, and those that Kubernetes sets for the condition of a node.",
    )
    preferred_node_affinity: bool = Field(
        default=False, description="Also pods for which the scheduler now prefers a node by node affinity."
    )
    preferred_pod_affinity: bool = Field(
        default=False, description="Also by affinity and anti-affinity to other pods that it prefers."
    )
    prefer_no_schedule: bool = Field(
        default=False, description="Also pods that do not tolerate a taint PreferNoSchedule of their node."
    )


class Misplaced(Strategy):
    """Finds violations pod by pod, in order of node and name."""

    name = "misplaced"
    description = (
        "Move pods that the scheduler would no longer place on their node because of labels, "
        "taints, affinity, spread or ports. Cordons are ignored. Pods of nodes "
        "that are about to be removed are left to whoever removes them."
    )
    settings_type = MisplacedSettings
    settings: MisplacedSettings
    minds_nodes = True
    replaces = {
        "RemovePodsViolatingNodeTaints": Replaced(
            {"includePreferNoSchedule": "preferNoSchedule"},
            _TAINTS_DIFFER,
            adds={"filters": ["TaintToleration"]},
        ),
        "RemovePodsViolatingNodeAffinity": Replaced(
            difference=_PREFERRED_DIFFERS,
            choices={"nodeAffinityType": {_REQUIRED: "", _PREFERRED: "preferredNodeAffinity"}},
            adds={"filters": ["NodeAffinity"]},
        ),
        "RemovePodsViolatingInterPodAntiAffinity": Replaced(
            difference=_PODS_DIFFER, adds={"filters": ["InterPodAffinity"]}
        ),
    }

    def __init__(self, prepared: PreparedInputs, settings: PolicyModel) -> None:
        from rebalancer.scheduling.matching import tolerates_any  # noqa: PLC0415 - imports numpy

        super().__init__(prepared, settings)
        self._tolerates_any = tolerates_any
        self._looked_at = 0  # pods for which filters or scores were computed anew
        self._is_limited = False  # a limit keeps pods that prefer another node
        self._placements: dict[Hashable, Placement] = {}
        soft = self.settings
        asked = (soft.preferred_node_affinity, soft.preferred_pod_affinity, soft.prefer_no_schedule)
        self._soft = tuple(name for name, counts in zip(_SOFT_RULES, asked, strict=True) if counts)

    def pods(self, plan: PlanBuilder) -> Iterator[PodRow]:
        """Those that a filter might reject on their node, or that might score higher on another one."""
        import numpy as np  # noqa: PLC0415 - not before a plan is made

        prepared, pods, state = self.prepared, self.prepared.pods, plan.scenarios.all[0].after_termination
        asked = np.zeros(len(pods), np.bool_)
        of_nodes, of_pods = dict[Hashable, list[int]](), dict[Hashable, list[int]]()
        for kind, own in enumerate(pods.classes):
            spec, affinity = own.spec, own.spec.affinity
            asks = spec.node_selector or (affinity and affinity.node_affinity)
            alike = own.scheduler_name, kind if asks else -1, *(spec.tolerations or ())
            of_nodes.setdefault(alike, []).append(kind)
            of_pods[kind] = [kind]  # also where it asks for nothing: other pods may keep away from it
        for classes, rules in ((of_nodes, _OF_NODES), (of_pods, _OF_PODS)):
            filters, soft = rules.intersection(self.settings.filters), rules.intersection(self._soft)
            for first, *others in classes.values():
                own = pods.classes[first]
                scheduler = prepared.schedulers.by_name.get(own.scheduler_name)
                may_prefer = soft and (rules is _OF_NODES or own.spec.affinity)
                if scheduler is None or not (may_prefer or scheduler.asks(filters, state, first)):
                    continue
                rows = state.first_of(first)
                if others:
                    rows = np.isin(pods.pod_class, [first, *others]).nonzero()[0]
                nodes = pods.node[rows]
                asked[rows] |= scheduler.may_reject(filters, state, first, nodes)
                if may_prefer:
                    asked[rows] |= scheduler.may_score_higher(soft, state, first, nodes)
        for kind in np.unique(pods.pod_class[asked]).tolist():
            if not self.settings.chooses(pods.classes[kind]):
                asked[state.first_of(kind)] = False
        for node in np.unique(pods.node[asked & (pods.node >= 0)]).tolist():
            yield from (pod for pod in prepared.pods_on(node) if asked[pod])

    @cached_property
    def _taints(self) -> Mapping[int, Sequence[Taint]]:
        """By node that has any: the taints that count."""
        from rebalancer.planning.steering import EMPTIED, TAINT_KEY  # noqa: PLC0415 - imports numpy

        ignored = (*self.settings.excluded_taints, CORDON_TAINT, EMPTIED.key, TAINT_KEY)
        taints = {
            row: [item for item in node.spec.taints or () if not matches_taint(item, ignored)]
            for row, node in enumerate(self.prepared.nodes.records)
        }
        return {row: found for row, found in taints.items() if found}

    def _untolerated(self, pod: PodClass, node: int, *effects: str) -> str:
        """The first taint of a node with one of these effects that pods of a class do not tolerate."""
        taints = (item for item in self._taints.get(node, ()) if item.effect in effects)
        return next((item.key for item in taints if not self._tolerates_any(pod.spec.tolerations, item)), "")

    def why(self, pod: PodRow, plan: PlanBuilder) -> str:
        """The filter that would reject its own node if the pod were not there; empty when none would."""
        prepared, filters = self.prepared, self.settings.filters
        node, own = prepared.node_of(pod), prepared.pods.class_of(pod)
        scheduler = prepared.schedulers.by_name.get(own.scheduler_name)
        if node < 0 or scheduler is None or not self.settings.chooses(own):
            return ""
        taint = self._untolerated(own, node, "NoSchedule", "NoExecute") if _TAINTS in filters else ""
        if taint:
            return f"{_TAINTS}: it does not tolerate taint {taint}"
        if self._looked_at >= prepared.policy.planning.max_placements:
            return ""
        self._looked_at += 1
        state, kind = plan.scenarios.all[0].after_termination, int(prepared.pods.pod_class[pod])
        with self._without(state, pod):
            rejection = scheduler.rejection_at(state, kind, node, {*filters} - {_TAINTS})
        return rejection or self._preferred_elsewhere(pod, plan)

    def _without(self, state: ClusterState, pod: PodRow) -> AbstractContextManager[None]:
        from rebalancer.planning.landing.evaluation import (  # noqa: PLC0415 - imports numpy
            Predecessor,
            with_predecessor,
        )

        return with_predecessor(state, pod, self.prepared.node_of(pod), Predecessor.GONE)

    def _preferred_elsewhere(self, pod: PodRow, plan: PlanBuilder) -> str:
        """That the scheduler would now choose a better node by a soft rule, and which; empty if not.

        Of the pods that a limit keeps anyway only the first is looked at: it names the limit.
        """
        node, kind = self.prepared.node_of(pod), int(self.prepared.pods.pod_class[pod])
        rules = self._rules(self.prepared.pods.class_of(pod), node)
        if not rules or (self._is_limited and plan.used.is_spent):
            return ""
        is_limited = bool(plan.used.reached(self.prepared.candidate(pod)))
        if is_limited and self._is_limited:
            return ""
        self._is_limited |= is_limited
        placement = self._placed(plan.scenarios.all[0].after_termination, pod, kind)
        better = self._better(placement, node)
        if better is None or not (better * placement.chance).any():
            return ""
        there, here = int((better * placement.chance).argmax()), int((placement.feasible == node).argmax())
        rule = next(name for name in self._soft if placement.beside(name, here)[there] > 0)
        return (
            f"{_PREFERS} by {rule}: {self.prepared.nodes.names[int(placement.feasible[there])]} scores "
            f"{placement.totals[there]} in total, its own node would score {placement.totals[here]}"
        )

    def _rules(self, pod: PodClass, node: int) -> Collection[str]:
        """The soft rules by which pods of a class may prefer another node to this one."""
        affinity = pod.spec.affinity or Affinity()
        of_pods, of_nodes = (affinity.pod_affinity, affinity.pod_anti_affinity), affinity.node_affinity
        has = (
            bool(of_nodes and of_nodes.preferred),
            any(item and item.preferred for item in of_pods),
            _TAINTS in self._soft and bool(self._untolerated(pod, node, "PreferNoSchedule")),
        )
        return [name for name, it_has in zip(_SOFT_RULES, has, strict=True) if it_has and name in self._soft]

    def _placed(self, state: ClusterState, pod: PodRow, kind: int) -> Placement:
        """Where the scheduler would place a pod of a class if this one were not there."""
        key = state.key, kind, int(state.pod_class[pod]), self.prepared.node_of(pod)
        if key not in self._placements:
            self._looked_at += 1
            with self._without(state, pod):
                found = self.prepared.schedulers.scheduler(kind).place(state, kind)
            self._placements = {key: found}  # asked again for the same landings
        return self._placements[key]

    def _better(self, placement: Placement, node: int) -> BoolArray | None:
        """(feasible,) scores higher than a node in total and by a soft rule, and lower by none.

        None where a filter rejects the node.
        """
        here = (placement.feasible == node).nonzero()[0].tolist()
        if not here:
            return None
        higher = placement.totals > placement.totals[here[0]]
        one = higher & False
        for name in self._soft:
            sign = placement.beside(name, here[0])
            one, higher = one | (sign > 0), higher & (sign >= 0)
        better: BoolArray = one & higher
        return better

    @property
    def purpose(self) -> Purpose:
        """Filters admit the pod wherever it lands; where its node is too busy, the landing must be cooler."""
        return self if self._soft else replace(self.prepared.cooler_node, relieves=False)

    def gains(self, landings: Landings) -> FloatArray | None:
        return self.prepared.cooler_node.gains(landings)

    def objection(self, landings: Landings, at: int) -> str:
        """That it is not cooler, or that the scheduler does not prefer it, where that is why a pod moves."""
        cooler = self.prepared.cooler_node.objection(landings, at)
        return cooler or ("" if self.serves(landings)[at] else "is no better by what the pod prefers")

    def serves(self, landings: Landings) -> BoolArray:
        good = self.prepared.cooler_node.serves(landings)
        if landings.state is None or landings.replacement is None:
            return good
        if not self._rules(self.prepared.table_of(landings.pod).class_of(landings.pod), landings.source):
            return good
        placement = self._placed(landings.state, landings.pod, landings.replacement)
        better = self._better(placement, landings.source)
        preferred = () if better is None else set(placement.feasible[better].tolist())
        return good if better is None else good & [row in preferred for row in landings.rows.tolist()]

    def spoils(self, landings: Landings) -> BoolArray | None:
        """Nodes from which the scheduler would rather have the replacement on another one."""
        state, replacement = landings.state, landings.replacement
        if not self._soft or state is None or replacement is None:
            return None
        own, spoiled = self.prepared.table_of(landings.pod).class_of(landings.pod), landings.rows < 0
        for at, row in enumerate(landings.rows.tolist()):
            if self._rules(own, row):
                placement = self._placed(state, landings.pod, replacement)
                better = self._better(placement, row)
                spoiled[at] = better is not None and bool((better & (placement.chance > 0)).any())
        return spoiled

    def spoiled(self, landings: Landings, at: int) -> str:
        return "is not where the scheduler would rather have it by what the pod prefers"

    def sentence(self, move: PlannedMove) -> str:
        """Which filter or soft rule it is."""
        if move.candidate.wish.message.startswith(_PREFERS):
            return move.candidate.wish.message
        node = self.prepared.inputs.snapshot.nodes.names[move.candidate.source]
        return f"{node} would not admit it any more ({move.candidate.wish.message})"
