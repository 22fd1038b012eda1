"""Counts in sentences, which are of one thing or of several."""

from __future__ import annotations


def counted(number: int, noun: str, plural: str = "") -> str:
    """``1 node``, ``2,000 nodes``; with both forms also of a noun and its verb: ``1 pod moves``."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
