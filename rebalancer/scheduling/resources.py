"""What a pod requests, as the scheduler counts it.

Quantities are summed exactly inside one pod and rounded once (up to 1.31, scores round each container's);
node totals are sums of those integers.

Source: k8s.io/component-helpers v0.34.4 resource/helpers.go:144; for Go's integer division and rounding, at
the end, the Go specification, integer operators and conversions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import partial
from typing import NamedTuple

import msgspec
import numpy as np

from rebalancer.cluster import quantities
from rebalancer.cluster.arrays import FloatArray, IntArray
from rebalancer.cluster.pod_classes import POD_ITSELF, PodClass
from rebalancer.cluster.records import Container, ContainerStatus, Labels, PodSpec, ResourceRequirements
from rebalancer.scheduling.versions.release import REFERENCE_RELEASE, Release
from rebalancer.scheduling.versions.rules import (
    RESIZE_SUMS,
    ROUNDED_CONTAINERS,
    SCORED_POD_LEVEL_REQUESTS,
    SCORED_SIDECARS,
    STARTING_ZEROS,
)

Amounts = dict[str, Fraction]

# A container that requests no cpu (memory) counts as this much in scores.
DEFAULT_REQUESTS: Mapping[str, Fraction] = {"cpu": Fraction(1, 10), "memory": Fraction(200 << 20)}
_NO_DEFAULTS: Mapping[str, Fraction] = {}
_ZERO = Fraction(0)
NATIVE_RESOURCES = frozenset({"cpu", "memory", "ephemeral-storage", "pods"})


def is_scalar(resource: str) -> bool:
    """Whether the scheduler counts it besides the native resources; other names are ignored."""
    return (
        "/" in resource
        or resource.startswith(("hugepages-", "attachable-volumes-"))
        or "kubernetes.io/" in resource
    )


def exact_amounts(amounts: Labels | None) -> Amounts:
    """Quantities by resource; ValueError when one cannot be read."""
    return {name: quantities.parse(text) for name, text in (amounts or {}).items()}


def _requests(resources: ResourceRequirements | None) -> Amounts:
    return exact_amounts(resources.requests) if resources else {}


def _limits(resources: ResourceRequirements | None) -> Amounts:
    return exact_amounts(resources.limits) if resources else {}


def _add(total: Amounts, more: Mapping[str, Fraction]) -> None:
    for name, value in more.items():
        total[name] = total.get(name, _ZERO) + value


def _largest(*parts: Mapping[str, Fraction]) -> Amounts:
    total: Amounts = {}
    for part in parts:
        for name, value in part.items():
            total[name] = max(total.get(name, value), value)
    return total


def _with_status(container: Amounts, status: ContainerStatus | None, infeasible: bool) -> Amounts:
    """The request of a container on a node, where an in-place resize may be under way, up to 1.36."""
    if status is None or status.resources is None:
        return container
    actual = exact_amounts(status.resources.requests), exact_amounts(status.allocated_resources)
    return _largest(*actual) if infeasible else _largest(container, *actual)


def is_sidecar(container: Container) -> bool:
    """Whether an init container keeps running beside the others."""
    return container.restart_policy == "Always"


def _aggregate(
    spec: PodSpec,
    defaults: Mapping[str, Fraction],
    statuses: Mapping[str, ContainerStatus],
    infeasible: bool,
    asked: Callable[[ResourceRequirements | None], Amounts] = _requests,
) -> Amounts:
    """The larger of what runs together and what starting up needs."""

    def request(container: Container, resizable: bool) -> Amounts:
        amounts = asked(container.resources)
        if resizable:
            amounts = _with_status(amounts, statuses.get(container.name), infeasible)
        return {**defaults, **amounts}

    return _summed(spec, request)


def _summed(spec: PodSpec, request: Callable[[Container, bool], Amounts]) -> Amounts:
    """The container formula; ``request`` gives what a container asks for, which may be resized or not."""

    total: Amounts = {}
    for container in spec.containers or ():
        _add(total, request(container, True))
    sidecars: Amounts = {}
    starting: Amounts = {}
    for container in spec.init_containers or ():
        amounts = request(container, is_sidecar(container))
        if is_sidecar(container):
            _add(total, amounts)
            _add(sidecars, amounts)
            needed: Amounts = dict(sidecars)
        else:
            needed = amounts
            _add(needed, sidecars)
        starting = _largest(starting, needed)
    return _largest(total, starting)


def _resized(
    pod: PodClass, defaults: Mapping[str, Fraction], statuses: Mapping[str, ContainerStatus]
) -> Amounts:
    """The largest sum over the containers, by spec, status or allocation: from 1.37 on.

    What is empty is as good as absent: protobuf, which the scheduler reads, has no empty maps.

    Source: component-helpers v0.37.2 resource/helpers.go:295.
    """
    infeasible = pod.resize_infeasible

    def by_spec(container: Container, _: bool) -> Amounts:
        return {**defaults, **_requests(container.resources)}

    def allocated(container: Container, _: bool) -> Amounts:
        status = statuses.get(container.name)
        if status is not None and status.allocated_resources:
            return {**defaults, **exact_amounts(status.allocated_resources)}
        return dict(defaults) if infeasible else by_spec(container, _)

    def actual(container: Container, _: bool) -> Amounts:
        status = statuses.get(container.name)
        if status is not None and status.resources is not None and status.resources.requests:
            return {**defaults, **exact_amounts(status.resources.requests)}
        return allocated(container, _)

    of_pod = statuses.get(POD_ITSELF)
    if of_pod is not None and of_pod.allocated_resources and of_pod.resources and of_pod.resources.requests:
        told = exact_amounts(of_pod.allocated_resources), exact_amounts(of_pod.resources.requests)
    else:
        told = _summed(pod.spec, allocated), _summed(pod.spec, actual)
    return _largest(*told) if infeasible else _largest(_summed(pod.spec, by_spec), *told)


def _pod_level(amounts: Amounts) -> Amounts:
    """What of a pod's own resources counts."""
    return {
        name: value
        for name, value in amounts.items()
        if name in ("cpu", "memory") or name.startswith("hugepages-")
    }


