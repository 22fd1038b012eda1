"""How many more pods fit, on one screen: where the first ones land, and what stops the next."""

from __future__ import annotations

from collections.abc import Mapping

from rich.text import Text

from rebalancer.planning.explanation.values import RejectedNodes
from rebalancer.questions.fit import Fit, FittingPod
from rebalancer.reporting.tables.columns import Column, Cut, write_columns
from rebalancer.reporting.tables.text import Lines, Style
from rebalancer.reporting.words import counted, plain, sample

_MAX_NODES, _MAX_REASONS = 3, 6
_MIB = 1 << 20


def fit_table(answer: Fit, style: Style = Style()) -> Text:
    """The answer as text; long lists summarised unless the style shows everything."""
    lines = Lines(style)
    lines.message(f"{answer.pod}: {_verdict(answer)}", 0, "bold")
    lines.message(f"cluster {answer.source} at {answer.now}", 2, "dim", most=1)
    lines.message(f"each pod requests {_requests(answer)}; profile {answer.profile}", 2, "dim", most=1)
    if answer.unpredictable:
        lines.message(f"because {answer.unpredictable}", 2, "yellow", most=3)
    if answer.quota:
        lines.message(answer.quota, 2, "red")
    if answer.landings:
        _landings(lines, answer)
    if answer.stopped or answer.message:
        _stopped(lines, answer)
    lines.heading("TAKEN FOR GRANTED")
    for note in answer.notes:
        lines.message(note, 2, "dim")
    return lines.text


def _verdict(answer: Fit) -> str:
    if answer.unpredictable:
        return "how many more fit cannot be predicted"
    if not answer.fits:
        return "no more of these pods fits"
    if answer.fits == answer.at_most:
        return f"{answer.at_most} more pods fit, and perhaps others (--at-most)"
    verb = "fits" if answer.fits == 1 else "fit"
    return f"{counted(answer.fits, 'more pod')} {verb}, on {counted(len(answer.by_node), 'node')}"


def _requests(answer: Fit) -> str:
    """``500m cpu, 256 MiB``."""
    cpu, memory = answer.requests.get("cpu", 0.0), answer.requests.get("memory", 0.0)
    parts = [f"{cpu:.0f}m cpu"] if cpu else []
    parts += [f"{memory / _MIB:.0f} MiB of memory"] if memory else []
    return " and ".join(parts) or "nothing"


def _landings(lines: Lines, answer: Fit) -> None:
    shown = answer.landings[: lines.shown(len(answer.landings), len(answer.landings))]
    lines.heading("LANDINGS", "each pod after those above it; percent of the node requested then")
    columns = [
        Column("POD", right=True),
        Column("NODE", cut=Cut.MIDDLE),
        Column("CHANCE", right=True),
        Column("OTHER NODES", right=True),
        Column("CPU", right=True),
        Column("MEMORY", right=True),
    ]
    write_columns(lines, columns, [_landing(item) for item in shown])
    most = answer.by_node if lines.style.everything else answer.by_node[:_MAX_NODES]
    listed = ", ".join(f"{plain(item.node)} {item.pods}" for item in most)
    others = len(answer.by_node) - len(most)
    more = f", {counted(others, 'other node')} (--all)" if others else ""
    lines.message(f"pods by node: {listed}{more}", 2, "dim")


def _landing(item: FittingPod) -> list[Text]:
    return [
        Text(str(item.number)),
        Text(plain(item.node), "bold"),
        Text(f"{item.probability:.0%}"),
        Text(str(item.others) if item.others else "-"),
        *(_percent(item.requested, name) for name in ("cpu", "memory")),
    ]


def _percent(values: Mapping[str, float], name: str) -> Text:
    return Text(f"{values[name]:.0f}" if name in values else "?")


def _stopped(lines: Lines, answer: Fit) -> None:
    """What rejects the pod after the last: a line for each plugin and reason, then the scheduler's event."""
    lines.heading("WHAT STOPS THE NEXT ONE", f"pod {answer.fits + 1}: nodes by the first plugin that rejects")
    shown = answer.stopped[: lines.shown(len(answer.stopped), _MAX_REASONS)]
    for item in shown:
        _reason(lines, item)
    lines.more(len(answer.stopped) - len(shown), "reason")
    if answer.message:
        lines.message(answer.message, 2, "dim", most=3)
    if answer.preemption:
        lines.message(answer.preemption, 2, "yellow")


def _reason(lines: Lines, item: RejectedNodes) -> None:
    lead = f"{item.count:6d}  {item.reason}"
    lines.message(lead.strip(), 2, "bold", most=1)
    if lines.style.everything:
        lines.message(f"e.g. {sample(item.nodes, 5)}", 10, "dim", most=1)
