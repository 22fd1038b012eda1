"""What Prometheus answered of the past, asked once however it answers."""

from __future__ import annotations

import warnings

import msgspec
import pytest

from rebalancer.errors import InputError, UnreachableError
from rebalancer.load.prometheus.queries import PrometheusQuery
from rebalancer.planning.inputs import Observation
from rebalancer_lab.timeline.backfill import backfill
from rebalancer_lab.timeline.history import History
from tests.builders import a_node
from tests.lab.timeline.recorded_days import NOW, an_observation, pods_on
from tests.rows import rows

MOMENTS = tuple(1_000_200.0 + 300.0 * number for number in range(4))
ADDRESS = "http://prometheus"
WINDOW = PrometheusQuery("node_load", window_seconds=600.0, step_seconds=60.0)
LATEST = PrometheusQuery("up")
NESTED = b"[" * 100_000


@rows("question", [WINDOW, LATEST])
@rows("answer", [b"<html>", b"{}", b'{"status": "error", "error": "busy"}', NESTED, b""])
def test_a_damaged_answer_is_asked_for_once_and_is_a_failure_at_every_moment(
    question: PrometheusQuery, answer: bytes
) -> None:
    asked: list[float] = []

    def ask(_query: PrometheusQuery, until: float) -> bytes:
        asked.append(until)
        return answer

    history = History(ask, MOMENTS, 300.0, lambda: None)
    books = [history.book(ADDRESS, [question], moment) for moment in MOMENTS]

    assert asked == [MOMENTS[-1]]
    for book in books:
        with pytest.raises(UnreachableError, match="is not a Prometheus response"):
            book.asking(ADDRESS, "")(question)


def test_points_of_another_age_of_the_world_are_of_no_moment() -> None:
    points = f'[1e300,"1"],[-1e300,"2"],[{MOMENTS[1]},"3"]'
    answer = '{"status":"success","data":{"resultType":"matrix","result":[{"values":[%s]}]}}' % points  # noqa: UP031
    history = History(lambda *_: answer.encode(), MOMENTS, 300.0, lambda: None)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = [[item.value for item in history.at("up", moment)] for moment in MOMENTS]
    assert found == [[], [3.0], [], []]


@pytest.mark.parametrize(
    ("answer", "words"),
    [(None, "HTTP 500"), (b"<html>", "the answer to kube_pod_info is not a Prometheus response")],
)
def test_where_nothing_could_be_backfilled_the_failure_is_that_of_prometheus(
    answer: bytes | None, words: str
) -> None:
    live = an_observation(NOW, pods_on({"web-0": "a"}, created=NOW - 86_400.0), {"web-0": 600}, [a_node("a")])

    def ask(_query: PrometheusQuery, _until: float) -> bytes:
        if answer is None:
            raise UnreachableError("HTTP 500")
        return answer

    with pytest.raises(UnreachableError, match=words):
        backfill(
            live, lambda piece: History(ask, piece, 300.0, lambda: None), [MOMENTS], lambda _: 0, {}, "days"
        )


def test_what_is_told_of_a_pod_is_not_taken_for_the_exporter_that_tells_it() -> None:
    """Without ``honor_labels`` the plain names of labels are those of kube-state-metrics itself."""
    live = an_observation(NOW, pods_on({"web-0": "a"}, created=NOW - 86_400.0), {"web-0": 600}, [a_node("a")])
    exporter = {"namespace": "monitoring", "pod": "ksm-0", "node": "b", "container": "ksm"}
    about = {"namespace": "default", "pod": "web-0", "node": "a", "container": "main"}
    labels = exporter | {f"exported_{key}": text for key, text in about.items()}
    told: dict[str, list[tuple[dict[str, str], str]]] = {
        "kube_pod_info": [({}, "1")],
        "kube_node_status_allocatable": [({"resource": "cpu"}, "4"), ({"resource": "memory"}, "1e9")],
        "kube_pod_container_resource_requests": [({"resource": "cpu"}, "1.5")],
    }
    written: list[Observation] = []

    def ask(query: PrometheusQuery, _until: float) -> bytes:
        result = [
            {"metric": labels | more, "values": [[moment, value] for moment in MOMENTS]}
            for more, value in told.get(query.query, [])
        ]
        return msgspec.json.encode({"status": "success", "data": {"resultType": "matrix", "result": result}})

    def write(found: Observation) -> int:
        written.append(found)
        return 0

    backfill(live, lambda piece: History(ask, piece, 300.0, lambda: None), [MOMENTS], write, {}, "days")
    snapshot = written[0].snapshot
    assert list(snapshot.nodes.names) == ["a"]
    assert [(snapshot.pods.full_name(0), int(snapshot.pods.node[0]))] == [("default/web-0", 0)]
    (container,) = msgspec.to_builtins(snapshot.pods.class_of(0).spec)["containers"]
    assert (container["name"], container["resources"]["requests"]["cpu"]) == ("main", "1500m")


def test_moments_of_which_no_node_is_named_are_not_written() -> None:
    live = an_observation(NOW, pods_on({"web-0": "a"}, created=NOW - 86_400.0), {"web-0": 600}, [a_node("a")])
    points = ",".join(f'[{moment},"1"]' for moment in MOMENTS)
    answer = '{"status":"success","data":{"resultType":"matrix","result":[{"values":[%s]}]}}' % points  # noqa: UP031
    history = History(lambda *_: answer.encode(), MOMENTS, 300.0, lambda: None)

    with pytest.raises(InputError, match="names no node in kube_node_status_allocatable"):
        backfill(live, lambda _: history, [MOMENTS], lambda _: 0, {}, "days")
