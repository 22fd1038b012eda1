"""What a server refuses or spoils is unknown with its reason, or one error that says what and where."""

from __future__ import annotations

import socket

import pytest

from rebalancer.cluster.kinds import (
    DISRUPTION_BUDGETS,
    NODE_METRICS,
    NODES,
    POD_METRICS,
    PODS,
)
from rebalancer.cluster.live import RawApi
from rebalancer.cluster.snapshot import build_snapshot
from rebalancer.errors import ExitCode, RebalancerError, RightsError, UnreachableError
from rebalancer.retries import Retries
from rebalancer_demo import Fault, Surface, User, allow
from tests.integration.reading.servers import a_sandbox, answering, api_of, reading
from tests.rows import rows

ALL = (NODES, PODS, DISRUPTION_BUDGETS, NODE_METRICS)


def test_a_kind_we_may_not_read_is_unknown_with_the_servers_reason() -> None:
    reader_user = User("planner", (allow("get list", "nodes pods"),))
    with a_sandbox(users={"t": reader_user}) as sandbox, reading(sandbox.url, "t") as reader:
        recording = reader.read(ALL)

    assert set(recording.unread) == {"poddisruptionbudgets"}
    assert (
        'User "planner" cannot list resource "poddisruptionbudgets"'
        in recording.unread["poddisruptionbudgets"]
    )
    assert build_snapshot(recording).budgets is None


@pytest.mark.parametrize("forbidden", ["nodes", "pods"])
def test_nodes_or_pods_we_may_not_read_end_the_reading_with_what_to_grant(forbidden: str) -> None:
    allowed = {"nodes": "pods", "pods": "nodes"}[forbidden]
    user = User("planner", (allow("get list", allowed),))
    with (
        a_sandbox(users={"t": user}) as sandbox,
        reading(sandbox.url, "t") as reader,
        pytest.raises(RightsError) as caught,
    ):
        reader.read(ALL)

    assert caught.value.where == sandbox.url
    assert f'cannot list resource "{forbidden}"' in caught.value.message
    assert caught.value.hint == "grant it as in k8s/base, for a run as in k8s/overlays/active"


def test_credentials_that_are_not_accepted_end_the_reading() -> None:
    with (
        a_sandbox(users={"t": User("planner")}) as sandbox,
        reading(sandbox.url, "other") as reader,
        pytest.raises(RightsError, match="the credentials are not accepted"),
    ):
        reader.read(ALL)


@pytest.mark.parametrize("code", [404, 503])
def test_a_metrics_api_that_does_not_answer_leaves_metrics_unknown(code: int) -> None:
    with a_sandbox() as sandbox, reading(sandbox.url) as reader:
        sandbox.faults.add(Fault("status", path="metrics.k8s.io", code=code, times=0, message="no endpoints"))
        recording = reader.read((*ALL, POD_METRICS))

    assert set(recording.unread) == {"nodemetrics", "podmetrics"}
    assert "no endpoints" in recording.unread["nodemetrics"]


def test_a_metrics_api_that_is_not_installed_is_not_served() -> None:
    with a_sandbox(surface=Surface(without=("metrics.k8s.io",))) as sandbox, reading(sandbox.url) as reader:
        recording = reader.read((*ALL, POD_METRICS))

    assert recording.unread == {
        "nodemetrics": "API server 1.35 does not serve nodes.metrics.k8s.io",
        "podmetrics": "API server 1.35 does not serve pods.metrics.k8s.io",
    }


@rows("code", [429, 500, 502, 503, 504])
def test_a_passing_fault_is_tried_again(code: int) -> None:
    with a_sandbox() as sandbox, reading(sandbox.url) as reader:
        sandbox.faults.add(Fault("status", path="/pods", code=code, times=3))
        recording = reader.read(ALL)

    assert len(recording.listings["pods"]) == 23


@pytest.mark.parametrize("effect", ["reset-before", "reset-after", "truncate"])
def test_a_connection_that_breaks_is_tried_again_and_half_an_answer_is_never_used(effect: str) -> None:
    with a_sandbox() as sandbox, reading(sandbox.url) as reader:
        sandbox.faults.add(Fault(effect, path="/pods", times=2))  # type: ignore[arg-type]
        recording = reader.read(ALL)

    assert len(recording.listings["pods"]) == 23


@pytest.mark.parametrize("effect", ["reset-before", "truncate", "status"])
def test_a_fault_that_does_not_pass_is_one_line_after_a_few_tries(effect: str) -> None:
    with a_sandbox() as sandbox, reading(sandbox.url) as reader:
        sandbox.faults.add(Fault(effect, path="/pods", times=0, message="busy"))  # type: ignore[arg-type]
        with pytest.raises(UnreachableError) as caught:
            reader.read(ALL)
        hits = sandbox.faults.hits

    assert hits == 4
    assert str(caught.value).startswith(f"{sandbox.url}: list pods: ")
    assert "\n" not in str(caught.value)


