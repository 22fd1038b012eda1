"""The rights that the manifests grant to the service account, taken away and given back one by one."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e import rights_cluster
from tests.e2e.api import Api, Object, documents
from tests.e2e.command import COMMAND, Finished, confirmed
from tests.e2e.controlplane import ControlPlane
from tests.e2e.processes import wait_until
from tests.e2e.rights_cluster import HOT, QUIET, SHOP

K8S = Path(__file__).parents[2] / "k8s"
ACCOUNT = ("rebalancer", "rebalancer")
READ, EVICT, EVENTS, OWN = "rebalancer-read", "rebalancer-evict", "rebalancer-events", "rebalancer-own"
RIGHTS_MISSING = 5
STOPPED = 3
MEASURED_EVERY_SECONDS = 60.0


@dataclass(frozen=True, order=True)
class Right:
    """One verb on one resource, perhaps on one object of a name alone."""

    role: str
    group: str
    resource: str
    verb: str
    name: str = ""

    def __str__(self) -> str:
        resource = f"{self.resource}.{self.group}" if self.group else self.resource
        return " ".join(filter(None, (self.verb, resource, self.name)))

    @property
    def rule(self) -> Object:
        """The rule that grants this and no more."""
        names = {"resourceNames": [self.name]} if self.name else {}
        return {"apiGroups": [self.group], "resources": [self.resource], "verbs": [self.verb], **names}


def rights_of(role: Object) -> set[Right]:
    """What a role grants, one by one."""
    return {
        Right(role["metadata"]["name"], group, resource, verb, name)
        for rule in role["rules"]
        for group in rule.get("apiGroups", ())
        for resource in rule["resources"]
        for verb in rule["verbs"]
        for name in rule.get("resourceNames", [""])
    }


@dataclass
class Cluster:
    """The control plane, the rendered manifests, and the rights that are granted now."""

    control_plane: ControlPlane
    folder: Path
    base: list[Object]
    active: list[Object]
    granted: set[Right] = field(default_factory=set)
    placed: dict[str, str] = field(default_factory=dict)  # where pods were when they were last measured
    measured_at: float = 0.0

    @cached_property
    def token(self) -> str:
        """The token of our service account."""
        return self.control_plane.service_account_token(*ACCOUNT)

    @cached_property
    def account(self) -> Api:
        """The API as our service account."""
        return self.control_plane.as_user(self.token)

    @cached_property
    def roles(self) -> list[Object]:
        """All roles of the overlay, those of the base included."""
        return [item for item in self.active if item["kind"] in ("ClusterRole", "Role")]

    @cached_property
    def rights(self) -> set[Right]:
        """All that the overlay grants, the base included."""
        return set[Right]().union(*map(rights_of, self.roles))

    def grant(self, manifests: list[Object], *, without: Right | None = None) -> None:
        """Apply the roles of these manifests, and take away those of others; wait until that is so."""
        names = {item["metadata"]["name"] for item in manifests if item["kind"] in ("ClusterRole", "Role")}
        rights: set[Right] = set()
        for role in self.roles:
            found = rights_of(role) if role["metadata"]["name"] in names else set()
            wanted, before = found - {without}, rights_of(role) & self.granted
            rights |= wanted
            if wanted != before or not self.granted:
                rules = (
                    role["rules"] if wanted == rights_of(role) else [right.rule for right in sorted(wanted)]
                )
                self.control_plane.api.apply({**role, "rules": rules})
        changed = sorted(rights ^ self.granted) or sorted(self.rights)
        wait_until(
            lambda: all(self.allows(right) == (right in rights) for right in changed),
            f"granted: everything but {without}",
        )
        self.granted = rights

    def allows(self, right: Right) -> bool:
        """Whether the API server says that our account may do this, asked by the account itself."""
        resource, _, subresource = right.resource.partition("/")
        attributes = {
            "group": right.group,
            "resource": resource,
            "subresource": subresource,
            "verb": right.verb,
            "name": right.name,
            "namespace": ACCOUNT[0] if right.role == OWN else "",
        }
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        }
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        allowed: bool = self.account.request("POST", path, review)["status"]["allowed"]
        return allowed

    def measure(self) -> None:
        """Let the metrics tell of pods where they are now."""
        placed = {**self.pods(SHOP), **self.pods(QUIET)}
        if placed != self.placed or time.monotonic() > self.measured_at + MEASURED_EVERY_SECONDS:
            self.placed, self.measured_at = placed, time.monotonic()
            rights_cluster.measure(self.control_plane.api)

    def start(self, manifests: list[Object], policy: Object, *options: str) -> Finished:
        """What the pod of the CronJob in these manifests does, with another policy."""
        (cron_job,) = [item for item in manifests if item["kind"] == "CronJob"]
        (container,) = cron_job["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
        path = self.folder / "policy.yaml"
        path.write_text(yaml.safe_dump(policy))
        arguments = [
            f"--policy={path}" if argument.startswith("--policy=") else argument
            for argument in container["args"]
        ]
        self.measure()
        kubeconfig = self.control_plane.kubeconfig(self.token)
        ended = subprocess.run(
            [*COMMAND, *confirmed(arguments), f"--kubeconfig={kubeconfig}", *options],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
            env={**os.environ, "POD_NAMESPACE": ACCOUNT[0], "POD_NAME": "rebalancer-1"},
        )
        logged = [json.loads(line) for line in ended.stderr.splitlines()]
        return Finished(ended.returncode, ended.stdout, ended.stderr, logged)

    def plan(self, *, without: Right | None = None, **settings: Any) -> Finished:
        """What the base's CronJob does with the base's rights."""
        self.grant(self.base, without=without)
        return self.start(self.base, rights_cluster.policy(**settings))

    def run(self, *options: str, without: Right | None = None, **settings: Any) -> Finished:
        """What the overlay's CronJob does with the overlay's rights; only pods of the shop may go."""
        self.grant(self.active, without=without)
        return self.start_run(*options, **settings)

    def start_run(self, *options: str, **settings: Any) -> Finished:
        """What the overlay's CronJob does with the rights that are granted now."""
        policy = rights_cluster.policy(**settings)
        policy["evictable"]["namespaces"] = {"exclude": [QUIET]}
        return self.start(self.active, policy, *options)

    def forget(self) -> None:
        """Remove what runs keep."""
        api = self.control_plane.api
        api.delete(f"/api/v1/namespaces/{ACCOUNT[0]}/configmaps/rebalancer-state")
        api.delete(f"/apis/coordination.k8s.io/v1/namespaces/{ACCOUNT[0]}/leases/rebalancer")

    def leave_traces(self) -> None:
        """What an earlier run would have left, without what it evicts: an empty state and a free lease."""
        api = self.control_plane.api
        metadata = {"namespace": ACCOUNT[0], "name": "rebalancer-state"}
        api.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
        api.create(
            {
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {"namespace": ACCOUNT[0], "name": "rebalancer"},
                "spec": {},
            }
        )

    def pods(self, namespace: str = SHOP) -> dict[str, str]:
        """Node by uid of the pods of a namespace."""
        found = self.control_plane.api.list(f"/api/v1/namespaces/{namespace}/pods")
        return {pod["metadata"]["uid"]: pod["spec"].get("nodeName", "") for pod in found}

    def events(self) -> list[Object]:
        """Our events in the shop."""
        found = self.control_plane.api.list(f"/apis/events.k8s.io/v1/namespaces/{SHOP}/events")
        return [item for item in found if item.get("reason") == "Rebalanced"]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("rights")
    with ControlPlane(folder) as control_plane:
        control_plane.start(controllers=False)
        control_plane.start_controllers("--controllers=replicationcontroller-controller")
        base, active = (
            documents(control_plane.kubectl("kustomize", str(path)).stdout)
            for path in (K8S / "base", K8S / "overlays" / "active")
        )
        for item in sorted(active, key=lambda item: item["kind"] != "Namespace"):
            control_plane.api.apply(item)
        rights_cluster.fill(control_plane)
        yield Cluster(control_plane, folder, base, active)


def errors(finished: Finished) -> list[str]:
    """What was logged as an error."""
    return [line["message"] for line in finished.journal if line.get("level") == "error"]


def fate(finished: Finished, app: str) -> list[str]:
    """What becomes of an app's pods on the hot node, and why."""
    plan = finished.document
    kept = [
        f"{item['reason']}: {item['because']}"
        for item in plan["kept"]
        if item["node"] == HOT and item["pod"]["name"].startswith(f"{app}-")
    ]
    moved = [item["because"] for item in plan["moves"] if item["pod"]["name"].startswith(f"{app}-")]
    return kept + moved
