"""A plan on one screen: which nodes are hot, which pods move where and why, and which stay and why."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from math import prod

from rich.text import Text

from rebalancer.counting import counted
from rebalancer.planning.plan import (
    Benefit,
    Change,
    Cleanup,
    Landing,
    Move,
    NodeReport,
    Obstacle,
    Plan,
    PlanDifference,
    UnmovedPod,
)
from rebalancer.planning.reasons import NEVER_MOVE, Reason
from rebalancer.policy.model import is_extended
from rebalancer.policy.strategies import ALWAYS_ON
from rebalancer.policy.units import format_duration
from rebalancer.reporting.tables.text import Column, Lines, Style, bar, write_table
from rebalancer.reporting.words import amounts, plain, sample, words

_MAX_MOVES = 20
_MAX_CLEANUPS = 10
_FEW_LANDINGS = 3
_MAX_OTHER_LANDINGS = 10  # that are named in a row, unless everything is
_MAX_RESTARTED = 5  # that are named
_CERTAIN = 0.9999
_LIKELY = 0.01  # the chance from which on a landing of many is named
_BAR = 10
_SHORT_BAR = 8
_MAX_HOT = 7
ALWAYS_SHOWN = ("cpu", "memory")
_NEARLY_FULL = 80.0  # percent above which any other resource is shown too
_PREFERRED = "cpu"
_MAX_OBSTACLES = 6
_FEW = 4  # nodes that are named one by one
_MAX_REASONS = 5
_MAX_UNSOLVED = 2
_NOT_EXPECTED_TO_MOVE = frozenset(
    map(str, (*NEVER_MOVE, Reason.NOT_NEEDED))
)  # how to free them is no question
_MAX_WARNINGS = 3
_MAX_CHANGED = 10
_MAX_SETTINGS = 8
_NOT_HOT = "not hot"
STATES = (
    "cooled: at coolTo or below; not hot: no longer above the level that makes it hot, and still above coolTo"
)
_MORE_LANDINGS = "+N: N other nodes may take it; the chance is that of the node named"


def write_moves(lines: Lines, plan: Plan) -> None:
    """A line a move, in the order of waves; the reason of each as well if the style shows everything."""
    if not plan.moves:
        return
    style = lines.style
    max_moves = _MAX_MOVES if style.bounded else len(plan.moves)  # a log of plans holds every move
    shown = plan.moves[: lines.shown(len(plan.moves), max_moves)]
    gained = {_gained(move) for move in plan.moves}
    shared = gained.pop() if len(gained) == 1 else ""
    if not style.no_headers:
        arrow = style.glyphs.arrow
        what = f"{plain(shared)} " if shared else ""
        legend = "after this move; GAIN at least, in points"
        if any(map(_is_for, plan.moves)):
            legend += ", or what it is for"
        lines.heading("MOVES", f"{what or 'load '}%, now {arrow} {legend}")
    write_table(lines, _move_columns(lines, shared), shown)
    if style.everything and not style.no_headers:
        lines.heading("REASONS", "for each move, and every node its replacement may land on")
        for move in shown:
            lines.message(move.pod.full_name, 2, "bold")
            lines.message(landing_words(move.landings, everything=True), 4)
            lines.message(move.because, 4, "dim")
    if not style.no_headers:
        lines.more(len(plan.moves) - len(shown), "move")
        restarted = [plain(move.pod.full_name) for move in plan.moves if move.is_restart]
        if restarted:
            more = f", {style.glyphs.more}" if len(restarted) > _MAX_RESTARTED else ""
            named = ", ".join(restarted[:_MAX_RESTARTED]) + more
            lines.message(f"{len(restarted)} restarted by a rolling update, not evicted: {named}", 2)
        if any(len(move.landings) > 1 for move in shown):
            lines.message(_MORE_LANDINGS, 2, "dim")
        lines.message(_risk(plan.moves), 2)


def _write_cleanups(lines: Lines, cleanups: Sequence[Cleanup]) -> None:
    """The finished pods that a run removes before its first wave."""
    if not cleanups:
        return
    lines.heading("CLEANUPS", "finished pods, removed before the first wave; no load moves with them")
    columns = [
        Column("POD", lambda cleanup: (plain(cleanup.pod.full_name), "bold")),
        Column("NODE", lambda cleanup: plain(cleanup.node), node=True),
        Column("FOR", lambda cleanup: (plain(cleanup.strategy), "green")),
        Column("WHY", lambda cleanup: (words(cleanup.because), "dim"), sentence=True),
    ]
    write_table(lines, columns, cleanups, _MAX_CLEANUPS, "finished pod")


def _risk(moves: Sequence[Move]) -> str:
    """``2 moves may land where they should not, with a chance of 3.9 % in all``; empty where none may."""
    risks = [move.risk for move in moves if move.risk > 1.0 - _CERTAIN]
    if not risks:
        return ""
    chance = 1.0 - prod(1.0 - risk for risk in risks)
    may = f"{counted(len(risks), 'move')} may land where {'it' if len(risks) == 1 else 'they'} should not"
    return f"{may}, with a chance of {chance:.1%} in all: planning.confidence allows it"


def landing_words(landings: Sequence[Landing], *, everything: bool = False) -> str:
    """Where a pod may land: ``node-7``, ``node-7 50%, node-9 50%``, ``any of 45 nodes, e.g. node-7 2.2%``."""
    if not landings:
        return "nowhere"
    if len(landings) == 1 and landings[0].probability > _CERTAIN:
        return plain(landings[0].node)
    if len(landings) <= _FEW_LANDINGS or everything:
        return ", ".join(_landing(landing) for landing in landings)
    likeliest = max(landings, key=lambda landing: landing.probability)
    return f"any of {len(landings)} nodes, e.g. {_landing(likeliest)}"


def likely_landing_words(landings: Sequence[Landing]) -> str:
    """The landings of 1 % or more, the rest summed: ``node-7 88%, and 400 others, together 12%``."""
    likely = [landing for landing in landings if landing.probability >= _LIKELY]
    others = [landing for landing in landings if landing.probability < _LIKELY]
    if len(others) <= 1 or not likely:
        return landing_words(landings, everything=len(others) <= 1)
    named = ", ".join(map(_landing, sorted(likely, key=lambda landing: -landing.probability)))
    return f"{named}, {_others_together(others)}"


def _others_together(landings: Sequence[Landing]) -> str:
    """``and 400 others, together 12%``."""
    percent = 100 * sum(landing.probability for landing in landings)
    return f"and {counted(len(landings), 'other')}, together {percent:.0f}%"


def load_words(move: Move, arrow: str) -> str:
    """``cpu node-2 89 → 74 %, node-3 48 → 59 % or node-4 33 → 44 %``: loads before and after it."""
    resource = _gained(move)
    landings = move.landings if len(move.landings) <= _FEW_LANDINGS else (move.likeliest,)

    def changed(node: str, load: Mapping[str, Change]) -> str:
        change = load.get(resource)
        return "" if change is None else f"{plain(node)} {change.before:.0f} {arrow} {change.after:.0f} %"

    there = " or ".join(filter(None, (changed(landing.node, landing.load) for landing in landings)))
    changes = ", ".join(filter(None, (changed(move.from_node, move.from_load), there)))
    return f"{plain(resource)} {changes}" if changes else ""


def _move_columns(lines: Lines, shared: str) -> list[Column]:
    """The columns of moves; a move's resource is named only if the moves do not share one."""

    def to(move: Move) -> str:
        node = plain(move.likeliest.node) or "nowhere"
        if len(move.landings) > 1:
            node += f" +{len(move.landings) - 1}"
        return node

    def others(move: Move) -> tuple[str, str]:
        less_likely = [landing for landing in move.landings if landing is not move.likeliest]
        less_likely.sort(key=lambda landing: -landing.probability)
        named = less_likely if lines.style.everything else less_likely[:_MAX_OTHER_LANDINGS]
        words = [other(landing, move) for landing in named]
        if unnamed := less_likely[len(named) :]:
            words.append(_others_together(unnamed))
        return ", ".join(words), "dim"

    def other(landing: Landing, move: Move) -> str:
        load = f" {loads(landing.load, move).plain}" if landing.load else ""
        return f"{_landing(landing)}{load}"

    def gain(move: Move) -> tuple[str, str]:
        """The gain in points, or the strategy of a move that is for something else."""
        resource = _gained(move)
        points = move.gain.get(resource, 0.0)
        if not points and _is_for(move):
            return _is_for(move), "green"
        return f"{points:.0f}" if resource == shared else amounts(((resource, points),)), "green"

    def loads(load: Mapping[str, Change], move: Move) -> Text:
        """``103→35`` by this move; a question mark where the load is not known."""
        change = load.get(_gained(move))
        if change is None:
            return Text("?", "yellow")
        return Text(f"{change.before:.0f}{lines.style.glyphs.arrow}{change.after:.0f}")

    columns = [
        Column("WAVE", lambda move: str(move.wave), right=True, leads=True, phrase="wave {}"),
        Column("POD", lambda move: (plain(move.pod.full_name), "bold"), leads=True),
        Column("FROM", lambda move: plain(move.from_node), node=True),
        Column("LOAD", lambda move: loads(move.from_load, move), right=True, phrase="{}"),
        Column("TO", to, node=True),
        Column("CHANCE", lambda move: f"{move.likeliest.probability:.0%}", right=True, phrase="{}"),
        Column("THERE", lambda move: loads(move.likeliest.load, move), right=True, phrase="{}"),
        Column("GAIN", gain, right=True),
    ]
    if lines.style.wide:
        columns += [
            Column("WORKLOAD", lambda move: plain(move.pod.workload)),
            Column("OTHER LANDINGS", others, sentence=True),
        ]
    return columns


