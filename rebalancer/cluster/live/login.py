"""How we log in to an API server: what a kubeconfig or a pod's service account says.

Most kubeconfigs hold certificates or a token, and a pod has its service account. Such a plain login is read
here. Every other one, an exec plugin, OIDC, a proxy or several kubeconfigs, is loaded by the official client,
which knows them all and renews them. It takes half a second of processor time to import, more than all that
comes before the first request otherwise, so it is imported where it is needed:

    users: [{user: {token: abc}}]                      read here
    users: [{user: {tokenFile: token}}]                read here, and again each minute, as kubectl does
    users: [{user: {client-certificate: tls.crt}}]     read here, and again for each connection
    users: [{user: {exec: {command: aws, ...}}}]       loaded by the official client
    a file of certificates that is not there           loaded by the official client, which says what is wrong
    users: [{user: {as: admin}}]                       refused: the official client would not act as admin
"""

from __future__ import annotations

import base64
import contextlib
import logging
import os
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from urllib.request import getproxies

import msgspec
import urllib3
import yaml
from urllib3 import HTTPHeaderDict
from urllib3.exceptions import HTTPError
from urllib3.util.ssl_ import create_urllib3_context

from rebalancer.cluster.live.login_plugins import LoginPlugin, login_plugin_of
from rebalancer.documents import check_bounds, parse, read_text
from rebalancer.errors import InputError, RightsError
from rebalancer.files import is_file
from rebalancer.redaction import REDACTED, is_secret, without_secrets

if TYPE_CHECKING:
    from kubernetes import client

_NO_RETRIES = urllib3.Retry(total=0, redirect=0)  # each is ours, so that it is bounded and logged
_MAX_CONNECTIONS = 64  # that are kept: a watch a kind, and the requests beside them
_SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_TOKEN_SECONDS = 60.0  # a token in a file is read again as often as the official client reads it
_MAX_CONFIG_BYTES = 1 << 20
_MAX_LOADED_BYTES = 2 << 20  # of a kubeconfig that the official client loads, which takes seconds for one
_PLUGIN_SECONDS = 60.0  # for a login plugin: less than a request has, which may be what waits for it
_ASKING_SECONDS = 600.0  # for one that may ask who sits at the terminal
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
_IMPERSONATION = ("as", "as-uid", "as-groups", "as-user-extra")
_GIVE = "give --kubeconfig or KUBECONFIG, or read a recorded cluster with --from PATH"
_MAX_NAMES = 20  # of a kubeconfig, in an error
_MAX_NAME_CHARACTERS = 253
# What files raise that are damaged, incomplete or hold something else.
_UNUSABLE = (
    HTTPError,
    OSError,
    ValueError,
    TypeError,
    AttributeError,
    LookupError,
    RecursionError,
    yaml.YAMLError,
)


