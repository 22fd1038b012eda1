"""A search finds the same by one process, by two, and by a Dask cluster of which a worker is killed."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import distributed
import pytest

from rebalancer.reporting.render import to_json
from rebalancer_lab.timeline.space import read_space
from rebalancer_lab.timeline.tuning import Search, blocks_of, tune
from rebalancer_lab.timeline.workers import dask_cluster, processes
from tests.lab.timeline.recorded_days import EVERY, NOW, a_policy, an_observation, pods_on, recorded

SPACE = """\
apiVersion: rebalancer/v1alpha1
kind: TuningSpace
settings:
  "hotNodes.any[0].utilization.cpu": {from: 70, to: 95, step: 5}
  limits.perRun: {choose: [1, 5, 20]}
"""
SEARCH = Search(trials=8, population=4, seed=3, most_cost=5.0)


def days(folder: Path) -> str:
    """Six blocks of three moments; node a is the hotter the later it is."""
    pods = pods_on({f"web-{number}": "a" for number in range(6)})
    use = [dict.fromkeys((f"web-{number}" for number in range(6)), 500 + 10 * at) for at in range(18)]
    recorded(folder, *(an_observation(NOW + EVERY * at, pods, use[at]) for at in range(18)))
    return str(folder)


@pytest.mark.filterwarnings("ignore")  # those of Dask
def test_results_are_the_same_for_any_number_of_workers_also_when_one_is_killed(tmp_path: Path) -> None:
    blocks = blocks_of([days(tmp_path / "days")], 900.0, 3)
    space = read_space(SPACE, "space.yaml", a_policy())
    found = []
    for count in (1, 2):
        workers = processes(count)
        found.append(tune(space, blocks, SEARCH, workers))
        workers.close()
    options = {"processes": True, "threads_per_worker": 1, "dashboard_address": None}
    with distributed.LocalCluster(n_workers=2, **options) as cluster:
        victims = [worker.pid for worker in cluster.workers.values()][:1]
        workers = dask_cluster(cluster.scheduler_address, [block.folder for block in blocks])
        told = 0

        def kill_once(_: str) -> None:
            nonlocal told
            told += 1
            if told == 3:
                os.kill(victims.pop(), signal.SIGKILL)

        found.append(tune(space, blocks, SEARCH, workers, progress=kill_once))
        workers.close()

    assert not victims
    assert found[0].trials == SEARCH.trials
    assert found[0].failed == 0
    assert to_json(found[0]) == to_json(found[1]) == to_json(found[2])
