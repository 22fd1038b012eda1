"""What an explanation is about: a pod or a node, found by name; a near miss is suggested."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass

from rebalancer.cluster.malformed import admitted
from rebalancer.cluster.snapshot import Snapshot
from rebalancer.errors import InputError

_SHAPE = "write pod/NAMESPACE/NAME or node/NAME"
_SUGGESTIONS = 3
_LIKE_ENOUGH = 0.6


@dataclass(frozen=True, slots=True)
class SubjectName:
    """What a pod or a node is called; the name of a pod may lack its namespace."""

    kind: str  # pod or node
    name: str


@dataclass(frozen=True, slots=True)
class Subject:
    """A row of the pod table or of the node table."""

    kind: str  # pod or node
    row: int


def parse_subject(text: str) -> SubjectName:
    """What ``pod/NAMESPACE/NAME``, ``pod/NAME`` or ``node/NAME`` asks for; InputError for anything else.

    Needs no cluster, so that a slip of the pen is found before one is read.
    """
    kind, _, name = text.partition("/")
    if name and ((kind == "node" and "/" not in name) or (kind == "pod" and name.count("/") <= 1)):
        return SubjectName(kind, name)
    if "/" not in text:
        meant = f"; did you mean node/{text[:100]}?" if admitted(text) else ""
    else:
        kinds = difflib.get_close_matches(kind, ("pod", "node"), n=1, cutoff=_LIKE_ENOUGH)
        meant = f"; did you mean {kinds[0]}/{name[:100]}?" if kinds and kinds[0] != kind and name else ""
    raise InputError(f"{text[:100]!a} names neither a pod nor a node", hint=_SHAPE + meant)


def find_subject(snapshot: Snapshot, wanted: SubjectName | str) -> Subject:
    """The pod or node of that name; a pod without a namespace will do where one namespace alone has it.

    Raises InputError with the nearest names.
    """
    wanted = parse_subject(wanted) if isinstance(wanted, str) else wanted
    if wanted.kind == "pod":
        return Subject("pod", _find_pod(snapshot, wanted.name))
    row = snapshot.nodes.row.get(wanted.name)
    if row is None:
        raise _no_such("node", wanted.name, snapshot.nodes.names, snapshot.source)
    return Subject("node", row)


def _find_pod(snapshot: Snapshot, name: str) -> int:
    pods = snapshot.pods
    if "/" not in name:
        found = [row for row, candidate in enumerate(pods.names) if candidate == name]
        if len(found) == 1:
            return found[0]
        if found:
            where = ", ".join(f"pod/{pods.full_name(row)}" for row in found[:_SUGGESTIONS])
            raise InputError(f"pod {name} exists in {len(found)} namespaces", hint=f"say which: {where}")
        names = [pods.full_name(row) for row in _nearest_rows(pods.names, name)]
        raise _no_such("pod", name, names, snapshot.source, cutoff=0.0)
    namespace, _, short = name.partition("/")
    row = pods.row.get((namespace, short))
    if row is not None:
        return row
    same = [row for row, candidate in enumerate(pods.names) if candidate == short]
    if same:
        names = [pods.full_name(row) for row in same]
        raise _no_such("pod", name, names, snapshot.source, cutoff=0.0)
    raise _no_such("pod", name, [pods.full_name(row) for row in range(len(pods))], snapshot.source)


def _nearest_rows(names: Iterable[str], name: str) -> list[int]:
    by_name: dict[str, int] = {}
    for row, candidate in enumerate(names):
        by_name.setdefault(candidate, row)
    near = difflib.get_close_matches(name, by_name, n=_SUGGESTIONS, cutoff=_LIKE_ENOUGH)
    return [by_name[candidate] for candidate in near]


def _no_such(
    kind: str, name: str, names: Iterable[str], source: str, cutoff: float = _LIKE_ENOUGH
) -> InputError:
    near = difflib.get_close_matches(name, list(names), n=_SUGGESTIONS, cutoff=cutoff)
    listed = " or ".join(f"{kind}/{candidate}" for candidate in near)
    every = "pods -A" if kind == "pod" else "nodes"
    hint = f"did you mean {listed}?" if listed else f"see what there is with: kubectl get {every}"
    return InputError(f"no {kind} {name[:100]!a}", where=source, hint=hint)
