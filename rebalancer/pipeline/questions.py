"""What the commands that ask questions do: read a cluster once, and let ``rebalancer.questions`` answer."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from rebalancer.errors import InputError
from rebalancer.pipeline.planning import plan_inputs
from rebalancer.pipeline.run_settings import PipelineOptions
from rebalancer.questions.changes import Changes
from rebalancer.questions.fit import Fit, fit
from rebalancer.questions.pod_specs import asked_pod, read_pod
from rebalancer.questions.what_if import what_if
from rebalancer.questions.what_if_values import WhatIf


def fit_pods(options: PipelineOptions, text: str, source: str, namespace: str | None, at_most: int) -> Fit:
    """How many more of the pods that ``text`` describes fit; InputError where it describes none."""
    document, kind = read_pod(text, source, namespace)  # before the cluster is read, which takes time
    inputs = plan_inputs(dataclasses.replace(options, only_look=True))
    asked = asked_pod(document, kind, inputs.snapshot, namespace)
    return fit(inputs, asked, at_most, options.progress)


def what_if_changed(options: PipelineOptions, changes: Changes, scheduler_config: Path | None) -> WhatIf:
    """What changes would do, and another scheduler configuration, read from a file."""
    if not changes and scheduler_config is None:
        raise InputError(
            "what is to change?", hint="give --drain, --cordon, --add-node, --scale or --scheduler-config"
        )
    options = dataclasses.replace(options, only_look=True)
    inputs = plan_inputs(options)
    if scheduler_config is None:
        return what_if(inputs, changes)
    other = dataclasses.replace(options, scheduler_config=scheduler_config)
    return what_if(inputs, changes, plan_inputs(other, inputs.snapshot))
