"""Joins the stages for ``simulate``: the same recorded cluster gathered under every policy."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from rebalancer.pipeline.gathering import gather, load_policy_of
from rebalancer.pipeline.options import PipelineOptions
from rebalancer.planning import PlanningInputs
from rebalancer.simulation.running import simulate

__all__ = ["gathered", "simulate"]


def gathered(options: PipelineOptions, policies: Sequence[Path]) -> list[tuple[str, PlanningInputs]]:
    """The inputs of a plan under each policy, by its name; under the default one where none is given."""
    found: list[PlanningInputs] = []
    for path in policies or (None,):
        chosen = dataclasses.replace(options, policy_path=path)
        found.append(gather(chosen, load_policy_of(chosen), None, None).inputs)
    return list(zip(_names(found, policies), found, strict=True))


def _names(found: Sequence[PlanningInputs], policies: Sequence[Path]) -> list[str]:
    """Each policy's own name, with its file where two have the same."""
    names = [inputs.policy.metadata.name for inputs in found]
    seen = Counter(names)
    return [f"{name} ({policies[index]})" if seen[name] > 1 else name for index, name in enumerate(names)]
