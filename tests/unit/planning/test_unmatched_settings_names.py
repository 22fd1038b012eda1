from __future__ import annotations

import typing
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel

from rebalancer.cluster.snapshot import Snapshot, build_snapshot
from rebalancer.planning.inputs import SchedulerFacts
from rebalancer.planning.strategies import STRATEGIES
from rebalancer.planning.unmatched_settings import LISTS_OF_NAMES, unmatched_names, unmatched_protections
from rebalancer.planning.warnings import sentences
from rebalancer.policy.model import Selector
from rebalancer.policy.schema import Namespaces, RebalancePolicy
from rebalancer.policy.scopes import Scope
from rebalancer.scheduling.registry import default_configuration
from tests.builders import a_node, a_pod, a_recording
from tests.rows import rows


def warnings(
    neutral: tuple[str, ...] = (), namespaces: tuple[str, ...] = ("shop",), **policy: Any
) -> tuple[str, ...]:
    found = RebalancePolicy.model_validate(policy)
    scheduler = SchedulerFacts(default_configuration(), found.schedulers[0])
    return sentences(unmatched_names(found, a_cluster(namespaces), (scheduler,), neutral))


def a_cluster(namespaces: tuple[str, ...] = ("shop",), nodes: list[Any] | None = None) -> Snapshot:
    recording = a_recording(
        None,
        nodes=nodes or [a_node("n1")],
        pods=[a_pod("web-1", node="n1", namespace="shop", labels={"app": "web"})],
        namespaces=[{"metadata": {"name": name, "labels": {"team": "web"}}} for name in namespaces],
        storageclasses=[{"metadata": {"name": "fast"}, "provisioner": "x"}],
    )
    return build_snapshot(recording)


@rows(
    "policy, sentence",
    [
        ({"scheduler": {"profiles": ["trimarann"]}}, "scheduler.profiles names the profile trimarann"),
        ({"scheduler": {"assumeNeutral": ["Foo"]}}, "scheduler.assumeNeutral names the plugin Foo"),
        (
            {"scheduler": {"pods": {"namespace": "ops", "matchLabels": {"app": "scheduler"}}}},
            "scheduler.pods selects no pod of ops: app=scheduler",
        ),
        (
            {"hotNodes": {"any": [{"score": {"plugins": ["NodeResourceFit"], "below": 20}}]}},
            "did you mean NodeResourcesFit?",
        ),
        ({"evictable": {"namespaces": {"exclude": ["shopp"]}}}, "did you mean shop?"),
        ({"evictable": {"namespaces": {"include": ["nosuch"]}}}, "names the namespace nosuch"),
        (
            {"hotNodes": {"nodeSelector": {"matchLabels": {"rol": "worker"}}}},
            "hotNodes.nodeSelector selects no node: rol=worker",
        ),
        (
            {"hotNodes": {"pools": [{"name": "gpu", "nodeSelector": {"matchLabels": {"a": "b"}}}]}},
            "hotNodes.pools gpu: nodeSelector selects no node: a=b",
        ),
        (
            {"evictable": {"windows": [{"from": "00:00", "to": "00:00", "namespaces": ["shopp"]}]}},
            "evictable.windows[0].namespaces names the namespace shopp",
        ),
        (
            {"evictable": {"blackouts": [{"from": "12-24", "to": "12-26", "namespaces": ["no-*"]}]}},
            "evictable.blackouts[0].namespaces names the namespace no-*",
        ),
        (
            {"limits": {"scoped": [{"perRun": 1, "nodeSelector": {"matchLabels": {"a": "b"}}}]}},
            "limits.scoped[0].nodeSelector selects no node: a=b",
        ),
        ({"evictable": {"podSelector": {"matchLabels": {"app": "wep"}}}}, "podSelector selects no pod"),
        (
            {"evictable": {"namespaceSelector": {"matchLabels": {"a": "b"}}}},
            "evictable.namespaceSelector selects no namespace: a=b",
        ),
        ({"evictable": {"protectStorageClasses": ["fats"]}}, "names the storage class fats"),
        (
            {"strategies": {"failed": {"excludeOwnerKinds": ["Jobb"]}}},
            "strategies.failed.excludeOwnerKinds names the kind Jobb, which the cluster does not have "
            "(did you mean Job?)",
        ),
        ({"strategies": {"failed": {"reasons": ["Evictd"]}}}, "the reason Evictd"),
        ({"strategies": {"lifetime": {"states": ["CrashLopBackOff"]}}}, "did you mean CrashLoopBackOff?"),
        ({"strategies": {"restarts": {"includeOwnerKinds": ["ReplicaSett"]}}}, "did you mean ReplicaSet?"),
        ({"strategies": {"restarts": {"namespaces": {"include": ["shopp"]}}}}, "restarts.namespaces.include"),
        (
            {"strategies": {"duplicates": {"podSelector": {"matchLabels": {"app": "wep"}}}}},
            "strategies.duplicates.podSelector selects no pod: app=wep",
        ),
        ({"strategies": {"misplaced": {"excludedTaints": ["no/such"]}}}, "names the taint no/such"),
        ({"strategies": {"misplaced": {"includedTaints": ["no/such"]}}}, "names the taint no/such"),
        (
            {"strategies": {"consolidation": {"nodeSelector": {"matchLabels": {"a": "b"}}}}},
            "strategies.consolidation.nodeSelector selects no node: a=b",
        ),
        ({"strategies": {"consolidation": {"prices": {"m7.large": 1}}}}, "names the instance type m7.large"),
        (
            {"strategies": {"fragmentation": {"workloads": ["shop/Deployment/wep"]}}},
            "names the workload shop/Deployment/wep",
        ),
    ],
)
def test_a_name_that_matches_nothing_is_said(policy: dict[str, Any], sentence: str) -> None:
    (line,) = warnings(**policy)

    assert sentence in line


