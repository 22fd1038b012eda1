"""Creating, changing and deleting: versions, preconditions, subresources."""

from __future__ import annotations

from typing import Any

import pytest
from kubernetes import client

from rebalancer_demo import Sandbox
from tests.integration.demo.builders import (
    StillClock,
    a_budget,
    a_config_map,
    a_node,
    a_pod,
    a_replica_set,
    connected,
    refusal,
)


def test_an_update_with_a_stale_version_is_409_conflict() -> None:
    with connected(Sandbox([a_config_map("map")], controllers=False)) as (_, core):
        mine = core.read_namespaced_config_map("map", "shop")
        core.patch_namespaced_config_map("map", "shop", {"data": {"key": "theirs"}})
        mine.data = {"key": "mine"}
        code, status, _ = refusal(lambda: core.replace_namespaced_config_map("map", "shop", mine))
        assert core.read_namespaced_config_map("map", "shop").data == {"key": "theirs"}
    assert (code, status["reason"]) == (409, "Conflict")


def test_of_two_holders_that_race_for_a_lease_one_loses() -> None:
    with connected(Sandbox(controllers=False)) as (_, core):
        leases = client.CoordinationV1Api(core.api_client)
        body = client.V1Lease(metadata=client.V1ObjectMeta(name="run"), spec=client.V1LeaseSpec())
        leases.create_namespaced_lease("default", body)
        code, status, _ = refusal(lambda: leases.create_namespaced_lease("default", body))
        assert (code, status["reason"]) == (409, "AlreadyExists")
        one, other = (leases.read_namespaced_lease("run", "default") for _ in range(2))
        one.spec.holder_identity, other.spec.holder_identity = "one", "other"
        leases.replace_namespaced_lease("run", "default", one)
        code, _, _ = refusal(lambda: leases.replace_namespaced_lease("run", "default", other))
        assert leases.read_namespaced_lease("run", "default").spec.holder_identity == "one"
    assert code == 409


def test_a_lease_cannot_be_replaced_without_naming_its_version() -> None:
    with connected(Sandbox(controllers=False)) as (_, core):
        leases = client.CoordinationV1Api(core.api_client)
        body = client.V1Lease(metadata=client.V1ObjectMeta(name="run"), spec=client.V1LeaseSpec())
        leases.create_namespaced_lease("default", body)
        code, status, _ = refusal(lambda: leases.replace_namespaced_lease("run", "default", body))
    assert (code, status["reason"]) == (422, "Invalid")


def test_a_generated_name_is_new_every_time() -> None:
    with connected(Sandbox(controllers=False)) as (_, core):
        made = [
            core.create_namespaced_config_map("default", {"metadata": {"generateName": "run-"}}).metadata.name
            for _ in range(5)
        ]
    assert len(set(made)) == 5
    assert all(name.startswith("run-") and len(name) == 9 for name in made)


def test_a_change_of_the_spec_bumps_the_generation_and_one_of_the_status_does_not() -> None:
    with connected(Sandbox([a_budget(minAvailable=1)], controllers=False)) as (_, core):
        policy = client.PolicyV1Api(core.api_client)
        changed = policy.patch_namespaced_pod_disruption_budget("web", "shop", {"spec": {"minAvailable": 2}})
        assert changed.metadata.generation == 2
        patch = {"status": {"disruptionsAllowed": 7}, "spec": {"minAvailable": 9}}
        after = policy.patch_namespaced_pod_disruption_budget_status("web", "shop", patch)
    assert (after.metadata.generation, after.spec.min_available) == (2, 2)
    assert after.status.disruptions_allowed == 7


def test_the_main_resource_does_not_change_the_status() -> None:
    with connected(Sandbox([a_node("n1")], controllers=False)) as (_, core):
        patch = {"metadata": {"labels": {"zone": "a"}}, "status": {"capacity": {"cpu": "99"}}}
        node = core.patch_node("n1", patch)
    assert node.metadata.labels["zone"] == "a"
    assert node.status.capacity["cpu"] == "4"


