"""What an extender answers: the model's scores by node name, and nothing where it does not know."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from typing import Any, cast

import pytest
from prometheus_client import CollectorRegistry, Counter, Histogram

from rebalancer.cluster.snapshot import Snapshot
from rebalancer.load.scheduler_view import SchedulerView
from rebalancer.scheduling.extenders import ExtenderScore
from rebalancer.scheduling.framework.plugin import PluginInputs
from rebalancer_extender import watched_state
from rebalancer_extender.answers import MAX_NODES, Answers, InForce, LiveScore, RequestError
from rebalancer_extender.serving import read_file
from rebalancer_extender.watched_state import Counted, WatchedState
from tests.builders import a_node, a_pod, a_snapshot
from tests.extender.classes import own_plugins
from tests.rows import rows

ADDRESS, QUERY = "http://prometheus:9090", "busy"
PODS = {"plugin": "PodCapacityOfNode"}
BUSY = {
    "name": "Busy",
    "prometheusScore": {"address": ADDRESS, "query": QUERY, "normalization": "none"},
    "rejectAbove": 90,
}
RUNNING = {"node1": 21, "node2": 17, "node3": 25}


class Watched:
    """A cluster that nobody watches."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.changed = threading.Condition(threading.RLock())
        self.counted = Counted(snapshot)
        self.awaited: list[tuple[str, str]] = []

    def up_to_date(self) -> Counted:
        return self.counted

    def await_bound(self, key: tuple[str, str], seconds: float) -> bool:
        self.awaited.append(key)
        return seconds > 0


class Extender:
    """Answers by a file of scores and by figures."""

    def __init__(
        self,
        *scores: Mapping[str, Any],
        values: Mapping[str, float] | None = None,
        max_score: int = 100,
        read_at: float = 0.0,
        running: Mapping[str, int] | None = None,
    ) -> None:
        running = RUNNING if running is None else running
        pods = [
            a_pod(f"{node}-{number}", node=node) for node, count in running.items() for number in range(count)
        ]
        self.objects = {"nodes": [a_node(name, pods=110) for name in running], "pods": pods}
        self.watched = Watched(a_snapshot(**self.objects))
        head = {"apiVersion": "rebalancer/v1alpha1", "kind": "ExtenderScores", "maxScore": max_score}
        self.text = json.dumps({**head, "scores": list(scores)})
        file = read_file(self.text, "scores.yaml", own_plugins)
        self.neutral = Counter("neutral", "Neutral.", ("score",), registry=CollectorRegistry())
        self.waits = Histogram("waits", "Waits.", registry=CollectorRegistry())
        self.now = 0.0
        self.answers = Answers(cast("WatchedState", self.watched), self.neutral, self.waits, lambda: self.now)
        view = SchedulerView(queries={(ADDRESS, QUERY): values} if values is not None else {})
        inputs = PluginInputs.of(self.watched.counted.snapshot, view)
        live: list[LiveScore] = []
        for name, score in zip((f"extender/{item.name}" for item in file.scores), file.scores, strict=True):
            make = file.configuration.plugins[name].make
            assert make is not None
            plugin = cast("ExtenderScore", make(score.arguments, inputs))
            live.append(LiveScore(plugin, score.weight, read_at, "plugin" in scores[len(live)]))
        self.answers.in_force = InForce(tuple(live), stale_after=60.0, await_binding=0.1)

    def prioritize(self, *names: str, pod: str = "p") -> dict[str, int]:
        body = {"Pod": a_pod(pod), "Nodes": None, "NodeNames": list(names or RUNNING)}
        answer = json.loads(self.answers.prioritize(json.dumps(body).encode()))
        return {item["Host"]: item["Score"] for item in answer}

    def filter(self, *names: str) -> tuple[list[str], dict[str, str]]:
        body = {"Pod": a_pod("p"), "Nodes": None, "NodeNames": list(names or RUNNING)}
        answer = json.loads(self.answers.filter(json.dumps(body).encode()))
        assert answer["Error"] == ""
        return answer["NodeNames"], answer["FailedNodes"]

    def neutral_answers(self, score: str) -> float:
        return float(self.neutral.labels(f"extender/{score}")._value.get())


def test_nodes_are_scored_as_the_article_shows_in_the_order_in_which_they_are_asked_about() -> None:
    assert Extender(PODS).prioritize("node3", "node1", "node2") == {"node3": 77, "node1": 80, "node2": 84}
    assert Extender(PODS, max_score=10).prioritize() == {"node1": 8, "node2": 8, "node3": 7}


def test_scores_are_weighted_and_added() -> None:
    values = {"node1": 50.0, "node2": 10.0, "node3": 90.0}
    both = Extender({**PODS, "weight": 2}, BUSY, values=values)
    assert both.prioritize() == {"node1": 210, "node2": 258, "node3": 164}


def test_a_node_that_nobody_knows_yet_scores_nothing_and_has_the_columns_made_anew() -> None:
    extender = Extender(PODS)
    assert extender.prioritize("node1", "new") == {"node1": 80, "new": 0}
    assert extender.watched.counted.is_stale


def test_figures_that_are_missing_or_stale_make_all_nodes_equal_and_are_counted() -> None:
    assert Extender(BUSY, values={"node1": 50.0}).prioritize() == {"node1": 50, "node2": 0, "node3": 0}
    missing = Extender(BUSY, values={})
    assert set(missing.prioritize().values()) == {0}
    assert missing.neutral_answers("Busy") == 1
    stale = Extender(BUSY, values=dict.fromkeys(RUNNING, 50.0))
    stale.now = 61.0
    assert set(stale.prioritize().values()) == {0}
    assert stale.neutral_answers("Busy") == 1


