"""A plan that nobody carries out, made again and again: what ``serve`` does without ``--act``."""

from __future__ import annotations

from rebalancer.cluster.live import RawApi
from rebalancer.cluster.live.watching import LiveCluster
from rebalancer.observe.plan_options import PlanOptions
from rebalancer.observe.read import gather
from rebalancer.planning.plan import Plan
from rebalancer.planning.planner import make_plan
from rebalancer.policy.policy_file import LoadedPolicy
from rebalancer.run.memory import Finding, finding
from rebalancer.run.plan import without_refusal
from rebalancer.state import RunState
from rebalancer.telemetry import span


def look(
    options: PlanOptions, loaded: LoadedPolicy, api: RawApi, cluster: LiveCluster, state: RunState | None
) -> tuple[Plan, Finding]:
    """A plan, and what the state of later ones takes from it.

    The load of too few nodes is a warning in the plan, where a run would refuse to act.
    """
    gathered = gather(options, loaded, api, state, cluster=cluster)
    with span("plan") as making:
        plan = make_plan(without_refusal(gathered.inputs))
        making.add(hot_nodes=plan.hot_count, moves=len(plan.moves))
    return plan, finding(gathered, plan)