def _gained(move: Move) -> str:
    """The resource that the move gains most of."""
    return max(move.gain, key=lambda name: (move.gain[name], name), default="cpu")


def _is_for(move: Move) -> str:
    """The strategy of a move whose purpose is not relief; else empty."""
    return "" if move.strategy in ALWAYS_ON else plain(move.strategy)


def _landing(landing: Landing) -> str:
    return f"{plain(landing.node)} {f'{landing.probability * 100:.1f}'.removesuffix('.0')}%"


def write_hot_nodes(lines: Lines, plan: Plan) -> None:
    """The hot nodes, hottest first, and whether the plan cools each of them."""
    hot = sorted((node for node in plan.nodes if node.hot), key=lambda node: (-peak(node), node.name))
    if not hot:
        return
    glyphs = lines.style.glyphs
    legend = f"{glyphs.full} stays {glyphs.leaves} leaves {glyphs.arrives} arrives"
    lines.heading("HOT NODES", f"percent, now {glyphs.arrow} after the plan: {legend}")
    columns = [
        Column("NODE", lambda node: (plain(node.name), "bold"), node=True),
        *load_columns(lines, hot[: lines.shown(len(hot), _MAX_HOT)]),
        Column("AFTER", lambda node: state_after(node, plan)),
    ]
    if lines.style.wide or lines.style.everything:
        columns.append(Column("WHY", lambda node: (plain("; ".join(node.because)), "dim"), sentence=True))
    write_table(lines, columns, hot, _MAX_HOT, "hot node")


