"""Just enough of a cluster to carry out a plan on."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from rebalancer.cluster import times
from rebalancer.execution.journal import Journal
from rebalancer.execution.outcomes import Outcome, Outcomes
from rebalancer.execution.waves import carry_out
from rebalancer.planning.plan import Move
from tests.unit.execution.builders import NOW, a_plan
from tests.unit.execution.contexts import a_context
from tests.unit.execution.fake_api import Answer, FakeTime, Request, fake_api, not_found


class TinyCluster:
    """Pods of one controller; an evicted one is gone at once, and replaced on ``lands_on`` if set."""

    def __init__(self, time: FakeTime, *names: str) -> None:
        self.time = time
        self.lands_on = "cool"
        self.bound_after = 0.0  # seconds that a replacement waits for its node
        self.listed = 0  # how often its pods were listed
        self.evicted: list[str] = []
        self.evicted_at: list[float] = []
        self.refuse: dict[str, Answer] = {}
        self.controllers: list[dict[str, Any]] | None = None  # None: they may not be read
        self.pods = {name: self._pod(name, "hot", NOW - 600) for name in names}

    def _pod(self, name: str, node: str, created: float) -> dict[str, Any]:
        owner = {"kind": "ReplicaSet", "name": "web", "uid": "rs-uid", "controller": True}
        since = times.render(created)
        conditions = [{"type": "Ready", "status": "True", "lastTransitionTime": since}]
        return {
            "metadata": {
                "namespace": "shop",
                "name": name,
                "uid": f"uid-{name}",
                "creationTimestamp": since,
                "ownerReferences": [owner],
            },
            "spec": {"nodeName": node},
            "status": {"phase": "Running", "conditions": conditions},
        }

    def __call__(self, request: Request) -> Answer | Exception:
        if request.path == "/api/v1/nodes":
            node = {
                "metadata": {"name": "cool"},
                "status": {"conditions": [{"type": "Ready", "status": "True"}]},
            }
            return Answer(200, {"kind": "NodeList", "items": [node]})
        if request.path == "/api/v1/pods":
            return Answer(200, {"kind": "PodList", "items": []})
        if request.path == "/api/v1/namespaces/shop/pods":
            self.listed += 1
            return Answer(200, {"kind": "PodList", "items": [self.now(pod) for pod in self.pods.values()]})
        if request.path.endswith("/replicasets") and self.controllers is not None:
            return Answer(200, {"kind": "ReplicaSetList", "items": self.controllers})
        name = request.path.removesuffix("/eviction").rsplit("/", 1)[-1]
        if request.method == "GET":
            return Answer(200, self.pods[name]) if name in self.pods else not_found(request.path)
        assert request.method == "POST"
        if name in self.refuse:
            return self.refuse[name]
        if name not in self.pods:
            return not_found(request.path)
        if "dryRun" not in request.query:
            self.evict(name)
        return Answer(201, {"kind": "Status", "status": "Success"})

    def now(self, pod: dict[str, Any]) -> dict[str, Any]:
        """A pod as it is now: a replacement gets its node after a while."""
        waits = self.time.now < times.parse(pod["metadata"]["creationTimestamp"]) + self.bound_after
        return {**pod, "spec": {"nodeName": ""}} if waits else pod

    def evict(self, name: str) -> None:
        """Let a pod go, and another one come."""
        self.evicted.append(name)
        self.evicted_at.append(self.time.now)
        del self.pods[name]
        if self.lands_on:
            new = f"new-{len(self.evicted)}"
            self.pods[new] = self._pod(new, self.lands_on, self.time.now)


class Run:
    """A run on a tiny cluster, and what it left."""

    def __init__(self, *names: str) -> None:
        self.time = FakeTime(NOW)
        self.cluster = TinyCluster(self.time, *names)
        self.stream = io.StringIO()
        self.checkpoints: list[Sequence[Outcome]] = []

    def __call__(self, *moves: Move, **changes: Any) -> Outcomes:
        api, _ = fake_api(self.cluster, self.time)
        journal = changes.pop("journal", None) or Journal(self.stream, "run-1", self.time.clock)
        given = {"save": self.checkpoints.append, **changes}
        cleanups = given.pop("cleanups", ())
        plan = replace(a_plan(*moves), unsolved=given.pop("unsolved", {}), cleanups=cleanups)
        context = a_context(given.pop("api", api), journal, self.time.clock, self.time.sleep, **given)
        return carry_out(plan, context)

    def journal(self) -> list[tuple[str, str]]:
        lines = [msgspec.json.decode(line) for line in self.stream.getvalue().splitlines()]
        return [(line["event"], line.get("pod", "")) for line in lines]
