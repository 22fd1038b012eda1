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

from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Literal, Self, get_args

from msgspec.structs import replace
from pydantic import Field, model_validator

from rebalancer.cluster.leaving_nodes import CONDITION_TAINTS, CORDON_TAINT, LEAVING_TAINTS, matches_taint
from rebalancer.planning.strategies.chosen_pods import ChosenPods
from rebalancer.planning.strategies.strategy import Replaced, Strategy
from rebalancer.policy.model import PolicyModel, Unique

if TYPE_CHECKING:
    from rebalancer.cluster.arrays import BoolArray, FloatArray, IntArray, PodRow
    from rebalancer.cluster.pod_classes import PodClass
    from rebalancer.cluster.records import Taint
    from rebalancer.planning.builder import PlanBuilder, PlannedMove
    from rebalancer.planning.landing.purpose import Landings, Purpose
    from rebalancer.planning.prepared import PreparedInputs
    from rebalancer.scheduling.matching import Tolerations

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_TAINTS = "TaintToleration"
_SOFT_RULES = ("NodeAffinity", "InterPodAffinity", "TaintToleration")
_HARD = ("NoSchedule", "NoExecute")  # effects of taints
_SOFT = ("PreferNoSchedule",)
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
_Filter = Literal[
    "TaintToleration", "NodeAffinity", "NodeName", "InterPodAffinity", "PodTopologySpread", "NodePorts"
]
_TaintPattern = Annotated[
    str,
    Field(
        pattern=r"^[A-Za-z0-9._/-]+(/\*)?(=[A-Za-z0-9._-]*)?$",
        max_length=400,
        examples=["dedicated", "dedicated=batch", "example.com/*"],
    ),
]


class MisplacedSettings(ChosenPods):
    """Which pods count as misplaced."""

    filters: Annotated[tuple[_Filter, ...], Unique] = Field(
        default=get_args(_Filter),
        description="Filters that count.",
    )
    excluded_taints: Annotated[tuple[_TaintPattern, ...], Unique] = Field(
        default=(*LEAVING_TAINTS, *CONDITION_TAINTS),
        description="Taints that do not count: key, key=value or prefix/*.",
    )
    included_taints: Annotated[tuple[_TaintPattern, ...], Unique] | None = Field(
        default=None,
        description="Only these taints count; then excludedTaints is empty unless stated.",
    )
    preferred_node_affinity: bool = Field(default=False, description="Also by preferred node affinity.")
    preferred_pod_affinity: bool = Field(
        default=False, description="Also by preferred affinity and anti-affinity to pods."
    )
    prefer_no_schedule: bool = Field(default=False, description="Also by taints PreferNoSchedule.")

    @model_validator(mode="after")
    def _included_taints_count(self) -> Self:
        if self.included_taints is not None and "excluded_taints" not in self.model_fields_set:
            object.__setattr__(self, "excluded_taints", ())
        both = next((name for name in self.included_taints or () if name in self.excluded_taints), None)
        if both is not None:
            raise ValueError(f"taint {both} is both included and excluded")
        return self


