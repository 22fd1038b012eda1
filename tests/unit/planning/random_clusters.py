"""Random clusters as Hypothesis draws them, with the facts that a plan is checked against."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import strategies as st

from rebalancer.cluster.arrays import NodeRow
from rebalancer.planning.inputs import PlanningInputs
from rebalancer.planning.planner import Planner
from tests.builders import a_budget, a_node
from tests.unit.planning.builders import Workload, a_policy, a_workload, planning_inputs

KINDS = ["ReplicaSet", "ReplicaSet", "ReplicaSet", "StatefulSet", "DaemonSet", "Job"]


@dataclass
class Cluster:
    """A random cluster, with the facts that a plan is checked against."""

    nodes: list[dict[str, Any]]
    workloads: list[Workload]
    budgets: list[dict[str, Any]]
    load: dict[str, float]
    pod_load: dict[str, float]
    policy: dict[str, Any]
    to_avoid: set[str] = field(default_factory=set)  # nodes never to land on
    never: set[str] = field(default_factory=set)  # workloads never to move

    def inputs(self, **limits: Any) -> PlanningInputs:
        policy = {**self.policy, "limits": {**self.policy["limits"], **limits}}
        return planning_inputs(
            self.nodes,
            self.workloads,
            poddisruptionbudgets=self.budgets,
            load=self.load,
            pod_load=self.pod_load,
            policy=a_policy(**policy),
        )


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    count = draw(st.integers(2, 12))
    names = [f"n{number}" for number in range(count)]
    found = Cluster([], [], [], {}, {}, {})
    for name in names:
        trouble = draw(st.sampled_from(["", "", "", "", "", "not ready", "unknown", "leaving", "full"]))
        leaving = [{"key": "karpenter.sh/disrupted", "value": "", "effect": "PreferNoSchedule"}]
        found.nodes.append(
            a_node(
                name,
                cpu=draw(st.sampled_from([4, 8, 16])),
                memory="64Gi",
                pods=draw(st.sampled_from([3, 110])),
                ready=trouble != "not ready",
                taints=leaving if trouble == "leaving" else (),
                labels={"zone": draw(st.sampled_from(["one", "two"]))},
            )
        )
        if trouble in ("not ready", "unknown", "leaving"):
            found.to_avoid.add(name)
        if trouble == "unknown":
            found.load[name] = float("nan")
        elif draw(st.booleans()):
            found.load[name] = draw(st.sampled_from([20.0, 55.0, 85.0, 95.0]))
    left = 60
    for number in range(draw(st.integers(1, 8))):
        kind, namespace = draw(st.sampled_from(KINDS)), draw(st.sampled_from(["shop", "system"]))
        name = f"w{number}"
        where = draw(st.lists(st.sampled_from([*names, ""]), min_size=1, max_size=min(10, left)))
        left = max(1, left - len(where))
        spec = {"nodeSelector": {"zone": "one"}} if draw(st.integers(0, 4)) == 0 else {}
        cpu = draw(st.sampled_from([100, 500, 1000, 2500]))
        workload = a_workload(name, where, kind=kind, namespace=namespace, cpu=f"{cpu}m", spec=spec)
        found.workloads.append(workload)
        for pod in workload.pods:
            used = draw(st.sampled_from([0.3, 1.0, 1.0, 1.5]))
            found.pod_load[pod["metadata"]["name"]] = used * cpu / 1000
        budgets = draw(st.sampled_from([0, 0, 0, 1, 1, 2]))
        for index in range(budgets):
            allowed = draw(st.integers(0, 2))
            found.budgets.append(
                a_budget(f"{name}-{index}", labels={"app": name}, allowed=allowed, namespace=namespace)
            )
        if kind in ("DaemonSet", "Job") or namespace == "system" or budgets == 2:
            found.never.add(f"{namespace}/{kind}/{name}")
    first = draw(st.integers(1, 3))
    cool = draw(st.sampled_from([50, 65, 79]))
    found.policy = {
        "hotNodes": {"any": [{"utilization": {"cpu": 80, "pods": 90}, "coolTo": {"cpu": cool}}]},
        "evictable": {"namespaces": {"exclude": ["system"]}},
        "limits": {
            "perRun": draw(st.integers(1, 8)),
            "perNode": draw(st.integers(1, 4)),
            "perNamespace": draw(st.integers(1, 6)),
            "perWorkload": draw(st.sampled_from(["10%", "50%", 2])),
        },
        "execution": {"firstWave": first, "waveSize": first + draw(st.integers(0, 3))},
        "planning": {"minGain": draw(st.sampled_from([0, 5, 20]))},
    }
    return found


def excess_left(cluster: Cluster, **limits: Any) -> float:
    return left_by_plan(cluster.inputs(**limits))


def left_by_plan(inputs: PlanningInputs) -> float:
    """Points above coolTo on hot nodes once the plan is carried out."""
    planner = Planner(inputs)
    scenarios = planner.decided.scenarios
    hotness = planner.prepared.hotness
    hot = [NodeRow(node) for node in np.flatnonzero(hotness.hot).tolist()]
    return sum(float(hotness.excess(node, scenarios.expected_percent(node)).sum()) for node in hot)
