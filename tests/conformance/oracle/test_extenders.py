"""The real scheduler asks an extender of ours over HTTP, and decides as the model does that computes it."""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import Any, cast

import msgspec
import pytest
from msgspec.structs import replace

from rebalancer import http
from rebalancer.cluster import records
from rebalancer.cluster.live import RawApi
from rebalancer.cluster.pod_classes import pod_class_of
from rebalancer.cluster.snapshot import Snapshot
from rebalancer.load.raw_figures import RawFigures
from rebalancer.load.scheduler_view import SchedulerView
from rebalancer.observe.extenders import ask_extenders
from rebalancer.planning.inputs import Observation
from rebalancer.planning.scheduler_facts import configured
from rebalancer.policy.policy_file import LoadedPolicy
from rebalancer.policy.schema import RebalancePolicy
from rebalancer.profiles.types import ConfigurationText, ExtenderAnswers, SchedulerConfiguration
from rebalancer.retries import Retries
from rebalancer.scheduling.extenders import with_extenders
from rebalancer.scheduling.framework import cycle
from rebalancer.scheduling.framework.plugin import PluginInputs
from rebalancer.scheduling.framework.unknown_scores import Kind, by_size
from rebalancer.scheduling.registry import load_configuration, make_scheduler
from rebalancer.scheduling.state.cluster_state import ClusterState
from rebalancer.scheduling.versions.release import Release
from rebalancer.service.endpoints import Health, answering
from rebalancer_extender.serving import READY, Application, Metrics, read_file
from tests.builders import a_node, a_pod, a_snapshot
from tests.conformance.oracle import build
from tests.conformance.oracle.process import Oracle
from tests.conformance.samples import sampled_cluster
from tests.conftest import ORACLE_MINOR, SUMMARY
from tests.extender.classes import own_plugins
from tests.extender.test_answers import ADDRESS, BUSY, PODS, QUERY, Extender
from tests.loopback import Answer, Request
from tests.loopback import answering as answering_others

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
        inputs = replace(PluginInputs.of(snapshot, view), cores=1)
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


def test_landings_with_an_extender_of_others_are_those_of_its_answers(
    oracle: Oracle, record_property: Any
) -> None:
    seed = 12
    record_property("seed", seed)
    chance = random.Random(seed)
    compared = failing = 0
    for number in range(CLUSTERS):
        names = [f"n-{index:02}" for index in range(chance.randrange(2, 20))]
        scores = [
            {"Host": name, "Score": chance.choice([-30, 0, 5, 10, 250])}
            for name in [*chance.choices(names, k=len(names)), "mars"]
        ]
        rejected = set(chance.sample(names, chance.randrange(len(names))))
        said = {"score": scores, "filter": chance.choice([None, None, "it is not ready"])}
        capable, ignorable, filters = (chance.random() < 0.5 for _ in range(3))

        def answer(
            request: Request, said: Mapping[str, Any] = said, rejected: Collection[str] = rejected
        ) -> Answer:
            body, verb = json.loads(request.body), request.path.rpartition("/")[2]
            if verb == "score" or said["filter"]:
                return Answer(
                    json.dumps(said["score"] if verb == "score" else {"error": said["filter"]}).encode()
                )
            if body["NodeNames"] is not None:
                left = [name for name in body["NodeNames"] if name not in rejected]
                return Answer(json.dumps({"NodeNames": left}).encode())
            items = [item for item in body["Nodes"]["items"] if item["metadata"]["name"] not in rejected]
            return Answer(json.dumps({"nodes": {"items": items}}).encode())

        objects = {"nodes": [a_node(name) for name in names], "pods": [a_pod("q", cpu="100m")]}
        snapshot = a_snapshot(**objects)
        with answering_others(answer) as url:
            verbs = {"prioritizeVerb": "score", **({"filterVerb": "filter"} if filters else {})}
            extender = {
                "urlPrefix": url,
                "weight": chance.randrange(1, 4),
                "nodeCacheCapable": capable,
                **verbs,
            }
            config = json.dumps({**HEAD, "extenders": [{**extender, "ignorable": ignorable}]})
            pending = [{"metadata": {"name": "q", "namespace": "default"}, "spec": POD["spec"]}]
            case = {
                "id": str(number),
                "config": config,
                "objects": {**objects, "pods": []},
                "pending": pending,
            }
            searches = {"workers": 1, "starts": [0], "repeats": REPEATS}
            found = oracle.answer({**case, "searches": searches})
            known, answers = asked(url, config, snapshot, objects["nodes"])
        told = next(answer for answer in answers.by_class.values())
        if told.unusable:  # the scheduler's search fails with the extender's own words
            failing += 1
            assert "it is not ready" in found["error"], (told, found)
            continue
        landed = Counter(found["landings"][0]["nodes"] or ())
        state = ClusterState.of(snapshot, Release.of(ORACLE_MINOR))
        inputs = replace(PluginInputs.of(snapshot, SchedulerView()), cores=1)
        placement = make_scheduler(known, known.profiles[0], inputs).place(state, state.pod_class[0])
        possible = [names[row] for row in placement.feasible[placement.chance > 0]]
        assert landed.keys() <= set(possible) | ({""} if not possible else set()), (said, landed, possible)
        compared += landed.total()
    assert compared > 20 * REPEATS
    assert failing > 3
    what = f"{compared} searches with an extender of others on {CLUSTERS} clusters"
    record_property(SUMMARY, f"conformance {ORACLE_MINOR}: {what}: all in the landings by its answers")


