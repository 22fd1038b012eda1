"""Many runs that empty nodes, while pods come and go."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.emptying_clusters import PACKING, random_cluster
from bench.emptying_cycles import run_cycles
from rebalancer.profiles import SchedulerConfiguration
from rebalancer.scheduling.registry import default_configuration, load_configuration
from tests.conftest import examples, some_of

PACKS = load_configuration(PACKING, "packing")


@settings(max_examples=examples(3))
@given(seed=st.integers(0, 1_000), churn=st.sampled_from([0.0, 0.05]))
@pytest.mark.parametrize(
    ("configuration", "taint"), some_of([(PACKS, "0s"), (default_configuration(), "30m")])
)
def test_no_pod_moves_inside_its_cooldown_and_no_move_fills_an_emptied_node(
    configuration: SchedulerConfiguration, taint: str, seed: int, churn: float
) -> None:
    found = run_cycles(random_cluster(seed, configuration, taintFor=taint), 10, churn, seed)

    assert found.again == 0
    assert found.landed_on_emptied == 0
    assert found.emptied_again == 0


def test_without_churn_runs_come_to_rest_and_what_is_emptied_stays_so() -> None:
    found = run_cycles(random_cluster(0, PACKS), 15, 0.0, 0)

    assert found.emptied > 0
    assert found.refilled == 0
    assert found.in_use[1] == found.in_use[0] - found.emptied
    assert found.last < 15
