"""The scenes of ``rebalancer demo``: the real commands, run against an embedded hot cluster.

The commands run as processes of their own, with nothing but the cluster's kubeconfig: what a user sees is
what they print of any cluster.
"""

from __future__ import annotations

import math
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec
from rich.console import Console

from rebalancer.deadlines import StopRequest
from rebalancer.errors import ExitCode
from rebalancer.load.scheduler_view import WatcherMetrics, decode_watcher
from rebalancer.reporting.tables.text import Lines, Style
from rebalancer.scheduling.registry import load_configuration
from rebalancer.signals import stop_on_signal
from rebalancer_demo import Sandbox
from rebalancer_demo.hot_cluster import (
    CONFIGURATION,
    POLICY,
    WATCHER_NAMESPACE,
    WATCHER_PORT,
    WATCHER_SERVICE,
    hot_cluster,
)
from rebalancer_demo.model_decider import ModelDecider

_PROGRAM = "rebalancer"
_SEED = 7
_POLICY = "policy.yaml"
_READY_AFTER_SECONDS = 0.6
_TERMINATES_AFTER_SECONDS = 1.0
_LOOK_SECONDS = 0.05
_LAG_SECONDS = 60.0  # load-watcher reports load late, and so does this one

_SCENES: Sequence[tuple[str, Sequence[str]]] = (
    ("1. Nodes before: two are hot, two joined late and are empty", ("nodes", "--policy", _POLICY)),
    (
        "2. Plan, evict in waves, check every landing",
        ("run", "--policy", _POLICY, "--state", "state.json", "--journal", "journal.jsonl", "--yes"),
    ),
    ("3. Nodes after", ("nodes", "--policy", _POLICY)),
)


def play(target: Console, style: Style, *, keep: bool) -> int:
    """Run the scenes one after the other; returns the exit code of the last command that ran.

    With ``keep`` no scene is played: the cluster is left as it is, hot, with a list of what to try, until
    Ctrl-C.
    """
    stop = StopRequest()
    with (
        stop_on_signal(stop),
        tempfile.TemporaryDirectory(prefix="rebalancer-demo-") as folder,
        demo_cluster() as sandbox,
    ):
        kubeconfig = sandbox.write_kubeconfig(Path(folder) / "kubeconfig")
        (Path(folder) / _POLICY).write_text(POLICY)
        if keep:
            _show_steps(target, style, folder)
            stop.wait(math.inf)
            return int(ExitCode.DONE)
        code = int(ExitCode.DONE)
        for title, options in _SCENES:
            if code == ExitCode.DONE:
                _heading(target, style, title, options)
                code = _command(options, kubeconfig, Path(folder), stop)
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


def _command(options: Sequence[str], kubeconfig: Path, folder: Path, stop: StopRequest) -> int:
    """Run one command on this terminal; returns its exit code. Asked to stop, it asks the command."""
    command = subprocess.Popen(  # noqa: S603 - our own interpreter and module
        [sys.executable, "-m", "rebalancer", *options],
        env={**os.environ, "KUBECONFIG": str(kubeconfig), "XDG_STATE_HOME": str(folder / "state")},
        cwd=folder,
    )
    while command.poll() is None:
        if stop.wait(_LOOK_SECONDS):
            command.terminate()
            return command.wait()
    return command.returncode


_STEPS: Sequence[tuple[str, Sequence[str]]] = (
    (
        "Look: node-1 and node-2 are hot, node-5 and node-6 joined late and are empty",
        ("kubectl get pods -n shop -o wide", "kubectl top nodes", "rebalancer nodes"),
    ),
    (
        "Plan: which pods would move, where to, and why the others stay",
        (f"rebalancer plan --policy {_POLICY}",),
    ),
    (
        "Ask: why this node is hot, why this pod moves, why that one stays",
        (
            f"rebalancer explain node/node-2 --policy {_POLICY}",
            f"rebalancer explain po/shop/api-7d9f-03 --policy {_POLICY}",
            f"rebalancer explain po/shop/mail-7d9f-01 --policy {_POLICY}",
        ),
    ),
    (
        "Change one thing, and see what that changes",
        (
            f"sed 's/perRun: 8/perRun: 1/' {_POLICY} > careful.yaml",
            f"rebalancer plan --policy {_POLICY} -o json > before.json",
            "rebalancer plan --policy careful.yaml -o json > after.json",
            "rebalancer plan --from before.json --diff after.json",
        ),
    ),
    (
        "Act: first only ask the API server, then evict, and look again",
        (
            f"rebalancer run --policy {_POLICY} --dry-run",
            f"rebalancer run --policy {_POLICY} --state state.json",
            "kubectl get events -n shop",
            "rebalancer nodes",
        ),
    ),
    (
        "Change the cluster yourself, and see what becomes of its pods",
        (
            "kubectl scale deployment/web -n shop --replicas=14",
            "kubectl create pdb api -n shop --selector=app=api --min-available=5",
            f"rebalancer explain deploy/api -n shop --policy {_POLICY}",
            f"rebalancer explain --policy {_POLICY}",
        ),
    ),
)


def _show_steps(target: Console, style: Style, folder: str) -> None:
    """Print how to reach the cluster and what to try."""
    lines = Lines(style)
    lines.add(("A hot cluster of six nodes is up. In another terminal:", "bold"))
    lines.add(f"  export KUBECONFIG={folder}/kubeconfig; cd {folder}")
    if scripts := _scripts_off_the_path():
        lines.add(f'  export PATH="{scripts}:$PATH"')
    for number, (title, commands) in enumerate(_STEPS, 1):
        lines.add()
        lines.add((f"{number}. {title}", "bold cyan"))
        for command in commands:
            lines.add(f"   {command}")
    lines.add()
    lines.add("Press Ctrl-C to stop it; the folder goes with it.")
    _show(target, lines)


def _scripts_off_the_path() -> str:
    """The folder of ``rebalancer`` where another terminal may not find it, as in a virtual environment."""
    scripts = Path(sysconfig.get_path("scripts"))
    if not (scripts / _PROGRAM).exists():
        return ""
    on_path = shutil.which(_PROGRAM)
    elsewhere = on_path is not None and Path(on_path).parent != scripts
    return "" if elsewhere or (on_path and sys.prefix == sys.base_prefix) else str(scripts)


def steps() -> list[str]:
    """The commands that ``--keep`` suggests, in their order."""
    return [command for _, commands in _STEPS for command in commands]
