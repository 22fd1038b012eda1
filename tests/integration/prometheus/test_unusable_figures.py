"""A figure that cannot be trusted is not used, by a rule, with a warning that names source and node."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator, Mapping

import numpy as np
import pytest

from rebalancer.errors import RebalancerError, UnreachableError
from rebalancer.load.report import build_report
from rebalancer.load.windows import MetricWindow
from rebalancer.policy.load_sources import Signal
from tests.integration.prometheus.clusters import GIB, NAMES, NOW, a_cluster, a_reader, node_exporter
from tests.integration.prometheus.servers import Prometheus, Samples, answering, moments, running
from tests.rows import rows
from tests.waiting import HANG_SECONDS, present


def the_past() -> Samples:
    samples = Samples()
    for name in NAMES:
        node_exporter(samples, name, cores=1.0)
    for metric, odd in (
        ("negative", -1.0),
        ("not_a_number", math.nan),
        ("infinite", math.inf),
        ("beyond_capacity", 9.0),
    ):
        samples.steady(metric, {"instance": "n0"}, odd, NOW)
        for name in NAMES[1:]:
            samples.steady(metric, {"instance": name}, 1.0, NOW)
    for replica in ("a", "b"):
        samples.steady("doubled", {"instance": "n0", "replica": replica}, 1.0, NOW)
    for name in NAMES[1:]:
        samples.steady("doubled", {"instance": name}, 1.0, NOW)
        samples.steady("half", {"instance": name}, 1.0, NOW)
    # n0 was called old until ten minutes ago, at the same address, and scraped by another job.
    samples.add("renamed", {"instance": "10.0.0.1:9100", "job": "a"}, points(NOW - 600, 3.0))
    samples.steady("renamed", {"instance": "10.0.0.1:9100", "job": "b"}, 1.0, NOW, 300)
    samples.steady("renamed", {"instance": "old"}, 3.0, NOW)
    for name in NAMES[1:]:
        samples.steady("renamed", {"instance": name}, 1.0, NOW)
    samples.steady("stale", {"instance": "n0"}, 3.0, NOW - 240)
    for name in NAMES[1:]:
        samples.steady("stale", {"instance": name}, 1.0, NOW)
    for number in range(10_000):
        samples.add("many", {"instance": f"stray-{number}"}, [(NOW, 1.0)])
    for name in NAMES:
        samples.add("many", {"instance": name}, [(NOW, 2.0)])
    return samples


def points(end: float, value: float) -> list[tuple[float, float]]:
    return [(moment, value) for moment in moments(end, 300)]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    with running(tmp_path_factory.mktemp("prometheus"), the_past()) as found:
        yield found


@pytest.mark.parametrize(
    ("query", "warning"),
    [
        ("negative", "cpu is negative on node n0"),
        ("not_a_number", "cpu is not a number on node n0"),
        ("infinite", "cpu is not a number on node n0"),
        ("beyond_capacity", "cpu is more than 2 times the capacity of node n0"),
        ("doubled", "cpu: two series for node n0; neither is used"),
    ],
)
def test_an_impossible_figure_is_not_used_and_is_a_warning(
    server: Prometheus, query: str, warning: str
) -> None:
    reader = a_reader(server.address, a_cluster(), queries={"cpu": query})
    figures = reader.node_figures()

    assert np.isnan(figures.usage[0, 0])
    assert figures.usage[1:, 0].tolist() == [1000.0, 1000.0]
    assert figures.usage[:, 1].tolist() == [2 * GIB] * 3
    assert figures.warnings == (f"{reader.name}: {warning}",)


@pytest.mark.parametrize(
    ("query", "warning"),
    [
        ("half", "has no figure for cpu on node n0"),
        ("stale", "figures of node n0 are older than load.maxAge (3m) and are not used"),
    ],
)
def test_a_figure_that_is_missing_or_old_leaves_its_node_unknown(
    server: Prometheus, query: str, warning: str
) -> None:
    snapshot = a_cluster()
    reader = a_reader(server.address, snapshot, queries={"cpu": query})
    figures = reader.node_figures()
    report = build_report(
        snapshot.nodes, snapshot.pods, [figures], None, np.zeros((2, 2)), now=NOW, max_age_seconds=180
    )

    assert report.known.tolist() == [False, True, True]
    assert f"{reader.name}: {warning}" in report.warnings


def test_a_clock_that_differs_is_a_warning_and_its_figures_keep_their_age(server: Prometheus) -> None:
    snapshot = a_cluster()
    reader = a_reader(server.address, snapshot, asked_at=present() - 600)
    figures = reader.node_figures()

    assert any("s ahead of ours" in warning for warning in figures.warnings)
    assert figures.measured_at[:, 0].tolist() == pytest.approx([NOW - 600] * 3, abs=HANG_SECONDS)


def test_a_renamed_node_is_not_its_predecessor(server: Prometheus) -> None:
    reader = a_reader(server.address, a_cluster(), window=MetricWindow(900.0), queries={"cpu": "renamed"})
    figures = reader.node_figures()

    assert figures.usage[0, 0] == 1000.0
    assert f"{reader.name}: cpu: 1 series matches no node of the cluster, e.g. 'old'" in figures.warnings
    assert any("less than half the window on node n0" in warning for warning in figures.warnings)


def test_ten_thousand_series_of_no_node_are_one_warning(server: Prometheus) -> None:
    reader = a_reader(server.address, a_cluster(), queries={"cpu": "many"})
    figures = reader.node_figures()

    assert figures.usage[:, 0].tolist() == [2000.0] * 3
    assert figures.warnings == (
        f"{reader.name}: cpu: 10000 series match no node of the cluster, e.g. 'stray-0'",
    )


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("rate(", "HTTP 400"),
        ("half * on(job) group_left() doubled", "HTTP 422"),
        ('"text"', "the result is a 'string'"),
    ],
)
def test_a_query_that_is_wrong_costs_its_resource_alone(server: Prometheus, query: str, said: str) -> None:
    reader = a_reader(server.address, a_cluster(), queries={"cpu": query})
    figures = reader.node_figures()

    assert np.isnan(figures.usage[:, 0]).all()
    assert figures.usage[:, 1].tolist() == [2 * GIB] * 3
    assert len(figures.warnings) == 1
    assert figures.warnings[0].startswith(f"{reader.name}: cpu: ")
    assert said in figures.warnings[0]
    assert "\n" not in figures.warnings[0]


def test_a_signal_whose_capacity_is_unknown_has_no_percentage(server: Prometheus) -> None:
    signals = {"disk": Signal(query="doubled", capacity="half")}
    reader = a_reader(server.address, a_cluster(), resources=("cpu", "memory", "disk"), signals=signals)
    figures = reader.node_figures()

    assert np.isnan(figures.capacity["disk"][0])
    assert f"{reader.name}: no capacity of disk for node n0" in figures.warnings


# Servers that are not well

ANSWERS: dict[str, tuple[int, bytes]] = {
    "503": (503, b'{"status":"error","errorType":"unavailable","error":"starting up"}'),
    "truncated": (200, b'{"status":"success","data":{"resultType":"vector","result":[{"metric":{"inst'),
    "html": (200, b"<html>login</html>"),
    "deep": (200, b"[" * 100_000),
    "not a number": (
        200,
        b'{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1,"one"]}]}}',
    ),
    "401": (401, b"who are you?"),
    "redirect": (302, b""),
}


@rows(
    "kind, said",
    [
        ("503", "HTTP 503 starting up (3 attempts)"),
        ("truncated", "is not a Prometheus response"),
        ("html", "is not a Prometheus response"),
        ("deep", "is not a Prometheus response"),
        ("not a number", "is not a Prometheus response"),
        ("401", "HTTP 401 (1 attempt) (are the credentials right?)"),
        ("redirect", "HTTP 302 (1 attempt)"),
    ],
)
def test_a_server_that_answers_nonsense_is_one_line_that_says_so(kind: str, said: str) -> None:
    def answer(path: str, headers: Mapping[str, str]) -> tuple[int, bytes]:
        return ANSWERS[kind]

    with answering(answer) as host, pytest.raises(RebalancerError) as caught:
        a_reader(f"http://{host}", a_cluster()).node_figures()
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_server_that_is_slow_is_asked_once() -> None:
    asked: list[str] = []
    over = threading.Event()

    def answer(path: str, headers: Mapping[str, str]) -> tuple[int, bytes]:
        asked.append(path)
        over.wait(HANG_SECONDS)
        return 200, b"{}"

    with answering(answer) as host, pytest.raises(UnreachableError, match=r"no answer within 0\.2 s"):
        a_reader(f"http://{host}", a_cluster(), timeout=0.2).node_figures()
    assert len(asked) == 1


def test_a_server_that_is_not_there_says_how_it_was_tried() -> None:
    with answering(lambda path, headers: (200, b"")) as host:
        pass
    with pytest.raises(UnreachableError) as caught:
        a_reader(f"http://{host}", a_cluster()).node_figures()
    assert f"http://{host}/api/v1/query" in str(caught.value)
    assert "(3 attempts)" in str(caught.value)
