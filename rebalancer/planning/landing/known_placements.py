"""Placements that were computed already, so that nothing is computed twice.

Two pods of a class that leave the same node leave the same cluster behind: their replacements land alike, and
only what they use differs. Neither does it matter which search asks, or in which order the moves before were
made, so searches that are compared share what they have in common, and so do courses of events in which
landings are the same.

What a search may cost is bounded by what it asks for, not by what had to be computed: otherwise the plan
would depend on which other searches were made before.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

from rebalancer.scheduling import ClusterState, Placement

_MAX_CELLS = 1_000_000  # placements times nodes that are kept


class KnownPlacements:
    """By what the state is like, and by the kind of eviction."""

    def __init__(self, nodes: int) -> None:
        self.asked = 0
        self.computed = 0
        self._most = max(_MAX_CELLS // max(nodes, 1), 1)
        self._found: dict[tuple[Hashable, Hashable], list[Placement]] = {}
        # States are kept with what was placed in them, so that no other state can have the same id.
        self._since_move: dict[tuple[int, Hashable], tuple[ClusterState, list[Placement]]] = {}

    def of(
        self, state: ClusterState, kind: Hashable, compute: Callable[[], list[Placement]]
    ) -> list[Placement]:
        """The placements after an eviction of this kind; the first time since a move they count as asked."""
        place = id(state), kind
        here = self._since_move.get(place)
        if here is not None:
            return here[1]
        found = self.shared(state, kind, compute)
        self.asked += len(found)
        if len(self._since_move) >= self._most:
            self._since_move.clear()
        self._since_move[place] = state, found
        return found

    def shared(
        self, state: ClusterState, kind: Hashable, compute: Callable[[], list[Placement]]
    ) -> list[Placement]:
        """The same, for a search that bounds what it asks for itself."""
        key = state.key, kind
        found = self._found.get(key)
        if found is None:
            found = compute()
            self.computed += len(found)
            if len(self._found) >= self._most:
                self._found.clear()
            self._found[key] = found
        return found

    def forget(self) -> None:
        """Forget which state had which placements: a move was made since."""
        self._since_move.clear()
