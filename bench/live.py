"""A run against an embedded cluster, with and without watches: processor time, memory, requests and bytes.

    python -m bench.cluster --nodes 1000 --pods 20000 --out /tmp/cluster
    python -m bench.live --from /tmp/cluster --policy bench/policy-live.yaml [--repeat 3]

The cluster is served by another process, which counts the requests and the bytes it sends; its scheduler is a
simple one, so the policy goes on after landings that were not planned. Only the client's time is measured,
once its modules are imported.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import click

from rebalancer.cluster.live import watching
from rebalancer.cluster.live.watching import LiveCluster
from rebalancer.deadlines import StopRequest
from rebalancer.observe.plan_options import PlanOptions, RunOptions
from rebalancer.run.run import run
from rebalancer_demo import Sandbox
from rebalancer_demo.api import server

ROOT = Path(__file__).parents[1]
FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)
FILE = click.Path(dir_okay=False, path_type=Path)
_WORKLOADS = ("deployments", "replicasets", "statefulsets")
_CONTROLLERS_SECONDS = 300.0
_NEVER = 10**9  # objects: no kind has so many


class Counted:
    """What the server was asked, and what it sent."""

    def __init__(self) -> None:
        self.requests: Counter[str] = Counter()
        self.bytes = 0
        self._lock = threading.Lock()

    def request(self, method: str, path: str) -> None:
        kind = "watch" if "watch=" in path else "probe" if "limit=1&" in f"{path}&" else method
        with self._lock:
            self.requests["list" if kind == "GET" else kind] += 1

    def sent(self, count: int) -> None:
        with self._lock:
            self.bytes += count


class _CountingFile:
    """A connection's file that counts what is written."""

    def __init__(self, file: Any, counted: Counted) -> None:
        self._file = file
        self._counted = counted

    def write(self, data: bytes) -> int:
        self._counted.sent(len(data))
        return int(self._file.write(data))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def serve(dump: Path, kubeconfig: Path, counts: Path) -> None:
    """Serve a cluster until the process is asked to end; what was counted is written then."""
    counted = Counted()
    handler = server._Handler
    setup, serve_one = handler.setup, handler._serve

    def counting_setup(self: Any) -> None:
        setup(self)
        self.wfile = _CountingFile(self.wfile, counted)

    def counting_serve(self: Any) -> None:
        counted.request(self.command, self.path)
        serve_one(self)

    handler.setup = counting_setup  # type: ignore[method-assign]
    handler.do_GET = handler.do_POST = handler.do_PUT = handler.do_PATCH = counting_serve
    done = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: done.set())
    with Sandbox(ready_after=0.1, terminates_after=0.2) as sandbox:
        sandbox.load_path(dump)
        sandbox.store.create("namespaces", {"metadata": {"name": "rebalancer"}})
        sandbox.write_kubeconfig(kubeconfig)
        wait_for_controllers(sandbox)
        print("serving", flush=True)
        done.wait()
    counts.write_text(json.dumps({"requests": counted.requests, "bytes": counted.bytes}))


def wait_for_controllers(sandbox: Sandbox) -> None:
    """Wait until no workload looks as though it was changed just now: nothing of such a one is moved."""

    def behind(item: dict[str, Any]) -> bool:
        observed: int = (item.get("status") or {}).get("observedGeneration", 0)
        return observed < int(item["metadata"].get("generation", 0))

    until = time.monotonic() + _CONTROLLERS_SECONDS
    while any(behind(item) for plural in _WORKLOADS for item in sandbox.store.all(plural)):
        if time.monotonic() > until:
            raise SystemExit("the controllers of the embedded cluster do not keep up")
        time.sleep(0.5)


@contextlib.contextmanager
def without_watches() -> Iterator[None]:
    """While it lasts, clusters that are opened list everything each time."""
    listing = functools.partial(LiveCluster, watch_above=_NEVER)
    with mock.patch.object(watching, "LiveCluster", listing):
        yield


