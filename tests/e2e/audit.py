"""The API server's own account of evictions: its audit log."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rebalancer.cluster import times

_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived", "ResponseStarted"],
    "rules": [
        {"level": "Request", "resources": [{"group": "", "resources": ["pods/eviction"]}]},
        {"level": "None"},
    ],
}


@dataclass(frozen=True)
class AuditedEviction:
    """One request for an eviction as the API server saw it."""

    uid: str  # of the pod that was meant
    received_at: float  # Unix seconds, this machine's clock
    status: int

    @property
    def accepted(self) -> bool:
        """Whether the pod goes."""
        return self.status < 300


class AuditLog:
    """Reads the log that an API server writes when it is started with ``flags``."""

    def __init__(self, folder: Path) -> None:
        self._log = folder / "audit.log"
        policy = folder / "audit-policy.json"
        policy.write_text(json.dumps(_POLICY))
        self.flags = [f"--audit-policy-file={policy}", f"--audit-log-path={self._log}"]
        self._log.touch()

    def evictions(self) -> list[AuditedEviction]:
        """All requests for evictions that were answered so far."""
        lines = self._log.read_text().split("\n")[:-1]  # what follows the last newline is being written
        return [_eviction(json.loads(line)) for line in lines if line]


def _eviction(event: dict[str, Any]) -> AuditedEviction:
    options = event.get("requestObject", {}).get("deleteOptions") or {}
    return AuditedEviction(
        uid=(options.get("preconditions") or {}).get("uid", ""),
        received_at=times.parse(event["requestReceivedTimestamp"]),
        status=event["responseStatus"]["code"],
    )
