"""A real control plane on loopback: etcd, kube-apiserver, controllers, schedulers, and kwok's nodes."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import urllib3
import yaml

from tests.e2e import assets
from tests.e2e.api import Api, ApiRefusedError
from tests.e2e.processes import Program, wait_until
from tests.ports import free_port
from tests.waiting import HANG_SECONDS

ADMIN = "admin"
CONTROLLERS = (
    "deployment-controller",
    "replicaset-controller",
    "statefulset-controller",
    "daemonset-controller",
    "job-controller",
    "disruption-controller",
    "garbage-collector-controller",
    "pod-garbage-collector-controller",
    "namespace-controller",
    "serviceaccount-controller",
    "root-ca-certificate-publisher-controller",
    "node-lifecycle-controller",
    "taint-eviction-controller",
    "resourcequota-controller",
)
# What those are called in an old minor, where the name is not that one without "-controller".
_OLD_CONTROLLERS = {
    "garbage-collector-controller": "garbagecollector",
    "pod-garbage-collector-controller": "podgc",
    "root-ca-certificate-publisher-controller": "root-ca-cert-publisher",
    "node-lifecycle-controller": "nodelifecycle",
    "taint-eviction-controller": "nodelifecycle",  # which did this as well
}
STAGES = Path(__file__).parent / "stages.yaml"
_USERS = {
    ADMIN: "system:masters",
    "system:kube-controller-manager": "",
    "system:kube-scheduler": "",
    "kwok": "system:masters",
}
# The version of KubeSchedulerConfiguration that articles of the minor's time have, or today's.
CONFIGURATION_VERSION = "v1beta3" if assets.MINOR in assets.OLD_MINORS else "v1"
_LONG_LIVED = ("--kube-api-qps=500", "--kube-api-burst=1000")


def _controllers(without: Container[str]) -> list[str]:
    """The controllers that are started, as this minor calls them."""
    names = [name for name in CONTROLLERS if name not in without]
    if assets.MINOR not in assets.OLD_MINORS:
        return names
    return [_OLD_CONTROLLERS.get(name, name.removesuffix("-controller")) for name in names]


@dataclass
class ControlPlane:
    """A cluster without machines. ``folder`` gets its data and logs.

    ``start`` brings up etcd and the API server (with RBAC); the other parts are started by name, so that a
    test can stop one of them. Tokens of users are their names.
    """

    folder: Path
    patient: bool = False  # with nodes that renew their leases rarely, as a thousand of them must here
    programs: dict[str, Program] = field(default_factory=dict)
    url: str = ""
    kwok_port: int = 0

    # Life

    def start(
        self,
        *,
        controllers: bool = True,
        scheduler: bool | str = True,
        kwok: bool = True,
        api_server_flags: Iterable[str] = (),
    ) -> ControlPlane:
        """Start it and wait until it answers; ``scheduler`` may be a KubeSchedulerConfiguration as text."""
        self._start_etcd()
        self._start_api_server(api_server_flags)
        if controllers:
            self.start_controllers()
        if kwok:
            self.start_kwok()
        if scheduler:
            self.start_scheduler(scheduler if isinstance(scheduler, str) else None)
        return self

    def stop(self) -> None:
        """Stop all parts, the youngest first."""
        for name in reversed(list(self.programs)):
            self.stop_part(name)

    def stop_part(self, name: str) -> None:
        """Stop one part, as kube-scheduler."""
        self.programs.pop(name).stop()

    def __enter__(self) -> ControlPlane:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # Parts

    def start_controllers(self, *extra: str, without: Container[str] = ()) -> None:
        """Start kube-controller-manager with the controllers that a cluster without machines needs."""
        port = free_port()
        self._start(
            "kube-controller-manager",
            [
                f"--kubeconfig={self.kubeconfig('system:kube-controller-manager')}",
                f"--controllers={','.join(_controllers(without))}",
                f"--service-account-private-key-file={self.folder / 'service-account.key'}",
                "--use-service-account-credentials=true",
                f"--root-ca-file={self.certificate}",
                "--leader-elect=false",
                "--bind-address=127.0.0.1",
                f"--secure-port={port}",
                f"--cert-dir={self.folder / 'controllers'}",
                f"--node-monitor-period={'60s' if self.patient else '2s'}",
                # A busy machine may give kwok no time for a while, which renews what says that nodes live.
                f"--node-monitor-grace-period={'1200s' if self.patient else '300s'}",
                *_LONG_LIVED,
                *extra,
            ],
        ).wait_until(lambda: _healthy(f"https://127.0.0.1:{port}/healthz"))

    def start_scheduler(
        self, configuration: str | None = None, name: str = "kube-scheduler", *extra: str
    ) -> None:
        """Start a kube-scheduler, second schedulers under names of their own."""
        port = free_port()
        document: dict[str, Any] = (yaml.safe_load(configuration) if configuration else None) or {
            "apiVersion": f"kubescheduler.config.k8s.io/{CONFIGURATION_VERSION}",
            "kind": "KubeSchedulerConfiguration",
        }
        document["clientConnection"] = {
            "kubeconfig": str(self.kubeconfig("system:kube-scheduler")),
            "qps": 500,
            "burst": 1000,
        }
        # A busy machine may give it no time for minutes, and it would end where it cannot renew its lease.
        patience = {"leaseDuration": "600s", "renewDeadline": "500s"}
        document.setdefault("leaderElection", {"leaderElect": name == "kube-scheduler", **patience})
        path = self.folder / f"{name}.yaml"
        path.write_text(yaml.safe_dump(document))
        program = Program.start(
            [
                str(assets.find("kube-scheduler")),
                f"--config={path}",
                "--bind-address=127.0.0.1",
                f"--secure-port={port}",
                f"--cert-dir={self.folder / name}",
                "--v=2",
                *extra,
            ],
            self.folder / f"{name}.log",
        )
        self.programs[name] = program
        program.wait_until(lambda: _healthy(f"https://127.0.0.1:{port}/healthz"))

    def start_kwok(self, *configurations: Path) -> None:
        """Start the simulated kubelets of all nodes; further files hold its metrics and the like."""
        self.kwok_port = free_port()
        configs = [f"--config={path}" for path in (STAGES, *configurations)]
        self._start(
            "kwok",
            [
                f"--kubeconfig={self.kubeconfig('kwok')}",
                "--manage-all-nodes=true",
                "--node-ip=127.0.0.1",
                f"--node-port={self.kwok_port}",
                f"--server-address=127.0.0.1:{self.kwok_port}",
                f"--node-lease-duration-seconds={1200 if self.patient else 40}",
                "--cidr=10.0.0.1/16",
                *configs,
            ],
        ).wait_until(lambda: _healthy(f"http://127.0.0.1:{self.kwok_port}/healthz"))

    def _start_etcd(self) -> None:
        client, peer = free_port(), free_port()
        self.etcd = f"http://127.0.0.1:{client}"
        self._start(
            "etcd",
            [
                f"--data-dir={self.folder / 'etcd'}",
                f"--listen-client-urls={self.etcd}",
                f"--advertise-client-urls={self.etcd}",
                f"--listen-peer-urls=http://127.0.0.1:{peer}",
                f"--initial-advertise-peer-urls=http://127.0.0.1:{peer}",
                f"--initial-cluster=default=http://127.0.0.1:{peer}",
                "--unsafe-no-fsync",
                "--log-level=warn",
            ],
        ).wait_until(lambda: _healthy(f"{self.etcd}/health"))

    def _start_api_server(self, flags: Iterable[str]) -> None:
        port = free_port()
        key = self.folder / "service-account.key"
        command = [str(assets.find("service-account-key"))]
        key.write_bytes(subprocess.run(command, check=True, capture_output=True).stdout)
        key.chmod(0o600)
        tokens = self.folder / "tokens.csv"
        tokens.write_text("".join(f'{name},{name},{name},"{group}"\n' for name, group in _USERS.items()))
        self.url = f"https://127.0.0.1:{port}"
        self._start(
            "kube-apiserver",
            [
                f"--etcd-servers={self.etcd}",
                "--bind-address=127.0.0.1",
                "--advertise-address=127.0.0.1",
                f"--secure-port={port}",
                f"--cert-dir={self.folder / 'apiserver'}",
                f"--token-auth-file={tokens}",
                "--authorization-mode=RBAC",
                "--anonymous-auth=true",
                f"--service-account-key-file={key}",
                f"--service-account-signing-key-file={key}",
                "--service-account-issuer=https://kubernetes.default.svc",
                "--service-cluster-ip-range=10.96.0.0/16",
                "--endpoint-reconciler-type=none",
                "--allow-privileged=true",
                "--enable-aggregator-routing=false",
                "--profiling=false",
                *flags,
            ],
        ).wait_until(lambda: _healthy(f"{self.url}/readyz"))

    def _start(
        self, name: str, arguments: Iterable[str], environment: Mapping[str, str] | None = None
    ) -> Program:
        command = [str(assets.find(name)), *arguments]
        program = Program.start(command, self.folder / f"{name}.log", environment)
        self.programs[name] = program
        return program

    # Clients

    @property
    def certificate(self) -> Path:
        """The certificate that the API server signs itself with."""
        return self.folder / "apiserver" / "apiserver.crt"

    @property
    def api(self) -> Api:
        """The API as its administrator."""
        return Api(self.url, ADMIN, self.certificate)

    def as_user(self, token: str) -> Api:
        """The API as the bearer of a token."""
        return Api(self.url, token, self.certificate)

    def service_account_token(self, namespace: str, name: str) -> str:
        """A token of a service account, an hour long."""
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": 3600},
        }
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        token: str = self.api.request("POST", path, body)["status"]["token"]
        return token

    def kubeconfig(self, token: str = ADMIN, url: str | None = None) -> Path:
        """A kubeconfig for the bearer of a token; ``url`` when it goes through a proxy."""
        cluster = {"server": url or self.url, "certificate-authority": str(self.certificate)}
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "e2e", "cluster": cluster}],
            "users": [{"name": "user", "user": {"token": token}}],
            "contexts": [{"name": "e2e", "context": {"cluster": "e2e", "user": "user"}}],
            "current-context": "e2e",
        }
        # Threads that ask for one at once get one each: what another still writes would be read half.
        file, path = tempfile.mkstemp(prefix="kubeconfig-", dir=self.folder)
        with os.fdopen(file, "w") as written:
            json.dump(document, written)
        return Path(path)

    def kubectl(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """kubectl as the administrator."""
        command = [str(assets.find("kubectl")), f"--kubeconfig={self.kubeconfig()}", *arguments]
        environment = {**os.environ, "KUBECACHEDIR": str(self.folder / "kubectl-cache")}
        return subprocess.run(
            command, check=check, capture_output=True, text=True, env=environment, stdin=subprocess.DEVNULL
        )

    def wait_for_pods(self, path: str = "/api/v1/pods", *, seconds: float = HANG_SECONDS) -> None:
        """Wait until all pods there are bound and ready."""
        wait_until(
            lambda: all(map(is_ready, self.api.list(path))), f"all pods of {path} ready", seconds=seconds
        )


def is_ready(pod: dict[str, Any]) -> bool:
    """Whether a pod is ready and not going."""
    conditions = pod.get("status", {}).get("conditions", [])
    ready = any(item["type"] == "Ready" and item["status"] == "True" for item in conditions)
    return ready and "deletionTimestamp" not in pod["metadata"]


def _healthy(url: str) -> bool:
    # Each part signs itself with a certificate of its own; this is loopback. The warning of it is ignored for
    # the whole suite in conftest.py: threads that change warning filters change each other's.
    with urllib3.PoolManager(cert_reqs="CERT_NONE", retries=False) as pool:
        try:
            return bool(pool.request("GET", url, timeout=5.0).status == 200)
        except (urllib3.exceptions.HTTPError, OSError):
            return False


__all__ = ["ADMIN", "CONFIGURATION_VERSION", "ApiRefusedError", "ControlPlane", "is_ready"]
