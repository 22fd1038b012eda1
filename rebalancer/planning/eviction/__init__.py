"""May this pod be evicted? Rules that each refuse for one reason, in the table of ``eviction.rules``."""

from rebalancer.planning.eviction.context import EvictionContext
from rebalancer.planning.eviction.rules import (
    every_refusal,
    refusals_of_finished,
    unknown_load,
    why_protected,
)
from rebalancer.planning.eviction.workload_rules import moves_by_restart

__all__ = [
    "EvictionContext",
    "every_refusal",
    "moves_by_restart",
    "refusals_of_finished",
    "unknown_load",
    "why_protected",
]
