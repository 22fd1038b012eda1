"""Where replays of a search are made: by processes here, or by the workers of a Dask cluster.

A task is one policy on one block of days, and its figures depend on nothing else, so that a search finds the
same with any number of workers. Where a worker dies, what it and others were at is done again, one task after
the other; a task that kills its worker again costs its own trial only:

    3 tasks, the second needs more memory than there is    the pool breaks, nothing is known of 2 and 3
    2 alone: the pool breaks again, and again              its trial has failed
    3 alone: done                                          as if nothing had happened
"""

from __future__ import annotations

import atexit
import os
import platform
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future, ProcessPoolExecutor
from functools import lru_cache
from multiprocessing import active_children, get_context, parent_process
from multiprocessing.process import BaseProcess
from typing import Any

import msgspec

from rebalancer import __version__
from rebalancer.errors import InputError, RebalancerError, UnreachableError
from rebalancer.planning.plan import Value
from rebalancer.policy.policy_file import parse_policy
from rebalancer_lab.timeline.places import folder_of, is_there, plainly
from rebalancer_lab.timeline.replay import Span, replay
from rebalancer_lab.timeline.timeline import Timeline

_ATTEMPTS = 3
_DASK_SECONDS = 15


class Block(Value, frozen=True):
    """A part of a timeline, usually a day."""

    folder: str  # of the timeline, or its URL
    begins: float  # Unix seconds
    ends: float
    held_out: bool = False  # policies are judged on it, and none is chosen by it


class Task(msgspec.Struct, frozen=True):
    """A policy on a block."""

    block: Block
    policy: str  # as YAML
    judge: str  # the policy whose thresholds say what is hot
    source: str  # the file of both, in messages
    seed: int


class Figures(Value, frozen=True):
    """What a policy would have made of a block, for each day."""

    excess: float  # points above the judge's thresholds times minutes
    hot: float  # minutes of hot nodes
    cost: float  # of disruption, by the judge's weights
    evictions: float
    pending: float  # minutes of Pending pods


Open = Callable[[], Executor]


def evaluate(task: Task) -> Figures | str:
    """The figures of a task, or why there are none."""
    try:
        policy, judge = (parse_policy(text, task.source) for text in (task.policy, task.judge))
        span = Span(task.block.begins, task.block.ends)
        timeline = _timeline(task.block.folder)
        replayed = replay(
            timeline, [("tried", policy)], seed=task.seed, judge=judge, baselines=False, span=span
        )
    except RebalancerError as error:
        return str(error)
    days = replayed.minutes / 1440.0
    run = replayed.runs[0]
    if run.refusals == len(run.moments):
        return run.refusal
    return Figures(
        excess=run.excess_minutes / days,
        hot=run.hot_node_minutes / days,
        cost=run.disruption_cost / days,
        evictions=run.evictions / days,
        pending=run.pending_minutes / days,
    )


@lru_cache(maxsize=4)
def _timeline(folder: str) -> Timeline:
    return Timeline.open(folder_of(folder))


def _leave(executor: Executor) -> None:
    # Processes that are not waited for may outlive the program: Python 3.11 then hangs when it exits.
    executor.shutdown(wait=True, cancel_futures=True)


class Workers:
    """Does tasks by an executor that is opened again where it breaks."""

    def __init__(
        self,
        open_executor: Open,
        gave_up: tuple[type[Exception], ...] = (),
        work: Callable[[Task], Figures | str] = evaluate,
        shut_down: Callable[[Executor], object] = _leave,
    ) -> None:
        """``gave_up`` are errors by which an executor says that a task has killed several workers."""
        self._shut_down = shut_down
        self._open = open_executor
        self._gave_up = gave_up
        self._work = work
        self._executor = open_executor()

    def figures(self, tasks: Sequence[Task]) -> Iterator[Figures | str]:
        """Those of each task, in their order, or why there are none."""
        futures = [self._submit(task) for task in tasks]
        for task, future in zip(tasks, futures, strict=True):
            try:
                yield future.result()
            except self._gave_up as error:
                yield f"its worker died: {error!s:.200}"
            except (BrokenExecutor, CancelledError):
                yield self._alone(task)

    def _alone(self, task: Task) -> Figures | str:
        for _ in range(_ATTEMPTS - 1):
            try:
                return self._submit(task).result()
            except BrokenExecutor:
                continue
        return f"its worker died {_ATTEMPTS} times"

    def _submit(self, task: Task) -> Future[Figures | str]:
        try:
            return self._executor.submit(self._work, task)
        except BrokenExecutor:
            self.close()
            self._executor = self._open()
            return self._executor.submit(self._work, task)

    def close(self) -> None:
        """Begin nothing more, and wait for what is under way."""
        self._shut_down(self._executor)


def processes(count: int) -> Workers:
    """So many processes of this machine, which end with this one however that ends."""
    atexit.register(_end_children)
    return Workers(lambda: ProcessPoolExecutor(count, get_context("spawn"), _begin))


def _end_children() -> None:
    for child in active_children():
        child.kill()


def _begin() -> None:
    """What a process does first: leave Ctrl-C to the one that waits for it, and end once that was killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if (parent := parent_process()) is not None:
        threading.Thread(target=_end_after, args=(parent,), daemon=True).start()


def _end_after(parent: BaseProcess) -> None:
    parent.join()
    os._exit(1)


def dask_cluster(address: str, folders: Sequence[str]) -> Workers:
    """The workers of a Dask cluster; InputError where one differs from this program or lacks a folder."""
    try:
        from distributed import Client, KilledWorker  # noqa: PLC0415 - an extra
    except ImportError:
        raise InputError("--dask needs Dask", hint="pipx inject rebalancer distributed") from None
    try:
        client: Any = Client(address, timeout=_DASK_SECONDS, set_as_default=False)
        client.get_versions(check=True)
        about_workers = client.run(about_this, list(folders))
    except (OSError, ValueError, TypeError) as error:
        raise UnreachableError(
            f"no Dask cluster to work with: {error!s:.200}", where=address[:200]
        ) from error
    if not about_workers:
        raise UnreachableError("the Dask cluster has no workers", where=address[:200])
    here = about_this(list(folders))
    for worker, about in about_workers.items():
        if about != here:
            raise InputError(f"{about}, and here {here}"[:400], where=f"worker {worker}")
    executor = client.get_executor(pure=False)
    return Workers(lambda: executor, (KilledWorker,), shut_down=lambda _: client.close())


def about_this(folders: Sequence[str]) -> str:
    """What has to be the same at each worker."""
    lacks = [plainly(folder) for folder in folders if not is_there(folder)]
    versions = f"rebalancer {__version__}, Python {platform.python_version()}"
    return f"{versions}, without {', '.join(lacks)}" if lacks else versions
