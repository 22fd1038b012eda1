"""Deployments roll out a new pod template, step by step as their strategy says."""

from __future__ import annotations

from typing import Any

import pytest

from rebalancer_demo import Sandbox
from rebalancer_demo.controllers.deployment import RollingUpdate
from rebalancer_demo.objects import Object, annotations_of, is_ready, is_terminating, status_of
from tests.integration.demo.builders import StillClock, a_deployment_with_its_replica_set, a_node, a_pod
from tests.rows import rows

RESTARTED_AT = "kubectl.kubernetes.io/restartedAt"


def a_deployment(replicas: int, *, node: str = "n1", **spec: Any) -> list[Object]:
    """A Deployment as a dump brings it: with its ReplicaSet, and a pod for each replica on one node."""
    deployment, owned = a_deployment_with_its_replica_set(replicas=replicas, **spec)
    pods = [a_pod(f"web-1-{number}", node=node, owner=owned) for number in range(replicas)]
    return [deployment, owned, *pods, a_node("n1"), a_node("n2")]


def restart(sandbox: Sandbox, value: str = "now") -> None:
    def changed(item: Object) -> Object:
        template = item["spec"]["template"]
        template.setdefault("metadata", {})["annotations"] = {RESTARTED_AT: value}
        return item

    sandbox.registry.replace("deployments", "shop", "web", changed)


def deployment_status(sandbox: Sandbox) -> Object:
    item = sandbox.store.get("deployments", "shop", "web")
    assert item is not None
    return {"updated": status_of(item).get("updatedReplicas"), "pods": status_of(item).get("replicas")}


def restarted_at(pod: Object) -> str:
    """Of which restart a pod is; empty before the first."""
    return str(annotations_of(pod).get(RESTARTED_AT, ""))


def of_template(sandbox: Sandbox, *, new: bool) -> list[Object]:
    """Pods of the new template, or of that before, which are not terminating."""
    return [pod for pod in sandbox.pods("shop") if bool(restarted_at(pod)) == new and not is_terminating(pod)]


def test_a_single_pod_ends_only_once_the_new_one_has_been_ready_for_long_enough() -> None:
    clock = StillClock()
    objects = a_deployment(1, minReadySeconds=30)
    with Sandbox(objects, clock=clock, ready_after=5, terminates_after=1) as sandbox:
        assert sandbox.wait_until(lambda: deployment_status(sandbox) == {"updated": 1, "pods": 1})
        restart(sandbox)
        assert sandbox.wait_until(lambda: len(sandbox.pods("shop", phase="Running")) == 2)
        clock.advance(6)
        assert sandbox.wait_until(lambda: all(map(is_ready, sandbox.pods("shop"))))
        assert sandbox.wait_until(lambda: deployment_status(sandbox) == {"updated": 1, "pods": 2})
        assert len(of_template(sandbox, new=False)) == 1
        clock.advance(31)
        assert sandbox.wait_until(lambda: of_template(sandbox, new=False) == [])
        clock.advance(2)
        assert sandbox.wait_until(lambda: len(sandbox.pods("shop")) == 1)
        assert sandbox.wait_until(lambda: deployment_status(sandbox) == {"updated": 1, "pods": 1})
        [pod] = sandbox.pods("shop")
        assert pod["metadata"]["ownerReferences"][0]["name"].startswith("web-")
        assert pod["metadata"]["labels"]["pod-template-hash"]


