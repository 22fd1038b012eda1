"""What the commands that ask questions do: read a cluster once, and let ``rebalancer.questions`` answer."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any

from msgspec.structs import replace

from rebalancer.documents import read_text
from rebalancer.errors import InputError, UnreachableError
from rebalancer.files import named
from rebalancer.observe.configuration import configurations_in
from rebalancer.observe.plan_options import PlanOptions, open_api, policy_of
from rebalancer.observe.read import known_state, observe
from rebalancer.observe.recorded import recorded_state
from rebalancer.planning import planner
from rebalancer.planning.assemble import assemble
from rebalancer.planning.inputs import PlanningInputs
from rebalancer.planning.plan import ChangedSetting, PlanDifference, difference
from rebalancer.planning.subjects import find_subject, parse_subject
from rebalancer.policy.policy_file import LoadedPolicy, changed_settings, load_policy, parse_policy
from rebalancer.policy.schedulers import ConfigMapKey
from rebalancer.questions.changes import Changes
from rebalancer.questions.first_policy import FirstPolicy, first_policy, pods_with_a_profile
from rebalancer.questions.fit import Fit, fit
from rebalancer.questions.pod_specs import asked_pod, read_pod
from rebalancer.questions.policy_tests import PolicyTest, PolicyTestReport, check_plan, parse_policy_test
from rebalancer.questions.what_if import WhatIf, what_if
from rebalancer.questions.why_not import WhyNot, why_not
from rebalancer.run.plan import inputs_of, make_plan_and_snapshot, plan_inputs


def fit_pods(options: PlanOptions, text: str, source: str, namespace: str | None, at_most: int) -> Fit:
    """How many more of the pods that ``text`` describes fit; InputError where it describes none."""
    document, kind = read_pod(text, source, namespace)  # before the cluster is read, which takes time
    inputs = plan_inputs(replace(options, ignore_coverage=True))
    asked = asked_pod(document, kind, inputs.snapshot, namespace)
    return fit(inputs, asked, at_most, options.progress)


def what_if_changed(options: PlanOptions, changes: Changes, scheduler_config: Path | None) -> WhatIf:
    """What changes would do, and another scheduler configuration, read from a file."""
    if not changes and scheduler_config is None:
        raise InputError(
            "what should change?", hint="give --drain, --cordon, --add-node, --scale or --scheduler-config"
        )
    loaded, api = policy_of(options), open_api(options)
    state = known_state(options, api)
    observation = observe(options, (loaded,), api)
    state = state if state is not None else recorded_state(observation.snapshot.recording)
    inputs = assemble(observation, loaded, state)
    if scheduler_config is None:
        return what_if(inputs, changes)
    other = replace(options, scheduler_config=scheduler_config, now=observation.now)
    theirs = observe(other, (loaded,), api, snapshot=observation.snapshot)
    return what_if(inputs, changes, assemble(theirs, loaded, state))


def why_nothing_moves(options: PlanOptions, subject: str, namespace: str = "") -> WhyNot:
    """Why nothing is moved: of the node or pod that is named, or of the whole cluster without a name."""
    wanted = parse_subject(subject, namespace) if subject else None  # before the cluster is read
    inputs = plan_inputs(replace(options, ignore_coverage=True))
    return why_not(inputs, find_subject(inputs.snapshot, wanted) if wanted else None)


def diff_policies(options: PlanOptions, other: Path) -> PlanDifference:
    """What changes from the plan of the options' policy to that of another one, for the same cluster."""
    loaded = policy_of(options), load_policy(other)  # a mistake in them is found before the cluster is read
    inputs, theirs = inputs_of(options, loaded)
    found = difference(planner.make_plan(inputs), planner.make_plan(theirs))
    settings = tuple(
        ChangedSetting(setting=key, before=before, after=after)
        for key, before, after in changed_settings(inputs.policy, theirs.policy)
    )
    names = found.policies
    if names[0] == names[1]:  # then their files tell them apart
        own = options.policy_path
        names = f"{names[0]} ({named(own) if own else 'defaults'})", f"{names[1]} ({named(other)})"
    return replace(found, policies=names, settings=settings)


