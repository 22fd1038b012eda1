"""The shipped policies day by day on recorded timelines, beside no policy at all, as a table in Markdown.

    python -m bench.tuning_days daily /tmp/daily
    python -m bench.shipped_days daily=/tmp/daily

Every day is replayed by itself, from the pods as they were recorded when it began, and all are judged by the
thresholds of policies/default.yaml. The last column is how much less excess a day has than with the default
policy, in the mean, with the interval that holds the mean of such days with 95 %.
"""

from __future__ import annotations

from pathlib import Path
from statistics import fmean

import click

from rebalancer.documents import to_yaml
from rebalancer.policy.policy_file import load_policy
from rebalancer_lab.tuning import blocks_of, margin_of
from rebalancer_lab.workers import Block, Figures, Task, evaluate

POLICIES = Path(__file__).parents[1] / "policies"
_NAMES = ("default", "conservative", "balanced")
_DAY = 86_400.0


def _text(name: str) -> str:
    """A policy as YAML; that of "nothing done" is the default one, which may move no pod."""
    policy = load_policy(POLICIES / f"{name if name in _NAMES else 'default'}.yaml").policy
    document = policy.model_dump(mode="json", by_alias=True, exclude_none=True)
    if name not in _NAMES:
        document["limits"]["perRun"] = 0
    return to_yaml(document)


def _figures(blocks: tuple[Block, ...], name: str, seed: int) -> list[Figures]:
    found = [evaluate(Task(block, _text(name), _text("default"), name, seed)) for block in blocks]
    wrong = next((item for item in found if isinstance(item, str)), "")
    if wrong:
        raise click.ClickException(wrong)
    return [item for item in found if isinstance(item, Figures)]


def rows_of(kind: str, folder: Path, seed: int) -> list[str]:
    """A row of the table for each policy."""
    blocks = blocks_of([folder], _DAY, 2)
    days = {name: _figures(blocks, name, seed) for name in ("nothing done", *_NAMES)}
    rows = []
    for name, figures in days.items():
        pairs = [(was.excess, now.excess) for was, now in zip(days["default"], figures, strict=True)]
        margin = margin_of(pairs)
        words = f"{margin.mean:,.0f} ({margin.low:,.0f} to {margin.high:,.0f})" if name != "default" else "-"
        means = [
            fmean(getattr(item, key) for item in figures) for key in ("hot", "excess", "evictions", "cost")
        ]
        rows.append(f"| {kind} | {name} | " + " | ".join(f"{mean:,.1f}" for mean in means) + f" | {words} |")
    return rows


@click.command()
@click.argument("timelines", nargs=-1, required=True, metavar="KIND=FOLDER...")
@click.option("--seed", type=int, default=0, show_default=True)
def main(timelines: tuple[str, ...], seed: int) -> None:
    """Print the table."""
    click.echo(
        "| cluster | policy | hot node-minutes | excess | evictions | disruption | less excess than default |"
    )
    click.echo("|---|---|---:|---:|---:|---:|---:|")
    for item in timelines:
        kind, _, folder = item.partition("=")
        for row in rows_of(kind, Path(folder), seed):
            click.echo(row)


if __name__ == "__main__":
    main()
