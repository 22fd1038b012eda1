from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rebalancer.errors import InputError
from rebalancer.load.prometheus.queries import PrometheusQuery, lookback_seconds, queries_of
from rebalancer.load.prometheus.reader import NodeNameIndex, PrometheusReader
from rebalancer.load.prometheus.responses import (
    RecordedResponses,
    decode_answer,
    decode_book,
    decode_latest,
    failure_words,
)
from rebalancer.load.windows import MetricWindow
from rebalancer.policy.load_sources import Prometheus
from tests.builders import a_node, a_pod, a_snapshot
from tests.rows import rows


def an_answer(kind: str, result: Any) -> bytes:
    return json.dumps({"status": "success", "data": {"resultType": kind, "result": result}}).encode()


scalars = st.none() | st.booleans() | st.integers() | st.text() | st.sampled_from([[1, "2"], [1.5, "NaN"]])
json_values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["metric", "value", "values", "data"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.binary() | json_values.map(json.dumps).map(str.encode))
def test_whatever_is_not_a_successful_answer_is_a_value_error(content: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - msgspec's are too
        decode_answer(content)


@given(st.sampled_from(["scalar", "vector", "matrix", "string"]), json_values)
@example("vector", [{"metric": {}, "value": [1, "2"]}, {"metric": {}}])
@example("matrix", [{"values": [[1, "2"], [2, "3"]]}])
def test_whatever_a_successful_answer_holds_is_series_with_a_time_for_each_value_or_a_value_error(
    kind: str, result: Any
) -> None:
    try:
        found = decode_answer(an_answer(kind, result))
    except ValueError:
        return
    assert len(found) == (1 if kind == "scalar" else len(result))
    assert all(item.times.shape == item.values.shape == (len(item.values),) for item in found)


INCOMPLETE: dict[str, dict[str, Any]] = {
    "No StoreAPIs matched for this query": {"warnings": ["No StoreAPIs matched for this query"]},
    "receive series from store-2: rpc error": {
        "warnings": ["PromQL info: x might not be a counter", "receive series from store-2: rpc error"]
    },
    "isPartial": {"isPartial": True},
}
WHOLE: dict[str, dict[str, Any]] = {
    "no warning": {},
    "not partial": {"isPartial": False, "warnings": []},
    "about the query": {"warnings": ["PromQL info: metric might not be a counter", "PromQL warning: a mix"]},
}


def an_answer_that_says(**more: Any) -> bytes:
    answer = json.loads(an_answer("vector", [{"metric": {"a": "b"}, "value": [1.5, "2"]}]))
    return json.dumps({**answer, **more}).encode()


@rows("said", INCOMPLETE)
@pytest.mark.parametrize("decode", [decode_answer, decode_latest])
def test_an_answer_that_says_that_it_lacks_series_is_none(said: str, decode: Any) -> None:
    with pytest.raises(ValueError, match="is incomplete, as it says itself") as caught:
        decode(an_answer_that_says(**INCOMPLETE[said]))
    assert said in failure_words(caught.value)
    assert "is not a Prometheus response" not in failure_words(caught.value)


@rows("said", WHOLE)
def test_an_answer_that_says_nothing_of_series_that_it_lacks_is_used(said: str) -> None:
    assert decode_answer(an_answer_that_says(**WHOLE[said]))[0].values.tolist() == [2.0]


def test_vectors_matrices_and_scalars_become_series() -> None:
    (vector,) = decode_answer(an_answer("vector", [{"metric": {"a": "b"}, "value": [1.5, "2"]}]))
    (matrix,) = decode_answer(an_answer("matrix", [{"metric": {}, "values": [[1, "NaN"], [2, "+Inf"]]}]))
    (scalar,) = decode_answer(an_answer("scalar", [3, "4"]))

    assert (vector.labels, vector.times.tolist(), vector.values.tolist()) == ({"a": "b"}, [1.5], [2.0])
    assert matrix.times.tolist() == [1.0, 2.0]
    assert (scalar.labels, scalar.values.tolist()) == ({}, [4.0])


def nodes_at(*addresses: str) -> NodeNameIndex:
    nodes = []
    for number, address in enumerate(addresses):
        node = a_node(f"n{number}", labels={"kubernetes.io/hostname": f"host-{number}"})
        node["status"]["addresses"] = [{"type": "InternalIP", "address": address}]
        nodes.append(node)
    return NodeNameIndex(a_snapshot(nodes=nodes).nodes)


@rows(
    "value, row",
    [
        ("n1", 1),
        ("n1:9100", 1),
        ("host-1", 1),
        ("host-1:10250", 1),
        ("10.0.0.1:9100", 0),
        ("10.0.0.1", 0),
        ("[fd00::1]:9100", 1),
        ("fd00::1", 1),
        ("10.0.0.2:9100", None),
        ("", None),
        (":9100", None),
    ],
)
def test_a_label_names_a_node_by_name_host_name_or_address(value: str, row: int | None) -> None:
    assert nodes_at("10.0.0.1", "fd00::1").row(value) == row


def test_an_address_of_two_nodes_names_neither() -> None:
    index = nodes_at("10.0.0.1", "10.0.0.1")

    assert index.row("10.0.0.1:9100") is None
    assert index.row("n0") == 0


def test_the_first_label_there_is_decides() -> None:
    index = nodes_at("10.0.0.1", "10.0.0.2")

    assert index.row_of_series({"node": "n1", "instance": "10.0.0.1:9100"}, None) == (1, "n1")
    assert index.row_of_series({"node": "gone", "instance": "10.0.0.1:9100"}, None) == (None, "gone")
    assert index.row_of_series({"node": "n1", "instance": "10.0.0.1:9100"}, "instance")[0] == 0


@rows(
    "query, seconds",
    [
        ("up", 0.0),
        ("rate(a[5m])", 300.0),
        ("rate(a[1h30m]) + rate(b[30s])", 5400.0),
        ("avg_over_time(rate(a[5m])[1d:1m])", 86400.0),
        ("instance:node_cpu_utilisation:rate5m", 300.0),
    ],
)
def test_how_far_a_query_looks_back_is_read_from_it(query: str, seconds: float) -> None:
    assert lookback_seconds(query) == seconds


def test_a_policy_replaces_one_query_and_keeps_the_others() -> None:
    given_one = Prometheus.model_validate({"address": "http://p", "queries": {"cpu": "cores"}})
    preset = queries_of(Prometheus(address="http://p"))
    own = queries_of(given_one)

    assert own.nodes["cpu"].query.query == "cores"
    assert own.nodes["cpu"].timestamp == "timestamp(cores)"  # a plain metric can be dated
    assert own.nodes["memory"] == preset.nodes["memory"]


def test_the_labels_of_pods_are_those_of_the_policy() -> None:
    settings = Prometheus(address="http://p", namespace_label="kubernetes_namespace", pod_label="pod_name")
    found = queries_of(settings).pods["cpu"]

    assert found.startswith("sum by (kubernetes_namespace, pod_name) (")
    assert '{pod_name!=""' in found


@rows(
    "window, query",
    [
        (MetricWindow(), "q"),
        (MetricWindow(900.0), "avg_over_time((q)[900s:30s])"),
        (MetricWindow(900.0, "max"), "max_over_time((q)[900s:30s])"),
        (MetricWindow(60.0, "p95"), "quantile_over_time(0.95, (q)[60s:15s])"),
        (MetricWindow(60.0, "predictedPeak"), "quantile_over_time(0.95, (q)[60s:15s])"),
    ],
)
def test_a_window_is_one_query_of_its_statistic(window: MetricWindow, query: str) -> None:
    assert window.over("q") == query


def test_a_book_of_answers_is_read_back_and_knows_what_it_lacks() -> None:
    answer = an_answer("vector", [])
    book = RecordedResponses(5.0)
    book.keep("http://p", PrometheusQuery("up"), lambda: answer)
    read = decode_book(book.encode(), "prometheus.json")
    ask = read.asking("http://p", "dump/prometheus.json")

    assert (read.time, ask(PrometheusQuery("up"))) == (5.0, answer)
    with pytest.raises(InputError, match="not recorded"):
        ask(PrometheusQuery("down"))
    with pytest.raises(InputError, match="not recorded"):
        ask(PrometheusQuery("up", 900.0))


def test_the_traffic_of_a_pod_on_its_nodes_network_is_not_its_own() -> None:
    pods = [a_pod("own", node="n0"), a_pod("host", node="n0")]
    pods[1]["spec"]["hostNetwork"] = True
    snapshot = a_snapshot(nodes=[a_node("n0")], pods=pods)
    result = [
        {"metric": {"namespace": "default", "pod": name}, "value": [1, "5"]} for name in ("own", "host")
    ]
    reader = PrometheusReader(
        settings=Prometheus(address="http://p"),
        ask=lambda _: an_answer("vector", result),
        nodes=snapshot.nodes,
        pods=snapshot.pods,
        now=1.0,
        resources=("cpu", "memory", "networkReceive"),
    )
    figures = reader.pod_figures()

    assert figures is not None
    rows = [snapshot.pods.row["default", name] for name in ("own", "host")]
    assert figures.usage[rows[0]].tolist() == [5000.0, 5.0, 5.0]
    assert figures.usage[rows[1], :2].tolist() == [5000.0, 5.0]
    assert np.isnan(figures.usage[rows[1], 2])


@given(st.binary() | json_values.map(json.dumps).map(str.encode))
@example(b"{}")
@example(b'{"answers": {"http://p": {"instant up": {}}}}')
def test_a_damaged_book_is_one_line_and_any_other_is_written_as_it_was_read(content: bytes) -> None:
    where, message = "dump/prometheus.json", ""
    try:
        book = decode_book(content, where)
    except InputError as error:
        message = str(error)
        book = RecordedResponses()

    assert not message or message.startswith(f"{where}: not what snapshot save writes: ")
    assert len(message.splitlines()) <= 1
    assert decode_book(book.encode(), where) == book


points = st.tuples(st.integers(0, 10), st.sampled_from(["1", "-1.5", "NaN", "+Inf", "1e3"]))
series = st.one_of(
    st.fixed_dictionaries({"metric": st.just({"pod": "a"}), "value": points}),
    st.fixed_dictionaries({"metric": st.just({"pod": "b"}), "values": st.lists(points, max_size=3)}),
)


@given(st.lists(series, max_size=5))
def test_the_latest_values_are_the_last_of_every_series_that_has_one(result: list[dict[str, object]]) -> None:
    content = json.dumps({"status": "success", "data": {"resultType": "matrix", "result": result}}).encode()
    latest = decode_latest(content)
    whole = [item for item in decode_answer(content) if len(item.values)]

    assert latest.labels == [item.labels for item in whole]
    assert latest.values.tobytes() == np.array([item.values[-1] for item in whole], np.float64).tobytes()


@pytest.mark.parametrize("content", [b"{", b'{"status":"error","error":"no"}', b'{"status":"success"}'])
def test_what_is_no_answer_has_no_latest_values(content: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - msgspec's are too
        decode_latest(content)


def test_figures_of_pods_whose_age_cannot_be_had_are_not_taken_for_new_ones() -> None:
    snapshot = a_snapshot(nodes=[a_node("n0")], pods=[a_pod("web", node="n0")])
    result = [{"metric": {"namespace": "default", "pod": "web"}, "value": [1, "5"]}]

    def ask(question: PrometheusQuery) -> bytes:
        return b"<html>" if "timestamp" in question.query else an_answer("vector", result)

    reader = PrometheusReader(
        settings=Prometheus(address="http://p"), ask=ask, nodes=snapshot.nodes, pods=snapshot.pods, now=1.0
    )
    figures = reader.pod_figures()

    assert figures is not None
    assert np.isnan(figures.measured_at).all()
    assert any("the age of figures of pods" in warning for warning in figures.warnings)
