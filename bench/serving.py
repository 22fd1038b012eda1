"""The memory of a service over many runs: ``python -m bench.serving RUNS`` against the demo's cluster."""

from __future__ import annotations

import re
import sys
import tempfile
import time
from pathlib import Path

from tests.integration.serving.replicas import Replica, a_hot_cluster

_SHOWN = 10


def runs_of(replica: Replica) -> int:
    """How many runs it has made."""
    text = replica.get("/metrics")[1]
    made = re.findall(r"^rebalancer_runs_total\{.*\} (\S+)$", text, re.MULTILINE)
    return int(sum(map(float, made)))


def resident_mib(process: int) -> float:
    """The memory of a process."""
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{process}/status").read_text())
    assert found is not None
    return int(found[1]) / 1024


def main(runs: int) -> None:
    """Print the memory each time a tenth of the runs is made."""
    with tempfile.TemporaryDirectory() as folder, a_hot_cluster(Path(folder)) as cluster:
        replica = cluster.start("--act")
        wanted = max(1, runs // _SHOWN)
        while wanted <= runs:
            made = runs_of(replica)
            if made >= wanted:
                print(f"{made:6d} runs {resident_mib(replica.process.pid):8.1f} MiB", flush=True)
                wanted += max(1, runs // _SHOWN)
            time.sleep(0.2)


if __name__ == "__main__":
    main(int(sys.argv[1]))
