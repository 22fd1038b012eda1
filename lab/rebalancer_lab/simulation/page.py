"""A simulation as a page of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from rebalancer.counting import counted
from rebalancer.reporting.html.chart import CycleChart, count_chart, line_chart
from rebalancer.reporting.html.pages import render_page
from rebalancer.reporting.words import minutes
from rebalancer_lab.simulation.report import Cycle, LoadSpread, PolicyRun, Simulation

_MAX_MOVES = 50  # of a cycle
_UNKNOWN = float("nan")


def simulation_page(simulation: Simulation) -> str:
    """The whole page."""
    cycles = len(simulation.runs[0].cycles) if simulation.runs else 0
    every = minutes(simulation.interval_seconds)
    moves = [move for run in simulation.runs for cycle in run.cycles for move in cycle.moves]
    return render_page(
        "simulation.html.jinja",
        package="rebalancer_lab.simulation",
        nodes=sorted({name for move in moves for name in (move.from_node, move.node) if name}),
        simulation=simulation,
        title=f"Simulation: {counted(cycles, 'cycle')}, every {every}",
        runs=list(zip(_names(simulation), simulation.runs, strict=True)),
        charts=[drawn for drawn in _charts(simulation) if drawn is not None],
        max_moves=_MAX_MOVES,
    )


def _names(simulation: Simulation) -> list[str]:
    counts = Counter(run.policy for run in simulation.runs)
    seen: Counter[str] = Counter()
    names = []
    for run in simulation.runs:
        seen[run.policy] += 1
        names.append(run.policy if counts[run.policy] == 1 else f"{run.policy} ({seen[run.policy]})")
    return names


def _evictions(run: PolicyRun) -> list[float]:
    return [float(cycle.evictions) for cycle in run.cycles]


def _charts(simulation: Simulation) -> list[CycleChart | None]:
    runs = dict(zip(_names(simulation), simulation.runs, strict=True))
    last_cycle = max((len(run.cycles) for run in runs.values()), default=0)
    cycles = [str(number) for number in range(1, last_cycle + 1)]
    moments = [*cycles, "end"]
    before = "before each cycle and after the last"

    def over_cycles(figure: Callable[[Cycle | LoadSpread], float]) -> dict[str, list[float]]:
        return {name: [*map(figure, run.cycles), figure(run.after)] for name, run in runs.items()}

    over80 = over_cycles(lambda spread: _UNKNOWN if spread.over80 is None else float(spread.over80))
    peak = over_cycles(lambda spread: spread.peak.get("cpu", _UNKNOWN))
    deviation = over_cycles(lambda spread: spread.deviation.get("cpu", _UNKNOWN))
    evictions = {name: _evictions(run) for name, run in runs.items()}
    return [
        count_chart(f"nodes over 80 % cpu or memory, {before}", over80, "cycle", moments),
        line_chart(f"highest cpu load of a node, percent, {before}", peak, "cycle", moments),
        line_chart(
            f"standard deviation of the nodes' cpu load, points, {before}", deviation, "cycle", moments
        ),
        count_chart("evictions of each cycle", evictions, "cycle", cycles),
    ]
