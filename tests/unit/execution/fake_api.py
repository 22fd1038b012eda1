"""A transport that answers from Python: the real client above it, no socket below."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import urllib3

from rebalancer.cluster.live import RawApi
from rebalancer.cluster.live.client import KubernetesClient
from rebalancer.cluster.live.login import Login
from rebalancer.retries import Retries


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    query: dict[str, str]
    body: Any


@dataclass(frozen=True)
class Answer:
    status: int = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)


def refusal(status: int, message: str, *, retry_after: int | None = None, **details: Any) -> Answer:
    """A Status as the API server words it."""
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": status,
        "message": message,
        "details": details,
    }
    return Answer(status, body, {"Retry-After": str(retry_after)} if retry_after is not None else {})


# What an API server says of itself, whatever else a test lets it answer.
SERVED = {
    "/api/v1": {
        "kind": "APIResourceList",
        "groupVersion": "v1",
        "resources": [{"name": "pods"}, {"name": "pods/eviction", "group": "policy", "version": "v1"}],
    },
}


def not_found(path: str) -> Answer:
    """The Status for an object that does not exist, as the API server words it."""
    plural, name = map(unquote, path.removesuffix("/eviction").split("/")[-2:])
    answer = refusal(404, f'{plural} "{name}" not found', kind=plural, name=name)
    return replace(answer, body={**answer.body, "reason": "NotFound"})


Handler = Callable[[Request], "Answer | Exception"]


class Transport:
    """Stands where the client's pool of connections stands; remembers every request."""

    def __init__(self, handler: Handler) -> None:
        self.handler = handler
        self.requests: list[Request] = []

    def request(
        self, method: str, url: str, headers: Any = None, body: Any = None, **_options: Any
    ) -> urllib3.HTTPResponse:
        parts = urlsplit(url)
        query = {key: values[-1] for key, values in parse_qs(parts.query).items()}
        request = Request(method, parts.path, query, None if body is None else json.loads(body))
        self.requests.append(request)
        answer = Answer(200, SERVED[parts.path]) if parts.path in SERVED else self.handler(request)
        if isinstance(answer, Exception):
            raise answer
        content = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
        return urllib3.HTTPResponse(
            body=io.BytesIO(content),
            status=answer.status,
            headers={"Content-Type": "application/json", **answer.headers},
            preload_content=False,
        )

    def sent(self, method: str) -> list[Request]:
        """The requests of one method."""
        return [request for request in self.requests if request.method == method]


class FakeTime:
    """A clock that only sleeping moves."""

    def __init__(self, now: float = 1_700_000_000.0) -> None:
        self.now = now
        self.slept: list[float] = []
        self.while_asleep: Callable[[], None] = lambda: None

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds
        self.while_asleep()


def fake_api(handler: Handler, time: FakeTime | None = None) -> tuple[RawApi, Transport]:
    """An API over a fake transport, and that transport."""
    transport = Transport(handler)
    time = time or FakeTime()
    retries = Retries(pause=time.sleep, clock=time.clock, random=lambda: 0.0)
    return RawApi(KubernetesClient(Login("http://fake", transport)), retries), transport


class Script:
    """Answers a kind of request one by one; the last answer repeats."""

    def __init__(self, *answers: Answer | Exception) -> None:
        self._answers = list(answers)

    def __call__(self, _request: Request) -> Answer | Exception:
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
