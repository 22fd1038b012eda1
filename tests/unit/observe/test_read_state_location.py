"""Every command finds the state that runs keep, and says which it is."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from rebalancer.errors import InputError
from rebalancer.observe.plan_options import PlanOptions
from rebalancer.observe.read import known_state, state_store, user_file
from rebalancer.state.run_state import RunState
from rebalancer.state.stores import ConfigMapStore, FileStore
from tests.unit.execution.fake_api import fake_api, not_found


@pytest.fixture
def api() -> Any:
    return fake_api(lambda request: not_found(request.path))[0]


@pytest.fixture(autouse=True)
def outside_of_a_cluster(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    caplog.set_level(logging.INFO)


def test_a_run_from_a_laptop_keeps_its_state_in_the_users_folder_and_says_so(
    api: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = state_store(PlanOptions(), api, acts=True)

    assert isinstance(store, FileStore)
    assert store.where == str(tmp_path / "rebalancer" / "http-fake.json")
    assert f"{store.where}, which does not exist yet" in caplog.text


def test_what_measures_for_runs_says_where_it_is_kept_and_calls_itself_no_run(
    api: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = state_store(PlanOptions(), api, measures=True)

    assert isinstance(store, FileStore)
    assert caplog.messages == [f"what is measured is kept for runs in {store.where}"]


def test_what_only_reads_uses_the_users_file_once_a_run_made_it(api: Any, tmp_path: Path) -> None:
    assert state_store(PlanOptions(), api) is None
    path = user_file(api.host)
    assert path is not None
    FileStore(path).update(lambda _: RunState(updated_at=1.0))

    assert known_state(PlanOptions(), api) == RunState(updated_at=1.0)


def test_each_api_server_has_a_file_of_its_own(tmp_path: Path) -> None:
    hosts = [
        "https://10.0.0.1:6443",
        "https://10.0.0.2:6443",
        "https://API.example.com/k8s/c-1",
        "https://../..",
    ]
    files = [file for host in hosts if (file := user_file(host)) is not None]

    assert files[0] == tmp_path / "rebalancer" / "10.0.0.1-6443.json"
    assert len(set(files)) == len(hosts)
    assert {file.parent for file in files} == {tmp_path / "rebalancer"}


def test_without_a_folder_of_its_own_the_state_is_in_the_users_home(monkeypatch: pytest.MonkeyPatch) -> None:
    for value in ("", "relative"):
        monkeypatch.setenv("XDG_STATE_HOME", value)
        assert user_file("https://a") == Path.home() / ".local" / "state" / "rebalancer" / "a.json"


def test_in_a_cluster_and_for_a_recorded_one_nothing_is_assumed(
    api: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert state_store(PlanOptions(), None, acts=True) is None
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    assert state_store(PlanOptions(), api, acts=True) is None


def test_a_config_map_is_used_by_what_only_reads_too(api: Any, caplog: pytest.LogCaptureFixture) -> None:
    assert isinstance(state_store(PlanOptions(state_config_map="ops/state"), api), ConfigMapStore)
    assert known_state(PlanOptions(state_config_map="ops/state"), api) == RunState()
    assert "configmap ops/state" in caplog.text


def test_a_file_that_does_not_exist_is_mentioned(
    tmp_path: Path, api: Any, caplog: pytest.LogCaptureFixture
) -> None:
    assert known_state(PlanOptions(state_path=tmp_path / "stat.json"), api) == RunState()
    assert "stat.json, which does not exist yet" in caplog.text


@pytest.fixture
def homeless(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container that runs as a number which no user has."""

    def nobody(*_arguments: object) -> None:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setattr(Path, "home", nobody)


@pytest.mark.usefixtures("homeless")
def test_a_user_without_a_home_may_look_and_has_to_name_a_state_to_act(api: Any, tmp_path: Path) -> None:
    assert state_store(PlanOptions(), api) is None
    assert isinstance(state_store(PlanOptions(state_path=tmp_path / "state.json"), api, acts=True), FileStore)
    with pytest.raises(InputError, match=r"has no home folder.*name a file with --state"):
        state_store(PlanOptions(), api, acts=True)


def test_a_password_in_an_address_is_no_part_of_a_files_name() -> None:
    assert "canary" not in str(user_file("https://bob:canary@10.0.0.1:6443"))
