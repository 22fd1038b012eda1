"""The settings that hold load on hot nodes: how much each, how many pods, and below it an example."""

from __future__ import annotations

from collections.abc import Sequence

from rebalancer.planning.plan import Obstacle
from rebalancer.reporting.tables.text import Lines
from rebalancer.reporting.words import counted, words

_MAX_OBSTACLES = 6
_INDENT = 2


def write_obstacles(lines: Lines, obstacles: Sequence[Obstacle]) -> None:
    """The obstacles, at least one, the heaviest first; ALONE counts the pods that no other setting keeps."""
    count = obstacles[0].pods_in_all
    lines.heading(
        "HELD BY", f"share of the load of {counted(count, 'pod')} that could leave nodes above coolTo"
    )
    shown = obstacles[: lines.shown(len(obstacles), _MAX_OBSTACLES)]
    if not lines.style.no_headers:
        lines.add(" " * _INDENT, (f"{'LOAD':>4} {'PODS':>5} {'ALONE':>6}  SETTING OR REASON", "dim"))
    for item in shown:
        name = words(item.setting or " and ".join(item.reasons))
        lead = f"{item.share:>4.0%} {item.pods:>5} {item.pods_kept_alone:>6}"
        lines.add(" " * _INDENT, (lead, "bold"), "  ", (name, "yellow"))
        lines.message(f"{item.example}: {item.because}", _INDENT + len(lead) + 2, "dim", most=1)
    lines.more(len(obstacles) - len(shown), "setting or reason", plural="settings or reasons")
