"""Prometheus as a load source: where it is, how we log in, what we ask, and how its series name nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from rebalancer.policy.base import PolicyModel
from rebalancer.policy.units import Duration

MAX_QUERY_LENGTH = 4000
_LABEL = r"^[a-zA-Z_][a-zA-Z0-9_]{0,127}$"
_ADDRESS = r"^https?://[^\s/@?#]+(/[^\s?#]*)?$"


class PromQuery(PolicyModel):
    """A PromQL expression, and what its values mean."""

    query: str = Field(min_length=1, max_length=MAX_QUERY_LENGTH, description="The PromQL expression.")
    unit: Literal["amount", "ratio", "percent"] = Field(
        default="amount",
        description="amount: cores, bytes, bytes a second; ratio (0 to 1) and percent are of capacity.",
    )


def _as_query(value: object) -> object:
    return {"query": value} if isinstance(value, str) else value


Query = Annotated[PromQuery, BeforeValidator(_as_query, json_schema_input_type=str | PromQuery)]
"""A query; a bare text is one whose values are amounts."""

PodQuery = Annotated[str, Field(min_length=1, max_length=MAX_QUERY_LENGTH)]


class PrometheusQueries(PolicyModel):
    """What is asked; each replaces the preset's query, one series a node or a pod."""

    cpu: Query | None = Field(default=None, description="CPU of the nodes, in cores.")
    memory: Query | None = Field(default=None, description="Memory of the nodes, in bytes.")
    network_receive: Query | None = Field(default=None, description="Bytes received by nodes a second.")
    network_transmit: Query | None = Field(default=None, description="Bytes sent by nodes a second.")
    network_capacity: PodQuery | None = Field(
        default=None, description="Bytes a second the nodes' links carry, each way."
    )
    timestamp: PodQuery | None = Field(
        default=None, description="When the nodes' figures were measured, in Unix seconds."
    )
    pod_cpu: PodQuery | None = Field(default=None, description="CPU of the pods, in cores.")
    pod_memory: PodQuery | None = Field(default=None, description="Memory of the pods, in bytes.")
    pod_network_receive: PodQuery | None = Field(default=None, description="Bytes received by pods a second.")
    pod_network_transmit: PodQuery | None = Field(default=None, description="Bytes sent by pods a second.")


class Network(PolicyModel):
    """Which traffic of the nodes counts, and how it is measured."""

    device: str = Field(
        default="",
        pattern=r"^[a-zA-Z0-9_.@:-]{0,64}$",
        description="The network interface, such as eth0; empty: all but virtual ones.",
    )
    form: Literal["rate", "article"] = Field(
        default="rate",
        description="rate: bytes a second; article: a counter summed over samples, as NetworkTraffic does.",
    )
    range: Duration = Field(
        default=300.0, ge=1, le=86400, description="How far back a rate, or the article's sum, looks."
    )
    capacity: str | None = Field(
        default=None,
        min_length=1,
        max_length=MAX_QUERY_LENGTH,
        description="Bytes a second a link carries: a quantity such as 125M, or PromQL by node.",
    )


class BasicAuth(PolicyModel):
    """A user name and the file of its password."""

    username: str = Field(min_length=1, max_length=256, pattern=r"^[^:\x00-\x1f]+$", description="User name.")
    password_file: str = Field(min_length=1, description="File whose text is the password.")


class Prometheus(PolicyModel):
    """Prometheus' HTTP API, or what speaks like it (Thanos, Mimir, VictoriaMetrics)."""

    address: str = Field(
        max_length=2000,
        pattern=_ADDRESS,
        description="URL of Prometheus, without /api/v1; no user name in it.",
    )
    preset: Literal["nodeExporter", "cadvisor", "kubePrometheus"] = Field(
        default="nodeExporter",
        description="Whose metrics are read: node_exporter, the kubelet's cAdvisor, kube-prometheus' rules.",
    )
    queries: PrometheusQueries = Field(
        default=PrometheusQueries(), description="Queries that replace those of the preset."
    )
    network: Network = Field(default=Network(), description="Which network traffic is read, and how.")
    node_label: Annotated[str, Field(pattern=_LABEL)] | None = Field(
        default=None,
        description="Label that names the node, by name, address or address:port; "
        "default: node, nodename, kubernetes_node or instance, the first there is.",
    )
    namespace_label: str = Field(
        default="namespace", pattern=_LABEL, description="Label that holds a pod's namespace."
    )
    pod_label: str = Field(default="pod", pattern=_LABEL, description="Label that holds a pod's name.")
    pods: bool = Field(default=True, description="Whether the pods' usage is asked too.")
    bearer_token_file: str | None = Field(
        default=None, min_length=1, description="File whose text is the bearer token."
    )
    basic_auth: BasicAuth | None = Field(default=None, description="User name and password.")
    ca_file: str | None = Field(
        default=None, min_length=1, description="File of the certificates that may sign the server's."
    )
    insecure_skip_verify: bool = Field(
        default=False, description="Accept any certificate of the server; only for a network you trust."
    )
    timeout: Duration = Field(default=10.0, gt=0, le=300, description="How long one answer may take.")

    @model_validator(mode="after")
    def _one_login(self) -> Self:
        if self.bearer_token_file and self.basic_auth:
            raise ValueError("at most one of bearerTokenFile and basicAuth may be given")
        if self.insecure_skip_verify and self.ca_file:
            raise ValueError("caFile means nothing with insecureSkipVerify: true")
        return self


class PrometheusSource(PolicyModel):
    """Load from Prometheus."""

    prometheus: Prometheus = Field(description="Read Prometheus at an address.")


class Signal(PolicyModel):
    """A resource of your own: what nodes use of it by PromQL, and how much each has."""

    query: str = Field(
        min_length=1,
        max_length=MAX_QUERY_LENGTH,
        description="PromQL of what each node uses, one series a node.",
    )
    capacity: str = Field(
        default="100",
        min_length=1,
        max_length=MAX_QUERY_LENGTH,
        description="What a node has of it: a quantity, or PromQL by node; 100 when the query says percent.",
    )
    pod_query: PodQuery | None = Field(
        default=None,
        description="PromQL of what each pod uses; without it they share their node's, by cpu request.",
    )


SignalName = Annotated[str, Field(pattern=r"^[a-z][a-zA-Z0-9]{0,62}$")]
BUILT_IN_RESOURCES = ("cpu", "memory", "pods", "networkReceive", "networkTransmit")
MAX_SIGNALS = 20


def check_signals(signals: Mapping[str, Signal]) -> Mapping[str, Signal]:
    """The signals; ValueError when one takes the name of a resource, or there are too many."""
    taken = next((name for name in BUILT_IN_RESOURCES if name in signals), None)
    if taken is not None:
        raise ValueError(f"{taken} is a resource already; give the signal another name")
    if len(signals) > MAX_SIGNALS:
        raise ValueError(f"{len(signals)} signals, of at most {MAX_SIGNALS}")
    return signals
