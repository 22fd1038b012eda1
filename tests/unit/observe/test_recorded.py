"""A recorded observation is read back as it was: the plan of the recording is the plan of the cluster."""

from __future__ import annotations

import functools
import math
import tempfile
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from rebalancer.cluster.dumps.writer import save
from rebalancer.cluster.kinds import KINDS
from rebalancer.cluster.snapshot import Snapshot, build_snapshot
from rebalancer.errors import InputError, UnreachableError
from rebalancer.load.prometheus.queries import PrometheusQuery
from rebalancer.load.prometheus.responses import RecordedResponses
from rebalancer.load.raw_figures import RawFigures
from rebalancer.load.sources import prometheus_reader
from rebalancer.observe.plan_options import PlanOptions
from rebalancer.observe.read import observe, read_planners
from rebalancer.observe.recorded import CONFIGURATION, documents_of, observation_of
from rebalancer.planning.assemble import assemble
from rebalancer.planning.inputs import ApiServer, Observation, SchedulerStart
from rebalancer.planning.plan import Plan, decode, encode
from rebalancer.planning.planner import Planner
from rebalancer.policy.load_sources import PrometheusSource
from rebalancer.policy.policy_file import LoadedPolicy, place_of
from rebalancer.policy.schema import RebalancePolicy
from rebalancer.profiles.types import ConfigurationText
from rebalancer.state.run_state import RunState
from tests.builders import a_recording
from tests.conftest import examples
from tests.integration.cli.dumps import a_metric
from tests.unit.planning.builders import NOW, a_past_move, a_policy, at
from tests.unit.planning.random_clusters import Cluster, clusters

PROMETHEUS, WATCHER = "http://prometheus.ops:9090", "http://load-watcher.ops:2020"
TRIMARAN = f"""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins: {{score: {{enabled: [{{name: TargetLoadPacking}}]}}}}
  pluginConfig: [{{name: TargetLoadPacking, args: {{watcherAddress: "{WATCHER}"}}}}]
"""
SOURCES: tuple[list[Any], ...] = (
    [{"metricsServer": {}}],
    [{"prometheus": {"address": PROMETHEUS}}, {"metricsServer": {}}],
    [{"loadWatcher": {"address": WATCHER}}, {"metricsServer": {}}],
)


def loads_of(cluster: Cluster) -> dict[str, float]:
    """Percent of the cpu of each node that metrics-server knows."""
    known = {node["metadata"]["name"]: 30.0 for node in cluster.nodes} | cluster.load
    return {name: percent for name, percent in known.items() if not math.isnan(percent)}


def a_watcher(loads: dict[str, float]) -> bytes:
    nodes = {
        name: {"metrics": [{"type": "CPU", "operator": "Latest", "value": percent}]}
        for name, percent in loads.items()
    }
    window = {"start": int(NOW) - 900, "end": int(NOW)}
    return msgspec.json.encode({"timestamp": NOW, "window": window, "data": {"NodeMetricsMap": nodes}})


def responses(
    policy: RebalancePolicy, snapshot: Snapshot, loads: dict[str, float], *, broken: bool
) -> RecordedResponses:
    """What a Prometheus answers that knows the nodes' cpu and nothing else; or none that answers at all."""
    series = [
        {"metric": {"instance": name}, "value": [NOW, str(percent / 25)]} for name, percent in loads.items()
    ]
    answer = msgspec.json.encode({"status": "success", "data": {"resultType": "vector", "result": series}})

    def ask(query: PrometheusQuery) -> bytes:
        if broken or "node_cpu_seconds_total" not in query.query:
            raise UnreachableError("no answer", where=PROMETHEUS)
        return answer

    book = RecordedResponses(NOW)
    for source in policy.load.sources:
        if isinstance(source, PrometheusSource):
            for query in prometheus_reader(source, snapshot, book, policy, (), NOW).requests():
                book.keep(PROMETHEUS, query, functools.partial(ask, query))
    return book if book.answers or book.failures else RecordedResponses()


