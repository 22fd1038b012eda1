"""Reads a recorded cluster: what ``kubectl get … -o json`` and ``kubectl get --raw …`` print.

A file or a folder; of one kind a file or mixed in a ``List``; plain, gzip or zstd; also YAML, and what
``kubectl cluster-info dump`` writes. Beside the kinds stand
documents: the scheduler's configuration, load-watcher's answer, the state of earlier runs.

A file that is no list of objects is refused with what it is, such as a table or an error of kubectl:

    Error from server (Forbidden): pods is forbidden
    -> holds an error that kubectl printed: Error from server ... (write it with: kubectl get KIND -A -o json)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import msgspec

from rebalancer import files
from rebalancer.cluster import kinds as kinds_read
from rebalancer.cluster.dumps import streams
from rebalancer.cluster.dumps.cluster_info import (
    MADE_FOR_FEW,
    OF_MUST_GATHER,
    files_of_namespace,
    folders_of_namespaces,
    is_must_gather,
    is_stream,
    is_whole,
    is_whole_stream,
    lists_in_stream,
    plural_of,
)
from rebalancer.cluster.dumps.listing import (
    CONFIGURATIONS,
    NOT_IN_DUMP,
    Listing,
    ListingBuilder,
    PackedPodMetrics,
    Recording,
    collector_paused,
    key_of,
)
from rebalancer.cluster.dumps.yaml_documents import MAX_YAML_BYTES, WRITE_IT_WITH, documents_as_json
from rebalancer.cluster.kinds import BY_NAME, BY_PLURAL, KINDS, POD_METRICS, PODS, Kind
from rebalancer.cluster.malformed import Encoded
from rebalancer.cluster.records import Workload
from rebalancer.cluster.wire.json_items import Page, decode_page, header
from rebalancer.counting import counted
from rebalancer.errors import InputError

BYTE_ORDER_MARK = b"\xef\xbb\xbf"  # which some Windows programs write before UTF-8

_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
_ERROR = re.compile(rb"(?:Error from server|error:|Unable to connect|The connection to|No resources found)")
_TABLE = re.compile(rb"(?:NAMESPACE|NAME|LAST SEEN) {2,}[A-Z]|NAME[ \t]+[A-Z]")
_YAML = re.compile(rb"(?:---|#|[A-Za-z][A-Za-z0-9_.-]*:(?: |\r?\n))")
_BYTE = re.compile(r" \(byte (\d+)\)")
_TRAILING = "trailing characters"
_FIRST_BYTES = 4096
_MAX_QUOTED = 300


# What a file is by its first bytes, which have to match; after a colon comes the first line of the file.
_SIGNS: tuple[tuple[Callable[[bytes], object], str], ...] = (
    (lambda first: first.startswith(_UTF_16) or b"\0" in first[:2], "is UTF-16 text"),
    (lambda first: not first.strip(), "is empty"),
    (_ERROR.match, "holds an error that kubectl printed:"),
    (_TABLE.match, "is a table, as kubectl get prints it without -o json"),
    (lambda first: first.lstrip().startswith(b"<"), "is an HTML page"),
)


def _foreign(path: Path, first: bytes) -> InputError | None:
    """What the file is by its first bytes; None when it may be JSON."""
    head = first[:_FIRST_BYTES]
    for matches, message in _SIGNS:
        if matches(head):
            quoted = ""
            if message.endswith(":"):
                quoted = " " + head.splitlines()[0][:_MAX_QUOTED].decode("utf-8", "replace")
            return InputError(message + quoted, where=str(path), hint=WRITE_IT_WITH)
    return None


def _not_a_list(path: Path, page: Page, content: bytes) -> InputError:
    """Why JSON that is not a list of Kubernetes objects cannot be used."""
    kind = page.kind[:60]
    if kind == "Status":
        try:
            message = msgspec.json.decode(content, type=_Status).message
        except (ValueError, RecursionError):
            message = ""
        what = f"holds the API server's refusal, not a list: {message[:_MAX_QUOTED] or 'it does not say why'}"
    elif kind:
        what = f"holds one {kind}, not a list"
    else:
        what = "what has no kind is not a list of Kubernetes objects"
    return InputError(what, where=str(path), hint=WRITE_IT_WITH)


def _broken_json(path: Path, error: Exception, content: bytes) -> InputError:
    """Why JSON could not be decoded; ``content`` is all of it, where the error's position counts in it."""
    complaint, at = _position(error)
    where = str(path)
    if content and at >= 0:
        line = content.count(b"\n", 0, at) + 1
        column = at - content.rfind(b"\n", 0, at)
        where = f"{path}:{line}:{column}"
    return InputError(f"not JSON as kubectl writes it: {complaint}", where=where, hint="record it again")