def state_after(node: NodeReport, plan: Plan) -> Text:
    """``still hot``; ``not hot``, where it is no longer hot and above coolTo; ``cooled`` at coolTo."""
    if node.after is None:
        return Text("")
    if node.after.hot:
        return Text("still hot", "red")
    return Text(_NOT_HOT, "yellow") if node.name in plan.unsolved else Text("cooled", "green")


def peak(node: NodeReport) -> float:
    """The highest known load of the node, -1 if none is known."""
    return max(node.load.values(), default=-1.0)


def load_columns(lines: Lines, nodes: Iterable[NodeReport]) -> list[Column]:
    """CPU and memory; others if the style shows everything, or if one is nearly full or made a node hot."""
    resources = {name for node in nodes for name in _resources(node) if _worth_showing(node, name, lines)}
    return [
        Column(plain(name).upper(), partial(load_bar, lines, resource=name)) for name in sorted(resources)
    ]


def load_bar(lines: Lines, node: NodeReport, resource: str, *, spaced: bool = False) -> Text:
    """``████▒▒░░  87→65``; with room for it ``██████▒▒░░  87% →  65%``."""
    before = node.load.get(resource)
    after = node.after.load.get(resource) if node.after else None
    if before is None and is_extended(resource):
        return Text("none", "dim")  # not every node has such a device
    if before is None:
        return Text("unknown", "yellow")
    arrow = lines.style.glyphs.arrow
    text = bar(before, after, _BAR if spaced else _SHORT_BAR, lines.style.glyphs)
    text.append(f" {before:3.0f}{'%' * spaced}", "bold")
    if after is not None:
        text.append(f" {arrow} {after:3.0f}%" if spaced else f"{arrow}{after:.0f}")
    return text


