"""Days of a recorded cluster, made from one dump of it, and what replaying them takes.

    python -m bench.replayed_day DUMP FOLDER [--moments 288] [--every 5] [--policy policies/conservative.yaml]

The load of each pod follows the published curves of `bench.demand` by its workload, with some noise; every
moment some pods leave and others come, so that the recording has what real ones have. Node figures and
load-watcher follow from the pods, which together get no more processor time than their node has.
"""

from __future__ import annotations

import argparse
import math
import resource
import time
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import replace

from bench import demand
from rebalancer.cluster import quantities, times
from rebalancer.cluster.dumps.listing import Listing, ListingBuilder, Recording
from rebalancer.cluster.dumps.reader import DumpReader
from rebalancer.cluster.dumps.writer import list_pieces
from rebalancer.cluster.kinds import BY_PLURAL, NODE_METRICS, POD_METRICS, PODS
from rebalancer.cluster.snapshot import build_snapshot
from rebalancer.load.raw_figures import WATCHER
from rebalancer.observe.recorded import observation_of
from rebalancer.observe.timeline import Timeline, TimelineWriter
from rebalancer.policy.policy_file import load_policy
from rebalancer_lab.timeline.replay import replay

_NOISE = 0.05
_DAY = 86_400.0
_COMES_AND_GOES = 0.06  # share of the pods that are not there all the time


def listing(plural: str, items: list[dict[str, Any]]) -> Listing:
    """Items of a kind, as a LIST brings them."""
    builder = ListingBuilder(BY_PLURAL[plural])
    builder.add_list(msgspec.json.encode({"items": items}))
    return builder.listing()


def items_of(recording: Recording, plural: str) -> list[dict[str, Any]]:
    """The objects of a kind as plain values."""
    text = b"".join(list_pieces(recording.listings[plural]))
    found: list[dict[str, Any]] = msgspec.json.decode(text)["items"]
    return found


class Day:
    """The recording, moment by moment, from the beginning of a Monday on."""

    def __init__(self, recording: Recording, days: float, seed: int = 1) -> None:
        self._recording = recording
        self._random = np.random.default_rng(seed)
        self._pods = items_of(recording, PODS.plural)
        self._pod_metrics = {
            (item["metadata"]["namespace"], item["metadata"]["name"]): item
            for item in items_of(recording, POD_METRICS.plural)
        }
        self._node_metrics = items_of(recording, NODE_METRICS.plural)
        self._began = math.ceil(times.parse(self._node_metrics[0]["timestamp"]) / _DAY) * _DAY
        snapshot = build_snapshot(recording)
        self._capacity = {
            name: snapshot.nodes.capacity[row, :2].astype(float) for name, row in snapshot.nodes.row.items()
        }
        count = len(self._pods)
        churning = self._random.random(count) < _COMES_AND_GOES
        half = self._random.random(count) < 0.5
        moment = self._random.random(count)
        self._from = np.where(churning & half, moment * days, -1.0)  # days
        self._until = np.where(churning & ~half, moment * days, np.inf)
        names = [self._workload_of(item) for item in self._pods]
        self._names, self._workloads = np.unique(names, return_inverse=True)
        self._watcher = (
            msgspec.json.decode(recording.documents[WATCHER]) if WATCHER in recording.documents else None
        )

    @staticmethod
    def _workload_of(pod: dict[str, Any]) -> str:
        owners = pod["metadata"].get("ownerReferences") or [{"name": pod["metadata"]["name"]}]
        return str(owners[0]["name"])

    def moment(self, day: float) -> tuple[Recording, float]:
        """The recording after so many days, and when that is."""
        now = self._began + day * _DAY
        stamp = times.render(now)
        there = (self._from <= day) & (day < self._until)
        factors = np.array([demand.factor(name, day * 24.0) for name in self._names])[self._workloads]
        factors *= np.maximum(1.0 + _NOISE * self._random.standard_normal(len(factors)), 0.0)
        pods, using = [], []
        used = {name: np.zeros(2) for name in self._capacity}
        for item, present, factor, since in zip(self._pods, there, factors, self._from, strict=True):
            if not present:
                continue
            if since >= 0:
                created = times.render(self._began + since * _DAY)
                metadata = {**item["metadata"], "creationTimestamp": created}
                item = {**item, "metadata": metadata, "status": {**item["status"], "startTime": created}}  # noqa: PLW2901
            pods.append(item)
            metadata = item["metadata"]
            found = self._pod_metrics.get((metadata["namespace"], metadata["name"]))
            if found is None:
                continue
            usages = [item["usage"] for item in found["containers"]]
            cores = [quantities.cpu_milli(usage["cpu"]) * factor for usage in usages]
            sizes = [quantities.units(usage["memory"]) for usage in usages]
            used[item["spec"]["nodeName"]] += (sum(cores), sum(sizes))
            using.append((found, item["spec"]["nodeName"], cores, sizes))
        share = {name: min(1.0, self._capacity[name][0] / max(used[name][0], 1.0)) for name in used}
        for name, part in share.items():
            used[name][0] *= part
        metrics = []
        for found, name, cores, sizes in using:
            containers = [
                {**container, "usage": {"cpu": f"{round(milli * share[name])}m", "memory": str(size)}}
                for container, milli, size in zip(found["containers"], cores, sizes, strict=True)
            ]
            metrics.append({**found, "timestamp": stamp, "containers": containers})
        nodes = []
        for item in self._node_metrics:
            cpu, memory = used[item["metadata"]["name"]]
            usage = {"cpu": f"{round(cpu)}m", "memory": str(round(memory))}
            nodes.append({**item, "timestamp": stamp, "usage": usage})
        listings = {
            **self._recording.listings,
            PODS.plural: listing(PODS.plural, pods),
            POD_METRICS.plural: listing(POD_METRICS.plural, metrics),
            NODE_METRICS.plural: listing(NODE_METRICS.plural, nodes),
        }
        documents = dict(self._recording.documents)
        if self._watcher is not None:
            documents[WATCHER] = self._watched(self._watcher, used, now)
        return replace(self._recording, listings=listings, documents=documents), now

    def _watched(self, watcher: dict[str, Any], used: dict[str, Any], now: float) -> bytes:
        """What load-watcher answers then: its deviations are as they were."""

        def figure(name: str, metric: dict[str, Any]) -> dict[str, Any]:
            if name not in used or metric.get("operator") == "Std":
                return metric
            at = int(metric.get("type") == "Memory")
            return {**metric, "value": 100.0 * float(used[name][at]) / float(self._capacity[name][at])}

        nodes = {
            name: {**item, "metrics": [figure(name, metric) for metric in item.get("metrics") or ()]}
            for name, item in watcher["data"]["NodeMetricsMap"].items()
        }
        window = {**watcher.get("window", {}), "start": int(now) - 900, "end": int(now)}
        answer = {**watcher, "timestamp": int(now), "window": window, "data": {"NodeMetricsMap": nodes}}
        return msgspec.json.encode(answer)


