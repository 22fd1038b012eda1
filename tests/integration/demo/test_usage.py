"""The Metrics API and load-watcher's document follow the pods."""

from __future__ import annotations

import json
from typing import Any

from rebalancer_demo import Sandbox
from rebalancer_demo.objects import Object
from rebalancer_demo.usage import cpu_nano
from tests.integration.demo.builders import (
    StillClock,
    a_node,
    a_pod,
    a_replica_set,
    client_of,
    connected,
    eviction_of,
    refusal,
)

METRICS = "/apis/metrics.k8s.io/v1beta1"


def get(core: Any, path: str) -> Any:
    answer = core.api_client.call_api(*core.api_client.param_serialize("GET", path, auth_settings=[]))
    raw = answer.read()
    if answer.status != 200:
        raise AssertionError(f"{answer.status}: {raw!r}")
    return json.loads(raw)


def node_cpu(core: Any) -> dict[str, float]:
    items = get(core, f"{METRICS}/nodes")["items"]
    return {item["metadata"]["name"]: cpu_nano(item["usage"]["cpu"]) / 1e9 for item in items}


def metrics_of(kind: str, name: str, cpu: str, memory: str) -> Object:
    usage = {"cpu": cpu, "memory": memory}
    item: Object = {
        "apiVersion": "metrics.k8s.io/v1beta1",
        "kind": kind,
        "metadata": {"name": name},
        "timestamp": "2026-11-20T12:00:00Z",
        "window": "0s",
    }
    if kind == "NodeMetrics":
        return {**item, "usage": usage}
    return {
        **item,
        "metadata": {"name": name, "namespace": "shop"},
        "containers": [{"name": "main", "usage": usage}],
    }


def a_recorded_cluster() -> list[Object]:
    """Two pods of 1 and 2 cores on n1, and a system that takes half a core there."""
    owner = a_replica_set(replicas=2)
    return [
        owner,
        a_pod("web-1", node="n1", owner=owner),
        a_pod("web-2", node="n1", owner=owner),
        a_node("n1"),
        a_node("n2"),
        metrics_of("PodMetrics", "web-1", "1", "1Gi"),
        metrics_of("PodMetrics", "web-2", "2", "2Gi"),
        metrics_of("NodeMetrics", "n1", "3500m", "4Gi"),
        metrics_of("NodeMetrics", "n2", "250m", "1Gi"),
    ]


def test_a_loaded_dump_measures_what_it_recorded() -> None:
    with connected(Sandbox(a_recorded_cluster(), controllers=False, clock=StillClock())) as (_, core):
        assert node_cpu(core) == {"n1": 3.5, "n2": 0.25}
        pods = get(core, f"{METRICS}/namespaces/shop/pods")
        node = get(core, f"{METRICS}/nodes/n1")
    assert pods["kind"] == "PodMetricsList"
    assert [cpu_nano(item["containers"][0]["usage"]["cpu"]) for item in pods["items"]] == [10**9, 2 * 10**9]
    assert (node["kind"], node["timestamp"], node["window"]) == ("NodeMetrics", "2027-01-15T08:00:00Z", "0s")


def test_load_moves_with_the_pod_and_a_replacement_uses_what_its_siblings_do() -> None:
    with connected(Sandbox(a_recorded_cluster(), ready_after=0, terminates_after=0)) as (sandbox, core):
        core.create_namespaced_pod_eviction("web-2", "shop", eviction_of("web-2"))
        assert sandbox.wait_until(lambda: len(sandbox.pods(node="n2", phase="Running")) == 1)
        assert sandbox.wait_until(lambda: sandbox.pod("shop", "web-2") is None)
        assert node_cpu(core) == {"n1": 1.5, "n2": 1.75}  # 1.5 is the mean of both siblings


def test_annotations_say_what_a_pod_uses_and_requests_when_nothing_does() -> None:
    told = a_pod(
        "told", node="n1", annotations={"sandbox.rebalancer/cpu": "3", "sandbox.rebalancer/memory": "1Gi"}
    )
    guessed = a_pod("guessed", node="n2", cpu="800m")
    objects = [told, guessed, a_node("n1"), a_node("n2")]
    with connected(Sandbox(objects, controllers=False)) as (_, core):
        assert node_cpu(core) == {"n1": 3.0, "n2": 0.4}
        core.patch_namespaced_pod(
            "told", "shop", {"metadata": {"annotations": {"sandbox.rebalancer/cpu": "1"}}}
        )
        assert node_cpu(core)["n1"] == 1.0


