"""The moves of a plan, a line each: which pod leaves which node, where it lands and what that gains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.text import Text

from rebalancer.planning.plan import Landing, Move, NodeReport, Plan
from rebalancer.reporting.tables.columns import Column, Cut, write_columns
from rebalancer.reporting.tables.text import Lines
from rebalancer.reporting.words import amounts, plain

_MAX_MOVES = 20
_FEW_LANDINGS = 3
_MAX_RESTARTED = 5  # that are named
_CERTAIN = 0.9999


def write_moves(lines: Lines, plan: Plan) -> None:
    """A line a move, in the order of waves; the reason of each as well if the style shows everything."""
    if not plan.moves:
        return
    style = lines.style
    shown = plan.moves[: lines.shown(len(plan.moves), _MAX_MOVES)]
    gained = {_gained(move) for move in plan.moves}
    shared = gained.pop() if len(gained) == 1 else ""
    if not style.no_headers:
        arrow = style.glyphs.arrow
        what = f"{plain(shared)} " if shared else ""
        lines.heading("MOVES", f"{what}load in percent, now {arrow} after the plan; gain in points, at least")
    nodes = {node.name: node for node in plan.nodes}
    write_columns(lines, _columns(lines), [_row(move, nodes, lines, shared) for move in shown])
    if style.everything and not style.no_headers:
        lines.heading("REASONS", "for each move, and every node its replacement may land on")
        for move in shown:
            lines.add("  ", (plain(move.pod.full_name), "bold"))
            lines.message(landing_words(move.landings, everything=True), 4)
            lines.message(move.because, 4, "dim")
    if not style.no_headers:
        lines.more(len(plan.moves) - len(shown), "move")
        restarted = [plain(move.pod.full_name) for move in plan.moves if move.is_restart]
        if restarted:
            more = f", {style.glyphs.more}" if len(restarted) > _MAX_RESTARTED else ""
            named = ", ".join(restarted[:_MAX_RESTARTED]) + more
            lines.message(f"{len(restarted)} restarted by a rolling update, not evicted: {named}", 2)


def landing_words(landings: Sequence[Landing], *, everything: bool = False) -> str:
    """Where a pod may land: ``node-7``, ``node-7 50%, node-9 50%``, ``any of 45 nodes, e.g. node-7 2.2%``."""
    if not landings:
        return "nowhere"
    if len(landings) == 1 and landings[0].probability > _CERTAIN:
        return plain(landings[0].node)
    if len(landings) <= _FEW_LANDINGS or everything:
        return ", ".join(_landing(landing) for landing in landings)
    return f"any of {len(landings)} nodes, e.g. {_landing(_likeliest(landings))}"


def _columns(lines: Lines) -> list[Column]:
    columns = [
        Column("WAVE", right=True),
        Column("POD", cut=Cut.MIDDLE),
        Column("FROM", cut=Cut.MIDDLE),
        Column("LOAD", right=True),
        Column("TO", cut=Cut.MIDDLE),
        Column("CHANCE", right=True),
        Column("LOAD", right=True),
        Column("GAIN", right=True),
    ]
    if lines.style.wide:
        columns += [Column("WORKLOAD", cut=Cut.MIDDLE), Column("OTHER LANDINGS", cut=Cut.END)]
    return columns


def _gained(move: Move) -> str:
    """The resource that the move gains most of."""
    return max(move.gain, key=lambda name: (move.gain[name], name), default="cpu")


def _row(move: Move, nodes: Mapping[str, NodeReport], lines: Lines, shared: str) -> list[Text]:
    """The cells of a move; its resource is named only if the moves do not share one."""
    resource = _gained(move)
    gain = move.gain.get(resource, 0.0)
    likeliest = _likeliest(move.landings)
    others = f" +{len(move.landings) - 1}" if len(move.landings) > 1 else ""
    cells = [
        Text(str(move.wave)),
        Text(plain(move.pod.full_name), "bold"),
        Text(plain(move.from_node)),
        _loads(nodes.get(move.from_node), resource, lines),
        Text(plain(likeliest.node) + others),
        Text(f"{likeliest.probability:.0%}"),
        _loads(nodes.get(likeliest.node), resource, lines),
        Text(f"{gain:.0f}" if resource == shared else amounts(((resource, gain),)), "green"),
    ]
    if lines.style.wide:
        rest = [landing for landing in move.landings if landing is not likeliest]
        cells += [
            Text(plain(move.pod.workload)),
            Text(", ".join(_landing(landing) for landing in rest), "dim"),
        ]
    return cells


def _likeliest(landings: Sequence[Landing]) -> Landing:
    nowhere = Landing(node="nowhere", probability=0.0)
    return max(landings, key=lambda landing: landing.probability, default=nowhere)


def _loads(node: NodeReport | None, resource: str, lines: Lines) -> Text:
    """``103→35``; a question mark where a load is not known."""
    before = node.load.get(resource) if node else None
    after = node.after.load.get(resource) if node and node.after else None
    if before is None and after is None:
        return Text("?", "yellow")
    both = ["?" if value is None else f"{value:.0f}" for value in (before, after)]
    return Text(lines.style.glyphs.arrow.join(both))


def _landing(landing: Landing) -> str:
    return f"{plain(landing.node)} {f'{landing.probability * 100:.1f}'.removesuffix('.0')}%"
