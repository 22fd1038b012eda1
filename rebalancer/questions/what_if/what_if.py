"""What a change would do: the cluster before it, the pods it concerns, and the cluster once it has settled.

A change is made on a copy of the inputs of a plan. Pods that it sets free or adds are placed one by one, each
at its likeliest node; the loads follow the pods; and then the same rules say which nodes are hot, and the
same planner what it would move. Two scheduler configurations are compared by reading the cluster as each of
them sees it.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np

from rebalancer.cluster import times
from rebalancer.cluster.arrays import FloatArray, NodeRow, PodRow
from rebalancer.planning import PlanningInputs, PreparedInputs, find_subject, plan_prepared, prepare
from rebalancer.planning.explanation.subjects import SubjectName
from rebalancer.planning.landing.schedulers import neutral_everywhere
from rebalancer.planning.rounding import by_resource
from rebalancer.questions.what_if.changed_cluster import ChangedCluster, PlacedPod
from rebalancer.questions.what_if.changes import Changes, Scaling
from rebalancer.questions.what_if.comparison import compare
from rebalancer.questions.what_if.new_nodes import with_added_nodes, with_cordoned
from rebalancer.questions.what_if.pod_rows import AddedPod, with_pods, without_pods
from rebalancer.questions.what_if.replicas import rescaled
from rebalancer.questions.what_if.what_if_values import ChangedNode, Fate, PodFate, WhatIf
from rebalancer.scheduling import pod_requests, requested_amounts, waiting_pods
from rebalancer.simulation.cluster import SimulatedCluster
from rebalancer.simulation.usage import LoadShape
from rebalancer.state import RunState

_CHANGED_POINTS = 0.5  # points of a load below which a node counts as unchanged
_DAY_SECONDS = 86_400.0


@dataclass(frozen=True, slots=True, eq=False)
class _Changed:
    """The cluster once the changes are made: what became of pods, and what a plan would be made from."""

    fates: tuple[PodFate, ...]
    settled: PreparedInputs
    pending: int
    notes: tuple[str, ...]


def what_if(inputs: PlanningInputs, changes: Changes, other: PlanningInputs | None = None) -> WhatIf:
    """What the changes would do; ``other`` are the inputs of another scheduler configuration to compare with.

    Raises InputError for a node or a workload that is not there.
    """
    before = prepare(_whatever_is_known(inputs))
    theirs = before if other is None else prepare(_whatever_is_known(other))
    changed = _changed(theirs, changes)
    comparison = None
    if other is not None:
        ours = _changed(before, changes).fates if changes else None
        comparison = compare(before, theirs, ours, changed.fates)
    return WhatIf(
        source=inputs.snapshot.source,
        policy=inputs.policy.metadata.name,
        inputs=inputs.digest,
        now=times.render(inputs.now),
        changes=(*changes.words(), *_of_the_scheduler(other)),
        pods=_listed(before, changed),
        nodes=_nodes(before, changed.settled, changes),
        hot=(_hot(before), _hot(changed.settled)),
        pending=(before.pending.unplaced, changed.pending),
        moves=(len(plan_prepared(before).moves), len(plan_prepared(changed.settled).moves)),
        comparison=comparison,
        notes=changed.notes,
    )


def _of_the_scheduler(other: PlanningInputs | None) -> tuple[str, ...]:
    return () if other is None else (f"the scheduler's configuration is {other.configuration.source}",)


def _whatever_is_known(inputs: PlanningInputs) -> PlanningInputs:
    """The inputs for a plan that nobody carries out: it is made however few nodes have a known load."""
    load = inputs.policy.load.model_copy(update={"min_coverage": 0.0})
    return dataclasses.replace(inputs, policy=inputs.policy.model_copy(update={"load": load}))


def _changed(before: PreparedInputs, changes: Changes) -> _Changed:
    inputs = before.inputs
    drained = [_node_row(inputs, name) for name in changes.drained]
    cordoned = [_node_row(inputs, name) for name in changes.cordoned]
    templates = [(_node_row(inputs, item.template), item.count) for item in changes.added]
    inputs, fates, added, notes = _scaled(before, changes.scaled)
    for template, count in templates:
        inputs = with_added_nodes(inputs, template, count)
    inputs = with_cordoned(without_pods(inputs, _terminating(inputs, drained)), (*drained, *cordoned))
    inputs, guessed = _with_guesses(inputs, drained)
    prepared = prepare(inputs)
    cluster = ChangedCluster(prepared, prepared.schedulers.state.copy(), fates=fates)
    for row in waiting_pods(cluster.state, prepared.pods):
        cluster.place_waiting(PodRow(row))
    for node in drained:
        cluster.drain(node)
    if guessed:
        notes.append(f"what {guessed} pods use is not known: they are counted with their requests")
    if changes.added:
        notes.append(
            "a new node is taken to be as busy as its template without the pods that are not of a DaemonSet"
        )
    if drained or added or changes.added:
        notes.append("every pod is placed after those above it, each of which is at its likeliest node")
    neutral = neutral_everywhere(inputs.configuration)
    if neutral:
        notes.append(f"not modelled, taken to pass and score all nodes alike: {', '.join(neutral)}")
    return _Changed(
        fates=tuple(cluster.fates),
        settled=prepare(_settled(inputs, cluster.placed)),
        pending=sum(1 for item in cluster.fates if item.fate is Fate.PENDING),
        notes=tuple(notes),
    )


def _scaled(
    before: PreparedInputs, scaled: tuple[Scaling, ...]
) -> tuple[PlanningInputs, list[PodFate], list[AddedPod], list[str]]:
    """The inputs with workloads scaled, what that removes, what it adds, and what is taken for granted."""
    fates: list[PodFate] = []
    added: list[AddedPod] = []
    removed: list[PodRow] = []
    notes: list[str] = []
    names = before.inputs.snapshot.nodes.names
    for scaling in scaled:
        found = rescaled(before, scaling)
        workload = f"{found.workload.kind}/{found.workload.name}"
        for row in found.removed:
            node = int(before.pods.node[row])
            fates.append(
                PodFate(
                    pod=before.pods.full_name(row),
                    workload=workload,
                    from_node=names[node] if node >= 0 else "",
                    fate=Fate.REMOVED,
                )
            )
        if found.unpredictable:
            fates.append(
                PodFate(
                    pod=f"{found.workload.namespace}/{found.workload.name}-new",
                    workload=workload,
                    from_node="",
                    fate=Fate.UNPREDICTABLE,
                    because=found.unpredictable,
                )
            )
        removed += found.removed
        added += found.added
    if removed:
        notes.append("which replicas a smaller number leaves is the choice of the controller")
    if added:
        notes.append("a new replica is counted with what its siblings use on average")
    return with_pods(without_pods(before.inputs, removed), added), fates, added, notes


def _node_row(inputs: PlanningInputs, name: str) -> NodeRow:
    return NodeRow(find_subject(inputs.snapshot, SubjectName("node", name)).row)


def _terminating(inputs: PlanningInputs, nodes: list[NodeRow]) -> list[int]:
    """The pods on some nodes that are about to be gone."""
    pods = inputs.snapshot.pods
    return np.flatnonzero(np.isin(pods.node, nodes) & pods.terminating).tolist()


def _with_guesses(inputs: PlanningInputs, drained: list[NodeRow]) -> tuple[PlanningInputs, int]:
    """The inputs with the requests of pods on drained nodes whose usage is not known, and their number."""
    pods, usage = inputs.snapshot.pods, inputs.load.pod_usage.copy()
    on_drained = np.isin(pods.node, drained) & np.isnan(usage).any(axis=1)
    rows = np.flatnonzero(on_drained).tolist()
    for row in rows:
        wanted = requested_amounts(pod_requests(pods.class_of(row)).present, inputs.load.resources)
        usage[row] = np.where(np.isnan(usage[row]), wanted, usage[row])
    return dataclasses.replace(inputs, load=dataclasses.replace(inputs.load, pod_usage=usage)), len(rows)


def _settled(inputs: PlanningInputs, placed: list[PlacedPod]) -> PlanningInputs:
    """What a run would read once every pod runs where it landed and the figures show it."""
    cluster = SimulatedCluster(inputs, LoadShape(), np.random.default_rng(0))
    pods = inputs.snapshot.pods
    created, started = pods.created.copy(), pods.started.copy()
    for item in placed:
        cluster.place(item.row, item.node, item.pod_class)
        created[item.row] = np.fmin(created[item.row], inputs.now - _DAY_SECONDS)
        started[item.row] = inputs.now - _DAY_SECONDS
    cluster.measure()
    after = cluster.inputs(inputs.state or RunState())
    table = dataclasses.replace(after.snapshot.pods, created=created, started=started)
    snapshot = dataclasses.replace(after.snapshot, pods=table)
    return dataclasses.replace(after, snapshot=snapshot, state=inputs.state)


def _listed(before: PreparedInputs, changed: _Changed) -> tuple[PodFate, ...]:
    """The pods that a change concerns: those that waited, only if they wait no longer or wait now."""
    waited = {
        before.pods.full_name(row): bool(before.state.node[row] >= 0)
        for row in waiting_pods(before.schedulers.state, before.pods)
    }
    return tuple(
        item
        for item in changed.fates
        if item.from_node or item.pod not in waited or waited[item.pod] != (item.fate is Fate.LANDS)
    )


def _hot(prepared: PreparedInputs) -> int:
    return int(np.count_nonzero(prepared.hotness.hot))


def _nodes(before: PreparedInputs, after: PreparedInputs, changes: Changes) -> tuple[ChangedNode, ...]:
    """The nodes that are hot on either side, or whose load changes, the hottest afterwards first."""
    rows = before.inputs.snapshot.nodes.row
    kinds = dict.fromkeys(changes.cordoned, "cordoned") | dict.fromkeys(changes.drained, "drained")
    loads, later = before.inputs.load.percent, after.inputs.load.percent
    found: list[tuple[float, ChangedNode]] = []
    for row, name in enumerate(after.inputs.snapshot.nodes.names):
        old = rows.get(name)
        known = old is not None
        hot = bool(old is not None and before.hotness.hot[old]), bool(after.hotness.hot[row])
        change = kinds.get(name, "" if known else "new")
        if not (any(hot) or change or _differ(loads[rows[name]], later[row])):
            continue
        found.append(
            (
                float(np.nanmax(later[row, :2])) if not np.isnan(later[row, :2]).all() else -1.0,
                ChangedNode(
                    node=name,
                    change=change,
                    hot=hot,
                    before=by_resource(before.hotness.names, loads[rows[name]]) if known else {},
                    after=by_resource(after.hotness.names, later[row]),
                ),
            )
        )
    found.sort(key=lambda item: (not item[1].hot[1], not item[1].hot[0], -item[0], item[1].node))
    return tuple(node for _, node in found)


def _differ(before: FloatArray, after: FloatArray) -> bool:
    return bool((np.abs(np.nan_to_num(after - before)) >= _CHANGED_POINTS).any())
