"""Recorded days of four kinds of clusters, for `rebalancer tune` and replays.

    python -m bench.tuning_days daily /tmp/days --days 9 --nodes 24 --pods 260

The pods are those of `bench.cluster`; what they use changes from moment to moment. `daily`: a curve over the
day, office hours for two workloads of three and the night for the others. `steady`: a level of each workload
that drifts over hours. `bursty`: now and then some workloads use two and a half times as much for some hours.
`published`: the demand of `bench.demand` over the week.
In each of them pods of Deployments are replaced now and then, on a node that has room. The same arguments
give the same days.
"""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import numpy as np

from bench import demand
from bench.cluster import generate, write_list
from rebalancer.cluster import times
from rebalancer.cluster.dumps.reader import DumpReader
from rebalancer.cluster.snapshot import build_snapshot
from rebalancer.observe.recorded import observation_of
from rebalancer.observe.timeline import TimelineWriter

Object = dict[str, Any]
_BEGINS = times.parse("2026-11-02T00:00:00Z")  # a Monday
_DAY = 86_400.0
_REPLACED = 0.004  # of the pods, from one moment to the next


def daily(hours: float, workloads: int, random: np.random.Generator) -> np.ndarray:
    """(workloads,) what each uses at an hour, as a share of its habit."""
    office = 1.0 + 0.55 * math.sin(2 * math.pi * (hours - 8.0) / 24.0)
    night = 1.0 + 0.55 * math.sin(2 * math.pi * (hours - 20.0) / 24.0)
    weekday = 1.0 if (hours // 24) % 7 < 5 else 0.8
    level = np.where(np.arange(workloads) % 3 < 2, office * weekday, night)
    return level * random.lognormal(0.0, 0.08, workloads)


class Steady:
    """A level of each workload that drifts over hours."""

    def __init__(self) -> None:
        self._level: np.ndarray | None = None

    def __call__(self, hours: float, workloads: int, random: np.random.Generator) -> np.ndarray:  # noqa: ARG002
        """See ``daily``."""
        level = np.zeros(workloads) if self._level is None else self._level
        self._level = 0.95 * level + 0.06 * random.standard_normal(workloads)
        return np.exp(self._level)


class Bursty:
    """Workloads that sometimes use two and a half times as much for some hours."""

    def __init__(self) -> None:
        self._until: np.ndarray | None = None

    def __call__(self, hours: float, workloads: int, random: np.random.Generator) -> np.ndarray:
        """See ``daily``."""
        until = np.zeros(workloads) if self._until is None else self._until
        begins = random.random(workloads) < 0.012
        self._until = np.where(begins, hours + random.uniform(1.0, 5.0, workloads), until)
        return np.where(self._until > hours, 2.5, 0.9) * random.lognormal(0.0, 0.05, workloads)


def published(hours: float, workloads: int, random: np.random.Generator) -> np.ndarray:
    """See ``daily``; by the curves of ``bench.demand``."""
    level = np.array([demand.factor(f"workload-{number}", hours) for number in range(workloads)])
    return level * random.lognormal(0.0, 0.05, workloads)


KINDS: dict[str, Callable[[], Callable[..., np.ndarray]]] = {
    "published": lambda: published,
    "daily": lambda: daily,
    "steady": Steady,
    "bursty": Bursty,
}


def write_days(
    folder: Path, kind: str, *, days: float, every_minutes: int, nodes: int, pods: int, load: float, seed: int
) -> None:
    """Write a timeline of a kind."""
    random, curve = np.random.default_rng(seed), KINDS[kind]()
    kinds: dict[str, list[Object]] = {
        plural: list(items) for plural, items in generate(nodes, pods, seed).items()
    }
    writer = TimelineWriter(folder, 1 << 34)
    with tempfile.TemporaryDirectory() as place:
        dump = Path(place)
        for plural, items in kinds.items():
            if plural not in ("pods", "nodemetrics", "podmetrics"):
                write_list(dump, plural, items)
        for step in range(round(days * 1440 / every_minutes)):
            now = _BEGINS + step * every_minutes * 60.0
            if step:
                kinds["pods"], kinds["podmetrics"] = _replaced(kinds, now, step, random)
            write_list(dump, "pods", kinds["pods"])
            for plural, items in _measured(kinds, curve, now, load, random).items():
                write_list(dump, plural, items)
            writer.write(observation_of(build_snapshot(DumpReader(dump).read()), ""), None)


def _workload(name: str) -> str:
    """The ReplicaSet or StatefulSet of a pod, by its name."""
    return name.rpartition("-")[0]


def _replaced(
    kinds: dict[str, list[Object]], now: float, step: int, random: np.random.Generator
) -> tuple[list[Object], list[Object]]:
    """The pods, some of them replaced where fewest pods run, and what each of them uses."""
    count: dict[str, int] = {node["metadata"]["name"]: 0 for node in kinds["nodes"]}
    for pod in kinds["pods"]:
        count[pod["spec"]["nodeName"]] = count.get(pod["spec"]["nodeName"], 0) + 1
    pods, figures = [], []
    chance = random.random(len(kinds["pods"]))
    for number, item in enumerate(zip(kinds["pods"], kinds["podmetrics"], strict=True)):
        pod, figure = item
        owner = pod["metadata"].get("ownerReferences", [{}])[0].get("kind")
        if owner == "ReplicaSet" and chance[number] < _REPLACED:
            pod, figure = json.loads(json.dumps([pod, figure]))
            name = f"{_workload(pod['metadata']['name'])}-{step:04}{number:04}"
            node = min(count, key=lambda item: (count[item], item))
            count[node] += 1
            pod["metadata"] |= {
                "name": name,
                "uid": f"uid-{name}",
                "creationTimestamp": times.render(now - 60.0),
            }
            pod["spec"]["nodeName"] = node
            pod["status"]["startTime"] = times.render(now - 60.0)
            figure["metadata"]["name"] = name
        pods.append(pod)
        figures.append(figure)
    return pods, figures


def _measured(
    kinds: dict[str, list[Object]],
    curve: Callable[..., np.ndarray],
    now: float,
    load: float,
    random: np.random.Generator,
) -> dict[str, list[Object]]:
    """What pods and nodes use at a moment."""
    names = sorted({_workload(item["metadata"]["name"]) for item in kinds["podmetrics"]})
    level = dict(zip(names, curve((now - _BEGINS) / 3600.0, len(names), random), strict=True))
    node_of = {pod["metadata"]["name"]: pod["spec"].get("nodeName") for pod in kinds["pods"]}
    used = {node["metadata"]["name"]: [0.3, 1024.0] for node in kinds["nodes"]}
    pods = []
    for item in kinds["podmetrics"]:
        name, usage = item["metadata"]["name"], item["containers"][0]["usage"]
        cores = float(usage["cpu"][:-1]) / 1e9 * load * float(level[_workload(name)])
        mebi = float(usage["memory"][:-2])
        if (node := node_of.get(name)) in used:
            used[node][0] += cores
            used[node][1] += mebi
        measured = {"cpu": f"{cores * 1e9:.0f}n", "memory": usage["memory"]}
        pods.append(
            {**item, "timestamp": times.render(now), "containers": [{"name": "main", "usage": measured}]}
        )
    nodes = [
        {
            "metadata": {"name": name},
            "timestamp": times.render(now),
            "window": "15s",
            "usage": {"cpu": f"{cores * 1e9:.0f}n", "memory": f"{mebi:.0f}Mi"},
        }
        for name, (cores, mebi) in used.items()
    ]
    return {"podmetrics": pods, "nodemetrics": nodes}


@click.command()
@click.argument("kind", type=click.Choice(sorted(KINDS)))
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.option("--days", type=click.FloatRange(0.1, 60), default=9.0, show_default=True)
@click.option("--every", "every_minutes", type=click.IntRange(1, 240), default=30, show_default=True)
@click.option("--nodes", type=click.IntRange(3, 5000), default=24, show_default=True)
@click.option("--pods", type=click.IntRange(10, 100_000), default=260, show_default=True)
@click.option(
    "--load", type=click.FloatRange(0.01, 100), default=1.5, show_default=True, help="Times the usual."
)
@click.option("--seed", type=int, default=1, show_default=True)
def main(folder: Path, kind: str, **size: Any) -> None:
    """Write the days."""
    write_days(folder, kind, **size)


if __name__ == "__main__":
    main()
