from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalancer.load.scheduler_view import decode_watcher, watcher_of_metrics
from rebalancer.load.services import ServiceAddress, service_of
from tests.builders import a_node, a_snapshot
from tests.rows import rows
from tests.unit.load.builders import NOW, a_node_metric, a_percentage, a_watcher


def document(**changes: Any) -> bytes:
    base = {"timestamp": 5, "window": {"start": 1, "end": 4}, "data": {"NodeMetricsMap": {}}, "source": "S"}
    return json.dumps({**base, **changes}).encode()


def test_the_document_of_load_watcher_is_read() -> None:
    found = a_watcher({"n2": [a_percentage("CPU", 37.5)], "n1": []})

    assert list(found.nodes) == ["n1", "n2"]
    assert found.nodes["n2"][0].value == 37.5
    assert (found.source, found.window_end - found.window_start) == ("Prometheus", 900)


@rows(
    "content",
    [
        b"",
        b"null",
        b"[]",
        b"<html>",
        b'{"data": {}}',
        document(data={"NodeMetricsMap": None}),
        document(data={"NodeMetricsMap": {"n1": {"metrics": [{"value": "x"}]}}}),
        document(window={"end": 10**400}),
        document(timestamp="now"),
        document(data={"NodeMetricsMap": {"n1": {"metrics": [{"value": 1}]}}}).replace(b"1}]", b"1e999}]"),
    ],
)
def test_what_is_not_load_watchers_is_refused(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        decode_watcher(content)


@given(st.binary(max_size=40))
def test_any_bytes_are_read_or_refused_with_one_kind_of_error(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        decode_watcher(content)


def test_a_value_beyond_belief_is_dropped() -> None:
    found = a_watcher({"n1": [a_percentage("CPU", 1e10), a_percentage("Memory", 5)]})

    assert [metric.type for metric in found.nodes["n1"]] == ["Memory"]


def test_null_metrics_are_none() -> None:
    assert decode_watcher(document(data={"NodeMetricsMap": {"n1": {"metrics": None}}})).nodes["n1"] == ()


@rows(
    "address, expected",
    [
        ("http://load-watcher.loadwatcher:2020", ServiceAddress("loadwatcher", "load-watcher:2020", "")),
        ("http://lw.ns.svc.cluster.local:2020/a/", ServiceAddress("ns", "lw:2020", "a")),
        ("https://lw.ns.svc", ServiceAddress("ns", "https:lw", "")),
        ("http://localhost:2020", None),
        ("http://10.0.0.1:2020", None),
        ("http://lw.example.com", None),
        ("http://lw.ns:99999", None),
        ("http://[::1", None),
        ("", None),
    ],
)
def test_an_address_names_a_service_of_the_cluster_or_none(
    address: str, expected: ServiceAddress | None
) -> None:
    assert service_of(address) == expected


def test_the_built_in_watcher_sees_the_latest_figures_in_percent_of_capacity() -> None:
    nodes = a_snapshot(nodes=[a_node("n1", capacity_cpu="8"), a_node("n2"), a_node("n3")]).nodes
    metrics = [a_node_metric("n1", "2", "2Gi", age=30), a_node_metric("n2", "x"), a_node_metric("n9")]
    found = watcher_of_metrics(metrics, nodes, NOW)

    assert {name: [figure.value for figure in figures] for name, figures in found.nodes.items()} == {
        "n1": [25.0, 25.0]
    }
    assert {figure.operator for figure in found.nodes["n1"]} == {"Latest"}
    assert found.window_end == NOW - 30


def test_the_built_in_watcher_of_nothing_is_empty_and_as_of_now() -> None:
    found = watcher_of_metrics([], a_snapshot().nodes, NOW)

    assert (dict(found.nodes), found.window_end) == ({}, NOW)