@st.composite
def observations(draw: st.DrawFn) -> tuple[Observation, LoadedPolicy, RunState | None]:
    """A cluster as a live one is observed, a policy that it was observed for, and a state."""
    cluster = draw(clusters())
    loads = loads_of(cluster)
    unread = draw(st.dictionaries(st.sampled_from(["services", "csidrivers"]), st.just("forbidden")))
    items: dict[str, list[Any]] = {kind.plural: [] for kind in KINDS if kind.plural not in unread}
    items["nodes"], items["poddisruptionbudgets"] = cluster.nodes, cluster.budgets
    for workload in cluster.workloads:
        if workload.plural in items:  # DaemonSets are not read
            items[workload.plural].append(workload.item)
        items["pods"] += workload.pods
    items["nodemetrics"] = [
        a_metric(name, f"{round(percent * 40)}m", moment=at(-draw(st.integers(0, 300))))
        for name, percent in loads.items()
    ]
    recording = a_recording(None, **items)
    recording = replace(recording, source="https://api:6443", unread=unread)
    with_configuration = draw(st.booleans())
    scheduler = {"configMap": {"namespace": "ops", "name": "scheduler"}} if with_configuration else {}
    policy = a_policy(
        **{**cluster.policy, "scheduler": scheduler, "load": {"sources": draw(st.sampled_from(SOURCES))}}
    )
    loaded = LoadedPolicy(policy, "p.yaml", "")
    written = ConfigurationText(TRIMARAN, "configmap ops/scheduler") if with_configuration else None
    names = [pod["metadata"]["name"] for pod in items["pods"]]
    start = SchedulerStart(draw(st.sampled_from([None, NOW - 30, NOW - 3600])), "it acquired its lease")
    answers, broken = draw(st.booleans()), draw(st.booleans())
    snapshot = build_snapshot(recording)
    observation = Observation(
        snapshot=snapshot,
        figures=RawFigures(
            {WATCHER: a_watcher(loads)} if answers else {},
            {} if answers else {WATCHER: f"{WATCHER}: no answer"},
            responses(policy, snapshot, loads, broken=broken),
        ),
        now=NOW + draw(st.sampled_from((0.0, 0.125, 59.9))),
        own_pod=draw(st.sampled_from(("", *(f"shop/{name}" for name in names)))),
        server=ApiServer(
            draw(st.sampled_from((None, "v1.35.2", "v1.30.0"))), draw(st.sampled_from(("", "plain http")))
        ),
        configurations={place_of(loaded.policy.schedulers[0], loaded.source): written},
        starts={"lease kube-system/kube-scheduler": start} if draw(st.booleans()) else {},
        live=True,
    )
    state = draw(st.sampled_from([None, RunState(), RunState(moves=(a_past_move(),))]))
    return observation, loaded, state


def planned(inputs: Any) -> Plan:
    return decode(encode(Planner(inputs).plan()))


def test_an_empty_configuration_is_none_as_a_shell_leaves_it_of_a_config_map_that_is_not_there() -> None:
    recording = a_recording(None)
    with_text = replace(recording, documents={CONFIGURATION: b"kind: KubeSchedulerConfiguration"})

    empty = replace(recording, documents={CONFIGURATION: b"\n"})
    assert not observation_of(build_snapshot(empty), "").configurations
    assert observation_of(build_snapshot(with_text), "").configurations


@settings(max_examples=examples(25))
@given(observations())
def test_the_plan_of_a_recording_is_the_plan_of_the_cluster(
    observed: tuple[Observation, LoadedPolicy, RunState | None],
) -> None:
    observation, loaded, state = observed
    live = planned(assemble(observation, loaded, state))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "recorded"
        documents = documents_of(observation, state)
        save(replace(observation.snapshot.recording, documents=documents), path, NOW)
        (planner,) = read_planners(PlanOptions(source=path), (loaded,), None, None)
        again = decode(encode(planner.plan()))
    # The source is where it was read, now a folder; all else is the same, to the byte.
    assert msgspec.to_builtins(replace(again, source=live.source)) == msgspec.to_builtins(live)
    assert encode(replace(again, source=live.source)) == encode(live)


@settings(max_examples=examples(5))
@given(observations(), st.sampled_from(["", "shop/somebody"]))
def test_where_a_recording_is_read_again_decides_nothing(
    observed: tuple[Observation, LoadedPolicy, RunState | None], own_pod: str
) -> None:
    observation, loaded, _ = observed
    environment = dict(zip(("POD_NAMESPACE", "POD_NAME"), own_pod.split("/"), strict=False))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "recorded"
        documents = documents_of(observation, None)
        save(replace(observation.snapshot.recording, documents=documents), path, NOW)
        again = observe(PlanOptions(source=path), (loaded,), None, environment=environment)
    assert (again.own_pod, again.now, again.server) == (
        observation.own_pod,
        observation.now,
        observation.server,
    )
    assert again.starts == observation.starts


@pytest.mark.parametrize(
    "content",
    [
        b'{"major": "1", "minor": "34", "gitVersion": "v1.34.2"}',
        b'{"clientVersion": {"gitVersion": "v1.36.0"}, "serverVersion": {"gitVersion": "v1.34.2"}}',
    ],
)
def test_a_version_that_kubectl_printed_is_that_of_the_api_server(content: bytes) -> None:
    recording = replace(a_recording(None, nodes=[]), documents={"version.json": content})

    assert observation_of(build_snapshot(recording), "").server.version == "v1.34.2"


def test_a_version_that_cannot_be_read_is_refused_with_how_to_write_it() -> None:
    recording = replace(a_recording(None, nodes=[]), documents={"version.json": b"v1.34.2"})

    with pytest.raises(InputError, match="write it with: kubectl get --raw /version"):
        observation_of(build_snapshot(recording), "")
