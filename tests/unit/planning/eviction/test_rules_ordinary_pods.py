"""What rules say once of the ordinary pods of a class is what they say of each of its pods."""

from __future__ import annotations

from typing import Any, get_args

import numpy as np
import yaml
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from pydantic.alias_generators import to_camel

from rebalancer.cluster.arrays import PodRow
from rebalancer.cluster.nodes import NodeTable
from rebalancer.planning.eviction import EvictionContext, every_refusal, why_protected
from rebalancer.planning.inputs import PlannerOptions, PlanningInputs
from rebalancer.planning.prepared import prepare
from rebalancer.policy.schema import Evictable, Protection
from tests.builders import a_node
from tests.rows import rows
from tests.unit.planning.builders import a_policy, a_workload, at, planning_inputs
from tests.unit.planning.eviction.protected_pods import EVICT
from tests.unit.planning.random_clusters import Cluster, clusters
from tools.pages.policy_keys import EXAMPLES

Item = dict[str, Any]


def annotated(pod: Item) -> None:
    pod["metadata"]["annotations"] = {**pod["metadata"].get("annotations", {}), EVICT: "false"}


def terminating(pod: Item) -> None:
    pod["metadata"]["deletionTimestamp"] = at(-5)


def young(pod: Item) -> None:
    pod["metadata"]["creationTimestamp"] = at(-60)


def older(pod: Item) -> None:
    pod["metadata"]["creationTimestamp"] = at(-900_000)


def unready(pod: Item) -> None:
    pod["status"]["conditions"] = [{"type": "Ready", "status": "False"}]


def ending(pod: Item) -> None:
    pod["spec"]["activeDeadlineSeconds"] = 1
    pod["status"]["startTime"] = at(-5)


def debugged(pod: Item) -> None:
    pod["status"]["ephemeralContainerStatuses"] = [{"name": "debugger", "state": {"running": {}}}]


def of_newer_labels(pod: Item) -> None:
    pod["metadata"]["labels"] = {**pod["metadata"]["labels"], "revision": "2"}


CHANGES = [
    lambda _: None,
    lambda _: None,
    annotated,
    terminating,
    young,
    older,
    unready,
    ending,
    debugged,
    of_newer_labels,
]


def pod_by_pod(context: EvictionContext) -> EvictionContext:
    other = replace(context)
    other.__dict__["ordinary"] = np.zeros(len(context.pods), np.bool_)
    return other


@given(cluster=clusters(), data=st.data())
def test_a_class_is_refused_as_each_of_its_ordinary_pods_would_be(
    cluster: Cluster, data: st.DataObject
) -> None:
    pods = [pod for workload in cluster.workloads for pod in workload.pods]
    for pod in pods:
        data.draw(st.sampled_from(CHANGES))(pod)
    chosen = data.draw(st.sampled_from(pods))["metadata"]
    inputs = cluster.inputs()
    if data.draw(st.booleans()):
        inputs = replace(inputs, own_pod=f"{chosen['namespace']}/{chosen['name']}")
    context = prepare(inputs, options=PlannerOptions(ignore_coverage=True)).eviction
    alone = pod_by_pod(context)
    for row in data.draw(st.permutations(range(len(context.pods)))):
        assert why_protected(context, PodRow(row)) == why_protected(alone, PodRow(row))
        anew = pod_by_pod(context)  # nothing is known of a pod that it was asked about before
        assert tuple(every_refusal(context, PodRow(row))) == tuple(every_refusal(anew, PodRow(row)))


# What ``EvictionContext.ordinary`` looks at, or what a class has.
LOOKED_AT = {
    *("annotations", "created", "debugged_by", "names", "namespaces", "node", "ready", "terminating", "uids"),
    *("class_before_binding", "class_of", "classes", "full_name", "pod_class"),
}


