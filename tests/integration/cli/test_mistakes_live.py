"""What a new user gets wrong with a live cluster: one line that helps, and its exit code."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest
import yaml

from rebalancer_demo import Fault, Surface, User, allow
from tests.integration.cli.conftest import Program, Refusal
from tests.integration.reading.servers import a_sandbox, answering, cluster_objects

EXEC_VERSION = "client.authentication.k8s.io/v1"
REQUESTS = "apiVersion: rebalancer/v1alpha1\nkind: RebalancePolicy\nload: {sources: [{requests: {}}]}\n"
FAST = pytest.mark.usefixtures("without_waiting")


def a_kubeconfig(path: Path, server: str) -> Path:
    document = {
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path.write_text(json.dumps(document))
    return path


def status(code: int, message: str) -> bytes:
    return json.dumps({"kind": "Status", "apiVersion": "v1", "code": code, "message": message}).encode()


@pytest.fixture
def without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rebalancer.deadlines.StopRequest.wait", lambda *_: False)


def test_no_kubeconfig_at_all_says_what_to_give(
    refusal: Refusal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nowhere = tmp_path / "config"
    monkeypatch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(nowhere))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    line = refusal(2, "plan")

    assert line.startswith("~/.kube/config: no usable Kubernetes configuration")
    assert "give --kubeconfig or KUBECONFIG, or read a recorded cluster with --from PATH" in line


@pytest.mark.parametrize("command", [("plan",), ("nodes",), ("snapshot", "save", "out")])
def test_a_kubeconfig_that_is_not_there_or_damaged_is_named(
    refusal: Refusal, tmp_path: Path, command: tuple[str, ...]
) -> None:
    path = tmp_path / "config"

    assert refusal(2, *command, "--kubeconfig", path) == f"{path}: no such kubeconfig (is the path right?)"
    path.write_text("clusters: [")
    assert refusal(2, *command, "--kubeconfig", path).startswith(
        f"{path}: no usable Kubernetes configuration"
    )


def test_a_context_that_is_not_there_is_named(refusal: Refusal, tmp_path: Path) -> None:
    with a_sandbox() as sandbox:
        kubeconfig = sandbox.write_kubeconfig(tmp_path / "config")
        line = refusal(2, "plan", "--kubeconfig", kubeconfig, "--context", "production")
        document = yaml.safe_load(kubeconfig.read_text())
        name = document.pop("current-context")
        kubeconfig.write_text(yaml.safe_dump(document))
        without = refusal(2, "plan", "--kubeconfig", kubeconfig)

    assert line == f"{kubeconfig}: has no context 'production' (there are: {name})"
    assert without == f"{kubeconfig}: names no current-context (give --context; there are: {name})"


EARLY = {
    "a wrong subject": (("explain", "service/web"), "names neither a pod nor a node nor a workload"),
    "a scheduler configuration that is not there": (
        ("plan", "--scheduler-config", "/nowhere/c.yaml"),
        "/nowhere/c.yaml: cannot be read",
    ),
    "a full folder": (("snapshot", "save", "{full}"), "the folder is not empty (name a new one)"),
    "a journal in no folder": (
        ("run", "--yes", "--policy", "{good}", "--journal", "/nowhere/j"),
        "/nowhere/j: its folder does not exist (make it, or give another --journal)",
    ),
    "two states": (
        ("run", "--yes", "--policy", "{good}", "--state", "s", "--state-config-map", "a/b"),
        "give one of them",
    ),
    "a policy with a typo": (("plan", "--policy", "{typo}"), "did you mean limits?"),
}


@pytest.mark.parametrize("name", EARLY)
def test_what_is_wrong_with_arguments_is_found_before_the_cluster_is_read(
    refusal: Refusal, tmp_path: Path, name: str
) -> None:
    arguments, complaint = EARLY[name]
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    (tmp_path / "typo").write_text("apiVersion: rebalancer/v1alpha1\nkind: RebalancePolicy\nlimts: {}\n")
    (tmp_path / "good").write_text(REQUESTS)
    paths = {name: tmp_path / name for name in ("full", "typo", "good")}
    asked: list[str] = []

    def answer(path: str) -> tuple[int, bytes]:
        asked.append(path)
        return 500, b""

    with answering(answer) as url:
        kubeconfig = a_kubeconfig(tmp_path / "config", url)
        words = [argument.format(**paths) for argument in arguments]
        line = refusal(2, *words, "--kubeconfig", kubeconfig)

    assert complaint in line
    assert asked == []


REJECTED = {
    "a page that is not there": (404, b"page not found", "HTTP 404 Not Found (is this an API server, or a"),
    "a method that is refused": (405, status(405, "not allowed"), "list nodes: not allowed"),
    "a request that is too large": (413, status(413, "too large"), "list nodes: too large"),
    "a request that is not understood": (422, status(422, "no such field"), "list nodes: no such field"),
    "a redirect to a login": (
        302,
        b"<html>",
        "HTTP 302 Found (is this an API server, or a proxy before one?)",
    ),
    "plain HTTP to a TLS port": (
        400,
        b"Client sent an HTTP request to an HTTPS server.\n",
        "the server speaks HTTPS, and the address begins with http://",
    ),
}


@pytest.mark.parametrize("name", REJECTED)
def test_a_server_that_answers_and_rejects_is_not_called_unreachable(
    refusal: Refusal, tmp_path: Path, name: str
) -> None:
    code, body, complaint = REJECTED[name]
    with answering(lambda _path: (code, body)) as url:
        line = refusal(8, "plan", "--kubeconfig", a_kubeconfig(tmp_path / "config", url))

    assert line.startswith(f"{url}: list nodes: ")
    assert complaint in line


@FAST
def test_https_to_a_plain_port_is_named(refusal: Refusal, tmp_path: Path) -> None:
    with answering(lambda _path: (200, b"{}")) as url:
        address = url.replace("http://", "https://")
        line = refusal(6, "plan", "--kubeconfig", a_kubeconfig(tmp_path / "config", address))

    assert "the server speaks plain HTTP, and the address begins with https:// (write http://" in line


@pytest.mark.parametrize("option", ["--lease", "--state-config-map"])
def test_a_namespace_that_is_not_there_is_named(
    rebalancer_program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    own = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "rebalancer"}}
    policy = tmp_path / "policy.yaml"
    policy.write_text(REQUESTS)
    with a_sandbox(objects=[*cluster_objects(), own]) as sandbox:
        kubeconfig = sandbox.write_kubeconfig(tmp_path / "config")
        files = ("--kubeconfig", kubeconfig, "--policy", policy, "--journal", tmp_path / "j")
        result = rebalancer_program("run", "--yes", *files, option, "nosuch/name")

    assert result.exit_code == 2
    line = result.stderr.splitlines()[-1]
    assert "namespace 'nosuch' does not exist (apply k8s/base, which makes the namespace" in line
    assert option in line


def test_a_login_that_fails_is_one_line(refusal: Refusal, tmp_path: Path) -> None:
    login, path = tmp_path / "login", tmp_path / "config"
    login.write_text("#!/bin/sh\nprintf 'session \\033[31mexpired\\nlog in again' >&2; exit 1\n")
    login.chmod(0o700)
    user = {"exec": {"apiVersion": EXEC_VERSION, "command": str(login), "interactiveMode": "Never"}}
    document = {
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path.write_text(json.dumps(document))
    line = refusal(5, "plan", "--kubeconfig", path)

    assert "the login by login failed: process returned 1. session \\x1b[31mexpired log in again" in line


@pytest.mark.parametrize("token", ["canary\n", "can\r\nX-Other: ary", "canary\u20ac"])
@pytest.mark.parametrize("verbose", [(), ("-v",)])
def test_a_token_that_no_header_may_hold_is_bad_input_and_never_shown(
    rebalancer_program: Program, tmp_path: Path, token: str, verbose: tuple[str, ...]
) -> None:
    path = a_kubeconfig(tmp_path / "config", "http://127.0.0.1:1")
    document = json.loads(path.read_text())
    document["users"][0]["user"]["token"] = token
    path.write_text(json.dumps(document))
    result = rebalancer_program(*verbose, "plan", "--kubeconfig", path)

    assert (result.exit_code, result.stdout) == (2, "")
    assert "error: http://127.0.0.1:1: a request cannot be sent" in result.stderr
    assert "does a token end in a line break?" in result.stderr
    assert "canary" not in result.stderr
    assert "X-Other" not in result.stderr


@FAST
def test_an_api_server_that_is_down_is_unreachable(refusal: Refusal, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        sandbox = a_sandbox()
        kubeconfig = sandbox.write_kubeconfig(tmp_path / "config")
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        kubeconfig.write_text(kubeconfig.read_text().replace(sandbox.url, url))
        line = refusal(6, "plan", "--kubeconfig", kubeconfig)
        sandbox._server._server.server_close()

    assert line.startswith(f"{url}: list nodes: ")
    assert line.endswith("nothing listens there (is the API server up, and does the kubeconfig name it?)")


@pytest.mark.parametrize("command", [("plan",), ("nodes",), ("snapshot", "save", "out")])
def test_a_token_without_rights_says_what_it_may_not_and_what_to_grant(
    refusal: Refusal, tmp_path: Path, command: tuple[str, ...]
) -> None:
    users = {"none": User("nobody"), "some": User("somebody", (allow("get list", "nodes"),))}
    with a_sandbox(users=users) as sandbox:
        unknown = sandbox.write_kubeconfig(tmp_path / "unknown", token="other")
        none = sandbox.write_kubeconfig(tmp_path / "none", token="none")
        some = sandbox.write_kubeconfig(tmp_path / "some", token="some")
        lines = [refusal(5, *command, "--kubeconfig", path) for path in (unknown, none, some)]
        url = sandbox.url

    login = "the credentials are not accepted: a token may have expired, so log in again"
    assert lines[0] == f"{url}: list nodes: Unauthorized ({login})"
    assert 'User "nobody" cannot list resource "nodes"' in lines[1]
    assert 'User "somebody" cannot list resource "pods"' in lines[2]
    assert lines[1].endswith("(grant it as in k8s/base, for a run as in k8s/overlays/active)")


def test_metrics_that_may_not_be_read_are_a_missing_right(refusal: Refusal, tmp_path: Path) -> None:
    with a_sandbox() as sandbox:
        sandbox.faults.add(Fault("status", path="metrics.k8s.io", code=403, times=0, message="no right"))
        line = refusal(5, "plan", "--kubeconfig", sandbox.write_kubeconfig(tmp_path / "config"))

    assert "no load source may be read: metrics-server: " in line
    assert "no right" in line
    assert line.endswith("(grant it as in k8s/base)")


@FAST
@pytest.mark.parametrize(
    ("surface", "told"),
    [
        (
            Surface(without=("metrics.k8s.io",)),
            "metrics-server is not installed: the Metrics API is not served",
        ),
        (
            Surface(),
            "no load source answered: metrics-server: nodemetrics list nodes.metrics.k8s.io: no endpoints",
        ),
    ],
    ids=["absent", "down"],
)
def test_a_cluster_without_metrics_says_which_sources_were_tried(
    refusal: Refusal, tmp_path: Path, surface: Surface, told: str
) -> None:
    with a_sandbox(surface=surface) as sandbox:
        if told.endswith("no endpoints"):
            fault = Fault("status", path="metrics.k8s.io", code=503, times=0, message="no endpoints")
            sandbox.faults.add(fault)
        line = refusal(6, "plan", "--kubeconfig", sandbox.write_kubeconfig(tmp_path / "config"))

    assert told in line
    assert "load.sources: [{requests: {}}]" in line


@FAST
@pytest.mark.parametrize("effect", ["truncate", "reset-before", "status"])
def test_a_server_that_keeps_failing_is_one_line(refusal: Refusal, tmp_path: Path, effect: str) -> None:
    with a_sandbox() as sandbox:
        sandbox.faults.add(Fault(effect, path="/pods", times=0))  # type: ignore[arg-type]
        line = refusal(6, "plan", "--kubeconfig", sandbox.write_kubeconfig(tmp_path / "config"))

    assert line.startswith(f"{sandbox.url}: list pods: ")


@pytest.mark.parametrize("minor", [20, 35])
def test_a_live_and_a_recorded_cluster_are_the_same_to_the_planner(
    rebalancer_program: Program, tmp_path: Path, minor: int
) -> None:
    with a_sandbox(objects=cluster_objects(5), surface=Surface(minor)) as sandbox:
        kubeconfig = sandbox.write_kubeconfig(tmp_path / "config")
        moment = str(int(sandbox.clock()))
        saved = rebalancer_program("snapshot", "save", tmp_path / "saved", "--kubeconfig", kubeconfig)
        live = rebalancer_program("nodes", "--kubeconfig", kubeconfig, "--now", moment, "-o", "json")
    assert saved.exit_code == 0, saved.stderr
    recorded = rebalancer_program("nodes", "--from", tmp_path / "saved", "--now", moment, "-o", "json")

    assert (live.exit_code, recorded.exit_code) == (0, 0), live.stderr + recorded.stderr
    first, second = json.loads(live.stdout), json.loads(recorded.stdout)
    assert first["nodes"] == second["nodes"]
    assert first["inputs"] == second["inputs"]
