"""Which share of pods nobody can place by the model, by reason, over the cases and a dump.

    python -m tests.conformance.unpredictable [--dump FOLDER] [--cases 40] [--json FILE] [--before FILE]

The recorded cases of every family, drawn ones (which have corners more often than life has), and a cluster's
dump where one is given. ``--json`` keeps the figures, ``--before`` shows kept ones beside these. With
``--write`` the table of tests/conformance/RESULTS.md is renewed.
"""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import click
import numpy as np
from msgspec.structs import replace

from rebalancer.cluster.dumps.listing import decode_listing
from rebalancer.cluster.kinds import KINDS, METRICS
from rebalancer.cluster.snapshot import Snapshot, build_snapshot
from rebalancer.errors import RebalancerError
from rebalancer.load.scheduler_view import SchedulerView, decode_watcher
from rebalancer.planning.inputs import PlanningInputs
from rebalancer.planning.landing.schedulers import ProfileSchedulers, find_unpredictable
from rebalancer.scheduling.registry import load_configuration
from tests.builders import a_node
from tests.conformance.decide import Case, snapshot_of
from tests.conformance.generator.cases import FAMILIES as DRAWN
from tests.conformance.generator.cases import make_case
from tests.conformance.recorded import DATA, FAMILIES
from tests.unit.planning.builders import planning_inputs

SEED, MINOR = 20261123, "1.35"
PREDICTABLE = "placed by the model"
_TRIES = "in more ways than can be tried"  # what earlier versions said of images with many sizes
_OWN = re.compile(r"'[^']*'|\b[\w.-]*\d[\w.:/-]*|extender \S+|DeviceClass \S+|\([^)]*\)")
_BEGIN, _END = "<!-- unpredictable: written by its command -->", "<!-- end of unpredictable -->"
_PAGE = Path(__file__).parent / "RESULTS.md"

Shares = dict[str, dict[str, int]]  # by data set: pods by reason


_EMPTY = planning_inputs([a_node("none")])


def complete(snapshot: Snapshot) -> Snapshot:
    """The snapshot with every kind read, of those that it has not no object."""
    listings = dict(snapshot.recording.listings)
    for kind in KINDS:
        if kind not in METRICS:
            listings.setdefault(kind.plural, decode_listing(kind, []))
    return build_snapshot(replace(snapshot.recording, listings=listings))


def inputs_of(case: Case) -> PlanningInputs:
    """What a plan of a case's cluster is made from."""
    configuration = load_configuration(case["config"], case["id"])
    view = SchedulerView()
    if case.get("watcher"):
        metrics = decode_watcher(json.dumps(case["watcher"]).encode())
        found = [item for profile in configuration.profiles for item in profile.arguments.values()]
        view = SchedulerView({getattr(item, "watcher_address", ""): metrics for item in found})
    version = str(case.get("version") or MINOR)
    scheduler = replace(_EMPTY.schedulers[0], configuration=configuration, version=version, view=view)
    return replace(_EMPTY, snapshot=complete(snapshot_of(case)), schedulers=(scheduler,))


def reasons(inputs: PlanningInputs, *, tries: bool = False) -> Counter[str]:
    """How many pods cannot be placed by the model, by reason without its names; and how many can.

    ``tries``: they are placed too, to see whether that fails.
    """
    schedulers = ProfileSchedulers(inputs)
    unpredictable, state = find_unpredictable(schedulers.inputs), schedulers.state
    found: Counter[str] = Counter()
    kinds, counts = np.unique(inputs.snapshot.pods.pod_class, return_counts=True)
    for kind, count in zip(kinds.tolist(), counts.tolist(), strict=True):
        reason = unpredictable.get(kind, "")
        if tries and not reason and not schedulers.is_foreign(kind):
            failure = schedulers.scheduler(kind).place(state, kind).score_failure
            reason = failure if _TRIES in failure else ""
        found[_OWN.sub("…", reason)[:120] or PREDICTABLE] += count
    return found


def recorded() -> Iterator[tuple[str, Case]]:
    """The cases that real schedulers have decided."""
    for family in FAMILIES:
        with gzip.open(DATA / f"{family}.cases.jsonl.gz", "rt") as lines:
            yield from (("recorded cases", json.loads(line)) for line in lines)


def drawn(cases: int) -> Iterator[tuple[str, Case]]:
    """Cases of the generator."""
    for family in DRAWN:
        yield from (("drawn cases", make_case(SEED, family, number)) for number in range(cases))


def of_dump(folder: Path) -> Counter[str]:
    """The pods of a cluster's dump, by the configuration that lies beside it."""
    from rebalancer.observe.plan_options import PlanOptions, policy_of
    from rebalancer.observe.read import read_planners

    options = PlanOptions(source=folder)
    (planner,) = read_planners(options, (policy_of(options),), None, None)
    inputs = planner.inputs
    return reasons(inputs)


def table(now: Shares, before: Shares) -> str:
    """Markdown: by data set and reason the share of its pods, before and now."""
    lines = ["| data set | pods | reason | before | now |", "|---|--:|---|--:|--:|"]
    for name, found in now.items():
        was = before.get(name, {})
        pods, pods_before = sum(found.values()), max(sum(was.values()), 1)
        for reason in sorted({*found, *was}, key=lambda item: (-found.get(item, 0), -was.get(item, 0), item)):
            old = f"{was.get(reason, 0) / pods_before:.2%}" if was else ""
            lines.append(f"| {name} | {pods:,} | {reason} | {old} | {found.get(reason, 0) / pods:.2%} |")
    return "\n".join(lines) + "\n"


@click.command()
@click.option("--dump", type=click.Path(exists=True, path_type=Path), help="A cluster's dump beside them.")
@click.option("--cases", default=40, show_default=True, help="Drawn cases of a family.")
@click.option("--json", "kept", type=click.Path(path_type=Path), help="Keep the figures there.")
@click.option("--before", type=click.Path(exists=True, path_type=Path), help="Figures that were kept.")
@click.option("--write", is_flag=True, help="Renew the table of tests/conformance/RESULTS.md.")
def main(dump: Path | None, cases: int, kept: Path | None, before: Path | None, *, write: bool) -> None:
    """Count, and print the table."""
    counted: dict[str, Counter[str]] = {}
    for name, case in (*recorded(), *drawn(cases)):
        try:
            found = reasons(inputs_of(case), tries="images" in case["id"])
            counted.setdefault(name, Counter()).update(found)
        except (ValueError, RebalancerError):
            continue  # a configuration or an object that the scheduler refuses too
    if dump is not None:
        counted["a recorded cluster"] = of_dump(dump)
    now: Shares = {name: dict(found) for name, found in counted.items()}
    if kept is not None:
        kept.write_text(json.dumps(now))
    text = table(now, json.loads(before.read_text()) if before else {})
    if write:
        start, rest = _PAGE.read_text().split(_BEGIN)
        _PAGE.write_text(f"{start}{_BEGIN}\n{text}{_END}{rest.split(_END)[1]}")
    click.echo(text)


if __name__ == "__main__":
    main()
