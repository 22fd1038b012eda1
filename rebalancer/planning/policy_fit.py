"""Whether a policy fits the cluster: what in it can never take effect here.

A policy made for another cluster moves nothing and breaks nothing, so without a word it looks as if there
were nothing to do. Each sentence names the setting and what the cluster has instead.
"""

from __future__ import annotations

from collections.abc import Iterator

from rebalancer.planning.inputs import PlanningInputs
from rebalancer.policy.hotness import ScoreRule
from rebalancer.profiles.types import ExtensionPoint


def misfits(inputs: PlanningInputs) -> Iterator[str]:
    """One warning for each setting that no pod, profile or plugin of the cluster answers to."""
    configured = inputs.configuration.scheduler_names
    wanted = inputs.policy.scheduler.profiles or configured
    missing = [name for name in wanted if name not in configured]
    if missing:
        yield (
            f"scheduler.profiles: {', '.join(missing)} is not in the scheduler's configuration, which has "
            f"{', '.join(configured)}: no pod of it is moved"
        )
    acting = [name for name in wanted if name in configured]
    used = {pod.scheduler_name for pod in inputs.snapshot.pods.classes}
    if inputs.policy.scheduler.profiles and acting and not used & set(acting):
        yield f"scheduler.profiles: no pod has schedulerName {' or '.join(acting)}: no pod is moved"
    profiles = [profile for name in acting if (profile := inputs.configuration.profile(name))]
    scoring = {name for profile in profiles for name in profile.enabled(ExtensionPoint.SCORE)}
    for rule in inputs.policy.hot_nodes.every_rule:
        named = (rule.score.plugins or ()) if isinstance(rule, ScoreRule) else ()
        if named and not scoring & set(named):
            yield (
                f"hotNodes: no profile that the policy acts on scores by {' or '.join(named)}: "
                "this score rule makes no node hot"
            )
