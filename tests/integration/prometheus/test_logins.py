"""How we log in to Prometheus: token, password, certificates; and that credentials go nowhere else."""

from __future__ import annotations

import base64
import json
import shutil
import ssl
import subprocess
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from rebalancer.errors import InputError, RebalancerError
from rebalancer.load.prometheus.http import LivePrometheus
from rebalancer.load.prometheus.questions import Connection, Question
from rebalancer.load.prometheus.transport import read_secret
from rebalancer.retries import Retries
from tests.integration.prometheus.servers import answering

EMPTY = json.dumps({"status": "success", "data": {"resultType": "vector", "result": []}}).encode()


def ask(connection: Connection) -> bytes:
    return LivePrometheus(connection, None, 0.0, inside=True, retries=Retries(pause=lambda _: None))(
        Question("up")
    )


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


def test_a_redirect_is_not_followed_with_the_token(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("s3cret")
    stolen: list[Mapping[str, str]] = []

    def steal(path: str, headers: Mapping[str, str]) -> tuple[int, bytes]:
        stolen.append(headers)
        return 200, EMPTY

    class Redirecting(BaseHTTPRequestHandler):
        target = ""

        def do_GET(self) -> None:
            self.send_response(302)
            self.send_header("Location", f"http://{self.target}/")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *arguments: object) -> None:
            """Tests are quiet."""

    with answering(steal) as host:
        Redirecting.target = host
        server = ThreadingHTTPServer(("127.0.0.1", 0), Redirecting)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        address = f"http://127.0.0.1:{server.server_address[1]}"
        try:
            with pytest.raises(RebalancerError, match="HTTP 302"):
                ask(Connection(address, bearer_token_file=str(tmp_path / "token")))
        finally:
            server.shutdown()
            thread.join()
            server.server_close()
    assert stolen == []


@pytest.fixture
def secure_server(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """A server with a certificate of its own authority, and that certificate."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is not installed")
    key, certificate = tmp_path / "key.pem", tmp_path / "ca.pem"
    subprocess.run(
        [
            openssl,
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-keyout",
            str(key),
            "-out",
            str(certificate),
            "-days",
            "3650",
            "-subj",
            "/CN=localhost",
            "-addext",
            "subjectAltName=IP:127.0.0.1",
        ],
        check=True,
        capture_output=True,
    )

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(EMPTY)))
            self.end_headers()
            self.wfile.write(EMPTY)

        def log_message(self, *arguments: object) -> None:
            """Tests are quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield f"https://127.0.0.1:{server.server_address[1]}", certificate
    server.shutdown()
    thread.join()
    server.server_close()


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
