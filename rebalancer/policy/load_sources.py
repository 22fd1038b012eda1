"""Where load is read: each source is a map with a single key that names it; and what is taken of a window.

A statistic may be one for every resource, or one for each, because resources differ in how they hurt. CPU
that is short for a moment slows everything a little, so a low percentile is enough; memory that is short for
a moment kills a pod, so what counts is the peak.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Discriminator,
    Field,
    Tag,
    WithJsonSchema,
    model_validator,
)

from rebalancer.addresses import checked_address, is_read_on_the_way
from rebalancer.policy.model import PolicyModel, setting
from rebalancer.policy.units import Duration
from rebalancer.redaction import is_secret

BUILT_IN_RESOURCES = ("cpu", "memory", "pods", "networkReceive", "networkTransmit")
MAX_SIGNALS = 20
PREDICTED_PEAK = "predictedPeak"
_STATISTIC = r"mean|max|meanPlusDeviation|predictedPeak|p[1-9][0-9]?"
_STATISTIC_NAME = re.compile(_STATISTIC, re.ASCII)
_RESOURCE = re.compile(r"[a-z][a-zA-Z0-9]{0,62}", re.ASCII)
_STATISTIC_SCHEMA = {"type": "string", "pattern": f"^({_STATISTIC})$"}

Label = Annotated[str, Field(pattern=r"^[a-zA-Z_][a-zA-Z0-9_]{0,127}$", examples=["instance"])]
PrometheusAddress = Annotated[
    str,
    AfterValidator(checked_address),
    Field(max_length=2000, pattern=r"^https?://[^\s/@?#]+(/[^\s?#]*)?$"),
]
LabelValue = Annotated[str, Field(max_length=1000)]
QueryText = Annotated[str, Field(min_length=1, max_length=4000)]
SignalName = Annotated[str, Field(pattern=r"^[a-z][a-zA-Z0-9]{0,62}$", examples=["networkReceive"])]


class PromQuery(PolicyModel):
    """A PromQL expression, and what its values mean."""

    query: QueryText = Field(description="The PromQL expression.")
    unit: Literal["amount", "ratio", "percent"] = setting(
        "amount",
        "amount: cores, bytes or bytes per second; ratio and percent: of capacity.",
    )


Query = Annotated[
    PromQuery,
    BeforeValidator(
        lambda given: {"query": given} if isinstance(given, str) else given,
        json_schema_input_type=str | PromQuery,
    ),
]
"""A query; a bare text is one whose values are amounts."""


class PrometheusQueries(PolicyModel):
    """Queries that replace those of the preset; each returns one series per node or per pod."""

    cpu: Query | None = setting(None, "CPU of the nodes, in cores.")
    memory: Query | None = setting(None, "Memory of the nodes, in bytes.")
    network_receive: Query | None = setting(None, "Bytes per second that nodes receive.")
    network_transmit: Query | None = setting(None, "Bytes per second that nodes send.")
    network_capacity: QueryText | None = setting(
        None, "Capacity of the nodes' links in each direction, in bytes per second."
    )
    timestamp: QueryText | None = setting(None, "When the nodes' figures were measured, in Unix seconds.")
    pod_cpu: QueryText | None = setting(None, "CPU of the pods, in cores.")
    pod_memory: QueryText | None = setting(None, "Memory of the pods, in bytes.")
    pod_network_receive: QueryText | None = setting(None, "Bytes per second that pods receive.")
    pod_network_transmit: QueryText | None = setting(None, "Bytes per second that pods send.")


class Network(PolicyModel):
    """Which traffic of the nodes counts, and how it is measured."""

    device: str = setting(
        "",
        "The network interface; empty: all but virtual ones.",
        pattern=r"^[a-zA-Z0-9_.@:-]{0,64}$",
    )
    range: Duration = setting(300.0, "Range of the rate.", ge=1, le=86400)
    capacity: QueryText | None = setting(
        None,
        "Bytes per second of a link: a quantity, or PromQL with one series per node.",
    )


class BasicAuth(PolicyModel):
    """A user name and the file of its password."""

    username: str = Field(min_length=1, max_length=256, pattern=r"^[^:\x00-\x1f]+$", description="User name.")
    password_file: str = Field(min_length=1, description="File with the password.")


def _no_credential(headers: Mapping[str, str]) -> Mapping[str, str]:
    """The headers; ValueError for one that is a login, without its text."""
    for name, value in headers.items():
        if not _HEADER_NAME.fullmatch(name):
            raise ValueError(f"{name[:40]!a} is not the name of a header")
        if is_secret(name) or name.lower() in _HEADERS_OF_THE_PROGRAM:
            raise ValueError(
                f"{name} may not be set here, where everybody reads it: give a login by bearerTokenFile or "
                "basicAuth"
            )
        if not (value.isascii() and value.isprintable() and value.strip() == value):
            raise ValueError(f"the value of {name} is not printable ASCII text on one line")
    return headers


_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}", re.ASCII)
_HEADERS_OF_THE_PROGRAM = frozenset({"host", "content-length", "transfer-encoding", "connection"})


class Prometheus(PolicyModel):
    """Prometheus or a server with the same HTTP API, such as Thanos, Mimir or VictoriaMetrics."""

    address: PrometheusAddress | None = setting(
        None,
        "URL without /api/v1; unset, rebalancer finds the Service.",
        json_schema_extra={"examples": ["http://prometheus.monitoring:9090"]},
    )
    preset: Literal["nodeExporter", "cadvisor", "kubePrometheus"] = setting(
        "nodeExporter",
        "Whose metrics: node_exporter's, cAdvisor's, or kube-prometheus' recording rules.",
    )
    labels: Annotated[Mapping[Label, LabelValue], Field(max_length=10)] = setting(
        {},
        "Labels of this cluster's series, where the server has several clusters.",
    )
    headers: Annotated[Mapping[str, str], Field(max_length=10), AfterValidator(_no_credential)] = setting(
        {},
        "Headers of every request, such as the tenant; never a login.",
    )
    queries: PrometheusQueries = setting(
        PrometheusQueries.model_construct(), "Queries in place of those of the preset."
    )
    network: Network = setting(Network.model_construct(), "Which network traffic is read, and how.")
    node_label: Label | None = setting(
        None,
        "Label with the node's name or address; by default node, nodename, kubernetes_node or instance.",
    )
    namespace_label: Label = setting("namespace", "Label with a pod's namespace.")
    pod_label: Label = setting("pod", "Label with a pod's name.")
    pods: bool = setting(True, "Also read the usage of pods.")
    bearer_token_file: str | None = setting(None, "File with the bearer token.", min_length=1)
    basic_auth: BasicAuth | None = setting(None, "User name and password.")
    ca_file: str | None = setting(
        None,
        "File with the certificate authorities.",
        min_length=1,
    )
    insecure_skip_verify: bool = setting(False, "Accept any server certificate.")
    timeout: Duration = setting(10.0, "How long one response may take.", gt=0, le=300)

    @model_validator(mode="after")
    def _one_login(self) -> Self:
        if self.bearer_token_file and self.basic_auth:
            raise ValueError("at most one of bearerTokenFile and basicAuth may be given")
        if self.insecure_skip_verify and self.ca_file:
            raise ValueError("caFile has no effect with insecureSkipVerify: true")
        if self.address is None and (self.bearer_token_file or self.basic_auth):
            raise ValueError("needs an address: credentials go to no server that was merely found")
        if self.address and is_read_on_the_way(self.address) and (self.bearer_token_file or self.basic_auth):
            raise ValueError(
                "credentials go over plain http to no other host than loopback, because others on the way "
                "could read them: write https:// in address"
            )
        return self


class PrometheusSource(PolicyModel):
    """Load from Prometheus."""

    prometheus: Prometheus = Field(description="Read Prometheus.")


def check_sources(sources: tuple[LoadSource, ...]) -> tuple[LoadSource, ...]:
    """The sources; ValueError where answers to one address could be of two tenants."""
    headers_of: dict[str, Mapping[str, str]] = {}
    for source in sources:
        if isinstance(source, PrometheusSource) and source.prometheus.address is not None:
            address = source.prometheus.address.rstrip("/")
            headers = source.prometheus.headers
            if headers_of.setdefault(address, headers) != headers:
                raise ValueError(
                    f"{address} is named twice with different headers: give each its own address"
                )
    return sources


class Signal(PolicyModel):
    """A resource of your own: how much of it nodes use, by PromQL, and how much they have."""

    query: QueryText = Field(description="PromQL, one series per node.")
    capacity: QueryText = setting(
        "100",
        "How much a node has: a quantity, or PromQL; 100 for a query in percent.",
    )
    pod_query: QueryText | None = setting(None, "PromQL for the usage of pods; unset, by cpu requests.")


def check_signals(signals: Mapping[str, Signal]) -> Mapping[str, Signal]:
    """The signals; ValueError when one takes the name of a resource, or there are too many."""
    taken = next((name for name in BUILT_IN_RESOURCES if name in signals), None)
    if taken is not None:
        raise ValueError(f"{taken} is a resource already; give the signal another name")
    for name, signal in signals.items():
        if any("pressure" in query.lower() for query in (signal.query, signal.pod_query or "")):
            raise ValueError(
                f"{name} reads pressure, which does not add up: a pod that leaves does not take its part "
                "of the waiting along; name pressure beside utilization in a rule of hotNodes instead"
            )
    if len(signals) > MAX_SIGNALS:
        raise ValueError(f"{len(signals)} signals; at most {MAX_SIGNALS} are supported")
    return signals


class LoadWatcher(PolicyModel):
    """load-watcher's HTTP API, the source the Trimaran plugins read."""

    address: Annotated[str, AfterValidator(checked_address)] = Field(
        min_length=1,
        pattern=r"^https?://[^\s/]+",
        json_schema_extra={"examples": ["http://load-watcher.loadwatcher:2020"]},
        description="URL of load-watcher, without the /watcher path.",
    )


