"""Draws of searches that end with a sample of the nodes: when each node is looked at.

What a search has found by its end depends on what nobody knows beforehand: how far each of its workers is
ahead of the others (``interleavings``), and from 1.35 on in which order the scheduler came to know the nodes
that it listed when it started (``orders``).
"""

from __future__ import annotations

import math
from functools import lru_cache

import msgspec
import numpy as np

from rebalancer.cluster.arrays import FloatArray, IntArray
from rebalancer.scheduling.state.nodes import Unordered

_MOST_UNKNOWN = 1 << 30
# Where one core runs all workers, a worker is interrupted now and then in the middle of a chunk.
_INTERRUPTED = 0.02
_PACE_SPREAD = 0.2  # of the logarithm of the time a node takes, from one chunk to the next
_SLOW, _SLOWER = 0.03, 8.0  # the share of chunks whose worker was interrupted, and how much longer they take
_STAGGER = 2.0  # the most that a worker begins after the one before, in nodes
_UNEXPECTED = 0.003  # an interrupted worker left out what it should have looked at, or did not
_OF_ONE_WORKER = 1e-4  # no worker is ahead of another: what hundreds of draws may miss
_SCATTERED = 0.1
_TABLE = 1 << 14  # places of the best nodes times draws: what one placement goes through
_MIN_DRAWS, _MAX_DRAWS = 128, 1024
BEST_IN_SAMPLE = 12  # of the best nodes that are followed so many are in a sample on average


class Workers(msgspec.Struct, frozen=True):
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


class Draws(msgspec.Struct, frozen=True, eq=False):
    """Searches as they may go: each gives every node the time at which it is looked at.

    The nodes of a sample are those looked at before the time at which enough are feasible, so one draw serves
    every set of feasible nodes.
    """

    times: FloatArray  # (places, draws) when each place is looked at; looking at one node takes about 1
    weight: FloatArray  # (draws,) their chances, 1 together
    between: FloatArray  # (draws,) the mean time between two nodes, for all workers together
    ends: FloatArray  # (draws,) when enough nodes were found where all are feasible
    unexpected: float  # the chance that a node is in the sample against the draw, or is not
    scattered: float  # the share of searches that are taken to find a sample scattered over all nodes


def _scattered(limit: int) -> float:
    """Of searches that end with the first node that is found, draws show too few: it may be any."""
    return 1.0 if limit == 1 else _SCATTERED


def _number(candidates: int, limit: int) -> int:
    """How many draws there are for a search of so many nodes that ends at ``limit`` feasible ones."""
    return min(max(_TABLE // -(-BEST_IN_SAMPLE * candidates // limit), _MIN_DRAWS), _MAX_DRAWS)


@lru_cache(maxsize=8)
def interleavings(candidates: int, limit: int, workers: Workers) -> Draws:
    """Draws of the race of several workers; the same arguments, the same draws.

    The scheduler filters with ``parallelism`` workers. Each takes the next chunk of consecutive nodes, looks
    at them one after the other and takes another; the search ends when enough feasible nodes were found.
    Workers that hold a chunk then leave the rest of it. So a sample is not a window of consecutive nodes: it
    is whole chunks, and the beginnings of as many more as there are workers that really run at once. How many
    do is a matter of the scheduler's processor cores, and which of them are ahead is chance.

    Two workers and chunks of three, a search that begins at a and ends with five nodes found:

        one after the other      a b c d e . . . .
        both equally fast        a b c d e . . . .   or a b . d e f . . .: who of them is ahead
        the first interrupted    a . . d e f g . .

    A draw has a start, a number of workers and a pace for each chunk, and gives each node the time at which
    it is looked at. The nodes of a sample are those looked at before the time at which enough are feasible,
    so one draw serves every set of feasible nodes. Starts are spread evenly over the nodes.

    Source: kubernetes v1.35.4 pkg/scheduler/schedule_one.go:625, framework/parallelize/parallelism.go:39,
    and client-go util/workqueue/parallelizer.go:47.
    """
    shares = {count: share for count, share in workers.at_once().items() if count > 1}
    random = np.random.default_rng([candidates, limit, workers.parallelism])
    each = max(_number(candidates, limit) // len(shares), 1)
    size = chunk_size(candidates, workers.parallelism)
    parts = [_times(random, candidates, size, count, each) for count in shares]
    weight = np.repeat(np.array(list(shares.values())) / each, each)
    between = 1.0 / np.repeat(np.array(list(shares), np.float64), each)
    times = np.ascontiguousarray(np.concatenate(parts, axis=1))
    return Draws(
        times,
        np.asarray(weight / weight.sum(), np.float32),
        np.asarray(between, np.float32),
        np.asarray(np.partition(times, limit - 1, axis=0)[limit - 1], np.float32),
        _UNEXPECTED,
        _scattered(limit),
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


@lru_cache(maxsize=4)
def orders(nodes: Unordered, limit: int) -> Draws:
    """Draws of searches over nodes that are in no order, by row; the same arguments, the same draws.

    Each has an order of its own, drawn at random, and a start. Over all draws the distances of a node from
    the start are spread evenly, so it is in as many samples as it is likely to be; which nodes are in the
    same ones is chance. One worker does the search: of nodes in no order several find no others.
    """
    zones = np.frombuffer(nodes.zones, np.int64)
    count = len(zones)
    draws = _number(count, limit)
    random = np.random.default_rng([count, limit])
    starts = ((random.permutation(draws) + random.random(draws)) / draws)[:, None]
    ahead = (random.random((count, draws)).argsort(axis=1) + random.random((count, draws))).T / draws
    came = np.array([np.frombuffer(later, np.int64) for later in nodes.later])
    came = came[np.arange(draws) % len(came)]
    places = _places(zones, came + (ahead + starts) % 1.0)
    distance = (places - (starts * count).astype(np.int64)) % count
    return Draws(
        np.ascontiguousarray(distance.T + 1, np.float32),
        np.full(draws, 1.0 / draws, np.float32),
        np.ones(draws, np.float32),
        np.full(draws, limit, np.float32),
        _OF_ONE_WORKER,
        _scattered(limit),
    )


def _places(zones: IntArray, keys: FloatArray) -> IntArray:
    """(draws, nodes) the place of each node in the scheduler's list, which knows them in the order of keys.

    That is what ``node_order`` says, of all draws at once. ``zones`` (nodes,) are numbers from 0 on.
    """
    sizes = np.bincount(zones)
    begins = sizes.cumsum() - sizes
    by_zone = (keys + zones * (keys.max() + 1.0)).argsort(axis=1)
    turn = np.arange(len(zones)) - begins.repeat(sizes)  # how many nodes of the zone come before
    listed = by_zone
    if len(sizes) > 1:
        first = np.take_along_axis(keys, by_zone[:, begins], axis=1)
        zone_turn = first.argsort(axis=1).argsort(axis=1)
        among = (turn * len(sizes) + zone_turn.repeat(sizes, axis=1)).argsort(axis=1)
        listed = np.take_along_axis(by_zone, among, axis=1)
    places: IntArray = np.empty_like(listed)
    np.put_along_axis(places, listed, np.arange(len(zones))[None, :], axis=1)
    return places
