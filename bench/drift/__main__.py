"""``python -m bench.drift --minutes 30 --out FOLDER``: serve on a real control plane while the load drifts.

Two replicas act, a third joins when the leader is killed with SIGKILL a third of the way through. A real
Prometheus scrapes all of them, whose data are in FOLDER/prometheus. What is printed each minute is the load
itself, not what the service believes, and at the end the API server's own account of evictions is held
against the journals.

The programs of the control plane are those of ``make e2e-assets``.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
import warnings
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from bench.drift.cluster import COOL_PERCENT, HOT_PERCENT, NODE_NAMES, DriftingLoad, fill
from tests.e2e import assets
from tests.e2e.audit import AuditLog
from tests.e2e.controlplane import ControlPlane
from tests.e2e.hot_cluster import untruths
from tests.e2e.landing_runs import configuration
from tests.e2e.loads import Load, LoadServer
from tests.integration.prometheus.servers import running
from tests.integration.serving.replicas import Replica
from tests.ports import free_port

POLICY = """
apiVersion: rebalancer/v1alpha1
kind: RebalancePolicy
metadata: {{name: drifting}}
scheduler: {{version: "{minor}", file: {scheduler}}}
load: {{sources: [{{loadWatcher: {{address: "{address}"}}}}]}}
hotNodes:
  forRuns: 1
  runInterval: 3m
  any: [{{utilization: {{cpu: {hot}}}, coolTo: {{cpu: {cool}}}}}]
evictable: {{minAge: 1m, protect: []}}
limits: {{perRun: 8, perNode: 3, perNamespace: 8, perWorkload: 1}}
planning: {{cooldown: 5m, minGain: 3}}
execution: {{waveSize: 2, firstWave: 1, waveTimeout: 60s}}
safety: {{maxPendingPods: 20}}
"""


def replica(kubeconfig: Path, policy: Path, port: int) -> Replica:
    """A replica that acts."""
    options = ["--act", f"--policy={policy}", f"--kubeconfig={kubeconfig}", f"--listen=127.0.0.1:{port}"]
    options += ["--state-config-map=default/state", "--lease=default/rebalancer"]
    return Replica([sys.executable, "-m", "rebalancer", "--log-format=json", "serve", *options])


def kill_all(replicas: list[Replica]) -> None:
    """Kill the processes of all replicas."""
    for of_replica in replicas:
        of_replica.process.kill()


def lines_of(replicas: list[Replica]) -> list[dict[str, Any]]:
    """Every line that replicas logged or journaled, in the order of their times."""
    found = []
    for line in (line for process in replicas for line in list(process.log)):
        with contextlib.suppress(ValueError):
            found.append(json.loads(line))
    return sorted(found, key=lambda line: line.get("time", ""))


def hot(loads: Mapping[str, Load]) -> int:
    """How many nodes are hot."""
    return sum(load.cpu > HOT_PERCENT for load in loads.values())


def highest(loads: Mapping[str, Load]) -> float:
    """The load of the node that has most."""
    return max(load.cpu for load in loads.values())


def of_evicting_runs(journal: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What is journaled of a pod by the run that evicted it: earlier ones may have skipped it."""
    began = {(line["run"], line["uid"]) for line in journal if line["event"] == "evicting"}
    evicted = {uid for _, uid in began}
    return [line for line in journal if line.get("uid") not in evicted or (line["run"], line["uid"]) in began]


