"""What a run achieved: the load of nodes before and after it, as measured and not as computed.

A figure is a mean or a peak over some time, so one that was taken just after a move still shows the load of
before. A node is judged once its figures hold nothing of the time before the last pod left it or came to it:

    12:00:05  web-1 is ready on n2, and gone from n1
    12:00:31  figures of 12:00:20 over 30 s, from 11:59:50 on: not yet
    12:01:02  figures of 12:00:50 over 30 s: n1 was at 89 %, is at 73 %

A run looks once at its end, and goes on looking for as long as ``execution.waitForMeasurement`` allows. What
is not known by then is said to be unknown, with the reason; a node that no pod left or came to is judged by
any fresh figure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set

import numpy as np
from msgspec.structs import replace

from rebalancer.cluster import times
from rebalancer.errors import RebalancerError
from rebalancer.execution.clock import RunClock
from rebalancer.execution.outcomes import Measured, NodeMeasured, Outcome
from rebalancer.planning.hotness import Hotness
from rebalancer.planning.inputs import PlanningInputs
from rebalancer.planning.plan import NodeReport, Plan, by_resource
from rebalancer.planning.prepared import hotness_of
from rebalancer.policy.hotness import UtilizationRule
from rebalancer.policy.policy_file import pressure_resources

_FIRST_PAUSE_SECONDS = 5.0  # between two looks
_LONGEST_PAUSE_SECONDS = 15.0


class Measurement:
    """Looks at the nodes of a run until their figures are from after its moves."""

    def __init__(
        self, inputs: PlanningInputs, plan: Plan, outcomes: Iterable[Outcome], clock: RunClock
    ) -> None:
        """``inputs`` are what the first plan of the run was made from, before they were prepared."""
        self._clock = clock
        made = [item for item in outcomes if item.evicted_at is not None]
        self._leaving = {item.move.pod.uid: item.move.from_node for item in made}
        self._terminating: Set[str] = frozenset()  # those of them that the last look found
        self._changed: dict[str, float] = {}  # by node, when a pod left it or came to it last
        for item in made:
            changed = item.ready_at or item.bound_at or item.evicted_at or 0.0
            for name in {item.move.from_node, item.node} - {""}:
                self._changed[name] = max(self._changed.get(name, 0.0), changed)
        percent = inputs.load.percent
        names = inputs.load.percent_resources
        row = inputs.snapshot.nodes.row
        nodes = [
            NodeMeasured(
                name=node.name,
                resource=_hottest(node),
                hot=node.hot,
                before=by_resource(names, percent[row[node.name]]),
                expected=node.after.load if node.after else {},
            )
            for node in plan.nodes
            if node.hot or node.name in self._changed
        ]
        nodes.sort(key=lambda node: (not node.hot, -node.before.get(node.resource, 0.0), node.name))
        self._found = Measured(at=clock.now(), nodes=tuple(nodes))

    def within(self, seconds: float, read: Callable[[], PlanningInputs]) -> Measured:
        """What is known at the end, and at most so many seconds later. ``read`` reads the load again."""
        began = self._clock.monotonic()
        if not self._looked(read) and seconds:
            self._clock.wait_until(
                lambda: self._looked(read),
                began + seconds,
                first_pause=_FIRST_PAUSE_SECONDS,
                longest_pause=_LONGEST_PAUSE_SECONDS,
            )
        return replace(self._found, waited_seconds=round(self._clock.monotonic() - began, 1))

    def _looked(self, read: Callable[[], PlanningInputs]) -> bool:
        """Whether everything is known now."""
        try:
            inputs = read()
            # Where few nodes are known, a mean over them may be so high that none is above it.
            alone = all(isinstance(rule, UtilizationRule) for rule in inputs.policy.hot_nodes.every_rule)
            _, hotness = hotness_of(replace(inputs, state=None, ignore_coverage=alone))
        except RebalancerError as error:
            because = f"the load could not be read: {error}"
            known = [item if item.after else replace(item, because=because) for item in self._found.nodes]
            self._found = replace(self._found, at=self._clock.now(), nodes=tuple(known))
            return False
        self._still_leaving(inputs)
        nodes = [self._judged(node, inputs, hotness) for node in self._found.nodes]
        self._found = replace(self._found, at=inputs.now, nodes=tuple(nodes))
        return all(node.after for node in nodes)

    def _still_leaving(self, inputs: PlanningInputs) -> None:
        """A pod that terminates still uses what it used: its node changes until the look that misses it."""
        there = self._leaving.keys() & set(inputs.snapshot.pods.uids)
        for uid in there | self._terminating:
            name = self._leaving[uid]
            self._changed[name] = max(self._changed[name], inputs.now)
        self._terminating = there

    def _judged(self, node: NodeMeasured, inputs: PlanningInputs, hotness: Hotness) -> NodeMeasured:
        load = inputs.load
        row = inputs.snapshot.nodes.row.get(node.name)
        if row is None or not load.known[row]:
            why = "the node is gone" if row is None else "it has no fresh load figure"
            return replace(node, after={}, hot_after=None, measured_at=None, because=why)
        known = ~np.isnan(load.usage[row])
        measured_at = load.measured_at[row][known]
        changed = self._changed.get(node.name)
        since = (measured_at - load.window_seconds[row][known]).min()
        if changed is not None and since < changed:
            taken = times.render(float(measured_at.min()))
            why = f"its figures, of {taken}, hold some of the time before its last move"
            return replace(node, after={}, hot_after=None, measured_at=None, because=why)
        after = by_resource(hotness.names, load.percent[row])
        unknown = [name for name in node.before if name not in after]
        if node.hot and not hotness.hot[row] and hotness.hot_at(np.array([row]), load.percent[[row]])[0]:
            pressure = load.pressure  # without which a node above its level is not hot
            named = pressure_resources(inputs.policy)
            missing = (name for name in named if name not in pressure or np.isnan(pressure[name][row]))
            unknown += [f"{name} pressure" for name in missing]
        if unknown:
            why = f"it has no fresh figure of {' and '.join(unknown)}"
            return replace(node, after={}, hot_after=None, measured_at=None, because=why)
        return replace(
            node,
            after=after,
            hot_after=bool(hotness.hot[row]),
            measured_at=float(measured_at.min()),
            source=load.sources[int(load.source[row, load.resources.index(node.resource)])]
            if node.resource in load.resources
            else "",
            because="",
        )


def _hottest(node: NodeReport) -> str:
    """The resource in which a node is furthest above the level of being hot, or least below it."""

    def above(resource: str) -> float:
        level = node.levels.get(resource)
        return node.load[resource] - (level.hot_above if level else 100.0)

    return max(node.load, key=above, default="cpu")
