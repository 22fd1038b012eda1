"""The article's NetworkTraffic: the scheduler's file, the Deployment, a Prometheus over node_exporters."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import urllib3
import yaml

from tests import loopback
from tests.conftest import SUMMARY
from tests.e2e import metrics
from tests.e2e.api import Object
from tests.e2e.article_stacks import (
    apply_manifests,
    fate,
    nodes_by_uid,
    placed_by,
    planned_nodes,
    rebalancer,
    run_cron_job,
    shipped_policy,
)
from tests.e2e.clusters import node
from tests.e2e.controlplane import CONFIGURATION_VERSION, ControlPlane
from tests.e2e.processes import wait_until
from tests.integration.prometheus.servers import Prometheus, running

NAME = "custom-scheduler"


def test_a_pod_lands_where_network_traffic_says_and_the_busy_node_is_relieved(
    control_plane: ControlPlane, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    stack = control_plane.start(api_server_flags=metrics.front_proxy_flags(tmp_path))
    api = stack.api
    apply_manifests(stack)
    for name in RATES:
        api.create(node(name, cpu="4", memory="16Gi"))
    rates = dict(RATES)
    with metrics.exact_metrics(stack), node_exporters(tmp_path / "prometheus", rates) as prometheus:
        configuration = _configuration(prometheus.address)
        (tmp_path / "scheduler.yaml").write_text(configuration)
        policy = _policy(prometheus.address)
        # The plugin adds samples up, and a node may be scraped once more often than the other.
        wait_until(
            lambda: min(_of_nodes(prometheus, f"count_over_time({_RECEIVED}[5m])"), default=0.0) >= 10,
            "ten samples of each node",
            seconds=300.0,
        )
        api.create(_NGINX)
        wait_until(lambda: len(nodes_by_uid(api, NAME)) == 2, "two pods of nginx are made")

        # Asked before that scheduler lives, so that nothing but the model can know.
        pod = api.list("/api/v1/pods", fieldSelector=f"spec.schedulerName={NAME}")[0]["metadata"]["name"]
        explained = rebalancer(stack, tmp_path, policy, "explain", f"pod/default/{pod}").document
        assert [(item["node"], item["probability"]) for item in explained["landings"]] == [("node01", 1.0)]

        stack.start_scheduler(configuration, NAME)
        stack.wait_for_pods()
        assert set(nodes_by_uid(api, NAME).values()) == {"node01"}

        # As more follow, node01 becomes the busy one.
        api.patch("/apis/apps/v1/namespaces/default/deployments/nginx-deployment", {"spec": {"replicas": 12}})
        wait_until(lambda: len(nodes_by_uid(api, NAME)) == 12, "twelve pods of nginx are made")
        stack.wait_for_pods()
        before = nodes_by_uid(api, NAME)
        assert Counter(before.values()) == {"node01": 12}
        rates |= {"master-machine": RATES["node01"], "node01": 100e6}
        # Traffic goes on while the run lasts. Far beyond each threshold a second more decides nothing: the
        # rate of five minutes fills, a pod that leaves takes some of it, and another one is to follow.
        wait_until(
            lambda: (
                _is_much_busier(prometheus) and rebalancer(stack, tmp_path, policy, "plan").document["moves"]
            ),
            "node01 is busy, by what the plugin adds up and by its rate",
            seconds=420.0,
            every=3.0,
        )

        run = run_cron_job(stack, tmp_path, policy)

        assert run.exit_code == 0, run.stderr
        outcomes = run.document["outcomes"]
        # A second pod may have nothing to gain any more.
        landed = [outcome for outcome in outcomes if outcome["result"] != "Skipped"]
        assert {fate(outcome) for outcome in landed} == {("node01", "Landed", "master-machine")}, outcomes
        assert [planned_nodes(outcome) for outcome in landed] == [{"master-machine"}] * len(landed)
        after = nodes_by_uid(api, NAME)
        assert set(before) - set(after) == {outcome["move"]["pod"]["uid"] for outcome in landed}
        assert placed_by(api, set(after) - set(before)) == {NAME}
    record_property(
        SUMMARY,
        "e2e article's stack: NetworkTraffic over Prometheus: two pods of nginx on node01 as computed;"
        f" node01, when it was the busy one, relieved of {len(landed)}, landed as planned",
    )


# Bytes a second: of a node with many services, and of one with few, as the article has them.
RATES = {"master-machine": 20e6, "node01": 14e6}

_NGINX: Object = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "nginx-deployment", "namespace": "default"},
    "spec": {
        "selector": {"matchLabels": {"app": "nginx"}},
        "replicas": 2,
        "template": {
            "metadata": {"labels": {"app": "nginx"}},
            "spec": {
                "containers": [
                    {"name": "nginx", "image": "nginx:1.14.2", "ports": [{"containerPort": 80}]},
                ],
                "schedulerName": NAME,
            },
        },
    },
}


def _configuration(address: str) -> str:
    """The article's scheduler.yaml, for this Prometheus, in the version that the scheduler here reads."""
    return f"""\
apiVersion: kubescheduler.config.k8s.io/{CONFIGURATION_VERSION}
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: {NAME}
  plugins:
    score:
      enabled:
      - name: "NetworkTraffic"
      disabled:
      - name: "*"
  pluginConfig:
    - name: "NetworkTraffic"
      args:
        ip: "{address}"
        deviceName: "eth0"
        timeRange: 60
"""


