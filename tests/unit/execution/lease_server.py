"""An API server that keeps one lease."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from urllib3.exceptions import ProtocolError

from rebalancer.cluster.live import RawApi
from rebalancer.execution.lease import RunLease
from tests.unit.execution.fake_api import Answer, FakeTime, Request, not_found, refusal

NAMED = {"namespace": "kube-system", "name": "rebalancer"}


class LeaseServer:
    """Keeps one lease as the API server does: versions, conflicts, and faults on demand."""

    def __init__(self) -> None:
        self.item: dict[str, Any] | None = None
        self.version = 0
        self.faults: list[Any] = []
        self.carried_out: list[Answer] = []  # what writes that are carried out are answered with
        self.unreadable = False
        self.while_writing: Callable[[], None] = lambda: None
        self.while_reading: Callable[[], None] = lambda: None
        self.once_written: Callable[[], None] = lambda: None

    def __call__(self, request: Request) -> Answer | Exception:
        if request.method == "GET" and self.unreadable:
            return ConnectionResetError(104, "reset")
        if request.method == "GET":
            self.while_reading()
            return not_found(request.path) if self.item is None else Answer(200, self.item)
        fault = self.faults.pop(0) if self.faults else None
        if fault is not None and fault != "lost":
            return fault if isinstance(fault, Exception) else Answer(**fault)
        if request.method == "POST" and self.item is not None:
            return refusal(409, "already exists")
        if request.method == "PUT":
            sent = request.body["metadata"].get("resourceVersion")
            if self.item is None or sent != self.item["metadata"]["resourceVersion"]:
                return refusal(409, "the object has been modified")
        self.while_writing()
        self.version += 1
        self.item = request.body
        self.item["metadata"]["resourceVersion"] = str(self.version)
        self.once_written()
        if self.carried_out:
            return self.carried_out.pop(0)
        return ProtocolError("reset") if fault == "lost" else Answer(200, self.item)


def lease_of(api: RawApi, time: FakeTime, identity: str = "one", *, skew: float = 0.0) -> RunLease:
    """A run whose clock is wrong by ``skew``; its waiting takes the time that it takes for all."""
    return RunLease(api, "kube-system", "rebalancer", identity, lambda: time.now + skew)


def spec(server: LeaseServer) -> dict[str, Any]:
    assert server.item is not None
    return dict(server.item["spec"])