class Identity(msgspec.Struct, frozen=True):
    """As whom the API server is asked, where that is not what the kubeconfig's context says."""

    cluster: str | None = None  # the kubeconfig's cluster and user, instead of those of the context
    user: str | None = None
    acts_as: str | None = None  # whom the user impersonates, and in which groups
    groups: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Raise InputError for names that no header carries."""
        for name in (self.acts_as, *self.groups):
            if name is not None and not (name.isprintable() and name.isascii() and name.strip()):
                raise InputError(f"{name[:60]!a} cannot be the name of a user or a group")

    @property
    def headers(self) -> tuple[tuple[str, str], ...]:
        """What a request says of whom it acts as; a header for each group."""
        if self.acts_as is None:
            return ()
        return (("Impersonate-User", self.acts_as), *(("Impersonate-Group", name) for name in self.groups))

    def chosen(self, context: Mapping[str, Any]) -> dict[str, Any]:
        """A context with the cluster and the user that are asked for."""
        given = {"cluster": self.cluster, "user": self.user}
        return {**context, **{part: name for part, name in given.items() if name is not None}}


_AS_IT_SAYS = Identity()


class Login(msgspec.Struct, frozen=True):
    """Where an API server is, the connections to it, and who we are there."""

    host: str
    pool: urllib3.PoolManager
    verifies_certificates: bool = True
    # What a request says about who we are; renewed where it expires, which may take a while.
    headers: Callable[[], Mapping[str, str]] = dict
    name: str = ""  # what users call the cluster
    advice: str = ""  # how a person logs in again, where the kubeconfig's user has a program for it


def login(
    kubeconfig: Path | None = None, context: str | None = None, identity: Identity = _AS_IT_SAYS
) -> Login:
    """The login for the kubeconfig given, else the pod's service account, else the default kubeconfig.

    Raises InputError when there is none or it cannot be used.
    """
    plain = plain_login(kubeconfig, context, identity)
    if plain is not None:
        return plain
    api, plugin = _connected(kubeconfig, context, identity)
    advice = plugin.advice() if plugin is not None else ""
    return _acting_as(identity, msgspec.structs.replace(official_login(api), advice=advice))


def is_of_own_pod(
    kubeconfig: Path | None = None, context: str | None = None, identity: Identity = _AS_IT_SAYS
) -> bool:
    """Whether ``login`` is by the service account of the pod that this program runs in."""
    if kubeconfig is not None or context is not None or identity.cluster or identity.user:
        return False
    # Where one of these is missing, the login is by a kubeconfig, which may lead to any cluster.
    has_address = all(os.environ.get(f"KUBERNETES_SERVICE_{part}") for part in ("HOST", "PORT"))
    return has_address and all(_has_content(_SERVICE_ACCOUNT / name) for name in ("token", "ca.crt"))


def _has_content(path: Path) -> bool:
    try:
        return is_file(path) and path.stat().st_size > 0
    except OSError:
        return False


def current_context(kubeconfig: Path | None = None) -> str:
    """The context that a kubeconfig names for who gives none; empty where nothing can be read."""
    paths = str(kubeconfig or os.environ.get("KUBECONFIG") or Path("~/.kube/config").expanduser())
    for path in paths.split(os.pathsep):
        with contextlib.suppress(InputError, *_UNUSABLE):
            document = parse(read_text(path), path).value
            name = document.get("current-context") if isinstance(document, dict) else None
            if name:
                return str(name)
    return ""


def _acting_as(identity: Identity, login: Login) -> Login:
    """The login with what its requests say of whom they act as."""
    if not identity.headers:
        return login

    def headers() -> HTTPHeaderDict:
        everything = HTTPHeaderDict(login.headers())
        for name, value in identity.headers:
            everything.add(name, value)
        return everything

    return msgspec.structs.replace(login, headers=headers)


def plain_login(
    kubeconfig: Path | None = None, context: str | None = None, identity: Identity = _AS_IT_SAYS
) -> Login | None:
    """The API server that a plain login leads to; None where the official client has to look."""
    if getproxies():
        return None
    try:
        if kubeconfig is None and context is None and not (identity.cluster or identity.user):
            plain = _service_account(os.environ, _SERVICE_ACCOUNT)
            if plain is not None:
                return _acting_as(identity, plain)
        path = str(kubeconfig or os.environ.get("KUBECONFIG") or Path("~/.kube/config").expanduser())
        plain = None if os.pathsep in path else _from_file(Path(path), context, identity)
        return None if plain is None else _acting_as(identity, plain)
    except (InputError, *_UNUSABLE):
        return None  # the official client says what is wrong


def _service_account(environment: Mapping[str, str], folder: Path) -> Login | None:
    """The login of the pod that this program runs in; None outside one."""
    host = environment.get("KUBERNETES_SERVICE_HOST")
    port = environment.get("KUBERNETES_SERVICE_PORT")
    if not host or not port:
        return None
    token_file = folder / "token"
    authority = folder / "ca.crt"
    address = f"https://[{host}]:{port}" if ":" in host or "%" in host else f"https://{host}:{port}"
    token = _FileToken(token_file)
    if not token():
        return None
    return Login(
        address,
        _pool(**_protection({"certificate-authority": str(authority)}, {}, folder, insecure=False)),
        headers=_bearer(token),
    )


def _bearer(token: Callable[[], str]) -> Callable[[], Mapping[str, str]]:
    return lambda: {"authorization": f"Bearer {value}"} if (value := token()) else {}


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


def _from_file(path: Path, context: str | None, identity: Identity) -> Login | None:
    """The login in a kubeconfig; None where anything in it is not plain, and an error where it is damaged."""
    if not is_file(path):
        return None
    document = parse(read_text(path), str(path)).value
    chosen = _named(document, "contexts", context or document["current-context"], "context", _CONTEXT)
    chosen = identity.chosen(chosen)
    cluster = _named(document, "clusters", chosen["cluster"], "cluster", _CLUSTER)
    user = _named(document, "users", chosen["user"], "user", _USER) if chosen.get("user") else {}
    host = cluster["server"].rstrip("/")
    insecure = cluster.get("insecure-skip-tls-verify", False)
    token = _token(user, path.parent)
    if token is None or not isinstance(insecure, bool):
        return None
    if host.startswith("http://"):
        return Login(host, _pool(), not insecure, _bearer(token))
    if not host.startswith("https://"):
        return None
    options = _protection(cluster, user, path.parent, insecure=insecure)
    if cluster.get("tls-server-name"):
        options["server_hostname"] = cluster["tls-server-name"]
    if insecure:  # the kubeconfig says so; urllib3 would repeat it at every request
        urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
        options["assert_hostname"] = False
    return Login(host, _pool(**options), not insecure, _bearer(token))


def _token(user: Mapping[str, Any], folder: Path) -> Callable[[], str] | None:
    """What gives the user's token; None for one that is not plain."""
    token = user.get("token") or ""
    file = user.get("tokenFile")
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
    tls: ssl.SSLContext = create_urllib3_context(cert_reqs=ssl.CERT_NONE if insecure else ssl.CERT_REQUIRED)
    if not insecure:
        tls.check_hostname = True
        if authority:
            tls.load_verify_locations(cadata=authority.decode())
        else:
            tls.load_default_certs()
    if certificate or key:
        # Python reads a certificate to present from a file only; this one is readable by its owner alone.
        with tempfile.NamedTemporaryFile(prefix="rebalancer-") as file:
            file.write(certificate + b"\n" + key)
            file.flush()
            tls.load_cert_chain(file.name, password=lambda: b"")
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
    (settings,) = [entry[part] or {} for entry in document[section] if entry["name"] == name]
    if not isinstance(settings, dict) or set(settings) - plain - {"extensions"}:
        raise ValueError(f"{section} {name!a} is not plain")
    return settings