@pytest.mark.parametrize(
    ("media_type", "patch", "expected"),
    [
        ("application/merge-patch+json", {"data": {"key": None, "b": "2"}}, {"b": "2"}),
        ("application/strategic-merge-patch+json", {"data": {"b": "2"}}, {"key": "map", "b": "2"}),
        (
            "application/json-patch+json",
            [
                {"op": "test", "path": "/data/key", "value": "map"},
                {"op": "add", "path": "/data/b", "value": "2"},
            ],
            {"key": "map", "b": "2"},
        ),
    ],
)
def test_the_three_kinds_of_patch_do_what_they_say(
    media_type: str, patch: Any, expected: dict[str, str]
) -> None:
    with connected(Sandbox([a_config_map("map")], controllers=False)) as (_, core):
        core.api_client.call_api(
            *core.api_client.param_serialize(
                "PATCH",
                "/api/v1/namespaces/shop/configmaps/map",
                header_params={"Content-Type": media_type},
                body=patch,
                auth_settings=[],
            )
        ).read()
        assert core.read_namespaced_config_map("map", "shop").data == expected


def test_in_the_test_of_a_json_patch_null_is_what_is_not_there() -> None:
    def patch(core: client.CoreV1Api, key: str) -> None:
        operations = [
            {"op": "test", "path": f"/data/{key}", "value": None},
            {"op": "add", "path": "/data/c", "value": key},
        ]
        core.patch_namespaced_config_map("map", "shop", operations)

    with connected(Sandbox([a_config_map("map")], controllers=False)) as (_, core):
        code, status, _ = refusal(lambda: patch(core, "key"))
        assert (code, status["message"].endswith("testing /data/key failed")) == (422, True)
        patch(core, "b")
        assert core.read_namespaced_config_map("map", "shop").data == {"key": "map", "c": "b"}


