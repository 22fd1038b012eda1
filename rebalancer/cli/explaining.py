"""Joins the stages for ``explain``: gather as a plan does, then explain one subject."""

from __future__ import annotations

from rebalancer.cli.gathering import gather, load_policy_of, open_api, remembered
from rebalancer.cli.options import PipelineOptions
from rebalancer.planning.explaining import explain
from rebalancer.planning.explanation import NodeExplanation, PodExplanation
from rebalancer.planning.subjects import find_subject


def explained(options: PipelineOptions, subject: str) -> PodExplanation | NodeExplanation:
    """The explanation of what ``subject`` names; InputError with the nearest names when there is none."""
    loaded = load_policy_of(options)
    state = remembered(options)
    gathered = gather(options, loaded, open_api(options), state)
    return explain(gathered.inputs, find_subject(gathered.inputs.snapshot, subject))