def _check_json(path: Path, encoded: Encoded) -> None:
    """InputError unless one item of a list is JSON: else how many objects it stands for is not known."""
    try:
        msgspec.json.decode(encoded, type=msgspec.Raw)
    except RecursionError:
        return  # nested deeper than any object, but one item all the same
    except msgspec.DecodeError as error:
        complaint, _ = _position(error)
        raise InputError(
            f"an item is not JSON: {complaint}", where=str(path), hint="record it again"
        ) from error


def _position(error: Exception) -> tuple[str, int]:
    """What a decoder complains of, and at which byte; -1 where it does not say."""
    offset = _BYTE.search(str(error))
    complaint = _BYTE.sub("", str(error))
    if offset is None:
        return complaint, -1
    # Of trailing characters it counts the one that it did not expect.
    return complaint, int(offset[1]) - complaint.endswith(_TRAILING)


class _Status(msgspec.Struct, gc=False):
    message: str = ""


_MAX_DOCUMENT_BYTES = 64 << 20
_MAX_WHOLE_BYTES = 256 << 20  # of a list whose layout is not known, which is held in memory as a whole
_MAX_MALFORMED = 10_000  # objects of a kind; beyond it the file is something else than a dump
_MAX_FILES = 1000
_MAX_UNUSED_NAMED = 50  # kinds that are listed as not used
_FIRST_BLOCK = 1 << 20
_PRINTED_BESIDE = ("EventList",)  # which a cluster-info dump holds, and nobody reads
_YAML_ENDINGS = (".yaml", ".yml")
_WHAT_IS_READ = "name what snapshot save or kubectl get -A -o json wrote"
_STANDARD_INPUT = ("-", "/dev/stdin")  # a dump is read more than once
_DAMAGED = "the file is truncated or damaged; record it again"
DOCUMENTS = (
    *CONFIGURATIONS,
    "watcher.json",
    "prometheus.json",
    "state.json",
    "version.json",
    "observation.json",
    "recording.json",
)


def _stem(path: Path) -> str:
    """The plural that a file is named after."""
    return plural_of(_plain_name(path).rpartition(".")[0])


def _plain_name(path: Path) -> str:
    name = path.name
    for suffix in (".gz", ".zst"):
        name = name.removesuffix(suffix)
    return name


