"""A filter that would reject a pod on its own node, were it not there, has said before that it may."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np

from rebalancer.cluster.arrays import PodRow
from rebalancer.planning.inputs import PlanningInputs
from rebalancer.planning.landing.evaluation import Predecessor, with_predecessor
from rebalancer.planning.planner import prepare_to_plan
from rebalancer.planning.strategies.misplaced import MisplacedSettings
from tests.builders import a_node
from tests.unit.planning.builders import a_workload, planning_inputs

_CLUSTERS = 200
_KEYS = ("zone", "pool", "kubernetes.io/hostname")


def _terms(random: Random) -> list[dict[str, Any]]:
    count = random.choice((0, 0, 0, 1, 2))
    return [
        {
            "topologyKey": random.choice(_KEYS),
            "labelSelector": {"matchLabels": {"app": random.choice("abc")}},
        }
        for _ in range(count)
    ]


def _spec(random: Random, app: str) -> dict[str, Any]:
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    pods = {kind: {required: _terms(random)} for kind in ("podAffinity", "podAntiAffinity")}
    found: dict[str, Any] = {"affinity": pods}
    if random.random() < 0.2:
        found["nodeSelector"] = {"pool": "x"}
    if random.random() < 0.3:
        found["tolerations"] = [{"key": "k", "operator": "Exists"}]
    if random.random() < 0.5:
        constraint = {
            "maxSkew": random.choice((1, 2)),
            "topologyKey": random.choice(_KEYS),
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": app}},
        }
        found["topologySpreadConstraints"] = [constraint]
    return found


def _cluster(random: Random) -> PlanningInputs:
    nodes = []
    for at in range(random.randint(2, 5)):
        labels = {"kubernetes.io/hostname": f"n{at}"}
        labels |= {"zone": random.choice("abc")} if random.random() < 0.7 else {}
        labels |= {"pool": random.choice("xy")} if random.random() < 0.5 else {}
        node = a_node(f"n{at}", cpu=100, labels=labels)
        if random.random() < 0.3:
            node["spec"]["taints"] = [{"key": random.choice("kl"), "value": "v", "effect": "NoSchedule"}]
        nodes.append(node)
    names = [node["metadata"]["name"] for node in nodes]
    return planning_inputs(
        nodes,
        [
            a_workload(app, random.choices(names, k=random.randint(1, 4)), spec=_spec(random, app))
            for app in "abc"
        ],
    )


def test_what_a_filter_would_reject_it_may_reject() -> None:
    rejected, missed = set[str](), list[tuple[int, str, str]]()
    for seed in range(_CLUSTERS):
        prepared = prepare_to_plan(_cluster(Random(seed)))
        state, pods = prepared.start.all[0].after_termination, prepared.pods
        for row, (kind, node) in enumerate(zip(pods.pod_class.tolist(), pods.node.tolist(), strict=True)):
            scheduler = prepared.schedulers.by_name[pods.classes[kind].scheduler_name]
            for name in MisplacedSettings().filters:
                plugins = (item for item in scheduler.named({name}, ())[0] if kind in item.asking(state))
                may = any(item.may_reject(state, kind, np.array([node]))[0] for item in plugins)
                with with_predecessor(state, PodRow(row), node, Predecessor.GONE):
                    if scheduler.rejection_at(state, kind, node, {name}):
                        rejected.add(name)
                        missed += [] if may else [(seed, name, pods.full_name(row))]

    assert not missed
    assert rejected == {"TaintToleration", "NodeAffinity", "InterPodAffinity", "PodTopologySpread"}
