"""The full explanation of one pod, one node, one workload or the cluster, as a table."""

from __future__ import annotations

import re
from collections.abc import Iterable

from rich.text import Text

from rebalancer.counting import counted
from rebalancer.planning.cluster_explanation import ClusterExplanation
from rebalancer.planning.explanation import (
    EVICTABLE,
    LOAD_NOT_KNOWN,
    MOVED,
    NODE_NOT_HOT,
    REMOVED,
    Explanation,
    NodeExplanation,
    PodExplanation,
    PodOfWorkload,
    PodOnNode,
    SchedulingTable,
    ScoredNode,
    WorkloadExplanation,
)
from rebalancer.planning.plan import NodeAfter, NodeReport
from rebalancer.reporting.tables.plan import landing_words, write_node, write_obstacles, write_warnings
from rebalancer.reporting.tables.text import Column, Lines, Style, figure_of, write_table
from rebalancer.reporting.words import amounts, plain, sample, words

_MAX_NODES = 8
_MAX_REASONS = 5
_MAX_PODS = 12
_NEVER = frozenset({"DaemonSet", "StaticPod"})
_HEADINGS = {"cpu": "CPU", "memory": "MEM"}


def _shares(pods: Iterable[PodOnNode | PodOfWorkload]) -> list[Column]:
    """A column for each resource of which pods have a share; of the number of pods all have as much."""
    names = {name for pod in pods for name in pod.share if name != "pods"}
    return [
        Column(_HEADINGS.get(name, plain(name).upper()), figure_of("share", name, "{:.1f}"), right=True)
        for name in (*_HEADINGS, *sorted(names - _HEADINGS.keys()))
    ]


def explain_table(explanation: Explanation, style: Style = Style()) -> Text:
    """The explanation as text; long lists summarised unless the style shows everything."""
    lines = Lines(style, _nodes_of(explanation), _ending_of(explanation))
    if isinstance(explanation, PodExplanation):
        _pod(lines, explanation)
    elif isinstance(explanation, WorkloadExplanation):
        _workload(lines, explanation)
    else:
        _node(lines, explanation)
    lines.say_what_is_left_out()
    return lines.text


def _nodes_of(explanation: Explanation) -> Iterable[str]:
    """The nodes that an explanation names beside each other."""
    if isinstance(explanation, PodExplanation):
        table = explanation.table
        return [node.node for node in table.nodes] if table else []
    return [pod.node for pod in explanation.pods] if isinstance(explanation, WorkloadExplanation) else []


def _ending_of(explanation: Explanation) -> str:
    """The domain of the one node that an explanation is of: its sentences name others of the same domain."""
    if not isinstance(explanation, NodeExplanation):
        return ""
    _, dot, domain = explanation.node.partition(".")
    return f"{dot}{domain}" if any(map(str.isalpha, domain)) else ""


def _pod(lines: Lines, pod: PodExplanation) -> None:
    workload = f" of {plain(pod.pod.workload)}" if pod.pod.workload else ""
    place = f" on {plain(pod.node)}" if pod.node else ", Pending"
    title = f"pod {plain(pod.pod.full_name)}"
    if lines.style.markdown or len(title + workload + place) <= lines.style.columns:
        lines.add((title, "bold"), workload, place)
    else:
        lines.add((title, "bold"))
        lines.message((workload + place).lstrip(", "), 4)
    if pod.reason in _NEVER:  # whatever else is said of it would change nothing
        lines.message(f"protected ({pod.reason}): {pod.because}", 0, "yellow")
        lines.message(f"freed by {pod.refusals[0].remedy}", 2, "cyan")
        return
    if pod.evictable:
        lines.message("evictable: yes", 0, "green")
    else:
        for number, refusal in enumerate(pod.refusals):
            lead = "also protected" if number else "protected"
            lines.message(f"{lead} ({refusal.reason}): {refusal.because}", 0, "yellow")
            lines.message(f"freed by {refusal.remedy}", 2, "cyan")
    lines.message(f"in this plan: {_verdict(pod.verdict, pod.verdict_because)}", 0, "bold")
    if pod.remedy:
        lines.message(f"freed by {pod.remedy}", 2, "cyan")
    if pod.staying is not None:
        lines.heading("STAYING COSTS", "loads in percent of allocatable, differences in points")
        lines.message(pod.staying.because, 2)
        lines.message(f"node now: {amounts(pod.staying.load.items())}", 2, "dim")
        lines.message(f"this pod: {amounts(pod.staying.share.items()) or 'load unknown'}", 2, "dim")
        if pod.landings:
            lines.message(f"expected gain from moving it: {amounts(pod.staying.forgone.items())}", 2, "dim")
    if pod.landings:
        moment = "after the moves before it" if pod.after_moves else "before any other move"
        lines.heading("EXPECTED LANDING", f"{moment}; risk of a bad one: {pod.unacceptable * 100:.1f} %")
        lines.message(landing_words(pod.landings, everything=lines.style.everything), 2)
    if pod.node and pod.staying is None:
        return  # it has finished: nothing is placed in its stead
    if pod.table is None:
        lines.heading("SCHEDULER'S SCORES")
        lines.message("no profile of the scheduler's configuration has this pod's schedulerName", 2, "yellow")
        return
    _scheduler(lines, pod.table, moves_away=bool(pod.node))