def _policy(address: str) -> Object:
    """The shipped policy, for a scheduler whose file is beside it, and nodes that are hot in one run."""
    policy = shipped_policy("network-traffic")
    del policy["scheduler"]["configMap"]
    del policy["scheduler"]["pods"]
    policy["scheduler"]["file"] = "scheduler.yaml"
    policy["load"]["sources"][1]["prometheus"]["address"] = address
    policy["hotNodes"]["forRuns"] = 1
    policy["safety"]["unknownScheduler"] = "proceed"  # this one runs outside the cluster
    return policy


_RECEIVED = "node_network_receive_bytes_total"
_LINK = 125e6  # bytes a second


def _is_much_busier(prometheus: Prometheus) -> bool:
    """Whether node01 is the busy node by far: as the plugin sees it, and by a quarter of its link.

    The other node scores below 20 itself up to 1.25 times as much, and the rule's floor is a tenth.
    """
    added_up = _of_nodes(prometheus, f"sum_over_time({_RECEIVED}[60m])")
    rates = _of_nodes(prometheus, f"rate({_RECEIVED}[5m])")
    if not (added_up and rates):
        return False
    master, node01 = added_up
    return node01 > 1.6 * master and rates[1] > 0.25 * _LINK


def _of_nodes(prometheus: Prometheus, query: str) -> list[float]:
    """The answer for each node, by name; none before Prometheus knows both."""
    address = f"{prometheus.address}/api/v1/query"
    answer = urllib3.request("GET", address, fields={"query": query}, timeout=10.0)
    series = {item["metric"]["instance"]: float(item["value"][1]) for item in answer.json()["data"]["result"]}
    if len(series) < len(RATES):
        return []
    return [series[name] for name in sorted(series)]


@contextmanager
def node_exporters(folder: Path, rates: dict[str, float]) -> Iterator[Prometheus]:
    """A Prometheus that scrapes an exporter of each node, whose counters grow by ``rates`` from now on."""
    received = {name: rate * 5.0 for name, rate in rates.items()}
    read_at = dict.fromkeys(rates, time.monotonic())

    def answer(request: loopback.Request) -> loopback.Answer:
        name = request.path.strip("/")
        now = time.monotonic()
        received[name] += rates[name] * (now - read_at[name])
        read_at[name] = now
        text = (
            f'node_network_receive_bytes_total{{device="eth0"}} {received[name]:.0f}\n'
            f'node_network_speed_bytes{{device="eth0"}} {_LINK:.0f}\n'
            "node_memory_MemAvailable_bytes 8e9\n"
            f'node_uname_info{{nodename="{name}"}} 1\n'
        )
        return loopback.Answer(text.encode(), headers={"Content-Type": "text/plain; version=0.0.4"})

    with loopback.answering(answer) as url:
        jobs = [
            {
                "job_name": name,
                "metrics_path": f"/{name}",
                "static_configs": [
                    {"targets": [url.removeprefix("http://")], "labels": {"instance": f"{name}:9100"}}
                ],
            }
            for name in rates
        ]
        with running(folder, scrape=yaml.safe_dump({"scrape_configs": jobs})) as prometheus:
            yield prometheus
