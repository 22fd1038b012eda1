"""Where load is read: each source is a map with a single key that names it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import BaseModel, Discriminator, Field, Tag

from rebalancer.policy.load_sources.prometheus import PrometheusSource
from rebalancer.policy.model import PolicyModel


class LoadWatcher(PolicyModel):
    """load-watcher's HTTP API, the source the Trimaran plugins read."""

    address: str = Field(
        min_length=1,
        pattern=r"^https?://[^\s/]+",
        json_schema_extra={"examples": ["http://load-watcher.loadwatcher:2020"]},
        description="URL of load-watcher, without the /watcher path.",
    )


class MetricsServer(PolicyModel):
    """The Metrics API, metrics.k8s.io."""


class Requests(PolicyModel):
    """No measurement: the requests of the pods stand for their load."""


class Recorded(PolicyModel):
    """The figures recorded with a snapshot."""


class LoadWatcherSource(PolicyModel):
    """Load from load-watcher."""

    load_watcher: LoadWatcher = Field(description="Read load-watcher at an address.")


class MetricsServerSource(PolicyModel):
    """Load from metrics-server."""

    metrics_server: MetricsServer = Field(description="Read the Metrics API.")


class RequestsSource(PolicyModel):
    """Load from the pods' requests."""

    requests: Requests = Field(description="Use the requests of pods as their load.")


class RecordedSource(PolicyModel):
    """Load as a snapshot recorded it."""

    recorded: Recorded = Field(description="Read the figures recorded with a snapshot.")


def one_key_of(*keys: str, note: str = "") -> Discriminator:
    """A discriminator for mappings whose kind is given by exactly one of ``keys`` (camelCase)."""

    def tag(value: object) -> str | None:
        if isinstance(value, BaseModel):
            names = {field.alias or name for name, field in type(value).model_fields.items()}
        elif isinstance(value, Mapping):
            names = {str(key) for key in value}
        else:
            names = set()
        found = [key for key in keys if key in names]
        return f"<{found[0]}>" if len(found) == 1 else None

    listed = f"{', '.join(keys[:-1])} or {keys[-1]}"
    return Discriminator(
        tag, custom_error_type="one_key", custom_error_message=f"needs exactly one of the keys {listed}{note}"
    )


LoadSource = Annotated[
    Annotated[LoadWatcherSource, Tag("<loadWatcher>")]
    | Annotated[MetricsServerSource, Tag("<metricsServer>")]
    | Annotated[PrometheusSource, Tag("<prometheus>")]
    | Annotated[RequestsSource, Tag("<requests>")]
    | Annotated[RecordedSource, Tag("<recorded>")],
    one_key_of("loadWatcher", "metricsServer", "prometheus", "requests", "recorded"),
]
"""One of the load sources; its key states which."""
