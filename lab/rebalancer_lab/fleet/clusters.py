"""The clusters of a fleet, and the same question to each, a few side by side.

Clusters are read by threads, because a live one is mostly waited for; no more than four are held in memory at
once. One that cannot be read is an answer with its error, and the others are answered all the same.
"""

from __future__ import annotations

import contextlib
import glob
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from msgspec.structs import replace

from rebalancer.cli.output import progress_bar
from rebalancer.cluster.dumps.listing import build_decoders
from rebalancer.errors import InputError, RebalancerError
from rebalancer.files import named
from rebalancer.observe.plan_options import PlanOptions, policy_of

MAX_CLUSTERS = 2000
_SIDE_BY_SIDE = 4
_WILDCARDS = frozenset("*?[")

Cluster = tuple[str, PlanOptions]  # its name, and how it is read
Answer = TypeVar("Answer")


def clusters_of(options: PlanOptions, contexts: Sequence[str]) -> tuple[Cluster, ...]:
    """The clusters that several contexts name, or the pattern of a path.

    A recorded cluster is named by the part of its path that the pattern leaves open: ``fleet/*/dump`` calls
    ``fleet/eu/dump`` ``eu/dump``. InputError where a pattern matches nothing, or too much.
    """
    contexts = list(dict.fromkeys(contexts))
    if contexts:
        policy_of(options)  # a mistake in it is one error, and not one of each cluster
        return tuple((name, replace(options, context=name)) for name in contexts)
    pattern = str(options.source)
    paths = sorted(glob.glob(pattern))  # noqa: PTH207 - the pattern may be absolute
    if not 0 < len(paths) <= MAX_CLUSTERS:
        wrong = f"matches more than {MAX_CLUSTERS} clusters" if paths else "matches nothing"
        raise InputError(wrong, where=pattern[:200], hint="give a pattern such as --from 'recorded/*'")
    policy_of(options)
    fixed = Path(pattern).parent
    while _WILDCARDS.intersection(str(fixed)):
        fixed = fixed.parent
    return tuple(
        (named(Path(path).relative_to(fixed)), replace(options, source=Path(path))) for path in paths
    )


def ask_each(
    clusters: Sequence[Cluster],
    ask: Callable[[str, PlanOptions], Answer],
    failed: Callable[[str, RebalancerError], Answer],
    advance: Callable[[str], None],
    side_by_side: int = _SIDE_BY_SIDE,
    gate: Gate | None = None,
) -> Iterator[Answer]:
    """What ``ask`` finds of each cluster, or what ``failed`` makes of its error, in their order."""
    gate = gate or Gate()

    def asked(cluster: Cluster) -> Answer:
        name, options = cluster
        try:
            with gate.passed():
                return ask(name, options)
        except RebalancerError as error:
            return failed(name, error)
        except Exception as error:  # noqa: BLE001 - a defect that one cluster shows hides no other cluster
            return failed(name, RebalancerError(f"{type(error).__name__}: {error}", hint="please report"))

    build_decoders()
    threads = ThreadPoolExecutor(side_by_side, "cluster")
    try:
        for (name, _), answer in zip(clusters, threads.map(asked, clusters), strict=True):
            advance(name)
            yield answer
    finally:
        threads.shutdown(wait=False, cancel_futures=True)


class Gate:
    """Lets clusters through one at a time until one of them has been answered.

    What is imported and built on the way to the first answer, such as msgspec's types, is not safe to be
    built by several threads: the process crashes.
    """

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._is_open = self._is_taken = False

    def open(self) -> None:
        """Let all through from now on."""
        with self._condition:
            self._is_open = True
            self._condition.notify_all()

    @contextlib.contextmanager
    def passed(self) -> Iterator[None]:
        """What is done inside opens the gate, unless it fails."""
        with self._condition:
            self._condition.wait_for(lambda: self._is_open or not self._is_taken)
            self._is_taken = True
        try:
            yield
            self.open()
        finally:
            with self._condition:
                self._is_taken = False
                self._condition.notify_all()


def ask_fleet(
    fleet: Sequence[Cluster],
    ask: Callable[[str, PlanOptions], Answer],
    failed: Callable[[str, RebalancerError], Answer],
) -> Sequence[Answer]:
    """What ``ask`` finds of each cluster, or what ``failed`` makes of its error, while a bar counts them."""
    with progress_bar("clusters", len(fleet)) as advance:
        return list(ask_each(fleet, ask, failed, advance))
