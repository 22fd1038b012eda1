"""Every kubeconfig that cannot be used is one error that names it, and nothing in the logs."""

from __future__ import annotations

import json
import logging
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec.structs import replace

from rebalancer.cluster.kinds import KINDS, NODES
from rebalancer.cluster.live import open_api
from rebalancer.cluster.live.login import _Plugin, connect
from rebalancer.errors import ExitCode, InputError, RebalancerError, RightsError
from rebalancer.retries import Retries
from tests import loopback
from tests.unit.execution.fake_api import Answer as Reply
from tests.unit.execution.fake_api import fake_api
from tests.waiting import NEVER_SECONDS, no_hang

EXEC_VERSION = "client.authentication.k8s.io/v1"


@pytest.fixture(autouse=True)
def outside_a_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)


def a_kubeconfig(path: Path, *, server: str = "http://127.0.0.1:1", **user: Any) -> Path:
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path.write_text(yaml.safe_dump(document))
    return path


def a_login(path: Path, script: str) -> dict[str, Any]:
    """An exec plugin, as a shell script."""
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o700)
    return {"exec": {"apiVersion": EXEC_VERSION, "command": str(path), "interactiveMode": "Never"}}


def credential(status: dict[str, Any]) -> str:
    return json.dumps({"apiVersion": EXEC_VERSION, "kind": "ExecCredential", "status": status})


def refusal(
    path: Path,
    caplog: pytest.LogCaptureFixture,
    context: str | None = None,
    error: type[RebalancerError] = InputError,
) -> str:
    with caplog.at_level(logging.DEBUG), pytest.raises(error) as caught:
        connect(path, context)
    assert caplog.messages == []
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert "\n" not in message
    assert len(message) < 700 + len(str(path))
    return message


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "no usable Kubernetes configuration"),
        (b"\x00\x01\x02", "no usable Kubernetes configuration"),
        (b"\xff\xfea", "no usable Kubernetes configuration"),
        (b"clusters: [", "not YAML: expected the node content"),
        (b"a: b: c", "not YAML: mapping values are not allowed here in line 1, column 5"),
        (b"clusters: 5", "no usable Kubernetes configuration"),
        (b"[1, 2]", "no usable Kubernetes configuration"),
        (b"just text", "it is not a kubeconfig"),
        (b"[" * 5000, "no usable Kubernetes configuration"),
        (b"apiVersion: v1\nkind: Config\n", "no usable Kubernetes configuration"),
    ],
)
def test_a_damaged_kubeconfig_is_one_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, content: bytes, complaint: str
) -> None:
    path = tmp_path / "config"
    path.write_bytes(content)
    message = refusal(path, caplog)

    assert complaint in message
    assert "give --kubeconfig or KUBECONFIG" in message


def test_a_kubeconfig_that_is_not_there_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert "no such kubeconfig (is the path right?)" in refusal(tmp_path / "missing", caplog)


@pytest.mark.parametrize(
    "other", [{"as": "bob"}, {"as-uid": "5"}, {"as-groups": ["viewers"]}, {"as-user-extra": {"a": ["b"]}}]
)
def test_a_user_that_acts_as_somebody_else_is_refused(tmp_path: Path, other: dict[str, Any]) -> None:
    """The official client leaves that out, and would use rights that kubectl would not."""
    with pytest.raises(InputError, match="acts as somebody else"):
        open_api(a_kubeconfig(tmp_path / "config", token="t", **other))
    empty: dict[str, Any] = dict.fromkeys(other)
    open_api(a_kubeconfig(tmp_path / "config", token="t", **empty))


def test_a_context_that_is_not_there_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = a_kubeconfig(tmp_path / "config")

    assert "production" in refusal(path, caplog, "production")