def write_node(lines: Lines, node: NodeReport) -> None:
    """The bars of one node, a line each, for the explanation of that node."""
    resources = [name for name in _resources(node) if _worth_showing(node, name, lines)]
    if not resources:
        lines.message("no fresh figure", 2)
        return
    arrow = lines.style.glyphs.arrow
    lines.message(f"percent of allocatable, now {arrow} after the plan", 2, "dim")
    widest = max(map(len, map(plain, resources)))
    for resource in resources:
        lines.add(f"  {plain(resource).ljust(widest)}  ", load_bar(lines, node, resource, spaced=True))


def _resources(node: NodeReport) -> list[str]:
    return sorted(set(node.load) | set(node.after.load if node.after else ()))


def _worth_showing(node: NodeReport, resource: str, lines: Lines) -> bool:
    """Whether a summary shows a resource: CPU, memory, and any that is nearly full or made the node hot."""
    named = any(resource in reason for reason in node.because)
    return (
        lines.style.everything
        or resource in ALWAYS_SHOWN
        or is_extended(resource)
        or named
        or node.load.get(resource, 0.0) >= _NEARLY_FULL
    )


def _write_steered(lines: Lines, plan: Plan) -> None:
    """The nodes that have a soft taint, by wave; of many how many, unless everything is to be shown."""
    tainted = plan.tainted
    nodes = {name for reasons in tainted.values() for name in reasons}
    if lines.style.everything:
        for wave, reasons in tainted.items():
            each = "; ".join(f"{plain(name)}, {words(why)}" for name, why in reasons.items())
            lines.labelled("steer    ", f"a soft taint in wave {wave} on {each}")
    elif sum(map(len, tainted.values())) <= _FEW:
        waves = (f"on {', '.join(map(plain, reasons))} in wave {wave}" for wave, reasons in tainted.items())
        lines.labelled("steer    ", f"a soft taint {'; '.join(waves)}")
    else:
        at_once = max(map(len, tainted.values()))
        lines.labelled(
            "steer    ",
            f"a soft taint on {counted(len(nodes), 'node')} in {counted(len(tainted), 'wave')}, "
            f"on {at_once:,} at once at most",
        )


def write_benefit(lines: Lines, plan: Plan) -> None:
    """Benefit and cost of a plan with moves; and what a higher limit would give, if one binds."""
    benefit = plan.benefit
    arrow = lines.style.glyphs.arrow
    if plan.moves:
        waves = len({move.wave for move in plan.moves})
        nodes = len({move.from_node for move in plan.moves})
        moves = f"{counted(len(plan.moves), 'move')} off {counted(nodes, 'node')}"
        lines.labelled("waves    ", f"{moves} in {counted(waves, 'wave')}")
    if benefit is not None and plan.moves and (lines.style.wide or lines.style.everything):
        lines.labelled("benefit  ", gain_words(benefit, arrow))
        lines.labelled("cost     ", cost_words(benefit))
    elif benefit is not None and plan.moves and benefit.hottest is not None:
        hottest = benefit.hottest
        load = benefit.hottest.load
        after = f"{load.before:.0f} {arrow} {load.after:.0f} % {hottest.resource}"
        lines.labelled("hottest  ", f"{hottest.name} {after}")
    if plan.tainted:
        _write_steered(lines, plan)
    if plan.closed:
        named = ", ".join(map(plain, plan.closed[:_FEW]))
        if len(plan.closed) > _FEW:
            named += f", {lines.style.glyphs.more}"
        meanwhile = "while they are emptied" if len(plan.closed) > 1 else "while it is emptied"
        still = f"until removed, at most {format_duration(plan.closed_seconds)} more"
        lines.labelled("closed   ", f"a NoSchedule taint on {named} {meanwhile}, and {still}")
    for note in plan.notes:
        lines.labelled("note     ", words(note))
    if plan.raised_limit:
        lines.labelled("limits   ", words(plan.raised_limit))
    for message in strategy_messages(plan):
        lines.labelled("strategy ", words(message))


def strategy_messages(plan: Plan) -> list[str]:
    """What the strategies say of the plan, but for what it says itself: of hot nodes."""
    return [
        f"{name}: {report.message or 'no pod moves for it'}"
        for name, report in plan.strategies.items()
        if name not in ALWAYS_ON and (report.message or not report.moves)
    ]


