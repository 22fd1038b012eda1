"""A run as a process hears every signal at once, whatever it waits for, and ends in order.

The embedded API server is slow or busy in one place at a time; the signal comes while the run waits there.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from rebalancer.errors import ExitCode
from rebalancer_demo import Fault, Sandbox
from rebalancer_demo.hot_cluster import POLICY
from tests.conftest import some_of
from tests.integration.hot_cluster import evicted, hot_sandbox, results_in_state, uids
from tests.waiting import HANG_SECONDS, NEVER_SECONDS, eventually

PODS = "^/api/v1/pods"
SHOP_PODS = r"namespaces/shop/pods\?"
EVICTION = "/eviction$"
STATE = "/configmaps"
# `rebalancer`, which writes into a file that it has heard a signal. A second one leaves it a second, as
# tests/unit/test_deadlines.py shows; here it has as long as a busy machine needs.
HEARING = """
import os, sys
from rebalancer import deadlines
from rebalancer.__main__ import start

assert deadlines._HURRIED_SHARE
deadlines._HURRIED_SHARE = 0.25
file = os.open(sys.argv.pop(1), os.O_WRONLY | os.O_CREAT | os.O_APPEND)

def heard(method):
    def noted(stop):
        method(stop)
        os.write(file, b".")
    return noted

