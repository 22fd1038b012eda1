"""Requests to the API server are retried only where that is safe, and not once a stop was asked for."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kubernetes import client
from urllib3.exceptions import ProtocolError

from rebalancer.cluster.kinds import NODES, PODS
from rebalancer.cluster.live import RawApi, object_path
from rebalancer.cluster.live.client import KubernetesClient, RequestRate
from rebalancer.cluster.live.failures import AnswerTooLargeError, RequestRejectedError
from rebalancer.cluster.live.login import Login, official_login
from rebalancer.deadlines import Deadline, StopRequest
from rebalancer.errors import ExitCode, StopRequestedError, UnreachableError
from rebalancer.http import NoAnswerError
from tests.rows import rows
from tests.unit.execution.fake_api import Answer, FakeTime, Request, Script, Transport, fake_api, refusal

SOON = 5.0  # half a second at most, but a machine may be busy; unheard, the wait is far longer
RESET = ProtocolError("Connection aborted.", ConnectionResetError(104, "reset"))


def test_a_read_is_repeated_after_overload_and_after_a_broken_connection() -> None:
    clock = FakeTime()
    answers = Script(refusal(503, "busy"), RESET, refusal(429, "slow down", retry_after=7), Answer(200, {}))
    api, transport = fake_api(answers, clock)
    assert api.list_page(NODES).body == b"{}"
    assert len(transport.requests) == 4
    assert clock.slept == [0.2, 0.4, 7.0]


@pytest.mark.parametrize("fault", [refusal(503, "busy"), RESET])
def test_a_write_whose_fate_is_unknown_is_not_repeated(fault: Answer | Exception) -> None:
    api, transport = fake_api(Script(fault))
    with pytest.raises(UnreachableError):
        api.write("write", "POST", object_path("v1", "shop", "configmaps"), {})
    assert len(transport.requests) == 1


def test_a_write_that_flow_control_turned_away_is_repeated() -> None:
    api, transport = fake_api(Script(refusal(429, "slow down", retry_after=3), Answer(201, {})))
    api.write("write", "POST", object_path("v1", "shop", "configmaps"), {})
    assert len(transport.requests) == 2


def test_a_server_that_is_overloaded_is_not_one_that_rejects_the_request() -> None:
    api, _ = fake_api(Script(*[refusal(429, "too many requests, please try again later")] * 9))
    with pytest.raises(UnreachableError, match=r"list nodes: too many requests.*overloaded") as caught:
        api.list_page(NODES)
    assert not isinstance(caught.value, RequestRejectedError)
    assert caught.value.exit_code is ExitCode.UNREACHABLE


def test_the_time_of_the_api_server_is_that_of_its_last_answer_and_goes_on_since() -> None:
    passed = [100.0]
    dates = {
        "/api/v1/nodes": "Sun, 22 Nov 2026 12:00:00 GMT",
        "/api/v1/namespaces/x/services/y/proxy/z": "Mon, 01 Jan 2001 00:00:00 GMT",
    }
    transport = Transport(lambda request: Answer(200, {}, {"Date": dates.get(request.path, "yesterday")}))
    server = KubernetesClient(Login("http://fake", transport), clock=lambda: passed[0])
    assert server.server_time() is None
    server.send("GET", "/api/v1/nodes", max_bytes=10)
    noon = server.server_time()
    passed[0] += 90.0
    server.send("GET", "/api/v1/namespaces/x/services/y/proxy/z", max_bytes=10)
    assert noon == datetime(2026, 11, 22, 12, tzinfo=UTC).timestamp()
    assert server.server_time() == noon + 90.0
    server.send("GET", "/api/v1/pods", max_bytes=10)
    assert server.server_time() is None, "a date that is none"


def _server(seconds: list[float]) -> KubernetesClient:
    """One that was asked for these lists of pods, each of which took so long."""
    time, waits = FakeTime(), iter(seconds)

    def answered(request: Request) -> Answer | Exception:
        time.sleep(next(waits))
        return Answer(200, {}) if request.query["at"] != "1" else RESET

    server = KubernetesClient(Login("http://fake", Transport(answered)), clock=time.clock)
    for at in range(len(seconds)):
        path = "/api/v1/namespaces/x/services/y/proxy/z" if seconds[at] == 60.0 else "/api/v1/pods"
        with contextlib.suppress(NoAnswerError):
            server.send("GET", path, {"at": at}, max_bytes=9, what=f"list {at}")
    return server


@rows(
    "seconds, figures",
    [
        ([], ""),
        ([0.1, 0.2, 30.0], ""),  # one that is slow is no slow server
        ([10.0, 60.0, 0.1], ""),  # what a service is slow in, behind it, neither
        (
            [0.1, 1.0, 12.0, 2.0],
            "half of its last 4 answers took 1.0 s or longer, the one to 'list 2' 12.0 s",
        ),
        (
            [0.1] * 20 + [3.0] * 11,
            "half of its last 20 answers took 3.0 s or longer, the one to 'list 30' 3.0 s",
        ),
    ],
)
def test_a_server_is_slow_if_half_of_its_last_answers_take_seconds(
    seconds: list[float], figures: str
) -> None:
    said = _server(seconds).slowness()
    assert said == (figures and f"the API server is slow: {figures}")


@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=400), st.integers(1, 50), st.floats(1.0, 100.0))
def test_whoever_asks_how_often_never_more_requests_are_sent_than_an_api_server_bears(
    pauses: list[float], burst: int, per_second: float
) -> None:
    now = 0.0
    rate, sent = RequestRate(per_second, burst, lambda: now), []
    for pause in pauses:
        now += pause
        now += rate.seconds_until_next()
        sent.append(now)
    for first, since in enumerate(sent):
        for last in range(first, len(sent), 7):
            assert last - first + 1 <= burst + (sent[last] - since) * per_second + 1e-6


@rows("status", [404, 409, 410, 422])
def test_a_rejected_request_is_distinguished_from_a_server_that_is_down(status: int) -> None:
    api, transport = fake_api(Script(refusal(status, "no")))
    with pytest.raises(RequestRejectedError, match="list nodes: no") as caught:
        api.list_page(NODES)
    assert caught.value.status == status
    assert len(transport.requests) == 1


def test_a_stop_is_heard_at_once_while_a_read_waits_to_be_repeated() -> None:
    waits: list[float] = []

    def asked_meanwhile(seconds: float) -> None:
        waits.append(seconds)
        stop.set()

    stop = StopRequest(sleep=asked_meanwhile)
    api, transport = fake_api(Script(refusal(429, "slow down", retry_after=20)))
    with pytest.raises(StopRequestedError, match="list nodes: asked to stop; slow down"):
        RawApi(api.client).until(Deadline(stop=stop)).list_page(NODES)
    assert len(waits) == 1
    assert waits[0] < 1.0
    assert len(transport.requests) == 1


def test_several_requests_share_one_deadline() -> None:
    clock = FakeTime()

    def slow(_request: Request) -> Answer:
        clock.now += 3
        return Answer(200, {})

    api, transport = fake_api(slow, clock)
    ending = api.within(5)
    ending.list_page(NODES)
    ending.list_page(NODES)
    with pytest.raises(UnreachableError, match="no time is left for it"):
        ending.list_page(NODES)
    assert len(transport.requests) == 2


@rows(
    "asked, expected",
    [(None, (5.0, 60.0)), (20.0, (5.0, 20.0)), (2.0, (2.0, 2.0)), (300.0, (5.0, 300.0))],
)
def test_a_single_request_waits_no_longer_than_was_asked(
    asked: float | None, expected: tuple[float, float]
) -> None:
    seen: list[tuple[float, float]] = []

    class Pool:
        def request(self, *_request: Any, timeout: Any, **_options: Any) -> None:
            seen.append((timeout.connect_timeout, timeout.read_timeout))
            raise OSError

    connection = KubernetesClient(Login("http://fake", Pool()), asked)
    with pytest.raises(NoAnswerError):
        connection.send("GET", "/version/", max_bytes=1)

    assert seen == [expected]


# What goes over the wire is what the official client's own methods would send.


_BODY = {"metadata": {"name": "web"}}
_DEPLOYMENT = ("apps", "v1", "shop", "deployments", "web")
_OBJECTS, _OBJECT = "/apis/apps/v1/namespaces/shop/deployments", object_path("apps/v1", *_DEPLOYMENT[2:])
_CONTENT_TYPES = {
    "POST": "application/json",
    "PUT": "application/json",
    "PATCH": "application/merge-patch+json",
}


class Noted(Transport):
    """Remembers what the server would see of each request."""

    def __init__(self) -> None:
        super().__init__(lambda _request: Answer())
        self.pool_manager = self  # where the official client looks for it
        self.seen: list[tuple[Any, ...]] = []

    def request(self, method: str, url: str, headers: Any = None, body: Any = None, **options: Any) -> Any:
        document = json.loads(body) if isinstance(body, str) else body
        # The official client leaves out the type of a body in JSON, which is what a server takes it for.
        content_type = headers.get("Content-Type") or _CONTENT_TYPES.get(method)
        path, _, query = url.partition("?")
        asked = sorted(query.split("&"))
        login = headers.get("authorization")
        self.seen.append((method, path, asked, document, headers["Accept"], content_type, login))
        # The official client hands back what it calls the response of the response.
        answer = super().request(method, url, headers, None)
        answer.response = None
        return answer


@pytest.mark.parametrize(
    ("name", "arguments", "options", "request_"),
    [
        ("list_node", (), {"limit": 500}, ("GET", NODES.path, {"limit": 500})),
        (
            "list_pod_for_all_namespaces",
            (),
            {"field_selector": "spec.nodeName=", "limit": 1},
            ("GET", PODS.path, {"fieldSelector": "spec.nodeName=", "limit": 1, "continue": None}),
        ),
        (
            "list_pod_for_all_namespaces",
            (),
            {"watch": True, "allow_watch_bookmarks": True},
            ("GET", PODS.path, {"watch": True, "allowWatchBookmarks": True}),
        ),
        (
            "list_namespaced_pod",
            ("shop",),
            {"label_selector": "a in (b,c)", "_continue": "a+/="},
            (
                "GET",
                object_path("v1", "shop", "pods"),
                {"labelSelector": "a in (b,c)", "continue": "a+/="},
            ),
        ),
        (
            "read_namespaced_pod",
            ("web/../1", "shop"),
            {},
            ("GET", object_path("v1", "shop", "pods", "web/../1")),
        ),
        (
            "create_namespaced_pod_eviction",
            ("web-1", "shop", _BODY),
            {"dry_run": "All"},
            ("POST", object_path("v1", "shop", "pods", "web-1", "eviction"), {"dryRun": "All"}),
        ),
        (
            "create_namespaced_config_map",
            ("shop", _BODY),
            {},
            ("POST", object_path("v1", "shop", "configmaps")),
        ),
        (
            "replace_namespaced_config_map",
            ("state", "shop", _BODY),
            {},
            ("PUT", object_path("v1", "shop", "configmaps", "state")),
        ),
        (
            "list_namespaced_custom_object",
            _DEPLOYMENT[:4],
            {"field_selector": "metadata.name=a"},
            ("GET", _OBJECTS, {"fieldSelector": "metadata.name=a"}),
        ),
        ("get_namespaced_custom_object", _DEPLOYMENT, {}, ("GET", _OBJECT)),
        ("create_namespaced_custom_object", (*_DEPLOYMENT[:4], _BODY), {}, ("POST", _OBJECTS)),
        ("replace_namespaced_custom_object", (*_DEPLOYMENT, _BODY), {}, ("PUT", _OBJECT)),
        (
            "patch_namespaced_custom_object",
            (*_DEPLOYMENT, _BODY),
            {"field_manager": "us"},
            ("PATCH", _OBJECT, {"fieldManager": "us"}),
        ),
    ],
)
def test_a_request_is_the_one_that_the_official_client_makes(
    name: str, arguments: tuple[Any, ...], options: dict[str, Any], request_: tuple[Any, ...]
) -> None:
    settings = client.Configuration(host="https://server/prefix")
    settings.api_key = {"BearerToken": "Bearer secret"}
    official = client.ApiClient(settings)
    noted = official.rest_client = Noted()
    theirs: Any = client.CustomObjectsApi(official) if "custom" in name else client.CoreV1Api(official)

    with_body: dict[str, Any] = {"body": _BODY} if request_[0] != "GET" else {}
    KubernetesClient(official_login(official)).send(*request_, **with_body, max_bytes=1000)
    getattr(theirs, name)(*arguments, _preload_content=False, **options)

    assert noted.seen[0][-1] == "Bearer secret"
    assert noted.seen[0] == noted.seen[1]


def test_a_list_asks_for_what_its_caller_accepts() -> None:
    settings = client.Configuration(host="https://server")
    official = client.ApiClient(settings)
    noted = official.rest_client = Noted()
    api = RawApi(KubernetesClient(official_login(official)))
    api.list_page(PODS, {"limit": 5}, {"Accept": "application/vnd.kubernetes.protobuf"})
    assert noted.seen[0][:3] == ("GET", "https://server/api/v1/pods", ["limit=5"])
    assert noted.seen[0][4:] == ("application/vnd.kubernetes.protobuf", None, None)


def test_connecting_by_the_official_client_builds_no_models_of_the_kinds() -> None:
    """They cost a second of processor time before the first request."""
    script = (
        "import sys\n"
        "from kubernetes import client\n"
        "from rebalancer.cluster.live.client import KubernetesClient\n"
        "from rebalancer.cluster.live.login import official_login\n"
        "KubernetesClient(official_login(client.ApiClient(client.Configuration())))\n"
        "print([name for name in sys.modules if name.startswith('kubernetes.client.models.')])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_no_object_by_itself_may_be_as_large_as_a_list_without_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rebalancer.cluster.live.client._MAX_OBJECT_BYTES", 200)
    api, _ = fake_api(lambda _: Answer(200, {"note": "x" * 200}))
    for ask in (
        lambda: api.list_page(NODES, {"limit": 1}),
        lambda: api.get("read", object_path("v1", "shop", "configmaps", "a")),
        lambda: api.write("write", "POST", object_path("v1", "shop", "configmaps"), {}),
    ):
        with pytest.raises(AnswerTooLargeError, match="the answer is larger than"):
            ask()
    assert b"note" in api.list_page(NODES).body
