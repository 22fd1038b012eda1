"""What a watch shows of replacements: when it is worth to look, never what was found.

A wave asks the API server where its replacements are, again and again, until they are ready. Where pods are
watched, it asks once they have been seen there; what counts is the answer all the same. A watch that is
silent makes it ask late, and one that shows too much makes it ask in vain:

    evicted web-1     seen: web-1 gone, web-x on b      placed: the next pod of the wave may be evicted
                      seen: web-x ready                 done: the API server is asked, and decides
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, TypeAlias

from rebalancer.execution.verification.replacements import Evicted

if TYPE_CHECKING:
    from rebalancer.cluster.live.watching import SeenPod

PodsSeen: TypeAlias = "Callable[[str], Sequence[SeenPod] | None]"
"""The pods of the controller with this uid as a watch last showed them; None where it shows nothing."""


class Sightings:
    """The replacements of one wave as a watch shows them."""

    def __init__(self, pods_seen: PodsSeen, evicted: Sequence[Evicted], before: Collection[str]) -> None:
        """``before`` are the uids of the pods that existed before the wave."""
        self._pods_seen = pods_seen
        self._leaving = {item.move.pod.uid for item in evicted}
        self._known = self._leaving | set(before)
        self._expected = Counter(item.move.pod.controller_uid for item in evicted)
        self._last = evicted[-1].move.pod.controller_uid if evicted else ""

    def possible(self) -> bool:
        """Whether a watch shows the pods of all controllers."""
        return all(self._seen(uid) is not None for uid in self._expected)

    def placed(self) -> bool:
        """Whether the controller of the last evicted pod has as many new pods on nodes as were evicted."""
        new = [pod for pod in self._new(self._last) if pod.node_name]
        return len(new) >= self._expected[self._last] > 0

    def done(self) -> bool:
        """Whether all evicted pods have left and as many new ones are ready."""
        return all(
            sum(pod.ready for pod in self._new(uid)) >= count
            and not any(pod.uid in self._leaving for pod in self._seen(uid) or ())
            for uid, count in self._expected.items()
        )

    def _seen(self, uid: str) -> Sequence[SeenPod] | None:
        return self._pods_seen(uid) if uid else None

    def _new(self, uid: str) -> list[SeenPod]:
        return [pod for pod in self._seen(uid) or () if pod.uid not in self._known]
