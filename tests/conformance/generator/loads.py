"""load-watcher's document: measured loads with missing nodes, missing deviations and values beyond 100 %."""

from __future__ import annotations

from tests.conformance.generator.draws import Draws, Object


def watcher(draws: Draws, names: list[str]) -> Object:
    """What GET /watcher answers about these nodes."""
    return {
        "timestamp": 1700000000,
        "window": {"duration": "15m", "start": 1699999100, "end": 1700000000},
        "source": "Prometheus",
        "data": {
            "NodeMetricsMap": {
                name: {"metrics": _metrics(draws), "tags": {}, "metadata": {"dataCenter": ""}}
                for name in names
                if draws.chance(0.9)
            }
        },
    }


def _metrics(draws: Draws) -> list[Object]:
    made = []
    for kind in ("CPU", "Memory"):
        for operator in ("AVG", "STD", "Latest", ""):
            if draws.chance({"AVG": 0.8, "STD": 0.7, "Latest": 0.4, "": 0.1}[operator]):
                value = draws.one(
                    (0, 100, 39.999, 40, 130, round(draws.random.uniform(0, 100), 3)), 1, 1, 1, 1, 1, 9
                )
                made.append({"name": "x", "type": kind, "operator": operator, "rollup": "", "value": value})
    return made
