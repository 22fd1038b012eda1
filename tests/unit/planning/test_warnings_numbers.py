"""A number that bounds nothing in this cluster, where a percentage may be meant, is remarked."""

from __future__ import annotations

from typing import Any

from rebalancer.planning.unmatched_settings import settings_without_effect
from tests.builders import a_node
from tests.rows import rows
from tests.unit.planning.builders import a_policy, a_workload, planning_inputs


@rows(
    "policy, words",
    [
        ({"limits": {"perWorkload": 10}}, "bounds no workload here: the largest has 8 pods; 10% would be"),
        ({"limits": {"perWorkload": 8}}, "bounds no workload here: the largest has 8 pods; 8% would be"),
        ({"limits": {"perWorkload": 7}}, ""),
        ({"limits": {"perWorkload": "10%"}}, ""),
        ({"safety": {"maxNotReadyNodes": 5}}, "stops no run here: the cluster has 2 nodes; 5% would be"),
        ({"safety": {"maxNotReadyNodes": 1}}, ""),
        ({"safety": {"maxNotReadyNodes": "5%"}}, ""),
    ],
)
def test_a_number_as_large_as_what_it_counts_is_remarked(policy: dict[str, Any], words: str) -> None:
    inputs = planning_inputs(
        [a_node("a", cpu=10), a_node("b")],
        [a_workload("web", ["a"] * 8), a_workload("agent", ["a", "b"] * 9, kind="DaemonSet", cpu="1m")],
    )
    said = [
        item.sentence
        for item in settings_without_effect(a_policy(**policy), inputs.snapshot, inputs.schedulers)
    ]
    assert len(said) == bool(words)
    assert all(words in sentence for sentence in said)
