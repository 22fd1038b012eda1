"""What shells complete to: contexts, kinds and the names of a recording, and never in the way."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from rebalancer.cli.program import answer
from rebalancer.cluster import live
from tests.rows import rows
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


@rows(
    "words, some",
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


def test_nothing_is_asked_of_a_cluster(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "open_api", lambda *_, **__: pytest.fail("a cluster is asked"))

    assert completed("explain", "po") == ["pod/"]
    assert completed("explain", "pod/") == []
    assert completed("plan", "-n", "") == []
    assert not own_cache.exists()


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
