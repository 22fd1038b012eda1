"""What a change would do, on one screen: the hot nodes before and after, and what becomes of the pods."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.text import Text

from rebalancer.planning.plan import Landing, NodeAfter, NodeReport
from rebalancer.questions.what_if.what_if_values import ChangedNode, Comparison, Fate, PodFate, WhatIf
from rebalancer.reporting.tables.columns import Column, Cut, write_columns
from rebalancer.reporting.tables.node_loads import load_bar
from rebalancer.reporting.tables.text import Lines, Style
from rebalancer.reporting.words import counted, plain, shortened, words

_MAX_NODES, _MAX_PODS, _MAX_COMPARED, _MAX_WHY = 7, 10, 8, 2
_WORDS = {  # of one pod, and of several
    Fate.LANDS: ("lands", "land"),
    Fate.PENDING: ("fits nowhere", "fit nowhere"),
    Fate.STAYS: ("stays", "stay"),
    Fate.OF_ITS_NODE: ("belongs to its node", "belong to their nodes"),
    Fate.REMOVED: ("is removed", "are removed"),
    Fate.UNPREDICTABLE: ("cannot be predicted", "cannot be predicted"),
}
_COLOURS = {Fate.LANDS: "green", Fate.PENDING: "red", Fate.UNPREDICTABLE: "yellow"}
# The pods that a user has to look at come first.
_ORDER = (*(Fate.PENDING, Fate.UNPREDICTABLE, Fate.STAYS, Fate.LANDS, Fate.REMOVED), Fate.OF_ITS_NODE)


def what_if_table(answer: WhatIf, style: Style = Style()) -> Text:
    """The answer as text; long lists summarised unless the style shows everything."""
    lines = Lines(style)
    lines.message(f"What if: {'; '.join(answer.changes)}", 0, "bold")
    source = f"cluster {words(answer.source)} at {plain(answer.now)}, policy {words(answer.policy)}"
    lines.add("  ", (shortened(source, style.columns - 2, style.glyphs.more), "dim"))
    arrow = style.glyphs.arrow
    for title, (before, after) in (
        ("hot nodes", answer.hot),
        ("pods that fit nowhere", answer.pending),
        ("moves of a plan", answer.moves),
    ):
        colour = "red" if after > before else "green" if after < before else ""
        lines.add(f"  {title:<22} ", (f"{before} {arrow} {after}", colour))
    if answer.pods:
        counts = Counter(item.fate for item in answer.pods)
        listed = ", ".join(
            f"{counts[fate]} {_WORDS[fate][counts[fate] > 1]}" for fate in _ORDER if counts[fate]
        )
        lines.message(f"{counted(len(answer.pods), 'pod')}: {listed}", 2)
    if answer.comparison is not None:
        _comparison(lines, answer.comparison)
    _nodes(lines, answer.nodes)
    _pods(lines, answer.pods)
    if answer.notes:
        lines.heading("TAKEN FOR GRANTED")
        for note in answer.notes:
            lines.message(note, 2, "dim")
    return lines.text


def _nodes(lines: Lines, nodes: Sequence[ChangedNode]) -> None:
    if not nodes:
        return
    arrow = lines.style.glyphs.arrow
    lines.heading("NODES", f"load in percent of allocatable, before {arrow} after")
    shown = nodes[: lines.shown(len(nodes), _MAX_NODES)]
    columns = [
        Column("NODE", cut=Cut.MIDDLE),
        Column("CHANGE"),
        Column("CPU"),
        Column("MEMORY"),
        Column("BEFORE"),
        Column("AFTER"),
    ]
    write_columns(lines, columns, [_node(lines, item) for item in shown])
    lines.more(len(nodes) - len(shown), "node")


def _node(lines: Lines, item: ChangedNode) -> list[Text]:
    report = NodeReport(
        name=item.node, load=item.before or item.after, hot=item.hot[0], after=NodeAfter(load=item.after)
    )
    return [
        Text(plain(item.node), "bold"),
        Text(item.change or "-", "dim"),
        *(load_bar(lines, report, resource) for resource in ("cpu", "memory")),
        _heat(item.hot[0]) if item.before else Text("-"),
        _heat(item.hot[1]),
    ]


def _heat(hot: bool) -> Text:
    return Text("hot", "red") if hot else Text("not hot", "dim")


def _pods(lines: Lines, pods: Sequence[PodFate]) -> None:
    if not pods:
        return
    lines.heading("PODS", "where each lands, or why it does not; those to look at first")
    ordered = sorted(pods, key=lambda item: _ORDER.index(item.fate))
    shown = ordered[: lines.shown(len(ordered), _MAX_PODS)]
    columns = [Column("POD", cut=Cut.MIDDLE), Column("FROM", cut=Cut.MIDDLE), Column("FATE")]
    columns.append(Column("TO, OR WHY", cut=Cut.END))
    write_columns(lines, columns, [_pod(item) for item in shown])
    lines.more(len(ordered) - len(shown), "pod")


def _pod(item: PodFate) -> list[Text]:
    return [
        Text(plain(item.pod), "bold"),
        Text(plain(item.from_node) or "-"),
        Text(item.fate, _COLOURS.get(item.fate, "")),
        Text(words(item.because) or _landing(item.landings), "" if item.landings else "dim"),
    ]


def _landing(landings: Sequence[Landing]) -> str:
    """``node-7 50%, or 2 more``; a dash for a pod that is removed."""
    if not landings:
        return "-"
    others = f", or {len(landings) - 1} more" if len(landings) > 1 else ""
    return f"{plain(landings[0].node)} {landings[0].probability:.0%}{others}"


def _comparison(lines: Lines, found: Comparison) -> None:
    lines.heading("TWO CONFIGURATIONS", "where the same pods land")
    before, after = found.configurations
    lines.message(f"before: {before}", 2, "dim", most=1)
    lines.message(f"after: {after}", 2, "dim", most=1)
    same = found.compared - len(found.differing)
    land = "lands" if found.compared == 1 else "land"
    lines.message(f"{same} of {counted(found.compared, 'pod')} {land} alike", 2)
    shown = found.differing[: lines.shown(len(found.differing), _MAX_COMPARED)]
    if shown:
        columns = [Column(title, cut=Cut.MIDDLE) for title in ("POD OR WORKLOAD", "BEFORE", "AFTER")]
        rows = [
            [
                Text(plain(item.pod), "bold"),
                _compared(item.fates[0], item.before),
                _compared(item.fates[1], item.after),
            ]
            for item in shown
        ]
        write_columns(lines, columns, rows)
    lines.more(len(found.differing) - len(shown), "pod")
    for at, which in enumerate(("before", "after")):
        _reasons(lines, f"{which}: ", [item.because[at] for item in found.differing])
    _reasons(lines, "by either: ", [item.because[0] for item in found.unknown])


def _compared(fate: Fate, landings: Sequence[Landing]) -> Text:
    return Text(_landing(landings) if landings else _WORDS[fate][0], _COLOURS.get(fate, ""))


def _reasons(lines: Lines, lead: str, reasons: Sequence[str]) -> None:
    """Why pods do not land or cannot be predicted, each reason once."""
    counts = Counter(reason for reason in reasons if reason).most_common()
    shown = counts[: lines.shown(len(counts), _MAX_WHY)]
    for reason, count in shown:
        lines.message(f"{lead}{counted(count, 'pod')}: {reason}", 2, "yellow", most=4)
    lines.more(len(counts) - len(shown), "reason")
