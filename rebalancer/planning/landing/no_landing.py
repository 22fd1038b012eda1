"""Says why no node is feasible for a replacement."""

from __future__ import annotations

from collections import Counter

from rebalancer.counting import counted
from rebalancer.planning.landing.schedulers import ProfileSchedulers
from rebalancer.scheduling.framework.preemption import Preemption, Preemptions

_MAX_REASONS = 3
_MAX_VICTIMS = 2


class NoLanding:
    """Why no node is feasible for the pods of a class, on the cluster as it is before the plan."""

    def __init__(self, schedulers: ProfileSchedulers) -> None:
        self._schedulers = schedulers
        self._preemptions = Preemptions(schedulers.state)
        self._sentences: dict[int, str] = {}

    def why(self, pod_class: int) -> str:
        """Why no node is feasible for a class, and whether its pods would preempt others or stay Pending."""
        if pod_class not in self._sentences:
            preemption = self._preemptions.of(self._schedulers.scheduler(pod_class), pod_class)
            outcome = "it would stay Pending"
            if len(preemption.nodes):
                outcome = self._preempting(preemption)
            rejections = self._rejections(pod_class)
            self._sentences[pod_class] = f"no node is feasible for its replacement{rejections}: {outcome}"
        return self._sentences[pod_class]

    def _rejections(self, pod_class: int) -> str:
        """`` (2 Insufficient cpu, 1 …)``: how many nodes reject the class for which reason, most first."""
        scheduler = self._schedulers.scheduler(pod_class)
        nodes_by_reason: Counter[str] = Counter()
        for rejection in scheduler.rejections(self._schedulers.state, pod_class).values():
            reasons = rejection.split(": ", 1)[-1]  # without the plugin
            nodes_by_reason.update(reasons.split(", "))
        most_first = sorted(
            nodes_by_reason.items(), key=lambda reason_count: (-reason_count[1], reason_count[0])
        )
        if not most_first:
            return ""
        listed = ", ".join(f"{count} {reason}" for reason, count in most_first[:_MAX_REASONS])
        more = ", …" if len(most_first) > _MAX_REASONS else ""
        return f" ({listed}{more})"

    def _preempting(self, preemption: Preemption) -> str:
        """What the pod would preempt."""
        inputs = self._schedulers.inputs
        node = inputs.snapshot.nodes.names[int(preemption.nodes[0])]
        victims = ", ".join(inputs.snapshot.pods.full_name(pod) for pod in preemption.victims[:_MAX_VICTIMS])
        more = ", …" if len(preemption.victims) > _MAX_VICTIMS else ""
        where = counted(len(preemption.nodes), "node")
        return f"it would preempt pods of lower priority on {where}, e.g. on {node} {victims}{more}"
