"""The memory of a service over many runs: ``python -m bench.serving 10000 --seconds 600``.

Runs follow one another without a pause, which the service itself does not allow.
"""

from __future__ import annotations

import re
import sys
import tempfile
import time
from pathlib import Path

import click

from rebalancer.cli.program import main as rebalancer
from rebalancer.service import service
from tests.integration.serving.replicas import EVERY_SECOND, Cluster, Replica, a_hot_cluster

AT_ONCE = EVERY_SECOND.replace("runInterval: 1s", "runInterval: 0s")
_SHOWN = 20
_REPLICA = "--replica"


def start(cluster: Cluster) -> Replica:
    """A replica that acts and does not wait between runs."""
    options = ["--act", f"--policy={cluster.policy}", f"--kubeconfig={cluster.kubeconfig}"]
    options += ["--listen=127.0.0.1:0", "--state-config-map=rebalancer/state"]
    replica = Replica([sys.executable, "-m", "bench.serving", _REPLICA, *options])
    cluster.replicas.append(replica)
    return replica


def runs_of(replica: Replica) -> int:
    """How many runs it has made."""
    text = replica.get("/metrics")[1]
    made = re.findall(r"^rebalancer_runs_total\{.*\} (\S+)$", text, re.MULTILINE)
    return int(sum(map(float, made)))


def about(process: int) -> str:
    """The memory, the threads, the open files and the processor time of a process."""
    folder = Path(f"/proc/{process}")
    found = re.search(r"VmRSS:\s+(\d+) kB.*Threads:\s+(\d+)", (folder / "status").read_text(), re.DOTALL)
    assert found is not None
    fields = (folder / "stat").read_text().rpartition(")")[2].split()
    seconds = (int(fields[11]) + int(fields[12])) / 100
    files = len(list((folder / "fd").iterdir()))
    memory = f"{int(found[1]) / 1024:8.1f} MiB {found[2]:>4} threads {files:4} files"
    return f"{memory} {seconds:8.1f} s of processor time"


@click.command()
@click.argument("runs", type=click.IntRange(1))
@click.option("--seconds", type=click.FloatRange(0.0), default=float("inf"), help="It ends after these.")
def main(runs: int, seconds: float) -> None:
    """Print memory, threads, files and processor time of a replica each time a twentieth of RUNS is made."""
    end = time.monotonic() + seconds
    with tempfile.TemporaryDirectory() as folder, a_hot_cluster(Path(folder)) as cluster:
        cluster.policy.write_text(AT_ONCE)
        replica = start(cluster)
        step = wanted = max(1, runs // _SHOWN)
        while wanted <= runs and time.monotonic() < end:
            made = runs_of(replica)
            if made >= wanted:
                print(f"{made:6d} runs {about(replica.process.pid)}", flush=True)
                wanted += step
            time.sleep(0.5)
        print(f"{runs_of(replica):6d} runs {about(replica.process.pid)}; asked for {runs}", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == [_REPLICA]:
        service.MIN_INTERVAL_SECONDS = 0.0
        rebalancer(["serve", *sys.argv[2:]])
    else:
        main()