class Misplaced(Strategy):
    """Finds violations pod by pod, in order of node and name."""

    name = "misplaced"
    description = "Move pods that the scheduler would no longer place on their node."
    settings_type = MisplacedSettings
    settings: MisplacedSettings
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
        super().__init__(prepared, settings)
        self._tolerations: dict[PodClass, Tolerations] = {}
        self._looked_at = 0  # pods for which filters or scores were computed anew
        self._is_limited = False  # a limit keeps pods that prefer another node
        soft = self.settings
        asked = (soft.preferred_node_affinity, soft.preferred_pod_affinity, soft.prefer_no_schedule)
        self._soft = tuple(name for name, counts in zip(_SOFT_RULES, asked, strict=True) if counts)
        self._plugins = {
            name: scheduler.named(self.settings.filters, self._soft)
            for name, scheduler in prepared.schedulers.by_name.items()
        }

    def pods(self, plan: PlanBuilder) -> Iterable[PodRow]:
        """Those that a filter might reject on their node, or that might score higher on another one."""
        import numpy as np  # noqa: PLC0415 - not before a plan is made

        pods = self.prepared.pods
        state = plan.scenarios.all[0].after_termination
        asked = self._on_taints()
        for name, (filters, scores) in self._plugins.items():
            every = range(len(state.classes))
            may = [
                (kind, plugin.may_reject)
                for plugin in filters
                for kind in every
                if plugin.name != _TAINTS and plugin.concerns(state, kind)
            ]
            may += [(kind, plugin.may_score_higher) for plugin in scores for kind in plugin.preferring(state)]
            for kind, holds in may:
                own = state.classes[kind]
                rows = state.first_of(kind)
                if len(rows) and own.scheduler_name == name and self.settings.chooses(own):
                    asked[rows] |= holds(state, kind, pods.node[rows])
        rows = np.flatnonzero(asked & (pods.node >= 0))
        return self.until_spent(rows[np.argsort(pods.node[rows], kind="stable")].tolist(), plan)

    def _on_taints(self) -> BoolArray:
        """(pods,) which do not tolerate a taint of their node that counts for their scheduler."""
        import numpy as np  # noqa: PLC0415 - not before a plan is made

        pods = self.prepared.pods
        count = len(self.prepared.nodes)
        alike = dict[Hashable, int]()  # a node with the same taints
        like = np.full(count + 1, -1)
        for node, taints in self._taints.items():
            like[node] = alike.setdefault(taints, node)
        on_taint = like[pods.node] >= 0
        pairs, of = np.unique(
            pods.pod_class[on_taint] * count + like[pods.node[on_taint]], return_inverse=True
        )
        by_class = ((pods.classes[pair // count], pair % count) for pair in pairs.tolist())
        counts = [self.settings.chooses(own) and self._is_on_taint(own, node) for own, node in by_class]
        on_taint[on_taint] = np.array(counts, np.bool_)[of]
        return on_taint

    def _is_on_taint(self, own: PodClass, node: int) -> bool:
        filters_and_scores = self._plugins.get(own.scheduler_name, ())
        for plugins, effects in zip(filters_and_scores, (_HARD, _SOFT), strict=False):
            taints_count = any(plugin.name == _TAINTS for plugin in plugins)
            if taints_count and self._untolerated(own, node, *effects):
                return True
        return False

    @cached_property
    def _taints(self) -> Mapping[int, Sequence[Taint]]:
        """By node that has any: the taints that count."""
        from rebalancer.planning.taints import EMPTIED, TAINT_KEY  # noqa: PLC0415 - imports numpy

        ignored = (*self.settings.excluded_taints, CORDON_TAINT, EMPTIED.key, TAINT_KEY)
        only = self.settings.included_taints
        by_node: dict[int, Sequence[Taint]] = {}
        for row, node in enumerate(self.prepared.nodes.records):
            taints = (taint for taint in node.spec.taints or () if not matches_taint(taint, ignored))
            if counting := tuple(taint for taint in taints if only is None or matches_taint(taint, only)):
                by_node[row] = counting
        return by_node

    def _untolerated(self, pod: PodClass, node: int, *effects: str) -> str:
        """The first taint of a node with one of these effects that pods of a class do not tolerate."""
        taints = (taint for taint in self._taints.get(node, ()) if taint.effect in effects)
        tolerations = self._tolerations_of(pod)
        return next((taint.key for taint in taints if not tolerations.tolerate(taint)), "")

    def _tolerations_of(self, pod: PodClass) -> Tolerations:
        from rebalancer.scheduling.matching import Tolerations  # noqa: PLC0415 - imports numpy

        if pod not in self._tolerations:
            self._tolerations[pod] = Tolerations(pod.spec.tolerations)
        return self._tolerations[pod]

    def why(self, pod: PodRow, plan: PlanBuilder) -> str:
        """The filter that would reject its own node if the pod were not there; empty when none would."""
        from rebalancer.planning.builder import MAX_PLACEMENTS  # noqa: PLC0415 - imports numpy
        from rebalancer.planning.landing.evaluation import (  # noqa: PLC0415 - imports numpy
            Predecessor,
            with_predecessor,
        )

        prepared = self.prepared
        filters = self.settings.filters
        node = prepared.node_of(pod)
        own = prepared.pods.class_of(pod)
        scheduler = prepared.schedulers.by_name.get(own.scheduler_name)
        if node < 0 or scheduler is None or not self.settings.chooses(own):
            return ""
        taint = self._untolerated(own, node, *_HARD) if _TAINTS in filters else ""
        if taint:
            return f"{_TAINTS}: it does not tolerate taint {taint}"
        if self._looked_at >= MAX_PLACEMENTS:
            return ""
        self._looked_at += 1
        state = plan.scenarios.all[0].after_termination
        kind = int(prepared.pods.pod_class[pod])
        with with_predecessor(state, pod, Predecessor.GONE):
            rejection = scheduler.rejection_at(state, kind, node, {*filters} - {_TAINTS})
        return rejection or self._preferred_elsewhere(pod, plan)

    @cached_property
    def _preferring(self) -> frozenset[int]:
        """The classes whose pods may prefer another node by a soft rule, whatever the taints of theirs."""
        plugins = (plugin for _, scores in self._plugins.values() for plugin in scores)
        return frozenset(kind for plugin in plugins for kind in plugin.preferring(self.prepared.state))

    @cached_property
    def _softly_tainted(self) -> BoolArray:
        """(nodes,) with a taint that counts as a soft rule."""
        import numpy as np  # noqa: PLC0415 - not before a plan is made

        soft = _SOFT if _TAINTS in self._soft else ()
        rows = [row for row, taints in self._taints.items() for taint in taints if taint.effect in soft]
        return np.isin(np.arange(len(self.prepared.nodes)), rows)

    def _may_prefer(self, pod: PodRow, nodes: IntArray) -> BoolArray:
        """(nodes,) to which a pod may prefer another node by a soft rule."""
        table = self.prepared.pods
        may_prefer: BoolArray = self._softly_tainted[nodes]
        if int(table.pod_class[pod]) in self._preferring:
            may_prefer[:] = True
        elif may_prefer.any():
            own = table.class_of(pod)
            may_prefer[may_prefer] = [
                bool(self._untolerated(own, row, *_SOFT)) for row in nodes[may_prefer].tolist()
            ]
        return may_prefer

    def _preferred_elsewhere(self, pod: PodRow, plan: PlanBuilder) -> str:
        """That the scheduler would now choose a better node by a soft rule, and which; empty if not.

        Of the pods that a limit keeps anyway only the first is looked at: it names the limit.
        """
        node = self.prepared.node_of(pod)
        if not self._soft or not self._may_prefer(pod, self.prepared.pods.node[[pod]]).all():
            return ""
        candidate = self.prepared.candidate(pod)
        is_limited = bool(plan.used.reached(candidate))
        if is_limited and self._is_limited:
            return ""
        self._is_limited |= is_limited
        self._looked_at += 1
        placement = plan.evaluator.once_gone(candidate, plan.scenarios.all[0].after_termination)
        better = placement.preferred(self._soft, [node], placement.feasible)[0] * placement.chance
        if not better.any():
            return ""
        there = int(placement.feasible[better.argmax()])
        rule = next(name for name in self._soft if placement.preferred([name], [node], [there]).any())
        totals = dict(zip(placement.feasible.tolist(), placement.totals.tolist(), strict=True))
        return (
            f"{_PREFERS} by {rule}: {self.prepared.nodes.names[there]} scores {totals[there]} in total, "
            f"its own node would score {totals[node]}"
        )

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
        own = self.prepared.pods.node[[landings.pod]]
        if landings.once_gone is None or not self._may_prefer(landings.pod, own).all():
            return good
        placement = landings.once_gone()
        admits = landings.source in placement.feasible
        return good & placement.preferred(self._soft, own, landings.rows)[0] if admits else good

    def spoils(self, landings: Landings) -> BoolArray | None:
        """Nodes from which the scheduler would rather have the replacement on another one."""
        if not self._soft or landings.once_gone is None:
            return None
        spoiled = self._may_prefer(landings.pod, landings.rows)
        if spoiled.any():
            placement = landings.once_gone()
            chosen = placement.feasible[placement.chance > 0]
            chosen = placement.best_of_each_kind(self._soft, chosen)
            spoiled[spoiled] = placement.preferred(self._soft, landings.rows[spoiled], chosen).any(axis=1)
        return spoiled

    def spoiled(self, landings: Landings, at: int) -> str:
        return "is not where the scheduler would rather have it by what the pod prefers"

    def sentence(self, move: PlannedMove) -> str:
        """Which filter or soft rule it is."""
        if move.candidate.wish.message.startswith(_PREFERS):
            return move.candidate.wish.message
        node = self.prepared.inputs.snapshot.nodes.names[move.candidate.source]
        return f"{node} would not admit it any more ({move.candidate.wish.message})"
