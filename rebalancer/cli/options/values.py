"""The types of single values: times, durations, sizes, percentages, names."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import click

FILE = click.Path(dir_okay=False, path_type=Path)
PATH = click.Path(path_type=Path)

_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?", re.ASCII)
_LATEST_UNIX = 253_402_300_799.0  # the last second of the year 9999


class Moment(click.ParamType[float]):
    """RFC 3339 or Unix seconds."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Unix seconds."""
        from rebalancer.cluster import times  # noqa: PLC0415 - not for --help

        if isinstance(value, float):
            return value
        if re.fullmatch(r"\d{1,12}(\.\d{1,9})?", value, re.ASCII):
            seconds = float(value)
            if seconds <= _LATEST_UNIX:
                return seconds
        try:
            return times.parse(value)
        except ValueError:
            self.fail(
                f"{value[:60]!a} is not a time; write e.g. 2026-11-20T12:00:00Z or 1795176000", param, ctx
            )


class Duration(click.ParamType[float]):
    """A duration as policies write it, such as 90s or 10m."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Seconds, more than 0."""
        from rebalancer.policy.units import parse_duration  # noqa: PLC0415 - imports pydantic

        if isinstance(value, float):
            return value
        try:
            seconds = parse_duration(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)
        if seconds <= 0:
            self.fail(f"{value!a} is not longer than 0", param, ctx)
        return seconds


class ObjectName(click.ParamType[str]):
    """NAMESPACE/NAME of an object; NAME alone is in the namespace of this pod, else in ``rebalancer``."""

    name = "ns/name"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The same text, checked."""
        text = str(value)
        if "/" not in text:
            text = f"{os.environ.get('POD_NAMESPACE') or 'rebalancer'}/{text}"
        parts = text.split("/")
        if len(parts) != 2 or not all(_NAME.fullmatch(part) for part in parts):
            self.fail(f"{text[:60]!a} is neither NAMESPACE/NAME nor NAME", param, ctx)
        return text


class Size(click.ParamType[int]):
    """A number of bytes as Kubernetes writes it, such as 512Mi or 4Gi."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Bytes, more than 0."""
        from rebalancer.cluster import quantities  # noqa: PLC0415 - not for --help

        if isinstance(value, int):
            return value
        try:
            numerator, denominator = quantities.ratio(value)
            if numerator < denominator:
                raise ValueError(f"{value!a} is less than a byte")
        except ValueError as error:
            self.fail(str(error), param, ctx)
        return numerator // denominator


class Share(click.ParamType[float]):
    """A percentage such as 10%."""

    name = "percentage"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The fraction it stands for."""
        from rebalancer.policy.units import parse_percentage  # noqa: PLC0415 - imports pydantic

        if isinstance(value, float):
            return value
        try:
            return parse_percentage(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)
