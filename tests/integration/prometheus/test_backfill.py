"""A timeline filled from a real Prometheus beside the one that was recorded: equal, or said why not."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from msgspec.structs import replace

from rebalancer.cli.program import main
from rebalancer.cluster.dumps.writer import save
from rebalancer.cluster.pod_classes import PodClass
from rebalancer.observe.timeline import Timeline
from rebalancer.planning.assemble import assemble
from rebalancer.planning.inputs import Observation
from rebalancer.planning.planner import Planner
from rebalancer.scheduling.resources import pod_requests
from tests.builders import a_node, a_pod, owned_by
from tests.integration.prometheus.servers import Prometheus, Samples, moments, running
from tests.lab.timeline.recorded_days import EVERY, NOW, a_policy, an_observation, pods_on, recorded

COUNT = 7  # moments
FIRST = NOW - EVERY * (COUNT - 1)
MIB = 1 << 20
NODES = [a_node(name, cpu=4) for name in "abc"]


def pods_at(at: int) -> list[dict[str, Any]]:
    """Six pods on a; web-6 comes to b, and a Job's pod on c is gone at the end."""
    where = {f"web-{number}": "a" for number in range(6)} | ({"web-6": "b"} if at >= 3 else {})
    pods = pods_on(where, created=NOW - 86_400.0)
    if at < 4:
        job = a_pod("etl-1", node="c", cpu="250m", memory="64Mi", owner=owned_by("Job", "etl"))
        pods.append(job)
    return pods


def use_at(at: int) -> dict[str, int]:
    """Millicores; web-0 uses less from the fifth moment on."""
    return {f"web-{number}": 600 for number in range(1, 7)} | {"web-0": 600 if at < 5 else 300, "etl-1": 200}


def observations() -> list[Observation]:
    return [an_observation(FIRST + EVERY * at, pods_at(at), use_at(at), NODES) for at in range(COUNT)]


