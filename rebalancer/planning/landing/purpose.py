"""What strategies ask of a landing: those whose moves it is for, and those whose work it might undo.

A strategy derives from both, and is imported with every policy that is read: so this imports no arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, ClassVar, Protocol

import msgspec

if TYPE_CHECKING:
    from rebalancer.cluster.arrays import BoolArray, FloatArray, IntArray, NodeRow, PodClassIndex, PodRow
    from rebalancer.planning.landing.scenarios import Scenarios
    from rebalancer.scheduling.framework.cycle import Placement
    from rebalancer.scheduling.state.cluster_state import ClusterState


class Landings(msgspec.Struct, frozen=True, eq=False):
    """The nodes on which the replacement of a pod may land, and what they would be like with it."""

    pod: PodRow
    source: NodeRow  # the node left
    rows: IntArray  # (nodes,)
    before: FloatArray  # (resources,) percent of the node left
    after: FloatArray  # (nodes, resources) percent of each node, with the replacement
    points: FloatArray  # (resources,) of the node left that go with the pod; NaN unknown
    state: ClusterState | None = None  # the cluster once the moves before are made; None in estimates
    placement: Placement | None = None  # the scheduler's feasible nodes and their scores; None in estimates
    replacement: PodClassIndex | None = None  # of the pod that comes back; None in estimates
    once_gone: Callable[[], Placement] | None = None  # the placement once the pod is gone, likewise


class Purpose:
    """What is asked of a landing beyond what holds for all of them: nothing, where it is not overridden."""

    own_node: ClassVar[bool] = False
    """Whether a new pod on the node that is left, as busy as that is, serves the purpose as well."""

    def objection(self, landings: Landings, at: int) -> str:
        """Why landing on one of the nodes does not help, in words that follow its name; "" where it does."""
        return ""

    def serves(self, landings: Landings) -> Sequence[bool] | BoolArray:
        """(nodes,) whether the pod is better off on each. Override it where all nodes can be told at once."""
        return [not self.objection(landings, at) for at in range(len(landings.rows))]

    def gains(self, landings: Landings) -> FloatArray | None:
        """(nodes, resources) points of load that are gained, inf where none are asked for; None: nowhere."""
        return None

    def settings_behind(self, landings: Landings, at: int) -> tuple[str, ...] | None:
        """The settings without which one of the nodes would serve; None where no setting would help."""
        return None if self.objection(landings, at) else ()


class MadeRoom(Protocol):
    """The room that a move makes on its node for what fits on none, and what becomes of it."""

    @property
    def classes(self) -> Collection[int]:
        """The classes of Pending pods that may take what a pod leaves."""

    def take(self, scenarios: Scenarios) -> None:
        """Let the Pending pod have it once it is there in every scenario: nobody else has it then."""

    def why_in_vain(self, scenarios: Scenarios) -> str:
        """Why it helps nobody, once all moves are made; empty where it does."""


class Peer:
    """A strategy of the policy, as far as moves of others are concerned."""

    name: ClassVar[str]
    """Its key under ``strategies`` of a policy, and ``strategy`` of its moves in plans and journals."""

    def spoils(self, landings: Landings) -> BoolArray | None:
        """(nodes,) where it would have to move the replacement on, or other pods because of it.

        None, as by default: nowhere. It is asked of every landing that is acceptable but for this, whoever
        moves the pod, so it should be quick to see that a pod does not concern it.
        """
        return None

    def spoiled(self, landings: Landings, at: int) -> str:
        """Why it would on one of those nodes, in words that follow the name of the node."""
        return "is no place to stay"
