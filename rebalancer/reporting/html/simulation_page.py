"""Renders a simulation as one HTML file: the policies side by side, and each cycle by cycle."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from rebalancer.reporting.html.line_chart import LineChart, line_chart
from rebalancer.reporting.html.pages import render_page
from rebalancer.reporting.words import counted
from rebalancer.simulation.report import LoadSpread, PolicyRun, Simulation

_MAX_MOVES = 50  # of a cycle
_UNKNOWN = float("nan")


def simulation_page(simulation: Simulation) -> str:
    """The whole page."""
    cycles = len(simulation.runs[0].cycles) if simulation.runs else 0
    every = f"{simulation.interval_seconds / 60:g} min"
    return render_page(
        "simulation.html.jinja",
        simulation=simulation,
        title=f"Simulation: {counted(cycles, 'cycle')}, every {every}",
        runs=list(zip(_names(simulation), simulation.runs, strict=True)),
        charts=[found for found in _charts(simulation) if found is not None],
        first=lambda run: _spreads(run)[0],
        most=_MAX_MOVES,
    )


def _names(simulation: Simulation) -> list[str]:
    """The policies' names; those of the same name are numbered."""
    counts = Counter(run.policy for run in simulation.runs)
    seen: Counter[str] = Counter()
    names = []
    for run in simulation.runs:
        seen[run.policy] += 1
        names.append(run.policy if counts[run.policy] == 1 else f"{run.policy} ({seen[run.policy]})")
    return names


def _spreads(run: PolicyRun) -> list[LoadSpread]:
    """How the load lies before each cycle, and after the last."""
    before = [LoadSpread(hot=cycle.hot, peak=cycle.peak, deviation=cycle.deviation) for cycle in run.cycles]
    return [*before, run.after]


def _charts(simulation: Simulation) -> list[LineChart | None]:
    def over_cycles(title: str, figure: Callable[[LoadSpread], float]) -> LineChart | None:
        names = _names(simulation)
        return line_chart(
            title,
            {
                name: [figure(spread) for spread in _spreads(run)]
                for name, run in zip(names, simulation.runs, strict=True)
            },
        )

    return [
        over_cycles("hot nodes", lambda spread: float(spread.hot)),
        over_cycles("highest cpu load of a node, percent", lambda spread: spread.peak.get("cpu", _UNKNOWN)),
        over_cycles(
            "standard deviation of the nodes' cpu load, points",
            lambda spread: spread.deviation.get("cpu", _UNKNOWN),
        ),
    ]
