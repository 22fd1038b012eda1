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


def agreement_table(agreement: Agreement, style: Style = Style()) -> Text:
    """The agreement as text; misses with what could be the difference."""
    lines = Lines(style)
    colour = "yellow" if agreement.landed < agreement.decisions or not agreement.decisions else "green"
    share = f" ({agreement.share:.2%})" if agreement.share is not None else ""
    lines.headline("", f"{headline(agreement.decisions, agreement.landed)}{share}", f"bold {colour}")
    took = agreement.until - agreement.since
    each = (
        f", {1000 * agreement.processor_seconds / agreement.decisions:.1f} ms a decision"
        if agreement.decisions
        else ""
    )
    lines.message(
        f"cluster {words(agreement.source)}, followed for {took / 60:.1f} min; "
        f"{agreement.processor_seconds:.1f} s of a processor{each}",
        2,
        "dim",
    )
    if not agreement.decisions and not agreement.waiting and not agreement.unpredictable:
        lines.message("no pod was bound by a scheduler meanwhile", 2)
    if agreement.waiting:
        bound = counted(agreement.waiting, "more pod was", "more pods were")
        lines.message(
            f"{bound} bound and not compared: the watch of pods did not show in time that it is current", 2
        )
    if agreement.in_another_order:
        lines.message(
            f"{agreement.in_another_order} of them in another order of what happened within the same seconds",
            2,
        )
    if agreement.left_out:
        lines.message(
            f"sampled: {counted(agreement.left_out, 'more pod')} bound in storms were not computed", 2
        )
    if agreement.gaps:
        lines.message(f"watches lost what happened {counted(agreement.gaps, 'time')}; that is not counted", 2)
    columns = [
        Column("PROFILE", lambda profile: (plain(profile.scheduler), "bold")),
        Column("DECISIONS", lambda profile: str(profile.decisions), right=True),
        Column("AS COMPUTED", _landed, right=True),
        Column("NODES", lambda profile: figure(profile.possible, 1), right=True),
        Column("SURPRISE", lambda profile: figure(profile.surprise, 3), right=True),
        Column("EXPECTED", lambda profile: figure(profile.expected_surprise, 3), right=True),
        Column("UNPREDICTABLE", lambda profile: str(profile.unpredictable), right=True),
    ]
    if agreement.profiles:
        lines.heading("PROFILES", "nodes computed on average; surprise: -ln of the chance of the node chosen")
        write_table(lines, columns, agreement.profiles, _MAX_PROFILES, "profile")
    if agreement.unpredictable:
        lines.heading("NOT COMPARED", "pods whose landing cannot be computed; they count for nothing")
        for reason, count in agreement.unpredictable.items():
            lines.message(f"{count}: {reason}", 2)
    _write_suspects(lines, agreement)
    if agreement.misses:
        lines.heading("MISSES", "the latest first")
        for miss in lines.first(agreement.misses[::-1], _MAX_MISSES, "miss", "misses"):
            _write_decision(lines, miss, _outcome(miss))
    return lines.text


def _write_suspects(lines: Lines, agreement: Agreement) -> None:
    edited = "a plan expects them to come as those that are there"
    for title, about, suspects in (
        ("WHAT WOULD EXPLAIN THE MISSES", "", agreement.suspects),
        ("PODS THAT WERE EDITED", edited, agreement.edits),
    ):
        if suspects:
            lines.heading(title, about)
        for suspect in lines.first(suspects, _MAX_SUSPECTS, "suspect"):
            lines.message(suspect.sentence, 2, "yellow")


def why_table(why: WhyThere, style: Style = Style()) -> Text:
    """One decision as text."""
    lines = Lines(style)
    elsewhere = why.decision.result is Result.MISSED and not why.recorded
    outcome = "the scheduler would choose another node now" if elsewhere else _outcome(why.decision)
    _write_decision(lines, why.decision, outcome)
    lines.message(f"computed {why.computed}", 2, "dim", max_lines=3)
    return lines.text


def _landed(profile: OfProfile) -> tuple[str, str]:
    return str(profile.decisions - profile.missed), "yellow" if profile.missed else "green"


def _write_decision(lines: Lines, decision: Decision, outcome: str) -> None:
    """One decision: the node chosen above the likeliest others, by plugin."""
    lines.message(f"{decision.pod} {lines.style.glyphs.arrow} {decision.node}: {outcome}", 2, "bold")
    if decision.nodes and decision.nodes[0].rejected:
        lines.message(f"the model does not admit it: {decision.nodes[0].rejected}", 4, "yellow")
    scored = [node for node in decision.nodes if not node.rejected]
    plugins = sorted({name for node in scored for name in node.weighted})

    def differs(plugin: str) -> bool:
        return len({node.weighted.get(plugin) for node in scored}) > 1

    differing = [name for name in plugins if differs(name)]
    short = initials(differing)

    def score(plugin: str) -> Callable[[NodeScores], str]:
        return lambda node: f"{node.weighted.get(plugin, '-')} ({node.raw.get(plugin, '-')})"

    columns = [
        Column(
            "NODE", lambda node: (plain(node.node), "bold" if node.node == decision.node else ""), node=True
        ),
        Column("TOTAL", lambda node: str(node.total), right=True),
        Column("CHANCE", lambda node: f"{node.chance:.0%}" if node.chance else "-", right=True),
        *(Column(short[name], score(name), right=True) for name in differing),
    ]
    if scored:
        write_table(lines, columns, scored, _MAX_NODES, "node")
    if differing:
        legend = ", ".join(f"{short[name]} {name}" for name in differing)
        lines.message(f"weighted (raw) scores: {legend}", 4, "dim", max_lines=3)
    alone = [name for name, (_, *ranges) in decision.weights.items() if ranges]
    if decision.result is Result.MISSED and alone:
        lines.message(
            f"another weight of one of these alone would explain it: {', '.join(alone)}",
            4,
            "dim",
            max_lines=3,
        )


def _outcome(decision: Decision) -> str:
    if decision.result is Result.UNPREDICTABLE:
        return f"not computed, {decision.because}"
    if decision.result is Result.MISSED:
        why = f": {decision.because}" if decision.because else ""
        return f"a miss among {counted(decision.feasible, 'feasible node')}{why}"
    how = " in another order of what happened at once" if decision.result is Result.REORDERED else ""
    return f"as computed{how}, one of {counted(decision.possible, 'node')}, chance {decision.chance:.0%}"


def agreement_page(agreement: Agreement) -> str:
    """The same as one HTML file: profiles, what would explain the misses, and the latest of them by node."""
    from rebalancer.reporting.html.pages import render_page  # noqa: PLC0415 - imports jinja2

    share = f" ({agreement.share:.2%})" if agreement.share is not None else ""
    return render_page(
        "agreement.html.jinja",
        package="rebalancer.agreement",
        agreement=agreement,
        title=f"{headline(agreement.decisions, agreement.landed)}{share}",
        time=times.render,
        max_rows=_MAX_MISSES_OF_A_PAGE,
    )