def _content(entry: Mapping[str, Any], name: str, folder: Path) -> bytes:
    """What a file holds that is named, or written in base64; empty where neither is. The data count first."""
    data = entry.get(f"{name}-data")
    file = entry.get(name)
    if data:
        return base64.standard_b64decode(data)
    if not file:
        return b""
    path = Path(folder, str(file))
    if not is_file(path) or not 0 < path.stat().st_size <= _MAX_CONFIG_BYTES:
        raise ValueError(f"{path} holds no certificates")
    return path.read_bytes()


def _pool(**options: Any) -> urllib3.PoolManager:
    return urllib3.PoolManager(retries=_NO_RETRIES, maxsize=_MAX_CONNECTIONS, **options)


# Logins that are not plain. The official client's loader logs some failures instead of raising them, and
# raises a dozen types for the others; here each of them becomes one error that names the file.


def official_login(api: client.ApiClient) -> Login:
    """The login that the official client has loaded, over its own connections."""
    settings = api.configuration

    def headers() -> dict[str, str]:
        header = settings.auth_settings().get("BearerToken", {}).get("value")  # renews what has expired
        return {"authorization": header} if header else {}

    return Login(str(settings.host), api.rest_client.pool_manager, bool(settings.verify_ssl), headers)


def connect(
    kubeconfig: Path | None = None, context: str | None = None, identity: Identity = _AS_IT_SAYS
) -> client.ApiClient:
    """The official client for the kubeconfig given, else the pod's service account, else the default one.

    Raises InputError when there is none or it cannot be used, RightsError when its exec plugin fails.
    """
    return _connected(kubeconfig, context, identity)[0]


