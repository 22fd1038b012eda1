"""A past move, as a state keeps it."""

from __future__ import annotations

from typing import Any

from rebalancer.state.run_state import PastMove

NOW = 1_700_000_000.0


def a_past_move(
    name: str = "web-1", *, at: float = NOW, workload: str = "Deployment/web", uid: str = "", **more: Any
) -> PastMove:
    return PastMove(
        namespace="shop",
        name=name,
        uid=uid or f"uid-{name}",
        workload=workload,
        controller_uid=f"of-{workload}",
        from_node="hot",
        evicted_at=at,
        **more,
    )
