"""What comes back is made from the template plus admission, not copied from the evicted pod."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from rebalancer.planning.plan import Plan
from tests.builders import a_node
from tests.rows import rows
from tests.unit.planning.builders import (
    Workload,
    a_workload,
    at,
    because,
    kept,
    moved,
    plan_of,
    planning_inputs,
    with_scheduler,
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


def with_claims(where: list[str], *, zones: Sequence[str] = (), **changes: Any) -> Case:
    """A StatefulSet whose pods each have a claim of their own, on a volume that the zone's nodes reach."""
    workload = a_workload("db", where, **{"kind": "StatefulSet", "cpu": "3500m", **changes})
    claims, disks = [], []
    for number, pod in enumerate(workload.pods):
        name = f"data-{pod['metadata']['name']}"
        pod["metadata"]["labels"]["statefulset.kubernetes.io/pod-name"] = pod["metadata"]["name"]
        mount = {"name": "data", "persistentVolumeClaim": {"claimName": name}}
        pod["spec"]["volumes"] = [*pod["spec"].get("volumes", ()), mount]
        claims.append(
            {
                "metadata": {
                    "name": name,
                    "namespace": "default",
                    "annotations": {"pv.kubernetes.io/bind-completed": "yes"},
                },
                "spec": {"accessModes": ["ReadWriteOnce"], "volumeName": f"disk-{name}"},
                "status": {"phase": "Bound"},
            }
        )
        zone = zones[number] if zones else None
        term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]}
        affinity = {"nodeAffinity": {"required": {"nodeSelectorTerms": [term]}}} if zone else {}
        disks.append(
            {"metadata": {"name": f"disk-{name}"}, "spec": {"capacity": {"storage": "1Gi"}} | affinity}
        )
    return {"workloads": [workload], "persistentvolumeclaims": claims, "persistentvolumes": disks}


Case = dict[str, Any]


def in_zones(*zones: str) -> list[dict[str, Any]]:
    hot, *others = zones
    cool = [a_node(f"cool-{zone}", cpu=8, labels={"zone": zone}) for zone in others]
    return [a_node("hot", labels={"zone": hot}), *cool]


def test_a_pod_with_claims_of_its_own_moves_and_takes_them_along() -> None:
    given = with_claims(["hot", "cool-x"], cpu="3300m")
    assert moved(plan_of(planning_inputs(in_zones("x", "x", "y"), **given))) == {"db-0": "cool-y"}


def test_the_zone_of_its_own_volume_decides_not_that_of_its_sibling() -> None:
    given = with_claims(["hot", "cool-y"], zones=["x", "y"], cpu="3300m")
    plan = plan_of(planning_inputs(in_zones("x", "y", "x"), **given))
    assert moved(plan) == {"db-0": "cool-x"}


def test_a_pod_whose_volume_no_other_node_reaches_stays() -> None:
    given = with_claims(["hot"], zones=["x"])
    plan = plan_of(planning_inputs(in_zones("x", "y"), **given))
    assert kept(plan) == {"db-0": "NoBetterLanding"}
    assert "hot is the node it leaves" in because(plan, "db-0")


def test_admission_may_add_to_pods_with_claims_of_their_own() -> None:
    given = with_claims(["hot", "cool-y"], zones=["x", "y"], cpu="3300m")
    for pod in given["workloads"][0].pods:
        pod["spec"]["nodeSelector"] = {"disk": "ssd"}
    nodes = [
        node | {"metadata": node["metadata"] | {"labels": node["metadata"]["labels"] | {"disk": "ssd"}}}
        for node in in_zones("x", "y", "x")
    ]
    assert moved(plan_of(planning_inputs(nodes, **given))) == {"db-0": "cool-x"}


def test_a_sibling_with_claims_of_its_own_does_not_stand_for_a_pod_with_others() -> None:
    given = with_claims(["hot", "cool-y"], zones=["x", "y"], cpu="3300m")
    given["workloads"][0].pods[0]["spec"]["nodeSelector"] = {"zone": "x"}
    plan = plan_of(planning_inputs(in_zones("x", "y", "x"), **given))
    assert kept(plan) == {"db-0": "Unpredictable"}
    assert "differs from its template in nodeSelector" in because(plan, "db-0")


def test_a_claim_that_only_resembles_one_of_its_own_is_a_difference() -> None:
    given = with_claims(["hot"])
    claim = given["workloads"][0].pods[0]["spec"]["volumes"][0]["persistentVolumeClaim"]
    claim["claimName"] = given["persistentvolumeclaims"][0]["metadata"]["name"] = "data-db-7"
    assert kept(plan_of(planning_inputs(in_zones("x", "y"), **given))) == {"db-0": "Unpredictable"}


