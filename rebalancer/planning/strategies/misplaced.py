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

from collections.abc import Hashable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Literal, get_args

from pydantic import Field

from rebalancer.cluster.leaving_nodes import CONDITION_TAINTS, LEAVING_TAINTS, matches_taint
from rebalancer.planning.strategies.chosen_pods import ChosenPods
from rebalancer.planning.strategies.strategy import Replaced, Strategy
from rebalancer.policy.model import PolicyModel, Unique

if TYPE_CHECKING:
    from rebalancer.cluster.arrays import BoolArray, FloatArray, NodeRow, PodRow
    from rebalancer.cluster.pod_classes import PodClass
    from rebalancer.planning.builder import PlanBuilder, PlannedMove
    from rebalancer.planning.landing.landing_check import Landings, Purpose
    from rebalancer.planning.prepared import PreparedInputs
    from rebalancer.scheduling.framework.cycle import Placement
    from rebalancer.scheduling.state.cluster_state import ClusterState

_HARD_EFFECTS, _SOFT_EFFECTS = ("NoSchedule", "NoExecute"), ("PreferNoSchedule",)
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_HARD, _SPREAD = "DoNotSchedule", "PodTopologySpread"
_SOFT = "the scheduler prefers another node"
_DIFFERENCE = "by the scheduler's own filters and scores, and only where the replacement lands well"
_Filter = Literal[
    "TaintToleration", "NodeAffinity", "NodeName", "InterPodAffinity", "PodTopologySpread", "NodePorts"
]
_STATIC = frozenset({"NodeAffinity", "NodeName"})
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
        "taints, affinity, spread or ports: true, false, or its settings. Cordons are ignored. Pods of nodes "
        "that are about to be removed are left to whoever removes them."
    )
    settings_type = MisplacedSettings
    settings: MisplacedSettings
    minds_nodes = True
    replaces = {
        plugin: Replaced(settings, _DIFFERENCE, choices=choices, adds={"filters": [name]})
        for plugin, name, settings, choices in (
            (
                "RemovePodsViolatingNodeTaints",
                "TaintToleration",
                {"includePreferNoSchedule": "preferNoSchedule"},
                {},
            ),
            (
                "RemovePodsViolatingNodeAffinity",
                "NodeAffinity",
                {},
                {"nodeAffinityType": {_REQUIRED: "", _PREFERRED: "preferredNodeAffinity"}},
            ),
            ("RemovePodsViolatingInterPodAntiAffinity", "InterPodAffinity", {}, {}),
        )
    }

    def __init__(self, prepared: PreparedInputs, settings: PolicyModel) -> None:
        from rebalancer.scheduling.matching import tolerates_any  # noqa: PLC0415 - imports numpy

        super().__init__(prepared, settings)
        self._tolerates_any = tolerates_any
        self._static = _STATIC.intersection(self.settings.filters)
        self._is_limited = False  # a limit keeps pods that prefer another node
        self._looked_at = 0  # pods for which filters or scores were computed anew
        self._placements: dict[Hashable, Placement] = {}
        self._asked_for = tuple(  # the score plugins of the soft rules that count
            plugin
            for plugin, counts in (
                ("NodeAffinity", self.settings.preferred_node_affinity),
                ("InterPodAffinity", self.settings.preferred_pod_affinity),
                ("TaintToleration", self.settings.prefer_no_schedule),
            )
            if counts
        )

    def pods(self, plan: PlanBuilder) -> Iterator[PodRow]:
        """Those that ask something of their node, and all of a node that does not admit just any pod."""
        import numpy as np  # noqa: PLC0415 - not before a plan is made

        prepared, pods, state = self.prepared, self.prepared.pods, plan.scenarios.all[0].after_termination
        asks = [
            self.settings.chooses(pod) and self._asks(kind, state) for kind, pod in enumerate(pods.classes)
        ]
        chosen = np.array([self.settings.chooses(item) for item in pods.classes], np.bool_)
        asked = (pods.node >= 0) & chosen[pods.pod_class]
        asked &= np.array(asks, np.bool_)[pods.pod_class] | self._special[pods.node]
        for node in np.unique(pods.node[asked]).tolist():
            yield from (pod for pod in prepared.pods_on(node) if asked[pod])

    @cached_property
    def _special(self) -> BoolArray:
        """(nodes,) which have taints, or do not admit a pod that asks nothing of them."""
        import numpy as np  # noqa: PLC0415 - not before a plan is made

        prepared, classes = self.prepared, self.prepared.pods.classes
        special = np.array([bool(node.spec.taints) for node in prepared.nodes.records], np.bool_)
        plain = {pod.scheduler_name: kind for kind, pod in enumerate(classes) if not _asks_labels(pod)}
        for name in plain.keys() & prepared.schedulers.by_name.keys():
            special |= ~prepared.schedulers.by_name[name].admitting(prepared.state, plain[name])
        return special

    def _asks(self, kind: int, state: ClusterState) -> bool:
        """Whether pods of a class may mind more of a node than its taints."""
        pod = self.prepared.pods.classes[kind]
        if _asks_labels(pod) or pod.spec.affinity or self._dynamic(pod) - {_SPREAD}:
            return True
        scheduler = self.prepared.schedulers.by_name.get(pod.scheduler_name)
        if scheduler is None or not self._dynamic(pod):
            return False
        counters = scheduler.spread_counters(state, kind, _HARD)
        return any(counter.may_be_violated(state) for counter in counters)

    def why(self, pod: PodRow, plan: PlanBuilder) -> str:
        """The filter that would reject its own node if the pod were not there; empty when none would."""
        found = self._rejection(pod, plan)
        return found if found and self.settings.chooses(self.prepared.pods.class_of(pod)) else ""

    def _rejection(self, pod: PodRow, plan: PlanBuilder) -> str:
        if self._looked_at >= self.prepared.policy.planning.max_placements:
            return ""
        node, own = int(self.prepared.pods.node[pod]), self.prepared.pods.class_of(pod)
        scheduler = self.prepared.schedulers.by_name.get(own.scheduler_name)
        if node < 0 or scheduler is None:
            return ""
        taint = self._untolerated(pod, node) if "TaintToleration" in self.settings.filters else ""
        if taint:
            return taint
        state = plan.scenarios.all[0].after_termination
        pod_class = int(self.prepared.pods.pod_class[pod])
        is_static = (
            _asks_labels(own) or self._special[node]
        )  # of the others nothing need be computed by class
        rejection = scheduler.rejection_at(state, pod_class, node, self._static) if is_static else ""
        dynamic = self._dynamic(own)
        if not rejection and dynamic:
            self._looked_at += 1
            state.remove(pod)
            try:
                rejection = scheduler.rejection_at(state, pod_class, node, dynamic)
            finally:
                state.restore(pod, node)
        return rejection or self._preferred_elsewhere(pod, plan)

    def _preferred_elsewhere(self, pod: PodRow, plan: PlanBuilder) -> str:
        """That the scheduler would now choose a better node by a soft rule, and which; empty if not.

        Of the pods that a limit keeps anyway only the first is looked at: it names the limit.
        """
        state = plan.scenarios.all[0].after_termination
        is_looked_at = self._asked_for and not (self._is_limited and plan.used.is_spent)
        rules = self._soft_rules(pod, self.prepared.node_of(pod)) if is_looked_at else ()
        if not rules:
            return ""
        if plan.used.reached(self.prepared.candidate(pod)):
            if self._is_limited:
                return ""
            self._is_limited = True
        placement = self._without(state, pod, int(self.prepared.pods.pod_class[pod]))
        here = (placement.feasible == self.prepared.node_of(pod)).nonzero()[0].tolist()
        better = self._better(placement, here[0]) if here else None
        if better is None or not (better & (placement.chance > 0)).any():
            return ""
        there = int((better * placement.chance).argmax())
        rule = next(name for name in self._asked_for if placement.beside(name, here[0])[there] > 0)
        return (
            f"{_SOFT} by {rule}: {self.prepared.nodes.names[int(placement.feasible[there])]} scores "
            f"{placement.totals[there]} in total, its own node would score {placement.totals[here[0]]}"
        )

    def _soft_rules(self, pod: PodRow, node: NodeRow) -> tuple[str, ...]:
        """The score plugins that may prefer another node to this one for a pod."""
        affinity = self.prepared.table_of(pod).class_of(pod).spec.affinity
        has = {
            "NodeAffinity": affinity and affinity.node_affinity and affinity.node_affinity.preferred,
            "InterPodAffinity": affinity
            and any(item and item.preferred for item in (affinity.pod_affinity, affinity.pod_anti_affinity)),
            "TaintToleration": self._untolerated(pod, node, _SOFT_EFFECTS),
        }
        return tuple(name for name in self._asked_for if has[name])

    def _without(self, state: ClusterState, pod: PodRow, pod_class: int) -> Placement:
        """Where the scheduler would place a pod of a class if this one were not there."""
        node = self.prepared.node_of(pod)
        key = state.key, pod_class, int(state.pod_class[pod]), node
        if key not in self._placements:
            self._looked_at += 1
            state.remove(pod)
            try:
                found = self.prepared.schedulers.scheduler(pod_class).place(state, pod_class)
            finally:
                state.restore(pod, node)
            self._placements = {key: found}  # asked again for the same landings
        return self._placements[key]

    def _better(self, placement: Placement, at: int) -> BoolArray:
        """(feasible,) scores higher than the node ``at`` in total and by a soft rule, and lower by none."""
        higher = placement.totals > placement.totals[at]
        one = higher & False
        for name in self._asked_for:
            sign = placement.beside(name, at)
            one, higher = one | (sign > 0), higher & (sign >= 0)
        better: BoolArray = one & higher
        return better

    def _untolerated(self, pod: PodRow, node: int, effects: tuple[str, ...] = _HARD_EFFECTS) -> str:
        from rebalancer.planning.steering import EMPTIED, TAINT_KEY  # noqa: PLC0415 - imports numpy

        tolerations = self.prepared.table_of(pod).class_of(pod).spec.tolerations
        ignored = (*self.settings.excluded_taints, EMPTIED.key, TAINT_KEY)
        for taint in self.prepared.inputs.snapshot.nodes.records[node].spec.taints or ():
            if taint.effect not in effects or matches_taint(taint, ignored):
                continue
            if not self._tolerates_any(tolerations, taint):
                return f"TaintToleration: it does not tolerate taint {taint.key}"
        return ""

    def _dynamic(self, pod: PodClass) -> frozenset[str]:
        """The filters that depend on other pods and may reject those of a class."""
        spec = pod.spec
        names: set[str] = set()
        affinity = spec.affinity
        if affinity is not None and (affinity.pod_affinity or affinity.pod_anti_affinity):
            names.add("InterPodAffinity")
        if any(item.when_unsatisfiable == _HARD for item in spec.topology_spread_constraints or ()):
            names.add(_SPREAD)
        if any(port.host_port for item in spec.containers or () for port in item.ports or ()):
            names.add("NodePorts")
        return frozenset(names.intersection(self.settings.filters))

    @property
    def purpose(self) -> Purpose:
        """Filters admit the pod wherever it lands; where its node is too busy, the landing must be cooler."""
        return self if self._asked_for else self.prepared.cooler_node

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
        placement = self._without(landings.state, landings.pod, landings.replacement)
        feasible = placement.feasible.tolist()
        rules = self._soft_rules(landings.pod, landings.source)
        if landings.source not in feasible or not rules:
            return good  # a filter rejects its own node
        better = self._better(placement, feasible.index(landings.source))
        preferred = set(placement.feasible[better].tolist())
        for at, row in enumerate(landings.rows.tolist()):
            good[at] &= row in preferred
        return good

    def spoils(self, landings: Landings) -> BoolArray | None:
        """Nodes from which the scheduler would rather have the replacement on another one."""
        state, replacement = landings.state, landings.replacement
        if not self._asked_for or state is None or replacement is None:
            return None
        spoiled = landings.rows < 0
        for at, row in enumerate(landings.rows.tolist()):
            rules = self._soft_rules(landings.pod, row)
            if rules:
                placement = self._without(state, landings.pod, replacement)
                here = (placement.feasible == row).nonzero()[0].tolist()
                likely = placement.chance > 0
                spoiled[at] = bool(here) and bool((self._better(placement, here[0]) & likely).any())
        return spoiled

    def spoiled(self, landings: Landings, at: int) -> str:
        return "is not where the scheduler would rather have it by what the pod prefers"

    def sentence(self, move: PlannedMove) -> str:
        """Which filter or soft rule it is."""
        if move.candidate.wish.message.startswith(_SOFT):
            return move.candidate.wish.message
        node = self.prepared.inputs.snapshot.nodes.names[move.candidate.source]
        return f"{node} would not admit it any more ({move.candidate.wish.message})"


def _asks_labels(pod: PodClass) -> bool:
    """Whether pods of a class ask for labels of their node."""
    affinity = pod.spec.affinity
    return bool(pod.spec.node_selector or (affinity and affinity.node_affinity))
