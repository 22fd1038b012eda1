"""The scheduler's own searches can be asked for, from every start, and where it would preempt."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.conformance.oracle import build
from tests.conformance.oracle.process import Oracle
from tests.conformance.samples import landings_of, sampled_cluster
from tests.conftest import ORACLE_MINOR

NODES = 130
SAMPLE = 100
# Until 1.34 the scheduler draws among the best nodes; later the first of its heap wins.
DRAWS_AMONG_BEST = int(ORACLE_MINOR.split(".")[1]) <= 34


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    with Oracle(build.program(ORACLE_MINOR)) as program:
        yield program


def _node(index: int, cpu: str = "4") -> dict[str, Any]:
    allocatable = {"cpu": cpu, "memory": "8Gi", "pods": "110"}
    return {
        "metadata": {"name": f"n-{index:03}"},
        "status": {"allocatable": allocatable, "capacity": allocatable},
    }


def _pod(name: str, cpu: str, priority: int, node: str = "") -> dict[str, Any]:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    spec = {"schedulerName": "default-scheduler", "containers": [container], "priority": priority}
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec | ({"nodeName": node} if node else {}),
        "status": {"phase": "Running" if node else "Pending"},
    }


def _case(nodes: list[Any], pods: list[Any], pending: list[Any], **asked: object) -> dict[str, Any]:
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "percentageOfNodesToScore": 10,
    }
    objects = {"nodes": nodes, "pods": pods}
    return {"id": "s", "config": json.dumps(config), "objects": objects, "pending": pending} | asked


def test_one_worker_lands_in_the_window_that_begins_where_it_starts(oracle: Oracle) -> None:
    nodes = [_node(index) for index in range(NODES)]
    case = _case(nodes, [], [_pod("q", "1", 0)], searches={"workers": 1})
    (found,) = oracle.answer(case)["landings"]
    assert len(found["nodes"]) == NODES
    rows = [int(name[2:]) for name in found["nodes"]]
    assert all((row - start) % NODES < SAMPLE for start, row in enumerate(rows))
    if not DRAWS_AMONG_BEST:
        assert rows == list(range(NODES))


def test_workers_that_advance_together_find_other_samples(oracle: Oracle) -> None:
    # The best node is just outside the window of one worker; the chunks of 16 workers cover it at once.
    nodes = [_node(index, "64" if index == SAMPLE + 3 else "4") for index in range(NODES)]
    alone, together = (
        oracle.answer(
            _case(
                nodes,
                [],
                [_pod("q", "1", 0)],
                searches={"workers": workers, "together": workers > 1, "starts": [0], "repeats": 20},
            )
        )["landings"][0]["nodes"]
        for workers in (1, 16)
    )
    assert len(alone) == len(together) == 20
    assert f"n-{SAMPLE + 3}" not in alone
    assert f"n-{SAMPLE + 3}" in together


def test_the_node_to_preempt_on_is_named(oracle: Oracle) -> None:
    nodes = [_node(0), _node(1)]
    running = [_pod("low", "4", 0, "n-000"), _pod("high", "4", 1000, "n-001")]
    case = _case(nodes, running, [_pod("q", "2", 100), _pod("r", "2", -1)], preemption=True)
    decisions = oracle.answer(case)["pods"]
    assert [decision.get("chosen") for decision in decisions] == [None, None]
    assert [decision["nominated"] for decision in decisions] == ["n-000", ""]


def test_no_search_of_a_sample_lands_outside_the_nodes_that_the_model_holds_possible(oracle: Oracle) -> None:
    """By one worker and by sixteen, from every start."""
    searches = 0
    for seed in range(8):
        case = sampled_cluster(seed, 200) | {"version": ORACLE_MINOR}
        predicted = landings_of(case)
        for workers in (1, 16):
            (landings,) = oracle.answer(case | {"searches": {"workers": workers}})["landings"]
            assert set(landings["nodes"]) <= predicted.keys() | {""}, (seed, workers)
            searches += len(landings["nodes"])
    assert searches > 1000


def test_a_timed_sequence_tells_the_processor_time_of_every_search(oracle: Oracle) -> None:
    pending = [_pod("q", "1", 0), _pod("r", "1", 0)]
    searches = {"sequence": True, "timed": True, "starts": [0], "repeats": 3}
    found = oracle.answer(_case([_node(0), _node(1)], [], pending, searches=searches))
    assert [len(times) for times in found["microseconds"]] == [2, 2, 2]
    assert all(time > 0 for times in found["microseconds"] for time in times)
