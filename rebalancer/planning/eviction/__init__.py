"""May this pod be evicted? Rules that each refuse for one reason, in the table of ``eviction.rules``."""

from rebalancer.planning.eviction.context import EvictionContext
from rebalancer.planning.eviction.rules import why_protected

__all__ = ["EvictionContext", "why_protected"]
