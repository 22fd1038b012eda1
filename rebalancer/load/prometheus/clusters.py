"""Refuses figures of a Prometheus, Thanos or Mimir that holds several clusters and adds them up.

A preset's query sums over all series of a node's address, or of a pod's namespace and name. Two clusters may
share these, and so do two replicas of one Prometheus:

    node_memory_MemAvailable_bytes{instance="10.0.1.7:9100",cluster="north"}
    node_memory_MemAvailable_bytes{instance="10.0.1.7:9100",cluster="south"}   the same node's address

What tells them apart is a label, and which one no server says. It is seen in the series themselves, and the
error names it as the line of the policy that is missing.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from rebalancer.errors import InputError

_SCRAPE_SECONDS = 60.0  # two series that are scraped side by side are no further apart
_MAX_VALUES = 3

Labels = Mapping[str, str]


def refuse_doubled_nodes(source: str, series: Iterable[tuple[str, Labels, float]]) -> None:
    """Raise InputError where a node has several series at once, which a query would add up.

    ``series`` are the node, the labels and the time of the last sample of each. A series that ended before
    another of its node began is its predecessor, and adds nothing.
    """
    by_node: dict[str, list[tuple[Labels, float]]] = {}
    for node, labels, moment in series:
        by_node.setdefault(node, []).append((labels, moment))
    values_by_node: dict[str, dict[str, set[str]]] = {}
    doubled = ""
    for node, dated in by_node.items():
        newest = max(moment for _, moment in dated)
        current = [labels for labels, moment in dated if moment >= newest - _SCRAPE_SECONDS]
        values_by_node[node] = _values_by_label(current)
        if len(current) > 1 and not doubled:
            doubled = node
    if not doubled:
        return
    values = values_by_node[doubled]
    differing = [name for name, texts in values.items() if len(texts) > 1]
    if not differing:
        # No Prometheus answers so; what joins the answers of several without comparing them may.
        raise InputError(
            f"{source}: series of node {doubled} are answered several times with the same labels, and would "
            "be added up",
            hint="name one Prometheus as this source's address, or let the proxy of several deduplicate",
        )
    label = _likeliest(differing)
    # Where clusters share few addresses, most nodes of this one have its series alone.
    frequency = Counter[str]()
    for values_of_node in values_by_node.values():
        frequency.update(values_of_node.get(label, ()))
    shown = sorted(values[label], key=lambda text: (-frequency[text], text))
    raise _refusal(
        f"{source}: series of node {doubled} carry several values of {label}, {_quoted(shown)}, and would be "
        "added up",
        label,
        shown[0],
    )


def refuse_foreign_pods(source: str, own: Sequence[Labels], foreign: Sequence[Labels], place: str) -> None:
    """Raise InputError where the server knows pods of other clusters, whose names may be the same.

    ``own`` are the labels of series of pods on nodes of this cluster, ``foreign`` of all others; ``place`` is
    the label that names the node. A label tells clusters apart if it has one value on all series of this
    cluster, and another elsewhere. Series of a node that has just left share the label's value.
    """
    if not own or not foreign:
        return
    own_values = _values_by_label(own)
    foreign_values = _values_by_label(foreign)
    value_of: dict[str, str] = {}
    for label in (own_values.keys() | foreign_values.keys()) - {place, "instance", "node"}:
        values = own_values.get(label, {""})
        if len(values) == 1 and foreign_values.get(label, {""}) - values:
            value_of[label] = min(values)
    if not value_of:
        return
    label = _likeliest(value_of)
    others = sorted(foreign_values.get(label, {""}) - {value_of[label]})
    raise _refusal(
        f"{source}: {label} is {_quoted([value_of[label]])} on the series of this cluster's pods and "
        f"{_quoted(others)} on others, and pods of one namespace and name would be added up",
        label,
        value_of[label],
    )


def _values_by_label(series: Sequence[Labels]) -> dict[str, set[str]]:
    """Which values each label has; "" where a series lacks it."""
    names: set[str] = set().union(*series)
    values: dict[str, set[str]] = {name: set() for name in names}
    for labels in series:
        for name in names:
            values[name].add(labels.get(name, ""))
    return values


def _likeliest(labels: Iterable[str]) -> str:
    """The label that most likely names a cluster, or a replica."""
    return min(labels, key=lambda name: ("cluster" not in name.lower(), "replica" not in name.lower(), name))


def _quoted(values: Sequence[str]) -> str:
    """The first few values of a label."""
    shown = ", ".join(json.dumps(value[:100], ensure_ascii=False) for value in values[:_MAX_VALUES])
    if len(values) > _MAX_VALUES:
        shown += ", …"
    return shown


def _refusal(what: str, label: str, value: str) -> InputError:
    text = json.dumps(value[:100], ensure_ascii=False)
    return InputError(
        what,
        hint=f"add labels: {{{label}: {text}}} to this source of the policy, with this cluster's value",
    )