def _verdict(verdict: str, reason: str) -> str:
    """``moved in wave 1: node-2 is at 89 % cpu …``, or ``stays (Limit): perRun 20 is reached``."""
    leads = {
        MOVED: "moved in ",
        REMOVED: "removed before the first wave: ",
        EVICTABLE: "evictable: ",
        NODE_NOT_HOT: "not moved: ",
    }
    return leads.get(verdict, f"stays ({verdict}): ") + reason


def _scheduler(lines: Lines, table: SchedulingTable, *, moves_away: bool) -> None:
    total = table.feasible + sum(rejected.count for rejected in table.rejected)
    lines.heading(
        "SCHEDULER'S SCORES",
        f"profile {plain(table.profile)}: {table.feasible} of {counted(total, 'node')} feasible",
    )
    if table.because:
        lines.message(table.because, 2, "yellow")
    for note in table.notes:
        lines.message(note, 2, "dim")
    if table.nodes:
        _scores(lines, table, moves_away=moves_away)
    if table.rejected:
        lines.heading("NODES REJECTED", "each counted under the first filter that rejects it")
        for rejected in lines.first(table.rejected, _MAX_REASONS, "reason"):
            lines.labelled(f"  {rejected.count:6d}  ", rejected.reason, label_style="bold")
            if lines.style.everything:
                lines.message(f"e.g. {sample(rejected.nodes, 5)}", 10, "dim")


def _scores(lines: Lines, table: SchedulingTable, *, moves_away: bool) -> None:
    """One row per node: total, chance, the plugins whose scores differ, and why a landing is unacceptable."""
    nodes = table.nodes
    differing = table.differing
    alike = [name for name in nodes[0].scores if name not in differing]
    short = initials(differing)

    def colour(node: ScoredNode) -> str:
        return ("yellow" if node.unacceptable else "green") if node.probability else ""

    columns = [
        Column("NODE", lambda node: (plain(node.node), "bold" if node.probability else ""), node=True),
        Column("TOTAL", lambda node: (str(node.total), colour(node)), right=True),
        Column(
            "CHANCE",
            lambda node: (_percent_or_none(node.probability), colour(node)),
            right=True,
        ),
        *(
            [Column("HERE", lambda node: _percent_or_none(node.in_course), right=True)]
            if table.chances_differ
            else []
        ),
        *(Column(short[name], figure_of("scores", name, "{}"), right=True) for name in differing),
        Column("CPU", figure_of("after", "cpu", "{:.0f}%"), right=True),
        Column("MEM", figure_of("after", "memory", "{:.0f}%"), right=True),
    ]
    refused = {
        node.node: node.unacceptable
        for node in nodes[: lines.shown(len(nodes), _MAX_NODES)]
        if moves_away and node.unacceptable and (node.probability or lines.style.everything)
    }
    if refused:
        columns.append(
            Column("NOT ACCEPTABLE", lambda node: (refused.get(node.node, ""), "yellow"), sentence=True)
        )
    write_table(lines, columns, nodes, _MAX_NODES, "node")
    if table.chances_differ:
        lines.message(
            "HERE: the chance with these scores; CHANCE is over all courses, and over the time once the "
            "evicted pod is gone",
            2,
            "dim",
        )
    if differing:
        legend = ", ".join(f"{short[name]} {name}" for name in differing)
        lines.message(f"CPU, MEM: percent once it has landed; weighted scores: {legend}", 2, "dim")
    if alike:
        same = ", ".join(f"{name} {nodes[0].scores[name]}" for name in alike)
        lines.message(f"the same on every node: {same}", 2, "dim")


def _percent_or_none(chance: float) -> str:
    return f"{chance:.1%}" if chance else ""


def initials(names: Iterable[str]) -> dict[str, str]:
    """A short heading for each plugin: its capital letters, numbered where two plugins share them."""
    initials: dict[str, str] = {}
    for name in names:
        letters = "".join(letter for letter in plain(name) if letter.isupper())[:4] or plain(name)[:4]
        same = sum(1 for other in initials.values() if other.rstrip("23456789") == letters)
        initials[name] = f"{letters}{same + 1}" if same else letters
    return initials