def _connected(
    kubeconfig: Path | None, context: str | None, identity: Identity
) -> tuple[client.ApiClient, LoginPlugin | None]:
    """The official client, and the exec plugin that it logs in by."""
    from kubernetes import client, config  # noqa: PLC0415 - slow to import
    from kubernetes.config import exec_provider, kube_config  # noqa: PLC0415 - slow to import

    exec_provider.subprocess = SimpleNamespace(Popen=_Plugin, PIPE=subprocess.PIPE)
    settings = client.Configuration()
    merged = None
    plugin: LoginPlugin | None = None
    where = str(kubeconfig) if kubeconfig else os.environ.get("KUBECONFIG") or "~/.kube/config"
    if kubeconfig is not None and not is_file(kubeconfig):
        raise InputError("no such kubeconfig", where=where, hint="is the path right?")
    _check_bounds(where.split(os.pathsep))
    try:
        if kubeconfig is None and context is None and not (identity.cluster or identity.user):
            with contextlib.suppress(config.ConfigException):
                config.load_incluster_config(client_configuration=settings)
                return _client(settings, None), None
        # Read once: the official client parses YAML in Python, some seconds for a large file.
        merged = kube_config.KubeConfigMerger(where)
        if merged.config is None:
            raise config.ConfigException("no configuration found")
        if identity.cluster or identity.user:
            _choose(merged.config.value, context, identity)
        if _impersonates(merged.config.value, context):
            raise InputError(
                "the kubeconfig's user acts as somebody else (as, as-uid, as-groups or as-user-extra), "
                "which is not supported",
                where=where,
                hint="choose a context whose user has the rights itself, or give --as",
            )
        plugin = _plugin_of(merged.config.value, context)
        with _complaints() as complaints:
            kube_config.KubeConfigLoader(
                config_dict=merged.config,
                config_base_path=None,
                active_context=context,
                config_persister=merged.save_changes,
            ).load_and_set(settings)
        if complaints and plugin is not None:
            raise _failed_plugin(plugin, complaints[0], where)
        if complaints:
            raise config.ConfigException(complaints[0])
        return _client(settings, plugin), plugin
    except config.ConfigException as error:
        message, hint = _unknown_context(merged, context) or (_unusable(error), _GIVE)
        raise InputError(message, where=where, hint=hint) from error
    except _UNUSABLE as error:
        raise InputError(_unusable(error), where=where, hint=_GIVE) from error


class _Plugin(subprocess.Popen[str]):
    """A login plugin. The official client waits for it without end, also when it renews a login."""

    def communicate(self, *_: Any, **__: Any) -> tuple[str, str]:
        """What it wrote. Raises TimeoutError, and then it has ended."""
        seconds = _ASKING_SECONDS if sys.stdout.isatty() else _PLUGIN_SECONDS
        with self:  # which closes its pipes
            try:
                return super().communicate(timeout=seconds)
            except subprocess.TimeoutExpired:
                self.kill()
                raise TimeoutError(f"exec: the plugin did not end within {seconds:g} s") from None


def _check_bounds(paths: Iterable[str]) -> None:
    """InputError for a kubeconfig that would keep the official client's YAML parser busy, or end it."""
    for path in paths:
        if not is_file(file := Path(path).expanduser()):
            continue
        try:
            check_bounds(read_text(file, largest=_MAX_LOADED_BYTES), path)
        except InputError as error:
            message = f"no usable Kubernetes configuration: {error.message}"
            raise InputError(message, where=path, hint=_GIVE) from error


def _client(settings: client.Configuration, plugin: LoginPlugin | None) -> client.ApiClient:
    from kubernetes import client  # noqa: PLC0415 - slow to import

    settings.retries = _NO_RETRIES
    settings.connection_pool_maxsize = _MAX_CONNECTIONS
    if not settings.verify_ssl:  # the kubeconfig says so; urllib3 would repeat it at every request
        urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
    if settings.refresh_api_key_hook is not None:
        settings.refresh_api_key_hook = _renewing(settings.refresh_api_key_hook, plugin)
    return client.ApiClient(settings)


def _renewing(
    renew: Callable[[client.Configuration], None], plugin: LoginPlugin | None
) -> Callable[[client.Configuration], None]:
    """Report a login that cannot be renewed as one error, instead of a log line followed by a 401."""

    def renewed(current: client.Configuration) -> None:
        with _complaints() as complaints:
            renew(current)
        if complaints and plugin is not None:
            raise _failed_plugin(plugin, complaints[0], str(current.host))
        if complaints:
            raise RightsError(
                f"the login cannot be renewed: {_in_short(complaints[0])}",
                where=str(current.host),
                hint="log in again",
            )

    return renewed


def _plugin_of(document: Any, context: str | None) -> LoginPlugin | None:
    """The exec plugin of the context's user; None where there is none, or the kubeconfig is damaged."""
    with contextlib.suppress(*_UNUSABLE):  # the official client says what is wrong
        contexts = _by_name(document["contexts"], "context")
        users = _by_name(document["users"], "user")
        return login_plugin_of(users[contexts[context or document["current-context"]]["user"]])
    return None


def _failed_plugin(plugin: LoginPlugin, complaint: str, where: str) -> RightsError:
    """The error of an exec plugin that is not there, or gave no login."""
    if "No such file or directory" in complaint and plugin.command in complaint:
        message = f"the login needs the program {plugin.program[:100]!a}, which is not here"
        return RightsError(message, where=where, hint=plugin.missing())
    complaint_in_short = _in_short(complaint.removeprefix("exec: "))
    message = f"the login by {plugin.program[:100]} failed: {complaint_in_short}"
    return RightsError(message, where=where, hint=plugin.advice())


