"""The taints of a run: a soft one on nodes of a wave while that is made, a hard one on nodes that it empties.

    before the first wave   what runs that died have left is taken away, and the nodes to empty are closed
    each wave               the nodes that its moves avoid get the soft taint before its first eviction, and
                            lose it once its landings are verified
    at the end              nodes that were not emptied are opened, the others stay closed for a time

A dry run sets none. A taint that cannot be taken away after its wave is tried again before the next one,
which begins without it or not at all, and at the end.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from rebalancer.cluster import times
from rebalancer.cluster.live import RawApi
from rebalancer.cluster.records import Taint
from rebalancer.cluster.snapshot import Snapshot
from rebalancer.execution.events import EventWriter
from rebalancer.execution.journal import Journal, JournalError
from rebalancer.execution.own_taints import OwnTaints
from rebalancer.planning.plan import Move, Plan, avoided_in
from rebalancer.planning.taints import EMPTIED, HOT, left_behind, reopened
from rebalancer.policy.schema import Execution

LOGGER = logging.getLogger(__name__)

Taints = Mapping[str, Sequence[Taint]]  # of each node, by its name


class RunTaints(msgspec.Struct, eq=False, dict=True, kw_only=True):
    """The taints that one run sets."""

    api: RawApi
    lease: tuple[str, str]  # namespace and name
    run: str
    began: float  # by the monotonic clock
    execution: Execution
    journal: Journal
    events: Sequence[EventWriter] = ()
    dry_run: bool = False
    seen: Callable[[], Taints] = dict  # as the nodes were read last

    def __post_init__(self) -> None:
        self._soft = self._own(HOT, 0.0)
        self._hard = self._own(EMPTIED, 0.0)
        self._closed: Sequence[str] = ()
        self._closed_seconds = 0.0
        self._closed_limit: float | None = None
        self._wave_limit: float | None = None
        self._announced: set[str] = set()
        self.left_behind: frozenset[str] = frozenset()  # nodes from which taints could not be taken
        # The nodes that have the soft taint in the wave that is being made; None between waves.
        self.of_wave: tuple[str, ...] | None = None

    @property
    def seconds(self) -> float | None:
        """The seconds of the run after which no eviction may begin: its landing would outlast the taints."""
        limits = [limit for limit in (self._closed_limit, self._wave_limit) if limit is not None]
        return min(limits, default=None)

    @contextmanager
    def of_plan(self, plan: Plan, snapshot: Snapshot, now: float, emptied: Collection[str]) -> Iterator[None]:
        """Set what a plan needs for all its waves; nodes that are ``emptied`` at the end stay closed."""
        behind = left_behind(snapshot)
        late = reopened(snapshot, now)
        if self.dry_run:
            yield
            return
        try:
            if behind:
                self._soft.until = int(self._end())
                self._write("steering", nodes=(), until=self._soft.until, left=behind)
                self._soft.begin((), behind)
            if plan.closed or late:
                self._close(plan, late, snapshot.nodes.taints)
            yield
        finally:
            failed = set(self._soft.end())
            if self._closed or late:
                not_opened = self._hard.end(emptied)
                staying = [name for name in self._closed if name in emptied]
                self._write_ended("closed", self._closed, not_opened, staying=staying or None)
                failed.update(not_opened)
            self.left_behind = frozenset(failed)

    def _close(self, plan: Plan, late: Sequence[str], seen: Taints) -> None:
        end = self._end()
        self._closed = plan.closed
        self._closed_seconds = plan.closed_seconds
        if plan.closed:
            self._closed_limit = self.execution.steer_limit
        self._hard = self._own(EMPTIED, plan.closed_seconds)
        self._hard.until = int(end + plan.closed_seconds)
        self._write("closing", nodes=plan.closed, until=self._hard.until, left=late)
        self._hard.begin(plan.closed, late, seen)

    def renew(self) -> None:
        """Let nodes stay closed for another plan of the run."""
        if not self._closed or self.dry_run:
            return
        began = time.monotonic()
        until = self._end() + self._closed_seconds
        self._hard.renew(until)
        self._write("closing", nodes=self._closed, until=until)
        self._closed_limit = began - self.began + self.execution.steer_limit

    @contextmanager
    def of_wave_with(self, wave: int, moves: Sequence[Move]) -> Iterator[None]:
        """Steer while a wave is made. Raises RebalancerError where a node cannot be given its taint."""
        reasons = avoided_in(moves)
        nodes = tuple(reasons)
        stuck = self._soft.nodes
        try:
            if (nodes or stuck) and not self.dry_run:
                began = time.monotonic()
                self._soft.until = int(self._end())
                self._write("steering", nodes=nodes, until=self._soft.until, left=stuck, wave=wave)
                self._soft.begin(nodes, stuck, self.seen())
                self._wave_limit = began - self.began + self.execution.steer_limit
                self._announce(reasons)
            self.of_wave = nodes
            yield
        finally:
            self.of_wave = None
            self._wave_limit = None
            if (nodes or stuck) and not self.dry_run:
                self._write_ended("steered", nodes, self._soft.end(), wave=wave)

    def _announce(self, reasons: Mapping[str, str]) -> None:
        """Say on each node, once a run, that it has the taint."""
        first = {name: why for name, why in reasons.items() if name not in self._announced}
        self._announced.update(first)
        for writer in self.events:
            writer.steered(first, self._soft.until)

    def _end(self) -> float:
        """Until when taints that are set now may stay, in Unix seconds."""
        return time.time() + self.execution.steer_limit + self.execution.wave_timeout

    def _own(self, kind: Taint, stays_seconds: float) -> OwnTaints:
        return OwnTaints(self.api, self.lease, self.run, 0.0, time.time, kind, stays_seconds)

    def _write(
        self, word: str, *, nodes: Sequence[str], until: float, left: Sequence[str] = (), **more: Any
    ) -> None:
        self.journal.write(
            word, nodes=nodes, until=times.render(until), leftBehind=tuple(left) or None, **more
        )

    def _write_ended(self, word: str, nodes: Sequence[str], failed: Sequence[str], **more: Any) -> None:
        try:
            self.journal.write(word, nodes=nodes, leftBehind=tuple(failed) or None, **more)
        except JournalError as error:  # the outcomes of the run are still to be said
            LOGGER.warning("that the run's taints were taken away is not in the journal: %s", error)