class DumpReader:
    """Reads a file or folder as if it were the cluster it was recorded from."""

    def __init__(self, path: Path, max_bytes: int | None = None) -> None:
        """``max_bytes`` is how much all files together may hold, unpacked; None means ``MAX_DUMP_BYTES``."""
        self._path = path
        self._max_bytes = max_bytes or streams.MAX_DUMP_BYTES

    def read(
        self, kinds: Iterable[Kind] = KINDS, progress: Callable[[str], None] = lambda _: None
    ) -> Recording:
        """Read the kinds the dump holds; those it does not hold are unread, not empty.

        Raises InputError when the path holds no list of Kubernetes objects at all.
        """
        collected = _Collected(streams.ByteAllowance(self._max_bytes))
        with collector_paused():
            files_of_dump = [*self._files(), *self._files_of_cluster_info(collected)]
            for number, path in enumerate(files_of_dump, 1):
                name = _plain_name(path)
                if name in DOCUMENTS:
                    content = streams.read_bytes(path, _MAX_DOCUMENT_BYTES, collected.allowance)
                    collected.documents[name] = content.removeprefix(BYTE_ORDER_MARK)
                elif name.endswith(_YAML_ENDINGS) and path != self._path:
                    progress(f"reading {name}, file {number} of {len(files_of_dump)}")
                    _read_yaml_beside_others(path, collected)
                else:
                    progress(f"reading {name}, file {number} of {len(files_of_dump)}")
                    _read_list(path, collected)
        if not collected.builders:
            is_of_others = self._path.is_dir() and is_must_gather(self._path)
            what = OF_MUST_GATHER if is_of_others else "no Kubernetes objects here"
            hint = "record a cluster with: rebalancer snapshot save PATH"
            raise InputError(what, where=str(self._path), hint=hint)
        kinds = tuple(kinds)
        plurals = {kind.plural for kind in kinds}
        listings = {
            plural: collected.builders[plural].listing()
            for plural in sorted(plurals & set(collected.builders))
        }
        missing = sorted(kind.plural for kind in kinds if kind.plural not in listings and not kind.optional)
        unread = {plural: collected.unusable.get(plural, NOT_IN_DUMP) for plural in missing}
        partial = {**_of_one_namespace(listings, collected.from_kubectl), **collected.of_two_versions}
        if collected.is_partial:
            with_namespaces = (_NAMESPACED | {PODS.plural}) & set(listings)
            partial |= dict.fromkeys(with_namespaces, MADE_FOR_FEW)
        listings = {plural: listing for plural, listing in listings.items() if plural not in partial}
        unread |= {plural: why for plural, why in partial.items() if plural in plurals}
        warnings = (*collected.warnings, *_of_other_pods(listings, collected.from_kubectl))
        return Recording(files.named(self._path), listings, unread, collected.documents, warnings)

    def _files(self) -> list[Path]:
        path = self._path
        try:
            if path.is_file():
                return [path]
            if not path.is_dir():
                what = "neither a file nor a folder" if path.exists() else "no such file or folder"
                hint = "write it to a file" if str(path) in _STANDARD_INPUT else _WHAT_IS_READ
                raise InputError(what, where=str(path), hint=hint)
            paths = sorted(
                entry
                for entry in path.iterdir()
                if entry.is_file()
                and not entry.name.startswith(".")
                and _plain_name(entry).endswith((".json", *_YAML_ENDINGS))
            )
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise InputError(f"cannot read: {reason}", where=str(path), hint=_WHAT_IS_READ) from error
        if len(paths) > _MAX_FILES:
            raise InputError(f"more than {_MAX_FILES} files", where=str(path), hint="is this a cluster dump?")
        return paths

    def _files_of_cluster_info(self, collected: _Collected) -> Iterator[Path]:
        """The files of namespaces, where the folder is what ``kubectl cluster-info dump`` writes."""
        if not self._path.is_dir():
            return
        folders = folders_of_namespaces(self._path)
        if not folders:
            return
        collected.is_partial |= not is_whole(folder.name for folder in folders)
        for folder in folders:
            yield from files_of_namespace(folder)


def _of_other_pods(listings: Mapping[str, Listing], from_kubectl: set[str]) -> Iterator[str]:
    """That the dump lacks most pods with figures, as a few come and go, or all of other namespaces."""
    pods = listings.get(PODS.plural)
    metrics = listings.get(POD_METRICS.plural)
    if pods is None or pods.pods is None:
        return
    columns = pods.pods.columns
    spaces = set(columns.texts("namespace"))
    alone = PODS.plural in from_kubectl and len(spaces) <= 1
    if metrics is None:
        if alone:
            yield from _without_pods(listings, spaces)
        return
    assert isinstance(metrics.records, PackedPodMetrics)
    there = set(zip(columns.texts("namespace"), columns.texts("name"), strict=True))
    of_others = [figure[:2] for figure in metrics.records.packed if figure[:2] not in there]
    elsewhere = alone and any(namespace not in spaces for namespace, _ in of_others)
    if elsewhere or 2 * len(of_others) > len(metrics):
        yield (
            f"{len(of_others):,} of {counted(len(metrics), 'pod')} with figures were not read, e.g. "
            f"{'/'.join(of_others[0])}: nodes look emptier than they are; {WRITE_IT_WITH}"
        )


