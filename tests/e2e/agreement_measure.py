"""Watches a real control plane's scheduler for long, and tells every miss and what the watching costs.

    nice -n 15 python -m tests.e2e.agreement_measure --pods 5000 --minutes 30 [--trimaran] --folder FOLDER

Pods of random features come and go and Deployments are scaled and rolled out, while figures of load drift as
load-watcher gives them. All that was found is kept in the folder, with the figures that the scheduler had.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import click
import msgspec
import urllib3

from rebalancer.agreement.decisions import Agreement, OfProfile
from rebalancer.reporting.words import figure
from tests.e2e import assets
from tests.e2e.agreement_scene import DEFAULT, RENEWAL_SECONDS, Running, Scene, agreement, churning
from tests.e2e.controlplane import ControlPlane
from tests.e2e.loads import known_at

LEAST_SHARE = 0.999
_WATCHED = ("kube-apiserver", "kube-scheduler")


def processor_seconds(process: int) -> float:
    """What a running process has used so far."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@click.command()
@click.option("--pods", type=click.IntRange(1), default=500, show_default=True, help="Created meanwhile.")
@click.option("--minutes", type=click.FloatRange(0.1), default=3.0, show_default=True)
@click.option("--decisions", type=click.IntRange(1), help="End after so many; by default after the minutes.")
@click.option("--nodes", type=click.IntRange(3), default=100, show_default=True)
@click.option("--trimaran", is_flag=True, help="Pods of all four load-aware plugins too.")
@click.option(
    "--renewal",
    default=RENEWAL_SECONDS,
    show_default=True,
    help="Seconds until load-watcher's figures change.",
)
@click.option("--seed", default=1, show_default=True)
@click.option("--folder", type=click.Path(path_type=Path), required=True, help="For logs and what is found.")
def main(
    pods: int,
    minutes: float,
    decisions: int | None,
    nodes: int,
    trimaran: bool,
    renewal: float,
    seed: int,
    folder: Path,
) -> None:
    """Compare every decision for so long; exits with 1 below 99.9 % of any profile."""
    urllib3.disable_warnings()  # this is loopback, and each program signs itself
    scene = Scene(seed, nodes, trimaran, pods=pods, seconds=60 * minutes, renewal=renewal)
    folder.mkdir(parents=True)
    with ControlPlane(folder) as control_plane, churning(control_plane, scene) as running:
        spent: dict[str, float] = {}

        def begun(_process: int) -> None:
            for name in _WATCHED:
                spent[name] = processor_seconds(control_plane.programs[name].process.pid)

        began, own = time.time(), os.times()
        limit = f"{60 * minutes:.0f}s"
        found = agreement(control_plane, running, scene, decisions or 10 * pods, limit, begun)
        took, children = time.time() - began, os.times()
        for name in _WATCHED:
            spent[name] = processor_seconds(control_plane.programs[name].process.pid) - spent[name]
        spent["rebalancer agreement"] = (
            children.children_user + children.children_system - own.children_user - own.children_system
        )
        (folder / "agreement.json").write_text(json.dumps(found))
        click.echo(
            f"Kubernetes {assets.kubernetes_version()}, {nodes} nodes, seed {seed}, {took / 60:.1f} minutes,"
        )
        click.echo(f"{running.churn.coming} pods created or asked of controllers")
        for name, seconds in spent.items():
            click.echo(f"{name:24}{seconds:9.1f} s of a processor")
        read = msgspec.convert(found, Agreement)
        _tell(read, running)
    if not read.decisions or any(_share(item) < LEAST_SHARE for item in read.profiles):
        sys.exit(1)


def _share(profile: OfProfile) -> float:
    return 1 - profile.missed / max(profile.decisions, 1)


def _tell(found: Agreement, running: Running) -> None:
    click.echo(
        f"{'profile':24}{'decisions':>10}{'missed':>8}{'reordered':>10}{'share':>9}{'nodes':>7}"
        f"{'surprise':>10}{'expected':>10}{'unpredictable':>14}"
    )
    for profile in found.profiles:
        click.echo(
            f"{profile.scheduler:24}{profile.decisions:10}{profile.missed:8}{profile.in_another_order:10}"
            f"{_share(profile):9.2%}{figure(profile.possible, 1):>7}"
            f"{figure(profile.surprise, 3):>10}{figure(profile.expected_surprise, 3):>10}"
            f"{profile.unpredictable:14}"
        )
    click.echo(f"gaps {found.gaps}, left out {found.left_out}, unpredictable {found.unpredictable}")
    for suspect in found.suspects:
        click.echo(f"suspect: {suspect.sentence}")
    for miss in found.misses:
        click.echo(f"miss {miss.pod} ({miss.scheduler}) on {miss.node}: {miss.because}")
        for node in miss.nodes:
            click.echo(f"    {node.node} {node.total} {dict(node.weighted)} {node.rejected}")
        if miss.scheduler != DEFAULT:
            nodes = [node.node for node in miss.nodes]
            click.echo(f"    {known_at(running.served, miss.at, nodes)}")


if __name__ == "__main__":
    main()
