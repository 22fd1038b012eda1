"""A plan beside a dry run of the real descheduler, alternating, on an API server that is filled for both.

    make bench ARGS=--beside-descheduler
    make bench ARGS="--beside-descheduler --sizes 5000/150000"

The server is the one of the end-to-end tests, without controllers and without a scheduler, so that nothing
changes while both are measured. Both read all of it, both judge load by requests, and both may evict as many
pods. The descheduler is built once from the module proxy, of the version with which its candidates are
compared. Each figure is that of the whole process; medians count, since the two share the machine with
whatever else runs there, and its load stands beside them.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import click
import urllib3

from bench.cluster import generate
from bench.loading import Etcd, Loader, Server
from bench.measuring import ROOT, Measurement, Size, machine, of_command
from tests import go_programs
from tests.conformance.descheduler.build import MODULE
from tests.e2e import assets
from tests.e2e.controlplane import ControlPlane
from tests.e2e.processes import free_port

SIZES = "1000/20000"
OURS, THEIRS = "rebalancer plan", "descheduler --dry-run"
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
    return [
        f"| {size.pods:,} / {size.nodes:,} | {name} | {cpu:.1f} | {wall:.1f} | {peak:.0f} |"
        for name, (cpu, wall, peak) in zip((OURS, THEIRS), medians, strict=True)
    ] + ["| | ratio | " + " | ".join(f"{a / b:.2f}" for a, b in zip(*medians, strict=True)) + " |"]


def measure(sizes: list[Size], repeat: int) -> None:
    """Fill a server with each cluster, and print what both take."""
    program = descheduler()
    urllib3.disable_warnings()  # of the server on loopback, before it has written its certificate
    os.environ["PYTHONDONTWRITEBYTECODE"] = ""  # an installed program is not compiled at every start
    if assets.missing():
        assets.build()
    click.echo(f"{machine()}; the median of {repeat}, alternating; load {os.getloadavg()[0]:.0f}")
    click.echo("| pods / nodes | | processor s | wall s | peak MB |\n|---|---|---|---|---|")
    for size in sizes:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            policy = folder / "descheduler.yaml"
            policy.write_text(_THEIR_POLICY)
            plane = ControlPlane(folder)
            with plane.start(controllers=False, scheduler=False, kwok=False):
                kubeconfig = plane.kubeconfig()
                click.echo(f"filling a server with {size.pods} pods ...", err=True)
                Loader(Server(kubeconfig), etcd=Etcd(plane.etcd)).load(generate(size.nodes, size.pods))
                ours = (
                    *(sys.executable, "-m", "rebalancer", "plan", "--policy", str(_POLICY)),
                    *("--kubeconfig", str(kubeconfig), "-o", "json"),
                )
                theirs = (
                    *(str(program), "--dry-run", "--policy-config-file", str(policy)),
                    *("--kubeconfig", str(kubeconfig), "--secure-port", str(free_port())),
                    *("--cert-dir", str(folder / "certificates")),
                )
                of_command(OURS, size, ours)  # not counted: Python compiles what is new
                rows = alternating(
                    size,
                    lambda: of_command(OURS, size, ours),  # noqa: B023 - called before the next size
                    lambda: of_command(THEIRS, size, theirs),  # noqa: B023 - the same
                    repeat,
                )
        click.echo("\n".join(rows))
    click.echo(f"load at the end {os.getloadavg()[0]:.0f}")
