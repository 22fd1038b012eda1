"""Prometheus' responses to ``/api/v1/query`` and ``query_range``: decoded, bounded, and recorded.

An answer may lack series and succeed all the same: Thanos says so by a warning where one of its stores is
down, and Prometheus where a remote one is, and VictoriaMetrics by ``isPartial``. What is summed up from the
rest would be too little, and a hot node would seem to have room, so such an answer counts as none. So does
one with so many warnings that Prometheus leaves some out: one of those may be of a store.

A snapshot keeps the responses that its plan was made from, so that the plan can be made again without the
server.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec
import numpy as np

from rebalancer.cluster.arrays import FloatArray
from rebalancer.errors import InputError, RebalancerError, StopRequestedError, UnreachableError
from rebalancer.load.prometheus.queries import PrometheusQuery, QueryFunction

MAX_SERIES = 200_000


class _Series(msgspec.Struct, frozen=True, gc=False):
    metric: dict[str, str] = {}
    value: tuple[float, str] | None = None
    values: list[tuple[float, str]] | None = None


class _Data(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    result_type: str = ""
    result: msgspec.Raw = msgspec.Raw(b"[]")


class _ResponseDocument(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    status: str = ""
    data: _Data | None = None
    error: str = ""
    warnings: list[str] | None = None
    is_partial: bool = False


_ABOUT_THE_QUERY = "PromQL "  # as warnings begin that say nothing of the series


class IncompleteAnswerError(ValueError):
    """An answer that says itself that it lacks series."""


class Series(msgspec.Struct, frozen=True, eq=False):
    """One series: its labels and its points in order of time."""

    labels: Mapping[str, str]
    times: FloatArray  # (points,) Unix seconds
    values: FloatArray  # (points,) NaN and infinities as they came


class Latest(msgspec.Struct, frozen=True, eq=False):
    """The last value of many series: one a pod, and there are many."""

    labels: Sequence[Mapping[str, str]]  # by series
    values: FloatArray  # (series,) NaN and infinities as they came


_document = msgspec.json.Decoder(_ResponseDocument)
_many_series = msgspec.json.Decoder(list[_Series])
_one_value = msgspec.json.Decoder(tuple[float, str])


def refusal(content: bytes) -> str:
    """The message of Prometheus' error response; empty when the content is not one."""
    try:
        document = _document.decode(content)
    except (ValueError, RecursionError):
        return ""
    return " ".join(document.error.split())[:300]


def decode_answer(content: bytes) -> tuple[Series, ...]:
    """The series of an answer, a scalar as one without labels.

    Raises ValueError (msgspec's included) when it is not a Prometheus response, is not all of one, or holds
    too many series.
    """
    return tuple(_series(one_series) for one_series in _series_of(content))


def decode_latest(content: bytes) -> Latest:
    """The last value of each series of an answer, without those that have none; raises as decode_answer."""
    series = [
        one_series for one_series in _series_of(content) if one_series.value is not None or one_series.values
    ]
    return Latest(
        [one_series.metric for one_series in series],
        np.array([_last(one_series) for one_series in series], np.float64),
    )


def _last(series: _Series) -> float:
    if series.values is not None:
        return [float(text) for _, text in series.values][-1]
    assert series.value is not None
    return float(series.value[1])


def _series_of(content: bytes) -> list[_Series]:
    document = _document.decode(content)
    if document.status != "success" or document.data is None:
        raise ValueError(f"status {document.status[:40]!a}: {' '.join(document.error.split())[:300]}")
    lacking = [warning for warning in document.warnings or () if not warning.startswith(_ABOUT_THE_QUERY)]
    if document.is_partial or lacking:
        why = " ".join(" ".join(lacking).split())[:300] or "isPartial"
        raise IncompleteAnswerError(f"is incomplete, as it says itself: {why}")
    kind = document.data.result_type
    if kind == "scalar":
        moment, text = _one_value.decode(document.data.result)
        return [_Series({}, (moment, text))]
    if kind not in ("vector", "matrix"):
        raise ValueError(f"the result is a {kind[:40]!a}, not a vector or a matrix")
    series = _many_series.decode(document.data.result)
    if len(series) > MAX_SERIES:
        raise ValueError(f"{len(series)} series; at most {MAX_SERIES} are read")
    return series


