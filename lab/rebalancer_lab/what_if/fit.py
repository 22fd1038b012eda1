"""How many more pods of one kind the cluster has room for, where they land, and what stops the next one.

Pods are placed one after the other, each at its likeliest node, on a copy of the cluster in which the Pending
pods have been placed already. So every pod sees those before it, as the scheduler would:

    room for 3 on n1, for 1 on n2; the profile spreads
    n1 60 %, n2 40 %     the first lands on n1
    n2 80 %, n1 20 %     the second on n2
    n1, n1               the third and the fourth; n2 has no room left
    0 of 2 nodes         the fifth stays Pending: 2 Insufficient cpu
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import msgspec
import numpy as np
from msgspec.structs import replace

from rebalancer.cluster import times
from rebalancer.cluster.arrays import NodeRow, PodRow
from rebalancer.cluster.kinds import BY_NAME, RESOURCE_QUOTAS
from rebalancer.cluster.pod_classes import PodClass
from rebalancer.cluster.pods import PodTable
from rebalancer.cluster.records import Affinity, Container, Metadata, Workload, WorkloadSpec
from rebalancer.cluster.snapshot import Snapshot
from rebalancer.counting import counted
from rebalancer.planning.explanation import RejectedNodes, grouped
from rebalancer.planning.inputs import UNTOUCHED, PlanningInputs
from rebalancer.planning.landing.scenarios import LandingDistribution, mean_of
from rebalancer.planning.landing.schedulers import ProfileSchedulers
from rebalancer.planning.plan import API_VERSION, CHANCE_DIGITS, PERCENT_DIGITS, Value
from rebalancer.planning.planner import Planner
from rebalancer.planning.prepared import PreparedInputs
from rebalancer.planning.warnings import not_modelled
from rebalancer.planning.workloads.lookup import Workloads
from rebalancer.planning.workloads.stateful_sets import without_own_claims
from rebalancer.planning.workloads.templates import differences
from rebalancer.scheduling.framework.preemption import Preemptions
from rebalancer.scheduling.resources import requested_amounts
from rebalancer.scheduling.state.cluster_state import ClusterState
from rebalancer.scheduling.state.volumes import claims_by_name
from rebalancer_lab.what_if.claims import (
    MAX_PODS_WITH_CLAIMS,
    names_of_pods_to_come,
    why_not_known,
    with_own_claims,
    without_claims_of_its_own,
)
from rebalancer_lab.what_if.pod_specs import AskedPod

NO_POD = -1
_SEPARATOR = ": "  # between a plugin and its message


class NextLanding(msgspec.Struct, frozen=True, eq=False):
    """The nodes a pod may land on; or why it lands nowhere."""

    landings: LandingDistribution | None
    because: str = ""  # "Plugin: message" where the cycle fails; empty where nodes were merely rejected
    score_failure: str = ""  # why nodes could not be compared, though one is feasible

    @property
    def node(self) -> NodeRow | None:
        """The likeliest node; None when there is none."""
        return self.landings.likeliest() if self.landings is not None else None


def next_landing(
    schedulers: ProfileSchedulers, state: ClusterState, pod_class: int, pod: int = NO_POD
) -> NextLanding:
    """Where a pod of a class lands on a state, which stays as it is; ``pod`` is its number if it has one.

    A scheduler whose figures may be older than ours counts as often as one whose figures are not.
    """
    placements = [scheduler.place(state, pod_class, pod) for scheduler in schedulers.views(pod_class)]
    for placement in placements:
        if not len(placement.feasible) or not placement.chance.any():
            return NextLanding(None, placement.rejected, placement.score_failure)
    return NextLanding(mean_of(placements, len(state.nodes)))


def why_unpredictable(prepared: PreparedInputs, pod_class: int) -> str:
    """Why pods of a class cannot be placed by the model; empty when they can."""
    name = prepared.pods.classes[pod_class].scheduler_name
    if name in prepared.schedulers.by_name:
        return prepared.eviction.unpredictable.get(pod_class, "")
    names = ", ".join(prepared.schedulers.by_name)
    return (
        f"schedulerName {name} is not in the scheduler's configuration, which has {names}; "
        "see scheduler.configMap of the policy, or --scheduler-config"
    )


def rejected_nodes(
    prepared: PreparedInputs, state: ClusterState, pod_class: int, pod: int = NO_POD
) -> tuple[RejectedNodes, ...]:
    """What rejects each node for a pod, by plugin and reason."""
    rejections = prepared.schedulers.scheduler(pod_class).rejections(state, pod_class, pod)
    return grouped(rejections, prepared.inputs.snapshot.nodes.names)


def why_nowhere(
    prepared: PreparedInputs, state: ClusterState, pod_class: int, landing: NextLanding, pod: int = NO_POD
) -> str:
    """Why a pod lands nowhere, in the words of the event that the scheduler would write."""
    if landing.score_failure:
        return landing.score_failure
    stopped = rejected_nodes(prepared, state, pod_class, pod)
    return scheduler_message(stopped, len(state.nodes), landing.because)


def scheduler_message(stopped: tuple[RejectedNodes, ...], nodes: int, rejected: str = "") -> str:
    """What the scheduler writes into the event of a pod that fits nowhere.

    ``rejected`` is the ``Plugin: message`` of a cycle that looked at no node.
    Source: kubernetes v1.35.4 pkg/scheduler/framework/types.go:807.
    """
    counts: Counter[str] = Counter()
    for group in stopped:
        for reason in group.reason.split(_SEPARATOR, 1)[-1].split(", "):
            counts[reason] += group.count
    reasons = ", ".join(sorted(f"{count} {reason}" for reason, count in counts.items()))
    return f"0/{nodes} nodes are available: {rejected.split(_SEPARATOR, 1)[-1] or reasons}."


SHOWN_LANDINGS = 10
_DAEMON_SET = "DaemonSet"
_CHOOSING_NODES = frozenset({"NodeName", "NodeAffinity", "TaintToleration", "NodeUnschedulable"})
_REQUESTED = ("cpu", "memory")


class FittingPod(Value, frozen=True):
    """One of the pods that fit: where it lands once those before it have landed."""

    number: int  # counted from 1
    node: str  # the likeliest
    probability: float
    others: int  # nodes it may land on as well
    requested: dict[str, float]  # percent of the node's allocatable that is requested afterwards


class NodeRoom(Value, frozen=True):
    """How many of the pods land on a node."""

    node: str
    pods: int


class NodeWithoutRoom(Value, frozen=True):
    """A node that a DaemonSet is for, and that cannot take its pod."""

    node: str
    because: str  # Plugin: reason, as the scheduler words it
    preempts: bool  # whether the pod would get its room from pods of lower priority


class DaemonNodes(Value, frozen=True):
    """Which nodes take the pod of a DaemonSet."""

    for_it: int  # nodes that its node selector and its tolerations admit
    without_room: tuple[NodeWithoutRoom, ...]
    passed_by: tuple[RejectedNodes, ...]  # nodes that it is not for, by plugin and reason


class Fit(Value, frozen=True):
    """How many more pods fit, where the first of them land, and what stops the next one."""

    source: str
    inputs: str
    now: str
    pod: str  # Kind namespace/name of what was asked about
    profile: str  # the schedulerName
    requests: dict[str, float]  # cpu in thousandths of a core, memory in bytes, others as they are counted
    priority: int
    node_count: int
    fits: int = 0  # pods that land; the search ends at ``at_most``
    replicas: int | None = None  # that the file asks for; None where it says nothing
    running: int = 0  # how many of them the cluster has already, of the same template
    at_most: int = 0
    landings: tuple[FittingPod, ...] = ()  # of the first pods
    by_node: tuple[NodeRoom, ...] = ()  # of all of them, the node with most first
    stopped: tuple[RejectedNodes, ...] = ()  # what stops the pod after the last, by plugin and reason
    message: str = ""  # the same as the scheduler's event says it; empty when nothing stops it
    preemption: str = ""  # what the next pod would do instead of waiting; empty when it would wait
    quota: str = ""  # a ResourceQuota that admits fewer pods than fit; empty when none does
    unpredictable: str = ""  # why where the pods land is not known; then ``fits`` is 0
    daemon: DaemonNodes | None = None  # of a DaemonSet alone, whose pods have a node each
    warnings: tuple[str, ...] = ()  # fields of the file that the API does not have
    notes: tuple[str, ...] = ()
    api_version: str = API_VERSION
    kind: str = "Fit"


def fit(
    planner: Planner,
    asked: AskedPod,
    at_most: int,
    progress: Callable[[str], None] = lambda _message: None,
) -> Fit:
    """Place pods one by one until one finds no node, or ``at_most`` have; a DaemonSet's, one on each node."""
    snapshot = planner.inputs.snapshot
    running = _made_already(snapshot, asked)
    if asked.claims:
        at_most = min(at_most, MAX_PODS_WITH_CLAIMS)
    unpredictable = asked.unpredictable or _why_claims_are_not_known(snapshot, asked)
    inputs, pod_classes = with_asked(planner.inputs, asked, at_most)
    prepared = replace(planner, inputs=inputs, so_far=UNTOUCHED).prepared
    first = pod_classes[0]
    pod = prepared.pods.classes[first]
    unpredictable = unpredictable or why_unpredictable(prepared, first)
    state = prepared.state.copy()
    requests = state.classes.requests[first].incoming
    names = (*_REQUESTED, *sorted(name for name in requests if requests[name] and name not in _REQUESTED))
    answer = Fit(
        source=inputs.snapshot.source,
        inputs=inputs.digest,
        now=times.render(inputs.now),
        pod=asked.name,
        profile=pod.scheduler_name,
        requests=dict(zip(names, map(float, requested_amounts(requests, names).tolist()), strict=True)),
        priority=pod.priority,
        node_count=len(inputs.snapshot.nodes),
        at_most=at_most,
        replicas=asked.replicas,
        running=len(running),
        unpredictable=unpredictable,
        warnings=asked.warnings,
        notes=_notes(prepared, asked),
    )
    if unpredictable:
        return answer
    if asked.kind == _DAEMON_SET:
        return _on_each_node(answer, prepared, state, asked, *pod_classes)
    return _placed(answer, prepared, state, pod_classes, progress)