def gain_words(benefit: Benefit, arrow: str) -> str:
    """``hottest n1 89 → 63, hot 2 → 0, excess 52 → 0, peak 89 → 63, deviation 34.1 → 23.1``."""

    def changed(change: Change, digits: int = 0) -> str:
        return f"{change.before:.{digits}f} {arrow} {change.after:.{digits}f}"

    parts = [f"hot {changed(benefit.hot_nodes)}", f"excess {changed(benefit.excess)}"]
    hottest = benefit.hottest
    if hottest is not None:
        name = "" if hottest.resource == _PREFERRED else f"{plain(hottest.resource)} "
        parts.insert(0, f"hottest {plain(hottest.name)} {name}{changed(hottest.load)}")
    resource = _PREFERRED if _PREFERRED in benefit.peak else next(iter(benefit.peak), "")
    if resource:
        name = "" if resource == _PREFERRED else f"{plain(resource)} "
        parts.append(f"{name}peak {changed(benefit.peak[resource])}")
        parts.append(f"deviation {changed(benefit.deviation[resource], 1)}")
    return ", ".join(parts)


def cost_words(benefit: Benefit) -> str:
    """``4 of 24 pods (17 %), cost 4.7; score 8.7 points per unit``."""
    share = 100.0 * benefit.pods_moved / max(benefit.pods, 1)
    moved = (
        f"{benefit.pods_moved:,} of {counted(benefit.pods, 'pod')} ({share:.2g} %), cost {benefit.cost:.1f}"
    )
    return f"{moved}; score {benefit.score:.1f} points per unit"


def write_obstacles(lines: Lines, obstacles: Sequence[Obstacle]) -> None:
    """The obstacles, at least one; WITHOUT IT counts the pods that would move if only this were lifted."""
    count = obstacles[0].pods_in_all
    lines.heading(
        "BLOCKED BY", f"share of the load of {counted(count, 'pod')} that could leave nodes above coolTo"
    )

    def moves_if_lifted(obstacle: Obstacle) -> tuple[str, str]:
        moves = obstacle.moves_if_lifted
        return ("-" if moves is None else f"{moves:,}", "bold")

    def example(obstacle: Obstacle) -> tuple[str, str]:
        remedy = f"; {obstacle.freed_by}" if obstacle.remedy else ""
        return words(f"{obstacle.example}: {obstacle.because}{remedy}"), "dim"

    columns = [
        Column("LOAD", lambda obstacle: (f"{obstacle.share:.0%}", "bold"), right=True),
        Column("PODS", lambda obstacle: (f"{obstacle.pods:,}", "bold"), right=True),
        Column("MOVE WITHOUT IT", moves_if_lifted, right=True),
        Column("SETTING OR REASON", lambda obstacle: (words(obstacle.name), "yellow")),
        Column("EXAMPLE", example, below=True),
    ]
    shown = obstacles[: lines.shown(len(obstacles), _MAX_OBSTACLES)]
    write_table(lines, columns, shown)
    lines.more(len(obstacles) - len(shown), "setting or reason", plural="settings or reasons")


def plan_table(plan: Plan, style: Style = Style(), rows: Plan | None = None, choice: str = "") -> Text:
    """The plan as text; long lists summarised unless the style shows everything.

    ``rows`` is the plan with only the moves and pods to list, in their order, and ``choice`` says what chose
    them; the headline and the nodes are those of the whole plan.
    """
    lines = Lines(style, (node.name for node in plan.nodes))
    listed = rows or plan
    if style.no_headers:
        write_moves(lines, listed)
        return lines.text
    moves_nothing = plan.hot_count and not (plan.moves or plan.cleanups)
    headline = _why_nothing(plan) if moves_nothing else verdict(plan)
    idle = not (plan.hot_count or plan.moves or plan.cleanups or plan.kept)
    colour = "bold green" if idle else "bold"
    lines.headline("Plan: ", headline, colour)
    for sentence in plan.protects_nothing:
        lines.labelled("PROTECTS NOTHING: ", f"{sentence}; a run refuses to act", "red", "bold red")
    if plan.runs:
        lines.labelled("runs     ", words(plan.runs), "yellow", "bold yellow")
    unknown = plan.node_count - plan.known_count
    nodes = f"{counted(plan.node_count, 'node')}: {plan.hot_count} hot, load known for {plan.known_count:,}"
    nodes += f", {plan.not_measured}" if plan.not_measured else ""
    nodes += f", {unknown} without a fresh figure" if unknown else ""
    now = f" at {plain(plan.now)}"
    lines.labelled("cluster  ", plan.source + now)
    lines.labelled("nodes    ", nodes)
    lines.labelled("policy   ", plan.policy)
    lines.say_what_is_left_out()
    if choice:
        moves = f"{len(listed.moves)} of {counted(len(plan.moves), 'move')}"
        lines.labelled("listed   ", f"pods of {choice}: {moves}")
    write_benefit(lines, plan)
    write_hot_nodes(lines, plan)
    write_moves(lines, listed)
    _write_cleanups(lines, listed.cleanups)
    _unmoved(lines, listed)
    _unsolved(lines, plan)
    _obstacles(lines, plan)
    write_warnings(lines, [warning for warning in plan.warnings if warning not in plan.protects_nothing])
    return lines.text


