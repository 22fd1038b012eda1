"""The process leaves with the program's exit code, whatever requests it gave up."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rebalancer.errors import ExitCode
from tests.waiting import HANG_SECONDS

PROGRAM = """
import atexit, sys, threading, time
import rebalancer.cli.program, rebalancer.__main__
from pathlib import Path

def given_up():
    while True:
        sys.stderr.write("")  # takes the lock of the stream, as a log line does
        time.sleep(0)

def main():
    {threads}
    atexit.register(Path(sys.argv[1]).write_text, "cleaned up")
    print("the result")
    sys.exit({code})

rebalancer.cli.program.main = main
rebalancer.__main__.start()
"""
THREADS = "[threading.Thread(target=given_up, daemon=True).start() for _ in range(4)]"


@pytest.mark.parametrize("threads", ["", THREADS], ids=["alone", "requests given up"])
@pytest.mark.parametrize("code", [0, 3, 130])
def test_the_exit_code_the_output_and_what_is_cleaned_up_are_the_programs(
    tmp_path: Path, threads: str, code: int
) -> None:
    cleaned = tmp_path / "cleaned"
    program = PROGRAM.format(threads=threads, code=code)
    for _ in range(3):
        ended = subprocess.run(
            [sys.executable, "-c", program, str(cleaned)], capture_output=True, text=True, check=False
        )

        assert (ended.returncode, ended.stdout) == (code, "the result\n"), ended.stderr
        assert cleaned.read_text() == "cleaned up"
        cleaned.unlink()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
@pytest.mark.parametrize(
    "work", ["while True: pass", "threading.Event().wait()", "raise SystemExit(sys.stdin.readline())"]
)
def test_a_signal_ends_what_only_reads_at_once_and_takes_away_what_must_not_stay(
    tmp_path: Path, number: signal.Signals, work: str
) -> None:
    """Whatever it is at: computing, waiting for a thread, or waiting for input."""
    program = f"""
import atexit, pathlib, sys, threading
import rebalancer.cli.program, rebalancer.__main__

def main():
    key = pathlib.Path(sys.argv[1])
    key.write_text("a key")
    atexit.register(key.unlink)
    print("begun", flush=True)
    {work}

rebalancer.cli.program.main = main
rebalancer.__main__.start()
"""
    key = tmp_path / "key"
    started = subprocess.Popen(
        [sys.executable, "-c", program, str(key)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with started:
        assert started.stdout is not None
        assert started.stdout.readline() == "begun\n"
        started.send_signal(number)
        code = started.wait(HANG_SECONDS)
        assert started.stderr is not None
        said = started.stderr.read()

    assert (code, said) == (ExitCode.INTERRUPTED, "")
    assert not key.exists()


def test_a_signal_that_is_ignored_stays_so() -> None:
    program = """
import signal
import rebalancer.cli.program, rebalancer.__main__

signal.signal(signal.SIGHUP, signal.SIG_IGN)
rebalancer.cli.program.main = lambda: signal.raise_signal(signal.SIGHUP)
rebalancer.__main__.start()
"""
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_a_fault_in_compiled_code_says_in_which_line_it_happened() -> None:
    program = """
import os, signal, sys
import rebalancer.cli.program, rebalancer.__main__

def main():
    os.kill(os.getpid(), signal.SIGSEGV)

rebalancer.cli.program.main = main
rebalancer.__main__.start()
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert ended.returncode == -signal.SIGSEGV
    assert "Segmentation fault" in ended.stderr
    assert 'File "<string>", line 6 in main' in ended.stderr
