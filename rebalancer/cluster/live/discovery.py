"""Which kinds an API server serves, and in which versions, by its own documents.

A LIST that is answered with 404 proves nothing: a proxy before the API server answers so as well. What is
served stands in the documents of discovery, which are read once, and only where somebody asks:

    GET /apis                   policy: v1beta1; autoscaling: v1, v2beta1, v2beta2
    GET /apis/policy/v1beta1    poddisruptionbudgets
    GET /api/v1                 pods, ..., pods/eviction of policy/v1beta1

So budgets are read as ``policy/v1beta1``, and pods are evicted in that version. A kind that no document names
is not served, and has no objects. A kind that is named, and whose LIST is answered with 404 all the same, is
not read. Nor is one of a group that ``/apis`` leaves out, and by which pods are evicted: such a list is not
the whole of it, as one that somebody shortens on its way.
"""

from __future__ import annotations

import threading
from typing import TypeVar

import msgspec

from rebalancer.cluster.kinds import BY_PLURAL, Kind
from rebalancer.cluster.live import failures
from rebalancer.cluster.live.client import RawApi, kind_name
from rebalancer.errors import UnreachableError

_EVICTION = "pods/eviction"
_GROUPS = "APIGroupList"  # kinds of documents
_RESOURCES = "APIResourceList"


class NotServedError(failures.RequestRejectedError):
    """By its own documents the API server does not serve this, or in no version that rebalancer knows."""


class _Version(msgspec.Struct, frozen=True):
    version: str = ""


class _Group(msgspec.Struct, frozen=True):
    name: str = ""
    versions: list[_Version] = []

    @property
    def version_names(self) -> tuple[str, ...]:
        return tuple(version.version for version in self.versions)


class _Groups(msgspec.Struct, frozen=True):
    kind: str
    groups: list[_Group]


class _Resource(msgspec.Struct, frozen=True):
    name: str = ""
    group: str = ""
    version: str = ""


class _Resources(msgspec.Struct, frozen=True, rename="camel"):
    kind: str
    group_version: str
    resources: list[_Resource]


_Document = TypeVar("_Document", _Groups, _Resources)


class Discovery:
    """What one API server serves, as its documents said when they were first asked for."""

    def __init__(self, api: RawApi) -> None:
        """Nothing is read before it is asked for; each document is read once."""
        self._api = api
        self._groups: dict[str, tuple[str, ...]] | None = None  # versions by the name of the group
        self._resources: dict[str, dict[str, _Resource]] = {}  # by group and version, by name
        self._lock = threading.Lock()  # several kinds are read at the same time

    def form(self, kind: Kind) -> Kind | None:
        """The kind in the newest version that is served and that rebalancer reads; None where none is served.

        Raises NotServedError where only versions are served that rebalancer does not read, and
        UnreachableError or RightsError where it is not known which are.
        """
        with self._lock:
            served = [version for version in self._versions(kind.group) if self._lists(kind, version)]
        for form in BY_PLURAL.get(kind.plural, kind).forms:
            if form.version in served:
                return form
        if not served:
            return None
        only = f"serves {kind_name(kind)} as {', '.join(served)} alone, which rebalancer does not read"
        raise NotServedError(f"{self._server()} {only}", where=self._api.host)

    def not_served(self, kind: Kind) -> NotServedError:
        """The error for a kind that is needed, and of which ``form`` knows none."""
        return self._not_served(kind_name(kind))

    def eviction_version(self) -> str:
        """The group and version in which an Eviction is sent, e.g. ``policy/v1``.

        Raises NotServedError where pods cannot be evicted, UnreachableError or RightsError where that is not
        known.
        """
        with self._lock:
            row = self._resources_of("v1").get(_EVICTION)
        if row is None or not (row.group and row.version):
            raise self._not_served(_EVICTION)
        return f"{row.group}/{row.version}"

    def _not_served(self, what: str) -> NotServedError:
        return NotServedError(f"{self._server()} does not serve {what}", where=self._api.host)

    def _server(self) -> str:
        version = self._api.server_version()
        return f"API server {version}" if version else "the API server"

    def _lists(self, kind: Kind, version: str) -> bool:
        group_version = f"{kind.group}/{version}" if kind.group else version
        return kind.path_name in self._resources_of(group_version)

    def _versions(self, group: str) -> tuple[str, ...]:
        if not group:
            return ("v1",)
        if self._groups is None:
            answer = self._read("/apis", _Groups, _GROUPS)
            self._groups = {served.name: served.version_names for served in answer.groups}
        if group not in self._groups:
            evicted = self._resources_of("v1").get(_EVICTION)
            if evicted is not None and evicted.group == group:
                raise self._no_document("/apis", f"it lacks {group}, by which {_EVICTION} is served")
        return self._groups.get(group, ())

    def _resources_of(self, group_version: str) -> dict[str, _Resource]:
        if group_version not in self._resources:
            path = f"/apis/{group_version}" if "/" in group_version else f"/api/{group_version}"
            answer = self._read(path, _Resources, _RESOURCES)
            if answer.group_version != group_version:
                raise self._no_document(path, f"it is of {answer.group_version[:60]!a}")
            self._resources[group_version] = {row.name: row for row in answer.resources}
        return self._resources[group_version]

    def _read(self, path: str, shape: type[_Document], kind: str) -> _Document:
        body = self._api.get(f"read {path}", path)
        try:
            document = msgspec.json.decode(body, type=shape)
        except (ValueError, RecursionError) as error:
            raise self._no_document(path, str(error)[:200]) from error
        if document.kind != kind:
            raise self._no_document(path, f"it is {document.kind[:60]!a}")
        return document

    def _no_document(self, path: str, why: str) -> UnreachableError:
        return UnreachableError(
            f"read {path}: the answer does not say what is served: {why}",
            where=self._api.host,
            hint=failures.NO_API_SERVER,
        )
