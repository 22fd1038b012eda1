"""The scheduler's feature gates: those the policy states, else those on its own command line.

Where the pod of the scheduler can be seen with its command line, a gate that is not on it is as the release
has it. Where it cannot, as with managed control planes, the others are not known.
"""

from __future__ import annotations

from rebalancer.cluster.records.pods import stated_gates
from rebalancer.cluster.snapshot import Snapshot
from rebalancer.pipeline.scheduler.scheduler_pods import is_seen, scheduler_pods
from rebalancer.policy import LoadedPolicy
from rebalancer.profiles.types import SchedulerConfiguration
from rebalancer.scheduling import FeatureGates

# These open many gates at once; which ones, only the release's source says.
_SWEEPING = frozenset({"AllAlpha", "AllBeta"})


def feature_gates(
    loaded: LoadedPolicy, snapshot: Snapshot, configuration: SchedulerConfiguration
) -> FeatureGates:
    """What is known of the gates; what the policy states goes before what is seen."""
    stated = loaded.policy.scheduler.feature_gates
    seen = gates_running(snapshot, configuration)
    if seen is None or _SWEEPING & {*seen, *stated}:
        return FeatureGates({**(seen or {}), **stated}, known=False)
    return FeatureGates({**seen, **stated}, known=True)


def gate_warnings(
    loaded: LoadedPolicy, snapshot: Snapshot, configuration: SchedulerConfiguration
) -> tuple[str, ...]:
    """A sentence for each gate that the policy states otherwise than the scheduler's command line."""
    seen = gates_running(snapshot, configuration) or {}
    stated = loaded.policy.scheduler.feature_gates
    return tuple(
        f"scheduler.featureGates says {name}: {_word(value)}, but the scheduler was started with {name}="
        f"{_word(seen[name])}; the policy is followed"
        for name, value in sorted(stated.items())
        if seen.get(name, value) != value
    )


def gates_running(snapshot: Snapshot, configuration: SchedulerConfiguration) -> dict[str, bool] | None:
    """The gates on the command lines of the schedulers' pods; None when not all are seen, or they differ."""
    if not is_seen(snapshot, configuration):
        return None
    found = [
        stated_gates(container.args or ()) if container.command else None
        for _, container in scheduler_pods(snapshot)
    ]
    return found[0] if found and all(item == found[0] for item in found) else None


def _word(value: bool) -> str:
    return "true" if value else "false"