def test_a_strategic_patch_merges_conditions_and_taints_by_key() -> None:
    with connected(Sandbox([a_node("n1")], controllers=False)) as (_, core):
        core.patch_node("n1", {"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}})
        core.patch_node("n1", {"spec": {"taints": [{"key": "b", "effect": "NoSchedule"}]}})
        core.patch_node_status(
            "n1", {"status": {"conditions": [{"type": "DiskPressure", "status": "False"}]}}
        )
        node = core.read_node("n1")
    assert [taint.key for taint in node.spec.taints] == ["a", "b"]
    assert [condition.type for condition in node.status.conditions] == ["Ready", "DiskPressure"]


def test_a_dry_run_answers_as_if_and_stores_nothing() -> None:
    with connected(Sandbox([a_config_map("map")], controllers=False)) as (sandbox, core):
        version = sandbox.store.version
        core.create_namespaced_config_map("shop", a_config_map("other"), dry_run="All")
        core.patch_namespaced_config_map("map", "shop", {"data": {"key": "x"}}, dry_run="All")
        core.delete_namespaced_config_map("map", "shop", dry_run="All")
        assert sandbox.store.version == version


def test_a_pod_is_completed_on_admission_as_the_api_server_does() -> None:
    urgent = {
        "kind": "PriorityClass",
        "apiVersion": "scheduling.k8s.io/v1",
        "metadata": {"name": "urgent"},
        "value": 7,
    }
    pod = a_pod("new", priorityClassName="urgent")
    with connected(Sandbox([urgent, a_config_map("map")], controllers=False)) as (_, core):
        made = core.create_namespaced_pod("shop", pod)
        bad = a_pod("bad", priorityClassName="unheard-of")
        code, _, _ = refusal(lambda: core.create_namespaced_pod("shop", bad))
    assert (made.spec.priority, made.spec.scheduler_name, made.status.phase) == (
        7,
        "default-scheduler",
        "Pending",
    )
    assert {(t.key, t.toleration_seconds) for t in made.spec.tolerations} == {
        ("node.kubernetes.io/not-ready", 300),
        ("node.kubernetes.io/unreachable", 300),
    }
    assert made.status.qos_class == "Burstable"
    assert code == 403


def test_an_object_of_an_unknown_namespace_is_404() -> None:
    with connected(Sandbox(controllers=False)) as (_, core):
        code, status, _ = refusal(
            lambda: core.create_namespaced_config_map("nowhere", a_config_map("m", namespace="nowhere"))
        )
    assert (code, status["message"]) == (404, 'namespaces "nowhere" not found')


def test_a_running_pod_is_deleted_gracefully_and_an_unscheduled_one_at_once() -> None:
    clock = StillClock()
    pods = [a_pod("running", node="n1", grace=40), a_pod("waiting")]
    with connected(Sandbox(pods, controllers=False, clock=clock)) as (sandbox, core):
        answer = core.delete_namespaced_pod("running", "shop")
        core.delete_namespaced_pod("waiting", "shop")
        assert answer.metadata.deletion_grace_period_seconds == 40
        assert answer.metadata.deletion_timestamp.timestamp() == clock() + 40
        assert sandbox.pod("shop", "waiting") is None
        shorter = core.delete_namespaced_pod("running", "shop", grace_period_seconds=5)
        assert shorter.metadata.deletion_grace_period_seconds == 5
        core.delete_namespaced_pod("running", "shop", grace_period_seconds=0)
        assert sandbox.pod("shop", "running") is None


def test_a_delete_with_another_uid_is_409() -> None:
    with connected(Sandbox([a_pod("web", node="n1")], controllers=False)) as (sandbox, core):
        options = client.V1DeleteOptions(preconditions=client.V1Preconditions(uid="another"))
        code, status, _ = refusal(lambda: core.delete_namespaced_pod("web", "shop", body=options))
        assert sandbox.pod("shop", "web") is not None
    assert code == 409
    assert "UID in precondition: another" in status["message"]


def test_a_pod_can_be_bound_once() -> None:
    with connected(Sandbox([a_pod("web"), a_node("n1")], controllers=False)) as (_sandbox, core):
        binding = {"metadata": {"name": "web"}, "target": {"kind": "Node", "name": "n1"}}
        core.create_namespaced_pod_binding("web", "shop", binding, _preload_content=False)
        code, status, _ = refusal(
            lambda: core.create_namespaced_pod_binding("web", "shop", binding, _preload_content=True)
        )
        pod = core.read_namespaced_pod("web", "shop")
    assert code == 409
    assert 'already assigned to node "n1"' in status["message"]
    assert pod.spec.node_name == "n1"
    assert [(c.type, c.status) for c in pod.status.conditions] == [("PodScheduled", "True")]


def test_a_workload_can_be_scaled_through_its_scale() -> None:
    with connected(Sandbox([a_replica_set(replicas=3)], controllers=False)) as (_, core):
        apps = client.AppsV1Api(core.api_client)
        apps.patch_namespaced_replica_set_scale("web", "shop", {"spec": {"replicas": 5}})
        scale = apps.read_namespaced_replica_set_scale("web", "shop")
        assert apps.read_namespaced_replica_set("web", "shop").spec.replicas == 5
    assert (scale.spec.replicas, scale.status.selector) == (5, "app=web")


def test_events_are_one_store_in_two_shapes() -> None:
    with connected(Sandbox([a_pod("web")], controllers=False)) as (_, core):
        event = {
            "metadata": {"name": "web.1", "namespace": "shop"},
            "involvedObject": {"kind": "Pod", "name": "web", "namespace": "shop"},
            "reason": "Planned",
            "message": "it may move",
            "type": "Normal",
        }
        core.create_namespaced_event("shop", event)
        new = client.EventsV1Api(core.api_client).list_namespaced_event("shop", _preload_content=False)
        found = core.list_namespaced_event("shop", field_selector="involvedObject.name=web").items
        assert b'"note":"it may move"' in new.data
    assert [item.message for item in found] == ["it may move"]


def test_events_are_forgotten_after_an_hour() -> None:
    clock = StillClock()
    with Sandbox([a_pod("web"), a_node("n1")], clock=clock) as sandbox:
        assert sandbox.wait_until(lambda: sandbox.store.count("events") == 1)
        clock.advance(3000)
        sandbox.settle()
        assert sandbox.store.count("events") == 1
        clock.advance(700)
        assert sandbox.wait_until(lambda: sandbox.store.count("events") == 0)


def test_a_finalizer_holds_an_object_until_it_is_taken_away() -> None:
    held = a_config_map("held")
    held["metadata"]["finalizers"] = ["example.com/hold"]
    with connected(Sandbox([held], controllers=False)) as (_, core):
        core.delete_namespaced_config_map("held", "shop")
        assert core.read_namespaced_config_map("held", "shop").metadata.deletion_timestamp is not None
        core.patch_namespaced_config_map("held", "shop", {"metadata": {"finalizers": None}})
        assert refusal(lambda: core.read_namespaced_config_map("held", "shop"))[0] == 404


def test_a_pod_that_is_bound_gets_the_zone_of_its_node() -> None:
    node = a_node("n1")
    node["metadata"]["labels"] = {"topology.kubernetes.io/zone": "a", "disk": "ssd"}
    with connected(Sandbox([a_pod("web"), node], controllers=False)) as (sandbox, core):
        binding = {"metadata": {"name": "web"}, "target": {"kind": "Node", "name": "n1"}}
        core.create_namespaced_pod_binding("web", "shop", binding, _preload_content=False)
        bound = sandbox.pod("shop", "web")
    assert bound is not None
    labels = bound["metadata"]["labels"]
    assert labels["topology.kubernetes.io/zone"] == "a"
    assert "disk" not in labels
