"""What may be evicted, and how much: descheduler's evictor and its global limits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rebalancer.documents.document import Path
from rebalancer.policy import Evictable
from rebalancer.policy_import.mapping import Import, Kept

_LIMITS = {
    "maxNoOfPodsToEvictPerNode": "limits.perNode",
    "maxNoOfPodsToEvictPerNamespace": "limits.perNamespace",
    "maxNoOfPodsToEvictTotal": "limits.perRun",
}
_NEVER = {
    "evictSystemCriticalPods": "pods of the system priority classes are never evicted",
    "evictFailedBarePods": "pods without a controller are never evicted: nothing would make them again",
    "evictDaemonSetPods": "DaemonSet pods are never evicted: they come back to the same node",
}


def global_limits(work: Import, value: Mapping[str, Any]) -> None:
    """Map the keys at the top of a policy."""
    for theirs, ours in _LIMITS.items():
        if isinstance(value.get(theirs), int) and not isinstance(value[theirs], bool):
            work.set((theirs,), ours, value[theirs])
    if isinstance(value.get("nodeSelector"), str):
        node_selector(work, value["nodeSelector"], ("nodeSelector",))
    if "gracePeriodSeconds" in value:
        work.drop(("gracePeriodSeconds",), "a pod's own terminationGracePeriodSeconds holds")
    if "evictionFailureEventNotification" in value:
        work.note(
            ("evictionFailureEventNotification",),
            Kept.CHANGED,
            "always: outcomes are in the report, the journal and the metrics",
        )


def node_selector(work: Import, text: str, at: Path) -> None:
    """Map a selector in the form ``key=value,key2=value2``."""
    pairs = [part.split("=", 1) for part in text.replace("==", "=").split(",") if part]
    if not all(len(pair) == 2 and pair[0].strip() and "!" not in pair[0] for pair in pairs):
        work.drop(at, "write it as hotNodes.nodeSelector with matchExpressions")
        return
    labels = {key.strip(): value.strip() for key, value in pairs}
    work.set(
        at,
        "hotNodes.nodeSelector",
        {"matchLabels": labels},
        "only these nodes can be hot; others still receive",
    )


def evictor_settings(work: Import, arguments: Mapping[str, Any], at: Path) -> None:
    """Map the arguments of DefaultEvictor."""
    for key, why in _NEVER.items():
        if key in arguments:
            work.drop((*at, key), why)
    _storage(work, arguments, at)
    _selection(work, arguments, at)
    _protections(work, arguments.get("podProtections"), (*at, "podProtections"))
    if "nodeFit" in arguments:
        work.note(
            (*at, "nodeFit"),
            Kept.CHANGED,
            "always: each landing is computed with the scheduler's own filters",
        )
    work.rest(at, arguments, "no setting of ours does this")


def protect(work: Import, path: Path, name: str, *, protected: bool, text: str = "") -> None:
    """Protect a kind of pod, or no longer; what we protect by default stays protected."""
    current = work.policy.get("evictable", {}).get("protect", [str(kind) for kind in Evictable().protect])
    wanted = [item for item in (*current, name) if protected or item != name]
    work.set(path, "evictable.protect", list(dict.fromkeys(wanted)), text)


def _storage(work: Import, arguments: Mapping[str, Any], at: Path) -> None:
    if isinstance(local := arguments.get("evictLocalStoragePods"), bool):
        protect(work, (*at, "evictLocalStoragePods"), "LocalStorage", protected=not local)
    if isinstance(ignored := arguments.get("ignorePvcPods"), bool):
        protect(work, (*at, "ignorePvcPods"), "PersistentVolumes", protected=ignored)


def _selection(work: Import, arguments: Mapping[str, Any], at: Path) -> None:
    threshold = arguments.get("priorityThreshold")
    if isinstance(threshold, Mapping):
        if isinstance(threshold.get("value"), int):
            work.set((*at, "priorityThreshold", "value"), "evictable.priorityBelow", threshold["value"])
        if "name" in threshold:
            work.drop(
                (*at, "priorityThreshold", "name"), "write the value of that class: evictable.priorityBelow"
            )
    if isinstance(minimum := arguments.get("minReplicas"), int) and not isinstance(minimum, bool):
        work.set((*at, "minReplicas"), "evictable.minReplicas", minimum, "and SingleReplica stays protected")
    if isinstance(age := arguments.get("minPodAge"), str):
        work.set((*at, "minPodAge"), "evictable.minAge", age)
    if isinstance(selector := arguments.get("labelSelector"), Mapping):
        work.set((*at, "labelSelector"), "evictable.podSelector", dict(selector))
    if isinstance(selector := arguments.get("nodeSelector"), str):
        node_selector(work, selector, (*at, "nodeSelector"))


_DISABLED = {"PodsWithLocalStorage": "LocalStorage"}
_EXTRA = {"PodsWithPVC": "PersistentVolumes"}


def _protections(work: Import, value: Any, at: Path) -> None:
    if not isinstance(value, Mapping):
        return
    for key, names, protected in (("defaultDisabled", _DISABLED, False), ("extraEnabled", _EXTRA, True)):
        entries = value.get(key)
        for index, name in enumerate(entries if isinstance(entries, list) else ()):
            if name in names:
                protect(work, (*at, key, index), names[name], protected=protected)
            else:
                work.drop((*at, key, index), "no setting of ours does this")
