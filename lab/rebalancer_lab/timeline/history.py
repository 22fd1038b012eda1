"""Figures of the past from Prometheus: range queries in pieces, told as what each moment's answer would be.

A range query of an hour brings the answers of twelve moments at once:

    kube_pod_info  11:00 … 11:55 every 5 min   →   at 11:00: 300 series, at 11:05: 301 series …

How much one query may bring is bounded by the number of series that the cluster has, and between two queries
there is a pause, so that who looks at dashboards meanwhile notices nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec
import numpy as np

from rebalancer.errors import InputError, RebalancerError, UnreachableError
from rebalancer.load.prometheus.queries import PrometheusQuery
from rebalancer.load.prometheus.responses import RecordedResponses, Series, decode_answer, failure_words

Ask = Callable[[PrometheusQuery, float], bytes]
"""Answers a query whose window ends at a Unix time; raises RebalancerError."""

_MAX_POINTS = 500_000  # of one answer: some 20 MB
_MAX_STEPS = 10_000  # Prometheus refuses 11,000
_SOON = 1e-3

Labels = Mapping[str, str]


class Sample(msgspec.Struct, frozen=True):
    """A series at one moment."""

    labels: Labels
    value: float


def pieces(moments: Sequence[float], series: int) -> Iterable[tuple[float, ...]]:
    """The moments in pieces that one query each may bring, of so many series."""
    steps = max(1, min(_MAX_STEPS, _MAX_POINTS // max(series, 1)))
    for first in range(0, len(moments), steps):
        yield tuple(moments[first : first + steps])


class History:
    """What Prometheus would have answered at each of some moments, which are equally far apart."""

    def __init__(
        self, ask: Ask, moments: Sequence[float], every_seconds: float, wait: Callable[[], None]
    ) -> None:
        """``wait`` is called before each query."""
        self._ask = ask
        self._moments = moments
        self._every = every_seconds
        self._wait = wait
        self._by_query: dict[str, list[list[Sample]]] = {}  # by query, then moment
        self._matrices: dict[PrometheusQuery, tuple[Series, ...] | RebalancerError] = {}

    def at(self, query: str, moment: float) -> list[Sample]:
        """The samples of an instant query. Raises RebalancerError where Prometheus does not answer."""
        if query not in self._by_query:
            by_moment: list[list[Sample]] = [[] for _ in self._moments]
            for series in self._series(PrometheusQuery(query, self._span, self._every)):
                places = np.rint((series.times - self._moments[0]) / self._every)
                for place, value in zip(places.tolist(), series.values.tolist(), strict=True):
                    if 0 <= place < len(by_moment):
                        by_moment[int(place)].append(Sample(series.labels, value))
            self._by_query[query] = by_moment
        return self._by_query[query][self._place(moment)]

    @property
    def _span(self) -> float:
        return max(self._moments[-1] - self._moments[0], self._every)

    def _place(self, moment: float) -> int:
        return round((moment - self._moments[0]) / self._every)

    def _series(self, query: PrometheusQuery, before: float = 0.0) -> tuple[Series, ...]:
        """The series of a query, whose window begins so many seconds before the first moment."""
        if query not in self._matrices:
            self._wait()
            try:
                end = self._moments[0] + query.window_seconds - before
                self._matrices[query] = decode_answer(self._ask(query, end))
            except RebalancerError as error:
                self._matrices[query] = error
            except (ValueError, RecursionError) as error:
                self._matrices[query] = UnreachableError(
                    f"the answer to {query.query} {failure_words(error)}"
                )
        answer = self._matrices[query]
        if isinstance(answer, RebalancerError):
            raise answer
        return answer

    def book(self, address: str, questions: Iterable[PrometheusQuery], moment: float) -> RecordedResponses:
        """The answers to a policy's own questions, as they would have been recorded at a moment."""
        book = RecordedResponses(moment)
        for question in questions:
            book.keep(address, question, lambda question=question: self._answer(question, moment))  # type: ignore[misc] # called at once
        return book

    def _answer(self, question: PrometheusQuery, moment: float) -> bytes:
        if not question.dated:  # what time it is there
            return _body("scalar", [moment, repr(moment)])
        if not question.window_seconds:
            samples = self.at(question.query, moment)
            return _body(
                "vector",
                [{"metric": sample.labels, "value": [moment, _text(sample.value)]} for sample in samples],
            )
        if self._every % question.step_seconds > _SOON:
            raise InputError(f"moments are no multiple of {question.step_seconds:g} s apart")
        # From a window before the first moment on, in the question's own steps.
        whole = PrometheusQuery(question.query, self._span + question.window_seconds, question.step_seconds)
        begins = moment - question.window_seconds
        result = []
        for series in self._series(whole, question.window_seconds):
            inside = (series.times >= begins - _SOON) & (series.times <= moment + _SOON)
            if inside.any():
                points = zip(series.times[inside].tolist(), series.values[inside].tolist(), strict=True)
                result.append(
                    {"metric": series.labels, "values": [[at, _text(value)] for at, value in points]}
                )
        return _body("matrix", result)


def _text(value: float) -> str:
    return repr(value).replace("inf", "Inf").replace("nan", "NaN")


def _body(kind: str, result: object) -> bytes:
    return msgspec.json.encode({"status": "success", "data": {"resultType": kind, "result": result}})
