"""Real runs on a real control plane whose figures follow the pods: what they leave, and what they cost.

    REBALANCER_E2E_MINOR=1.36 python -m bench.control_plane_runs loaded --seeds 2,101-106 [--steer softTaint]
    REBALANCER_E2E_MINOR=1.36 python -m bench.control_plane_runs recorded --from DUMP [--evictions 68]

``loaded`` are clusters of ``bench.loaded_clusters``, ``recorded`` is a dump with metrics and the
configuration of its scheduler (``bench.recorded_cluster``) under ``bench/policy-live.yaml``. Each run is the
command of a user, on a control plane of its own, and a second one follows it. Processor seconds are those of
the first one.

    hot          nodes that are hot before the run, and after it; of these, that were not
    evictions    of the first run
    elsewhere    replacements on nodes that the plan does not name
    likeliest    replacements on the node that the plan holds most likely
    again        pods that the second run moves although the first one has
"""

from __future__ import annotations

import json
import os
import resource
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
import urllib3
import yaml

from bench.measuring import ROOT, machine
from bench.recorded_cluster import (
    RENEWAL_SECONDS,
    RecordedUse,
    WatchedLoads,
    scheduler_configuration,
    start_recorded,
)
from tests.e2e import assets, metrics
from tests.e2e.command import Finished, Rebalancer
from tests.e2e.controlplane import ControlPlane
from tests.e2e.landing_runs import show_scheduler
from tests.e2e.loaded_cluster import hot_nodes, policy, start_loaded
from tests.e2e.loads import LoadServer, Served, known_at

POLICY = ROOT / "bench" / "policy-live.yaml"
_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)
_HEADING = (
    "cluster                   hot  after   new  evictions  elsewhere  likeliest  again   cpu s  wall s"
)
_LIMIT_SECONDS = 3600.0


@dataclass(frozen=True)
class Run:
    """What a run made of a cluster, and what it took."""

    before: set[str]  # hot nodes
    after: set[str]
    finished: Finished
    again: int
    processor_seconds: float
    wall_seconds: float
    served: tuple[Served, ...] = ()  # what a load-watcher answered the scheduler and the run

    @property
    def evictions(self) -> list[dict[str, Any]]:
        """The outcomes of pods that were evicted."""
        return [item for item in self.finished.document["outcomes"] if item.get("evictedAt") is not None]

    def row(self, name: str) -> str:
        """A line of the table."""
        evictions = self.evictions
        elsewhere = 0
        likeliest = 0
        for outcome in evictions:
            landings = outcome["move"]["landings"]
            elsewhere += outcome["node"] not in [landing["node"] for landing in landings]
            likeliest += outcome["node"] == landings[0]["node"]
        return (
            f"{name:24} {len(self.before):4} {len(self.after):6} {len(self.after - self.before):5} "
            f"{len(evictions):10} {elsewhere:10} {likeliest:10} {self.again:6} "
            f"{self.processor_seconds:7.1f} {self.wall_seconds:7.1f}"
        )


def measured_run(rebalancer: Rebalancer, state: Path, hot: Callable[[], set[str]]) -> Run:
    """Run twice, and measure the first one."""
    options = ("--lease=default/rebalancer", f"--state={state}")
    before = hot()
    spent = _of_children()
    began = time.monotonic()
    finished = rebalancer.run(*options, seconds=_LIMIT_SECONDS)
    wall_seconds = time.monotonic() - began
    spent = _of_children() - spent
    if not finished.stdout:
        raise SystemExit(finished.stderr)
    after = hot()
    second = rebalancer.run(*options, seconds=_LIMIT_SECONDS)
    if not second.stdout:
        raise SystemExit(second.stderr)
    replacements = {item.get("replacementUid") for item in finished.document["outcomes"]}
    moved_again = [item for item in second.document["outcomes"] if item["move"]["pod"]["uid"] in replacements]
    return Run(before, after, finished, len(moved_again), spent, wall_seconds)


