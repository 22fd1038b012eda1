"""load-watcher is asked at its address, from outside through the API server's service proxy."""

from __future__ import annotations

import json
import logging

import pytest

from rebalancer.errors import InputError, RebalancerError, RightsError, UnreachableError
from rebalancer.load.scheduler_view import decode_watcher
from rebalancer.load.services import fetch_watcher
from rebalancer_demo import Fault, User
from tests.integration.reading.servers import a_sandbox, answering, api_of

DOCUMENT = {"timestamp": 1, "data": {"NodeMetricsMap": {"n0": {"metrics": [{"type": "CPU", "value": 5}]}}}}
ADDRESS = "http://load-watcher.monitoring:2020"


@pytest.fixture(autouse=True)
def without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rebalancer.deadlines.StopRequest.wait", lambda *_: False)


def test_from_outside_a_service_is_asked_through_the_api_server() -> None:
    with a_sandbox(objects=[]) as sandbox, api_of(sandbox.url) as api:
        sandbox.serve("monitoring", "load-watcher", 2020, "watcher", lambda _query: DOCUMENT)
        content = fetch_watcher(api, ADDRESS)

    assert decode_watcher(content).nodes["n0"][0].value == 5


@pytest.mark.parametrize("prefix", ["", "/prefix", "/a/b c"])
def test_a_path_of_the_address_is_asked_for_as_it_is_written(prefix: str) -> None:
    asked: list[str] = []

    def answer(path: str) -> tuple[int, bytes]:
        asked.append(path)
        return 200, json.dumps(DOCUMENT).encode()

    with answering(answer) as url, api_of(url) as api:
        fetch_watcher(api, ADDRESS + prefix)

    proxy = "/api/v1/namespaces/monitoring/services/load-watcher%3A2020/proxy"
    assert asked == [f"{proxy}{prefix.replace(' ', '%20')}/watcher"]


def test_inside_and_for_other_addresses_it_is_asked_directly() -> None:
    paths: list[str] = []

    def answer(path: str) -> tuple[int, bytes]:
        paths.append(path)
        return 200, json.dumps(DOCUMENT).encode()

    with answering(answer) as url:
        fetch_watcher(None, f"{url}/")
        with a_sandbox(objects=[]) as sandbox, api_of(sandbox.url) as api:
            fetch_watcher(api, url)

    assert paths == ["/watcher", "/watcher"]


@pytest.mark.parametrize("body", [b"", b"<html>", b"{}", b"[" * 100_000])
def test_an_answer_of_something_else_is_bad_input_at_that_address(body: bytes) -> None:
    with answering(lambda _path: (200, body)) as url, pytest.raises(InputError) as caught:
        fetch_watcher(None, url)

    assert str(caught.value).startswith(f"{url}: the response is not load-watcher's: ")


@pytest.mark.parametrize("code", [404, 500, 503])
def test_a_refusal_is_unreachable(code: int) -> None:
    with answering(lambda _path: (code, b"")) as url, pytest.raises(UnreachableError, match=f"HTTP {code}"):
        fetch_watcher(None, url)


def test_nobody_there_is_one_line_and_one_log_line_for_each_retry(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, logger="rebalancer"), pytest.raises(UnreachableError) as caught:
        fetch_watcher(None, "http://127.0.0.1:1")

    assert str(caught.value).endswith("Connection refused")
    assert [record.name for record in caplog.records] == ["rebalancer.retries"] * 2
    assert "get http://127.0.0.1:1/watcher: NewConnectionError" in caplog.messages[0]


def test_a_watcher_that_is_overloaded_is_asked_again() -> None:
    paths: list[str] = []

    def answer(path: str) -> tuple[int, bytes]:
        paths.append(path)
        return (503, b"") if len(paths) < 3 else (200, json.dumps(DOCUMENT).encode())

    with answering(answer) as url:
        assert decode_watcher(fetch_watcher(None, url)).nodes["n0"][0].value == 5
    assert len(paths) == 3


@pytest.mark.parametrize("address", ["http://127.0.0.1:99999", "http://[::1", "http://a b"])
def test_an_address_that_is_none_is_one_line(address: str) -> None:
    with pytest.raises(RebalancerError) as caught:
        fetch_watcher(None, address)

    assert "\n" not in str(caught.value)


def test_a_proxy_without_an_endpoint_and_one_we_may_not_use_say_so() -> None:
    with (
        a_sandbox(objects=[], users={"t": User("planner")}) as sandbox,
        api_of(sandbox.url, "t") as api,
        pytest.raises(RightsError, match="services/proxy"),
    ):
        fetch_watcher(api, ADDRESS)
    with a_sandbox(objects=[]) as sandbox, api_of(sandbox.url) as api:
        sandbox.faults.add(Fault("status", path="/proxy/", code=503, times=0, message="no endpoints"))
        with pytest.raises(
            UnreachableError, match="get watcher of service monitoring/load-watcher:2020: no end"
        ):
            fetch_watcher(api, ADDRESS)
