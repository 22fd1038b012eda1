"""Where we deliberately choose other pods than the descheduler: a name, a sentence, and how it is recognized.

A deviation is recognized by facts of the case, or by what either of the two says of the same case with one
thing changed. What is recognized as none of these is a defect of one of the two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec
import numpy as np

from rebalancer.planning.reasons import Reason
from rebalancer.planning.report import build_plan
from rebalancer.planning.search import search
from rebalancer.planning.strategies import strategies_of
from tests.conformance.descheduler.candidates import Asked

_ALPHA = "descheduler.alpha.kubernetes.io/"
_SOFT = ("preferredDuringSchedulingIgnoredDuringExecution", "includePreferNoSchedule", "ScheduleAnyway")


class Compared(msgspec.Struct, frozen=True):
    """A case with what both choose; names of pods, or of nodes where a plugin is about nodes."""

    asked: Asked
    theirs: frozenset[str]
    ours: Mapping[str, str]  # and why
    without_node_fit: frozenset[str]  # what they choose where nodeFit is off

    @property
    def plugin(self) -> str:
        """Whose choice it is."""
        return str(self.asked.case["family"])

    @property
    def evictor(self) -> Mapping[str, Any]:
        """The arguments of its evictor."""
        return self.asked.case["policy"]["profiles"][0]["pluginConfig"][0].get("args") or {}

    def pod(self, name: str) -> Mapping[str, Any]:
        """A pod of the case."""
        found: dict[str, Mapping[str, Any]] = {
            full_name(item): item for item in self.asked.case["objects"]["pods"]
        }
        return found[name]


class Deviation(msgspec.Struct, frozen=True):
    """Why one of the two chooses what the other does not."""

    name: str
    because: str
    theirs: bool  # they choose it, and we do not
    holds: Callable[[Compared, str], bool]


def full_name(item: Mapping[str, Any]) -> str:
    """Namespace and name of an object."""
    return f"{item['metadata'].get('namespace', 'default')}/{item['metadata']['name']}"


def _annotated(word: str) -> Callable[[Compared, str], bool]:
    return lambda case, name: _ALPHA + word in (case.pod(name)["metadata"].get("annotations") or {})


def _refused(*reasons: Reason) -> Callable[[Compared, str], bool]:
    def holds(case: Compared, name: str) -> bool:
        refusal = case.asked.refusal(name)
        return refusal is not None and refusal.reason in reasons

    return holds


def _finished(case: Compared, name: str) -> bool:
    return case.pod(name)["status"].get("phase") in ("Failed", "Succeeded")


def _ends_with_others(case: Compared, name: str) -> bool:
    return name not in case.asked.wishes(case.theirs)


def _node_fit(case: Compared, name: str) -> bool:
    found = case.without_node_fit
    return _node_fit_on(case) and (name in found or name not in case.asked.wishes(found))


def _of_soft_rules(case: Compared, name: str) -> bool:
    soft = any(word in str(case.asked.case["policy"]) for word in _SOFT)
    return soft and case.plugin in (_NODE_AFFINITY, _TAINTS) and name not in case.asked.wishes()


def _no_landing(case: Compared, name: str) -> bool:
    """Whether no node takes a pod, as the cluster is or after the moves before it."""
    prepared = case.asked.prepared
    kind = prepared.candidate(case.asked.row(name)).replacement
    if not prepared.schedulers.scheduler(kind).feasible(prepared.state, kind).any():
        return True
    strategies = strategies_of(prepared)
    plan = build_plan(prepared, search(prepared, strategies), strategies)
    kept = {f"{item.pod.namespace}/{item.pod.name}": item.reason for item in plan.kept}
    return kept.get(name) in (Reason.NO_LANDING, Reason.NO_BETTER_LANDING)


def _without_required_affinity(case: Compared, name: str) -> bool:
    affinity = case.pod(name)["spec"].get("affinity") or {}
    return not (affinity.get("nodeAffinity") or {}).get("requiredDuringSchedulingIgnoredDuringExecution")


def _conflicts(case: Compared, name: str) -> Iterator[str]:
    """The pods that a pod's own required anti-affinity is about, where they are."""
    pod = case.pod(name)
    labels = {
        node["metadata"]["name"]: node["metadata"]["labels"] for node in case.asked.case["objects"]["nodes"]
    }
    anti = (pod["spec"].get("affinity") or {}).get("podAntiAffinity") or {}
    for term in anti.get("requiredDuringSchedulingIgnoredDuringExecution") or ():
        spaces = term.get("namespaces") or [pod["metadata"].get("namespace", "default")]
        wanted = (term.get("labelSelector") or {}).get("matchLabels", {}).items()
        here = labels[pod["spec"]["nodeName"]].get(term["topologyKey"])
        for other in case.asked.case["objects"]["pods"]:
            there = labels.get(other["spec"].get("nodeName"), {}).get(term["topologyKey"])
            found = wanted <= (other["metadata"].get("labels") or {}).items() and here == there
            if found and full_name(other) != name and other["metadata"].get("namespace", "default") in spaces:
                yield full_name(other)