def _of_children() -> float:
    """The processor time of all programs that have ended, in seconds; a control plane has not."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def loaded_run(seed: int, steer: str, folder: Path) -> Run:
    """A run on a cluster of ``bench.loaded_clusters``."""
    with ControlPlane(folder) as control_plane:
        start_loaded(control_plane, seed)
        api = control_plane.api
        with metrics.exact_metrics(control_plane):
            rebalancer = Rebalancer(folder / "run", control_plane.kubeconfig(), json.dumps(policy(steer)))
            return measured_run(rebalancer, folder / "state.json", lambda: hot_nodes(api))


def recorded_run(dump: Path, evictions: int, folder: Path) -> Run:
    """A run on a recorded cluster."""
    document = yaml.safe_load(POLICY.read_text())
    (rule,) = document["hotNodes"]["any"]
    levels = rule["utilization"]
    with ControlPlane(folder, patient=True) as control_plane:
        start_recorded(control_plane, dump)
        use = RecordedUse(control_plane.api, dump)
        loads = WatchedLoads(use, dump)
        with LoadServer(loads, lambda: loads.measured_at) as server:
            configuration = folder / "scheduler.json"
            configuration.write_text(scheduler_configuration(dump, server.address))
            control_plane.start_scheduler(configuration.read_text())
            show_scheduler(control_plane.api, min(use.of_nodes()))
            control_plane.wait_for_pods(seconds=_LIMIT_SECONDS)
            document["scheduler"] = {"version": assets.MINOR, "file": str(configuration)}
            document["limits"]["perRun"] = evictions
            with metrics.served_metrics(control_plane, use.figures):
                # To a scheduler that has just started all pods are new, and it counts what they request
                # until figures that are renewed a while later show them.
                time.sleep(metrics.MEASURED_AFTER_SECONDS + RENEWAL_SECONDS)
                rebalancer = Rebalancer(folder / "run", control_plane.kubeconfig(), json.dumps(document))
                run = measured_run(
                    rebalancer, folder / "state.json", lambda: use.hot(levels["cpu"], levels["memory"])
                )
                return replace(run, served=tuple(server.served))


def _told(name: str, run: Run) -> None:
    click.echo(run.row(name))
    document = run.finished.document
    if run.finished.exit_code:
        click.echo(f"    exit code {run.finished.exit_code}: {run.finished.stderr.strip()[-2000:]}")
    for outcome in document["outcomes"]:
        landings = [landing["node"] for landing in outcome["move"]["landings"]]
        evicted = outcome.get("evictedAt") is not None
        if not evicted or outcome["node"] not in landings:
            pod = outcome["move"]["pod"]
            click.echo(
                f"    {pod['namespace']}/{pod['name']}: {outcome['result']} on {outcome.get('node')}, "
                f"planned {landings}: {outcome['because']}"
            )
        if evicted and outcome["node"] not in landings and run.served:
            # A pod's time of binding is cut to whole seconds.
            bound_at = (outcome.get("boundAt") or time.time()) + 1
            click.echo(f"    {known_at(run.served, bound_at, [*landings, outcome['node']])}")


@click.group(help=__doc__)
def main() -> None:
    """Measure runs."""
    urllib3.disable_warnings()  # this is loopback, and each program signs itself
    os.environ["PYTHONDONTWRITEBYTECODE"] = ""  # an installed program is not compiled at every start
    click.echo(f"{machine()}; Kubernetes {assets.kubernetes_version()}; load {os.getloadavg()[0]:.0f}")
    click.echo(_HEADING)


@main.command()
@click.option("--seeds", default="2,101-106", show_default=True, help="FIRST-LAST, several with commas.")
@click.option("--steer", type=click.Choice(("none", "softTaint")), default="none", show_default=True)
@click.option("--keep", type=click.Path(path_type=Path), help="A folder for logs and journals.")
def loaded(seeds: str, steer: str, keep: Path | None) -> None:
    """60 nodes at 68 %, 15 of them hot."""
    for part in seeds.split(","):
        first, _, last = part.partition("-")
        for seed in range(int(first), int(last or first) + 1):
            with _folder(keep, f"loaded-{seed}-{steer}") as folder:
                _told(f"seed {seed}, steer {steer}", loaded_run(seed, steer, folder))


@main.command()
@click.option("--from", "dump", type=_FOLDER, required=True, help="The recorded cluster.")
@click.option("--evictions", type=click.IntRange(1), default=68, show_default=True, help="Of a run, at most.")
@click.option("--keep", type=click.Path(path_type=Path), help="A folder for logs and journals.")
def recorded(dump: Path, evictions: int, keep: Path | None) -> None:
    """A recorded cluster with its scheduler's configuration."""
    with _folder(keep, dump.name) as folder:
        _told(dump.name, recorded_run(dump, evictions, folder))


@contextmanager
def _folder(keep: Path | None, name: str) -> Iterator[Path]:
    """A folder, which stays where one is named."""
    if keep is not None:
        folder = keep / f"{name}-{time.strftime('%H%M%S')}"
        folder.mkdir(parents=True)
        yield folder
        return
    with tempfile.TemporaryDirectory() as temporary:
        yield Path(temporary)


if __name__ == "__main__":
    main()