def held(where: list[str], *revisions: str, updated: int = 0, **strategy: Any) -> Workload:
    """A StatefulSet on its way from v1 to v2, as its update strategy allows."""
    workload = stateful(where, *revisions, update="v2")
    workload.item["status"] |= {"currentRevision": "v1", "updatedReplicas": updated}
    workload.item["spec"]["updateStrategy"] = strategy or {"type": "RollingUpdate"}
    return workload


def partition(number: int) -> dict[str, Any]:
    return {"type": "RollingUpdate", "rollingUpdate": {"partition": number}}


HELD = [
    ("held at a partition", held(["hot", "hdd"], "v1", "v1", **partition(2)), {"web-0": "hdd"}),
    ("above the partition, updated", held(["hot"], "v2", updated=1, **partition(0)), {"web-0": "Rollout"}),
    ("updated by hand", held(["hot"], "v2", updated=1, type="OnDelete"), {"web-0": "hdd"}),
    ("not updated by hand", held(["hot"], "v1", type="OnDelete"), {"web-0": "OlderRevision"}),
    ("rolling out", held(["hot", "hdd"], "v1", "v1"), {"web-0": "Rollout"}),
    ("recreated as a whole", held(["hot", "hdd"], "v1", "v1", type="Recreate"), {"web-0": "Rollout"}),
    (
        "the last is recreated",
        held(["hot", "hdd"], "v2", "v2", updated=2, type="Recreate"),
        {"web-0": "Rollout"},
    ),
    (
        "a partition of before does not hold a recreation",
        held(["hot", "hdd"], "v1", "v1", **{**partition(2), "type": "Recreate"}),
        {"web-0": "Rollout"},
    ),
    ("the partition is not reached", held(["hot", "hdd"], "v1", "v1", **partition(1)), {"web-0": "Rollout"}),
    ("the canary is below", held(["hot", "hdd"], "v2", "v2", **partition(2)), {"web-0": "OlderRevision"}),
    (
        "the canary shows nothing",
        held(["hot", "hdd"], "v1", "v2", updated=1, **partition(1)),
        "Unpredictable",
    ),
]


@rows("workload, result", [(*row[1:],) for row in HELD])
def test_a_stateful_set_is_rolling_out_only_while_it_replaces_pods(workload: Workload, result: Any) -> None:
    plan = plan_with(workload)
    found = moved(plan) or kept(plan)
    assert (found["web-0"] if isinstance(result, str) else found) == result


def test_a_partition_counts_from_the_first_ordinal() -> None:
    workload = held(["hdd", "hot"], "v2", "v2", updated=2, **partition(1))
    assert moved(plan_with(workload)) == {"web-1": "hdd"}
    workload.item["spec"]["ordinals"] = {"start": 1}
    plan = plan_with(workload)
    assert because(plan, "web-1") == (
        "it is of revision v2, StatefulSet/web would recreate it as v1: see its partition"
    )


def test_a_pod_held_at_a_partition_comes_back_with_its_own_claims() -> None:
    given = with_claims(["hot", "cool-y"], zones=["x", "y"], cpu="3300m")
    workload = given["workloads"][0]
    workload.item["status"] |= {"currentRevision": "v1", "updateRevision": "v2"}
    workload.item["spec"]["updateStrategy"] = partition(2)
    for pod in workload.pods:
        pod["metadata"]["labels"]["controller-revision-hash"] = "v1"
    plan = plan_of(planning_inputs(in_zones("x", "y", "x"), **given))
    assert moved(plan) == {"db-0": "cool-x"}


def test_names_of_its_own_do_not_make_a_stateful_pod_unlike_its_siblings() -> None:
    workload = stateful(["hot", "hdd"], "v1", "v1", update="v1")
    for pod in workload.pods:
        pod["spec"] |= SSD
    assert moved(plan_with(workload)) == {"web-0": "ssd"}


ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"


def zoned_nodes() -> list[dict[str, Any]]:
    """Three nodes in two zones of a region."""
    return [
        a_node("hot", labels={ZONE: "a", REGION: "x"}),
        a_node("hdd", cpu=40, labels={ZONE: "b", REGION: "x"}),
        a_node("ssd", cpu=8, labels={ZONE: "b", REGION: "x", "disk": "ssd"}),
    ]


def as_bound(workload: Workload) -> Workload:
    """Pods with the labels that binding copies from their nodes since 1.35."""
    labels_of = {node["metadata"]["name"]: node["metadata"]["labels"] for node in zoned_nodes()}
    for pod in workload.pods:
        there = labels_of[pod["spec"]["nodeName"]]
        pod["metadata"]["labels"] |= {key: there[key] for key in (ZONE, REGION)}
    return workload


