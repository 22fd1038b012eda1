"""Finds the Prometheus of a cluster among its Services, for policies that name none.

A Service is known by the labels that the charts and operators in use give it, so that nothing is asked of
what merely looks like one. Where two could be meant nobody is asked: which of them knows the nodes is for the
policy to say.

    monitoring/kube-prometheus-stack-prometheus   app=kube-prometheus-stack-prometheus   port http-web 9090
    monitoring/prometheus-operated                no label of the list: it is headless
    -> http://kube-prometheus-stack-prometheus.monitoring:9090
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from rebalancer.cluster.kinds import SERVICES
from rebalancer.cluster.snapshot import Snapshot
from rebalancer.errors import InputError, UnreachableError
from rebalancer.policy.load_sources import PrometheusSource
from rebalancer.policy.policy_file import LoadedPolicy

_NAME, _COMPONENT = "app.kubernetes.io/name", "app.kubernetes.io/component"
# Whose Service it is, by its labels; only servers that answer /api/v1 at their root.
_LABELS: tuple[Mapping[str, str], ...] = (
    {"app": "kube-prometheus-stack-prometheus"},
    {"app": "prometheus-operator-prometheus"},
    {"app": "rancher-monitoring-prometheus"},
    {"app": "prometheus", "component": "server"},
    {_NAME: "prometheus", _COMPONENT: "server"},
    {_NAME: "prometheus", _COMPONENT: "prometheus"},
    {_NAME: "thanos", _COMPONENT: "query"},
    {_NAME: "thanos-query"},
    {_NAME: "vmsingle"},
    {_NAME: "victoria-metrics-single"},
)
_PORTS = ("http-web", "web", "http", "http-query")
_MAX_NAMED = 5


def prometheus_address(snapshot: Snapshot) -> str:
    """The address of the one Prometheus among the Services; an error where there is none, or several are."""
    if not snapshot.has(SERVICES):
        why = snapshot.recording.unread.get(SERVICES.plural, "not read")
        raise UnreachableError(f"prometheus has no address, and services are not known: {why}")
    found = sorted(_addresses(snapshot))
    if len(found) == 1:
        return found[0]
    if not found:
        raise InputError(
            "prometheus has no address, and no Service has the labels of one", hint="name its address"
        )
    named = ", ".join(found[:_MAX_NAMED]) + (" …" if len(found) > _MAX_NAMED else "")
    raise InputError(f"prometheus has no address, and {len(found)} were found: {named}", hint="name one")


def _addresses(snapshot: Snapshot) -> Iterator[str]:
    for item in snapshot.recording.records(SERVICES):
        labels, ports = item.metadata.labels or {}, item.spec.ports or ()
        if not any(wanted.items() <= labels.items() for wanted in _LABELS):
            continue
        port = ports[0] if len(ports) == 1 else next((each for each in ports if each.name in _PORTS), None)
        if port is not None:
            yield f"http://{item.metadata.name}.{item.metadata.namespace}:{port.port}"


def with_addresses(loaded: LoadedPolicy, snapshot: Snapshot) -> LoadedPolicy:
    """The policy with the address of each Prometheus that it does not name, where exactly one was found."""
    sources, policy = [], loaded.policy
    for source in policy.load.sources:
        if isinstance(source, PrometheusSource) and source.prometheus.address is None:
            try:
                update = {"address": prometheus_address(snapshot)}
            except (InputError, UnreachableError):
                return loaded  # reading the source says why
            source = PrometheusSource(prometheus=source.prometheus.model_copy(update=update))  # noqa: PLW2901
        sources.append(source)
    if tuple(sources) == policy.load.sources:
        return loaded
    load = policy.load.model_copy(update={"sources": tuple(sources)})
    return replace(loaded, policy=policy.model_copy(update={"load": load}))
