"""A plan on one screen: which nodes are hot, which pods move where and why, and which stay and why."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from rich.text import Text

from rebalancer.planning.plan import Kept, Obstacle, Plan
from rebalancer.reporting.tables.benefit import write_benefit
from rebalancer.reporting.tables.moves import write_moves
from rebalancer.reporting.tables.node_loads import write_hot_nodes
from rebalancer.reporting.tables.questions.obstacles import write_obstacles
from rebalancer.reporting.tables.text import Lines, Style
from rebalancer.reporting.words import counted, plain, sample, shortened, words

_MAX_REASONS, _MAX_UNSOLVED, _MAX_WARNINGS = 5, 2, 3


def plan_table(
    plan: Plan,
    style: Style = Style(),
    listed: Listed | None = None,
) -> Text:
    """The plan as text; long lists summarised unless the style shows everything.

    With ``listed`` only its pods are listed; the headline and the nodes are those of the whole plan.
    """
    lines = Lines(style)
    rows = plan if listed is None else listed.plan
    if style.no_headers:
        write_moves(lines, rows)
        return lines.text
    _headline(lines, plan)
    if listed is not None:
        moves = f"{len(rows.moves)} of {counted(len(plan.moves), 'move')}"
        lines.add(("listed   ", "dim"), f"pods of {listed.choice}: {moves}")
    write_benefit(lines, plan)
    write_hot_nodes(lines, plan)
    write_moves(lines, rows)
    _kept(lines, rows.kept)
    _unsolved(lines, plan)
    _obstacles(lines, plan)
    _warnings(lines, plan)
    return lines.text


@dataclass(frozen=True, slots=True)
class Listed:
    """The rows of a plan that are listed, in the order they are listed in, and what chose them."""

    plan: Plan
    choice: str


def _headline(lines: Lines, plan: Plan) -> None:
    waves = len({move.wave for move in plan.moves})
    if plan.moves:
        from_nodes = len({move.from_node for move in plan.moves})
        verdict = f"evict {counted(len(plan.moves), 'pod')} from {counted(from_nodes, 'node')} "
        verdict += f"in {counted(waves, 'wave')}"
        cooled = sum(1 for node in plan.nodes if node.hot and node.after and not node.after.hot)
        verdict += f"; no longer hot: {cooled} of {plan.hot_count}"
        lines.add(("Plan: ", "bold"), (verdict, "bold"))
    elif plan.hot_count:
        lines.add(("Plan: ", "bold"), (_why_nothing(lines, plan), "bold"))
    else:
        lines.add(("Plan: ", "bold"), ("nothing to do: no node is hot", "bold green"))
    unknown = plan.node_count - plan.known_count
    nodes = f"{counted(plan.node_count, 'node')}: {plan.hot_count} hot, load known for {plan.known_count}"
    nodes += f", {unknown} without a fresh figure" if unknown else ""
    columns, more = lines.style.columns, lines.style.glyphs.more
    now = f" at {plain(plan.now)}"
    lines.add(("cluster  ", "dim"), shortened(words(plan.source), columns - 9 - len(now), more), now)
    lines.add(("nodes    ", "dim"), nodes)
    lines.add(("policy   ", "dim"), shortened(words(plan.policy), columns - 9, more))


def _why_nothing(lines: Lines, plan: Plan) -> str:
    """That nothing is evicted, and what keeps most of the load of hot nodes where it is."""
    verdict = f"evict nothing: {counted(plan.hot_count, 'hot node')}"
    if not plan.kept:
        return f"{verdict} without a pod to move"
    if not plan.obstacles:
        return f"{verdict}, on which no pod could ever move"
    most = plan.obstacles[0]
    name, verb = _named(most)
    verdict += f"; {words(name)} {verb} {most.share:.0%} of their load"
    return shortened(verdict, lines.style.columns - 6, lines.style.glyphs.more)


def _named(obstacle: Obstacle) -> tuple[str, str]:
    """A setting, or the reasons where there is none, and the verb that goes with them."""
    name = obstacle.setting or " and ".join(obstacle.reasons)
    return name, "keep" if " and " in name else "keeps"


def held_by(obstacle: Obstacle) -> str:
    """What keeps how much of the load that could relieve hot nodes: ``evictable.minAge keeps 74 % …``."""
    name, verb = _named(obstacle)
    text = f"{name} {verb} {obstacle.share:.0%} of the load that could leave"
    text += f" ({obstacle.pods} of {counted(obstacle.pods_in_all, 'pod')}"
    alone = obstacle.pods_kept_alone
    if obstacle.setting and alone < obstacle.pods:
        text += f", {alone or 'none'} by it alone"
    return words(f"{text}): {obstacle.because}")


def _obstacles(lines: Lines, plan: Plan) -> None:
    """One line on what holds most of the load; every setting of an empty plan, or if everything is shown."""
    if not plan.obstacles:
        return
    if not plan.moves:
        write_obstacles(lines, plan.obstacles)
        return
    shown = plan.obstacles[: lines.shown(len(plan.obstacles), 0) or 1]
    lines.heading("HELD BY", "what keeps load on nodes above coolTo, by the policy's setting")
    for obstacle in shown:
        lines.message(f"{held_by(obstacle)}, e.g. {obstacle.example}", 2, "yellow")
    lines.more(len(plan.obstacles) - len(shown), "setting or reason", plural="settings or reasons")


def _kept(lines: Lines, kept: Sequence[Kept]) -> None:
    if not kept:
        return
    by_reason: defaultdict[str, list[Kept]] = defaultdict(list)
    for item in kept:
        by_reason[item.reason].append(item)
    reasons = sorted(by_reason, key=lambda reason: (-len(by_reason[reason]), reason))
    shown = reasons[: lines.shown(len(reasons), _MAX_REASONS)]
    lines.heading("PODS THAT STAY", f"{counted(len(kept), 'pod')} on hot nodes, by reason")
    width = max(len(plain(reason)) for reason in shown)
    for reason in shown:
        pods = by_reason[reason]
        head = f"  {plain(reason).ljust(width)} {len(pods):6d}  "
        if lines.style.everything:
            lines.add((head, "bold"))
            for item in pods:
                lines.message(f"{item.pod.full_name} on {item.node}: {item.because}", 4, most=1)
            continue
        room = lines.style.columns - len(head)
        example = words(f"{pods[0].because}, e.g. {pods[0].pod.full_name}")
        lines.add((head, "bold"), (shortened(example, room, lines.style.glyphs.more), "dim"))
    lines.more(len(reasons) - len(shown), "reason")


def _unsolved(lines: Lines, plan: Plan) -> None:
    if not plan.unsolved:
        return
    by_cause: defaultdict[str, list[str]] = defaultdict(list)
    for node in sorted(plan.unsolved):
        by_cause[plan.unsolved[node]].append(node)
    peaks = {node.name: max(node.after.load.values(), default=0.0) for node in plan.nodes if node.after}
    hottest = {cause: max(peaks.get(node, 0.0) for node in nodes) for cause, nodes in by_cause.items()}
    causes = sorted(by_cause, key=lambda cause: (-len(by_cause[cause]), -hottest[cause], cause))
    shown = causes[: lines.shown(len(causes), _MAX_UNSOLVED)]
    hot = sum(1 for node in plan.nodes if node.name in plan.unsolved and node.after and node.after.hot)
    note = f"{counted(len(plan.unsolved), 'node')} above coolTo, {hot} still hot"
    lines.heading("NOT COOL AFTER THIS PLAN", note)
    for cause in shown:
        most = len(by_cause[cause]) if lines.style.everything else 2
        lines.message(f"{sample(by_cause[cause], most)}: {cause}", 2, "yellow")
    hidden = sum(len(by_cause[cause]) for cause in causes[len(shown) :])
    lines.more(hidden, "node")


def _warnings(lines: Lines, plan: Plan) -> None:
    warnings = list(plan.warnings)
    if plan.neutral_plugins:
        names = ", ".join(plan.neutral_plugins)
        warnings.insert(0, f"not modelled, assumed to score all nodes alike: {names}")
    if warnings:
        write_warnings(lines, warnings)


def write_warnings(lines: Lines, warnings: Sequence[str]) -> None:
    """The first warnings, each on a line or two."""
    shown = warnings[: lines.shown(len(warnings), _MAX_WARNINGS)]
    lines.heading("WARNINGS")
    for warning in shown:
        lines.message(warning, 2, "yellow")
    lines.more(len(warnings) - len(shown), "warning")
