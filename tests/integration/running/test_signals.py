"""A run as a process hears every signal at once, whatever it waits for, and ends in order.

The embedded API server is slow or busy in one place at a time; the signal comes while the run waits there.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from rebalancer.errors import ExitCode
from rebalancer_demo import Fault, Sandbox
from rebalancer_demo.hot_cluster import POLICY
from tests.integration.hot_cluster import evicted, hot_sandbox, results_in_state, uids

SOON = 5.0  # less than a second but for a busy machine; what the runs wait for takes at least 20 s
LONG = 45.0  # nobody waits so long in these tests
PODS = "^/api/v1/pods"
SHOP_PODS = r"namespaces/shop/pods\?"
EVICTION = "/eviction$"
STATE = "/configmaps"


@dataclass
class Started:
    """A run in the background."""

    sandbox: Sandbox
    folder: Path
    process: subprocess.Popen[str]
    before: frozenset[str]  # the uids of the pods there were

    def reaches(self, hits: int = 1) -> None:
        """Wait until so many faults were met."""
        end = time.monotonic() + 60
        while self.sandbox.faults.hits < hits:
            assert time.monotonic() < end, "the fault was never met"
            assert self.process.poll() is None, self.process.communicate()
            time.sleep(0.05)
        time.sleep(0.2)  # the request arrived; let the run begin to wait

    def ends_after(self, *numbers: signal.Signals) -> tuple[float, str]:
        """Send the signals; the seconds until the run ended, and what it printed on stderr."""
        began = time.monotonic()
        for number in numbers:
            self.process.send_signal(number)
            time.sleep(0.1)
        _, errors = self.process.communicate(timeout=60)
        assert "Traceback" not in errors
        return time.monotonic() - began, errors

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

    def start(self, *faults: Fault, wave_timeout: str = "40s", options: tuple[str, ...] = ()) -> Started:
        """Start a run that meets these faults."""
        for fault in faults:
            self.sandbox.faults.add(fault)
        policy = self._folder / "policy.yaml"
        policy.write_text(POLICY.replace("waveTimeout: 20s", f"waveTimeout: {wave_timeout}"))
        kubeconfig = self.sandbox.write_kubeconfig(self._folder / "kubeconfig")
        before = uids(self.sandbox)
        command = [sys.executable, "-m", "rebalancer", "run", f"--policy={policy}"]
        command += [f"--kubeconfig={kubeconfig}", "--state-config-map=rebalancer/state"]
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
    return Fault("latency", path=path, method=method, seconds=LONG, times=0, skip=skip)


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


@pytest.mark.parametrize("place", BEFORE_ANYTHING)
def test_a_run_that_has_evicted_nothing_ends_at_once(runs: Runs, place: str) -> None:
    fault, number = BEFORE_ANYTHING[place]
    run = runs.start(fault)
    run.reaches()
    seconds, errors = run.ends_after(number)
    assert seconds < SOON
    assert run.process.returncode == ExitCode.INTERRUPTED, errors
    assert "asked to stop" in errors
    assert run.lease_is_free
    assert run.gone == set()


def test_a_run_that_waits_for_replacements_looks_once_more_and_ends(runs: Runs) -> None:
    run = runs.start(slow(SHOP_PODS, skip=1))
    run.reaches()
    seconds, errors = run.ends_after(signal.SIGTERM)
    assert seconds < SOON + 3.0
    assert run.process.returncode == ExitCode.INTERRUPTED, errors
    assert run.lease_is_free
    assert run.events[-1] == "run-finished"
    assert run.gone
    assert run.gone <= set(run.known)


def test_a_run_that_waits_to_try_again_ends_at_once(runs: Runs) -> None:
    run = runs.start(busy(SHOP_PODS, skip=1))
    run.reaches()
    seconds, errors = run.ends_after(signal.SIGHUP)
    assert seconds < SOON
    assert run.process.returncode == ExitCode.INTERRUPTED, errors
    assert run.lease_is_free
    assert run.gone <= set(run.known)


def test_an_eviction_in_flight_is_waited_for_and_never_forgotten(runs: Runs) -> None:
    run = runs.start(slow(EVICTION, "POST"))
    run.reaches()
    seconds, errors = run.ends_after(signal.SIGTERM)
    assert seconds < SOON + 10.0  # the answer is worth 10 s
    assert run.process.returncode == ExitCode.STOPPED, errors  # it is not known whether a pod was evicted
    assert run.lease_is_free
    assert list(run.known.values()) == ["Unknown"]


@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_even_that_at_once(runs: Runs, second: signal.Signals) -> None:
    run = runs.start(slow(EVICTION, "POST"))
    run.reaches()
    seconds, errors = run.ends_after(signal.SIGTERM, second)
    assert seconds < SOON
    assert run.process.returncode == ExitCode.INTERRUPTED, errors
    assert run.lease_is_free
    assert list(run.known.values()) == ["Unknown"]


def test_a_wave_is_waited_for_no_longer_than_its_timeout_however_slow_its_reads(runs: Runs) -> None:
    run = runs.start(slow(SHOP_PODS, skip=1), wave_timeout="3s")
    run.reaches()
    began = time.monotonic()
    output, errors = run.process.communicate(timeout=60)
    assert time.monotonic() - began < 6.0 + SOON  # up to 3 s for the first placement, and the wave
    outcomes: dict[str, Any] = json.loads(output)
    assert {item["result"] for item in outcomes["outcomes"]} == {"Unknown", "Skipped"}, errors
    assert run.lease_is_free


def test_a_longest_duration_ends_the_reads_before_the_plan(runs: Runs) -> None:
    began = time.monotonic()
    run = runs.start(slow(PODS), options=("--max-duration=4s",))
    _, errors = run.process.communicate(timeout=60)
    assert time.monotonic() - began < LONG, "the LIST was not awaited, however slowly the process started"
    assert run.process.returncode == ExitCode.STOPPED
    assert "longest duration of 4 s before it had a plan" in errors
    assert run.lease_is_free
    assert run.gone == set()
