"""Extenders of others are asked as the scheduler asks them, and whatever they answer, nothing is guessed."""

from __future__ import annotations

import json
import threading
from base64 import b64encode
from collections.abc import Callable
from typing import Any, cast

import pytest
from msgspec.structs import replace

from rebalancer import http
from rebalancer.cluster.live import RawApi
from rebalancer.errors import InputError
from rebalancer.load.raw_figures import RawFigures
from rebalancer.load.scheduler_view import SchedulerView
from rebalancer.observe import extenders
from rebalancer.observe.extenders import ask_extenders
from rebalancer.observe.recorded import OBSERVATION, documents_of, observation_of
from rebalancer.planning import scheduler_facts
from rebalancer.planning.inputs import Observation, digest_of
from rebalancer.planning.plan import Plan
from rebalancer.planning.warnings import of_inputs
from rebalancer.policy.policy_file import LoadedPolicy, place_of
from rebalancer.policy.schema import RebalancePolicy
from rebalancer.profiles.types import ConfigurationText, ExtenderAnswers, SchedulerConfiguration
from rebalancer.retries import Retries
from rebalancer.scheduling.framework.cycle import Placement
from rebalancer.scheduling.framework.plugin import PluginInputs
from rebalancer.scheduling.registry import make_scheduler
from rebalancer.scheduling.state.cluster_state import ClusterState
from rebalancer.service.endpoints import Health
from rebalancer.service.endpoints import answering as serving
from rebalancer_extender.serving import READY, Application, Metrics
from tests.builders import a_node
from tests.extender.test_answers import PODS, Extender
from tests.loopback import Answer, Request, a_certificate, answering
from tests.unit.planning.builders import (
    NOW,
    PERMISSIVE,
    a_workload,
    because,
    kept,
    moved,
    plan_of,
    planning_inputs,
    with_scheduler,
)

VERBS = {"filterVerb": "filter", "prioritizeVerb": "prioritize"}
NO_OTHER_SCORE = {"profiles": [{"plugins": {"score": {"disabled": [{"name": "*"}]}}}]}
NODES = ("hot", "warm", "cold")
Answers = Callable[[str, dict[str, Any]], Any]


class Api:
    """An API server that knows the nodes, and a clock that nobody waits for."""

    def __init__(self, **bounds: Any) -> None:
        self.waited: list[float] = []
        self.retries = Retries(pause=self.waited.append, random=lambda: 0.0, **bounds)

    def ask(self, _what: str, path: str, _query: object = None) -> http.Answer:
        assert path == "/api/v1/nodes"
        items = [{"metadata": {"name": name, "annotations": {"kept": "whole"}}} for name in NODES]
        return http.Answer(json.dumps({"items": items}).encode())


class Asked:
    """A policy that has one extender asked, and what it then knows of a cluster."""

    def __init__(self, url: str, *workloads: Any, api: Api | None = None, **extender: Any) -> None:
        policy = {
            **PERMISSIVE,
            "scheduler": {"version": "1.35", "extenders": [{"urlPrefix": url, "ask": True}]},
        }
        self.loaded = LoadedPolicy(RebalancePolicy.model_validate(policy), "p.yaml", "")
        settings = {"urlPrefix": f"{url}/", "weight": 1, "nodeCacheCapable": True, **VERBS, **extender}
        head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
        written = ConfigurationText(json.dumps({**head, **NO_OTHER_SCORE, "extenders": [settings]}), "c.yaml")
        nodes = [a_node("hot", cpu=7), a_node("warm", cpu=100), a_node("cold", cpu=100)]
        workloads = workloads or (a_workload("web", ["hot", "hot"], cpu="3"),)
        inputs = planning_inputs(nodes, workloads, policy=self.loaded.policy)
        self.observation = Observation(inputs.snapshot, RawFigures(), NOW)
        self.api = api or Api()
        configuration = scheduler_facts.configured(self.loaded, written, (), tuple)
        self.answers = ask_extenders(self.observation, self.loaded, configuration, cast("RawApi", self.api))
        self.written = replace(written, answers=self.answers)
        self.observation = replace(self.observation, configurations={place_of(self.loaded): self.written})
        self.inputs = with_scheduler(inputs, configuration=self.configuration, version="1.35")

    @property
    def configuration(self) -> SchedulerConfiguration:
        return scheduler_facts.configured(self.loaded, self.written, (), tuple)

    @property
    def plan(self) -> Plan:
        return plan_of(self.inputs)

    @property
    def warnings(self) -> str:
        facts = self.inputs.scheduler, self.inputs.view, self.inputs.load
        return "\n".join(item.sentence for item in of_inputs(self.observation, self.loaded.policy, *facts))


