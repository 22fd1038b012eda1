"""When each node is looked at, in draws of the race that the scheduler's filtering is.

The scheduler filters with ``parallelism`` workers. Each takes the next chunk of consecutive nodes, looks at
them one after the other and takes another; the search ends when enough feasible nodes were found. Workers
that hold a chunk then leave the rest of it. So a sample is not a window of consecutive nodes: it is whole
chunks, and the beginnings of as many more as there are workers that really run at once. How many do is a
matter of the scheduler's processor cores, and which of them are ahead is chance.

Two workers and chunks of three, a search that begins at a and ends with five nodes found:

    one after the other      a b c d e . . . .
    both equally fast        a b c d e . . . .   or a b . d e f . . .: who of them is ahead
    the first interrupted    a . . d e f g . .

A draw has a start, a number of workers and a pace for each chunk, and gives each node the time at which it is
looked at. The nodes of a sample are those looked at before the time at which enough are feasible, so one
draw serves every set of feasible nodes. Starts are spread evenly over the nodes.

Source: kubernetes v1.35.4 pkg/scheduler/schedule_one.go:625, framework/parallelize/parallelism.go:39,
and client-go util/workqueue/parallelizer.go:47.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from rebalancer.cluster.arrays import FloatArray, IntArray

_MOST_UNKNOWN = 1 << 30
# Where one core runs all workers, a worker is interrupted now and then in the middle of a chunk.
_INTERRUPTED = 0.02
_PACE_SPREAD = 0.2  # of the logarithm of the time a node takes, from one chunk to the next
_SLOW, _SLOWER = 0.03, 8.0  # the share of chunks whose worker was interrupted, and how much longer they take
_STAGGER = 2.0  # the most that a worker begins after the one before, in nodes
_TABLE = 1 << 14  # places of the best nodes times draws: what one placement goes through
_MIN_DRAWS, _MAX_DRAWS = 128, 1024
BEST_IN_SAMPLE = 12  # of the best nodes that are followed so many are in a sample on average


@dataclass(frozen=True, slots=True)
class Workers:
    """The workers of a scheduler's search, and on how many cores they run."""

    parallelism: int = 16
    cores: int | None = None  # None is unknown

    def at_once(self) -> dict[int, float]:
        """How many workers may really advance at once, each number with its chance.

        A core can be busy elsewhere and a short search is over before all workers have begun, so each
        doubling up to the cores, or to the parallelism where those are unknown, is equally likely.
        """
        most = min(self.parallelism, self.cores or _MOST_UNKNOWN)
        counts = sorted({most, *(1 << power for power in range(most.bit_length()))})
        if counts == [1] and self.parallelism > 1:
            return {1: 1.0 - _INTERRUPTED, 2: _INTERRUPTED}
        return dict.fromkeys(counts, 1.0 / len(counts))


ONE_WORKER = Workers(parallelism=1)


def chunk_size(candidates: int, parallelism: int) -> int:
    """How many consecutive nodes a worker takes at a time."""
    return max(1, min(math.isqrt(candidates), candidates // parallelism + 1))


@dataclass(frozen=True, slots=True, eq=False)
class Interleavings:
    """Draws of the race of several workers."""

    times: FloatArray  # (places, draws) when each place is looked at; looking at one node takes about 1
    weight: FloatArray  # (draws,) their chances, 1 together
    between: FloatArray  # (draws,) the mean time between two nodes, for all workers together


@lru_cache(maxsize=8)
def interleavings(candidates: int, limit: int, workers: Workers) -> Interleavings:
    """The draws for a search that ends at ``limit`` feasible nodes; the same arguments, the same draws."""
    shares = {count: share for count, share in workers.at_once().items() if count > 1}
    rows = -(-BEST_IN_SAMPLE * candidates // limit)
    draws = min(max(_TABLE // rows, _MIN_DRAWS), _MAX_DRAWS)
    random = np.random.default_rng([candidates, limit, workers.parallelism])
    each = max(draws // len(shares), 1)
    size = chunk_size(candidates, workers.parallelism)
    parts = [_times(random, candidates, size, count, each) for count in shares]
    weight = np.repeat(np.array(list(shares.values())) / each, each)
    between = 1.0 / np.repeat(np.array(list(shares), np.float64), each)
    return Interleavings(
        np.ascontiguousarray(np.concatenate(parts, axis=1)),
        np.asarray(weight / weight.sum(), np.float32),
        np.asarray(between, np.float32),
    )


def _times(random: np.random.Generator, candidates: int, size: int, workers: int, draws: int) -> FloatArray:
    """(places, draws) when each place is looked at."""
    chunks = -(-candidates // size)
    every = np.arange(draws)
    free = np.arange(workers) * random.uniform(0.0, _STAGGER, (draws, 1))  # when each takes its next chunk
    pace = np.exp(random.normal(0.0, _PACE_SPREAD, (chunks, draws)))
    slow = random.random((chunks, draws)) < _SLOW
    pace[slow] *= 1.0 + random.exponential(_SLOWER, int(slow.sum()))
    begins = np.empty((chunks, draws))
    for chunk in range(chunks):
        worker = free.argmin(axis=1)
        begins[chunk] = free[every, worker]
        free[every, worker] += pace[chunk] * size
    starts = (random.permutation(draws) + random.random(draws)) * candidates / draws
    distance: IntArray = (np.arange(candidates)[:, None] - starts.astype(np.int64)) % candidates
    chunk_of, within = distance // size, distance % size
    return np.asarray(begins[chunk_of, every] + (within + 1) * pace[chunk_of, every], np.float32)
