"""One world and the runs that act in it, each stopped before every request until it is chosen to go on."""

from __future__ import annotations

import contextlib
import io
import json
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import urllib3

from rebalancer.cluster import times
from rebalancer.cluster.live import RawApi
from rebalancer.cluster.live.failures import StatusError
from rebalancer.cluster.live.login import Login
from rebalancer.errors import RebalancerError
from rebalancer.execution.journal import Journal
from rebalancer.execution.lease import HeldLease, RunLease
from rebalancer.execution.outcomes import Outcomes
from rebalancer.execution.waves import carry_out
from rebalancer.http import Answer, NoAnswerError
from rebalancer.planning.plan import Landing, Move, Plan, PodReference
from rebalancer.policy.schema import Execution
from rebalancer.retries import Retries
from rebalancer.run.memory import RunMemory
from rebalancer.run.run import Run as RealRun
from rebalancer.state.run_state import MoveHistory, after_plan, decode
from rebalancer.state.stores import ConfigMapStore
from tests.unit.execution.contexts import a_context
from tests.unit.execution.fake_api import SERVED, not_found

BEGIN = 1_700_000_000.0
COOLDOWN = 3600.0
EVICTION_SECONDS = 35.0  # an eviction that is not answered by then has failed
JUMP_SECONDS = 61.0
WRITES = ("create", "replace", "evict")
PLANNED = "/api/v1/namespaces/plan/pods"  # what a run reads to plan
Choice = tuple[str, int]


def _gate() -> threading.Lock:
    """A closed gate: ``acquire`` waits until somebody else releases it, in a tenth of a semaphore's time."""
    gate = threading.Lock()
    gate.acquire()
    return gate


class Killed(BaseException):
    """A run was killed: it asks for nothing more."""


class BrokenError(AssertionError):
    """A property that must hold in every schedule does not."""


@dataclass(frozen=True)
class Trouble:
    """How much of it a schedule may hold."""

    jumps: int = 0  # times that a minute passes at once
    kills: int = 0
    lost: int = 0  # answers or requests


class World:
    """What all runs share."""

    def __init__(self, skews: Sequence[float], trouble: Trouble) -> None:
        self.now = 0.0
        self.lease: dict[str, Any] | None = None
        self.config_map: dict[str, Any] | None = None
        self.pods = {name: ("hot", f"uid-{name}") for name in ("a-1", "b-1")}
        self.evicted: list[tuple[str, str, int]] = []  # uid, workload, by which run
        self.left = trouble
        self.turn = _gate()
        self.runs = [Run(self, number, skew) for number, skew in enumerate(skews)]
        for run in self.runs:
            run.start()

    def choices(self) -> list[Choice]:
        """What may happen next."""
        found: list[Choice] = []
        for run in self.runs:
            if run.over or run.wakes_at > self.now:
                continue
            writes = run.pending.startswith(WRITES)
            found.append(("step", run.number))
            if self.left.lost and writes:
                found += [("answer lost", run.number), ("request lost", run.number)]
            if self.left.kills:
                found.append(("killed", run.number))
                if writes:
                    found.append(("killed after", run.number))
        waking = [run.wakes_at - self.now for run in self.runs if not run.over and run.wakes_at > self.now]
        if waking and self._may_pass(min(waking)):
            found.append(("wait", 0))
        if self.left.jumps and found and self._may_pass(JUMP_SECONDS):
            found.append(("jump", 0))
        return found

    def _may_pass(self, seconds: float) -> bool:
        return all(
            run.over or run.pending != "evict" or self.now + seconds - run.pending_since <= EVICTION_SECONDS
            for run in self.runs
        )

    def do(self, choice: Choice) -> None:
        """Let one thing happen, and check what must hold afterwards."""
        what, number = choice
        left = self.left
        if what == "wait":
            self.now = min(run.wakes_at for run in self.runs if not run.over and run.wakes_at > self.now)
        elif what == "jump":
            self.now += JUMP_SECONDS
            self.left = Trouble(left.jumps - 1, left.kills, left.lost)
        else:
            if what in ("killed", "killed after"):
                self.left = Trouble(left.jumps, left.kills - 1, left.lost)
            elif what != "step":
                self.left = Trouble(left.jumps, left.kills, left.lost - 1)
            self.runs[number].resume(what)
        self.check()

    def check(self) -> None:
        """Nothing evicted is missing in the state, and no workload was evicted twice."""
        known = {move.uid for move in self.state_moves()}
        for uid, workload, _ in self.evicted:
            if uid not in known:
                raise BrokenError(f"{uid} was evicted and is not in the state: {sorted(known)}")
            if [other for _, other, _ in self.evicted].count(workload) > 1:
                raise BrokenError(f"{workload} was evicted twice within its cooldown: {self.evicted}")

    def state_moves(self) -> tuple[Any, ...]:
        """The moves of the state as it is kept."""
        if self.config_map is None:
            return ()
        return decode(self.config_map["data"]["state.json"].encode(), "state").moves

    def key(self) -> int:
        """What the future depends on."""
        runs = tuple((run.history, run.pending, run.wakes_at, run.over) for run in self.runs)
        since = tuple(run.pending_since for run in self.runs if run.pending == "evict")
        kept = json.dumps([self.lease, self.config_map, self.pods], sort_keys=True)
        return hash((runs, since, kept, self.now, self.left))

    def end(self) -> None:
        """Kill whoever still runs."""
        for run in self.runs:
            while not run.over:
                run.resume("killed")


