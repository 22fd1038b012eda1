"""Reads everything a plan is a function of, from a live cluster or a recorded one, and joins it."""

from rebalancer.pipeline.gathering.inputs import Gathered, gather, known_state, policy_of
from rebalancer.pipeline.gathering.reading import open_api

__all__ = ["Gathered", "gather", "known_state", "open_api", "policy_of"]
