"""What a pod asks of nodes and of other pods: selectors, affinities, spread constraints, tolerations."""

from __future__ import annotations

from tests.conformance.generator.draws import (
    APPS,
    HOSTNAME,
    NAMESPACES,
    REGION,
    ZONE,
    ZONES,
    Draws,
    Object,
    without_empty,
)
from tests.conformance.generator.nodes import EFFECTS, TAINT_KEYS

TOPOLOGY_KEYS = (HOSTNAME, ZONE, REGION, "disk", "missing")


def tolerations(draws: Draws) -> list[Object]:
    """Tolerations of every form, some of which tolerate everything."""
    return [
        without_empty(
            {
                "key": draws.one((None, *TAINT_KEYS), 1, 4, 4),
                "operator": draws.one((None, "Equal", "Exists"), 1, 2, 3),
                "value": draws.one((None, "a", "b", ""), 4, 3),
                "effect": draws.one((None, *EFFECTS), 2, 2, 3),
            }
        )
        for _ in range(draws.number(1, 3))
    ]


def _node_requirement(draws: Draws) -> Object:
    key = draws.one(("disk", ZONE, "gen", HOSTNAME, "missing"), 3, 3, 3)
    if key == "gen" and draws.chance(0.7):
        value = draws.one(("3", "8", "9223372036854775807", "x", "-4"), 4, 4, 1, 1, 0.2)
        return {"key": key, "operator": draws.one(("Gt", "Lt")), "values": [value]}
    operator = draws.one(("In", "NotIn", "Exists", "DoesNotExist"), 4, 2)
    if operator in ("Exists", "DoesNotExist"):
        return {"key": key, "operator": operator}
    values = {"disk": ("ssd", "hdd"), ZONE: tuple(f"zone-{z}" for z in ZONES), "gen": ("1", "8", "09")}
    return {
        "key": key,
        "operator": operator,
        "values": draws.some(values.get(key, ("node-00", "node-01", "x")), 2, 1),
    }


def _node_term(draws: Draws) -> Object:
    term: Object = {"matchExpressions": [_node_requirement(draws) for _ in range(draws.few(2) + 1)]}
    if draws.chance(0.2):
        field = {"key": "metadata.name", "operator": draws.one(("In", "NotIn"), 2)}
        term["matchFields"] = [field | {"values": [f"node-{draws.number(0, 6):02}"]}]
        if draws.chance(0.5):
            del term["matchExpressions"]
    return {} if draws.chance(0.04) else term


def node_affinity(draws: Draws) -> Object:
    """Required and preferred terms, empty ones among them."""
    affinity: Object = {}
    if draws.chance(0.5):
        terms = [_node_term(draws) for _ in range(draws.number(1, 2))]
        affinity["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": terms}
    if draws.chance(0.7):
        affinity["preferredDuringSchedulingIgnoredDuringExecution"] = [
            {"weight": draws.one((1, 100, draws.number(1, 100))), "preference": _node_term(draws)}
            for _ in range(draws.number(1, 3))
        ]
    return affinity


def label_selector(draws: Draws) -> Object:
    """A selector of pods; the empty one matches all."""
    if draws.chance(0.08):
        return {}
    if draws.chance(0.6):
        return {"matchLabels": {"app": draws.one(APPS)}}
    operator = draws.one(("In", "NotIn", "Exists", "DoesNotExist"), 3)
    expression: Object = {"key": draws.one(("app", "tier", "rev"), 3), "operator": operator}
    if operator in ("In", "NotIn"):
        expression["values"] = draws.some((*APPS, "front", "r1"), 3, 1)
    return {"matchExpressions": [expression]}


def _namespace_selector(draws: Draws) -> Object:
    if draws.chance(0.3):
        return {}
    if draws.chance(0.5):
        return {"matchLabels": {"team": draws.one(("x", "y", "z"))}}
    operator = draws.one(("In", "NotIn", "Exists", "DoesNotExist"))
    expression: Object = {"key": "team", "operator": operator}
    if operator in ("In", "NotIn"):
        expression["values"] = draws.some(("x", "y"), 2, 1)
    return {"matchExpressions": [expression]}


def _pod_term(draws: Draws) -> Object:
    return without_empty({"topologyKey": draws.one(TOPOLOGY_KEYS, 4, 4, 1, 1, 0.3)}) | {
        key: value
        for key, value in (
            ("labelSelector", label_selector(draws) if draws.chance(0.95) else None),
            ("namespaces", draws.some(NAMESPACES, 2, 1) if draws.chance(0.25) else None),
            ("namespaceSelector", _namespace_selector(draws) if draws.chance(0.25) else None),
        )
        if value is not None
    }


def pod_affinity(draws: Draws) -> Object:
    """Affinity to pods or anti-affinity, required and preferred."""
    affinity: Object = {}
    if draws.chance(0.4):
        affinity["requiredDuringSchedulingIgnoredDuringExecution"] = [
            _pod_term(draws) for _ in range(draws.one((1, 2), 4))
        ]
    if draws.chance(0.6):
        affinity["preferredDuringSchedulingIgnoredDuringExecution"] = [
            {"weight": draws.one((1, 100, draws.number(1, 100))), "podAffinityTerm": _pod_term(draws)}
            for _ in range(draws.number(1, 2))
        ]
    return affinity


def spread_constraints(draws: Draws) -> list[Object]:
    """Hard and soft constraints; a pair of topology key and kind occurs once, as the API server demands."""
    chosen: dict[tuple[str, str], Object] = {}
    for _ in range(draws.number(1, 3)):
        hard = draws.chance(0.5)
        key = draws.one(TOPOLOGY_KEYS, 4, 4, 1, 1, 0.3)
        kind = "DoNotSchedule" if hard else "ScheduleAnyway"
        constraint = {"maxSkew": draws.one((1, 2, 5), 3), "topologyKey": key, "whenUnsatisfiable": kind}
        if draws.chance(0.95):
            constraint["labelSelector"] = label_selector(draws)
        if hard and draws.chance(0.3):
            constraint["minDomains"] = draws.number(1, 5)
        for policy in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            if draws.chance(0.3):
                constraint[policy] = draws.one(("Honor", "Ignore"))
        if "labelSelector" in constraint and draws.chance(0.2):
            constraint["matchLabelKeys"] = [draws.one(("rev", "missing"), 4)]
        chosen[key, kind] = constraint
    return list(chosen.values())