def _why_claims_are_not_known(snapshot: Snapshot, asked: AskedPod) -> str:
    """Why the claims that the pods get leave their landings unknown; those that exist are known."""
    existing = claims_by_name(snapshot)
    namespace = asked.pod_class.namespace
    first = next(iter(_pod_names(snapshot, asked, 1)))
    new = [own for own in asked.claims if (namespace, own.name_for(first)) not in existing]
    return why_not_known(new, snapshot)


def _on_each_node(
    answer: Fit, prepared: PreparedInputs, state: ClusterState, asked: AskedPod, pod_class: int, bare: int
) -> Fit:
    """The answer for a DaemonSet, whose controller gives each node a pod; ``state`` is changed.

    ``bare`` is the class of a pod that asks for no room: what rejects it on a node, such as a taint, is why
    the controller makes no pod there.
    """
    scheduler = prepared.schedulers.scheduler(pod_class)
    names = prepared.inputs.snapshot.nodes.names
    replaced = _of_the_daemon_set(prepared.inputs.snapshot, asked)
    for row in replaced:
        state.remove(row)
    passed_by = {
        node: reason
        for node, reason in scheduler.rejections(state, bare).items()
        if reason.partition(_SEPARATOR)[0] in _CHOOSING_NODES
    }
    rejected = scheduler.rejections(state, pod_class)
    without_room = {node: reason for node, reason in rejected.items() if node not in passed_by}
    preempting = Preemptions(state).of(scheduler, pod_class).nodes.tolist() if without_room else []
    for_it = len(names) - len(passed_by)
    taking = [row for row in range(len(names)) if row not in passed_by and row not in without_room]
    by_name = sorted(without_room, key=names.__getitem__)
    notes = answer.notes
    if replaced:
        taken = counted(len(replaced), "pod of it that runs is", "pods of it that run are")
        notes = (f"{taken} taken to be replaced by the pods of the file", *notes)
    return replace(
        answer,
        fits=len(taking),
        at_most=for_it,
        by_node=tuple(NodeRoom(node=names[row], pods=1) for row in taking),
        stopped=grouped(without_room, names),
        daemon=DaemonNodes(
            for_it=for_it,
            without_room=tuple(
                NodeWithoutRoom(node=names[row], because=without_room[row], preempts=row in preempting)
                for row in by_name
            ),
            passed_by=grouped(passed_by, names),
        ),
        notes=notes,
    )