def asked(
    url: str, config: str, snapshot: Snapshot, nodes: Collection[Mapping[str, Any]]
) -> tuple[SchedulerConfiguration, ExtenderAnswers]:
    """The configuration with what an extender answers, and that."""
    scheduler = {"version": ORACLE_MINOR, "extenders": [{"urlPrefix": url, "ask": True}]}
    loaded = LoadedPolicy(RebalancePolicy.model_validate({"scheduler": scheduler}), "p.yaml", "")
    written = ConfigurationText(config, "c.yaml")
    answers = ask_extenders(
        Observation(snapshot, RawFigures(), 0.0),
        loaded,
        configured(loaded, written, (), tuple),
        cast("RawApi", Nodes(nodes)),
    )
    return configured(loaded, replace(written, answers=answers), (), tuple), answers[url]


def test_what_an_extender_rejects_of_a_sample_is_missing_in_it(
    oracle: Oracle, record_property: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Searches from every start; of one worker they land as often as predicted, where no totals are equal."""
    seed = int(os.environ.get("REBALANCER_SAMPLES_SEED", "500"))
    record_property("seed", seed)
    kinds: list[int] = []

    def counted(*asked: Any) -> list[Kind]:
        kinds.append(len(found := by_size(*asked)))
        return found

    monkeypatch.setattr(cycle, "by_size", counted)
    searches, decided, refused = 0, 0, 0
    for number in range(seed, seed + SAMPLED):
        chance, case = random.Random(number), sampled_cluster(number, 150)
        objects, (pod,) = case["objects"], case["pending"]
        names = [node["metadata"]["name"] for node in objects["nodes"]]
        rejected = set(chance.sample(names, chance.choice([1, 5, 30, 90, len(names) - 20])))
        ranks = chance.sample(range(len(names)), len(names))
        step = chance.choice([0, 1, 1, 200])  # 200: whatever plugins score, no totals are equal
        workers = chance.choice([1, 1, 1, 16])

        def answer(
            request: Request,
            rejected: Collection[str] = rejected,
            scores: Mapping[str, int] = dict(zip(names, (step * rank for rank in ranks), strict=True)),
        ) -> Answer:
            given = json.loads(request.body)["NodeNames"]
            if request.path.endswith("filter"):
                said: Any = {"NodeNames": [name for name in given if name not in rejected]}
            else:
                said = [{"Host": name, "Score": scores[name]} for name in given]
            return Answer(json.dumps(said).encode())

        with answering_others(answer) as url:
            written = json.loads(case["config"]) | json.loads(configuration(url, 1, filters=True))
            config = json.dumps(written | {"parallelism": workers})
            (found,) = oracle.answer({**case, "config": config, "searches": {"workers": workers}})["landings"]
            snapshot = a_snapshot(nodes=objects["nodes"], pods=[*objects["pods"], pod])
            known, _ = asked(url, config, snapshot, objects["nodes"])
        state = ClusterState.of(snapshot, Release.of(ORACLE_MINOR))
        inputs = PluginInputs.of(snapshot, SchedulerView())
        pod_class = state.pod_class[snapshot.pods.row["default", "q"]]
        placement = make_scheduler(known, known.profiles[0], inputs).place(state, pod_class)
        if placement.rejected:
            assert len(rejected) >= 90, placement.rejected
            refused += 1
            continue
        landed = Counter(found["nodes"])
        starts = landed.total()
        expected = {
            snapshot.nodes.names[row]: round(share * starts, 6)
            for row, share in zip(placement.feasible.tolist(), placement.chance.tolist(), strict=True)
            if share
        }
        assert landed.keys() <= expected.keys(), (number, expected, landed)
        assert landed == expected or step < 200 or workers > 1, (number, expected, landed)
        searches += starts
        decided += landed == expected
    assert decided > SAMPLED / 4
    assert max(kinds) > 1
    record_property(
        SUMMARY,
        f"conformance {ORACLE_MINOR}: {searches} searches on {SAMPLED - refused} sampled clusters with an"
        f" extender that rejects nodes, all in the model's landings and on {decided} just as frequent",
    )


class Nodes:
    """An API server that knows nodes alone."""

    def __init__(self, nodes: Collection[Mapping[str, Any]]) -> None:
        self.retries = Retries()
        self._body = json.dumps({"items": list(nodes)}).encode()

    def ask(self, *_asked: object) -> http.Answer:
        return http.Answer(self._body)


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