class MetricsServer(PolicyModel):
    """The Metrics API, metrics.k8s.io."""


class Requests(PolicyModel):
    """No measurement: the requests of the pods stand for their load."""


class Recorded(PolicyModel):
    """The figures recorded with a snapshot."""


class LoadWatcherSource(PolicyModel):
    """Load from load-watcher."""

    load_watcher: LoadWatcher = Field(description="Read load-watcher at an address.")


class MetricsServerSource(PolicyModel):
    """Load from metrics-server."""

    metrics_server: MetricsServer = Field(description="Read the Metrics API.")


class RequestsSource(PolicyModel):
    """Load from the pods' requests."""

    requests: Requests = Field(description="Use the requests of pods as their load.")


class RecordedSource(PolicyModel):
    """Load as a snapshot recorded it."""

    recorded: Recorded = Field(description="Read the figures recorded with a snapshot.")


def one_key_of(*keys: str, note: str = "") -> Discriminator:
    """A discriminator for mappings whose kind is given by exactly one of ``keys`` (camelCase)."""

    def tag(value: object) -> str | None:
        if isinstance(value, BaseModel):
            names = {field.alias or name for name, field in type(value).model_fields.items()}
        elif isinstance(value, Mapping):
            names = {str(key) for key in value}
        else:
            names = set()
        present = [key for key in keys if key in names]
        return f"<{present[0]}>" if len(present) == 1 else None

    listed = f"{', '.join(keys[:-1])} or {keys[-1]}"
    return Discriminator(
        tag, custom_error_type="one_key", custom_error_message=f"needs exactly one of the keys {listed}{note}"
    )


