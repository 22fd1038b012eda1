"""Where the next pod lands on a copy of the cluster, as the schedulers of a plan see it."""

from __future__ import annotations

from dataclasses import dataclass

from rebalancer.cluster.arrays import NodeRow
from rebalancer.planning.landing.distribution import LandingDistribution, mean_of
from rebalancer.planning.landing.schedulers import ProfileSchedulers
from rebalancer.scheduling import ClusterState

NO_POD = -1


@dataclass(frozen=True, slots=True, eq=False)
class NextLanding:
    """The nodes a pod may land on; or why it lands nowhere."""

    landings: LandingDistribution | None
    because: str = ""  # "Plugin: message" where the cycle fails; empty where nodes were merely rejected
    score_failure: str = ""  # why nodes could not be compared, though one is feasible

    @property
    def node(self) -> NodeRow | None:
        """The likeliest node; None when there is none."""
        return self.landings.likeliest() if self.landings is not None else None


def next_landing(
    schedulers: ProfileSchedulers, state: ClusterState, class_index: int, pod: int = NO_POD
) -> NextLanding:
    """Where a pod of a class lands on a state, which stays as it is; ``pod`` is its number if it has one.

    A scheduler whose figures may be older than ours counts as often as one whose figures are not.
    """
    placements = [scheduler.place(state, class_index, pod) for scheduler in schedulers.views(class_index)]
    failing = next((item for item in placements if not len(item.feasible) or not item.chance.any()), None)
    if failing is not None:
        return NextLanding(None, failing.rejected, failing.score_failure)
    return NextLanding(mean_of(placements, len(state.nodes)))
