"""What another configuration of the scheduler would do, as text."""

from __future__ import annotations

from rich.text import Text

from rebalancer.agreement.tables import headline
from rebalancer.counting import counted
from rebalancer.reporting.tables.text import Lines, Style
from rebalancer.reporting.words import plain, words
from rebalancer_lab.shadow.tally import Elsewhere, Shadow


def shadow_table(answer: Shadow, style: Style = Style()) -> Text:
    """The other configuration, then how far its figures can be trusted."""
    lines = Lines(style)
    _write_elsewhere(lines, answer.shadow)
    agreement = answer.agreement
    share = f" ({agreement.share:.2%})" if agreement.share is not None else ""
    lines.message(f"{headline(agreement.decisions, agreement.landed)}{share}", 0, "dim")
    lines.message(f"cluster {words(agreement.source)}", 2, "dim")
    return lines.text


def _write_elsewhere(lines: Lines, other: Elsewhere) -> None:
    lines.headline("Shadow: ", words(other.configuration))
    share = f" ({other.elsewhere / other.decisions:.0%})" if other.decisions else ""
    lines.message(
        f"{other.elsewhere} of {counted(other.decisions, 'pod')}{share} would be on a node that it never "
        f"chooses, {other.expected_elsewhere:g} by the chances; {other.moved} of them are still there",
        2,
    )
    arrow = lines.style.glyphs.arrow
    for name, (before, after) in other.highest.items():
        deviation = f" {arrow} ".join(f"{points:.1f}" for points in other.deviation[name])
        fullest = f"{before:.0f} % {arrow} {after:.0f} %"
        lines.message(f"{name} requested: fullest node {fullest}, deviation {deviation} points", 2)
    before, after = other.full_nodes
    lines.message(f"nodes with more than 80 % requested: {before} {arrow} {after}", 2)
    if other.arrivals:
        listed = ", ".join(f"{plain(node)} {count}" for node, count in other.arrivals.items())
        lines.message(f"would have got more pods: {listed}", 2, "dim")
