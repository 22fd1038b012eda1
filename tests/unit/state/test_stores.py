"""A state is kept whole or not at all, wherever it is kept."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock
from msgspec.structs import replace
from urllib3.exceptions import ProtocolError

from rebalancer.cluster.live.failures import RequestRejectedError
from rebalancer.deadlines import Deadline, StopRequest
from rebalancer.errors import (
    InputError,
    RebalancerError,
    RightsError,
    SafetyError,
    StopRequestedError,
    UnreachableError,
)
from rebalancer.state import stores
from rebalancer.state.run_state import MAX_BYTES, RunState, after_moves, after_plan, encode
from rebalancer.state.stores import ConfigMapStore, FileStore, StateStore
from tests.rows import rows
from tests.unit.execution.fake_api import Answer, Request, fake_api, not_found, refusal
from tests.unit.state.past_moves import NOW, a_past_move

STATE = after_plan(after_moves(None, [a_past_move()], NOW, 3600), ["hot"], NOW)


def test_a_file_keeps_a_state(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "var" / "state.json")
    assert store.load() is None
    store.update(lambda _: STATE)
    assert store.load() == STATE
    store.update(lambda state: after_plan(state, ["hot"], NOW))
    assert {path.name for path in (tmp_path / "var").iterdir()} == {"state.json", ".state.json.lock"}


def test_a_crash_while_writing_leaves_the_old_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = FileStore(tmp_path / "state.json")
    store.update(lambda _: STATE)

    class Crash(BaseException):
        pass

    def crash(_descriptor: int) -> None:
        raise Crash

    monkeypatch.setattr(os, "fsync", crash)
    with pytest.raises(Crash):
        store.update(lambda _: RunState())
    assert store.load() == STATE
    assert {path.name for path in tmp_path.iterdir()} == {"state.json", ".state.json.lock"}


def test_a_file_that_cannot_be_read_or_written_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot read the state"):
        FileStore(tmp_path).load()
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="cannot write the state"):
        FileStore(tmp_path / "file" / "state.json").update(lambda _: STATE)


def test_a_file_that_another_process_is_writing_is_waited_for_and_then_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores, "_LOOK_SECONDS", 0.02)
    monkeypatch.setattr(stores, "_LOCK_SECONDS", 0.06)
    path = tmp_path / "state.json"
    with FileLock(tmp_path / ".state.json.lock"), pytest.raises(SafetyError, match="locked by another"):
        FileStore(path).update(lambda _: STATE)
    assert not path.exists()
    FileStore(path).update(lambda _: STATE)
    assert FileStore(path).load() == STATE


def test_a_run_that_is_asked_to_stop_waits_no_longer_for_the_lock_unless_it_closes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores, "_LOOK_SECONDS", 0.02)
    closing: list[bool] = []

    def asked_to_stop() -> bool:
        if closing:
            lock.release()  # asked while it waits for the lock
        return True

    store = FileStore(tmp_path / "state.json", asked_to_stop)
    with FileLock(tmp_path / ".state.json.lock", thread_local=False) as lock:
        with pytest.raises(StopRequestedError):
            store.update(lambda state: state)
        closing.append(True)
        store.update(lambda state: state, closing=True)
    assert store.load() is not None


def test_a_huge_file_is_not_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    with path.open("wb") as stream:
        stream.truncate(50 * MAX_BYTES)
    with pytest.raises(InputError, match="more than any that was written"):
        FileStore(path).load()


class ConfigMapServer:
    """Keeps one ConfigMap as the API server does; ``before_write`` may let somebody else be faster."""

    def __init__(self) -> None:
        self.item: dict[str, Any] | None = None
        self.version = 0
        self.before_write: list[Any] = []

    def put(self, state: RunState | None, **data: str) -> None:
        self.version += 1
        content = {**data, **({"state.json": encode(state).decode()} if state is not None else {})}
        metadata = {
            "namespace": "kube-system",
            "name": "rebalancer",
            "resourceVersion": str(self.version),
            "labels": {"team": "infra"},
        }
        self.item = {"metadata": metadata, "data": content}

    def __call__(self, request: Request) -> Answer:
        if request.method == "GET":
            return not_found(request.path) if self.item is None else Answer(200, self.item)
        if self.before_write:
            self.before_write.pop(0)()
        if request.method == "POST" and self.item is not None:
            return refusal(409, "already exists")
        if request.method == "PUT":
            if self.item is None:
                return not_found(request.path)
            if request.body["metadata"]["resourceVersion"] != self.item["metadata"]["resourceVersion"]:
                return refusal(409, "the object has been modified")
        self.version += 1
        self.item = request.body
        self.item["metadata"]["resourceVersion"] = str(self.version)
        return Answer(200, self.item)


@pytest.fixture
def server() -> ConfigMapServer:
    return ConfigMapServer()


@pytest.fixture
def store(server: ConfigMapServer) -> ConfigMapStore:
    return ConfigMapStore(fake_api(server)[0], "kube-system", "rebalancer")


def test_a_config_map_is_created_when_absent(store: ConfigMapStore, server: ConfigMapServer) -> None:
    assert store.load() is None
    store.update(lambda _: STATE)
    assert store.load() == STATE
    assert server.item is not None
    assert server.item["metadata"]["labels"] == {"app.kubernetes.io/managed-by": "rebalancer"}


def test_whatever_else_it_holds_stays(store: ConfigMapStore, server: ConfigMapServer) -> None:
    server.put(None, notes="by hand")
    assert store.load() is None
    store.update(lambda _: STATE)
    assert server.item is not None
    assert server.item["data"]["notes"] == "by hand"
    assert server.item["metadata"]["labels"] == {"team": "infra"}
    assert store.load() == STATE


def add(name: str, at: float = NOW) -> Callable[[RunState], RunState]:
    """A change that adds a move."""
    return lambda state: after_moves(state, [a_past_move(name, at=at)], NOW, 3600)


@pytest.fixture(params=["file", "config map"])
def any_store(request: pytest.FixtureRequest, tmp_path: Path, store: ConfigMapStore) -> StateStore:
    return FileStore(tmp_path / "state.json") if request.param == "file" else store


def test_a_change_is_made_to_what_is_kept_now_and_never_to_what_was_read_before(
    any_store: StateStore,
) -> None:
    assert any_store.load() is None
    any_store.update(add("theirs"))
    any_store.load()  # looking at the state, and dropping it, promises nothing
    kept = any_store.update(add("ours"))
    assert {move.name for move in kept.moves} == {"theirs", "ours"}
    assert any_store.load() == kept


def test_a_move_that_one_run_withdrew_is_not_brought_back_by_another(any_store: StateStore) -> None:
    any_store.update(add("refused"))
    any_store.load()
    any_store.update(lambda state: replace(state, moves=()))
    kept = any_store.update(add("ours"))
    assert [move.name for move in kept.moves] == ["ours"]


def test_many_processes_writing_one_file_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    names = [f"web-{index}" for index in range(24)]
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda name: FileStore(path).update(add(name)), names))
    kept = FileStore(path).load()
    assert kept is not None
    assert {move.name for move in kept.moves} == set(names)


@pytest.mark.parametrize("absent", [True, False])
def test_a_change_is_made_again_to_a_state_written_meanwhile(
    store: ConfigMapStore, server: ConfigMapServer, absent: bool
) -> None:
    if not absent:
        server.put(RunState())
    theirs = after_moves(None, [a_past_move("theirs")], NOW - 1, 3600)
    server.before_write = [lambda: server.put(theirs)]
    kept = store.update(add("ours"))
    assert {move.name for move in kept.moves} == {"theirs", "ours"}
    assert store.load() == kept


def test_a_missing_namespace_is_bad_input_and_not_a_second_writer() -> None:
    def answer(request: Request) -> Answer:
        return not_found(request.path if request.method == "GET" else request.path.rpartition("/")[0])

    api, _ = fake_api(answer)
    with pytest.raises(InputError, match="namespace 'ops' does not exist") as caught:
        ConfigMapStore(api, "ops", "rebalancer").update(add("ours"))
    assert "--state-config-map" in caught.value.hint


def test_a_config_map_deleted_meanwhile_is_created_again(
    store: ConfigMapStore, server: ConfigMapServer
) -> None:
    server.put(STATE)
    store.load()
    server.before_write = [lambda: setattr(server, "item", None)]
    store.update(lambda _: STATE)
    assert store.load() == STATE


def test_writers_that_never_rest_end_in_an_error(store: ConfigMapStore, server: ConfigMapServer) -> None:
    server.put(STATE)
    server.before_write = [lambda: server.put(STATE)] * 10
    with pytest.raises(SafetyError, match="4 times"):
        store.update(lambda _: STATE)


@pytest.mark.parametrize("absent", [True, False])
@pytest.mark.parametrize("written", [True, False])
def test_a_state_whose_answer_is_lost_is_written_again(
    server: ConfigMapServer, absent: bool, written: bool
) -> None:
    lost: list[Exception] = [ProtocolError("reset")]

    def handler(request: Request) -> Answer | Exception:
        if request.method == "GET" or not lost:
            return server(request)
        if written:
            server(request)
        return lost.pop()

    if not absent:
        server.put(RunState())
    store = ConfigMapStore(fake_api(handler)[0], "kube-system", "rebalancer")
    store.load()
    store.update(lambda _: STATE)
    assert store.load() == STATE


def test_a_state_that_stays_unwritten_is_an_error(server: ConfigMapServer) -> None:
    def handler(request: Request) -> Answer | Exception:
        return server(request) if request.method == "GET" else ProtocolError("reset")

    with pytest.raises(UnreachableError, match="write configmap kube-system/rebalancer"):
        ConfigMapStore(fake_api(handler)[0], "kube-system", "rebalancer").update(lambda _: STATE)


def test_a_missing_right_is_a_rights_error() -> None:
    api, _ = fake_api(lambda _request: refusal(403, "forbidden"))
    with pytest.raises(RightsError):
        ConfigMapStore(api, "kube-system", "rebalancer").load()


def test_an_immutable_config_map_is_an_input_error(server: ConfigMapServer) -> None:
    server.put(STATE)

    def immutable(request: Request) -> Answer:
        return server(request) if request.method == "GET" else refusal(422, "field is immutable")

    api, _ = fake_api(immutable)
    with pytest.raises(InputError, match=r"field is immutable.*--state-config-map"):
        ConfigMapStore(api, "kube-system", "rebalancer").update(lambda _: STATE)


@pytest.mark.parametrize(
    "words", ['admission webhook "x" denied the request', "ValidatingAdmissionPolicy 'x' denied request"]
)
def test_what_a_webhook_or_a_policy_denies_is_a_rejected_request(server: ConfigMapServer, words: str) -> None:
    def denying(request: Request) -> Answer:
        return server(request) if request.method == "GET" else refusal(422, words)

    api, _ = fake_api(denying)
    with pytest.raises(RequestRejectedError, match=words):
        ConfigMapStore(api, "kube-system", "rebalancer").update(lambda _: STATE)


@rows(
    "body",
    [b"", b"[]", b"7", b"[" * 9000, b'{"data": {"state.json": 7}}', b'{"data": {"state.json": "\\ud800"}}'],
)
def test_an_odd_config_map_is_an_error_of_ours(body: bytes) -> None:
    api, _ = fake_api(lambda _request: Answer(200, body))
    with pytest.raises(RebalancerError):
        ConfigMapStore(api, "kube-system", "rebalancer").load()


@rows("data", [{}, {"data": None}, {"data": 7}, {"data": {"notes": "by hand"}}])
def test_a_config_map_without_a_state_is_none(data: dict[str, Any]) -> None:
    body = {"metadata": {"namespace": "kube-system", "name": "rebalancer"}, **data}
    api, _ = fake_api(lambda _request: Answer(200, body))
    assert ConfigMapStore(api, "kube-system", "rebalancer").load() is None


def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    store = FileStore(tmp_path / "pipe")
    with pytest.raises(InputError, match="it is not a regular file"):
        store.load()
    with pytest.raises(InputError, match="it is not a regular file"):
        store.update(lambda _: STATE)
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


@pytest.mark.parametrize("there", [True, False])
def test_a_link_stays_and_the_file_it_leads_to_is_written(tmp_path: Path, there: bool) -> None:
    (tmp_path / "kept").mkdir()
    target = tmp_path / "kept" / "state.json"
    if there:
        FileStore(target).update(lambda _: RunState())
    link = tmp_path / "link.json"
    link.symlink_to(target)
    FileStore(link).update(lambda _: STATE)

    assert link.is_symlink()
    assert FileStore(target).load() == FileStore(link).load() == STATE


def test_a_config_map_without_a_version_is_never_overwritten() -> None:
    def server(request: Request) -> Answer | Exception:
        assert request.method == "GET", "what another run wrote would be lost"
        return Answer(200, {"metadata": {"namespace": "ops", "name": "state"}, "data": {}})

    store = ConfigMapStore(fake_api(server)[0], "ops", "state")
    with pytest.raises(UnreachableError, match="was read without a resourceVersion"):
        store.update(lambda _: STATE)


def test_a_store_is_named_by_its_file_or_its_config_map(tmp_path: Path, store: ConfigMapStore) -> None:
    assert FileStore(tmp_path / "state.json").where == str(tmp_path / "state.json")
    assert store.where == "configmap kube-system/rebalancer"


def test_only_the_last_write_of_a_run_that_was_asked_to_stop_is_still_made(server: ConfigMapServer) -> None:
    stop = StopRequest()
    stop.set()
    store = ConfigMapStore(fake_api(server)[0].until(Deadline(stop=stop)), "kube-system", "rebalancer")

    with pytest.raises(StopRequestedError):
        store.update(lambda _: STATE)
    assert store.update(lambda _: STATE, closing=True) == STATE


def test_a_page_of_a_proxy_is_no_bad_state() -> None:
    api, _ = fake_api(lambda _request: Answer(200, b"<html>log in</html>"))
    with pytest.raises(UnreachableError, match=r"is not an object.*or a proxy before one\?"):
        ConfigMapStore(api, "kube-system", "rebalancer").load()


def altered(server: ConfigMapServer, change: Callable[[Any], Any]) -> Callable[[Request], Answer]:
    """The server behind something that changes its answers to writes."""

    def answer(request: Request) -> Answer:
        found = server(request)
        return found if request.method == "GET" else Answer(found.status, change(deepcopy(found.body)))

    return answer


def without_moves(body: Any) -> Any:
    body["data"]["state.json"] = encode(RunState()).decode()
    return body


@pytest.mark.parametrize("there", [True, False])
@pytest.mark.parametrize(
    "change",
    [
        without_moves,
        lambda body: {**body, "data": {}},
        lambda body: {**body, "data": None},
        lambda body: {key: value for key, value in body.items() if key != "data"},
        lambda body: {**body, "metadata": {**body["metadata"], "resourceVersion": ""}},
        lambda _body: {},
        lambda _body: {"kind": "Status", "status": "Success"},
        lambda _body: [],
    ],
)
def test_a_state_counts_as_kept_only_where_the_api_server_says_that_it_stored_it(
    server: ConfigMapServer, there: bool, change: Callable[[Any], Any]
) -> None:
    if there:
        server.put(RunState())
    store = ConfigMapStore(fake_api(altered(server, change))[0], "kube-system", "rebalancer")
    with pytest.raises(RebalancerError, match=r"stored|not an object"):
        store.update(lambda _: STATE)


@pytest.mark.parametrize("there", [True, False])
def test_a_write_that_is_answered_with_what_was_sent_and_not_carried_out_is_noticed(
    server: ConfigMapServer, there: bool
) -> None:
    if there:
        server.put(RunState())

    def answer(request: Request) -> Answer:
        return server(request) if request.method == "GET" else Answer(200, request.body)

    store = ConfigMapStore(fake_api(answer)[0], "kube-system", "rebalancer")
    with pytest.raises(SafetyError, match="accepted, and not stored"):
        store.update(lambda _: STATE)


def test_a_state_that_does_not_change_keeps_its_version(server: ConfigMapServer) -> None:
    server.put(STATE)

    def answer(request: Request) -> Answer:
        return server(request) if request.method == "GET" else Answer(200, request.body)

    store = ConfigMapStore(fake_api(answer)[0], "kube-system", "rebalancer")
    assert store.update(lambda state: state) == STATE


def test_a_namespace_is_missing_only_where_the_api_server_says_so(server: ConfigMapServer) -> None:
    def answer(request: Request) -> Answer:
        return server(request) if request.method == "GET" else Answer(404, b"404 page not found")

    with pytest.raises(RequestRejectedError):
        ConfigMapStore(fake_api(answer)[0], "kube-system", "rebalancer").update(lambda _: STATE)
