"""What becomes of a replacement that no node admits, in words: it stays Pending, or preempts others."""

from __future__ import annotations

from collections import Counter

from rebalancer.planning.landing.schedulers import ProfileSchedulers
from rebalancer.scheduling.framework.cycle import Preemption, Preemptions

_MAX_REASONS = 3
_MAX_VICTIMS = 2


class NoLanding:
    """Finds the reason once for each class, for the cluster as it is before the plan."""

    def __init__(self, schedulers: ProfileSchedulers) -> None:
        self._schedulers = schedulers
        self._preemptions = Preemptions(schedulers.state)
        self._sentences: dict[int, str] = {}

    def why(self, class_index: int) -> str:
        """Why no node is feasible for a class, and what its pods would do."""
        if class_index not in self._sentences:
            scheduler = self._schedulers.scheduler(class_index)
            found = self._preemptions.of(scheduler, class_index)
            self._sentences[class_index] = (
                f"no node is feasible for its replacement{self._rejections(class_index)}: "
                + (self._preempting(found) if len(found.nodes) else "it would stay Pending")
            )
        return self._sentences[class_index]

    def _rejections(self, class_index: int) -> str:
        """`` (2 Insufficient cpu, 1 …)``, most frequent first, of the cluster before the plan."""
        scheduler = self._schedulers.scheduler(class_index)
        reasons = scheduler.rejections(self._schedulers.state, class_index).reasons.values()
        counts = Counter(reason.split(": ", 1)[-1] for reason in reasons)
        ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        listed = ", ".join(f"{count} {reason}" for reason, count in ordered[:_MAX_REASONS])
        more = ", …" if len(ordered) > _MAX_REASONS else ""
        return f" ({listed}{more})" if listed else ""

    def _preempting(self, found: Preemption) -> str:
        inputs = self._schedulers.inputs
        node = inputs.snapshot.nodes.names[int(found.nodes[0])]
        victims = ", ".join(inputs.snapshot.pods.full_name(pod) for pod in found.victims[:_MAX_VICTIMS])
        more = ", …" if len(found.victims) > _MAX_VICTIMS else ""
        where = "1 node" if len(found.nodes) == 1 else f"{len(found.nodes)} nodes"
        return f"it would preempt pods of lower priority on {where}, e.g. on {node} {victims}{more}"
