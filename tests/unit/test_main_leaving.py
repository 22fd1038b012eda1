"""The process leaves with the program's exit code, whatever requests it gave up."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

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


def test_an_interruption_while_a_data_class_is_made_leaves_with_the_code_of_an_interruption(
    tmp_path: Path,
) -> None:
    program = """
import os, signal, sys
import rebalancer.cli.program, rebalancer.__main__

def main():
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        exec("import os, signal; os.kill(os.getpid(), 15); signal.pause()")
    except KeyboardInterrupt:
        sys.exit(130)

rebalancer.cli.program.main = main
rebalancer.__main__.start()
"""
    (tmp_path / "interrupted.py").write_text(program)  # started as python -m rebalancer is
    command = [sys.executable, "-m", "interrupted"]
    path = os.pathsep.join([str(tmp_path), str(Path.cwd())])
    environment = {**os.environ, "PYTHONPATH": path}
    ended = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)

    assert (ended.returncode, ended.stderr) == (130, "")


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
