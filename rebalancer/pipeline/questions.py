"""What the commands that ask questions do: read a cluster once, and let ``rebalancer.questions`` answer."""

from __future__ import annotations

import dataclasses

from rebalancer.pipeline.planning import plan_inputs
from rebalancer.pipeline.run_settings import PipelineOptions
from rebalancer.questions.fit import Fit, fit
from rebalancer.questions.pod_specs import asked_pod, read_pod


def fit_pods(options: PipelineOptions, text: str, source: str, namespace: str | None, at_most: int) -> Fit:
    """How many more of the pods that ``text`` describes fit; InputError where it describes none."""
    document, kind = read_pod(text, source, namespace)  # before the cluster is read, which takes time
    inputs = plan_inputs(dataclasses.replace(options, only_look=True))
    asked = asked_pod(document, kind, inputs.snapshot, namespace)
    return fit(inputs, asked, at_most, options.progress)
