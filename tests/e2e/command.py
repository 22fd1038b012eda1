"""``rebalancer`` as a process of its own, as the CronJob starts it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from rebalancer.cli.program import main

COMMAND = (sys.executable, "-m", "rebalancer")


@dataclass(frozen=True)
class Finished:
    """How a command ended and what it left."""

    exit_code: int
    stdout: str
    stderr: str
    journal: list[dict[str, Any]]

    @property
    def document(self) -> dict[str, Any]:
        """What it printed with ``-o json``."""
        decoded: dict[str, Any] = json.loads(self.stdout)
        return decoded


def confirmed(arguments: Sequence[str]) -> list[str]:
    """A command line that a run needs outside its pod, where nobody can be asked."""
    return [*arguments, "--yes"] if "run" in arguments else [*arguments]


@dataclass(frozen=True)
class Rebalancer:
    """The command with the options that every call of a test shares; its files go to ``folder``."""

    folder: Path
    kubeconfig: Path
    policy: str
    environment: tuple[tuple[str, str], ...] = ()

    def arguments(self, command: str, *options: str) -> Sequence[str]:
        """The command line."""
        self.folder.mkdir(parents=True, exist_ok=True)
        policy = self.folder / "policy.yaml"
        policy.write_text(self.policy)
        given = [
            *COMMAND,
            command,
            f"--policy={policy}",
            f"--kubeconfig={self.kubeconfig}",
            "--output=json",
            *options,
        ]
        return confirmed(given)

    def start(self, command: str, *options: str) -> subprocess.Popen[str]:
        """Start it in the background."""
        return subprocess.Popen(
            self.arguments(command, *options),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.folder,
            # Without a file of its own a run would know those of other tests.
            env={**os.environ, "XDG_STATE_HOME": tempfile.mkdtemp(dir=self.folder), **dict(self.environment)},
        )

    def plan(self, *options: str, seconds: float = 300.0) -> Finished:
        """Plan, and wait for it."""
        return self._finish(self.start("plan", *options), seconds, None)

    def run(self, *options: str, seconds: float = 600.0) -> Finished:
        """Run with a journal, and wait for it."""
        journal = self.folder / "journal.jsonl"
        return self._finish(self.start("run", f"--journal={journal}", *options), seconds, journal)

    def run_here(self, *options: str) -> Finished:
        """Run with a journal within this process, which need not start and import everything again."""
        journal = self.folder / "journal.jsonl"
        _, _, _, *arguments = self.arguments("run", f"--journal={journal}", *options)
        environment = {"XDG_STATE_HOME": tempfile.mkdtemp(dir=self.folder), **dict(self.environment)}
        result = CliRunner(env=environment).invoke(main, arguments)
        lines = journal.read_text().splitlines() if journal.exists() else []
        return Finished(result.exit_code, result.stdout, result.stderr, [json.loads(line) for line in lines])

    @staticmethod
    def _finish(process: subprocess.Popen[str], seconds: float, journal: Path | None) -> Finished:
        try:
            stdout, stderr = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            stdout, stderr = process.communicate()
            raise AssertionError(f"rebalancer still ran after {seconds:g} s\n{stderr}") from None
        lines = journal.read_text().splitlines() if journal is not None and journal.exists() else []
        return Finished(process.returncode, stdout, stderr, [json.loads(line) for line in lines])
