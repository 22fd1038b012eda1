"""Requests to an API server: raw bytes back, errors translated to ours, passing failures of reads retried.

What is sent is a method, a path, a few options of the query and JSON:

    api.get("read pod", object_path("v1", "shop", "pods", "web-0"))
    GET /api/v1/namespaces/shop/pods/web-0

The official client has a method for each of these. They belong to classes that build a model of every kind of
object when they are first used: one second of processor time before the first request of every command.

A program that imports for longer than it asks sends its first request before it imports the rest: the page
of a LIST that is asked for ahead arrives meanwhile, and is handed to whoever asks for it.

An object that others write too is changed by ``update``. A write names the version that was read, and the API
server refuses one that comes too late. Then, and when the answer to a write is lost, the object is read again
and the change made to what is there now.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote, unquote

import msgspec
from msgspec.structs import replace

from rebalancer import http
from rebalancer.cluster.kinds import Kind
from rebalancer.cluster.live import failures
from rebalancer.deadlines import ANSWER_SECONDS, CLOSING_SECONDS, Deadline, StopRequest, attended
from rebalancer.errors import InputError, UnreachableError
from rebalancer.http import Answer, Connections, NoAnswerError, Stream, TooLargeError
from rebalancer.retries import Retries, Retry
from rebalancer.telemetry import span

if TYPE_CHECKING:
    from rebalancer.cluster.live.login import Login


Query = Mapping[str, object]
"""Options of a request, by the names that the API gives them; None is left out."""

_JSON = "application/json"
_MERGE_PATCH = "application/merge-patch+json"  # an object
_JSON_PATCH = "application/json-patch+json"  # a list of operations
_MAX_ANSWER_BYTES = 512 << 20  # of lists that have no pages: what 150,000 pods use takes some 100 MiB
_MAX_OBJECT_BYTES = 64 << 20  # etcd stores 1.5 MiB an object, and more only where it was configured
PAGE_SIZE = 500  # objects of a page of a LIST
MAX_PAGE_BYTES = 32 << 20  # of it; who asks for fewer objects gets fewer bytes
_PER_SECOND = 50.0  # requests to one API server, as kubectl: client-go's ``QPS`` and ``Burst``
_BURST = 300
_NO_DEADLINE = Deadline()
_RECENT_ANSWERS = 20  # what half of the last answers take where a server is called slow
_SLOW_SECONDS = 1.0
_PROXIED = "/proxy/"  # in the path of what a service answers, by a clock of its own


def object_path(version: str, namespace: str, *parts: str) -> str:
    """The path of objects of a namespace, e.g. of ``apps/v1``, ``shop``, ``deployments``, ``web``.

    Names are quoted: one may come from an object that anybody wrote.
    """
    named = "/".join(quote(part, safe="") for part in (namespace, *parts))
    return f"/{'apis' if '/' in version else 'api'}/{version}/namespaces/{named}"


class RequestRate:
    """How many requests a client sends: some at once, and then so many a second.

    It takes no lock: where two threads ask at the same moment, one more request may be sent.
    """

    def __init__(
        self,
        per_second: float = _PER_SECOND,
        burst: int = _BURST,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._seconds_each = 1.0 / per_second
        self._burst_seconds = (burst - 1) * self._seconds_each
        self._clock = clock
        self._even_until = -float("inf")  # when those sent so far would have been, one after another

    def seconds_until_next(self) -> float:
        """How long to wait before a request, which counts as sent then."""
        now = self._clock()
        begins = max(self._even_until, now)
        self._even_until = begins + self._seconds_each
        return max(0.0, begins - self._burst_seconds - now)


class _AskedAhead:
    """A page of a LIST that was asked for before its reader was there."""

    def __init__(
        self, path: str, query: Query, ask: Callable[[Deadline], Answer], clock: Callable[[], float]
    ) -> None:
        self.path = path
        self.query = query
        self.sent_at = clock()
        self._stop = StopRequest()
        self._answer = attended(lambda: ask(Deadline(stop=self._stop)))

    def answer(self, what: str, deadline: Deadline) -> Answer:
        """What came, or comes until the deadline. Raises what ``http.request`` does."""
        try:
            return deadline.awaited(what, self._answer)
        except TimeoutError as error:
            raise NoAnswerError(error, slow=True) from error
        finally:
            self._stop.set()  # nobody waits for it any longer


class KubernetesClient:
    """One connection to an API server, by one login; each request is sent once.

    Whatever repeats requests without end, they are sent at a rate that an API server bears.
    """

    def __init__(
        self,
        login: Login,
        request_seconds: float | None = None,
        rate: RequestRate | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.host = login.host
        self.verifies_certificates = login.verifies_certificates
        self.lists_whole: bool | None = None  # whether a large LIST is read in one answer; not known yet
        self.login = login
        self._request_seconds = request_seconds
        self._rate = rate or RequestRate()
        self._clock = clock
        self._dated: tuple[str, float] | None = None  # the date of the last answer, and when it came
        self._waits: deque[tuple[float, str]] = deque(maxlen=_RECENT_ANSWERS)  # seconds, and what for
        self._ahead: _AskedAhead | None = None

    def ask_ahead(self, what: str, path: str, query: Query) -> None:
        """Ask for a page of a LIST now; the same request is not sent again but given its answer, once."""

        def ask(deadline: Deadline) -> Answer:
            return self.exchange("GET", path, query, max_bytes=MAX_PAGE_BYTES, deadline=deadline, what=what)

        self._ahead = _AskedAhead(path, query, ask, self._clock)

    def seconds_ahead(self, path: str) -> float:
        """How long ago a LIST was asked for whose answer nobody took yet; 0 where none was."""
        ahead = self._ahead
        return self._clock() - ahead.sent_at if ahead is not None and ahead.path == path else 0.0

    def exchange(
        self,
        method: str,
        path: str,
        query: Query | None = None,
        *,
        max_bytes: int,
        headers: Mapping[str, str] | None = None,
        body: object = None,
        read_seconds: float | None = None,
        deadline: Deadline = _NO_DEADLINE,
        what: str = "a request",
        body_needed: bool = True,
    ) -> Answer:
        """The answer to one request, with whatever status.

        It is waited for until ``deadline``, and for so many seconds as a whole: the API server, too, ends
        a request after a minute. Raises what ``http.request`` does.
        """
        whole = self._request_seconds
        longest = http.READ_SECONDS if whole is None else whole
        patch = _MERGE_PATCH if isinstance(body, Mapping) else _JSON_PATCH
        content_type = {} if body is None else {"Content-Type": patch if method == "PATCH" else _JSON}
        deadline.pause(self._rate.seconds_until_next())
        began = self._clock()
        try:
            answer = http.request(
                self.login.pool,
                method,
                self._url(path, query),
                headers=self._headers({**content_type, **(headers or {})}),
                body=None if body is None else json.dumps(body),
                max_bytes=max_bytes,
                read_seconds=longest if read_seconds is None else min(longest, read_seconds),
                whole_seconds=whole,
                deadline=deadline,
                what=what,
                body_needed=body_needed,
            )
        finally:
            if _PROXIED not in path:
                self._waits.append((self._clock() - began, what))
        dated = answer.headers.get("Date")
        if dated and answer.ok and _PROXIED not in path:
            self._dated = dated, self._clock()
        return answer

    def server_time(self) -> float | None:
        """The time by the API server's clock, Unix seconds, a second too early at most; None if not known."""
        if self._dated is None:
            return None
        dated, came = self._dated
        date = http.http_date(dated)
        return None if date is None else date + self._clock() - came

    def slowness(self) -> str:
        """That the API server is slow, by how long its last answers took; empty where it is not."""
        waits = sorted(self._waits)
        usual = waits[(len(waits) - 1) // 2][0] if waits else 0.0
        if usual < _SLOW_SECONDS:
            return ""
        longest, what = waits[-1]
        return (
            f"the API server is slow: half of its last {len(waits)} answers took {usual:.1f} s or longer, "
            f"the one to {what!a} {longest:.1f} s"
        )

    def send(self, method: str, path: str, query: Query | None = None, **options: Any) -> Answer:
        """The answer to one request that was carried out. Raises what ``exchange`` does, and StatusError."""
        with span("request", what=options.get("what", "a request")) as asking:
            ahead = self._ahead
            if ahead is not None and (method, path, query) == ("GET", ahead.path, ahead.query):
                self._ahead = None
                answer = ahead.answer(options["what"], options["deadline"])
            else:
                answer = self.exchange(method, path, query, **options)
            if not answer.ok:
                asking.add(status=answer.status)
                raise failures.StatusError(answer)
            return answer

    def stream(
        self,
        path: str,
        query: Query | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        read_seconds: float = http.READ_SECONDS,
        connections: Connections | None = None,
    ) -> Stream:
        """The answer to a GET, whose body its reader reads and closes, and which ``connections`` can end.

        Raises as ``http.open_stream`` does, and StatusError.
        """
        time.sleep(self._rate.seconds_until_next())
        stream = http.open_stream(
            self.login.pool,
            self._url(path, query),
            headers=self._headers(headers or {}),
            read_seconds=read_seconds,
            connections=connections or Connections(),
        )
        if not 200 <= stream.status < 300:
            raise failures.StatusError(stream.refusal())
        return stream

    def _url(self, path: str, query: Query | None) -> str:
        asked = "&".join(
            f"{name}={quote(json.dumps(value) if isinstance(value, bool) else str(value))}"
            for name, value in (query or {}).items()
            if value is not None
        )
        # Of a name that anybody may have chosen.
        if not {".", ".."}.isdisjoint(map(unquote, path.split("/"))):
            raise InputError("a path that leads to another is not asked for", where=f"{self.host}{path}")
        return f"{self.host}{path}{'?' if asked else ''}{asked}"

    def _headers(self, headers: Mapping[str, str]) -> http.Headers:
        from urllib3 import HTTPHeaderDict  # noqa: PLC0415 - slow to import

        def merged() -> HTTPHeaderDict:
            everything = HTTPHeaderDict(self.login.headers())  # which may hold one name several times
            everything.update({"Accept": _JSON, **headers, **http.HEADERS})
            return everything

        return merged


class RawApi(msgspec.Struct, frozen=True):
    """An API server as other packages see it; ``retries`` bounds the waiting."""

    client: KubernetesClient
    retries: Retries = msgspec.field(default_factory=Retries)

    @property
    def host(self) -> str:
        """The API server's address."""
        return self.client.host

    @property
    def cluster(self) -> str:
        """The cluster's name and the API server's address: ``context prod-eu-1 (https://…)``."""
        name = self.client.login.name
        return f"{name} ({self.host})" if name else self.host

    def until(self, deadline: Deadline) -> RawApi:
        """The same API, whose requests and retries end with the run, or when it is asked to stop."""
        return replace(self, retries=replace(self.retries, run=deadline))

    def within(self, seconds: float) -> RawApi:
        """The same API, all of whose requests, with their retries, end at most that many seconds from now."""
        run = replace(self.retries.run, clock=self.retries.clock)
        return self.until(run.within(seconds))

    def finishing(self, seconds: float = CLOSING_SECONDS) -> RawApi:
        """The same API, for what a run finishes after its end, or after it was asked to stop."""
        return self.until(self.retries.run.finishing(seconds))

    def get(self, what: str, path: str, query: Query | None = None) -> bytes:
        """The body of the answer to a GET of one object; ``what`` names the request in messages."""
        return self._get(what, path, query, None, _MAX_OBJECT_BYTES).body

    def find(self, what: str, path: str) -> bytes | None:
        """As ``get``; None where the API server says that the object at this path does not exist.

        Any other 404 is no answer, and neither is another object: both raise UnreachableError.
        """
        try:
            body = self.get(what, path)
        except failures.RequestRejectedError as error:
            if error.proves_absence(path):
                return None
            raise
        if _is_of_another(path, body):
            raise UnreachableError(
                f"{what}: the answer is another object", where=self.host, hint=failures.NO_API_SERVER
            )
        return body

    def ask(
        self, what: str, path: str, query: Query | None = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """The answer to a GET of a list.

        Raises RightsError, RequestRejectedError, UnreachableError as all below do, and AnswerTooLargeError
        for a page of which fewer objects can be asked for.
        """
        objects = (query or {}).get("limit")
        max_bytes = _MAX_ANSWER_BYTES
        if isinstance(objects, int):
            max_bytes = min(max_bytes, MAX_PAGE_BYTES if objects > 1 else _MAX_OBJECT_BYTES)
        return self._get(what, path, query, headers, max_bytes)

    def _get(
        self, what: str, path: str, query: Query | None, headers: Mapping[str, str] | None, max_bytes: int
    ) -> Answer:
        again = failures.read_again
        limit = self.retries.limit()
        return self._request(what, again, limit, "GET", path, query, headers=headers, max_bytes=max_bytes)

    def write(self, what: str, method: str, path: str, body: object) -> bytes:
        """The body of the answer to one write, which is waited for even after a request to stop.

        Sent again only where flow control turned it away: whether any other may be, the caller knows.
        """
        limit = self.retries.limit()
        limit = limit.finishing(max(limit.grace_seconds, ANSWER_SECONDS))
        max_bytes = _MAX_OBJECT_BYTES
        return self._request(
            what, failures.write_again, limit, method, path, body=body, max_bytes=max_bytes
        ).body

    def _request(
        self,
        what: str,
        again: Callable[[Exception], Retry | None],
        limit: Deadline,
        *request: Any,
        **options: Any,
    ) -> Answer:
        def once() -> Answer:
            return self.client.send(*request, **options, deadline=limit, what=what)

        with failures.translated(what, self.host, self.client.login.advice):
            try:
                return self.retries.call(what, once, again)
            except TooLargeError as error:
                raise failures.AnswerTooLargeError(f"{what}: {error}", where=self.host) from error

    def ask_ahead(self, kind: Kind) -> None:
        """Ask for the first page of a LIST now, which ``list_page`` returns when it is asked for it."""
        self.client.ask_ahead(f"list {kind_name(kind)}", kind.path, {"limit": PAGE_SIZE})

    def list_page(
        self, kind: Kind, query: Query | None = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """One page of a LIST over all namespaces."""
        return self.ask(f"list {kind_name(kind)}", kind.path, query, headers)

    def watch(
        self,
        kind: Kind,
        read_seconds: float,
        query: Query | None = None,
        headers: Mapping[str, str] | None = None,
        connections: Connections | None = None,
    ) -> Stream:
        """The body of a WATCH over all namespaces, which is to be closed; it is not tried again.

        It ends when no byte comes for so many seconds, or as another thread ends its ``connections``.
        """
        watching = {"watch": True, **(query or {})}
        options: dict[str, Any] = {"read_seconds": read_seconds, "connections": connections}
        with failures.translated(f"watch {kind_name(kind)}", self.host, self.client.login.advice):
            return self.client.stream(kind.path, watching, headers=headers, **options)

    def server_version(self) -> str:
        """The API server's version, e.g. ``1.35``; empty when it does not say."""
        body = self.get("read the version", "/version/")
        try:
            answer = json.loads(body)
            return f"{int(answer['major'])}.{int(str(answer['minor']).rstrip('+'))}"
        except (ValueError, LookupError, TypeError, RecursionError):
            return ""

    def service_proxy(self, namespace: str, service: str, path: str) -> bytes:
        """GET a path of a service through the API server; ``service`` is ``[scheme:]name:port``."""
        proxy = f"{object_path('v1', namespace, 'services', service)}/proxy/{quote(path)}"
        return self.get(f"get {path} of service {namespace}/{service}", proxy)

    def config_map(self, namespace: str, name: str) -> dict[str, str] | None:
        """The data of a ConfigMap; None when there is none. Raises as ``find`` does."""
        what = f"read configmap {namespace}/{name}"
        body = self.find(what, object_path("v1", namespace, "configmaps", name))
        if body is None:
            return None
        try:
            data = json.loads(body).get("data") or {}
            return {str(key): str(value) for key, value in data.items()}
        except (ValueError, AttributeError, RecursionError) as error:
            raise UnreachableError(f"{what}: the answer is not a ConfigMap", where=self.host) from error


class _ObjectMetadata(msgspec.Struct, frozen=True):
    name: str = ""
    namespace: str = ""


class _Object(msgspec.Struct, frozen=True):
    kind: str = ""
    metadata: _ObjectMetadata = _ObjectMetadata()


def _is_of_another(path: str, body: bytes) -> bool:
    """Whether an answer is an object, and not the one at this path; what is none its reader finds out."""
    try:
        answer = msgspec.json.decode(body, type=_Object)
    except (ValueError, RecursionError):
        return False
    *before, plural, name = (unquote(part) for part in path.split("/"))
    namespace = before[-1] if len(before) > 1 and before[-2] == "namespaces" else ""
    if answer.kind and answer.kind.lower() != plural.removesuffix(
        "s"
    ):  # as of all kinds that are read singly
        return True
    return (answer.metadata.namespace, answer.metadata.name) != (namespace, name)


def kind_name(kind: Kind) -> str:
    """What a kind is called in messages."""
    return f"{kind.path_name}.{kind.group}" if kind.group else kind.path_name


MAX_ATTEMPTS = 4
APPLY = "apply k8s/base, which makes the namespace"
_FIRST_WAIT_SECONDS = 0.5
_CONFLICTS = frozenset({404, 409})  # it was deleted, or changed, since it was read

_Result = TypeVar("_Result")


class NotWrittenError(Exception):
    """Somebody else was faster, or, where ``unanswered`` is set, the answer was lost."""

    def __init__(self, unanswered: UnreachableError | None = None) -> None:
        super().__init__(str(unanswered) if unanswered is not None else "it was changed meanwhile")
        self.unanswered = unanswered


def replace_version(api: RawApi, what: str, path: str, body: Mapping[str, Any]) -> bytes:
    """Replace an object that was read before. Raises NotWrittenError where reading it again may help.

    Raises UnreachableError for one that was read without a version: what others wrote would be overwritten.
    """
    metadata = body.get("metadata")
    if not (isinstance(metadata, dict) and metadata.get("resourceVersion")):
        raise UnreachableError(
            f"{what}: it was read without a resourceVersion", where=api.host, hint=failures.NO_API_SERVER
        )
    return _write_version(api, what, "PUT", path, body)


def _write_version(api: RawApi, what: str, method: str, path: str, body: Mapping[str, Any]) -> bytes:
    try:
        return api.write(what, method, path, body)
    except failures.RequestRejectedError as error:
        if error.status in _CONFLICTS:
            raise NotWrittenError from error
        raise
    except UnreachableError as error:
        raise NotWrittenError(error) from error


def create_version(
    api: RawApi, what: str, path: str, body: Mapping[str, Any], *, namespace: str, hint: str
) -> bytes:
    """Create an object that was absent when it was read. Raises NotWrittenError as ``replace_version`` does.

    Raises InputError when the API server says that the namespace does not exist.
    """
    try:
        return _write_version(api, what, "POST", path, body)
    except NotWrittenError as error:
        cause = error.__cause__
        if isinstance(cause, failures.RequestRejectedError) and cause.status == HTTPStatus.NOT_FOUND:
            if not cause.proves_absence(f"/api/v1/namespaces/{quote(namespace, safe='')}"):
                raise cause from error
            raise InputError(f"namespace {namespace!a} does not exist", where=what, hint=hint) from cause
        raise


def update(
    api: RawApi, what: str, attempt: Callable[[], _Result], *, deadline_seconds: float | None = None
) -> _Result:
    """Repeat ``attempt``, which reads and calls ``replace_version``, until it succeeds.

    Raises NotWrittenError after the last attempt, StopRequestedError, and whatever else ``attempt`` raises.
    """
    retries = replace(api.retries, attempts=MAX_ATTEMPTS, first_wait_seconds=_FIRST_WAIT_SECONDS)
    if deadline_seconds is not None:
        retries = replace(retries, deadline_seconds=deadline_seconds)
    return retries.call(what, attempt, _again)


def _again(error: Exception) -> Retry | None:
    return Retry(str(error)) if isinstance(error, NotWrittenError) else None