def verdict(plan: Plan) -> str:
    """What a plan comes to, in one clause: what it evicts and what that achieves, or why nothing."""
    if plan.moves or plan.cleanups:
        no_longer = sum(1 for node in plan.nodes if node.hot and node.after and not node.after.hot)
        left = plan.hot_count - no_longer
        stay = f", {counted(left, 'stays hot', 'stay hot')}" if left else ""
        removed = len(plan.cleanups)
        restart = len(plan.moves)
        of_all = plan.benefit and f"{restart:,} of {counted(plan.benefit.pods, 'pod')}"
        pods = of_all or counted(restart, "pod")
        hot = counted(plan.hot_count, "hot node")
        parts = [f"{no_longer} of {hot} no longer hot{stay}"] if plan.hot_count else []
        parts += [f"{pods} {'restarts' if restart == 1 else 'restart'}"] if restart else []
        parts += [f"{counted(removed, 'finished pod')} removed"] if removed else []
        parts += [f"about {_minutes(plan.expected_seconds)}"] if plan.expected_seconds else []
        return "; ".join(parts)
    if plan.hot_count:
        return f"evict nothing: {counted(plan.hot_count, 'hot node')} cannot be cooled"
    if plan.kept:  # by the wish of another strategy
        return (
            f"evict nothing: {plan.no_hot_node}, and {counted(len(plan.kept), 'other pod')} cannot be moved"
        )
    return f"nothing to do: {plan.no_hot_node}"


def _minutes(seconds: float) -> str:
    return "1 minute" if seconds < 90 else f"{seconds / 60:.0f} minutes"


def _why_nothing(plan: Plan) -> str:
    """That nothing is evicted, and what keeps most of the load of hot nodes where it is."""
    verdict = f"evict nothing: {counted(plan.hot_count, 'hot node')}"
    if not plan.kept:
        return f"{verdict} without a pod to move"
    return f"{verdict}; {plan.mostly_kept_by}"


def _obstacles(lines: Lines, plan: Plan) -> None:
    """One line on what holds most of the load; every setting of an empty plan, or if everything is shown."""
    if not plan.obstacles:
        return
    if not plan.moves:
        write_obstacles(lines, plan.obstacles)
        return
    shown = plan.obstacles[: lines.shown(len(plan.obstacles), 0) or 1]
    lines.heading("BLOCKED BY", "what keeps most load on hot nodes")
    for obstacle in shown:
        lines.message(obstacle.sentence, 2, "yellow")
    lines.more(len(plan.obstacles) - len(shown), "setting or reason", plural="settings or reasons")


def _unmoved(lines: Lines, plan: Plan) -> None:
    unmoved = plan.kept
    by_reason = kept_by_reason(plan)
    if not unmoved:
        return
    shown = by_reason[: lines.shown(len(by_reason), _MAX_REASONS)]
    hot = plan.hot_names
    where = " on hot nodes" if all(pod.node in hot for pod in unmoved) else ""
    lines.heading("PODS NOT MOVED", f"{counted(len(unmoved), 'pod')}{where}, by reason")
    width = max(len(plain(reason)) for reason, _ in shown)
    for reason, pods in shown:
        head = f"  {plain(reason).ljust(width)} {len(pods):6d}  "
        if lines.style.everything:
            lines.message(head, 2, "bold")
            for pod in pods:
                remedy = f"; {pod.freed_by}" if pod.remedy else ""
                lines.message(f"{pod.pod.full_name} on {pod.node}: {pod.because}{remedy}", 4, max_lines=1)
            continue
        first = pods[0]
        example = f"{first.because}, e.g. {first.pod.full_name}"
        # Obstacles say it of what keeps most load.
        if first.remedy and not plan.obstacles and first.reason not in _NOT_EXPECTED_TO_MOVE:
            example += f"; {first.freed_by}"
        lines.labelled(head, example, "dim", "bold")
    lines.more(len(by_reason) - len(shown), "reason")


