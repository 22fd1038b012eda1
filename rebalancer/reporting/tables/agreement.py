"""Whether a cluster's schedulers decide as computed, and one decision node by node."""

from __future__ import annotations

from rich.text import Text

from rebalancer.agreement.decisions import Agreement, Decision, OfProfile, Result
from rebalancer.reporting.tables.text import Column, Lines, Style, write_table
from rebalancer.reporting.words import counted, plain, words

_MAX_PROFILES, _MAX_MISSES, _MAX_SUSPECTS = 12, 5, 5


def headline(decisions: int, landed: int) -> str:
    """One sentence: how many decisions landed as computed."""
    if not decisions:
        return "No decision of your scheduler could be compared yet"
    of = "1 decision" if decisions == 1 else f"{decisions:,} decisions"
    return f"Of {of} of your scheduler {landed:,} landed as computed"


def agreement_table(found: Agreement, style: Style = Style()) -> Text:
    """The agreement as text; misses with what could be the difference."""
    lines = Lines(style)
    colour = "yellow" if found.landed < found.decisions or not found.decisions else "green"
    share = f" ({found.share:.2%})" if found.share is not None else ""
    lines.message(f"{headline(found.decisions, found.landed)}{share}", 0, f"bold {colour}")
    took = found.until - found.since
    per = 1000 * found.processor_seconds / max(found.decisions, 1)
    lines.message(
        f"cluster {words(found.source)}, followed for {took / 60:.1f} min; "
        f"{found.processor_seconds:.1f} s of a processor, {per:.1f} ms a decision",
        2,
        "dim",
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
        Column("NODES", lambda item: f"{item.possible:.1f}", right=True),
        Column("SURPRISE", lambda item: f"{item.surprise:.3f}", right=True),
        Column("EXPECTED", lambda item: f"{item.expected_surprise:.3f}", right=True),
        Column("UNPREDICTABLE", lambda item: str(item.unpredictable), right=True),
    ]
    if found.profiles:
        lines.heading("PROFILES", "nodes computed on average; surprise: -ln of the chance of the node chosen")
        write_table(lines, columns, found.profiles, _MAX_PROFILES, "profile")
    if found.unpredictable:
        lines.heading("NOT COMPARED", "pods whose landing cannot be computed; they count for nothing")
        for reason, count in found.unpredictable.items():
            lines.message(f"{count}: {reason}", 2)
    if found.suspects:
        lines.heading("WHAT WOULD EXPLAIN THE MISSES")
        for suspect in lines.first(found.suspects, _MAX_SUSPECTS, "suspect"):
            lines.message(suspect.sentence, 2, "yellow")
    if found.misses:
        lines.heading("MISSES", "the latest first")
        for item in lines.first(found.misses[::-1], _MAX_MISSES, "miss", "misses"):
            write_decision(lines, item)
    return lines.text


def _landed(item: OfProfile) -> tuple[str, str]:
    return str(item.decisions - item.missed), "yellow" if item.missed else "green"


def write_decision(lines: Lines, item: Decision) -> None:
    """One decision: the node chosen beside the likeliest, by plugin."""
    lines.message(f"{item.pod} {lines.style.glyphs.arrow} {item.node or 'no node'}: {_said(item)}", 2, "bold")
    chosen = item.nodes[0] if item.nodes else None
    if chosen is None:
        return
    if chosen.rejected:
        lines.message(f"the model does not admit it: {chosen.rejected}", 4, "yellow")
    scored = [node for node in item.nodes if not node.rejected]
    plugins = sorted({name for node in scored for name in node.weighted})
    differing = [name for name in plugins if len({node.weighted.get(name) for node in scored}) > 1]
    for node in scored:
        parts = ", ".join(f"{name} {node.weighted[name]} ({node.raw[name]})" for name in differing)
        chance = f"{node.chance:.0%}" if node.chance else "-"
        lines.message(f"{plain(node.node)}  total {node.total}  chance {chance}  {parts}", 4, most=4)
    alone = [name for name, (_, lowest, highest) in item.weights.items() if lowest <= highest]
    if item.result is Result.MISSED and alone:
        lines.message(f"another weight of one of these alone would explain it: {', '.join(alone)}", 4, "dim")


def _said(item: Decision) -> str:
    if item.result is Result.UNPREDICTABLE:
        return f"not computed, {item.because}"
    if item.result is Result.MISSED:
        why = f": {item.because}" if item.because else ""
        return f"a miss among {counted(item.feasible, 'feasible node')}{why}"
    how = " in another order of what happened at once" if item.result is Result.REORDERED else ""
    return f"as computed{how}, one of {counted(item.possible, 'node')}, chance {item.chance:.0%}"