def before_overhead(spec: PodSpec) -> Amounts:
    """What the pod itself requests, or its containers where it has no resources of its own."""
    level = spec.resources
    given = {**((level.requests or {}) if level else {}), **((level.limits or {}) if level else {})}
    if any(name in ("cpu", "memory") or name.startswith("hugepages-") for name in given):
        return _pod_level(_requests(spec.resources))
    return _aggregate(spec, _NO_DEFAULTS, {}, False)


def _total(
    spec: PodSpec,
    *,
    defaults: Mapping[str, Fraction] = _NO_DEFAULTS,
    pod_level: bool = True,
    resized: PodClass | None = None,
    sums: bool = False,
) -> Amounts:
    """``resized`` is the pod whose statuses count; ``sums`` as from 1.37 on, see ``RESIZE_SUMS``."""
    statuses = {status.name: status for status in resized.statuses} if resized else {}
    infeasible = resized is not None and resized.resize_infeasible
    if sums and resized is not None:
        total = _resized(resized, defaults, statuses)
    else:
        total = _aggregate(spec, defaults, statuses, infeasible)
    if pod_level:
        level = _pod_level(_requests(spec.resources))
        status = statuses.get(POD_ITSELF)
        if level and status is not None and status.resources is not None:
            effective = _with_status(_requests(spec.resources), status, infeasible)
            level = _pod_level(effective) if sums else {name: effective.get(name, _ZERO) for name in level}
        total.update(level)
    _add(total, exact_amounts(spec.overhead))
    return total


def pod_amounts(spec: PodSpec, *, limits: bool, overhead: bool = True) -> Amounts:
    """All that a new pod requests, or its limits, exactly; overhead is added to limits that there are.

    Source: component-helpers v0.36.3 resource/helpers.go, PodRequests and PodLimits.
    """
    asked = _limits if limits else _requests
    total = {**_aggregate(spec, _NO_DEFAULTS, {}, False, asked), **_pod_level(asked(spec.resources))}
    if overhead:
        more = exact_amounts(spec.overhead)
        _add(total, {name: more[name] for name in more if not limits or total.get(name)})
    return total


def _integers(amounts: Mapping[str, Fraction]) -> dict[str, int]:
    return {
        name: quantities.milli_of(value) if name == "cpu" else quantities.units_of(value)
        for name, value in amounts.items()
        if name in NATIVE_RESOURCES or is_scalar(name)
    }


