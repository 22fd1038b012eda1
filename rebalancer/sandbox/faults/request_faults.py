"""Faults to inject: which requests they hit, and what happens to those."""

from __future__ import annotations

import random
import re
import threading
from dataclasses import dataclass, field
from typing import Literal

Effect = Literal[
    "latency", "reset-before", "reset-after", "status", "truncate", "expire-continue", "cut-watch"
]


@dataclass(frozen=True)
class Fault:
    """What happens to requests of ``method`` (``*`` is any) whose path and query match ``path``.

    ``latency`` waits ``seconds``; ``reset-before`` drops the connection unread, ``reset-after`` once the
    request was carried out (accepted, the answer lost); ``status`` answers ``code`` with ``retry_after``
    seconds of advice; ``truncate`` sends half of the body; ``expire-continue`` answers 410 to a LIST that
    continues; ``cut-watch`` ends a watch after ``seconds``. It begins with the ``skip``-th match, hits
    ``times`` matches (0 is all), each with ``probability``.
    """

    effect: Effect
    path: str = ".*"
    method: str = "*"
    code: int = 503
    retry_after: int = 0
    seconds: float = 0.0
    times: int = 1
    skip: int = 0
    probability: float = 1.0
    message: str = ""


@dataclass
class _Armed:
    fault: Fault
    pattern: re.Pattern[str]
    seen: int = 0
    hits: int = 0


@dataclass
class Faults:
    """The faults in force; drawn from a seed, so that a test meets the same ones every time."""

    seed: int = 0
    _armed: list[_Armed] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._random = random.Random(f"faults-{self.seed}")  # noqa: S311 - must be reproducible, not secret

    def add(self, fault: Fault) -> None:
        """Put a fault in force, after those that are."""
        with self._lock:
            self._armed.append(_Armed(fault, re.compile(fault.path)))

    def clear(self) -> None:
        """Take all faults away."""
        with self._lock:
            self._armed.clear()

    @property
    def hits(self) -> int:
        """How many requests were hit so far."""
        with self._lock:
            return sum(armed.hits for armed in self._armed)

    def pick(self, method: str, path_and_query: str) -> list[Fault]:
        """The faults that hit this request, in the order they were added."""
        chosen = []
        with self._lock:
            for armed in self._armed:
                fault = armed.fault
                if fault.method not in {"*", method} or not armed.pattern.search(path_and_query):
                    continue
                if fault.effect == "expire-continue" and "continue=" not in path_and_query:
                    continue
                if fault.effect == "cut-watch" and "watch=" not in path_and_query:
                    continue
                armed.seen += 1
                if armed.seen <= fault.skip or (fault.times and armed.hits >= fault.times):
                    continue
                if fault.probability < 1.0 and self._random.random() >= fault.probability:
                    continue
                armed.hits += 1
                chosen.append(fault)
        return chosen