def _without_pods(listings: Mapping[str, Listing], spaces: set[str]) -> Iterator[str]:
    """That a controller in another namespace than those of the pods has some."""
    for kind in kinds_read.WORKLOADS:
        for record in listings[kind.plural].records if kind.plural in listings else ():
            namespace, name = key_of(record)
            assert isinstance(record, Workload)
            if record.status.replicas > 0 and namespace not in spaces:
                count = counted(record.status.replicas, "pod")
                yield (
                    f"no pod of {namespace} was read, where {kind.name}/{name} has {count}: nodes look "
                    f"emptier than they are; {WRITE_IT_WITH}"
                )
                return


_NAMESPACED = {
    kind.plural
    for kind in (
        *kinds_read.WORKLOADS,
        kinds_read.DISRUPTION_BUDGETS,
        kinds_read.CLAIMS,
        kinds_read.CSI_CAPACITIES,
        kinds_read.SERVICES,
        kinds_read.HORIZONTAL_AUTOSCALERS,
        kinds_read.VERTICAL_AUTOSCALERS,
        kinds_read.RESOURCE_QUOTAS,
        kinds_read.LIMIT_RANGES,
        kinds_read.EVICTION_REQUESTS,
        kinds_read.EVICTIONS,
        kinds_read.CRON_JOBS,
    )
}


def _of_one_namespace(listings: Mapping[str, Listing], from_kubectl: set[str]) -> dict[str, str]:
    """Why kinds are not believed that kubectl listed without ``-A``: they have one namespace, or none.

    What they lack, others name. A kind that nobody names, such as budgets, is not believed beside one that is
    proven to lack some, unless it has objects of another namespace than that one has.
    """
    suspects: dict[str, set[str]] = {}
    for plural in sorted(_NAMESPACED & from_kubectl & set(listings)):
        listing = listings[plural]
        there = {entry.metadata.namespace for entry in listing.records}
        there.update(entry.namespace for entry in listing.malformed)
        if len(there) <= 1:
            suspects[plural] = there
    for plural, namespace, name in _named_by_others(listings):
        here = suspects.get(plural)
        if here is not None and namespace not in here:
            why = f"made without -A, as the {plural} lack {namespace}/{name}; {WRITE_IT_WITH}"
            return {other: why for other, there in suspects.items() if not here or there <= here}
    return {}


def _named_by_others(listings: Mapping[str, Listing]) -> Iterator[tuple[str, str, str]]:
    """The plural, namespace and name of what surely exists: owners, and the claims of pods on a node."""
    pods = listings.get(PODS.plural)
    replica_sets = listings.get(kinds_read.REPLICA_SETS.plural)
    if pods is not None and pods.pods is not None:
        columns = pods.pods.columns
        of_pods = columns.integers("pod_class")[: pods.pods.unfinished].tolist()
        bound = {number for number, node in zip(of_pods, columns.texts("node_name"), strict=False) if node}
        for pod_class in (pods.pods.classes[number] for number in sorted(bound)):
            owner = BY_NAME.get(pod_class.owner.kind)
            if owner is not None and owner.api_version == pod_class.owner.api_version:
                yield owner.plural, pod_class.namespace, pod_class.owner.name
            for volume in pod_class.spec.volumes or ():
                if volume.persistent_volume_claim is not None:
                    claim = volume.persistent_volume_claim.claim_name
                    yield kinds_read.CLAIMS.plural, pod_class.namespace, claim
    for record in replica_sets.records if replica_sets is not None else ():
        for reference in record.metadata.owner_references or ():
            if reference.kind == kinds_read.DEPLOYMENTS.name:
                yield kinds_read.DEPLOYMENTS.plural, record.metadata.namespace, reference.name


