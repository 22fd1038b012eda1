"""What happened to the moves of a plan: result, node, and how long it took."""

from __future__ import annotations

from collections import Counter

from rich.text import Text

from rebalancer.errors import ExitCode
from rebalancer.execution.outcomes import Outcome, Outcomes, Result
from rebalancer.reporting.tables.text import Lines, Style
from rebalancer.reporting.words import plain, words

_MOST = 20
COLOURS = {
    Result.LANDED: "green",
    Result.LANDED_ELSEWHERE: "green",
    Result.UNEXPECTED: "red",
    Result.PENDING: "red",
    Result.NOT_READY: "red",
    Result.NOT_REPLACED: "red",
    Result.REFUSED: "yellow",
    Result.UNKNOWN: "red",
    Result.SKIPPED: "dim",
}
_RESULT_WIDTH = max(len(result.value) for result in Result)


def outcomes_table(outcomes: Outcomes, style: Style = Style()) -> Text:  # noqa: B008 - a frozen value
    """The outcomes as text, those that went wrong first to be kept when the list is long."""
    lines = Lines(style)
    lines.add(("Outcome: ", "bold"), (_summary(outcomes), "bold"))
    if outcomes.stopped:
        lines.message(f"stopped early: {outcomes.stopped}", 0, "bold red")
    lines.add(("run      ", "dim"), words(outcomes.run))
    lines.message(f"exit     {_exit(outcomes.exit_code)}", 0, "dim")
    if not outcomes.outcomes:
        return lines.text
    lines.heading("MOVES", "seconds from the eviction until the replacement was bound and ready")
    shown = outcomes.outcomes
    if lines.shown(len(shown), _MOST) < len(shown):
        # In the order of the plan, yet none that went wrong is left out for one that went well.
        kept = sorted(shown, key=lambda outcome: outcome.result is Result.LANDED)[:_MOST]
        shown = tuple(outcome for outcome in shown if outcome in kept)
    for outcome in shown:
        _write(lines, outcome)
    lines.more(len(outcomes.outcomes) - len(shown), "move")
    return lines.text


def _summary(outcomes: Outcomes) -> str:
    if not outcomes.outcomes:
        return "nothing was evicted"
    counts = Counter(outcome.result for outcome in outcomes.outcomes)
    return ", ".join(f"{counts[result]} {result.value}" for result in Result if counts[result])


def _exit(code: int) -> str:
    known = {int(member): member.meaning for member in ExitCode}
    return f"{code}: {known.get(code, 'not a code of rebalancer')}"


def _write(lines: Lines, outcome: Outcome) -> None:
    pod = plain(outcome.move.pod.full_name)
    lines.add("  ", (outcome.result.value.ljust(_RESULT_WIDTH), COLOURS[outcome.result]), "  ", (pod, "bold"))
    arrow = lines.style.glyphs.arrow
    where = f"{plain(outcome.move.from_node)} {arrow} {plain(outcome.node)}" if outcome.node else ""
    # The API server writes whole seconds by its own clock: a tenth would be invented, less than none wrong.
    took = [
        f"{name} {max(moment - outcome.evicted_at, 0.0):.0f} s"
        for name, moment in (("bound", outcome.bound_at), ("ready", outcome.ready_at))
        if moment is not None and outcome.evicted_at is not None
    ]
    indent = _RESULT_WIDTH + 4
    if where or took:
        lines.message(", ".join(part for part in (where, *took) if part), indent)
    if outcome.result is not Result.LANDED or lines.style.everything:
        lines.message(outcome.because, indent, "dim")