def label(key: str, operator: str, *values: str) -> dict[str, Any]:
    expression = {"key": key, "operator": operator} | ({"values": list(values)} if values else {})
    return {"matchExpressions": [expression]}


@rows(
    "policy, sentence",
    [
        (
            {"evictable": {"podSelector": label("ap", "NotIn", "db")}},
            "evictable.podSelector names the label ap, which no pod has (did you mean app?)",
        ),
        (
            {"evictable": {"namespaceSelector": label("taem", "NotIn", "db")}},
            "evictable.namespaceSelector names the label taem, which no namespace has (did you mean team?)",
        ),
        (
            {"hotNodes": {"nodeSelector": label("pol", "NotIn", "db")}},
            "hotNodes.nodeSelector names the label pol, which no node has (did you mean pool?)",
        ),
        (
            {"strategies": {"duplicates": {"podSelector": label("ap", "NotIn", "db")}}},
            "strategies.duplicates.podSelector names the label ap, which no pod has (did you mean app?)",
        ),
        (
            {"limits": {"scoped": [{"perRun": 1, "nodeSelector": {"matchLabels": {"pol": "db"}}}]}},
            "limits.scoped[0].nodeSelector selects no node: pol=db; no node has the label pol "
            "(did you mean pool?)",
        ),
        (
            {
                "evictable": {
                    "blackouts": [{"from": "12-24", "to": "12-26", "nodeSelector": label("p", "Exists")}]
                }
            },
            "evictable.blackouts[0].nodeSelector selects no node: p Exists; no node has the label p",
        ),
    ],
)
def test_a_label_that_nothing_has_protects_nothing_where_a_policy_protects_by_it(
    policy: dict[str, Any], sentence: str
) -> None:
    snapshot = a_cluster(nodes=[a_node("n1", labels={"pool": "web"})])
    assert unmatched_protections(RebalancePolicy.model_validate(policy), snapshot) == (sentence,)


def test_a_label_that_must_not_exist_protects_whether_or_not_anything_has_it_and_a_misspelt_one_is_said() -> (
    None
):
    snapshot = a_cluster()
    for key, said in (("exempt", 0), ("example.com/app", 0), ("appp", 1)):
        policy: dict[str, Any] = {"evictable": {"podSelector": label(key, "DoesNotExist")}}
        assert unmatched_protections(RebalancePolicy.model_validate(policy), snapshot) == ()
        assert len(warnings(**policy)) == said
    assert "evictable.podSelector names the label appp, which no pod has (did you mean app?)" in warnings(
        **policy
    )


def test_a_value_that_no_object_has_is_no_mistake_where_the_label_is_there() -> None:
    policy: dict[str, Any] = {"evictable": {"podSelector": label("app", "NotIn", "db")}}
    assert unmatched_protections(RebalancePolicy.model_validate(policy), a_cluster()) == ()
    assert warnings(**policy) == ()


def test_an_option_that_matches_nothing_is_said() -> None:
    (line,) = warnings(("Foo",))

    assert line.startswith("--assume-neutral names the plugin Foo")