class _Collected(msgspec.Struct):
    """What the files of a dump held so far."""

    allowance: streams.ByteAllowance
    builders: dict[str, ListingBuilder] = {}
    documents: dict[str, bytes] = {}
    warnings: list[str] = []
    unusable: dict[str, str] = {}  # plural -> why the file of that name holds none
    of_two_versions: dict[str, str] = {}  # plural -> why its objects are not all that there are
    is_partial: bool = False  # a cluster-info dump of some namespaces only
    from_kubectl: set[str] = set()  # plurals from a ``List``, as kubectl get prints it of one namespace too

    def builder(self, path: Path, kind: Kind) -> ListingBuilder | None:
        """The builder of a kind, which from now on counts as read; None where it holds another version.

        ``kubectl get`` of two versions prints objects twice, and of two clusters not all of either: such a
        kind is not read.
        """
        builder = self.builders.setdefault(kind.plural, ListingBuilder(kind))
        if builder.kind == kind:
            return builder
        why = f"{path.name} holds a {kind.api_version} {kind.name} as well"
        self.of_two_versions.setdefault(kind.plural, why)
        return None


def _read_list(path: Path, collected: _Collected) -> None:
    """Read one file: item by item where its layout is known, else whole."""
    content = b""
    try:
        with streams.unpacked(path, collected.allowance) as stream:
            first = stream.read(_FIRST_BLOCK).removeprefix(BYTE_ORDER_MARK)
            if not first and stream.packed_size:
                raise InputError("unpacks to nothing", where=str(path), hint=_DAMAGED)
            refusal = _foreign(path, first)
            if refusal is not None:
                raise refusal
            layout_and_start = streams.layout_of(first)
            if _YAML.match(first):
                content = first + stream.read_up_to(max(MAX_YAML_BYTES - len(first), 0))
                _take_yaml(path, content, collected)
            elif layout_and_start is None:
                content = _whole(path, first, stream)
                if is_stream(content):
                    _take_stream(path, content, collected)
                else:
                    _take_page(path, decode_page(content), content, collected)
            else:
                layout, start = layout_and_start
                items = streams.split(layout, first[start:], stream.read)
                if layout.head:
                    _take_typed(path, decode_page(layout.head), items, collected)
                else:
                    _sort_mixed(path, items, collected)
    except InputError:
        raise
    except (ValueError, RecursionError) as error:
        raise _broken_json(path, error, content) from error


def _read_yaml_beside_others(path: Path, collected: _Collected) -> None:
    """Read a YAML file of a folder, which may be something else than a part of the dump."""
    unusable = dict(collected.unusable)
    try:
        _read_list(path, collected)
    except InputError as error:
        collected.warnings.append(f"{path.name}: not read: {error.args[0]}")
        collected.unusable = {**unusable, _stem(path): f"{path.name}: {error.args[0]}"}


def _take_yaml(path: Path, content: bytes, collected: _Collected) -> None:
    """Take the lists of a YAML file, and the objects where it holds several documents."""
    if len(content) > MAX_YAML_BYTES:
        raise InputError(
            f"is YAML, and larger than {MAX_YAML_BYTES >> 20} MiB", where=str(path), hint=WRITE_IT_WITH
        )
    documents = list(documents_as_json(content, path))
    if not documents:
        raise InputError("is empty", where=str(path), hint=WRITE_IT_WITH)
    objects: list[bytes] = []
    for document in documents:
        page = decode_page(document)
        if page.is_list or len(documents) == 1:
            _take_page(path, page, document, collected)
        else:
            objects.append(document)
    _sort_mixed(path, objects, collected)


def _take_stream(path: Path, content: bytes, collected: _Collected) -> None:
    """Take the lists that ``kubectl cluster-info dump`` prints one after the other."""
    lists_of_pods = 0
    for document in lists_in_stream(content):
        page = decode_page(document)
        lists_of_pods += page.kind == f"{PODS.name}List"
        if page.kind not in _PRINTED_BESIDE:
            _take_page(path, page, document, collected)
    collected.is_partial |= not is_whole_stream(lists_of_pods)


