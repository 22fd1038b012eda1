"""The real scheduler asks an extender of ours over HTTP, and decides as the model does that computes it."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import pytest

from rebalancer.cluster import records
from rebalancer.cluster.pod_classes import pod_class_of
from rebalancer.load.scheduler_view import SchedulerView
from rebalancer.scheduling.extenders import with_extenders
from rebalancer.scheduling.framework.plugin import PluginInputs
from rebalancer.scheduling.registry import load_configuration, make_scheduler
from rebalancer.scheduling.state.cluster_state import ClusterState
from rebalancer.scheduling.versions.release import Release
from rebalancer.service.endpoints import Health, answering
from rebalancer_extender.serving import READY, Application, Metrics, read_file
from tests.builders import a_pod
from tests.conformance.oracle import build
from tests.conformance.oracle.process import Oracle
from tests.conftest import ORACLE_MINOR, SUMMARY
from tests.extender.classes import own_plugins
from tests.extender.test_answers import ADDRESS, BUSY, PODS, QUERY, Extender

CLUSTERS, REPEATS, SAMPLED = 60, 10, 24
HEAD = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
POD = a_pod("q", cpu="100m")
CLASS: Mapping[str, Any] = {"plugin": "FewPods"}


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    with Oracle(build.program(ORACLE_MINOR)) as program:
        yield program


def configuration(url: str, weight: int, *, filters: bool) -> str:
    verbs = {"prioritizeVerb": "prioritize", **({"filterVerb": "filter"} if filters else {})}
    extender = {"urlPrefix": url, "weight": weight, "nodeCacheCapable": True, **verbs}
    return json.dumps({**HEAD, "extenders": [extender]})


def test_landings_are_those_of_the_model(oracle: Oracle, record_property: Any) -> None:
    seed = 11
    record_property("seed", seed)
    chance = random.Random(seed)
    tied = compared = 0
    for number in range(CLUSTERS):
        nodes = [f"n-{index:02}" for index in range(chance.randrange(2, 20))]
        running = {name: chance.randrange(6) for name in nodes}
        values = {name: float(chance.choice([0, 20, 50, 95])) for name in nodes if chance.random() < 0.9}
        scores: list[Mapping[str, Any]] = chance.sample([PODS, BUSY, CLASS], chance.randrange(1, 4))
        max_score, weight, filters = chance.choice([10, 100]), chance.randrange(1, 4), chance.random() < 0.5
        extender = Extender(*scores, values=values, max_score=max_score, running=running)
        health = Health(lambda: 0.0)
        health.ready(READY)
        with answering("127.0.0.1", 0, Application(extender.answers, health, Metrics())) as url:
            config = configuration(url, weight, filters=filters)
            pending = [{"metadata": {"name": "q", "namespace": "default"}, "spec": POD["spec"]}]
            case = {"id": str(number), "config": config, "objects": extender.objects, "pending": pending}
            searches = {"workers": 1, "starts": [0], "repeats": REPEATS}
            (found,) = oracle.answer({**case, "searches": searches})["landings"]
        file = read_file(extender.text, "scores.yaml", own_plugins)
        known = with_extenders(load_configuration(config, "c"), {url: file.scores})
        snapshot = extender.watched.counted.snapshot
        view = SchedulerView(queries={(ADDRESS, QUERY): values})
        state = ClusterState.of(snapshot, Release.of(ORACLE_MINOR))
        inputs = PluginInputs.of(snapshot, view)
        pod_class = state.classes.add(pod_class_of(msgspec.json.decode(json.dumps(POD), type=records.Pod))[1])
        placement = make_scheduler(known, known.profiles[0], inputs).place(state, pod_class)
        possible = [snapshot.nodes.names[row] for row in placement.feasible[placement.chance > 0]]
        landed = Counter(found["nodes"] or ())
        assert landed.keys() <= set(possible) | ({""} if not possible else set()), (scores, landed, possible)
        compared += landed.total()
        tied += len(possible) > 1
    assert tied > 5
    what = f"{compared} searches with an extender on {CLUSTERS} clusters, {tied} of them with ties"
    record_property(SUMMARY, f"conformance {ORACLE_MINOR}: {what}: all in the model's landings")


def test_equal_nodes_are_drawn_where_an_extender_answers(oracle: Oracle) -> None:
    extender = Extender(PODS, running=dict.fromkeys(("a", "b", "c", "d"), 1))
    health = Health(lambda: 0.0)
    health.ready(READY)
    with answering("127.0.0.1", 0, Application(extender.answers, health, Metrics())) as url:
        config = configuration(url, 1, filters=False)
        pending = [{"metadata": {"name": "q", "namespace": "default"}, "spec": POD["spec"]}]
        case = {"id": "t", "config": config, "objects": extender.objects, "pending": pending}
        searches = {"workers": 1, "starts": [0], "repeats": 60}
        (found,) = oracle.answer({**case, "searches": searches})["landings"]
    assert set(Counter(found["nodes"])) == {"a", "b", "c", "d"}
