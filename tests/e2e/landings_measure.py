"""Landings of whole runs on a large cluster whose figures follow the moves, beside what was predicted.

    python -m tests.e2e.landings_measure --nodes 1523 --rounds 5 --folder FOLDER

The scheduler packs by TargetLoadPacking, and its figures are up to half a minute old.
"""

from __future__ import annotations

import sys
from pathlib import Path

import click
import urllib3

from tests.e2e.landing_clusters import Situation
from tests.e2e.landing_runs import DEFAULT, PLUGINS, rebalance_often


@click.command()
@click.option("--nodes", type=click.IntRange(10), default=1523, show_default=True)
@click.option("--rounds", type=click.IntRange(1), default=5, show_default=True)
@click.option("--moves", type=click.IntRange(1), default=62, show_default=True, help="Of a run, at most.")
@click.option("--hot", type=click.IntRange(1), default=6, show_default=True, help="Hot nodes of a round.")
@click.option("--scheduler", type=click.Choice([DEFAULT, *sorted(PLUGINS)]), default="target-load-packing")
@click.option("--seed", default=31, show_default=True)
@click.option("--folder", type=click.Path(path_type=Path), required=True, help="For logs and journals.")
def main(nodes: int, rounds: int, moves: int, hot: int, scheduler: str, seed: int, folder: Path) -> None:
    """Run so often; exits with 1 where a replacement landed otherwise than predicted."""
    urllib3.disable_warnings()  # this is loopback, and each program signs itself
    every = nodes // (hot * rounds)
    situation = Situation(seed, nodes, scheduler, ("0s", "1s"), moves, every, (0.005, 0.01), True)
    missed = 0
    for number, found in enumerate(rebalance_often(situation, folder, rounds)):
        misses = [item for item in found.seen if not item.as_predicted]
        missed += len(misses)
        size = sum(len(item.predicted) for item in found.seen) / max(len(found.seen), 1)
        likeliest = [max(item.predicted, key=item.predicted.__getitem__, default="") for item in found.seen]
        pairs = list(zip(found.seen, likeliest, strict=True))
        met = sum(item.node == node for item, node in pairs)
        expected = sum(item.predicted.get(node, 0.0) for item, node in pairs)
        click.echo(
            f"run {number + 1}: {len(found.seen) - len(misses)} of {len(found.seen)} landed as predicted, "
            f"{size:.2f} nodes predicted on average, {len(found.skipped)} moves skipped; likeliest node met "
            f"{met} times, {expected:.1f} expected"
        )
        for item in misses:
            click.echo(f"  {item.pod}, wave {item.wave}: {item.predicted}, on {item.node}; {item.known}")
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
