"""An imported policy spares what the file spares: of what profiles say differently the strictest holds."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from rebalancer.documents import to_yaml
from rebalancer.planning.strategies.failed import Failed
from rebalancer.planning.strategies.lifetime import Lifetime, LifetimeSettings
from rebalancer.planning.strategies.restarts import Restarts
from rebalancer.policy.schema import RebalancePolicy
from rebalancer.policy_import import Imported
from tests.rows import rows
from tests.unit.policy_import.test_descheduler_line_by_line import imported, said

LOAD = {"thresholds": {"cpu": 20}, "targetThresholds": {"cpu": 50}}


def of_profiles(*profiles: dict[str, Any], nodes: str = "", **top: Any) -> tuple[RebalancePolicy, Imported]:
    """Import a file with these plugins and their arguments in each profile."""
    listed = [
        {
            "name": f"profile-{at}",
            "pluginConfig": [{"name": name, "args": values} for name, values in profile.items()],
            "plugins": {"deschedule": {"enabled": [name for name in profile if name != "DefaultEvictor"]}},
        }
        for at, profile in enumerate(profiles)
    ]
    head = {"apiVersion": "descheduler/v1alpha2", "kind": "DeschedulerPolicy"}
    selector = {"nodeSelector": nodes} if nodes else {}
    return imported(to_yaml({**head, **top, **selector, "profiles": listed}))


NODES = {
    "a": {"pool": "web", "zone": "a"},
    "b": {"pool": "web", "zone": "b", "spot": "true"},
    "c": {"pool": "batch", "zone": "a"},
    "bare": {},
}


@rows(
    "selector, left",
    [
        ("pool=web", {"a", "b"}),
        ("pool==web, zone=a", {"a"}),
        ("pool!=web", {"c", "bare"}),
        ("pool in (web, batch),zone notin (b)", {"a", "c"}),
        ("spot", {"b"}),
        ("!pool", {"bare"}),
    ],
)
def test_pods_leave_only_the_nodes_that_the_file_selects_whatever_the_strategy(
    selector: str, left: set[str]
) -> None:
    policy, found = of_profiles({"PodLifeTime": {"maxPodLifeTimeSeconds": 60}}, nodes=selector)

    assert policy.hot_nodes.node_selector is not None
    assert {name for name, labels in NODES.items() if policy.hot_nodes.node_selector.selects(labels)} == left
    kept = [item for item in policy.limits.scoped if item.per_run == 0]
    assert {
        name for name, labels in NODES.items() if not any(item.selects("shop", labels) for item in kept)
    } == left
    assert found.warning == ""


@pytest.mark.parametrize("selector", ["cores>4", "a in (b"])
def test_a_selector_of_nodes_that_has_no_counterpart_keeps_every_pod_until_it_is_written(
    selector: str,
) -> None:
    policy, found = of_profiles({"PodLifeTime": {"maxPodLifeTimeSeconds": 60}}, nodes=selector)

    assert policy.limits.scoped == ()
    assert policy.limits.per_run == 0
    assert "nodeSelector not mapped" in found.warning


@pytest.mark.parametrize(
    ("node_fit", "note"),
    [
        (False, "no effect: it takes effect only with nodeFit"),
        (
            True,
            "not mapped: one of these nodes must take a pod there; here it may land on any that serves it",
        ),
    ],
)
def test_the_selector_of_the_evictor_is_of_nodes_that_pods_go_to_and_not_of_those_they_leave(
    node_fit: bool, note: str
) -> None:
    """PreEvictionFilter of descheduler's defaultevictor.go uses it for PodFitsAnyOtherNode alone."""
    policy, found = of_profiles(
        {"DefaultEvictor": {"nodeSelector": "zone=a", "nodeFit": node_fit}, "RemoveDuplicates": {}},
        nodes="pool=web",
    )

    assert str(policy.hot_nodes.node_selector) == "pool=web"
    assert len(policy.limits.scoped) == 1
    assert said(found, "nodeSelector")[-1] == note
    assert bool(found.warning) is node_fit