def test_a_plugin_that_is_known_is_not_assumed_neutral_and_that_is_said() -> None:
    (line,) = warnings(scheduler={"assumeNeutral": ["ImageLocality"]})

    assert line.startswith(
        "scheduler.assumeNeutral names the plugin ImageLocality, which is known: it is not"
    )


def test_a_feature_gate_on_which_nothing_depends_that_is_modelled_is_said() -> None:
    gates = {"PodLevelResource": False, "VolumeLimitScaling": False, "AllBeta": False}
    (line,) = warnings(scheduler={"featureGates": gates})

    assert line == (
        "scheduler.featureGates names the feature gate PodLevelResource, which the model of the scheduler "
        "does not have (did you mean PodLevelResources?)"
    )


def test_names_that_match_are_not_mentioned() -> None:
    assert not warnings(
        scheduler={"profiles": ["default-scheduler"]},
        evictable={
            "namespaces": {"include": ["shop"]},
            "podSelector": {"matchLabels": {"app": "web"}},
            "protectStorageClasses": ["fast"],
        },
    )


def test_what_strategies_name_by_default_or_may_meet_later_is_not_mentioned() -> None:
    settings = {"states": ["Pending", "CrashLoopBackOff"], "excludeOwnerKinds": ["Job", "StatefulSet"]}

    assert not warnings(
        strategies={"lifetime": settings, "misplaced": True, "failed": {"reasons": ["Evicted"]}}
    )


# Lists that name nothing of the cluster: numbers, words of their own, or what is read only on demand.
NAMES_NOTHING = {"exit_codes", "constraints", "conditions", "filters", "thresholds", "eviction_modes"}


def test_every_list_of_a_strategy_that_names_things_is_looked_up() -> None:
    lists = {
        (strategy.name, key)
        for strategy in STRATEGIES
        if strategy.name != "hotNodes"
        for key, field in strategy.settings_type.model_fields.items()
        if isinstance(field.default, (tuple, dict))
        or any(typing.get_origin(part) is tuple for part in _parts(field.annotation))
    }

    assert {key for _, key in lists} - NAMES_NOTHING == set(LISTS_OF_NAMES), (
        "say what the items name: in LISTS_OF_NAMES of rebalancer/planning/unmatched_settings.py, with a "
        "case above; if it is nothing of the cluster, in NAMES_NOTHING"
    )


def _parts(annotation: Any) -> Iterator[Any]:
    yield annotation
    for part in typing.get_args(annotation):
        yield from _parts(part)


def _choosing(model: type[BaseModel], seen: set[type[BaseModel]]) -> Iterator[tuple[str, str]]:
    """Model and field of whatever chooses nodes, pods or namespaces in a policy, strategies left out."""
    seen.add(model)
    for name, field in model.model_fields.items():
        for part in _parts(field.annotation):
            if not (isinstance(part, type) and issubclass(part, BaseModel)):
                continue
            if issubclass(part, (Selector, Namespaces)):
                yield model.__name__, name
            elif part not in seen:
                yield from _choosing(part, seen)
        if name == "namespaces" and typing.get_origin(field.annotation) is tuple:
            yield model.__name__, name


def test_every_field_that_chooses_nodes_pods_or_namespaces_is_one_that_is_looked_at() -> None:
    scopes = {
        (scope, field) for scope in ("Window", "Blackout", "ScopedLimit") for field in Scope.model_fields
    }
    of_pods = {("Evictable", name) for name in ("namespaces", "namespace_selector", "pod_selector")}

    assert set(_choosing(RebalancePolicy, set())) == {
        *scopes,
        *of_pods,
        ("HotNodes", "node_selector"),
        ("Pool", "node_selector"),
    }, "let unmatched_names look at it, and add a case above"


def test_the_names_that_there_are_are_listed_whole_or_the_rest_is_counted() -> None:
    """A list that is cut without a word would deny the namespaces that it leaves out."""

    def listed(count: int) -> str:
        names = ("shop", *(f"team-{number:02d}" for number in range(1, count)))
        (said,) = warnings(namespaces=names, evictable={"namespaces": {"include": ["payments"]}})
        return said.partition("(it has: ")[2].rstrip(")")

    assert listed(8) == ", ".join(["shop", *(f"team-{number:02d}" for number in range(1, 8))])
    assert listed(12).endswith("team-09 and 2 more")
