"""Pods that do not fit a page come as one answer, and in pages where that is not so or goes wrong."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator

import pytest
import urllib3

from rebalancer.cluster.dumps.writer import digest
from rebalancer.cluster.live.reader import LiveReader
from rebalancer.cluster.wire.protobuf import MEDIA_TYPE, PodListSplitter
from rebalancer.deadlines import Deadline, StopRequest
from rebalancer.errors import StopRequestedError
from rebalancer_demo import Sandbox
from tests.integration.demo.builders import START
from tests.integration.reading.servers import Answer, a_sandbox, answering, api_of, in_protobuf, reading
from tests.protobuf_encoder import encode_items
from tests.waiting import HANG_SECONDS

PAGE_SIZE = 5
WHOLE = "/api/v1/pods"
NEW = "999999999"  # a version that the cluster has not reached


@contextlib.contextmanager
def between(
    url: str, version: str, spoil: Callable[[bytes], Answer | None] = lambda _: None
) -> Iterator[tuple[str, list[str]]]:
    """A server of this version that spoils whole lists of the one behind it; its URL, and what was asked."""
    asked: list[str] = []
    pool = urllib3.PoolManager()

    def answer(path: str) -> Answer:
        asked.append(path)
        if path == "/version/":
            major, minor = version.split(".")
            return 200, json.dumps({"major": major, "minor": minor}).encode()
        found = pool.request("GET", url + path, retries=False)
        spoilt = spoil(found.data) if path == WHOLE else None
        return spoilt or (found.status, found.data, found.headers["Content-Type"])

    with answering(answer) as server:
        yield server, asked
    pool.clear()


@pytest.fixture(scope="module")
def cluster() -> Iterator[Sandbox]:
    with a_sandbox() as sandbox:
        yield sandbox


def _at_version(body: bytes, version: str) -> bytes:
    pods = PodListSplitter().pods(body)
    return encode_items([pod.SerializeToString() for pod in pods], version)  # type: ignore[union-attr]


def pages_of(asked: list[str]) -> int:
    return sum(path.startswith(f"{WHOLE}?") for path in asked)


@pytest.fixture(scope="module")
def expected(cluster: Sandbox) -> str:
    """What is read in pages from the cluster, which no test here changes."""
    with reading(cluster.url) as reader:
        return digest(reader.read())


@pytest.mark.parametrize(("version", "whole"), [("1.32", 0), ("1.33", 1), ("1.36", 1), ("2.0", 1)])
def test_a_server_that_writes_lists_piece_by_piece_is_asked_for_all_pods_at_once(
    cluster: Sandbox, expected: str, version: str, whole: int
) -> None:
    with (
        in_protobuf(cluster.url) as pods,
        between(pods, version) as (url, asked),
        reading(url, page_size=PAGE_SIZE) as reader,
    ):
        assert digest(reader.read()) == expected
        assert asked.count(WHOLE) == whole
        assert pages_of(asked) == (1 if whole else 5)


def test_pods_that_fit_a_page_are_asked_for_once(cluster: Sandbox, expected: str) -> None:
    with in_protobuf(cluster.url) as pods, between(pods, "1.36") as (url, asked), reading(url) as reader:
        assert digest(reader.read()) == expected
        assert asked.count(WHOLE) == 0
        assert "/version/" not in asked
        assert pages_of(asked) == 1


@pytest.mark.parametrize(
    "spoil",
    [
        lambda body: (200, body[: len(body) // 2], MEDIA_TYPE),
        lambda body: (200, body[:-1], MEDIA_TYPE),
        lambda body: (200, body[:4] + b"\x99" + body[5:], MEDIA_TYPE),
        lambda _: (200, b'{"kind": "PodList", "items": []}'),
        lambda _: (403, b"{}"),
        lambda _: (429, b"{}"),
        lambda _: (500, b"{}"),
        lambda _: (200, encode_items([], NEW), MEDIA_TYPE),
        lambda _: (200, encode_items([], NEW, "more"), MEDIA_TYPE),
        lambda _: (200, encode_items([], NEW).replace(b"PodList", b"JobList"), MEDIA_TYPE),
        lambda body: (200, _at_version(body, "1"), MEDIA_TYPE),
        lambda body: (200, _at_version(body, ""), MEDIA_TYPE),
    ],
    ids=[
        *("half of it", "a byte short", "garbled", "in JSON", "forbidden", "too many", "a fault"),
        *("no pods", "a page without pods", "another kind without items", "older", "without a version"),
    ],
)
def test_where_it_goes_wrong_the_pods_are_read_in_pages(
    cluster: Sandbox, expected: str, spoil: Callable[[bytes], Answer]
) -> None:
    with (
        in_protobuf(cluster.url) as pods,
        between(pods, "1.36", spoil) as (url, asked),
        api_of(url) as api,
    ):
        for _ in range(2):
            reader = LiveReader(api, lambda: START, PAGE_SIZE)
            assert digest(reader.read()) == expected
    assert asked.count(WHOLE) == 1, "it is not tried again"
    assert pages_of(asked) == 1 + 5 + 5


def test_a_request_to_stop_ends_a_whole_list_that_has_fallen_silent(cluster: Sandbox) -> None:
    stop, over = StopRequest(), threading.Event()

    def hang(_body: bytes) -> Answer | None:
        stop.set()
        over.wait(HANG_SECONDS)
        return None

    with (
        in_protobuf(cluster.url) as pods,
        between(pods, "1.36", hang) as (url, _asked),
        api_of(url) as api,
    ):
        reader = LiveReader(api.until(Deadline(stop=stop)), lambda: START, PAGE_SIZE)
        with pytest.raises(StopRequestedError, match="asked to stop"):
            reader.read()
        over.set()
