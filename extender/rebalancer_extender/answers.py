"""What an extender answers to the scheduler: nodes with scores, and which nodes it rejects.

A request names a pod and the nodes that are left. Everything else is at hand: pods are counted as watches
bring them, and the figures of the scores are read in the background. A score that cannot be computed is the
same for all nodes, and counted:

    figures older than staleAfter, or none at all    neutral
    a plugin that raises, or says too little         neutral, and logged
    a node that came a moment ago                    0 until the columns are made anew

Source: kube-scheduler v0.34.4 extender/v1/types.go.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import TypeVar

import msgspec
import numpy as np
from prometheus_client import Counter, Histogram

from rebalancer.cluster import records
from rebalancer.cluster.arrays import IntArray
from rebalancer.cluster.live.watching.latest_objects import Key
from rebalancer.cluster.pod_classes import ClassIndex, PodClass
from rebalancer.cluster.pods import read_pod
from rebalancer.cluster.wire.json_items import PodsInJson
from rebalancer.scheduling.extenders import ExtenderScore
from rebalancer.scheduling.state.cluster_state import ClusterState
from rebalancer_extender.watched_state import WatchedState

LOGGER = logging.getLogger(__name__)
MAX_NODES = 20_000
_MAX_CLASSES = 4096  # of pods asked about, before they are numbered anew


class LiveScore(msgspec.Struct, frozen=True, eq=False):
    """One score with the figures it has now."""

    plugin: ExtenderScore
    weight: int  # 0 for one that only filters
    read_at: float  # of its oldest figure, by the monotonic clock; infinite where it has none
    counts_pods: bool


class InForce(msgspec.Struct, frozen=True, eq=False):
    """What answers go by; replaced as a whole."""

    scores: tuple[LiveScore, ...] = ()
    stale_after: float = 0.0
    await_binding: float = 0.0


class _Request(msgspec.Struct):
    pod: records.EncodedPod = msgspec.field(name="Pod")
    names: list[str] | None = msgspec.field(name="NodeNames", default=None)


class _Asked(msgspec.Struct, frozen=True):
    key: Key  # of the pod
    class_key: bytes
    pod_class: PodClass
    names: list[str]


class _HostPriority(msgspec.Struct):
    host: str = msgspec.field(name="Host")
    score: int = msgspec.field(name="Score")


class _Filtered(msgspec.Struct):
    names: list[str] = msgspec.field(name="NodeNames")
    failed: dict[str, str] = msgspec.field(name="FailedNodes")
    error: str = msgspec.field(name="Error", default="")


_requests = msgspec.json.Decoder(_Request)
_answers = msgspec.json.Encoder()


_Answer = TypeVar("_Answer")


def _added(score: LiveScore, state: ClusterState, rows: IntArray, pod_class: int) -> IntArray | None:
    """(rows,) what a score adds to the answer for nodes; None: nothing. Raises what its plugin does."""
    added = score.plugin.answer(state, pod_class, rows, score.weight)
    if added is not None and added.shape != rows.shape:
        raise ValueError(f"{added.size} scores of {len(rows)} nodes")
    return added


def _reasons(score: LiveScore, state: ClusterState, rows: IntArray, pod_class: int) -> dict[int, str] | None:
    """Why nodes are rejected, by their place in ``rows``; of −1 nothing is known. Raises as above.

    None: no node is rejected, and none has a figure by which it could be.
    """
    codes = score.plugin.filter(state, pod_class)
    if codes.shape != (len(state.nodes),):
        raise ValueError(f"{codes.size} verdicts on {len(state.nodes)} nodes")
    rejected = np.flatnonzero(np.where(rows >= 0, codes[rows], 0)).tolist()
    has_figures = score.plugin.has_figures(state, pod_class)
    if not rejected and has_figures is not None and not has_figures[rows[rows >= 0]].any():
        return None
    return {at: str(score.plugin.reason(state, pod_class, int(codes[rows[at]]))) for at in rejected}


class RequestError(ValueError):
    """A request is none of a scheduler's."""


