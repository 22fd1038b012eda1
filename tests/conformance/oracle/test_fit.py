"""How many pods fit, and where they land, is what the real scheduler says of one pod after the other."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from rebalancer_lab.what_if.fit import Fit
from tests.builders import a_node, a_pod, owned_by
from tests.conformance.oracle import build
from tests.conformance.oracle.process import Oracle
from tests.conftest import ORACLE_MINOR
from tests.lab.what_if.builders import APART, LABELS, SPREAD, a_manifest, a_pod_spec, fit_of
from tests.unit.planning.builders import planning_inputs, with_scheduler

CASES = 40
CONFIGURATION = '{"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}'
TAINT = {"key": "special", "effect": "NoSchedule"}


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    with Oracle(build.program(ORACLE_MINOR)) as program:
        yield program


def cluster(draw: random.Random) -> tuple[list[Any], list[Any], dict[str, Any]]:
    """Nodes, the pods that run on them, and the spec of the pods asked about."""
    nodes = [
        a_node(
            f"n{number}",
            cpu=draw.randint(1, 4),
            pods=draw.randint(1, 6),
            labels={"zone": draw.choice("xyz")},
            taints=[TAINT] if draw.random() < 0.15 else [],
            unschedulable=draw.random() < 0.1,
        )
        for number in range(draw.randint(2, 6))
    ]
    pods = [
        a_pod(
            f"old-{number}",
            node=draw.choice(nodes)["metadata"]["name"],
            cpu=draw.choice(["100m", "250m", "500m"]),
            memory="64Mi",
            labels=draw.choice([{}, LABELS]),
            owner=owned_by("ReplicaSet", "old"),
        )
        for number in range(draw.randint(0, 4))
    ]
    spec = a_pod_spec(cpu=draw.choice(["500m", "1", "1500m"]), memory="64Mi")
    if draw.random() < 0.3:
        spec["affinity"] = APART
    if draw.random() < 0.3:
        spec["topologySpreadConstraints"] = SPREAD
    return nodes, pods, spec


@pytest.mark.parametrize("seed", range(CASES))
def test_the_scheduler_places_the_same_pods_and_stops_at_the_same_one(oracle: Oracle, seed: int) -> None:
    nodes, pods, spec = cluster(random.Random(seed))
    inputs = with_scheduler(planning_inputs(nodes, pods=pods), version=ORACLE_MINOR)
    answer = fit_of(inputs, a_manifest(**spec), at_most=10)
    landed: list[Any] = []
    for number in range(answer.fits + 1):
        decision = decided(oracle, nodes, [*pods, *landed], a_pod(f"new-{number}", labels=LABELS, **spec))
        totals = {
            name: found["total"] for name, found in decision["nodes"].items() if not found.get("filter")
        }
        if number == answer.fits:
            assert answer.fits == answer.at_most or stopped(answer) == rejected(decision), seed
            return
        node = answer.landings[number].node
        assert len(totals) == 1 or totals[node] == max(totals.values()), seed
        assert node in totals
        landed.append(a_pod(f"landed-{number}", node=node, labels=LABELS, **spec))


def decided(oracle: Oracle, nodes: list[Any], pods: list[Any], pending: dict[str, Any]) -> dict[str, Any]:
    objects = {"nodes": nodes, "pods": pods}
    case = {"id": "fit", "config": CONFIGURATION, "objects": objects, "pending": [pending]}
    (decision,) = oracle.answer(case)["pods"]
    return decision  # type: ignore[no-any-return]


def stopped(answer: Fit) -> Counter[str]:
    return Counter({item.reason: item.count for item in answer.stopped})


def rejected(decision: dict[str, Any]) -> Counter[str]:
    assert not decision.get("preFilter")
    return Counter(found["filter"] for found in decision["nodes"].values())
