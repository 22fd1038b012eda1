"""The figures that end-to-end tests rely on: they show every pod that is bound, and each of them once."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from rebalancer.cluster.records import NodeMetrics
from rebalancer.load.correction import correct
from rebalancer.load.report import build_report
from rebalancer.load.usage import node_usage_of_metrics
from tests.builders import a_node, a_pod, a_snapshot
from tests.e2e.api import Api, Object
from tests.e2e.loads import CPU_MILLI, loads_of
from tests.e2e.metrics import exact_figures
from tests.rows import rows
from tests.unit.load.builders import NOW
from tests.unit.planning.builders import a_past_move

NODES = [a_node("n0", cpu="16"), a_node("n1", cpu="16")]


@dataclass(frozen=True)
class Recorded(Api):
    """Two nodes, and pods on the second of them that use so much."""

    pods: list[Object] = field(default_factory=list)

    def __post_init__(self) -> None:
        """It connects to nothing."""

    def list(self, path: str, **_parameters: str) -> list[Object]:
        return self.pods if path.endswith("pods") else NODES


def using(*cpu_milli: int) -> Recorded:
    pods = [a_pod(f"web-{number}", node="n1") for number in range(len(cpu_milli))]
    for pod, uses in zip(pods, cpu_milli, strict=True):
        pod["metadata"]["annotations"] = {CPU_MILLI: str(uses)}
    return Recorded("", "", Path(), pods)


def uses(pod: Object) -> int:
    return int(pod["metadata"]["annotations"][CPU_MILLI])


@rows("read", [0.31, 0.99, 1.0, 1.2])
def test_a_pod_that_was_bound_in_the_second_in_which_they_are_read_is_not_counted_twice(read: float) -> None:
    api, bound = using(400), NOW + 0.3
    items = exact_figures(api, "nodes", NOW + read, uses)["items"]
    snapshot = a_snapshot(nodes=NODES, pods=api.pods)
    metrics = node_usage_of_metrics(msgspec.convert(items, list[NodeMetrics]), snapshot.nodes)
    given = (snapshot.nodes, snapshot.pods, [metrics], None, snapshot.pods.node[:, None] * [0.0, 0.0])
    report = build_report(*given, now=NOW + read, max_age_seconds=180.0)
    load = {"cpu": 400.0, "memory": 0.0}
    move = a_past_move(from_node="n0", to_node="n1", evicted_at=bound, landed_at=bound, load=load)

    assert report.usage[:, 0].tolist() == [0.0, 400.0]
    assert correct(report, snapshot.nodes, [move]).load.usage[:, 0].tolist() == [0.0, 400.0]


def test_a_node_that_is_at_its_threshold_is_not_above_it() -> None:
    """Sums of fractions of cores were 80.00000000000001 % here, which is hot above 80 %."""
    loads = loads_of(using(336, 995, 1140, 1969, 415, 903, 2238, 897, 2050, 961, 896))

    assert loads["n1"].cpu == 80.0
    assert loads["n0"].cpu == 0.0
