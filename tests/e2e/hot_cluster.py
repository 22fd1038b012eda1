"""A small cluster made hot again as often as a test likes, and what runs did to it: by three witnesses.

The figures stay as they are, so runs do not plan again here: by such figures they would go on for ever.

The API server's audit log says which evictions it accepted, the cluster what became of them, and the
journal and state of a run what that run believed.
"""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rebalancer.cluster import times
from tests.e2e import assets, clusters
from tests.e2e.api import ApiRefusedError, Object
from tests.e2e.audit import AuditedEviction, AuditLog
from tests.e2e.command import Finished, Rebalancer
from tests.e2e.controlplane import ControlPlane, is_ready
from tests.e2e.loads import Load, LoadServer
from tests.e2e.processes import wait_until

NODES = 8
WORKLOADS = 20
REPLICAS = 2
HOT_NODES = 4
WARM_NODES = 2
LEASE = "default/rebalancer"
_LEASE_PATH = "/apis/coordination.k8s.io/v1/namespaces/default/leases/rebalancer"
_PODS = "/api/v1/namespaces/default/pods"
_AVOIDED = {"key": "e2e/hot", "value": "true", "effect": "PreferNoSchedule"}
_HOT = Load(55.0, 30.0)
_WARM = Load(51.0, 30.0)
_COOL = Load(5.0, 5.0)
_POLICY = """
apiVersion: rebalancer/v1alpha1
kind: RebalancePolicy
metadata: {{name: e2e}}
scheduler: {{version: "{minor}"}}
load:
  sources: [{{loadWatcher: {{address: {address}}}}}]
hotNodes:
  forRuns: 1
  any: [{{utilization: {{cpu: 52}}, coolTo: {{cpu: 50}}}}]
evictable: {{minAge: 0s, protect: []}}
limits: {{perRun: 50, perNode: 50, perNamespace: 50, perWorkload: 100%}}
planning: {{minGain: 1}}
execution: {{waveSize: 2, firstWave: 1, waveTimeout: {wave_timeout}, steer: {steer}, replan: false}}
safety: {{maxPendingPods: 20}}
"""


@dataclass
class HotCluster:
    """Eight nodes, half of them hot; every round has loads, a journal and a state of its own."""

    control_plane: ControlPlane
    audit: AuditLog
    folder: Path
    watcher: LoadServer
    loads: dict[str, Load]
    steer: str = "none"  # execution.steer of the policy
    rounds: int = 0
    _seen: int = 0  # evictions of the audit log that belong to earlier rounds

    @classmethod
    @contextmanager
    def started(cls, folder: Path, steer: str = "none") -> Iterator[HotCluster]:
        """Start a control plane with the nodes and the workloads."""
        with ExitStack() as stack:
            control_plane = stack.enter_context(ControlPlane(folder))
            audit = AuditLog(folder)
            control_plane.start(api_server_flags=audit.flags)
            for number in range(NODES):
                control_plane.api.create(clusters.node(f"node-{number}", cpu="8"))
            for number in range(WORKLOADS):
                control_plane.api.create(clusters.deployment(f"app-{number}", REPLICAS))
            loads: dict[str, Load] = {}
            watcher = stack.enter_context(LoadServer(lambda: dict(loads)))
            cluster = cls(control_plane, audit, folder, watcher, loads, steer)
            cluster.wait_until_whole()
            yield cluster

    def new_round(self, url: str | None = None, *, wave_timeout: str = "60s") -> Round:
        """Make the fullest nodes hot, as an average over the last quarter of an hour shows it.

        The scheduler prefers the others for what leaves them: a taint says so. The figures stay as they are
        for the whole round: only the memory of a run tells the next one that pods have left since. A cluster
        whose runs steer has nodes besides that a replacement would make hot. With ``url`` the run reaches the
        API server there.
        """
        self.wait_until_whole()
        count = Counter(pod["spec"]["nodeName"] for pod in self.pods())
        names = [f"node-{number}" for number in range(NODES)]
        fullest = sorted(names, key=lambda name: (-count[name], name))[:HOT_NODES]
        for name in names:
            taints = [_AVOIDED] if name in fullest else []
            self.control_plane.api.patch(f"/api/v1/nodes/{name}", {"spec": {"taints": taints}})
            self.loads[name] = _HOT if name in fullest else _COOL
        if self.steer != "none":
            # Nodes that would win replacements and must not: without them no run needs a taint.
            others = [name for name in names if name not in fullest]
            self.loads.update(dict.fromkeys(others[:WARM_NODES], _WARM))
        self.rounds += 1
        self._seen = len(self.audit.evictions())
        return Round(self, f"round-{self.rounds}", url, wave_timeout)

    def pods(self) -> list[Object]:
        """The pods of the workloads."""
        return self.control_plane.api.list(_PODS)

    def wait_until_whole(self) -> None:
        """Wait until every workload has its pods, all ready."""

        def whole() -> bool:
            pods = self.pods()
            return len(pods) == WORKLOADS * REPLICAS and all(map(is_ready, pods))

        wait_until(whole, "all pods of all workloads ready")

    def evictions(self) -> list[AuditedEviction]:
        """The evictions that were asked for in this round."""
        return self.audit.evictions()[self._seen :]

    def wait_until_audited(self, answered: int) -> None:
        """Wait until the audit log holds so many evictions of this round: it is written after the answer."""
        wait_until(lambda: len(self.evictions()) >= answered, f"{answered} evictions in the audit log")

    def uids(self) -> set[str]:
        """The uids of the pods there are."""
        return {pod["metadata"]["uid"] for pod in self.pods()}

    def lease_holder(self) -> str:
        """Who holds the lease; empty when nobody does."""
        try:
            spec = self.control_plane.api.get(_LEASE_PATH)["spec"]
        except ApiRefusedError as error:
            if error.status == 404:
                return ""
            raise
        holder: str = spec.get("holderIdentity", "")
        return holder

    def expire_lease(self) -> None:
        """Let the time pass that the holder of the lease has: it was renewed that much earlier.

        Whoever wants it watches it for as long as it lasts, which is made short.
        """
        spec = self.control_plane.api.get(_LEASE_PATH)["spec"]
        earlier = times.parse(spec["renewTime"]) - spec["leaseDurationSeconds"]
        renewed = times.render(earlier).replace("Z", ".000000Z")
        self.control_plane.api.patch(_LEASE_PATH, {"spec": {"renewTime": renewed, "leaseDurationSeconds": 1}})


