"""The outcome of each move of a run: its result, the node, and how long it took."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from rich.text import Text

from rebalancer.counting import counted
from rebalancer.errors import ExitCode
from rebalancer.execution.outcomes import CleanupOutcome, Outcome, Outcomes, PlanOfRun
from rebalancer.reporting.tables.text import Column, Lines, Style, write_table
from rebalancer.reporting.words import plain, words
from rebalancer.state.results import Result

_MAX_MOVES = 20
_MAX_NODES = 10  # that are named


def outcomes_table(outcomes: Outcomes, style: Style = Style()) -> Text:
    """The outcomes as text; a long list is summarised, and no failure is ever left out for a success."""
    moves = [outcome.move for outcome in outcomes.outcomes]
    landings = {landing.node for move in moves for landing in move.landings if landing.node}
    lines = Lines(style, landings.union(move.from_node for move in moves))
    lines.headline("Outcome: ", summary_words(outcomes))
    if outcomes.stopped:
        lines.message(f"stopped early: {outcomes.stopped}", 0, "bold red")
    if outcomes.still_tainted:
        nodes = ", ".join(map(plain, outcomes.still_tainted[:_MAX_NODES]))
        more = len(outcomes.still_tainted) - _MAX_NODES
        if more > 0:
            nodes += f" and {more} more"
        lines.message(f"taints of this run could not be taken away and stay on {nodes}", 0, "bold red")
    lines.labelled("run      ", outcomes.run)
    if len(outcomes.plans) > 1:
        lines.message("; then ".join(map(plan_words, outcomes.plans)), 0, "dim")
    lines.message(f"exit code {exit_words(outcomes)}", 0, "dim")
    _write_cleanups(lines, outcomes.cleanups)
    if not outcomes.outcomes:
        return lines.text
    if outcomes.dry_run:
        lines.heading("MOVES", "nothing was evicted; TO is where the plan puts each replacement")
    else:
        lines.heading("MOVES", "seconds from the request until the replacement was bound and ready")
    shown = outcomes.outcomes
    if lines.shown(len(shown), _MAX_MOVES) < len(shown):
        # Failures come first; what is shown stays in the order of the plan.
        worst = sorted(shown, key=lambda outcome: outcome.result is Result.LANDED)[:_MAX_MOVES]
        shown = tuple(outcome for outcome in shown if outcome in worst)
    stopped = f": {outcomes.stopped}" if outcomes.stopped else ""
    columns = [
        Column("RESULT", lambda outcome: (outcome.result.value, outcome.result.colour), leads=True),
        Column("POD", lambda outcome: (plain(outcome.move.pod.full_name), "bold"), leads=True),
        Column("FROM", lambda outcome: plain(outcome.move.from_node), node=True),
        Column("TO", _to_planned if outcomes.dry_run else _to, node=True),
        Column("BOUND", lambda outcome: seconds_after(outcome, outcome.bound_at), right=True),
        Column("READY", lambda outcome: seconds_after(outcome, outcome.ready_at), right=True),
    ]
    if any(_why(outcome, stopped, lines) for outcome in shown):
        columns.append(Column("WHY", lambda outcome: (_why(outcome, stopped, lines), "dim"), sentence=True))
    write_table(lines, columns, shown)
    lines.more(len(outcomes.outcomes) - len(shown), "move")
    lines.say_what_is_left_out()
    return lines.text


def _write_cleanups(lines: Lines, cleanups: Sequence[CleanupOutcome]) -> None:
    """How many finished pods were removed, and each that was not."""
    if not cleanups:
        return
    lines.message(f"finished pods: {results_words(outcome.result for outcome in cleanups)}", 0)
    others = [outcome for outcome in cleanups if outcome.result.exit_code is not ExitCode.DONE]
    if others:
        columns = [
            Column("RESULT", lambda outcome: (outcome.result.value, outcome.result.colour), leads=True),
            Column(
                "FINISHED POD", lambda outcome: (plain(outcome.cleanup.pod.full_name), "bold"), leads=True
            ),
            Column("WHY", lambda outcome: (words(outcome.because), "dim"), sentence=True),
        ]
        lines.heading("CLEANUPS", "finished pods that were not removed")
        write_table(lines, columns, others, _MAX_MOVES, "finished pod")


def results_words(results: Iterable[Result]) -> str:
    """``3 Removed, 1 Refused``."""
    counts = Counter(results)
    return ", ".join(f"{counts[result]} {result.value}" for result in Result if counts[result])


def summary_words(outcomes: Outcomes) -> str:
    """How many moves ended how."""
    if not outcomes.outcomes:
        if outcomes.cleanups:
            return f"finished pods: {results_words(outcome.result for outcome in outcomes.cleanups)}"
        return "nothing was evicted"
    counts = Counter(outcome.result for outcome in outcomes.outcomes)
    evicted, restarts = (counts.pop(result, 0) for result in (Result.WOULD_EVICT, Result.WOULD_RESTART))
    others = ", ".join(f"{counts[result]} {result.value}" for result in Result if counts[result])
    if not outcomes.dry_run:
        return others
    would = f"dry run: would evict {counted(evicted, 'pod')}"
    would += f" and restart {counted(restarts, 'Deployment')}" if restarts else ""
    would += "; the API server agrees" if evicted or restarts else ""  # else it was not asked, or refused
    return f"{would}; {others}" if others else would


def plan_words(plan: PlanOfRun) -> str:
    """What a plan of a run was made for, and what became of it."""
    hot_nodes = counted(plan.hot_nodes, "hot node")
    if not plan.moves:
        return f"{hot_nodes}, nothing more to gain"
    elsewhere = f", {plan.elsewhere} of them elsewhere than most likely" if plan.elsewhere else ""
    skipped = f", {plan.skipped} skipped" if plan.skipped else ""
    return f"{hot_nodes}, {counted(plan.moves, 'move')} planned: {plan.made} made{elsewhere}{skipped}"


def exit_words(outcomes: Outcomes) -> str:
    """The exit code and what it means."""
    if outcomes.exit_code == ExitCode.DONE:
        if outcomes.dry_run:
            return "0: dry run, nothing was changed"
        return "0: done" if outcomes.outcomes or outcomes.cleanups else "0: nothing to do"
    meanings = {int(member): member.meaning for member in ExitCode}
    return f"{outcomes.exit_code}: {meanings.get(outcomes.exit_code, 'not an exit code of rebalancer')}"


def seconds_after(outcome: Outcome, moment: float | None) -> str:
    """The seconds from the eviction to a moment; empty where one of them is not known.

    The API server writes whole seconds, by its own clock: tenths would be invented, and negative is skew.
    """
    if moment is None or outcome.evicted_at is None:
        return ""
    return f"{max(moment - outcome.evicted_at, 0.0):.0f}"


def _to(outcome: Outcome) -> str:
    """Where the replacement landed."""
    return plain(outcome.node) or "-"


def _to_planned(outcome: Outcome) -> str:
    """Where the plan puts the replacement: the likeliest node, and how many others may take it."""
    others = len(outcome.move.landings) - 1
    likeliest = plain(outcome.move.likeliest.node) or "nowhere"
    return f"{likeliest} +{others}" if others > 0 else likeliest


def _why(outcome: Outcome, stopped: str, lines: Lines) -> str:
    """What neither the row nor the head of the table says; of a move as planned only with everything."""
    if lines.style.everything:
        return words(outcome.because)
    if outcome.result in (Result.LANDED, Result.WOULD_EVICT):
        return ""
    return words(outcome.because.removesuffix(stopped))