def record_day(dump: Path, folder: Path, moments: int, every: float = 300.0) -> None:
    """Write so many moments as a timeline, ``every`` seconds."""
    day = Day(DumpReader(dump).read(), moments * every / _DAY)
    writer = TimelineWriter(folder, 8 << 30)
    size, seconds = 0, 0.0
    for number in range(moments):
        recording, now = day.moment(number * every / _DAY)
        observation = replace(observation_of(build_snapshot(recording), ""), now=now)
        began = time.process_time()
        size += writer.write(observation, None)
        seconds += time.process_time() - began
    print(f"written: {moments} moments, {size / 1e6:.1f} MB, {seconds / moments:.2f} s a moment")


def main() -> None:
    """Record the day, unless it is there, then replay it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dump", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--moments", type=int, default=288)
    parser.add_argument("--every", type=float, default=5.0, help="minutes")
    parser.add_argument("--policy", type=Path, default=Path("policies/conservative.yaml"))
    parser.add_argument("--only-policy", action="store_true", help="without the rows that are always there")
    chosen = parser.parse_args()
    if not chosen.folder.exists():
        record_day(chosen.dump, chosen.folder, chosen.moments, chosen.every * 60.0)
    timeline, loaded = Timeline.open(chosen.folder), load_policy(chosen.policy)
    cycles: list[float] = []
    last = [time.process_time()]

    def progress(_moment: str) -> None:
        cycles.append(time.process_time() - last[0])
        last[0] = time.process_time()

    found = replay(
        timeline, [(chosen.policy.stem, loaded)], seed=1, baselines=not chosen.only_policy, progress=progress
    )
    for run in found.runs:
        print(replace(run, moments=()))
    print(found.reproduction, found.happened, found.left_out[:3], len(found.left_out))
    acted = [bool(item.moves) for item in found.runs[-1].moments]
    for name, which in (("without moves", False), ("with moves", True)):
        some = [seconds for seconds, moved in zip(cycles, acted, strict=True) if moved is which]
        if some:
            print(f"{len(some)} cycles {name}: {np.mean(some):.2f} s in the mean, {max(some):.2f} s at most")
    print(f"memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")


if __name__ == "__main__":
    main()
