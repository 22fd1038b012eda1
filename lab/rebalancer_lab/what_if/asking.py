"""Reads a cluster once, and lets what-if and fit answer."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from rebalancer.errors import InputError
from rebalancer.observe.plan_options import PlanOptions, open_api, policy_of
from rebalancer.observe.read import known_state, observe
from rebalancer.observe.recorded import recorded_state
from rebalancer.planning.assemble import assemble
from rebalancer.policy.policy_file import LoadedPolicy
from rebalancer.run.plan import planner_of
from rebalancer_lab.what_if.changed_cluster import WhatIf, what_if
from rebalancer_lab.what_if.changes import Changes
from rebalancer_lab.what_if.fit import Fit, fit
from rebalancer_lab.what_if.pod_specs import asked_pod, read_pod


def fit_pods(
    options: PlanOptions, text: str, source: str, namespace: str | None, named: str, at_most: int
) -> Fit:
    """How many more of the pods that ``text`` describes fit; InputError where it describes none.

    ``named`` (KIND/NAME) chooses among several objects that make pods.
    """
    document = read_pod(text, source, namespace, named)  # first: reading the cluster takes time
    planner = planner_of(replace(options, ignore_coverage=True))
    asked = asked_pod(document, planner.inputs.snapshot, namespace)
    return fit(planner, asked, at_most, options.progress)


def what_if_changed(options: PlanOptions, changes: Changes, scheduler_config: Path | None) -> WhatIf:
    """What changes would do, and another scheduler configuration, read from a file."""
    if not changes and scheduler_config is None:
        raise InputError(
            "what should change?", hint="give --drain, --cordon, --add-node, --scale or --scheduler-config"
        )
    loaded = policy_of(options)
    api = open_api(options)
    state = known_state(options, api)
    observation = observe(options, (loaded,), api)
    state = state if state is not None else recorded_state(observation.snapshot.recording)
    inputs = assemble(observation, loaded, state)
    if scheduler_config is None:
        return what_if(inputs, changes)
    other = replace(options, scheduler_config=scheduler_config, now=observation.now)
    answered = _as_if_alive(loaded)
    theirs = observe(other, (answered,), api, snapshot=observation.snapshot)
    return what_if(inputs, changes, assemble(theirs, answered, state))


def _as_if_alive(loaded: LoadedPolicy) -> LoadedPolicy:
    """The policy for a scheduler that nobody runs yet: whether it is alive is not the question."""
    safety = loaded.policy.safety.model_copy(update={"unknown_scheduler": "proceed"})
    return replace(loaded, policy=loaded.policy.model_copy(update={"safety": safety}))
