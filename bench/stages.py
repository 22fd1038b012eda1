"""One stage of a plan in this process, measured alone; bench.suite starts one a measurement.

    python -m bench.stages load /tmp/cluster-5000 bench/policy.yaml

The stages before it are done first and not counted. Peak memory is the process's own while the stage runs:
what it was given is part of it, what making that took is not.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

from bench.placement import rebalance
from rebalancer.cluster.dumps.reader import DumpReader
from rebalancer.cluster.snapshot import Snapshot, build_snapshot
from rebalancer.load.raw_figures import RawFigures
from rebalancer.load.scheduler_view import EMPTY_VIEW
from rebalancer.load.sources import LoadReading, read_load
from rebalancer.observe.plan_options import PlanOptions
from rebalancer.observe.recorded import recorded_answers, recorded_moment
from rebalancer.planning.assemble import requests_by_pod
from rebalancer.planning.planner import Planner
from rebalancer.policy.policy_file import load_policy
from rebalancer.run.plan import planner_of
from rebalancer.scheduling.framework.cycle import Scheduler
from rebalancer.scheduling.framework.plugin import PluginInputs
from rebalancer.scheduling.registry import default_configuration, make_scheduler
from rebalancer.scheduling.state.cluster_state import ClusterState

STAGES = ("read", "build", "load", "place", "plan")
PLACEMENTS = 2000
_WORKLOADS = 60  # the planner places many pods of few workloads: those of hot nodes
_CLEAR_PEAK = "5"

About = dict[str, int]
Stage = Callable[[], About]


def load_stage(snapshot: Snapshot, policy: Path) -> LoadReading:
    """What nodes and pods use, from the metrics that were read."""
    return read_load(
        snapshot,
        RawFigures(prometheus=recorded_answers(snapshot.recording)),
        load_policy(policy).policy,
        EMPTY_VIEW,
        requests_by_pod(snapshot),
        None,
        (),
        now=recorded_moment(snapshot),
        live=False,
    )


def place_stage(snapshot: Snapshot) -> int:
    """Evict pods and bind their replacements where the scheduler would, the state kept up to date."""
    configuration = default_configuration()
    inputs = PluginInputs.of(snapshot, EMPTY_VIEW)
    scheduler: Scheduler = make_scheduler(configuration, configuration.profiles[0], inputs)
    state = ClusterState.of(snapshot)
    by_class: dict[int, list[int]] = {}
    for row in range(len(snapshot.pods)):
        if snapshot.pods.class_of(row).owner.kind == "ReplicaSet":
            by_class.setdefault(state.pod_class[row], []).append(row)
    largest = sorted(by_class.values(), key=lambda rows: (-len(rows), rows))[:_WORKLOADS]
    pods = deque(row for rows in largest for row in rows[: PLACEMENTS // _WORKLOADS])
    return sum(rebalance(scheduler, state, pods)[0] for _ in range(PLACEMENTS) if pods)


def prepared(stage: str, dump: Path, policy: Path) -> Stage:
    """Everything up to a stage, done; and the stage, to be called."""
    if stage == "read":
        return lambda: {"kinds": len(DumpReader(dump).read().listings)}
    if stage == "plan":
        options = PlanOptions(policy_path=policy, source=dump)
        inputs = planner_of(options).inputs
        return lambda: {"moves": len(Planner(inputs).plan().moves)}
    recording = DumpReader(dump).read()
    if stage == "build":
        return lambda: {"pods": len(build_snapshot(recording).pods)}
    snapshot = build_snapshot(recording)
    if stage == "load":
        return lambda: {"nodes": len(load_stage(snapshot, policy).report.usage)}
    return lambda: {"placed": place_stage(snapshot)}


def _peak_bytes() -> int:
    """The most memory this process held since the peak was last cleared."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) << 10
    raise RuntimeError("no VmHWM in /proc/self/status")


def measure(stage: str, dump: Path, policy: Path) -> dict[str, object]:
    """The fields of a Measurement besides stage and size."""
    run = prepared(stage, dump, policy)
    Path("/proc/self/clear_refs").write_text(_CLEAR_PEAK)
    before = resource.getrusage(resource.RUSAGE_SELF)
    began = time.perf_counter()
    about = run()
    wall = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "wall_seconds": wall,
        "user_seconds": after.ru_utime - before.ru_utime,
        "system_seconds": after.ru_stime - before.ru_stime,
        "peak_bytes": _peak_bytes(),
        "about": about,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("stage", choices=STAGES)
    parser.add_argument("dump", type=Path)
    parser.add_argument("policy", type=Path)
    given = parser.parse_args()
    print(json.dumps(measure(given.stage, given.dump, given.policy)))


if __name__ == "__main__":
    main()