def test_labels_that_binding_gave_a_pod_are_none_of_its_replacements() -> None:
    alone = plan_of(planning_inputs(zoned_nodes(), [as_bound(web(["hot"]))]))
    assert moved(alone) == {"web-0": "hdd"}
    beside_others = plan_of(planning_inputs(zoned_nodes(), [as_bound(web(["hot", "hdd"]))]))
    assert moved(beside_others) == {"web-0": "hdd"}


def test_a_label_that_template_and_binding_agree_on_is_no_difference() -> None:
    workload = web(["hot"], labels={ZONE: "a"})
    assert workload.item["spec"]["template"]["metadata"]["labels"][ZONE] == "a"
    assert moved(plan_of(planning_inputs(zoned_nodes(), [workload]))) == {"web-0": "hdd"}


def test_a_label_of_the_template_that_binding_overwrote_is_a_difference() -> None:
    workload = web(["hot"], labels={ZONE: "b"})
    workload.pods[0]["metadata"]["labels"][ZONE] = "a"
    plan = plan_of(planning_inputs(zoned_nodes(), [workload]))
    assert kept(plan) == {"web-0": "Unpredictable"}


def anti_affinity(**selector: Any) -> dict[str, Any]:
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": selector}
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def spread(**constraint: Any) -> dict[str, Any]:
    every = {"maxSkew": 5, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}
    return {"topologySpreadConstraints": [{**every, "labelSelector": {"matchLabels": {}}, **constraint}]}


@rows(
    "spec",
    [
        anti_affinity(matchLabels={"app": "web", ZONE: "a"}),
        anti_affinity(matchExpressions=[{"key": REGION, "operator": "DoesNotExist"}]),
        spread(labelSelector={"matchLabels": {ZONE: "a"}}),
        spread(matchLabelKeys=[ZONE]),
    ],
)
def test_selectors_that_ask_for_labels_given_at_binding_are_unpredictable(spec: dict[str, Any]) -> None:
    workload = as_bound(web(["hot"], spec=spec))
    plan = plan_of(planning_inputs(zoned_nodes(), [workload]))
    assert kept(plan) == {"web-0": "Unpredictable"}
    assert "they only get when they are bound" in because(plan, "web-0")


def test_what_a_selector_of_others_asks_for_at_binding_concerns_those_it_may_select_alone() -> None:
    asking = a_workload("db", ["ssd"], cpu="100m", spec=anti_affinity(matchLabels={"app": "web", ZONE: "a"}))
    selected, other = as_bound(web(["hot"])), as_bound(a_workload("api", ["hot"], cpu="3500m"))
    plan = plan_of(planning_inputs(zoned_nodes(), [asking, selected]))
    assert kept(plan) == {"web-0": "Unpredictable"}
    assert moved(plan_of(planning_inputs(zoned_nodes(), [asking, other]))) == {"api-0": "hdd"}


def test_a_service_that_selects_a_zone_makes_its_pods_unpredictable() -> None:
    service = {"metadata": {"name": "web-a", "namespace": "default"}, "spec": {"selector": {ZONE: "a"}}}
    plan = plan_of(planning_inputs(zoned_nodes(), [as_bound(web(["hot"]))], services=[service]))
    assert kept(plan) == {"web-0": "Unpredictable"}


def test_an_api_server_that_labels_at_binding_is_known_before_it_bound_a_pod() -> None:
    asking = web(["hot"], spec=anti_affinity(matchLabels={"app": "db", ZONE: "a"}))
    assert kept(plan_of(planning_inputs(zoned_nodes(), [asking]))) == {"web-0": "Unpredictable"}
    older = with_scheduler(planning_inputs(zoned_nodes(), [asking]), version="1.34")
    assert moved(plan_of(older)) == {"web-0": "hdd"}


@pytest.mark.parametrize(("priority", "result"), [(1000, "moved"), (5, "kept")])
def test_a_pod_recorded_with_its_priority_only_has_the_class_that_gives_it(
    priority: int, result: str
) -> None:
    workload = web(["hot"], template={"priorityClassName": "online"})
    workload.pods[0]["spec"]["priority"] = priority
    online = {"metadata": {"name": "online"}, "value": 1000}
    plan = plan_of(planning_inputs(nodes(), [workload], priorityclasses=[online]))
    assert (moved(plan), kept(plan)) == (
        ({"web-0": "hdd"}, {}) if result == "moved" else ({}, {"web-0": "Unpredictable"})
    )