def _of_another(case: Compared, name: str) -> bool:
    by_others = "existing pods" in case.ours[name]
    return by_others or all(other in case.theirs for other in _conflicts(case, name))


def _outside(case: Compared, name: str) -> bool:
    """Whether the pods that it may not be with are all in namespaces that the plugin does not act in."""
    spaces = case.asked.policy.evictable.namespaces
    found = [other.partition("/")[0] for other in _conflicts(case, name)]
    return bool(found) and not any(map(spaces.allows, found))


def _namesakes(case: Compared, name: str) -> bool:
    own = name.partition("/")[2]
    return {found.partition("/")[2] for found in _conflicts(case, name)} == {own}


def _few_pods(case: Compared, name: str) -> bool:
    """Whether minReplicas is not reached by pods of the same owner, though by what the owner wants."""
    owners = _owners(case.pod(name))
    alike = [item for item in case.asked.case["objects"]["pods"] if _owners(item) == owners]
    return len(owners) == 1 and len(alike) < case.evictor.get("minReplicas", 0)


def _percent(case: Compared) -> np.ndarray[Any, np.dtype[np.float64]]:
    return case.asked.prepared.inputs.load.percent[:, :3]


def _nobody_low(case: Compared, _name: str) -> bool:
    arguments = case.asked.case["policy"]["profiles"][0]["pluginConfig"][1]["args"]["thresholds"]
    low = np.array([arguments.get(name, 100.0) for name in ("cpu", "memory", "pods")])
    records = case.asked.snapshot.nodes.records
    schedulable = np.array([not node.spec.unschedulable for node in records])
    return not bool(((_percent(case) <= low).all(axis=1) & schedulable).any())


def _nothing_free(case: Compared, node: str) -> bool:
    """Whether we let none of the pods go that they evict from a node."""
    on = {full_name(item): item["spec"].get("nodeName") for item in case.asked.case["objects"]["pods"]}
    gone = [name for name in case.asked.case["evictions"] if on[name] == node]
    return all(case.asked.refusal(name) is not None for name in gone)


def _others_protected(case: Compared, name: str) -> bool:
    """Whether a pod that counts with this one is one that an evictor holds back."""
    owners = _owners(case.pod(name))
    labels = (case.pod(name)["metadata"].get("labels") or {}).get("app")
    for other in case.asked.case["objects"]["pods"]:
        alike = case.plugin == _DUPLICATES and _owners(other) == owners
        alike |= case.plugin == _SPREAD and (other["metadata"].get("labels") or {}).get("app") == labels
        if alike and (case.asked.refusal(full_name(other)) is not None or _node_fit_on(case)):
            return True
    return False


def _others_are_enough(case: Compared, name: str) -> bool:
    """Whether they move others that count with this one: which of them is of no importance."""
    pod = case.pod(name)["metadata"]
    peers = (case.pod(other)["metadata"] for other in case.theirs)
    return any(
        (other["namespace"], other["labels"].get("app")) == (pod["namespace"], pod["labels"].get("app"))
        for other in peers
    )


def _owners(pod: Mapping[str, Any]) -> list[str]:
    return [item.get("uid", item["name"]) for item in pod["metadata"].get("ownerReferences", ())]


def _node_fit_on(case: Compared) -> bool:
    return bool(case.evictor.get("nodeFit"))


def _terminating(case: Compared, name: str) -> bool:
    pods = (item for item in case.asked.case["objects"]["pods"] if item["spec"].get("nodeName") == name)
    return any("deletionTimestamp" in item["metadata"] for item in pods)


def _unless_low(case: Compared, name: str) -> bool:
    return not _nobody_low(case, name)


_NODE_AFFINITY, _ANTI_AFFINITY = "RemovePodsViolatingNodeAffinity", "RemovePodsViolatingInterPodAntiAffinity"
_TAINTS = "RemovePodsViolatingNodeTaints"
_LOAD, _DUPLICATES = "LowNodeUtilization", "RemoveDuplicates"
_SPREAD = "RemovePodsViolatingTopologySpreadConstraint"


def _of(plugin: str, holds: Callable[[Compared, str], bool]) -> Callable[[Compared, str], bool]:
    return lambda case, name: case.plugin == plugin and holds(case, name)


def _pods_only(holds: Callable[[Compared, str], bool]) -> Callable[[Compared, str], bool]:
    return lambda case, name: case.plugin != _LOAD and holds(case, name)


