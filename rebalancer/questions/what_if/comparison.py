"""Two scheduler configurations side by side: where the same pods land by either of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rebalancer.cluster.arrays import PodRow
from rebalancer.planning import PreparedInputs
from rebalancer.planning.plan import Landing
from rebalancer.planning.report import possible_landings
from rebalancer.questions.next_landing import next_landing, why_unpredictable
from rebalancer.questions.what_if.what_if_values import ComparedLanding, Comparison, PodFate

_OF_THEIR_NODE = frozenset({"DaemonSet", "Node"})
_SAME_CHANCE = 0.005  # chances that differ by less are the same
_MAX_WORKLOADS = 2000


def compare(
    ours: PreparedInputs,
    theirs: PreparedInputs,
    before: Sequence[PodFate] | None,
    after: Sequence[PodFate],
) -> Comparison:
    """The pods of a change, or without one the next pod of every workload, by both configurations."""
    one = _next_pods(ours) if before is None else _landings(before)
    other = _next_pods(theirs) if before is None else _landings(after)
    differing = tuple(
        ComparedLanding(pod=pod, before=one[pod], after=other[pod])
        for pod in one
        if pod in other and _differ(one[pod], other[pod])
    )
    return Comparison(
        configurations=(ours.inputs.configuration.source, theirs.inputs.configuration.source),
        compared=len(one.keys() & other.keys()),
        differing=differing,
    )


def _landings(fates: Sequence[PodFate]) -> Mapping[str, tuple[Landing, ...]]:
    return {item.pod: item.landings for item in fates}


def _next_pods(prepared: PreparedInputs) -> Mapping[str, tuple[Landing, ...]]:
    """By workload: where one more of its pods would land now; those that cannot be predicted are left out."""
    found: dict[str, tuple[Landing, ...]] = {}
    seen: set[str] = set()
    for row in map(PodRow, range(len(prepared.pods))):
        workload = prepared.eviction.workload(row)
        if workload.owner.kind in _OF_THEIR_NODE or not workload.owner.kind or workload.key in seen:
            continue
        seen.add(workload.key)
        replacement = prepared.eviction.replacement(row)
        class_index = int(replacement.class_index)
        if replacement.unpredictable_reason or why_unpredictable(prepared, class_index):
            continue
        landings = next_landing(prepared.schedulers, prepared.state, class_index).landings
        found[workload.key] = () if landings is None else possible_landings(prepared, landings)
        if len(found) == _MAX_WORKLOADS:
            break
    return found


def _differ(one: Sequence[Landing], other: Sequence[Landing]) -> bool:
    first = {item.node: item.probability for item in one}
    second = {item.node: item.probability for item in other}
    names = first.keys() | second.keys()
    return any(abs(first.get(name, 0.0) - second.get(name, 0.0)) > _SAME_CHANCE for name in names)
