"""The demo's hot cluster and runs on it, as a user starts them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from msgspec.structs import replace

from rebalancer.cli.program import main
from rebalancer.cluster.live import RawApi
from rebalancer.deadlines import Deadline, StopRequest
from rebalancer_demo import Sandbox
from rebalancer_demo.hot_cluster import POLICY
from tests.integration.hot_cluster import evicted, hot_sandbox, uids

LANDED = {"Landed", "LandedElsewhere"}


class Waits:
    """How runs in this process wait: not for so many seconds, but until the cluster has settled."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self._seconds = 0.0
        self._later: list[tuple[float, Callable[[], object]]] = []

    def after(self, seconds: float, call: Callable[[], object]) -> None:
        """Let something happen once runs have waited for so long."""
        self._later.append((self._seconds + seconds, call))

    def are_those_of_runs(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Let the clock of a run's API move by what the run waits, and by nothing else."""
        until = RawApi.until

        def with_the_clock(api: RawApi, deadline: Deadline) -> RawApi:
            found = until(api, deadline)
            retries = replace(found.retries, clock=lambda: self._seconds)
            return replace(found, retries=retries)

        def wait(stop: StopRequest, seconds: float, grace_seconds: float = 0.0) -> bool:
            self._sandbox.settle()
            self._seconds += seconds
            for due, call in [item for item in self._later if item[0] <= self._seconds]:
                self._later.remove((due, call))
                call()
                self._sandbox.settle()
            return stop.is_over(grace_seconds)

        monkeypatch.setattr(RawApi, "until", with_the_clock)
        monkeypatch.setattr(StopRequest, "wait", wait)


@dataclass
class HotCluster:
    """The demo's cluster, its kubeconfig and policy."""

    sandbox: Sandbox
    folder: Path
    waits: Waits
    policy: str = POLICY
    before: frozenset[str] = frozenset()  # the uids of the pods there were

    def start(self, command: str, *options: str) -> Result:
        """Start a command against it."""
        policy = self.folder / "policy.yaml"
        policy.write_text(self.policy)
        kubeconfig = self.sandbox.write_kubeconfig(self.folder / "kubeconfig")
        arguments = [command, "--policy", str(policy), "--kubeconfig", str(kubeconfig), *options]
        return CliRunner().invoke(main, arguments)

    def run(self, *options: str) -> tuple[Result, dict[str, Any]]:
        """Start a run; its exit and its outcomes."""
        journal = self.folder / "journal.jsonl"
        result = self.start("run", "--yes", "--journal", str(journal), "-o", "json", *options)
        return result, json.loads(result.stdout) if result.stdout else {}

    def evicted(self) -> int:
        """How many of the pods there were are gone or going."""
        return len(evicted(self.sandbox, self.before))


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HotCluster]:
    with hot_sandbox(ready_after=0.0) as sandbox:
        waits = Waits(sandbox)
        waits.are_those_of_runs(monkeypatch)
        yield HotCluster(sandbox, tmp_path, waits, POLICY, uids(sandbox))


def results(outcomes: dict[str, Any]) -> list[str]:
    return [item["result"] for item in outcomes["outcomes"]]
