"""What a shell completes an option's or argument's value to: contexts, kinds, and names of a recording.

Nothing is asked of a cluster for it: only files of this machine are read. At most 1,000 names are shown, and
a file that cannot be read, or that holds something else, means that there are none:

    plan --context <TAB>                            kind-dev  prod
    explain po<TAB>                                 pod/
    explain --from recorded node/<TAB>              node/node-1  node/node-2
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from rebalancer import files
from rebalancer.errors import RebalancerError

_MAX_NAMES = 1000
_MAX_CONFIG_BYTES = 1 << 20
_MAX_LIST_BYTES = 32 << 20  # of a recording
# What no shell takes for anything else than a word: names may come from anybody.
_WORD = re.compile(r"[\w@%+:,./=-]{1,600}", re.ASCII)
# The kinds that commands explain and scale, as kubectl writes them and by their name in the API.
_KINDS = {
    **dict.fromkeys(("pod", "po"), ("pod", "Pod")),
    **dict.fromkeys(("node", "no"), ("node", "Node")),
    **dict.fromkeys(("deployment", "deploy"), ("deployment", "Deployment")),
    **dict.fromkeys(("statefulset", "sts"), ("statefulset", "StatefulSet")),
    **dict.fromkeys(("daemonset", "ds"), ("daemonset", "DaemonSet")),
    **dict.fromkeys(("replicaset", "rs"), ("replicaset", "ReplicaSet")),
    "job": ("job", "Job"),
}
_SCALED = ("deployment", "statefulset", "replicaset")

# A kubeconfig or a recording that cannot be read, or that holds something else.
_UNANSWERED = (RebalancerError, OSError, ValueError, TypeError, LookupError, AttributeError, RecursionError)

Completer = Callable[[click.Context, click.Parameter, str], list[str]]


def _completer(candidates: Callable[[click.Context, str], list[str]]) -> Completer:
    """What click calls: the words that begin like the last one, and none after any failure."""

    def complete(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
        try:
            words = candidates(ctx, incomplete)
        except _UNANSWERED:
            return []
        return [word for word in words if word.startswith(incomplete) and _WORD.fullmatch(word)][:_MAX_NAMES]

    return complete


def _contexts(ctx: click.Context, _incomplete: str) -> list[str]:
    """The contexts of the kubeconfigs."""
    from rebalancer.documents import parse, read_text  # noqa: PLC0415 - not for --help

    given = ctx.params.get("kubeconfig") or os.environ.get("KUBECONFIG") or "~/.kube/config"
    names: list[str] = []
    for text in str(given).split(os.pathsep):
        path = Path(text).expanduser()
        if files.is_file(path):
            document: Any = parse(read_text(path, largest=_MAX_CONFIG_BYTES), str(path)).value
            names += [str(entry["name"]) for entry in document["contexts"]]
    return names


def _subjects(ctx: click.Context, incomplete: str, kinds: tuple[str, ...] = ()) -> list[str]:
    """The kinds that begin like this; once it can be one alone, what it holds. Also as KIND NAME."""
    words = ctx.params.get("subject") or ()
    if words:
        return _objects(ctx, _KINDS[words[0]][1])
    typed, slash, _ = incomplete.partition("/")
    meant = {
        (alias if slash else kind, name)
        for alias, (kind, name) in _KINDS.items()
        if (not kinds or kind in kinds) and (alias == typed if slash else alias.startswith(typed))
    }
    if len(meant) > 1:
        return sorted(f"{kind}/" for kind, _ in meant)
    (kind, name) = meant.pop() if meant else ("", "")
    names = _objects(ctx, name) if name else []
    return [f"{kind}/{name}" for name in names] or ([f"{kind}/"] if kind and not slash else [])


def _objects(ctx: click.Context, kind: str) -> list[str]:
    """The names of a kind's objects; those of the namespace that was given stand without it."""
    names = _names(ctx, kind)
    namespace = ctx.params.get("namespace")
    if not namespace or kind == "Node":
        return names
    return [name.partition("/")[2] for name in names if name.startswith(f"{namespace}/")]


def _numbered(names: list[str]) -> list[str]:
    return [name if name.endswith("/") else f"{name}=" for name in names]


contexts = _completer(_contexts)
namespaces = _completer(lambda ctx, _: _names(ctx, "Namespace"))
nodes = _completer(lambda ctx, _: _names(ctx, "Node"))
subjects = _completer(_subjects)
numbered_nodes = _completer(lambda ctx, _: _numbered(_names(ctx, "Node")))
numbered_workloads = _completer(lambda ctx, typed: _numbered(_subjects(ctx, typed, _SCALED)))


def _names(ctx: click.Context, kind: str) -> list[str]:
    """NAMESPACE/NAME or NAME of each object of a kind that a recording has; none of a live cluster."""
    from rebalancer.cluster.dumps.streams import read_bytes  # noqa: PLC0415 - not for --help
    from rebalancer.cluster.kinds import BY_NAME  # noqa: PLC0415

    source = ctx.params.get("source")
    if source is None:
        return []
    (path,) = Path(source).glob(f"{BY_NAME[kind].plural}.json*")
    return _decoded(read_bytes(path, _MAX_LIST_BYTES))


def _decoded(body: bytes) -> list[str]:
    """Names of a list of objects: at most as many as are shown, none that a shell would run."""
    import msgspec  # noqa: PLC0415 - not for --help

    listed = [metadata["metadata"] for metadata in msgspec.json.decode(body)["items"][:_MAX_NAMES]]
    names = (
        f"{metadata['namespace']}/{metadata['name']}" if "namespace" in metadata else metadata["name"]
        for metadata in listed
    )
    return [name for name in names if _WORD.fullmatch(name)]