def asked(answers: Answers, *more: Any, **extender: Any) -> Asked:
    """What is known once an extender was asked that answers so, by verb and question."""

    def answer(request: Request) -> Answer:
        said = answers(request.path.strip("/"), json.loads(request.body))
        return said if isinstance(said, Answer) else Answer(json.dumps(said).encode())

    with answering(answer) as url:
        return Asked(url, *more, **extender)


def liking(**scores: int) -> Answers:
    """Admits all nodes and gives these scores."""

    def answers(verb: str, body: dict[str, Any]) -> Any:
        if verb == "filter":
            return {"NodeNames": body["NodeNames"]}
        return [{"Host": name, "Score": scores.get(name, 0)} for name in body["NodeNames"]]

    return answers


def test_a_replacement_lands_where_the_extender_wants_it() -> None:
    assert moved(asked(liking(cold=7)).plan) == {"web-0": "cold"}
    assert moved(asked(liking(warm=7)).plan) == {"web-0": "warm"}
    assert moved(asked(liking(cold=1, warm=1)).plan) == {"web-0": "cold,warm"}
    assert kept(asked(liking()).plan)["web-0"] == "NoBetterLanding"  # it may come back to the node it leaves


def test_it_is_asked_as_the_scheduler_asks_it_and_told_nothing_else() -> None:
    heard: list[Request] = []

    def answer(request: Request) -> Answer:
        heard.append(request)
        said = {"NodeNames": ["cold"], "FailedNodes": {"hot": "full\x1b[31m\n"}}
        return Answer(json.dumps(said if request.path == "/filter" else []).encode())

    workload = a_workload("web", ["hot", "hot"], cpu="3")
    workload.pods[0]["spec"]["containers"][0] |= {
        "env": [{"name": "P", "value": "s3cret"}],
        "args": ["s3cret"],
    }
    workload.pods[0]["metadata"]["annotations"] = {"note": "s3cret"}
    with answering(answer) as url:
        found = Asked(url, workload, prioritizeVerb="prioritize")
    first, second = (json.loads(item.body) for item in heard)
    assert [(item.method, item.path) for item in heard] == [("POST", "/filter"), ("POST", "/prioritize")]
    assert (first["NodeNames"], first["Nodes"]) == (["cold", "hot", "warm"], None)
    assert second["NodeNames"] == ["cold"]
    pod = first["Pod"]
    assert pod["metadata"]["name"] == "web-asked-about"
    assert (pod["metadata"]["labels"], "uid" in pod["metadata"]) == ({"app": "web"}, False)
    assert "nodeName" not in pod["spec"]
    assert not any(b"s3cret" in item.body or "Authorization" in item.headers for item in heard)
    assert all(item.headers["Content-Type"] == "application/json" for item in heard)
    (known,) = found.answers[url].by_class.values()
    assert known.rejected == {"hot": "full[31m", "warm": "it rejects it"}
    assert moved(found.plan) == {"web-0": "cold"}


def test_one_that_knows_no_nodes_is_sent_them_whole() -> None:
    def answers(verb: str, body: dict[str, Any]) -> Any:
        assert body["NodeNames"] is None
        assert all(item["metadata"]["annotations"] for item in body["Nodes"]["items"])
        names = [item["metadata"]["name"] for item in body["Nodes"]["items"]]
        kept = {"metadata": {}, "items": [{"metadata": {"name": name}} for name in names if name != "warm"]}
        return {"nodes": kept} if verb == "filter" else [{"host": "cold", "score": 1}]

    assert moved(asked(answers, nodeCacheCapable=False).plan) == {"web-0": "cold"}


def rejecting(**said: Any) -> Answers:
    return lambda verb, _body: {"NodeNames": [], **said} if verb == "filter" else []


@pytest.mark.parametrize("key", ["FailedNodes", "FailedAndUnresolvableNodes"])
def test_where_it_rejects_every_node_nothing_moves_and_its_words_say_why(key: str) -> None:
    found = asked(rejecting(**{key: dict.fromkeys(NODES, "no free GPU")}))
    assert not moved(found.plan)
    (known,) = next(iter(found.answers.values())).by_class.values()
    assert set(known.rejected.values()) == {"no free GPU"}


