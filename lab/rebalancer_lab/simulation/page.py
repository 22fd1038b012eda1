"""A simulation as a page of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from rebalancer.counting import counted
from rebalancer.reporting.html.chart import LineChart, line_chart
from rebalancer.reporting.html.pages import render_page
from rebalancer.reporting.words import minutes
from rebalancer_lab.simulation.report import Cycle, LoadSpread, PolicyRun, Simulation

_MAX_MOVES = 50  # of a cycle
_UNKNOWN = float("nan")


def simulation_page(simulation: Simulation) -> str:
    """The whole page."""
    cycles = len(simulation.runs[0].cycles) if simulation.runs else 0
    every = minutes(simulation.interval_seconds)
    return render_page(
        "simulation.html.jinja",
        package="rebalancer_lab.simulation",
        simulation=simulation,
        title=f"Simulation: {counted(cycles, 'cycle')}, every {every}",
        runs=list(zip(_names(simulation), simulation.runs, strict=True)),
        charts=[drawn for drawn in _charts(simulation) if drawn is not None],
        most=_MAX_MOVES,
    )


def _names(simulation: Simulation) -> list[str]:
    counts = Counter(run.policy for run in simulation.runs)
    seen: Counter[str] = Counter()
    names = []
    for run in simulation.runs:
        seen[run.policy] += 1
        names.append(run.policy if counts[run.policy] == 1 else f"{run.policy} ({seen[run.policy]})")
    return names


def _charts(simulation: Simulation) -> list[LineChart | None]:
    runs = dict(zip(_names(simulation), simulation.runs, strict=True))

    def over_cycles(title: str, figure: Callable[[Cycle | LoadSpread], float]) -> LineChart | None:
        figures = {name: [*map(figure, run.cycles), figure(run.after)] for name, run in runs.items()}
        return line_chart(f"{title}, before each cycle and after the last", figures)

    def evictions(run: PolicyRun) -> list[float]:
        return [float(cycle.evictions) for cycle in run.cycles]

    return [
        over_cycles(
            "nodes over 80 % cpu or memory",
            lambda spread: _UNKNOWN if spread.over80 is None else float(spread.over80),
        ),
        over_cycles("highest cpu load of a node, percent", lambda spread: spread.peak.get("cpu", _UNKNOWN)),
        over_cycles(
            "standard deviation of the nodes' cpu load, points",
            lambda spread: spread.deviation.get("cpu", _UNKNOWN),
        ),
        line_chart("evictions of each cycle", {name: evictions(run) for name, run in runs.items()}),
    ]
