"""Placements that were computed since the last move, so that pods of one kind on one node share them.

Two pods of a class that leave the same node leave the same cluster behind: their replacements land alike, and
only what they use differs. Nothing is kept across moves, which change the states.
"""

from __future__ import annotations

from collections.abc import Hashable

from rebalancer.scheduling import ClusterState, Placement

_MAX_CELLS = 1_000_000  # placements times nodes that are kept


class KnownPlacements:
    """By state and kind of eviction."""

    def __init__(self, nodes: int) -> None:
        self._most = max(_MAX_CELLS // max(nodes, 1), 1)
        # States are kept with what was placed in them, so that no other state can have the same id.
        self._found: dict[tuple[int, Hashable], tuple[ClusterState, list[Placement]]] = {}

    def get(self, state: ClusterState, kind: Hashable) -> list[Placement] | None:
        """The placements after such an eviction; None when they were not computed yet."""
        found = self._found.get((id(state), kind))
        return None if found is None else found[1]

    def keep(self, state: ClusterState, kind: Hashable, placements: list[Placement]) -> None:
        """Remember placements, and forget all others when there are too many."""
        if len(self._found) >= self._most:
            self._found.clear()
        self._found[id(state), kind] = state, placements

    def forget(self) -> None:
        """Forget all of them."""
        self._found.clear()