def test_pods_that_it_does_not_manage_are_not_asked_about() -> None:
    def answers(_verb: str, _body: dict[str, Any]) -> Any:
        raise AssertionError

    found = asked(answers, managedResources=[{"name": "nvidia.com/gpu"}])
    assert kept(found.plan)["web-0"] == "NoBetterLanding"
    assert next(iter(found.answers.values())).by_class == {}


def test_scores_count_as_the_scheduler_counts_them_however_large() -> None:
    said = [
        {"Host": "cold", "Score": -5},
        {"Host": "warm", "Score": 300},
        {"Host": "warm", "Score": 50},
        {"Host": "mars", "Score": 10**9},
    ]
    found = asked(lambda _verb, _body: said, filterVerb="", weight=3)
    placement = placed(found.configuration, found)
    names = [found.observation.snapshot.nodes.names[row] for row in placement.feasible]
    totals = dict(zip(names, placement.totals.tolist(), strict=True))
    assert totals == {"warm": 350 * 30, "cold": -150}
    assert moved(found.plan) == {"web-0": "warm"}


def placed(configuration: SchedulerConfiguration, found: Asked) -> Placement:
    """Where one more pod of the workload lands."""
    state = ClusterState.of(found.observation.snapshot, found.inputs.scheduler.release)
    inputs = PluginInputs.of(found.observation.snapshot, SchedulerView())
    return make_scheduler(configuration, configuration.profiles[0], inputs).place(state, state.pod_class[0])


def test_an_extender_of_ours_that_is_asked_gives_the_landings_of_its_file() -> None:
    ours = Extender(PODS, running={"hot": 4, "warm": 3, "cold": 1})
    health = Health(lambda: 0.0)
    health.ready(READY)
    with serving("127.0.0.1", 0, Application(ours.answers, health, Metrics())) as url:
        workload = a_workload("web", ["hot"], cpu="100m")
        workload.pods += ours.objects["pods"][1:]  # with web-0 there are as many on hot
        found = Asked(url, workload, filterVerb="")
    by_file = scheduler_facts.configured(
        found.loaded, replace(found.written, answers={}, scores={url: ours.text}), (), tuple
    )
    answered, computed = placed(found.configuration, found), placed(by_file, found)
    assert answered.totals.tolist() == computed.totals.tolist()
    assert len(set(answered.totals.tolist())) > 1
    assert answered.chance.tolist() == computed.chance.tolist()


def test_a_slow_one_is_given_up_after_the_timeout_that_the_scheduler_has() -> None:
    heard: list[str] = []
    given_up = threading.Event()

    def answers(verb: str, _body: dict[str, Any]) -> Any:
        heard.append(verb)
        given_up.wait()
        return {}

    workloads = (a_workload("web", ["hot", "hot"], cpu="3"), a_workload("api", ["warm"], cpu="1"))
    found = asked(answers, *workloads, httpTimeout="50ms")
    given_up.set()
    assert len(heard) <= 1
    assert "it gave no answer when it was asked: none came within 0.05 s" in because(found.plan, "web-0")


def test_one_that_is_gone_is_tried_again_and_then_left_alone() -> None:
    with answering(lambda _request: Answer()) as url:
        pass
    found = Asked(url)
    assert len(found.api.waited) == 2
    assert "it gave no answer when it was asked: none came (" in because(found.plan, "web-0")


@pytest.mark.parametrize(("bound", "most"), [("MAX_CLASSES", 1), ("MAX_VERDICTS", 5)])
def test_beyond_the_bounds_pods_stay_and_are_told_so(
    bound: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extenders, bound, most)
    workload = a_workload("web", ["hot", "hot"], cpu="3")
    found = asked(liking(cold=7), workload, a_workload("api", ["hot"], cpu="500m"))
    assert because(found.plan, "api-0").endswith(
        "it was asked about 1 of 2 kinds of pods, those with the most"
    )
    assert moved(found.plan) == {"web-0": "cold"}


