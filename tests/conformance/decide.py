"""Reads cases on standard input, writes the model's decisions: one JSON object a line, as the expectations.

python -m tests.conformance.decide < CASES.jsonl > DECISIONS.jsonl

A decision that depends on what the scheduler alone knows has ``open``, and the nodes that may pass.
``version`` of a case is the minor that decides, 1.35 without it. With ``"landings": true`` each pod's
decision has ``landings``, the chance of each node that the pod may land on.

A line that cannot be decided is one line on standard error; the others are decided all the same.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from rebalancer.cluster.dumps.listing import Recording, decode_listing
from rebalancer.cluster.kinds import KINDS, NODES, PODS, Kind
from rebalancer.cluster.pod_classes import pod_class_of
from rebalancer.cluster.records import Pod
from rebalancer.cluster.snapshot import Snapshot, build_snapshot
from rebalancer.load.scheduler_view import SchedulerView, decode_watcher
from rebalancer.profiles import SchedulerConfiguration
from rebalancer.scheduling.framework.cycle import Scheduler
from rebalancer.scheduling.framework.plugin import PluginInputs
from rebalancer.scheduling.registry import load_configuration, make_scheduler
from rebalancer.scheduling.state.cluster_state import UNBOUND, ClusterState
from rebalancer.scheduling.state.nodes import Registered
from rebalancer.scheduling.versions.release import REFERENCE, FeatureGates, Release, major_minor

Case = Mapping[str, Any]
_BY_PLURAL = {kind.plural: kind for kind in KINDS}
_DEFAULT_NAMESPACE = "default"
_MAX_CONFIGURATIONS = 256
_configurations: dict[str, SchedulerConfiguration] = {}  # by their text: most cases have that of another one


def _raw(objects: list[Any]) -> list[msgspec.Raw]:
    return [msgspec.Raw(msgspec.json.encode(item)) for item in objects]


def _kind_of(key: str) -> Kind | None:
    return _BY_PLURAL.get(key.lower())


def snapshot_of(case: Case) -> Snapshot:
    """The cluster of a case; its pending pods are pods without a node."""
    objects = dict(case["objects"])
    objects["pods"] = [*objects.get("pods", []), *case["pending"]]
    listings = {}
    for key, items in objects.items():
        kind = _kind_of(key)
        if kind is not None:
            listings[kind.plural] = decode_listing(kind, _raw(items))
    for kind in (NODES, PODS):
        listings.setdefault(kind.plural, decode_listing(kind, []))
    snapshot = build_snapshot(Recording(case["id"], listings))
    if snapshot.malformed:
        raise ValueError(str(snapshot.malformed[0]))
    return snapshot


def _configuration(text: str, source: str) -> SchedulerConfiguration:
    if text not in _configurations:
        if len(_configurations) >= _MAX_CONFIGURATIONS:
            _configurations.clear()
        _configurations[text] = load_configuration(text, source)
    return _configurations[text]


def schedulers_of(case: Case, snapshot: Snapshot) -> dict[str, Scheduler]:
    """The model of every profile of the case's configuration."""
    configuration = _configuration(case["config"], case["id"])
    watcher = case.get("watcher")
    watchers = {}
    if watcher:
        metrics = decode_watcher(msgspec.json.encode(watcher))
        addresses = {
            getattr(arguments, "watcher_address", "")
            for profile in configuration.profiles
            for arguments in profile.arguments.values()
        }
        watchers = dict.fromkeys(addresses, metrics)
    # In the cases no pod counts as recently bound.
    inputs = replace(PluginInputs.of(snapshot, SchedulerView(watchers), release_of(case)), bound_at=None)
    return {
        profile.scheduler_name: make_scheduler(configuration, profile, inputs)
        for profile in configuration.profiles
    }


