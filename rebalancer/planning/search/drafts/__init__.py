"""Drafts of plans, cheap enough to compare hundreds of them, and the searches for the best ones."""

from rebalancer.planning.search.drafts.draft import Draft, Drafts
from rebalancer.planning.search.drafts.draft_search import best_drafts

__all__ = ["Draft", "Drafts", "best_drafts"]
