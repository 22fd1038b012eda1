"""ImageLocality on nodes whose status says of images what no kubelet would."""

from __future__ import annotations

from rebalancer.planning.explanation import PodExplanation
from rebalancer.planning.planner import Planner
from rebalancer.planning.subjects import Subject
from tests.builders import a_node
from tests.rows import rows
from tests.unit.planning.builders import a_workload, planning_inputs

MEBIBYTE = 1 << 20


def scores(*sizes: int, containers: int = 3) -> dict[str, int]:
    """Of a pod with so many containers of one image, which nodes a, b, … hold with these sizes."""
    nodes = [a_node(name) for name, _ in zip("abc", sizes, strict=False)]
    for node, size in zip(nodes, sizes, strict=True):
        node["status"]["images"] = [{"names": ["app:v1"], "sizeBytes": size}]
    spec = {"containers": [{"name": f"main-{number}", "image": "app:v1"} for number in range(containers)]}
    planner = Planner(planning_inputs(nodes, [a_workload("web", ["a"], spec=spec)]))
    explained = planner.explain(Subject("pod", row=0))
    assert isinstance(explained, PodExplanation)
    table = explained.table
    assert table is not None
    return {item.node: item.scores["ImageLocality"] for item in table.nodes}


@rows("size, score", [(2**63 - 1, 100), (1000 * MEBIBYTE, 100), (-(2**63), 0), (23 * MEBIBYTE // 3, 0)])
def test_a_size_that_no_image_has_counts_as_the_largest_or_none(size: int, score: int) -> None:
    assert scores(size, size) == {"a": score, "b": score}