@rows(
    "rules, is_said",
    [
        ({"evictSystemCriticalPods": True}, True),
        ({"podProtections": {"defaultDisabled": ["SystemCriticalPods"]}}, True),
        ({"podProtections": {"defaultDisabled": 5}}, False),
        ({}, False),
    ],
)
def test_rules_that_hold_here_where_descheduler_has_none_or_counts_otherwise_say_so(
    rules: dict[str, Any], is_said: bool
) -> None:
    """Its applySystemCriticalPodsProtection adds the threshold, and its minPodAge counts from the start."""
    evictor = {"priorityThreshold": {"value": 5}, "minPodAge": "5m", **rules}
    _, found = of_profiles({"DefaultEvictor": evictor, "RemoveDuplicates": {}})

    assert [text.startswith("changed: it holds here") for text in said(found, "priorityThreshold")] == (
        [True] if is_said else []
    )
    assert said(found, "minPodAge") == [
        "changed: evictable.minAge: since a pod was created, there since it has started"
    ]


def test_the_least_of_the_limits_of_a_file_is_ours() -> None:
    policy, found = of_profiles(
        {"LowNodeUtilization": {**LOAD, "evictionLimits": {"node": 10}}}, maxNoOfPodsToEvictPerNode=2
    )
    assert policy.limits.per_node == 2
    assert said(found, "node") == ["mapped: limits.perNode: 2, which the file states for all"]

    policy, found = of_profiles(
        {"LowNodeUtilization": {**LOAD, "evictionLimits": {"node": 1}}, "RemoveDuplicates": {}},
        maxNoOfPodsToEvictPerNode=2,
    )
    assert policy.limits.per_node == 1
    assert said(found, "node") == ["narrowed: limits.perNode: for all strategies, as a policy has one"]


@rows(
    "key, one, other, expected",
    [
        ("minReplicas", 2, 3, {"minReplicas": 3}),
        ("minPodAge", "20m", "1h", {"minAge": "1h"}),
        ("priorityThreshold", {"value": 900}, {"value": 100}, {"priorityBelow": 100}),
        ("priorityThreshold", {"value": 900}, {"name": "high"}, {"priorityBelow": -(2**31)}),
        (
            "ignorePodsWithoutPDB",
            True,
            False,
            {"protect": ["LocalStorage", "PersistentVolumes", "SingleReplica", "WithoutBudget"]},
        ),
        (
            "labelSelector",
            {"matchLabels": {"app": "web"}},
            {"matchExpressions": [{"key": "tier", "operator": "Exists"}]},
            {
                "podSelector": {
                    "matchExpressions": [
                        {"key": "app", "operator": "In", "values": ["web"]},
                        {"key": "tier", "operator": "Exists"},
                    ]
                }
            },
        ),
    ],
)
def test_where_profiles_differ_the_strictest_rule_of_eviction_holds_for_all(
    key: str, one: Any, other: Any, expected: dict[str, Any]
) -> None:
    for first, second in ((one, other), (other, one)):
        _, found = of_profiles(
            {"DefaultEvictor": {key: first}, "RemoveDuplicates": {}},
            {"DefaultEvictor": {key: second}, "RemovePodsViolatingNodeTaints": {}},
        )
        assert sorted(found.policy["evictable"], key=str) == sorted(expected, key=str)
        if key != "labelSelector":
            assert found.policy["evictable"] == expected
        assert key in found.warning or "name" in found.warning


def test_what_one_of_several_profiles_protects_more_is_protected_in_all() -> None:
    policy, found = of_profiles(
        {
            "DefaultEvictor": {
                "podProtections": {
                    "extraEnabled": ["PodsWithoutPDB"],
                    "defaultDisabled": ["PodsWithLocalStorage"],
                }
            },
            "RemoveDuplicates": {},
        },
        {"RemovePodsViolatingNodeTaints": {}},
    )

    assert {"WithoutBudget", "LocalStorage"} <= set(policy.evictable.protect)
    assert said(found, "podProtections")[0].startswith("not mapped: they are not alike")


