"""Prometheus' answers to every question of a policy, and the recorded book of them."""

from __future__ import annotations

import json
from collections.abc import Mapping

from rebalancer.cluster import times
from rebalancer.errors import InputError
from rebalancer.load.prometheus.responses import RecordedResponses, decode_book
from rebalancer.load.raw_figures import RawFigures
from rebalancer.load.scheduler_view import EMPTY_VIEW
from rebalancer.load.sources import prometheus_reader, read_load
from rebalancer.planning.assemble import requests_by_pod
from rebalancer.policy.load_sources import PrometheusSource
from rebalancer.policy.policy_file import parse_policy
from tests.fuzz.clusters import sound_snapshot
from tests.fuzz.structure import json_structure
from tests.fuzz.target import Target
from tests.fuzz.targets.policies import POLICIES
from tests.integration.cli.dumps import NOW

POLICY = parse_policy((POLICIES / "prometheus.yaml").read_text(), "prometheus.yaml").policy


def decode(content: bytes) -> None:
    """The same answer to every question."""
    snapshot, now = sound_snapshot(), times.parse(NOW)
    book = RecordedResponses(now)
    for source in POLICY.load.sources:
        if isinstance(source, PrometheusSource):
            for query in prometheus_reader(source, snapshot, book, POLICY, (), now).requests():
                book.keep(source.prometheus.address or "", query, lambda: content)
    figures, requests = RawFigures(prometheus=book), requests_by_pod(snapshot)
    read_load(snapshot, figures, POLICY, EMPTY_VIEW, requests, None, (), now=now, live=False)


def decode_recorded(content: bytes) -> None:
    """A book is written as it was read; what is none is refused."""
    book = decode_book(content, "prometheus.json")
    try:
        again = decode_book(book.encode(), "written")
    except InputError as error:
        raise AssertionError(f"a book that was read cannot be written and read again: {error}") from error
    assert again.answers.keys() == book.answers.keys()


def _answer(kind: str, result: object) -> bytes:
    return json.dumps({"status": "success", "data": {"resultType": kind, "result": result}}).encode()


def seeds() -> Mapping[str, bytes]:
    """An answer of each type, a refusal."""
    labels = [{"instance": f"n{number}", "node": f"n{number}", "pod": "web-0"} for number in range(3)]
    moment = times.parse(NOW)
    return {
        "vector.json": _answer("vector", [{"metric": item, "value": [moment, "0.5"]} for item in labels]),
        "matrix.json": _answer(
            "matrix", [{"metric": item, "values": [[moment - 15, "1"], [moment, "2"]]} for item in labels]
        ),
        "scalar.json": _answer("scalar", [moment, "1"]),
        "refusal.json": b'{"status": "error", "errorType": "bad_data", "error": "parse error"}',
    }


def _books() -> Mapping[str, bytes]:
    answers = {"http://p:9090": {"query=up": json.loads(seeds()["vector.json"])}}
    failures = {"http://q:9090": {"query=up": "no answer"}}
    return {"book.json": json.dumps({"time": 5.0, "answers": answers, "failures": failures}).encode()}


TARGETS = (
    Target("prometheus", decode, seeds, json_structure(), largest=64 << 20),
    Target("prometheus-book", decode_recorded, _books, json_structure(), largest=64 << 20),
)