def _of_the_daemon_set(snapshot: Snapshot, asked: AskedPod) -> list[int]:
    """The pods that the DaemonSet of the file runs already."""
    pods = snapshot.pods
    own = asked.pod_class.owner
    rows = []
    for row in range(len(pods)):
        owner = pods.class_of(row).owner
        same = (owner.kind, owner.name) == (own.kind, own.name)
        if same and pods.namespaces[row] == asked.pod_class.namespace:
            rows.append(row)
    return rows


def _placed(
    answer: Fit,
    prepared: PreparedInputs,
    state: ClusterState,
    pod_classes: Sequence[int],
    progress: Callable[[str], None],
) -> Fit:
    """The answer once the pods have been placed; ``state`` is changed.

    ``pod_classes`` are those of the pods in their order, the last of them that of all that follow.
    """
    names = prepared.inputs.snapshot.nodes.names
    landings: list[FittingPod] = []
    on_nodes: Counter[int] = Counter()
    failure = rejected = ""
    pod_class = pod_classes[0]
    while on_nodes.total() < answer.at_most:
        pod_class = pod_classes[min(on_nodes.total(), len(pod_classes) - 1)]
        landing = next_landing(prepared.schedulers, state, pod_class)
        if landing.landings is None or landing.node is None:
            failure = landing.score_failure
            rejected = landing.because
            break
        node = landing.node
        state.bind(state.add(pod_class), node)
        on_nodes[node] += 1
        if len(landings) < SHOWN_LANDINGS:
            chance = landing.landings.chance
            landings.append(
                FittingPod(
                    number=on_nodes.total(),
                    node=names[node],
                    probability=round(float(chance.max()), CHANCE_DIGITS),
                    others=len(chance) - 1,
                    requested=_requested_after(state, node, answer.requests),
                )
            )
        elif not on_nodes.total() % 50:
            progress(f"placing pods: {on_nodes.total()} fit so far")
    full = on_nodes.total() == answer.at_most
    stopped = () if full else rejected_nodes(prepared, state, pod_class)
    fullest_first = sorted(on_nodes, key=lambda node: (-on_nodes[node], names[node]))
    return replace(
        answer,
        fits=on_nodes.total(),
        landings=tuple(landings),
        by_node=tuple(NodeRoom(node=names[row], pods=on_nodes[row]) for row in fullest_first),
        stopped=stopped,
        message="" if full else failure or scheduler_message(stopped, len(names), rejected),
        preemption="" if full or failure else _preemption(prepared, state, pod_class),
        quota=_quota(prepared, pod_class, on_nodes.total()),
    )


