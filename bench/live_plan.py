"""A live plan by its stages, beside curl and a plain watch that bring the same pods.

    python -m bench.cluster --nodes 1000 --pods 20000 --kubeconfig F
    python -m bench.live_plan --kubeconfig F [--repeat 5] [--change 0.01]

curl makes the requests that `rebalancer plan` makes, one after another over one connection; the watch asks
for all pods with ``sendInitialEvents`` and only counts bytes. `plan` is the whole program, from the start of
its process: until the first byte is sent, until everything is read, until the plan is printed. `next` is a
second plan in the same process, after so many of the pods have changed, as a run makes one before each wave.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import click

from bench.live_plan_stages import cpu_seconds
from bench.loading import Server
from bench.reading import curl_config, fetch, requests_of
from rebalancer.cluster.kinds import PODS
from rebalancer.cluster.live import RawApi, open_api

ROOT = Path(__file__).parents[1]
POLICY = ROOT / "bench" / "policy-requests.yaml"
FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_MERGE_PATCH = "application/merge-patch+json"
_END_OF_INITIAL_EVENTS = b"k8s.io/initial-events-end"


def watched_bytes(api: RawApi) -> int:
    """Read the initial events of a watch of all pods; how many bytes they are."""
    query = {
        "sendInitialEvents": True,
        "resourceVersionMatch": "NotOlderThan",
        "allowWatchBookmarks": True,
    }
    stream = api.watch(PODS, 60.0, query, {"Accept": "application/vnd.kubernetes.protobuf"})
    count, last = 0, b""
    try:
        for piece in stream.pieces():
            count += len(piece)
            last = (last + piece)[-4096:]
            if _END_OF_INITIAL_EVENTS in last:
                return count
    finally:
        stream.close()
    raise SystemExit("the server sends no initial events")


def next_plan(kubeconfig: Path, share: float) -> dict[str, float]:
    """A plan after this share of the pods changed, where the ones before were kept."""
    from rebalancer.cluster.live.watching import LiveCluster  # noqa: PLC0415
    from rebalancer.observe.plan_options import PlanOptions, policy_of  # noqa: PLC0415
    from rebalancer.observe.read import read_planners  # noqa: PLC0415

    options = PlanOptions(policy_path=POLICY, kubeconfig=kubeconfig)
    api, loaded = open_api(kubeconfig), policy_of(options)
    with LiveCluster(api) as cluster:
        (planner,) = read_planners(options, (loaded,), api, None, cluster=cluster)
        planner.plan()
        pods = cluster.current().listings[PODS.plural].pods
        assert pods is not None
        names = list(zip(pods.columns.texts("namespace"), pods.names, strict=True))
        changed = range(0, len(pods), max(1, round(1 / share)))
        server, mark = Server(kubeconfig), str(time.time_ns())

        def change(row: int) -> None:
            namespace, name = names[row]
            path = f"/api/v1/namespaces/{namespace}/pods/{name}/status"
            conditions = [{"type": "Ready", "status": "True", "reason": f"Bench{mark}"}]
            server.send("PATCH", path, {"status": {"conditions": conditions}}, _MERGE_PATCH)

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(change, changed))
        before, began = cpu_seconds(), time.perf_counter()
        recording = cluster.current()
        seen = time.perf_counter()
        kept: Any = Kept(recording)
        (planner,) = read_planners(options, (loaded,), api, None, cluster=kept)
        gathered = time.perf_counter()
        planner.plan()
        done, cpu = time.perf_counter(), cpu_seconds() - before
    return {
        "changed": len(changed),
        "current": seen - began,
        "gather": gathered - seen,
        "plan": done - gathered,
        "whole": done - began,
        "cpu": cpu,
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10,
    }


class Kept:
    """A cluster that has already been read, so that each stage of its plan can be timed."""

    def __init__(self, recording: Any) -> None:
        self._recording = recording

    def current(self, *_: object) -> Any:
        return self._recording


def in_a_process(module: str, *arguments: object) -> dict[str, float]:
    """What a process of its own measures."""
    command = [sys.executable, "-m", module, *map(str, arguments)]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def least(found: Sequence[dict[str, float]]) -> dict[str, float]:
    return {name: min(item[name] for item in found) for name in found[0]}


@click.command()
@click.option("--kubeconfig", type=FILE, required=True)
@click.option("--repeat", type=click.IntRange(1, 100), default=5, show_default=True, help="The least counts.")
@click.option("--change", "share", type=click.FloatRange(0.0001, 1.0), default=0.01, show_default=True)
@click.option("--next-only", is_flag=True, hidden=True)
def main(kubeconfig: Path, repeat: int, share: float, next_only: bool) -> None:
    """Measure a live plan by its stages."""
    if next_only:
        print(json.dumps(next_plan(kubeconfig, share)))
        return
    curls, watches, plans, nexts, size, watched = [], [], [], [], 0, 0
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "curl"
        config.touch(mode=0o600)
        for _ in range(repeat):
            api = open_api(kubeconfig)
            config.write_text(curl_config(requests_of(api), kubeconfig))
            cost, size = fetch(config)
            curls.append({"wall": cost.wall_seconds, "cpu": cost.cpu_seconds})
            before, start = cpu_seconds(), time.perf_counter()
            watched = watched_bytes(api)
            watches.append({"wall": time.perf_counter() - start, "cpu": cpu_seconds() - before})
            plans.append(in_a_process("bench.live_plan_stages", time.time(), kubeconfig, POLICY))
            later = ("--kubeconfig", kubeconfig, "--next-only", "--change", share)
            nexts.append(in_a_process("bench.live_plan", *later))
    curl, watch, plan, after = least(curls), least(watches), least(plans), least(nexts)
    print("                      wall s    cpu s   peak MB")
    row("curl", curl["wall"], curl["cpu"], about=f"{size / 1e6:.1f} MB, as the reader asks")
    row("watch", watch["wall"], watch["cpu"], about=f"{watched / 1e6:.1f} MB, the pods alone")
    row("plan: first byte", plan["first"], plan["firstCpu"])
    row("plan: all read", plan["read"], plan["readCpu"])
    row("plan: printed", plan["plan"], plan["planCpu"], plan["peak"])
    row("next: current", after["current"], None, about=f"{after['changed']:.0f} pods changed")
    row("next: gathered", after["gather"], None)
    row("next: planned", after["plan"], None)
    row("next: whole", after["whole"], after["cpu"], after["peak"])
    print(
        f"reading {(plan['read'] - plan['first']) / curl['wall']:.2f} x curl; load {os.getloadavg()[0]:.1f}"
    )


def row(name: str, wall: float, cpu: float | None, peak: float | None = None, about: str = "") -> None:
    shown = f"{cpu:9.3f}" if cpu is not None else " " * 9
    memory = f"{peak / 1e6:10.0f}" if peak is not None else " " * 10
    print(f"{name:18}{wall:10.3f}{shown}{memory}  {about}".rstrip())


if __name__ == "__main__":
    main()
