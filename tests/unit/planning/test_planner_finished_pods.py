"""Pods that have succeeded or failed count nowhere: whatever they ask for, a plan is as without them."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from rebalancer.planning.plan import encode
from rebalancer.planning.planner import Planner
from tests.builders import a_pod, owned_by
from tests.conftest import examples
from tests.pod_statuses import statuses
from tests.unit.planning.builders import a_policy, planning_inputs
from tests.unit.planning.random_clusters import Cluster, clusters

_MORE: tuple[dict[str, Any], ...] = (
    {},
    {"hostNetwork": True, "containers": [{"name": "main", "ports": [{"containerPort": 80, "hostPort": 80}]}]},
    {"schedulerName": "unheard-of"},
    {"priority": 2_000_000_000, "nodeSelector": {"zone": "one"}},
    {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]},
    {"overhead": {"cpu": "-1"}},  # which no server stores
    {"overhead": {"example.com/gpu": "1"}},
)


def finished_pods(data: st.DataObject, cluster: Cluster) -> list[dict[str, Any]]:
    """Pods of the cluster's own workloads and of none, on its nodes, that have come to their end."""
    found: list[dict[str, Any]] = []
    siblings = [pod for workload in cluster.workloads for pod in workload.pods]
    for number in range(data.draw(st.integers(1, 8))):
        name = f"over-{number}"
        if siblings and number % 2:
            pod = copy.deepcopy(data.draw(st.sampled_from(siblings)))
            pod["metadata"] |= {"name": name, "uid": f"uid-{name}"}
        else:
            node = data.draw(st.sampled_from([item["metadata"]["name"] for item in cluster.nodes]))
            pod = a_pod(name, node=node, cpu="1", memory="1Gi", owner=owned_by("Job", name))
        pod["spec"] |= data.draw(st.sampled_from(_MORE))
        pod["status"] |= data.draw(statuses())
        pod["status"]["phase"] = data.draw(st.sampled_from(("Succeeded", "Failed")))
        if data.draw(st.booleans()):
            pod["metadata"]["deletionTimestamp"] = "2026-03-04T05:06:07Z"
        found.append(pod)
    return found


@settings(max_examples=examples(80), deadline=None)
@given(st.data(), clusters())
def test_a_plan_is_as_without_finished_pods(data: st.DataObject, cluster: Cluster) -> None:
    finished = finished_pods(data, cluster)
    without = cluster.inputs()
    more = planning_inputs(
        cluster.nodes,
        cluster.workloads,
        pods=finished,
        poddisruptionbudgets=cluster.budgets,
        load=cluster.load,
        pod_load=cluster.pod_load,
        policy=a_policy(**cluster.policy),
    )

    every = more.snapshot.pods.with_finished
    assert len(every) + len(more.snapshot.malformed) == len(without.snapshot.pods) + len(finished)
    recording = replace(more.snapshot.recording, listings=without.snapshot.recording.listings)
    named = replace(more.snapshot, recording=recording)  # those that cannot be read are named
    assert encode(Planner(replace(more, snapshot=named)).plan()) == encode(Planner(without).plan())