def _choose(document: Any, context: str | None, identity: Identity) -> None:
    """Let the context have the cluster and the user that are asked for. InputError for one not there."""
    for part in ("cluster", "user"):
        name = getattr(identity, part)
        names = sorted(str(entry.value["name"]) for entry in document.get(f"{part}s") or ())
        if name is not None and name not in names:
            raise InputError(f"the kubeconfig has no {part} {name[:100]!a}", hint=_alternatives(names))
    context_name = context or document.get("current-context")
    for entry in document.get("contexts") or ():
        if entry.value["name"] == context_name:
            entry.value["context"] = identity.chosen(entry.value["context"])


def _by_name(entries: Any, field: str) -> dict[str, Any]:
    """What a list of the kubeconfig holds in a field, by name; of several of one name the first counts."""
    return {entry.value["name"]: entry.value[field] for entry in reversed(entries)}


def _impersonates(document: Any, context: str | None) -> bool:
    """Whether the context's user acts as somebody else: the official client would not, and may do more."""
    with contextlib.suppress(*_UNUSABLE):  # the official client says what is wrong
        contexts = _by_name(document["contexts"], "context")
        users = _by_name(document["users"], "user")
        user = users[contexts[context or document["current-context"]]["user"]]
        return any(user.get(name) for name in _IMPERSONATION)
    return False


def _unknown_context(merged: Any, context: str | None) -> tuple[str, str] | None:
    """What is wrong with the context, and which there are; None when it is something else that is wrong.

    ``merged`` holds the kubeconfigs as one document; it is None where they could not be read.
    """
    if merged is None:
        return None
    if merged.config is None:
        return "no usable Kubernetes configuration: no such file, and this is not a pod of a cluster", _GIVE
    try:
        document = merged.config.value
        names = sorted(str(entry.value["name"]) for entry in document["contexts"])
        context_name = context or document.get("current-context")
    except _UNUSABLE:
        return None
    if context_name in names:
        return None
    if not names:
        return "no usable Kubernetes configuration: it names no contexts", _GIVE
    if not context_name:
        return "names no current-context", f"give --context; {_alternatives(names)}"
    return f"has no context {str(context_name)[:100]!a}", _alternatives(names)


def _alternatives(names: Sequence[str]) -> str:
    """The first names of a kubeconfig, each of a length that an error has room for."""
    listed = ", ".join(name[:_MAX_NAME_CHARACTERS] for name in names[:_MAX_NAMES])
    more = len(names) - _MAX_NAMES
    return f"there are: {listed} and {more} more" if more > 0 else f"there are: {listed}"


def _in_short(text: str) -> str:
    """What a login plugin, or the loader of its answer, says: one line, and no value of a secret's name."""
    shown = []
    hidden = False
    for word in without_secrets(text[:_MAX_CONFIG_BYTES]).split():
        at = min((place for place in (word.find("="), word.find(":")) if place > 0), default=0)
        if hidden:
            hidden = word in ("Bearer", "Basic")
            shown.append(word if hidden else REDACTED)
        elif at and is_secret(word[:at]):
            hidden = at + 1 == len(word)  # the next word is the value
            shown.append(word[: at + 1] + ("" if hidden else REDACTED))
        else:
            shown.append(word)
    return " ".join(shown)[:500]


def _unusable(error: Exception) -> str:
    """The complaint of a loader, without the pages that a login plugin or a YAML parser may add."""
    line = _in_short(str(error)) or type(error).__name__
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        mark = error.problem_mark
        line = f"not YAML: {error.problem} in line {mark.line + 1}, column {mark.column + 1}"
    elif isinstance(error, (TypeError, AttributeError)):  # of the loader, that tells of its own code
        line = "it is not a kubeconfig"
    return f"no usable Kubernetes configuration: {line}"


@contextlib.contextmanager
def _complaints() -> Iterator[list[str]]:
    """Catch what the official loader logs instead of raising it: a login plugin that failed."""
    messages: list[str] = []
    thread = threading.get_ident()

    def keep(record: logging.LogRecord) -> bool:
        if record.thread != thread or record.levelno < logging.ERROR:
            return True
        messages.append(record.getMessage())
        return False

    root = logging.getLogger()  # the loader logs there directly; a logger's filter sees no other's records
    root.addFilter(keep)
    try:
        yield messages
    finally:
        root.removeFilter(keep)
