"""The arguments of the load-aware plugins: Trimaran's and the article plugin NetworkTraffic.

Source: scheduler-plugins v0.34.7 apis/config/v1/defaults.go:133. What the Go plugin replaces silently
by a default is replaced here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationInfo

from rebalancer.cluster.quantities import cpu_milli
from rebalancer.profiles.arguments import Arguments


class MetricProvider(Arguments):
    """Where the load-watcher that is built into the plugin reads, when ``watcherAddress`` is absent."""

    type: Literal["", "KubernetesMetricsServer", "Prometheus", "SignalFx", "Datadog"] = (
        "KubernetesMetricsServer"
    )
    address: str = ""
    token: str = Field(default="", repr=False)
    insecure_skip_verify: bool | None = None


class TrimaranArguments(Arguments):
    """What all Trimaran plugins share."""

    watcher_address: str = ""
    metric_provider: MetricProvider = MetricProvider()


def _positive_or(default: int) -> BeforeValidator:
    def replace(value: object) -> object:
        bad = isinstance(value, int) and not isinstance(value, bool) and value <= 0
        return default if bad else value

    return BeforeValidator(replace)


def _not_negative_or(default: float) -> BeforeValidator:
    def replace(value: object) -> object:
        return default if isinstance(value, (int, float)) and value < 0 else value

    return BeforeValidator(replace)


def _quantities(value: object) -> object:
    """Quantities may be bare numbers; all are kept as text, checked."""
    if not isinstance(value, Mapping):
        return value
    texts = {
        name: str(quantity)
        if isinstance(quantity, (int, float)) and not isinstance(quantity, bool)
        else quantity
        for name, quantity in value.items()
    }
    for text in texts.values():
        if isinstance(text, str):
            cpu_milli(text)
    return texts


def _number_text(value: object, info: ValidationInfo) -> object:
    """A Go string that holds a float; a bare float only from Python."""
    if not isinstance(value, str):
        if info.mode == "json":
            raise ValueError(f'must be text; write "{value}"')
        return value
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"{value[:40]!r} is not a number")
    return number


class TargetLoadPackingArguments(TrimaranArguments):
    """Arguments of TargetLoadPacking."""

    target_utilization: Annotated[int, _positive_or(40)] = 40
    default_requests: Annotated[Mapping[str, str], BeforeValidator(_quantities)] = Field(
        default={"cpu": "1000m"}
    )
    default_requests_multiplier: Annotated[float, BeforeValidator(_number_text)] = 1.5

    @property
    def default_requests_cpu_milli(self) -> int:
        """CPU a container without request and limit is taken to use; 0 when the map has no cpu."""
        return cpu_milli(self.default_requests["cpu"]) if "cpu" in self.default_requests else 0


class LoadVariationRiskBalancingArguments(TrimaranArguments):
    """Arguments of LoadVariationRiskBalancing."""

    safe_variance_margin: Annotated[float, _not_negative_or(1.0)] = 1.0
    safe_variance_sensitivity: Annotated[float, _not_negative_or(1.0)] = 1.0


def _risk_weights(value: object) -> object:
    """Weights for cpu and memory; missing ones and those outside [0, 1] become 0.5."""
    if not isinstance(value, Mapping):
        return value
    weights: dict[str, Any] = {"cpu": 0.5, "memory": 0.5, **value}
    return {
        name: 0.5 if isinstance(weight, (int, float)) and not 0 <= weight <= 1 else weight
        for name, weight in weights.items()
    }


class LowRiskOverCommitmentArguments(TrimaranArguments):
    """Arguments of LowRiskOverCommitment."""

    smoothing_window_size: Annotated[int, _positive_or(5)] = 5
    risk_limit_weights: Annotated[Mapping[str, float], BeforeValidator(_risk_weights)] = Field(
        default={"cpu": 0.5, "memory": 0.5}
    )


class PowerModel(Arguments):
    """Power of a node: k0 + k1·e^(k2·utilisation)."""

    k0: float = 0.0
    k1: float = 0.0
    k2: float = 0.0


class PeaksArguments(Arguments):
    """Arguments of Peaks, whose keys begin with capitals because of malformed tags in its Go source."""

    watcher_address: str = Field(default="", validation_alias="WatcherAddress")
    node_power_model: Mapping[str, PowerModel] = Field(default={}, validation_alias="NodePowerModel")


class NetworkTrafficArguments(Arguments):
    """Arguments of NetworkTraffic: Prometheus (``ip``), a network interface, minutes."""

    ip: str = Field(min_length=1)
    device_name: str = Field(min_length=1)
    time_range_minutes: int = Field(ge=1, validation_alias="timeRange")
