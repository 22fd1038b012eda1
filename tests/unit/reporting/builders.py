"""Small plans and outcomes for tests of reports."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from rebalancer.execution.outcomes import Outcome, Outcomes
from rebalancer.planning.plan import (
    Change,
    Landing,
    Level,
    Move,
    NodeAfter,
    NodeReport,
    Plan,
    PodReference,
    UnmovedPod,
)
from rebalancer.state.results import Result

NOW = "2026-11-20T12:00:00Z"


def a_pod(name: str = "web-7d9f8b6c5d-x2x4z", namespace: str = "shop") -> PodReference:
    return PodReference(namespace=namespace, name=name, uid=f"uid-{name}", workload="Deployment/web")


def a_move(
    name: str = "web-7d9f8b6c5d-x2x4z",
    *,
    from_node: str = "node-0001",
    to: tuple[str, ...] = ("node-0007",),
    wave: int = 1,
    gain: float = 12.5,
    because: str = "node-0001 is hot; node-0007 has the highest total, 412 against 397 of the next",
    avoids: Mapping[str, str] | None = None,
) -> Move:
    there = {"cpu": Change(before=20.0, after=43.0)}
    landings = tuple(Landing(node=node, probability=1 / len(to), load=there) for node in to)
    return Move(
        pod=a_pod(name),
        from_node=from_node,
        landings=landings,
        from_load={"cpu": Change(before=91.0, after=68.0)},
        gain={"cpu": gain},
        strategy="hotNodes",
        wave=wave,
        because=because,
        avoids=dict(avoids or {}),
    )


def a_node(
    name: str = "node-0001",
    cpu: float = 91.0,
    *,
    after: float | None = None,
    hot: bool = True,
    hot_after: bool = False,
    because: str = "cpu 91 % is above 80 %",
) -> NodeReport:
    later = None if after is None else NodeAfter(load={"cpu": after, "memory": 51.0}, hot=hot_after)
    return NodeReport(
        name=name, load={"cpu": cpu, "memory": 55.0}, hot=hot, because=(because,), after=later, score=12.0
    )


def a_kept(
    name: str, reason: str = "SingleReplica", because: str = "the only replica of its workload"
) -> UnmovedPod:
    return UnmovedPod(pod=a_pod(name), node="node-0001", reason=reason, because=because)


def a_plan(**changes: object) -> Plan:
    """Two moves from one of two hot nodes; three pods stay."""
    values: dict[str, object] = {
        "source": "production",
        "policy": "k3s-trimaran",
        "inputs": "sha256:0123456789abcdef",
        "now": NOW,
        "node_count": 10,
        "hot_count": 2,
        "known_count": 9,
        "nodes": (
            a_node(after=68.0),
            a_node("node-0002", 84.0, after=84.0, hot_after=True, because="cpu 84 % is above 80 %"),
            a_node("node-0007", 20.0, after=43.0, hot=False),
        ),
        "moves": (
            a_move(),
            a_move("api-5b9c-kk8vq", to=tuple(f"node-{number:04d}" for number in range(3, 10)), wave=2),
        ),
        "kept": (
            a_kept("db-0"),
            a_kept("cache-0"),
            a_kept("agent-x", "DaemonSet", "made by DaemonSet agent, which makes it again on the same node"),
        ),
        "unsolved": {
            "node-0002": "no evictable pod whose replacement lands elsewhere with a gain of 5 points"
        },
        "warnings": (
            "not modelled, so ignored: NetworkTraffic",
            "hotNodes.forRuns is 2 but no state was given: taken as met",
        ),
    }
    return Plan(**(values | changes))  # type: ignore[arg-type]


def a_large_plan() -> Plan:
    """A hundred moves of a cluster of 1,523 nodes, 76 of them hot, with the levels of two pools."""
    levels = [{"cpu": Level(hot_above=hot, cool_to=cool)} for hot, cool in ((80.0, 65.0), (90.0, 80.0))]
    nodes = tuple(
        replace(
            a_node(f"node-{number:04}", 30.0 + number % 70, after=50.0, hot=number < 76),
            levels=levels[number % 7 == 0],
        )
        for number in range(1523)
    )
    moves = tuple(
        a_move(f"web-{number:05}", from_node=f"node-{number:04}", to=(f"node-{1522 - number:04}",))
        for number in range(100)
    )
    kept = tuple(a_kept(f"api-{number:05}", f"Reason{number % 9}") for number in range(4000))
    return a_plan(nodes=nodes, moves=moves, kept=kept, hot_count=76, node_count=1523)


def an_outcome(
    result: Result = Result.LANDED, name: str = "web-7d9f8b6c5d-x2x4z", because: str = "as planned"
) -> Outcome:
    evicted = result.was_requested and result is not Result.REFUSED
    landed = result in (Result.LANDED, Result.LANDED_ELSEWHERE, Result.UNEXPECTED)
    return Outcome(
        move=a_move(name),
        result=result,
        because=because,
        node="node-0007" if landed else "",
        evicted_at=1000.0 if evicted else None,
        bound_at=1001.25 if landed else None,
        ready_at=1006.5 if landed else None,
    )


def some_outcomes(*outcomes: Outcome, stopped: str = "", exit_code: int = 0) -> Outcomes:
    return Outcomes(
        plan_inputs="sha256:0123456789abcdef",
        run="run-1",
        outcomes=outcomes,
        stopped=stopped,
        exit_code=exit_code,
    )
