"""The answers of what-if and fit on one screen each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from rich.text import Text

from rebalancer.counting import counted
from rebalancer.planning.plan import Landing, NodeAfter, NodeReport
from rebalancer.reporting.tables.plan import load_bar, write_warnings
from rebalancer.reporting.tables.text import Column, Lines, Style, figure_of, write_table
from rebalancer.reporting.words import plain, sample, words
from rebalancer_lab.what_if.changed_cluster import ChangedMove, ChangedNode, Comparison, Fate, PodFate, WhatIf
from rebalancer_lab.what_if.fit import DaemonNodes, Fit

_MAX_PODS = 10
_MAX_NODES = 20
_MAX_COMPARED = 8
_MAX_WHY = 2
_MAX_FIT_NODES = 3
_MAX_REASONS = 6
_MIB = 1 << 20
_IN_BYTES = ("ephemeral-storage",)
_NEEDED_FIGURES = {"cpu", "memory"}  # without a figure of both nobody knows whether a node is hot
_WORDS = {  # of one pod, and of several
    Fate.LANDS: ("lands", "land"),
    Fate.PENDING: ("fits nowhere", "fit nowhere"),
    Fate.STAYS: ("stays", "stay"),
    Fate.OF_ITS_NODE: ("stays with its node", "stay with their nodes"),
    Fate.REMOVED: ("is removed", "are removed"),
    Fate.UNPREDICTABLE: ("cannot be predicted", "cannot be predicted"),
}
_COLOURS = {Fate.LANDS: "green", Fate.PENDING: "red", Fate.UNPREDICTABLE: "yellow"}
# The pods that a user has to look at come first.
_ORDER = (*(Fate.PENDING, Fate.UNPREDICTABLE, Fate.STAYS, Fate.LANDS, Fate.REMOVED), Fate.OF_ITS_NODE)


def what_if_table(answer: WhatIf, style: Style = Style()) -> Text:
    """The answer as text; long lists summarised unless the style shows everything."""
    lines = Lines(style, (node.node for node in answer.nodes))
    lines.headline("What if: ", "; ".join(answer.changes))
    lines.message(f"cluster {answer.source} at {answer.now}, policy {answer.policy}", 2, "dim")
    for warning in lines.first(answer.configuration_warnings, _MAX_REASONS, "warning"):
        lines.message(warning, 2, "yellow")
    arrow = style.glyphs.arrow
    for title, (before, after) in (
        ("hot nodes", answer.hot),
        ("hot after a plan", answer.hot_after_plan),
        ("pods that fit nowhere", answer.pending),
        ("moves of a plan", answer.moves),
        ("nodes to be emptied", answer.emptied or (0, 0)),
    ):
        if title.endswith("emptied") and answer.emptied is None:
            continue
        colour = ""
        if after != before:
            colour = "red" if after > before else "green"
        lines.labelled(f"  {title:<22} ", f"{before} {arrow} {after}", colour, "")
    if answer.pods:
        counts = Counter(pod.fate for pod in answer.pods)
        listed = ", ".join(
            f"{counts[fate]} {_WORDS[fate][counts[fate] > 1]}" for fate in _ORDER if counts[fate]
        )
        lines.message(f"{counted(len(answer.pods), 'pod')}: {listed}", 2)
    lines.say_what_is_left_out()
    if answer.comparison is not None:
        _comparison(lines, answer.comparison)
    _nodes(lines, answer.nodes)
    _moves(lines, answer.changed_moves)
    _pods(lines, answer.pods)
    lines.listed("ASSUMPTIONS", answer.notes, "dim")
    write_warnings(lines, answer.warnings)
    return lines.text


def _nodes(lines: Lines, nodes: Sequence[ChangedNode]) -> None:
    if not nodes:
        return
    arrow = lines.style.glyphs.arrow
    # What the change names comes first, then what becomes hot or cool, then what receives or loses load.
    changed = sorted(filter(_changes, nodes), key=lambda node: (not node.change, node.hot[0] == node.hot[1]))
    still_hot = sum(1 for node in nodes if node.hot[1] and not _changes(node))
    lines.heading("NODES THAT CHANGE", f"load in percent of allocatable, before {arrow} after")

    def heat(node: ChangedNode) -> tuple[str, str]:
        before = _heat(node.before, hot=node.hot[0])
        after = _heat(node.after, hot=node.hot[1])
        both = after
        if before != after and node.before:
            both = f"{before} {arrow} {after}"
        return both, "red" if node.hot[1] else "dim"

    def load(resource: str) -> Callable[[ChangedNode], Text]:
        def of(node: ChangedNode) -> Text:
            after = NodeAfter(load=node.after)
            report = NodeReport(name=node.node, load=node.before or node.after, after=after)
            return load_bar(lines, report, resource)

        return of

    columns = [
        Column("NODE", lambda node: (plain(node.node), "bold"), node=True),
        Column("CHANGE", lambda node: (node.change or "-", "dim")),
        Column("CPU", load("cpu")),
        Column("MEMORY", load("memory")),
        Column("HOT", heat),
    ]
    write_table(lines, columns, changed, _MAX_NODES, "node")
    if still_hot:
        verb = "is" if still_hot == 1 else "are"
        lines.message(f"{counted(still_hot, 'other hot node')} {verb} as before", 2, "dim")


def _heat(load: Mapping[str, float], *, hot: bool) -> str:
    if hot:
        return "yes"
    return "no" if load.keys() >= _NEEDED_FIGURES else "unknown"


def _changes(node: ChangedNode) -> bool:
    """Whether a node is what the change names, or looks different after it."""
    return bool(node.change) or node.hot[0] != node.hot[1] or _rounded(node.before) != _rounded(node.after)


def _rounded(load: Mapping[str, float]) -> dict[str, int]:
    return {name: round(percent) for name, percent in load.items()}


def _moves(lines: Lines, moves: Sequence[ChangedMove]) -> None:
    """The pods that a plan would move otherwise."""
    if not moves:
        return
    lines.heading("MOVES OF A PLAN THAT CHANGE", "where each lands; -: it stays")
    columns = [
        Column("POD", lambda move: (plain(move.pod), "bold")),
        Column("BEFORE", lambda move: _landing(move.before), node=True),
        Column("AFTER", lambda move: _landing(move.after), node=True),
    ]
    write_table(lines, columns, moves, _MAX_PODS, "pod")


def _pods(lines: Lines, pods: Sequence[PodFate]) -> None:
    if not pods:
        return
    lines.heading("PODS", "where each lands, or why it does not; those to look at first")
    ordered = sorted(pods, key=lambda pod: _ORDER.index(pod.fate))
    columns = [
        Column("POD", lambda pod: (plain(pod.pod), "bold")),
        Column("FROM", lambda pod: plain(pod.from_node) or "-", node=True),
        Column("FATE", lambda pod: (_WORDS[pod.fate][0], _COLOURS.get(pod.fate, "")), phrase="{}"),
        Column(
            "TO, OR WHY",
            lambda pod: (words(pod.because) or _landing(pod.landings), "" if pod.landings else "dim"),
            sentence=True,
        ),
    ]
    write_table(lines, columns, ordered, _MAX_PODS, "pod")


def _landing(landings: Sequence[Landing]) -> str:
    """``node-7 50%, or 2 more``; a dash for a pod that is removed."""
    if not landings:
        return "-"
    others = f", or {len(landings) - 1} more" if len(landings) > 1 else ""
    return f"{plain(landings[0].node)} {landings[0].probability:.0%}{others}"


def _comparison(lines: Lines, comparison: Comparison) -> None:
    lines.heading("TWO CONFIGURATIONS", "where the same pods land")
    before, after = comparison.configurations
    lines.message(f"before: {before}", 2, "dim")
    lines.message(f"after: {after}", 2, "dim")
    same = comparison.compared - len(comparison.differing)
    land = "lands" if comparison.compared == 1 else "land"
    lines.message(f"{same} of {counted(comparison.compared, 'pod')} {land} alike", 2)
    if comparison.differing:
        columns = [
            Column("POD OR WORKLOAD", lambda pair: (plain(pair.pod), "bold")),
            Column("BEFORE", lambda pair: _compared(pair.before, pair.fates[0]), node=True),
            Column("AFTER", lambda pair: _compared(pair.after, pair.fates[1]), node=True),
        ]
        write_table(lines, columns, comparison.differing, _MAX_COMPARED, "pod")
    for at, which in enumerate(("before", "after")):
        _reasons(lines, f"{which}: ", [pair.because[at] for pair in comparison.differing])
    _reasons(lines, "by either: ", [pair.because[0] for pair in comparison.unknown])


def _compared(landings: Sequence[Landing], fate: Fate) -> tuple[str, str]:
    return _landing(landings) if landings else _WORDS[fate][0], _COLOURS.get(fate, "")


def _reasons(lines: Lines, lead: str, reasons: Sequence[str]) -> None:
    """Why pods do not land or cannot be predicted, each reason once."""
    counts = Counter(reason for reason in reasons if reason).most_common()
    for reason, count in lines.first(counts, _MAX_WHY, "reason"):
        lines.message(f"{lead}{counted(count, 'pod')}: {reason}", 2, "yellow")


def fit_table(answer: Fit, style: Style = Style()) -> Text:
    """The answer as text; long lists summarised unless the style shows everything."""
    lines = Lines(style, (node.node for node in answer.by_node))
    lines.headline("", f"{answer.pod}: {_verdict(answer)}")
    lines.message(f"cluster {answer.source} at {answer.now}", 2, "dim")
    lines.message(f"each pod requests {_requests(answer)}; profile {answer.profile}", 2, "dim")
    lines.say_what_is_left_out()
    for warning in lines.first(answer.warnings, _MAX_REASONS, "field"):
        lines.message(warning, 2, "yellow")
    if answer.unpredictable:
        lines.message(f"because {answer.unpredictable}", 2, "yellow")
    if answer.quota:
        lines.message(answer.quota, 2, "red")
    if answer.landings:
        _landings(lines, answer)
    if answer.daemon is not None:
        _daemon_nodes(lines, answer.daemon)
    elif answer.stopped or answer.message:
        _stopped(lines, answer)
    lines.listed("ASSUMPTIONS", answer.notes, "dim")
    return lines.text


def _verdict(answer: Fit) -> str:
    if answer.unpredictable:
        return "how many more fit cannot be predicted"
    if answer.daemon is not None:
        return _daemon_verdict(answer.daemon)
    if not answer.fits:
        return "no more of these pods fits"
    if answer.fits == answer.at_most:
        return f"{counted(answer.at_most, 'more pod fits', 'more pods fit')}, and perhaps others (--at-most)"
    verb = "fits" if answer.fits == 1 else "fit"
    nodes = f"on {counted(len(answer.by_node), 'node')}"
    missing = max(0, (answer.replicas or 0) - answer.running)
    replicas = counted(missing, "missing replica" if answer.running else "replica")
    if answer.fits < missing:
        return f"{answer.fits:,} of its {replicas} {verb}, {nodes}"
    if not missing:
        return f"{counted(answer.fits, 'more pod')} {verb}, {nodes}"
    lead = f"all {replicas} fit"
    if missing == 1:
        lead = f"{'the missing' if answer.running else 'its only'} replica fits"
    beside = answer.fits - missing
    return f"{lead}, and {counted(beside, 'more pod') if beside else 'no more'}, {nodes}"


def _daemon_verdict(daemon: DaemonNodes) -> str:
    missing = len(daemon.without_room)
    if not daemon.for_it:
        return "it is for none of the nodes"
    nodes = counted(daemon.for_it, "node")
    if not missing:
        return f"fits on each of the {nodes} that it is for"
    verb = "takes" if daemon.for_it - missing == 1 else "take"
    return f"{daemon.for_it - missing} of the {nodes} that it is for {verb} one, {missing} cannot"


def _daemon_nodes(lines: Lines, daemon: DaemonNodes) -> None:
    """The nodes that cannot take the pod of a DaemonSet, and those that it is not for."""
    if daemon.without_room:
        lines.heading("NODES THAT CANNOT TAKE ONE", "the first plugin that rejects it there")
        columns = [
            Column("NODE", lambda node: (plain(node.node), "bold"), node=True),
            Column("WHY", lambda node: words(node.because), sentence=True),
            Column("PREEMPTS", lambda node: "yes" if node.preempts else "-"),
        ]
        write_table(lines, columns, daemon.without_room, _MAX_NODES, "node")
    if daemon.passed_by:
        lines.heading("NODES THAT IT IS NOT FOR", "its controller makes no pod there")
        for rejected in lines.first(daemon.passed_by, _MAX_REASONS, "reason"):
            lines.message(f"{rejected.count:6d}  {rejected.reason}, e.g. {sample(rejected.nodes, 2)}", 2)


def _requests(answer: Fit) -> str:
    """``500m cpu and 256 MiB of memory and 1 example.com/gpu``."""
    cpu = answer.requests.get("cpu", 0.0)
    memory = answer.requests.get("memory", 0.0)
    parts = [f"{cpu:.0f}m cpu"] if cpu else []
    parts += [f"{memory / _MIB:.0f} MiB of memory"] if memory else []
    parts += [
        f"{amount / _MIB:.0f} MiB of {plain(name)}" if name in _IN_BYTES else f"{amount:.0f} {plain(name)}"
        for name, amount in answer.requests.items()
        if name not in ("cpu", "memory")
    ]
    return " and ".join(parts) or "nothing"


def _landings(lines: Lines, answer: Fit) -> None:
    shown = answer.landings[: lines.shown(len(answer.landings), len(answer.landings))]
    lines.heading("LANDINGS", "each pod after those above it; percent of the node requested then")
    columns = [
        Column("POD", lambda pod: str(pod.number), right=True),
        Column("NODE", lambda pod: (plain(pod.node), "bold"), node=True),
        Column("CHANCE", lambda pod: f"{pod.probability:.0%}", right=True),
        Column("OTHER NODES", lambda pod: str(pod.others or "-"), right=True),
        *(Column(plain(name).upper(), figure_of("requested", name), right=True) for name in answer.requests),
    ]
    write_table(lines, columns, shown)
    rooms = answer.by_node if lines.style.everything else answer.by_node[:_MAX_FIT_NODES]
    listed = ", ".join(f"{plain(room.node)} {room.pods}" for room in rooms)
    others = len(answer.by_node) - len(rooms)
    more = f", {counted(others, 'other node')} (--all)" if others else ""
    lines.message(f"pods by node: {listed}{more}", 2, "dim")


def _stopped(lines: Lines, answer: Fit) -> None:
    """What rejects the pod after the last: a line for each plugin and reason, then the scheduler's event."""
    lines.heading("WHAT STOPS THE NEXT ONE", f"pod {answer.fits + 1}: nodes by the first plugin that rejects")
    for rejected in lines.first(answer.stopped, _MAX_REASONS, "reason"):
        lines.message(f"{rejected.count:6d}  {rejected.reason}".strip(), 2, "bold")
        if lines.style.everything:
            lines.message(f"e.g. {sample(rejected.nodes, 5)}", 10, "dim")
    if answer.message:
        lines.message(answer.message, 2, "dim")
    if answer.preemption:
        lines.message(answer.preemption, 2, "yellow")
