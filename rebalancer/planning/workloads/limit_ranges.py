"""LimitRanges: what admission adds to the containers of a new pod, and which pods it refuses.

A replacement is admitted anew, by the LimitRanges of today. Of a template whose container asks for nothing:

    LimitRange of today                    the replacement
    none                                   requests nothing
    defaultRequest cpu 100m, default 1     requests 100m, its limit is 1
    max cpu 2                              requests 2, its limit is 2: max is the default where none is given
    min cpu 100m, the container asks 50m   is refused, whatever the pod that is evicted was allowed

Where several LimitRanges give a default for the same resource, the first one counts that the API server comes
to, and its order is not defined.

Source: kubernetes v1.36.3 plugin/pkg/admission/limitranger/admission.go, pkg/apis/core/v1/defaults.go
SetDefaults_LimitRangeItem.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from fractions import Fraction

import msgspec

from rebalancer.cluster import quantities, records
from rebalancer.cluster.kinds import LIMIT_RANGES
from rebalancer.cluster.snapshot import Snapshot
from rebalancer.scheduling.resources import Amounts, exact_amounts, pod_amounts

_CONTAINER = "Container"
_POD = "Pod"
_CLAIM = "PersistentVolumeClaim"
_ANNOTATION = "kubernetes.io/limit-ranger"  # what admission added, in words
_PREFIX = "LimitRanger plugin set: "


class LimitRanges:
    """The LimitRanges of a cluster, by namespace."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.failed = snapshot.recording.failed(LIMIT_RANGES)
        self.read = snapshot.has(LIMIT_RANGES)
        self._by_namespace: dict[str, list[records.LimitRange]] = defaultdict(list)
        for limit_range in snapshot.recording.records(LIMIT_RANGES):
            self._by_namespace[limit_range.metadata.namespace].append(limit_range)
        listing = snapshot.recording.listings.get(LIMIT_RANGES.plural)
        self._unreadable: dict[str, str] = {}
        if listing is not None:  # one without a LimitRange that could be read is empty
            self._unreadable = {malformed.namespace: str(malformed) for malformed in listing.malformed}

    def admitted(self, namespace: str, spec: records.PodSpec) -> records.PodSpec:
        """What a pod asks for once it is admitted; the same object where nothing is added."""
        ranges = self._by_namespace.get(namespace)
        if not ranges:
            return spec
        for limit_range in ranges:
            defaults = _defaults(limit_range)
            spec = msgspec.structs.replace(
                spec,
                containers=_with_defaults(spec.containers, *defaults),
                init_containers=_with_defaults(spec.init_containers, *defaults),
            )
        return spec

    def why_unknown(self, namespace: str, spec: records.PodSpec) -> str:
        """Why it is not known what admission makes of a new pod; empty when it is known."""
        if namespace in self._unreadable:
            return f"{self._unreadable[namespace]}: what it makes of a replacement is unknown"
        ranges = self._by_namespace.get(namespace, [])
        if any(volume.ephemeral for volume in spec.volumes or ()):
            for limit_range in ranges:
                if any(limit.type == _CLAIM for limit in limit_range.spec.limits or ()):
                    return (
                        f"LimitRange {limit_range.metadata.name} may refuse the claims of its ephemeral "
                        "volumes, whose size is not read"
                    )
        given: dict[tuple[int, str], tuple[str, str]] = {}
        for limit_range in ranges:
            for which, defaults in enumerate(_defaults(limit_range)):
                for resource, amount in defaults.items():
                    name, other = given.setdefault((which, resource), (limit_range.metadata.name, amount))
                    if other != amount:
                        return (
                            f"LimitRanges {name} and {limit_range.metadata.name} differ in the {resource} "
                            "they add"
                        )
        return ""

    def why_changed(self, namespace: str, spec: records.PodSpec, annotations: Mapping[str, str]) -> str:
        """What a running pod has of a LimitRange that is no more, or has changed; empty when nothing.

        ``annotations`` are those of the pod, in one of which the API server wrote what it added.
        """
        containers = {container.name: container for container in spec.every_container}
        today = [_defaults(limit_range) for limit_range in self._by_namespace.get(namespace, ())]
        for name, field, resource in _added(annotations.get(_ANNOTATION, "")):
            container = containers.get(name)
            resources = container.resources if container else None
            amounts = (
                (resources.requests if field == "request" else resources.limits) if resources else None
            ) or {}
            defaults = [limits if field == "limit" else requests for limits, requests in today]
            if resource in amounts and not any(
                resource in given and _same(given[resource], amounts[resource]) for given in defaults
            ):
                return (
                    f"a LimitRange gave its container {name} the {resource} {field} {amounts[resource]}, "
                    "and none does so now"
                )
        return ""

    def why_added(self, namespace: str, spec: records.PodSpec) -> str:
        """Which LimitRange would give a new pod what a pod like it does not have; empty when none would."""
        for limit_range in self._by_namespace.get(namespace, ()):
            for container in spec.every_container:
                if _with_default(container, *_defaults(limit_range)) != container:
                    return (
                        f"LimitRange {limit_range.metadata.name} would give container {container.name} of "
                        "its replacement requests or limits that it does not have"
                    )
        return ""

    def refusal(self, namespace: str, spec: records.PodSpec) -> str:
        """Which LimitRange refuses a new pod that asks for this, once defaults are added; empty when none."""
        for limit_range in self._by_namespace.get(namespace, ()):
            try:
                why = next(_objections(limit_range.spec.limits or (), spec), "")
            except ValueError:
                why = "one of its amounts cannot be read"
            if why:
                return f"LimitRange {limit_range.metadata.name} refuses a new pod like it: {why}"
        return ""


