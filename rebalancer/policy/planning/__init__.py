"""The `planning` section of a policy: what makes an eviction worthwhile, and a dial that sets most of it."""

from rebalancer.policy.planning.settings import Planning, Weights

__all__ = ["Planning", "Weights"]