class PodRequests(msgspec.Struct, frozen=True):
    """A pod's requests in the scheduler's integers: thousandths of a core, bytes, counts."""

    incoming: Mapping[str, int]  # while it is being placed: filters
    incoming_balanced: Mapping[str, int]  # the same in NodeResourcesBalancedAllocation's score
    incoming_scored: Mapping[str, int]  # and in NodeResourcesFit's
    present: Mapping[str, int]  # once it is on a node
    present_scored: Mapping[str, int]  # once on a node, with defaults; cpu and memory only


def _present_defaults(spec: PodSpec, plain: Mapping[str, Fraction]) -> Mapping[str, Fraction]:
    """With pod-level requests, defaults stand only for a resource absent at both levels."""
    if not _pod_level(_requests(spec.resources)):
        return DEFAULT_REQUESTS
    return {name: value for name, value in DEFAULT_REQUESTS.items() if name not in plain}


# Many classes request the same, so the sums of one serve all; the cache is emptied when it is full.
_cached_requests: dict[object, PodRequests] = {}
_MAX_CACHED = 10_000


def _asked(containers: list[Container] | None) -> tuple[object, ...]:
    """What determines the requests of containers that run on no node."""
    asked: list[object] = []
    for container in containers or ():
        if container.resources and container.resources.requests:
            asked.append((container.restart_policy, tuple(container.resources.requests.items())))
        else:
            asked.append(container.restart_policy)
    return tuple(asked)


class _Counting(NamedTuple):
    """The rules of a release that change what a pod counts for."""

    scored_sidecars: bool
    scored_pod_level: bool
    resize_sums: bool


def pod_requests(pod: PodClass, release: Release = REFERENCE_RELEASE) -> PodRequests:
    """All four counts of a class of pods, as a release sees it; classes with the same requests share them."""
    spec = pod.spec
    if release.has(ROUNDED_CONTAINERS):
        return _rounded_requests(spec, starting_zeros=release.has(STARTING_ZEROS))
    counting = _Counting(
        release.has(SCORED_SIDECARS), release.has(SCORED_POD_LEVEL_REQUESTS), release.has(RESIZE_SUMS)
    )
    if pod.statuses or pod.resize_infeasible:
        return _pod_requests(pod, counting)
    level = spec.resources.requests if spec.resources else None
    key = (
        _asked(spec.containers),
        _asked(spec.init_containers),
        tuple((level or {}).items()),
        tuple((spec.overhead or {}).items()),
        counting,
    )
    requests = _cached_requests.get(key)
    if requests is None:
        if len(_cached_requests) >= _MAX_CACHED:
            _cached_requests.clear()
        requests = _cached_requests[key] = _pod_requests(pod, counting)
    return requests


def _pod_requests(pod: PodClass, counting: _Counting) -> PodRequests:
    spec = pod.spec
    incoming = _total(spec)
    total = partial(_total, spec, resized=pod, sums=counting.resize_sums)
    present = total() if pod.statuses or pod.resize_infeasible else incoming
    if counting.scored_sidecars:
        scored = _integers(total(defaults=_present_defaults(spec, present)))
    else:
        scored = _scored_until_131(spec)
    whole = _integers(incoming)
    return PodRequests(
        incoming=whole,
        incoming_balanced=whole,
        incoming_scored=_integers(
            _total(spec, defaults=DEFAULT_REQUESTS, pod_level=counting.scored_pod_level)
        ),
        present=_integers(present),
        present_scored={name: scored.get(name, 0) for name in DEFAULT_REQUESTS},
    )


def _rounded_requests(spec: PodSpec, *, starting_zeros: bool) -> PodRequests:
    """All four counts up to 1.26, where each container and the overhead are rounded by themselves.

    In the scores of the pod being placed, a quantity of its overhead counts in whole units, of cpu as well.
    Source: kubernetes v1.26.15 pkg/scheduler/framework/types.go:727, plugins/noderesources/fit.go:160,
    resource_allocation.go:112.
    """
    overhead = exact_amounts(spec.overhead)
    in_units = {name: quantities.units_of(value) for name, value in overhead.items()}

    def summed(defaults: Mapping[str, Fraction], beside: Mapping[str, int]) -> dict[str, int]:
        total: dict[str, int] = {}
        for container in spec.containers or ():
            for name, value in _integers({**defaults, **_requests(container.resources)}).items():
                total[name] = total.get(name, 0) + value
        for container in spec.init_containers or ():
            for name, value in _integers({**defaults, **_requests(container.resources)}).items():
                if value or starting_zeros or not is_scalar(name):
                    total[name] = max(total.get(name, 0), value)
        for name, value in beside.items():
            total[name] = total.get(name, 0) + value
        return total

    rounded = _integers(overhead)
    plain = summed(_NO_DEFAULTS, rounded)
    scored = summed(DEFAULT_REQUESTS, rounded)
    return PodRequests(
        incoming=plain,
        incoming_balanced=summed(_NO_DEFAULTS, in_units),
        incoming_scored=summed(DEFAULT_REQUESTS, in_units),
        present=plain,
        present_scored={name: scored.get(name, 0) for name in DEFAULT_REQUESTS},
    )


