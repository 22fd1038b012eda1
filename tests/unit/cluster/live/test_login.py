"""A plain login is read as the official client reads it; what is not plain is left to that."""

from __future__ import annotations

import base64
import shutil
import ssl
import subprocess
import sys
import threading
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import urllib3
import yaml

from rebalancer.cluster.live import open_api
from rebalancer.cluster.live.login import _FileToken, _service_account, connect, official_login, plain_login
from rebalancer.errors import UnreachableError
from tests import loopback

Certificates = tuple[loopback.Certificate, loopback.Certificate]
VERSION = b'{"major": "1", "minor": "36"}'
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy")


@pytest.fixture(autouse=True)
def outside_a_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("KUBERNETES_SERVICE_HOST", *_PROXIES):
        monkeypatch.delenv(name, raising=False)


def a_kubeconfig(path: Path, user: dict[str, Any], **cluster: Any) -> Path:
    document = {
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1", **cluster}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [
            {"name": "x", "context": {"cluster": "c", "user": "u", "namespace": "shop"}},
            {"name": "nobody", "context": {"cluster": "c", "user": ""}},
        ],
        "current-context": "x",
    }
    path.write_text(yaml.safe_dump(document))
    return path


def version_of(kubeconfig: Path) -> str:
    assert plain_login(kubeconfig) is not None
    return open_api(kubeconfig).within(5).server_version()


@pytest.mark.parametrize("server", ["http://127.0.0.1:1", "https://127.0.0.1:1/", "https://host/prefix/"])
@pytest.mark.parametrize("user", [{}, {"token": "abc"}])
@pytest.mark.parametrize("insecure", [None, True, False])
def test_it_leads_where_the_official_client_goes_with_the_same_credentials(
    tmp_path: Path, server: str, user: dict[str, str], insecure: bool | None
) -> None:
    cluster = {} if insecure is None else {"insecure-skip-tls-verify": insecure}
    path = a_kubeconfig(tmp_path / "config", user, server=server, **cluster)
    plain, official = plain_login(path), official_login(connect(path))

    assert plain is not None
    assert plain.host == official.host
    assert plain.verifies_certificates == official.verifies_certificates
    assert plain.headers() == official.headers()


@pytest.mark.parametrize(
    ("user", "cluster"),
    [
        ({"exec": {"command": "aws"}}, {}),
        ({"auth-provider": {"name": "oidc"}}, {}),
        ({"tokenFile": "missing"}, {}),
        ({"tokenFile": "/dev/null"}, {}),
        ({"tokenFile": "config", "token": "t"}, {}),
        ({"username": "bob", "password": "x"}, {}),
        ({"token": "t", "as": "somebody-else"}, {}),
        ({"token": 5}, {}),
        ({}, {"proxy-url": "http://proxy"}),
        ({}, {"server": "ftp://host"}),
        ({}, {"server": "https://host", "certificate-authority": "missing.crt"}),
        ({}, {"server": "https://host", "certificate-authority": "/dev/null"}),
        ({}, {"server": "https://host", "certificate-authority-data": "bm9uZQ=="}),
        ({"client-certificate-data": "bm9uZQ=="}, {"server": "https://host"}),
        ({}, {"server": "https://host", "insecure-skip-tls-verify": "yes"}),
        ({}, {"unheard-of": "setting"}),
    ],
)
def test_what_is_not_plain_is_left_to_the_official_client(
    tmp_path: Path, user: dict[str, Any], cluster: dict[str, Any]
) -> None:
    assert plain_login(a_kubeconfig(tmp_path / "config", user, **cluster)) is None


