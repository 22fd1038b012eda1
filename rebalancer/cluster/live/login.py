"""Logins that are written down as they are used: certificates, a token, or a pod's own service account.

Most kubeconfigs hold nothing else, and neither does a pod. The official client knows every other login there
is, and needs half a second of processor time to be imported: longer than all that comes before the first
request otherwise. So a login that is plain is read here, and whatever is not is left to ``credentials``:

    users: [{user: {token: abc}}]                      read here
    users: [{user: {tokenFile: token}}]                read here, and again each minute, as kubectl does
    users: [{user: {exec: {command: aws, ...}}}]       None: left to the official client
    a file of certificates that is not there           None: it says what is wrong
"""

from __future__ import annotations

import base64
import contextlib
import json
import logging
import os
import ssl
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote
from urllib.request import getproxies

import urllib3
import yaml
from kubernetes import client, config
from kubernetes.config import kube_config
from urllib3.exceptions import HTTPError
from urllib3.util.ssl_ import create_urllib3_context

from rebalancer.errors import InputError, RightsError
from rebalancer.files import is_file

MAX_CONNECTIONS = 64  # that are kept: a watch a kind, and the requests beside them
_SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_TOKEN_SECONDS = (
    60.0  # a pod's token is renewed in its file; it is read again as often as the official client does
)
_MAX_CONFIG_BYTES = 1 << 20
_HEADERS = {"Accept-Encoding": "gzip", "User-Agent": "rebalancer"}
_CLUSTER = frozenset(
    {
        "server",
        "certificate-authority",
        "certificate-authority-data",
        "insecure-skip-tls-verify",
        "tls-server-name",
    }
)
_USER = frozenset(
    {"token", "tokenFile", "client-certificate", "client-certificate-data", "client-key", "client-key-data"}
)
_CONTEXT = frozenset({"cluster", "user", "namespace"})


@dataclass(frozen=True, slots=True)
class _Configuration:
    """Where requests go."""

    host: str
    verify_ssl: bool


@dataclass(frozen=True, slots=True)
class _Transport:
    pool_manager: urllib3.PoolManager


class PlainApi:
    """What is used of the official ``ApiClient``, for a login that is plain."""

    def __init__(
        self, host: str, pool: urllib3.PoolManager, token: Callable[[], str], *, verify: bool
    ) -> None:
        self.configuration = _Configuration(host, verify)
        self.rest_client = _Transport(pool)
        self._token = token

    def param_serialize(
        self,
        method: str,
        path: str,
        _path_parameters: None = None,
        query: Iterable[tuple[str, object]] = (),
        headers: Mapping[str, str] | None = None,
        body: object = None,
        auth_settings: object = None,  # noqa: ARG002 - there is one login
    ) -> tuple[str, str, dict[str, str], object, None]:
        """A request as it is sent: its method, URL, headers and body."""
        asked = "&".join(f"{name}={quote(_written(value))}" for name, value in query)
        token = self._token()
        login = {"authorization": f"Bearer {token}"} if token else {}
        url = f"{self.configuration.host}{path}{'?' if asked else ''}{asked}"
        return method, url, {**(headers or {}), **_HEADERS, **login}, body, None


def plain_login(kubeconfig: Path | None = None, context: str | None = None) -> PlainApi | None:
    """The API server that a plain login leads to; None where the official client has to look."""
    if getproxies():
        return None
    try:
        if kubeconfig is None and context is None:
            found = _service_account(os.environ, _SERVICE_ACCOUNT)
            if found is not None:
                return found
        path = str(kubeconfig or os.environ.get("KUBECONFIG") or Path("~/.kube/config").expanduser())
        return None if os.pathsep in path else _from_file(Path(path), context)
    except (OSError, ValueError, TypeError, LookupError, AttributeError, RecursionError, yaml.YAMLError):
        return None  # the official client says what is wrong


def _service_account(environment: Mapping[str, str], folder: Path) -> PlainApi | None:
    """The login of the pod that this program runs in; None outside one."""
    host, port = environment.get("KUBERNETES_SERVICE_HOST"), environment.get("KUBERNETES_SERVICE_PORT")
    if not host or not port:
        return None
    token_file, authority = folder / "token", folder / "ca.crt"
    address = f"https://[{host}]:{port}" if ":" in host or "%" in host else f"https://{host}:{port}"
    token = _FileToken(token_file)
    if not token():
        return None
    return PlainApi(
        address,
        _pool(**_protection({"certificate-authority": str(authority)}, {}, folder, insecure=False)),
        token,
        verify=True,
    )


