"""evictable.singleReplica: surge moves a single pod by its Deployment's rolling update, or not at all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from rebalancer.planning.explanation import PodExplanation
from rebalancer.planning.planner import Planner
from rebalancer.planning.subjects import find_subject, parse_subject
from rebalancer.reporting.tables.explain import explain_table
from rebalancer.reporting.tables.plan import plan_table
from rebalancer.state.run_state import RunState
from rebalancer_lab.simulation.cycles import SimulationSettings, simulate
from tests.builders import a_budget, a_node
from tests.rows import rows
from tests.unit.planning.builders import a_past_move, a_policy, a_workload, because, kept, moved, plan_of
from tests.unit.planning.surge_builders import HASH, SURGE, a_deployment, a_single_pod, surge_inputs

EVICT = "descheduler.alpha.kubernetes.io/evict"


def rolling(**changes: Any) -> dict[str, Any]:
    return a_deployment(strategy={"type": "RollingUpdate", "rollingUpdate": changes})


def with_status(**changes: Any) -> dict[str, Any]:
    deployment = a_deployment()
    deployment["status"].update(changes)
    return deployment


def an_autoscaler() -> dict[str, Any]:
    return {
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}},
        "status": {"currentReplicas": 1, "desiredReplicas": 1},
    }


def test_the_pod_is_restarted_by_a_rolling_update_and_not_evicted() -> None:
    plan = plan_of(surge_inputs())
    assert moved(plan) == {"web-old-0": "cool"}
    (move,) = plan.moves
    assert move.action == "Restart"
    assert (move.pod.workload, move.pod.workload_uid) == ("Deployment/web", "uid-web")
    assert "restarted by a rolling update, not evicted" in move.because


def test_without_the_setting_the_same_pod_is_protected_or_evicted() -> None:
    assert kept(plan_of(surge_inputs(evictable={"protect": ["SingleReplica"]}))) == {
        "web-old-0": "SingleReplica"
    }
    assert [move.action for move in plan_of(surge_inputs(evictable={"protect": []})).moves] == ["Evict"]


@rows(
    "deployment, reason",
    [
        (a_deployment(strategy={"type": "Recreate"}), "its strategy is Recreate"),
        (rolling(maxSurge=0, maxUnavailable=1), "its maxSurge is 0"),
        (rolling(maxSurge="0%", maxUnavailable="25%"), "its maxSurge is 0%"),
        (rolling(maxSurge=1, maxUnavailable=1), "its maxUnavailable is 1"),
        (rolling(maxSurge="1%", maxUnavailable="100%"), "its maxUnavailable is 100%"),
        (rolling(maxSurge="many"), "malformed"),
        (a_deployment(paused=True), "paused"),
        (a_deployment(replicas=2), "wants 2 replicas"),
        (with_status(availableReplicas=0), "0 available pods"),
        (a_deployment(minReadySeconds=600), "minReadySeconds"),
        (a_deployment(minReadySeconds=270), "are 300 s, waveTimeout is 300 s"),
        (a_deployment(metadata={"deletionTimestamp": "2026-06-01T11:59:00Z"}), "being deleted"),
        (a_deployment(metadata={"annotations": {"argocd.argoproj.io/tracking-id": "a"}}), "Argo CD"),
        (a_deployment(metadata={"labels": {"kustomize.toolkit.fluxcd.io/name": "a"}}), "Flux"),
        (
            a_deployment(
                metadata={"ownerReferences": [{"kind": "Shop", "name": "eu", "uid": "u", "controller": True}]}
            ),
            "Shop/eu owns it",
        ),
    ],
)
def test_where_the_rolling_update_would_not_help_the_pod_stays_and_is_never_evicted(
    deployment: Mapping[str, Any], reason: str
) -> None:
    for protect in (["SingleReplica"], []):
        plan = plan_of(surge_inputs(deployment=deployment, evictable={**SURGE, "protect": protect}))
        assert kept(plan) == {"web-old-0": "SingleReplica"}, protect
        assert reason in because(plan, "web-old-0")
        assert plan.kept[0].setting == "evictable.singleReplica"


@rows("surge", ["25%", "1%", 1, 2, "200%", None])
def test_max_surge_rounds_up_and_max_unavailable_down(surge: int | str | None) -> None:
    plan = plan_of(surge_inputs(deployment=rolling(maxSurge=surge, maxUnavailable="99%")))
    assert [move.action for move in plan.moves] == ["Restart"]


@pytest.mark.parametrize(
    ("deployment", "code"),
    [
        (with_status(observedGeneration=0), "SingleReplica"),
        (with_status(replicas=2), "SingleReplica"),
        (with_status(updatedReplicas=0), "SingleReplica"),
    ],
)
def test_a_rollout_that_is_under_way_is_left_alone(deployment: Mapping[str, Any], code: str) -> None:
    assert kept(plan_of(surge_inputs(deployment=deployment))) == {"web-old-0": code}


def test_an_autoscaled_deployment_is_left_alone() -> None:
    plan = plan_of(surge_inputs(horizontalpodautoscalers=[an_autoscaler()]))
    assert "HorizontalPodAutoscaler web scales it" in because(plan, "web-old-0")


@pytest.mark.parametrize("kind", ["StatefulSet", "ReplicationController", "ReplicaSet"])
def test_single_pods_of_other_controllers_stay(kind: str) -> None:
    web = a_workload("web", ["hot"], kind=kind, cpu="3900m")
    assert kept(plan_of(surge_inputs(web))) == {"web-0": "SingleReplica"}


def test_deployments_that_were_not_read_are_not_restarted() -> None:
    plan = plan_of(surge_inputs(unread=["deployments"]))
    assert kept(plan) == {"web-old-0": "SingleReplica"}


def test_an_annotated_pod_is_restarted_where_that_works_and_else_evicted() -> None:
    pod = a_single_pod(annotations={EVICT: "true"})
    assert [move.action for move in plan_of(surge_inputs(pod)).moves] == ["Restart"]
    plan = plan_of(surge_inputs(pod, a_deployment(strategy={"type": "Recreate"})))
    assert [move.action for move in plan.moves] == ["Evict"]


def test_the_new_pod_is_placed_while_the_old_one_still_counts() -> None:
    """With anti-affinity to pods of its own app, the new pod cannot land where the old one still runs."""
    apart = {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "zone"}
            ]
        }
    }
    nodes = [a_node("hot", labels={"zone": "a"}), a_node("cool", cpu=8, labels={"zone": "a"})]
    plan = plan_of(surge_inputs(a_single_pod(spec={"affinity": apart}), nodes=nodes))
    assert kept(plan) == {"web-old-0": "NoLanding"}


def test_the_room_of_the_old_pod_is_not_free_for_the_new_one() -> None:
    """An evicted pod that prefers its own node would return there; a restarted one finds it full."""
    prefers = {
        "nodeAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {
                    "weight": 100,
                    "preference": {
                        "matchExpressions": [
                            {"key": "kubernetes.io/hostname", "operator": "In", "values": ["hot"]}
                        ]
                    },
                }
            ]
        }
    }
    pod = a_single_pod(spec={"affinity": prefers, "terminationGracePeriodSeconds": 0})
    assert moved(plan_of(surge_inputs(pod))) == {"web-old-0": "cool"}
    assert kept(plan_of(surge_inputs(pod, evictable={"protect": []}))) == {"web-old-0": "NoBetterLanding"}


def test_where_another_replica_set_of_the_deployment_has_pods_it_is_not_restarted() -> None:
    newer = a_single_pod(node="cool", cpu="10m")
    for item in (newer.item, *newer.pods):
        item["metadata"] |= {
            "name": f"new-{item['metadata']['name']}",
            "uid": f"new-{item['metadata']['uid']}",
        }
    newer.pods[0]["metadata"]["ownerReferences"][0] |= {
        "name": "new-web-old",
        "uid": newer.item["metadata"]["uid"],
    }
    plan = plan_of(surge_inputs(others=[newer]))
    assert moved(plan) == {}
    assert "ReplicaSet/new-web-old of it has pods as well" in because(plan, "web-old-0")


def test_pods_of_its_own_revision_are_none() -> None:
    """A spread over pods of the same revision does not see the old pod, which is of another one."""
    spread = {
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": "web"}},
                "matchLabelKeys": [HASH],
            }
        ]
    }
    other = a_workload("web-older", ["cool"], cpu="100m")
    other.pods[0]["metadata"]["labels"] = {"app": "web", HASH: "old"}
    # If the new pod counted as of the old revision, cool would have one of one, as hot has, and skew 0 ...
    plan = plan_of(surge_inputs(a_single_pod(spec=spread), others=[other]))
    assert moved(plan) == {"web-old-0": "cool"}
    crowded = a_workload("web-crowd", ["cool"] * 3, cpu="10m")
    for pod in crowded.pods:
        pod["metadata"]["labels"] = {"app": "web", HASH: "old"}
    # ... and with three more there it could not land at all.
    plan = plan_of(surge_inputs(a_single_pod(spec=spread), others=[other, crowded]))
    assert moved(plan) == {"web-old-0": "cool"}


def test_a_volume_that_one_node_mounts_would_deadlock_the_rollout() -> None:
    claim = {
        "metadata": {
            "name": "data",
            "namespace": "default",
            "annotations": {"pv.kubernetes.io/bind-completed": "yes"},
        },
        "spec": {"volumeName": "disk", "accessModes": ["ReadWriteOnce"]},
        "status": {"phase": "Bound"},
    }
    disk = {"metadata": {"name": "disk"}, "spec": {"claimRef": {"namespace": "default", "name": "data"}}}
    volumes = {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}
    pod = a_single_pod(spec=volumes)
    plan = plan_of(surge_inputs(pod, persistentvolumeclaims=[claim], persistentvolumes=[disk]))
    assert kept(plan) == {"web-old-0": "ReadWriteOnce"}
    plan = plan_of(surge_inputs(pod, unread=["persistentvolumeclaims"]))
    assert moved(plan) == {}


@pytest.mark.parametrize(("used", "moves"), [("2", 1), ("3", 0), ("many", 0)])
def test_a_quota_without_room_for_another_replica_set_keeps_the_pod(used: str, moves: int) -> None:
    resource = "count/replicasets.apps"
    quota = {
        "metadata": {"name": "small", "namespace": "default"},
        "spec": {"hard": {resource: "3"}},
        "status": {"hard": {resource: "3"}, "used": {resource: used}},
    }
    plan = plan_of(surge_inputs(resourcequotas=[quota]))
    assert len(plan.moves) == moves
    assert moves or "quota small" in because(plan, "web-old-0")


def test_limits_budgets_and_cooldowns_count_a_restart_as_any_move() -> None:
    assert kept(plan_of(surge_inputs(policy=a_policy(evictable=SURGE, limits={"perRun": 0})))) == {
        "web-old-0": "Limit"
    }
    closed = a_budget("web", labels={"app": "web"}, allowed=0)
    assert kept(plan_of(surge_inputs(poddisruptionbudgets=[closed]))) == {"web-old-0": "Budget"}
    past = a_past_move(workload="Deployment/web", controller_uid="", from_node="else", result="Restarted")
    plan = plan_of(surge_inputs(state=RunState(moves=(past,))))
    assert kept(plan) == {"web-old-0": "Cooldown"}


def test_a_restart_is_the_last_move_of_its_wave() -> None:
    others = [a_workload(f"app{at}", ["hot"] * 2, cpu="400m") for at in range(2)]
    inputs = surge_inputs(
        a_single_pod(cpu="1"),
        others=others,
        nodes=[a_node("hot", cpu=3), a_node("cool", cpu=64)],
        policy=a_policy(
            evictable=SURGE, hotNodes={"any": [{"utilization": {"cpu": 40}, "coolTo": {"cpu": 5}}]}
        ),
    )
    plan = plan_of(inputs)
    actions = [(move.wave, move.action) for move in plan.moves]
    assert {action for _, action in actions} == {"Evict", "Restart"}
    wave = next(wave for wave, action in actions if action == "Restart")
    assert [action for number, action in actions if number == wave][-1] == "Restart"


def test_a_move_is_not_made_in_another_way_than_planned() -> None:
    plan = Planner(surge_inputs()).plan()
    (move,) = plan.moves
    still = Planner(surge_inputs()).recheck(plan.moves)
    assert still[move.pod.uid] == move
    evicts = surge_inputs(evictable={"protect": []})
    assert "rolling update" in str(Planner(evicts).recheck(plan.moves)[move.pod.uid])
    back = Planner(evicts).plan().moves
    assert "rolling update" in str(Planner(surge_inputs()).recheck(back)[move.pod.uid])


def test_the_pod_is_explained_and_shown_as_one_that_is_restarted() -> None:
    inputs = surge_inputs()
    found = Planner(inputs).explain(find_subject(inputs.snapshot, parse_subject("pod/default/web-old-0")))
    assert isinstance(found, PodExplanation)
    assert found.verdict == "Moved"
    assert [landing.node for landing in found.landings] == ["cool"]
    assert found.table is not None
    assert {node.node for node in found.table.nodes} == {"cool"}  # hot is full: the old pod is still there
    assert "restarted by a rolling update" in explain_table(found).plain
    assert (
        "1 restarted by a rolling update, not evicted: default/web-old-0"
        in plan_table(Planner(inputs).plan()).plain
    )


def test_a_simulation_carries_a_restart_out() -> None:
    (run,) = simulate([("test", surge_inputs())], SimulationSettings(cycles=2)).runs
    assert [cycle.evictions for cycle in run.cycles] == [1, 0]
    assert run.cycles[0].hot == 1
    assert run.unexpected == 0
