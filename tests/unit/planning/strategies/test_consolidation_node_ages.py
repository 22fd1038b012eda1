"""Which nodes are old enough to be emptied; one of unknown age is not."""

from __future__ import annotations

from rebalancer.scheduling.registry import load_configuration
from tests.builders import LONG_AGO, a_node
from tests.rows import rows
from tests.unit.planning.builders import a_policy, a_workload, at, moved, plan_of, planning_inputs

PACKING = load_configuration(
    """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins: {score: {disabled: [{name: NodeResourcesBalancedAllocation}]}}
  pluginConfig:
  - {name: NodeResourcesFit, args: {scoringStrategy: {type: MostAllocated}}}
""",
    "test",
)


@rows(
    "created, pods",
    [
        (LONG_AGO, ["few-0"]),
        (at(-60), []),
        (None, []),
        ("soon", []),
        ("9999-12-31T23:59:59Z", []),
    ],
)
def test_a_node_is_emptied_only_where_it_is_known_to_be_old_enough(
    created: str | None, pods: list[str]
) -> None:
    nodes = [a_node("a", created=created), *(a_node(name, created=at(-60)) for name in "bc")]
    workloads = [a_workload("few", ["a"]), a_workload("many", ["b", "b", "c", "c"])]
    policy = a_policy(strategies={"consolidation": True})
    plan = plan_of(planning_inputs(nodes, workloads, configuration=PACKING, policy=policy))
    assert list(moved(plan)) == pods