def kept_by_reason(plan: Plan) -> list[tuple[str, list[UnmovedPod]]]:
    """The pods that stay, by the code of their reason, the most frequent first."""
    by_reason: defaultdict[str, list[UnmovedPod]] = defaultdict(list)
    for pod in plan.kept:
        by_reason[pod.reason].append(pod)
    return sorted(by_reason.items(), key=lambda entry: (-len(entry[1]), entry[0]))


def _unsolved(lines: Lines, plan: Plan) -> None:
    if not plan.unsolved:
        return
    by_cause: defaultdict[str, list[str]] = defaultdict(list)
    for node in sorted(plan.unsolved):
        by_cause[plan.unsolved[node]].append(node)
    peaks = {node.name: max(node.after.load.values(), default=0.0) for node in plan.nodes if node.after}

    def hottest(cause: str) -> float:
        return max(peaks.get(node, 0.0) for node in by_cause[cause])

    causes = sorted(by_cause, key=lambda cause: (-len(by_cause[cause]), -hottest(cause), cause))
    shown = causes[: lines.shown(len(causes), _MAX_UNSOLVED)]
    hot = sum(1 for node in plan.nodes if node.name in plan.unsolved and node.after and node.after.hot)
    above = counted(len(plan.unsolved), "node")
    note = f"{above} above coolTo: {len(plan.unsolved) - hot} {_NOT_HOT}, {hot} still hot"
    lines.heading("NOT COOL AFTER THIS PLAN", note)
    for cause in shown:
        max_names = 2 if lines.style.summarised else len(by_cause[cause])
        lines.message(f"{sample(by_cause[cause], max_names)}: {cause}", 2, "yellow", max_lines=2)
    hidden = sum(len(by_cause[cause]) for cause in causes[len(shown) :])
    lines.more(hidden, "node")


def write_warnings(lines: Lines, warnings: Sequence[str]) -> None:
    """The warnings, the first ones on a screen, whatever number of rows is asked for."""
    shown = warnings[:_MAX_WARNINGS] if lines.style.summarised else warnings
    lines.listed("WARNINGS", shown)
    lines.more(len(warnings) - len(shown), "warning")


def difference_table(difference: PlanDifference, style: Style = Style()) -> Text:
    """The difference as text; pods beyond the first are summarised unless the style shows everything."""
    lines = Lines(style)
    if difference.changed:
        differing = f"{counted(len(difference.changed), 'pod')} treated differently"
        lines.headline("", f"{differing}, {counted(difference.same_moves, 'move')} the same")
    else:
        lines.headline("", "The plans make the same moves.")
    figures: dict[str, Sequence[object]] = {
        "policy": difference.policies,
        "moves": difference.moves,
        "hot before it": difference.hot,
        "hot after it": difference.still_hot,
    }
    if difference.excess is not None:
        figures["excess after it"] = [f"{points:.0f}" for points in difference.excess]
    if difference.cost is not None:
        figures["cost"] = [f"{cost:.1f}" for cost in difference.cost]
    for title, (before, after) in figures.items():
        lines.labelled(f"  {title:<16}  ", f"{before} {style.glyphs.arrow} {after}", label_style="")
    changes = [
        f"{changed.setting}: {changed.before or 'absent'} {style.glyphs.arrow} {changed.after or 'absent'}"
        for changed in difference.settings
    ]
    lines.listed("CHANGED SETTINGS", changes, max_rows=_MAX_SETTINGS, noun="setting")
    if difference.inputs[0] == difference.inputs[1]:
        lines.message("the inputs of both are the same, byte by byte", 2, "dim")
    for change in lines.first(difference.changed, _MAX_CHANGED, "pod"):
        lines.add()
        lines.message(f"{change.pod} of {change.workload}" if change.workload else change.pod, 0, "bold")
        lines.message(f"before: {change.before}", 2, "red", max_lines=2)
        lines.message(f"after: {change.after}", 2, "green", max_lines=2)
    return lines.text
