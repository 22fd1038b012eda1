"""The queries of each preset: node_exporter, the kubelet's cAdvisor, kube-prometheus' recording rules.

One query a metric answers for all nodes, or all pods, whatever their number.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import msgspec
from msgspec.structs import replace
from pydantic.alias_generators import to_snake

from rebalancer.load.prometheus.matchers import with_matchers
from rebalancer.policy.load_sources import Prometheus, PromQuery
from rebalancer.policy.units import parse_duration

# Interfaces that carry what others carry already.
_VIRTUAL = (
    "lo|veth.*|cali.*|cni.*|flannel.*|docker.*|br-.*|virbr.*|tunl.*|tap.*|vxlan.*|kube-ipvs.*|cilium.*|lxc.*"
    "|nodelocaldns|dummy.*|bond.*[.].*"
)
_RANGE = re.compile(r"\[\s*+((?:\d++(?:ms|[smhdwy]))++)\s*+(?::[^\[\]]*+)?\]")
_RULE = re.compile(r"rate(\d++[smh])\b")
_SELECTOR = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*+(\{[^{}]*+\})?", re.ASCII)
_LONG_UNITS = {"d": 24, "w": 7 * 24, "y": 365 * 24}  # in hours


class NodeQuery(msgspec.Struct, frozen=True):
    """What is asked of the nodes for one resource, and what dates the answer."""

    query: PromQuery
    timestamp: str  # PromQL of when it was measured; empty: the moment of the query
    shows_all_labels: bool = False  # the answer to timestamp has one series a node, with all labels


class Queries(msgspec.Struct, frozen=True):
    """What is asked of one Prometheus; a resource that is not measured is absent."""

    nodes: Mapping[str, NodeQuery]  # by resource
    pods: Mapping[str, str]  # by resource
    capacity: Mapping[str, str]  # by resource: of what nodes do not state
    pod_timestamp: str  # when the pods' figures were measured; empty: the moment of the query
    pod_series: str  # how many series of pods there are, by their labels; empty: the policy's own queries


def queries_of(settings: Prometheus) -> Queries:
    """The preset's queries, with what the policy replaces, each selecting by the policy's labels."""
    unmatched = _unmatched_queries(settings)
    labels = settings.labels

    def matched(texts: Mapping[str, str]) -> Mapping[str, str]:
        return {resource: with_matchers(text, labels) for resource, text in texts.items()}

    return Queries(
        nodes={resource: _matched_node_query(query, labels) for resource, query in unmatched.nodes.items()},
        pods=matched(unmatched.pods),
        capacity=matched(unmatched.capacity),
        pod_timestamp=with_matchers(unmatched.pod_timestamp, labels),
        pod_series=with_matchers(unmatched.pod_series, labels),
    )


def _matched_node_query(node_query: NodeQuery, labels: Mapping[str, str]) -> NodeQuery:
    text = with_matchers(node_query.query.query, labels)
    query = PromQuery(query=text, unit=node_query.query.unit)
    return replace(node_query, query=query, timestamp=with_matchers(node_query.timestamp, labels))


def _unmatched_queries(settings: Prometheus) -> Queries:
    network = settings.network
    device = f'device="{network.device}"' if network.device else f'device!~"{_VIRTUAL}"'
    given = settings.queries
    preset = dict(_PRESETS[settings.preset])
    for resource, word in _TRAFFIC.items():
        preset[resource] = PromQuery(query=_traffic(settings, word, device))
    nodes = {
        resource: NodeQuery(
            query,
            given.timestamp or _TIMESTAMPS[settings.preset],
            shows_all_labels=not given.timestamp,
        )
        if (own := getattr(given, to_snake(resource))) is None
        else own_query(own, given.timestamp)
        for resource, query in preset.items()
    }
    carried = given.network_capacity or network.capacity or f"sum by (instance) ({_SPEED % device} > 0)"
    own_pod_queries = given.pod_cpu or given.pod_memory
    return Queries(
        nodes=nodes,
        pods=_pod_queries(settings) if settings.pods else {},
        capacity=dict.fromkeys(_TRAFFIC, carried),
        pod_timestamp="" if own_pod_queries else _labelled(settings, _POD_TIMESTAMP),
        pod_series="" if own_pod_queries else _pod_series(settings),
    )


def own_query(query: PromQuery, timestamp: str | None = None) -> NodeQuery:
    """A query of the policy: Prometheus can date a plain metric, not an expression."""
    plain = _SELECTOR.fullmatch(query.query.strip()) is not None
    return NodeQuery(query, timestamp or (f"timestamp({query.query})" if plain else ""))


def _pod_queries(settings: Prometheus) -> dict[str, str]:
    preset = dict(_POD_RULES if settings.preset == "kubePrometheus" else _PODS)
    for resource, word in _TRAFFIC.items():
        preset[resource] = _POD_TRAFFIC % word
    return {
        resource: getattr(settings.queries, f"pod_{to_snake(resource)}") or _labelled(settings, query)
        for resource, query in preset.items()
    }


def _labelled(settings: Prometheus, query: str) -> str:
    """A query of a preset, with the policy's labels of pods."""
    named = query.replace("(namespace, pod)", f"({settings.namespace_label}, {settings.pod_label})")
    return named.replace('{pod!=""', f'{{{settings.pod_label}!=""')