@dataclass
class Round:
    """One hot cluster and the runs that met it."""

    cluster: HotCluster
    name: str
    url: str | None
    wave_timeout: str
    before: dict[str, Object] = field(init=False)  # the pods there were, by uid

    def __post_init__(self) -> None:
        self.before = {pod["metadata"]["uid"]: pod for pod in self.cluster.pods()}
        policy = _POLICY.format(
            minor=assets.MINOR,
            address=self.cluster.watcher.address,
            wave_timeout=self.wave_timeout,
            steer=self.cluster.steer,
        )
        folder = self.cluster.folder / self.name
        kubeconfig = self.cluster.control_plane.kubeconfig
        self._temporary = folder / "tmp"
        self._temporary.mkdir(parents=True)
        environment = (("TMPDIR", str(self._temporary)),)
        self.command = Rebalancer(folder, kubeconfig(url=self.url), policy, environment)
        self.direct = Rebalancer(folder, kubeconfig(), policy, environment)

    @property
    def options(self) -> tuple[str, ...]:
        """The options of every run of this round, its journal apart."""
        return (f"--lease={LEASE}", f"--state-config-map=default/{self.name}")

    @property
    def journal(self) -> Path:
        """The journal that the round's runs share."""
        return self.command.folder / "journal.jsonl"

    def run(self, *options: str, seconds: float = 300.0) -> Finished:
        """A run to its end, on the way that the round has to the API server."""
        return self.command.run(*self.options, *options, seconds=seconds)

    def start(self, command: str = "run") -> subprocess.Popen[str]:
        """A run or a plan in the background, on the way that the round has to the API server."""
        state = self.options[-1]
        options = (f"--journal={self.journal}", *self.options) if command == "run" else (state,)
        return self.command.start(command, *options)

    def run_directly(self) -> Finished:
        """A run to its end that talks to the API server itself, within this process."""
        return self.direct.run_here(*self.options)

    def leftovers(self) -> list[Path]:
        """Files that no command of the round should have left."""
        wanted = {self.journal, self.command.folder / "policy.yaml"}
        found = [path for path in self.command.folder.rglob("*") if path.is_file()]
        return sorted(path for path in found if path not in wanted)

    def state(self) -> dict[str, Object]:
        """What the round's runs left for the next: its moves by the pod's uid."""
        try:
            kept = self.cluster.control_plane.api.get(f"/api/v1/namespaces/default/configmaps/{self.name}")
        except ApiRefusedError as error:
            if error.status == 404:
                return {}
            raise
        moves = json.loads(kept["data"]["state.json"])["moves"]
        return {move["uid"]: move for move in moves}

    def workloads(self, uids: Iterable[str]) -> set[str]:
        """The workloads that pods of these uids belonged to."""
        return {self.before[uid]["metadata"]["labels"]["app"] for uid in uids}


def untruths(lines: Iterable[Mapping[str, Any]], evictions: Iterable[AuditedEviction]) -> list[str]:
    """What a run's journal says that the API server's log belies, and what it leaves out; empty when true."""
    first_line: dict[str, float] = {}
    said: dict[str, set[str]] = {}
    for line in lines:
        if "uid" not in line:
            continue
        uid, event = line["uid"], line["event"]
        if event == "evicting":
            first_line.setdefault(uid, times.parse(line["time"]))
            said.get(uid, set()).discard("Skipped")  # by an earlier plan of the run
        if event in _WORDS:
            said.setdefault(uid, set()).add(line.get("result", event))
    accepted = {eviction.uid for eviction in evictions if eviction.accepted}
    found = []
    for eviction in evictions:
        if eviction.uid not in first_line:
            found.append(f"{eviction.uid}: asked for without a line before")
        elif first_line[eviction.uid] > eviction.received_at:
            found.append(f"{eviction.uid}: asked for before the line was written")
    for uid, words in said.items():
        if uid in accepted and words & _NOT_EVICTED:
            found.append(f"{uid}: evicted, and the journal says {words & _NOT_EVICTED}")
        if uid not in accepted and words - _NOT_EVICTED - _PERHAPS:
            found.append(f"{uid}: not evicted, and the journal says {words - _NOT_EVICTED - _PERHAPS}")
    return found


_WORDS = {"evicting", "evicted", "refused", "skipped", "unknown", "outcome"}
_NOT_EVICTED = {"refused", "skipped", "gone", "Refused", "Skipped", "Gone"}
_PERHAPS = {"evicting", "unknown", "Unknown"}