DEVIATIONS = (
    Deviation(
        "evict lifts less",
        "the annotation evict, even with the value false, lifts every protection there; here it lifts those "
        "of the policy, and false asks to stay",
        True,
        _pods_only(
            lambda case, name: _annotated("evict")(case, name) and case.asked.refusal(name) is not None
        ),
    ),
    Deviation(
        "prefer-no-eviction",
        "the annotation prefer-no-eviction only orders pods there; here such pods stay",
        True,
        _pods_only(_annotated("prefer-no-eviction")),
    ),
    Deviation(
        "no replacement",
        "pods that nothing would replace stay: without a controller, or beyond what it wants",
        True,
        _pods_only(_refused(Reason.NO_CONTROLLER, Reason.NO_REPLACEMENT)),
    ),
    Deviation(
        "finished pods",
        "pods that have failed are removed there by every strategy, here by strategies.failed and lifetime",
        True,
        _pods_only(_finished),
    ),
    Deviation(
        "preferred loops",
        "by a soft rule a pod leaves there if any node is preferred, though it may not take the pod, and the "
        "pod may come back; here only where the scheduler would now choose a better node",
        True,
        _of_soft_rules,
    ),
    Deviation(
        "minReplicas",
        "minReplicas counts the pods there are, here the replicas that are wanted",
        True,
        _pods_only(_refused(Reason.MIN_REPLICAS)),
    ),
    Deviation(
        "nothing there may go",
        "none of the pods that they evict there may be evicted here",
        True,
        _of(_LOAD, _nothing_free),
    ),
    Deviation(
        "evictable pods only",
        "only pods that may be evicted are counted there; the scheduler, and so we, count all of them",
        True,
        _pods_only(_others_protected),
    ),
    Deviation(
        "cordoned nodes share",
        "an even share is over cordoned nodes too, which take no pods",
        True,
        _of(
            _DUPLICATES,
            lambda case, _: any(node.spec.unschedulable for node in case.asked.snapshot.nodes.records),
        ),
    ),
    Deviation(
        "one constraint at a time",
        "by the scheduler's own count no move of the pod helps; there each constraint is counted alone, and "
        "for pods that carry none as well",
        True,
        _of(_SPREAD, lambda case, name: name not in case.asked.wishes()),
    ),
    Deviation(
        "load that leaves",
        "what terminating pods request counts there until they are gone; here it leaves by itself",
        True,
        _of(_LOAD, _terminating),
    ),
    Deviation(
        "nodeFit",
        "with nodeFit they look whether some node takes the pod; here that is part of the landing, later",
        False,
        _pods_only(_node_fit),
    ),
    Deviation(
        "PodsWithoutPDB",
        "its informer of budgets is never started in v0.36.0, so with PodsWithoutPDB every pod counts as one "
        "without a budget; here budgets are read, and matter for pods that run",
        False,
        lambda case, _: "PodsWithoutPDB" in str(case.evictor),
    ),
    Deviation(
        "ends with the others",
        "once the pods that they chose are gone the rule holds again: the plan stops there too, move by move",
        False,
        _pods_only(_ends_with_others),
    ),
    Deviation(
        "minReplicas",
        "minReplicas counts the pods there are, here the replicas that are wanted",
        False,
        _pods_only(_few_pods),
    ),
    Deviation(
        "evict lifts more",
        "the annotation evict lifts the policy's namespaces here, and not those of a plugin there",
        False,
        _pods_only(_annotated("evict")),
    ),
    Deviation(
        "evictable pods only",
        "only pods that may be evicted are counted there; the scheduler, and so we, count all of them",
        False,
        _pods_only(_others_protected),
    ),
    Deviation(
        "others are enough",
        "all pods of the fullest domains are candidates here, and there only as many as are to move",
        False,
        _of(_SPREAD, _others_are_enough),
    ),
    Deviation(
        "nodeSelector alone",
        "a nodeSelector without node affinity is not looked at there; for the scheduler they are one rule",
        False,
        _of(_NODE_AFFINITY, _without_required_affinity),
    ),
    Deviation(
        "no node takes it",
        "node affinity and spread are looked at only where some node takes the pod now; here that is part of "
        "the landing, after the moves before it",
        False,
        lambda case, name: case.plugin in (_NODE_AFFINITY, _SPREAD) and _no_landing(case, name),
    ),
    Deviation(
        "the other pod's rule",
        "only a pod's own anti-affinity counts there; the scheduler holds it to that of others as well",
        False,
        _of(_ANTI_AFFINITY, _of_another),
    ),
    Deviation(
        "namesakes of two namespaces",
        "pods of the same name are taken for the same pod there, whatever their namespaces",
        False,
        _of(_ANTI_AFFINITY, _namesakes),
    ),
    Deviation(
        "other namespaces",
        "pods of namespaces that the plugin does not act in do not count there; for the scheduler they do",
        False,
        _of(_ANTI_AFFINITY, _outside),
    ),
    Deviation(
        "nobody low",
        "nodes are relieved there only if some node is below all thresholds; here landings decide",
        False,
        _of(_LOAD, _nobody_low),
    ),
    Deviation(
        "headroom is used up",
        "they stop when the nodes below thresholds could take no more, all counted together",
        False,
        _of(_LOAD, _unless_low),
    ),
)


def deviation(case: Compared, name: str, *, theirs: bool) -> str:
    """Why only one of the two chooses a pod; empty where nothing explains it."""
    found = (item.name for item in DEVIATIONS if item.theirs is theirs and item.holds(case, name))
    return next(found, "")
