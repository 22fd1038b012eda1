"""Kubeconfigs, as far as they go without running what they name or asking anybody.

The login programs of a kubeconfig are the user's own, and are run by the official client. Here nothing may be
run: what an input names is as likely as not a program.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NoReturn
from unittest import mock

import urllib3
from kubernetes.config import kube_config

from rebalancer.cluster.live import login
from rebalancer.cluster.live.login import connect, plain_login
from tests.fuzz.clusters import folder
from tests.fuzz.structure import yaml_structure
from tests.fuzz.target import Target

_EXEC = "client.authentication.k8s.io/v1"


class _Login:
    """A login program that is not run, and answers."""

    returncode = 0

    def __init__(self, *_arguments: Any, **_options: Any) -> None:
        """Start nothing."""

    def wait(self, *_arguments: Any, **_options: Any) -> int:
        """Has ended already."""
        return self.returncode

    def poll(self) -> int:
        """Has ended already."""
        return self.returncode

    def communicate(self, *_arguments: Any, **_options: Any) -> tuple[str, str]:
        """A credential."""
        answer = {"apiVersion": _EXEC, "kind": "ExecCredential", "status": {"token": "t"}}
        return json.dumps(answer), ""


def _refused(*_arguments: Any, **_options: Any) -> NoReturn:
    raise OSError("nothing is run or asked here")


@contextmanager
def nothing_is_run() -> Iterator[None]:
    """No program is started and no request sent; logins succeed."""
    with (
        mock.patch.object(subprocess, "Popen", _Login),
        mock.patch.object(login, "_Plugin", _Login),
        mock.patch.object(urllib3.PoolManager, "urlopen", _refused),
        mock.patch.dict("os.environ"),
    ):
        yield


def decode(content: bytes) -> None:
    """Connect with a kubeconfig, by its own context and by another."""
    path = folder() / "config"
    path.write_bytes(content)
    with nothing_is_run():
        try:
            plain_login(path, "x")  # what it does not take, the official client gets
            connect(path, "x")
            connect(path)
        finally:
            kube_config._cleanup_temp_files()


def _config(user: dict[str, Any], **cluster: Any) -> bytes:
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:6443", **cluster}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u", "namespace": "n"}}],
        "current-context": "x",
    }
    return json.dumps(document, indent=1).encode()


def seeds() -> Mapping[str, bytes]:
    """A way to log in each."""
    run = {
        "apiVersion": _EXEC,
        "interactiveMode": "Never",
        "command": "login",
        "args": ["a"],
        "env": [{"name": "A", "value": "b"}],
    }
    provider = {"name": "oidc", "config": {"id-token": "a.b.c", "idp-issuer-url": "https://i"}}
    return {
        "token.json": _config({"token": "t"}, **{"insecure-skip-tls-verify": True}),
        "password.json": _config({"username": "a", "password": "b"}, **{"tls-server-name": "k"}),
        "certificate.json": _config({"client-certificate-data": "bm9uZQ==", "client-key-data": "bm9uZQ=="}),
        "authority.json": _config({}, **{"certificate-authority-data": "bm9uZQ==", "proxy-url": "http://p"}),
        "exec.json": _config({"exec": run}),
        "provider.json": _config({"auth-provider": provider}),
    }


TARGETS = (Target("kubeconfig", decode, seeds, yaml_structure),)
