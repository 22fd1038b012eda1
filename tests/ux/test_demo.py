"""What ``demo --keep`` suggests works, step by step, in the order in which it is suggested."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rebalancer_demo.scenario import steps

KUBECTL = shutil.which("kubectl")
ROOT = Path(__file__).parents[2]


def test_every_suggested_command_works_in_its_order() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "rebalancer", "demo", "--keep"], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        shown = ""
        for line in process.stdout:
            shown += line
            if "Press Ctrl-C" in line:
                break
        found = re.search(r"export KUBECONFIG=(\S+); cd (\S+)", shown)
        assert found, shown
        assert max(map(len, shown.splitlines())) <= 80 + len(found[2])
        scripts = re.search(r'export PATH="(\S+):\$PATH"', shown)
        assert scripts, "another terminal does not find rebalancer in a virtual environment"
        assert (Path(scripts[1]) / "rebalancer").exists()
        page = (ROOT / "docs" / "first-five-minutes.md").read_text()
        in_page = page.partition("$ rebalancer demo --keep\n")[2].partition("\n$ ")[0].splitlines()
        printed = re.sub(r"rebalancer-demo-\w+", "rebalancer-demo-NAME", shown).splitlines()
        assert len(in_page) > 5
        assert [line for line in in_page if line != "…" and line not in printed] == []
        for command in steps():
            assert f"   {command}\n" in shown
            if KUBECTL or not command.startswith("kubectl "):
                _run(command, kubeconfig=found[1], folder=Path(found[2]))
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(60)
        process.stdout.close()
    assert process.returncode == 0
    assert not Path(found[2]).exists()
    if not KUBECTL:
        pytest.skip("no kubectl: only the other commands were tried")


def _run(command: str, *, kubeconfig: str, folder: Path) -> None:
    """Runs a command as it is suggested; what it would ask on a terminal is answered with yes."""
    if command.startswith("rebalancer run "):
        command += " --yes"
    environment = {**os.environ, "KUBECONFIG": kubeconfig, "HOME": str(folder)}
    environment["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    ended = subprocess.run(
        ["bash", "--norc", "-c", command],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 0, f"{command}\n{ended.stdout}\n{ended.stderr}"
