"""Sources that are read one after the other, and what one figure of theirs makes of another."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rebalancer.errors import InputError
from rebalancer.load.prometheus.responses import RecordedResponses
from rebalancer.load.raw_figures import RawFigures
from rebalancer.load.report import LoadReport
from rebalancer.load.scheduler_view import EMPTY_VIEW
from rebalancer.load.sources import prometheus_reader, read_load
from rebalancer.planning.assemble import requests_by_pod
from rebalancer.policy.load_sources import PrometheusSource
from rebalancer.policy.schema import RebalancePolicy
from tests.builders import a_node, a_pod, a_snapshot
from tests.unit.load.builders import NOW

ADDRESS = "http://p:9090"
QUERIES = {"cpu": "sum by (node) (of_nodes)", "memory": "sum by (node) (of_nodes)"}
POLICY = RebalancePolicy.model_validate(
    {
        "load": {
            "window": "15m",
            "statistic": {"cpu": "predictedPeak"},
            "sources": [{"prometheus": {"address": ADDRESS, "queries": QUERIES}}],
        }
    }
)
SNAPSHOT = a_snapshot(
    nodes=[a_node("n0")], pods=[a_pod(f"web-{number}", node="n0", cpu="1") for number in range(2)]
)


def an_answer(kind: str, result: Any) -> bytes:
    return json.dumps({"status": "success", "data": {"resultType": kind, "result": result}}).encode()


def read(cores: dict[str, str], age: float = 0.0) -> LoadReport:
    """The load of a node that uses 1 core all the time, with so old figures of its pods."""
    (source,) = POLICY.load.sources
    assert isinstance(source, PrometheusSource)

    def answer(query: str) -> bytes:
        if query == "time()":
            return an_answer("scalar", [NOW, str(NOW)])
        if "of_nodes" in query:
            points = [[NOW - 30 * step, "1"] for step in range(30, -1, -1)]
            return an_answer("matrix", [{"metric": {"node": "n0"}, "values": points}])
        values = dict.fromkeys(cores, str(NOW - age)) if "timestamp" in query else cores
        found = [
            {"metric": {"namespace": "default", "pod": name}, "value": [NOW, value]}
            for name, value in values.items()
        ]
        return an_answer("vector", found)

    book = RecordedResponses(NOW)
    for question in prometheus_reader(source, SNAPSHOT, book, POLICY, (), NOW).requests():
        content = answer(question.query)
        book.keep(ADDRESS, question, lambda content=content: content)  # type: ignore[misc]
    figures, requests = RawFigures(prometheus=book), requests_by_pod(SNAPSHOT)
    return read_load(SNAPSHOT, figures, POLICY, EMPTY_VIEW, requests, None, (), now=NOW, live=False).report


def test_pods_raise_a_predicted_peak_of_their_node_above_its_own_past() -> None:
    assert read({"web-0": "2", "web-1": "1"}).usage[0, 0] == pytest.approx(3000.0)


def test_a_figure_that_no_pod_can_have_raises_no_predicted_peak() -> None:
    report = read({"web-0": "2", "web-1": "1e12"})

    assert report.usage[0, 0] == pytest.approx(2000.0)
    assert any("figures of 1 pod, negative or far above" in words for words in report.warnings)


def test_figures_of_pods_that_are_too_old_raise_no_predicted_peak() -> None:
    assert read({"web-0": "2", "web-1": "1"}, age=181.0).usage[0, 0] == pytest.approx(1000.0)


def test_a_source_that_is_refused_is_not_said_to_give_no_answer() -> None:
    policy = RebalancePolicy.model_validate({"load": {"sources": [{"prometheus": {}}]}})
    snapshot = a_snapshot(nodes=[a_node("n0")], services=[])
    requests = requests_by_pod(snapshot)

    with pytest.raises(InputError, match="no load source can be used: "):
        read_load(snapshot, RawFigures(), policy, EMPTY_VIEW, requests, None, (), now=NOW, live=True)
