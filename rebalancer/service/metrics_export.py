"""Metrics of a program that ends: nobody can scrape it, so it writes them to a file or sends them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from rebalancer import __version__, files
from rebalancer.otlp import export_metrics

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

_PUSH_SECONDS = 10.0


def export(
    registry: CollectorRegistry,
    path: Path | None,
    push_gateway: str | None,
    warn: Callable[[str, str, object], None],
) -> None:
    """Write and push metrics, and send them where the OTEL_* variables say; a failure is only a warning."""
    from http.client import HTTPException  # noqa: PLC0415 - slow to import, as the next one

    from prometheus_client import generate_latest, push_to_gateway, write_to_textfile  # noqa: PLC0415

    export_metrics(registry, __version__)
    if path is not None:
        try:
            if files.is_there(path) and not files.is_file(path):
                path.write_bytes(generate_latest(registry))  # /dev/stderr and its like are not replaced
            else:
                write_to_textfile(os.path.realpath(path), registry)
        except OSError as error:
            warn("cannot write metrics to %s: %s", str(path), error.strerror or error)
    if push_gateway is not None:
        try:
            push_to_gateway(push_gateway, job="rebalancer", registry=registry, timeout=_PUSH_SECONDS)
        except (OSError, ValueError, HTTPException) as error:
            warn("cannot push metrics to %s: %s", push_gateway, error)
