"""Prometheus' answers: ``/api/v1/query`` and ``/api/v1/query_range``, decoded and bounded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from rebalancer.cluster.arrays import FloatArray
from rebalancer.errors import RebalancerError

MAX_SERIES = 200_000


class _Series(msgspec.Struct, frozen=True, gc=False):
    metric: dict[str, str] = {}
    value: tuple[float, str] | None = None
    values: list[tuple[float, str]] | None = None


class _Data(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    result_type: str = ""
    result: msgspec.Raw = msgspec.Raw(b"[]")


class _Document(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    status: str = ""
    data: _Data | None = None
    error: str = ""
    warnings: list[str] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """One series: its labels and its points in order of time."""

    labels: Mapping[str, str]
    times: FloatArray  # (points,) Unix seconds
    values: FloatArray  # (points,) NaN and infinities as they came


@dataclass(frozen=True, slots=True, eq=False)
class Latest:
    """The last value of many series: one a pod, and there are many."""

    labels: Sequence[Mapping[str, str]]  # by series
    values: FloatArray  # (series,) NaN and infinities as they came


_document = msgspec.json.Decoder(_Document)
_many = msgspec.json.Decoder(list[_Series])
_one = msgspec.json.Decoder(tuple[float, str])


def refusal(content: bytes) -> str:
    """The message of Prometheus' error response; empty when the content is not one."""
    try:
        document = _document.decode(content)
    except (ValueError, RecursionError):
        return ""
    return " ".join(document.error.split())[:300]


def decode_answer(content: bytes) -> tuple[Series, ...]:
    """The series of an answer, a scalar as one without labels.

    Raises ValueError (msgspec's included) when it is not a Prometheus response, or holds too many series.
    """
    return tuple(_series(item) for item in _found(content))


def decode_latest(content: bytes) -> Latest:
    """The last value of each series of an answer, without those that have none; raises as decode_answer."""
    found = [item for item in _found(content) if item.value is not None or item.values]
    return Latest([item.metric for item in found], np.array([_last(item) for item in found], np.float64))


def _last(item: _Series) -> float:
    if item.values is not None:
        return [float(text) for _, text in item.values][-1]
    assert item.value is not None
    return float(item.value[1])


def _found(content: bytes) -> list[_Series]:
    document = _document.decode(content)
    if document.status != "success" or document.data is None:
        raise ValueError(f"status {document.status[:40]!a}: {' '.join(document.error.split())[:300]}")
    kind = document.data.result_type
    if kind == "scalar":
        moment, text = _one.decode(document.data.result)
        return [_Series({}, (moment, text))]
    if kind not in ("vector", "matrix"):
        raise ValueError(f"the result is a {kind[:40]!a}, not a vector or a matrix")
    found = _many.decode(document.data.result)
    if len(found) > MAX_SERIES:
        raise ValueError(f"{len(found)} series; at most {MAX_SERIES} are read")
    return found


def _series(item: _Series) -> Series:
    points = item.values if item.values is not None else [item.value] if item.value else []
    table = np.array([(moment, float(text)) for moment, text in points], np.float64).reshape(len(points), 2)
    return Series(item.metric, table[:, 0], table[:, 1])


def failure_words(error: BaseException) -> str:
    """Why there is no answer, on one line."""
    if isinstance(error, RebalancerError):
        return str(error)
    return f"is not a Prometheus response: {' '.join(str(error).split())[:200]}"
