"""The plan of the example recording as a picture that moves: nodes are columns, pods are blocks.

Everything is taken from the JSON of ``plan`` and ``explain``. The animation is CSS, without a script; where
motion is not wanted, the picture shows the end.
"""

from __future__ import annotations

import contextlib
import functools
import json
from html import escape
from itertools import groupby
from typing import Any

from click.testing import CliRunner

from rebalancer.cli.program import main
from tests.ux.terminal import EXAMPLE, ROOT, THEMES

COLUMN, GAP, LEFT, TOP, HEIGHT = 92, 22, 64, 84, 260
WIDTH = LEFT + 6 * (COLUMN + GAP) + 12
SECONDS_A_STEP = 2.2
_COLOURS = {
    "light": {"api": "#1f6feb", "web": "#8250df", "search": "#bf8700", "mail": "#1a7f64", "": "#afb8c1"},
    "dark": {"api": "#4493f8", "web": "#ab7df8", "search": "#d29922", "mail": "#3fb99a", "": "#565f6a"},
}
_HOT = {"light": "#cf222e", "dark": "#f85149"}


@functools.cache
def _told(*words: str) -> Any:
    """What a command says of the example, once for all themes; no terminal has a part in it."""
    with contextlib.chdir(ROOT):
        said = CliRunner().invoke(main, [*words, *EXAMPLE, "-o", "json"])
    assert said.exit_code == 0, said.output
    return json.loads(said.stdout)


