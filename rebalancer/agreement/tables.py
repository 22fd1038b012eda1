"""Whether a cluster's schedulers decide as computed, and one decision node by node."""

from __future__ import annotations

from collections.abc import Callable

from rich.text import Text

from rebalancer.agreement.decisions import (
    Agreement,
    Decision,
    NodeScores,
    OfProfile,
    Result,
    WhyThere,
)
from rebalancer.cluster import times
from rebalancer.counting import counted
from rebalancer.reporting.tables.explain import initials
from rebalancer.reporting.tables.text import Column, Lines, Style, write_table
from rebalancer.reporting.words import figure, plain, words

_MAX_PROFILES = 12
_MAX_MISSES = 5
_MAX_SUSPECTS = 5
_MAX_NODES = 8
_MAX_MISSES_OF_A_PAGE = 20


def headline(decisions: int, landed: int) -> str:
    """One sentence: how many decisions landed as computed."""
    if not decisions:
        return "No decision of your scheduler could be compared yet"
    return f"Of {counted(decisions, 'decision')} of your scheduler {landed:,} landed as computed"


def agreement_table(found: Agreement, style: Style = Style()) -> Text:
    """The agreement as text; misses with what could be the difference."""
    lines = Lines(style)
    colour = "yellow" if found.landed < found.decisions or not found.decisions else "green"
    share = f" ({found.share:.2%})" if found.share is not None else ""
    lines.headline("", f"{headline(found.decisions, found.landed)}{share}", f"bold {colour}")
    took = found.until - found.since
    each = (
        f", {1000 * found.processor_seconds / found.decisions:.1f} ms a decision" if found.decisions else ""
    )
    lines.message(
        f"cluster {words(found.source)}, followed for {took / 60:.1f} min; "
        f"{found.processor_seconds:.1f} s of a processor{each}",
        2,
        "dim",
    )
    if not found.decisions and not found.waiting and not found.unpredictable:
        lines.message("no pod was bound by a scheduler meanwhile", 2)
    if found.waiting:
        bound = counted(found.waiting, "more pod was", "more pods were")
        lines.message(
            f"{bound} bound and not compared: the watch of pods did not show in time that it is current", 2
        )
    if found.in_another_order:
        lines.message(
            f"{found.in_another_order} of them in another order of what happened within the same seconds", 2
        )
    if found.left_out:
        lines.message(f"sampled: {counted(found.left_out, 'more pod')} bound in storms were not computed", 2)
    if found.gaps:
        lines.message(f"watches lost what happened {counted(found.gaps, 'time')}; that is not counted", 2)
    columns = [
        Column("PROFILE", lambda item: (plain(item.scheduler), "bold")),
        Column("DECISIONS", lambda item: str(item.decisions), right=True),
        Column("AS COMPUTED", _landed, right=True),
        Column("NODES", lambda item: figure(item.possible, 1), right=True),
        Column("SURPRISE", lambda item: figure(item.surprise, 3), right=True),
        Column("EXPECTED", lambda item: figure(item.expected_surprise, 3), right=True),
        Column("UNPREDICTABLE", lambda item: str(item.unpredictable), right=True),
    ]
    if found.profiles:
        lines.heading("PROFILES", "nodes computed on average; surprise: -ln of the chance of the node chosen")
        write_table(lines, columns, found.profiles, _MAX_PROFILES, "profile")
    if found.unpredictable:
        lines.heading("NOT COMPARED", "pods whose landing cannot be computed; they count for nothing")
        for reason, count in found.unpredictable.items():
            lines.message(f"{count}: {reason}", 2)
    _write_suspects(lines, found)
    if found.misses:
        lines.heading("MISSES", "the latest first")
        for item in lines.first(found.misses[::-1], _MAX_MISSES, "miss", "misses"):
            _write_decision(lines, item, _said(item))
    return lines.text


def _write_suspects(lines: Lines, found: Agreement) -> None:
    edited = "a plan expects them to come as those that are there"
    for title, about, suspects in (
        ("WHAT WOULD EXPLAIN THE MISSES", "", found.suspects),
        ("PODS THAT WERE EDITED", edited, found.edits),
    ):
        if suspects:
            lines.heading(title, about)
        for suspect in lines.first(suspects, _MAX_SUSPECTS, "suspect"):
            lines.message(suspect.sentence, 2, "yellow")


def why_table(found: WhyThere, style: Style = Style()) -> Text:
    """One decision as text."""
    lines = Lines(style)
    elsewhere = found.decision.result is Result.MISSED and not found.recorded
    said = "the scheduler would choose another node now" if elsewhere else _said(found.decision)
    _write_decision(lines, found.decision, said)
    lines.message(f"computed {found.computed}", 2, "dim", most=3)
    return lines.text


def _landed(item: OfProfile) -> tuple[str, str]:
    return str(item.decisions - item.missed), "yellow" if item.missed else "green"


def _write_decision(lines: Lines, item: Decision, said: str) -> None:
    """One decision: the node chosen above the likeliest others, by plugin."""
    lines.message(f"{item.pod} {lines.style.glyphs.arrow} {item.node}: {said}", 2, "bold")
    if item.nodes and item.nodes[0].rejected:
        lines.message(f"the model does not admit it: {item.nodes[0].rejected}", 4, "yellow")
    scored = [node for node in item.nodes if not node.rejected]
    plugins = sorted({name for node in scored for name in node.weighted})

    def differs(plugin: str) -> bool:
        return len({node.weighted.get(plugin) for node in scored}) > 1

    differing = [name for name in plugins if differs(name)]
    short = initials(differing)

    def score(plugin: str) -> Callable[[NodeScores], str]:
        return lambda node: f"{node.weighted.get(plugin, '-')} ({node.raw.get(plugin, '-')})"

    columns = [
        Column("NODE", lambda node: (plain(node.node), "bold" if node.node == item.node else ""), node=True),
        Column("TOTAL", lambda node: str(node.total), right=True),
        Column("CHANCE", lambda node: f"{node.chance:.0%}" if node.chance else "-", right=True),
        *(Column(short[name], score(name), right=True) for name in differing),
    ]
    if scored:
        write_table(lines, columns, scored, _MAX_NODES, "node")
    if differing:
        legend = ", ".join(f"{short[name]} {name}" for name in differing)
        lines.message(f"weighted (raw) scores: {legend}", 4, "dim", most=3)
    alone = [name for name, (_, *ranges) in item.weights.items() if ranges]
    if item.result is Result.MISSED and alone:
        lines.message(
            f"another weight of one of these alone would explain it: {', '.join(alone)}", 4, "dim", most=3
        )


def _said(item: Decision) -> str:
    if item.result is Result.UNPREDICTABLE:
        return f"not computed, {item.because}"
    if item.result is Result.MISSED:
        why = f": {item.because}" if item.because else ""
        return f"a miss among {counted(item.feasible, 'feasible node')}{why}"
    how = " in another order of what happened at once" if item.result is Result.REORDERED else ""
    return f"as computed{how}, one of {counted(item.possible, 'node')}, chance {item.chance:.0%}"


def agreement_page(found: Agreement) -> str:
    """The same as one HTML file: profiles, what would explain the misses, and the latest of them by node."""
    from rebalancer.reporting.html.pages import render_page  # noqa: PLC0415 - imports jinja2

    share = f" ({found.share:.2%})" if found.share is not None else ""
    return render_page(
        "agreement.html.jinja",
        package="rebalancer.agreement",
        found=found,
        title=f"{headline(found.decisions, found.landed)}{share}",
        time=times.render,
        most=_MAX_MISSES_OF_A_PAGE,
    )
