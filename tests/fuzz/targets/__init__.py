"""One module per decoder; ``ALL`` is every target by its name."""

from __future__ import annotations

from tests.fuzz.target import Target
from tests.fuzz.targets import (
    answers,
    configurations,
    dumps,
    extenders,
    kubeconfigs,
    load_watcher,
    metrics,
    notes,
    plans,
    policies,
    prometheus,
    timelines,
)

ALL: dict[str, Target] = {
    target.name: target
    for module in (
        policies, configurations, extenders, dumps, timelines, answers, metrics, load_watcher, prometheus,
        kubeconfigs, notes, plans,
    )
    for target in module.TARGETS
}  # fmt: skip
