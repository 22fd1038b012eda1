"""What comes back is made from the template plus admission, not copied from the evicted pod."""

from __future__ import annotations

from typing import Any

from rebalancer.planning.plan import Plan
from tests.builders import a_node
from tests.unit.planning.builders import (
    Workload,
    a_workload,
    at,
    because,
    kept,
    moved,
    plan_of,
    planning_inputs,
)

SSD = {"nodeSelector": {"disk": "ssd"}}


def nodes() -> list[dict[str, Any]]:
    return [
        a_node("hot", labels={"disk": "ssd"}),
        a_node("hdd", cpu=40),
        a_node("ssd", cpu=8, labels={"disk": "ssd"}),
    ]


def plan_with(workload: Workload) -> Plan:
    return plan_of(planning_inputs(nodes(), [workload]))


def web(where: list[str], **changes: Any) -> Workload:
    return a_workload("web", where, **{"cpu": "3500m", **changes})


def test_a_pod_that_agrees_with_its_template_is_replaced_by_its_like() -> None:
    assert moved(plan_with(web(["hot"], spec=SSD))) == {"web-0": "ssd"}


def test_what_admission_always_adds_makes_no_difference() -> None:
    workload = web(["hot"])
    pod = workload.pods[0]
    pod["metadata"]["labels"]["pod-template-hash"] = "5d4f"
    pod["spec"]["tolerations"] = [
        {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}
    ]
    pod["spec"]["volumes"] = [{"name": "kube-api-access", "projected": {"sources": []}}]
    assert moved(plan_with(workload)) == {"web-0": "hdd"}


def test_a_limit_without_a_request_is_a_request() -> None:
    workload = web(["hot"])
    container = workload.item["spec"]["template"]["spec"]["containers"][0]
    container["resources"] = {"limits": {"cpu": "3500m", "memory": "1Mi"}}
    workload.pods[0]["spec"]["containers"][0]["resources"]["limits"] = {"cpu": "3500m", "memory": "1Mi"}
    assert moved(plan_with(workload)) == {"web-0": "hdd"}


def test_a_pod_unlike_its_template_is_kept_when_nothing_shows_what_comes_back() -> None:
    plan = plan_with(web(["hot"], template=SSD))
    assert kept(plan) == {"web-0": "Unpredictable"}
    assert "differs from its template in nodeSelector" in because(plan, "web-0")


def test_what_the_newest_ready_sibling_shows_is_what_comes_back() -> None:
    workload = web(["hot", "ssd"], template=SSD, cpu="3300m")
    workload.pods[1]["spec"] |= SSD
    workload.pods[1]["metadata"]["creationTimestamp"] = at(-3600)
    assert moved(plan_with(workload)) == {}  # to ssd, which it would make hot; and not to hdd
    assert "ssd would be at 82.5 %" in because(plan_with(workload), "web-0")


def test_what_admission_does_to_every_pod_of_a_template_it_does_again() -> None:
    workload = web(["hot", "hdd"])
    for pod in workload.pods:
        pod["spec"] |= SSD
    assert moved(plan_with(workload)) == {"web-0": "ssd"}


def test_a_sibling_that_is_not_ready_shows_nothing() -> None:
    workload = web(["hot", "hdd"])
    for pod in workload.pods:
        pod["spec"] |= SSD
    workload.pods[1]["status"]["conditions"][0]["status"] = "False"
    assert kept(plan_with(workload)) == {"web-0": "Unpredictable"}


def test_pods_that_lack_what_their_template_asks_for_are_of_an_older_one() -> None:
    plan = plan_with(web(["hot", "hdd"], template=SSD))
    assert kept(plan) == {"web-0": "Unpredictable"}


def test_changed_requests_are_unpredictable() -> None:
    containers = [
        {"name": "main", "image": "app:v1", "resources": {"requests": {"cpu": "1", "memory": "1Mi"}}}
    ]
    plan = plan_with(web(["hot", "hdd"], template={"containers": containers}))
    assert kept(plan) == {"web-0": "Unpredictable"}


def test_a_resized_pod_is_unpredictable() -> None:
    workload = web(["hot"])
    workload.pods[0]["status"]["containerStatuses"] = [
        {"name": "main", "resources": {"requests": {"cpu": "4", "memory": "1Mi"}}}
    ]
    plan = plan_with(workload)
    assert kept(plan) == {"web-0": "Unpredictable"}
    assert "an in-place resize" in because(plan, "web-0")


def test_a_resized_pod_comes_back_as_its_siblings_are() -> None:
    workload = web(["hot", "hdd"])
    workload.pods[0]["status"]["containerStatuses"] = [
        {"name": "main", "resources": {"requests": {"cpu": "4", "memory": "1Mi"}}}
    ]
    assert moved(plan_with(workload)) == {"web-0": "hdd"}


def stateful(where: list[str], *revisions: str, update: str) -> Workload:
    workload = web(where, kind="StatefulSet")
    workload.item["status"]["updateRevision"] = update
    for pod, revision in zip(workload.pods, revisions, strict=True):
        name = pod["metadata"]["name"]
        pod["metadata"]["labels"] |= {
            "controller-revision-hash": revision,
            "statefulset.kubernetes.io/pod-name": name,
        }
    return workload


def test_a_stateful_pod_of_the_current_revision_comes_back_as_it_is() -> None:
    assert moved(plan_with(stateful(["hot"], "v2", update="v2"))) == {"web-0": "hdd"}


def test_a_stateful_pod_of_an_older_revision_stays() -> None:
    plan = plan_with(stateful(["hot", "hdd"], "v1", "v1", update="v2"))
    assert kept(plan) == {"web-0": "OlderRevision"}
    assert because(plan, "web-0") == "it is of revision v1, StatefulSet/web is at v2"


def test_names_of_its_own_do_not_make_a_stateful_pod_unlike_its_siblings() -> None:
    workload = stateful(["hot", "hdd"], "v1", "v1", update="v1")
    for pod in workload.pods:
        pod["spec"] |= SSD
    assert moved(plan_with(workload)) == {"web-0": "ssd"}
