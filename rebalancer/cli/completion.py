"""What a shell completes an option's or argument's value to: names of a cluster's objects, and of contexts.

Names come from the API server that the command would ask, or from the recording of ``--from``, and are kept
for a minute, because a shell asks at every press of the key. A completion may be late, but never in the way:
it ends after two seconds, shows at most 1,000 names, writes nothing to stderr, and any failure means that
there are no names. What is kept are names alone, in a file that only its owner reads:

    explain po<TAB>                 pod/shop/api-7d9f-01  pod/shop/api-7d9f-02
    explain node/<TAB>              node/node-1  node/node-2
    plan --context <TAB>            kind-dev  prod
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

from rebalancer import files
from rebalancer.deadlines import attended
from rebalancer.errors import RebalancerError

_SECONDS = 2.0
_KEPT_SECONDS = 60.0
_FORGOTTEN_SECONDS = 86_400.0
_MAX_NAMES = 1000
_MAX_CONFIG_BYTES = 1 << 20
_MAX_LIST_BYTES = 32 << 20  # of a recording
_METADATA_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
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

# A cluster, a kubeconfig or a recording that cannot be read in time, or that holds something else.
_UNANSWERED = (RebalancerError, OSError, ValueError, TypeError, LookupError, AttributeError, RecursionError)

Completer = Callable[[click.Context, click.Parameter, str], list[str]]


def _completer(found: Callable[[click.Context, str], list[str]]) -> Completer:
    """What click calls: the words that begin like the last one, and none after any failure."""

    def complete(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
        try:
            with _silence():
                words = attended(lambda: found(ctx, incomplete)).result(_SECONDS)
        except _UNANSWERED:
            return []
        return [word for word in words if word.startswith(incomplete) and _WORD.fullmatch(word)][:_MAX_NAMES]

    return complete


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Nothing is read from stdin or written to stderr meanwhile, by a login plugin neither."""
    kept = [os.dup(descriptor) for descriptor in (0, 2)]
    nowhere = os.open(os.devnull, os.O_RDWR)
    try:
        os.dup2(nowhere, 0)
        os.dup2(nowhere, 2)
        yield
    finally:
        for descriptor, old in zip((0, 2), kept, strict=True):
            os.dup2(old, descriptor)
        for descriptor in (*kept, nowhere):
            os.close(descriptor)


def _configured(section: str, ctx: click.Context) -> list[str]:
    """The names of a section of the kubeconfigs."""
    from rebalancer.documents import parse, read_text  # noqa: PLC0415 - not for --help

    paths = [path for path in _kubeconfigs(ctx) if files.is_file(path)]
    read: list[Any] = [parse(read_text(path, largest=_MAX_CONFIG_BYTES), str(path)).value for path in paths]
    return [str(entry["name"]) for document in read for entry in document[section]]


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
    return [f"{kind}/{found}" for kind, name in meant for found in _objects(ctx, name)]


def _objects(ctx: click.Context, kind: str) -> list[str]:
    """The names of a kind's objects; those of the namespace that was given stand without it."""
    found, namespace = _names(ctx, kind), ctx.params.get("namespace")
    if not namespace or kind == "Node":
        return found
    return [name.partition("/")[2] for name in found if name.startswith(f"{namespace}/")]


def _numbered(names: list[str]) -> list[str]:
    return [name if name.endswith("/") else f"{name}=" for name in names]


contexts = _completer(lambda ctx, _: _configured("contexts", ctx))
clusters = _completer(lambda ctx, _: _configured("clusters", ctx))
users = _completer(lambda ctx, _: _configured("users", ctx))
namespaces = _completer(lambda ctx, _: _names(ctx, "Namespace"))
nodes = _completer(lambda ctx, _: _names(ctx, "Node"))
subjects = _completer(_subjects)
numbered_nodes = _completer(lambda ctx, _: _numbered(_names(ctx, "Node")))
numbered_workloads = _completer(lambda ctx, typed: _numbered(_subjects(ctx, typed, _SCALED)))


def _kubeconfigs(ctx: click.Context) -> list[Path]:
    given = ctx.params.get("kubeconfig") or os.environ.get("KUBECONFIG") or "~/.kube/config"
    return [Path(path).expanduser() for path in str(given).split(os.pathsep)]


def _names(ctx: click.Context, kind: str) -> list[str]:
    """NAMESPACE/NAME or NAME of each object of a kind: recorded, kept from a moment ago, or listed now."""
    from rebalancer.cluster.kinds import BY_NAME  # noqa: PLC0415 - not for --help

    if (source := ctx.params.get("source")) is not None:
        from rebalancer.cluster.dumps.streams import read_bytes  # noqa: PLC0415 - not for --help

        (path,) = Path(source).glob(f"{BY_NAME[kind].plural}.json*")
        return _decoded(read_bytes(path, _MAX_LIST_BYTES))
    several = ctx.params.get("contexts") or (None,)
    context = ctx.params.get("context") or several[0]
    stats = [(path, path.stat().st_mtime_ns) for path in _kubeconfigs(ctx) if files.is_file(path)]
    given = {"cluster": "kube_cluster", "user": "kube_user", "acts_as": "acts_as", "groups": "as_groups"}
    identity = {field: found for field, name in given.items() if (found := ctx.params.get(name))}
    asked = repr((kind, context, identity, stats))  # all that decides whose names they are
    folder = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "rebalancer", "completion").expanduser()
    kept = folder / hashlib.sha256(asked.encode()).hexdigest()[:32]
    with contextlib.suppress(OSError):
        if 0 <= time.time() - kept.stat().st_mtime < _KEPT_SECONDS:
            return kept.read_text().splitlines()
    from rebalancer.cluster.live import open_api  # noqa: PLC0415 - not for --help

    api = open_api(ctx.params.get("kubeconfig"), context, _SECONDS, **identity).within(_SECONDS)
    accept = {"Accept": f"{_METADATA_ONLY},application/json"}
    found = _decoded(api.list_page(BY_NAME[kind], {"limit": _MAX_NAMES}, accept).body)
    with contextlib.suppress(OSError):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        files.replace(kept, "\n".join(found).encode())
        for path in folder.iterdir():
            if time.time() - path.stat().st_mtime > _FORGOTTEN_SECONDS:
                path.unlink()
    return found


def _decoded(body: bytes) -> list[str]:
    """Names of a list of objects: at most as many as are shown, none that a shell would run."""
    import msgspec  # noqa: PLC0415 - not for --help

    listed = [item["metadata"] for item in msgspec.json.decode(body)["items"][:_MAX_NAMES]]
    found = (
        f"{item['namespace']}/{item['name']}" if "namespace" in item else item["name"] for item in listed
    )
    return [name for name in found if _WORD.fullmatch(name)]
