"""The base of all plugin arguments, as pluginConfig states them.

The arguments of each plugin are declared beside the plugin, in ``rebalancer.scheduling.plugins``. What
several packages share is here: the base, the arguments of a plugin nobody describes, and where load-watcher
reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel


class Arguments(BaseModel):
    """Arguments of a plugin: frozen, snake_case in Python, camelCase in text, unknown fields are errors."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, alias_generator=to_camel, populate_by_name=True, allow_inf_nan=False
    )


class RawArguments(Arguments):
    """Arguments of a plugin we do not know, kept as they are."""

    values: Mapping[str, Any] = Field(default={})


class MetricProvider(Arguments):
    """Where the load-watcher that is built into the plugin reads, when ``watcherAddress`` is absent."""

    type: Literal["", "KubernetesMetricsServer", "Prometheus", "SignalFx", "Datadog"] = (
        "KubernetesMetricsServer"
    )
    address: str = ""
    token: str = Field(default="", repr=False)
    insecure_skip_verify: bool | None = None
