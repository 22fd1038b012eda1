"""A Prometheus that is reached through the API server: what that refuses is said in its words."""

from __future__ import annotations

import pytest

from rebalancer.errors import RebalancerError
from rebalancer.load.prometheus.client import LivePrometheus
from rebalancer.load.prometheus.queries import Connection, PrometheusQuery
from tests.unit.execution.fake_api import Answer, fake_api, refusal

FORBIDDEN = 'services "prometheus:9090" is forbidden: User "me" cannot get resource "services/proxy"'
GRANT = (
    "from outside the cluster it is reached by the right to get services/proxy: grant that in its namespace"
)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (refusal(403, FORBIDDEN), f"HTTP 403 {FORBIDDEN} (1 attempt) ({GRANT})"),
        (
            refusal(503, "no endpoints available for service"),
            "HTTP 503 no endpoints available for service (3",
        ),
        (Answer(401, b"who are you?"), "HTTP 401 (1 attempt) (are the credentials right?)"),
    ],
)
def test_what_the_api_server_refuses_is_said_with_what_to_grant(answer: Answer, said: str) -> None:
    api, _ = fake_api(lambda _request: answer)
    ask = LivePrometheus(Connection("http://prometheus.monitoring:9090"), api, 1.0)

    with pytest.raises(RebalancerError) as caught:
        ask(PrometheusQuery("up"))
    assert said in str(caught.value)


def test_so_is_what_it_refuses_of_another_service() -> None:
    api, _ = fake_api(lambda _request: refusal(403, FORBIDDEN))

    with pytest.raises(RebalancerError) as caught:
        api.service_proxy("loadwatcher", "load-watcher:2020", "watcher")
    assert caught.value.hint == GRANT
