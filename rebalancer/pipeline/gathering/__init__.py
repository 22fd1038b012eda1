"""Reads everything a plan is a function of, from a live cluster or a recorded one, and joins it."""

from rebalancer.pipeline.gathering.cluster_snapshot import open_api, open_cluster, read_snapshot
from rebalancer.pipeline.gathering.inputs import Gathered, gather, policy_of

__all__ = ["Gathered", "gather", "open_api", "open_cluster", "policy_of", "read_snapshot"]
