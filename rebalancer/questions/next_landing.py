"""Where the next pod lands on a copy of the cluster, as the schedulers of a plan see it."""

from __future__ import annotations

from collections import Counter

import msgspec

from rebalancer.cluster.arrays import NodeRow
from rebalancer.planning.explanation import RejectedNodes, grouped
from rebalancer.planning.landing.scenarios import LandingDistribution, mean_of
from rebalancer.planning.landing.schedulers import ProfileSchedulers
from rebalancer.planning.prepared import PreparedInputs
from rebalancer.scheduling.state.cluster_state import ClusterState

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
    failing = next((item for item in placements if not len(item.feasible) or not item.chance.any()), None)
    if failing is not None:
        return NextLanding(None, failing.rejected, failing.score_failure)
    return NextLanding(mean_of(placements, len(state.nodes)))


def why_unpredictable(prepared: PreparedInputs, pod_class: int) -> str:
    """Why pods of a class cannot be placed by the model; empty when they can."""
    name = prepared.pods.classes[pod_class].scheduler_name
    if name in prepared.schedulers.by_name:
        return prepared.eviction.unpredictable.get(pod_class, "")
    known = ", ".join(prepared.schedulers.by_name)
    return (
        f"schedulerName {name} is not in the scheduler's configuration, which has {known}; "
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
    for item in stopped:
        for reason in item.reason.split(_SEPARATOR, 1)[-1].split(", "):
            counts[reason] += item.count
    reasons = ", ".join(sorted(f"{count} {reason}" for reason, count in counts.items()))
    return f"0/{nodes} nodes are available: {rejected.split(_SEPARATOR, 1)[-1] or reasons}."
