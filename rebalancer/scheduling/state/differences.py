"""How a state differs from the one it began as: what makes two states the same to any pod that is placed.

Pods of one class on one node are alike to the scheduler, so it is their number that counts, not which pods
they are. Two searches that made the same moves in another order have states with one key, and so have two
courses of events in which landings happen to be the same.

    web-1 leaves a for b, api-2 leaves a for c      {(web, a): -1, (web, b): 1, (api, a): -1, (api, c): 1}
    api-2 leaves a for c, web-2 leaves a for b      the same
"""

from __future__ import annotations

from enum import IntEnum


class Kind(IntEnum):
    """What is counted of the pods of a class on a node."""

    LIVE = 0
    TERMINATING = 1
    BOUND_HERE = 2  # load-aware plugins tell these from the pods that their figures show


class Differences:
    """How many pods more than at the start each node has, by class and kind; fewer where negative."""

    def __init__(self) -> None:
        self._by_cell: dict[tuple[int, int, Kind], int] = {}
        self._key: frozenset[tuple[tuple[int, int, Kind], int]] | None = None

    def copy(self) -> Differences:
        """An independent copy."""
        other = Differences()
        other._by_cell, other._key = self._by_cell.copy(), self._key
        return other

    def count(self, class_index: int, node: int, kind: Kind, by: int) -> None:
        """Count pods in, or out where ``by`` is negative."""
        self._key = None
        cell = class_index, node, kind
        differs = self._by_cell.get(cell, 0) + by
        if differs:
            self._by_cell[cell] = differs
        else:
            del self._by_cell[cell]

    @property
    def key(self) -> frozenset[tuple[tuple[int, int, Kind], int]]:
        """Equal exactly where the differences are."""
        if self._key is None:
            self._key = frozenset(self._by_cell.items())
        return self._key