class _FileToken:
    """A token in a file that somebody else renews."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._clock = clock
        self._read_at = -float("inf")
        self._token = ""

    def __call__(self) -> str:
        if self._clock() - self._read_at >= _TOKEN_SECONDS:
            try:
                self._token = self._path.read_text().strip() or self._token
            except OSError:
                if not self._token:
                    raise
            self._read_at = self._clock()
        return self._token


def _from_file(path: Path, context: str | None) -> PlainApi | None:
    """The login in a kubeconfig; None where anything in it is not plain, and an error where it is damaged."""
    if not is_file(path) or path.stat().st_size > _MAX_CONFIG_BYTES:
        return None
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    document = yaml.load(path.read_text(), loader)  # noqa: S506 - a safe loader
    chosen = _named(document, "contexts", context or document["current-context"], "context", _CONTEXT)
    cluster = _named(document, "clusters", chosen["cluster"], "cluster", _CLUSTER)
    user = _named(document, "users", chosen["user"], "user", _USER) if chosen.get("user") else {}
    host, insecure = cluster["server"].rstrip("/"), cluster.get("insecure-skip-tls-verify", False)
    token = _token(user, path.parent)
    if token is None or not isinstance(insecure, bool):
        return None
    if host.startswith("http://"):
        return PlainApi(host, _pool(), token, verify=not insecure)
    if not host.startswith("https://"):
        return None
    options = _protection(cluster, user, path.parent, insecure=insecure)
    if cluster.get("tls-server-name"):
        options["server_hostname"] = cluster["tls-server-name"]
    if insecure:  # the kubeconfig says so; urllib3 would repeat it at every request
        urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
        options["assert_hostname"] = False
    return PlainApi(host, _pool(**options), token, verify=not insecure)


def _token(user: Mapping[str, Any], folder: Path) -> Callable[[], str] | None:
    """What gives the user's token; None for one that is not plain."""
    token, file = user.get("token") or "", user.get("tokenFile")
    if not file:
        return (lambda: token) if isinstance(token, str) else None
    path = Path(folder, str(file))
    if token or not is_file(path) or path.stat().st_size > _MAX_CONFIG_BYTES:
        return None
    renewed = _FileToken(path)
    return renewed if renewed() else None


def _protection(
    cluster: Mapping[str, Any], user: Mapping[str, Any], folder: Path, *, insecure: bool
) -> dict[str, Any]:
    """How connections are protected, as options of a pool. ValueError or OSError for what cannot be used.

    What stands in files is read again for each connection, because somebody else may renew it.
    """
    authority = _content(cluster, "certificate-authority", folder)
    certificate, key = (_content(user, name, folder) for name in ("client-certificate", "client-key"))
    tls = _unverifying() if insecure else _verifying(authority.decode() if authority else None)
    if certificate or key:
        _present(tls, certificate + b"\n" + key)
    files = {
        option: str(Path(folder, str(entry[name])))
        for option, entry, name in (
            ("ca_certs", {} if insecure else cluster, "certificate-authority"),
            ("cert_file", user, "client-certificate"),
            ("key_file", user, "client-key"),
        )
        if entry.get(name) and not entry.get(f"{name}-data")
    }
    if not files or (certificate and not {"cert_file", "key_file"} <= set(files)):
        return {"ssl_context": tls, **{name: files[name] for name in ("ca_certs",) if name in files}}
    if authority and not insecure and "ca_certs" not in files:
        files["ca_cert_data"] = authority.decode()
    return {"cert_reqs": "CERT_NONE" if insecure else "CERT_REQUIRED", **files}


def _named(document: Any, section: str, name: object, part: str, plain: frozenset[str]) -> dict[str, Any]:
    """What stands under a name. ValueError where it is not there once, or holds what is not plain."""
    (found,) = [entry[part] or {} for entry in document[section] if entry["name"] == name]
    if not isinstance(found, dict) or set(found) - plain - {"extensions"}:
        raise ValueError(f"{section} {name!a} is not plain")
    return found


def _content(entry: Mapping[str, Any], name: str, folder: Path) -> bytes:
    """What a file holds that is named, or written in base64; empty where neither is. The data count first."""
    data, file = entry.get(f"{name}-data"), entry.get(name)
    if data:
        return base64.standard_b64decode(data)
    if not file:
        return b""
    path = Path(folder, str(file))
    if not is_file(path) or not 0 < path.stat().st_size <= _MAX_CONFIG_BYTES:
        raise ValueError(f"{path} holds no certificates")
    return path.read_bytes()


def _pool(**options: Any) -> urllib3.PoolManager:
    # The transport tries once: retries are ours, so that each is bounded and logged.
    return urllib3.PoolManager(retries=urllib3.Retry(total=0, redirect=0), maxsize=MAX_CONNECTIONS, **options)


def _verifying(authority: str | None) -> ssl.SSLContext:
    context: ssl.SSLContext = create_urllib3_context(cert_reqs=ssl.CERT_REQUIRED)
    context.check_hostname = True
    if authority is None:
        context.load_default_certs()
    else:
        context.load_verify_locations(cadata=authority)
    return context


def _unverifying() -> ssl.SSLContext:
    context: ssl.SSLContext = create_urllib3_context(cert_reqs=ssl.CERT_NONE)
    return context


def _present(context: ssl.SSLContext, certificate_and_key: bytes) -> None:
    """Let the context present a client certificate, which Python reads from a file only."""
    with tempfile.NamedTemporaryFile(prefix="rebalancer-") as file:  # readable by its owner alone
        file.write(certificate_and_key)
        file.flush()
        context.load_cert_chain(file.name, password=lambda: b"")


def _written(value: object) -> str:
    return json.dumps(value) if isinstance(value, bool) else str(value)


# Credentials for an API server: what a kubeconfig or a service account says, loaded by the official client.
#
# Its loader logs some failures instead of raising them, and raises a dozen types for the others; here each
# of
# them becomes one error that names the file.


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
