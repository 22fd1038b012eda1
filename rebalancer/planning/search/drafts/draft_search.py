"""Two searches over drafts: a beam, and sweeps. Each finds good drafts where the other one does not.

Where landings are scarce, the move that removes most now may take the room of two others. A **beam** follows
several drafts at once: of those with one move the best ones are kept, each of these is tried with further
moves until some have an acceptable landing, of all drafts with two moves the best are kept, and so on until
none can go on.

    one move     a-1 (20 points left), b-1 (24), b-2 (25), a-3 (27)
    two moves    a-1 b-2 (11), b-2 b-3 (9), b-1 a-3 (12), b-2 a-3 (12)
    three        b-2 b-3 a-3 (0)     while a-1 had taken the node on which both b-2 and b-3 can land

A beam gives up drafts that begin with small moves, though these are what helps where the node that the
scheduler prefers has room for small pods only: once it has some, the scheduler prefers another node. A
**sweep** always makes the smallest move that removes at least so much, its floor, and lowers the floor where
there is none:

    floor 12     b-3 (13 points), a-2 (14), c-1 (19), then none of 12 or more has a landing
    floor 6      a-3 (7), then none; floor 3: none; floor 1.5: c-4 (2)
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rebalancer.planning.search.drafts.draft import Draft, Drafts
from rebalancer.planning.search.relief import NEGLIGIBLE

_WIDTH = 8  # drafts of a length that are kept
_BRANCHES = 3  # acceptable moves that each of them is tried with
_FLOORS = (30.0, 20.0, 12.0, 6.0)  # points
_LOWEST_FLOOR = 0.3
_SWEEPS_SHARE = 3  # of the placements, one of so many parts is for sweeps


def best_drafts(drafts: Drafts, placements: int) -> list[Draft]:
    """The best draft of each search, the better one first; so many placements end the search."""
    swept = [_swept(drafts, floor, placements // _SWEEPS_SHARE) for floor in _FLOORS]
    beam = [item for level in _beam(drafts, placements) for item in level]
    found = [min(items, key=_worth) for items in (beam, swept) if items]
    return sorted((item for item in found if item.pods), key=_worth)


def _worth(draft: Draft) -> tuple[float, int]:
    """What drafts are compared by; less is better."""
    return round(draft.left, 6), len(draft.pods)


def _beam(drafts: Drafts, placements: int) -> Iterator[list[Draft]]:
    """The best drafts of one move, of two, and so on, until there were so many placements."""
    level = [drafts.start]
    while level and drafts.placements < placements:
        longer: dict[frozenset[int], Draft] = {}
        for draft in level:
            for item in _longer(drafts, draft, placements):
                longer.setdefault(frozenset(item.pods), item)
        level = sorted(longer.values(), key=_worth)[:_WIDTH]
        yield level


def _longer(drafts: Drafts, draft: Draft, placements: int) -> Iterator[Draft]:
    """The drafts with one more move, of those that remove most."""
    gains, branches = np.round(drafts.gains(draft), 6), 0
    for at in np.argsort(-gains, kind="stable").tolist():
        if gains[at] <= NEGLIGIBLE or branches >= _BRANCHES or drafts.placements >= placements:
            return
        item = drafts.extended(draft, at)
        if item is not None:
            branches += 1
            yield item


def _swept(drafts: Drafts, floor: float, placements: int) -> Draft:
    """The draft of a sweep; as far as it came when there were so many placements."""
    draft = drafts.start
    while floor >= _LOWEST_FLOOR and drafts.placements < placements:
        gains = np.round(drafts.gains(draft), 6)
        order = np.argsort(gains, kind="stable")
        longer = (drafts.extended(draft, at) for at in order[gains[order] >= floor].tolist())
        following = next((item for item in longer if item is not None), None)
        if following is None:
            floor /= 2
        else:
            draft = following
    return draft
