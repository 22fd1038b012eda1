"""The scheduling model as the planner uses it: one scheduler a profile, and which classes it cannot place."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rebalancer.cluster.nodes import FloatArray
from rebalancer.cluster.pods import NO_OWNER, PodClass
from rebalancer.cluster.records import Container, PodSpec, ResourceRequirements
from rebalancer.planning.doubts import find_doubts
from rebalancer.planning.hotness import score_key
from rebalancer.planning.inputs import PlanningInputs
from rebalancer.policy import ScoreRule
from rebalancer.profiles.types import ExtensionPoint, Profile, SchedulerConfiguration
from rebalancer.scheduling.cycle import Scheduler
from rebalancer.scheduling.registry import PluginInputs, make_scheduler, neutral_plugins
from rebalancer.scheduling.sampling import nodes_to_find
from rebalancer.scheduling.state import ClusterState


class Model:
    """Places pods of any class by the profile that its schedulerName picks."""

    def __init__(self, inputs: PlanningInputs) -> None:
        self.inputs = inputs
        self.state = ClusterState.of(inputs.snapshot, inputs.scheduler_version)
        plugin_inputs = PluginInputs.of(inputs.snapshot, inputs.view)
        configuration = inputs.configuration
        self.schedulers: Mapping[str, Scheduler] = {
            profile.scheduler_name: make_scheduler(configuration, profile, plugin_inputs)
            for profile in configuration.profiles
        }
        self.neutral = neutral_everywhere(configuration)

    def scheduler(self, class_index: int) -> Scheduler:
        """The scheduler of a class; KeyError when no profile has its schedulerName."""
        return self.schedulers[self.state.facts.classes[class_index].scheduler_name]

    def nodes_to_find(self, class_index: int) -> int:
        """How many feasible nodes end the scheduler's search; when more are feasible it takes a sample."""
        configuration = self.inputs.configuration
        profile = self.scheduler(class_index).profile
        percentage = profile.percentage_of_nodes_to_score
        if percentage is None:
            percentage = configuration.percentage_of_nodes_to_score
        return nodes_to_find(len(self.inputs.snapshot.nodes), percentage)

    def unpredictable(self) -> Mapping[int, str]:
        """Why pods of a class cannot be placed by the model, by class."""
        return find_doubts(self.inputs)

    def rule_scores(self) -> Mapping[str, FloatArray]:
        """(nodes,) 0..100 by score rule of the policy: the weighted mean of its plugins for a plain pod."""
        found: dict[str, FloatArray] = {}
        for rule in self.inputs.policy.hot_nodes.any:
            if isinstance(rule, ScoreRule):
                scores = self._mean_scores(rule.score.plugins)
                if scores is not None:
                    found[score_key(rule)] = scores
        return found

    def node_scores(self) -> FloatArray | None:
        """(nodes,) 0..100: all score plugins of the first profile that acts, for a plain pod."""
        names = self.inputs.policy.scheduler.profiles or self.inputs.configuration.scheduler_names
        scheduler = self.schedulers.get(names[0]) if names else None
        if scheduler is None:
            return None
        return self._mean_scores(scheduler.profile.enabled(ExtensionPoint.SCORE), scheduler)

    def _mean_scores(self, plugins: tuple[str, ...], scheduler: Scheduler | None = None) -> FloatArray | None:
        candidates = [scheduler] if scheduler else list(self.schedulers.values())
        for candidate in candidates:
            plain = self._plain_pod(candidate.profile)
            scores = candidate.scores_everywhere(self.state, plain)
            named = [name for name in plugins if name in scores]
            if named:
                weights = candidate.profile.weights
                total = sum(weights[name] for name in named)
                weighted = sum(weights[name] * scores[name].astype(np.float64) for name in named)
                return np.asarray(weighted / total, np.float64)
        return None

    def _plain_pod(self, profile: Profile) -> int:
        """A pod without constraints that requests the median of the profile's pods."""
        facts = self.state.facts
        requests = [
            facts.requests[class_index].incoming
            for class_index in self.inputs.snapshot.pods.pod_class.tolist()
            if facts.classes[class_index].scheduler_name == profile.scheduler_name
        ]
        cpu = int(np.median([item.get("cpu", 0) for item in requests])) if requests else 0
        memory = int(np.median([item.get("memory", 0) for item in requests])) if requests else 0
        resources = ResourceRequirements(requests={"cpu": f"{cpu}m", "memory": str(memory)})
        spec = PodSpec(scheduler_name=profile.scheduler_name, containers=[Container(resources=resources)])
        return facts.add(PodClass("", {}, NO_OWNER, spec, (), False))


def neutral_everywhere(configuration: SchedulerConfiguration) -> tuple[str, ...]:
    """Plugins of any profile that are not modelled and so count as neutral."""
    names = {
        name
        for profile in configuration.profiles
        for name in neutral_plugins(profile, configuration.extra_plugins)
    }
    return tuple(sorted(names | set(configuration.assumed_neutral)))