def _whole(path: Path, first: bytes, stream: streams.BoundedStream) -> bytes:
    """All of a list whose layout is not known; InputError when it is too large for that."""
    content = first + stream.read_up_to(max(_MAX_WHOLE_BYTES - len(first), 0))
    if len(content) > _MAX_WHOLE_BYTES:
        raise InputError(
            f"larger than {_MAX_WHOLE_BYTES >> 20} MiB, and not laid out as kubectl get -o json prints it",
            where=str(path),
            hint="write it with: kubectl get KIND -A -o json, or: rebalancer snapshot save",
        )
    return content


def _add(path: Path, builder: ListingBuilder, encoded: Encoded) -> None:
    """Add an item; InputError when one is not JSON, or so many cannot be read that it is no dump."""
    malformed = builder.malformed_count
    builder.add(encoded)
    if builder.malformed_count == malformed:
        return
    _check_json(path, encoded)
    if builder.malformed_count > _MAX_MALFORMED:
        raise InputError(
            f"more than {_MAX_MALFORMED} objects cannot be read",
            where=str(path),
            hint="is this a cluster dump?",
        )


def _take_page(path: Path, page: Page, content: bytes, collected: _Collected) -> None:
    if not page.is_list:
        raise _not_a_list(path, page, content)
    if page.kind == "List":
        _sort_mixed(path, page.items, collected)
        stem = _stem(path)
        if not page.items and stem in BY_PLURAL:
            collected.builder(path, BY_PLURAL[stem])  # the kind of an empty list is its file's name
            collected.from_kubectl.add(stem)
        return
    _take_typed(path, page, page.items, collected)


def _take_typed(path: Path, page: Page, items: Iterable[Encoded], collected: _Collected) -> None:
    """Take the items of a typed list, whose kind and version are those of the page."""
    kind = _kind_of(path, page, collected)
    builder = None if kind is None else collected.builder(path, kind)
    if builder is None:
        for _ in items:  # to its end, so that a truncated file is found out
            continue
        return
    builder.resource_version = page.resource_version
    for encoded in items:
        _add(path, builder, encoded)


def _kind_of(path: Path, page: Page, collected: _Collected) -> Kind | None:
    """The kind of a typed list; None, with a warning, when it is not used."""
    kind = BY_NAME.get(page.kind.removesuffix("List"))
    if kind is not None and page.api_version:
        kind = kind.in_version(page.api_version)
    if kind is None:
        collected.warnings.append(f"{path.name}: {page.api_version} {page.kind[:60]} is not used")
    stem = _stem(path)
    if kind is None or kind.plural != stem:
        collected.unusable[stem] = f"{path.name} holds a {page.api_version} {page.kind[:60]}"
    return kind


def _sort_mixed(path: Path, mixed: Iterable[Encoded], collected: _Collected) -> None:
    """Sort the items of a ``List`` by their own kind."""
    unused: set[str] = set()
    taken = set[str]()
    of_other_versions = dict[str, str]()
    strangers = 0
    for encoded in mixed:
        try:
            api_version, name = header(encoded)
        except (ValueError, RecursionError):
            _check_json(path, encoded)
            strangers += 1
            continue
        kind = BY_NAME.get(name)
        form = None if kind is None else kind.in_version(api_version)
        builder = None if form is None else collected.builder(path, form)
        if builder is not None:
            _add(path, builder, encoded)
            taken.add(builder.kind.plural)
            continue
        if len(unused) < _MAX_UNUSED_NAMED:
            unused.add(f"{api_version} {name}"[:80])
        if kind is not None and form is None and api_version.rpartition("/")[0] == kind.group:
            of_other_versions.setdefault(
                kind.plural, f"{path.name} holds a {api_version[:40]} {name} as well"
            )
    collected.from_kubectl |= taken
    collected.of_two_versions.update(
        {plural: why for plural, why in of_other_versions.items() if plural in taken}
    )
    if strangers:
        what = "an item that is not a Kubernetes object"
        what = what if strangers == 1 else f"{strangers} items that are not Kubernetes objects"
        collected.warnings.append(f"{path.name}: {what}")
    collected.warnings.extend(f"{path.name}: {name} is not used" for name in sorted(unused))