Tests = Sequence[tuple[str, PolicyTest]]  # by file


def read_tests(files: Sequence[Path], clusters: Sequence[str]) -> Tests:
    """The assertions of each file; InputError where one is about none of the clusters."""
    tests = [(named(file), parse_policy_test(read_text(file), str(file))) for file in files]
    for file, test in tests:
        if not any(test.is_about(cluster) for cluster in clusters):
            names = ", ".join(clusters[:5])
            raise InputError(f"clusters: matches none of {names}"[:200], where=file)
    return tests


def check_policy(options: PlanOptions, tests: Tests, cluster: str) -> tuple[PolicyTestReport, ...]:
    """Hold the plan of the options' policy to the assertions about a cluster."""
    policy_of(options)  # a mistake in it is found before the cluster is read
    plan, snapshot = make_plan_and_snapshot(options)
    about = [(file, test) for file, test in tests if test.is_about(cluster)]
    return tuple(replace(check_plan(test, file, plan, snapshot), cluster=cluster) for file, test in about)


_REQUESTS: dict[str, Any] = {"load": {"sources": [{"requests": {}}]}}


def _naming(place: ConfigMapKey | None, more: Mapping[str, Any] = MappingProxyType({})) -> LoadedPolicy:
    """A policy that names a scheduler's configuration, and is the default one otherwise."""
    written = {"apiVersion": "rebalancer/v1alpha1", "kind": "RebalancePolicy", **more}
    if place is not None:
        named = {"namespace": place.namespace, "name": place.name, "key": place.key}
        written["scheduler"] = {"configMap": named}
    return parse_policy(json.dumps(written), "the suggested policy")


def suggest_policy(options: PlanOptions) -> FirstPolicy:
    """A first policy for the cluster of the options; where no load is measured, by the pods' requests.

    Of the scheduler configurations in the cluster it names the one that has profiles for most pods, if one
    has them for more pods than the defaults have.
    """
    api = open_api(options)
    given = api is None or options.scheduler_config is not None or options.policy_path is not None
    places = (None, *(() if api is None or given else configurations_in(api)))
    measured = [policy_of(options), *(_naming(place) for place in places if place is not None)]
    by_requests = [_naming(place, _REQUESTS) for place in places]
    observation = observe(options, (*measured, *by_requests), api)
    state = recorded_state(observation.snapshot.recording)

    def best(policies: Sequence[LoadedPolicy]) -> tuple[PlanningInputs, ConfigMapKey | None]:
        found = [(assemble(observation, policies[0], state), places[0])]
        for policy, place in zip(policies[1:], places[1:], strict=True):
            with suppress(InputError):  # a configuration that cannot be used
                found.append((assemble(observation, policy, state), place))
        return max(found, key=lambda item: pods_with_a_profile(item[0]))

    try:
        inputs, place = best(measured)
        if inputs.load.known.any():
            return first_policy(inputs, place, measured=True)
    except (InputError, UnreachableError):  # no source answered, as in a cluster without metrics-server
        pass
    return first_policy(*best(by_requests), measured=False)


def inputs_by_policy(options: PlanOptions, policies: Sequence[Path]) -> list[tuple[str, PlanningInputs]]:
    """Each policy's name and the inputs of a plan under it; the default policy when none is given."""
    loaded = [load_policy(path) for path in policies] or [policy_of(options)]
    found = inputs_of(options, loaded)
    return list(zip(_names(found, policies), found, strict=True))


def _names(found: Sequence[PlanningInputs], policies: Sequence[Path]) -> list[str]:
    """Each policy's own name, followed by its file where two have the same."""
    names = [inputs.policy.metadata.name for inputs in found]
    seen = Counter(names)
    return [
        f"{name} ({named(policies[index])})" if seen[name] > 1 else name for index, name in enumerate(names)
    ]