@pytest.mark.parametrize(
    "content", [b"", b"\xff\xfe", b"clusters: [", b"[" * 3000, b"clusters: 5", b"{}", b"just text"]
)
def test_a_damaged_kubeconfig_is_left_to_it_too(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "config"
    path.write_bytes(content)
    assert plain_login(path) is None
    assert plain_login(tmp_path / "missing") is None


def test_so_is_the_way_through_a_proxy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = a_kubeconfig(tmp_path / "config", {"token": "t"})
    assert plain_login(path) is not None
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:3128")
    assert plain_login(path) is None


def test_so_are_several_kubeconfigs_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = a_kubeconfig(tmp_path / "config", {"token": "t"})
    monkeypatch.setenv("KUBECONFIG", str(path))
    assert plain_login() is not None
    monkeypatch.setenv("KUBECONFIG", f"{path}:{path}")
    assert plain_login() is None


def test_a_context_is_found_by_its_name(tmp_path: Path) -> None:
    path = a_kubeconfig(tmp_path / "config", {"token": "t"})
    nobody = plain_login(path, "nobody")
    assert nobody is not None
    assert nobody.headers() == {}
    assert plain_login(path, "missing") is None


def test_connecting_with_it_does_not_import_the_official_client(tmp_path: Path) -> None:
    path = a_kubeconfig(tmp_path / "config", {"token": "t"})
    script = (
        "import sys; from pathlib import Path; from rebalancer.cluster.live import open_api\n"
        f"open_api(Path({str(path)!r}))\n"
        "print([name for name in ('kubernetes', 'requests', 'oauthlib') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# TLS


@pytest.fixture(scope="module")
def certificates(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[loopback.Certificate, loopback.Certificate]:
    """Of a server, and of somebody else."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    folders = (tmp_path_factory.mktemp(name) for name in ("server", "other"))
    mine, other = (loopback.a_certificate(folder) for folder in folders)
    return mine, other


def written(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


def test_the_servers_certificate_is_checked_against_the_authority_that_is_named(
    tmp_path: Path, certificates: Certificates
) -> None:
    mine, other = certificates
    with loopback.answering(lambda _: loopback.Answer(VERSION), mine) as url:
        trusting: tuple[dict[str, Any], ...] = (
            {"certificate-authority": str(mine.file)},
            {"certificate-authority-data": written(mine.file)},
            {"certificate-authority-data": written(mine.file), "certificate-authority": "missing.crt"},
            {"insecure-skip-tls-verify": True},
            {"certificate-authority-data": written(mine.file), "tls-server-name": "127.0.0.1"},
        )
        for cluster in trusting:
            assert version_of(a_kubeconfig(tmp_path / "config", {}, server=url, **cluster)) == "1.36"
        distrusting: tuple[dict[str, Any], ...] = (
            {},
            {"certificate-authority": str(other.file)},
            {"certificate-authority-data": written(mine.file), "tls-server-name": "elsewhere"},
            {"certificate-authority-data": written(other.file), "insecure-skip-tls-verify": False},
        )
        for cluster in distrusting:
            path = a_kubeconfig(tmp_path / "config", {}, server=url, **cluster)
            with pytest.raises(UnreachableError, match="certificate"):
                version_of(path)


def test_a_path_is_relative_to_the_kubeconfig(tmp_path: Path, certificates: Certificates) -> None:
    mine, _ = certificates
    (tmp_path / "ca.crt").write_bytes(mine.file.read_bytes())
    with loopback.answering(lambda _: loopback.Answer(VERSION), mine) as url:
        path = a_kubeconfig(tmp_path / "config", {}, server=url, **{"certificate-authority": "ca.crt"})
        assert version_of(path) == "1.36"


def test_a_client_certificate_is_shown_to_the_server(tmp_path: Path, certificates: Certificates) -> None:
    mine, client = certificates
    seen: list[Any] = []

    class Handler(loopback.QuietHandler):
        def do_GET(self) -> None:  # noqa: N802 - named by the base class
            connection = self.connection
            assert isinstance(connection, ssl.SSLSocket)
            seen.append(connection.getpeercert(binary_form=True))
            self.send_response(200)
            self.send_header("Content-Length", str(len(VERSION)))
            self.end_headers()
            self.wfile.write(VERSION)

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(mine.file, mine.key)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(client.file)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        cluster = {
            "server": f"https://127.0.0.1:{server.server_port}",
            "certificate-authority-data": written(mine.file),
        }
        users: list[dict[str, str]] = [
            {"client-certificate-data": written(client.file), "client-key-data": written(client.key)},
            {"client-certificate": str(client.file), "client-key": str(client.key)},
        ]
        for user in users:
            assert version_of(a_kubeconfig(tmp_path / "config", user, **cluster)) == "1.36"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    expected = ssl.PEM_cert_to_DER_cert(client.file.read_text())
    assert seen == [expected, expected]


def test_certificates_in_files_are_renewed_while_the_program_runs(
    tmp_path: Path, certificates: Certificates
) -> None:
    """As those of the official client: who renews them does not restart a service."""
    mine, other = certificates
    files = {"ca.crt": mine.file, "tls.crt": mine.file, "tls.key": mine.key}
    for name, source in files.items():
        shutil.copy(source, tmp_path / name)
    users: tuple[dict[str, str], ...] = (
        {},
        {"client-certificate": "tls.crt", "client-key": "tls.key"},
        {"client-certificate-data": written(mine.file), "client-key-data": written(mine.key)},
    )
    with (
        loopback.answering(lambda _: loopback.Answer(VERSION), mine) as before,
        loopback.answering(lambda _: loopback.Answer(VERSION), other) as after,
    ):
        for user in users:
            shutil.copy(mine.file, tmp_path / "ca.crt")
            cluster = {"server": before, "certificate-authority": "ca.crt"}
            login = plain_login(a_kubeconfig(tmp_path / "config", user, **cluster))
            assert login is not None
            pool = login.pool
            assert pool.request("GET", before).data == VERSION
            with pytest.raises(urllib3.exceptions.MaxRetryError, match="certificate"):
                pool.request("GET", after)
            shutil.copy(other.file, tmp_path / "ca.crt")
            assert pool.request("GET", after).data == VERSION


def test_a_renewed_client_certificate_is_the_one_that_is_shown(
    tmp_path: Path, certificates: Certificates
) -> None:
    mine, client = certificates
    seen: list[bytes | None] = []

    class Handler(loopback.QuietHandler):
        def do_GET(self) -> None:  # noqa: N802 - named by the base class
            assert isinstance(self.connection, ssl.SSLSocket)
            seen.append(self.connection.getpeercert(binary_form=True))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(mine.file, mine.key)
    context.verify_mode = ssl.CERT_REQUIRED
    for trusted in (mine, client):
        context.load_verify_locations(trusted.file)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        url = f"https://127.0.0.1:{server.server_port}"
        cluster = {"server": url, "certificate-authority-data": written(mine.file)}
        user = {"client-certificate": "tls.crt", "client-key": "tls.key"}
        login = None
        for shown in (mine, client):
            shutil.copy(shown.file, tmp_path / "tls.crt")
            shutil.copy(shown.key, tmp_path / "tls.key")
            login = login or plain_login(a_kubeconfig(tmp_path / "config", user, **cluster))
            assert login is not None
            pool = login.pool
            assert pool.request("GET", url).status == 200
            pool.clear()
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    assert seen == [ssl.PEM_cert_to_DER_cert(item.file.read_text()) for item in (mine, client)]


# Tokens


def test_a_token_in_a_file_is_used_and_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "token").write_text("first\n")
    path = a_kubeconfig(tmp_path / "config", {"tokenFile": "token"})
    login = plain_login(path)
    assert login is not None
    assert login.headers() == {"authorization": "Bearer first"}
    (tmp_path / "token").write_text("second\n")
    monkeypatch.setattr("rebalancer.cluster.live.login._TOKEN_SECONDS", 0.0)
    assert login.headers() == {"authorization": "Bearer second"}


# In a pod


def test_in_a_pod_its_own_account_is_used_and_its_token_read_again(
    tmp_path: Path, certificates: Certificates
) -> None:
    (tmp_path / "ca.crt").write_bytes(certificates[0].file.read_bytes())
    (tmp_path / "token").write_text("first")
    where = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
    api = _service_account(where, tmp_path)
    assert api is not None
    assert (api.host, api.verifies_certificates) == ("https://[fd00::1]:443", True)
    assert api.headers() == {"authorization": "Bearer first"}

    assert _service_account({}, tmp_path) is None
    assert _service_account({**where, "KUBERNETES_SERVICE_PORT": ""}, tmp_path) is None
    (tmp_path / "token").write_text("")
    assert _service_account(where, tmp_path) is None


def test_a_renewed_token_is_in_use_after_a_minute(tmp_path: Path) -> None:
    now = [0.0]
    path = tmp_path / "token"
    path.write_text("first")
    token = _FileToken(path, lambda: now[0])
    assert token() == "first"
    path.write_text("second")
    now[0] = 59.0
    assert token() == "first"
    now[0] = 60.0
    assert token() == "second"
    # A moment without the file, as when it is replaced, is no reason to stop with the token of a minute ago.
    path.unlink()
    now[0] = 120.0
    assert token() == "second"