def decide_pod(scheduler: Scheduler, state: ClusterState, pod: int, *, landings: bool) -> dict[str, Any]:
    """One decision, in the format of the expectations."""
    pod_class = state.pod_class[pod]
    placement = scheduler.place(state, pod_class, pod)
    names = state.nodes.names
    if placement.score_failure:
        return {"error": placement.score_failure, "nodes": {}}
    if placement.rejected and not len(placement.feasible):
        return {"preFilter": placement.rejected, "nodes": {}}
    nodes: dict[str, Any] = {
        names[row]: {"filter": reason} for row, reason in scheduler.rejections(state, pod_class, pod).items()
    }
    for position, row in enumerate(placement.feasible.tolist()):
        scores = {plugin: int(values[position]) for plugin, values in placement.scores.items()}
        total = {"total": int(placement.totals[position])}
        nodes[names[row]] = {"scores": scores, **total} if scores else total
    decision: dict[str, Any] = {"nodes": dict(sorted(nodes.items()))}
    if len(placement.feasible):
        best = placement.totals.max()
        decision["chosen"] = min(names[row] for row in placement.feasible[placement.totals == best].tolist())
        if state.nominated.get(pod) in placement.feasible.tolist():
            decision["chosen"] = names[state.nominated[pod]]
    if placement.left_open:
        decision["open"] = placement.left_open
    if landings:
        decision["landings"] = {
            names[row]: float(placement.chance[position])
            for position, row in enumerate(placement.feasible.tolist())
            if placement.chance[position] > 0
        }
    return decision


def _registered(case: Case) -> list[str]:
    """Nodes register in the order of the list."""
    listed: list[Any] = next((items for key, items in case["objects"].items() if _kind_of(key) is NODES), [])
    return [str(item["metadata"]["name"]) for item in listed]


def release_of(case: Case) -> Release:
    """The scheduler of a case: its ``version``, and ``featureGates`` as its command line states them."""
    version = str(case.get("version") or REFERENCE)
    if not major_minor(version):
        raise ValueError(f"version {version!r} is not a version of Kubernetes")
    return Release.of(major_minor(version), FeatureGates(case.get("featureGates") or {}))


def decide(case: Case) -> dict[str, Any]:
    """All decisions of a case; each pod is bound before the next one is scheduled."""
    snapshot = snapshot_of(case)
    schedulers = schedulers_of(case, snapshot)
    state = ClusterState.of(snapshot, release_of(case), [Registered(_registered(case))])
    decisions = []
    for raw in case["pending"]:
        pod = msgspec.convert(raw, Pod)
        namespace = pod.metadata.namespace or _DEFAULT_NAMESPACE
        row = snapshot.pods.row[pod.metadata.namespace, pod.metadata.name]
        assert state.node[row] == UNBOUND
        _, pod_class = pod_class_of(pod)
        if pod_class.scheduler_name not in schedulers:
            raise ValueError(f"no profile has schedulerName {pod_class.scheduler_name}")
        decision = decide_pod(
            schedulers[pod_class.scheduler_name], state, row, landings=bool(case.get("landings"))
        )
        if "chosen" in decision:
            state.bind(row, snapshot.nodes.row[decision["chosen"]])
            state.forget_bound()  # as in the cases: no pod counts as recently bound
        decisions.append({"pod": f"{namespace}/{pod.metadata.name}", **decision})
    return {"id": case["id"], "pods": decisions}


def decide_lines(lines: Iterable[bytes], write: Callable[[bytes], object]) -> list[str]:
    """Decide case after case, as they come; what is wrong with those that cannot be decided, a line each."""
    problems = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        name = f"line {number}"
        try:
            case = msgspec.json.decode(line)
            if not isinstance(case, dict):
                raise ValueError("is no object")
            name = f"{name}, case {case.get('id', '?')!s:.60}"
            write(msgspec.json.encode(decide({"id": "", "pending": [], "objects": {}} | case)) + b"\n")
        except BrokenPipeError:
            raise
        except Exception as error:  # noqa: BLE001 - the edge of the process: other lines may be good
            what = f"{type(error).__name__}: {error}"
            problems.append(f"{name}: {' '.join(what.split())[:300]}")
    return problems


def main() -> int:
    """Decide what comes on standard input; 2 when a line could not be decided."""

    def write(line: bytes) -> None:
        sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()

    problems = decide_lines(sys.stdin.buffer, write)
    for problem in problems:
        sys.stderr.write(f"{problem}\n")
    return 2 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
