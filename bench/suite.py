"""The speed of every stage by the size of the cluster, and how it grows: what `make bench` runs.

    python -m bench.suite [--sizes 100/3000,1000/30000] [--repeat 3] [--compare OLD.json]

Clusters are generated once and kept under build/bench. Every measurement is a process of its own, the least
of --repeat of them counts, and the exponent is that of processor time by pods from one size to the next.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
import msgspec

from bench.measuring import (
    REBALANCER,
    ROOT,
    Measurement,
    Size,
    Suite,
    best,
    exponent,
    machine,
    of_command,
    of_stage,
)

SIZES = "100/3000,1000/30000,5000/150000"
POLICY = ROOT / "bench" / "policy.yaml"
STAGES = ("read", "build", "load", "place", "plan")
PROGRAM = {"--help": ("--help",), "validate": ("policy", "validate", str(POLICY))}
WHOLE = "dump→plan"
ROWS = (*PROGRAM, *STAGES, WHOLE)
CLUSTERS = ROOT / "build" / "bench"
_WIDTHS = (9, 5, 6, 7, 7, 7, 8)
_RATIO_WIDTHS = (6, 6, 6)
_DONE_WIDTH = 12


def sizes_of(text: str) -> list[Size]:
    """``100/3000,1000/30000``: nodes and pods."""
    try:
        sizes = [Size(int(nodes), int(pods)) for nodes, pods in (part.split("/") for part in text.split(","))]
    except ValueError:
        sizes = []
    if not sizes or any(min(size.nodes, size.pods) < 1 for size in sizes):
        raise click.BadParameter("write NODES/PODS,NODES/PODS, such as 100/3000,1000/30000")
    return sizes


def a_dump(size: Size, clusters: Path) -> Path:
    """A generated cluster of a size, made when there is none of this generator yet."""
    version = hashlib.sha256((ROOT / "bench" / "cluster.py").read_bytes()).hexdigest()[:8]
    folder = clusters / f"{size.nodes}-{size.pods}-{version}"
    if not folder.exists():
        click.echo(f"generating {size.nodes} nodes, {size.pods} pods ...", err=True)
        partial = folder.with_suffix(".partial")
        shutil.rmtree(partial, ignore_errors=True)
        counts = ("--nodes", str(size.nodes), "--pods", str(size.pods))
        command = (sys.executable, "-m", "bench.cluster", *counts, "--out", str(partial))
        subprocess.run(command, check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
        partial.rename(folder)
    return folder


def measured(
    rows: Sequence[str], sizes: Sequence[Size], repeat: int, clusters: Path
) -> Iterator[Measurement]:
    """The rows of the suite, stage by stage, each size after the one before."""
    dumps = {size: a_dump(size, clusters) for size in sizes}
    for stage in rows:
        if stage in PROGRAM:
            yield best([of_command(stage, None, (*REBALANCER, *PROGRAM[stage])) for _ in range(repeat)])
            continue
        for size, dump in dumps.items():
            if stage == WHOLE:
                command = (*REBALANCER, "plan", "--from", str(dump), "--policy", str(POLICY), "-o", "json")
                yield best([of_command(stage, size, command) for _ in range(repeat)])
            else:
                yield best([of_stage(stage, size, dump, POLICY) for _ in range(repeat)])


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    first, *others = zip(cells, widths, strict=True)
    return " ".join((first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in others))).rstrip()


def heading(compared: bool) -> str:
    """The names of the columns."""
    cells = ("stage", "nodes", "pods", "wall s", "cpu s", "peak MB", "exponent")
    ratios = ("wall ×", "cpu ×", "peak ×")
    if compared:
        return _line((*cells, *ratios), (*_WIDTHS, *_RATIO_WIDTHS))
    return _line((*cells, "done"), (*_WIDTHS, _DONE_WIDTH))


def row(item: Measurement, before: Measurement | None, old: Measurement | None, compared: bool) -> str:
    """A line of the table; ``before`` is the next smaller size, ``old`` the same row of an earlier suite."""
    grown = exponent(before, item) if before is not None and before.stage == item.stage else None
    cells = (
        item.stage,
        str(item.size.nodes) if item.size else "",
        str(item.size.pods) if item.size else "",
        f"{item.wall_seconds:.3f}",
        f"{item.cpu_seconds:.3f}",
        f"{item.peak_bytes / 1e6:.0f}",
        f"{grown:.2f}" if grown is not None else "",
    )
    if not compared:
        done = ", ".join(f"{count} {what}" for what, count in item.about.items())
        return _line((*cells, done), (*_WIDTHS, _DONE_WIDTH))
    ratios = ("", "", "")
    if old is not None:
        ratios = (
            _ratio(item.wall_seconds, old.wall_seconds),
            _ratio(item.cpu_seconds, old.cpu_seconds),
            _ratio(item.peak_bytes, old.peak_bytes),
        )
    return _line((*cells, *ratios), (*_WIDTHS, *_RATIO_WIDTHS))


def _ratio(new: float, old: float) -> str:
    return f"{new / old:.2f}" if old > 0 else ""


@click.command()
@click.option("--sizes", help=f"NODES/PODS of every cluster; by default {SIZES}.")
@click.option(
    "--beside-descheduler", is_flag=True, help="A plan beside the real descheduler, on a real API server."
)
@click.option("--runs", is_flag=True, help="Of --beside-descheduler: a real run each instead of plans.")
@click.option("--rows", default=",".join(ROWS), show_default=True, help="What is measured.")
@click.option("--repeat", type=click.IntRange(1, 100), default=3, show_default=True, help="The least counts.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), default=ROOT / "build" / "bench.json")
@click.option(
    "--compare", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="An earlier --out."
)
@click.option("--clusters", type=click.Path(file_okay=False, path_type=Path), default=CLUSTERS)
def main(
    sizes: str | None,
    rows: str,
    repeat: int,
    out: Path,
    compare: Path | None,
    clusters: Path,
    *,
    beside_descheduler: bool,
    runs: bool,
) -> None:
    """Measure every stage at every size."""
    if runs and not beside_descheduler:
        raise click.UsageError("--runs goes with --beside-descheduler")
    if beside_descheduler:
        from bench import beside_descheduler as beside  # noqa: PLC0415 - imports the end-to-end tests

        beside.measure(sizes_of(sizes or beside.SIZES), repeat, real_runs=runs)
        return
    chosen = rows.split(",")
    if unknown := sorted(set(chosen) - set(ROWS)):
        raise click.BadParameter(f"no row {unknown[0]}; there are {', '.join(ROWS)}")
    earlier: dict[tuple[str, Size | None], Measurement] = {}
    if compare is not None:
        try:
            found = msgspec.json.decode(compare.read_bytes(), type=Suite)
        except msgspec.DecodeError as error:
            raise click.ClickException(f"{compare}: not written by this suite: {error}") from None
        earlier = {(item.stage, item.size): item for item in found.results}
        click.echo(f"× of {compare}: {found.machine}")
    click.echo(f"{machine()}; the least of {repeat}")
    click.echo(heading(bool(compare)))
    results: list[Measurement] = []
    for item in measured(chosen, sizes_of(sizes or SIZES), repeat, clusters):
        old = earlier.get((item.stage, item.size))
        click.echo(row(item, results[-1] if results else None, old, bool(compare)))
        results.append(item)
    out.parent.mkdir(parents=True, exist_ok=True)
    content = msgspec.json.encode(Suite(machine(), repeat, results))
    out.write_bytes(msgspec.json.format(content, indent=2))
    click.echo(f"written to {out}", err=True)


if __name__ == "__main__":
    main()
