"""The strategies of descheduler: those about load and about placement are ours too, the others are not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rebalancer.documents.document import Path
from rebalancer.policy_import.mapping import Import, Kept

_MEASURED = ("cpu", "memory", "pods")

# Strategies about pods that their node would no longer admit; strategies.misplaced covers them together.
PLACEMENT = {
    "RemovePodsViolatingNodeTaints": "node taints",
    "RemovePodsViolatingNodeAffinity": "node affinity",
    "RemovePodsViolatingInterPodAntiAffinity": "anti-affinity between pods",
    "RemovePodsViolatingTopologySpreadConstraint": "hard topology spread constraints",
}
# And those with another aim than load, with what to do instead.
OTHER_AIMS = {
    "HighNodeUtilization": "it empties nodes, which is the opposite of relieving them; leave it to "
    "an autoscaler",
    "RemoveDuplicates": "replicas on one node are no load; use topology spread constraints",
    "PodLifeTime": "age is no reason to move a pod; keep descheduler for it",
    "RemoveFailedPods": "failed pods use nothing; keep descheduler for it",
    "RemovePodsHavingTooManyRestarts": "a pod that restarts does so elsewhere too; keep descheduler for it",
}


def strategy(work: Import, path: Path, name: str, arguments: Mapping[str, Any], at: Path) -> None:
    """Map one strategy by name; ``at`` is where its arguments stand."""
    if name == "LowNodeUtilization":
        low_node_utilization(work, path, arguments, at)
    elif name in PLACEMENT:
        _placement(work, path, name, arguments, at)
    else:
        work.drop(path, OTHER_AIMS.get(name, "no strategy of ours has this aim"))


def _placement(work: Import, path: Path, name: str, arguments: Mapping[str, Any], at: Path) -> None:
    taints = arguments.get("excludedTaints")
    if isinstance(taints, list) and all(isinstance(taint, str) for taint in taints):
        work.set((*at, "excludedTaints"), "strategies.misplaced", {"excludedTaints": taints})
    elif not isinstance(work.policy.get("strategies", {}).get("misplaced"), dict):
        work.policy.setdefault("strategies", {})["misplaced"] = True
    work.note(
        path,
        Kept.CHANGED,
        f"strategies.misplaced: moves pods whose {PLACEMENT[name]} the scheduler's filters no longer "
        "allow, and the "
        "other kinds of misplaced pods too; only where the replacement lands well",
    )
    work.rest(at, arguments, "strategies.misplaced has no such setting")


def low_node_utilization(work: Import, path: Path, arguments: Mapping[str, Any], at: Path) -> None:
    """The one strategy about load: its targets are our rule, its thresholds the scheduler decides."""
    targets = arguments.get("targetThresholds")
    deviation = arguments.get("useDeviationThresholds") is True
    if isinstance(targets, Mapping):
        _targets(work, targets, (*at, "targetThresholds"), deviation=deviation)
    if deviation:
        work.note((*at, "useDeviationThresholds"), Kept.MAPPED, "hotNodes.any[].deviation")
    if "thresholds" in arguments:
        work.drop(
            (*at, "thresholds"),
            "which nodes have room is not a threshold here: the scheduler decides where replacements go, and "
            "planning.maxAfter bounds how full a node may get",
        )
    if "numberOfNodes" in arguments:
        work.drop((*at, "numberOfNodes"), "a plan is made from the first hot node on")
    _usage(work, path, arguments, at)
    limit = arguments.get("evictionLimits")
    if isinstance(limit, Mapping) and isinstance(limit.get("node"), int):
        work.set((*at, "evictionLimits", "node"), "limits.perNode", limit["node"])
    namespaces(work, arguments.get("evictableNamespaces"), (*at, "evictableNamespaces"))
    work.rest(at, arguments, "no setting of ours does this")


def _targets(work: Import, targets: Mapping[str, Any], at: Path, *, deviation: bool) -> None:
    kept = {}
    for resource, percent in targets.items():
        if resource not in _MEASURED:
            work.drop(
                (*at, resource),
                f"no source measures {resource}; name it in load.signals with a query of yours",
            )
        elif not isinstance(percent, int | float) or isinstance(percent, bool):
            work.drop((*at, resource), "this is not a percentage")
        else:
            kept[resource] = percent
    if not kept:
        return
    rule = "deviation" if deviation else "utilization"
    rules = work.policy.setdefault("hotNodes", {}).setdefault("any", [])
    rules.append({rule: kept, "coolTo": dict(kept)})
    work.note(
        at,
        Kept.CHANGED,
        f"hotNodes.any[].{rule}: coolTo is the same level, as descheduler stops there; a lower one "
        "makes fewer moves "
        "later",
    )


def _usage(work: Import, path: Path, arguments: Mapping[str, Any], at: Path) -> None:
    metrics = arguments.get("metricsUtilization")
    where = (*at, "metricsUtilization")
    load = work.policy.setdefault("load", {})
    if not isinstance(metrics, Mapping):
        load.setdefault("sources", [{"requests": {}}])
        work.note(
            path,
            Kept.CHANGED,
            "load.sources: descheduler looks at requests here, so this does too; metricsServer or "
            "prometheus show "
            "what nodes really use",
        )
    elif metrics.get("source") == "Prometheus" or "prometheus" in metrics:
        work.drop(
            where,
            "one query for a node's hotness says nothing of what a pod brings along; load.sources "
            "with prometheus and "
            "a preset measures cpu and memory of nodes and pods",
        )
    else:
        load["sources"] = [{"metricsServer": {}}]
        work.note(path, Kept.MAPPED, "hotNodes.any")
        work.note(where, Kept.MAPPED, "load.sources: metricsServer")


def namespaces(work: Import, value: Any, at: Path) -> None:
    """Map lists of namespaces to include and exclude."""
    if not isinstance(value, Mapping):
        return
    for name in ("include", "exclude"):
        if isinstance(value.get(name), list):
            work.add((*at, name), f"evictable.namespaces.{name}", [str(item) for item in value[name]])
