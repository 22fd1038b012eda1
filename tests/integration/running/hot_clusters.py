"""The demo's hot cluster and runs on it, as a user starts them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from rebalancer.cli.program import main
from rebalancer_demo import Sandbox
from rebalancer_demo.hot_cluster import POLICY
from tests.integration.hot_cluster import evicted, hot_sandbox, uids

LANDED = {"Landed", "LandedElsewhere"}


@dataclass
class HotCluster:
    """The demo's cluster, its kubeconfig and policy."""

    sandbox: Sandbox
    folder: Path
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
        result = self.start("run", "--journal", str(journal), "-o", "json", *options)
        return result, json.loads(result.stdout) if result.stdout else {}

    def evicted(self) -> int:
        """How many of the pods there were are gone or going."""
        return len(evicted(self.sandbox, self.before))


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[HotCluster]:
    sandbox = hot_sandbox()
    policy = POLICY.replace("waveTimeout: 20s", "waveTimeout: 3s")
    with sandbox:
        yield HotCluster(sandbox, tmp_path, policy, uids(sandbox))


def results(outcomes: dict[str, Any]) -> list[str]:
    return [item["result"] for item in outcomes["outcomes"]]
