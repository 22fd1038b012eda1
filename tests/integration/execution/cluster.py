"""A small embedded cluster with a hot node, and a run on it whose waiting takes no time."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec

from rebalancer.cluster.live import RawApi
from rebalancer.cluster.live.client import KubernetesClient
from rebalancer.cluster.live.login import official_login
from rebalancer.execution.evict import Patience
from rebalancer.execution.journal import Journal
from rebalancer.execution.lease import RunLease
from rebalancer.execution.outcomes import Outcomes
from rebalancer.execution.waves import carry_out
from rebalancer.planning.plan import Landing, Move, Plan, PodReference
from rebalancer.policy.schema import Execution
from rebalancer.retries import Retries
from rebalancer_demo import Sandbox
from rebalancer_demo.objects import Object, node_of
from tests.integration.demo.builders import StillClock, a_node, a_pod, a_replica_set, client_of
from tests.unit.execution.contexts import a_context

NODES = ("hot", "cool", "other")


class SimulatedTime:
    """The clock of a cluster and of the run on it: while the run sleeps, the cluster does what is due."""

    def __init__(self, sandbox: Sandbox) -> None:
        assert isinstance(sandbox.clock, StillClock)
        self.clock = sandbox.clock
        self.meanwhile: list[Callable[[], object]] = []  # what happens while the run sleeps next
        self._sandbox = sandbox

    def sleep(self, seconds: float) -> None:
        while self.meanwhile:
            self.meanwhile.pop()()
        self._sandbox.settle()
        self.clock.advance(seconds)
        self._sandbox.settle()


def hot_cluster(
    owner: Object, *, replicas: int = 3, more: tuple[Object, ...] = (), **options: Any
) -> Sandbox:
    """Three nodes; the pods of one workload, all on ``hot``."""
    stateful = owner["kind"] == "StatefulSet"
    names = [f"db-{index}" if stateful else f"web-{index}" for index in range(replicas)]
    app = owner["metadata"]["name"]
    pods = [a_pod(name, node="hot", owner=owner, app=app) for name in names]
    return Sandbox(
        [*(a_node(name, cpu="16") for name in NODES), owner, *pods, *more],
        **{"clock": StillClock(), "ready_after": 0.02, "terminates_after": 0.02, **options},
    )


def a_move_of(
    sandbox: Sandbox, name: str, *, to: tuple[str, ...] = ("cool", "other"), wave: int = 1, uid: str = ""
) -> Move:
    pod = sandbox.pod("shop", name)
    assert pod is not None
    owner = pod["metadata"]["ownerReferences"][0]
    return Move(
        pod=PodReference(
            namespace="shop",
            name=name,
            uid=uid or pod["metadata"]["uid"],
            workload=f"{owner['kind']}/{owner['name']}",
            controller_kind=owner["kind"],
            controller_name=owner["name"],
            controller_uid=owner["uid"],
        ),
        from_node=node_of(pod),
        landings=tuple(Landing(node, 1 / len(to)) for node in to),
        gain={"cpu": 10.0},
        wave=wave,
        because="hot is at 90%",
        load={"cpu": 500.0},
    )


@dataclass
class Runner:
    """Runs plans on a sandbox, and keeps what a run leaves."""

    sandbox: Sandbox
    api: RawApi
    time: SimulatedTime
    journal: io.StringIO = field(default_factory=io.StringIO)

    def lease(self, identity: str = "run-1") -> RunLease:
        return RunLease(self.api, "kube-system", "rebalancer", identity, self.time.clock)

    def run(self, *moves: Move, timeout: float = 300.0, unexpected: str = "stop", **changes: Any) -> Outcomes:
        journal = Journal(self.journal, "run-1", self.time.clock)
        options: dict[str, Any] = {
            "execution": Execution(wave_timeout=timeout, on_unexpected_landing=unexpected),  # type: ignore[arg-type]
            "check_landing": lambda _move, node: f"{node} is hot" if node == "hot" else None,
            "patience": Patience(attempts=3, seconds=5),
            **changes,
        }
        api = options.pop("api", self.api)
        plan = Plan(source="t", policy="t", inputs="digest", now="2027-01-01T00:00:00Z", moves=moves)
        held = self.lease().acquire()
        try:
            given = {"lease": held, **options}
            return carry_out(plan, a_context(api, journal, self.time.clock, self.time.sleep, **given))
        finally:
            held.release()

    def journaled(self) -> list[Mapping[str, Any]]:
        return [msgspec.json.decode(line) for line in self.journal.getvalue().splitlines()]

    def events(self) -> list[str]:
        return [str(line["event"]) for line in self.journaled()]


@contextmanager
def running(sandbox: Sandbox) -> Iterator[Runner]:
    with sandbox, client_of(sandbox) as api:
        time = SimulatedTime(sandbox)
        client = KubernetesClient(official_login(api))
        yield Runner(sandbox, RawApi(client, Retries(pause=time.sleep, clock=time.clock)), time)


@contextmanager
def a_hot_cluster(**options: Any) -> Iterator[Runner]:
    """Three replicas of ``web`` on ``hot``; the scheduler has had time to settle."""
    with running(hot_cluster(a_replica_set("web", replicas=3), **options)) as runner:
        yield runner
