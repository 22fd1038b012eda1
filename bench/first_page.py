"""What the first page of a command costs beside the import of NumPy: python -m bench.first_page

Each command is started in turn with ``python -c 'import numpy'``, so that whatever else the machine does
slows both. Their processor time is compared: the least of each, and the median of each. Modules are compiled
before, as an installation has them, whatever PYTHONDONTWRITEBYTECODE says.
"""

from __future__ import annotations

import compileall
import os
import statistics
import sys
from collections.abc import Mapping, Sequence

import click

from bench.measuring import REBALANCER, ROOT, machine, of_command

_CLUSTER = "examples/hot-cluster"
_POLICY = "policies/balanced.yaml"
_NUMPY = (sys.executable, "-c", "import numpy")
COMMANDS: Mapping[str, Sequence[str]] = {
    "plan": ("plan", "--from", _CLUSTER),
    "plan --policy": ("plan", "--from", _CLUSTER, "--policy", _POLICY),
    "nodes": ("nodes", "--from", _CLUSTER),
    "policy validate": ("policy", "validate", _POLICY),
    "--help": ("--help",),
}


def processor_milliseconds(command: Sequence[str]) -> float:
    """What a whole program takes of a processor."""
    return 1000.0 * of_command("", None, command).cpu_seconds


def compare(name: str, pairs: int) -> str:
    """A row of the table: a command beside NumPy."""
    command = (*REBALANCER, *COMMANDS[name])
    ours = list[float]()
    of_numpy = list[float]()
    for _ in range(pairs):
        ours.append(processor_milliseconds(command))
        of_numpy.append(processor_milliseconds(_NUMPY))
    least = min(ours) / min(of_numpy)
    median = statistics.median(ours) / statistics.median(of_numpy)
    return f"| `{name}` | {min(ours):.0f} | {statistics.median(ours):.0f} | {least:.2f} | {median:.2f} |"


@click.command()
@click.option("--pairs", type=click.IntRange(1, 1000), default=15, show_default=True)
def main(pairs: int) -> None:
    """Compare in order."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    compileall.compile_dir(ROOT / "rebalancer", quiet=1)
    print(machine())
    print(f"| command | least ms | median ms | least beside NumPy's | median beside NumPy's, of {pairs} |")
    print("|---|---|---|---|---|")
    for name in COMMANDS:
        print(compare(name, pairs))


if __name__ == "__main__":
    main()