def exported() -> Samples:
    """What kube-state-metrics and cAdvisor export of it, every 30 seconds, from a while before."""
    samples = Samples()
    begins = FIRST - 600.0
    series: dict[tuple[str, tuple[tuple[str, str], ...]], list[tuple[float, float]]] = {}
    counters: dict[tuple[str, str], float] = {}

    def export(name: str, labels: Mapping[str, str], moment: float, value: float) -> None:
        series.setdefault((name, tuple(labels.items())), []).append((moment, value))

    for moment in moments(NOW, NOW - begins):
        at = max(0, int((moment - FIRST) // EVERY))
        use = use_at(max(0, -int(-(moment - FIRST) // EVERY)))
        used = dict.fromkeys("abc", 100.0)
        for pod in pods_at(at):
            name, node = pod["metadata"]["name"], pod["spec"]["nodeName"]
            labels = {"namespace": "default", "pod": name}
            owner = pod["metadata"]["ownerReferences"][0]
            of_owner = {"created_by_kind": owner["kind"], "created_by_name": owner["name"]}
            export(
                "kube_pod_info",
                {**labels, "uid": pod["metadata"]["uid"], "node": node, **of_owner},
                moment,
                1,
            )
            export("kube_pod_created", labels, moment, NOW - 86_400.0)
            export("kube_pod_start_time", labels, moment, NOW - 86_400.0)
            export("kube_pod_status_ready", {**labels, "condition": "true"}, moment, 1)
            for phase in ("Running", "Pending"):
                export("kube_pod_status_phase", {**labels, "phase": phase}, moment, float(phase == "Running"))
            asked = pod["spec"]["containers"][0]["resources"]["requests"]
            container = {**labels, "container": "main"}
            for resource, amount in (("cpu", int(asked["cpu"][:-1]) / 1000), ("memory", 64 * MIB)):
                export(
                    "kube_pod_container_resource_requests",
                    {**container, "resource": resource},
                    moment,
                    amount,
                )
            counters["pod", name] = counters.get(("pod", name), 0.0) + use[name] / 1000 * 30
            used[node] += use[name]
            export("container_cpu_usage_seconds_total", container, moment, counters["pod", name])
            export("container_memory_working_set_bytes", container, moment, 32 * MIB)
            if name == "web-1" and at >= 2:
                export("kube_pod_container_status_restarts_total", container, moment, 1)
                export(
                    "kube_pod_container_status_last_terminated_reason",
                    {**container, "reason": "OOMKilled"},
                    moment,
                    1,
                )
        for node in "abc":
            labels = {"node": node}
            counters["node", node] = counters.get(("node", node), 0.0) + used[node] / 1000 * 30
            export("container_cpu_usage_seconds_total", {"id": "/", **labels}, moment, counters["node", node])
            export("container_memory_working_set_bytes", {"id": "/", **labels}, moment, 512 * MIB)
            ready = {**labels, "condition": "Ready", "status": "true"}
            export("kube_node_status_condition", ready, moment, 1)
            for column in ("allocatable", "capacity"):
                for resource, amount in (("cpu", 4.0), ("memory", 8 << 30), ("pods", 110)):
                    export(f"kube_node_status_{column}", {**labels, "resource": resource}, moment, amount)
    for (name, pairs), points in series.items():
        samples.add(name, dict(pairs), points)
    return samples


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    # Samples that are imported lack the marks by which a series that is no longer scraped ends at once.
    options = ("--storage.tsdb.retention.time=10y", "--query.lookback-delta=20s")
    with running(tmp_path_factory.mktemp("prometheus"), exported(), "", *options) as found:
        yield found


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    """The live cluster, as it is at the end."""
    save(observations()[-1].snapshot.recording, tmp_path / "live", NOW)
    return tmp_path / "live"


def backfilled(server: Prometheus, dump: Path, folder: Path, *options: str, days: float = 0.0210) -> Result:
    arguments = ["timeline", "backfill", str(folder), "--prometheus", server.address, "--days", str(days)]
    given = ["--from", str(dump), "--queries-per-second", "100", *options]
    return CliRunner().invoke(main, [*arguments, *given])


def nodes_of(observation: Observation) -> dict[str, str]:
    """The node of each pod."""
    pods, nodes = observation.snapshot.pods, observation.snapshot.nodes
    return {name: nodes.names[pods.node[row]] for row, name in enumerate(pods.names)}


def class_of(observation: Observation, name: str) -> PodClass:
    """What a pod is to the scheduler."""
    pods = observation.snapshot.pods
    return pods.class_of(pods.row["default", name])


def test_a_backfilled_timeline_is_as_the_recorded_one_but_for_what_metrics_do_not_tell(
    server: Prometheus, dump: Path, tmp_path: Path
) -> None:
    before = recorded(tmp_path / "recorded", *observations())
    result = backfilled(server, dump, tmp_path / "backfilled", "-o", "json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    after = Timeline.open(tmp_path / "backfilled")

    assert after.moments() == before.moments()
    assert (found["moments"], found["pods"], found["unknownPods"]) == (COUNT, 8, 1)
    assert found["unknownWorkloads"] == ["default/Job/etl"]
    differences = {}
    policy = a_policy()
    for moment in before.moments():
        one, other = before.observation(moment), after.observation(moment)
        assert nodes_of(one) == nodes_of(other)
        loads = [
            assemble(replace(item, configurations={"": None}), policy, None).load.percent[:, :2]
            for item in (one, other)
        ]
        for row, name in enumerate("abc"):
            if abs(loads[0][row] - loads[1][row]).max() > 0.5:
                differences[moment, name] = loads[0][row][0], loads[1][row][0]
    # A rate over five minutes has little of a pod that came within them, and still has one that left.
    assert differences.keys() == {(FIRST + 3 * EVERY, "b"), (FIRST + 4 * EVERY, "c")}
    job = class_of(after.observation(FIRST), "etl-1")
    assert job.scheduler_name == "unknown"
    assert pod_requests(job).present == pod_requests(class_of(before.observation(FIRST), "etl-1")).present


def test_plans_of_a_backfilled_timeline_are_those_of_the_recorded_one(
    server: Prometheus, dump: Path, tmp_path: Path
) -> None:
    before = recorded(tmp_path / "recorded", *observations())
    assert backfilled(server, dump, tmp_path / "backfilled").exit_code == 0
    after = Timeline.open(tmp_path / "backfilled")

    planned = []
    for timeline in (before, after):
        plans = [
            Planner(
                assemble(replace(timeline.observation(at), configurations={"": None}), a_policy(), None)
            ).plan()
            for at in timeline.moments()
        ]
        planned.append([[(move.pod.name, move.likeliest.node) for move in plan.moves] for plan in plans])
    assert planned[0] == planned[1]
    assert any(planned[0])


def test_what_happened_is_told_by_the_metrics(server: Prometheus, dump: Path, tmp_path: Path) -> None:
    assert backfilled(server, dump, tmp_path / "days").exit_code == 0
    policy = tmp_path / "policy.yaml"
    policy.write_text("apiVersion: rebalancer/v1alpha1\nkind: RebalancePolicy\n")
    result = CliRunner().invoke(
        main, ["timeline", "replay", str(tmp_path / "days"), "--policy", str(policy), "-o", "json"]
    )

    happened = json.loads(result.stdout)["happened"]
    assert (happened["restarts"], happened["oomKills"], happened["arrivals"], happened["departures"]) == (
        1,
        1,
        1,
        1,
    )


def test_a_backfill_that_was_interrupted_goes_on_where_it_ended(
    server: Prometheus, dump: Path, tmp_path: Path
) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    assert backfilled(server, dump, whole).exit_code == 0
    assert backfilled(server, dump, parts).exit_code == 0
    for path in sorted(parts.glob("*.zst"))[3:]:
        path.unlink()
    assert backfilled(server, dump, parts).exit_code == 0
    again = backfilled(server, dump, parts)

    one, other = Timeline.open(whole), Timeline.open(parts)
    assert [one.contents(at) for at in one.moments()] == [other.contents(at) for at in other.moments()]
    assert (again.exit_code, "nothing is missing since" in again.output) == (2, True)


def test_a_policys_own_questions_have_their_answers_of_each_moment(
    server: Prometheus, dump: Path, tmp_path: Path
) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(
        "apiVersion: rebalancer/v1alpha1\nkind: RebalancePolicy\nscheduler: {version: '1.35'}\n"
        f"load: {{sources: [{{prometheus: {{address: '{server.address}', preset: cadvisor}}}}]}}\n"
    )
    result = backfilled(server, dump, tmp_path / "days", "--policy", str(policy))
    assert result.exit_code == 0, result.output
    command = ["nodes", "--from", str(tmp_path / "days"), "--at", str(FIRST + EVERY), "--policy", str(policy)]
    shown = CliRunner().invoke(main, [*command, "-o", "json"])

    assert shown.exit_code == 0, shown.output
    loads = {item["name"]: item["load"].get("cpu") for item in json.loads(shown.stdout)["nodes"]}
    assert loads["a"] == pytest.approx(92.5, abs=0.5)


def test_a_prometheus_that_has_nothing_of_it_is_one_line(
    server: Prometheus, dump: Path, tmp_path: Path
) -> None:
    (dump / "recording.json").unlink()
    result = CliRunner().invoke(
        main,
        [
            "timeline",
            "backfill",
            str(tmp_path / "days"),
            "--prometheus",
            "http://127.0.0.1:9",
            "--from",
            str(dump),
        ],
    )

    assert result.exit_code != 0
    assert len(result.stderr.strip().splitlines()) == 1