class Answers(msgspec.Struct, eq=False):
    """Answers requests of a scheduler, one after the other."""

    _watched: WatchedState
    _neutral: Counter  # by score, the answers to which it could not contribute
    _awaited: Histogram  # for how long answers wait until the last pod is seen on its node
    _clock: Callable[[], float] = time.monotonic
    in_force: InForce = InForce()
    _reading: threading.Lock = msgspec.field(default_factory=threading.Lock)
    _classes: ClassIndex = msgspec.field(default_factory=ClassIndex)
    _pods: PodsInJson | None = None
    _asked: Key | None = None  # the pod asked about last
    _noted: set[str] = set()

    def prioritize(self, body: bytes) -> bytes:
        """The scores of the nodes named. Raises RequestError."""
        asked = self._read(body)
        with self._watched.changed:
            self._await_last(asked.key)
            total = self._totals(asked)
        names = asked.names
        return _answers.encode(
            [_HostPriority(*name_and_score) for name_and_score in zip(names, total.tolist(), strict=True)]
        )

    def filter(self, body: bytes) -> bytes:
        """The nodes named that pass, and why the others do not. Raises RequestError."""
        asked = self._read(body)
        failed: dict[str, str] = {}
        with self._watched.changed:
            state, pod_class, rows = self._numbers(asked)
            for score in self.in_force.scores:
                if not score.plugin.rejects:
                    continue
                reasons = self._computed(score, pod_class, partial(_reasons, score, state, rows))
                for at, reason in (reasons or {}).items():
                    failed.setdefault(asked.names[at], reason)
        return _answers.encode(_Filtered([name for name in asked.names if name not in failed], failed))

    def _read(self, body: bytes) -> _Asked:
        """Raises RequestError for what a scheduler would not ask."""
        try:
            request = _requests.decode(body)
            with self._reading:
                if self._pods is None or len(self._classes.classes) > _MAX_CLASSES:
                    self._classes = ClassIndex()
                    self._pods = PodsInJson(self._classes)
                classes = self._classes
                fields = read_pod(request.pod, self._pods)
        except (ValueError, RecursionError) as error:
            raise RequestError(f"not an ExtenderArgs: {error!s:.200}") from error
        if request.names is None:
            raise RequestError("names no nodes: the scheduler's configuration needs nodeCacheCapable: true")
        if len(request.names) > MAX_NODES:
            raise RequestError(f"names more than {MAX_NODES} nodes")
        number = fields.pod_class
        key = fields.namespace, fields.name
        return _Asked(key, classes.keys[number], classes.classes[number], request.names)

    def _await_last(self, pod: Key) -> None:
        """Wait until the pod asked about before is on its node, where that changes scores."""
        last = self._asked
        self._asked = pod
        if last in (None, pod) or not any(score.counts_pods for score in self.in_force.scores):
            return
        began = self._clock()
        self._watched.await_bound(last, self.in_force.await_binding)
        self._awaited.observe(self._clock() - began)

    def _numbers(self, asked: _Asked) -> tuple[ClusterState, int | None, IntArray]:
        """The state, the class of the pod there, and the row of each node, −1 where it is not known yet."""
        counted = self._watched.up_to_date()
        pod_class = counted.class_of(asked.class_key, asked.pod_class)
        row = counted.snapshot.nodes.row
        rows = np.array([row.get(name, -1) for name in asked.names], np.int64)
        counted.is_stale |= bool((rows < 0).any())
        return counted.state, pod_class, rows

    def _totals(self, asked: _Asked) -> IntArray:
        state, pod_class, rows = self._numbers(asked)
        total = np.zeros(len(rows), np.int64)
        rows_of_nodes = np.unique(rows[rows >= 0])
        pod_class = pod_class if len(rows_of_nodes) else None
        for score in self.in_force.scores:
            if not score.weight:
                continue
            added = self._computed(score, pod_class, partial(_added, score, state, rows_of_nodes))
            if added is not None:
                total += np.where(
                    rows >= 0, added[rows_of_nodes.searchsorted(rows).clip(max=len(rows_of_nodes) - 1)], 0
                )
        return total

    def _computed(
        self, score: LiveScore, pod_class: int | None, compute: Callable[[int], _Answer | None]
    ) -> _Answer | None:
        """What a score says of a class; None, and counted, without fresh figures or if its plugin fails."""
        answer = None
        if pod_class is not None and self._clock() - score.read_at <= self.in_force.stale_after:
            try:
                answer = compute(pod_class)
            except Exception as error:  # noqa: BLE001 - an installed plugin may raise anything
                if score.plugin.name not in self._noted:
                    self._noted.add(score.plugin.name)
                    LOGGER.error("%s fails: %s: %.200s", score.plugin.name, type(error).__name__, error)
        if answer is None:
            self._neutral.labels(score.plugin.name).inc()
        return answer
