"""The plan: what would be evicted, why, where it would land; and what stays, with its reason.

A value: written to JSON and read back it is equal, and execution, reports and tests need nothing else.
``difference`` compares the plans of two policies or of two days.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec

from rebalancer.counting import counted, listed

if TYPE_CHECKING:
    from rebalancer.state.run_state import PastMove

API_VERSION = "rebalancer/v1alpha1"
KIND = "Plan"
# Why a move no longer holds whose pod leaves, or left, without us.
POD_GONE = "the pod is gone"
POD_LEAVING = "the pod is leaving"


_Chance = Annotated[float, msgspec.Meta(ge=0.0, le=1.0)]


class Value(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The base of all parts of a plan."""


class Answer(Value, frozen=True):
    """What is said of a cluster as a whole: of which one, by which policy and from what."""

    source: str
    policy: str
    inputs: str  # digest of snapshot, policy, configuration and state: same inputs, same answer
    now: str  # RFC 3339: the clock it was made by

    def of_same(self) -> dict[str, Any]:
        """The same for another answer that follows from this one."""
        return {name: getattr(self, name) for name in Answer.__struct_fields__}


class PodReference(Value, frozen=True):
    """A pod and the controller that will replace it."""

    namespace: str
    name: str
    uid: str
    workload: str  # Kind/name of the top-most controller known, e.g. Deployment/web
    controller_kind: str = ""
    controller_name: str = ""
    controller_uid: str = ""
    workload_uid: str = ""  # of the top-most controller

    @property
    def full_name(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"


class NodeAfter(Value, frozen=True):
    """A node once the plan has been carried out."""

    load: dict[str, float]  # percent of allocatable by resource, expected
    hot: bool = False


class Figure(Value, frozen=True):
    """Where a load comes from, how old it is, and over which window it is taken."""

    source: str
    age_seconds: float
    window_seconds: float = 0.0
    statistic: str = "mean"
    deviation: float | None = None  # standard deviation in the window, points of allocatable


class Level(Value, frozen=True):
    """The load above which a node is hot, and the load it is to cool to, in percent of allocatable."""

    hot_above: float
    cool_to: float


UNKNOWN_NODE = "neither hot nor a landing to count on"
"""How the reason of a node ends whose load is not known in full."""


OUT_OF_REACH = "no eviction cools it"
"""How the reason of a node ends whose load no pod causes, as far as it is above coolTo."""


class NodeReport(Value, frozen=True):
    """A node that is hot, or that the plan may send pods to, or that is unknown."""

    name: str
    load: dict[str, float]  # percent of allocatable by resource; a resource without a fresh figure is absent
    hot: bool = False
    score: float | None = None  # 0..100, the scheduler's own view for a plain pod
    scores: dict[str, int] = {}  # 0..100 by plugin that takes part in it
    pulled_down_by: str = ""  # the plugin that takes most from its score, compared with the mean of the nodes
    because: tuple[str, ...] = ()
    after: NodeAfter | None = None
    figures: dict[str, Figure] = {}  # by resource that is measured
    levels: dict[str, Level] = {}  # by resource that a rule of the policy limits here
    of_no_pod: dict[str, float] = {}  # percent of allocatable that processes outside pods use, where known

    @property
    def is_unknown(self) -> bool:
        """Whether its load is not known in full."""
        return not self.load or any(reason.endswith(UNKNOWN_NODE) for reason in self.because)


class ListedNode(NodeReport, frozen=True):
    """A node with its room: cpu in cores, memory in bytes, pods."""

    allocatable: dict[str, float] = {}
    requests: dict[str, float] = {}  # of its pods, and what they may use at most
    limits: dict[str, float] = {}
    labels: dict[str, str] = {}  # those that were asked for


Action = Literal["Evict", "Restart"]
EVICT: Action = "Evict"
RESTART: Action = "Restart"  # by the rolling update of its Deployment


class Change(Value, frozen=True):
    """A figure before something is done, and as expected once it is done."""

    before: float
    after: float


class Landing(Value, frozen=True):
    """A node the replacement may land on, and the chance of it.

    ``load`` is what this move alone does to the node if the replacement lands there: percent of allocatable
    by resource, after the moves before it in the likeliest course of the plan. It is empty for all but the
    twenty likeliest nodes.
    """

    node: str
    probability: float
    load: dict[str, Change] = {}


NOWHERE = Landing(node="", probability=0.0)


class Move(Value, frozen=True):
    """A pod to move, the nodes its replacement may land on, and what is gained."""

    pod: PodReference
    from_node: str = msgspec.field(name="from")
    landings: tuple[Landing, ...]
    gain: dict[str, float]  # points of allocatable by resource that is hot, the least over the landings
    wave: int  # counted from 1
    because: str
    # What this move does to the node that it leaves, as ``load`` of a landing; by the same resources.
    from_load: dict[str, Change] = {}
    load: dict[str, float] = {}  # what the pod uses: cpu in thousandths of a core, memory in bytes
    load_methods: dict[str, str] = {}  # how that is known, by resource: measured, share or request
    grace_period_seconds: float = 30.0
    action: Action = EVICT
    strategy: str = ""  # whose wish it is, by its key in the policy; empty in plans that did not say so yet
    makes_room_for: str = ""  # the uid of another pod, for whose replacement it makes room
    replicas: int = 0  # that its controller wants; 0: not known
    risk: _Chance = 0.0  # the chance that its replacement lands where it should not, which confidence bounds
    # Nodes that have a soft taint while its wave is made, for it: why its replacement must not land there.
    avoids: dict[str, str] = {}

    @property
    def is_restart(self) -> bool:
        """Whether the pod is not evicted, but replaced by the rolling update of its Deployment."""
        return self.action == RESTART

    @property
    def landing_nodes(self) -> list[str]:
        """The names of the nodes that its replacement may land on, in the order of the landings."""
        return [landing.node for landing in self.landings]

    @property
    def chances(self) -> dict[str, float]:
        """The chance of each node that its replacement may land on."""
        return {landing.node: landing.probability for landing in self.landings}

    @property
    def likeliest(self) -> Landing:
        """The landing with the highest chance; ``NOWHERE`` where there is none."""
        return max(self.landings, key=lambda landing: landing.probability, default=NOWHERE)

    def made(
        self, result: str, node: str, evicted_at: float, landed_at: float | None, **more: str
    ) -> PastMove:
        """The move as later runs remember it; ``more`` are fields of ``PastMove``."""
        from rebalancer.state.run_state import PastMove  # noqa: PLC0415 - a plan is read without it

        pod = self.pod
        load = dict(self.load)
        fields = {"namespace": pod.namespace, "name": pod.name, "uid": pod.uid, "workload": pod.workload}
        fields |= {"controller_uid": pod.controller_uid, "from_node": self.from_node, "to_node": node, **more}
        return PastMove(**fields, result=result, evicted_at=evicted_at, landed_at=landed_at, load=load)


def avoided_in(moves: Sequence[Move]) -> dict[str, str]:
    """The nodes that some moves of a wave avoid, by name, with why nothing must land on each."""
    reasons: dict[str, str] = {}
    for move in moves:
        for node, why in move.avoids.items():
            reasons.setdefault(node, f"for {move.pod.full_name} it {why}")
    return dict(sorted(reasons.items()))


class Cleanup(Value, frozen=True):
    """A pod that has finished and is removed: no load moves with it, and nothing is placed in its stead."""

    pod: PodReference
    node: str  # on which it ran
    because: str
    strategy: str  # which wishes to remove it, by its key in the policy


class Progress(msgspec.Struct, frozen=True):
    """What has become of the moves of a plan so far."""

    made: Sequence[Move] = ()  # whose pods were evicted, or may have been
    stayed: Sequence[Move] = ()  # that ended otherwise, although their nodes did not cool without them
    left: Sequence[Move] = ()  # that are still to be made


NOTHING_YET = Progress()


class UnmovedPod(Value, frozen=True):
    """A pod that a strategy wished to move, such as one on a hot node, and that stays, with the reason."""

    pod: PodReference
    node: str
    reason: str  # a code of planning.reasons
    because: str
    setting: str = ""  # of the policy, that keeps it; empty where the cluster and no setting does
    remedy: str = ""  # what would free it: a key of the policy with its value, a field of the API, or time

    @property
    def freed_by(self) -> str:
        """``freed by evictable.minAge: 3m``."""
        return f"freed by {self.remedy}"


class Obstacle(Value, frozen=True):
    """A setting of the policy that keeps load on nodes which stay above their coolTo."""

    setting: str  # such as evictable.minAge; empty where the cluster and no setting is the reason
    reasons: tuple[str, ...]  # codes of planning.reasons
    share: float  # 0..1 of the load that could leave: what pods use of resources above coolTo
    pods: int
    pods_in_all: int  # kept on these nodes, whatever keeps them, but for those that never move
    example: str  # namespace/name of the pod that uses most
    because: str  # why that pod stays
    # Of ``pods``, those that would move if only this were lifted, as far as the search went with it.
    # None: not tried, because there is nothing to lift, a limit is used up, or several obstacles are heavier.
    moves_if_lifted: int | None = None
    remedy: str = ""  # what would free the pod of the example

    @property
    def name(self) -> str:
        """The setting, or the reasons where there is none."""
        return self.setting or " and ".join(self.reasons)

    @property
    def keeps(self) -> str:
        """``evictable.minAge keeps``, ``Budget and Daemon together keep``."""
        names = self.name.split(" and ")
        return f"{listed(names)} {'keeps' if len(names) == 1 else 'together keep'}"

    @property
    def sentence(self) -> str:
        """What it is that keeps how much: first the cause, where one closes everything."""
        share = f"{self.share:.0%} of the movable load"
        remedy = f"; {self.freed_by}" if self.remedy else ""
        if _CLOSES_EVERYTHING.issuperset(self.reasons):
            return f"{self.because} ({self.keeps} {share}){remedy}"
        if not self.setting:  # a code says less than the sentence behind it
            return f"{self.because}, e.g. {self.example} ({self.keeps} {share}){remedy}"
        return f"{self.keeps} {share}, e.g. {self.example}: {self.because}{remedy}"

    @property
    def freed_by(self) -> str:
        """``freed by evictable.minAge: 3m``."""
        return f"freed by {self.remedy}"


_CLOSES_EVERYTHING = frozenset({"Window", "OtherScheduler"})  # the same sentence for each pod


class HottestNode(Value, frozen=True):
    """What happens to the node with the most excess, in the resource in which it has most of it."""

    name: str
    resource: str
    load: Change  # percent of allocatable


class Benefit(Value, frozen=True):
    """What the plan gains, and what it costs."""

    hot_nodes: Change
    excess: Change  # points above coolTo over hot nodes, those that hurt pods more counted more
    peak: dict[str, Change] = {}  # percent of the busiest node, by resource
    deviation: dict[str, Change] = {}  # standard deviation over the nodes in points, by resource
    pods_moved: int = 0
    pods: int = 0  # that run in the cluster
    cost: float = 0.0  # 1 for each eviction, and what makes it worse
    score: float = 0.0  # points of excess removed for each unit of cost
    hottest: HottestNode | None = None  # None where no node is hot, and in plans of earlier versions


class StrategyReport(Value, frozen=True):
    """What one strategy made of the cluster."""

    moves: int  # of the plan, that it wished for
    message: str = ""  # a sentence of its own about the plan
    figures: dict[str, float] = {}  # its own measures, each by its name


class Plan(Answer, frozen=True):
    """Ordered moves, the nodes they concern, and every pod on a hot node that stays."""

    moves: tuple[Move, ...] = ()
    cleanups: tuple[Cleanup, ...] = ()  # finished pods that a run removes before its first wave
    nodes: tuple[NodeReport, ...] = ()
    kept: tuple[UnmovedPod, ...] = ()
    unsolved: dict[str, str] = {}  # hot node -> why it stays hot after the plan
    obstacles: tuple[Obstacle, ...] = ()  # what keeps load on these nodes, the one that keeps most first
    benefit: Benefit | None = None  # None in plans of versions that did not compute it
    closed: tuple[str, ...] = ()  # nodes that have a hard taint while they are emptied, and for a time then
    closed_seconds: float = 0.0  # how long that stays once they are empty
    strategies: dict[str, StrategyReport] = {}  # those that the policy turns on, by their keys in it
    protects_nothing: tuple[str, ...] = ()  # protections of the policy that match nothing: a run refuses
    runs: str = ""  # in which runs its moves are made, where it is not the next one; else empty
    warnings: tuple[str, ...] = ()
    refusals: tuple[str, ...] = ()  # why a run would not act on it, besides what protects nothing
    # Sentences on the whole plan: how many decisions of the scheduler landed as computed, if that is known.
    notes: tuple[str, ...] = ()
    node_count: int = 0
    hot_count: int = 0
    pod_count: int = 0
    known_count: int = 0  # nodes with a fresh figure
    expected_seconds: float = 0.0  # that its waves take, by how long replacements took before; 0: not known
    api_version: str = API_VERSION
    kind: str = KIND

    @property
    def tainted(self) -> dict[int, dict[str, str]]:
        """By wave that has any: the nodes with a soft taint meanwhile, and why nothing must land on each."""
        waves: dict[int, list[Move]] = {}
        for move in self.moves:
            if move.avoids:
                waves.setdefault(move.wave, []).append(move)
        return {wave: avoided_in(moves) for wave, moves in waves.items()}

    @property
    def hot_names(self) -> frozenset[str]:
        """The names of the nodes that are hot before the plan."""
        return frozenset(node.name for node in self.nodes if node.hot)

    @property
    def no_hot_node(self) -> str:
        """That no node is hot, as far as their load is known."""
        unknown = self.node_count - self.known_count
        if not unknown:
            return "no node is hot"
        if not self.known_count:
            return f"the load of none of {counted(self.node_count, 'node')} is known"
        return f"no node is hot ({unknown:,} of {self.node_count:,} of unknown load)"

    @property
    def raised_limit(self) -> str:
        """What the next useful value of the limit that binds would give; empty where none helps."""
        report = self.strategies.get("hotNodes")
        return report.message if report is not None else ""

    @property
    def mostly_kept_by(self) -> str:
        """What keeps most of the load of nodes that stay above coolTo, in a sentence."""
        if self.obstacles:
            return self.obstacles[0].sentence
        for name, why in sorted(self.unsolved.items()):
            if why.endswith(OUT_OF_REACH):
                return f"{name} {why}"
        return "no pod there could ever move: they belong to their nodes, or to what plans rely on"

    @property
    def not_measured(self) -> str:
        """That the load of nodes is what their pods request; empty where all of it is measured."""
        count = 0
        for node in self.nodes:
            figures = (node.figures[name] for name in ("cpu", "memory") if name in node.figures)
            if any(figure.source == "requests" for figure in figures):
                count += 1
        which = "" if count == self.known_count else f"for {count:,} of them "
        return f"{which}as requested, not measured" if count else ""


def encode(plan: Plan) -> bytes:
    """The plan as JSON: the same plan, the same bytes."""
    return msgspec.json.encode(plan, order="deterministic")


def decode(content: bytes) -> Plan:
    """The plan read back; raises msgspec.ValidationError when the bytes hold no plan."""
    return msgspec.json.decode(content, type=Plan)


# How figures are rounded for plans and explanations: one rule, so that two reports never disagree.
PERCENT_DIGITS = 2
CHANCE_DIGITS = 6


def by_resource(names: Sequence[str], values: Iterable[float]) -> dict[str, float]:
    """Percentages or points by resource; those that are unknown or infinite are left out."""
    return {
        name: round(float(value), PERCENT_DIGITS)
        for name, value in zip(names, values, strict=True)
        if math.isfinite(value)
    }


class ChangedMove(Value, frozen=True):
    """A move that one of the plans makes, or that both make differently."""

    pod: str  # namespace/name
    workload: str
    before: str  # what the first plan does with the pod, in words
    after: str  # what the second one does


class ChangedSetting(Value, frozen=True):
    """A key of the policy that the plans were made with different values of."""

    setting: str
    before: str  # empty where the first policy does not have it
    after: str


class PlanDifference(Value, frozen=True):
    """Two plans side by side."""

    policies: tuple[str, str]
    inputs: tuple[str, str]  # digests
    moves: tuple[int, int]
    hot: tuple[int, int]  # hot nodes before each plan
    still_hot: tuple[int, int]  # and after it
    excess: tuple[float, float] | None  # points that each plan leaves; None where a plan does not say
    cost: tuple[float, float] | None  # of the moves
    same_moves: int  # the same pod, with the same landings
    changed: tuple[ChangedMove, ...]
    settings: tuple[ChangedSetting, ...] = ()  # where both policies are known
    api_version: str = API_VERSION
    kind: str = "PlanDifference"


def difference(first: Plan, second: Plan) -> PlanDifference:
    """The moves by which the plans differ, in the order of the first plan, then of the second."""
    before = {move.pod.uid: move for move in first.moves}
    after = {move.pod.uid: move for move in second.moves}
    changed = []
    same = 0
    for uid in dict.fromkeys((*before, *after)):
        first_move = before.get(uid)
        second_move = after.get(uid)
        if first_move is not None and second_move is not None and _nodes(first_move) == _nodes(second_move):
            same += 1
            continue
        move = first_move or second_move or first.moves[0]
        was, becomes = (_fate(plan, uid, move.from_node) for plan in (first, second))
        changed.append(
            ChangedMove(pod=move.pod.full_name, workload=move.pod.workload, before=was, after=becomes)
        )
    return PlanDifference(
        policies=(first.policy, second.policy),
        inputs=(first.inputs, second.inputs),
        moves=(len(first.moves), len(second.moves)),
        hot=(first.hot_count, second.hot_count),
        still_hot=(_still_hot(first), _still_hot(second)),
        excess=_of_both(first, second, lambda benefit: benefit.excess.after),
        cost=_of_both(first, second, lambda benefit: benefit.cost),
        same_moves=same,
        changed=tuple(changed),
    )


def _of_both(first: Plan, second: Plan, figure: Callable[[Benefit], float]) -> tuple[float, float] | None:
    if first.benefit is None or second.benefit is None:
        return None
    return figure(first.benefit), figure(second.benefit)


def _nodes(move: Move) -> frozenset[str]:
    return frozenset(move.landing_nodes) | {move.from_node}


def _fate(plan: Plan, uid: str, node: str) -> str:
    for move in plan.moves:
        if move.pod.uid == uid:
            others = f" or {len(move.landings) - 1} more" if len(move.landings) > 1 else ""
            return f"moved in wave {move.wave} to {move.likeliest.node or 'nowhere'}{others}"
    for unmoved in plan.kept:
        if unmoved.pod.uid == uid:
            return f"stays ({unmoved.reason}): {unmoved.because}"
    if any(report.is_unknown for report in plan.nodes if report.name == node):
        return "stays: the load of its node is not known"
    return "stays: its node is not hot"


def _still_hot(plan: Plan) -> int:
    return sum(1 for node in plan.nodes if node.hot and (node.after is None or node.after.hot))