class Run:
    """One run: the program's own lease, store, memory and execution on a thread of its own."""

    def __init__(self, world: World, number: int, skew: float) -> None:
        self.world = world
        self.number = number
        self.skew = skew
        self.pending = "start"
        self.pending_since = 0.0
        self.wakes_at = 0.0
        self.over = False
        self.history = 0
        self.failure: BaseException | None = None
        self.login = Login("world", urllib3.PoolManager())  # which is asked for nothing
        self.host = self.login.host
        self._gate = _gate()
        self._fate = ""
        self._thread = threading.Thread(target=self._work, daemon=True)

    def start(self) -> None:
        """Begin, and stop before the first step."""
        self._thread.start()
        self.world.turn.acquire()

    def resume(self, fate: str) -> None:
        """Let it go on to its next step."""
        self._fate = fate
        self._gate.release()
        self.world.turn.acquire()
        if self.failure is not None:
            raise self.failure

    def _work(self) -> None:
        with contextlib.suppress(Killed):
            try:
                self._stop_before("start")
                self._carry_out()
            except RebalancerError as error:
                self._seen(str(error))
            except Killed:
                raise
            except BaseException as error:  # noqa: BLE001 - raised again where the run was resumed
                self.failure = error
        self.over = True
        self.world.turn.release()

    def _stop_before(self, what: str) -> None:
        self.pending, self.pending_since = what, self.world.now
        self.world.turn.release()
        self._gate.acquire()
        if self._fate == "killed":
            raise Killed

    def _seen(self, answer: object) -> None:
        self.history = hash((self.history, repr(answer), self.world.now))

    def clock(self) -> float:
        """Its own clock."""
        return BEGIN + self.world.now + self.skew

    def server_time(self) -> float:
        """The API server's clock, which is right."""
        return BEGIN + self.world.now

    def monotonic(self) -> float:
        """Its clock that only moves forward, from wherever it began."""
        return self.world.now + 1000.0 * self.number

    def sleep(self, seconds: float) -> None:
        """Wait; what is shorter than a second takes no time."""
        if seconds >= 1:
            self.wakes_at = self.world.now + seconds
            self._stop_before("sleep")
            self._seen("woke")

    # What the program asks the API server.

    def send(
        self, method: str, path: str, _query: Any = None, *, body: Any = None, **_options: Any
    ) -> Answer:
        """One request."""
        if path in SERVED:
            return _body(SERVED[path])
        if method == "GET" and path.endswith(("/nodes", "/pods")) and path != PLANNED:
            return self._answer(method, path, body)
        self._stop_before(_operation(method, path))
        if (fate := self._fate) == "request lost":
            self._seen("lost")
            raise NoAnswerError(ConnectionResetError("lost"))
        try:
            answer = self._answer(method, path, body)
        except StatusError as error:
            self._seen(error.status)
            raise
        if fate == "killed after":
            raise Killed
        if fate == "answer lost":
            self._seen("lost")
            raise NoAnswerError(ConnectionResetError("lost"))
        self._seen(answer.body)
        return answer

    def _answer(self, method: str, path: str, body: Any) -> Answer:
        world = self.world
        *_, parent, name = path.split("/")
        if name == "eviction":
            return self._evict(parent, body["deleteOptions"]["preconditions"]["uid"])
        if name == "nodes":
            return _body({"kind": "NodeList", "items": []})
        if path == "/api/v1/pods":
            return _body({"kind": "PodList", "items": []})
        if name == "pods":
            items = [_pod(pod, *where) for pod, where in world.pods.items()]
            return _body({"kind": "PodList", "items": items})
        if parent == "pods":
            if name not in world.pods:
                raise _absent(path)
            return _body(_pod(name, *world.pods[name]))
        if "/events.k8s.io/" in path:
            return _body({})
        return self._keep(method, path, "lease" if "/leases" in path else "config_map", body)

    def _keep(self, method: str, path: str, kept: str, body: Any) -> Answer:
        item = getattr(self.world, kept)
        if method == "GET":
            if item is None:
                raise _absent(path)
            return _body(item)
        body = json.loads(json.dumps(body))
        if (method == "POST") is not (item is None):
            raise _refusal(409)
        if item is not None and body["metadata"]["resourceVersion"] != item["metadata"]["resourceVersion"]:
            raise _refusal(409)
        version = 1 + int(item["metadata"]["resourceVersion"] if item is not None else 0)
        body["metadata"]["resourceVersion"] = str(version)
        setattr(self.world, kept, body)
        return _body(body)

    def _evict(self, name: str, uid: str) -> Answer:
        world = self.world
        if world.pods.get(name, ("", ""))[1] != uid:
            raise _absent(f"/api/v1/namespaces/shop/pods/{name}")
        holder = (world.lease or {}).get("spec", {}).get("holderIdentity")
        if holder != f"run-{self.number}":
            raise BrokenError(f"run-{self.number} evicted {name} while {holder!r} held the lease")
        del world.pods[name]
        workload, generation = name.split("-")
        successor = f"{workload}-{int(generation) + 1}"
        # Still worth moving, were it not for its cooldown.
        world.pods[successor] = ("hot", f"uid-{successor}")
        world.evicted.append((uid, workload, self.number))
        return _body({})

    # The program.

    def _carry_out(self) -> None:
        api = RawApi(self, Retries(pause=self.sleep, clock=self.monotonic, random=lambda: 0.0))  # type: ignore[arg-type]
        RealRun.carry_out(_Steps(self, api))  # type: ignore[arg-type] # of a run, only its steps

    def plan(self, api: RawApi, memory: RunMemory) -> Plan:
        found = json.loads(api.get("read", PLANNED))["items"]
        memory.keep_finding(lambda state: after_plan(state, ["hot"], self.clock(), 450.0))
        moves = [
            _move(pod["metadata"]["name"], pod["metadata"]["uid"])
            for pod in found
            if MoveHistory(memory.before.moves if memory.before else ()).in_cooldown(
                self.clock(),
                COOLDOWN,
                workload=f"shop/Deployment/{pod['metadata']['name'].split('-')[0]}",
            )
            is None
        ]
        return Plan(source="", policy="", inputs="", now=times.render(BEGIN), moves=tuple(moves))

    def act(self, api: RawApi, plan: Plan, held: HeldLease, memory: RunMemory) -> Outcomes:
        journal = Journal(io.StringIO(), "run", self.clock)
        context = a_context(
            api,
            journal,
            self.clock,
            self.sleep,
            run=f"run-{self.number}",
            execution=Execution(wave_timeout=5.0),
            check_landing=lambda _move, _node: None,
            lease=held,
            save=memory.checkpoint,
        )
        return carry_out(plan, context)