def with_asked(
    inputs: PlanningInputs, asked: AskedPod, count: int = 1
) -> tuple[PlanningInputs, tuple[int, ...]]:
    """The inputs of a cluster that knows pods of the class asked about, and the index of that class.

    Where the cluster runs such pods of the same controller already, theirs is the class: what is asked for is
    more of them. Of pods with claims of their own, ``count`` of them have a class each; for a DaemonSet the
    class of a pod that asks for no room comes second.
    """
    snapshot = inputs.snapshot
    same = _same_workload(snapshot, asked)
    if same is not None and not asked.claims:
        return inputs, (same,)
    pods = snapshot.pods
    new: tuple[PodClass, ...] = (asked.pod_class,)
    if asked.kind == _DAEMON_SET:
        new = (asked.pod_class, _without_needs(asked.pod_class))
    elif asked.claims:
        likewise = asked.pod_class
        if same is not None:
            newest = int(np.flatnonzero(pods.pod_class == same)[-1])
            likewise = without_claims_of_its_own(pods.classes[same], pods.names[newest])
        pod_names = _pod_names(snapshot, asked, count)
        snapshot, new = with_own_claims(snapshot, likewise, asked.claims, pod_names)
    first = len(pods.classes)
    snapshot = replace(snapshot, pods=replace(pods, classes=(*pods.classes, *new)))
    if same is None:
        snapshot = _with_controller(snapshot, asked)
    return replace(inputs, snapshot=snapshot), tuple(range(first, first + len(new)))


def _pod_names(snapshot: Snapshot, asked: AskedPod, count: int) -> tuple[str, ...]:
    name = asked.name.rpartition("/")[2]
    namespace = asked.pod_class.namespace
    return names_of_pods_to_come(snapshot, asked.kind, namespace, name, asked.first_ordinal, count)


def _without_needs(pod: PodClass) -> PodClass:
    """The class of a pod that a DaemonSet makes on the same nodes, and that needs no room there."""
    affinity = pod.spec.affinity
    if affinity is not None:
        affinity = Affinity(node_affinity=affinity.node_affinity)
    spec = replace(
        pod.spec,
        affinity=affinity,
        containers=[Container(name="none")],
        init_containers=None,
        overhead=None,
        resources=None,
        topology_spread_constraints=None,
        volumes=None,
    )
    return replace(pod, spec=spec)


