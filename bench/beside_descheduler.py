"""A plan beside a dry run of the real descheduler, alternating, on an API server that is filled for both.

    make bench ARGS=--beside-descheduler
    make bench ARGS="--beside-descheduler --sizes 5000/150000"
    make bench ARGS="--beside-descheduler --runs"

The server is the one of the end-to-end tests, without controllers and without a scheduler, so that nothing
changes while both are measured. Both read all of it, both judge load by requests, and both may evict as many
pods. The descheduler is built once from the module proxy, of the version with which its candidates are
compared. Each figure is that of the whole process; medians count, since the two share the machine with
whatever else runs there, and its load stands beside them.

It says first what each would evict. A dry run of v0.36.0 decides by a copy of the cluster that it fills in
the background and does not wait for: where it has seen no pod on any node by then, it evicts none.

With ``--runs`` each makes a real run of its own server, filled alike, which now has controllers, a scheduler
and simulated kubelets. Beside what a run takes stand the pods that it evicted, and the nodes that are hot by
the policy once all pods are ready again.
"""

from __future__ import annotations

import json
import os
import re
import statistics
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import click
import urllib3

from bench.cluster import generate
from bench.loading import Etcd, Loader, Server
from bench.measuring import REBALANCER, ROOT, Measurement, Size, machine, of_command
from tests import go_programs
from tests.conformance.descheduler.build import MODULE
from tests.e2e import assets
from tests.e2e.controlplane import ControlPlane
from tests.ports import free_port

SIZES = "1000/20000"
OURS, THEIRS = "rebalancer plan", "descheduler --dry-run"
# They would make pods of their own kind instead: of another template hash, and on nodes that had none.
_WITHOUT = "deployment-controller", "daemonset-controller"
_TOTAL_EVICTED = re.compile(r"totalEvicted=(\d+)")
_SETTLED = 600.0  # seconds until all pods are ready, on a busy machine
_PACKAGE = "sigs.k8s.io/descheduler"
_POLICY = ROOT / "bench" / "policy-requests.yaml"
# The levels and the limit of bench/policy-requests.yaml.
_THEIR_POLICY = """apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
maxNoOfPodsToEvictTotal: 40
profiles:
- name: bench
  pluginConfig:
  - name: LowNodeUtilization
    args: {thresholds: {cpu: 70, memory: 70}, targetThresholds: {cpu: 75, memory: 75}}
  plugins: {balance: {enabled: [LowNodeUtilization]}}
"""


def descheduler() -> Path:
    """The real program, built if it is not there. Raises BuildError."""
    built = go_programs.cache_folder("descheduler", MODULE, [MODULE / "go.mod"], _PACKAGE) / "descheduler"
    if not built.exists():
        go, environment = go_programs.find_go(), {**os.environ, "GOTOOLCHAIN": "local"}
        download = [go, "mod", "download", "-json", _PACKAGE]
        found = subprocess.run(download, cwd=MODULE, env=environment, capture_output=True, check=True)
        built.parent.mkdir(parents=True, exist_ok=True)
        # From its own folder: its go.mod replaces a module, which `go install` of a version refuses.
        command = [go, "build", "-trimpath", "-ldflags=-s -w", "-p=1", "-o", str(built), "./cmd/descheduler"]
        go_programs.run_go(
            command, Path(json.loads(found.stdout)["Dir"]), environment, announced_by="descheduler"
        )
    return built


class Commands(NamedTuple):
    """Programs and their options."""

    ours: Callable[[str], tuple[str, ...]]  # by command
    theirs: tuple[str, ...]  # a run; with --dry-run nothing is evicted


def alternating(
    size: Size, ours: Callable[[], Measurement], theirs: Callable[[], Measurement], repeat: int
) -> list[str]:
    """The rows of a table: medians of both, and how ours compare."""
    both = [(ours(), theirs()) for _ in range(repeat)]
    medians = [
        (
            statistics.median(item.cpu_seconds for item in found),
            statistics.median(item.wall_seconds for item in found),
            statistics.median(item.peak_bytes for item in found) / 1e6,
        )
        for found in zip(*both, strict=True)
    ]
    rows = [
        _row(f"{size.pods:,} / {size.nodes:,}", name, f"{cpu:.1f}", f"{wall:.1f}", f"{peak:.0f}")
        for name, (cpu, wall, peak) in zip((OURS, THEIRS), medians, strict=True)
    ]
    ratios = (f"{a / b:.2f}" for a, b in zip(*medians, strict=True))
    return [*rows, _row("", "ratio", *ratios)]


def _row(*cells: str) -> str:
    return "".join(f"| {cell} ".replace("  ", " ") for cell in cells) + "|"


