"""Kinds are read in pages over HTTP, consistent or not at all."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from rebalancer.cluster.dumps.listing import ListingBuilder, Recording
from rebalancer.cluster.dumps.reader import DumpReader
from rebalancer.cluster.dumps.writer import digest, save
from rebalancer.cluster.kinds import KINDS, NODES, PODS
from rebalancer.cluster.live.client import KubernetesClient
from rebalancer.cluster.snapshot import build_snapshot
from rebalancer.errors import UnreachableError
from rebalancer.http import Answer
from rebalancer_demo import Fault
from tests.builders import names_of
from tests.integration.demo.builders import START
from tests.integration.reading.servers import a_sandbox, answering, reading
from tests.waiting import HANG_SECONDS


def names(recording: Recording, plural: str = "pods") -> list[str]:
    return names_of(recording.listings[plural])


@pytest.mark.parametrize("page_size", [1, 7, 22, 23, 24, 500])
def test_every_object_is_read_once_whatever_the_page_size(page_size: int) -> None:
    with a_sandbox() as sandbox, reading(sandbox.url, page_size=page_size) as reader:
        recording = reader.read()

    assert names(recording) == sorted(f"web-{number}" for number in range(23))
    assert set(recording.listings) | set(recording.unread) == {kind.plural for kind in KINDS}


def test_the_digest_is_the_same_whatever_the_page_size_and_from_a_dump(tmp_path: Path) -> None:
    with a_sandbox() as sandbox:
        digests = []
        for page_size in (2, 5, 500):
            with reading(sandbox.url, page_size=page_size) as reader:
                recording = reader.read()
                digests.append(digest(recording))
        save(recording, tmp_path / "saved", START)
    again = DumpReader(tmp_path / "saved").read()

    assert {*digests, digest(again)} == {digests[0]}
    assert digest(build_snapshot(again).recording) == digest(build_snapshot(recording).recording)


@pytest.mark.parametrize("large", [0, 1, 22, 23])
def test_pods_as_large_as_a_tenant_likes_are_read_in_pages_of_fewer_of_them(
    large: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    received: list[int] = []
    send = KubernetesClient.send

    def counted(client: KubernetesClient, *request: Any, **options: Any) -> Answer:
        answer = send(client, *request, **options)
        received.append(len(answer.body))
        return answer

    monkeypatch.setattr(KubernetesClient, "send", counted)
    with a_sandbox() as sandbox, reading(sandbox.url) as reader:
        for number in range(large):
            sandbox.store.mutate(
                "pods",
                "default",
                f"web-{number}",
                lambda pod: pod["metadata"].setdefault("annotations", {}).update(note="x" * 30_000),
            )
        whole = digest(reader.read())
        for module in ("client", "lists"):
            monkeypatch.setattr(f"rebalancer.cluster.live.{module}.MAX_PAGE_BYTES", 100_000)
        received.clear()
        assert digest(reader.read()) == whole
    assert max(received) <= 100_000


def test_an_object_that_is_larger_than_a_page_is_read_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    with a_sandbox() as sandbox, reading(sandbox.url) as reader:
        for module in ("client", "lists"):
            monkeypatch.setattr(f"rebalancer.cluster.live.{module}.MAX_PAGE_BYTES", 10)
        assert len(names(reader.read([NODES, PODS]))) == 23


def test_a_list_that_expires_between_pages_is_read_again_from_the_start() -> None:
    with a_sandbox() as sandbox, reading(sandbox.url, page_size=5) as reader:
        sandbox.faults.add(Fault("expire-continue", path="/pods", times=2, skip=1))
        recording = reader.read([NODES, PODS])
        hits = sandbox.faults.hits

    assert hits == 2
    assert len(names(recording)) == len(set(names(recording))) == 23


def test_a_list_that_expires_three_times_is_one_line() -> None:
    with a_sandbox() as sandbox, reading(sandbox.url, page_size=5) as reader:
        sandbox.faults.add(Fault("expire-continue", path="/pods", times=0))
        with pytest.raises(UnreachableError) as caught:
            reader.read([NODES, PODS])
        hits = sandbox.faults.hits

    assert hits == 3
    assert str(caught.value) == (
        f"{sandbox.url}: list pods: expired 3 times between pages "
        "(the cluster changes faster than it can be read)"
    )


def test_large_answers_travel_packed() -> None:
    asked: list[str] = []
    with a_sandbox(objects=[]) as sandbox:
        sandbox.load({"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"n{n}"}} for n in range(3000))
        with reading(sandbox.url, page_size=5000) as reader:
            pool = reader._api.client.login.pool
            request = pool.request

            def noted(method: str, url: str, **options: object) -> object:
                response = request(method, url, **options)
                asked.append(response.headers.get("Content-Encoding", "plain"))
                return response

            pool.request = noted
            recording = reader.read([NODES])

    assert asked == ["gzip"]
    assert len(names(recording, "nodes")) == 3000


def test_each_kind_keeps_its_own_version_and_time() -> None:
    with a_sandbox() as sandbox, reading(sandbox.url, page_size=5) as reader:
        recording = reader.read([NODES, PODS])

    assert {listing.read_at for listing in recording.listings.values()} == {START}
    assert all(listing.resource_version.isdigit() for listing in recording.listings.values())


def a_page(path: str, token: str) -> tuple[int, bytes]:
    metadata = {"resourceVersion": "1", "continue": token, "remainingItemCount": 10**9}
    return 200, json.dumps({"kind": "NodeList", "metadata": metadata, "items": []}).encode()


def test_a_list_that_never_ends_is_given_up() -> None:
    seen: list[str] = []

    def ever_on(path: str) -> tuple[int, bytes]:
        seen.append(path)
        return a_page(path, f"page-{len(seen)}")

    with (
        answering(ever_on) as url,
        reading(url, max_pages=20) as reader,
        pytest.raises(UnreachableError, match="list nodes: does not end after 20 pages"),
    ):
        reader.read([NODES])

    assert len(seen) == 20
    assert parse_qs(urlsplit(seen[-1]).query) == {"limit": ["500"], "continue": ["page-19"]}


def test_a_list_that_goes_round_in_circles_is_given_up() -> None:
    with (
        answering(lambda path: a_page(path, "again")) as url,
        reading(url) as reader,
        pytest.raises(UnreachableError, match="the same page is offered again"),
    ):
        reader.read([NODES])


def test_the_next_page_is_on_the_wire_while_one_is_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    asked_again = threading.Event()
    overlapped: list[bool] = []
    add_list = ListingBuilder.add_list

    def page(path: str) -> tuple[int, bytes]:
        if "continue" in path:
            asked_again.set()
            return a_page(path, "")
        return a_page(path, "page-2")

    def slowly(builder: ListingBuilder, body: bytes) -> None:
        overlapped.append(asked_again.wait(HANG_SECONDS))
        add_list(builder, body)

    monkeypatch.setattr(ListingBuilder, "add_list", slowly)
    with answering(page) as url, reading(url) as reader:
        reader.read([NODES])

    assert overlapped == [True, True]


def test_while_pages_come_it_is_said_of_which_kind_and_how_many_objects() -> None:
    said: list[str] = []
    with a_sandbox() as sandbox, reading(sandbox.url, page_size=10) as reader:
        reader.read(progress=said.append)
    assert "reading pods: 10 so far" in said
    assert "reading pods: 20 so far" in said
