"""What the figures of one Prometheus are read from: the policy's settings, the cluster, and who answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from rebalancer.cluster.columns.nodes import NodeTable
from rebalancer.cluster.columns.pods import PodTable
from rebalancer.load.figures.metric_windows import PRESENT, MetricWindow
from rebalancer.load.figures.node_figures import RESOURCES
from rebalancer.load.prometheus.questions import Ask, Question
from rebalancer.load.prometheus.wire import Latest, Series, decode_answer, decode_latest
from rebalancer.policy.load_sources import Prometheus, Signal


@dataclass(frozen=True, slots=True, eq=False)
class PrometheusInputs:
    """The values that node figures and pod figures are both read from."""

    settings: Prometheus
    ask: Ask
    nodes: NodeTable
    pods: PodTable
    now: float
    window: MetricWindow = PRESENT
    resources: tuple[str, ...] = RESOURCES
    signals: Mapping[str, Signal] = field(default_factory=dict)
    pressure: tuple[str, ...] = ()  # cpu, memory and io, as far as rules name their pressure
    asked_at: float | None = None  # by our clock, to compare with the server's; None: not compared

    @property
    def name(self) -> str:
        """What reports call the source."""
        return f"prometheus {urlsplit(self.settings.address).netloc}"

    def series(self, question: Question) -> Sequence[Series]:
        """The series of an answer; RebalancerError or ValueError when there is none."""
        return decode_answer(self.ask(question))

    def latest(self, question: Question) -> Latest:
        """The last value of each series of an answer, usually one per pod; raises as ``series``."""
        return decode_latest(self.ask(question))