class _Steps:
    """The steps of a run, with a planner that knows two workloads."""

    def __init__(self, run: Run, api: RawApi) -> None:
        self._run = run
        self._api = api
        self._id = f"run-{run.number}"

    @contextlib.contextmanager
    def lease(self) -> Iterator[HeldLease]:
        held = RunLease(self._api, "rebalancer", "rebalancer", self._id, self._run.clock).acquire()
        try:
            yield held
        finally:
            held.release()

    def memory(self, held: HeldLease | None) -> RunMemory:
        assert held is not None
        store = ConfigMapStore(self._api, "rebalancer", "rebalancer-state")
        return RunMemory.under(held, store, self._id, 86_400.0, self._run.clock)

    def read(self, memory: RunMemory) -> None:
        """The planner reads the cluster itself."""

    def plan(self, read: None, memory: RunMemory) -> Plan:
        return self._run.plan(self._api, memory)

    def act(self, planned: Plan, held: HeldLease | None, memory: RunMemory) -> Outcomes:
        assert held is not None
        return self._run.act(self._api, planned, held, memory)


def _operation(method: str, path: str) -> str:
    """What a schedule calls a request."""
    if path.endswith("/eviction"):
        return "evict"
    return {"GET": "read", "POST": "create", "PUT": "replace"}[method]


def _absent(path: str) -> StatusError:
    return StatusError(Answer(json.dumps(not_found(path).body).encode(), 404))


def _refusal(status: int) -> StatusError:
    return StatusError(Answer(b"", status))


def _body(value: Any) -> Answer:
    return Answer(json.dumps(value).encode())


def _pod(name: str, node: str, uid: str) -> dict[str, Any]:
    workload = name.split("-", maxsplit=1)[0]
    return {
        "metadata": {
            "namespace": "shop",
            "name": name,
            "uid": uid,
            "creationTimestamp": times.render(BEGIN + 100_000.0),
            "ownerReferences": [
                {"kind": "ReplicaSet", "name": workload, "uid": workload, "controller": True}
            ],
        },
        "spec": {"nodeName": node},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    }


def _move(name: str, uid: str) -> Move:
    workload = name.split("-", maxsplit=1)[0]
    return Move(
        pod=PodReference(
            namespace="shop",
            name=name,
            uid=uid,
            workload=f"Deployment/{workload}",
            controller_kind="ReplicaSet",
            controller_name=workload,
            controller_uid=workload,
        ),
        from_node="hot",
        landings=(Landing("hot", 1.0),),
        gain={},
        wave=1,
        because="",
    )
