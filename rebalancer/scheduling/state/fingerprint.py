"""How a state differs from the one it began as, in one number: equal where any pod would be placed alike.

Pods of one class on one node are alike to the scheduler, so it is their number that counts, not which pods
they are. Two searches that made the same moves in another order have states with one fingerprint, and so have
two courses of events in which landings happen to be the same.

    web-1 leaves a for b, api-2 leaves a for c      − (web, a) + (web, b) − (api, a) + (api, c)
    api-2 leaves a for c, web-2 leaves a for b      the same sum

Each class on a node stands for a random number of 128 bits, and a fingerprint is the sum of those: it costs
the same however many moves were made, and that two different states share one is as unlikely as that two
files share a digest.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b

# What is counted of the pods of a class on a node.
LIVE, TERMINATING = 0, 1
BOUND_HERE = 2  # load-aware plugins tell these from the pods that their figures show

_BYTES = 16
_MASK = (1 << 8 * _BYTES) - 1


@lru_cache(maxsize=1 << 16)
def _number(class_index: int, node: int, what: int) -> int:
    text = f"{class_index} {node} {what}".encode()
    return int.from_bytes(blake2b(text, digest_size=_BYTES).digest(), "big")


class Fingerprint:
    """The sum over all pods that came, less those that went."""

    __slots__ = ("value",)

    def __init__(self, value: int = 0) -> None:
        self.value = value

    def count(self, class_index: int, node: int, what: int, by: int) -> None:
        """Count pods in, or out where ``by`` is negative."""
        self.value = (self.value + by * _number(class_index, node, what)) & _MASK
