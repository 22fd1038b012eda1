"""How we log in to Prometheus: token, password, certificates; and that credentials go nowhere else."""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from rebalancer.errors import InputError, RebalancerError
from rebalancer.load.prometheus.client import LivePrometheus, read_secret
from rebalancer.load.prometheus.queries import Connection, PrometheusQuery
from rebalancer.retries import Retries
from tests import loopback
from tests.integration.prometheus.servers import answering

EMPTY = json.dumps({"status": "success", "data": {"resultType": "vector", "result": []}}).encode()


def ask(connection: Connection) -> bytes:
    return LivePrometheus(connection, None, 0.0, retries=Retries(pause=lambda _: None))(PrometheusQuery("up"))


def the_headers(connection_of: dict[str, object]) -> Mapping[str, str]:
    seen: list[Mapping[str, str]] = []

    def answer(path: str, headers: Mapping[str, str]) -> tuple[int, bytes]:
        seen.append(headers)
        return 200, EMPTY

    with answering(answer) as host:
        assert ask(Connection(f"http://{host}", **connection_of)) == EMPTY  # type: ignore[arg-type]
    return {name.title(): value for name, value in seen[0].items()}


def test_a_token_is_read_from_its_file(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("s3cret\n")
    headers = the_headers({"bearer_token_file": str(tmp_path / "token")})

    assert headers["Authorization"] == "Bearer s3cret"


def test_a_password_is_read_from_its_file(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("pass:word\n")
    headers = the_headers({"username": "me", "password_file": str(tmp_path / "password")})

    assert base64.b64decode(headers["Authorization"].removeprefix("Basic ")) == b"me:pass:word"


def test_no_credentials_no_header() -> None:
    assert "Authorization" not in the_headers({})


@pytest.mark.parametrize("content", [b"", b"  \n", b"two\nlines", b"\xff\xfe", b"x" * 70_000])
def test_a_file_that_holds_no_token_is_refused_without_its_text(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "token").write_bytes(content)
    with pytest.raises(InputError) as caught:
        read_secret(str(tmp_path / "token"))

    assert str(tmp_path / "token") in str(caught.value)
    assert "two" not in str(caught.value).replace(str(tmp_path), "")


@pytest.mark.parametrize("setting", ["bearer_token_file", "password_file"])
def test_no_path_sends_the_identity_of_the_pod_to_a_server(tmp_path: Path, setting: str) -> None:
    service_account = "/var/run/secrets/kubernetes.io/serviceaccount/token"
    linked = tmp_path / "token"
    linked.symlink_to(service_account)
    paths = [
        service_account,
        "/var/run/secrets/eks.amazonaws.com/serviceaccount/token",
        "/etc/../var/run/secrets/kubernetes.io/serviceaccount/../serviceaccount/token",
        "//var/./run//secrets/kubernetes.io/serviceaccount/token",
        "/proc/self/root/var/run/secrets/kubernetes.io/serviceaccount/token",
        str(linked),
    ]

    for path in paths:
        with pytest.raises(InputError, match="may not stand below /var/run/secrets"):
            ask(Connection("http://127.0.0.1:9", username="me", **{setting: path}))  # type: ignore[arg-type]


def test_a_path_that_no_file_can_have_is_refused() -> None:
    with pytest.raises(InputError, match="is no path"):
        read_secret("to\0ken")


def test_a_redirect_is_not_followed_with_the_token(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("s3cret")
    stolen: list[Mapping[str, str]] = []

    def steal(path: str, headers: Mapping[str, str]) -> tuple[int, bytes]:
        stolen.append(headers)
        return 200, EMPTY

    with answering(steal) as host:
        elsewhere = loopback.Answer(status=302, headers={"Location": f"http://{host}/"})
        with (
            loopback.answering(lambda _request: elsewhere) as address,
            pytest.raises(RebalancerError, match="HTTP 302"),
        ):
            ask(Connection(address, bearer_token_file=str(tmp_path / "token")))
    assert stolen == []


@pytest.fixture
def secure_server(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """A server with a certificate of its own authority, and that certificate."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    certificate = loopback.a_certificate(tmp_path)
    with loopback.answering(lambda _request: loopback.Answer(EMPTY), certificate) as address:
        yield address, certificate.file


def test_a_certificate_is_checked_against_the_authority_that_the_policy_names(
    secure_server: tuple[str, Path],
) -> None:
    address, certificate = secure_server

    assert ask(Connection(address, ca_file=str(certificate))) == EMPTY
    with pytest.raises(RebalancerError, match="certificate"):
        ask(Connection(address))
    assert ask(Connection(address, insecure_skip_verify=True)) == EMPTY


def test_an_authority_that_is_not_there_is_said_so() -> None:
    with pytest.raises(InputError, match="no such file of certificates"):
        ask(Connection("https://127.0.0.1:1", ca_file="/nowhere/ca.pem"))