_TRAFFIC = {"networkReceive": "receive", "networkTransmit": "transmit"}
_POD_TRAFFIC = 'sum by (namespace, pod) (rate(container_network_%s_bytes_total{pod!="",interface!="lo"}[5m]))'
_POD_TIMESTAMP = (
    'max by (namespace, pod) (timestamp(container_memory_working_set_bytes{pod!="",container!=""}))'
)
# One series for each node and for each further label that tells clusters or replicas of a Prometheus apart.
_POD_SERIES = 'count without (container, id, image, name, {namespace}, {pod}) ({metric}{{{pod}!=""}})'
_POD_METRICS = {"kubePrometheus": "node_namespace_pod_container:container_memory_working_set_bytes"}
_SPEED = "node_network_speed_bytes{%s}"


def _pod_series(settings: Prometheus) -> str:
    """PromQL that says which nodes' pods the server knows, with all labels that are not of a container."""
    return _POD_SERIES.format(
        namespace=settings.namespace_label,
        pod=settings.pod_label,
        metric=_POD_METRICS.get(settings.preset, "container_memory_working_set_bytes"),
    )


def _traffic(settings: Prometheus, word: str, device: str) -> str:
    network = settings.network
    seconds = f"{max(1, round(network.range))}s"
    if settings.preset == "cadvisor":
        counter = f'container_network_{word}_bytes_total{{id="/",{device.replace("device", "interface", 1)}}}'
        by = "instance, node"
    else:
        counter = f"node_network_{word}_bytes_total{{{device}}}"
        by = "instance"
    return f"sum by ({by}) (rate({counter}[{seconds}]))"


def _amount(query: str) -> PromQuery:
    """One of ours; to check it would build what checks a policy's, which few commands need."""
    return PromQuery.model_construct(query=query)


def _ratio(query: str) -> PromQuery:
    return PromQuery.model_construct(query=query, unit="ratio")


