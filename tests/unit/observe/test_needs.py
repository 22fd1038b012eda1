"""What a plan needs beside the cluster's objects is asked for together, and recorded in one order."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any, cast

import pytest

from rebalancer.cluster.dumps.listing import Recording
from rebalancer.cluster.live import RawApi
from rebalancer.load.prometheus.queries import Connection, PrometheusQuery
from rebalancer.load.prometheus.responses import RecordedResponses
from rebalancer.observe.needs import Needs, ask_ahead
from rebalancer.observe.plan_options import PlanOptions
from rebalancer.observe.read import _say, observe
from rebalancer.policy.policy_file import LoadedPolicy
from rebalancer.retries import Retries
from tests.builders import a_node
from tests.loopback import Answer, Request, answering
from tests.unit.planning.builders import NOW, a_policy, planning_inputs
from tests.waiting import HANG_SECONDS

if TYPE_CHECKING:
    from rebalancer.cluster.live.watching import LiveCluster

EMPTY = json.dumps({"status": "success", "data": {"resultType": "vector", "result": []}}).encode()
QUERIES = [PrometheusQuery(name) for name in ("first", "second", "third", "fourth")]


class Api:
    """An API server that nobody asks anything."""

    host = "https://127.0.0.1:6443"

    def __init__(self) -> None:
        self.retries = Retries(pause=lambda _seconds: None, random=lambda: 0.0)
        self.client = self
        self.verifies_certificates = True

    def server_version(self) -> str:
        return "v1.35.4"

    def get(self, _what: str, _path: str, _query: object = None) -> bytes:
        return b'{"items": []}'

    def server_time(self) -> float:
        return NOW


def asked(*addresses: str) -> RecordedResponses:
    """What the book holds once every query was asked of these addresses."""
    needs = Needs(planning_inputs([a_node("n")]).snapshot, NOW, "", RecordedResponses(NOW))
    needs.requests = {(Connection(item), query): None for item in addresses for query in QUERIES}
    return needs.observe(cast("RawApi", Api())).figures.prometheus


def test_after_the_first_answer_further_queries_are_asked_without_waiting_for_each_other() -> None:
    together = threading.Barrier(len(QUERIES) - 1)

    def answer(request: Request) -> Answer:
        if "first" not in request.path:
            together.wait(HANG_SECONDS)  # raises, and so answers nothing, unless all the others are asked
        return Answer(EMPTY)

    with answering(answer) as url:
        found = asked(url)

    assert found.failures == {}
    assert found.answers[url].keys() == {query.key for query in QUERIES}


@pytest.mark.parametrize("refused", [("second",), ("second", "fourth")])
def test_a_recording_is_the_same_bytes_in_whatever_order_the_answers_come(refused: tuple[str, ...]) -> None:
    def answered(last: str) -> tuple[RecordedResponses, str]:
        others = threading.Semaphore(0)

        def answer(request: Request) -> Answer:
            name = request.path.split("query=")[1].split("&")[0]
            if name == last:
                for _ in range(len(QUERIES) - 2):  # all but the first, which was asked alone
                    assert others.acquire(timeout=HANG_SECONDS)
            elif name != "first":
                others.release()
            return Answer(b"{}", 400) if name in refused else Answer(EMPTY)

        with answering(answer) as url:
            return asked(url), url

    documents: list[Any] = []
    for last in ("second", "fourth"):
        book, url = answered(last)
        documents.append(book.encode().decode().replace(url, "address"))

    assert len(json.loads(documents[0])["failures"]["address"]) == len(refused)
    assert documents[0] == documents[1]


def test_a_server_that_does_not_answer_the_first_query_is_not_asked_the_others() -> None:
    requests: list[str] = []

    def answer(request: Request) -> Answer:
        requests.append(request.path)
        return Answer(b"", 401)

    with answering(answer) as url:
        found = asked(url)

    assert len(requests) == 1
    assert found.failures[url].keys() == {query.key for query in QUERIES}


class Cluster:
    """A cluster that is read as soon as a Prometheus has been asked, and not before."""

    def __init__(self, asked: threading.Event) -> None:
        self._asked = asked

    def current(self, *_: object) -> Recording:
        assert self._asked.wait(HANG_SECONDS)
        return planning_inputs([a_node("n")]).snapshot.recording


def loaded(**prometheus: str) -> LoadedPolicy:
    return LoadedPolicy(a_policy(load={"sources": [{"prometheus": prometheus}]}), "test", "sha256:0")


def test_what_a_policy_names_is_asked_once_and_while_the_cluster_is_read() -> None:
    requests: list[str] = []
    begun = threading.Event()

    def answer(request: Request) -> Answer:
        requests.append(request.path.split("&time=")[0])
        begun.set()
        return Answer(EMPTY)

    with answering(answer) as url:
        api, cluster = cast("RawApi", Api()), cast("LiveCluster", Cluster(begun))
        found = observe(PlanOptions(), [loaded(address=url)], api, clock=lambda: NOW, cluster=cluster)

    assert found.figures.prometheus.answers.keys() == {url}
    assert len(requests) == len(set(requests)) == len(found.figures.prometheus.answers[url])


@pytest.mark.parametrize(
    ("ours", "says"),
    [
        (NOW + 59.0, ""),
        (NOW + 1800.0, "the clock of this machine is about 30 min ahead of the API server's: loads, ages"),
        (NOW - 90_000.0, "the clock of this machine is about 1,500 min behind the API server's: loads, ages"),
    ],
)
def test_a_clock_that_is_not_the_api_servers_is_warned_of_once(
    caplog: pytest.LogCaptureFixture, ours: float, says: str
) -> None:
    _say.cache_clear()
    by_requests = LoadedPolicy(a_policy(load={"sources": [{"requests": {}}]}), "test", "sha256:0")
    for _ in range(2):
        snapshot = planning_inputs([a_node("n")]).snapshot
        observe(PlanOptions(), [by_requests], cast("RawApi", Api()), clock=lambda: ours, snapshot=snapshot)
    assert [item.message[: len(says)] for item in caplog.records] == ([says] if says else [])


def test_a_server_that_is_found_by_its_service_is_not_asked_before_the_services_are_known() -> None:
    def answer(_request: Request) -> Answer:
        raise AssertionError

    with answering(answer) as url:
        policies = [(loaded(address=url), ()), (loaded(), ())]
        found = ask_ahead(policies, cast("RawApi", Api()), NOW)

    assert (found.answers, found.failures) == ({}, {})
