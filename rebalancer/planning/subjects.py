"""What an explanation is about: a pod, a node or a workload, found by name; a near miss is suggested."""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec

from rebalancer.cluster.kinds import BY_NAME
from rebalancer.cluster.malformed import admitted
from rebalancer.errors import InputError

if TYPE_CHECKING:
    from rebalancer.cluster.snapshot import Snapshot

_SHAPE = "write pod/NAMESPACE/NAME, node/NAME or, for example, deployment/NAMESPACE/NAME"
# What kubectl calls the kinds, by the name they have here.
_KINDS = {
    "pod": ("pod", "pods", "po"),
    "node": ("node", "nodes", "no"),
    "Deployment": ("deployment", "deployments", "deploy", "deployment.apps", "deployments.apps"),
    "StatefulSet": ("statefulset", "statefulsets", "sts", "statefulset.apps", "statefulsets.apps"),
    "DaemonSet": ("daemonset", "daemonsets", "ds", "daemonset.apps", "daemonsets.apps"),
    "ReplicaSet": ("replicaset", "replicasets", "rs", "replicaset.apps", "replicasets.apps"),
    "Job": ("job", "jobs", "job.batch", "jobs.batch"),
}
_KIND_OF = {alias: kind for kind, aliases in _KINDS.items() for alias in aliases}
# What kubectl calls kinds that nothing is explained of: service/web is of no namespace service.
_OF_OTHERS = frozenset(
    [
        *("cj", "cronjob", "rc", "replicationcontroller", "hpa", "horizontalpodautoscaler", "pdb", "quota"),
        *("svc", "ep", "endpoints", "ing", "ingress", "netpol", "networkpolicy", "cm", "configmap", "secret"),
        *("ns", "namespace", "sa", "ev", "event", "limits", "pv", "pvc", "sc", "pc", "crd"),
    ]
)
_SUGGESTIONS = 3
_LIKE_ENOUGH = 0.6
_NAME_LIKE_ENOUGH = 0.65  # nope is not like node-6, wbe is like web


class SubjectName(msgspec.Struct, frozen=True):
    """What a pod, a node or a workload is called; only a node's name never has a namespace."""

    kind: str  # pod, node, or a workload's kind, such as Deployment; empty: any that has the name
    name: str


class Subject(msgspec.Struct, frozen=True):
    """A row of the pod table or of the node table, or a workload by its name."""

    kind: str  # pod, node, or a workload's kind
    row: int = -1
    namespace: str = ""  # of a workload
    name: str = ""


def parse_subject(
    text: str,
    namespace: str = "",
    likely: Sequence[str] = ("node", "pod", "deployment"),
    *,
    name_will_do: bool = False,
) -> SubjectName:
    """What ``pod/NAMESPACE/NAME``, ``pod/NAME``, ``node/NAME`` or ``deploy/NAMESPACE/NAME`` asks for.

    A name without a kind is refused, unless ``name_will_do``.

    Kinds may be written as kubectl writes them. ``namespace`` is that of a name without one, and ``likely``
    are the kinds to suggest for a name without a kind. Needs no cluster, so that a slip of the pen is found
    before one is read. Raises InputError for anything else.
    """
    alias, _, name = text.partition("/")
    kind = _KIND_OF.get(alias.lower(), "")
    if name and ((kind == "node" and "/" not in name) or (kind not in ("", "node") and name.count("/") <= 1)):
        if kind != "node" and namespace:
            return SubjectName(kind, _in_namespace(name, namespace))
        return SubjectName(kind, name)
    if name_will_do and not (kind or name) and admitted(text):
        return SubjectName("", f"{namespace}/{text}" if namespace else text)
    meant = "" if kind else _meant(alias, name, likely)
    raise InputError(f"{text[:100]!a} names neither a pod nor a node nor a workload", hint=_SHAPE + meant)


def _meant(alias: str, name: str, likely: Sequence[str]) -> str:
    """What was meant by a text without a known kind: one with another letter in it, or one left out."""
    near = difflib.get_close_matches(alias, _KIND_OF, n=1, cutoff=_LIKE_ENOUGH) if name else []
    if not near and admitted(alias) and (not name or admitted(name)):
        if name and (alias in _OF_OTHERS or alias.removesuffix("s").capitalize() in BY_NAME):
            return f"; of kinds there are {', '.join(aliases[0] for aliases in _KINDS.values())}"
        near = [f"{kind}/{alias}" if name else kind for kind in likely if not (name and kind == "node")]
    named = " or ".join(f"{begin}/{(name or alias)[:100]}" for begin in near)
    return f"; did you mean {named}?" if named else ""


def _in_namespace(name: str, namespace: str) -> str:
    given, slash, _ = name.partition("/")
    if slash and given != namespace:
        raise InputError(
            f"{name[:100]!a} is of namespace {given[:60]!a}, -n asks for {namespace[:60]!a}",
            hint="leave one of them out",
        )
    return name if slash else f"{namespace}/{name}"