LoadSource = Annotated[
    Annotated[LoadWatcherSource, Tag("<loadWatcher>")]
    | Annotated[MetricsServerSource, Tag("<metricsServer>")]
    | Annotated[PrometheusSource, Tag("<prometheus>")]
    | Annotated[RequestsSource, Tag("<requests>")]
    | Annotated[RecordedSource, Tag("<recorded>")],
    one_key_of("loadWatcher", "metricsServer", "prometheus", "requests", "recorded"),
]
"""One of the load sources; its key states which."""


def _statistic(value: object) -> object:
    """The value, checked; ValueError when it names no statistic."""
    named = value if isinstance(value, Mapping) else {"": value}
    if not named:
        raise ValueError("names no resource; write e.g. {cpu: p66, memory: p95}")
    for resource, statistic in named.items():
        if resource and not (isinstance(resource, str) and _RESOURCE.fullmatch(resource)):
            raise ValueError(f"{str(resource)[:40]!r} cannot be the name of a resource")
        if resource == "pods":
            raise ValueError("pods are counted, not measured: they have no statistic")
        if not (isinstance(statistic, str) and _STATISTIC_NAME.fullmatch(statistic)):
            raise ValueError(
                f"{str(statistic)[:40]!r} is not a statistic; "
                "write e.g. mean, max, meanPlusDeviation, p95 or predictedPeak"
            )
    return value


Statistic = Annotated[
    str | Mapping[str, str],
    BeforeValidator(_statistic),
    WithJsonSchema(
        {
            "anyOf": [
                _STATISTIC_SCHEMA,
                {"type": "object", "additionalProperties": _STATISTIC_SCHEMA, "minProperties": 1},
            ],
            "examples": ["mean", "max", "meanPlusDeviation", "p95", {"cpu": "p66", "memory": "p95"}],
        }
    ),
]
"""A statistic, or statistics by resource; resources that are not named have their mean."""
