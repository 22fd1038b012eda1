"""The shipped policies on recorded timelines, beside no policy at all, as a table in Markdown.

    python -m bench.tuning_days daily /tmp/daily
    python -m bench.shipped_days daily=/tmp/daily

Every block, by default a day, is replayed by itself from the pods as they were recorded when it began, and
all are judged by the thresholds of policies/conservative.yaml. The last but one column is how much less
excess a day has than with the conservative policy, in the mean, with the interval that holds the mean of such
days with 95 %.

The last column is a choice by the other days: each block is left out once, and of the policies that evict at
most so many times as often as the conservative one (``--most``) the one with the least excess on the others
is chosen. Its margin is that on the blocks left out. A default is changed where that margin's interval is
above 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

import click

from rebalancer.documents import to_yaml
from rebalancer.policy.policy_file import LoadedPolicy, load_policy, parse_policy
from rebalancer.policy.units import parse_duration
from rebalancer_lab.timeline.replay import Measures, Span, replay
from rebalancer_lab.timeline.timeline import Timeline
from rebalancer_lab.timeline.tuning import Margin, blocks_of, margin_of

POLICIES = Path(__file__).parents[1] / "policies"
_NAMES = ("conservative", "balanced")
_NOTHING = "nothing done"
_DAY_MINUTES = 1440.0
_LEAST_EVICTIONS = 1.0  # a day, of the conservative one: a policy may replace one that does nothing

Day = dict[str, Measures]  # by policy, each figure as if the block were a day


def policies() -> list[tuple[str, LoadedPolicy]]:
    """The shipped policies, and the conservative one where it may move no pod."""
    found = [(name, load_policy(POLICIES / f"{name}.yaml")) for name in _NAMES]
    document = found[0][1].policy.model_dump(mode="json", by_alias=True, exclude_none=True)
    document["limits"]["perRun"] = 0
    return [(_NOTHING, parse_policy(to_yaml(document), _NOTHING)), *found]


def days_of(folder: Path, seconds: float, seed: int) -> list[Day]:
    """What each policy would have made of each block of a timeline."""
    timeline, named, days = Timeline.open(folder), policies(), []
    for block in blocks_of([str(folder)], seconds, 2):
        span = Span(block.begins, block.ends)
        found = replay(timeline, named, seed=seed, judge=named[1][1], baselines=False, span=span)
        days.append({run.policy: run for run in found.runs})
        share = found.minutes / _DAY_MINUTES
        click.echo(
            f"{folder.name} {found.begins}: "
            + ", ".join(f"{run.policy} {run.excess_minutes / share:,.0f}" for run in found.runs),
            err=True,
        )
    return days


def _figure(run: Measures, name: str) -> float:
    minutes = sum(item.minutes for item in run.moments)
    return float(getattr(run, name)) * _DAY_MINUTES / minutes


def _excess(days: Sequence[Day], name: str) -> float:
    return fmean(_figure(day[name], "excess_minutes") for day in days)


def _chosen(days: Sequence[Day], most: float) -> str:
    """The policy with the least excess among those that evict not much more than the conservative one."""
    evictions = {name: fmean(_figure(day[name], "evictions") for day in days) for name in _NAMES}
    bound = most * max(evictions["conservative"], _LEAST_EVICTIONS)
    allowed = [name for name in _NAMES if evictions[name] <= bound]
    return min(allowed, key=lambda name: (_excess(days, name), _NAMES.index(name)))


def held_out(days: Sequence[Day], most: float) -> tuple[list[str], Margin]:
    """Which policy the other blocks choose for each, and their excess less than the conservative one's."""
    chosen = [_chosen([*days[:at], *days[at + 1 :]], most) for at in range(len(days))]
    return chosen, _margin(days, chosen)


def _margin(days: Sequence[Day], names: Sequence[str]) -> Margin:
    """How much less excess than the conservative one a policy has, which is named for each day."""
    named = zip(days, names, strict=True)
    return margin_of([(_excess([day], "conservative"), _excess([day], name)) for day, name in named])


def _words(margin: Margin) -> str:
    return f"{margin.mean:,.0f} ({margin.low:,.0f} to {margin.high:,.0f})"


def rows_of(kind: str, days: Sequence[Day], most: float) -> list[str]:
    """A row of the table for each policy."""
    rows = []
    chosen, choice = held_out(days, most)
    for name in (_NOTHING, *_NAMES):
        figures = ("hot_node_minutes", "excess_minutes", "evictions", "disruption_cost", "refused_landings")
        means = [fmean(_figure(day[name], figure) for day in days) for figure in figures]
        words = _words(_margin(days, [name] * len(days))) if name != "conservative" else "-"
        rows.append(
            f"| {kind} | {name} | {' | '.join(f'{mean:,.1f}' for mean in means)} | {words} "
            f"| {chosen.count(name)} of {len(days)} |"
        )
    rows.append(f"| {kind} | chosen by the other days | | | | | | {_words(choice)} | |")
    return rows


@click.command()
@click.argument("timelines", nargs=-1, required=True, metavar="KIND=FOLDER...")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--block", default="24h", show_default=True, help="What is left out as a whole.")
@click.option(
    "--most", type=float, default=2.0, show_default=True, help="Times the conservative one's evictions."
)
def main(timelines: tuple[str, ...], seed: int, block: str, most: float) -> None:
    """Print the table."""
    click.echo(
        "| cluster | policy | hot node-minutes | excess | evictions | disruption | refused "
        "| less excess than conservative | chosen |"
    )
    click.echo("|---|---|---:|---:|---:|---:|---:|---:|---:|")
    for item in timelines:
        kind, _, folder = item.partition("=")
        for row in rows_of(kind, days_of(Path(folder), parse_duration(block), seed), most):
            click.echo(row)


if __name__ == "__main__":
    main()
