"""What ``kubectl cluster-info dump`` writes: a folder with one more for each namespace, or one stream.

    DIR/nodes.json                               --output-directory=DIR
    DIR/NAMESPACE/pods.json, events.json, …
    DIR/NAMESPACE/POD/logs.txt

    {"kind": "NodeList", …}                      without it: lists, and logs between two lines of their own
    ==== START logs for container main of pod shop/web-1 ====

Without ``--all-namespaces`` it holds two namespaces, and nodes look emptier than they are. Every cluster has
four namespaces from its first minute, so a dump of fewer is known not to be whole.

``oc adm must-gather`` and ``oc adm inspect`` write other folders, which hold some namespaces only: those of
OpenShift by default. The reader knows such a folder by its name and refuses it.

    DIR/IMAGE/cluster-scoped-resources/core/nodes/NAME.yaml
    DIR/IMAGE/namespaces/NAMESPACE/core/pods.yaml

Source: kubectl v0.35.4 pkg/cmd/clusterinfo/clusterinfo_dump.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from rebalancer import files
from rebalancer.cluster.kinds import BY_PLURAL

_NAMESPACES_OF_EVERY_CLUSTER = frozenset({"default", "kube-node-lease", "kube-public", "kube-system"})
_FOLDER_OF_MUST_GATHER = "cluster-scoped-resources"
_MAX_PLACES = 100
_START_OF_LOGS = b"==== START logs for container"
_END_OF_LOGS = b"==== END logs for container"
MADE_FOR_FEW = (
    "made without --all-namespaces; write it with: kubectl cluster-info dump --all-namespaces "
    "--output-directory=DIR"
)
"""Why kinds with namespaces are not believed of a dump that has not all of them."""
OF_MUST_GATHER = (
    "is of oc adm must-gather, which keeps some namespaces only: nodes would look emptier than they are"
)
"""Why such a folder is not read."""


def plural_of(stem: str) -> str:
    """The kind that a file is named after: the dump writes ``replication-controllers``."""
    return stem.replace("-", "")


def folders_of_namespaces(folder: Path) -> list[Path]:
    """The folders of namespaces in a dump, in order; none where a folder is no such dump."""
    if not _has_list(folder, "nodes"):
        return []
    with files.refusing("cannot read", folder):
        return sorted(entry for entry in folder.iterdir() if _has_list(entry, "pods"))


def _has_list(folder: Path, stem: str) -> bool:
    return any(files.may_exist(folder / f"{stem}.{ending}") for ending in ("json", "yaml"))


def files_of_namespace(folder: Path) -> Iterator[Path]:
    """The files of a namespace with lists that rebalancer reads."""
    with files.refusing("cannot read", folder):
        entries = sorted(folder.iterdir())
    for entry in entries:
        if entry.suffix in (".json", ".yaml") and plural_of(entry.stem) in BY_PLURAL:
            yield entry


def is_must_gather(folder: Path) -> bool:
    """Whether a folder, or one in it, is what ``oc adm must-gather`` writes."""
    with files.refusing("cannot read", folder):
        places = [folder, *sorted(folder.iterdir())[:_MAX_PLACES]]
    return any(files.may_exist(place / _FOLDER_OF_MUST_GATHER) for place in places)


def is_whole(namespaces: Iterable[str]) -> bool:
    """Whether a dump of these namespaces may be one of all."""
    return set(namespaces) >= _NAMESPACES_OF_EVERY_CLUSTER


def is_whole_stream(lists_of_pods: int) -> bool:
    """Whether a stream with so many lists of pods, one for each namespace, may be one of all."""
    return lists_of_pods >= len(_NAMESPACES_OF_EVERY_CLUSTER)


def is_stream(content: bytes) -> bool:
    """Whether a text is what the dump writes without a folder: one list after the other, and logs."""
    return content.startswith(b"{\n") and (b"\n}\n{\n" in content or _START_OF_LOGS in content)


def lists_in_stream(content: bytes) -> Iterator[bytes]:
    """The lists of such a text, without the logs between them."""
    lines: list[bytes] = []
    in_logs = False
    for line in content.splitlines(keepends=True):
        if line.startswith(_START_OF_LOGS):
            in_logs = True
        elif line.startswith(_END_OF_LOGS):
            in_logs = False
        elif not in_logs and (lines or line.startswith(b"{")):
            lines.append(line)
            if line.rstrip() == b"}":
                yield b"".join(lines)
                lines = []
    if lines:
        yield b"".join(lines)