def _node(lines: Lines, node: NodeExplanation) -> None:
    report = NodeReport(
        name=node.node, load=node.load, hot=node.hot, because=node.because, after=NodeAfter(load=node.after)
    )
    not_hot = (": its load is not known", "yellow") if report.is_unknown else (": not hot", "green")
    lines.add((f"node {plain(node.node)}", "bold"), (": hot", "red") if node.hot else not_hot)
    write_node(lines, report)
    for because in node.because:
        lines.message(because, 2, "red" if node.hot else "yellow")
    for resource, level in sorted(node.levels.items()):
        if not any(
            because.startswith(f"{resource} ") and because.endswith(level) for because in node.because
        ):
            lines.message(f"{resource}: {level}", 2, "dim")
    if node.uncounted:
        lines.message(f"no landing here is counted on: the node {node.uncounted}", 2, "yellow")
    if node.unsolved:
        lines.message(f"after this plan the node {node.unsolved}", 2, "yellow")
    if node.obstacles:
        shares = (f"{obstacle.share:.0%} by {obstacle.name}" for obstacle in node.obstacles)
        lines.message(f"load that could leave and does not: {', '.join(shares)}", 2, "yellow")
        first = node.obstacles[0]
        if first.moves_if_lifted == 0:
            lines.message(f"without {first.name} alone no pod is found to leave", 2, "cyan")
        else:
            lines.message(f"{first.example} is {first.freed_by}", 2, "cyan")
    lines.heading("PODS", f"{counted(len(node.pods), 'pod')}; share in points of the node's allocatable")

    def in_plan(pod: PodOnNode) -> tuple[str, str]:
        return words(_verdict(pod.verdict, pod.because)), "green" if pod.verdict == MOVED else "dim"

    columns = [
        Column("POD", lambda pod: (plain(pod.pod.full_name), "bold")),
        *_shares(node.pods),
        Column("IN THIS PLAN", in_plan, below=True),
    ]
    write_table(lines, columns, node.pods, _MAX_PODS, "pod")


def _workload(lines: Lines, workload: WorkloadExplanation) -> None:
    """A line for each pod; those that move first, then those on hot nodes."""
    kind, _, name = workload.workload.partition("/")
    moved = sum(1 for pod in workload.pods if pod.verdict == MOVED)
    hot = sum(1 for pod in workload.pods if pod.hot)
    lines.headline(
        f"{plain(kind)} {plain(workload.namespace)}/{plain(name)}: ",
        f"{counted(len(workload.pods), 'pod')}, {hot} on hot nodes, {moved} moved by this plan",
        "",
    )
    if not workload.pods:
        return
    lines.heading("PODS", "shares in points of the node's allocatable")

    columns = [
        Column("POD", lambda pod: (plain(pod.pod.name), "bold")),
        Column("NODE", lambda pod: (plain(pod.node or "none"), "red" if pod.hot else ""), node=True),
        *_shares(workload.pods),
        Column("IN THIS PLAN", _short_verdict, sentence=True),
    ]
    write_table(lines, columns, workload.pods, _MAX_PODS, "pod")


def _short_verdict(pod: PodOfWorkload) -> tuple[str, str]:
    """The verdict without what the line says anyway; the whole is for the explanation of the pod."""
    if pod.verdict == MOVED:
        return words(f"moves in {pod.because.partition(':')[0]}"), "green"
    if pod.verdict == EVICTABLE:
        unknown = pod.because == LOAD_NOT_KNOWN
        return f"may move, {'but its node has no known load' if unknown else 'but need not'}", ""
    return words(f"{pod.verdict}: {pod.because}"), ""


def cluster_table(answer: ClusterExplanation, style: Style = Style()) -> Text:
    """The answer as text; long lists summarised unless the style shows everything."""
    lines = Lines(style, (node.node for node in answer.nearest))
    lines.headline("", answer.verdict)
    lines.message(f"cluster {answer.source} at {answer.now}, policy {answer.policy}", 2, "dim")
    lines.say_what_is_left_out()
    if answer.obstacles:
        write_obstacles(lines, answer.obstacles)
    if len(answer.nearest) > 1:
        lines.heading("NEAREST TO BEING HOT", "percent of allocatable")
        columns = [
            Column("NODE", lambda node: (plain(node.node), "bold"), node=True),
            Column("RESOURCE", lambda node: plain(node.resource)),
            Column("LOAD", lambda node: f"{node.load:.1f}", right=True),
            Column("HOT ABOVE", lambda node: f"{node.hot_above:.1f}", right=True),
        ]
        write_table(lines, columns, answer.nearest)
    write_warnings(lines, answer.warnings)
    if answer.next_steps:
        lines.heading("NEXT")
        for step in answer.next_steps:
            for line in command_lines(plain(step), 2 * len(step) if style.markdown else style.columns - 2):
                lines.add("" if style.markdown else "  ", (line, "dim"))
    return lines.text


def command_lines(command: str, width: int) -> list[str]:
    """A command that can be copied whole: broken between words, where it is too wide, with backslashes."""
    lines = [""]
    for part in re.findall(r"""(?:'[^']*'|"[^"]*"|\S)+""", command):
        if lines[-1] and len(lines[-1]) + len(part) + len("  \\") > width:
            lines[-1] += " \\"
            lines.append(f"  {part}")
        else:
            lines[-1] += f" {part}" if lines[-1] else part
    return lines
