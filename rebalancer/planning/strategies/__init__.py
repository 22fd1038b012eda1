"""The strategies: each says whom it wishes to move, why, and what its pods must gain where they land.

To add one, write a subclass of ``Strategy`` in a file of its own and name it below. The policy's schema and
its documentation, ``policy import``, the labels of metrics, explanations and the checks before later waves
follow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rebalancer.planning.strategies.consolidation import Consolidation
from rebalancer.planning.strategies.duplicates import Duplicates
from rebalancer.planning.strategies.failed import Failed
from rebalancer.planning.strategies.fragmentation import Fragmentation
from rebalancer.planning.strategies.hot_nodes import HotNodes
from rebalancer.planning.strategies.lifetime import Lifetime
from rebalancer.planning.strategies.misplaced import Misplaced
from rebalancer.planning.strategies.restarts import Restarts
from rebalancer.planning.strategies.strategy import Strategy
from rebalancer.planning.strategies.topology_spread import TopologySpread

if TYPE_CHECKING:
    from rebalancer.planning.prepared import PreparedInputs

STRATEGIES: tuple[type[Strategy], ...] = (
    HotNodes,
    Misplaced,
    Duplicates,
    TopologySpread,
    Fragmentation,
    Failed,
    Lifetime,
    Restarts,
    Consolidation,
)
"""All strategies, in the order in which they may move pods."""


def strategies_of(prepared: PreparedInputs) -> tuple[Strategy, ...]:
    """The strategies that the policy turns on, in the order in which they may move pods."""
    enabled = ((strategy, strategy.settings_in(prepared.policy)) for strategy in STRATEGIES)
    return tuple(strategy(prepared, settings) for strategy, settings in enabled if settings is not None)


def label_of(name: str) -> str:
    """How metrics call a strategy, by its name in a plan."""
    label = next((strategy.label for strategy in STRATEGIES if strategy.name == name), "")
    return label or name[:1].upper() + name[1:] or "Unknown"
