"""What ``rebalancer timeline replay`` does: replay a timeline, and show the policies side by side."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.text import Text

from rebalancer.cli.output import Output, Rows, emit, progress_bar
from rebalancer.counting import counted
from rebalancer.documents import read_text
from rebalancer.files import named
from rebalancer.observe.plan_options import PlanOptions
from rebalancer.policy.policy_file import LoadedPolicy, default_policy, load_policy
from rebalancer.reporting.html.chart import CycleChart, count_chart, line_chart
from rebalancer.reporting.html.pages import render_page
from rebalancer.reporting.tables.text import Column, Lines, Style, write_table
from rebalancer.reporting.words import plain
from rebalancer_lab.timeline import frames
from rebalancer_lab.timeline.descheduler import LowNodeUtilization, read_descheduler
from rebalancer_lab.timeline.replay import Replay, replay
from rebalancer_lab.timeline.timeline import Timeline

_MAX_HOURS = 24
_MAX_MOVES = 50


def replay_timeline(
    folder: Path,
    options: PlanOptions,
    policies: Sequence[Path],
    descheduler: Path | None,
    seed: int,
    output: Output,
) -> None:
    """``rebalancer timeline replay``."""
    named = named_policies(policies)
    rule = LowNodeUtilization()
    warnings = tuple[str, ...]()
    if descheduler is not None:
        rule, warnings = read_descheduler(read_text(descheduler), str(descheduler))
    timeline = Timeline.open(folder)
    with progress_bar("moments", len(timeline.moments())) as advance:
        replayed = replay(
            timeline,
            named,
            seed=seed,
            descheduler=rule,
            options=options,
            warnings=warnings,
            progress=advance,
        )
    names = (f"pod/{move.pod}" for run in replayed.runs for moment in run.moments for move in moment.moves)
    emit(replayed, output, replay_table, Rows(names, frames.moments, _page))


def named_policies(paths: Sequence[Path]) -> list[tuple[str, LoadedPolicy]]:
    """Policies with names that tell them apart; without any, the default one."""
    loaded = [load_policy(path) for path in paths] or [default_policy()]
    names = [loaded_policy.policy.metadata.name for loaded_policy in loaded]
    return [
        (name if names.count(name) == 1 else f"{name} ({named(Path(loaded_policy.source))})", loaded_policy)
        for name, loaded_policy in zip(names, loaded, strict=True)
    ]


def replay_table(replayed: Replay, style: Style = Style()) -> Text:
    """The policies side by side, then hour by hour."""
    lines = Lines(style)
    lines.headline("Replay: ", f"{replayed.minutes / 60:.1f} h of {plain(replayed.source)}")
    lines.message(
        f"{replayed.begins} to {replayed.ends}; hot by the thresholds of {replayed.judge}; "
        f"seed {replayed.seed}",
        0,
        "dim",
    )
    for sentence in about(replayed):
        lines.message(sentence, 0)
    lines.heading(
        "POLICIES", "minutes of hot nodes, of points above the thresholds, of Pending pods; peaks in percent"
    )
    columns = [
        Column("policy", lambda run: (plain(run.policy), "bold")),
        Column("hot-min", lambda run: f"{run.hot_node_minutes:,.0f}", right=True),
        Column("excess-min", lambda run: f"{run.excess_minutes:,.0f}", right=True),
        Column("cpu", lambda run: f"{run.peak['cpu']:.0f}" if "cpu" in run.peak else "-", right=True),
        Column("mem", lambda run: f"{run.peak['memory']:.0f}" if "memory" in run.peak else "-", right=True),
        Column("evicted", lambda run: f"{run.evictions}", right=True),
        Column("cost", lambda run: f"{run.disruption_cost:.1f}", right=True),
        Column("twice", lambda run: f"{run.moved_twice}", right=True),
        Column("refused", lambda run: f"{run.refused_landings}", right=True),
        Column("pending", lambda run: f"{run.pending_minutes:,.0f}", right=True),
    ]
    write_table(lines, columns, replayed.runs)
    hours = frames.hourly(replayed)["hot_node_minutes"].unstack("policy", fill_value=0.0)
    hours = hours[[run.policy for run in replayed.runs]]
    lines.heading("HOUR BY HOUR", "hot node-minutes")
    by_hour = [
        Column("hour", lambda row: row[0].strftime("%m-%d %H:%M")),
        *(_hot_minutes(run.policy, at) for at, run in enumerate(replayed.runs)),
    ]
    write_table(lines, by_hour, list(hours.iterrows()), _MAX_HOURS, "hour")
    return lines.text


def _hot_minutes(policy: str, at: int) -> Column:
    return Column(plain(policy), lambda row: f"{row[1].iloc[at]:,.0f}", right=True)


def about(replayed: Replay) -> list[str]:
    """What a reader must know of a replay, in sentences."""
    sentences = list(replayed.warnings)
    if (check := replayed.reproduction) is not None and check.arrivals:
        sentences.append(
            f"Of {counted(check.arrivals, 'arrival')} the model allows {check.as_recorded} where they went; "
            f"placed by it alone, node loads differ by {check.mean_error:.2f} points in the mean, "
            f"{check.largest_error:.1f} at most."
        )
    happened = replayed.happened
    sentences.append(
        f"In the recording: {counted(happened.arrivals, 'pod')} came, {happened.departures} left, "
        f"{counted(happened.restarts, 'restart')}, {happened.oom_kills} out of memory, "
        f"{happened.evicted} evicted by nodes, {happened.own_moves} moved by rebalancer."
    )
    sentences += [f"{plain(run.policy)} {run.refusal}" for run in replayed.runs if run.refusals]
    if replayed.left_out:
        sentences.append(f"{counted(len(replayed.left_out), 'moment')} left out: {replayed.left_out[0]}")
    return sentences


def _page(replayed: Replay) -> str:
    moves = [move for run in replayed.runs for moment in run.moments for move in moment.moves]
    return render_page(
        "replay.html.jinja",
        package="rebalancer_lab.timeline",
        nodes=sorted({name for move in moves for name in (move.from_node, move.node) if name}),
        replayed=replayed,
        title=f"Replay: {replayed.minutes / 60:.1f} h",
        about=about(replayed),
        charts=[chart for chart in _charts(replayed) if chart is not None],
        max_moves=_MAX_MOVES,
    )


def _charts(replayed: Replay) -> list[CycleChart | None]:
    table = frames.moments(replayed)
    moments = max((run.moments for run in replayed.runs), key=len, default=())
    labels = [moment.at for moment in moments]

    def figures(name: str) -> dict[str, list[float]]:
        of_runs = {run.policy: table.loc[table["policy"] == run.policy, name] for run in replayed.runs}
        return {policy: list(map(float, values)) for policy, values in of_runs.items()}

    return [
        count_chart("hot nodes", figures("hot"), "moment", labels),
        line_chart("excess, in points of all nodes", figures("excess"), "moment", labels),
        line_chart("highest cpu of a node, percent", figures("peak_cpu"), "moment", labels),
        line_chart("highest memory of a node, percent", figures("peak_memory"), "moment", labels),
        count_chart("pods without a node", figures("pending"), "moment", labels),
    ]
