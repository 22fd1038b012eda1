"""What is made of a Prometheus' answers, without one."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from rebalancer.load.prometheus.queries import PrometheusQuery
from rebalancer.load.prometheus.reader import PrometheusReader
from rebalancer.policy.load_sources import Prometheus
from tests.builders import a_node, a_snapshot
from tests.unit.load.builders import NOW


def test_pressure_whose_age_is_not_known_is_unknown_even_where_that_of_another_resource_is_fresh() -> None:
    snapshot = a_snapshot(nodes=[a_node("n0"), a_node("n1")])

    def answer(question: PrometheusQuery) -> bytes:
        value = str(NOW) if "timestamp" in question.query else "30"
        dated = ["n0"] if "timestamp(node_pressure_cpu" in question.query else ["n0", "n1"]
        result: list[Any] = [{"metric": {"instance": name}, "value": [NOW, value]} for name in dated]
        document = {"status": "success", "data": {"resultType": "vector", "result": result}}
        return json.dumps(document).encode()

    figures = PrometheusReader(
        settings=Prometheus(address="http://p"),
        ask=answer,
        nodes=snapshot.nodes,
        pods=snapshot.pods,
        now=NOW,
        pressure=("cpu", "memory"),
    ).node_figures()

    assert figures.pressure is not None
    np.testing.assert_array_equal(figures.pressure.percent["cpu"], [30.0, np.nan])
    np.testing.assert_array_equal(figures.pressure.percent["memory"], [30.0, 30.0])
    assert "prometheus p: no pressure of cpu for node n1" in figures.warnings
