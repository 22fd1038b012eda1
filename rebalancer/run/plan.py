"""What ``plan``, ``nodes`` and ``explain`` do: observe, assemble, and compute from that alone.

The planner is imported after the cluster is read, and what reads it once the first request is sent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from rebalancer.files import named
from rebalancer.observe.plan_options import PlanOptions, ask_ahead, open_api, policy_of

if TYPE_CHECKING:
    from rebalancer.cluster.live import RawApi
    from rebalancer.cluster.snapshot import Snapshot
    from rebalancer.planning.cluster_explanation import ClusterExplanation
    from rebalancer.planning.explanation import Explanation, SchedulingTable
    from rebalancer.planning.inputs import PlanningInputs
    from rebalancer.planning.plan import Plan, PlanDifference
    from rebalancer.planning.planner import Planner
    from rebalancer.policy.policy_file import LoadedPolicy
    from rebalancer.policy.schema import RebalancePolicy

_MAX_TABLES = 100  # moves of a report whose scores are computed


def make_plan(options: PlanOptions) -> Plan:
    """The plan for a cluster, with a report of every node.

    Raises SafetyError when the load of too few nodes is known, unless ``ignore_coverage`` is set.
    """
    return make_plan_and_snapshot(options)[0]


def make_plan_and_snapshot(options: PlanOptions, *, of_nodes: bool = False) -> tuple[Plan, Snapshot]:
    """The plan of ``make_plan``, and the cluster it was made of.

    With ``of_nodes`` only its nodes are asked for: what keeps them hot is not worked out, and warnings of the
    scheduler are left out.
    """
    planner = planner_of(options)
    if of_nodes:
        planner = planner.for_nodes()
    return planner.plan(), planner.inputs.snapshot


def make_reported_plan(
    options: PlanOptions,
) -> tuple[Plan, RebalancePolicy, Mapping[str, SchedulingTable]]:
    """The plan of ``make_plan``, its policy, and by pod uid the scores behind its first moves."""
    planner = planner_of(options)
    return planner.plan(), planner.inputs.policy, planner.scheduling_tables(_MAX_TABLES)


def explain_subject(options: PlanOptions, subject: str, namespace: str = "") -> Explanation:
    """The explanation of what ``subject`` names; InputError with the nearest names when there is none."""
    from rebalancer.planning.subjects import find_subject, parse_subject  # noqa: PLC0415 - not for a plan

    # First: reading the cluster takes time.
    subject_of_question = parse_subject(subject, namespace, name_will_do=True)
    planner = planner_of(options)
    return planner.explain(find_subject(planner.inputs.snapshot, subject_of_question))


def explain_cluster(options: PlanOptions) -> ClusterExplanation:
    """Why no more pods of a cluster would be moved."""
    return planner_of(replace(options, ignore_coverage=True)).explain_cluster()


def diff_policies(options: PlanOptions, other: Path) -> PlanDifference:
    """What changes from the plan of the options' policy to that of another one, for the same cluster."""
    from rebalancer.policy.policy_file import load_policy  # noqa: PLC0415 - imports pydantic

    loaded = policy_of(options), load_policy(other)  # a mistake in them is found before the cluster is read
    ours, theirs = planners_of(options, loaded)
    from rebalancer.planning.plan import ChangedSetting, difference  # noqa: PLC0415 - not before the reading
    from rebalancer.policy.policy_file import changed_settings  # noqa: PLC0415 - imports pydantic

    compared = difference(ours.plan(), theirs.plan())
    settings = tuple(
        ChangedSetting(setting=key, before=before, after=after)
        for key, before, after in changed_settings(ours.inputs.policy, theirs.inputs.policy)
    )
    names = compared.policies
    if names[0] == names[1]:  # then their files tell them apart
        own = options.policy_path
        names = f"{names[0]} ({named(own) if own else 'defaults'})", f"{names[1]} ({named(other)})"
    return replace(compared, policies=names, settings=settings)


def planner_of(options: PlanOptions) -> Planner:
    """What plans for a cluster; with ``ignore_coverage`` however few nodes have a known load."""
    loaded = policy_of(options)  # a mistake in it is found before the cluster is asked for anything
    (planner,) = planners_of(options, (loaded,), ask_ahead(options, loaded.policy))
    return planner


def planners_of(
    options: PlanOptions, policies: Sequence[LoadedPolicy], api: RawApi | None = None
) -> tuple[Planner, ...]:
    """What plans by each of the policies: the cluster is observed once for all of them.

    ``api`` is the connection to a live cluster where there is one already.
    """
    from rebalancer.observe.read import known_state, read_planners  # noqa: PLC0415 - imports numpy

    api = api or open_api(options)
    return read_planners(options, policies, api, known_state(options, api))


def inputs_by_policy(options: PlanOptions, policies: Sequence[Path]) -> list[tuple[str, PlanningInputs]]:
    """Each policy's name and the inputs of a plan under it; the default policy when none is given."""
    from rebalancer.policy.policy_file import load_policy  # noqa: PLC0415 - imports pydantic

    loaded = [load_policy(path) for path in policies] or [policy_of(options)]
    inputs_of_policies = [planner.inputs for planner in planners_of(options, loaded)]
    return list(zip(_names(inputs_of_policies, policies), inputs_of_policies, strict=True))


def _names(inputs_of_policies: Sequence[PlanningInputs], policies: Sequence[Path]) -> list[str]:
    """Each policy's own name, followed by its file where two have the same."""
    names = [inputs.policy.metadata.name for inputs in inputs_of_policies]
    seen = Counter(names)
    return [
        f"{name} ({named(policies[index])})" if seen[name] > 1 else name for index, name in enumerate(names)
    ]
