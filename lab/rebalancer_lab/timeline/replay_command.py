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
from rebalancer.reporting.html.chart import LineChart, line_chart
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
        found = replay(
            timeline,
            named,
            seed=seed,
            descheduler=rule,
            options=options,
            warnings=warnings,
            progress=advance,
        )
    names = (f"pod/{move.pod}" for run in found.runs for item in run.moments for move in item.moves)
    emit(found, output, replay_table, Rows(names, frames.moments, _page))


def named_policies(paths: Sequence[Path]) -> list[tuple[str, LoadedPolicy]]:
    """Policies with names that tell them apart; without any, the default one."""
    loaded = [load_policy(path) for path in paths] or [default_policy()]
    names = [item.policy.metadata.name for item in loaded]
    return [
        (name if names.count(name) == 1 else f"{name} ({named(Path(item.source))})", item)
        for name, item in zip(names, loaded, strict=True)
    ]


def replay_table(found: Replay, style: Style = Style()) -> Text:
    """The policies side by side, then hour by hour."""
    lines = Lines(style)
    lines.add((f"Replay: {found.minutes / 60:.1f} h of {plain(found.source)}", "bold"))
    lines.message(
        f"{found.begins} to {found.ends}; hot by the thresholds of {found.judge}; seed {found.seed}", 0, "dim"
    )
    for sentence in about(found):
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
    write_table(lines, columns, found.runs)
    hours = frames.hourly(found)["hot_node_minutes"].unstack("policy", fill_value=0.0)
    hours = hours[[run.policy for run in found.runs]]
    lines.heading("HOUR BY HOUR", "hot node-minutes")
    by_hour = [
        Column("hour", lambda row: row[0].strftime("%m-%d %H:%M")),
        *(_hot_minutes(run.policy, at) for at, run in enumerate(found.runs)),
    ]
    write_table(lines, by_hour, list(hours.iterrows()), _MAX_HOURS, "hour")
    return lines.text


def _hot_minutes(policy: str, at: int) -> Column:
    return Column(plain(policy), lambda row: f"{row[1].iloc[at]:,.0f}", right=True)


def about(found: Replay) -> list[str]:
    """What a reader must know of a replay, in sentences."""
    said = list(found.warnings)
    if (check := found.reproduction) is not None and check.arrivals:
        said.append(
            f"Of {counted(check.arrivals, 'arrival')} the model allows {check.as_recorded} where they went; "
            f"placed by it alone, node loads differ by {check.mean_error:.2f} points in the mean, "
            f"{check.largest_error:.1f} at most."
        )
    happened = found.happened
    said.append(
        f"In the recording: {counted(happened.arrivals, 'pod')} came, {happened.departures} left, "
        f"{counted(happened.restarts, 'restart')}, {happened.oom_kills} out of memory, "
        f"{happened.evicted} evicted by nodes, {happened.own_moves} moved by rebalancer."
    )
    said += [f"{plain(run.policy)} {run.refusal}" for run in found.runs if run.refusals]
    if found.left_out:
        said.append(f"{counted(len(found.left_out), 'moment')} left out: {found.left_out[0]}")
    return said


def _page(found: Replay) -> str:
    return render_page(
        "replay.html.jinja",
        package="rebalancer_lab.timeline",
        found=found,
        title=f"Replay: {found.minutes / 60:.1f} h",
        about=about(found),
        charts=[chart for chart in _charts(found) if chart is not None],
        most=_MAX_MOVES,
    )


def _charts(found: Replay) -> list[LineChart | None]:
    def curve(title: str, figure: str) -> LineChart | None:
        table = frames.moments(found)

        def values(policy: str) -> list[float]:
            return [float(value) for value in table.loc[table["policy"] == policy, figure]]

        return line_chart(title, {run.policy: values(run.policy) for run in found.runs})

    return [
        curve("hot nodes", "hot"),
        curve("excess, in points of all nodes", "excess"),
        curve("highest cpu of a node, percent", "peak_cpu"),
        curve("highest memory of a node, percent", "peak_memory"),
        curve("pods without a node", "pending"),
    ]
