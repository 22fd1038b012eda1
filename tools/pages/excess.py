"""The picture of docs/planning.md: the excess of a node by its level, as the planner itself computes it."""

from __future__ import annotations

import numpy as np

from rebalancer.cluster.arrays import FloatArray
from rebalancer.planning.hotness import Hotness

_COOL_TO = 65.0  # percent of allocatable
_HOT_ABOVE = 80.0
_COOLEST = 50.0
_HOTTEST = 130.0
_MAX_EXCESS = 200  # points of excess
_LEFT = 60
_TOP = 20
_WIDTH = 560
_HEIGHT = 300
_BOTTOM = _TOP + _HEIGHT
_RIGHT = _LEFT + _WIDTH
_COLOR = "#0087af"
_LEVELS = ((_COOL_TO, "coolTo"), (_HOT_ABOVE, "threshold"), (100.0, "100 %"))
_STYLE = "<style>text{font:14px system-ui,sans-serif;fill:#787b7e} path{fill:none;stroke-width:2}</style>"


def excess_picture() -> str:
    """An SVG with the excess of a node from 50 to 130 %."""
    percents = np.arange(_COOLEST, _HOTTEST + 0.5, 0.5)
    size = f'viewBox="0 0 {_RIGHT + 90} {_BOTTOM + 50}"'
    lines = [
        f'<svg {size} xmlns="http://www.w3.org/2000/svg" role="img">',
        f"<title>Excess by the level of a node</title>{_STYLE}",
        f'<path d="M{_LEFT} {_TOP}V{_BOTTOM}H{_RIGHT}" stroke="#787b7e"/>',
        _text(_LEFT + _WIDTH / 2, _BOTTOM + 44, "percent of allocatable", 'text-anchor="middle"'),
    ]
    for level, name in _LEVELS:
        dashes = 'stroke="#d0d7de" stroke-dasharray="4"'
        lines.append(f'<path d="M{_x(level):.1f} {_TOP}V{_BOTTOM}" {dashes}/>')
        lines.append(_text(_x(level), _BOTTOM + 20, name, 'text-anchor="middle"'))
    marks = range(0, _MAX_EXCESS + 1, 50)
    lines += [_text(_LEFT - 8, _y(points) + 5, str(points), 'text-anchor="end"') for points in marks]
    pairs = zip(percents.tolist(), _excess(percents), strict=True)
    shown = [(_x(percent), _y(excess)) for percent, excess in pairs if excess <= _MAX_EXCESS]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in shown)
    lines.append(f'<path d="M{line}" stroke="{_COLOR}"/>')
    return "\n".join([*lines, "</svg>", ""])


def _excess(percents: FloatArray) -> list[float]:
    levels = np.ones((len(percents), 1))
    hotness = Hotness(
        hot=levels[:, 0] > 0,
        resources=levels > 0,
        hot_in_run=levels > 0,
        hot_above=_HOT_ABOVE * levels,
        cool_to=_COOL_TO * levels,
        highest=_HOT_ABOVE * levels,
        because={},
    )
    points: list[float] = hotness.excess(np.arange(len(percents)), percents[:, None])[:, 0].tolist()
    return points


def _text(x: float, y: float, words: str, attributes: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" {attributes}>{words}</text>'


def _x(percent: float) -> float:
    return _LEFT + _WIDTH * (percent - _COOLEST) / (_HOTTEST - _COOLEST)


def _y(excess: float) -> float:
    return _BOTTOM - _HEIGHT * excess / _MAX_EXCESS
