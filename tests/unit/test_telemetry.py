from __future__ import annotations

import pytest

from rebalancer.telemetry import Span, current_fields, listening, record, span


class Recorder:
    """Keeps the spans that began and ended."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.over: list[Span] = []

    def span_began(self, found: Span) -> None:
        self.begun.append(found.name)

    def span_ended(self, found: Span) -> None:
        self.over.append(found)


def test_a_span_inside_another_is_its_child_and_lasts_no_longer() -> None:
    recorder = Recorder()
    with listening(recorder), span("wave", wave=2), span("eviction", pod="shop/web"):
        pass
    inner, outer = recorder.over

    assert recorder.begun == ["wave", "eviction"]
    assert (inner.parent, outer.parent) == (outer, None)
    assert inner.seconds is not None
    assert outer.seconds is not None
    assert 0 <= inner.seconds <= outer.seconds


def test_log_lines_carry_what_is_known_of_the_work_and_all_it_is_part_of() -> None:
    with span("run", run="a"), span("wave", wave=2), span("eviction", pod="shop/web", run="nearest counts"):
        assert current_fields() == {"run": "nearest counts", "wave": 2, "pod": "shop/web"}
    assert current_fields() == {}


def test_work_that_fails_ends_its_span_with_the_error() -> None:
    recorder = Recorder()
    with pytest.raises(KeyboardInterrupt), listening(recorder), span("gather"):
        raise KeyboardInterrupt
    assert [found.error for found in recorder.over] == ["KeyboardInterrupt"]
    assert current_fields() == {}


def test_work_seen_from_outside_has_its_own_times_and_a_link_to_its_cause() -> None:
    recorder = Recorder()
    with listening(recorder), span("wave"), span("eviction") as eviction:
        record("landing", 10.0, 12.5, eviction, node="node-5")
    landing = recorder.over[0]

    assert (landing.began, landing.seconds, landing.links) == (10.0, 2.5, (eviction,))
    assert landing.fields == {"node": "node-5"}


def test_nobody_is_told_of_spans_after_he_stopped_listening() -> None:
    recorder = Recorder()
    with listening(recorder):
        pass
    with span("run"):
        record("landing", 1.0, 2.0)
    assert recorder.begun == []
