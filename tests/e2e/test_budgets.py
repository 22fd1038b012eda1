"""Disruption budgets hold, whoever evicts at once: a watch replays the availability of every workload.

A round is one wave of a run while another run and a third client evict pods of the same workloads.
"""

from __future__ import annotations

import random
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from rebalancer.errors import ExitCode
from tests.conftest import SUMMARY
from tests.e2e import assets, clusters
from tests.e2e.api import Api, ApiRefusedError, Object
from tests.e2e.command import Finished, Rebalancer
from tests.e2e.controlplane import ControlPlane, is_ready
from tests.e2e.loads import Load, LoadServer
from tests.e2e.processes import wait_until

pytestmark = pytest.mark.safety

SEED = "budgets"

PODS = "/api/v1/namespaces/default/pods"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
REPLICAS = 16  # of an app: half of them blue, half green
TRACKS = ("blue", "green")
SIDES = {side: [f"{side}-{number}" for number in range(4)] for side in ("east", "west")}
CLOSED = "e2e/closed"

# How many of an app's pods must always be available, as the bound says; percentages round up.
BOUNDS: Mapping[str, tuple[Object, int]] = {
    "least": ({"minAvailable": 14}, 14),
    "least-percent": ({"minAvailable": "82%"}, 14),
    "most": ({"maxUnavailable": 2}, 14),
    "most-percent": ({"maxUnavailable": "10%"}, 14),
}

# Pods are moved because their side was closed: load has no say here.
POLICY = """
apiVersion: rebalancer/v1alpha1
kind: RebalancePolicy
metadata: {name: budgets}
scheduler: {version: "%(minor)s"}
load:
  sources: [{loadWatcher: {address: %(address)s}}]
hotNodes:
  forRuns: 1
  any: [{utilization: {cpu: 95}}]
evictable: {minAge: 0s, protect: [], podSelector: {matchLabels: {track: %(track)s}}}
limits: {perRun: 200, perNode: 200, perNamespace: 200, perWorkload: 100%%}
planning: {minGain: 0}
strategies: {misplaced: true}
execution: {waveSize: 4, firstWave: 4, waveTimeout: 120s}
safety: {maxPendingPods: 100}
"""


@dataclass
class Availability:
    """How many pods of each app were available at every revision of the cluster, replayed from a watch.

    Available is what the disruption controller counts as healthy: ready, and not terminating.
    """

    api: Api
    known: dict[str, tuple[str, str, bool]] = field(default_factory=dict)  # uid -> app, node, available
    available: Counter[str] = field(default_factory=Counter)
    lowest: dict[str, int] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)  # uids of pods that were deleted, by whatever means
    revisions: int = 0

    def __post_init__(self) -> None:
        listed = self.api.get(PODS)
        for pod in listed["items"]:
            self.see(pod, deleted=False)
        self.lowest = dict(self.available)
        self.revisions = 0
        self._version = listed["metadata"]["resourceVersion"]
        self._over = threading.Event()
        self._thread = ThreadPoolExecutor(1)
        self._end = self._thread.submit(self._follow)

    def see(self, pod: Object, *, deleted: bool) -> None:
        """Take in one pod as it became."""
        uid, app = pod["metadata"]["uid"], pod["metadata"]["labels"]["app"]
        if deleted or "deletionTimestamp" in pod["metadata"]:
            self.gone.add(uid)
        before = self.known.pop(uid, ("", "", False))
        now = is_ready(pod) and not deleted
        if not deleted:
            self.known[uid] = (app, pod["spec"].get("nodeName", ""), now)
        self.available[app] += now - before[2]
        self.lowest[app] = min(self.lowest.get(app, REPLICAS), self.available[app])
        self.revisions += 1

    def _follow(self) -> None:
        # Each watch goes on from the revision at which the one before it ended: nothing is missed between.
        while not self._over.is_set():
            for event in self.api.watch(PODS, resource_version=self._version, seconds=2):
                assert event["type"] in ("ADDED", "MODIFIED", "DELETED"), event
                self.see(event["object"], deleted=event["type"] == "DELETED")
                self._version = event["object"]["metadata"]["resourceVersion"]

    def settled(self) -> bool:
        """Whether it has seen all that has happened, and all pods are available again."""
        assert not self._end.done() or self._end.exception() is None, self._end.exception()
        now = {pod["metadata"]["uid"]: is_ready(pod) for pod in self.api.list(PODS)}
        return all(now.values()) and now == {uid: pod[2] for uid, pod in tuple(self.known.items())}

    def finish(self) -> None:
        """End the watch; raises what went wrong in it."""
        self._over.set()
        self._end.result(60.0)
        self._thread.shutdown()


@dataclass
class Client:
    """What one client asked of the Eviction API, and how often its answer was yes and no."""

    allowed: set[str] = field(default_factory=set)  # uids
    refused: int = 0
    requests: int = 0


