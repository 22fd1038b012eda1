"""What tests of the articles' stacks share: our manifests, policies and command, and where pods are."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import yaml

from tests.e2e import assets
from tests.e2e.api import Api, Object, documents
from tests.e2e.command import COMMAND, Finished, confirmed
from tests.e2e.controlplane import ControlPlane
from tests.e2e.processes import wait_until

ROOT = Path(__file__).parents[2]


def apply_manifests(stack: ControlPlane) -> None:
    """Apply ours, as they act."""
    stack.kubectl("apply", "--server-side", f"--kustomize={ROOT / 'k8s/overlays/active'}")


def shipped_policy(name: str) -> Object:
    """A policy as it is shipped, on this version, for pods that are not yet as old as it wants them."""
    policy: Object = yaml.safe_load((ROOT / "policies" / f"{name}.yaml").read_text())
    policy["scheduler"]["version"] = assets.MINOR
    policy["evictable"]["minAge"] = "0s"
    return policy


def run_cron_job(stack: ControlPlane, folder: Path, policy: Object) -> Finished:
    """What the pod of the CronJob does, with this policy, and as its service account."""
    manifests = documents(stack.kubectl("kustomize", str(ROOT / "k8s/overlays/active")).stdout)
    (cron_job,) = (item for item in manifests if item["kind"] == "CronJob")
    (container,) = cron_job["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    return rebalancer(stack, folder, policy, *confirmed(container["args"]))


def rebalancer(stack: ControlPlane, folder: Path, policy: Object, *arguments: str) -> Finished:
    """A command of rebalancer with this policy, as the service account of the manifests."""
    path = folder / "policy.yaml"
    path.write_text(yaml.safe_dump(policy))
    token = stack.service_account_token("rebalancer", "rebalancer")
    command = [
        *COMMAND,
        *(argument for argument in arguments if not argument.startswith(("--policy=", "--output="))),
        f"--policy={path}",
        f"--kubeconfig={stack.kubeconfig(token)}",
        "--output=json",
    ]
    ended = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, "POD_NAMESPACE": "rebalancer", "POD_NAME": "rebalancer-1"},
    )
    assert ended.stdout, ended.stderr
    return Finished(ended.returncode, ended.stdout, ended.stderr, [])


def keep_configuration(api: Api, configuration: str) -> None:
    """Keep a scheduler's configuration where its chart does, and where the policies look for it."""
    metadata = {"namespace": "scheduler-plugins", "name": "scheduler-config"}
    data = {"scheduler-config.yaml": configuration}
    api.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})


def leave_schedulable(api: Api, *names: str) -> None:
    """Cordon all nodes but these."""
    for item in api.list("/api/v1/nodes"):
        name = item["metadata"]["name"]
        cordoned = None if name in names else True
        api.patch(f"/api/v1/nodes/{name}", {"spec": {"unschedulable": cordoned}})


def _of(api: Api, scheduler: str) -> list[Object]:
    return api.list("/api/v1/pods", fieldSelector=f"spec.schedulerName={scheduler}")


def nodes_by_uid(api: Api, scheduler: str) -> dict[str, str]:
    """Node by uid of a scheduler's pods."""
    return {pod["metadata"]["uid"]: pod["spec"].get("nodeName", "") for pod in _of(api, scheduler)}


def nodes_by_name(api: Api, scheduler: str) -> dict[str, str]:
    """Node by name of a scheduler's pods."""
    return {pod["metadata"]["name"]: pod["spec"].get("nodeName", "") for pod in _of(api, scheduler)}


def placed_by(api: Api, uids: set[str]) -> set[str]:
    """Who says it has scheduled these pods; all of them, once their events are there."""

    def scheduled() -> dict[str, str]:
        events = api.list("/apis/events.k8s.io/v1/events")
        return {
            event["regarding"]["uid"]: event["reportingController"]
            for event in events
            if event["reason"] == "Scheduled"
        }

    wait_until(lambda: uids <= scheduled().keys(), "the events of their scheduling")
    return {who for uid, who in scheduled().items() if uid in uids}


def fate(outcome: Object) -> tuple[str, str, str]:
    """Where a pod came from, what became of its move, and where its replacement is."""
    return outcome["move"]["from"], outcome["result"], outcome["node"]


def planned_nodes(outcome: Object) -> set[str]:
    """The nodes that the plan expected."""
    return {landing["node"] for landing in outcome["move"]["landings"]}
