"""The scenes of ``rebalancer demo``: the real commands, run against an embedded hot cluster.

The commands run as processes of their own, with nothing but the cluster's kubeconfig: what a user sees is
what they print of any cluster.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec
from rich.console import Console

from rebalancer.errors import ExitCode
from rebalancer.load.load_watcher.document import WatcherMetrics, decode_watcher
from rebalancer.reporting.tables.text import Lines, Style
from rebalancer.sandbox import Sandbox
from rebalancer.sandbox.demo.hot_cluster import (
    CONFIGURATION,
    POLICY,
    WATCHER_NAMESPACE,
    WATCHER_PORT,
    WATCHER_SERVICE,
    hot_cluster,
)
from rebalancer.sandbox.scheduler.model_decider import ModelDecider
from rebalancer.scheduling import load_configuration

_SEED = 7
_POLICY = "policy.yaml"
_READY_AFTER_SECONDS = 0.6
_TERMINATES_AFTER_SECONDS = 1.0
_LAG_SECONDS = 60.0  # load-watcher reports load late, and so does this one

_SCENES: Sequence[tuple[str, Sequence[str]]] = (
    ("1. Nodes before: two are hot, two joined late and are empty", ("nodes", "--policy", _POLICY)),
    (
        "2. Plan, evict in waves, check every landing",
        ("run", "--policy", _POLICY, "--state", "state.json", "--journal", "journal.jsonl"),
    ),
    ("3. Nodes after", ("nodes", "--policy", _POLICY)),
)


def play(target: Console, style: Style, *, keep: bool) -> int:
    """Run the scenes one after the other; returns the exit code of the last command that ran.

    With ``keep`` the cluster stays up after the last scene until Ctrl-C.
    """
    with tempfile.TemporaryDirectory(prefix="rebalancer-demo-") as folder, demo_cluster() as sandbox:
        kubeconfig = sandbox.write_kubeconfig(Path(folder) / "kubeconfig")
        policy = Path(folder) / _POLICY
        policy.write_text(POLICY)
        code = int(ExitCode.DONE)
        for title, options in _SCENES:
            if code == ExitCode.DONE:
                _heading(target, style, title, options)
                code = _command(options, kubeconfig, Path(folder))
        if keep and code == ExitCode.DONE:
            _wait(target, style, kubeconfig, policy)
        return code


def demo_cluster() -> Sandbox:
    """The hot cluster; its scheduler is the scheduling model, and a load-watcher reports its usage."""
    sandbox: Sandbox | None = None

    def watch() -> WatcherMetrics:
        assert sandbox is not None
        return decode_watcher(msgspec.json.encode(watcher({})))

    decide = ModelDecider(load_configuration(CONFIGURATION, "demo"), watch, seed=_SEED)
    sandbox = Sandbox(
        hot_cluster(time.time()),
        seed=_SEED,
        decide=decide,
        ready_after=_READY_AFTER_SECONDS,
        terminates_after=_TERMINATES_AFTER_SECONDS,
    )
    watcher = sandbox.watcher(lag_seconds=_LAG_SECONDS)
    sandbox.serve(WATCHER_NAMESPACE, WATCHER_SERVICE, WATCHER_PORT, "watcher", watcher)
    return sandbox


def _heading(target: Console, style: Style, title: str, options: Sequence[str]) -> None:
    lines = Lines(style)
    lines.add("")
    lines.add((f"── {title} ".ljust(style.width, "─"), "bold cyan"))
    lines.add((f"$ rebalancer {' '.join(options)}", "dim"))
    lines.add("")
    _show(target, lines)


def _show(target: Console, lines: Lines) -> None:
    target.print(lines.text, end="", soft_wrap=True)
    target.file.flush()  # before the next command writes to the same terminal


def _command(options: Sequence[str], kubeconfig: Path, folder: Path) -> int:
    """Run one command on this terminal; returns its exit code."""
    finished = subprocess.run(  # noqa: S603 - our own interpreter and module
        [sys.executable, "-m", "rebalancer", *options],
        env={**os.environ, "KUBECONFIG": str(kubeconfig), "XDG_STATE_HOME": str(folder / "state")},
        cwd=folder,
        check=False,
    )
    return finished.returncode


def _wait(target: Console, style: Style, kubeconfig: Path, policy: Path) -> None:
    """Print how to reach the cluster and leave it up until Ctrl-C."""
    lines = Lines(style)
    lines.add("")
    lines.add(("The cluster stays up. In another terminal:", "bold"))
    lines.add(f"  export KUBECONFIG={kubeconfig}")
    lines.add("  kubectl get pods -n shop -o wide; kubectl top nodes")
    lines.add(f"  rebalancer plan --policy {policy}")
    lines.add("Press Ctrl-C to stop it.")
    _show(target, lines)
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        return
