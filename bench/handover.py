"""How soon a standby that takes over has a plan: python -m bench.handover --from DUMP

    python -m bench.cluster --nodes 1000 --pods 20000 --out /tmp/cluster
    python -m bench.handover --from /tmp/cluster [--repeat 3]

The cluster is served by another process. A leader is asked to stop, and the clock runs from when the standby
has the lease to when it has its first plan. The policy pauses runs, so that nothing changes in between.
"""

from __future__ import annotations

import json
import signal
import statistics
import sys
import tempfile
import time
from datetime import datetime
from pathlib import Path

import click

from bench.live import FOLDER, ROOT, serving
from tests.integration.serving.replicas import Replica

POLICY = (
    (ROOT / "bench" / "policy-live.yaml").read_text().replace("forRuns: 1", "forRuns: 1\n  runInterval: 1s")
)
TOOK, PLANNED = "leads: took", "hot nodes of"


def replica(kubeconfig: Path, policy: Path) -> Replica:
    """A new replica that acts."""
    options = ["--act", f"--policy={policy}", f"--kubeconfig={kubeconfig}", "--listen=127.0.0.1:0"]
    options += ["--state-config-map=rebalancer/state"]
    return Replica([sys.executable, "-m", "rebalancer", "--log-format=json", "serve", *options])


def said_at(process: Replica, text: str) -> float:
    """When it first logged this, Unix seconds."""
    process.waits_for(text)
    line = next(line for line in process.log if text in line)
    return datetime.fromisoformat(json.loads(line)["time"]).timestamp()


def processor_seconds(process: Replica) -> float:
    """User and system time of a process so far."""
    fields = Path(f"/proc/{process.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100.0


def resident_mib(process: Replica) -> float:
    """The memory of a process."""
    pages = int(Path(f"/proc/{process.process.pid}/statm").read_text().split()[1])
    return pages * 4 / 1024


def hand_over(kubeconfig: Path, policy: Path) -> tuple[float, float, float]:
    """Seconds and processor seconds from the lease to the plan, and the standby's memory before."""
    leader = replica(kubeconfig, policy)
    leader.waits_for(PLANNED)
    standby = replica(kubeconfig, policy)
    standby.waits_for("stands by: ")
    while not standby.is_ready():
        time.sleep(0.1)
    memory, before = resident_mib(standby), processor_seconds(standby)
    leader.ends_after(signal.SIGTERM)
    took, planned = said_at(standby, TOOK), said_at(standby, PLANNED)
    used = processor_seconds(standby) - before
    standby.ends_after(signal.SIGTERM)
    return planned - took, used, memory


@click.command()
@click.option("--from", "dump", type=FOLDER, required=True, help="The cluster, as a dump.")
@click.option("--repeat", type=click.IntRange(1, 100), default=3, show_default=True)
def main(dump: Path, repeat: int) -> None:
    """Measure a handover in order."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        policy = folder / "policy.yaml"
        policy.write_text(POLICY + "safety: {pause: true}\n")
        with serving(dump, folder) as kubeconfig:
            found = [hand_over(kubeconfig, policy) for _ in range(repeat)]
    seconds, used, memory = (sorted(column) for column in zip(*found, strict=True))
    print(
        f"from the lease to the plan: {seconds[0]:.2f} to {seconds[-1]:.2f} s, "
        f"median {statistics.median(seconds):.2f} s; processor {used[0]:.2f} to {used[-1]:.2f} s; "
        f"a standby's memory {memory[-1]:.0f} MiB"
    )


if __name__ == "__main__":
    main()