def act(kubeconfig: Path, policy: Path, *, watch: bool) -> None:
    """The run itself; prints what it took as JSON."""
    began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF)
    with contextlib.nullcontext() if watch else without_watches(), tempfile.TemporaryDirectory() as folder:
        options = PlanOptions(
            policy_path=policy, kubeconfig=kubeconfig, state_path=Path(folder) / "state.json"
        )
        plan, outcomes = run(options, RunOptions(journal=Path(folder) / "journal"), (), StopRequest())
    usage = resource.getrusage(resource.RUSAGE_SELF)
    results = Counter(outcome.result.value for outcome in outcomes.outcomes)
    about = {
        "wall": time.perf_counter() - began,
        "cpu": usage.ru_utime + usage.ru_stime - before.ru_utime - before.ru_stime,
        "peak": usage.ru_maxrss << 10,
        "moves": len(plan.moves),
        "waves": len({move.wave for move in plan.moves}),
        "results": dict(results),
        "stop": outcomes.stopped,
    }
    print(json.dumps(about))


@contextlib.contextmanager
def serving(dump: Path, folder: Path) -> Iterator[Path]:
    """The cluster, served by a process of its own; yields its kubeconfig."""
    kubeconfig, counts = folder / "kubeconfig", folder / "counts"
    command = [sys.executable, "-m", "bench.live", "--from", dump, "--serve", kubeconfig, "--counts", counts]
    process = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, text=True, cwd=ROOT)
    try:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == "serving"
        yield kubeconfig
    finally:
        process.terminate()
        process.wait()


def measure(dump: Path, policy: Path, *, watch: bool) -> dict[str, Any]:
    """One run on a cluster of its own."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with serving(dump, folder) as kubeconfig:
            command = [
                sys.executable, "-m", "bench.live", "--from", dump, "--policy", policy, "--act", kubeconfig,
                "--watch" if watch else "--no-watch",
            ]  # fmt: skip
            environment = {**os.environ, "XDG_STATE_HOME": name, "PYTHONDONTWRITEBYTECODE": ""}
            done = subprocess.run(
                list(map(str, command)),
                capture_output=True,
                text=True,
                cwd=ROOT,
                env=environment,
                check=False,
            )
            if done.returncode:
                raise SystemExit(done.stderr)
        return {**json.loads(done.stdout), **json.loads((folder / "counts").read_text())}


@click.command()
@click.option("--from", "dump", type=FOLDER, required=True, help="The cluster, as a dump.")
@click.option("--policy", type=FILE, default=ROOT / "bench" / "policy-live.yaml", show_default=True)
@click.option("--repeat", type=click.IntRange(1, 100), default=1, show_default=True, help="The least counts.")
@click.option("--serve", "served", type=FILE, hidden=True)
@click.option("--counts", type=FILE, hidden=True)
@click.option("--act", "kubeconfig", type=FILE, hidden=True)
@click.option("--watch/--no-watch", default=None, help="Only with, or only without, watches.")
def main(
    dump: Path,
    policy: Path,
    repeat: int,
    served: Path | None,
    counts: Path | None,
    kubeconfig: Path | None,
    watch: bool | None,
) -> None:
    """Measure a run with and without watches."""
    if served is not None and counts is not None:
        serve(dump, served, counts)
    elif kubeconfig is not None:
        act(kubeconfig, policy, watch=bool(watch))
    else:
        print(
            "            wall s    cpu s  peak MB    lists   probes  watches   writes       MB  moves waves"
        )
        for watched in (False, True) if watch is None else (watch,):
            found = [measure(dump, policy, watch=watched) for _ in range(repeat)]
            least = min(found, key=lambda item: item["cpu"])
            print(line("watched" if watched else "listed", least))
            print(f"           {least['results']} {least['stop']}")


def line(name: str, found: dict[str, Any]) -> str:
    asked = found["requests"]
    writes = sum(asked.get(method, 0) for method in ("POST", "PUT", "PATCH"))
    return (
        f"{name:9}{found['wall']:9.1f}{found['cpu']:9.1f}{found['peak'] / 1e6:9.0f}"
        f"{asked.get('list', 0):9}{asked.get('probe', 0):9}{asked.get('watch', 0):9}{writes:9}"
        f"{found['bytes'] / 1e6:9.1f}{found['moves']:7}{found['waves']:6}"
    )


if __name__ == "__main__":
    main()
