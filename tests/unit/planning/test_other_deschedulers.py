"""Which other deschedulers keep a run from acting."""

from __future__ import annotations

from typing import Any

import pytest

from rebalancer.errors import SafetyError
from rebalancer.planning.other_deschedulers import ensure_allowed, why_refused
from rebalancer.policy.schema import Safety
from tests.builders import a_node, a_pod
from tests.rows import rows
from tests.unit.planning.builders import a_workload, planning_inputs

IMAGE = "registry.k8s.io/descheduler/descheduler:v0.34.0"
REFUSE = Safety()
ALLOW = Safety(other_deschedulers="allow")


def a_cron_job(*, suspend: bool | None = None, image: str = IMAGE) -> dict[str, Any]:
    template = {"spec": {"containers": [{"name": "it", "image": image}]}}
    spec: dict[str, Any] = {"jobTemplate": {"spec": {"template": template}}}
    if suspend is not None:
        spec["suspend"] = suspend
    return {"metadata": {"name": "descheduler", "namespace": "kube-system"}, "spec": spec}


def refused(*pods: dict[str, Any], safety: Safety = REFUSE, **changes: Any) -> str:
    return why_refused(planning_inputs([a_node("n")], pods=pods, **changes).snapshot, safety)


def pods_of(image: str, kind: str = "ReplicaSet", **changes: Any) -> str:
    workload = a_workload("mover", ["n"], kind=kind, namespace="tools", **changes)
    for pod in workload.pods:
        pod["spec"]["containers"][0]["image"] = image
    return why_refused(planning_inputs([a_node("n")], [workload]).snapshot, REFUSE)


@rows(
    "image",
    [
        IMAGE,
        "registry.k8s.io/descheduler/descheduler@sha256:0123",
        "localhost:5000/descheduler",
        "descheduler",
        "registry.redhat.io/openshift4/ose-descheduler-rhel9@sha256:0123",
        "registry.example/koordinator-sh/koord-descheduler:v1.6",
        "staging/descheduler-arm64:v20260101",
    ],
)
def test_a_running_pod_with_the_image_of_a_descheduler_is_one_whatever_its_registry(image: str) -> None:
    assert pods_of(image).startswith("another descheduler runs (tools/ReplicaSet/mover)")


@rows(
    "image",
    [
        "example/descheduler-ui:v1",
        "openshift4/ose-cluster-kube-descheduler-operator",
        "descheduler.example/app",
        "rebalancer",
    ],
)
def test_other_images_are_none(image: str) -> None:
    assert pods_of(image) == ""


def test_a_job_that_runs_is_one() -> None:
    assert "tools/Job/mover" in pods_of(IMAGE, "Job")


def test_a_pod_without_a_controller_is_one_by_its_own_name() -> None:
    pod = a_pod("mover", namespace="tools", node="n")
    pod["spec"]["containers"][0]["image"] = IMAGE
    assert "(tools/mover)" in refused(pod)


def test_a_pod_that_is_being_deleted_or_has_finished_is_none() -> None:
    deleted = a_pod("deleted", node="n")
    deleted["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    finished = a_pod("finished", node="n")
    finished["status"]["phase"] = "Succeeded"
    for pod in (deleted, finished):
        pod["spec"]["containers"][0]["image"] = IMAGE
    assert refused(deleted, finished) == ""


@pytest.mark.parametrize("suspend", [None, False])
def test_a_cron_job_is_one_although_no_pod_of_it_runs(suspend: bool | None) -> None:
    assert "kube-system/CronJob/descheduler" in refused(cronjobs=[a_cron_job(suspend=suspend)])


def test_a_suspended_cron_job_or_one_of_another_image_is_none() -> None:
    assert refused(cronjobs=[a_cron_job(suspend=True)]) == ""
    assert refused(cronjobs=[a_cron_job(image="example/backup:v1")]) == ""


def test_a_deployment_of_no_replicas_is_none() -> None:
    template = {"spec": {"containers": [{"name": "it", "image": IMAGE}]}}
    deployment = {
        "metadata": {"name": "descheduler", "namespace": "kube-system"},
        "spec": {"replicas": 0, "template": template},
    }
    assert refused(deployments=[deployment]) == ""


def test_cron_jobs_that_may_not_be_read_may_be_one() -> None:
    why = refused(unread=["cronjobs"], left_out=["cronjobs"])
    assert why.startswith("whether another descheduler runs is not known: CronJobs were not read")
    assert "safety.otherDeschedulers: allow" in why
    assert refused(unread=["cronjobs"], left_out=["cronjobs"], safety=ALLOW) == ""


def test_a_dump_need_not_hold_cron_jobs() -> None:
    assert refused(unread=["cronjobs"]) == ""


def test_the_policy_may_say_that_it_is_known() -> None:
    snapshot = planning_inputs([a_node("n")], cronjobs=[a_cron_job()]).snapshot

    ensure_allowed(snapshot, ALLOW)
    with pytest.raises(SafetyError, match="otherDeschedulers: allow"):
        ensure_allowed(snapshot, REFUSE)
