"""What a service is started with."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rebalancer.execution.lease import DURATION_SECONDS


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceOptions:
    """How the service acts, and where it is seen; where its plans come from are ``PipelineOptions``."""

    act: bool = False  # False: every replica plans, and nothing is changed
    host: str = "127.0.0.1"
    port: int = 8080  # 0: any that is free, which the log names
    lease: str = "rebalancer/rebalancer"  # NAMESPACE/NAME
    lease_seconds: float = DURATION_SECONDS  # how long it is held without being renewed
    journal: Path | None = None  # None: stderr
    max_duration_seconds: float = 300.0  # no wave of a run begins later
