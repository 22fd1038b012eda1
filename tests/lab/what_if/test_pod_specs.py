from __future__ import annotations

import json
from typing import Any

import pytest

from rebalancer.cluster.records import Toleration
from rebalancer.cluster.snapshot import Snapshot
from rebalancer.errors import InputError
from rebalancer.scheduling.resources import pod_requests
from rebalancer_lab.what_if.pod_specs import read_pod
from tests.builders import a_node, a_snapshot
from tests.lab.what_if.builders import a_manifest, a_pod_spec, asked
from tests.rows import rows

CLUSTER = a_snapshot(nodes=[a_node("a")], priorityclasses=[])


def error_of(content: Any, cluster: Snapshot = CLUSTER, **options: Any) -> str:
    text = content if isinstance(content, str) else json.dumps(content)
    with pytest.raises(InputError) as caught:
        asked(json.loads(text), cluster, **options) if not isinstance(content, str) else read_pod(
            text, "file"
        )
    line = str(caught.value)
    assert "\n" not in line
    assert line.isprintable()
    return line


@rows("kind", ["Pod", "Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "Rollout"])
def test_a_pod_is_found_in_every_kind_that_makes_pods(kind: str) -> None:
    found = asked(a_manifest(kind), CLUSTER)

    assert found.name == f"{kind} default/new"
    assert pod_requests(found.pod_class).incoming["cpu"] == 1000
    expected = {"Pod": "", "Deployment": "ReplicaSet", "Rollout": "ReplicaSet"}.get(kind, kind)
    assert found.pod_class.owner.kind == expected


def test_a_pod_template_and_a_cron_job_hold_pods_too() -> None:
    template = {"metadata": {"labels": {}}, "spec": a_pod_spec()}
    job = {"spec": {"template": template}}

    for manifest in (
        {"kind": "PodTemplate", "metadata": {"name": "x"}, "template": template},
        {"kind": "CronJob", "metadata": {"name": "x"}, "spec": {"jobTemplate": job}},
    ):
        assert pod_requests(asked(manifest, CLUSTER).pod_class).incoming["cpu"] == 1000


def test_a_limit_without_a_request_is_a_request() -> None:
    spec: dict[str, Any] = {
        "containers": [{"name": "main", "resources": {"limits": {"cpu": 2}, "requests": {"memory": 1}}}]
    }

    requests = pod_requests(asked(a_manifest(**spec), CLUSTER).pod_class).incoming

    assert (requests["cpu"], requests["memory"]) == (2000, 1)


def test_a_port_of_a_pod_in_the_network_of_its_host_is_taken_there() -> None:
    spec: dict[str, Any] = {
        "hostNetwork": True,
        "containers": [{"name": "main", "ports": [{"containerPort": 80}]}],
    }

    containers = asked(a_manifest(**spec), CLUSTER).pod_class.spec.containers

    assert containers
    assert [port.host_port for port in containers[0].ports or ()] == [80]


def test_every_pod_tolerates_for_a_while_a_node_that_is_not_ready() -> None:
    own = {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute", "operator": "Exists"}

    added = asked(a_manifest(tolerations=[own]), CLUSTER).pod_class.spec.tolerations
    everything = asked(a_manifest(tolerations=[{"operator": "Exists"}]), CLUSTER).pod_class.spec.tolerations

    unreachable = Toleration("node.kubernetes.io/unreachable", "Exists", "", "NoExecute")
    assert added is not None
    assert added[1:] == [unreachable]
    assert everything == [Toleration(operator="Exists")]


def test_a_priority_class_gives_its_priority_and_the_default_class_its_own() -> None:
    classes = [
        {"metadata": {"name": "usual"}, "value": 5, "globalDefault": True},
        {"metadata": {"name": "vital"}, "value": 1000},
    ]
    cluster = a_snapshot(nodes=[a_node("a")], priorityclasses=classes)

    assert asked(a_manifest(), cluster).pod_class.priority == 5
    assert asked(a_manifest(priorityClassName="vital"), cluster).pod_class.priority == 1000


def test_the_classes_that_every_api_server_makes_need_not_be_recorded() -> None:
    found = asked(a_manifest(priorityClassName="system-node-critical"), CLUSTER)

    assert found.pod_class.priority == 2_000_001_000


def test_a_priority_class_says_whether_its_pods_preempt_unless_they_say_it_themselves() -> None:
    classes = [{"metadata": {"name": "patient"}, "value": 1000, "preemptionPolicy": "Never"}]
    cluster = a_snapshot(nodes=[a_node("a")], priorityclasses=classes)
    own = a_manifest(priorityClassName="patient", preemptionPolicy="PreemptLowerPriority")

    found = asked(a_manifest(priorityClassName="patient"), cluster).pod_class

    assert found.spec.preemption_policy == "Never"
    assert asked(own, cluster).pod_class.spec.preemption_policy == "PreemptLowerPriority"


def test_a_runtime_class_adds_its_overhead_node_selector_and_tolerations() -> None:
    scheduling = {"nodeSelector": {"vm": "true"}, "tolerations": [{"key": "vm", "operator": "Exists"}]}
    kata = {"metadata": {"name": "kata"}, "overhead": {"podFixed": {"cpu": "250m"}}, "scheduling": scheduling}
    cluster = a_snapshot(nodes=[a_node("a")], runtimeclasses=[kata])

    found = asked(a_manifest(runtimeClassName="kata"), cluster)

    assert pod_requests(found.pod_class).incoming["cpu"] == 1250
    assert found.pod_class.spec.node_selector == {"vm": "true"}
    assert Toleration(key="vm", operator="Exists") in (found.pod_class.spec.tolerations or ())
    assert not any("overhead" in note for note in found.notes)
    assert "there is no class 'gone'" in error_of(a_manifest(runtimeClassName="gone"), cluster=cluster)


def test_an_overhead_that_the_pod_itself_names_is_counted_and_not_said_to_be_unknown() -> None:
    found = asked(a_manifest(runtimeClassName="kata", overhead={"cpu": "250m"}), CLUSTER)

    assert pod_requests(found.pod_class).incoming["cpu"] == 1250
    assert not any("overhead" in note for note in found.notes)


def test_priority_classes_that_were_not_read_are_said_to_be_unknown() -> None:
    found = asked(a_manifest(priorityClassName="vital"), a_snapshot(nodes=[a_node("a")]))

    assert found.notes == ("priority classes were not read: the priority of class 'vital' is taken as 0",)


def test_what_nobody_knows_of_a_pod_is_said() -> None:
    found = asked(a_manifest(nodeName="a", runtimeClassName="gvisor"), CLUSTER)

    assert any("nodeName" in note for note in found.notes)
    assert any("runtimeClassName" in note for note in found.notes)


def test_a_namespace_is_that_of_the_file_or_of_the_option() -> None:
    assert asked(a_manifest(), CLUSTER, "shop").pod_class.namespace == "shop"
    assert asked(a_manifest(namespace="shop"), CLUSTER).pod_class.namespace == "shop"
    assert "is not -n 'other'" in error_of(a_manifest(namespace="shop"), namespace="other")


@rows(
    "content, words",
    [
        ("[]", "is not a Kubernetes object"),
        ("", "holds no Kubernetes object"),
        ('{"kind": "Node\\u001b[2J"}', "makes no pods"),
        ('{"kind": {"a": 1}}', "makes no pods"),
        ("kind: Pod\n---\nkind: Pod\n", "2 objects make pods"),
        (
            {"kind": "Rollout", "spec": {"workloadRef": {"kind": "Deployment", "name": "a"}}},
            "of Deployment a",
        ),
        ({"kind": "Deployment"}, "has no spec"),
        ({"kind": "Deployment", "spec": {}}, "has no template"),
        ({"kind": "Deployment", "spec": "x"}, "has no template"),
        ({"kind": "Pod", "metadata": {}}, "has no containers"),
        (a_manifest("Deployment") | {"spec": a_manifest("Deployment")["spec"] | {"replicas": -3}}, "below 0"),
        ({"kind": "Pod", "metadata": []}, "cannot be read"),
        ({"kind": "Pod", "metadata": "x"}, "should be a mapping"),
        ({"kind": "Pod", "metadata": {"name": "\u001b[2J"}}, "is not a name"),
        (a_manifest(**a_pod_spec(cpu="-1")), "is negative"),
        (a_manifest(**a_pod_spec(cpu="many\u001b[2J")), "requests.cpu"),
        (a_manifest(**a_pod_spec(cpu=True)), "cannot be read"),
        (a_manifest(priorityClassName="no\u001b[2Jne"), "there is no class"),
        (a_manifest(containers=[{"name": 5}]), "cannot be read"),
    ],
)
def test_a_file_that_holds_no_pod_is_refused_in_one_line(content: Any, words: str) -> None:
    assert words in error_of(content)


def test_a_selector_that_does_not_select_its_own_pods_is_refused() -> None:
    manifest = a_manifest("Deployment")
    manifest["spec"]["selector"] = {"matchLabels": {"app": "other"}}

    assert "does not select the pods of the template" in error_of(manifest)
    manifest["spec"]["selector"] = {"matchExpressions": [{"key": "app", "operator": "Like"}]}
    assert "is not a selector" in error_of(manifest)


@pytest.mark.parametrize("kind", ["Deployment", "ReplicaSet", "StatefulSet"])
def test_a_controller_without_a_selector_is_refused_as_the_api_server_does(kind: str) -> None:
    manifest = a_manifest(kind)

    assert "has no selector" in error_of(manifest | {"spec": {"template": manifest["spec"]["template"]}})
    assert "spec.selector: is empty" in error_of(manifest | {"spec": manifest["spec"] | {"selector": {}}})


@rows(
    "requests, limits, words",
    [
        ({"cpu": 2}, {"cpu": "1500m"}, "container 'main' requests 'cpu' 2, more than its limit 1500m"),
        ({"memory": "1Gi"}, {"memory": "1G"}, "requests 'memory' 1Gi, more than its limit 1G"),
        (
            {"nvidia.com/gpu": 1},
            {"nvidia.com/gpu": 2},
            "requests 'nvidia.com/gpu' 1, which has to be its limit 2",
        ),
        ({"hugepages-2Mi": "2Mi"}, {}, "requests 'hugepages-2Mi' without a limit, which has to be the same"),
        ({"cpu": 1}, {"cpu": "much"}, "is not a Kubernetes quantity"),
    ],
)
def test_requests_that_the_api_server_refuses_for_their_limits_are_refused(
    requests: dict[str, Any], limits: dict[str, Any], words: str
) -> None:
    resources = {"requests": requests, "limits": limits}
    container = {"name": "main", "resources": resources}

    assert words in error_of(a_manifest("Deployment", containers=[container]))
    assert words in error_of(a_manifest(initContainers=[container]))
    whole = error_of(a_manifest(resources=resources))
    assert words.removeprefix("container 'main' ") in whole


def test_requests_below_a_limit_that_may_be_overcommitted_are_taken() -> None:
    resources = {"requests": {"cpu": 1, "a.kubernetes.io/b": 1}, "limits": {"cpu": 2, "nvidia.com/gpu": 1}}

    found = asked(a_manifest(containers=[{"name": "main", "resources": resources}]), CLUSTER)

    assert pod_requests(found.pod_class).incoming["nvidia.com/gpu"] == 1


def test_the_list_of_one_object_that_kubectl_prints_for_a_selector_is_that_object() -> None:
    one = {"apiVersion": "v1", "kind": "List", "items": [a_manifest("Deployment")]}
    two = one | {"items": [a_manifest(), a_manifest()]}

    assert asked(one, CLUSTER).name == "Deployment default/new"
    assert "2 objects make pods: pod/new, pod/new" in error_of(two)
    assert "'List' makes no pods" in error_of({"kind": "List"})


def test_a_mistake_in_the_only_object_of_a_list_is_shown_where_it_stands() -> None:
    text = "kind: List\nitems:\n- kind: Deployment\n  metadata:\n    namespace: shop\n"

    with pytest.raises(InputError, match=r"file:5:16 metadata.namespace: 'shop' is not -n 'other'"):
        read_pod(text, "file", "other")
