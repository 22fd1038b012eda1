"""The embedded scheduler decides among equal nodes as the scheduler of its version does."""

from __future__ import annotations

from collections import Counter

from rebalancer.scheduling.registry import default_configuration
from rebalancer_demo.model_decider import ModelDecider
from rebalancer_demo.store import Store
from tests.builders import a_node, a_pod

ASKED = 40


def test_its_searches_start_at_one_node_so_that_pods_that_tie_go_where_that_says() -> None:
    store, waiting = Store(), a_pod("web-0")
    store.load("nodes", map(a_node, ("a", "b", "c", "d")))
    store.load("pods", [waiting])

    for seed in range(3):
        decide = ModelDecider(default_configuration(), seed=seed)
        chosen = Counter(decide(store, waiting) for _ in range(ASKED))
        # One search in ten may take any of them, as where two of its workers come in each other's way.
        assert chosen.most_common(1)[0][1] > 0.8 * ASKED