class Course:
    """What is printed while it goes on."""

    def __init__(self, load: DriftingLoad, audit: AuditLog) -> None:
        self._load = load
        self._audit = audit
        self._began = time.monotonic()
        self._first = load.placed()
        self._seconds = {"hot": 0, "hot without": 0, "all": 0}  # of nodes
        print("      hot nodes          highest load                  landed as", flush=True)
        print(" min  now  without*     now  without*   evictions    planned  elsewhere", flush=True)

    def observe(self) -> None:
        """Add a second."""
        loads = self._load()
        self._seconds["hot"] += hot(loads)
        self._seconds["hot without"] += hot(self._load.with_pods(self._first))
        self._seconds["all"] += len(loads)

    def show(self, replicas: list[Replica]) -> None:
        """Print a line."""
        loads, without, lines = self._load(), self._load.with_pods(self._first), lines_of(replicas)
        outcomes = [line for line in lines if line.get("event") == "outcome"]
        planned = sum(line.get("because") == "as planned" for line in outcomes)
        landed = sum("node" in line for line in outcomes)
        print(
            f"{(time.monotonic() - self._began) / 60:4.0f}{hot(loads):5}{hot(without):10}"
            f"{highest(loads):6.0f} %{highest(without):8.0f} %"
            f"{sum(eviction.accepted for eviction in self._audit.evictions()):12}"
            f"{planned:11}{landed - planned:11}",
            flush=True,
        )

    def summary(self, replicas: list[Replica], killed: float) -> None:
        """Print what it came to."""
        lines, evictions = lines_of(replicas), self._audit.evictions()
        journal = [line for line in lines if "event" in line]
        accepted = Counter(eviction.uid for eviction in evictions if eviction.accepted)
        results = Counter(line["result"] for line in journal if line["event"] == "outcome")
        codes = Counter(line["exitCode"] for line in journal if line["event"] == "run-finished")
        took = [process.log for process in replicas if any("leads: took" in line for line in process.log)]
        untrue = untruths(of_evicting_runs(journal), evictions)
        node_seconds = max(1, self._seconds["all"])
        print("* had every pod stayed where it was at the beginning")
        print(f"outcomes by the journals: {dict(results)}; runs by exit code: {dict(codes)}")
        print(f"accepted by the API server: {len(accepted)}, twice: {sum(n > 1 for n in accepted.values())}")
        print(f"what journals say that the audit log belies: {untrue or 'nothing'}")
        print(f"replicas that led: {len(took)}; the new leader had the lease {killed:.1f} s after the kill")
        print(
            f"nodes were hot for {self._seconds['hot'] / node_seconds:.2%} of their time; "
            f"without* {self._seconds['hot without'] / node_seconds:.2%}"
        )
        for line in lines:
            if line.get("event") == "outcome" and line.get("because") != "as planned":
                print(f"  {line['time']} {line['pod']}: {line['result']}: {line.get('because')}")
            elif line.get("level") in ("warning", "error"):
                print(f"  {line['time']} {line['level']}: {line['message'][:150]}")


@click.command()
@click.option("--minutes", type=float, default=30.0, show_default=True)
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), required=True)
def main(minutes: float, out: Path) -> None:
    """Serve while the load drifts."""
    warnings.simplefilter("ignore")  # loopback's certificates
    out.mkdir(parents=True)
    folder = out / "controlplane"
    folder.mkdir()
    audit, replicas, ports = AuditLog(folder), [], [free_port() for _ in range(3)]
    targets = ", ".join(f"'127.0.0.1:{port}'" for port in ports)
    job = f"{{job_name: rebalancer, scrape_interval: 5s, static_configs: [{{targets: [{targets}]}}]}}"
    with contextlib.ExitStack() as stack:
        control_plane = stack.enter_context(ControlPlane(folder))
        control_plane.start(api_server_flags=audit.flags, scheduler=False)
        load = DriftingLoad(control_plane.api)
        watcher = stack.enter_context(LoadServer(load))
        scheduler = out / "scheduler.json"
        scheduler.write_text(configuration(watcher.address, NODE_NAMES))
        control_plane.start_scheduler(scheduler.read_text())
        fill(control_plane)
        policy = out / "policy.yaml"
        about = {"address": watcher.address, "scheduler": scheduler, "hot": HOT_PERCENT, "cool": COOL_PERCENT}
        policy.write_text(POLICY.format(minor=assets.MINOR, **about))
        stack.enter_context(running(out / "prometheus", None, f"scrape_configs: [{job}]\n"))
        kubeconfig = control_plane.kubeconfig()
        course, began, killed = Course(load, audit), time.time(), 0.0
        replicas.append(replica(kubeconfig, policy, ports[0]))
        stack.callback(kill_all, replicas)
        replicas[0].waits_for("leads: took")
        replicas.append(replica(kubeconfig, policy, ports[1]))
        try:
            for second in range(int(minutes * 60)):
                time.sleep(max(0.0, began + second - time.time()))
                course.observe()
                if second % 60 == 0:
                    course.show(replicas)
                if second == int(minutes * 20):
                    replicas[0].process.kill()
                    at = time.monotonic()
                    replicas.append(replica(kubeconfig, policy, ports[2]))
                    replicas[1].waits_for("leads: took")
                    killed = time.monotonic() - at
                    print(
                        f"      the leader was killed; the standby had the lease {killed:.1f} s later",
                        flush=True,
                    )
        finally:
            course.show(replicas)
            (out / "log").write_text("\n".join(json.dumps(line) for line in lines_of(replicas)))
            course.summary(replicas, killed)


if __name__ == "__main__":
    main()
