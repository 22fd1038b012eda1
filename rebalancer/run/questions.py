"""What the commands that ask questions do: read a cluster once, and let ``rebalancer.questions`` answer."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec

from rebalancer.documents import read_text
from rebalancer.errors import InputError, UnreachableError
from rebalancer.observe.plan_options import PlanOptions
from rebalancer.observe.read import gather, open_api, policy_of
from rebalancer.planning import planner
from rebalancer.planning.inputs import PlanningInputs
from rebalancer.planning.plan import ChangedSetting, PlanDifference, difference
from rebalancer.planning.subjects import find_subject, parse_subject
from rebalancer.policy.policy_file import changed_settings, parse_policy
from rebalancer.questions.changes import Changes
from rebalancer.questions.first_policy import FirstPolicy, first_policy
from rebalancer.questions.fit import Fit, fit
from rebalancer.questions.pod_specs import asked_pod, read_pod
from rebalancer.questions.policy_tests import PolicyTestReport, check_plan, parse_policy_test
from rebalancer.questions.what_if import WhatIf, what_if
from rebalancer.questions.why_not import WhyNot, why_not
from rebalancer.run.plan import make_plan_and_snapshot, plan_inputs
from rebalancer.simulation.cycles import simulate


def fit_pods(options: PlanOptions, text: str, source: str, namespace: str | None, at_most: int) -> Fit:
    """How many more of the pods that ``text`` describes fit; InputError where it describes none."""
    document, kind = read_pod(text, source, namespace)  # before the cluster is read, which takes time
    inputs = plan_inputs(dataclasses.replace(options, only_look=True))
    asked = asked_pod(document, kind, inputs.snapshot, namespace)
    return fit(inputs, asked, at_most, options.progress)


def what_if_changed(options: PlanOptions, changes: Changes, scheduler_config: Path | None) -> WhatIf:
    """What changes would do, and another scheduler configuration, read from a file."""
    if not changes and scheduler_config is None:
        raise InputError(
            "what should change?", hint="give --drain, --cordon, --add-node, --scale or --scheduler-config"
        )
    options = dataclasses.replace(options, only_look=True)
    inputs = plan_inputs(options)
    if scheduler_config is None:
        return what_if(inputs, changes)
    other = dataclasses.replace(options, scheduler_config=scheduler_config)
    return what_if(inputs, changes, plan_inputs(other, inputs.snapshot))


def why_nothing_moves(options: PlanOptions, subject: str, namespace: str = "") -> WhyNot:
    """Why nothing is moved: of the node or pod that is named, or of the whole cluster without a name."""
    wanted = parse_subject(subject, namespace) if subject else None  # before the cluster is read
    inputs = plan_inputs(dataclasses.replace(options, only_look=True))
    return why_not(inputs, find_subject(inputs.snapshot, wanted) if wanted else None)


def diff_policies(options: PlanOptions, other: Path) -> PlanDifference:
    """What changes from the plan of the options' policy to that of another one, for the same cluster."""
    others = dataclasses.replace(options, policy_path=other)
    policy_of(others)  # a mistake in it is found before the cluster is read
    inputs = plan_inputs(options)
    theirs = plan_inputs(others, inputs.snapshot)
    found = difference(planner.make_plan(inputs), planner.make_plan(theirs))
    settings = tuple(
        ChangedSetting(setting=key, before=before, after=after)
        for key, before, after in changed_settings(inputs.policy, theirs.policy)
    )
    names = found.policies
    if names[0] == names[1]:  # then their files tell them apart
        names = f"{names[0]} ({options.policy_path or 'defaults'})", f"{names[1]} ({other})"
    return msgspec.structs.replace(found, policies=names, settings=settings)


def check_policy(options: PlanOptions, files: Sequence[Path]) -> tuple[PolicyTestReport, ...]:
    """Hold the plan of the options' policy to the assertions of each file."""
    tests = [(str(file), parse_policy_test(read_text(file), str(file))) for file in files]
    policy_of(options)  # a mistake in any of them is found before the cluster is read
    plan, snapshot = make_plan_and_snapshot(options)
    return tuple(check_plan(test, file, plan, snapshot) for file, test in tests)


_BY_REQUESTS = """\
apiVersion: rebalancer/v1alpha1
kind: RebalancePolicy
load: {sources: [{requests: {}}]}
"""


def suggest_policy(options: PlanOptions) -> FirstPolicy:
    """A first policy for the cluster of the options; where no load is measured, by the pods' requests."""
    api = open_api(options)
    try:
        inputs = gather(options, policy_of(options), api, None).inputs
        if inputs.load.known.any():
            return first_policy(inputs, measured=True)
        snapshot = inputs.snapshot
    except (InputError, UnreachableError):  # where it is not the load that is missing, it fails again
        snapshot = None
    loaded = parse_policy(_BY_REQUESTS, "the suggested policy")
    return first_policy(gather(options, loaded, api, None, snapshot=snapshot).inputs, measured=False)


# What ``simulate`` does: the same recorded cluster gathered under every policy, then cycle after cycle.


__all__ = ["inputs_by_policy", "simulate"]


def inputs_by_policy(options: PlanOptions, policies: Sequence[Path]) -> list[tuple[str, PlanningInputs]]:
    """Each policy's name and the inputs of a plan under it; the default policy when none is given."""
    found: list[PlanningInputs] = []
    for path in policies or (None,):
        chosen = dataclasses.replace(options, policy_path=path)
        found.append(gather(chosen, policy_of(chosen), None, None).inputs)
    return list(zip(_names(found, policies), found, strict=True))


def _names(found: Sequence[PlanningInputs], policies: Sequence[Path]) -> list[str]:
    """Each policy's own name, followed by its file where two have the same."""
    names = [inputs.policy.metadata.name for inputs in found]
    seen = Counter(names)
    return [f"{name} ({policies[index]})" if seen[name] > 1 else name for index, name in enumerate(names)]
