"""When the scheduler listed the nodes: since its pods are ready; without them, what both ends would mean."""

from __future__ import annotations

import math
from typing import Any

from rebalancer.cluster import times
from rebalancer.load.raw_figures import RawFigures
from rebalancer.planning.inputs import Observation, SchedulerFacts, SchedulerStart
from rebalancer.planning.scheduler_facts import counts_recent_pods, observed
from rebalancer.planning.scheduler_location import locate
from rebalancer.policy.schema import RebalancePolicy
from rebalancer.profiles.types import SchedulerConfiguration
from rebalancer.scheduling.registry import default_configuration, load_configuration
from tests.builders import a_node, a_pod, a_snapshot, owned_by
from tests.rows import rows

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
FIRST = default_configuration()
SECOND = load_configuration(f"{HEAD}profiles: [{{schedulerName: load-aware}}]\n", "test")
TRIMARAN = load_configuration(
    f"{HEAD}profiles: [{{plugins: {{score: {{enabled: [{{name: TargetLoadPacking, weight: 3}}]}}}}}}]\n",
    "test",
)
MORNING, NOON, NIGHT = "2026-11-20T08:00:00Z", "2026-11-20T12:00:00Z", "2026-11-20T23:00:00Z"


def a_scheduler(name: str, since: str | None, *, ready: str = "True", owner: str = "Node") -> dict[str, Any]:
    containers = [{"name": "c", "image": "registry.k8s.io/kube-scheduler:v1.35.1"}]
    pod = a_pod(name, node="n", owner=owned_by(owner, "n"), containers=containers)
    pod["status"]["conditions"] = [{"type": "Ready", "status": ready, "lastTransitionTime": since}]
    return pod


def listed_at(
    *pods: dict[str, Any],
    configuration: SchedulerConfiguration = FIRST,
    starts: dict[str, SchedulerStart] | None = None,
) -> tuple[float, ...]:
    snapshot = a_snapshot(nodes=[a_node("n")], pods=pods)
    observation = Observation(snapshot, RawFigures(), 0.0, starts=starts)
    (facts,) = observed([SchedulerFacts(configuration)], observation, RebalancePolicy())
    return facts.listed_nodes_at


@rows(
    "pods, moments",
    [
        ([("x", MORNING)], [MORNING]),
        ([("x", MORNING), ("y", MORNING)], [MORNING]),
        ([("x", NOON), ("y", MORNING)], [MORNING, NOON]),
        ([("x", None), ("y", MORNING)], [MORNING]),
        ([("x", NIGHT), ("y", MORNING), ("z", NOON)], [MORNING, NOON, NIGHT]),
    ],
)
def test_a_scheduler_whose_pods_are_seen_listed_the_nodes_when_they_became_ready(
    pods: list[tuple[str, str | None]], moments: list[str]
) -> None:
    assert listed_at(*(a_scheduler(*pod) for pod in pods)) == tuple(map(times.parse, moments))


def test_a_scheduler_that_is_not_seen_may_have_listed_the_nodes_at_any_time() -> None:
    assert listed_at() == (math.inf, -math.inf)
    assert listed_at(a_scheduler("x", MORNING, ready="False")) == (math.inf, -math.inf)
    assert listed_at(a_scheduler("x", MORNING, owner="ReplicaSet")) == (math.inf, -math.inf)
    assert listed_at(a_scheduler("x", MORNING), configuration=SECOND) == (math.inf, -math.inf)


def test_a_second_scheduler_is_known_by_its_own_pods() -> None:
    pods = a_scheduler("x", MORNING), a_scheduler("y", NOON, owner="ReplicaSet")
    assert listed_at(*pods, configuration=SECOND) == (times.parse(NOON),)


def test_a_scheduler_that_is_not_seen_listed_the_nodes_at_the_latest_when_it_acquired_its_lease() -> None:
    trimaran = SchedulerFacts(TRIMARAN)
    location = locate(trimaran, [trimaran], a_snapshot(nodes=[], pods=[]))
    assert counts_recent_pods(trimaran)
    acquired = {location.key: SchedulerStart(7.0, "its scheduler acquired its lease")}
    unknown = {location.key: SchedulerStart(None, "nobody may read it")}
    assert listed_at(configuration=TRIMARAN, starts=acquired) == (7.0, -math.inf)
    assert listed_at(configuration=TRIMARAN, starts=unknown) == (math.inf, -math.inf)


@rows(
    "scheduler, shuffles",
    [
        ({"version": "1.34"}, (0,)),
        ({"version": "1.34", "featureGates": {"WatchListClient": True}}, (1, -1)),
        ({"version": "1.35"}, (1, -1)),
        ({"version": "1.37", "featureGates": {"WatchListClient": False}}, (0,)),
    ],
)
def test_from_1_35_on_the_nodes_that_it_lists_come_in_no_order(
    scheduler: dict[str, Any], shuffles: tuple[int, ...]
) -> None:
    policy = RebalancePolicy.model_validate({"scheduler": scheduler})
    snapshot = a_snapshot(nodes=[a_node("a"), a_node("b")], pods=[])
    observation = Observation(snapshot, RawFigures(), 0.0)
    (facts,) = observed([SchedulerFacts(FIRST, policy.schedulers[0])], observation, policy)
    assert facts.shuffles == shuffles
