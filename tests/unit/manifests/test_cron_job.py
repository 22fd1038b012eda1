"""The CronJob: it plans, never retries, and runs with as little as a pod can have."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import click
import pytest
import yaml

from rebalancer.cli.program import COMMANDS, main
from rebalancer.deadlines import ANSWER_SECONDS, CLOSING_SECONDS
from rebalancer.policy.policy_file import load_policy
from rebalancer.policy.units import parse_duration
from tests.unit.manifests.documents import (
    ACTIVE,
    BASE,
    ROOT,
    Document,
    of_kind,
    pod_template,
    read,
    resources,
)
from tests.unit.manifests.rendering import NO_KUSTOMIZE

CRON_JOB = of_kind(BASE, "CronJob")
RUN_PATCH = read(ACTIVE / "cronjob-run.yaml")
PUSH_SECONDS = 10.0  # to push the run's metrics
PLANNING_SECONDS = 120.0  # to read a large cluster and to plan, on the CPU that the pod may use


def container(cron_job: Document) -> Document:
    (only,) = pod_template(cron_job)["containers"]
    found: Document = only
    return found


def test_as_shipped_it_only_plans() -> None:
    arguments = container(CRON_JOB)["args"]

    assert "plan" in arguments
    assert "run" not in arguments


def test_the_overlay_runs_with_a_lease_and_a_state() -> None:
    arguments = container(RUN_PATCH)["args"]

    assert "run" in arguments
    assert "--lease=rebalancer" in arguments
    assert "--state-config-map=rebalancer-state" in arguments


@pytest.mark.parametrize("cron_job", [CRON_JOB, RUN_PATCH], ids=["base", "active"])
def test_its_arguments_are_ones_the_program_takes(cron_job: Document) -> None:
    arguments = container(cron_job)["args"]
    group = main.make_context("rebalancer", list(arguments), resilient_parsing=False, obj=None)
    name = next(argument for argument in arguments if argument in COMMANDS)
    command = main.get_command(group, name)

    assert isinstance(command, click.Command)
    command.make_context(name, list(arguments[arguments.index(name) + 1 :]), parent=group)


def test_a_run_is_never_retried_and_never_overlaps() -> None:
    spec = CRON_JOB["spec"]
    job = spec["jobTemplate"]["spec"]

    assert spec["concurrencyPolicy"] == "Forbid"
    assert spec["schedule"] == "*/15 * * * *"
    assert job["backoffLimit"] == 0
    assert pod_template(CRON_JOB)["restartPolicy"] == "Never"
    assert 0 < job["activeDeadlineSeconds"] < 15 * 60
    assert 0 < spec["startingDeadlineSeconds"] < 15 * 60


def test_a_run_ends_itself_before_kubernetes_would() -> None:
    (option,) = [
        argument for argument in container(RUN_PATCH)["args"] if argument.startswith("--max-duration=")
    ]
    job = CRON_JOB["spec"]["jobTemplate"]["spec"]
    policy = load_policy(BASE / "policy.yaml").policy
    longest = parse_duration(option.removeprefix("--max-duration="))

    # The last wave may start just before --max-duration: it is checked again, evicts, and waits. A run counts
    # from its own start, Kubernetes from that of the Job: the pod is scheduled and its image pulled first.
    last_end = longest + PLANNING_SECONDS + policy.execution.wave_timeout
    assert last_end + pod_template(CRON_JOB)["terminationGracePeriodSeconds"] <= job["activeDeadlineSeconds"]


def test_a_run_that_is_asked_to_stop_has_time_to_end_in_order() -> None:
    grace = pod_template(CRON_JOB)["terminationGracePeriodSeconds"]
    assert grace >= ANSWER_SECONDS + CLOSING_SECONDS + PUSH_SECONDS


def test_its_own_pod_is_left_alone_and_runs_where_it_can() -> None:
    template = CRON_JOB["spec"]["jobTemplate"]["spec"]["template"]
    annotations = template["metadata"]["annotations"]
    env = {item["name"]: item.get("value") for item in container(CRON_JOB)["env"]}

    assert annotations["cluster-autoscaler.kubernetes.io/safe-to-evict"] == "false"
    assert annotations["karpenter.sh/do-not-disrupt"] == "true"
    assert template["spec"]["nodeSelector"] == {"kubernetes.io/os": "linux"}
    assert env["OPENBLAS_NUM_THREADS"] == "1"


def test_finished_jobs_are_cleared_away() -> None:
    assert CRON_JOB["spec"]["jobTemplate"]["spec"]["ttlSecondsAfterFinished"] > 0
    assert CRON_JOB["spec"]["successfulJobsHistoryLimit"] <= 5
    assert CRON_JOB["spec"]["failedJobsHistoryLimit"] <= 5


def test_the_pod_meets_the_restricted_pod_security_standard() -> None:
    pod, only = pod_template(CRON_JOB), container(CRON_JOB)

    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] == 65532
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(pod)
    assert only["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "privileged": False,
        "readOnlyRootFilesystem": True,
        "runAsNonRoot": True,
        "capabilities": {"drop": ["ALL"]},
    }
    namespace = of_kind(BASE, "Namespace")
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"


def test_what_the_pod_may_use_is_bounded() -> None:
    resources = container(CRON_JOB)["resources"]

    assert set(resources["limits"]) == set(resources["requests"]) == {"cpu", "memory", "ephemeral-storage"}
    for volume in pod_template(CRON_JOB)["volumes"]:
        assert "emptyDir" not in volume or volume["emptyDir"]["sizeLimit"]


def test_only_the_pod_that_needs_it_gets_a_token() -> None:
    assert of_kind(BASE, "ServiceAccount")["automountServiceAccountToken"] is False
    assert pod_template(CRON_JOB)["automountServiceAccountToken"] is True


def test_its_policy_is_the_conservative_one() -> None:
    assert (
        load_policy(BASE / "policy.yaml").policy
        == load_policy(ROOT / "policies" / "conservative.yaml").policy
    )


def test_its_policy_is_mounted_where_the_command_looks() -> None:
    (mount,) = [item for item in container(CRON_JOB)["volumeMounts"] if item["name"] == "policy"]
    (generator,) = read(BASE / "kustomization.yaml")["configMapGenerator"]
    (volume,) = [item for item in pod_template(CRON_JOB)["volumes"] if item["name"] == "policy"]

    assert volume["configMap"]["name"] == generator["name"]
    assert f"--policy={mount['mountPath']}/{generator['files'][0]}" in container(CRON_JOB)["args"]
    assert f"--policy={mount['mountPath']}/{generator['files'][0]}" in container(RUN_PATCH)["args"]


@pytest.mark.skipif(bool(NO_KUSTOMIZE), reason=NO_KUSTOMIZE or "never")
@pytest.mark.parametrize(("folder", "command"), [(BASE, "plan"), (ACTIVE, "run")], ids=["base", "active"])
def test_kustomize_renders_it(folder: Path, command: str) -> None:
    rendered = subprocess.run(
        ["kubectl", "kustomize", str(folder)], capture_output=True, check=True, timeout=60, text=True
    )
    objects = [item for item in yaml.safe_load_all(rendered.stdout) if item]
    (cron_job,) = [item for item in objects if item["kind"] == "CronJob"]
    (policy,) = [item for item in objects if item["kind"] == "ConfigMap"]

    assert rendered.stderr == ""
    assert command in container(cron_job)["args"]
    assert container(cron_job)["image"].endswith(":0.1.0")
    assert container(cron_job)["securityContext"]["readOnlyRootFilesystem"] is True
    assert pod_template(cron_job)["volumes"][0]["configMap"]["name"] == policy["metadata"]["name"]
    assert namespaces_named(objects) == {"rebalancer"}


@pytest.mark.skipif(bool(NO_KUSTOMIZE), reason=NO_KUSTOMIZE or "never")
@pytest.mark.parametrize("folder", [BASE, ACTIVE], ids=["base", "active"])
def test_an_overlay_moves_everything_to_its_own_namespace(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "k8s", tmp_path / "k8s")
    own = tmp_path / "own"
    own.mkdir()
    kustomization = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "namespace": "ops",
        "resources": [f"../k8s/{folder.relative_to(ROOT / 'k8s')}"],
        "components": ["../k8s/components/network-policy", "../k8s/components/surge"],
    }
    (own / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    rendered = subprocess.run(
        ["kubectl", "kustomize", str(own)], capture_output=True, check=True, timeout=60, text=True
    )
    objects = [item for item in yaml.safe_load_all(rendered.stdout) if item]
    (cron_job,) = [item for item in objects if item["kind"] == "CronJob"]

    assert namespaces_named(objects) == {"ops"}
    assert "NetworkPolicy" in {item["kind"] for item in objects}
    # An argument with a namespace of its own would stay behind: names alone are in that of the pod.
    assert not [
        word
        for word in container(cron_job)["args"]
        if word.startswith(("--lease", "--state")) and "/" in word
    ]


def namespaces_named(objects: list[Document]) -> set[str]:
    """Every namespace that rendered objects are in, are, or give rights to."""
    cluster_wide = {"Namespace", "ClusterRole", "ClusterRoleBinding", "PriorityClass"}
    found = {item["metadata"]["namespace"] for item in objects if item["kind"] not in cluster_wide}
    found |= {item["metadata"]["name"] for item in objects if item["kind"] == "Namespace"}
    return found | {subject["namespace"] for item in objects for subject in item.get("subjects", ())}


def test_its_pod_is_scheduled_first_and_pushes_no_other_out() -> None:
    (priority,) = [item for item in resources(BASE) if item["kind"] == "PriorityClass"]

    assert pod_template(CRON_JOB)["priorityClassName"] == priority["metadata"]["name"]
    assert priority["preemptionPolicy"] == "Never"
    assert 0 < priority["value"] < 1_000_000_000


def test_the_network_policy_lets_through_what_every_run_needs() -> None:
    policy = read(ROOT / "k8s" / "components" / "network-policy" / "networkpolicy.yaml")["spec"]
    ports = {(port["protocol"], port["port"]) for rule in policy["egress"] for port in rule["ports"]}

    assert policy["podSelector"]["matchLabels"] == {"app.kubernetes.io/name": "rebalancer"}
    assert ports >= {("UDP", 53), ("TCP", 53), ("TCP", 443), ("TCP", 6443), ("TCP", 9090), ("TCP", 2020)}
    assert policy["ingress"] == []
