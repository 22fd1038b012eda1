"""The rules that differ between Kubernetes minors, each with its range; all others are those of 1.35.

Fields that a version does not know yet are dropped from its pods, as its API server would have done.
Sources: kubernetes v1.34.4 pkg/scheduler/apis/config/v1/default_plugins.go:30, schedule_one.go:697 and
the feature gates of the releases.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

import msgspec

from rebalancer.cluster.columns.pod_classes import PodClass
from rebalancer.cluster.records import Container, TopologySpreadConstraint

VERIFIED = "1.35"
_VERSION = re.compile(r"v?(\d{1,3})\.(\d{1,3})(?:\D.*)?", re.ASCII | re.DOTALL)
_NEWEST = 1 << 30


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule that not every version has; ``since`` and ``until`` are minors of Kubernetes 1, inclusive."""

    name: str
    what: str
    since: int = 0
    until: int = _NEWEST
    without: Callable[[PodClass], PodClass] | None = None  # a pod as seen by versions before ``since``

    def holds(self, minor: int) -> bool:
        """Whether a minor has the rule."""
        return self.since <= minor <= self.until

    @property
    def range(self) -> str:
        """``1.29 and later``, ``1.22 to 1.27``."""
        if self.until == _NEWEST:
            return f"1.{self.since} and later"
        return f"1.{self.since} to 1.{self.until}" if self.since else f"up to 1.{self.until}"


def _without_sidecars(pod: PodClass) -> PodClass:
    def plain(container: Container) -> Container:
        return msgspec.structs.replace(container, restart_policy=None)

    starting = pod.spec.init_containers
    if not any(item.restart_policy for item in starting or ()):
        return pod
    return _with_spec(pod, init_containers=[plain(item) for item in starting or ()])


def _without_pod_level(pod: PodClass) -> PodClass:
    return _with_spec(pod, resources=None) if pod.spec.resources is not None else pod


def _without_resize(pod: PodClass) -> PodClass:
    if not pod.statuses and not pod.resize_infeasible:
        return pod
    return replace(pod, statuses=(), resize_infeasible=False)


def _without_of_constraints(*fields: str) -> Callable[[PodClass], PodClass]:
    def without(pod: PodClass) -> PodClass:
        def plain(item: TopologySpreadConstraint) -> TopologySpreadConstraint:
            return msgspec.structs.replace(item, **dict.fromkeys(fields))

        given = pod.spec.topology_spread_constraints or []
        if not any(getattr(item, field) is not None for item in given for field in fields):
            return pod
        return _with_spec(pod, topology_spread_constraints=[plain(item) for item in given])

    return without


def _with_spec(pod: PodClass, **changes: object) -> PodClass:
    return replace(pod, spec=msgspec.structs.replace(pod.spec, **changes))


RULES: tuple[Rule, ...] = (
    Rule(
        "uniform ties",
        "among equal totals one is drawn at random; landings are a set either way",
        until=34,
    ),
    Rule(
        "heap ties",
        "among equal totals the root of a heap wins, whose order is a race; landings are a set either way",
        since=35,
    ),
    Rule(
        "OpportunisticBatching",
        "equal pods in a row may reuse the last one's order; inert with the default plugins, not modelled",
        since=35,
    ),
    Rule(
        "pod-level resources",
        "spec.resources of a pod counts instead of what its containers request",
        since=34,
        without=_without_pod_level,
    ),
    Rule(
        "in-place resize",
        "of a pod being resized the larger of spec, status and allocation counts",
        since=33,
        without=_without_resize,
    ),
    Rule("affinity matchLabelKeys", "matchLabelKeys and mismatchLabelKeys of affinity terms", since=31),
    Rule(
        "sidecars",
        "init containers that restart always count beside the containers",
        since=29,
        without=_without_sidecars,
    ),
    Rule(
        "spread matchLabelKeys",
        "matchLabelKeys of topology spread constraints",
        since=27,
        without=_without_of_constraints("match_label_keys"),
    ),
    Rule(
        "minDomains",
        "minDomains of topology spread constraints",
        since=27,
        without=_without_of_constraints("min_domains"),
    ),
    Rule(
        "nodeInclusionPolicies",
        "nodeAffinityPolicy and nodeTaintsPolicy of topology spread constraints",
        since=26,
        without=_without_of_constraints("node_affinity_policy", "node_taints_policy"),
    ),
    Rule("configuration v1", "with the weights of v1beta3; the only one that 1.35 reads", since=25),
    Rule(
        "configuration v1beta3",
        "weights 3 for TaintToleration, 2 for NodeAffinity and InterPodAffinity",
        since=23,
        until=28,
    ),
    Rule("configuration v1beta2", "no multiPoint; most weights 1", since=22, until=27),
    Rule(
        "configuration v1beta1",
        "NodeResourcesLeastAllocated instead of NodeResourcesFit's score, NodePreferAvoidPods",
        since=19,
        until=22,
    ),
)


def major_minor(text: str) -> str:
    """``1.35`` of ``v1.35.4+k3s1``; empty when it is no version."""
    match = _VERSION.fullmatch(text.strip())
    return f"{int(match[1])}.{int(match[2])}" if match else ""


def _minor(version: str) -> int | None:
    """The minor of a version of Kubernetes 1; None when it is not known."""
    major, _, minor = version.partition(".")
    return int(minor) if major == "1" and minor.isdecimal() else None


def as_seen_by(version: str, pod: PodClass) -> PodClass:
    """A pod without the fields that a version does not know; unchanged when the version is not known."""
    minor = _minor(version)
    if minor is None:
        return pod
    for rule in RULES:
        if rule.without is not None and not rule.holds(minor):
            pod = rule.without(pod)
    return pod


def version_warnings(version: str, api_version: str) -> tuple[str, ...]:
    """Warnings about a scheduler's version and its configuration's API version."""
    minor = _minor(version)
    if minor is None:
        return (f"the scheduler's version is not known; the rules of {VERIFIED} are used",)
    found: list[str] = []
    if version != VERIFIED:
        verified = _minor(VERIFIED) or 0
        other = [rule.name for rule in RULES if rule.holds(minor) != rule.holds(verified)]
        differing = f", which differ in {', '.join(other)}" if other else ""
        found.append(
            f"scheduler {version}: only the rules of {VERIFIED} were verified; those of {version} are as "
            f"read from its reference{differing}"
        )
    short = api_version.rpartition("/")[2]
    rule = next((item for item in RULES if item.name == f"configuration {short}"), None)
    if rule is not None and not rule.holds(minor):
        found.append(f"scheduler {version} does not read configurations of {short}: that is {rule.range}")
    return tuple(found)