def _series(series: _Series) -> Series:
    points = series.values if series.values is not None else [series.value] if series.value else []
    table = np.array([(moment, float(text)) for moment, text in points], np.float64).reshape(len(points), 2)
    return Series(series.metric, table[:, 0], table[:, 1])


def failure_words(error: BaseException) -> str:
    """Why there is no answer, on one line."""
    if isinstance(error, RebalancerError | IncompleteAnswerError):
        return str(error)
    return f"is not a Prometheus response: {' '.join(str(error).split())[:200]}"


DOCUMENT = "prometheus.json"


class _Document(msgspec.Struct, frozen=True, rename="camel"):
    time: float = 0.0  # Unix seconds: the moment that was asked for
    answers: dict[str, dict[str, msgspec.Raw]] = {}  # by address, then by question
    failures: dict[str, dict[str, str]] = {}


_decoder = msgspec.json.Decoder(_Document)


class RecordedResponses(msgspec.Struct):
    """Answers by address and question."""

    time: float = 0.0  # Unix seconds by our clock, when the questions were asked
    answers: dict[str, dict[str, bytes]] = {}
    failures: dict[str, dict[str, str]] = {}

    def asking(self, address: str, where: str) -> QueryFunction:
        """Answers questions of an address from the book; what failed fails again, with the same words.

        InputError, which names ``where``, for what was never asked.
        """

        def ask(question: PrometheusQuery) -> bytes:
            answer = self.answers.get(address, {}).get(question.key)
            if answer is not None:
                return answer
            why = self.failures.get(address, {}).get(question.key)
            if why is not None:
                raise UnreachableError(why)
            raise InputError(
                f"{address}: not recorded", where=where, hint="record the cluster with this policy"
            )

        return ask

    def has(self, address: str, question: PrometheusQuery) -> bool:
        """Whether it was asked, with whatever result."""
        return any(
            question.key in of_address.get(address, {}) for of_address in (self.answers, self.failures)
        )

    def keep(self, address: str, question: PrometheusQuery, ask: Callable[[], bytes]) -> None:
        """Ask, and write the answer into the book, or why there is none. Raises StopRequestedError."""
        try:
            # The reader decodes it; here it must be JSON, and what a recording gives back to the byte.
            content = bytes(msgspec.json.decode(ask(), type=msgspec.Raw))
        except StopRequestedError:
            raise
        except (RebalancerError, ValueError, RecursionError) as error:
            why = (
                error
                if isinstance(error, RebalancerError)
                else InputError(failure_words(error), where=address)
            )
            self.failures.setdefault(address, {})[question.key] = str(why)
        else:
            self.answers.setdefault(address, {})[question.key] = content

    def encode(self) -> bytes:
        """The document that a snapshot holds."""
        failures = {
            address: dict(sorted(of_address.items())) for address, of_address in sorted(self.failures.items())
        }
        answers = {address: _as_documents(contents) for address, contents in sorted(self.answers.items())}
        return msgspec.json.encode({"time": self.time, "answers": answers, "failures": failures})


def _as_documents(contents: Mapping[str, bytes]) -> dict[str, msgspec.Raw]:
    """What a server answered by question, each as part of the document that a snapshot holds."""
    return {key: msgspec.Raw(content) for key, content in sorted(contents.items())}


def _as_contents(documents: Mapping[str, msgspec.Raw]) -> dict[str, bytes]:
    """The same read back."""
    return {key: bytes(raw) for key, raw in documents.items()}


def decode_book(content: bytes, where: str) -> RecordedResponses:
    """The book read back; InputError when it is none."""
    try:
        document = _decoder.decode(content)
    except (ValueError, RecursionError) as error:
        raise InputError(f"not what snapshot save writes: {error}", where=where) from error
    answers = {address: _as_contents(documents) for address, documents in document.answers.items()}
    return RecordedResponses(document.time, answers, document.failures)