class Watched:
    """Stands for what it wraps, and fails where anything else is read of it than is named."""

    def __init__(self, wrapped: Any, named: set[str]) -> None:
        self._wrapped, self._named = wrapped, named

    def __getattr__(self, name: str) -> Any:
        assert name in self._named, f"rules read {name}: say so in EvictionContext.ordinary, then here"
        return getattr(self._wrapped, name)

    def __len__(self) -> int:
        return len(self._wrapped)


def watched_nodes(nodes: NodeTable) -> Any:
    """Nodes of which rules read no more than whether they are ready, and whether somebody removes them."""
    records = []
    for node in nodes.records:
        labels: Any = Watched(node.metadata.labels or {"a": "b"}, set())  # of no window of an ordinary pod
        of_node: Any = Watched(replace(node.metadata, labels=labels), {"deletion_timestamp", "labels"})
        spec: Any = Watched(node.spec, {"taints"})
        records.append(Watched(replace(node, metadata=of_node, spec=spec), {"metadata", "spec"}))
    given: Any = records
    return Watched(replace(nodes, records=given), {"ready", "records"})


def settings_of_rules() -> list[Item]:
    """What a policy may say under ``evictable`` that makes a rule ask: every switch, choice and example."""
    found: list[Item] = [{}, {"protect": [item.value for item in Protection]}]
    for name, field in Evictable.model_fields.items():
        values = [True, False] if field.annotation is bool else get_args(field.annotation)
        found += [{to_camel(name): value} for value in values if isinstance(value, bool | str)]
    documents = yaml.safe_load_all(EXAMPLES.read_text())
    examples = [document.get("evictable", {}) for document in documents]
    return [*found, *({key: value} for example in examples for key, value in example.items())]


@given(cluster=clusters(), settings=st.sampled_from(settings_of_rules()))
def test_rules_read_nothing_else_of_ordinary_pods_than_what_makes_them_ordinary(
    cluster: Cluster, settings: Item
) -> None:
    cluster.policy["evictable"].update(settings)
    ordinary_pods_that_are_watched(cluster.inputs())


@rows("settings", settings_of_rules())
def test_no_setting_makes_a_rule_read_more_of_ordinary_pods(settings: Item) -> None:
    workloads = [a_workload(name, ["a", "b", "b"]) for name in ("web", "shop")]
    policy = a_policy(evictable=settings)
    watched = ordinary_pods_that_are_watched(
        planning_inputs([a_node("a"), a_node("b")], workloads, policy=policy)
    )
    assert watched == 4 or "nodeSelector" in str(settings)  # the newest of each workload is not ordinary


def ordinary_pods_that_are_watched(inputs: PlanningInputs) -> int:
    """How many pods are ordinary, each of which rules refused while it was watched what they read."""
    found = prepare(inputs, options=PlannerOptions(ignore_coverage=True)).eviction
    pods: Any = Watched(found.pods, LOOKED_AT)
    nodes = watched_nodes(found.nodes)
    inputs = replace(found.inputs, snapshot=replace(found.inputs.snapshot, pods=pods, nodes=nodes))
    watched = EvictionContext.of(inputs, found.unpredictable, found.claims, found.leaving)
    load: Any = Watched(inputs.load, set())
    watched = pod_by_pod(replace(watched, inputs=replace(inputs, load=load)))
    rows = np.flatnonzero(found.ordinary).tolist()
    for row in rows:
        assert tuple(every_refusal(watched, PodRow(row))) == tuple(every_refusal(found, PodRow(row)))
    return len(rows)


def test_ordinary_pods_are_asked_once_for_their_class() -> None:
    web = a_workload("web", ["a"] * 50)
    young(web.pods[7])
    inputs = planning_inputs([a_node("a")], [web], policy=a_policy(evictable={"minAge": 600}))
    context = prepare(inputs).eviction
    found = [why_protected(context, PodRow(row)) for row in range(50)]
    assert [item is not None for item in found].count(True) == 1
    assert int(np.count_nonzero(context.ordinary)) == 49  # not the young one, which is the newest too
    assert list(context.first_refusals) == [int(context.pods.pod_class[0])]