@contextmanager
def a_third_client(api: Api, open_side: Callable[[], str]) -> Iterator[Client]:
    """Evict pods as anybody may, of one app after another until its budget refuses, without end.

    It takes pods of the open side, so that some are left to move.
    """
    client = Client()
    over = threading.Event()
    chosen = random.Random(SEED)

    def press() -> None:
        while not over.is_set():
            app = chosen.choice(list(BOUNDS))
            side = open_side()
            pods = [pod for pod in api.list(PODS, labelSelector=f"app={app}") if is_ready(pod)]
            pods = [pod for pod in pods if pod["spec"]["nodeName"].startswith(side)]
            chosen.shuffle(pods)
            for pod in pods:
                # Once the sides have changed runs evict these pods, and one that both evict counts twice.
                if over.is_set() or open_side() != side or evict(pod) == 429:
                    break
            over.wait(chosen.uniform(0.1, 0.5))

    def evict(pod: Object) -> int:
        client.requests += 1
        try:
            api.evict("default", pod["metadata"]["name"])
        except ApiRefusedError as error:
            if error.status not in (404, 429):
                raise
            client.refused += error.status == 429
            return error.status
        client.allowed.add(pod["metadata"]["uid"])
        return 201

    with ThreadPoolExecutor(1) as pool:
        end = pool.submit(press)
        try:
            yield client
        finally:
            over.set()
            end.result(60.0)


def close(api: Api, side: str) -> str:
    """Let no pod onto the nodes of one side any more, and pods onto the other; that other side."""
    for name, nodes in SIDES.items():
        taints = [{"key": CLOSED, "effect": "NoSchedule"}] if name == side else []
        for node in nodes:
            api.patch(f"/api/v1/nodes/{node}", {"spec": {"taints": taints}})
    return next(name for name in SIDES if name != side)


