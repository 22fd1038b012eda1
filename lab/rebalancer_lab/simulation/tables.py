"""A simulation: the policies side by side, then each policy cycle by cycle."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from rebalancer.counting import counted
from rebalancer.reporting.tables.plan import write_warnings
from rebalancer.reporting.tables.text import Column, Lines, Style, figure_of, write_table
from rebalancer.reporting.words import figure, minutes, plain, words
from rebalancer_lab.simulation.report import Cycle, PolicyRun, Simulation

_MAX_CYCLES = 12


def simulation_table(simulation: Simulation, style: Style = Style()) -> Text:
    """The simulation as text; single moves are listed only when the style shows everything."""
    lines = Lines(style)
    cycles = len(simulation.runs[0].cycles) if simulation.runs else 0
    every = f"every {minutes(simulation.interval_seconds)}"
    lines.headline("Simulation: ", f"{counted(cycles, 'cycle')}, {every}")
    shape = f"noise {simulation.noise:.0%}, daily curve {simulation.daily:.0%}"
    shape += f", metrics averaged over {minutes(simulation.lag_seconds)}" if simulation.lag_seconds else ""
    lines.message(f"{simulation.source} at {simulation.now}; {shape}, seed {simulation.seed}", 0, "dim")
    _side_by_side(lines, simulation.runs)
    for number, run in enumerate(simulation.runs):
        _cycles(lines, run, explained=not number)
    write_warnings(lines, list(dict.fromkeys(text for run in simulation.runs for text in run.warnings)))
    return lines.text


def _side_by_side(lines: Lines, runs: Sequence[PolicyRun]) -> None:
    arrow = lines.style.glyphs.arrow
    note = f"before {arrow} at the end: nodes over 80 % cpu or memory, nodes hot by the policy's own rules, "
    note += "cpu peak and deviation; again: moved within its cooldown; unexpected: landed "
    lines.heading("POLICIES", note + "where no plan allowed, or nowhere")

    def span(before: float | None, after: float | None, digits: int = 0) -> str:
        return f"{figure(before, digits)} {arrow} {figure(after, digits)}"

    columns = [
        Column("POLICY", lambda run: (plain(run.policy), "bold")),
        Column("EVICTIONS", lambda run: str(run.evictions), right=True),
        Column("AGAIN", lambda run: str(run.again), right=True),
        Column("UNEXPECTED", lambda run: str(run.unexpected), right=True),
        Column("OVER 80", lambda run: span(run.cycles[0].over80, run.after.over80), right=True),
        Column("HOT", lambda run: span(run.cycles[0].hot, run.after.hot), right=True),
        Column("PEAK", lambda run: span(_cpu(run.cycles[0].peak), _cpu(run.after.peak)), right=True),
        Column(
            "DEVIATION",
            lambda run: span(_cpu(run.cycles[0].deviation), _cpu(run.after.deviation), 1),
            right=True,
        ),
    ]
    write_table(lines, columns, runs)


def _cpu(values: dict[str, float]) -> float | None:
    return values.get("cpu")


def _cycles(lines: Lines, run: PolicyRun, *, explained: bool) -> None:
    note = "before each cycle, percent and deviation in points; and what it evicted"
    lines.heading(plain(run.policy).upper(), note * explained)
    columns = [
        Column("CYCLE", lambda cycle: str(cycle.cycle), right=True),
        Column("HOT", lambda cycle: figure(cycle.hot), right=True),
        Column("PEAK CPU", figure_of("peak", "cpu", "{:.1f}", "-"), right=True),
        Column("MEM", figure_of("peak", "memory", "{:.1f}", "-"), right=True),
        Column("DEV CPU", figure_of("deviation", "cpu", "{:.1f}", "-"), right=True),
        Column("MEM", figure_of("deviation", "memory", "{:.1f}", "-"), right=True),
        Column("EVICTED", lambda cycle: str(cycle.evictions), right=True),
        Column("PENDING", lambda cycle: str(cycle.pending), right=True),
    ]
    if any(cycle.stopped for cycle in run.cycles):
        columns.append(Column("NOTE", _stopped, below=True))
    write_table(lines, columns, run.cycles, _MAX_CYCLES, "cycle")
    if lines.style.everything:
        for cycle in run.cycles:
            if cycle.moves:
                lines.message(f"cycle {cycle.cycle}:", 2)
            for move in cycle.moves:
                again = ", moved again within its cooldown" if move.again else ""
                way = f"{move.from_node} {lines.style.glyphs.arrow} {move.node or 'nowhere'}"
                because = f": {move.because}" if move.because else ""
                lines.message(f"{move.pod} {way}, {move.result}{because}{again}", 4, "dim")


def _stopped(cycle: Cycle) -> tuple[str, str]:
    return f"stopped: {words(cycle.stopped)}" if cycle.stopped else "", "yellow"
