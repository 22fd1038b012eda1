"""As whom the API server is asked: another cluster or user of the kubeconfig, or an impersonated one."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from rebalancer.cluster.live import open_api
from rebalancer.cluster.live.login import Identity, connect, plain_login
from rebalancer.errors import InputError

EXEC = {
    "exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "true", "interactiveMode": "Never"}
}


@pytest.fixture(autouse=True)
def outside_a_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)


def a_kubeconfig(path: Path, server: str = "http://127.0.0.1:1", **users: dict[str, Any]) -> Path:
    document = {
        "clusters": [
            {"name": "c", "cluster": {"server": server}},
            {"name": "d", "cluster": {"server": "http://127.0.0.2:1"}},
        ],
        "users": [{"name": name, "user": user} for name, user in users.items()],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path.write_text(yaml.safe_dump(document))
    return path


def test_another_cluster_and_user_replace_those_of_the_context(tmp_path: Path) -> None:
    path = a_kubeconfig(tmp_path / "config", u={"token": "abc"}, v={"token": "def"})
    found = plain_login(path, identity=Identity(cluster="d", user="v"))
    assert found is not None
    assert (found.host, found.headers()) == ("http://127.0.0.2:1", {"authorization": "Bearer def"})


def test_the_official_client_is_given_the_same(tmp_path: Path) -> None:
    path = a_kubeconfig(tmp_path / "config", u=EXEC, v={"token": "def"})
    found = connect(path, None, Identity(cluster="d", user="v")).configuration
    assert (found.host, found.auth_settings()["BearerToken"]["value"]) == ("http://127.0.0.2:1", "Bearer def")


@pytest.mark.parametrize("part", ["cluster", "user"])
def test_one_that_the_kubeconfig_does_not_have_is_named_with_those_there_are(
    tmp_path: Path, part: str
) -> None:
    path = a_kubeconfig(tmp_path / "config", u={"token": "abc"})
    with pytest.raises(InputError, match=f"the kubeconfig has no {part} 'nope'") as error:
        open_api(path, None, None, **{part: "nope"})
    assert "there are: " in (error.value.hint or "")


@pytest.mark.parametrize("part", ["cluster", "user", "context"])
def test_names_of_any_length_leave_an_error_that_can_be_read(tmp_path: Path, part: str) -> None:
    path = a_kubeconfig(tmp_path / "config", u={"token": "abc"})
    document = yaml.safe_load(path.read_text())
    for kind in ("clusters", "users", "contexts"):
        document[kind] = [
            {**document[kind][0], "name": letter * 10_000} for letter in map(chr, range(97, 123))
        ]
    path.write_text(json.dumps(document))  # which is YAML, and written in no time
    asked = {"context": None, "cluster": None, "user": None, part: "nope"}
    with pytest.raises(InputError) as error:
        open_api(path, asked["context"], None, cluster=asked["cluster"], user=asked["user"])
    assert len(str(error.value)) < 6_500
    assert "and 6 more" in (error.value.hint or "")


def test_every_request_says_as_whom_and_in_which_groups(tmp_path: Path) -> None:
    asked: list[list[tuple[str, str]]] = []

    class Server(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append([item for item in self.headers.items() if item[0].startswith("Impersonate")])
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"major": "1", "minor": "36"}')

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        path = a_kubeconfig(tmp_path / "config", f"http://127.0.0.1:{server.server_port}", u={"token": "abc"})
        assert open_api(path, acts_as="jane", groups=("dev", "ops")).within(5).server_version() == "1.36"
        assert open_api(path).within(5).server_version() == "1.36"
        server.shutdown()
    groups = [("Impersonate-Group", "dev"), ("Impersonate-Group", "ops")]
    assert asked == [[("Impersonate-User", "jane"), *groups], []]


@pytest.mark.parametrize(
    ("acts_as", "groups", "says"),
    [("a\r\nb", (), "cannot be the name"), ("", (), "cannot be the name")],
)
def test_what_no_header_carries_is_refused(acts_as: str | None, groups: tuple[str, ...], says: str) -> None:
    with pytest.raises(InputError, match=says):
        Identity(acts_as=acts_as, groups=groups)
