"""A real Prometheus scrapes a real service: each metric has a value, each panel of the board an answer."""

from __future__ import annotations

import itertools
import json
import shutil
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rebalancer.reporting.metrics import METRICS
from tests.builders import a_pod
from tests.integration.prometheus.servers import MISSING, Prometheus, running
from tests.integration.serving.replicas import EVERY_SECOND, a_hot_cluster
from tests.waiting import HANG_SECONDS, eventually

DASHBOARD = Path(__file__).parents[3] / "charts" / "rebalancer" / "files" / "dashboard.json"
# One pod of the shop moves, and then every workload that could cool the nodes rests or is excluded.
SOME_STAYS = EVERY_SECOND.replace(
    "evictable: {minAge: 10m}", "evictable: {minAge: 10m, podSelector: {matchLabels: {app: api}}}"
)
SOME_STAYS = SOME_STAYS.replace("perWorkload: 25%", "perWorkload: 1")

pytestmark = pytest.mark.skipif(
    shutil.which("prometheus") is None or shutil.which("promtool") is None, reason=MISSING
)


def asked(prometheus: Prometheus, query: str) -> list[Any]:
    """The series that answer an instant query."""
    text = urllib.parse.urlencode({"query": query})
    with urllib.request.urlopen(
        f"{prometheus.address}/api/v1/query?{text}", timeout=HANG_SECONDS
    ) as response:
        answer = json.load(response)
    assert answer["status"] == "success", answer
    found: list[Any] = answer["data"]["result"]
    return found


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """One that has scraped a service which evicted pods and has a node that stays hot."""
    folder = tmp_path_factory.mktemp("monitoring")
    with a_hot_cluster(folder) as cluster:
        cluster.policy.write_text(SOME_STAYS)
        replica = cluster.start("--act")
        host = replica.url.removeprefix("http://")
        scrape = f"scrape_configs:\n  - job_name: rebalancer\n    static_configs: [{{targets: ['{host}']}}]\n"
        with running(folder / "prometheus", None, scrape) as found:
            eventually(lambda: asked(found, "rebalancer_evictions_total"), awaited="an eviction was scraped")
            eventually(lambda: asked(found, "rebalancer_unsolved_node"), awaited="a hot node was scraped")
            looks = itertools.count()

            def compared() -> list[Any]:
                """The first look at the cluster may come after all evictions, so more pods are bound."""
                if (look := next(looks)) % 50 == 0:
                    cluster.sandbox.store.create("pods", a_pod(f"more-{look}", cpu="1m", memory="1Mi"))
                return asked(found, _once("increase(rebalancer_scheduler_decisions_total[1h])"))

            eventually(compared, awaited="decisions of the scheduler were compared")
            eventually(
                lambda: [
                    item for item in asked(found, "count_over_time(up[5m])") if int(item["value"][1]) >= 8
                ],
                awaited="enough scrapes for a rate",
            )
            yield found


def test_each_metric_of_the_docs_has_a_value_and_its_labels(prometheus: Prometheus) -> None:
    """One test, as the cluster, the service and the Prometheus are dear to start."""
    wrong = {}
    for metric in METRICS:
        found = asked(prometheus, f"last_over_time({metric.name}[10m])")
        labels = set(found[0]["metric"]) - {"__name__", "job", "instance"} if found else "no value"
        if labels != set(metric.labels):
            wrong[metric.name] = labels

    assert wrong == {}


def test_each_panel_of_the_dashboard_has_an_answer(prometheus: Prometheus) -> None:
    panels = json.loads(DASHBOARD.read_text())["panels"]
    queries = [(panel["title"], target["expr"]) for panel in panels for target in panel["targets"]]
    silent = [
        f"{title}: {query}"
        for title, query in queries
        if not asked(prometheus, _once(query.replace("$__rate_interval", "5m").replace("$cluster", ".*")))
    ]

    assert len(queries) >= len(panels) > 10
    assert silent == []


def _once(query: str) -> str:
    """The query over the last minutes: a node that was hot then may be cool by now."""
    return f"last_over_time(({query})[10m:1s])"


def test_nothing_is_scraped_that_is_not_in_the_docs(prometheus: Prometheus) -> None:
    names = {
        item["metric"]["__name__"]
        for item in asked(prometheus, '{job="rebalancer",__name__=~"rebalancer_.*"}')
    }
    assert names <= {metric.name for metric in METRICS}
