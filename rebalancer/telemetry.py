"""Spans: a piece of work with a name, a beginning, an end, and what is known about it.

A span that begins inside another one is its child, on the same thread. What is known about a span and its
parents is also what log lines carry that are written meanwhile:

    with span("wave", wave=2):
        with span("eviction", pod="shop/web-1"):
            LOGGER.info(…)        carries wave 2 and pod shop/web-1

Work whose end is only seen later is recorded afterwards, with a link to the span that caused it.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol

import msgspec

Value = str | int | float | bool

_numbers = itertools.count(1)


class Span(msgspec.Struct):
    """A piece of work; times in Unix seconds, durations by the monotonic clock."""

    name: str
    fields: dict[str, Value]
    number: int = msgspec.field(default_factory=_numbers.__next__)  # tells the spans of a process apart
    parent: Span | None = None
    links: tuple[Span, ...] = ()  # what caused it without being its parent
    began: float = 0.0
    seconds: float | None = None  # None while it lasts
    error: str = ""

    def add(self, **fields: Value) -> None:
        """Add what became known meanwhile."""
        self.fields.update(fields)


class Listener(Protocol):
    """Called when spans begin and end; an exception it raises ends the work."""

    def span_began(self, span: Span) -> None:
        """The work begins."""

    def span_ended(self, span: Span) -> None:
        """The work is over, with its duration and, after an exception, the error."""


_current: ContextVar[Span | None] = ContextVar("rebalancer_span", default=None)
_listeners: list[Listener] = []


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Call a listener for every span that begins within this block."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


@contextmanager
def span(name: str, **fields: Value) -> Iterator[Span]:
    """The work of this block."""
    new_span = Span(name, dict(fields), parent=_current.get(), began=time.time())
    listeners = tuple(_listeners)
    token = _current.set(new_span)
    began = time.perf_counter()
    try:
        for listener in listeners:
            listener.span_began(new_span)
        yield new_span
    except BaseException as error:
        new_span.error = type(error).__name__
        raise
    finally:
        _current.reset(token)
        new_span.seconds = time.perf_counter() - began
        for listener in listeners:
            listener.span_ended(new_span)


def record(name: str, began: float, ended: float, *links: Span, **fields: Value) -> None:
    """Work that was seen from outside: it lasted from and to these Unix seconds, caused by ``links``."""
    new_span = Span(name, dict(fields), parent=_current.get(), links=links, began=began)
    for listener in tuple(_listeners):
        listener.span_began(new_span)
    new_span.seconds = max(0.0, ended - began)
    for listener in tuple(_listeners):
        listener.span_ended(new_span)


def current_fields() -> Mapping[str, Value]:
    """What is known about the work at hand: its own fields, and those of the work it is part of."""
    fields: dict[str, Value] = {}
    open_span = _current.get()
    while open_span is not None:
        fields = {**open_span.fields, **fields}
        open_span = open_span.parent
    return fields
