"""The dashboard of the chart as a picture, from what a real Prometheus answers to its queries.

``answers`` asks, for bench.drift; ``make pictures`` draws what is kept in ``ANSWERS``. Grafana draws the
panels in its own way: this shows which figures there are, and whether they can be read.
"""

from __future__ import annotations

import json
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from math import isfinite
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
DASHBOARD = ROOT / "charts" / "rebalancer" / "files" / "dashboard.json"
ANSWERS = Path(__file__).parent / "dashboard_answers.json"  # half an hour of bench.drift
PICTURE = ROOT / "docs" / "pictures" / "dashboard.svg"
POINTS = 90  # of each series
MAX_SERIES = 8  # of a query's panel, those with the highest figures
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
        known = sorted((item for item in series if item["points"]), key=_highest, reverse=True)
        unit = panel["fieldConfig"]["defaults"].get("unit", "short")
        about = {"title": panel["title"], "type": panel["type"], "unit": unit, "series": known[:MAX_SERIES]}
        panels.append({**about, "left_out": len(known[MAX_SERIES:])})
    return {"seconds": round(ended - began), "panels": panels}


def _highest(series: Mapping[str, Any]) -> float:
    return float(max(value for _, value in series["points"]))


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

_WHOLE = 1200  # wide
_GRAPH, _STAT = (4, 168), (6, 76)  # columns, and the height of a row
_LEFT, _TOP, _DRAWN_WIDTH, _DRAWN_HEIGHT = 52, 28, 232, 74  # of the lines within a panel
_COLOURS = ("#2563eb", "#ea580c", "#16a34a", "#9333ea", "#dc2626", "#0891b2", "#a16207", "#6b7280")
_MAX_LEGEND = 6
_MAX_NAME = 24
_GAP = 3.0  # points that are missing make a gap in a line
_STYLE = (
    "text{font:10px sans-serif;fill:#374151}.t{font-weight:bold;font-size:11px;fill:#111827}"
    ".v{font-size:26px;font-weight:bold;fill:#2563eb}.g{stroke:#e5e7eb}.p{fill:#fff;stroke:#d1d5db}"
    ".l{fill:none;stroke-width:1.3}"
)


def drawing(found: Mapping[str, Any]) -> str:
    """The panels as SVG: figures first, then lines over the time."""
    stats = [panel for panel in found["panels"] if panel["type"] == "stat"]
    graphs = [panel for panel in found["panels"] if panel["type"] != "stat"]
    parts: list[str] = []
    y = 0
    for panels, (columns, height) in ((stats, _STAT), (graphs, _GRAPH)):
        width = _WHOLE // columns
        for index, panel in enumerate(panels):
            x = index % columns * width
            parts.append(f'<g transform="translate({x} {y + index // columns * height})">')
            parts.append(f'<rect class="p" x="3" y="3" width="{width - 6}" height="{height - 6}" rx="3"/>')
            parts.append(f'<text class="t" x="10" y="18">{escape(panel["title"])}</text>')
            parts += _stat(panel) if panel["type"] == "stat" else _graph(panel, found["seconds"], width)
            parts.append("</g>")
        y += -(-len(panels) // columns) * height
    size = f'width="{_WHOLE}" height="{y}" viewBox="0 0 {_WHOLE} {y}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size}>\n<style>{_STYLE}</style>'
    return "\n".join([head, '<rect width="100%" height="100%" fill="#f3f4f6"/>', *parts, "</svg>"]) + "\n"


def _stat(panel: Mapping[str, Any]) -> Iterator[str]:
    for series in panel["series"][:1]:
        yield f'<text class="v" x="14" y="54">{_amount(series["points"][-1][1], panel["unit"])}</text>'


def _graph(panel: Mapping[str, Any], seconds: float, width: int) -> Iterator[str]:
    shown, bottom = panel["series"], _TOP + _DRAWN_HEIGHT
    highest = max(map(_highest, shown), default=0.0) * 1.05 or 1.0
    for share in (0.0, 0.5, 1.0):
        level = bottom - _DRAWN_HEIGHT * share
        yield f'<path class="g" d="M{_LEFT} {level:.0f}h{_DRAWN_WIDTH}"/>'
        amount = _amount(highest * share, panel["unit"])
        yield f'<text x="{_LEFT - 4}" y="{level + 3:.0f}" text-anchor="end">{amount}</text>'
    for share, anchor in ((0.0, "start"), (0.5, "middle"), (1.0, "end")):
        x, minutes = _LEFT + _DRAWN_WIDTH * share, seconds * share / 60
        yield f'<text x="{x:.0f}" y="{bottom + 12}" text-anchor="{anchor}">{minutes:.0f} min</text>'
    for series, colour in zip(shown, _COLOURS, strict=False):
        for points in _unbroken(series["points"], _GAP * seconds / POINTS):
            placed = (
                (_LEFT + _DRAWN_WIDTH * moment / seconds, bottom - _DRAWN_HEIGHT * value / highest)
                for moment, value in points
            )
            line = " ".join(f"{x:.0f},{y:.0f}" for x, y in placed)
            yield f'<polyline class="l" stroke="{colour}" points="{line}"/>'
    for number, (series, colour) in enumerate(zip(shown[:_MAX_LEGEND], _COLOURS, strict=False)):
        x, y = 12 + number % 2 * 145, bottom + 27 + number // 2 * 12
        name = series["name"] if len(series["name"]) <= _MAX_NAME else series["name"][: _MAX_NAME - 1] + "…"
        yield f'<rect x="{x}" y="{y - 7}" width="8" height="8" fill="{colour}"/>'
        yield f'<text x="{x + 12}" y="{y}">{escape(name)}</text>'
    more = len(shown[_MAX_LEGEND:]) + panel["left_out"]
    if more:
        yield f'<text x="{width - 10}" y="18" text-anchor="end">and {more} more</text>'


def _unbroken(points: Sequence[Sequence[float]], gap: float) -> Iterator[Sequence[Sequence[float]]]:
    begin = 0
    for index in range(1, len(points) + 1):
        if index == len(points) or points[index][0] - points[index - 1][0] > gap:
            yield points[begin:index]
            begin = index


def _amount(value: float, unit: str) -> str:
    if unit == "s":
        return f"{value * 1000:.0f} ms" if 0 < value < 1 else f"{value:.3g} s"
    if unit == "bytes":
        return f"{value / 1024:.3g} KiB"
    return f"{value:.3g}" + (" %" if unit == "percent" else "")
