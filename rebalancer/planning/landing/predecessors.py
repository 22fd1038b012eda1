"""What a pod that moves still does on its node while the scheduler places its replacement.

a StatefulSet          makes the replacement once the old pod is gone
a rolling update       makes it while the old pod serves, and counts in full
any other controller   makes it as the old pod begins to terminate; whether that is gone when the scheduler
                       comes to the replacement is a race
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum

from rebalancer.cluster.arrays import NodeRow, PodRow
from rebalancer.scheduling import ClusterState


class Predecessor(Enum):
    """The state of the old pod when its replacement is placed."""

    SERVES = "serves"
    TERMINATES = "terminates"
    GONE = "gone"


@contextmanager
def with_predecessor(
    state: ClusterState, row: PodRow, source: NodeRow, predecessor: Predecessor
) -> Iterator[None]:
    """The state while a pod of the node ``source`` is in this state; as it was when the block ends."""
    if predecessor is Predecessor.SERVES:
        yield
        return
    if predecessor is Predecessor.TERMINATES:
        state.evict(row)
    else:
        state.remove(row)
    try:
        yield
    finally:
        state.restore(row, source)
