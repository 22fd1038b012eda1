"""Whole cases: a cluster, a configuration, pods to schedule.

The same seed, family and number make the same case.
"""

from __future__ import annotations

from tests.conformance.generator import loads, volumes
from tests.conformance.generator.configurations import configuration
from tests.conformance.generator.draws import APPS, NAMESPACES, Draws, Object
from tests.conformance.generator.nodes import node
from tests.conformance.generator.pods import pod, running

# What a family emphasizes; everything else occurs in it as well, but rarely.
FAMILIES: dict[str, frozenset[str]] = {
    "resources": frozenset({"resources"}),
    "resize": frozenset({"resources", "resize"}),
    "taints": frozenset({"taints"}),
    "nodeaffinity": frozenset({"nodeaffinity"}),
    "ports": frozenset({"ports"}),
    "interpod": frozenset({"interpod"}),
    "spread": frozenset({"spread"}),
    "images": frozenset({"images"}),
    "config": frozenset({"config", "images"}),
    "nominated": frozenset({"nominated", "sharing"}),
    "volumes": frozenset({"volumes"}),
    "claims": frozenset({"volumes", "claims"}),
    "trimaran": frozenset({"trimaran", "resources"}),
    "peaks": frozenset({"peaks", "resources"}),
    "profiles": frozenset({"profiles", "config", "nodeaffinity"}),
    "large": frozenset({"large"}),
    "bystanders": frozenset({"bystanders", "resources"}),
    "mixed": frozenset({"resources", "taints", "nodeaffinity", "interpod", "spread", "images", "config"}),
}

# Decided by the last bit of e^x, which depends on the processor the scheduler runs on: compared when named.
BY_PROCESSOR = frozenset({"peaks"})
ALWAYS_COMPARED = tuple(name for name in FAMILIES if name not in BY_PROCESSOR)

# What makes pods care for each other; the one that waits on a node and the one that is placed.
_SHARING: tuple[frozenset[str], ...] = (
    frozenset(),
    frozenset({"spread"}),
    frozenset({"interpod"}),
    frozenset({"ports"}),
)


def make_case(seed: int, family: str, number: int) -> Object:
    """One case of a family."""
    draws = Draws((seed, family, number))
    emphasis = FAMILIES[family]
    large = "large" in emphasis
    size = draws.number(100, 130) if large else draws.one((3, 5, 8, 12, 1, 2), 3, 3, 3, 2)
    nodes = [node(draws, index, emphasis) for index in range(size)]
    draws.random.shuffle(nodes)
    names = [item["metadata"]["name"] for item in nodes]
    pods = [
        running(draws, f"p{index}", draws.one(names), emphasis)
        for index in range(draws.few(60 if large else 3 * len(nodes)))
        if draws.chance(0.9)
    ]
    wanted = emphasis | draws.one(_SHARING) if "sharing" in emphasis else emphasis
    pending = [pod(draws, f"q{index}", wanted) for index in range(draws.number(2, 5))]
    objects: Object = {"nodes": nodes, "pods": pods, "namespaces": _namespaces(draws)}
    objects |= _owners(draws)
    schedulers = ["default-scheduler"]
    if "profiles" in emphasis:
        schedulers += ["batch", "other"][: draws.number(1, 2)]
    for item in (*pods, *pending) if len(schedulers) > 1 else ():
        item["spec"]["schedulerName"] = draws.one(schedulers)
    for item in pods if "bystanders" in emphasis else ():
        _make_bystander(draws, item)
    if "nominated" in emphasis:
        _nominate(draws, objects, pending, names)
    if "volumes" in emphasis:
        objects |= volumes.storage(draws, nodes, pods, pending, odd="claims" in emphasis)
    case: Object = {
        "id": f"{family}-{seed}-{number}",
        "family": family,
        "config": configuration(draws, emphasis, schedulers),
        "objects": objects,
        "pending": pending,
    }
    if emphasis & {"trimaran", "peaks"}:
        case["watcher"] = loads.watcher(draws, names)
    return case


def _namespaces(draws: Draws) -> list[Object]:
    labels: tuple[Object, ...] = ({}, {"team": "x"}, {"team": "y"})
    return [{"metadata": {"name": name, "labels": draws.one(labels)}} for name in NAMESPACES]


def _owners(draws: Draws) -> Object:
    """Services and controllers, from which default spread constraints derive their selector."""
    made: Object = {"services": [], "replicaSets": [], "statefulSets": []}
    for namespace in NAMESPACES:
        for app in APPS:
            selector = {"app": app}
            if draws.chance(0.3):
                meta = {"name": app, "namespace": namespace}
                made["services"].append({"metadata": meta, "spec": {"selector": selector}})
            for kind, suffix in (("replicaSets", "-r1"), ("statefulSets", "-set")):
                if draws.chance(0.4):
                    meta = {"name": app + suffix, "namespace": namespace, "uid": f"{namespace}-{app}{suffix}"}
                    made[kind].append({"metadata": meta, "spec": {"selector": {"matchLabels": selector}}})
    return made


def _make_bystander(draws: Draws, pod: Object) -> None:
    """A pod on a node with what would make its own placement unpredictable: it must not disturb others."""
    if draws.chance(0.4):
        pod["spec"]["resourceClaims"] = [{"name": "device", "resourceClaimName": "claim"}]
        pod["spec"]["containers"][0].setdefault("resources", {})["claims"] = [{"name": "device"}]
    if draws.chance(0.3):
        pod["spec"]["workloadRef"] = {"name": "training", "podGroup": "workers"}
    if draws.chance(0.3):
        pod["spec"]["schedulingGroup"] = {"podGroupName": "workers"}
    if draws.chance(0.2):
        pod["spec"]["hostNetwork"], pod["spec"]["hostUsers"] = True, False
    if draws.chance(0.2):
        pod["spec"]["containers"][0]["restartPolicyRules"] = [
            {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [1]}}
        ]


def _nominate(draws: Draws, objects: Object, pending: list[Object], names: list[str]) -> None:
    """Pods that preempted and wait: others of the queue, and now and then the one being scheduled."""
    for index in range(draws.number(1, 3)):
        waiting = pod(draws, f"w{index}", draws.one(_SHARING))
        if draws.chance(0.1):
            waiting["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        waiting["status"]["nominatedNodeName"] = draws.one(names)
        objects["pods"].append(waiting)
    for item in pending:
        if draws.chance(0.2):
            item["status"]["nominatedNodeName"] = draws.one((*names, "gone"))
