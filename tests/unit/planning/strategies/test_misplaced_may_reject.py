"""What a plugin says beforehand of pods on their own nodes.

A filter that would reject one there, were it not there, has said that it may; a plugin that would score
another node higher has said so too.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest

from rebalancer.cluster.arrays import PodRow
from rebalancer.planning.inputs import PlanningInputs
from rebalancer.planning.landing.evaluation import Predecessor, with_predecessor
from rebalancer.planning.planner import Planner
from rebalancer.planning.strategies.misplaced import MisplacedSettings
from tests.builders import a_node
from tests.conftest import examples
from tests.unit.planning.builders import a_workload, planning_inputs

_CLUSTERS = examples(200)
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


def _preferring(random: Random) -> dict[str, Any]:
    """What pods prefer: mostly to be away from others of some apps."""
    preferred = "preferredDuringSchedulingIgnoredDuringExecution"
    near = random.random() < 0.3
    of_pods = {
        kind: {preferred: [{"weight": random.randint(1, 100), "podAffinityTerm": term} for term in terms]}
        for kind, terms in (
            ("podAffinity", _terms(random) if near else []),
            ("podAntiAffinity", _terms(random) + _terms(random)),
        )
    }
    in_x = {
        "weight": 10,
        "preference": {"matchExpressions": [{"key": "pool", "operator": "In", "values": ["x"]}]},
    }
    return {"affinity": {**of_pods, "nodeAffinity": {preferred: [in_x] if random.random() < 0.3 else []}}}


def _cluster(random: Random, spec: Callable[[Random, str], dict[str, Any]] = _spec) -> PlanningInputs:
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
            a_workload(app, random.choices(names, k=random.randint(1, 4)), spec=spec(random, app))
            for app in "abc"
        ],
    )


@pytest.mark.many_cases
def test_what_a_filter_would_reject_it_may_reject() -> None:
    rejected, missed = set[str](), list[tuple[int, str, str]]()
    for seed in range(_CLUSTERS):
        prepared = Planner(_cluster(Random(seed))).prepared
        state, pods = prepared.start.all[0].after_termination, prepared.pods
        for row, (kind, node) in enumerate(zip(pods.pod_class.tolist(), pods.node.tolist(), strict=True)):
            scheduler = prepared.schedulers.by_name[pods.classes[kind].scheduler_name]
            for name in MisplacedSettings().filters:
                plugins = (item for item in scheduler.named({name}, ())[0] if item.concerns(state, kind))
                may = any(item.may_reject(state, kind, np.array([node]))[0] for item in plugins)
                with with_predecessor(state, PodRow(row), Predecessor.GONE):
                    if scheduler.rejection_at(state, kind, node, {name}):
                        rejected.add(name)
                        missed += [] if may else [(seed, name, pods.full_name(row))]

    assert not missed
    assert rejected == {"TaintToleration", "NodeAffinity", "InterPodAffinity", "PodTopologySpread"}


@pytest.mark.many_cases
def test_where_another_node_would_score_higher_it_may() -> None:
    preferred, unasked, missed = set[str](), 0, list[tuple[int, str, str]]()
    for seed in range(2 * _CLUSTERS):
        prepared = Planner(_cluster(Random(seed), lambda random, _: _preferring(random))).prepared
        state, pods = prepared.start.all[0].after_termination, prepared.pods
        for row, (kind, node) in enumerate(zip(pods.pod_class.tolist(), pods.node.tolist(), strict=True)):
            scheduler = prepared.schedulers.by_name[pods.classes[kind].scheduler_name]
            for plugin in scheduler.named((), ("NodeAffinity", "InterPodAffinity"))[1]:
                may = bool(plugin.may_score_higher(state, kind, np.array([node]))[0])
                with with_predecessor(state, PodRow(row), Predecessor.GONE):
                    raw = plugin.raw_scores(state, kind, np.arange(len(state.nodes)))
                if raw is not None and raw.max() > raw[node]:
                    preferred.add(plugin.name)
                    missed += [] if may else [(seed, plugin.name, pods.full_name(row))]
                unasked += not may

    assert not missed
    assert preferred == {"NodeAffinity", "InterPodAffinity"}
    assert unasked > _CLUSTERS