def test_a_priority_class_whose_value_is_not_known_keeps_every_pod() -> None:
    policy, found = of_profiles(
        {"DefaultEvictor": {"priorityThreshold": {"name": "high"}}, "RemoveDuplicates": {}}
    )
    assert policy.evictable.priority_below == -(2**31)
    assert "kubectl get priorityclass high" in said(found, "high")[0]

    known = {"priorityThreshold": {"name": "system-node-critical"}}
    policy, found = of_profiles({"DefaultEvictor": known, "RemoveDuplicates": {}})
    assert (policy.evictable.priority_below, found.warning) == (2_000_000_000, "")


def test_a_plugin_that_two_profiles_configure_differently_is_mapped_once() -> None:
    policy, found = of_profiles(
        {"PodLifeTime": {"maxPodLifeTimeSeconds": 86400, "namespaces": {"include": ["a"]}}},
        {"PodLifeTime": {"maxPodLifeTimeSeconds": 60, "namespaces": {"include": ["b"]}}},
    )

    assert Lifetime.settings_in(policy) is not None
    assert found.policy["strategies"]["lifetime"]["maxAge"] == "86400s"
    assert policy.evictable.namespaces.include == ("a",)
    assert said(found, "PodLifeTime")[1].startswith("not mapped: it is enabled before with other arguments")


def test_rules_by_load_stand_beside_each_other_unless_they_read_other_figures() -> None:
    other = {"thresholds": {"memory": 20}, "targetThresholds": {"memory": 60}}
    policy, _ = of_profiles({"LowNodeUtilization": LOAD}, {"LowNodeUtilization": other})
    assert len(policy.hot_nodes.any) == 2

    measured = {**other, "metricsUtilization": {"source": "KubernetesMetrics"}}
    policy, found = of_profiles({"LowNodeUtilization": LOAD}, {"LowNodeUtilization": measured})
    assert found.policy["load"]["sources"] == [{"requests": {}}]
    assert len(policy.hot_nodes.any) == 1


def test_plugins_that_share_no_namespace_are_not_let_loose_on_all() -> None:
    policy, found = of_profiles(
        {"RemoveFailedPods": {"namespaces": {"include": ["a"]}}},
        {"RemovePodsViolatingInterPodAntiAffinity": {"namespaces": {"include": ["a", "b"]}}},
        {"RemoveDuplicates": {"namespaces": {"exclude": ["a"]}}},
        {"LowNodeUtilization": {**LOAD, "evictableNamespaces": {"exclude": ["c", "c"]}}},
    )

    assert policy.evictable.namespaces.include == ("a",)
    assert policy.evictable.namespaces.exclude == ("c", "kube-system")
    assert Failed.settings_in(policy) is not None

    policy, found = of_profiles(
        {"RemoveFailedPods": {"namespaces": {"include": ["a"]}}},
        {"LowNodeUtilization": {**LOAD, "evictableNamespaces": {"exclude": ["a"]}}},
    )
    assert Failed.settings_in(policy) is None
    assert said(found, "RemoveFailedPods")[0].startswith(
        "not mapped: plugins before it and what is excluded leave it"
    )


@pytest.mark.parametrize("more", [{}, {"maxPodLifeTimeSeconds": 60}])
def test_a_plugin_is_not_mapped_without_what_narrows_it(more: dict[str, Any]) -> None:
    """Conditions that ask since when a pod is Initialized are not read."""
    unread = {"type": "Initialized", "status": "True", "minTimeSinceLastTransitionSeconds": 60}
    policy, found = of_profiles({"PodLifeTime": {**more, "conditions": [unread]}})
    assert Lifetime.settings_in(policy) is None
    assert said(found, "PodLifeTime") == ["not mapped: without conditions it would evict more than there"]

    read = {"type": "Ready", "status": "False"}
    policy, found = of_profiles({"PodLifeTime": {**more, "conditions": [unread, read]}})
    settings = Lifetime.settings_in(policy)
    assert isinstance(settings, LifetimeSettings)
    assert [item.type for item in settings.conditions] == ["Ready"]
    assert said(found, "conditions")[0].startswith("not mapped: ")


