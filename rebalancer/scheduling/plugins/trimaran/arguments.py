"""What the arguments of the Trimaran plugins share.

Source: scheduler-plugins v0.34.7 apis/config/v1/defaults.go:133. Values that the Go plugin silently replaces
by a default are replaced here too.
"""

from __future__ import annotations

from pydantic import BeforeValidator

from rebalancer.profiles.arguments import Arguments, MetricProvider


class TrimaranArguments(Arguments):
    """The arguments that all Trimaran plugins share."""

    watcher_address: str = ""
    metric_provider: MetricProvider = MetricProvider()


def positive_or(default: int) -> BeforeValidator:
    """Replaces integers that are not positive by a default."""

    def replace(value: object) -> object:
        bad = isinstance(value, int) and not isinstance(value, bool) and value <= 0
        return default if bad else value

    return BeforeValidator(replace)


def not_negative_or(default: float) -> BeforeValidator:
    """Replaces negative numbers by a default."""

    def replace(value: object) -> object:
        return default if isinstance(value, (int, float)) and value < 0 else value

    return BeforeValidator(replace)
