"""What ``plan``, ``nodes`` and ``explain`` do: gather, and compute from the inputs alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

from rebalancer.cluster.snapshot import Snapshot
from rebalancer.observe.plan_options import PlanOptions
from rebalancer.observe.read import gather, open_api, policy_of
from rebalancer.observe.state_location import known_state
from rebalancer.planning.coverage import coverage_of
from rebalancer.planning.explanation import Explanation, SchedulingTable, explain, scheduling_tables
from rebalancer.planning.inputs import PlanningInputs
from rebalancer.planning.plan import Plan
from rebalancer.planning.planner import plan_prepared
from rebalancer.planning.prepared import prepare
from rebalancer.planning.subjects import find_subject, parse_subject
from rebalancer.policy.schema import RebalancePolicy

_MAX_TABLES = 100  # moves of a report whose scores are computed


def make_plan(options: PlanOptions) -> Plan:
    """The plan for a cluster, with a report of every node.

    Raises SafetyError when the load of too few nodes is known, unless ``only_look`` is set.
    """
    return make_plan_and_snapshot(options)[0]


def make_plan_and_snapshot(options: PlanOptions) -> tuple[Plan, Snapshot]:
    """The plan of ``make_plan``, and the cluster it was made of."""
    inputs = plan_inputs(options)
    plan = plan_prepared(prepare(inputs))
    return plan, inputs.snapshot


@dataclass(frozen=True, slots=True)
class ReportedPlan:
    """A plan, the policy it was made by, and by pod uid what the scheduler's cycle looks like."""

    plan: Plan
    policy: RebalancePolicy
    tables: Mapping[str, SchedulingTable]


def make_reported_plan(options: PlanOptions) -> ReportedPlan:
    """The plan of ``make_plan`` with the scores behind its first moves, for a report."""
    prepared = prepare(plan_inputs(options))
    plan = plan_prepared(prepared)
    tables = scheduling_tables(prepared, plan, _MAX_TABLES)
    return ReportedPlan(plan, prepared.policy, tables)


def explain_subject(options: PlanOptions, subject: str, namespace: str = "") -> Explanation:
    """The explanation of what ``subject`` names; InputError with the nearest names when there is none."""
    wanted = parse_subject(subject, namespace)  # before the cluster is read, which takes time
    inputs = plan_inputs(options)
    return explain(inputs, find_subject(inputs.snapshot, wanted))


def plan_inputs(options: PlanOptions, snapshot: Snapshot | None = None) -> PlanningInputs:
    """What a plan is made from; with ``only_look`` however few nodes have a known load.

    ``snapshot`` is the cluster, where it was read for another plan already.
    """
    loaded = policy_of(options)
    api = open_api(options)
    recorded = options.source is not None
    state = known_state(options.state_path, options.state_config_map, api, recorded=recorded)
    inputs = gather(options, loaded, api, state, snapshot=snapshot).inputs
    return without_refusal(inputs) if options.only_look else inputs


def without_refusal(inputs: PlanningInputs) -> PlanningInputs:
    """The same inputs, to be looked at however few nodes have a known load."""
    settings = inputs.policy.load
    coverage = coverage_of(inputs).share
    if coverage >= settings.min_coverage:
        return inputs
    warning = (
        f"load is known of {coverage:.0%} of the nodes, load.minCoverage is "
        f"{settings.min_coverage:.0%}: a run would refuse to act"
    )
    lenient = inputs.policy.model_copy(update={"load": settings.model_copy(update={"min_coverage": 0.0})})
    return dataclasses.replace(inputs, policy=lenient, warnings=(*inputs.warnings, warning))
