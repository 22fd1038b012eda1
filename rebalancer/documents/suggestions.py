"""Suggests the known name that the author of an unknown one probably meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def did_you_mean(name: str, known: Iterable[str], *, otherwise: str = "") -> str:
    """``did you mean X?`` for the known name nearest to ``name``; ``otherwise`` when none is near."""
    names = sorted(set(known))
    by_lower_case = {candidate.lower(): candidate for candidate in names}
    found = difflib.get_close_matches(name.lower(), list(by_lower_case), n=1, cutoff=0.6)
    return f"did you mean {by_lower_case[found[0]]}?" if found else otherwise