deadlines.StopRequest.hurry = heard(deadlines.StopRequest.hurry)
deadlines.StopRequest.set = heard(deadlines.StopRequest.set)
start()
"""


@dataclass
class Started:
    """A run in the background."""

    sandbox: Sandbox
    folder: Path
    process: subprocess.Popen[str]
    before: frozenset[str]  # the uids of the pods there were

    def reaches(self, hits: int = 1) -> None:
        """Wait until so many faults were met."""

        def met() -> bool:
            assert self.process.poll() is None, self.process.communicate()
            return self.sandbox.faults.hits >= hits

        eventually(met, awaited="the run meets the fault")

    def ends_after(self, *numbers: signal.Signals) -> str:
        """Send the signals; returns what the run printed on stderr, once it has ended."""
        for count, number in enumerate(numbers):
            self.process.send_signal(number)
            eventually(lambda: len(self.heard) > count, awaited=f"the run hears {number.name}")  # noqa: B023
        errors = self.ended()[1]
        assert "Traceback" not in errors
        return errors

    def ended(self) -> tuple[str, str]:
        """What the run printed, once it has ended."""
        return self.process.communicate(timeout=HANG_SECONDS)

    @property
    def heard(self) -> str:
        """A letter for each signal that the run has heard."""
        path = self.folder / "heard"
        return path.read_text() if path.exists() else ""

    @property
    def lease_is_free(self) -> bool:
        lease = self.sandbox.store.get("leases", "rebalancer", "rebalancer")
        return lease is None or not lease["spec"]["holderIdentity"]

    @property
    def events(self) -> list[str]:
        path = self.folder / "journal.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        return [json.loads(line)["event"] for line in lines]

    @property
    def known(self) -> dict[str, str]:
        """Result by uid of every eviction in the state."""
        return results_in_state(self.sandbox)

    @property
    def gone(self) -> frozenset[str]:
        """Pods there were that were evicted."""
        return evicted(self.sandbox, self.before)


class Runs:
    """Starts runs against one embedded cluster; kills what is left of them."""

    def __init__(self, sandbox: Sandbox, folder: Path) -> None:
        self.sandbox = sandbox
        self._folder = folder
        self._processes: list[subprocess.Popen[str]] = []

    def start(self, *faults: Fault, wave_timeout: str = "1h", options: tuple[str, ...] = ()) -> Started:
        """Start a run that meets these faults."""
        for fault in faults:
            self.sandbox.faults.add(fault)
        policy = self._folder / "policy.yaml"
        policy.write_text(POLICY.replace("waveTimeout: 20s", f"waveTimeout: {wave_timeout}"))
        kubeconfig = self.sandbox.write_kubeconfig(self._folder / "kubeconfig")
        before = uids(self.sandbox)
        command = [sys.executable, "-c", HEARING, str(self._folder / "heard")]
        command += [
            "run",
            "--yes",
            f"--policy={policy}",
            f"--kubeconfig={kubeconfig}",
            "--state-config-map=rebalancer/state",
        ]
        command += [f"--journal={self._folder / 'journal.jsonl'}", "-o", "json", *options]
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self._processes.append(process)
        return Started(self.sandbox, self._folder, process, before)

    def end(self) -> None:
        """Kill what is left."""
        for process in self._processes:
            if process.poll() is None:
                process.kill()
                process.communicate()


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[Runs]:
    sandbox = hot_sandbox()
    with sandbox:
        started = Runs(sandbox, tmp_path)
        yield started
        started.end()


def slow(path: str, method: str = "GET", skip: int = 0) -> Fault:
    return Fault("latency", path=path, method=method, seconds=NEVER_SECONDS, times=0, skip=skip)


def busy(path: str, method: str = "GET", skip: int = 0) -> Fault:
    return Fault("status", path=path, method=method, code=429, retry_after=20, times=0, skip=skip)


BEFORE_ANYTHING: dict[str, tuple[Fault, signal.Signals]] = {
    "a slow LIST": (slow(PODS), signal.SIGTERM),
    "a LIST to be tried again": (busy(PODS), signal.SIGHUP),
    "a slow load-watcher": (slow("proxy/watcher"), signal.SIGINT),
    "the lease to be read again": (busy("/leases/rebalancer"), signal.SIGTERM),
    "the lease to be written again": (busy("/leases", "POST"), signal.SIGHUP),
    "the state to be written again": (busy(STATE, "POST"), signal.SIGTERM),
}


@pytest.mark.many_cases
@pytest.mark.parametrize("place", some_of(list(BEFORE_ANYTHING)))
def test_a_run_that_has_evicted_nothing_ends_at_once(runs: Runs, place: str) -> None:
    fault, number = BEFORE_ANYTHING[place]
    run = runs.start(fault)
    run.reaches()
    errors = run.ends_after(number)
    assert run.process.returncode == ExitCode.INTERRUPTED, errors
    assert "asked to stop" in errors
    assert run.lease_is_free
    assert run.gone == set()


def test_a_run_that_waits_for_replacements_looks_once_more_and_ends(runs: Runs) -> None:
    run = runs.start(slow(SHOP_PODS, skip=1))
    run.reaches()
    errors = run.ends_after(signal.SIGTERM)
    assert run.process.returncode == ExitCode.INTERRUPTED, errors
    assert run.lease_is_free
    assert run.events[-1] == "run-finished"
    assert run.gone
    assert run.gone <= set(run.known)


def test_a_run_that_waits_to_try_again_ends_at_once(runs: Runs) -> None:
    run = runs.start(busy(SHOP_PODS, skip=1))
    run.reaches()
    errors = run.ends_after(signal.SIGHUP)
    assert run.sandbox.faults.hits == 1, "it does not wait until it may try again"
    assert run.process.returncode == ExitCode.INTERRUPTED, errors
    assert run.lease_is_free
    assert run.gone <= set(run.known)


def test_an_eviction_in_flight_is_waited_for_and_never_forgotten(runs: Runs) -> None:
    run = runs.start(slow(EVICTION, "POST"))
    run.reaches()
    errors = run.ends_after(signal.SIGTERM)
    assert run.process.returncode == ExitCode.STOPPED, errors  # it is not known whether a pod was evicted
    assert run.lease_is_free
    assert list(run.known.values()) == ["Unknown"]


@pytest.mark.many_cases
@pytest.mark.parametrize("second", some_of([signal.SIGTERM, signal.SIGINT]))
def test_a_second_signal_ends_even_that_soon(runs: Runs, second: signal.Signals) -> None:
    run = runs.start(slow(EVICTION, "POST"))
    run.reaches()
    errors = run.ends_after(signal.SIGTERM, second)
    assert run.process.returncode == ExitCode.STOPPED, errors  # it is not known whether a pod was evicted
    assert run.lease_is_free
    assert list(run.known.values()) == ["Unknown"]


def test_a_wave_is_waited_for_no_longer_than_its_timeout_however_slow_its_reads(runs: Runs) -> None:
    run = runs.start(slow(SHOP_PODS, skip=1), wave_timeout="3s")
    output, errors = run.ended()
    outcomes: dict[str, Any] = json.loads(output)
    assert {item["result"] for item in outcomes["outcomes"]} == {"Unknown", "Skipped"}, errors
    assert run.lease_is_free


def test_a_longest_duration_ends_the_reads_before_the_plan(runs: Runs) -> None:
    run = runs.start(slow(PODS), options=("--max-duration=4s",))
    _, errors = run.ended()
    assert run.process.returncode == ExitCode.STOPPED
    assert "longest duration of 4 s before it had a plan" in errors
    assert run.lease_is_free
    assert run.gone == set()
