"""A command that is asked to stop at any moment ends in order, and nothing is lost.

The moments are drawn: at a request of the command, or some time after its start. ``REBALANCER_MOMENTS`` says
how many for each command and signal: four by ``make properties``, one by ``make test``.
tests/e2e/test_stops.py does the same with a real control plane.
"""

from __future__ import annotations

import itertools
import os
import random
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from rebalancer.errors import ExitCode
from rebalancer.execution.journal import in_flight, read_journal
from rebalancer_demo import Fault, Sandbox
from rebalancer_demo.hot_cluster import POLICY
from tests.conftest import SEED, SUMMARY, examples
from tests.integration.hot_cluster import evicted, hot_sandbox, results_in_state, uids
from tests.waiting import HANG_SECONDS

MOMENTS = int(os.environ.get("REBALANCER_MOMENTS", examples(4)))
STEERED = POLICY.replace("execution: {", "execution: {steer: softTaint, ").replace(
    "waveTimeout: 20s", "waveTimeout: 10m"
)
ASKING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
PLACES = ("request", "time", "eviction")
DRAWN_FROM = 53


@dataclass
class Course:
    """What a command does that nobody disturbs."""

    seconds: float = 0.0
    requests: int = 0
    evictions: int = 0


class Attempt:
    """A command, on a cluster of its own."""

    def __init__(self, folder: Path, command: str) -> None:
        folder.mkdir()
        self.course = Course()
        self.journal = folder / "journal.jsonl"
        self.sandbox: Sandbox = hot_sandbox(ready_after=0.05)
        self.before: frozenset[str] = frozenset()
        self.sent_at = 0.0
        self.ended_at = 0.0
        self.process: subprocess.Popen[str] | None = None
        self._folder = folder
        self._command = command
        self._number: signal.Signals | None = None
        self._at = 0
        self._place = ""
        self._lock = threading.Lock()

    def disturb(self, number: signal.Signals, place: str, at: int) -> None:
        """Send a signal when the command makes the request of this place and number."""
        self._number = number
        self._place = place
        self._at = at

    def end(self, seconds: float | None = None) -> tuple[str, str]:
        """Start the command, send the signal after so many seconds if any, and wait for its end."""
        pick = self.sandbox.faults.pick

        def picked(method: str, path: str) -> list[Fault]:
            self._meet(is_eviction=method == "POST" and path.partition("?")[0].endswith("/eviction"))
            return pick(method, path)

        self.sandbox.faults.pick = picked  # type: ignore[method-assign, assignment]
        policy = self._folder / "policy.yaml"
        policy.write_text(STEERED)
        kubeconfig = self.sandbox.write_kubeconfig(self._folder / "kubeconfig")
        options = [f"--policy={policy}", f"--kubeconfig={kubeconfig}", "--state-config-map=rebalancer/state"]
        if self._command == "run":
            options += [f"--journal={self.journal}", "--yes"]
        self.before = uids(self.sandbox)
        began = time.monotonic()
        with self._lock:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "rebalancer", self._command, "-o", "json", *options],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        if seconds is not None:
            time.sleep(seconds)  # the moment itself is what is drawn
            self._send()
        output, errors = self.process.communicate(timeout=HANG_SECONDS)
        self.ended_at = time.monotonic()
        self.course.seconds = self.ended_at - began
        return output, errors

    def _meet(self, *, is_eviction: bool) -> None:
        with self._lock:
            self.course.requests += 1
            self.course.evictions += is_eviction
            met = {"request": self.course.requests, "eviction": is_eviction and self.course.evictions}
            if met.get(self._place) == self._at:
                self._send()

    def _send(self) -> None:
        assert self.process is not None
        if self._number is not None and self.process.poll() is None:
            self.sent_at = time.monotonic()
            self.process.send_signal(self._number)

    @property
    def tainted(self) -> list[str]:
        """Nodes that have a taint; the cluster begins with none."""
        nodes: list[Any] = [record.object for record in self.sandbox.store.records("nodes")[0]]
        return [node["metadata"]["name"] for node in nodes if node["spec"].get("taints")]

    @property
    def holder(self) -> str:
        """Who holds the lease."""
        lease = self.sandbox.store.get("leases", "rebalancer", "rebalancer")
        return str(lease["spec"]["holderIdentity"] or "") if lease else ""


def a_course(folder: Path, command: str) -> Course:
    attempt = Attempt(folder, command)
    with attempt.sandbox:
        _, errors = attempt.end()
    assert attempt.process is not None
    assert attempt.process.returncode == ExitCode.DONE, errors
    return attempt.course


@pytest.mark.many_cases
@pytest.mark.parametrize("command", ["run", "plan"])
def test_a_command_that_is_asked_to_stop_at_any_moment_ends_in_order_and_loses_nothing(
    tmp_path: Path, command: str, record_property: Any
) -> None:
    record_property(SEED, DRAWN_FROM)
    draw = random.Random(f"{DRAWN_FROM} {command}")
    course = a_course(tmp_path / "whole", command)
    places = PLACES if course.evictions else PLACES[:2]
    took: list[tuple[float, str]] = []
    codes: list[int] = []
    moments = itertools.product(range(MOMENTS), ASKING)
    for (count, number), place in zip(moments, itertools.cycle(places), strict=False):
        attempt = Attempt(tmp_path / f"{count}-{number.name}", command)
        after = draw.uniform(0.1, course.seconds)
        at = draw.randint(1, course.evictions if place == "eviction" else course.requests)
        attempt.disturb(number, place, at)
        with attempt.sandbox:
            output, errors = attempt.end(after if place == "time" else None)
            assert "Traceback" not in errors
            check(attempt, number, output, errors)
        assert attempt.process is not None
        codes.append(attempt.process.returncode)
        if attempt.sent_at:
            what = f"{place} {at if place != 'time' else round(after, 2)} {number.name}"
            took.append((round(attempt.ended_at - attempt.sent_at, 2), what))
    assert codes.count(ExitCode.INTERRUPTED) >= len(codes) // 3
    slowest = sorted(took)[-3:]
    record_property(SUMMARY, f"{command}: {len(took)} signals, {codes.count(130)} times 130; {slowest}")


def check(attempt: Attempt, number: signal.Signals, output: str, errors: str) -> None:
    """It released what it held; cluster, state and journal agree."""
    assert attempt.process is not None
    code = attempt.process.returncode
    # Before the first line of the program the interpreter is ended.
    assert code in (ExitCode.DONE, ExitCode.INTERRUPTED, -number), (code, errors)
    assert attempt.holder == ""
    assert attempt.tainted == []
    gone = evicted(attempt.sandbox, attempt.before)
    lines = read_journal(attempt.journal) if attempt.journal.exists() else ()
    assert in_flight(lines) == ()
    assert gone <= {line["uid"] for line in lines if line["event"] == "evicting"}
    known = results_in_state(attempt.sandbox)
    assert gone <= set(known)
    assert not {uid for uid in known if uid not in gone} & attempt.before - {
        uid for uid, result in known.items() if result == "Refused"
    }
    if lines:
        said = next(line["exitCode"] for line in lines if line["event"] == "run-finished")
        assert code == said or (code, said) == (ExitCode.INTERRUPTED, ExitCode.DONE), errors
    if code == ExitCode.DONE:
        assert output
