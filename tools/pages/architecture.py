"""The picture of docs/architecture.md: the stages of the pipeline, and what flows from each to the next."""

from __future__ import annotations

from itertools import pairwise

_WIDTH = 124  # of a box
_HEIGHT = 52
_APART = 142
_ROWS_APART = 84
_STAGES: dict[str, tuple[int, int, str, str]] = {  # by name: column and row, and what it is in two lines
    "policy": (0, 1, "what is", "wanted"),
    "profiles": (1, 1, "the scheduler's", "configuration"),
    "cluster": (2, 1, "what is", "there"),
    "load": (3, 1, "how busy", "it is"),
    "scheduling": (4, 1, "what the scheduler", "will do"),
    "planning": (5, 1, "which pods move,", "and why"),
    "state": (5, 0, "what earlier runs", "knew"),
    "execution": (6, 1, "evict, wait,", "verify, record"),
    "agreement": (6, 2, "the scheduler's own", "decisions, compared"),
    "reporting": (7, 1, "tables, metrics,", "pages"),
}
_PIPELINE = ("policy", "profiles", "cluster", "load", "scheduling", "planning", "execution", "reporting")
_ARROWS = (
    *pairwise(_PIPELINE),
    *(("planning", "agreement"), ("agreement", "reporting")),
    *(("state", "load"), ("state", "planning"), ("execution", "state")),
)
_STYLE = (
    "<style>text{font:12px system-ui,sans-serif;fill:#787b7e;text-anchor:middle}"
    " .name{font-weight:600;fill:#0969da} rect{fill:#8c959f1a;stroke:#8c959f}"
    " path{fill:none;stroke:#8c959f;stroke-width:1.5;marker-end:url(#head)}</style>"
)
_HEAD = (
    '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7"'
    ' orient="auto"><path d="M0 0L8 4L0 8z" style="fill:#8c959f;stroke:none;marker-end:none"/>'
    "</marker></defs>"
)


def architecture_picture() -> str:
    """An SVG with a box for each stage."""
    columns = max(column for column, *_ in _STAGES.values())
    rows = max(row for _, row, *_ in _STAGES.values())
    size = f"{columns * _APART + _WIDTH + 4} {rows * _ROWS_APART + _HEIGHT + 4}"
    lines = [
        f'<svg viewBox="-2 -2 {size}" xmlns="http://www.w3.org/2000/svg" role="img">',
        f"<title>The stages of rebalancer, from a policy to reports</title>{_STYLE}{_HEAD}",
    ]
    for name, (column, row, *about) in _STAGES.items():
        x = column * _APART
        y = row * _ROWS_APART
        lines.append(f'<rect x="{x}" y="{y}" width="{_WIDTH}" height="{_HEIGHT}" rx="6"/>')
        middle = x + _WIDTH // 2
        lines.append(f'<text class="name" x="{middle}" y="{y + 16}">{name}</text>')
        lines += [f'<text x="{middle}" y="{y + 31 + 14 * at}">{text}</text>' for at, text in enumerate(about)]
    lines += [f'<path d="{_path(*arrow)}"/>' for arrow in _ARROWS]
    return "\n".join([*lines, "</svg>", ""])


def _path(start: str, end: str) -> str:
    """From the side of one box to that of another: straight along a row, else with one corner or two."""
    column, row, *_ = _STAGES[start]
    to_column, to_row, *_ = _STAGES[end]
    x = column * _APART
    y = row * _ROWS_APART
    to_x = to_column * _APART
    to_y = to_row * _ROWS_APART
    if row == to_row:
        return f"M{x + _WIDTH} {y + _HEIGHT // 2}H{to_x}"
    if column == to_column:
        return f"M{x + _WIDTH // 2} {y + _HEIGHT}V{to_y}"
    if row < to_row and column > to_column:  # to the left, then down
        return f"M{x} {y + _HEIGHT // 2}H{to_x + _WIDTH // 2}V{to_y}"
    if row < to_row:  # down, then to the right
        return f"M{x + _WIDTH // 2} {y + _HEIGHT}V{to_y + _HEIGHT // 2}H{to_x}"
    if column > to_column:  # up, then to the left
        return f"M{x + _WIDTH // 2} {y}V{to_y + _HEIGHT // 2}H{to_x + _WIDTH}"
    return f"M{x + _WIDTH} {y + _HEIGHT // 2}H{to_x + _WIDTH // 2}V{to_y + _HEIGHT}"  # to the right, then up
