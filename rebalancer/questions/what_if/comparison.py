"""Two scheduler configurations side by side: where the same pods land by either of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rebalancer.cluster.arrays import PodRow
from rebalancer.planning import PreparedInputs
from rebalancer.planning.plan import Landing
from rebalancer.planning.report import possible_landings
from rebalancer.questions.next_landing import next_landing, why_nowhere, why_unpredictable
from rebalancer.questions.what_if.what_if_values import ComparedLanding, Comparison, Fate, PodFate

_OF_THEIR_NODE = frozenset({"DaemonSet", "Node"})
_BY_THE_SCHEDULER = frozenset({Fate.LANDS, Fate.PENDING, Fate.UNPREDICTABLE})  # not the others
_SAME_CHANCE = 0.005  # chances that differ by less are the same
_MAX_WORKLOADS = 2000


def compare(
    ours: PreparedInputs,
    theirs: PreparedInputs,
    before: Sequence[PodFate] | None,
    after: Sequence[PodFate],
) -> Comparison:
    """The pods of a change, or without one the next pod of every workload, by both configurations."""
    one = _next_pods(ours) if before is None else {item.pod: item for item in before}
    other = _next_pods(theirs) if before is None else {item.pod: item for item in after}
    pairs = [
        _compared(one[pod], other[pod])
        for pod in one
        if pod in other and {one[pod].fate, other[pod].fate} & _BY_THE_SCHEDULER
    ]
    known = [item for item in pairs if set(item.fates) != {Fate.UNPREDICTABLE}]
    return Comparison(
        configurations=(ours.inputs.configuration.source, theirs.inputs.configuration.source),
        compared=len(known),
        differing=tuple(item for item in known if _differ(item)),
        unknown=tuple(item for item in pairs if set(item.fates) == {Fate.UNPREDICTABLE}),
    )


def _compared(one: PodFate, other: PodFate) -> ComparedLanding:
    return ComparedLanding(
        pod=one.pod,
        before=one.landings,
        after=other.landings,
        fates=(one.fate, other.fate),
        because=(one.because, other.because),
    )


def _next_pods(prepared: PreparedInputs) -> Mapping[str, PodFate]:
    """By workload: where one more of its pods would land now, or why that is nowhere or not known."""
    found: dict[str, PodFate] = {}
    for row in map(PodRow, range(len(prepared.pods))):
        workload = prepared.eviction.workload(row)
        if workload.owner.kind in _OF_THEIR_NODE or not workload.owner.kind or workload.key in found:
            continue
        found[workload.key] = _next_pod(prepared, row, workload.key)
        if len(found) == _MAX_WORKLOADS:
            break
    return found


def _next_pod(prepared: PreparedInputs, row: PodRow, workload: str) -> PodFate:
    replacement = prepared.eviction.replacement(row)
    class_index = int(replacement.class_index)
    landings: tuple[Landing, ...] = ()
    because = replacement.unpredictable_reason or why_unpredictable(prepared, class_index)
    fate = Fate.UNPREDICTABLE
    if not because:
        found = next_landing(prepared.schedulers, prepared.state, class_index)
        if found.landings is None:
            fate, because = Fate.PENDING, why_nowhere(prepared, prepared.state, class_index, found)
        else:
            fate, landings = Fate.LANDS, possible_landings(prepared, found.landings)
    return PodFate(
        pod=workload, workload=workload, from_node="", fate=fate, landings=landings, because=because
    )


def _differ(item: ComparedLanding) -> bool:
    first = {landing.node: landing.probability for landing in item.before}
    second = {landing.node: landing.probability for landing in item.after}
    names = first.keys() | second.keys()
    chances = any(abs(first.get(name, 0.0) - second.get(name, 0.0)) > _SAME_CHANCE for name in names)
    return chances or item.fates[0] is not item.fates[1]
