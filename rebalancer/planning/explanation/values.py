"""The full explanation of one pod or one node, as a value that reports print."""

from __future__ import annotations

from rebalancer.planning.plan import API_VERSION, Landing, PodReference, Value


class ScoredNode(Value, frozen=True):
    """A feasible node: how the scheduler scores it, and whether a landing there would be acceptable."""

    node: str
    total: int
    scores: dict[str, int]  # weighted, by plugin
    probability: float  # of landing there
    after: dict[str, float]  # percent of allocatable expected after the landing
    unacceptable: str = ""  # why a landing there would not be acceptable; empty when it would be


class RejectedNodes(Value, frozen=True):
    """Nodes that the scheduler rejects for the same reason."""

    reason: str  # Plugin: reason, as the scheduler words it
    count: int
    nodes: tuple[str, ...]  # the first few by name


class SchedulingTable(Value, frozen=True):
    """What one scheduling cycle would do with the pod that replaces this one."""

    profile: str
    feasible: int
    nodes: tuple[ScoredNode, ...]  # by chance, then total, then name
    rejected: tuple[RejectedNodes, ...]  # the most frequent first
    because: str = ""  # why no node was looked at, or the cycle fails
    notes: tuple[str, ...] = ()


class Staying(Value, frozen=True):
    """What it costs to leave the pod where it is."""

    load: dict[str, float]  # percent of allocatable of its node
    hot: bool
    above: dict[str, float]  # points above the level to cool to
    share: dict[str, float]  # points of allocatable that would leave with the pod
    forgone: dict[str, float]  # expected gain, in points, over the landings
    because: str


class Refusal(Value, frozen=True):
    """One reason why a pod may not be evicted."""

    reason: str  # a code of planning.reasons
    because: str
    setting: str = ""  # of the policy; empty where the cluster and no setting is the reason


class PodExplanation(Value, frozen=True):
    """Why a pod may (not) be evicted, where it would land and why there, and what the plan does with it."""

    source: str
    policy: str
    inputs: str
    now: str
    pod: PodReference
    node: str  # empty while Pending
    evictable: bool
    reason: str  # a code of planning.reasons; empty when evictable
    because: str
    verdict: str  # what the plan does: Moved, a code of planning.reasons, or NodeNotHot
    verdict_because: str
    landings: tuple[Landing, ...]  # expected, over terminating and gone
    unacceptable: float  # chance of an unacceptable landing
    staying: Staying | None = None  # None while Pending
    table: SchedulingTable | None = None  # None where no profile places it
    refusals: tuple[Refusal, ...] = ()  # every reason, the first of which is ``reason``
    api_version: str = API_VERSION
    kind: str = "PodExplanation"


class PodOnNode(Value, frozen=True):
    """A pod of a node: its share and what the plan does with it."""

    pod: PodReference
    share: dict[str, float]  # points of the node's allocatable
    verdict: str  # Moved, Evictable, or a code of planning.reasons
    because: str


class PodOfWorkload(Value, frozen=True):
    """A pod of a workload: where it runs, and what the plan does with it."""

    pod: PodReference
    node: str  # empty while Pending
    hot: bool  # whether that node is hot
    share: dict[str, float]  # points of the node's allocatable
    verdict: str  # Moved, Evictable, NodeNotHot, or a code of planning.reasons
    because: str


class WorkloadExplanation(Value, frozen=True):
    """What the plan does with each pod of a workload."""

    source: str
    policy: str
    inputs: str
    now: str
    namespace: str
    workload: str  # Kind/name
    pods: tuple[PodOfWorkload, ...]  # moved ones first, then those on hot nodes, then by name
    api_version: str = API_VERSION
    kind: str = "WorkloadExplanation"


class NodeExplanation(Value, frozen=True):
    """Why a node is hot or not, and each of its pods."""

    source: str
    policy: str
    inputs: str
    now: str
    node: str
    load: dict[str, float]
    after: dict[str, float]  # expected after the plan
    hot: bool
    because: tuple[str, ...]
    levels: dict[str, str]  # by resource: hot above and cool at
    score: float | None  # 0..100, the scheduler's own view for a plain pod
    uncounted: str  # why no landing counts on it; empty when one may
    unsolved: str  # why it stays hot after the plan
    pods: tuple[PodOnNode, ...]  # the largest share first
    api_version: str = API_VERSION
    kind: str = "NodeExplanation"


Explanation = PodExplanation | NodeExplanation | WorkloadExplanation