def moving_picture(theme: str) -> str:
    """The plan as an SVG that plays once every few seconds, in the colours of the theme."""
    plan = _told("plan")
    nodes = sorted(plan["nodes"], key=lambda node: node["name"])
    moves = sorted(plan["moves"], key=lambda move: move["wave"])
    waves = [list(members) for _, members in groupby(moves, key=lambda move: move["wave"])]
    columns = {node["name"]: LEFT + place * (COLUMN + GAP) for place, node in enumerate(nodes)}
    steps = len(waves) + 3  # the cluster as it is, every wave, and the end twice as long
    limits = nodes[0]["levels"]["cpu"]

    heights = {node["name"]: 0.0 for node in nodes}
    blocks: list[tuple[dict[str, Any], str, float]] = []
    moved = {move["pod"]["uid"]: move for move in moves}
    for node in nodes:
        told = _told("explain", f"node/{node['name']}")
        pods = sorted(
            told["pods"], key=lambda pod: (-_wave(moved, pod), -pod["share"]["cpu"], pod["pod"]["name"])
        )
        pods.sort(key=lambda pod: pod["pod"]["uid"] in moved)
        for pod in pods:
            blocks.append((pod, node["name"], heights[node["name"]]))
            heights[node["name"]] += pod["share"]["cpu"]

    parts = [_axis(limits, theme)]
    loads = {node["name"]: [heights[node["name"]]] for node in nodes}
    shifts: dict[str, tuple[float, float, int]] = {}
    for step, members in enumerate(waves, start=1):
        for move in members:
            uid, source, target = move["pod"]["uid"], move["from"], move["landings"][0]["node"]
            pod, _, bottom = next(block for block in blocks if block[0]["pod"]["uid"] == uid)
            shifts[uid] = (columns[target] - columns[source], _y(heights[target]) - _y(bottom), step)
            heights[target] += pod["share"]["cpu"]
            heights[source] -= pod["share"]["cpu"]
        for name, seen in loads.items():
            seen.append(heights[name])
    styles = []
    for number, (pod, name, bottom) in enumerate(blocks):
        parts.append(_block(number, pod, columns[name], bottom, theme))
        if (shift := shifts.get(pod["pod"]["uid"])) is not None:
            styles.append(_flight(number, *shift, steps))
    for node in nodes:
        parts += _labels(
            node["name"], columns[node["name"]], loads[node["name"]], limits["hotAbove"], steps, theme
        )
    parts += _captions(plan, waves, steps)
    styles += [_visible(step, steps) for step in range(steps - 1)]
    ground, ink = (
        f"rgb{tuple(colour)}" for colour in (THEMES[theme].background_color, THEMES[theme].foreground_color)
    )
    return (
        f'<svg viewBox="0 0 {WIDTH} {TOP + HEIGHT + 46}" xmlns="http://www.w3.org/2000/svg" role="img">\n'
        f"<title>{escape(_title(plan))}</title>\n<style>\n"
        f"text {{ font: 13px system-ui, sans-serif; fill: {ink}; }}\n"
        ".caption { font-size: 17px; font-weight: 600; }\n"
        f".hot {{ fill: {_HOT[theme]}; font-weight: 600; }}\n"
        f".pod {{ fill: #fff; font-size: 11px; }} .middle {{ text-anchor: middle; }}\n"
        + "\n".join(styles)
        + "\n@media (prefers-reduced-motion: reduce) { * { animation-duration: 1ms !important; "
        "animation-iteration-count: 1 !important; animation-fill-mode: forwards !important; } }\n</style>\n"
        f'<rect width="100%" height="100%" fill="{ground}"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def _wave(moved: dict[str, Any], pod: dict[str, Any]) -> int:
    """What leaves first lies on top of its node, so nothing has to fall."""
    return moved[pod["pod"]["uid"]]["wave"] if pod["pod"]["uid"] in moved else 0


def _title(plan: dict[str, Any]) -> str:
    no_longer = sum(node["hot"] and not node["after"]["hot"] for node in plan["nodes"])
    restarted = f"{len(plan['moves'])} of {plan['podCount']} pods restart"
    return f"{no_longer} of {plan['hotCount']} hot nodes no longer hot; {restarted}"


def _y(percent: float) -> float:
    return TOP + HEIGHT * (1 - percent / 100)


def _axis(limits: dict[str, float], theme: str) -> str:
    lines = [f'<text x="10" y="{TOP + HEIGHT + 4}">cpu 0</text>']
    for name, percent in (("hot", limits["hotAbove"]), ("cool", limits["coolTo"])):
        y = _y(percent)
        colour = _HOT[theme] if name == "hot" else "#8b949e"
        lines.append(f'<text x="10" y="{y + 4:.1f}">{name} {percent:g}</text>')
        lines.append(
            f'<line x1="{LEFT - 4}" x2="{WIDTH - 12}" y1="{y:.1f}" y2="{y:.1f}" stroke="{colour}" '
            'stroke-dasharray="5 4"/>'
        )
    return "\n".join(lines)


def _block(number: int, pod: dict[str, Any], x: float, bottom: float, theme: str) -> str:
    share, workload = pod["share"]["cpu"], pod["pod"]["workload"].rpartition("/")[2]
    colour = _COLOURS[theme].get(workload, _COLOURS[theme][""])
    y, height = _y(bottom + share), HEIGHT * share / 100
    label = (
        f'<text class="pod middle" x="{x + COLUMN / 2}" y="{y + height / 2 + 4:.1f}">'
        f"{escape(pod['pod']['name'])}</text>"
        if height > 13
        else ""
    )
    return (
        f'<g id="p{number}"><rect x="{x}" y="{y + 0.5:.1f}" width="{COLUMN}" height="{height - 1:.1f}" '
        f'rx="2" fill="{colour}"/>{label}</g>'
    )


def _flight(number: int, across: float, down: float, step: int, steps: int) -> str:
    """Up and over, in the first two thirds of the step."""
    begins, ends = 100 * step / steps, 100 * (step + 0.6) / steps
    up = min(down, 0) - TOP * 0.14
    return (
        f"@keyframes f{number} {{ 0%, {begins:.2f}% {{ transform: none; }} "
        f"{(begins + ends) / 2:.2f}% {{ transform: translate({across / 2:.1f}px, {up:.1f}px); }} "
        f"{ends:.2f}%, 100% {{ transform: translate({across:.1f}px, {down:.1f}px); }} }}\n"
        f"#p{number} {{ animation: f{number} {steps * SECONDS_A_STEP:g}s ease-in-out infinite; }}"
    )


def _visible(step: int, steps: int) -> str:
    """A class for what is shown in one step only; the last one stays."""
    begins, ends = 100 * step / steps, 100 * (step + 1) / steps
    last = step == steps - 2
    shown = f"{begins:.2f}%, 100%" if last else f"{begins:.2f}%, {ends - 0.01:.2f}%"
    hidden = ([f"0%, {max(begins - 0.01, 0):.2f}%"] if step else []) + (
        [] if last else [f"{ends:.2f}%, 100%"]
    )
    return (
        f"@keyframes s{step} {{ {', '.join(hidden)} {{ opacity: 0; }} {shown} {{ opacity: 1; }} }}\n"
        f".s{step} {{ animation: s{step} {steps * SECONDS_A_STEP:g}s step-end infinite; }}"
    )


def _labels(name: str, x: float, loads: list[float], hot_above: float, steps: int, theme: str) -> list[str]:
    """The node's name below its column and its load above it, in every step."""
    middle = x + COLUMN / 2
    drawn = [f'<text class="middle" x="{middle}" y="{TOP + HEIGHT + 22}">{escape(name)}</text>']
    for step in range(steps - 1):
        load = loads[min(step, len(loads) - 1)]
        kind = " hot" if load > hot_above else ""
        drawn.append(
            f'<text class="middle s{step}{kind}" x="{middle}" y="{TOP + HEIGHT + 38}">{load:.0f} %</text>'
        )
    return drawn


def _captions(plan: dict[str, Any], waves: list[list[dict[str, Any]]], steps: int) -> list[str]:
    """One line a step: the cluster as it is, each wave's moves with their chances, and what that achieved."""
    lines = [f"{plan['nodeCount']} nodes: {plan['hotCount']} hot. Which pods would land better, and where?"]
    for number, members in enumerate(waves, start=1):
        told = "; ".join(
            f"{move['pod']['name']} → {likeliest['node']} ({likeliest['probability']:.0%})"
            for move in members
            for likeliest in move["landings"][:1]
        )
        lines.append(f"wave {number}: {told}")
    lines.append(_title(plan))
    return [
        f'<text class="caption s{step}" x="{LEFT - 4}" y="34">{escape(line)}</text>'
        for step, line in enumerate(lines)
    ]
