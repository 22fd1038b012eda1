"""What differs between two decisions about a case, and where.

Scores of 0 count as absent: a plugin that is skipped for a pod adds nothing, and minors differ only in
whether they list it. The reasons of one rejection count as a set: the scheduler lists extended resources in
random order.

Where our decision is ``open``, the scheduler decides by what it alone knows: the nodes that pass there must
be among those that pass here, and nothing else is compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Decision = Mapping[str, Any]

ERROR = "error"
PRE_FILTER = "preFilter"
FILTER = "filter"
REASON = "reason"
SCORE = "score"
TOTAL = "total"
CHOSEN = "chosen"
OPEN = "open"


@dataclass(frozen=True)
class Difference:
    """One number or verdict that differs; ``kind`` and ``plugin`` say what has to be looked at."""

    pod: int
    kind: str
    plugin: str
    node: str
    expected: object
    decided: object

    @property
    def signature(self) -> tuple[str, str]:
        """What differs, whichever node and number show it."""
        return self.kind, self.plugin

    def __str__(self) -> str:
        where = " ".join(filter(None, (f"pod {self.pod}", self.node)))
        return f"{where}: {self.kind} {self.plugin}: expected {self.expected}, decided {self.decided}"


@dataclass(frozen=True)
class Comparison:
    """How many decisions of a case could be compared, how many are equal, and what differs in the others."""

    compared: int
    equal: int
    differences: tuple[Difference, ...]


def compare(expected: Mapping[str, Any], decided: Mapping[str, Any]) -> Comparison:
    """Compare two answers to one case, pod by pod, as long as both continue from the same placements."""
    compared = equal = 0
    found: list[Difference] = []
    for index, (right, ours) in enumerate(zip(expected["pods"], decided["pods"], strict=True)):
        differences = list(_differences(index, right, ours))
        compared += 1
        equal += not differences
        found += differences
        if right.get(CHOSEN) != ours.get(CHOSEN):
            break  # the next pods are decided on clusters that differ
    return Comparison(compared, equal, tuple(found))


def _differences(pod: int, expected: Decision, decided: Decision) -> Iterator[Difference]:
    for kind in (ERROR, PRE_FILTER):
        right, ours = expected.get(kind, ""), decided.get(kind, "")
        # The text of a failed cycle is the scheduler's own; that it fails is what counts.
        if bool(right) != bool(ours) or (kind == PRE_FILTER and right != ours):
            plugin = _plugin(right or ours) if kind == PRE_FILTER else ""
            yield Difference(pod, kind, plugin, "", right, ours)
            return
    if decided.get(OPEN):
        yield from _missing_nodes(pod, expected, decided)
        return
    for name in sorted({*expected["nodes"], *decided["nodes"]}):
        right, ours = expected["nodes"].get(name, {}), decided["nodes"].get(name, {})
        yield from _node_differences(pod, name, right, ours)
    if expected.get(CHOSEN) != decided.get(CHOSEN):
        yield Difference(pod, CHOSEN, "", "", expected.get(CHOSEN), decided.get(CHOSEN))


def _missing_nodes(pod: int, expected: Decision, decided: Decision) -> Iterator[Difference]:
    """The nodes that pass there and are rejected here."""
    for name, right in sorted(expected["nodes"].items()):
        rejection = decided["nodes"].get(name, {}).get(FILTER, "")
        if rejection and not right.get(FILTER):
            yield Difference(pod, FILTER, _plugin(rejection), name, "", rejection)


def _node_differences(pod: int, name: str, expected: Decision, decided: Decision) -> Iterator[Difference]:
    right, ours = expected.get(FILTER, ""), decided.get(FILTER, "")
    if _reasons(right) != _reasons(ours):
        kind = REASON if _plugin(right) == _plugin(ours) else FILTER
        yield Difference(pod, kind, _plugin(right or ours), name, right, ours)
        return
    theirs, own = expected.get("scores", {}), decided.get("scores", {})
    for plugin in sorted({*theirs, *own}):
        if theirs.get(plugin, 0) != own.get(plugin, 0):
            yield Difference(pod, SCORE, plugin, name, theirs.get(plugin, 0), own.get(plugin, 0))
    if expected.get(TOTAL) != decided.get(TOTAL):
        yield Difference(pod, TOTAL, "", name, expected.get(TOTAL), decided.get(TOTAL))


def _reasons(rejection: str) -> tuple[str, list[str]]:
    plugin, _, reasons = rejection.partition(": ")
    return plugin, sorted(reasons.split(", "))


def _plugin(reason: str) -> str:
    return reason.partition(":")[0]
