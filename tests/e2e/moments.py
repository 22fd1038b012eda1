"""Moments at which a command is ended: some time after its start, or at one of its requests."""

from __future__ import annotations

import itertools
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from statistics import median
from subprocess import Popen

from rebalancer.errors import ExitCode
from tests.e2e.faulty_proxy import Answer, FaultyProxy, Request
from tests.e2e.hot_cluster import HotCluster, Round

PLACES = ("time", "request", "answer", "eviction", "eviction's answer")
MAX_SECONDS = 300.0  # of any command
SEED = 6
EARLIEST_SECONDS = 0.1  # before that it is the interpreter that starts, not yet the program


@dataclass(frozen=True)
class Course:
    """An undisturbed command: how long it takes, and which requests it makes."""

    seconds: float
    requests: int
    evictions: int


class Moment:
    """Sends a signal at a moment drawn from a seed.

    A request finds the signal sent before it is passed on, or its answer does. Nothing passes to or from the
    dead.
    """

    def __init__(self, draw: random.Random, place: str, number: signal.Signals, course: Course) -> None:
        self.place = place
        self.number = number
        self.after_seconds = draw.uniform(EARLIEST_SECONDS, max(EARLIEST_SECONDS, course.seconds))
        self._nth = draw.randrange(max(1, course.evictions if "eviction" in place else course.requests))
        self._met = 0
        self._lock = threading.Lock()
        self.process: Popen[str] | None = None
        self.sent_at = 0.0  # by the monotonic clock

    def begin(self, start: Callable[[], Popen[str]]) -> None:
        """Start the command, whose first request may come before this returns."""
        with self._lock:
            self.process = start()

    @property
    def sent(self) -> bool:
        """Whether the command met it."""
        return self.sent_at > 0

    def tap(self, request: Request, answer: Answer | None) -> bool:
        """As FaultyProxy asks."""
        with self._lock:
            if self.sent:
                return self.number != signal.SIGKILL
            counts = request.evicts or "eviction" not in self.place
            phase = answer is not None if "answer" in self.place else answer is None
            if self.place != "time" and counts and phase:
                self._met += 1
                if self._met > self._nth:
                    return self.send()
        return True

    def send(self) -> bool:
        """Send the signal if the command still runs; whether anything may pass to it afterwards."""
        assert self.process is not None
        if self.process.poll() is None:
            self.sent_at = time.monotonic()
            self.process.send_signal(self.number)
            if self.number == signal.SIGKILL:
                self.process.wait()
                return False
        return True

    def await_end(self, seconds: float) -> tuple[float, str, str]:
        """Wait for the end; seconds from the signal to it, and what was printed."""
        assert self.process is not None
        if self.place == "time":
            time.sleep(self.after_seconds)  # the moment itself is what is drawn
            with self._lock:
                self.send()
        output, errors = self.process.communicate(timeout=seconds)
        return time.monotonic() - self.sent_at, output, errors


@dataclass
class Tally:
    """What became of the commands that got one signal."""

    what: str
    seconds: list[float] = field(default_factory=list)  # from the signal to the end
    counts: Counter[str] = field(default_factory=Counter)

    def line(self, names: Iterable[str]) -> str:
        """A row of a table."""
        found = ", ".join(f"{self.counts[name]} {name}" for name in names)
        slowest = f"{median(self.seconds):.1f} s in the middle, {max(self.seconds):.1f} s at most"
        return f"{self.what}: {len(self.seconds)} moments, ended after {slowest}; {found}"


def course_of(cluster: HotCluster, command: str) -> Course:
    seen: list[Request] = []

    def tap(request: Request, answer: Answer | None) -> bool:
        if answer is None:
            seen.append(request)
        return True

    with FaultyProxy(cluster.control_plane.url, cluster.control_plane.certificate, tap=tap) as proxy:
        met = cluster.new_round(proxy.url)
        started = time.monotonic()
        process = met.start(command)
        _, errors = process.communicate(timeout=MAX_SECONDS)
        assert process.returncode == ExitCode.DONE, errors
        seconds = time.monotonic() - started
    cluster.wait_until_audited(proxy.evictions)
    return Course(seconds, len(seen), sum(request.evicts for request in seen))


def disturbed(cluster: HotCluster, moment: Moment, command: str = "run") -> tuple[Round, float, str] | None:
    """A command that met its moment, the seconds from there to its end, its output; None if it did not."""
    api_server = cluster.control_plane
    with FaultyProxy(api_server.url, api_server.certificate, tap=moment.tap) as proxy:
        met = cluster.new_round(proxy.url)
        moment.begin(lambda: met.start(command))
        seconds, output, errors = moment.await_end(MAX_SECONDS)
    evictions = proxy.evictions  # also those that were on their way when the command ended
    assert "Traceback" not in errors, errors
    assert "Fatal Python error" not in errors, errors
    cluster.wait_until_audited(evictions)
    if not moment.sent:
        return None  # it was done before its moment came
    return met, seconds, output


def moments(number: signal.Signals, count: int, course: Course, places: tuple[str, ...]) -> Iterator[Moment]:
    """So many moments that commands meet, and at most as many that they do not: each kind as often."""
    draw = random.Random(f"{SEED} {number.name} {places}")
    met = 0
    for place in itertools.islice(itertools.cycle(places), 2 * count):
        moment = Moment(draw, place, number, course)
        yield moment
        met += moment.sent
        if met == count:
            return
    raise AssertionError("most commands ended before their moment")