@pytest.mark.parametrize("terminates_after", [0, 20])
def test_every_pod_of_a_deployment_is_replaced_again_with_each_change_of_its_template(
    terminates_after: float,
) -> None:
    """As in Kubernetes, a rollout is over, by its status, while the last old pods still terminate."""
    clock = StillClock()
    objects = a_deployment(4, strategy={"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}})
    with Sandbox(objects, clock=clock, ready_after=0, terminates_after=terminates_after) as sandbox:
        assert sandbox.wait_until(lambda: deployment_status(sandbox) == {"updated": 4, "pods": 4})
        restart(sandbox)
        assert sandbox.wait_until(lambda: len(of_template(sandbox, new=True)) == 4)
        assert sandbox.wait_until(lambda: deployment_status(sandbox) == {"updated": 4, "pods": 4})
        restart(sandbox, "again")
        assert sandbox.wait_until(
            lambda: list(map(restarted_at, of_template(sandbox, new=True))) == ["again"] * 4
        )
        if terminates_after:
            assert len(sandbox.pods("shop")) == 12
        clock.advance(terminates_after + 1)  # a kubelet knows the time of a deletion to a second
        assert sandbox.wait_until(lambda: set(map(restarted_at, sandbox.pods("shop"))) == {"again"})


def test_recreate_ends_every_old_pod_before_the_first_new_one() -> None:
    clock = StillClock()
    objects = a_deployment(2, strategy={"type": "Recreate"})
    with Sandbox(objects, clock=clock, ready_after=0, terminates_after=20) as sandbox:
        assert sandbox.wait_until(lambda: deployment_status(sandbox) == {"updated": 2, "pods": 2})
        restart(sandbox)
        assert sandbox.wait_until(lambda: of_template(sandbox, new=False) == [])
        assert of_template(sandbox, new=True) == []
        clock.advance(21)
        assert sandbox.wait_until(lambda: len(of_template(sandbox, new=True)) == 2)


def test_a_paused_deployment_and_one_that_a_dump_brought_roll_nothing_out() -> None:
    objects = a_deployment(1, paused=True)
    objects[1]["spec"]["template"]["spec"]["containers"][0]["image"] = "app:v0"  # not what the Deployment has
    with Sandbox(objects, ready_after=0) as sandbox:
        assert sandbox.wait_until(lambda: deployment_status(sandbox) == {"updated": 1, "pods": 1})
        restart(sandbox)
        assert sandbox.wait_until(lambda: deployment_status(sandbox) == {"updated": 0, "pods": 1})
        assert len(sandbox.store.all("replicasets", "shop")) == 1


def sets(*available_of: tuple[int, int]) -> list[Object]:
    return [{"spec": {"replicas": size}, "status": {"availableReplicas": up}} for size, up in available_of]


@rows(
    "update, new, old, grown, shrunk",
    [
        (RollingUpdate(1, 1, 0), (0, 0), [(1, 1)], 1, [1]),
        (RollingUpdate(1, 1, 0), (1, 0), [(1, 1)], 1, [1]),
        (RollingUpdate(1, 1, 0), (1, 1), [(1, 1)], 1, [0]),
        (RollingUpdate(1, 1, 0), (1, 0), [(1, 0)], 1, [1]),
        (RollingUpdate(10, 3, 2), (0, 0), [(10, 10)], 3, [8]),
        (RollingUpdate(10, 3, 2), (3, 0), [(10, 10)], 3, [8]),
        (RollingUpdate(10, 3, 2), (3, 3), [(2, 0), (8, 8)], 3, [0, 5]),
        (RollingUpdate(10, 3, 2), (12, 12), [], 10, []),
    ],
)
def test_each_step_of_a_rolling_update(
    update: RollingUpdate, new: tuple[int, int], old: list[tuple[int, int]], grown: int, shrunk: list[int]
) -> None:
    """The second line of each: how far the new ReplicaSet grows, and how far the old ones shrink."""
    [made], before = sets(new), sets(*old)
    assert update.of_new(made, before) == grown
    assert update.of_old(made, before) == shrunk


@rows(
    "given, found",
    [
        ({}, (3, 2)),
        ({"maxSurge": "50%", "maxUnavailable": 0}, (5, 0)),
        ({"maxSurge": 0, "maxUnavailable": "0%"}, (0, 1)),
        ({"maxSurge": 0, "maxUnavailable": 99}, (0, 10)),
    ],
)
def test_surge_is_rounded_up_and_unavailable_down(given: Object, found: tuple[int, int]) -> None:
    update = RollingUpdate.of({"spec": {"replicas": 10, "strategy": {"rollingUpdate": given}}})
    assert (update.surge, update.unavailable) == found
