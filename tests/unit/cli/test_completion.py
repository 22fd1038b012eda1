"""What shells complete to: names of a cluster's objects, kept for a minute, and never in the way."""

from __future__ import annotations

import json
import os
import socket
import stat
from pathlib import Path

import pytest
import yaml

from rebalancer.cli import completion
from rebalancer.cli.program import answer
from rebalancer_demo import Sandbox
from rebalancer_demo.hot_cluster import hot_cluster
from tests.unit.cli.conftest import Program

RECORDED = str(Path(__file__).parents[3] / "examples" / "hot-cluster")
PODS = ["pod/kube-system/node-agent-1", "pod/shop/api-7d9f-01"]


def completed(*words: str) -> list[str]:
    """The candidates for the last word, as kubectl reads them."""
    return [line.partition("\t")[0] for line in answer(words).splitlines()][:-1]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    return tmp_path / "cache"


@pytest.mark.parametrize(
    ("words", "some"),
    [
        (["explain", "--from", RECORDED, "po"], PODS),
        (["explain", "--from", RECORDED, "pod/shop/api"], PODS[1:]),
        (["explain", "--from", RECORDED, "po/shop/api"], ["po/shop/api-7d9f-01"]),
        (["explain", "--from", RECORDED, "pod", "shop/"], ["shop/api-7d9f-01"]),
        (["explain", "--from", RECORDED, "-n", "shop", "pod/"], ["pod/api-7d9f-01"]),
        (["explain", "--from", RECORDED, "node/"], ["node/node-1", "node/node-6"]),
        (["explain", "--from", RECORDED, "d"], ["daemonset/", "deployment/"]),
        (["plan", "--from", RECORDED, "-n", "s"], ["shop"]),
    ],
)
def test_names_of_a_recording_are_completed(words: list[str], some: list[str]) -> None:
    found = completed(*words)

    assert set(some) <= set(found)
    assert all(name.startswith(words[-1]) for name in found)


def test_names_of_a_cluster_are_read_once_and_kept_without_the_login(tmp_path: Path, own_cache: Path) -> None:
    with Sandbox(hot_cluster(1_795_176_000.0), controllers=False) as sandbox:
        config = sandbox.write_kubeconfig(tmp_path / "kubeconfig")
        first = completed("explain", "po")
    again = completed("explain", "po")  # nobody answers any more
    (kept,) = (own_cache / "rebalancer" / "completion").iterdir()
    token = yaml.safe_load(config.read_text())["users"][0]["user"]["token"]

    assert set(PODS) <= set(first)
    assert again == first
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert token not in kept.read_text()
    assert set(kept.read_text().splitlines()) == {name.partition("/")[2] for name in first}


def test_names_are_asked_for_again_after_a_minute_and_for_another_cluster(
    tmp_path: Path, own_cache: Path
) -> None:
    with Sandbox(hot_cluster(1_795_176_000.0), controllers=False) as sandbox:
        config = sandbox.write_kubeconfig(tmp_path / "kubeconfig")
        assert completed("explain", "node/node-1") == ["node/node-1"]
    (kept,) = (own_cache / "rebalancer" / "completion").iterdir()

    os.utime(kept, (kept.stat().st_mtime - 61, kept.stat().st_mtime - 61))
    assert completed("explain", "node/node-1") == []
    other = tmp_path / "other"
    other.write_text(config.read_text())
    assert completed("explain", "--kubeconfig", str(other), "node/node-1") == []


def test_names_are_those_of_the_context_that_was_given(tmp_path: Path) -> None:
    with Sandbox(hot_cluster(1_795_176_000.0), controllers=False) as sandbox:
        config = sandbox.write_kubeconfig(tmp_path / "kubeconfig")
        document = yaml.safe_load(config.read_text())
        (context,) = document["contexts"]
        document["contexts"] = [{**context, "name": "this"}]
        document["current-context"] = "other"
        config.write_text(yaml.safe_dump(document))

        assert completed("explain", "node/node-1") == []
        assert completed("explain", "--context", "this", "node/node-1") == ["node/node-1"]
        assert completed("plan", "--context", "this", "-n", "sho") == ["shop"]


def test_contexts_come_from_every_kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, contexts in (("one", ["prod", "arn:aws:eks:eu:1:cluster/x"]), ("two", ["dev", "a $(reboot)"])):
        document = {"contexts": [{"name": context, "context": {}} for context in contexts]}
        (tmp_path / name).write_text(yaml.safe_dump(document))
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path / 'one'}:{tmp_path / 'two'}:{tmp_path / 'missing'}")

    assert completed("plan", "--context", "") == ["prod", "arn:aws:eks:eu:1:cluster/x", "dev"]
    assert completed("plan", "--context", "d") == ["dev"]


@pytest.mark.parametrize("content", ["", "{", "contexts: 3", "current-context: x\ncontexts: [{name: x}]\n"])
def test_a_failure_means_no_names_and_says_nothing(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], content: str
) -> None:
    (tmp_path / "kubeconfig").write_text(content)

    assert completed("explain", "pod/") == []
    assert completed("plan", "--context", "y") == []
    assert completed("plan", "--from", str(tmp_path / "nowhere"), "-n", "") == []
    assert capfd.readouterr().err == ""


def test_an_api_server_that_never_answers_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_cache: Path
) -> None:
    monkeypatch.setattr(completion, "_SECONDS", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        cluster = {"server": f"http://127.0.0.1:{silent.getsockname()[1]}"}
        context = {"name": "x", "context": {"cluster": "x"}}
        document = {
            "current-context": "x",
            "contexts": [context],
            "clusters": [{"name": "x", "cluster": cluster}],
        }
        (tmp_path / "kubeconfig").write_text(yaml.safe_dump(document))

        assert completed("explain", "node/") == []
    assert not own_cache.exists()


def test_a_name_that_a_shell_would_run_is_not_shown(tmp_path: Path) -> None:
    names = ["good", "$(reboot)", "a b", "new\nline", "`id`", "x;y", "\x1b[2J"]
    items = [{"metadata": {"name": name}} for name in names]
    (tmp_path / "nodes.json").write_text(json.dumps({"items": items}))

    assert completed("explain", "--from", str(tmp_path), "node/") == ["node/good"]


@pytest.mark.parametrize("command", ["plan", "run", "nodes", "explain", "agreement"])
def test_help_shows_options_in_groups_and_examples(rebalancer_program: Program, command: str) -> None:
    shown = rebalancer_program(command, "--help").stdout

    assert [line for line in shown.splitlines() if line.startswith(f"  rebalancer {command} ")]
    places = [shown.index(f"\n{heading}:\n") for heading in ("Options", "The cluster", "Output")]
    assert places == sorted(places)
    assert shown.count("--help") == 1
