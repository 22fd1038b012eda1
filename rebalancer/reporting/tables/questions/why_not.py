"""Why nothing is moved, on one screen."""

from __future__ import annotations

import re

from rich.text import Text

from rebalancer.questions.why_not import WhyNot
from rebalancer.reporting.tables.columns import Column, Cut, write_columns
from rebalancer.reporting.tables.plan import write_warnings
from rebalancer.reporting.tables.questions.obstacles import write_obstacles
from rebalancer.reporting.tables.text import Lines, Style
from rebalancer.reporting.words import plain, shortened, words


def why_not_table(answer: WhyNot, style: Style = Style()) -> Text:
    """The answer as text; long lists summarised unless the style shows everything."""
    lines = Lines(style)
    asked = f"{answer.subject}: " if answer.subject else ""
    lines.message(f"{asked}{answer.verdict}", 0, "bold", most=4)
    source = f"cluster {words(answer.source)} at {plain(answer.now)}, policy {words(answer.policy)}"
    lines.add("  ", (shortened(source, style.columns - 2, style.glyphs.more), "dim"))
    if answer.refusals:
        lines.heading("KEPT BY", "every rule that keeps it; all of them would have to change")
        for refusal in answer.refusals:
            setting = f" [{refusal.setting}]" if refusal.setting else ""
            lines.message(f"{refusal.reason}: {refusal.because}{setting}", 2, "yellow")
    if answer.obstacles:
        write_obstacles(lines, answer.obstacles)
    if len(answer.nearest) > 1:
        _nearest(lines, answer)
    if answer.warnings:
        write_warnings(lines, answer.warnings)
    if answer.next_steps:
        lines.heading("NEXT")
        for step in answer.next_steps:
            for line in command_lines(plain(step), style.columns - 2):
                lines.add("  ", (line, "dim"))
    return lines.text


def command_lines(command: str, width: int) -> list[str]:
    """A command that can be copied whole: broken between words, where it is too wide, with backslashes."""
    lines = [""]
    for part in re.findall(r"""(?:'[^']*'|"[^"]*"|\S)+""", command):
        if lines[-1] and len(lines[-1]) + len(part) + len("  \\") > width:
            lines[-1] += " \\"
            lines.append(f"  {part}")
        else:
            lines[-1] += f" {part}" if lines[-1] else part
    return lines


def _nearest(lines: Lines, answer: WhyNot) -> None:
    lines.heading("NEAREST TO BEING HOT", "percent of allocatable")
    columns = [Column("NODE", cut=Cut.MIDDLE), Column("RESOURCE"), Column("LOAD", right=True)]
    rows = [
        [
            Text(plain(item.node), "bold"),
            Text(plain(item.resource)),
            Text(f"{item.load:.1f}"),
            Text(f"{item.hot_above:.1f}"),
        ]
        for item in answer.nearest
    ]
    write_columns(lines, [*columns, Column("HOT ABOVE", right=True)], rows)
