"""A server that a benchmark fills by way of its etcd has the pods that it would have made itself."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from bench.cluster import generate
from bench.loading import Etcd, Loader, Server
from tests.e2e.controlplane import ControlPlane

NODES, PODS = 3, 60
OWN = ("name", "uid", "resourceVersion", "creationTimestamp", "managedFields")


def without_its_own(pod: dict[str, Any]) -> str:
    """What pods of a workload share; admission names the volume of a token anew for each."""
    metadata = {name: value for name, value in pod["metadata"].items() if name not in OWN}
    shared = json.dumps([metadata, {**pod["spec"], "nodeName": ""}], sort_keys=True)
    return re.sub(r"kube-api-access-\w+", "kube-api-access", shared)


def test_copies_of_a_workloads_first_pod_are_as_the_server_made_that_one(tmp_path: Path) -> None:
    plane = ControlPlane(tmp_path)
    with plane.start(controllers=False, scheduler=False, kwok=False):
        generated = generate(NODES, PODS)
        expected = {pod["metadata"]["name"]: pod for pod in generate(NODES, PODS)["pods"]}
        Loader(Server(plane.kubeconfig()), 1, Etcd(plane.etcd)).load(generated)
        pods = plane.api.list("/api/v1/pods")
    assert {pod["metadata"]["name"] for pod in pods} == set(expected)
    assert len({pod["metadata"]["uid"] for pod in pods}) == len(pods)
    by_workload: dict[str, list[dict[str, Any]]] = {}
    for pod in pods:
        wanted = expected[pod["metadata"]["name"]]
        assert pod["spec"]["nodeName"] == wanted["spec"]["nodeName"]
        assert pod["status"]["phase"] == wanted["status"]["phase"]
        by_workload.setdefault(pod["metadata"]["ownerReferences"][0]["uid"], []).append(pod)
    assert len(by_workload) < len(pods) // 2
    for made in by_workload.values():
        assert all(without_its_own(pod) == without_its_own(made[0]) for pod in made)