def test_certificates_that_are_none_are_one_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = a_kubeconfig(
        tmp_path / "config",
        server="https://127.0.0.1:1",
        **{"client-certificate-data": "bm9uZQ==", "client-key-data": "bm9uZQ=="},
    )
    with pytest.raises(RebalancerError) as caught:
        replace(open_api(path), retries=Retries(pause=lambda _seconds: None)).list_page(NODES)
    assert caught.value.exit_code == ExitCode.UNREACHABLE
    assert str(caught.value).startswith("https://127.0.0.1:1: list nodes: ")


@pytest.mark.parametrize(
    ("script", "complaint"),
    [
        (
            "echo 'your session\nhas expired' >&2; exit 1",
            "the login by login failed: process returned 1. your session has expired",
        ),
        ("echo token=abc for bob >&2; exit 1", "process returned 1. token=REDACTED for bob"),
        (
            "echo 'Authorization: Bearer abc' >&2; exit 1",
            "process returned 1. Authorization: Bearer REDACTED",
        ),
        ("echo not json", "failed to decode process output"),
        ("echo '{}'", "missing key"),
        (f"echo '{credential({})}'", "missing token"),
    ],
)
def test_a_login_that_fails_is_one_line_with_what_it_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, script: str, complaint: str
) -> None:
    path = a_kubeconfig(tmp_path / "config", **a_login(tmp_path / "login", script))
    message = refusal(path, caplog, error=RightsError)

    assert complaint in message
    assert "log in again: login says how when it is run by hand" in message


def test_a_login_that_is_not_installed_is_one_line_that_says_how_to_install_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    login: dict[str, Any] = {"apiVersion": EXEC_VERSION, "command": "/opt/no-such-login"}
    path = a_kubeconfig(tmp_path / "config", exec=login)
    message = "the login needs the program 'no-such-login', which is not here"

    assert refusal(path, caplog, error=RightsError) == (
        f"{path}: {message} (install no-such-login, or add its folder to PATH)"
    )
    a_kubeconfig(path, exec={**login, "installHint": "brew install\nno-such-login"})
    assert refusal(path, caplog, error=RightsError) == f"{path}: {message} (brew install no-such-login)"


@pytest.mark.parametrize(
    ("program", "options", "advice"),
    [
        ("aws", {"args": ["eks", "get-token", "--profile", "prod"]}, "aws sso login --profile prod"),
        ("aws", {"args": ["--profile=prod", "eks"]}, "aws sso login --profile prod"),
        ("aws", {"env": [{"name": "AWS_PROFILE", "value": "prod"}]}, "aws sso login --profile prod"),
        ("aws", {}, "aws sso login --profile of-the-shell"),
        ("aws-iam-authenticator", {"args": ["token", "-i", "c"]}, "aws sso login --profile of-the-shell"),
        ("aws", {"args": ["--profile", "prod; reboot"]}, "aws sso login"),
        ("gke-gcloud-auth-plugin", {}, "gcloud auth login"),
        ("kubelogin", {"args": ["get-token", "--login", "azurecli"]}, "az login"),
        ("kubelogin", {"args": ["get-token"]}, "kubelogin says how when it is run by hand"),
    ],
)
def test_an_expired_session_says_what_to_type(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    program: str,
    options: dict[str, Any],
    advice: str,
) -> None:
    monkeypatch.setenv("AWS_PROFILE", "of-the-shell")
    login = a_login(tmp_path / program, "echo 'Error: the SSO session has expired' >&2; exit 255")
    path = a_kubeconfig(tmp_path / "config", exec={**login["exec"], **options})

    assert refusal(path, caplog, error=RightsError) == (
        f"{path}: the login by {program} failed: process returned 255. Error: the SSO session has expired "
        f"(log in again: {advice})"
    )


def test_credentials_that_are_not_accepted_say_how_to_log_in_again(tmp_path: Path) -> None:
    answer = credential({"token": "of-another-account"})
    login = a_login(tmp_path / "aws", f"echo '{answer}'")
    login["exec"]["args"] = ["--profile", "prod"]
    with loopback.answering(lambda _: loopback.Answer(b"{}", 401)) as url:
        api = open_api(a_kubeconfig(tmp_path / "config", server=url, **login))
        with pytest.raises(RightsError, match="log in again: aws sso login --profile prod"):
            api.list_page(NODES)


