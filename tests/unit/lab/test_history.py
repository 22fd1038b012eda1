"""What Prometheus answered of the past, asked once however it answers."""

from __future__ import annotations

import pytest

from rebalancer.errors import UnreachableError
from rebalancer.load.prometheus.queries import PrometheusQuery
from rebalancer_lab.history import History

MOMENTS = tuple(1_000_200.0 + 300.0 * number for number in range(4))
ADDRESS = "http://prometheus"
WINDOW = PrometheusQuery("node_load", window_seconds=600.0, step_seconds=60.0)
LATEST = PrometheusQuery("up")
NESTED = b"[" * 100_000


@pytest.mark.parametrize("question", [WINDOW, LATEST], ids=["window", "latest"])
@pytest.mark.parametrize("answer", [b"<html>", b"{}", b'{"status": "error", "error": "busy"}', NESTED, b""])
def test_a_damaged_answer_is_asked_for_once_and_is_a_failure_at_every_moment(
    question: PrometheusQuery, answer: bytes
) -> None:
    asked: list[float] = []

    def ask(_query: PrometheusQuery, until: float) -> bytes:
        asked.append(until)
        return answer

    history = History(ask, MOMENTS, 300.0, lambda: None)
    books = [history.book(ADDRESS, [question], moment) for moment in MOMENTS]

    assert asked == [MOMENTS[-1]]
    for book in books:
        with pytest.raises(UnreachableError, match="is not a Prometheus response"):
            book.asking(ADDRESS, "")(question)