def _same_workload(snapshot: Snapshot, asked: AskedPod) -> int | None:
    """The class of the controller's newest pods from this template."""
    pods = snapshot.pods
    rows = [row for row in _made_already(snapshot, asked) if pods.ready[row] and pods.node[row] >= 0]
    newest = max(rows, key=lambda row: (float(np.nan_to_num(pods.created[row])), row), default=None)
    return None if newest is None else int(pods.pod_class[newest])


def _made_already(snapshot: Snapshot, asked: AskedPod) -> list[PodRow]:
    """The pods that the same controller has made of the same template, those that are Pending among them."""
    if asked.kind == _DAEMON_SET or (asked.selector is None and asked.kind != "Job"):
        return []
    pods = snapshot.pods
    workloads = Workloads(snapshot)
    kind, _, name = asked.name.partition(" ")
    key = f"{asked.pod_class.namespace}/{kind}/{name.partition('/')[2]}"
    in_namespace = [pod.namespace == asked.pod_class.namespace for pod in pods.classes]
    candidates = np.array(in_namespace, np.bool_)[pods.pod_class] & ~pods.terminating
    rows = [PodRow(row) for row in np.flatnonzero(candidates).tolist()]
    return [row for row in rows if workloads.of(row).key == key and _is_of_template(pods, row, asked)]


def _is_of_template(pods: PodTable, row: PodRow, asked: AskedPod) -> bool:
    pod = without_own_claims(pods.class_of(row), pods.names[row])
    return not differences(asked.template, pod)


def _with_controller(snapshot: Snapshot, asked: AskedPod) -> Snapshot:
    """The snapshot with the controller that would make the pods: spreading asks what it selects."""
    kind = BY_NAME.get(asked.pod_class.owner.kind)
    if asked.selector is None or kind is None or not snapshot.has(kind):
        return snapshot
    owner = asked.pod_class.owner
    record = Workload(
        metadata=Metadata(name=owner.name, namespace=asked.pod_class.namespace, uid=owner.uid),
        spec=WorkloadSpec(selector=asked.selector),
    )
    return replace(snapshot, recording=snapshot.recording.with_more(kind, [record]))


def _requested_after(state: ClusterState, node: int, resources: Iterable[str]) -> dict[str, float]:
    """Percent of a node's allocatable that its pods request of these resources."""
    percent = {}
    for name in resources:
        column = state.classes.column[name]
        whole = int(state.classes.allocatable[node, column])
        if whole > 0:
            percent[name] = round(100.0 * int(state.requested[node, column]) / whole, PERCENT_DIGITS)
    return percent


def _preemption(prepared: PreparedInputs, state: ClusterState, pod_class: int) -> str:
    """What the next pod would do to pods of lower priority; empty when it would wait."""
    preemption = Preemptions(state).of(prepared.schedulers.scheduler(pod_class), pod_class)
    if not len(preemption.nodes):
        return ""
    nodes = len(preemption.nodes)
    snapshot = prepared.inputs.snapshot
    where = counted(nodes, "node")
    recorded = [pod for pod in preemption.victims if pod < len(snapshot.pods)]
    example = f", e.g. {snapshot.pods.full_name(recorded[0])}" if recorded else ""
    return (
        f"it may preempt pods of lower priority on {where}: "
        f"on {snapshot.nodes.names[int(preemption.nodes[0])]} {len(preemption.victims)}{example}"
    )


def _quota(prepared: PreparedInputs, pod_class: int, fits: int) -> str:
    """The quota of the namespace that admits fewer pods than fit, and how many it admits."""
    pod = prepared.pods.classes[pod_class]
    quota = prepared.eviction.quotas.room(pod)
    if quota is None or quota[0] >= fits:
        return ""
    room, words = quota
    return f"{words}: it admits {room} of the {fits}"


def _notes(prepared: PreparedInputs, asked: AskedPod) -> tuple[str, ...]:
    pending = prepared.pending
    notes = list(asked.notes)
    if pending.placed or pending.unplaced:
        notes.append(
            f"of {counted(pending.placed + pending.unplaced, 'pod that is', 'pods that are')} Pending now, "
            f"{counted(pending.placed, 'fits and is', 'fit and are')} placed first"
        )
    if not prepared.inputs.snapshot.has(RESOURCE_QUOTAS):
        notes.append("ResourceQuotas were not read: whether one stops the pods is not known")
    if prepared.schedulers.neutral:
        notes.append(not_modelled(prepared.schedulers.neutral))
    if asked.claims:
        notes.append("ResourceQuotas on claims and on their storage are not applied")
    notes.append("LimitRanges and admission webhooks, which may change a pod, are not applied")
    return tuple(notes)