def test_a_node_the_dump_has_no_figure_of_stays_unmeasured() -> None:
    objects = [*a_recorded_cluster(), a_node("n3")]
    with connected(Sandbox(objects, controllers=False)) as (_, core):
        assert sorted(node_cpu(core)) == ["n1", "n2"]
        code, _, _ = refusal(lambda: core.read_node("n4"))
    assert code == 404


def test_metrics_can_be_selected_by_label_and_not_be_written() -> None:
    with connected(Sandbox(a_recorded_cluster(), controllers=False)) as (sandbox, core):
        found = get(core, f"{METRICS}/nodes?labelSelector=kubernetes.io%2Fhostname%3Dn2")["items"]
        with client_of(sandbox) as api:
            answer = api.call_api(*api.param_serialize("DELETE", f"{METRICS}/nodes/n1", auth_settings=[]))
            answer.read()
    assert [item["metadata"]["name"] for item in found] == ["n2"]
    assert answer.status == 405


def test_load_watcher_answers_in_percent_of_capacity_through_the_service_proxy() -> None:
    clock = StillClock()
    with connected(Sandbox(a_recorded_cluster(), controllers=False, clock=clock)) as (sandbox, core):
        sandbox.serve("monitoring", "load-watcher", 2020, "/watcher", sandbox.watcher())
        proxy = "/api/v1/namespaces/monitoring/services/http:load-watcher:2020/proxy/watcher"
        document = get(core, proxy)
        one = get(core, f"{proxy}?host=n2")["data"]["NodeMetricsMap"]
    end = int(clock())
    assert document["window"] == {"duration": "15m", "start": end, "end": end}
    entries = document["data"]["NodeMetricsMap"]
    found = {(row["type"], row["operator"]): row["value"] for row in entries["n1"]["metrics"]}
    assert found == {
        ("CPU", "AVG"): 87.5,
        ("CPU", "STD"): 0.0,
        ("Memory", "AVG"): 25.0,
        ("Memory", "STD"): 0.0,
    }
    assert list(one) == ["n2"]


def cpu_seen(document: Any, node: str) -> float:
    rows = document["data"]["NodeMetricsMap"][node]["metrics"]
    return float(next(row["value"] for row in rows if (row["type"], row["operator"]) == ("CPU", "AVG")))


def test_a_figure_of_load_watcher_is_never_older_than_what_happened_before_it() -> None:
    clock = StillClock()
    clock.advance(0.4)
    sandbox = Sandbox(a_recorded_cluster(), controllers=False, clock=clock)
    assert sandbox.watcher()()["window"]["end"] == int(clock()) + 1
    sandbox.stop()


def test_a_lagging_load_watcher_still_shows_the_load_of_then() -> None:
    clock = StillClock()
    sandbox = Sandbox(a_recorded_cluster(), controllers=False, clock=clock)
    lagging, averaging = sandbox.watcher(lag_seconds=60), sandbox.watcher(averaging_seconds=100)
    sandbox.registry.delete("pods", "shop", "web-2", {"gracePeriodSeconds": 0})
    for _ in range(5):
        clock.advance(10)
        lagging.sample()
        averaging.sample()
    assert cpu_seen(sandbox.watcher()(), "n1") == 37.5
    assert cpu_seen(lagging(), "n1") == 87.5
    assert 37.5 < cpu_seen(averaging(), "n1") < 87.5
    clock.advance(60)
    assert cpu_seen(lagging(), "n1") == 37.5
    sandbox.stop()


def test_figures_can_be_made_to_look_old() -> None:
    with connected(Sandbox(a_recorded_cluster(), controllers=False, clock=StillClock())) as (sandbox, core):
        sandbox.metrics.age_seconds = 600
        assert get(core, f"{METRICS}/nodes/n1")["timestamp"] == "2027-01-15T07:50:00Z"