@pytest.mark.parametrize(
    ("name", "most", "why"),
    [
        ("MAX_NODES", 2, "it is asked about 2 nodes at most"),
        ("MAX_SECONDS", 1e-9, "it was asked for 1e-09 s, which was enough for 0 of 1 kind of pods"),
        ("MAX_BYTES", 1 << 5, "a request would be larger than 0 MiB"),
    ],
)
def test_what_is_too_large_to_ask_is_not_asked(
    name: str, most: float, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extenders, name, most)
    assert why in because(asked(liking(cold=7)).plan, "web-0")


def test_daemons_and_pods_of_other_schedulers_are_not_asked_about() -> None:
    other = a_workload("other", ["hot"], spec={"schedulerName": "other"})
    found = asked(liking(), a_workload("web", ["hot"], kind="DaemonSet"), other).answers
    assert [*found.values()] == [ExtenderAnswers()]


@pytest.mark.parametrize("sets", [(("hot",),), ()])
@pytest.mark.parametrize("admitted", [NODES, ["warm"]])
def test_of_a_node_that_it_was_not_asked_about_nothing_is_known(admitted: Any, sets: Any) -> None:
    found = asked(lambda verb, _body: {"NodeNames": admitted} if verb == "filter" else [])
    answers = {url: replace(known, nodes=sets) for url, known in found.answers.items()}
    found.written = replace(found.written, answers=answers)
    placement = placed(found.configuration, found)
    assert "it was not asked about " in placement.rejected
    assert not placement.chance.any()


def test_answers_are_recorded_count_in_the_digest_and_give_the_same_configuration() -> None:
    found = asked(liking(cold=7))
    unasked = {place_of(found.loaded): replace(found.written, answers={})}
    without = replace(found.observation, configurations=unasked)
    documents = documents_of(found.observation, None)
    snapshot = found.inputs.snapshot
    recorded = replace(snapshot, recording=replace(snapshot.recording, documents=documents))
    again = observation_of(recorded, "")
    assert again.configurations == found.observation.configurations
    assert documents_of(again, None) == documents
    digests = [digest_of(item, found.loaded, None) for item in (found.observation, again, without)]
    assert digests[0] == digests[1] != digests[2]
    documents[OBSERVATION] = documents[OBSERVATION].replace(b'"cold":7', b'"cold":99999999999999999')
    with pytest.raises(InputError, match="not what snapshot save writes"):
        observation_of(recorded, "")


def test_without_an_answer_a_policy_that_has_it_asked_keeps_the_pods() -> None:
    found = asked(liking(cold=7))
    found.written = replace(found.written, answers={})
    plan = plan_of(with_scheduler(found.inputs, configuration=found.configuration))
    assert because(plan, "web-0").endswith("it was not asked when the cluster was read")


@pytest.mark.parametrize(
    ("tls", "why"),
    [
        ({"certFile": "/c", "keyFile": "/k"}, "it was not asked: its tlsConfig has certFile"),
        ({"keyData": "c2VjcmV0"}, "it was not asked: its tlsConfig has keyData"),
        ({"serverName": "x"}, "it was not asked: its tlsConfig has serverName"),
        ({"caFile": "/dev/zero"}, "it was not asked: caFile of its tlsConfig is no file here"),
        ("x", "it was not asked: its tlsConfig is no mapping"),
    ],
)
def test_what_only_the_scheduler_can_show_is_refused_in_a_line(tls: Any, why: str) -> None:
    found = asked(liking(cold=7), tlsConfig=tls)
    assert because(found.plan, "web-0").endswith(why)


def test_certificates_are_verified_as_the_scheduler_verifies_them(tmp_path: Any) -> None:
    certificate = a_certificate(tmp_path)
    known = {"caData": b64encode(certificate.file.read_bytes()).decode()}

    def answer(request: Request) -> Answer:
        return Answer(json.dumps(liking(cold=7)(request.path.strip("/"), json.loads(request.body))).encode())

    with answering(answer, certificate) as url:
        assert moved(Asked(url, tlsConfig=known).plan) == {"web-0": "cold"}
        assert moved(Asked(url, tlsConfig={"caFile": str(certificate.file)}).plan) == {"web-0": "cold"}
        assert moved(Asked(url, enableHTTPS=True).plan) == {"web-0": "cold"}
        assert "certificate verify failed" in because(Asked(url).plan, "web-0")


def test_a_verb_that_leads_elsewhere_is_not_asked() -> None:
    found = asked(liking(cold=7), filterVerb="../../api/v1/secrets")
    assert "it was not asked: the path of the address leads out of the service" in because(
        found.plan, "web-0"
    )
