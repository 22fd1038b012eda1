"""The pods of a scheduler are its own: a neighbour's tell nothing of its version."""

from __future__ import annotations

from typing import Any

from rebalancer.load.raw_figures import RawFigures
from rebalancer.planning.inputs import ApiServer, Observation, SchedulerFacts
from rebalancer.planning.scheduler_facts import scheduler_facts
from rebalancer.policy.policy_file import LoadedPolicy, place_of
from rebalancer.policy.schema import RebalancePolicy
from rebalancer.profiles.types import ConfigurationText
from tests.builders import a_node, a_pod, a_snapshot, owned_by
from tests.rows import rows

IMAGE = "registry.k8s.io/kube-scheduler"
NAMED = {"configMap": {"namespace": "second", "name": "config"}}


def a_scheduler(
    name: str, version: str, namespace: str = "second", *, owner: str = "ReplicaSet", **spec: Any
) -> dict[str, Any]:
    containers = [
        {"name": "c", "image": f"{IMAGE}:{version}", "command": ["kube-scheduler"], **spec.pop("c", {})}
    ]
    owned = owned_by(owner, name)
    return a_pod(name, node="n", namespace=namespace, owner=owned, containers=containers, **spec)


STATIC = a_scheduler("first", "v1.35.4", "kube-system", owner="Node")
MOUNTING: dict[str, Any] = {"volumes": [{"name": "v", "configMap": {"name": "config"}}]}


def facts(
    *pods: dict[str, Any], scheduler: Any = NAMED, profile: str = "trimaran"
) -> tuple[SchedulerFacts, ...]:
    policy = RebalancePolicy.model_validate({"scheduler": scheduler})
    text = (
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        f"profiles: [{{schedulerName: {profile}}}]\n"
    )
    places = [place_of(settings, "p.yaml") for settings in policy.schedulers]
    texts = {place: ConfigurationText(text, "config") if place else None for place in places}
    snapshot = a_snapshot(nodes=[a_node("n")], pods=pods)
    server = ApiServer(version="v1.36.1")
    observation = Observation(snapshot, RawFigures(), 0.0, server=server, configurations=texts)
    return scheduler_facts(observation, LoadedPolicy(policy, "p.yaml", ""))


def versions(*pods: dict[str, Any], **more: Any) -> list[str]:
    return [item.version for item in facts(*pods, **more)]


def test_each_of_two_schedulers_has_the_version_of_its_own_pods() -> None:
    second = a_scheduler("second", "v0.26.7", **MOUNTING)
    assert versions(STATIC, second) == ["1.26", "1.35"]
    assert versions(second) == ["1.26", "1.36"]  # the default one is as new as its API server


@rows(
    "scheduler, pods",
    [
        (NAMED, [a_scheduler("x", "v0.27.8", **MOUNTING), a_scheduler("y", "v0.26.7")]),
        (NAMED, [a_scheduler("x", "v0.27.8", c={"args": ["--config=/etc/k/scheduler-config.yaml"]})]),
        (
            {"file": "cc.yaml"},
            [
                a_scheduler("x", "v0.27.8", c={"args": ["--config=/etc/k/cc.yaml"]}),
                a_scheduler("y", "v0.26.7"),
            ],
        ),
        (
            {**NAMED, "pods": {"namespace": "second", "matchLabels": {"app": "x"}}},
            [a_scheduler("x", "v0.27.8", labels={"app": "x"}), a_scheduler("y", "v0.26.7", **MOUNTING)],
        ),
        (
            {"inline": "kind: x"},
            [a_scheduler("trimaran-7d9f", "v0.27.8"), a_scheduler("other-5c6b", "v0.26.7")],
        ),
    ],
)
def test_a_pod_is_the_schedulers_by_what_the_policy_names_before_what_its_owner_is(
    scheduler: dict[str, Any], pods: list[dict[str, Any]]
) -> None:
    assert versions(STATIC, *pods, scheduler=scheduler)[0] == "1.27"


def test_of_two_versions_of_its_pods_the_lower_one_counts_and_both_are_known() -> None:
    old, new = (a_scheduler(name, name, **MOUNTING) for name in ("v0.26.7", "v0.31.8"))
    second, _ = facts(new, old)
    assert (second.version, second.other_versions) == ("1.26", ("1.31",))


def test_a_second_scheduler_whose_image_names_no_version_is_of_an_unknown_one() -> None:
    assert versions(STATIC, a_scheduler("second", "latest", **MOUNTING)) == ["", "1.35"]


def test_pods_whose_owner_is_named_after_another_schedulers_name_are_that_ones() -> None:
    """Also where the policy does not know that scheduler: pods that ask for it show that there is one."""
    neighbour = a_scheduler("trimaran-7d9f", "v0.26.7")
    asks = a_pod("web", node="n", schedulerName="trimaran")
    for scheduler in ({"inline": "kind: x"}, {"file": "other.yaml"}):
        mine, default = facts(STATIC, neighbour, asks, scheduler=scheduler, profile="mine")
        assert mine.pods == ()
        assert default.version == "1.35"


def test_the_control_planes_pods_run_default_scheduler_whatever_file_another_one_is_started_with() -> None:
    second = a_scheduler("second", "v0.26.7", c={"args": ["--config=/etc/k/scheduler-config.yaml"]})
    alone = {"scheduler": {"file": "scheduler-config.yaml"}, "profile": "default-scheduler"}
    assert versions(second, STATIC, **alone) == ["1.35"]
    assert versions(second, **alone) == ["1.26"]


def test_where_the_pods_that_the_policy_names_are_not_there_no_others_are_taken_for_them() -> None:
    named = {**NAMED, "pods": {"namespace": "second", "matchLabels": {"app": "typo"}}}
    mine, _ = facts(STATIC, a_scheduler("second", "v0.26.7", **MOUNTING), scheduler=named)
    assert (mine.pods, mine.version) == ((), "")


def test_the_gates_are_those_of_its_own_pods() -> None:
    second = a_scheduler("second", "v0.34.7", c={"args": ["--feature-gates=A=false"]}, **MOUNTING)
    mine, default = facts(STATIC, second)
    assert (dict(mine.feature_gates.stated), dict(default.feature_gates.stated)) == ({"A": False}, {})


def test_default_scheduler_needs_no_entry_and_its_pods_move_unless_an_entry_says_whose_do() -> None:
    assert [item.acts_on for item in facts(STATIC)] == [("trimaran",), ("default-scheduler",)]
    narrowed = {**NAMED, "profiles": ["trimaran"]}
    assert [item.acts_on for item in facts(STATIC, scheduler=narrowed)] == [("trimaran",), ()]
    both = [narrowed, {"profiles": ["default-scheduler"]}]
    assert [item.acts_on for item in facts(STATIC, scheduler=both)] == [("trimaran",), ("default-scheduler",)]