def find_subject(snapshot: Snapshot, asked: SubjectName | str) -> Subject:
    """The pod, node or workload of that name; one without a namespace will do where one alone has it.

    Raises InputError with the nearest names.
    """
    asked = parse_subject(asked) if isinstance(asked, str) else asked
    if not asked.kind:
        return _find_of_any_kind(snapshot, asked.name)
    if asked.kind == "pod":
        return Subject("pod", _find_pod(snapshot, asked.name))
    if asked.kind != "node":
        return _find_workload(snapshot, asked)
    row = snapshot.nodes.row_of(asked.name)
    if row is None:
        raise _no_such("node", asked.name, snapshot.nodes.names, snapshot.source)
    return Subject("node", row)


def _find_of_any_kind(snapshot: Snapshot, name: str) -> Subject:
    """The only pod, node or workload of a name. InputError where there is none, or several."""
    subjects: dict[str, Subject] = {}
    refusals: list[InputError] = []
    for kind, aliases in _KINDS.items():
        own_name = name.rpartition("/")[2] if kind == "node" else name
        try:
            subjects[f"{aliases[0]}/{own_name}"] = find_subject(snapshot, SubjectName(kind, own_name))
        except InputError as refusal:
            refusals.append(refusal)
    if len(subjects) == 1:
        return next(iter(subjects.values()))
    if subjects:
        raise InputError(f"{name[:100]!a} names {' and '.join(subjects)}", hint="say which")
    # That a name is in several namespaces, or like another one, helps more than that a kind lacks it.
    raise next((refusal for refusal in refusals if "exists in" in str(refusal)), None) or next(
        (refusal for refusal in refusals if "did you mean" in str(refusal)),
        InputError(
            f"{name[:100]!a} names neither a pod nor a node nor a workload",
            where=snapshot.source,
            hint=_SHAPE,
        ),
    )


def _find_pod(snapshot: Snapshot, name: str) -> int:
    pods = snapshot.pods.with_finished
    if "/" not in name:
        rows = [row for row, candidate in enumerate(pods.names) if candidate == name]
        if len(rows) == 1:
            return rows[0]
        if rows:
            where = ", ".join(f"pod/{pods.full_name(row)}" for row in rows[:_SUGGESTIONS])
            raise InputError(f"pod {name} exists in {len(rows)} namespaces", hint=f"say which: {where}")
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


def _find_workload(snapshot: Snapshot, asked: SubjectName) -> Subject:
    """A workload that was read, or one that pods name as their controller: a DaemonSet is never read."""
    read = {
        (record.metadata.namespace or "", record.metadata.name)
        for kind, record in snapshot.workloads.values()
        if kind.name == asked.kind
    }
    named = {(pod.namespace, pod.owner.name) for pod in snapshot.pods.classes if pod.owner.kind == asked.kind}
    workloads = sorted(read | named)
    matching = [pair for pair in workloads if asked.name in ("/".join(pair), pair[1])]
    if len(matching) == 1:
        return Subject(asked.kind, namespace=matching[0][0], name=matching[0][1])
    kind = asked.kind.lower()
    if matching:
        where = ", ".join(f"{kind}/{'/'.join(pair)}" for pair in matching[:_SUGGESTIONS])
        raise InputError(
            f"{kind} {asked.name} exists in {len(matching)} namespaces", hint=f"say which: {where}"
        )
    if "/" not in asked.name:
        near = _nearest(asked.name, [name for _, name in workloads], _NAME_LIKE_ENOUGH)
        names = ["/".join(pair) for pair in workloads if pair[1] in near]
        raise _no_such(kind, asked.name, names, snapshot.source, cutoff=0.0)
    raise _no_such(kind, asked.name, ["/".join(pair) for pair in workloads], snapshot.source)


def _nearest_rows(names: Iterable[str], name: str) -> list[int]:
    by_name: dict[str, int] = {}
    for row, candidate in enumerate(names):
        by_name.setdefault(candidate, row)
    return [by_name[candidate] for candidate in _nearest(name, list(by_name), _LIKE_ENOUGH)]


def _nearest(name: str, names: Sequence[str], cutoff: float) -> list[str]:
    """The first names that begin as the one given, which may have been cut; else those most like it."""
    longer = [candidate for candidate in names if candidate.startswith(name)]
    return longer[:_SUGGESTIONS] or difflib.get_close_matches(name, names, n=_SUGGESTIONS, cutoff=cutoff)


def _no_such(
    kind: str, name: str, names: Iterable[str], source: str, cutoff: float = _NAME_LIKE_ENOUGH
) -> InputError:
    near = _nearest(name, list(names), cutoff)
    listed = " or ".join(f"{kind}/{candidate}" for candidate in near)
    every = "kubectl get nodes" if kind == "node" else f"kubectl get {kind}s -A"
    if "://" not in source:  # recorded: kubectl may speak to another cluster
        every = (
            f"rebalancer {'nodes' if kind == 'node' else 'explain node/NAME'} --from {shlex.quote(source)}"
        )
    hint = f"did you mean {listed}?" if listed else f"see what there is with: {every}"
    return InputError(f"no {kind} {name[:100]!a}", where=source, hint=hint)
