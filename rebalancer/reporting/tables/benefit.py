"""What a plan gains and costs, in one line each of its table."""

from __future__ import annotations

import textwrap

from rebalancer.planning.plan import Benefit, Change, Plan
from rebalancer.reporting.tables.text import Lines
from rebalancer.reporting.words import plain, words

_LABEL_WIDTH = 9
_PREFERRED = "cpu"


def write_benefit(lines: Lines, plan: Plan) -> None:
    """Benefit and cost of a plan with moves; and what a higher limit would give, if one binds."""
    benefit = plan.benefit
    if benefit is not None and plan.moves:
        _line(lines, "benefit", gain_words(benefit, lines.style.glyphs.arrow))
        _line(lines, "cost", cost_words(benefit))
    if plan.raised_limit:
        _line(lines, "limits", words(plan.raised_limit))


def _line(lines: Lines, label: str, text: str) -> None:
    for line in textwrap.wrap(text, lines.style.columns - _LABEL_WIDTH, break_on_hyphens=False):
        lines.add((label.ljust(_LABEL_WIDTH), "dim"), line)
        label = ""


def gain_words(benefit: Benefit, arrow: str) -> str:
    """``hot 2 → 0, excess 41 → 0, peak 89 → 63, deviation 34.1 → 23.1``."""

    def changed(change: Change, digits: int = 0) -> str:
        return f"{change.before:.{digits}f} {arrow} {change.after:.{digits}f}"

    parts = [f"hot {changed(benefit.hot_nodes)}", f"excess {changed(benefit.excess)}"]
    resource = _PREFERRED if _PREFERRED in benefit.peak else next(iter(benefit.peak), "")
    if resource:
        name = "" if resource == _PREFERRED else f"{plain(resource)} "
        parts.append(f"{name}peak {changed(benefit.peak[resource])}")
        parts.append(f"deviation {changed(benefit.deviation[resource], 1)}")
    return ", ".join(parts)


def cost_words(benefit: Benefit) -> str:
    """``4 of 24 pods (17 %), cost 4.7; score 8.7 points per unit``."""
    share = 100.0 * benefit.pods_moved / max(benefit.pods, 1)
    moved = f"{benefit.pods_moved} of {benefit.pods} pods ({share:.2g} %), cost {benefit.cost:.1f}"
    return f"{moved}; score {benefit.score:.1f} points per unit"
