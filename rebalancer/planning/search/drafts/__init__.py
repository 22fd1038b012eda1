"""Drafts of plans, so cheap that hundreds are compared; the plan builder makes the best of them, or none."""

from rebalancer.planning.search.drafts.draft import Draft, Drafts
from rebalancer.planning.search.drafts.draft_search import best_drafts

__all__ = ["Draft", "Drafts", "best_drafts"]
