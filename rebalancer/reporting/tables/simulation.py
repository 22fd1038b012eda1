"""A simulation: the policies side by side, then each policy cycle by cycle."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from rebalancer.reporting.tables.text import Lines, Style
from rebalancer.reporting.words import counted, plain, shortened
from rebalancer.simulation.report import Cycle, PolicyRun, Simulation

_MAX_CYCLES = 12
_MAX_NAME_WIDTH = 12


def simulation_table(simulation: Simulation, style: Style = Style()) -> Text:
    """The simulation as text; single moves are listed only when the style shows everything."""
    lines = Lines(style)
    cycles = len(simulation.runs[0].cycles) if simulation.runs else 0
    lines.add(
        (
            f"Simulation: {counted(cycles, 'cycle')}, every {simulation.interval_seconds / 60:g} min",
            "bold",
        )
    )
    shape = f"noise {simulation.noise:.0%}, daily curve {simulation.daily:.0%}"
    shape += f", metrics averaged over {simulation.lag_seconds / 60:g} min" if simulation.lag_seconds else ""
    lines.message(f"{simulation.source} at {simulation.now}; {shape}, seed {simulation.seed}", 0, "dim")
    _side_by_side(lines, simulation.runs)
    for run in simulation.runs:
        _cycles(lines, run)
    return lines.text


def _side_by_side(lines: Lines, runs: Sequence[PolicyRun]) -> None:
    lines.heading(
        "POLICIES", f"hot nodes, CPU peak and CPU deviation, first cycle {lines.style.glyphs.arrow} end"
    )
    width = min(max((len(plain(run.policy)) for run in runs), default=0), _MAX_NAME_WIDTH)
    width = max(width, len("policy"))
    arrow = lines.style.glyphs.arrow
    head = f"evictions again unexpected  {'hot':>9}   {'peak':>8}   {'deviation':>11}"
    lines.add((f"  {'policy'.ljust(width)} {head}", "dim"))
    for run in runs:
        name = shortened(plain(run.policy), lines.style.columns - 2, lines.style.glyphs.more)
        if len(name) > width:
            lines.add("  ", (name, "bold"))
            name = ""
        first = run.cycles[0]
        spans = (
            f"{first.hot:4d} {arrow}{run.after.hot:4d}",
            f"{_cpu(first.peak):4.0f} {arrow}{_cpu(run.after.peak):4.0f}",
            f"{_cpu(first.deviation):5.1f} {arrow}{_cpu(run.after.deviation):5.1f}",
        )
        counts = f" {run.evictions:9d} {run.again:5d} {run.unexpected:10d}  "
        lines.add("  ", (name.ljust(width), "bold"), counts, "  ".join(spans))


def _cpu(values: dict[str, float]) -> float:
    return values.get("cpu", float("nan"))


def _cycles(lines: Lines, run: PolicyRun) -> None:
    note = "before each cycle, and what it evicted"
    room = lines.style.columns - len(note) - 2
    lines.heading(shortened(plain(run.policy).upper(), room, lines.style.glyphs.more), note)
    lines.add(("  cycle   hot  peak cpu  memory  deviation cpu  memory  evictions  pending", "dim"))
    for cycle in lines.first(run.cycles, _MAX_CYCLES, "cycle"):
        lines.add(
            f"  {cycle.cycle:5d} {cycle.hot:5d} {_cpu(cycle.peak):9.1f} {cycle.peak.get('memory', 0.0):7.1f}",
            f" {_cpu(cycle.deviation):14.1f} {cycle.deviation.get('memory', 0.0):7.1f}",
            f" {cycle.evictions:10d} {cycle.pending:8d}",
        )
        if cycle.stopped:
            lines.message(f"stopped: {cycle.stopped}", 8, "yellow", most=1)
        if lines.style.everything:
            _moves(lines, cycle)


def _moves(lines: Lines, cycle: Cycle) -> None:
    for move in cycle.moves:
        again = ", moved again within its cooldown" if move.again else ""
        where = move.node or "nowhere"
        because = f": {move.because}" if move.because else ""
        text = (
            f"{move.pod} {move.from_node} {lines.style.glyphs.arrow} {where}, {move.result}{because}{again}"
        )
        lines.message(text, 8, "dim", most=2)