def _defaults(limit_range: records.LimitRange) -> tuple[records.Labels, records.Labels]:
    """The limits and the requests that a LimitRange gives to containers that have none."""
    limits: records.Labels = {}
    requests: records.Labels = {}
    for limit in limit_range.spec.limits or ():
        if limit.type == _CONTAINER:
            own = {**(limit.max or {}), **(limit.default or {})}
            limits |= own
            requests |= {**(limit.min or {}), **own, **(limit.default_request or {})}
    return limits, requests


def _with_defaults(
    containers: list[records.Container] | None, limits: records.Labels, requests: records.Labels
) -> list[records.Container] | None:
    return containers and [_with_default(container, limits, requests) for container in containers]


def _with_default(
    container: records.Container, limits: records.Labels, requests: records.Labels
) -> records.Container:
    """A container as admission leaves it: a limit of its own without a request is its request first."""
    own = container.resources or records.ResourceRequirements()
    given = {**(own.limits or {}), **(own.requests or {})}
    asked = {**requests, **given}
    limited = {**limits, **(own.limits or {})}
    if asked == given and limited == (own.limits or {}):
        return container
    return msgspec.structs.replace(
        container, resources=records.ResourceRequirements(requests=asked or None, limits=limited or None)
    )


def _added(text: str) -> Iterator[tuple[str, str, str]]:
    """Container, ``request`` or ``limit``, and resource of each amount that the annotation names."""
    for part in text.removeprefix(_PREFIX).split("; "):
        for field in ("request", "limit"):
            names, separator, name = part.partition(f" {field} for ")
            if separator:
                yield from (
                    (name.rpartition(" ")[2], field, resource.strip()) for resource in names.split(",")
                )


def _same(text: str, other: str) -> bool:
    try:
        return quantities.parse(text) == quantities.parse(other)
    except ValueError:
        return text == other


def _objections(limits: list[records.LimitRangeItem] | tuple[()], spec: records.PodSpec) -> Iterator[str]:
    """What a pod asks for that the limits do not allow, in words."""
    for limit in limits:
        if limit.type == _CONTAINER:
            for container in spec.every_container:
                resources = container.resources or records.ResourceRequirements()
                asked = exact_amounts(resources.requests)
                limited = exact_amounts(resources.limits)
                yield from (f"container {container.name}: {why}" for why in _outside(limit, asked, limited))
        elif limit.type == _POD:
            asked = pod_amounts(spec, limits=False, overhead=False)
            yield from _outside(limit, asked, pod_amounts(spec, limits=True, overhead=False))


def _outside(limit: records.LimitRangeItem, requests: Amounts, limits: Amounts) -> Iterator[str]:
    """The bounds of one limit that these requests and limits break."""
    for name, least in exact_amounts(limit.min).items():
        if name not in requests or requests[name] < least or limits.get(name, least) < least:
            yield f"it wants at least {(limit.min or {})[name]} of {name}"
    for name, greatest in exact_amounts(limit.max).items():
        if name not in limits or limits[name] > greatest or requests.get(name, greatest) > greatest:
            yield f"it allows a limit of at most {(limit.max or {})[name]} of {name}"
    for name, ratio in exact_amounts(limit.max_limit_request_ratio).items():
        asked = requests.get(name, Fraction(0))
        limited = limits.get(name, Fraction(0))
        if not asked or not limited or limited > ratio * asked:
            times = (limit.max_limit_request_ratio or {})[name]
            yield f"it allows a limit of at most {times} times the request of {name}"
