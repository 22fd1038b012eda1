"""Two plans side by side: what each achieves, and the pods by which they differ."""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text

from rebalancer.planning.explanation.difference import PlanDifference
from rebalancer.reporting.tables.text import Lines, Style
from rebalancer.reporting.words import counted, plain

_MAX_CHANGED, _MAX_SETTINGS = 10, 8


def difference_table(found: PlanDifference, style: Style = Style()) -> Text:
    """The difference as text; pods beyond the first are summarised unless the style shows everything."""
    lines = Lines(style)
    if found.changed:
        differing = f"{counted(len(found.changed), 'pod')} treated differently"
        lines.add((f"{differing}, {counted(found.same_moves, 'move')} the same", "bold"))
    else:
        lines.add(("The plans make the same moves.", "bold"))
    for title, (before, after) in _figures(found):
        lines.add(f"  {title:<16}  {plain(before)} {style.glyphs.arrow} {plain(after)}")
    _settings(lines, found)
    if found.inputs[0] == found.inputs[1]:
        lines.message("the inputs of both are the same, byte by byte", 2, "dim")
    shown = found.changed[: lines.shown(len(found.changed), _MAX_CHANGED)]
    for change in shown:
        lines.add()
        lines.add((plain(change.pod), "bold"), f"  {plain(change.workload)}")
        lines.message(f"before: {change.before}", 2, "red", most=2)
        lines.message(f"after: {change.after}", 2, "green", most=2)
    lines.more(len(found.changed) - len(shown), "pod")
    return lines.text


def _figures(found: PlanDifference) -> Iterator[tuple[str, tuple[str, str]]]:
    """What each plan is worth, the figures of the first before those of the second."""
    yield "policy", found.policies
    yield "moves", (str(found.moves[0]), str(found.moves[1]))
    yield "hot before it", (str(found.hot[0]), str(found.hot[1]))
    yield "hot after it", (str(found.still_hot[0]), str(found.still_hot[1]))
    if found.excess is not None:
        yield "excess after it", (f"{found.excess[0]:.0f}", f"{found.excess[1]:.0f}")
    if found.cost is not None:
        yield "cost", (f"{found.cost[0]:.1f}", f"{found.cost[1]:.1f}")


def _settings(lines: Lines, found: PlanDifference) -> None:
    """The keys of the policy that were changed, where they are known."""
    if not found.settings:
        return
    shown = found.settings[: lines.shown(len(found.settings), _MAX_SETTINGS)]
    lines.heading("CHANGED SETTINGS")
    for item in shown:
        change = f"{item.before or 'absent'} {lines.style.glyphs.arrow} {item.after or 'absent'}"
        lines.message(f"{item.setting}: {change}", 2, "yellow")
    lines.more(len(found.settings) - len(shown), "setting")
