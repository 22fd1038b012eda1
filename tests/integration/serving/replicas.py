"""Replicas of the service as processes, against one embedded cluster."""

from __future__ import annotations

import contextlib
import re
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from rebalancer_demo import Sandbox
from rebalancer_demo.hot_cluster import POLICY
from tests.integration.hot_cluster import evicted, hot_sandbox, results_in_state, uids
from tests.waiting import HANG_SECONDS, ended, eventually

# A wave waits for its replacements however slow the machine is: one that gave up would end the run.
EVERY_SECOND = POLICY.replace("forRuns: 1", "forRuns: 1\n  runInterval: 1s").replace(
    "waveTimeout: 20s", "waveTimeout: 10m"
)
_REPLICA = Path(__file__).with_name("replica.py")


class Replica:
    """One process; what it logs is kept."""

    def __init__(self, command: list[str]) -> None:
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        self.log: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.log.append(line.rstrip("\n"))

    def says(self, text: str, times: int = 1) -> bool:
        """Whether it has logged this, so often."""
        return sum(text in line for line in list(self.log)) >= times

    def waits_for(self, text: str, times: int = 1) -> None:
        """Wait until it has logged something."""

        def said() -> bool:
            assert self.says(text, times) or self.process.poll() is None, "\n".join(self.log)
            return self.says(text, times)

        eventually(said, awaited=f"{text!a} in the log of a replica")

    @property
    def url(self) -> str:
        self.waits_for("metrics and probes are at http")
        (line,) = [line for line in self.log if "metrics and probes are at" in line]
        found = re.search(r"http://[^\s\"]+", line)
        assert found is not None, line
        return found[0]

    def get(self, path: str) -> tuple[int, str]:
        """A probe's status and text."""
        try:
            with urllib.request.urlopen(self.url + path, timeout=HANG_SECONDS) as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def is_ready(self) -> bool:
        return self.get("/readyz")[0] == 200

    def ends_after(self, number: signal.Signals) -> int:
        """Send a signal, and wait for the end; returns the exit code."""
        self.process.send_signal(number)
        return self.ended()

    def ended(self) -> int:
        """Wait for the end, and for the last line; returns the exit code."""
        code = self.process.wait(timeout=HANG_SECONDS)
        ended(self._reader, awaited="the last line of the log")
        assert self.process.stderr is not None
        self.process.stderr.close()
        return code


class Cluster:
    """An embedded hot cluster, the service's policy file, and the replicas started against it."""

    def __init__(self, sandbox: Sandbox, folder: Path) -> None:
        self.sandbox = sandbox
        self.policy = folder / "policy.yaml"
        self.policy.write_text(EVERY_SECOND)
        self.kubeconfig = sandbox.write_kubeconfig(folder / "kubeconfig")
        self.replicas: list[Replica] = []
        self.before = uids(sandbox)

    def start(self, *options: str, lease_seconds: float | None = None) -> Replica:
        """A new replica, on any free port."""
        program = ["-m", "rebalancer", "serve"]
        if lease_seconds is not None:
            program = [str(_REPLICA), str(lease_seconds)]
        replica = Replica(
            [
                *(sys.executable, *program, f"--policy={self.policy}", f"--kubeconfig={self.kubeconfig}"),
                *("--listen=127.0.0.1:0", "--state-config-map=rebalancer/state", *options),
            ]
        )
        self.replicas.append(replica)
        return replica

    def end(self) -> None:
        for replica in self.replicas:
            if replica.process.poll() is None:
                replica.process.kill()
            replica.ended()

    @property
    def holder(self) -> str:
        lease = self.sandbox.store.get("leases", "rebalancer", "rebalancer")
        return str(lease["spec"]["holderIdentity"]) if lease else ""

    @property
    def known(self) -> dict[str, str]:
        """Result by uid of every eviction in the state."""
        return results_in_state(self.sandbox)

    @property
    def gone(self) -> frozenset[str]:
        """Pods there were that were evicted."""
        return evicted(self.sandbox, self.before)

    def hottest(self) -> float:
        return max(self.sandbox.node_utilisation().values())


@contextlib.contextmanager
def a_hot_cluster(folder: Path, *, seed: int = 3) -> Iterator[Cluster]:
    """The demo's cluster, whose scheduler is the model."""

    sandbox = hot_sandbox(seed=seed)
    with sandbox:
        cluster = Cluster(sandbox, folder)
        try:
            yield cluster
        finally:
            cluster.end()
