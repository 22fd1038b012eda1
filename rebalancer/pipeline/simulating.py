"""What ``simulate`` does: the same recorded cluster gathered under every policy, then cycle after cycle."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from rebalancer.pipeline.gathering import gather, policy_of
from rebalancer.pipeline.run_settings import PipelineOptions
from rebalancer.planning.inputs import PlanningInputs
from rebalancer.simulation.cycles import simulate

__all__ = ["inputs_by_policy", "simulate"]


def inputs_by_policy(options: PipelineOptions, policies: Sequence[Path]) -> list[tuple[str, PlanningInputs]]:
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