def _scored_until_131(spec: PodSpec) -> dict[str, int]:
    """What a pod on a node counts for in scores up to 1.31: the larger of its containers and of starting up.

    Every container and the overhead is rounded by itself: of two containers that request a millionth of a
    core each counts as a thousandth. Sidecars are part of starting up alone (kubernetes v1.31.14
    pkg/scheduler/framework/types.go:913).
    """

    def rounded(amounts: Mapping[str, Fraction]) -> dict[str, int]:
        whole = _integers({**DEFAULT_REQUESTS, **amounts})
        return {name: whole[name] for name in DEFAULT_REQUESTS}

    total = dict.fromkeys(DEFAULT_REQUESTS, 0)
    for container in spec.containers or ():
        for name, value in rounded(_requests(container.resources)).items():
            total[name] += value
    sidecars: Amounts = {}
    for container in spec.init_containers or ():
        needed = _requests(container.resources)
        _add(needed, sidecars)
        if is_sidecar(container):
            sidecars = needed
        total = {name: max(total[name], value) for name, value in rounded(needed).items()}
    for name, value in _integers(exact_amounts(spec.overhead)).items():
        if name in total:
            total[name] += value
    return total


def requested_amounts(requests: Mapping[str, int], resources: Sequence[str]) -> FloatArray:
    """(resources,) how much of each resource is requested; 0 for those that are not."""
    return np.array([requests.get(name, 0) for name in resources], np.float64)


_ANY_ADDRESS = "0.0.0.0"  # noqa: S104 (a comparison, nothing is bound)
_SOME_ADDRESS = "*"
HostPort = tuple[str, int, str]  # protocol, port, address


def wanted_ports(spec: PodSpec) -> tuple[HostPort, ...]:
    """The host ports of containers and sidecars, defaulted as the API server does."""
    ports: list[HostPort] = []
    for container in (*(spec.containers or ()), *filter(is_sidecar, spec.init_containers or ())):
        for port in container.ports or ():
            number = port.host_port or (port.container_port if spec.host_network else 0)
            if number > 0:
                ports.append((port.protocol or "TCP", number, port.host_ip or _ANY_ADDRESS))
    return tuple(dict.fromkeys(ports))


def marks_of_ports(ports: Iterable[HostPort]) -> Iterator[HostPort]:
    """By what pods that hold these ports are found: the address, and that there is one at all."""
    for protocol, port, address in ports:
        yield from ((protocol, port, address), (protocol, port, _SOME_ADDRESS))


def marks_in_conflict(ports: Iterable[HostPort]) -> Iterator[HostPort]:
    """By what pods are found that hold one of these ports, where one address covers the other.

    Source: kubernetes v1.34.4 pkg/scheduler/framework/plugins/nodeports/node_ports.go:157.
    """
    for protocol, port, address in ports:
        for held in (_SOME_ADDRESS,) if address == _ANY_ADDRESS else (address, _ANY_ADDRESS):
            yield protocol, port, held


def divide_toward_zero(numerator: IntArray, denominator: IntArray | int) -> IntArray:
    """Integer division as Go does it; the denominator is not 0."""
    return np.asarray((numerator - np.fmod(numerator, denominator)) // denominator, np.int64)


def round_half_away(values: FloatArray) -> IntArray:
    """Go's math.Round: halves away from zero."""
    whole = np.trunc(values)
    return np.asarray(whole + np.sign(values) * (np.abs(values - whole) >= 0.5), np.int64)


def take(values: IntArray, rows: IntArray) -> IntArray:
    """The values of some rows, given in ascending order without repetition; not copied when that is all."""
    return values if len(rows) == len(values) else values.take(rows)