@contextmanager
def filled(size: Size, *, stateless: bool = False) -> Iterator[tuple[ControlPlane, Commands]]:
    """A server with a generated cluster, and what our plans and the descheduler's runs begin with."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        policy = folder / "descheduler.yaml"
        policy.write_text(_THEIR_POLICY)
        plane = ControlPlane(folder, patient=True)
        with plane.start(controllers=False, scheduler=False, kwok=False):
            kubeconfig = plane.kubeconfig()
            click.echo(f"filling a server with {size.pods} pods ...", err=True)
            Loader(Server(kubeconfig), etcd=Etcd(plane.etcd)).load(
                generate(size.nodes, size.pods, stateless=stateless)
            )
            ours = "--policy", str(_POLICY), "--kubeconfig", str(kubeconfig), "-o", "json"
            theirs = (
                *(str(descheduler()), "--policy-config-file", str(policy), "--kubeconfig", str(kubeconfig)),
                *("--secure-port", str(free_port()), "--cert-dir", str(folder / "certificates")),
            )
            yield plane, Commands(lambda command: (*REBALANCER, command, *ours), theirs)


def plans(size: Size, repeat: int) -> list[str]:
    """The rows of plans and dry runs, alternating."""
    with filled(size) as (_, commands):
        ours, theirs = commands.ours("plan"), (*commands.theirs, "--dry-run")
        # These runs are not timed: Python compiles what is new.
        moves = len(_plan(commands)["moves"])
        click.echo(f"{OURS}: {moves} moves; {THEIRS}: {_evictions(theirs)} evictions", err=True)
        return alternating(
            size, lambda: of_command(OURS, size, ours), lambda: of_command(THEIRS, size, theirs), repeat
        )


def runs(size: Size) -> list[str]:
    """The rows of a run each, on a server each."""
    found = []
    for is_ours in (True, False):
        with filled(size, stateless=True) as (plane, commands):
            plane.start_controllers(without=_WITHOUT)
            plane.start_kwok()
            plane.start_scheduler()
            plane.wait_for_pods(seconds=_SETTLED)
            before, hot = _uids(plane), _hot(commands)
            # What hot nodes are counted with does not know what the run did.
            state = "--state", str(plane.folder / "state.json")
            run = (*commands.ours("run"), "--yes", "--lease", "default/rebalancer", *state)
            name, command = ("rebalancer run", run) if is_ours else ("descheduler", commands.theirs)
            done = of_command(name, size, command)
            plane.wait_for_pods(seconds=_SETTLED)
            counts = len(before - _uids(plane)), hot, _hot(commands)
            figures = f"{done.cpu_seconds:.1f}", f"{done.wall_seconds:.1f}", f"{done.peak_bytes / 1e6:.0f}"
            found.append(_row(f"{size.pods:,} / {size.nodes:,}", name, *figures, *map(str, counts)))
    return found


def _uids(plane: ControlPlane) -> set[str]:
    return {pod["metadata"]["uid"] for pod in plane.api.list("/api/v1/pods")}


def _hot(commands: Commands) -> int:
    """How many nodes are hot by our policy."""
    return int(_plan(commands)["hotCount"])


def _plan(commands: Commands) -> dict[str, Any]:
    """Our plan for the server."""
    done = subprocess.run(commands.ours("plan"), capture_output=True, text=True, check=True, cwd=ROOT)
    plan: dict[str, Any] = json.loads(done.stdout)
    return plan


def _evictions(theirs: Sequence[str]) -> int:
    """How many pods a run of the descheduler says that it evicts."""
    logged = subprocess.run((*theirs, "--v", "1"), capture_output=True, text=True, check=True)
    return evictions_in(logged.stderr)


def evictions_in(log: str) -> int:
    """The total that the descheduler's log ends with. Raises ValueError where there is none."""
    totals = _TOTAL_EVICTED.findall(log)
    if not totals:
        raise ValueError("the descheduler's log gives no totalEvicted")
    return int(totals[-1])


def measure(sizes: list[Size], repeat: int, *, real_runs: bool) -> None:
    """Print what both take on each cluster."""
    descheduler()
    urllib3.disable_warnings()  # of the server on loopback, before it has written its certificate
    os.environ["PYTHONDONTWRITEBYTECODE"] = ""  # an installed program is not compiled at every start
    if assets.missing():
        assets.build()
    taken = "one run each" if real_runs else f"the median of {repeat}, alternating"
    click.echo(f"{machine()}; {taken}; load {os.getloadavg()[0]:.0f}")
    counts = ("evicted", "hot before", "hot after") if real_runs else ()
    columns = "pods / nodes", "", "processor s", "wall s", "peak MB", *counts
    click.echo(f"{_row(*columns)}\n|{'---|' * len(columns)}")
    for size in sizes:
        click.echo("\n".join(runs(size) if real_runs else plans(size, repeat)))
    click.echo(f"load at the end {os.getloadavg()[0]:.0f}")
