"""Joins the stages for ``explain``: gather as a plan does, then explain one subject."""

from __future__ import annotations

from rebalancer.pipeline.gathering import gather, load_policy_of, open_api, remembered
from rebalancer.pipeline.options import PipelineOptions
from rebalancer.planning import explain, find_subject
from rebalancer.planning.explanation.values import NodeExplanation, PodExplanation


def explained(options: PipelineOptions, subject: str) -> PodExplanation | NodeExplanation:
    """The explanation of what ``subject`` names; InputError with the nearest names when there is none."""
    loaded = load_policy_of(options)
    state = remembered(options)
    gathered = gather(options, loaded, open_api(options), state)
    return explain(gathered.inputs, find_subject(gathered.inputs.snapshot, subject))
