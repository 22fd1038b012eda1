"""The outcome of each move of a run: its result, the node, and how long it took."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from rich.text import Text

from rebalancer.cluster import times
from rebalancer.counting import counted
from rebalancer.errors import ExitCode
from rebalancer.execution.outcomes import CleanupOutcome, Measured, NodeMeasured, Outcome, Outcomes, PlanOfRun
from rebalancer.reporting.tables.text import Column, Lines, Style, write_table
from rebalancer.reporting.words import plain, words
from rebalancer.state.results import Result

_MAX_MOVES = 20
_MAX_NODES = 10  # that are named


def outcomes_table(outcomes: Outcomes, style: Style = Style()) -> Text:
    """The outcomes as text; a long list is summarised, and no failure is ever left out for a success."""
    moves = [outcome.move for outcome in outcomes.outcomes]
    landings = {landing.node for move in moves for landing in move.landings if landing.node}
    measured = {node.name for node in outcomes.measured.nodes} if outcomes.measured else set()
    lines = Lines(style, landings.union(measured, (move.from_node for move in moves)))
    lines.labelled("Outcome: ", summary_words(outcomes), "bold", "bold")
    if outcomes.measured:
        lines.message(measured_words(outcomes.measured), 0, "bold")
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
    lines.heading("MOVES", "seconds from the request until the replacement was bound and ready")
    shown = outcomes.outcomes
    if lines.shown(len(shown), _MAX_MOVES) < len(shown):
        # Failures are kept first; what is shown stays in the order of the plan.
        kept = sorted(shown, key=lambda outcome: outcome.result is Result.LANDED)[:_MAX_MOVES]
        shown = tuple(outcome for outcome in shown if outcome in kept)
    said = f": {outcomes.stopped}" if outcomes.stopped else ""
    columns = [
        Column("RESULT", lambda outcome: (outcome.result.value, outcome.result.colour)),
        Column("POD", lambda outcome: (plain(outcome.move.pod.full_name), "bold")),
        Column("FROM", lambda outcome: plain(outcome.move.from_node), node=True),
        Column("TO", lambda outcome: plain(outcome.node) or "-", node=True, begins_line=True),
        Column("BOUND", lambda outcome: seconds_after(outcome, outcome.bound_at), right=True),
        Column("READY", lambda outcome: seconds_after(outcome, outcome.ready_at), right=True),
        Column("WHY", lambda outcome: (_why(outcome, said, lines), "dim"), sentence=True, begins_line=True),
    ]
    write_table(lines, columns, shown)
    lines.more(len(outcomes.outcomes) - len(shown), "move")
    if outcomes.measured:
        _write_measured(lines, outcomes.measured)
    lines.say_what_is_left_out()
    return lines.text


def _write_cleanups(lines: Lines, cleanups: Sequence[CleanupOutcome]) -> None:
    """How many finished pods were removed, and each that was not."""
    if not cleanups:
        return
    lines.message(f"finished pods: {results_words(item.result for item in cleanups)}", 0)
    others = [item for item in cleanups if item.result.exit_code is not ExitCode.DONE]
    if others:
        columns = [
            Column("RESULT", lambda item: (item.result.value, item.result.colour)),
            Column("FINISHED POD", lambda item: (plain(item.cleanup.pod.full_name), "bold")),
            Column("WHY", lambda item: (words(item.because), "dim"), sentence=True, begins_line=True),
        ]
        lines.heading("CLEANUPS", "finished pods that were not removed")
        write_table(lines, columns, others, _MAX_MOVES, "finished pod")


def results_words(results: Iterable[Result]) -> str:
    """``3 Removed, 1 Refused``."""
    counts = Counter(results)
    return ", ".join(f"{counts[result]} {result.value}" for result in Result if counts[result])


def measured_words(measured: Measured) -> str:
    """What a run achieved: how many of the hot nodes are relieved, by figures from after its moves."""
    hot = measured.hot
    relieved = sum(node.hot_after is False for node in hot)
    stays = sum(node.hot_after is True for node in hot)
    said = [f"{relieved} of {counted(len(hot), 'hot node')} relieved"] if hot else ["no node was hot"]
    said += [f"{stays} still hot"] if stays else []
    said += [f"{counted(len(measured.newly_hot), 'other node')} hot now"] if measured.newly_hot else []
    unknown = sum(node.hot_after is None for node in hot)
    if hot and unknown == len(hot):
        said = [f"what became of {counted(len(hot), 'hot node')} is not measured yet"]
    elif unknown:
        said += [f"{unknown} not measured yet"]
    words = f"as measured: {', '.join(said)}"
    if not any(node.hot_after is None for node in measured.nodes) or measured.waited_seconds >= 1:
        return words + (f"; waited {measured.waited_seconds:.0f} s for figures" if unknown else "")
    return f"{words}: look with rebalancer nodes in some minutes, or set execution.waitForMeasurement"


def _write_measured(lines: Lines, measured: Measured) -> None:
    """Each node that was hot or that pods left or came to, by the resource in which it was hottest."""
    lines.heading("LOAD AS MEASURED", "percent of allocatable, by figures that begin after the last move")
    columns = [
        Column("NODE", lambda node: (plain(node.name), "bold"), node=True),
        Column("OF", lambda node: plain(node.resource)),
        Column("BEFORE", lambda node: percent_words(node.before, node), right=True),
        Column("EXPECTED", lambda node: percent_words(node.expected, node), right=True),
        Column("MEASURED", lambda node: percent_words(node.after, node), right=True),
        Column("NOW", lambda node: (state_words(node), _STATE_COLOURS[node.hot_after])),
        Column("FIGURE", lambda node: (figure_words(node), "dim"), sentence=True, begins_line=True),
    ]
    write_table(lines, columns, measured.nodes, _MAX_MOVES, "node")


_STATE_COLOURS = {True: "red", False: "green", None: "yellow"}


def percent_words(load: dict[str, float], node: NodeMeasured) -> str:
    """The load of a node in the resource that counts; a question mark where it is not known."""
    percent = load.get(node.resource)
    return "?" if percent is None else f"{percent:.0f}"


def state_words(node: NodeMeasured) -> str:
    """Whether a node is hot after a run."""
    if node.hot_after is None:
        return "unknown"
    return "still hot" if node.hot and node.hot_after else "hot" if node.hot_after else "not hot"


def figure_words(node: NodeMeasured) -> str:
    """Whose figure it is and when it was taken, or why there is none."""
    if node.measured_at is None:
        return words(node.because)
    return words(f"{node.source}, {times.render(node.measured_at)}".removeprefix(", "))


def summary_words(outcomes: Outcomes) -> str:
    """How many moves ended how."""
    if not outcomes.outcomes:
        if outcomes.cleanups:
            return f"finished pods: {results_words(item.result for item in outcomes.cleanups)}"
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
    found = counted(plan.hot_nodes, "hot node")
    if not plan.moves:
        return f"{found}, nothing more to gain"
    elsewhere = f", {plan.elsewhere} of them elsewhere than most likely" if plan.elsewhere else ""
    skipped = f", {plan.skipped} skipped" if plan.skipped else ""
    return f"{found}, {counted(plan.moves, 'move')} planned: {plan.made} made{elsewhere}{skipped}"


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


def _why(outcome: Outcome, said: str, lines: Lines) -> str:
    """What neither the row nor the head of the table says; of a move as planned only with everything."""
    if lines.style.everything:
        return words(outcome.because)
    as_planned = outcome.result in (Result.LANDED, Result.WOULD_EVICT)
    return "" if as_planned else words(outcome.because.removesuffix(said) if said else outcome.because)