_PRESETS: Mapping[str, Mapping[str, PromQuery]] = {
    "nodeExporter": {
        "cpu": _amount('sum by (instance) (rate(node_cpu_seconds_total{mode!~"idle|iowait|steal"}[5m]))'),
        "memory": _amount("node_memory_MemTotal_bytes - node_memory_MemAvailable_bytes"),
    },
    "cadvisor": {
        "cpu": _amount('sum by (instance, node) (rate(container_cpu_usage_seconds_total{id="/"}[5m]))'),
        "memory": _amount('sum by (instance, node) (container_memory_working_set_bytes{id="/"})'),
    },
    "kubePrometheus": {
        "cpu": _ratio("instance:node_cpu_utilisation:rate5m"),
        "memory": _ratio("instance:node_memory_utilisation:ratio"),
    },
}
_TIMESTAMPS = {
    "nodeExporter": "timestamp(node_memory_MemAvailable_bytes)",
    "cadvisor": 'timestamp(container_memory_working_set_bytes{id="/"})',
    "kubePrometheus": "timestamp(instance:node_memory_utilisation:ratio)",
}
_PODS: Mapping[str, str] = {
    "cpu": "sum by (namespace, pod) "
    '(rate(container_cpu_usage_seconds_total{pod!="",container!="",container!="POD"}[5m]))',
    "memory": "sum by (namespace, pod) "
    '(container_memory_working_set_bytes{pod!="",container!="",container!="POD"})',
}
_CPU_RULE = "node_namespace_pod_container:container_cpu_usage_seconds_total:sum_"
_POD_RULES: Mapping[str, str] = {
    "cpu": f"sum by (namespace, pod) ({_CPU_RULE}rate5m) or sum by (namespace, pod) ({_CPU_RULE}irate)",
    "memory": "sum by (namespace, pod) "
    '(node_namespace_pod_container:container_memory_working_set_bytes{pod!=""})',
}


def lookback_seconds(query: str) -> float:
    """How far back a query looks by itself: its longest range, or the rate of its recording rule."""
    seconds = [_seconds(text) for text in (*_RANGE.findall(query), *_RULE.findall(query))]
    return max(seconds, default=0.0)


def _seconds(text: str) -> float:
    total = 0.0
    for number, unit in re.findall(r"(\d{1,9})(ms|[smhdwy])", text):
        hours = _LONG_UNITS.get(unit)
        total += int(number) * hours * 3600.0 if hours else parse_duration(f"{number[:6]}{unit}")
    return total


class PrometheusQuery(msgspec.Struct, frozen=True):
    """A query: of one moment, or of a window that ends there."""

    query: str
    window_seconds: float = 0.0  # 0: an instant query
    step_seconds: float = 60.0
    dated: bool = True  # False: of the moment that the server takes for now

    @property
    def key(self) -> str:
        """What its answer is recorded under: all but the moment."""
        return (
            f"range {self.window_seconds:g}s/{self.step_seconds:g}s {self.query}"
            if self.window_seconds
            else f"{'instant' if self.dated else 'undated'} {self.query}"
        )

    def selecting(self, labels: Mapping[str, str]) -> PrometheusQuery:
        """The query of the series with these labels."""
        return replace(self, query=with_matchers(self.query, labels))

    def path(self) -> str:
        """Of the HTTP API."""
        return "api/v1/query_range" if self.window_seconds else "api/v1/query"

    def parameters(self, now: float) -> list[tuple[str, str]]:
        """Of the request, for a window that ends now."""
        if not self.window_seconds:
            return [("query", self.query), *([("time", f"{now:.3f}")] if self.dated else [])]
        return [
            ("query", self.query),
            ("start", f"{now - self.window_seconds:.3f}"),
            ("end", f"{now:.3f}"),
            ("step", f"{self.step_seconds:g}"),
        ]


QueryFunction = Callable[[PrometheusQuery], bytes]
"""Answers a question, as ``/api/v1/query`` or ``query_range`` does; raises RebalancerError."""


class Connection(msgspec.Struct, frozen=True):
    """Where a Prometheus is and how we log in."""

    address: str
    bearer_token_file: str | None = None
    token: str = ""
    username: str = ""
    password_file: str | None = None
    ca_file: str | None = None
    insecure_skip_verify: bool = False
    timeout_seconds: float = 10.0
    headers: tuple[tuple[str, str], ...] = ()  # of every request, such as the tenant of a Mimir

    def __repr__(self) -> str:
        return f"Connection({self.address!r})"  # without its token and headers

    @property
    def has_login(self) -> bool:
        """Whether it needs credentials, which the service proxy cannot carry."""
        return bool(self.bearer_token_file or self.token or self.username)
