"""Credentials for an API server: what a kubeconfig or a service account says, loaded by the official client.

Its loader logs some failures instead of raising them, and raises a dozen types for the others; here each of
them becomes one error that names the file.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import urllib3
import yaml
from kubernetes import client, config
from kubernetes.config import kube_config
from urllib3.exceptions import HTTPError

from rebalancer.cluster.live.plain_login import MAX_CONNECTIONS
from rebalancer.errors import InputError, RightsError
from rebalancer.files import is_file


def connect(kubeconfig: Path | None = None, context: str | None = None) -> client.ApiClient:
    """A client for the kubeconfig given, else the pod's service account, else the default kubeconfig.

    Raises InputError when there is none or it cannot be used.
    """
    settings = client.Configuration()
    where = str(kubeconfig) if kubeconfig else os.environ.get("KUBECONFIG") or "~/.kube/config"
    if kubeconfig is not None and not is_file(kubeconfig):
        raise InputError("no such kubeconfig", where=where, hint="is the path right?")
    try:
        if kubeconfig is None and context is None:
            with contextlib.suppress(config.ConfigException):
                config.load_incluster_config(client_configuration=settings)
                return _client(settings)
        if _impersonates(kubeconfig, context):
            raise InputError(
                "the kubeconfig's user acts as somebody else (as, as-uid, as-groups or as-user-extra), "
                "which is not supported",
                where=where,
                hint="choose a context whose user has the rights itself",
            )
        with _complaints() as complaints:
            config.load_kube_config(
                config_file=str(kubeconfig) if kubeconfig else None,
                context=context,
                client_configuration=settings,
            )
        if complaints:
            raise config.ConfigException(complaints[0])
        return _client(settings)
    except _UNUSABLE as error:
        unknown = _unknown_context(kubeconfig, context) if isinstance(error, config.ConfigException) else None
        if unknown is not None:
            message, hint = unknown
            raise InputError(message, where=where, hint=hint) from error
        raise InputError(
            f"no usable Kubernetes configuration: {_first_line(error)}", where=where, hint=_GIVE
        ) from error


def _impersonates(kubeconfig: Path | None, context: str | None) -> bool:
    """Whether the context's user acts as somebody else: the official client would not, and may do more."""
    try:
        merged = kube_config.KubeConfigMerger(_paths(kubeconfig)).config
        wanted = context or merged.value["current-context"]
        named = {
            part: {item.value["name"]: item.value[part[:-1]] for item in reversed(merged.value[part])}
            for part in ("contexts", "users")
        }
        user = named["users"][named["contexts"][wanted]["user"]]
        return any(user.get(name) for name in _IMPERSONATION)
    except _UNUSABLE:
        return False  # the official client says what is wrong


def _paths(kubeconfig: Path | None) -> str:
    return str(kubeconfig) if kubeconfig else str(kube_config.KUBE_CONFIG_DEFAULT_LOCATION)


def _unknown_context(kubeconfig: Path | None, context: str | None) -> tuple[str, str] | None:
    """What is wrong with the context, and which there are; None when it is something else that is wrong."""
    try:
        merged = kube_config.KubeConfigMerger(_paths(kubeconfig)).config
        if merged is None:
            return (
                "no usable Kubernetes configuration: no such file, and this is not a pod of a cluster",
                _GIVE,
            )
        names = sorted(str(item.value["name"]) for item in merged.value["contexts"])
        wanted = context or merged.value.get("current-context")
    except _UNUSABLE:
        return None
    if wanted in names:
        return None
    if not names:
        return "no usable Kubernetes configuration: it names no contexts", _GIVE
    listed = ", ".join(names[:_MAX_CONTEXTS_NAMED])
    more = len(names) - _MAX_CONTEXTS_NAMED
    listed = f"{listed} and {more} more" if more > 0 else listed
    if not wanted:
        return "names no current-context", f"give --context; there are: {listed}"
    return f"has no context {str(wanted)[:100]!a}", f"there are: {listed}"


_GIVE = "give --kubeconfig or KUBECONFIG, or read a recorded cluster with --from PATH"
_MAX_CONTEXTS_NAMED = 20
_IMPERSONATION = ("as", "as-uid", "as-groups", "as-user-extra")

# What the official loader raises for files that are damaged, incomplete or hold something else.
_UNUSABLE = (
    config.ConfigException,
    HTTPError,
    OSError,
    ValueError,
    TypeError,
    AttributeError,
    LookupError,
    RecursionError,
    yaml.YAMLError,
)


def _first_line(error: BaseException) -> str:
    """The complaint of a loader, without the pages that a login plugin or a YAML parser may add."""
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        mark = error.problem_mark
        return f"not YAML: {error.problem} in line {mark.line + 1}, column {mark.column + 1}"
    return " ".join(str(error).split())[:500] or type(error).__name__


@contextlib.contextmanager
def _complaints() -> Iterator[list[str]]:
    """Catch what the official loader logs instead of raising it: a login plugin that failed."""
    found: list[str] = []
    thread = threading.get_ident()

    def keep(record: logging.LogRecord) -> bool:
        if record.thread != thread or record.levelno < logging.ERROR:
            return True
        found.append(record.getMessage())
        return False

    root = logging.getLogger()  # the loader logs there directly; a logger's filter sees no other's records
    root.addFilter(keep)
    try:
        yield found
    finally:
        root.removeFilter(keep)


def _refreshing(settings: client.Configuration) -> None:
    """Report a failed credential refresh as one error instead of a log line followed by a 401."""
    renew = settings.refresh_api_key_hook
    if renew is None:
        return

    def renewed(current: client.Configuration) -> None:
        with _complaints() as complaints:
            renew(current)
        if complaints:
            raise RightsError(
                f"the login cannot be renewed: {' '.join(complaints[0].split())[:500]}",
                where=str(current.host),
                hint="the kubeconfig's exec plugin failed",
            )

    settings.refresh_api_key_hook = renewed


def _client(settings: client.Configuration) -> client.ApiClient:
    # The transport tries once: retries are ours, so that each is bounded and logged.
    settings.retries = urllib3.Retry(total=0, redirect=0)
    settings.connection_pool_maxsize = MAX_CONNECTIONS
    if not settings.verify_ssl:  # the kubeconfig says so; urllib3 would repeat it at every request
        urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
    _refreshing(settings)
    api = client.ApiClient(settings)
    api.set_default_header("Accept-Encoding", "gzip")
    api.user_agent = "rebalancer"
    return api
