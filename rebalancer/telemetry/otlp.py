"""Whether and how OpenTelemetry is wanted: only the OTEL_* variables say so, as for every other program.

    OTEL_EXPORTER_OTLP_ENDPOINT=http://collector:4318            traces and metrics
    OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://…/v1/traces        traces alone
    OTEL_SDK_DISABLED=true, OTEL_METRICS_EXPORTER=none           nothing, no metrics
    OTEL_EXPORTER_OTLP_PROTOCOL=grpc                             nothing: OTLP over HTTP alone is supported

The packages are an extra, ``rebalancer[otel]``, and are imported here and in ``traces`` and ``otlp_metrics``
only, when they are wanted.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from opentelemetry.sdk.resources import Resource

LOGGER = logging.getLogger(__name__)
EXPORT_SECONDS = 10.0  # a collector that does not answer by then gets nothing
_PROTOCOL = "http/protobuf"


def is_wanted(signal: Literal["TRACES", "METRICS"], environment: Mapping[str, str] = os.environ) -> bool:
    """Whether the variables name a collector for this signal, and the packages for it are there.

    Logs a warning where one is named and cannot be used.
    """
    own = f"OTEL_EXPORTER_OTLP_{signal}"
    if environment.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return False
    if environment.get(f"OTEL_{signal}_EXPORTER", "otlp") != "otlp":
        return False
    if not (environment.get(f"{own}_ENDPOINT") or environment.get("OTEL_EXPORTER_OTLP_ENDPOINT")):
        return False
    variable = f"{own}_PROTOCOL" if environment.get(f"{own}_PROTOCOL") else "OTEL_EXPORTER_OTLP_PROTOCOL"
    protocol = environment.get(variable)
    if protocol and protocol != _PROTOCOL:
        LOGGER.warning(
            "no %s are sent: %s is %s, and only %s is supported; set it to that, with the endpoint of the "
            "collector's HTTP receiver, usually port 4318",
            *(signal.lower(), variable, protocol, _PROTOCOL),
        )
        return False
    try:
        import opentelemetry.exporter.otlp.proto.http  # noqa: F401, PLC0415 - an extra
    except ImportError:
        LOGGER.warning("the OTEL_* variables ask for %s: install rebalancer[otel]", signal.lower())
        return False
    return True


def resource(version: str, environment: Mapping[str, str] = os.environ) -> Resource:
    """Who sends this: what the variables say, and our name where they name no service."""
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415 - an extra

    attributes = {"service.version": version}
    named = "service.name=" in environment.get("OTEL_RESOURCE_ATTRIBUTES", "")
    if not named and not environment.get("OTEL_SERVICE_NAME"):
        attributes["service.name"] = "rebalancer"
    return Resource.create(attributes)
