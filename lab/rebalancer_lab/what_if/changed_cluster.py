"""What a change would do: the cluster before it, the pods it concerns, and the cluster once it has settled.

A change is made on a copy of the inputs of a plan. Pods that it sets free or adds are placed one by one, each
at its likeliest node; the loads follow the pods; and then the same rules say which nodes are hot, and the
same planner what it would move. Two scheduler configurations are compared by reading the cluster as each of
them sees it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum

import msgspec
import numpy as np
from msgspec.structs import replace

from rebalancer.cluster import times
from rebalancer.cluster.arrays import NodeRow, PodRow
from rebalancer.cluster.kinds import DISRUPTION_BUDGETS
from rebalancer.cluster.pod_classes import OF_THEIR_NODE
from rebalancer.counting import counted
from rebalancer.planning.eviction.budgets import exhausted
from rebalancer.planning.eviction.rules import budgets_read, daemon_set, overlapping, refusals, static
from rebalancer.planning.eviction.workload_rules import controller
from rebalancer.planning.inputs import UNTOUCHED, PlannerOptions, PlanningInputs
from rebalancer.planning.landing.schedulers import neutral_everywhere
from rebalancer.planning.plan import API_VERSION, Answer, Landing, Plan, Value, by_resource
from rebalancer.planning.planner import Planner
from rebalancer.planning.prepared import PreparedInputs
from rebalancer.planning.reasons import NotMoved, Reason
from rebalancer.planning.report import possible_landings
from rebalancer.planning.strategies.consolidation import Consolidation, ConsolidationSettings
from rebalancer.planning.subjects import SubjectName, find_subject
from rebalancer.planning.warnings import not_modelled, sentences
from rebalancer.policy.schema import Limits
from rebalancer.policy.strategies import no_strategies
from rebalancer.policy.units import Amount
from rebalancer.scheduling.framework.queue import waiting_pods
from rebalancer.scheduling.resources import pod_requests, requested_amounts
from rebalancer.scheduling.state.cluster_state import ClusterState
from rebalancer.state.run_state import RunState
from rebalancer_lab.simulation.world import LoadShape, SimulatedCluster
from rebalancer_lab.what_if.changes import (
    AddedPod,
    Changes,
    Scaling,
    rescaled,
    with_added_nodes,
    with_cordoned,
    with_pods,
    with_replicas,
    without_pods,
)
from rebalancer_lab.what_if.fit import NO_POD, next_landing, why_nowhere, why_unpredictable

_OF_ITS_NODE = ((static, Reason.STATIC_POD), (daemon_set, Reason.DAEMON_SET))
_STAYS = (
    (controller, Reason.NO_CONTROLLER),
    (overlapping, Reason.OVERLAPPING_BUDGETS),
    (budgets_read, Reason.UNPREDICTABLE),
)
_SAME_CHANCE = 0.005  # chances that differ by less are the same
_MAX_WORKLOADS = 2000
_CHANGED_POINTS = 0.5  # points of a load below which a node counts as unchanged
_DAY_SECONDS = 86_400.0


class Fate(StrEnum):
    """What becomes of a pod."""

    LANDS = "Lands"
    PENDING = "Pending"
    STAYS = "Stays"
    OF_ITS_NODE = "OfItsNode"  # of a DaemonSet, or static: it belongs to its node and stays there
    REMOVED = "Removed"
    UNPREDICTABLE = "Unpredictable"  # it leaves, and where its replacement lands is not known


class PodFate(Value, frozen=True):
    """A pod that a change concerns, and what becomes of it or of its replacement."""

    pod: str  # namespace/name
    workload: str  # Kind/name
    from_node: str  # empty for a pod that is new or Pending
    fate: Fate
    landings: tuple[Landing, ...] = ()  # the likeliest node first
    because: str = ""


class ChangedNode(Value, frozen=True):
    """A node that is hot before or after the change, or whose load changes."""

    node: str
    change: str  # drained, cordoned or new; empty for any other
    hot: tuple[bool, bool]  # before and after
    before: dict[str, float]  # percent of allocatable; empty for a new node
    after: dict[str, float]


class ComparedLanding(Value, frozen=True):
    """Where the same pod lands by either of two scheduler configurations."""

    pod: str  # namespace/name of a pod, or the next pod of a workload
    before: tuple[Landing, ...]
    after: tuple[Landing, ...]
    fates: tuple[Fate, Fate]  # before and after
    because: tuple[str, str]  # why it does not land, or why that is not known; empty where it lands


class Comparison(Value, frozen=True):
    """Two scheduler configurations side by side."""

    configurations: tuple[str, str]  # where each is from
    compared: int  # pods, without those that stay where they are and those that neither can predict
    differing: tuple[ComparedLanding, ...]  # those whose fate, nodes or chances differ
    unknown: tuple[ComparedLanding, ...] = ()  # those that neither can predict


class ChangedMove(Value, frozen=True):
    """A pod that a plan moves otherwise once the change has settled; no landings where it is not moved."""

    pod: str  # namespace/name
    before: tuple[Landing, ...]
    after: tuple[Landing, ...]


class WhatIf(Answer, frozen=True):
    """The cluster before and after a change that nobody has made."""

    changes: tuple[str, ...]
    pods: tuple[PodFate, ...]  # in the order in which they are placed
    nodes: tuple[ChangedNode, ...]  # the hottest after the change first
    hot: tuple[int, int]  # hot nodes before and after
    hot_after_plan: tuple[int, int]  # those that a plan by this policy would leave hot
    pending: tuple[int, int]  # pods that fit nowhere
    moves: tuple[int, int]  # that a plan by this policy would make before, and once the change has settled
    changed_moves: tuple[ChangedMove, ...]  # in the order of the plan before, then in that of the plan after
    comparison: Comparison | None
    # Nodes that could be emptied by either configuration, whatever limits say; None where there is only one.
    emptied: tuple[int, int] | None
    notes: tuple[str, ...]
    warnings: tuple[str, ...] = ()  # those of a plan
    configuration_warnings: tuple[str, ...] = ()  # those that the other scheduler configuration alone has
    api_version: str = API_VERSION
    kind: str = "WhatIf"


class PlacedPod(msgspec.Struct, frozen=True, eq=False):
    """A pod that left its node, or waited: its row, and where it or its replacement is now."""

    row: PodRow
    node: int  # -1: Pending, or not known
    pod_class: int


class ChangedCluster(msgspec.Struct, eq=False):
    """A state on which nodes are drained and pods are placed; ``fates`` and ``placed`` grow.

    A drain is what ``kubectl drain`` does: the node is cordoned, pods of DaemonSets and static pods stay, and
    every other pod is evicted, in order of namespace and name. A disruption budget that is spent keeps its
    pod. A budget gets back what it spent once the replacement has landed, and does not while that is Pending:

        budget web allows 1; the cluster has room for one more pod
        web-1   evicted, its replacement lands on n4, the budget allows 1 again
        web-2   evicted, its replacement fits nowhere: Pending, the budget allows 0
        web-3   stays: the budget allows no disruption until web-2 runs again
    """

    prepared: PreparedInputs
    state: ClusterState
    fates: list[PodFate] = []
    placed: list[PlacedPod] = []
    _spent: Counter[str] = msgspec.field(default_factory=Counter)  # by disruption budget

    def drain(self, node: NodeRow) -> None:
        """Evict what may leave a node, which is unschedulable already."""
        leaving = []
        for row in self.prepared.pods_on(node):
            if self.state.node[row] != node:
                continue
            own = next(refusals(_OF_ITS_NODE, self.prepared.eviction, row), None)
            refusal = self._why_kept(row)
            if own is not None:
                self._tell(row, _NextPod(Fate.OF_ITS_NODE, own.message))
            elif refusal is not None:
                self._tell(row, _NextPod(Fate.STAYS, refusal.message))
            else:
                self._replace(row)
                leaving.append(row)
        for row in leaving:
            if self.state.node[row] >= 0:
                self.state.remove(row)

    def _why_kept(self, row: PodRow) -> NotMoved | None:
        context = self.prepared.eviction
        refusal = next(refusals(_STAYS, context, row), None)
        if refusal is not None:
            return refusal
        budget = exhausted(context.budgets.spent_by(row), self._spent)
        if budget is None:
            return None
        wait = counted(self._spent[budget.name], "of its pods waits", "of its pods wait")
        waiting = f", and {wait}" if budget.allowed else ""
        return NotMoved(Reason.BUDGET, f"budget {budget.name} {budget.message}{waiting}")

    def _replace(self, row: PodRow) -> None:
        prepared = self.prepared
        state = self.state
        replacement = prepared.eviction.replacement(row)
        pod_class = int(replacement.pod_class)
        if prepared.eviction.workload(row).replaced_late:
            state.remove(row)
        else:
            state.evict(row)
        spent = prepared.eviction.budgets.spent_by(row)
        self._spent.update(budget.name for budget in spent)
        next_pod = _next_pod(prepared, state, pod_class, unpredictable=replacement.unpredictable_reason)
        if next_pod.node >= 0:
            state.bind(state.add(pod_class), next_pod.node)
            self._spent.subtract(budget.name for budget in spent)
        self.placed.append(PlacedPod(row, next_pod.node, pod_class))
        self._tell(row, next_pod)

    def place_waiting(self, row: PodRow) -> None:
        """Place a pod that is Pending, or new, where it lands; it stays unbound where it fits nowhere."""
        pod_class = self.state.pod_class[row]
        next_pod = _next_pod(self.prepared, self.state, pod_class, row)
        if next_pod.node >= 0:
            self.state.bind(row, next_pod.node)
            self.placed.append(PlacedPod(row, next_pod.node, pod_class))
        self._tell(row, next_pod)

    def _tell(self, row: PodRow, next_pod: _NextPod) -> None:
        pod = self.prepared.eviction.pod_reference(row)
        node = int(self.prepared.pods.node[row])
        from_node = self.prepared.inputs.snapshot.nodes.names[node] if node >= 0 else ""
        self.fates.append(next_pod.fate_of(pod.full_name, pod.workload, from_node))


class _NextPod(msgspec.Struct, frozen=True):
    """Where one more pod of a class lands, or why that is nowhere or not known."""

    fate: Fate
    because: str = ""
    landings: tuple[Landing, ...] = ()
    node: int = -1  # the likeliest

    def fate_of(self, pod: str, workload: str, from_node: str = "") -> PodFate:
        return PodFate(
            pod=pod,
            workload=workload,
            from_node=from_node,
            fate=self.fate,
            landings=self.landings,
            because=self.because,
        )


def _next_pod(
    prepared: PreparedInputs,
    state: ClusterState,
    pod_class: int,
    pod: int = NO_POD,
    *,
    unpredictable: str = "",
) -> _NextPod:
    """``pod`` is its number on the state if it has one; ``unpredictable`` says why it cannot be placed."""
    why = unpredictable or why_unpredictable(prepared, pod_class)
    if why:
        return _NextPod(Fate.UNPREDICTABLE, why)
    landing = next_landing(prepared.schedulers, state, pod_class, pod)
    if landing.landings is None:
        return _NextPod(Fate.PENDING, why_nowhere(prepared, state, pod_class, landing, pod))
    landings = possible_landings(prepared, landing.landings)
    return _NextPod(Fate.LANDS, "", landings, int(landing.landings.likeliest()))


_BY_THE_SCHEDULER = frozenset({Fate.LANDS, Fate.PENDING, Fate.UNPREDICTABLE})  # not the others


def compare(
    ours: PreparedInputs, theirs: PreparedInputs, before: Sequence[PodFate] | None, after: Sequence[PodFate]
) -> Comparison:
    """The pods of a change, or without one the next pod of every workload, by both configurations."""
    ours_by_pod = _next_pods(ours) if before is None else {pod_fate.pod: pod_fate for pod_fate in before}
    theirs_by_pod = _next_pods(theirs) if before is None else {pod_fate.pod: pod_fate for pod_fate in after}
    pairs = [
        ComparedLanding(
            pod=pod,
            before=ours_by_pod[pod].landings,
            after=theirs_by_pod[pod].landings,
            fates=(ours_by_pod[pod].fate, theirs_by_pod[pod].fate),
            because=(ours_by_pod[pod].because, theirs_by_pod[pod].because),
        )
        for pod in ours_by_pod
        if pod in theirs_by_pod and {ours_by_pod[pod].fate, theirs_by_pod[pod].fate} & _BY_THE_SCHEDULER
    ]
    compared = [pair for pair in pairs if set(pair.fates) != {Fate.UNPREDICTABLE}]
    return Comparison(
        configurations=(
            _sources(ours.inputs),
            _sources(theirs.inputs),
        ),
        compared=len(compared),
        differing=tuple(pair for pair in compared if _differ(pair)),
        unknown=tuple(pair for pair in pairs if set(pair.fates) == {Fate.UNPREDICTABLE}),
    )


def _sources(inputs: PlanningInputs) -> str:
    """Where the configurations are from that the policy names."""
    named = inputs.schedulers[: len(inputs.policy.schedulers)]
    return ", ".join(scheduler.configuration.source for scheduler in named)


def _next_pods(prepared: PreparedInputs) -> Mapping[str, PodFate]:
    """By workload: where one more of its pods would land now, or why that is nowhere or not known."""
    fates: dict[str, PodFate] = {}
    for row in map(PodRow, range(len(prepared.pods))):
        workload = prepared.eviction.workload(row)
        if workload.owner.kind in OF_THEIR_NODE or not workload.owner.kind or workload.key in fates:
            continue
        replacement = prepared.eviction.replacement(row)
        next_pod = _next_pod(
            prepared,
            prepared.state,
            int(replacement.pod_class),
            unpredictable=replacement.unpredictable_reason,
        )
        fates[workload.key] = next_pod.fate_of(workload.key, workload.key)
        if len(fates) == _MAX_WORKLOADS:
            break
    return fates


def _differ(pair: ComparedLanding) -> bool:
    return not _are_same(pair.before, pair.after) or pair.fates[0] is not pair.fates[1]


def _are_same(before: Sequence[Landing], after: Sequence[Landing]) -> bool:
    """Whether these are the same nodes with about the same chances."""
    first = {landing.node: landing.probability for landing in before}
    second = {landing.node: landing.probability for landing in after}
    names = first.keys() | second.keys()
    return all(abs(first.get(name, 0.0) - second.get(name, 0.0)) <= _SAME_CHANCE for name in names)


class _Changed(msgspec.Struct, frozen=True, eq=False):
    """The cluster once the changes are made: what became of pods, and what would plan then."""

    fates: tuple[PodFate, ...]
    settled: PreparedInputs
    later: Planner
    pending: int
    notes: tuple[str, ...]


_LOOKING = PlannerOptions(ignore_coverage=True)


def _untouched(inputs: PlanningInputs) -> PreparedInputs:
    """A cluster as no run has touched it."""
    return Planner(inputs, UNTOUCHED, _LOOKING).prepared


def _named_by_neither(warnings: Iterable[str], of_other: Iterable[str]) -> tuple[str, ...]:
    """The warnings of a configuration without those of plugins that an option names for the other one."""

    def without_reason(warning: str) -> str:
        return warning.partition(",")[0]

    other = set(map(without_reason, of_other))
    return tuple(
        warning
        for warning in warnings
        if not warning.startswith("--assume-neutral ") or without_reason(warning) in other
    )


def what_if(inputs: PlanningInputs, changes: Changes, other: PlanningInputs | None = None) -> WhatIf:
    """What the changes would do; ``other`` are the inputs of another scheduler configuration to compare with.

    Pending pods land whether anything is changed or not, so loads are compared with the cluster once they
    have. Raises InputError for a node or a workload that is not there.
    """
    before = _untouched(inputs)
    theirs = before if other is None else _untouched(other)
    changed = _changed(theirs, changes)
    unchanged = _changed(before, Changes()).settled if before.pending.placed else before
    landed: list[str] = []
    if unchanged is not before:
        landed.append("Pending pods are counted where they land, before the change too")
    comparison = emptied = None
    words = changes.words()
    if other is not None:
        words += (f"the scheduler's configuration is {_sources(other)}",)
        emptied = _emptied(inputs), _emptied(other)
        ours = _changed(before, changes).fates if changes else None
        comparison = compare(before, theirs, ours, changed.fates)
    # Of the pods that waited those are listed that wait no longer, or wait now.
    waited = {
        before.pods.full_name(row): bool(before.state.node[row] >= 0)
        for row in waiting_pods(before.schedulers.state, before.pods)
    }
    plan = Planner(inputs, options=_LOOKING).plan()
    later = changed.later.plan()
    warnings = plan.warnings
    of_other: tuple[str, ...] = ()
    if other is not None:
        of_other = _named_by_neither(sentences(other.warnings), warnings)
        warnings = _named_by_neither(warnings, sentences(other.warnings))
    return WhatIf(
        source=inputs.snapshot.source,
        policy=inputs.policy.metadata.name,
        inputs=inputs.digest,
        now=times.render(inputs.now),
        changes=words,
        pods=tuple(
            pod_fate
            for pod_fate in changed.fates
            if pod_fate.from_node
            or pod_fate.pod not in waited
            or waited[pod_fate.pod] != (pod_fate.fate is Fate.LANDS)
        ),
        nodes=_nodes(unchanged, changed.settled, changes),
        hot=(_hot(unchanged), _hot(changed.settled)),
        pending=(before.pending.unplaced, changed.pending),
        hot_after_plan=(_hot_after(plan), _hot_after(later)),
        moves=(len(plan.moves), len(later.moves)),
        changed_moves=_changed_moves(plan, later),
        comparison=comparison,
        emptied=emptied,
        notes=(*changed.notes, *landed),
        warnings=warnings,
        configuration_warnings=tuple(warning for warning in of_other if warning not in warnings),
    )


def _hot_after(plan: Plan) -> int:
    """How many nodes stay hot, or become hot, after the moves of a plan."""
    return sum(1 for node in plan.nodes if (node.hot if node.after is None else node.after.hot))


def _changed_moves(before: Plan, after: Plan) -> tuple[ChangedMove, ...]:
    """The pods that one plan moves and the other does not, or that land elsewhere or with another chance."""
    ours = {move.pod.full_name: move.landings for move in before.moves}
    theirs = {move.pod.full_name: move.landings for move in after.moves}
    changed = []
    for pod in dict.fromkeys((*ours, *theirs)):
        landings = ours.get(pod, ()), theirs.get(pod, ())
        if not _are_same(*landings):
            changed.append(ChangedMove(pod=pod, before=landings[0], after=landings[1]))
    return tuple(changed)


def _emptied(inputs: PlanningInputs) -> int:
    """How many nodes a plan would empty without limits and taints."""
    policy = inputs.policy
    every_pod = len(inputs.snapshot.pods)
    settings = Consolidation.settings_in(policy) or ConsolidationSettings()
    every_node = settings.model_copy(update={"max_nodes": every_pod + 1, "taint_for": 0.0})
    strategies = no_strategies().model_copy(update={Consolidation.name: every_node})
    limits = Limits(
        per_run=every_pod,
        per_node=every_pod,
        per_namespace=every_pod,
        per_workload=Amount(100, percent=True),
    )
    policy = policy.model_copy(update={"strategies": strategies, "limits": limits})
    plan = Planner(replace(inputs, policy=policy), options=_LOOKING).plan()
    return int(plan.strategies[Consolidation.name].figures["emptied"])


def _changed(before: PreparedInputs, changes: Changes) -> _Changed:
    inputs = before.inputs
    drained = [_node_row(inputs, name) for name in changes.drained]
    cordoned = [_node_row(inputs, name) for name in changes.cordoned]
    templates = [(_node_row(inputs, addition.template), addition.count) for addition in changes.added]
    has_load = inputs.load.known
    inputs, fates, added, notes, controllers = _scaled(before, changes.scaled)
    for template, count in templates:
        inputs = with_added_nodes(inputs, template, count)
    pods = inputs.snapshot.pods
    gone = np.flatnonzero(np.isin(pods.node, drained) & pods.terminating).tolist()  # or about to be
    inputs = with_cordoned(without_pods(inputs, gone), (*drained, *cordoned))
    inputs, guessed = _with_guesses(inputs, drained)
    prepared = _untouched(inputs)
    cluster = ChangedCluster(prepared, prepared.schedulers.state.copy(), fates=fates)
    for row in waiting_pods(cluster.state, prepared.pods):
        cluster.place_waiting(PodRow(row))
    for node in drained:
        cluster.drain(node)
    lost = [placed_pod.row for placed_pod in cluster.placed if _has_empty_dir(prepared, placed_pod.row)]
    if lost:
        losing = prepared.pods.full_name(lost[0])
        if len(lost) > 1:
            losing += f" and {len(lost) - 1} more"
        notes.append(
            f"{losing} would lose the data in emptyDir volumes: kubectl drain asks for --delete-emptydir-data"
        )
    if any(pod_fate.fate is Fate.PENDING for pod_fate in cluster.fates):
        notes.append(
            "an autoscaler, which may add nodes for pods that fit nowhere, is not modelled: see --add-node"
        )
    if guessed:
        what = counted(guessed, "pod uses is not known: it is", "pods use is not known: they are")
        notes.append(f"what {what} counted with {'its' if guessed == 1 else 'their'} requests")
    if changes.added:
        notes.append("a new node starts with the DaemonSet pods of its template only")
    unknown = [
        addition.template
        for addition, (row, _) in zip(changes.added, templates, strict=True)
        if not has_load[row]
    ]
    if unknown:
        notes.append(
            f"how busy {unknown[0]} is, and so a new node like it, is not known: moves do not land there"
        )
    if drained or added or changes.added:
        notes.append("pods are placed in this order, those before at their likeliest nodes")
    neutral = dict.fromkeys(
        name for scheduler in inputs.schedulers for name in neutral_everywhere(scheduler.configuration)
    )
    if neutral:
        notes.append(not_modelled(neutral))
    later = with_replicas(_settled(inputs, cluster.placed), controllers)
    return _Changed(
        fates=tuple(cluster.fates),
        settled=_untouched(later),
        later=Planner(later, options=replace(_LOOKING, explains=False)),
        pending=sum(1 for pod_fate in cluster.fates if pod_fate.fate is Fate.PENDING),
        notes=tuple(notes),
    )


def _has_empty_dir(prepared: PreparedInputs, pod: PodRow) -> bool:
    """Whether a pod has run on a node, and has a volume whose data does not outlive it."""
    volumes = prepared.pods.class_of(pod).spec.volumes or ()
    return prepared.pods.node[pod] >= 0 and any(volume.empty_dir is not None for volume in volumes)


def _scaled(
    before: PreparedInputs, scaled: tuple[Scaling, ...]
) -> tuple[PlanningInputs, list[PodFate], list[AddedPod], list[str], set[str]]:
    """The inputs with workloads scaled, what that removes and adds, what is taken for granted, and whose."""
    fates: list[PodFate] = []
    added: list[AddedPod] = []
    removed: list[PodRow] = []
    notes: list[str] = []
    controllers: set[str] = set()
    names = before.inputs.snapshot.nodes.names
    for scaling in scaled:
        scale = rescaled(before, scaling)
        workload = f"{scale.workload.kind}/{scale.workload.name}"
        for row in scale.removed:
            node = int(before.pods.node[row])
            from_node = names[node] if node >= 0 else ""
            fates.append(_NextPod(Fate.REMOVED).fate_of(before.pods.full_name(row), workload, from_node))
        if scale.unpredictable:
            new = f"{scale.workload.namespace}/{scale.workload.name}-new"
            fates.append(_NextPod(Fate.UNPREDICTABLE, scale.unpredictable).fate_of(new, workload))
        removed += scale.removed
        added += scale.added
        controllers |= scale.controllers
    if removed:
        notes.append("which replicas a smaller number leaves is the choice of the controller")
    if added:
        notes.append("a new replica is counted with what its siblings use on average")
    if scaled and before.inputs.snapshot.recording.records(DISRUPTION_BUDGETS):
        notes.append("disruption budgets are taken to allow what they allow now")
    return with_pods(without_pods(before.inputs, removed), added), fates, added, notes, controllers


def _node_row(inputs: PlanningInputs, name: str) -> NodeRow:
    return NodeRow(find_subject(inputs.snapshot, SubjectName("node", name)).row)


def _with_guesses(inputs: PlanningInputs, drained: list[NodeRow]) -> tuple[PlanningInputs, int]:
    """The inputs with the requests of pods on drained nodes whose usage is not known, and their number."""
    pods = inputs.snapshot.pods
    usage = inputs.load.pod_usage.copy()
    on_drained = np.isin(pods.node, drained) & np.isnan(usage).any(axis=1)
    rows = np.flatnonzero(on_drained).tolist()
    for row in rows:
        requested = requested_amounts(pod_requests(pods.class_of(row)).present, inputs.load.resources)
        usage[row] = np.where(np.isnan(usage[row]), requested, usage[row])
    return replace(inputs, load=replace(inputs.load, pod_usage=usage)), len(rows)


def _settled(inputs: PlanningInputs, placed: list[PlacedPod]) -> PlanningInputs:
    """What a run would read once every pod runs where it landed and the figures show it.

    Where none has moved that is what was read, of pods that use more than their nodes report as well.
    """
    if not placed:
        return inputs
    cluster = SimulatedCluster(inputs, LoadShape(), np.random.default_rng(0))
    pods = inputs.snapshot.pods
    created = pods.created.copy()
    started = pods.started.copy()
    for placed_pod in placed:
        cluster.place(placed_pod.row, placed_pod.node, placed_pod.pod_class)
        created[placed_pod.row] = np.fmin(created[placed_pod.row], inputs.now - _DAY_SECONDS)
        started[placed_pod.row] = inputs.now - _DAY_SECONDS
    cluster.measure()
    after = cluster.inputs(inputs.state or RunState())
    now = after.snapshot.pods
    table = replace(now, columns=now.columns.changed(created=created, started=started))
    snapshot = replace(after.snapshot, pods=table)
    return replace(after, snapshot=snapshot, state=inputs.state)


def _hot(prepared: PreparedInputs) -> int:
    return int(np.count_nonzero(prepared.hotness.hot))


def _nodes(before: PreparedInputs, after: PreparedInputs, changes: Changes) -> tuple[ChangedNode, ...]:
    """The nodes that are hot on either side, or whose load changes, the hottest afterwards first."""
    rows = before.inputs.snapshot.nodes.row
    kinds = {}
    for change, names in (("cordoned", changes.cordoned), ("drained", changes.drained)):
        kinds.update({before.inputs.snapshot.nodes.row_of(name): change for name in names})
    loads = before.inputs.load.percent
    later = after.inputs.load.percent
    peak = np.where(np.isnan(later[:, :2]), -1.0, later[:, :2]).max(axis=1)
    changed: dict[int, ChangedNode] = {}
    for row, name in enumerate(after.inputs.snapshot.nodes.names):
        old = rows.get(name)
        hot = old is not None and bool(before.hotness.hot[old]), bool(after.hotness.hot[row])
        change = "new" if old is None else kinds.get(old, "")
        differs = old is None or (np.abs(np.nan_to_num(later[row] - loads[old])) >= _CHANGED_POINTS).any()
        if any(hot) or change or differs:
            changed[row] = ChangedNode(
                node=name,
                change=change,
                hot=hot,
                before={} if old is None else by_resource(before.hotness.names, loads[old]),
                after=by_resource(after.hotness.names, later[row]),
            )

    def order(row: int) -> tuple[bool, bool, float, int]:
        was_hot, is_hot = changed[row].hot
        return not is_hot, not was_hot, -float(peak[row]), row

    return tuple(changed[row] for row in sorted(changed, key=order))