def test_advice_to_wait_is_taken_and_bounded() -> None:
    waits: list[float] = []
    with a_sandbox() as sandbox, api_of(sandbox.url) as api:
        sandbox.faults.add(Fault("status", path="/nodes", code=429, retry_after=7, times=1))
        sandbox.faults.add(Fault("status", path="/nodes", code=429, retry_after=9999, skip=1))
        RawApi(api.client, Retries(pause=waits.append)).list_page(NODES)

    assert waits == [7.0, Retries().max_retry_after_seconds]


def test_a_server_that_is_not_there_is_one_line() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, not listening: connections are refused
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with reading(url) as reader, pytest.raises(UnreachableError) as caught:
            reader.read(ALL)

    assert str(caught.value).startswith(f"{url}: list nodes: ")
    assert str(caught.value).endswith(
        "nothing listens there (is the API server up, and does the kubeconfig name it?)"
    )


def test_a_server_that_does_not_answer_in_time_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rebalancer.http.READ_SECONDS", 0.05)
    with a_sandbox() as sandbox, reading(sandbox.url) as reader:
        sandbox.faults.add(Fault("latency", path="/nodes", seconds=30, times=0))
        with pytest.raises(UnreachableError, match=r"Read timed out|no whole answer"):
            reader.read(ALL)


@rows(
    "body",
    [
        b"",
        b"<html>Welcome</html>",
        b"[]",
        b"{}",
        b"null",
        b'{"kind": "Status", "status": "Success"}',
        b'{"kind": "NodeList"}',
        b'{"kind": "NodeList", "items": {}}',
        b'{"kind": "PodList", "items": []}',
        b'{"kind": "NodeList", "items": ' + b"[" * 100_000,
        b"\xff\xfe\x00",
    ],
)
def test_an_answer_that_is_no_list_of_the_kind_is_never_an_empty_cluster(body: bytes) -> None:
    with (
        answering(lambda _path: (200, body)) as url,
        reading(url) as reader,
        pytest.raises(RebalancerError) as caught,
    ):
        reader.read([NODES])

    assert caught.value.exit_code == ExitCode.UNREACHABLE
    assert str(caught.value).startswith(f"{url}: list nodes: ")
    assert "is this an API server, or a proxy before one?" in str(caught.value)


def test_metrics_that_are_no_list_are_unknown() -> None:
    def answer(path: str) -> tuple[int, bytes]:
        return 200, b"<html>" if "metrics" in path else b'{"kind": "NodeList", "items": []}'

    with answering(answer) as url, reading(url) as reader:
        recording = reader.read([NODES, NODE_METRICS])

    assert set(recording.listings) == {"nodes"}
    assert "the answer is not a list" in recording.unread["nodemetrics"]


def test_a_redirect_is_not_followed_with_our_credentials() -> None:
    with (
        answering(lambda _path: (302, b"")) as url,
        reading(url) as reader,
        pytest.raises(UnreachableError, match="list nodes"),
    ):
        reader.read([NODES])


def test_an_error_page_of_a_proxy_is_cut_to_a_line() -> None:
    page = b"<html>\n" + b"bad gateway\n" * 10_000
    with (
        answering(lambda _path: (502, page)) as url,
        reading(url) as reader,
        pytest.raises(UnreachableError) as caught,
    ):
        reader.read([NODES])

    assert len(str(caught.value)) < 200


def test_an_answer_larger_than_any_cluster_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rebalancer.cluster.live.client._MAX_ANSWER_BYTES", 100)
    with (
        a_sandbox() as sandbox,
        reading(sandbox.url) as reader,
        pytest.raises(UnreachableError, match="the answer is larger than"),
    ):
        reader.read([NODES])


def test_a_config_map_that_is_none_is_one_line() -> None:
    with (
        answering(lambda _path: (200, b"<html>")) as url,
        api_of(url) as api,
        pytest.raises(UnreachableError, match="read configmap a/b: the answer is not a ConfigMap"),
    ):
        api.config_map("a", "b")


@rows("body", [b"<html>", b"{}", b"[]", b'{"major": "1", "minor": "x"}'])
def test_a_version_that_is_none_is_unknown(body: bytes) -> None:
    with answering(lambda _path: (200, body)) as url, api_of(url) as api:
        assert api.server_version() == ""


def test_the_version_is_read_without_what_distributions_add() -> None:
    body = b'{"major": "1", "minor": "35+", "gitVersion": "v1.35.1-eks"}'
    with answering(lambda _path: (200, body)) as url, api_of(url) as api:
        assert api.server_version() == "1.35"
