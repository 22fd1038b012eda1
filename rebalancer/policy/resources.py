"""The resources a policy names, and whether one of its sources measures them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rebalancer.documents import Document, did_you_mean
from rebalancer.policy.hotness import DeviationRule, HotRule, UtilizationRule
from rebalancer.policy.load_sources.prometheus import BUILT_IN_RESOURCES, PrometheusSource
from rebalancer.policy.schema import RebalancePolicy

EVERYWHERE = ("cpu", "memory")  # what every source measures
_COUNTED = "pods"


def named_resources(policy: RebalancePolicy) -> tuple[str, ...]:
    """The resources that rules name, each once."""
    return tuple(dict.fromkeys(name for _, name in _mentions(policy)))


def measured_resources(policy: RebalancePolicy, scored: Iterable[str] = ()) -> tuple[str, ...]:
    """What is to be measured: cpu and memory, what the policy names or its plugins score, and all signals."""
    others = dict.fromkeys(
        (*named_resources(policy), *scored, *policy.planning.max_after, *policy.load.signals)
    )
    return (*EVERYWHERE, *(name for name in others if name not in (*EVERYWHERE, _COUNTED)))


def required_resources(policy: RebalancePolicy, scored: Iterable[str] = ()) -> tuple[str, ...]:
    """Without a fresh figure of these a node is unknown: cpu, memory, and what rules name or score."""
    found = dict.fromkeys((*EVERYWHERE, *named_resources(policy), *scored))
    return tuple(name for name in found if name != _COUNTED)


def pressure_resources(policy: RebalancePolicy) -> tuple[str, ...]:
    """The resources whose pressure rules name, each once."""
    rules = (rule for rule in policy.hot_nodes.every_rule if isinstance(rule, UtilizationRule))
    return tuple(dict.fromkeys(name for rule in rules for name in rule.pressure))


def scorable_resources(policy: RebalancePolicy) -> tuple[str, ...]:
    """Whatever the policy's sources can measure, named by a rule or not, and the number of pods."""
    if not _reads_prometheus(policy):
        return (*EVERYWHERE, _COUNTED)
    return (*BUILT_IN_RESOURCES, *policy.load.signals)


def _reads_prometheus(policy: RebalancePolicy) -> bool:
    return any(isinstance(source, PrometheusSource) for source in policy.load.sources)


def check_resources(policy: RebalancePolicy, document: Document) -> None:
    """InputError when a rule names a resource that nothing measures."""
    known = (*BUILT_IN_RESOURCES, *policy.load.signals)
    reads_prometheus = _reads_prometheus(policy)
    for path, name in (*_mentions(policy), *_mentions_elsewhere(policy)):
        if name not in known:
            message = f"{name} is unknown; known: {', '.join(known)}"
            hint = did_you_mean(name, list(known))
            hint = f"{hint} Or define it under load.signals" if hint else "define it under load.signals"
            raise document.error(path, message, hint=hint, key=True)
        if name not in (*EVERYWHERE, _COUNTED) and not reads_prometheus:
            message = f"nothing measures {name}: load.sources has no prometheus source"
            raise document.error(path, message, hint="add a prometheus source", key=True)
    for path, rule in _rules(policy):
        if isinstance(rule, UtilizationRule) and rule.pressure and not reads_prometheus:
            message = "nothing measures pressure: load.sources has no prometheus source"
            raise document.error((*path, "pressure"), message, hint="add a prometheus source", key=True)
    if policy.load.signals and not reads_prometheus:
        message = "signals are read from Prometheus, but load.sources has no prometheus source"
        raise document.error(("load", "signals"), message, hint="add a prometheus source")


def _mentions_elsewhere(policy: RebalancePolicy) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Resources that are named outside the rules, and where."""
    yield from ((("planning", "maxAfter", name), name) for name in policy.planning.max_after)
    if not isinstance(policy.load.statistic, str):
        yield from ((("load", "statistic", name), name) for name in policy.load.statistic)
    for index, item in enumerate(policy.scheduler.mirror):
        if item.prometheus_score.resource:
            path = ("scheduler", "mirror", index, "prometheusScore", "resource")
            yield path, item.prometheus_score.resource


def _mentions(policy: RebalancePolicy) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Every resource a rule names, and where."""
    for place, rule in _rules(policy):
        if isinstance(rule, UtilizationRule):
            yield from (((*place, "utilization", name), name) for name in rule.utilization)
        elif isinstance(rule, DeviationRule):
            yield from (((*place, "deviation", name), name) for name in rule.deviation)


def _rules(policy: RebalancePolicy) -> list[tuple[tuple[str | int, ...], HotRule]]:
    """Every rule, and where it is written."""
    hot_nodes = policy.hot_nodes
    places: list[tuple[tuple[str | int, ...], HotRule]] = [
        (("hotNodes", "any", index), rule) for index, rule in enumerate(hot_nodes.any)
    ]
    for number, pool in enumerate(hot_nodes.pools):
        places += [(("hotNodes", "pools", number, "any", at), rule) for at, rule in enumerate(pool.any)]
    return places
