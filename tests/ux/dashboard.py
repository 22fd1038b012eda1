"""The dashboard of the chart as a picture, from what a real Prometheus answers to its queries.

``answers`` asks; ``python -m tests.ux.dashboard ANSWERS.json PICTURE.svg`` draws. Grafana draws the panels in
its own way: this shows which figures there are, and whether they can be read.
"""

from __future__ import annotations

import json
import sys
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from math import isfinite
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
DASHBOARD = ROOT / "charts" / "rebalancer" / "files" / "dashboard.json"
POINTS = 90  # of each series
_RATE_INTERVAL = "1m"


def answers(address: str, began: float, ended: float) -> dict[str, Any]:
    """What a Prometheus answers to each query of each panel over a time, Unix seconds."""
    step = max(1.0, (ended - began) / POINTS)
    panels = []
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        series = [
            {
                "name": _legend(target["legendFormat"], found["metric"]),
                "points": _points(found["values"], began),
            }
            for target in panel["targets"]
            for found in _asked(address, target["expr"], began, ended, step)
        ]
        unit = panel["fieldConfig"]["defaults"].get("unit", "short")
        panels.append({"title": panel["title"], "type": panel["type"], "unit": unit, "series": series})
    return {"seconds": round(ended - began), "panels": panels}


def _asked(address: str, expression: str, began: float, ended: float, step: float) -> list[Any]:
    query = {
        "query": expression.replace("$__rate_interval", _RATE_INTERVAL),
        "start": f"{began:.3f}",
        "end": f"{ended:.3f}",
        "step": f"{step:.3f}",
    }
    url = f"{address}/api/v1/query_range?{urllib.parse.urlencode(query)}"
    with urllib.request.urlopen(url, timeout=60) as response:
        answer = json.load(response)
    assert answer["status"] == "success", answer
    found: list[Any] = answer["data"]["result"]
    return found


def _legend(template: str, labels: Mapping[str, str]) -> str:
    for name, value in labels.items():
        template = template.replace(f"{{{{{name}}}}}", value)
    return template


def _points(values: Sequence[tuple[float, str]], began: float) -> list[list[float]]:
    known = ((moment, float(value)) for moment, value in values)
    return [[round(moment - began), float(f"{value:.4g}")] for moment, value in known if isfinite(value)]


# Drawing

COLUMNS, WIDTH, HEIGHT = 4, 300, 168
_PLOT = (44, 26, 246, 76)  # left, top, width, height within a panel
_COLOURS = ("#2563eb", "#ea580c", "#16a34a", "#9333ea", "#dc2626", "#0891b2", "#a16207", "#6b7280")
_MAX_LEGEND = 6
_STYLE = (
    "text{font:10px sans-serif;fill:#374151}.t{font-weight:bold;font-size:11px;fill:#111827}"
    ".v{font-size:30px;font-weight:bold;fill:#2563eb}.g{stroke:#e5e7eb}.p{fill:#fff;stroke:#d1d5db}"
)


def drawing(found: Mapping[str, Any]) -> str:
    """The panels as SVG."""
    panels, seconds = found["panels"], found["seconds"]
    rows = -(-len(panels) // COLUMNS)
    size = f'width="{COLUMNS * WIDTH}" height="{rows * HEIGHT}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {COLUMNS * WIDTH} {rows * HEIGHT}">'
    ]
    parts += [f"<style>{_STYLE}</style>", '<rect width="100%" height="100%" fill="#f3f4f6"/>']
    for index, panel in enumerate(panels):
        x, y = index % COLUMNS * WIDTH, index // COLUMNS * HEIGHT
        parts.append(f'<g transform="translate({x} {y})">')
        parts.append(f'<rect class="p" x="3" y="3" width="{WIDTH - 6}" height="{HEIGHT - 6}" rx="3"/>')
        parts.append(f'<text class="t" x="10" y="18">{escape(panel["title"])}</text>')
        parts += _stat(panel) if panel["type"] == "stat" else _graph(panel, seconds)
        parts.append("</g>")
    return "\n".join([*parts, "</svg>"]) + "\n"


def _stat(panel: Mapping[str, Any]) -> Iterator[str]:
    for series in panel["series"][:1]:
        yield f'<text class="v" x="20" y="90">{_amount(series["points"][-1][1], panel["unit"])}</text>'


def _graph(panel: Mapping[str, Any], seconds: float) -> Iterator[str]:
    left, top, width, height = _PLOT
    shown = [series for series in panel["series"] if series["points"]]
    highest = max((value for series in shown for _, value in series["points"]), default=0.0)
    highest = highest * 1.05 or 1.0
    for share in (0.0, 0.5, 1.0):
        level = top + height * (1 - share)
        yield f'<path class="g" d="M{left} {level:.0f}h{width}"/>'
        amount = _amount(highest * share, panel["unit"])
        yield f'<text x="{left - 4}" y="{level + 3:.0f}" text-anchor="end">{amount}</text>'
    for minutes in (0, seconds / 120, seconds / 60):
        x = left + width * minutes * 60 / seconds
        yield f'<text x="{x:.0f}" y="{top + height + 12}" text-anchor="middle">{minutes:.0f} min</text>'
    # The series that say most: those with the highest figures.
    shown.sort(key=lambda series: -max(value for _, value in series["points"]))
    for number, series in enumerate(shown):
        colour = _COLOURS[min(number, len(_COLOURS) - 1)]
        path = " ".join(
            f"{left + width * moment / seconds:.0f},{top + height * (1 - value / highest):.1f}"
            for moment, value in series["points"]
        )
        yield f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.3"/>'
    for number, series in enumerate(shown[:_MAX_LEGEND]):
        x, y = 12 + number % 2 * 145, top + height + 27 + number // 2 * 12
        name = series["name"] if len(series["name"]) <= 24 else series["name"][:23] + "…"
        yield f'<rect x="{x}" y="{y - 7}" width="8" height="8" fill="{_COLOURS[number]}"/>'
        yield f'<text x="{x + 12}" y="{y}">{escape(name)}</text>'
    if len(shown) > _MAX_LEGEND:
        yield f'<text x="{WIDTH - 10}" y="18" text-anchor="end">and {len(shown) - _MAX_LEGEND} more</text>'


def _amount(value: float, unit: str) -> str:
    if unit in ("s", "dtdurations"):
        return f"{value * 1000:.0f} ms" if 0 < value < 1 else f"{value:.3g} s"
    if unit == "bytes":
        return f"{value / 1024:.3g} KiB"
    return f"{value:.3g}" + (" %" if unit == "percent" else "")


if __name__ == "__main__":
    source, target = map(Path, sys.argv[1:3])
    target.write_text(drawing(json.loads(source.read_text())))