def test_a_login_that_cannot_be_renewed_is_a_refusal_of_who_we_are(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    answer = credential({"token": "t", "expirationTimestamp": "2020-01-01T00:00:00Z"})
    script = f"test -e {tmp_path}/used && exit 3; touch {tmp_path}/used; echo '{answer}'"
    path = a_kubeconfig(tmp_path / "config", **a_login(tmp_path / "login", script))
    api = open_api(path)

    with caplog.at_level(logging.DEBUG), pytest.raises(RightsError) as caught:
        api.list_page(NODES)
    assert "the login by login failed: process returned 3" in str(caught.value)
    assert caplog.messages == []


@pytest.fixture
def killed(monkeypatch: pytest.MonkeyPatch) -> list[_Plugin]:
    """The plugins that were ended; none is waited for."""
    found: list[_Plugin] = []

    def kill(plugin: _Plugin) -> None:
        found.append(plugin)
        subprocess.Popen.kill(plugin)

    monkeypatch.setattr(_Plugin, "kill", kill)
    monkeypatch.setattr("rebalancer.cluster.live.login._PLUGIN_SECONDS", 0.05)
    return found


def test_a_login_that_hangs_is_ended_and_said_to_hang(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, killed: list[_Plugin]
) -> None:
    path = a_kubeconfig(tmp_path / "config", **a_login(tmp_path / "login", "trap '' TERM; exec sleep 7200"))

    with no_hang("the plugin is ended"):
        assert "the plugin did not end within 0.05 s" in refusal(path, caplog, error=RightsError)
    assert [plugin.returncode for plugin in killed] == [-signal.SIGKILL]


def test_a_login_whose_renewal_hangs_is_a_refusal_and_leaves_no_process(
    tmp_path: Path, killed: list[_Plugin], monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = credential({"token": "t", "expirationTimestamp": "2020-01-01T00:00:00Z"})
    script = f"test -e {tmp_path}/used && exec sleep 7200; touch {tmp_path}/used; echo '{answer}'"
    path = a_kubeconfig(tmp_path / "config", **a_login(tmp_path / "login", script))
    with monkeypatch.context() as patient:
        patient.setattr("rebalancer.cluster.live.login._PLUGIN_SECONDS", NEVER_SECONDS)
        api = open_api(path)

    with pytest.raises(RightsError, match="the login by login failed: the plugin did not end"):
        api.list_page(NODES)
    assert [plugin.returncode for plugin in killed] == [-signal.SIGKILL]


def test_a_login_that_writes_what_is_no_text_is_one_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = a_kubeconfig(tmp_path / "config", **a_login(tmp_path / "login", "printf '\\377'"))

    assert "can't decode byte 0xff" in refusal(path, caplog, error=RightsError)


def test_logs_of_others_pass_while_a_login_runs(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    script = f"echo '{credential({'token': 't'})}'"
    path = a_kubeconfig(tmp_path / "config", **a_login(tmp_path / "login", script))
    connect(path)
    logging.error("after")

    assert caplog.messages == ["after"]


def test_the_client_can_list_every_kind_we_read() -> None:
    api, transport = fake_api(lambda _request: Reply(body={}))
    for kind in KINDS:
        api.list_page(kind)
    assert [request.path for request in transport.requests] == [kind.path for kind in KINDS]


def test_the_kubeconfig_is_the_one_that_the_environment_names_when_a_login_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("first", "second"):
        monkeypatch.setenv("KUBECONFIG", str(a_kubeconfig(tmp_path / name)))
        with pytest.raises(InputError, match=f"{name}: has no context 'nowhere'"):
            connect(None, "nowhere")