def test_words_that_a_list_has_twice_count_once() -> None:
    policy, found = of_profiles(
        {"RemovePodsHavingTooManyRestarts": {"podRestartThreshold": 5, "states": ["Running", "Running"]}}
    )

    assert Restarts.settings_in(policy) is not None
    assert found.policy["strategies"]["restarts"]["states"] == ["Running"]
    assert found.warning == ""


@rows("age", ["0", "1us", "-5m", "soon"])
def test_an_age_that_cannot_be_said_here_leaves_ours(age: str) -> None:
    policy, found = of_profiles({"DefaultEvictor": {"minPodAge": age}, "RemoveDuplicates": {}})

    assert policy.evictable.min_age == RebalancePolicy().evictable.min_age
    assert said(found, "minPodAge") == [f'not mapped: evictable.minAge cannot be "{age}"']


def test_failed_pods_without_a_controller_are_no_reason_to_remove_those_that_succeeded() -> None:
    evictor = {"evictFailedBarePods": True}
    policy, found = of_profiles({"DefaultEvictor": evictor, "PodLifeTime": {"maxPodLifeTimeSeconds": 60}})

    settings = Lifetime.settings_in(policy)
    assert isinstance(settings, LifetimeSettings)
    assert not settings.bare_pods
    assert said(found, "evictFailedBarePods")[0].startswith("not mapped: strategies.lifetime.barePods")


def test_namespaces_that_the_operator_of_openshift_spares_are_not_included() -> None:
    policy, found = imported("""
apiVersion: operator.openshift.io/v1
kind: KubeDescheduler
spec:
  profiles: [AffinityAndTaints]
  profileCustomizations: {namespaces: {included: [kube-system, openshift-etcd, shop]}}
""")

    assert policy.evictable.namespaces.include == ("shop",)
    assert found.policy["strategies"]

    _, found = imported("""
apiVersion: operator.openshift.io/v1
kind: KubeDescheduler
spec:
  profiles: [AffinityAndTaints]
  profileCustomizations: {namespaces: {included: [kube-system]}}
""")
    assert "strategies" not in found.policy


@pytest.mark.parametrize("percent", [0, 101])
def test_a_target_that_no_rule_of_ours_can_have_is_named(percent: int) -> None:
    targets = {"cpu": percent, "memory": 20}
    load = {"thresholds": {"cpu": 0}, "targetThresholds": targets, "useDeviationThresholds": True}
    policy, found = of_profiles({"LowNodeUtilization": load}, {"LowNodeUtilization": copy.deepcopy(load)})

    assert found.policy["hotNodes"]["any"] == [{"deviation": {"memory": 20}, "coolTo": {"memory": 20}}]
    assert said(found, "cpu")[0] == f"not mapped: hotNodes.any[].deviation cannot be {percent}"
    assert len(policy.hot_nodes.any) == 1


def test_what_holds_whatever_a_file_says_is_no_difference_between_profiles() -> None:
    _, found = of_profiles(
        {"DefaultEvictor": {"nodeFit": True, "noEvictionPolicy": "Mandatory"}, "RemoveDuplicates": {}},
        {"DefaultEvictor": {"nodeFit": False}, "RemovePodsViolatingNodeTaints": {}},
        {"DefaultEvictor": {"noEvictionPolicy": "Preferred"}, "PodLifeTime": {"maxPodLifeTimeSeconds": 60}},
    )

    assert found.warning == ""
    assert said(found, "nodeFit")[0].startswith("changed: always")
    assert said(found, "noEvictionPolicy")[0].startswith("mapped")


def test_a_plugin_that_may_act_in_kube_system_is_said_not_to() -> None:
    policy, found = of_profiles(
        {
            "PodLifeTime": {"maxPodLifeTimeSeconds": 60, "namespaces": {"include": ["kube-system"]}},
            "RemoveDuplicates": {},
        }
    )

    assert not policy.evictable.namespaces.allows("kube-system")
    assert said(found, "namespaces") == [
        "narrowed: strategies.lifetime.namespaces: kube-system stays out, by evictable.namespaces"
    ]