@pytest.mark.parametrize(("max_score", "of_missing"), [(100, 57), (10, 5)])
def test_a_node_without_a_value_scores_what_the_file_says(max_score: int, of_missing: int) -> None:
    query = {"address": ADDRESS, "query": QUERY, "normalization": "none", "missingScore": 57}
    score = {"name": "Busy", "prometheusScore": query}
    extender = Extender(score, values={"node1": 50.0}, max_score=max_score)
    known = 50 * max_score // 100
    assert extender.prioritize() == {"node1": known, "node2": of_missing, "node3": of_missing}
    assert extender.prioritize("node1", "new") == {"node1": known, "new": 0}
    without = Extender(score, values={})
    assert set(without.prioritize().values()) == {0}
    assert without.neutral_answers("Busy") == 1


def test_nodes_with_too_large_values_are_rejected_with_a_reason() -> None:
    values = {"node1": 50.0, "node2": 90.5}
    passed, failed = Extender(BUSY, values=values).filter()
    assert passed == ["node1", "node3"]
    assert failed == {"node2": "its value is above 90"}
    stale = Extender(BUSY, values=values, read_at=-float("inf"))
    assert stale.filter() == (list(RUNNING), {})


def test_a_filter_without_figures_rejects_nothing_and_is_counted_as_a_score_is() -> None:
    stale = Extender(BUSY, PODS, values={"node1": 95.0}, read_at=-float("inf"))
    without = Extender(BUSY, PODS, values={})
    failing = Extender({"plugin": "Wordless"}, PODS)
    for extender, score in ((stale, "Busy"), (without, "Busy"), (failing, "Wordless")):
        assert extender.filter() == (list(RUNNING), {})
        assert extender.neutral_answers(score) == 1
        assert extender.neutral_answers("PodCapacityOfNode") == 0  # it never filters
    known = Extender(BUSY, values={"node1": 50.0})
    assert known.filter() == (list(RUNNING), {})
    assert known.neutral_answers("Busy") == 0


def test_where_scores_count_pods_an_answer_waits_for_the_pod_before() -> None:
    extender = Extender(PODS)
    extender.prioritize(pod="first")
    extender.prioritize(pod="second")
    extender.prioritize(pod="second")  # again, as it could not be bound
    assert extender.watched.awaited == [("default", "first")]
    assert _count(extender.waits) == 1
    without = Extender(BUSY, values={})
    without.prioritize(pod="first")
    without.prioritize(pod="second")
    assert without.watched.awaited == []
    assert _count(without.waits) == 0


def _count(waits: Histogram) -> float:
    return next(item.value for metric in waits.collect() for item in metric.samples if "_count" in item.name)


@rows(
    "body, why",
    [
        (b"", "not an ExtenderArgs"),
        (b"[" * 100_000, "not an ExtenderArgs"),
        (b'{"Pod": {"metadata": {"name": 3}}, "NodeNames": []}', "not an ExtenderArgs"),
        (json.dumps({"Pod": a_pod("p"), "Nodes": {"items": []}}).encode(), "nodeCacheCapable: true"),
        (json.dumps({"Pod": a_pod("p"), "NodeNames": ["n"] * (MAX_NODES + 1)}).encode(), "more than"),
        (json.dumps({"Pod": a_pod("p", cpu="lots"), "NodeNames": []}).encode(), "not an ExtenderArgs"),
    ],
)
def test_what_no_scheduler_would_send_is_refused_in_one_line(body: bytes, why: str) -> None:
    with pytest.raises(RequestError) as refused:
        Extender(PODS).answers.prioritize(body)
    assert why in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_pod_that_asks_for_what_no_node_offers_is_answered() -> None:
    extender = Extender(PODS)
    pod = a_pod("p")
    pod["spec"]["containers"][0]["resources"]["requests"] = {"example.com/gpu": "1"}
    body = json.dumps({"Pod": pod, "NodeNames": list(RUNNING)}).encode()
    assert {item["Score"] for item in json.loads(extender.answers.prioritize(body))} == {0}
    assert extender.neutral_answers("PodCapacityOfNode") == 1


def test_an_installed_plugin_of_ten_lines_scores_and_one_that_raises_is_neutral(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert Extender({"plugin": "FewPods"}).prioritize() == {"node1": 79, "node2": 83, "node3": 75}
    failing = Extender({"plugin": "Raises"}, PODS)
    assert failing.prioritize() == {"node1": 80, "node2": 84, "node3": 77}
    failing.prioritize()
    assert caplog.messages == ["extender/Raises fails: ZeroDivisionError: integer division or modulo by zero"]


@pytest.mark.parametrize("plugin", ["TooFew", "Wordless"])
def test_a_plugin_that_says_too_little_rejects_no_node_and_adds_no_score(plugin: str) -> None:
    failing = Extender({"plugin": plugin}, PODS)
    assert failing.prioritize() == {"node1": 80, "node2": 84, "node3": 77}
    assert failing.filter() == (list(RUNNING), {})


def test_pods_of_ever_new_classes_are_neutral_and_do_not_fill_the_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(watched_state, "MAX_NEW_CLASSES", 2)
    extender = Extender(PODS)
    for number in range(4):
        pod = a_pod("p", labels={"number": str(number)})
        extender.answers.prioritize(json.dumps({"Pod": pod, "NodeNames": list(RUNNING)}).encode())
    assert extender.neutral_answers("PodCapacityOfNode") == 2
    assert extender.watched.counted.is_stale
