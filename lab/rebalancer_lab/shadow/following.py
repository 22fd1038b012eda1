"""Follows a cluster, and decides each binding by another scheduler configuration as well."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from rebalancer.agreement.decisions import Tally
from rebalancer.agreement.following import Step, by_requests, watch_agreement
from rebalancer.observe.configuration import InstalledPlugins, configuration_texts
from rebalancer.observe.plan_options import PlanOptions, open_api, policy_of
from rebalancer.observe.read import observe
from rebalancer.planning.assemble import assemble
from rebalancer.planning.scheduler_facts import configured_schedulers
from rebalancer_lab.shadow.tally import Shadow, ShadowTally


def follow(
    options: PlanOptions,
    other: Path,
    seconds: float,
    decisions: int | None,
    stepped: Callable[[Tally], None],
) -> Shadow:
    """Compare for so long, or so many decisions, or until a signal; ``stepped`` gets the tally of each step.

    Raises what reading a cluster does, and InputError where the configuration cannot be used.
    """
    loaded = policy_of(options)
    theirs = replace(options, scheduler_config=other)
    texts = configuration_texts(loaded, other)
    configured_schedulers(loaded, texts, options.assume_neutral, InstalledPlugins())  # a mistake is found now
    loaded = by_requests(loaded)
    api = open_api(options)
    shadow = ShadowTally(str(other))

    def compare(tally: Tally, step: Step | None) -> None:
        if step is not None:
            observation = observe(
                replace(theirs, now=step.observation.now, observed=lambda _observation, _state: None),
                (loaded,),
                api,
                snapshot=step.observation.snapshot,
            )
            inputs = assemble(observation, loaded, None)
            shadow.add(step.decided_by(inputs), step.inputs.snapshot)
        stepped(tally)

    agreement = watch_agreement(options, seconds, decisions, compare)
    return Shadow(shadow=shadow.report(), agreement=agreement)
