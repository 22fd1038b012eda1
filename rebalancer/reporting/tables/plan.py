"""A plan on one screen: which nodes are hot, which pods move where and why, and which stay and why."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from rich.text import Text

from rebalancer.planning.plan import Kept, Landing, Move, NodeReport, Plan
from rebalancer.reporting.tables.benefit import write_benefit
from rebalancer.reporting.tables.text import Lines, Style, bar
from rebalancer.reporting.words import amounts, counted, plain, sample, shortened, words

_BAR = 10
_MAX_HOT, _MAX_MOVES, _MAX_REASONS, _MAX_UNSOLVED, _MAX_WARNINGS = 4, 3, 5, 2, 3
_ALWAYS_SHOWN = ("cpu", "memory")
_NEARLY_FULL = 80.0  # percent above which any other resource is shown too
_FEW_LANDINGS = 3
_MAX_NAME_WIDTH = 22


def plan_table(plan: Plan, style: Style = Style()) -> Text:  # noqa: B008 - a frozen value
    """The plan as text; long lists summarised unless the style shows everything."""
    lines = Lines(style)
    _headline(lines, plan)
    write_benefit(lines, plan)
    _hot_nodes(lines, plan)
    _moves(lines, plan)
    _kept(lines, plan.kept)
    _unsolved(lines, plan)
    _warnings(lines, plan)
    return lines.text


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
    """That nothing is evicted, and what keeps most of the pods on hot nodes where they are."""
    verdict = f"evict nothing: {counted(plan.hot_count, 'hot node')}"
    if not plan.kept:
        return f"{verdict} without a pod to move"
    code, count = min(
        Counter(item.reason for item in plan.kept).items(), key=lambda item: (-item[1], item[0])
    )
    example = next(item.because for item in plan.kept if item.reason == code)
    verdict += f"; {count} of their {counted(len(plan.kept), 'pod')} stay ({code}): {words(example)}"
    return shortened(verdict, lines.style.columns - 6, lines.style.glyphs.more)


def _hot_nodes(lines: Lines, plan: Plan) -> None:
    hot = sorted((node for node in plan.nodes if node.hot), key=lambda node: (-_peak(node), node.name))
    if not hot:
        return
    arrow = lines.style.glyphs.arrow
    shown = hot[: lines.shown(len(hot), _MAX_HOT)]
    lines.heading("HOT NODES", f"load in percent of allocatable, now {arrow} expected after the plan")
    width = name_width(shown)
    for node in shown:
        write_node(lines, node, width)
        flag = "stays hot: " if node.after and node.after.hot else ""
        lines.message(flag + "; ".join(node.because), 4, "dim", most=1)
    lines.more(len(hot) - len(shown), "hot node")


def _peak(node: NodeReport) -> float:
    return max(node.load.values(), default=0.0)


def name_width(nodes: Iterable[NodeReport]) -> int:
    """The width of the column of names; a longer name gets a line of its own."""
    return min(max((len(plain(node.name)) for node in nodes), default=0), _MAX_NAME_WIDTH)


def write_node(lines: Lines, node: NodeReport, width: int) -> None:
    """A node's name and its bars, two to a line."""
    name = plain(node.name)
    resources = [name for name in _resources(node) if lines.style.everything or _worth_showing(node, name)]
    lead = "  " + name.ljust(width) + "  "
    if len(name) > width or not resources:
        lines.add("  ", (name, "bold"), "" if resources else "  no fresh figure")
        lead = " " * (width + 4)
    for first in range(0, len(resources), 2):
        pair = [_segment(lines, node, resource) for resource in resources[first : first + 2]]
        lines.add(lead, Text("  ").join(pair))
        lead = " " * (width + 4)


def _resources(node: NodeReport) -> list[str]:
    return sorted(set(node.load) | set(node.after.load if node.after else ()))


def _worth_showing(node: NodeReport, resource: str) -> bool:
    """Whether a summary shows a resource: CPU, memory, and any that is nearly full or made the node hot."""
    named = any(resource in reason for reason in node.because)
    return resource in _ALWAYS_SHOWN or named or node.load.get(resource, 0.0) >= _NEARLY_FULL


def _segment(lines: Lines, node: NodeReport, resource: str) -> Text:
    before = node.load.get(resource)
    after = node.after.load.get(resource) if node.after else None
    text = Text(f"{plain(resource)} ")
    if before is None:
        return text.append("unknown", "yellow")
    text.append_text(bar(before, after, _BAR, lines.style.glyphs))
    text.append(f" {before:3.0f}%", "bold")
    if after is not None:
        text.append(f" {lines.style.glyphs.arrow} {after:3.0f}%")
    return text


def _moves(lines: Lines, plan: Plan) -> None:
    if not plan.moves:
        return
    shown = plan.moves[: lines.shown(len(plan.moves), _MAX_MOVES)]
    lines.heading("MOVES", "gain in points of allocatable, at least; percentages are chances")
    wave = 0
    for move in shown:
        if move.wave != wave:
            wave = move.wave
            lines.add((f"  wave {wave}", "bold"))
        write_move(lines, move)
    lines.more(len(plan.moves) - len(shown), "move")


def write_move(lines: Lines, move: Move) -> None:
    """A few short lines: the pod and its gain, the nodes it may move between, and the reason."""
    gain = f"gain {amounts(move.gain.items())}" if move.gain else ""
    pod = plain(move.pod.full_name)
    room = max(lines.style.columns - 4 - len(pod) - len(gain), 1)
    lines.add("    ", (pod, "bold"), " " * room, (gain, "green"))
    where = landing_words(move.landings, everything=lines.style.everything)
    lines.message(f"{move.from_node} {lines.style.glyphs.arrow} {where}", 6, most=2)
    lines.message(move.because, 6, "dim", most=2)


def landing_words(landings: Sequence[Landing], *, everything: bool = False) -> str:
    """Where a pod may land: ``node-7``, ``node-7 50%, node-9 50%``, ``any of 45 nodes, e.g. node-7 2.2%``."""
    if not landings:
        return "nowhere"
    if len(landings) == 1 and landings[0].probability > 0.9999:
        return plain(landings[0].node)
    if len(landings) <= _FEW_LANDINGS or everything:
        return ", ".join(_landing(landing) for landing in landings)
    likeliest = max(landings, key=lambda landing: landing.probability)
    return f"any of {len(landings)} nodes, e.g. {_landing(likeliest)}"


def _landing(landing: Landing) -> str:
    return f"{plain(landing.node)} {f'{landing.probability * 100:.1f}'.removesuffix('.0')}%"


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