def populate(control_plane: ControlPlane) -> None:
    """Start a cluster of two sides, the west closed, and apps with budgets on the other."""
    api = control_plane.start().api
    for node in (node for nodes in SIDES.values() for node in nodes):
        api.create(clusters.node(node, cpu="16", memory="64Gi"))
    close(api, "west")
    wait_until(lambda: len(open_nodes(api)) == len(SIDES["east"]), "east is open")
    for app, (bound, _) in BOUNDS.items():
        for track in TRACKS:
            manifest = clusters.deployment(f"{app}-{track}", REPLICAS // 2)
            labels = {"app": app, "track": track}
            manifest["spec"]["selector"]["matchLabels"] = labels
            manifest["spec"]["template"]["metadata"] = {
                "labels": labels,
                "annotations": {"e2e/ready-after": "200ms"},
            }
            api.create(manifest)
        api.create(clusters.budget(app, app=app, **bound))
    wait_until(lambda: len(api.list(PODS)) == REPLICAS * len(BOUNDS), "all pods made")
    control_plane.wait_for_pods(PODS)
    wait_until(
        lambda: all(
            item.get("status", {}).get("currentHealthy") == REPLICAS
            and item["status"]["desiredHealthy"] == BOUNDS[item["metadata"]["name"]][1]
            for item in api.list(BUDGETS)
        ),
        "the budgets have counted their pods",
    )


def open_nodes(api: Api) -> list[str]:
    """The nodes that take pods."""
    return [node["metadata"]["name"] for node in api.list("/api/v1/nodes") if not node["spec"].get("taints")]


def asked_and_answered(runs: list[Finished]) -> tuple[Client, int, int]:
    """What runs asked for by their journals; how many were refused first and evicted later; rounds.

    Outcomes and journals must agree: what was refused is an outcome Refused, and no eviction. A run that
    plans again may evict what its plan before was refused to the end.
    """
    client, retried, rounds = Client(), 0, 0
    for run in runs:
        answers = {line["uid"]: line for line in run.journal if "attempts" in line}  # the last of each pod
        attempts = Counter[str]()
        for line in run.journal:
            if "attempts" in line:
                attempts[line["uid"]] += line["attempts"]
        evicted = {uid for uid, line in answers.items() if line["event"] == "evicted"}
        refused = {uid for uid, line in answers.items() if line["event"] == "refused"}
        outcomes = run.document["outcomes"] if run.stdout else []
        results = {outcome["move"]["pod"]["uid"]: outcome for outcome in outcomes}
        assert {uid for uid, item in results.items() if item["result"] == "Refused"} == refused
        assert {uid for uid, item in results.items() if item.get("evictedAt")} == evicted
        for uid in refused:
            assert "disruption budget" in results[uid]["because"], results[uid]
        client.allowed |= evicted
        client.requests += attempts.total()
        client.refused += attempts.total() - len(evicted)
        retried += sum(attempts[uid] > 1 for uid in evicted)
        rounds += len({line["wave"] for line in run.journal if line["event"] == "evicting"})
    return client, retried, rounds


def evictions_counted_by_the_server(api: Api) -> Counter[str]:
    """Requests for evictions by their status, as the API server counts them."""
    answer = api.pool.request("GET", f"{api.url}/metrics", headers={"Authorization": f"Bearer {api.token}"})
    counted: Counter[str] = Counter()
    text = answer.data.decode()
    for labels, value in re.findall(r"^apiserver_request_total\{(.*)\} (\S+)$", text, re.MULTILINE):
        if 'subresource="eviction"' in labels:
            counted[re.findall(r'code="(\d+)"', labels)[0]] += int(float(value))
    return counted


@pytest.mark.parametrize(
    ("leases", "wanted"),
    [(("default/blue", "default/green"), 160), (("default/one", "default/one"), 40)],
    ids=["with leases of their own", "taking turns with one lease"],
)
def test_availability_never_falls_below_its_budget_while_two_runs_and_a_third_client_evict(
    control_plane: ControlPlane,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
    leases: tuple[str, str],
    wanted: int,
) -> None:
    record_property("seed", SEED)
    populate(control_plane)
    api = control_plane.api
    availability = Availability(api)
    opened = "east"
    runs: dict[str, list[Finished]] = {track: [] for track in TRACKS}

    def rounds() -> int:
        return sum(asked_and_answered(done)[2] for done in runs.values())

    load = {node: Load(10.0, 10.0) for nodes in SIDES.values() for node in nodes}
    with (
        LoadServer(lambda: load) as server,
        a_third_client(api, lambda: opened) as third,
        ThreadPoolExecutor(2) as pool,
    ):

        def moved(track: str, lease: str, number: int) -> list[Finished]:
            """What one run after another did until one had its turn: it waits while the lease is held."""
            policy = POLICY % {"minor": assets.MINOR, "address": server.address, "track": track}
            done: list[Finished] = []
            while not done or (done[-1].exit_code == ExitCode.LEASE_HELD and len(done) < 100):
                folder = tmp_path / f"{track}-{number}-{len(done)}"
                done.append(Rebalancer(folder, control_plane.kubeconfig(), policy).run(f"--lease={lease}"))
            return done

        for number in range(wanted):
            if rounds() >= wanted and all(asked_and_answered(done)[0].refused for done in runs.values()):
                break  # every run has met a budget that others had spent
            opened = close(api, opened)
            started = [
                pool.submit(moved, track, lease, number) for track, lease in zip(TRACKS, leases, strict=True)
            ]
            for track, end in zip(TRACKS, started, strict=True):
                runs[track] += end.result()
    wait_until(availability.settled, "the watch has seen everything, and all pods are available again")
    availability.finish()

    codes = Counter(run.exit_code for done in runs.values() for run in done)
    expected = {ExitCode.DONE, ExitCode.PARTLY_DONE, ExitCode.LEASE_HELD}
    assert set(codes) <= expected, [
        run.stderr[-2000:] for done in runs.values() for run in done if run.exit_code not in expected
    ]
    assert (codes[ExitCode.LEASE_HELD] > 0) is (leases[0] == leases[1])
    by_track = {track: asked_and_answered(done) for track, done in runs.items()}
    clients = {**{track: answer[0] for track, answer in by_track.items()}, "third client": third}
    assert rounds() >= wanted

    # No pod went but by an eviction that one client was granted.
    assert sum(len(client.allowed) for client in clients.values()) == len(availability.gone)
    assert set().union(*(client.allowed for client in clients.values())) == availability.gone
    counted = evictions_counted_by_the_server(api)
    assert counted["201"] == len(availability.gone)
    assert counted.total() == sum(client.requests for client in clients.values())

    assert all(client.allowed and client.refused for client in clients.values()), clients
    lowest = {app: availability.lowest[app] for app in BOUNDS}
    floors = {app: floor for app, (_, floor) in BOUNDS.items()}
    # Pressed down to the budget, everywhere, and never below it.
    assert lowest == floors

    figures = ", ".join(
        f"{name} {len(c.allowed)} allowed and {c.refused} refused" for name, c in clients.items()
    )
    retried = sum(answer[1] for answer in by_track.values())
    record_property(
        SUMMARY,
        f"budgets, {'one lease' if leases[0] == leases[1] else 'two leases'}: {rounds()} rounds, lowest "
        f"availability {min(lowest.values())} of {REPLICAS} (budget {min(floors.values())}) in "
        f"{availability.revisions} revisions; evictions: {figures}; "
        f"{retried} refused first, evicted later",
    )


def test_the_watch_of_availability_sees_a_fall_below_the_budget(control_plane: ControlPlane) -> None:
    populate(control_plane)
    api = control_plane.api
    availability = Availability(api)
    # What the Eviction API would refuse: DELETE knows no budget.
    pods = api.list(PODS, labelSelector="app=least")
    for pod in pods[:3]:
        api.delete(f"{PODS}/{pod['metadata']['name']}")
    wait_until(availability.settled, "the watch has seen everything, and all pods are available again")
    availability.finish()
    assert availability.lowest["least"] < BOUNDS["least"][1]
    assert availability.lowest["most"] == REPLICAS
    assert len(availability.gone) == 3
